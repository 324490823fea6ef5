/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An emulated ConnectX card, as a process of its own, under the stock libibverbs and libmlx5.
 *
 *	program + libmlx5 + shim.c ---- socket ----> card <---- packet socket ----> wire (veth)
 *	     memory, doorbells <--- process_vm_readv ---/ \---- tap ----> the card's interface, for
 *	                                                                 the kernel of the host
 *
 * A frame from the wire goes to the queue pairs whose rule matches, otherwise to the tap, as on a
 * card.  What is sent, by queue pairs or by the kernel through the tap, goes to the wire.
 *
 * The card refuses what the programmer's manual forbids: each violation is printed as one line,
 * and the queue goes to the error state where hardware would do that.
 *
 * Role		the card is one thread.
 * Sources	<rdma/ib_user_verbs.h>, <rdma/mlx5-abi.h>, <infiniband/mlx5dv.h>; the formats of work
 *		requests and completions are those of the last one.
 */
#ifndef TESTS_MLX5_CARD_H
#define TESTS_MLX5_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"

#define FRAME_MAX 9216
#define UAR_PAGES 256 /* doorbell pages of one process; the first ones have fixed owners */
#define UAR_STATIC 8
#define UAR_SIZE 4096
/* Doorbell registers of queue pairs, two to a page, written to by halves in turn. */
#define BFREG_OFFSET 0x800
#define BFREG_SIZE 0x200
#define BFREGS_PER_UAR 2
#define CLOCK_PAGES 2	  /* see card_clock.c */
#define CLOCK_OFFSET 0x40 /* of the register in its page */

/* One open file of the device. */
struct context {
	struct list link;
	int conn;		  /* the socket to the process */
	int async_fd, async_peer; /* events of the device; the program reads the second one */
	pid_t pid;
	bool raw;  /* has CAP_NET_RAW */
	bool gone; /* its device was pulled out: nothing works, and commands return EIO */
	int uar_fd;
	uint8_t *uar;		  /* UAR_PAGES, shared with the process */
	bool uar_used[UAR_PAGES]; /* the process has mapped it */
	bool bfreg_used[UAR_PAGES * BFREGS_PER_UAR];
	struct list pds, channels, regions, cqs, qps, flows; /* struct object */
};

/* The head of everything that has a handle. */
struct object {
	struct list link; /* in its context */
	uint32_t handle;
	unsigned users; /* objects that refer to it */
	struct context *context;
};

struct pd {
	struct object object;
};

/* A completion channel: what is written to fd, the program reads from peer. */
struct channel {
	struct object object;
	int fd, peer;
};

struct region {
	struct object object;
	struct pd *pd;
	uint32_t key;
	uint64_t start, length;
	bool local_write;
};

struct cq {
	struct object object;
	struct channel *channel;
	uint64_t user_handle, buf, record;
	uint32_t number; /* cqn */
	uint32_t n;	 /* entries, a power of two */
	uint32_t produced;
	uint32_t armed;	       /* second word of the doorbell record, when it was read last */
	uint32_t events;       /* that the channel was told */
	uint16_t frames, usec; /* an event is held back until then; 0: it is not */
	uint64_t since;	       /* card_clock(): an event is held back; 0: none is */
	bool is_armed, overrun;
	bool unrung; /* armed in its record, and the register was not written since */
};

#define POSTED_MAX 32768   /* receive requests of a queue pair */
#define POSTED_SLOTS 65536 /* a power of two, far above */
#define SOURCES 2048	   /* send requests of one doorbell that are looked at */

/* What card_strict.c remembers of a queue pair. */
struct notes {
	uint16_t seen; /* receive requests that are noted */
	bool rang;
	unsigned half;	  /* of the doorbell register, that rang last */
	unsigned doubts;  /* bells after which the order of the halves is not known */
	unsigned sources; /* of the requests of one doorbell */
	uint64_t source[SOURCES];
	uint64_t posted[POSTED_MAX];  /* buffer of each receive request that waits */
	uint16_t slots[POSTED_SLOTS]; /* how many of them have such an address */
};

