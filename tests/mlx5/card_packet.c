/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <string.h>

#include "tests/mlx5/card.h"

/* Positions 2 and 4 of l4_hdr_type_etc. */
#define L3_TYPE(type) ((type) << 2)
#define L4_TYPE(type) ((type) << 4)
#define L4_TCP 1
#define L4_UDP 2

/* Where the headers of an IP packet lie; l4: 0 if it has none that the card knows. */
struct layers {
	size_t l3, l4, end; /* end: of the IP packet */
	uint8_t protocol;
	bool ipv6;
};

static bool find_ipv4(const uint8_t *frame, size_t len, struct layers *at)
{
	struct iphdr ip;

	if (len < at->l3 + sizeof(ip))
		return false;
	memcpy(&ip, frame + at->l3, sizeof(ip));
	at->end = at->l3 + ntohs(ip.tot_len);
	if (ip.version != 4 || ip.ihl < 5 || at->end > len ||
	    ntohs(ip.tot_len) < (size_t)ip.ihl * 4)
		return false;
	at->protocol = ip.protocol;
	at->l4 = ip.frag_off & htons(IP_OFFMASK | IP_MF) ? 0 : at->l3 + (size_t)ip.ihl * 4;
	return true;
}

static bool find_ipv6(const uint8_t *frame, size_t len, struct layers *at)
{
	struct ip6_hdr ip;

	if (len < at->l3 + sizeof(ip))
		return false;
	memcpy(&ip, frame + at->l3, sizeof(ip));
	at->l4 = at->l3 + sizeof(ip);
	at->end = at->l4 + ntohs(ip.ip6_plen);
	at->protocol = ip.ip6_nxt;
	return ip.ip6_vfc >> 4 == 6 && at->end <= len;
}

static bool find_layers(const uint8_t *frame, size_t len, struct layers *at)
{
	uint16_t type;

	at->l3 = ETH_HLEN;
	memcpy(&type, frame + 12, sizeof(type));
	if (len >= ETH_HLEN + 4 && type == htons(ETHERTYPE_VLAN)) {
		at->l3 += 4;
		memcpy(&type, frame + 16, sizeof(type));
	}
	at->ipv6 = type == htons(ETHERTYPE_IPV6);
	if (!at->ipv6 && type != htons(ETHERTYPE_IP))
		return false;
	if (!(at->ipv6 ? find_ipv6 : find_ipv4)(frame, len, at))
		return false;
	if (at->end - at->l4 <
		    (at->protocol == IPPROTO_TCP ? sizeof(struct tcphdr) : sizeof(struct udphdr)) ||
	    (at->protocol != IPPROTO_TCP && at->protocol != IPPROTO_UDP))
		at->l4 = 0;
	return true;
}

