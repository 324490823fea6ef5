/* SPDX-License-Identifier: BSD-2-Clause */
/* Parsing of received frames. Every field is checked before it is used. */
#include "net/frame.h"

#include <netinet/if_ether.h>

#include "net/frame_internal.h"

#define VLAN_TAG 4

/* The steps of frame_parse() are one function: together they are no longer than a few calls. */
#define INTO_FRAME static inline __attribute__((always_inline))

#define IP4_MORE_OR_OFFSET 0x3fff /* MF and the fragment offset, RFC 791 3.1 */

static inline uint16_t load16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint32_t load32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint64_t load64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/*
 * Is csum_fold(sum) 0xffff?  Folding keeps the remainder by 0xffff, and only 0 folds to 0: no header's
 * sum is 0, because the version or the protocol is in it.  The compiler makes one multiplication of
 * this.
 */
static inline bool folds_to_ones(uint64_t sum)
{
	return sum % 0xffff == 0;
}

/* Is field csum_fold(pseudo), CHECKSUM_PARTIAL?  The sender left the rest to its network card. */
INTO_FRAME bool is_partial(uint64_t pseudo, uint16_t field, unsigned flags)
{
	return (flags & FRAME_PARTIAL_CSUM) && field && folds_to_ones(pseudo + (uint16_t)~field);
}

/* pseudo: sum over the pseudo-header; field: the checksum as received. */
INTO_FRAME bool csum_good(const uint8_t *l4, size_t len, uint64_t pseudo, uint16_t field,
			  unsigned flags)
{
	return is_partial(pseudo, field, flags) || folds_to_ones(csum_add(pseudo, l4, len));
}

/* What the IP header says about the datagram. */
struct ip_info {
	size_t l3;
	size_t l4;
	size_t len;	 /* bytes after the IP header */
	uint64_t pseudo; /* addresses and protocol, without length */
	uint8_t proto;
};

/* RFC 768.  Sets the offsets of pkt. */
INTO_FRAME enum drop parse_udp(struct pkt *pkt, unsigned flags, const struct ip_info *ip,
			       bool may_omit_csum)
{
	const uint8_t *udp = pkt->frame + ip->l4;
	uint16_t field;
	size_t len;

	if (ip->len < UDP_HDR)
		return DROP_UDP_LENGTH;
	len = ntohs(load16(udp + 4));
	if (len < UDP_HDR || len > ip->len)
		return DROP_UDP_LENGTH;
	field = load16(udp + 6);
	if (field == 0) {
		if (!may_omit_csum) /* RFC 8200 8.1, whatever the card says of it */
			return DROP_UDP_CSUM;
	} else if (!(pkt->flags & PKT_CSUM_OK) || len != ip->len) {
		/* A card may have taken the length of IP for that of UDP. */
		if (!csum_good(udp, len, ip->pseudo + htons((uint16_t)len), field, flags))
			return DROP_UDP_CSUM;
	}
	pkt->off = (uint16_t)(ip->l4 + UDP_HDR);
	pkt->len = (uint16_t)(len - UDP_HDR);
	return DROP_NONE;
}

/* RFC 9293 3.1. The TCP engine parses the options. */
INTO_FRAME enum drop parse_tcp(struct pkt *pkt, unsigned flags, const struct ip_info *ip)
{
	const uint8_t *tcp = pkt->frame + ip->l4;
	size_t off;

	if (ip->len < TCP_HDR)
		return DROP_TCP_OFFSET;
	off = (size_t)(tcp[12] >> 4) * 4;
	if (off < TCP_HDR || off > ip->len)
		return DROP_TCP_OFFSET;
	if (!(pkt->flags & PKT_CSUM_OK) &&
	    !csum_good(tcp, ip->len, ip->pseudo + htons((uint16_t)ip->len), load16(tcp + 16),
		       flags))
		return DROP_TCP_CSUM;
	pkt->seq = ntohl(load32(tcp + 4));
	pkt->tcp_flags = tcp[13];
	pkt->off = (uint16_t)(ip->l4 + off);
	pkt->len = (uint16_t)(ip->len - off);
	return DROP_NONE;
}

