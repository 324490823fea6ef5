/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port group: all rings of one user on one interface, of one process or of several.
 *
 * They share the XDP link, the steering maps, the UMEM, and one AF_XDP socket per RX queue that
 * only has the fill and the completion ring (the anchor).  Each ring also has AF_XDP sockets of
 * its own.  The members' common state is in the control segment (struct group_ctl), in shared
 * memory.  Every member holds every descriptor, so the group lives as long as any member.
 *
 * Role		a member is a process; a slot is a ring of a member.  Any member makes
 *		and reclaims slots and members, under ctl->lock.
 * Lifetime	of a slot: FREE, USED, GONE (its frames may still be under way),
 *		FREE.  A member is alive while it holds its record lock (byte
 *		`index` of the segment), which the kernel releases when the process
 *		dies.
 * Ordering	owner[] is authoritative for frames; the pool's stack and the rings
 *		are made from it or agree with it.  The word of a frame is written
 *		before the frame is handed on, so that a member that finds the frames
 *		of a dead one knows whose they were.  Lock order: lock, comp, pool;
 *		fill with no other lock than `lock`.
 * Progress	on the path of a packet, a lock is tried and never waited for.  If the
 *		holder of a lock died, the next member that wants it takes it over
 *		and repairs what it protects.
 *
 * A faulty member may have written anything into this memory, and still write: numbers from it are
 * read once, and checked before they index anything.
 */
#ifndef RING_XDP_XDP_GROUP_H
#define RING_XDP_XDP_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "ring/reuseport.h"
#include "ring/xdp/xdp_steer.h"

/* Bytes of locked memory for frames: at least MIN, and QUEUE for each RX queue. */
#define XDP_UMEM_SIZE_MIN (16u << 20)
#define XDP_UMEM_SIZE_QUEUE (2u << 20)
#define XDP_UMEM_SIZE_MAX (XDP_UMEM_SIZE_QUEUE * XDP_STEER_QUEUES)
#define XDP_FILL_ENTRIES 4096u /* of the fill ring of an RX queue; fill_target is not more */
#define XDP_COMP_ENTRIES 4096u
#define XDP_FRAMES_MAX (XDP_UMEM_SIZE_MAX >> 11)
#define XDP_TX_RESERVE 256u /* free frames that are not put into fill rings */
#define XDP_GROUP_REAP 256u /* most completions that are taken at once */

/* Linux 6.6; Debian 12's headers are older. */
#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

#define GROUP_MAGIC 0x7067786400616d76ull
#define GROUP_VERSION 9u
#define GROUP_SETTLE_MAX (5 * NSEC_PER_SEC) /* for the carrier, after the program was attached */
#define GROUP_MEMBERS 128 /* 32 processes, and those that died and are not reclaimed yet */

/* ---- owner words ---------------------------------------------------------------- */

enum owner_kind {
	OWNER_POOL, /* zero, as all words of a new segment */
	OWNER_HELD, /* slot: on its free stack, or in a packet that it handed out */
	OWNER_TX,   /* slot: in a TX ring or the driver, not completed */
	OWNER_FILL, /* slot that put it there, RX queue, position: not received yet */
};

static inline uint64_t owner_word(enum owner_kind kind, unsigned slot)
{
	return kind | (uint64_t)slot << 8;
}

static inline uint64_t owner_fill(unsigned slot, unsigned queue, uint32_t pos)
{
	return owner_word(OWNER_FILL, slot) | (uint64_t)queue << 24 | (uint64_t)pos << 32;
}

static inline enum owner_kind owner_kind(uint64_t word)
{
	return word & 0xff;
}

static inline unsigned owner_slot(uint64_t word)
{
	return word >> 8 & 0xffff;
}

static inline unsigned owner_queue(uint64_t word)
{
	return word >> 24 & 0xff;
}

