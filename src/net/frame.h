/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames: parsing of received frames, building of frames to send.  Ethernet (RFC 894, RFC 2464,
 * one 802.1Q tag), IPv4 (RFC 791), IPv6 (RFC 8200), UDP (RFC 768), TCP (RFC 9293 section 3.1).
 *
 * Role		pure functions of bytes.
 */
#ifndef NET_FRAME_H
#define NET_FRAME_H

#include <sys/uio.h>

#include "net/addr.h"
#include "net/drop.h"
#include "net/pkt.h"

#define ETH_HDR 14
#define ETH_TAG 4 /* of a VLAN */
#define IP4_HDR 20
#define IP6_HDR 40
#define IP6_FRAGMENT_HDR 8 /* RFC 8200 4.5 */
#define IP6_MTU_MIN 1280   /* RFC 8200 5 */
#define UDP_HDR 8
#define TCP_HDR 20
#define TCP_OPT_MAX 40
/* Room for all headers that are built: Ethernet + VLAN + IPv6 + TCP with options. */
#define FRAME_HDR_MAX (ETH_HDR + ETH_TAG + IP6_HDR + TCP_HDR + TCP_OPT_MAX)

/* The length of the IP header, without options, of packets to or from addr. */
static inline uint32_t ip_hdr_of(const struct inaddr *addr)
{
	return addr_is_v4(addr) ? IP4_HDR : IP6_HDR;
}

/* The 5-tuple or 3-tuple of a frame, from the receiver's point of view. */
struct flow_key {
	struct inaddr local;
	struct inaddr remote; /* any in a 3-tuple */
	uint16_t local_port;  /* network byte order */
	uint16_t remote_port; /* network byte order; 0 in a 3-tuple */
	uint8_t proto;	      /* IPPROTO_UDP or IPPROTO_TCP */
	uint8_t pad[3];	      /* zero */
};

_Static_assert(sizeof(struct flow_key) == 40, "hashed and compared as five words");

/* Depends on the seed, so it differs between processes. */
uint32_t flow_key_hash(const struct flow_key *key);
static inline bool flow_key_eq(const struct flow_key *a, const struct flow_key *b)
{
	uint64_t x, y; /* ports, protocol and pad */

	memcpy(&x, &a->local_port, sizeof(x));
	memcpy(&y, &b->local_port, sizeof(y));
	return ((a->local.q[0] ^ b->local.q[0]) | (a->local.q[1] ^ b->local.q[1]) |
		(a->remote.q[0] ^ b->remote.q[0]) | (a->remote.q[1] ^ b->remote.q[1]) | (x ^ y)) ==
	       0;
}
/*
 * Sets the seed, so that a peer cannot predict the hash. Call once at start with random words,
 * before the first flow_key_hash(); tests may leave it out.
 */
void flow_key_seed(const uint64_t seed[5]);

/* Accept a checksum over the pseudo-header only, as virtual devices leave it. */
#define FRAME_PARTIAL_CSUM 1u

/*
 * Parses pkt->frame and checks lengths and checksums; the frame is untrusted. On DROP_NONE sets l3,
 * l4, off, len (and seq, tcp_flags) of the packet, removes padding and fills key. Otherwise pkt is
 * unchanged. Accepts IPv6 without extension headers only. On DROP_SOURCE (IPv6) key has the
 * addresses. seq is the header's, also in a SYN.
 */
enum drop frame_parse(struct pkt *pkt, unsigned flags, struct flow_key *key);

/*
 * Header prediction: what the headers of frames with one key are, where they are those of most frames:
 * Ethernet without a tag, IPv4 without options and fragments.  The first three words are compared
 * where their masks have ones.
 */
struct frame_prediction {
	uint64_t type;	/* from offset 12: protocol, IP version and header length */
	uint64_t proto; /* from offset 20: no fragment, IP protocol */
	uint64_t to;	/* from offset 30: destination and ports */
	uint32_t from;	/* at offset 26: source */
	bool is_udp;
	uint32_t pseudo16; /* pseudo, folded */
	uint64_t addrs;	   /* sum of the addresses */
	uint64_t pseudo;   /* sum of the pseudo-header without length */
};

/* False: frames with this key are not predicted (IPv6). */
bool frame_predict(struct frame_prediction *prediction, const struct flow_key *key);

/*
 * True: the frame has the prediction's key, and the packet is as frame_parse() leaves it.  False: it
 * may have it all the same; pkt is unchanged: call frame_parse().
 */
bool frame_is_predicted(struct pkt *pkt, unsigned flags, const struct frame_prediction *prediction);

/* Packets in turn with one key. */
struct frame_run {
	uint64_t bytes; /* of their frames as they arrived, with padding */
	unsigned n;
};

/*
 * The first ones of n packets that frame_is_predicted() is true of: they are as it leaves them, and linked
 * by next, the last one's NULL.  The others are unchanged.
 */
struct frame_run frame_run_predicted(struct pkt **pkts, unsigned n, unsigned flags,
				     const struct frame_prediction *prediction);

/* Source and destination of a parsed packet, without scope: that is where it arrived. */
struct endpoint frame_source(const struct pkt *pkt);
struct endpoint frame_destination(const struct pkt *pkt);