INTO_FRAME enum drop parse_l4(struct pkt *pkt, unsigned flags, const struct ip_info *ip,
			      bool may_omit_csum, struct flow_key *key)
{
	const uint8_t *l4 = pkt->frame + ip->l4;
	enum drop why;

	if (ip->proto == IPPROTO_UDP)
		why = parse_udp(pkt, flags, ip, may_omit_csum);
	else if (ip->proto == IPPROTO_TCP)
		why = parse_tcp(pkt, flags, ip);
	else
		why = DROP_IP_PROTO;
	if (why != DROP_NONE)
		return why;
	pkt->l3 = (uint16_t)ip->l3;
	pkt->l4 = (uint16_t)ip->l4;
	pkt->frame_len = (uint32_t)(ip->l4 + ip->len);
	key->remote_port = load16(l4);
	key->local_port = load16(l4 + 2);
	key->proto = ip->proto;
	memset(key->pad, 0, sizeof(key->pad));
	return DROP_NONE;
}

/* IP options are rare; without them the header is five words and needs no call. */
INTO_FRAME bool ip4_csum_good(const uint8_t *h, size_t hdr)
{
	uint64_t sum = (uint64_t)load32(h) + load32(h + 4) + load32(h + 8) + load32(h + 12) +
		       load32(h + 16);

	if (hdr > IP4_HDR)
		sum = csum_add(sum, h + IP4_HDR, hdr - IP4_HDR);
	return folds_to_ones(sum);
}

#define IP4_PLAIN 0x45 /* first byte of a header without options */

/* RFC 791 3.1. */
INTO_FRAME enum drop parse_ip4(struct pkt *pkt, unsigned flags, size_t l3, struct flow_key *key)
{
	const uint8_t *h = pkt->frame + l3;
	struct ip_info ip;
	size_t hdr, total;
	uint32_t src, dst;

	if (pkt->frame_len < l3 + IP4_HDR)
		return DROP_SHORT;
	if (__builtin_expect(h[0] != IP4_PLAIN, 0)) {
		enum drop why = frame_check_ip4_options(h, pkt->frame_len - l3);

		if (why != DROP_NONE)
			return why;
	}
	hdr = (size_t)(h[0] & 0x0f) * 4;
	total = ntohs(load16(h + 2));
	if (total < hdr || pkt->frame_len < l3 + total)
		return DROP_IP_LENGTH;
	if (!(pkt->flags & PKT_CSUM_OK) && !ip4_csum_good(h, hdr))
		return DROP_IP_CSUM;
	if (load16(h + 6) & htons(IP4_MORE_OR_OFFSET))
		return DROP_IP_FRAGMENT;

	src = load32(h + 12);
	dst = load32(h + 16);
	ip.l3 = l3;
	ip.l4 = l3 + hdr;
	ip.len = total - hdr;
	ip.proto = h[9];
	ip.pseudo = (uint64_t)src + dst + htons(ip.proto);
	key->remote = addr_v4(src);
	key->local = addr_v4(dst);
	return parse_l4(pkt, flags, &ip, true, key);
}

/*
 * What the kernel drops, too: multicast senders, loopback addresses, the scopes 0 and 1 of groups
 * (RFC 4291 2.5.3, 2.7), and IPv4-mapped addresses, which would be taken for IPv4.
 */
static bool is_odd6(const struct inaddr *src, const struct inaddr *dst)
{
	return src->b[0] == 0xff || addr_is_loopback(src) || addr_is_loopback(dst) ||
	       (dst->b[0] == 0xff && (dst->b[1] & 15) <= 1) || addr_is_v4(src) || addr_is_v4(dst);
}

/* RFC 8200 3. */
static __attribute__((noinline)) enum drop parse_ip6(struct pkt *pkt, unsigned flags, size_t l3,
						     struct flow_key *key)
{
	const uint8_t *h = pkt->frame + l3;
	struct ip_info ip;
	size_t skipped;
	enum drop why;

