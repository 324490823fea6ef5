/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams through shared memory.
 *
 * A receiver registers its address and port in the directory.  When a process asks for it first, it
 * makes a record ring (ring/local/record_ring.h), and gives each process that asks the ring's memory
 * and a number to write as.  A sender keeps what it got as a target, for all its sockets.
 *
 *	sendto()				bind()
 *	finds the receiver in the directory	registers there
 *	LOCAL_ASK ---------------------------->	internal thread: makes the ring
 *	<------------- memory, number --------- LOCAL_RECORDS
 *	writes records, posts notices --------> holder of the ring: queues them as datagrams
 *
 * A notice makes datagrams of all records (udp_input()), so everything that the program can do with
 * datagrams works with them.  Only recv(2) and recvfrom(2) have a quick way past the queue
 * (local_udp_quick.c).
 *
 * The home of a socket that receives nowhere else is local_ring().  One that receives frames keeps
 * its home, and belongs to local_ring() besides (inet_sock.rings) while the record ring is open: that is
 * read by the holder of its home, as the queue is; to send, the holder goes to local_ring() for a moment.
 *
 * Role		"holder" is the holder of the socket's home, of a target that of local_ring().
 * Lifetime	the socket's part, struct local_udp, begins when the socket first meets an address
 *		of this host, and ends with local_udp_end().  The ring is closed by
 *		local_receive_stop().  A target lives until the receiver has closed the ring, or has
 *		ended; its object is used again under a new generation.
 * Ordering	between datagrams of one sender to one receiver none overtakes another, also while
 *		they change to the kernel, as when a receiver closes its ring, and from there to
 *		shared memory, as when a receiver comes later than the first datagram
 *		(local_change.c, local_turn.c).  One exception: of two senders that change in
 *		opposite directions at the same time, what the first sends by the kernel may be read
 *		before what it has just written into the ring.
 * Trust	a receiver believes what a peer process of the same user says of the sender's port,
 *		but only addresses that it checked when it was asked.
 */
#ifndef SOCK_LOCAL_LOCAL_UDP_H
#define SOCK_LOCAL_LOCAL_UDP_H

#include "ring/local/record_ring.h"
#include "sock/core/access.h"
#include "sock/core/extra/filter.h"
#include "sock/core/kind.h"
#include "sock/local/local_dir.h"
#include "sock/local/local_keep.h"
#include "sock/local/local_link.h"
#include "sock/wait/quick_list.h"

#define LOCAL_ADDRESSES 16u /* not of 127.0.0.0/8, that records may have, for each receiver */
#define LOCAL_NO_ADDRESS LOCAL_ADDRESSES

/* What the kernel has for a receiver: local_turn.c.  holder */
struct local_twin {
	bool waits;	/* it has something, which is read after what the ring has before `at` */
	bool reached;	/* these records are in the queue, or were read */
	bool ends;	/* the ring is read to its end, although the twin waits */
	uint32_t ahead; /* and so many datagrams of the queue are read first */
	uint32_t more;	/* not 0, after a mark: so many of its datagrams at most have their turn */
	uint64_t at;	/* position */
	uint64_t looked_at; /* where the ring was read when the twin was last looked at */
	uint32_t looked;    /* the time of that, in units of 8 us */
};

/* A destination that the kernel serves. */
struct local_kernels {
	struct endpoint to;
	uint32_t looked; /* local_dir_generation() before no receiver was found */
};

/* Do threads that wait for the socket poll local_ring(), too?  Not before a sender has asked for the ring. */
enum local_watch { WATCH_NOT, WATCH_WANTED, WATCH_BEGUN };

enum local_look { LOOK_NOT, LOOK_POSTED, LOOK_ENDED };