enum qp_state { QP_RESET, QP_INIT, QP_RTR, QP_RTS, QP_ERROR };

struct qp {
	struct object object;
	struct pd *pd;
	struct cq *send_cq, *recv_cq;
	enum qp_state state;
	bool signal_all;
	uint32_t number, uidx;
	uint64_t user_handle, rq, sq, record;
	uint32_t rq_n, rq_stride, sq_n; /* powers of two; bytes; blocks of 64 bytes */
	uint16_t rq_taken, sq_taken;	/* work requests, blocks: consumed */
	uint16_t rq_head;		/* posted, when a frame was received last */
	uint32_t events;		/* that the driver has reported */
	unsigned bfreg;
	struct notes *notes;
};

struct rule {
	struct object object;
	struct qp *qp;
	unsigned priority;
	unsigned depth; /* layers that it names: a deeper rule of one priority wins */
	uint32_t tag;
	/* All bits of mask must be as in value.  In the order of the packet; absent: zeros. */
	struct match {
		uint8_t dst_mac[6], src_mac[6];
		uint16_t ether_type, vlan;
		uint8_t src[16], dst[16]; /* of IPv4: the first four bytes */
		uint8_t protocol;
		uint16_t src_port, dst_port;
	} value, mask;
};

extern struct list contexts;
extern struct card_counters {
	uint64_t sent, received, to_kernel, from_kernel;
	uint64_t no_buffer; /* received frames that no work request waited for */
	uint64_t segmented; /* work requests that were cut into frames */
	uint64_t parts;	    /* the frames */
	uint64_t violations;
	uint64_t bells;	       /* of send queues */
	uint64_t blue_flames;  /* of these, with more of the request than its first eight bytes */
	uint64_t in_place;     /* sent frames that lay in their requests whole */
	uint64_t signals;      /* sent frames that completed */
	uint64_t posts;	       /* frames before which the program had posted buffers */
	uint64_t arms;	       /* of completion queues, each with another word in the record */
	uint64_t waiting;      /* blocks that a queue has posted and the card has not read: most */
	uint64_t events;       /* that channels were told */
	uint64_t moderated;    /* commands that changed the next two */
	uint64_t frames, usec; /* of the completion queue that was moderated last */
	uint64_t rq, sq;       /* of the queue pair that was made last: requests, blocks */
} counters;

/* ---- card.c ---- */

/* No time passes for events that are held back. */
extern bool timeless;
/* No rule is made, as with a firmware that cannot match so. */
extern bool refusing;

/* Prints one line, and counts it: the program did what the manual forbids. */
void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A frame to the wire, complete. */
void wire_send(const void *frame, size_t len);

/* ---- card_clock.c ---- */

bool clock_start(void);
/* The pages: the register's, then the driver's. */
int clock_fd(void);
/* The counter's frequency; 0: the device has none. */
uint32_t clock_khz(void);
/* The counter, which the pages show from now on. */
uint64_t clock_ticks(void);
/*
 * "clock TICKS": it stands there.  "khz FREQUENCY": for devices that are opened from now on; 0: without
 * a clock.  "ptp NSEC": the time of the PTP clock.  False: the line is none of these.
 */
bool clock_command(const char *line);

/* ---- card_memory.c: the memory of processes ---- */

bool memory_read(const struct context *context, uint64_t from, void *to, size_t len);
bool memory_write(const struct context *context, uint64_t to, const void *from, size_t len);
/* After one of these failed: the process ends, or executes another program. */
bool memory_has_gone(const struct context *context);
/* The region of this key, if the range lies in it and it belongs to the protection domain. */
const struct region *region_of(const struct context *context, const struct pd *pd, uint32_t key,
			       uint64_t addr, size_t len);

/* ---- card_command.c ---- */

/* Serves one request of the process.  False: the process has closed the device. */
bool command_serve(struct context *context);
/* The process has gone: frees everything. */
void context_free(struct context *context);