	if (pkt->frame_len < l3 + IP6_HDR)
		return DROP_SHORT;
	if (h[0] >> 4 != 6)
		return DROP_IP_VERSION;
	ip.l3 = l3;
	ip.l4 = l3 + IP6_HDR;
	ip.len = ntohs(load16(h + 4));
	ip.proto = h[6];
	if (pkt->frame_len < ip.l4 + ip.len)
		return DROP_IP_LENGTH;
	why = frame_find_upper(h + IP6_HDR, ip.len, &ip.proto, &skipped);
	if (why != DROP_NONE)
		return why;
	ip.l4 += skipped;
	ip.len -= skipped;
	ip.pseudo = csum_add(htons(ip.proto), h + 8, 32);
	memcpy(&key->remote, h + 8, 16);
	memcpy(&key->local, h + 24, 16);
	if (is_odd6(&key->remote, &key->local)) {
		key->remote_port = key->local_port = 0;
		return DROP_SOURCE;
	}
	return parse_l4(pkt, flags, &ip, false, key);
}

/* A frame with a tag, of IPv6, or of another protocol. */
static __attribute__((noinline)) enum drop parse_other(struct pkt *pkt, unsigned flags,
						       struct flow_key *key)
{
	const uint8_t *frame = pkt->frame;
	uint16_t type = load16(frame + 12);
	size_t l3 = ETH_HDR;

	if (type == htons(ETHERTYPE_VLAN)) {
		type = load16(frame + ETH_HDR + 2);
		l3 = ETH_HDR + VLAN_TAG;
	}
	if (type == htons(ETHERTYPE_IP))
		return parse_ip4(pkt, flags, l3, key);
	if (type == htons(ETHERTYPE_IPV6))
		return parse_ip6(pkt, flags, l3, key);
	return DROP_ETHERTYPE;
}

enum drop frame_parse(struct pkt *pkt, unsigned flags, struct flow_key *key)
{
	if (pkt->frame_len < ETH_HDR + VLAN_TAG)
		return DROP_SHORT;
	if (__builtin_expect(load16(pkt->frame + 12) != htons(ETHERTYPE_IP), 0))
		return parse_other(pkt, flags, key);
	return parse_ip4(pkt, flags, ETH_HDR, key);
}

/* ---- header prediction ---------------------------------------------------------------- */

/* The offsets of the words that are compared, in a frame without tag and options. */
#define AT_TYPE 12
#define AT_PROTO 20
#define AT_FROM 26
#define AT_TO 30
#define AT_L4 (ETH_HDR + IP4_HDR)

static const uint8_t type_mask[8] = {0xff, 0xff, 0xff};
static const uint8_t proto_mask[8] = {IP4_MORE_OR_OFFSET >> 8, IP4_MORE_OR_OFFSET & 0xff, 0, 0xff};

bool frame_predict(struct frame_prediction *prediction, const struct flow_key *key)
{
	const uint8_t type[8] = {ETHERTYPE_IP >> 8, ETHERTYPE_IP & 0xff, 0x45};
	const uint8_t proto[8] = {0, 0, 0, key->proto};
	uint8_t to[8];

	if (!addr_is_v4(&key->local) || !addr_is_v4(&key->remote))
		return false;
	memcpy(to, key->local.b + 12, 4);
	memcpy(to + 4, &key->remote_port, 2);
	memcpy(to + 6, &key->local_port, 2);
	prediction->type = load64(type);
	prediction->proto = load64(proto);
	prediction->from = addr_v4_of(&key->remote);
	prediction->to = load64(to);
	prediction->is_udp = key->proto == IPPROTO_UDP;
	prediction->addrs = (uint64_t)prediction->from + addr_v4_of(&key->local);
	prediction->pseudo = prediction->addrs + htons(key->proto);
	prediction->pseudo16 = csum_fold(prediction->pseudo);
	return true;
}

static inline void set_predicted(struct pkt *pkt, size_t total, size_t l4_hdr, size_t len)
{
	pkt->l3 = ETH_HDR;
	pkt->l4 = AT_L4;
	pkt->off = (uint16_t)(AT_L4 + l4_hdr);
	pkt->len = (uint16_t)len;
	pkt->frame_len = (uint32_t)(ETH_HDR + total);
}

