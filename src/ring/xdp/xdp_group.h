/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port group: all rings of one user on one interface, of one process or of many.
 *
 * They share the XDP link, the steering maps, the UMEM, and per RX queue one
 * AF_XDP socket that only carries fill and completion rings (the anchor); each
 * ring has sockets of its own beside it.  What must be agreed on is in the
 * control segment.  Every member holds every descriptor, so that the group
 * lives as long as one of them does, whoever that is.
 *
 * Role		a member is a process; a slot is a ring of one.  Slots and members
 *		are made and reclaimed under ctl->lock, by any member.
 * Lifetime	of a slot: FREE, USED, GONE (its frames may still be under way),
 *		FREE.  A member is alive while it holds its record lock (byte
 *		`index` of the segment), which the kernel drops at any death.
 * Ordering	owner[] is the truth about frames; the pool's stack and the rings
 *		are made from it or agree with it.  The word of a frame is written
 *		before the frame is handed on, so that whoever finds the pieces of
 *		a dead member knows whose they were.  Locks: lock, comp, pool;
 *		fill with none but lock.
 * Progress	a lock is tried, never waited for on the way of a packet.  One whose
 *		holder died is taken over, and what it protects is mended, by the
 *		next who wants it.
 *
 * Everything here was possibly written by somebody else's mistake: numbers are
 * checked before they index anything.
 */
#ifndef RING_XDP_XDP_GROUP_H
#define RING_XDP_XDP_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "ring/reuseport.h"
#include "ring/xdp/xdp_steer.h"

/* Locked memory: of an interface with few RX queues, and for each of many. */
#define XDP_UMEM_SIZE_MIN (16u << 20)
#define XDP_UMEM_SIZE_QUEUE (2u << 20)
#define XDP_UMEM_SIZE_MAX (XDP_UMEM_SIZE_QUEUE * XDP_STEER_QUEUES)
#define XDP_FILL_ENTRIES 4096u /* of the fill ring of an RX queue; what it is kept filled to */
#define XDP_COMP_ENTRIES 4096u
#define XDP_FRAMES_MAX (XDP_UMEM_SIZE_MAX >> 11)
#define XDP_TX_RESERVE 256u /* free frames that are not used to fill */
#define XDP_GROUP_REAP 256u /* completions taken at once */

#define GROUP_MAGIC 0x7067786400616d76ull
#define GROUP_VERSION 7u
#define GROUP_MEMBERS 128 /* 32 and those that died just now */

/* ---- owner words ---------------------------------------------------------------- */