/* ---- card_queue.c ---- */

/* The doorbells that rang, and work that was added.  Returns whether there was any. */
bool queues_serve(struct context *context);
void queue_receive(struct qp *qp, const void *frame, size_t len, uint32_t tag);
/* What rang and was not served is forgotten: the queue pair ends. */
void queue_drop_bells(const struct qp *qp);
/* Blocks that wait to be sent, of the queue pair that has most. */
uint64_t queues_waiting(void);
/* The queue pair goes to the error state: what waits is flushed. */
void queue_fail(struct qp *qp);

/* ---- card_strict.c ---- */

/* Notes the receive requests up to head: has one of them a buffer that waits already? */
void strict_posted(const struct qp *qp, uint16_t head);
/* The next receive request is used, with this buffer: is it the one that was posted? */
void strict_taken(const struct qp *qp, uint64_t addr);
/* A frame as it goes to the wire: checksums, lengths. */
void strict_sent(const struct qp *qp, const uint8_t *frame, size_t len);
/* A request sends the bytes at addr: no other one of this doorbell may. */
void strict_data(const struct qp *qp, uint64_t addr);
/*
 * A half of the doorbell register rang: halves are written in turn.  !alone: so did the other one,
 * before or after it.
 */
void strict_half(const struct qp *qp, unsigned half, bool alone);
/* The queue was armed in its record; rang: the context's register was written since. */
void strict_armed(struct cq *cq, bool rang);
/* The context's register was written. */
void strict_register(struct context *context);

/* ---- card_cq.c ---- */

enum completion {
	COMPLETION_SENT,
	COMPLETION_RECEIVED,
	COMPLETION_SEND_ERROR,
	COMPLETION_RECV_ERROR
};

struct completion_info {
	enum completion type;
	const struct qp *qp;
	uint16_t wqe;
	uint8_t opcode;	  /* of the work request that was sent */
	uint32_t bytes;	  /* received */
	uint32_t tag;	  /* received */
	uint8_t checksum; /* received: MLX5_CQE_L*_OK */
	uint8_t headers;  /* received: l4_hdr_type_etc */
	uint8_t syndrome; /* error */
};

/* Nanoseconds. */
uint64_t card_clock(void);
void cq_complete(struct cq *cq, const struct completion_info *info);
/* Takes back the events that the program has not read; the number of those that it has. */
uint32_t cq_events_read(struct cq *cq);
/* The register names a queue and repeats the second word of its record.  Was it written? */
bool cqs_read_registers(struct context *context);
/* Looks at the doorbell records: true: an event was wanted and is due. */
bool cqs_serve(struct context *context);

/* ---- card_rule.c ---- */

/* A rule from the command's specifications; NULL: errno says why. */
struct rule *rule_parse(const void *specs, size_t len, unsigned count);
/* Has another rule the same match and priority, but another tag? */
bool rule_conflicts(const struct rule *rule);
/* A line for each rule. */
void rules_print(void);
/* Gives the frame to the queue pairs that want it; false: to none. */
bool rules_deliver(const void *frame, size_t len);

/* ---- card_packet.c ---- */

/* Fills in the checksums that a work request asks for. */
void packet_checksum(uint8_t *frame, size_t len, bool l3, bool l4);
/* Where the IP packet in the frame ends; 0: there is none. */
size_t packet_end(const uint8_t *frame, size_t len);
/* Bytes of Ethernet, IP and TCP headers at the front, if all of them are there; else 0. */
size_t packet_headers(const uint8_t *frame, size_t len);
/* What the card says of a received frame. */
void packet_judge(const uint8_t *frame, size_t len, uint8_t *checksum, uint8_t *headers);
/*
 * Cuts a long TCP frame at mss, with checksums; calls send for each part, and returns how many
 * there are.  The headers are right.
 */
unsigned packet_segment(const uint8_t *frame, size_t len, size_t headers, unsigned mss,
			void (*send)(const void *frame, size_t len));

#endif