/* A datagram whose checksum, if it has one, is not one of the pseudo-header alone. */
static __attribute__((noinline)) bool is_udp_summed(struct pkt *pkt, size_t total, size_t len,
						    uint64_t pseudo)
{
	const uint8_t *udp = pkt->frame + AT_L4;

	if (load16(udp + 6) != 0 &&
	    (!(pkt->flags & PKT_CSUM_OK) || len != total - IP4_HDR) && /* as in parse_udp() */
	    !folds_to_ones(csum_add(pseudo, udp, len)))
		return false;
	set_predicted(pkt, total, UDP_HDR, len - UDP_HDR);
	return true;
}

/* Nothing is called on the way of a datagram within the host. */
INTO_FRAME bool is_udp_predicted(struct pkt *pkt, unsigned flags, size_t total, uint64_t pseudo)
{
	const uint8_t *udp = pkt->frame + AT_L4;
	size_t len = ntohs(load16(udp + 4));

	if (len - UDP_HDR > total - IP4_HDR - UDP_HDR)
		return false;
	pseudo += load16(udp + 4);
	if (!is_partial(pseudo, load16(udp + 6), flags))
		return is_udp_summed(pkt, total, len, pseudo);
	set_predicted(pkt, total, UDP_HDR, len - UDP_HDR);
	return true;
}

static __attribute__((noinline)) bool is_tcp_predicted(struct pkt *pkt, unsigned flags,
						       size_t total, uint64_t pseudo)
{
	struct ip_info ip = {.l3 = ETH_HDR, .l4 = AT_L4, .len = total - IP4_HDR, .pseudo = pseudo};

	if (parse_tcp(pkt, flags, &ip) != DROP_NONE)
		return false;
	set_predicted(pkt, total, pkt->off - (size_t)AT_L4, pkt->len);
	return true;
}

/* ip4_csum_good() of a frame whose addresses are those of the prediction. */
INTO_FRAME bool is_header_summed(const uint8_t *frame, const struct frame_prediction *prediction)
{
	return folds_to_ones((uint64_t)load32(frame + ETH_HDR) + load32(frame + ETH_HDR + 4) +
			     load32(frame + ETH_HDR + 8) + prediction->addrs);
}

/* Is there room for a header of UDP, and is all in the headers that is not length or checksum predicted? */
INTO_FRAME bool has_predicted_bytes(const struct pkt *pkt,
				    const struct frame_prediction *prediction)
{
	const uint8_t *frame = pkt->frame;

	return pkt->frame_len >= AT_L4 + UDP_HDR &&
	       (((load64(frame + AT_TYPE) ^ prediction->type) & load64(type_mask)) |
		((load64(frame + AT_PROTO) ^ prediction->proto) & load64(proto_mask)) |
		(load64(frame + AT_TO) ^ prediction->to) |
		(load32(frame + AT_FROM) ^ prediction->from)) == 0;
}

bool frame_is_predicted(struct pkt *pkt, unsigned flags, const struct frame_prediction *prediction)
{
	const uint8_t *frame = pkt->frame;
	size_t total;

	if (!has_predicted_bytes(pkt, prediction))
		return false;
	total = ntohs(load16(frame + ETH_HDR + 2));
	/* The shortest one has a header of UDP.  A smaller one is a large number here. */
	if (total - IP4_HDR - UDP_HDR > pkt->frame_len - AT_L4 - UDP_HDR)
		return false;
	if (!(pkt->flags & PKT_CSUM_OK) && !is_header_summed(frame, prediction))
		return false;
	if (prediction->is_udp)
		return is_udp_predicted(pkt, flags, total, prediction->pseudo);
	return is_tcp_predicted(pkt, flags, total, prediction->pseudo);
}

/* l3, l4, off and len of a datagram with this length in its header, in the order of memory: one store. */
#define PARSED_UDP(length)                                        \
	(((uint64_t)(length) << 48) - ((uint64_t)UDP_HDR << 48) + \
	 ((uint64_t)ETH_HDR | (uint64_t)AT_L4 << 16 | (uint64_t)(AT_L4 + UDP_HDR) << 32))