struct local_udp {
	/* holder; first: local_turn.c */
	struct local_quiet quiet;
	bool calm;     /* its calls have no quick way that receives */
	uint64_t read; /* the position that was read, when local_turn() was last asked */
	/* control lock */
	struct sock_ref ref;
	struct local_place place;
	bool registered;
	bool stopped;	/* for good */
	bool connected; /* as it was when it registered */
	bool grouped;	/* it is registered with LOCAL_GROUP, too, as member */
	struct local_entry member;
	uint32_t n_kernel, kernel_room;
	nsec_t group_pause; /* before it looks again whether members can be reached */
	struct local_kernels
		*kernel; /* the destinations here that the kernel has got datagrams for */
	/* lock; control lock to write */
	struct list link; /* of receivers, while registered */
	struct local_entry entry;
	/* holder of local_ring() */
	struct list writers;
	uint64_t visited; /* the position that was read when the internal thread was last here */
	uint32_t left_in; /* the poll in which the internal thread last left the ring to others */
	/* any, atomic */
	enum local_watch watch; /* holder to write */
	enum local_look look_state;
	bool more;	/* of the holder: the last local_pull() has left something */
	unsigned tries; /* of local_find_group() since the last send to a group */
	/* in an inbox while look_state is LOOK_POSTED: asks the holder to look at the ring */
	struct inbox_item look;
	/* holder */
	struct segment segment; /* not open: nobody has asked yet */
	struct record_ring_reader reader;
	struct local_keeper *keeper; /* of datagrams that stay in the ring; NULL: none so far */
	uint32_t closed;	     /* how many rings it had before this one */
	struct inaddr addrs[LOCAL_ADDRESSES]; /* one of IPv6 is named by its index in records */
	uint32_t n_addrs;
	uint32_t dropped; /* as the ring had it when it was last looked at */
	uint64_t memory;
	uint16_t lowest;	  /* port, not in network order, that it believes a peer has */
	bool kernel_only;	  /* no datagram is sent through shared memory any more */
	uint32_t calls[2], phase; /* calls that send by the twin; of those that begin: the index */
	struct local_twin twin;
	struct local_groups *groups; /* NULL: it has joined none, ever */
};

enum local_target_state { TARGET_UNUSED, TARGET_ASKED, TARGET_OPEN, TARGET_REFUSED };

struct local_target {
	/* lock */
	struct list link;
	uint64_t process; /* the receiver */
	uint32_t socket;
	struct inaddr from, to; /* addresses that the receiver has agreed to */
	uint16_t port;		/* of the only sender that it hears, or 0 */
	uint16_t asked_port;
	/* holder to write, any to read; a futex */
	uint32_t state;
	/* holder to write */
	uint32_t gen; /* it changes when the target is asked, and when it ends */
	/* holder */
	struct record_addrs record; /* in the state TARGET_OPEN */
	struct local_end end;
	struct segment segment;
	struct record_ring_writer writer;
	uint64_t marked; /* the last position that local_change_group() waited for, or 0 */
};

/* ---- local_udp.c: receivers; members of struct sock_upcalls, see there ---------------------- */

bool local_receive(struct inet_sock *so);
void local_receive_stop(struct inet_sock *so);
void local_udp_end(struct inet_sock *so);
/* [HOLD_MODES] with the quick ways, then the same without those that receive. */
extern const struct sock_ops local_udp_ops[LOCAL_UDP_OPS];

/* lock: the receiver with this number, or NULL. */
struct local_udp *local_receiver(uint32_t socket);
/* control lock, or lock: holds the socket's home, also of one that ends.  NULL: a ring is held. */
struct ring *local_hold_home(struct local_udp *l);
/* holder: the index of an address of the host that records may have; LOCAL_NO_ADDRESS: it is not there. */
uint32_t local_address_at(const struct local_udp *l, const struct inaddr *addr);
/* control lock: the ring besides home that the socket's datagrams come by; NULL: none. */
struct ring *local_udp_ring(const struct inet_sock *so);
/*
 * internal thread, holder of home: the record ring is open.  local_receivers_run() makes threads that wait for
 * the socket poll local_ring(), too.
 */
void local_watch_later(struct local_udp *l);
/* internal thread, between rounds.  True: call it again soon. */
bool local_receivers_run(void);
#define LOCAL_PULL_MAX 64 /* records that one notice makes datagrams of */
/*
 * holder: makes datagrams of max records at most.  True: there may be more.  A socket whose queue is
 * full leaves the rest where it is, and one whose twin waits what comes after that.
 */
bool local_pull(struct local_udp *l, unsigned max);
/* In a forked child: receivers and targets are the parent's. */
void local_udp_forget(void);
/* Control lock: the socket's part, made if there is none; NULL: it cannot have one. */
struct local_udp *local_udp_part(struct inet_sock *so);

/* ---- local_udp_keep.c: datagrams as packets, which may stay in the ring (holder) ------------------- */

/* Does the program get datagrams where they are? */
static inline bool local_udp_stays(const struct inet_sock *so)
{
	return so->udp.in_place || so->udp.filter || so->udp.xtreme;
}
/*
 * The record that was peeked, as a frame.  NULL: no memory.  Its bytes stay where they are, if the program uses the
 * extra API; the frame has no Ethernet header then (l3 is 0).
 */