/*
 * The IP packet of a parsed UDP frame, to be sent again: without its checksum, which may be partial;
 * IPv6 gets a complete one.
 */
const void *frame_udp_again(struct pkt *pkt, size_t *len);

/*
 * Adds the ones' complement sum (RFC 1071) of len bytes at any alignment to sum, without folding.
 * The words are in memory order: add htons(x) for a number x. Each call adds less than 2^32 * (len
 * / 4 + 4), so sums can be added without overflow.
 */
uint64_t csum_add(uint64_t sum, const void *data, size_t len);
/*
 * Copies len bytes (no overlap) and sums them. from may be memory of the program: if part of it
 * cannot be read, the result has CSUM_FAULT set, and the other bits and the copy are undefined.
 */
#define CSUM_FAULT (1ull << 63)
uint64_t csum_copy(uint64_t sum, void *to, const void *from, size_t len);
/* Folds to 16 bits. The checksum field holds the complement. */
static inline uint16_t csum_fold(uint64_t sum)
{
	uint32_t half;

	/* Halves that are added to each other carry from the lower one into the upper one. */
	sum += sum << 32 | sum >> 32;
	half = (uint32_t)(sum >> 32);
	half += half << 16 | half >> 16;
	return (uint16_t)(half >> 16);
}

/* Adds the sum of a second piece, which begins at an odd offset if odd. */
uint64_t csum_combine(uint64_t sum, uint64_t part, bool odd);

/*
 * The constant part of all frames to one destination: Ethernet, IP and the ports. Fields that are
 * different in each frame hold sums instead: the IPv4 checksum that of the header without length;
 * the IPv4 identification (0 in frames, because DF is set: RFC 6864 section 4) and the IPv6 payload
 * length, which are at the same place, that of the pseudo-header and the ports, without length.
 */
struct frame_template {
	uint8_t bytes[ETH_HDR + IP6_HDR + 4];
	uint8_t l4;	 /* offset of UDP/TCP; IP is at ETH_HDR */
	uint8_t special; /* FRAME_*: not simply IPv4 with checksums */
};

#define FRAME_IP6 1u
#define FRAME_NO_CSUM 2u /* IPv4: UDP is sent without a checksum */

#define FRAME_LABEL_AUTO 0u	    /* from a hash of the flow: RFC 6438 */
#define FRAME_LABEL_NONE UINT32_MAX /* 0 */

struct frame_params {
	const uint8_t *src_mac;
	const uint8_t *dst_mac;
	struct endpoint src, dst;
	uint8_t proto;
	uint8_t ttl;  /* or hop limit */
	uint8_t tos;  /* or traffic class */
	bool no_csum; /* IPv4: UDP without a checksum, RFC 768; IPv6 always has one, RFC 8200 8.1 */
	uint32_t label; /* IPv6: flow label, 20 bits, or FRAME_LABEL_* */
};

/* 0, or -EAFNOSUPPORT if source and destination are not of one family. */
int frame_template_init(struct frame_template *t, const struct frame_params *params);
void frame_template_set_mac(struct frame_template *t, const uint8_t *dst_mac);
/* The IP destination of its frames. */
struct inaddr frame_template_dst(const struct frame_template *t);

/* Bytes of its IP header. */
static inline uint32_t frame_template_ip_hdr(const struct frame_template *t)
{
	return t->l4 - ETH_HDR;
}

/* Its TTL or hop limit. */
static inline uint8_t frame_template_ttl(const struct frame_template *t)
{
	return t->bytes[ETH_HDR + (t->special & FRAME_IP6 ? 7 : 8)];
}

/*
 * The label of FRAME_LABEL_AUTO, host order. As Linux's (auto_flowlabels, flowlabel_state_ranges)
 * it is between 0x80000 and 0xfffff. Depends on the seed, see flow_key_seed().
 */
uint32_t frame_flow_label(const struct flow_key *key);

/*
 * Writes a UDP datagram to frame: headers, then the payload gathered from iov, with complete
 * checksums. The caller provides t->l4 + UDP_HDR + len bytes; len is the sum of iov. Returns the
 * length of the frame, or 0 if part of iov cannot be read.
 */
size_t frame_build_udp(const struct frame_template *t, uint8_t *frame, const struct iovec *iov,
		       int iovcnt, size_t len);

/* The same, of one buffer. */
size_t frame_build_udp_of(const struct frame_template *t, uint8_t *frame, const void *buf,
			  size_t len);

/* The same, where the payload is in its place already: len bytes behind the headers. */
size_t frame_build_udp_around(const struct frame_template *t, uint8_t *frame, size_t len);

/*
 * Fragments a UDP datagram that is larger than the MTU (RFC 791; RFC 8200 4.5). Call init, then
 * frame_fragment_next() until it returns 0, then frame_fragment_finish() on the first frame, whose
 * UDP checksum covers all fragments.
 */