/* RFC 1071, without the complement. */
static uint32_t add(uint32_t sum, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		sum += i & 1 ? bytes[i] : (uint32_t)bytes[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static uint32_t add_layer4(const uint8_t *frame, const struct layers *at)
{
	uint32_t sum = at->protocol + (uint32_t)(at->end - at->l4);

	sum = add(sum, frame + at->l3 + (at->ipv6 ? 8 : 12), at->ipv6 ? 32 : 8);
	return add(sum, frame + at->l4, at->end - at->l4);
}

static void store(uint8_t *to, uint32_t sum)
{
	uint16_t check = htons((uint16_t)~sum);

	memcpy(to, &check, sizeof(check));
}

void packet_checksum(uint8_t *frame, size_t len, bool l3, bool l4)
{
	struct layers at;
	uint8_t *field;

	if (!find_layers(frame, len, &at))
		return;
	if (l3 && !at.ipv6) {
		size_t options_end = at.l3 + (size_t)(frame[at.l3] & 0xf) * 4;

		memset(frame + at.l3 + 10, 0, 2);
		store(frame + at.l3 + 10, add(0, frame + at.l3, options_end - at.l3));
	}
	if (!l4 || !at.l4)
		return;
	field = frame + at.l4 +
		(at.protocol == IPPROTO_TCP ? offsetof(struct tcphdr, check)
					    : offsetof(struct udphdr, check));
	memset(field, 0, 2);
	store(field, add_layer4(frame, &at));
	if (at.protocol == IPPROTO_UDP && !field[0] && !field[1])
		memset(field, 0xff, 2); /* RFC 768: zero means that there is none */
}

size_t packet_end(const uint8_t *frame, size_t len)
{
	struct layers at;

	return find_layers(frame, len, &at) ? at.end : 0;
}

void packet_judge(const uint8_t *frame, size_t len, uint8_t *checksum, uint8_t *headers)
{
	struct layers at;

	*checksum = MLX5_CQE_L2_OK;
	*headers = 0;
	if (!find_layers(frame, len, &at))
		return;
	*headers = L3_TYPE(at.ipv6 ? MLX5_CQE_L3_HDR_TYPE_IPV6 : MLX5_CQE_L3_HDR_TYPE_IPV4);
	/* The header of IPv6 has no checksum that could be wrong. */
	if (at.ipv6 || add(0, frame + at.l3, (size_t)(frame[at.l3] & 0xf) * 4) == 0xffff)
		*checksum |= MLX5_CQE_L3_OK;
	if (!at.l4)
		return;
	*headers |= L4_TYPE(at.protocol == IPPROTO_TCP ? L4_TCP : L4_UDP);
	if (add_layer4(frame, &at) == 0xffff ||
	    (at.protocol == IPPROTO_UDP && !at.ipv6 && !frame[at.l4 + 6] && !frame[at.l4 + 7]))
		*checksum |= MLX5_CQE_L4_OK;
}

/* The length of the packet in its IP header, and the identification of one part. */
static void adapt_ip(uint8_t *frame, const struct layers *at, size_t frame_len, unsigned part)
{
	uint16_t len = htons((uint16_t)(frame_len - at->l3));
	struct iphdr ip;

	if (at->ipv6) {
		len = htons((uint16_t)(frame_len - at->l3 - sizeof(struct ip6_hdr)));
		memcpy(frame + at->l3 + offsetof(struct ip6_hdr, ip6_plen), &len, sizeof(len));
		return;
	}
	memcpy(&ip, frame + at->l3, sizeof(ip));
	ip.tot_len = len;
	ip.id = htons((uint16_t)(ntohs(ip.id) + part));
	memcpy(frame + at->l3, &ip, sizeof(ip));
}

/* The headers of one part: length, identification, sequence number and flags are its own. */
static void adapt(uint8_t *frame, const struct layers *at, size_t frame_len, unsigned part,
		  size_t offset, bool last)
{
	struct tcphdr tcp;

	adapt_ip(frame, at, frame_len, part);
	memcpy(&tcp, frame + at->l4, sizeof(tcp));
	tcp.seq = htonl((uint32_t)(ntohl(tcp.seq) + offset));
	if (!last)
		tcp.fin = tcp.psh = 0;
	if (part)
		tcp.res2 &= 1; /* RFC 3168 section 6.1.2: only the first one carries CWR */
	memcpy(frame + at->l4, &tcp, sizeof(tcp));
}

/* The program leaves the length as it likes: as if there were no data. */
static void set_length(uint8_t *head, size_t headers)
{
	uint16_t type;

	memcpy(&type, head + 12, sizeof(type));
	adapt_ip(head, &(struct layers){.l3 = ETH_HLEN, .ipv6 = type == htons(ETHERTYPE_IPV6)},
		 headers, 0);
}

size_t packet_headers(const uint8_t *frame, size_t len)
{
	uint8_t head[FRAME_MAX];
	struct layers at;
	struct tcphdr tcp;

	if (len < ETH_HLEN + sizeof(struct iphdr) + sizeof(tcp) || len > sizeof(head))
		return 0;
	memcpy(head, frame, len);
	set_length(head, len);
	if (!find_layers(head, len, &at) || !at.l4 || at.protocol != IPPROTO_TCP)
		return 0;
	memcpy(&tcp, head + at.l4, sizeof(tcp));
	return at.l4 + (size_t)tcp.doff * 4;
}

unsigned packet_segment(const uint8_t *frame, size_t len, size_t headers, unsigned mss,
			void (*send)(const void *frame, size_t len))
{
	static uint8_t part[FRAME_MAX], head[FRAME_MAX];
	struct layers at;
	unsigned n = 0;

	memcpy(head, frame, headers);
	set_length(head, headers);
	find_layers(head, headers, &at);
	for (size_t offset = 0; offset < len - headers; offset += mss, n++) {
		size_t left = len - headers - offset, bytes = left < mss ? left : mss;

		memcpy(part, head, headers);
		memcpy(part + headers, frame + headers + offset, bytes);
		adapt(part, &at, headers + bytes, n, offset, bytes == left);
		packet_checksum(part, headers + bytes, true, true);
		send(part, headers + bytes);
	}
	return n;
}