struct pkt *local_udp_frame(struct local_udp *l);
/* Does the socket receive a record with this header? */
typedef bool local_takes(const struct local_udp *l, const struct record_header *h);
/*
 * local_udp_stays(): the next records as frames, linked by next; they are consumed.  All are from one socket,
 * to one address, and the socket takes them; max of them at most, and they charge `room` at most.  *end: the last one.
 * NULL: the next record is for local_udp_frame(), or nothing is there.
 */
struct pkt *local_udp_run(struct local_udp *l, local_takes *takes, unsigned max, uint32_t room,
			  struct pkt **end, struct filter_sum *sum);
/* The ring is closed: what the program has of it needs the memory still. */
void local_udp_keep_all(struct local_udp *l);

/* ---- local_writer.c -------------------------------------------------------------------------- */

/* The handler of LOCAL_ASK. */
bool local_take_ask(struct local_link *link, const struct local_message *message, int *fds,
		    unsigned n);
/* control lock, no ring held: tells the writers that the ring is closed.  False: a ring is held. */
bool local_writers_end(struct local_udp *l);
/* local_udp.look.run */
void local_look_run(struct ring *ring, struct inbox_item *item);
/*
 * holder of home: the next poll looks at the ring.  False: nobody does; the home is another than local_ring(), or
 * all writers have ended.
 */
bool local_look_for_more(struct local_udp *l);

/* ---- local_turn.c: the ring, or the twin; holder -------------------------------------------- */

enum local_turn local_turn(struct inet_sock *so, unsigned says);
/* The socket has by_local from now on. */
void local_turn_begin(struct local_udp *l);
/* The next receive asks local_turn(): the ring is another, or the twin waits. */
void local_twin_unquiet(struct local_udp *l);
/* May the ring be read?  Not while it is the twin's turn. */
bool local_twin_lets(struct local_udp *l);
/* The twin does not wait any more. */
void local_twin_done(struct local_udp *l);
/* The socket has a new ring, which is read after what waits. */
void local_twin_pause(struct local_udp *l);
/* A mark was read: what the twin has comes before what follows the mark. */
void local_twin_mark(struct local_udp *l);

/* ---- local_target.c: senders ---------------------------------------------------------------- */

int local_find(struct inet_sock *so, const struct udp_way *way, struct dst_found *found);
bool local_is_there(const struct endpoint *to);
void local_filtered(const struct inet_sock *so);
void local_await(struct sock_ref ref, const struct endpoint *to,
		 const struct local_target_ref *target);
bool local_may_connect(struct inet_sock *so, const struct endpoint *to);
ssize_t local_udp_send(struct inet_sock *so, struct dst *dst, const struct msghdr *msg, size_t len,
		       bool lossy);
void local_send_stop(struct inet_sock *so);
/*
 * lock: the receiver of this entry, for what the socket sends from there to there; it is asked if it was
 * not before.  0; -EINPROGRESS: it has not answered yet; -errno: -ECONNREFUSED: its process has ended.
 */
int local_target_get(const struct inet_sock *so, const struct local_entry *entry,
		     const struct inaddr *from, const struct endpoint *to,
		     struct local_target_ref *ref);
/* holder of local_ring(): the receiver is not reached by it any more. */
void local_target_end(struct local_target *t);
/* The handler of LOCAL_RECORDS. */
bool local_take_records(struct local_link *link, const struct local_message *message, int *fds,
			unsigned n);
void local_targets_forget(void);

/* holder: has it agreed to a sender there? */
bool local_may_be_from(const struct local_udp *l, const struct record_header *h);
/* holder: could the kernel have delivered a datagram with these addresses? */
bool local_is_possible(const struct local_udp *l, const struct record_header *h);

/* holder: an address of a record; any address: it has none, whatever a writer says. */
static inline struct inaddr local_record_addr(const struct local_udp *l,
					      const struct record_header *h, uint32_t addr)
{
	if (!(h->flags & RECORD_IPV6))
		return addr_v4(addr);
	return addr < l->n_addrs ? l->addrs[addr] : addr_v4_any();
}

/* Does a receiver hear this sender?  Connected, it hears its peer only. */
static inline bool local_hears(const struct inet_sock *so, const struct inaddr *from, uint16_t port)
{
	return !so->udp.connected || (so->remote.port == port && addr_eq(&so->remote.addr, from));
}