struct frame_fragmenter {
	const struct frame_template *t;
	const struct iovec *iov; /* the next payload byte */
	size_t iov_at;
	size_t payload_at; /* payload bytes built so far */
	size_t at, total;  /* bytes of the datagram: so far, in all */
	size_t step;
	size_t data; /* offset of these bytes in each frame */
	uint64_t sum;
	uint32_t id; /* host order */
	bool faulted;
};

#define FRAGMENTS_MAX 128 /* for 65507 bytes at the smallest accepted MTU, 576 */

/*
 * iov holds len bytes and stays valid until the last call; at most 65507 bytes, with IPv6 65527.
 * mtu: at least 576, with IPv6 IP6_MTU_MIN. id differs from that of recent datagrams; IPv4 uses its
 * low 16 bits, IPv6 adds it to a secret of the addresses (RFC 7739 5.3).
 */
void frame_fragmenter_init(struct frame_fragmenter *f, const struct frame_template *t,
			   const struct iovec *iov, size_t len, uint32_t mtu, uint32_t id);
/*
 * Returns the length of the frame, at most ETH_HDR + mtu; 0 after the last fragment, or if iov cannot be
 * read (then faulted is set).
 */
size_t frame_fragment_next(struct frame_fragmenter *f, uint8_t *frame);
void frame_fragment_finish(const struct frame_fragmenter *f, uint8_t *first);

/* One TCP segment to be built. */
struct tcp_segment {
	uint32_t seq;
	uint32_t ack;
	uint16_t wnd; /* as in the header, already scaled */
	uint8_t flags;
	uint8_t opt_len; /* multiple of 4 */
	uint8_t opts[TCP_OPT_MAX];
	uint16_t urg;
	uint8_t ecn;  /* ECN bits of the IP header that the template lacks (RFC 3168) */
	uint32_t len; /* payload: the sum of part[] */
	struct tcp_part {
		const uint8_t *data;
		uint32_t len;
	} part[2];
};

/* As frame_build_udp(), for a TCP segment. */
size_t frame_build_tcp(const struct frame_template *t, uint8_t *frame,
		       const struct tcp_segment *seg);

/* The same, where the payload is in its place already; seg->part is not looked at. */
size_t frame_build_tcp_around(const struct frame_template *t, uint8_t *frame,
			      const struct tcp_segment *seg);

/*
 * A train: a TCP segment larger than the MSS, cut into frames of mss payload bytes (segmentation
 * offload in software). The common header bytes are built once. PSH and FIN are set in the last
 * frame only; the segment has neither CWR nor URG.
 *
 * Call begin, then next until it returns 0. Each next call builds a frame and returns its length;
 * the caller provides at least FRAME_TRAIN_ROOM bytes, also for short frames.
 */
#define FRAME_TRAIN_ROOM 128u
struct frame_train {
	const struct frame_template *t;
	struct tcp_segment seg; /* the rest of the segment */
	uint32_t mss;
	uint32_t sum; /* sum of the bytes that all full-sized frames share */
	size_t l4;    /* offset of the TCP header */
	size_t hdr;   /* bytes before the payload */
	uint8_t head[FRAME_TRAIN_ROOM];
};

void frame_train_begin(struct frame_train *train, const struct frame_template *t,
		       const struct tcp_segment *seg, uint32_t mss);
size_t frame_train_next(struct frame_train *train, uint8_t *frame);

/*
 * A TCP segment larger than the MSS that the device cuts into segments of mss bytes: one frame with
 * a checksum of the pseudo-header alone, which the device completes for each segment, as it does
 * with length, sequence number, PSH and FIN.  Or several UDP datagrams of mss bytes, the last one
 * may be shorter, in one frame, with a UDP header for all of them.
 */
#define FRAME_LARGE_IOV 64 /* most elements of iov */
struct frame_large {
	uint32_t mss;
	uint32_t hdr; /* bytes of head */
	uint32_t len; /* payload: the sum of part[], or of iov */
	struct tcp_part part[2];
	const struct iovec *iov; /* UDP: the payload; it may be memory that cannot be read */
	uint32_t iovcnt;	 /* 0: TCP */
	uint8_t l4;		 /* offset of the TCP or UDP header in head */
	uint8_t head[FRAME_HDR_MAX];
};

/*
 * seg: as for a train, and at most 65535 bytes with its IPv4 header, or after its IPv6 header.
 * Refers to its payload.
 */
void frame_build_large(struct frame_large *large, const struct frame_template *t,
		       const struct tcp_segment *seg, uint32_t mss);
/*
 * The same for datagrams with the payload of iov, len bytes in 1 to FRAME_LARGE_IOV elements, at
 * most 65507.  The template has checksums.
 */
void frame_build_large_udp(struct frame_large *large, const struct frame_template *t,
			   const struct iovec *iov, uint32_t iovcnt, uint32_t len, uint32_t mss);

static inline bool frame_large_is_udp(const struct frame_large *large)
{
	return large->iovcnt != 0;
}

/* The number of segments. */
static inline uint32_t frame_large_segments(const struct frame_large *large)
{
	return (large->len + large->mss - 1) / large->mss;
}

/* Moves the first len bytes of seg to *first; seg keeps the rest. */
void tcp_segment_cut(struct tcp_segment *seg, uint32_t len, struct tcp_segment *first);

#endif