static inline uint32_t owner_pos(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

/* ---- the control segment ---------------------------------------------------------- */

struct group_lock {
	uint32_t word;	 /* atomic: 0: free; else its holder writes generation << 8 | index + 1 */
	uint32_t wanted; /* atomic: 0, or as word: the member in group_lock_wait() that is next */
} __attribute__((aligned(64)));

/* What a member that wants a lock has seen of another one that is next; zero at first. */
struct group_turn {
	uint32_t next;	 /* as group_lock.wanted */
	uint32_t missed; /* how often the lock was free since it is next */
};

struct group_member {
	uint32_t used; /* atomic: 0: no member; else the generation of its member plus one */
	uint32_t gen;  /* atomic: raised when the index is taken, below 2^24 */
	int32_t pid;   /* for debugging */
};

enum group_slot_state { SLOT_FREE, SLOT_USED, SLOT_GONE };

struct group_slot {
	uint32_t state; /* atomic: enum group_slot_state; ctl->lock to write */
	uint32_t member, gen;
	uint32_t drained; /* atomic: the last audit.seq after which its RX rings were empty once */
	uint32_t killed;  /* GONE: its RX rings may have had frames */
	uint32_t spare;	  /* USED, atomic: frames on its free stack when it last was idle; holder */
	nsec_t since;	  /* GONE: CLOCK_MONOTONIC */
};

/*
 * An audit finds the frames that were in the RX rings of dead members: the kernel took them from
 * a fill ring, and no ring of a living member received them.
 */
enum audit_stage { AUDIT_NONE, AUDIT_WANTED, AUDIT_MARKED, AUDIT_DRAINING };

struct group_audit {
	uint32_t stage; /* atomic: enum audit_stage; ctl->lock to write */
	uint32_t again; /* a member died since the limits were marked */
	uint32_t seq;	/* atomic: number of the audit; ctl->lock to write */
	nsec_t since;	/* beginning of this stage */
	/* the kernel had taken the positions before it when the limits were marked */
	uint32_t limit[XDP_STEER_QUEUES];
};

/* A flow with several receivers.  The program's part of it is struct xdp_steer_share. */
struct group_share {
	struct xdp_steer_key3 key;
	struct xdp_steer_exact exact; /* IPv4: zero */
	struct reuseport_members members;
};

struct group_ctl {
	/* set by the creator */
	uint64_t magic;
	uint32_t version;
	uint32_t size;
	uint32_t umem_size;
	uint32_t frames, frame_shift;
	uint32_t queues; /* anchors */
	uint32_t fill_target;
	uint32_t native, zerocopy;
	uint32_t jumbo; /* sockets take and give frames in pieces, of any MTU */
	nsec_t made;
	nsec_t settle_until; /* attaching the program may have taken the link down until then */
	/* lock */
	struct group_lock lock;
	struct group_member members[GROUP_MEMBERS];
	struct group_slot slots[XDP_STEER_SLOTS];
	struct group_audit audit;
	struct group_share shares[XDP_STEER_SHARES]; /* without members: free */
	uint32_t n_slots;			     /* atomic: slots in state USED; any reads */
	/* pool_lock */
	struct group_lock pool_lock;
	uint32_t pool_n; /* atomic: any reads */
	uint32_t pool[XDP_FRAMES_MAX];
	/* for the producer index of the fill ring; the consumer index of the completion ring */
	struct group_lock fill_lock[XDP_STEER_QUEUES];
	struct group_lock comp_lock[XDP_STEER_QUEUES];
	/* any, atomic, zero-copy queues: interrupts are masked; time of the last busy poll */
	uint32_t masked[XDP_STEER_QUEUES];
	nsec_t polled[XDP_STEER_QUEUES];
	/* any, atomic: counters for tests and debugging */
	uint64_t stolen;    /* locks taken from a holder that died */
	uint64_t reclaimed; /* frames of dead members */
	uint64_t odd;	    /* completions and numbers that are not possible */
	/* atomic: the member that owns the frame writes */
	uint64_t owner[XDP_FRAMES_MAX] __attribute__((aligned(64)));
};

/* A fill or completion ring: a ring of addresses.  One member at a time uses it, by a lock. */
struct group_ring {
	uint32_t *producer, *consumer, *flags; /* atomic: the kernel writes one index, and flags */
	uint64_t *addrs;
	uint32_t size; /* a power of two */
};

/* What the other end of a connection to the answerer (xdp_group_join.c) has said so far. */
enum group_conn_rank {
	GROUP_CONN_SILENT,
	GROUP_CONN_MEMBER, /* that it is a member, which any process of the user can say */
	GROUP_CONN_PROVEN, /* its proof; it got the descriptors */
};

/*
 * When there are GROUP_MEMBERS connections, the oldest of those with the lowest rank gives way to a
 * newcomer, which may say more.  Only PROVEN ones never do.
 */
struct group_conn {
	int fd;
	enum group_conn_rank rank;
};

/* A member's view of the group. */
struct xdp_group {
	/* set when joined */
	struct group_ctl *ctl;
	uint8_t *umem;
	uint32_t umem_size;
	unsigned frames, frame_shift; /* copies of the segment's, which others cannot write */
	unsigned queues;
	unsigned fill_target;
	bool native, zerocopy, jumbo;
	int ctl_fd;
	bool lost;    /* any, atomic: taken for dead while it lived; it gets no lock any more */
	bool entered; /* this process is a member */
	unsigned member;
	uint32_t gen;
	struct group_turn sweep_turn; /* group_sweep() */
	struct group_ring fill[XDP_STEER_QUEUES];
	struct group_ring comp[XDP_STEER_QUEUES];
};

/* ---- xdp_group_lock.c ---------------------------------------------------------- */

enum group_lock_result {
	GROUP_BUSY,
	GROUP_LOCKED,
	GROUP_DIED, /* locked, but its last holder died with it: repair first */
};

/*
 * Tries to take the lock, for some microseconds if another member has it.  If the caller dies
 * while it repairs, the next holder gets GROUP_DIED, too.
 */
enum group_lock_result group_lock_try(struct xdp_group *g, struct group_lock *lock);
/*
 * Waits up to half a second for one holder, and four times that for all; not on the path of a packet.
 * For ctl->lock, whose data needs no repair.  Of the members that wait, one is next: no other takes the
 * lock before it, unless it is dead or seems to be stopped.  False: it is not locked.
 */
bool group_lock_wait(struct xdp_group *g, struct group_lock *lock);
/*
 * Tries to take a lock for which other members wait.  GROUP_BUSY also while one of them is next;
 * *turn is of this caller's previous try.
 */
enum group_lock_result group_lock_try_in_turn(struct xdp_group *g, struct group_lock *lock,
					      struct group_turn *turn);
void group_lock_release(struct xdp_group *g, struct group_lock *lock);

/* Is the member of this index and generation alive?  Asks the kernel. */
bool group_member_alive(const struct xdp_group *g, unsigned member, uint32_t gen);

/* Takes a free index and the record lock on it.  -EUSERS: no index is free. */
int group_member_enter(struct xdp_group *g);
/* Gives the index back.  The member has closed all its slots. */
void group_member_leave(struct xdp_group *g);
/* Frees the index of a member, unless a new member of another generation has it by now. */
void group_member_vacate(struct xdp_group *g, unsigned member, uint32_t gen);
/*
 * Takes the record lock again, in case a close() in this process has dropped it.  False: another
 * member took this one for dead meanwhile; its index, slots and frames are not its own any more.
 */
bool group_member_renew(struct xdp_group *g);

/* ---- xdp_group_frames.c --------------------------------------------------------- */

/* A slot's own stack of free frames, with room for all frames. */
struct group_stack {
	uint32_t *frames;
	unsigned n;
	unsigned slot;
};

/*
 * Move up to n frames from the pool to the stack, or back; return their number, 0 also when the
 * pool is locked.
 */
unsigned group_take(struct xdp_group *g, struct group_stack *to, unsigned n);
unsigned group_give(struct xdp_group *g, struct group_stack *from, unsigned n);

/*
 * Fills up the fill ring of a queue, less the frames that are waiting in the caller's RX ring.
 * Returns how many it still lacks.
 */
unsigned group_fill(struct xdp_group *g, struct group_stack *from, unsigned queue,
		    unsigned waiting);

/* Moves frames that were sent, by any member, to the stack; returns their number. */
unsigned group_reap(struct xdp_group *g, struct group_stack *to, unsigned queue);

static inline bool group_has_completions(const struct group_ring *comp)
{
	return __atomic_load_n(comp->producer, __ATOMIC_RELAXED) !=
	       __atomic_load_n(comp->consumer, __ATOMIC_RELAXED);
}

static inline unsigned group_pool_count(const struct xdp_group *g)
{
	return __atomic_load_n(&g->ctl->pool_n, __ATOMIC_RELAXED);
}

/* Sets the owner word of a frame, which the caller's slot owns or takes over. */
static inline void group_set_owner(const struct xdp_group *g, uint32_t frame, uint64_t word)
{
	__atomic_store_n(&g->ctl->owner[frame], word, __ATOMIC_RELAXED);
}

/* Repairs the fill rings if a member died while it filled them.  False: locked, try again. */
bool group_settle(struct xdp_group *g);

/*
 * Moves frames to the pool: all that were sent, those that slots with dead[slot] set held, and
 * those that the kernel took from the fill rings before limit[queue].  dead or limit may be
 * NULL.  False: locked, try again.
 */
bool group_reclaim(struct xdp_group *g, const uint8_t *dead, const uint32_t *limit);

/* The number of frames that belong to the slot, except those in fill rings. */
unsigned group_count_slot(const struct xdp_group *g, unsigned slot);

/* Puts all frames from `first` on into the pool; before there is any other member. */
void group_frames_init(struct group_ctl *ctl, uint32_t first);

/* ---- xdp_group_sweep.c ----------------------------------------------------------- */

/*
 * How long the frames of a slot that is GONE are not used again, because completions may still
 * arrive.  A zero-copy driver sends from the frames and keeps them while its link is down.
 */
#define GROUP_QUARANTINE (300 * NSEC_PER_MSEC)
#define GROUP_QUARANTINE_ZEROCOPY (10 * NSEC_PER_SEC)

/* The sweep asks the port to remove everything that is steered to slots with slots[slot] set. */
typedef void (*group_unsteer_fn)(void *arg, const uint8_t slots[XDP_STEER_SLOTS]);

/* CLOCK_MONOTONIC in ns: the same for every member. */
nsec_t group_now(void);

/* Takes a free slot.  -EAGAIN: group_lock_wait() failed; -ENOSPC: no slot is free. */
int group_slot_open(struct xdp_group *g, unsigned *slot);
/*
 * Closes a slot, which has given back the frames that it could.  killed: it has not, and frames
 * may be in its RX rings.  -EAGAIN: group_lock_wait() failed.
 */
int group_slot_close(struct xdp_group *g, unsigned slot, bool killed, nsec_t now);
bool group_slot_is_dead(const struct xdp_group *g, unsigned slot);

/* Unsteers the slots of dead members and reclaims their frames.  True: call it again soon. */
bool group_sweep(struct xdp_group *g, nsec_t now, group_unsteer_fn unsteer, void *arg);

/* The RX rings of the slot were empty once after seq was read from audit.seq. */
static inline void group_slot_drained(struct xdp_group *g, unsigned slot, uint32_t seq)
{
	/* release: pairs with all_drained(), after which owner words are read */
	__atomic_store_n(&g->ctl->slots[slot].drained, seq, __ATOMIC_RELEASE);
}

/*
 * holder: n frames of the slot are on its free stack; its other OWNER_HELD frames are in packets,
 * or were lost by a fault.  For tests and debugging.
 */
static inline void group_slot_tell_spare(const struct xdp_group *g, unsigned slot, unsigned n)
{
	__atomic_store_n(&g->ctl->slots[slot].spare, n, __ATOMIC_RELAXED);
}

/* A point where a member may die: a test ends the process at any one of them. */
#ifdef XDP_GROUP_STEPS
extern void (*group_step)(void);
#define GROUP_STEP() group_step()
#else
#define GROUP_STEP() ((void)0)
#endif

#endif