/*
 * holder: the same, of a record.  A socket of AF_INET compares what the record has, whatever its
 * flags say: a number of an address of IPv6 is below LOCAL_ADDRESSES, and so no peer's address.
 */
static inline bool local_hears_record(const struct local_udp *l, const struct inet_sock *so,
				      const struct record_header *h)
{
	struct inaddr from;

	if (!so->udp.connected)
		return true;
	if (__builtin_expect(so->family == AF_INET, 1))
		return so->remote.port == h->from_port && addr_v4_of(&so->remote.addr) == h->from;
	from = local_record_addr(l, h, h->from);
	return local_hears(so, &from, h->from_port);
}

/* holder: the target of a destination, if it can be written to; else NULL. */
static inline struct local_target *local_target_of(const struct local_target_ref *ref)
{
	struct local_target *t = ref->target;

	return t->gen == ref->gen ? t : NULL;
}

/* ---- local_group.c: members of multicast groups; see local_group.h ---------------------------- */

void local_groups(struct inet_sock *so);
/* Control lock: it is no member for local senders any more.  Does nothing if it was none. */
void local_group_leave(struct local_udp *l);
/* lock: may a process ask it, as a member, for its ring by this message? */
bool local_group_is_for(const struct local_udp *l, const struct local_message *m);
/* holder: would the kernel have given this record to it, which was sent to a group? */
bool local_group_takes(const struct local_udp *l, const struct record_header *h);

/* ---- local_fan.c: senders to groups ------------------------------------------------------------- */

int local_find_group(struct inet_sock *so, const struct udp_way *way, const struct dst_found *wire,
		     struct dst_found *found);
/* local_udp_send() of a destination that fans. */
ssize_t local_fan_send(struct inet_sock *so, struct dst *dst, const struct msghdr *msg, size_t len,
		       bool lossy);

/* The pause after a failure that follows one with this pause; 0: it is the first. */
static inline nsec_t local_longer(nsec_t pause, nsec_t least, nsec_t most)
{
	if (!pause)
		return least;
	return 2 * pause < most ? 2 * pause : most;
}

/* ---- local_change.c: destinations that the kernel serves --------------------------------------- */

/* Control lock: was no receiver found there while the directory had this generation? */
bool local_is_kernels(const struct local_udp *l, const struct endpoint *to, uint32_t looked);
/* Control lock: from now on, the kernel gets datagrams to it. */
void local_note_kernels(struct local_udp *l, const struct endpoint *to, uint32_t looked);
/* The same; *found says so, and from when on it may be looked for again. */
void local_leave_to_kernel(struct local_udp *l, const struct endpoint *to, struct dst_found *found);
/*
 * Control lock, no ring held: a ring is open for the destination, found->local.  0: what the kernel has
 * got for it comes before what is written there from now on; -errno: the kernel goes on.
 */
int local_change(struct inet_sock *so, const struct endpoint *to, struct dst_found *found);
/*
 * The same for a group, for each of whose members here a ring is open.  -EAGAIN: one is too slow; -ESTALE: one
 * has no ring any more.
 */
int local_change_group(struct inet_sock *so, const struct endpoint *to,
		       const struct dst_found *found, const struct local_target_ref *members,
		       unsigned n);
/*
 * Control lock, no ring held: what this thread has sent through the loopback interface has arrived.
 * False: that is not known; a while after that has happened, it is found out again.
 */
bool local_have_arrived(nsec_t now);
/* holder of home: see struct sock_upcalls. */
int local_by_kernel(struct inet_sock *so, const struct dst *dst);
/* app: likewise. */
ssize_t local_by_twin(struct sock_ref ref, const struct msghdr *msg, int flags, int phase);

/* The message of a segment with a record ring. */
#define LOCAL_RECORDS_SEGMENT 3u /* its kind */

static inline size_t local_records_size(uint32_t cells)
{
	return SEGMENT_PAGE + record_ring_size(cells);
}

static inline struct record_ring_shared *local_records(const struct segment *segment,
						       uint32_t cells)
{
	return segment_at(segment, SEGMENT_PAGE, record_ring_size(cells), 64);
}

/* ---- local_udp_quick.c ---------------------------------------------------------------------- */

#define X(name, mode)                        \
	QUICK_DECLARE(local_udp_quick, name) \
	QUICK_LOOK_DECLARE(local_udp_quick, name)
SOCK_MODES(X)
#undef X

/* A member of struct sock_upcalls. */
ssize_t local_udp_look(struct sock_ref ref, struct msghdr *msg, int flags, enum hold_mode mode);

#endif