_Static_assert(offsetof(struct pkt, l4) == offsetof(struct pkt, l3) + 2 &&
		       offsetof(struct pkt, off) == offsetof(struct pkt, l3) + 4 &&
		       offsetof(struct pkt, len) == offsetof(struct pkt, l3) + 6 &&
		       __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "as PARSED_UDP");

/*
 * frame_is_predicted() of most datagrams, without a call: nothing is behind them in the IP packet, and
 * the port has verified the checksums, or the UDP checksum is one of the pseudo-header alone.  False: it
 * may be so all the same, and pkt is unchanged.  verified: a constant, PKT_CSUM_OK of the packet; if not,
 * a checksum may be partial.
 */
INTO_FRAME bool is_simple_udp(struct pkt *pkt, bool verified,
			      const struct frame_prediction *prediction)
{
	const uint8_t *frame = pkt->frame;
	uint32_t csum;
	uint64_t parsed;
	uint16_t len;

	if (!has_predicted_bytes(pkt, prediction))
		return false;
	len = ntohs(load16(frame + AT_L4 + 4));
	/* A length below that of the header is a large number here. */
	if (ntohs(load16(frame + ETH_HDR + 2)) != len + IP4_HDR ||
	    (uint32_t)len - UDP_HDR > pkt->frame_len - AT_L4 - UDP_HDR)
		return false;
	if (!verified) {
		if (!is_header_summed(frame, prediction))
			return false;
		/* As is_partial().  It is not 0, because no pseudo-header's sum is. */
		csum = prediction->pseudo16 + load16(frame + AT_L4 + 4);
		csum += csum >> 16;
		if ((uint16_t)csum != load16(frame + AT_L4 + 6))
			return false;
	}
	parsed = PARSED_UDP(len);
	memcpy(&pkt->l3, &parsed, sizeof(parsed));
	pkt->frame_len = AT_L4 + len;
	return true;
}

/*
 * A simple datagram, for the next one: most in turn have one length, and differ in nothing but the
 * identification and the checksums.  Its headers are four words.
 */
#define AT_WORDS (AT_L4 + UDP_HDR - 4 * sizeof(uint64_t))
struct last_udp {
	uint64_t words[4];
	uint16_t varies; /* as ip_varies() */
	uint64_t parsed; /* as PARSED_UDP() */
	uint32_t end;	 /* length of the frame; NO_LAST: there was none */
};
#define NO_LAST UINT32_MAX

/* Of the second word: all but the identification, its first 16 bits, and the checksum, its last ones. */
#define IP_IS_FIXED 0x0000ffffffff0000ull

/* Their sum, folded: as long as the rest is the same, so is this, or the header's sum is wrong. */
INTO_FRAME uint16_t ip_varies(uint64_t word)
{
	uint32_t sum = (uint16_t)word + (uint32_t)(word >> 48);

	return (uint16_t)(sum + (sum >> 16));
}

INTO_FRAME void note_last(struct last_udp *last, const struct pkt *pkt)
{
	for (unsigned i = 0; i < 4; i++)
		last->words[i] = load64(pkt->frame + AT_WORDS + 8 * i);
	last->varies = ip_varies(last->words[1]);
	memcpy(&last->parsed, &pkt->l3, sizeof(last->parsed));
	last->end = pkt->frame_len;
}

/* is_simple_udp() of a datagram like the last one, which had the same verified. */
INTO_FRAME bool is_like_last(struct pkt *pkt, bool verified, const struct last_udp *last)
{
	const uint8_t *words = pkt->frame + AT_WORDS;
	uint64_t ip;

	if (pkt->frame_len < last->end || load64(words) != last->words[0])
		return false;
	ip = load64(words + 8);
	if (((ip ^ last->words[1]) & IP_IS_FIXED) || load64(words + 16) != last->words[2])
		return false;
	if (verified) { /* whatever the checksums are */
		if ((load64(words + 24) ^ last->words[3]) << 16)
			return false;
	} else if (load64(words + 24) != last->words[3] || ip_varies(ip) != last->varies) {
		return false;
	}
	memcpy(&pkt->l3, &last->parsed, sizeof(last->parsed));
	pkt->frame_len = last->end;
	return true;
}