enum owner_kind {
	OWNER_POOL, /* zero: so a fresh segment begins */
	OWNER_HELD, /* slot: on its free stack, or with whoever it gave the packet to */
	OWNER_TX,   /* slot: put, not completed */
	OWNER_FILL, /* slot (who put it there), RX queue, position: and not yet seen again */
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

/* 0: free, else who has it: generation and index of a member. */
struct group_lock {
	uint32_t word;
} __attribute__((aligned(64)));

struct group_member {
	uint32_t used; /* 0: nobody; else the generation of its member and one */
	uint32_t gen;  /* raised when it is taken, below 2^24 */
	int32_t pid;   /* for people */
};

enum group_slot_state { SLOT_FREE, SLOT_USED, SLOT_GONE };

struct group_slot {
	uint32_t state;
	uint32_t member, gen;
	uint32_t drained; /* the last ctl->audit.seq after which its RX rings were empty once */
	uint32_t killed;  /* GONE: its RX rings may have had frames */
	uint32_t spare;	  /* USED: on its free stack when it last found nothing to do */
	nsec_t since;	  /* GONE: CLOCK_MONOTONIC */
};

/*
 * Finding the frames that were in the RX rings of the dead: the kernel took them
 * from the fill ring, and no living ring got them.
 */
enum audit_stage { AUDIT_NONE, AUDIT_WANTED, AUDIT_MARKED, AUDIT_DRAINING };

struct group_audit {
	uint32_t stage;
	uint32_t again; /* somebody died since it was marked */
	uint32_t seq;
	nsec_t since; /* of this stage */
	/* positions before it were taken by the kernel when it was marked */
	uint32_t limit[XDP_STEER_QUEUES];
};

/* A flow with several receivers; its part of the program's memory is the map's. */
struct group_share {
	struct xdp_steer_key3 key;
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
	nsec_t made;
	nsec_t settle_until; /* the link may be down until then: we attached to it */
	/* lock */
	struct group_lock lock;
	struct group_member members[GROUP_MEMBERS];
	struct group_slot slots[XDP_STEER_SLOTS];
	struct group_audit audit;
	struct group_share shares[XDP_STEER_SHARES]; /* without members: free */
	uint32_t n_slots;			     /* not FREE; any reads */
	/* pool_lock */
	struct group_lock pool_lock;
	uint32_t pool_n; /* any reads */
	uint32_t pool[XDP_FRAMES_MAX];
	/* the producer index of the fill ring; the consumer index of the completion ring */
	struct group_lock fill_lock[XDP_STEER_QUEUES];
	struct group_lock comp_lock[XDP_STEER_QUEUES];
	/* any, atomic, zero-copy queues: interrupts are masked; when they were busy polled */
	uint32_t masked[XDP_STEER_QUEUES];
	nsec_t polled[XDP_STEER_QUEUES];
	/* any, atomic: counters for tests and people */
	uint64_t stolen;    /* locks whose holder had died */
	uint64_t reclaimed; /* frames of the dead */
	uint64_t odd;	    /* completions and numbers that made no sense */
	/* whoever the frame belongs to, atomic */
	uint64_t owner[XDP_FRAMES_MAX] __attribute__((aligned(64)));
};

/* A ring of addresses that members write, or read, in turns. */
struct group_ring {
	uint32_t *producer, *consumer, *flags;
	uint64_t *addrs;
	uint32_t size; /* a power of two */
};

/* A member's view of the group. */
struct xdp_group {
	/* set when joined */
	struct group_ctl *ctl;
	uint8_t *umem;
	uint32_t umem_size;
	unsigned frames, frame_shift; /* copies: nobody else's memory */
	unsigned queues;
	unsigned fill_target;
	bool native, zerocopy;
	int ctl_fd;
	bool lost;    /* any, atomic: buried while it lived; it gets no lock any more */
	bool entered; /* is a member */
	unsigned member;
	uint32_t gen;
	struct group_ring fill[XDP_STEER_QUEUES];
	struct group_ring comp[XDP_STEER_QUEUES];
};

/* ---- xdp_group_lock.c ---------------------------------------------------------- */

enum group_lock_result {
	GROUP_BUSY,
	GROUP_LOCKED,
	GROUP_DIED, /* locked, but its last holder was not done: mend first */
};

/*
 * Tries; for some microseconds if somebody has it.  A mender that dies as well
 * leaves it to the next.
 */
enum group_lock_result group_lock_try(struct xdp_group *g, struct group_lock *lock);
/* For some 50 ms: not on the way of a packet.  What it protects needs no mending. */
bool group_lock_wait(struct xdp_group *g, struct group_lock *lock);
void group_lock_release(struct xdp_group *g, struct group_lock *lock);

/* Is it alive?  Asks the kernel. */
bool group_member_alive(const struct xdp_group *g, unsigned member, uint32_t gen);

/* Takes a free index and the record lock on it.  -EUSERS: there is none. */
int group_member_enter(struct xdp_group *g);
/* All its slots are closed. */
void group_member_leave(struct xdp_group *g);
/* The index is free, unless a newcomer has it by now. */
void group_member_vacate(struct xdp_group *g, unsigned member, uint32_t gen);
/*
 * Holds the record lock, or takes it again: some close() may have dropped it.  False: it
 * was buried meanwhile, and neither index nor slots nor frames are its own any more.
 */
bool group_member_renew(struct xdp_group *g);

/* ---- xdp_group_frames.c --------------------------------------------------------- */

/* A slot's own stack of free frames.  Never full: it has room for all there are. */
struct group_stack {
	uint32_t *frames;
	unsigned n;
	unsigned slot;
};

/* Moves up to n frames; how many.  0 also when the pool is busy. */
unsigned group_take(struct xdp_group *g, struct group_stack *to, unsigned n);
unsigned group_give(struct xdp_group *g, struct group_stack *from, unsigned n);

/* Fills up the fill ring of a queue, less what is waiting; how many it still lacks. */
unsigned group_fill(struct xdp_group *g, struct group_stack *from, unsigned queue,
		    unsigned waiting);

/* Takes what was sent, by whomever; how many. */
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

/* A frame changes hands. */
static inline void group_set_owner(const struct xdp_group *g, uint32_t frame, uint64_t word)
{
	__atomic_store_n(&g->ctl->owner[frame], word, __ATOMIC_RELAXED);
}

/* Mends what the dead left behind in the fill rings; false: busy, try again. */
bool group_settle(struct xdp_group *g);

/*
 * To the pool: all that was sent, what slots held that are dead[], and what the
 * kernel took from the fill rings before limit[].  Either may be NULL.
 */
bool group_reclaim(struct xdp_group *g, const uint8_t *dead, const uint32_t *limit);

/* Frames that belong to the slot, in any way but the fill ring. */
unsigned group_count_slot(const struct xdp_group *g, unsigned slot);

/* All frames but the first ones are in the pool; before there is anybody else. */
void group_frames_init(struct group_ctl *ctl, uint32_t first);

/* ---- xdp_group_sweep.c ----------------------------------------------------------- */

/*
 * For completions that still come.  A driver that sends from the frames themselves
 * keeps them while its link is down.
 */
#define GROUP_QUARANTINE (300 * NSEC_PER_MSEC)
#define GROUP_QUARANTINE_ZEROCOPY (10 * NSEC_PER_SEC)

/* What the sweep asks of the port: nothing must be steered to these slots any more. */
typedef void (*group_unsteer_fn)(void *arg, const uint8_t slots[XDP_STEER_SLOTS]);

/* CLOCK_MONOTONIC: the same for every member. */
nsec_t group_now(void);

/* Takes a free slot.  -EAGAIN, -ENOSPC. */
int group_slot_open(struct xdp_group *g, unsigned *slot);
/* It has given back what it could; killed: not even that. */
int group_slot_close(struct xdp_group *g, unsigned slot, bool killed, nsec_t now);
bool group_slot_is_dead(const struct xdp_group *g, unsigned slot);

/* Slots of the dead are unsteered, and what was theirs is found.  True: it is not done. */
bool group_sweep(struct xdp_group *g, nsec_t now, group_unsteer_fn unsteer, void *arg);

/* The RX rings of the slot were empty after this was read from audit.seq. */
static inline void group_slot_drained(struct xdp_group *g, unsigned slot, uint32_t seq)
{
	__atomic_store_n(&g->ctl->slots[slot].drained, seq, __ATOMIC_RELEASE);
}

/* holder: HELD less these are with somebody, or were lost by a mistake.  For tests and people. */
static inline void group_slot_tell_spare(const struct xdp_group *g, unsigned slot, unsigned n)
{
	__atomic_store_n(&g->ctl->slots[slot].spare, n, __ATOMIC_RELAXED);
}

/*
 * Tests end the process here, at any one of these: so each is a point where a
 * member may die.
 */
#ifdef XDP_GROUP_STEPS
extern void (*group_step)(void);
#define GROUP_STEP() group_step()
#else
#define GROUP_STEP() ((void)0)
#endif

#endif
