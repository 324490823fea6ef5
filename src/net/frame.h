/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames: parsing of received frames, building of frames to send.  Ethernet (RFC 894, one
 * 802.1Q tag), ARP (RFC 826), IPv4 (RFC 791), UDP (RFC 768), TCP (RFC 9293 section 3.1).
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
#define UDP_HDR 8
#define TCP_HDR 20
#define TCP_OPT_MAX 40
/* Room for all headers that are built: Ethernet + VLAN + IPv6 + TCP with options. */
#define FRAME_HDR_MAX (ETH_HDR + ETH_TAG + 40 + TCP_HDR + TCP_OPT_MAX)

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
bool flow_key_eq(const struct flow_key *a, const struct flow_key *b);
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
 * unchanged. Accepts IPv6 without extension headers only. seq is the header's, also in a SYN.
 */
enum drop frame_parse(struct pkt *pkt, unsigned flags, struct flow_key *key);

/* Source and destination of a parsed packet. */
struct endpoint frame_source(const struct pkt *pkt);
struct endpoint frame_destination(const struct pkt *pkt);

/* The IP packet of a parsed UDP frame, to be sent again: without a checksum, which may be partial. */
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
uint16_t csum_fold(uint64_t sum);

/* Adds the sum of a second piece, which begins at an odd offset if odd. */
uint64_t csum_combine(uint64_t sum, uint64_t part, bool odd);

/*
 * The constant part of all frames to one destination: Ethernet, IP and the ports, and the checksums
 * of these bytes.
 */
struct frame_template {
	uint8_t bytes[40]; /* Ethernet, IPv4 and ports; the size of three vector moves */
	uint8_t l3;	   /* offset of IP */
	uint8_t l4;	   /* offset of UDP/TCP */
	uint8_t proto;
	bool no_csum; /* UDP is sent without a checksum */
	/*
	 * IPv4 identification, network byte order: 0 with DF; otherwise the owner changes it for
	 * each datagram (RFC 6864 section 4).
	 */
	uint16_t id;
	uint16_t ip_sum;     /* sum of the header without length, id and checksum */
	uint16_t pseudo_sum; /* pseudo-header and ports, without length */
};

struct frame_params {
	const uint8_t *src_mac;
	const uint8_t *dst_mac;
	struct endpoint src, dst;
	uint8_t proto;
	uint8_t ttl;
	uint8_t tos;
	bool dont_fragment;
	bool no_csum; /* UDP without a checksum, RFC 768 */
};

/* 0, or -EAFNOSUPPORT for a family other than IPv4. */
int frame_template_init(struct frame_template *t, const struct frame_params *params);
void frame_template_set_mac(struct frame_template *t, const uint8_t *dst_mac);
/* The IP destination of its frames. */
struct inaddr frame_template_dst(const struct frame_template *t);

/*
 * Writes a UDP datagram to frame: headers, then the payload gathered from iov, with complete
 * checksums. The caller provides t->l4 + UDP_HDR + len bytes; len is the sum of iov. Returns the
 * length of the frame, or 0 if part of iov cannot be read.
 */
size_t frame_build_udp(const struct frame_template *t, uint8_t *frame, const struct iovec *iov,
		       int iovcnt, size_t len);

/*
 * Fragments a UDP datagram that is larger than the MTU (RFC 791). Call init, then
 * frame_fragment_next() until it returns 0, then frame_fragment_finish() on the first frame, whose
 * UDP checksum covers all fragments.
 */
struct frame_fragmenter {
	const struct frame_template *t;
	const struct iovec *iov; /* the next payload byte */
	size_t iov_at;
	size_t payload_at; /* payload bytes built so far */
	size_t at, total;  /* bytes after the IP header: so far, in all */
	size_t step;
	uint64_t sum;
	uint16_t id; /* host order */
	bool faulted;
};

#define FRAGMENTS_MAX 128 /* for 65507 bytes at the smallest accepted MTU, 576 */

/* iov holds len bytes, at most 65507, and stays valid until the last call. */
void frame_fragmenter_init(struct frame_fragmenter *f, const struct frame_template *t,
			   const struct iovec *iov, size_t len, uint32_t mtu, uint16_t id);
/*
 * Returns the length of the frame, at most l3 + mtu; 0 after the last fragment, or if iov cannot be
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
	size_t hdr;   /* bytes before the payload */
	uint8_t head[FRAME_TRAIN_ROOM];
};

void frame_train_begin(struct frame_train *train, const struct frame_template *t,
		       const struct tcp_segment *seg, uint32_t mss);
size_t frame_train_next(struct frame_train *train, uint8_t *frame);

/*
 * A TCP segment larger than the MSS that the device cuts into segments of mss bytes: one frame with
 * a checksum of the pseudo-header alone, which the device completes for each segment, as it does
 * with length, sequence number, PSH and FIN.
 */
struct frame_large {
	uint32_t mss;
	uint32_t hdr; /* bytes of head */
	uint32_t len; /* payload: the sum of part[] */
	struct tcp_part part[2];
	uint8_t l4; /* offset of the TCP header in head */
	uint8_t head[FRAME_HDR_MAX];
};

/* seg: as for a train, and at most 65535 bytes with its IP header. Refers to its payload. */
void frame_build_large(struct frame_large *large, const struct frame_template *t,
		       const struct tcp_segment *seg, uint32_t mss);

/* The number of segments. */
static inline uint32_t frame_large_segments(const struct frame_large *large)
{
	return (large->len + large->mss - 1) / large->mss;
}

/* Moves the first len bytes of seg to *first; seg keeps the rest. */
void tcp_segment_cut(struct tcp_segment *seg, uint32_t len, struct tcp_segment *first);

#endif