/* A run is made of two: of simple datagrams, and of any. */
struct making {
	struct pkt **pkts, **end; /* the next one, and the end */
	struct pkt **link;	  /* of the last one */
	uint64_t bytes;
};

/* verified: a constant; as of is_simple_udp(). */
INTO_FRAME void add_simple(struct making *m, bool verified,
			   const struct frame_prediction *prediction)
{
	struct last_udp last = {.end = NO_LAST};
	struct making at = *m; /* no packet is part of the copy */

	while (at.pkts < at.end) {
		struct pkt *pkt = *at.pkts;
		uint32_t len = pkt->frame_len;

		if (!(pkt->flags & PKT_CSUM_OK) == verified)
			break;
		if (__builtin_expect(!is_like_last(pkt, verified, &last), 0)) {
			if (!is_simple_udp(pkt, verified, prediction))
				break;
			note_last(&last, pkt);
		}
		at.pkts++;
		at.bytes += len;
		*at.link = pkt;
		at.link = &pkt->next;
	}
	*m = at;
}

/* There is a packet. */
static __attribute__((noinline)) void add_simple_udp(struct making *m, unsigned flags,
						     const struct frame_prediction *prediction)
{
	if ((*m->pkts)->flags & PKT_CSUM_OK)
		add_simple(m, true, prediction);
	else if (flags & FRAME_PARTIAL_CSUM)
		add_simple(m, false, prediction);
}

struct frame_run frame_run_predicted(struct pkt **pkts, unsigned n, unsigned flags,
				     const struct frame_prediction *prediction)
{
	struct pkt *first;
	struct making m = {pkts, pkts + n, &first, 0};

	/* Where one is not simple, most others are not either: they are not tried. */
	if (prediction->is_udp && n)
		add_simple_udp(&m, flags, prediction);
	while (m.pkts < m.end) {
		struct pkt *pkt = *m.pkts;
		uint32_t len = pkt->frame_len;

		if (!frame_is_predicted(pkt, flags, prediction))
			break;
		m.pkts++;
		m.bytes += len;
		*m.link = pkt;
		m.link = &pkt->next;
	}
	*m.link = NULL;
	return (struct frame_run){m.bytes, (unsigned)(m.pkts - pkts)};
}

/* ---- parsed packets ------------------------------------------------------------------- */

/* src: the source, otherwise the destination. */
static struct endpoint parsed_endpoint(const struct pkt *pkt, bool src)
{
	const uint8_t *h = pkt->frame + pkt->l3;
	struct endpoint ep = {.zero = 0};

	if (h[0] >> 4 == 4)
		ep.addr = addr_v4(load32(h + (src ? 12 : 16)));
	else
		memcpy(&ep.addr, h + (src ? 8 : 24), sizeof(ep.addr));
	ep.port = load16(pkt->frame + pkt->l4 + (src ? 0 : 2));
	return ep;
}

struct endpoint frame_source(const struct pkt *pkt)
{
	return parsed_endpoint(pkt, true);
}

struct endpoint frame_destination(const struct pkt *pkt)
{
	return parsed_endpoint(pkt, false);
}

const void *frame_udp_again(struct pkt *pkt, size_t *len)
{
	uint8_t *ip = pkt->frame + pkt->l3, *udp = pkt->frame + pkt->l4;
	uint16_t csum = 0;

	memset(udp + 6, 0, 2); /* no checksum */
	if (ip[0] >> 4 == 6) {
		uint64_t sum = csum_add(htons(IPPROTO_UDP) + load16(udp + 4), ip + 8, 32);

		csum = (uint16_t)~csum_fold(csum_add(sum, udp, ntohs(load16(udp + 4))));
		if (csum == 0)
			csum = 0xffff;
		memcpy(udp + 6, &csum, sizeof(csum));
	}
	*len = pkt->frame_len - pkt->l3;
	return pkt->frame + pkt->l3;
}
