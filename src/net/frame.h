/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames: parsing what arrives, building what leaves.  Ethernet (RFC 894, one
 * 802.1Q tag), ARP (RFC 826), IPv4 (RFC 791), UDP (RFC 768), TCP (RFC 9293
 * section 3.1).
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
#define IP4_HDR 20
#define UDP_HDR 8
#define TCP_HDR 20
#define TCP_OPT_MAX 40
/* Room for every header we build: Ethernet + VLAN + IPv6 + TCP with options. */
#define FRAME_HDR_MAX (ETH_HDR + 4 + 40 + TCP_HDR + TCP_OPT_MAX)

/* Whose a frame is: the receiver's point of view. */
struct flow_key {
	struct inaddr local;
	struct inaddr remote; /* any in a 3-tuple */
	uint16_t local_port;  /* network byte order */
	uint16_t remote_port; /* network byte order; 0 in a 3-tuple */
	uint8_t proto;	      /* IPPROTO_UDP or IPPROTO_TCP */
	uint8_t pad[3];	      /* zero */
};

_Static_assert(sizeof(struct flow_key) == 40, "hashed and compared as five words");

/* Differs from process to process, see flow_key_seed(). */
uint32_t flow_key_hash(const struct flow_key *key);
bool flow_key_eq(const struct flow_key *a, const struct flow_key *b);
/*
 * Makes the hash one that a peer cannot foresee.  Once at start, with random
 * words, before the first flow_key_hash(); tests may do without.
 */
void flow_key_seed(const uint64_t seed[5]);

/* Accept a checksum that covers the pseudo-header only (virtual devices). */
#define FRAME_PARTIAL_CSUM 1u

/*
 * Parses pkt->frame and checks lengths and checksums.  On DROP_NONE sets l3,
 * l4, off, len (and seq, tcp_flags) of the packet, cuts padding off, and fills
 * key.  Trusts nothing in the frame.  On any other answer pkt is as it was.
 * IPv6 is taken without extension headers only.  seq is that of the header,
 * SYN or not.
 */
enum drop frame_parse(struct pkt *pkt, unsigned flags, struct flow_key *key);

/* Source of a parsed packet. */
struct endpoint frame_source(const struct pkt *pkt);
struct endpoint frame_destination(const struct pkt *pkt);

/*
 * Ones' complement sum (RFC 1071), not folded, of len bytes at any alignment,
 * over words as they lie in memory: add htons(x) for a number x.  Each call
 * adds less than 2^32 * (len / 4 + 4), so sums may be added up without care.
 */
uint64_t csum_add(uint64_t sum, const void *data, size_t len);
/*
 * Copies len bytes (no overlap) and sums them on the way.  from may be memory of the
 * program's: CSUM_FAULT is in the sum if not all of it could be read, and the rest of the
 * sum and of the copy is anything.
 */
#define CSUM_FAULT (1ull << 63)
uint64_t csum_copy(uint64_t sum, void *to, const void *from, size_t len);
/* Folds to 16 bits; the field's value is its complement. */
uint16_t csum_fold(uint64_t sum);

/*
 * Combine the sums of two pieces: the second begins at an odd offset when odd.
 */
uint64_t csum_combine(uint64_t sum, uint64_t part, bool odd);

/*
 * What stays the same in every frame to one destination: Ethernet, IP and the
 * ports, plus the sums over what stays the same.
 */
struct frame_template {
	uint8_t bytes[40]; /* Ethernet, IPv4, the ports; in all, what three moves copy */
	uint8_t l3;	   /* offset of IP */
	uint8_t l4;	   /* offset of UDP/TCP */
	uint8_t proto;
	bool no_csum; /* UDP leaves without one */
	/*
	 * IPv4 identification, network byte order: 0 with DF, else its owner
	 * changes it for each datagram (RFC 6864 section 4).
	 */
	uint16_t id;
	uint16_t ip_sum;     /* header sum without length, id and checksum */
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

/* IPv4 only so far: -EAFNOSUPPORT for another family. */
int frame_template_init(struct frame_template *t, const struct frame_params *params);
void frame_template_set_mac(struct frame_template *t, const uint8_t *dst_mac);

/*
 * Writes a UDP datagram: headers at frame, payload gathered from iov behind
 * them, checksums complete.  The caller has room for t->l4 + UDP_HDR + len
 * bytes; len is the sum of iov.  Returns the length of the frame, or 0: not all of iov
 * could be read.
 */
size_t frame_build_udp(const struct frame_template *t, uint8_t *frame, const struct iovec *iov,
		       int iovcnt, size_t len);

/*
 * A UDP datagram larger than the MTU, fragment by fragment (RFC 791): init, then
 * frame_fragment_next() until it returns 0, then frame_fragment_finish() on the
 * first frame, whose checksum needs the sum of all.
 */
struct frame_fragmenter {
	const struct frame_template *t;
	const struct iovec *iov; /* where the payload goes on */
	size_t iov_at;
	size_t payload_at; /* payload bytes so far */
	size_t at, total;  /* bytes behind the IP header: so far, in all */
	size_t step;
	uint64_t sum;
	uint16_t id; /* host order */
	bool faulted;
};

#define FRAGMENTS_MAX 128 /* of 65507 bytes at the least MTU we serve, 576 */

/* iov holds len bytes, at most 65507; it stays until the end. */
void frame_fragmenter_init(struct frame_fragmenter *f, const struct frame_template *t,
			   const struct iovec *iov, size_t len, uint32_t mtu, uint16_t id);
/* Length of the frame, at most l3 + mtu; 0: that was all, or iov could not be read (faulted). */
size_t frame_fragment_next(struct frame_fragmenter *f, uint8_t *frame);
void frame_fragment_finish(const struct frame_fragmenter *f, uint8_t *first);

/* One TCP segment to be built. */
struct tcp_segment {
	uint32_t seq;
	uint32_t ack;
	uint16_t wnd; /* as in the header, scaled already */
	uint8_t flags;
	uint8_t opt_len; /* multiple of 4 */
	uint8_t opts[TCP_OPT_MAX];
	uint16_t urg;
	uint8_t ecn;  /* bits of the IP header that the template has not: RFC 3168 */
	uint32_t len; /* payload: the sum of part[] */
	struct tcp_part {
		const uint8_t *data;
		uint32_t len;
	} part[2];
};

/* As frame_build_udp(), for a segment. */
size_t frame_build_tcp(const struct frame_template *t, uint8_t *frame,
		       const struct tcp_segment *seg);

/*
 * A train: a segment larger than one can be, cut into pieces of mss bytes.  What
 * they share is built once.  The last piece has the flags, those before have none
 * of PSH and FIN; no CWR, no URG.
 *
 * begin, then next until it returns 0; each builds a frame of at least
 * FRAME_TRAIN_ROOM bytes room and returns its length.
 */
#define FRAME_TRAIN_ROOM 128u
struct frame_train {
	const struct frame_template *t;
	struct tcp_segment seg; /* what is left */
	uint32_t mss;
	uint32_t sum; /* of what all full pieces share */
	size_t hdr;   /* bytes in front of the payload */
	uint8_t head[FRAME_TRAIN_ROOM];
};

void frame_train_begin(struct frame_train *train, const struct frame_template *t,
		       const struct tcp_segment *seg, uint32_t mss);
size_t frame_train_next(struct frame_train *train, uint8_t *frame);

/* Cuts the first len bytes off seg: *first, and what is left. */
void tcp_segment_cut(struct tcp_segment *seg, uint32_t len, struct tcp_segment *first);

#endif
