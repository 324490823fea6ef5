/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of the xdp port.
 *
 * A port is this process's membership in the port group of its interface (see
 * xdp_group.h): the descriptors all members hold, and the group's memory.
 * A queue is a slot of the group: its flows, and one AF_XDP socket per RX queue
 * of the interface, with RX ring and TX ring; fill and completion rings are the
 * group's.
 *
 * Life of a frame: in the group's pool, on the queue's free stack, in a fill
 * ring, in the RX ring, with whoever took it from rx_burst() or tx_get(), or put
 * and not yet reaped (TX ring, driver, completion ring).
 */
#ifndef RING_XDP_XDP_INTERNAL_H
#define RING_XDP_XDP_INTERNAL_H

#include <linux/if_xdp.h>
#include <pthread.h>
#include <sys/resource.h>
#include <xdp/xsk.h>

#include "base/list.h"
#include "ring/deathmark.h"
#include "ring/grace.h"
#include "ring/port.h"
#include "ring/xdp/xdp_group.h"
#include "ring/xdp/xdp_steer.h"

#define XDP_RX_ENTRIES 4096u /* of a lone ring on one RX queue */
#define XDP_TX_ENTRIES 2048u
#define XDP_FILL_BATCH 64u /* most frames taken from an RX ring before the fill ring is touched */
#define XDP_REAP_IDLE 16u  /* ... when there is time */
#define XDP_REAP_BATCH 64u /* frames sent before the completion rings are looked at */
#define XDP_KERNEL_HEADROOM 256u /* XDP_PACKET_HEADROOM, kept free in each frame */

/* Largest IP packet in a frame of this size: less the headroom, Ethernet and one tag. */
#define XDP_MTU_OF(frame) ((frame)-XDP_KERNEL_HEADROOM - 18)
/* Native XDP wants more of a page for itself (veth takes 3504). */
#define XDP_MTU_MAX 3500u

/* Linux 6.6; Debian 12's headers are older. */
#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

struct xdp_map {
	void *addr;
	size_t len;
};

/*
 * Zero-copy: a thread that spins runs the driver's NAPI instance itself (busy
 * polling), so that a frame costs no interrupt; see xdp_drive.c.
 */
#define XDP_DRIVE_QUIET 4096u /* idle rounds without a frame: an interrupt brings the next one */

struct xdp_drive {
	/* holder */
	uint32_t quiet;	    /* idle rounds since the last frame; or since calls were useless */
	uint8_t hits;	    /* bursts that a call brought, of this trial */
	uint8_t misses;	    /* bursts that came between two calls */
	uint8_t tx_misses;  /* calls in a row that did not send */
	uint8_t trials;	    /* that were in vain */
	bool useless;	    /* calls were not seen to bring frames, or take too long */
	bool brought;	    /* the last call did */
	nsec_t cost;	    /* of a call, lately */
	nsec_t stuck_since; /* the TX ring stands still; 0: it does not */
	uint32_t calls;	    /* any reads */
	uint32_t bursts;    /* that calls brought */
	uint32_t between;   /* that came between two calls */
	/* service */
	uint32_t calls_seen;
};

/* One AF_XDP socket: the share of one RX queue and of the TX queue of the same number. */
struct xdp_sock {
	/* holder */
	struct xsk_ring_cons rx;
	struct xsk_ring_prod tx;
	unsigned taken;	 /* from the RX ring since the fill ring was looked at */
	struct pkt *big; /* what came of it so far; NULL: dropped */
	bool in_big;	 /* the last descriptor is continued in the next */
	struct xdp_drive drive;
	/* set when opened */
	int fd;
	int driver_fd; /* the anchor: busy polls the queue's NAPI instance */
	struct xdp_map maps[2];
	/* service */
	uint32_t drain_to; /* the RX ring is drained when it was read up to here */
};

struct xdp_queue {
	struct port_queue base;
	/* holder, every burst */
	struct xdp_group *group;
	uint8_t *umem;
	struct pkt *pkts; /* one per frame, by frame number */
	struct group_stack free;
	uint64_t *owner;    /* of the frames */
	uint64_t held_word; /* what is written there when a frame is ours, */
	uint64_t sent_word; /* and when it was put */
	unsigned nframes;
	unsigned frame_shift;
	unsigned free_max;    /* on the stack; more go to the pool */
	unsigned told_spare;  /* on the stack, as the group was told */
	unsigned held;	      /* packets of rx_burst() and tx_get() that did not come back */
	unsigned held_max;    /* more are dropped */
	unsigned fill_batch;  /* frames taken from an RX ring before its fill ring is touched */
	unsigned next;	      /* socket rx_burst() looks at first */
	unsigned idles;	      /* bursts that found nothing */
	unsigned tx_last;     /* socket of the last frame put */
	unsigned tx_unreaped; /* put and not reaped, by us */
	uint64_t tx_dirty;    /* sockets with frames that were not flushed, a bit each */
	uint64_t tx_stuck;    /* sockets of whose TX ring the kernel did not take all */
	/* holder, see xdp_big.c */
	struct pkt_pool big_pool;
	struct list bigs;
	unsigned nbigs;
	/* set when opened */
	bool zerocopy;
	unsigned slot;
	unsigned nsocks;
	unsigned tx_socks; /* the first ones: of queues that send */
	int fds;	   /* readable when one of several sockets is; -1: there is only one */
	/* the port's lock */
	struct list link;
	uint32_t drain_seq; /* that drain_to is for */
	struct xdp_sock socks[XDP_STEER_QUEUES];
};

/* Generic netlink, to mask the interrupts of queues that are busy polled. */
struct xdp_napi {
	int fd; /* -1: there is nothing to mask, or no way to */
	uint16_t family;
};

struct xdp_port {
	struct port base;
	/* set when opened */
	unsigned rx_queues;
	bool native;
	bool grew;    /* see struct xdp_device; known to whoever made the group */
	unsigned uid; /* effective, of whoever opened it: the group's */
	struct grace grace;
	struct xdp_group group;
	/* descriptors all members have */
	int umem_fd;
	int wake_fd; /* written to: everybody's service() is due */
	int link_fd;
	int xsks_fd;
	int flows3_fd;
	int flows5_fd;
	int local_ports_fd;
	int shares_fd;
	int gone_fd;
	int fences_fd; /* these two not when it is fenced */
	int grants_fd;
	int lives_fd;
	int kernel_fd;
	int conf_fd;
	int anchors[XDP_STEER_QUEUES];
	/* while it is opened */
	pthread_t toucher;
	bool touching;
	bool told_drive; /* any, atomic */
	/* mapped */
	struct xdp_map ctl_map, umem_map;
	struct xdp_map fill_maps[XDP_STEER_QUEUES], comp_maps[XDP_STEER_QUEUES];
	struct xdp_steer_conf *conf; /* mapped from the program's memory */
	size_t conf_len;
	struct xdp_steer_conn *local_ports; /* by number, as it is in a frame; any member writes */
	struct xdp_steer_share *shares;	    /* under the group's lock; one's own slot any time */
	/* control lock of sock; any to read, atomic */
	bool fenced;		 /* see port_ops.fence */
	struct list grants;	 /* what may still come; does not change then */
	struct deathmarks lives; /* by slot; one's own */
	/* lock: open_queue, close_queue, service */
	pthread_mutex_t lock;
	struct list queues;
	/* service */
	int epoll_fd; /* readable: service() is due */
	int timer_fd;
	int listen_fd;		  /* we have the name: newcomers come here; else -1 */
	bool listen_rests;	  /* there is no descriptor for them: not watched meanwhile */
	int lifeline_fd;	  /* to the member that has it; else -1 */
	int conns[GROUP_MEMBERS]; /* listen_fd: from the others */
	unsigned n_conns;
	struct xdp_napi napi;
	nsec_t swept;
	bool sweeping;	   /* the last sweep has more to do */
	uint32_t rung_seq; /* of the audit the wakeup was last signalled for */
};

/* An interface, as ioctl(2) tells. */
struct xdp_device {
	int ifindex;
	char name[16];
	char driver[32];  /* "" when it does not tell */
	char kind[16];	  /* of rtnetlink, set by xdp_kind_check(); "" for hardware */
	unsigned flags;	  /* IFF_* */
	unsigned hw_type; /* ARPHRD_* */
	uint8_t mac[6];
	uint32_t mtu;
	unsigned rx_queues;  /* 0 when it does not tell */
	unsigned max_queues; /* that it could be given */
	bool combined;	     /* they send as well: ethtool -L calls them so */
	bool is_virtual;
	bool carrier; /* or it does not tell */
	bool grew;    /* set by recount: it has RX queues only while a program is attached */
};

/* xdp_device.c: -EXDEV where the calling thread is in another network namespace than ours. */
int xdp_device_query(struct xdp_device *dev, int ifindex);
/* The queues once more: attaching a program changes them with some drivers. */
int xdp_device_recount(struct xdp_device *dev);
/* More RX queues than are served? */
int xdp_device_check_queues(const struct xdp_device *dev, char why[PORT_WHY]);
/* An AF_XDP socket, hidden from the program; or -errno. */
int xdp_socket(void);
/* Attaching may have reset the link: waits until it carries again. */
bool xdp_settle(struct port *port);

/* xdp_kinds.c: what a device is, and what it has to do with others.  Names, or "". */
struct xdp_kind {
	char name[16];
	char kind[16]; /* of rtnetlink */
	char driver[32];
	char master[16]; /* it belongs to that */
	char slave[16];	 /* one that belongs to it */
	char sharer[16]; /* one on top that takes frames of it */
	char sharer_kind[16];
	const struct xdp_kind *lower; /* of a VLAN; NULL: not known here */
};

/*
 * May it be attached?  0, or -PORT_UNTRIED and why, one line.  also: names of drivers and
 * kinds, separated by commas, that may be beside those that were tried.
 */
int xdp_kind_decide(const struct xdp_kind *dev, const char *also, char why[PORT_WHY]);
/* The same of a device of this namespace; sets dev->kind. */
int xdp_kind_check(struct xdp_device *dev, char why[PORT_WHY]);

/* xdp_mode.c: how it is accelerated, in one line for the user. */
struct xdp_mode {
	bool native, zerocopy;
	unsigned queues, processors;
};
void xdp_mode_describe(char text[PORT_WHY], const struct xdp_device *dev,
		       const struct xdp_mode *mode);
/* Of a port group that was just made. */
void xdp_mode_tell(const struct xdp_port *port, const struct xdp_device *dev);

/* xdp_memlock.c: the limit of locked memory. */
struct xdp_memlock {
	struct rlimit old, now;
	bool raised;
};
/* As high as may be, until restore; false: it stays as it is. */
bool xdp_memlock_raise(struct xdp_memlock *m);
void xdp_memlock_restore(struct xdp_memlock *m);
/* Do maps count, and more than there is? */
bool xdp_memlock_needed(void);
/* A program was refused (EPERM): because its maps count for more than there is? */
bool xdp_memlock_is_cause(void);
/* small, large: what became of an attempt to make such a map. */
bool xdp_memlock_decide(bool limited, int small, int large, bool old_kernel);

/*
 * xdp_load.c: program, maps and link into port->*_fd; conf.  -EAGAIN, -ENOTUNIQ: see
 * xdp_why_taken().
 */
int xdp_load(struct xdp_port *port, struct xdp_device *dev, char why[PORT_WHY]);
/* Time enough for all processes that share a port to open it anew and enter their flows. */
#define XDP_HOLD NSEC_PER_SEC
/*
 * Leaves the program attached although the port is closed: the next one of the interface in
 * this process replaces it, so that the kernel gets no frame of our connections in between.
 * let_go: there is no next one, or it is another process's.
 */
void xdp_link_keep(struct xdp_port *port);
void xdp_link_let_go(int ifindex);
int xdp_map_conf(struct xdp_port *port);
/* The interface's address, for the program. */
void xdp_conf_mac(struct xdp_port *port, const uint8_t mac[6]);
void xdp_unload(struct xdp_port *port);

/*
 * xdp_map.c: memory, and the rings of a socket.  A forked child has none of these
 * mappings: nothing of the port stays open in it when this process ends.
 */
int xdp_map(struct xdp_map *map, size_t len, int fd, uint64_t offset);
void xdp_unmap(struct xdp_map *map);
/* Both kinds of ring of xdp/xsk.h have these members, under different types. */
#define xdp_ring_set(r, map, off, entries)                                  \
	do {                                                                \
		uint8_t *at = (map)->addr;                                  \
                                                                            \
		(r)->mask = (entries)-1;                                    \
		(r)->size = (entries);                                      \
		(r)->producer = (uint32_t *)(void *)(at + (off)->producer); \
		(r)->consumer = (uint32_t *)(void *)(at + (off)->consumer); \
		(r)->flags = (uint32_t *)(void *)(at + (off)->flags);       \
		(r)->ring = at + (off)->desc;                               \
	} while (0)
int xdp_ring_offsets(int fd, struct xdp_mmap_offsets *off);
/* The kernel takes queues back a little after the last user went. */
int xdp_bind(int fd, const struct sockaddr_xdp *addr);
int xdp_set_option(int fd, int name, const void *val, socklen_t len);

/* xdp_group_umem.c: control segment, UMEM, anchors. */
/*
 * The memory of a new group.  A thread gives the UMEM its pages, which takes as long
 * as to attach the program, until xdp_group_memory_wait().
 */
int xdp_group_memory(struct xdp_port *port, char why[PORT_WHY]);
void xdp_group_memory_wait(struct xdp_port *port);
/* After the wait: a larger UMEM, if there are more queues now than it was made for. */
int xdp_group_memory_fit(struct xdp_port *port, char why[PORT_WHY]);
int xdp_group_create(struct xdp_port *port, char why[PORT_WHY]);
/* What another member made, from its descriptors. */
int xdp_group_adopt(struct xdp_port *port, char why[PORT_WHY]);
void xdp_group_drop(struct xdp_port *port);

/* xdp_group_join.c: makes the group of the interface, or joins it. */
int xdp_group_join(struct xdp_port *port, struct xdp_device *dev, char why[PORT_WHY]);
/*
 * Is this process still the user that opened the port?  One that is not answers nobody,
 * and leaves the name to other members.
 */
bool xdp_group_is_opener(const struct xdp_port *port);
/* Frames came by RX queues that the group has no sockets for: it takes no more members. */
bool xdp_group_outgrown(const struct xdp_port *port);
/* Lets go of the name, and of those who know us by it. */
void xdp_group_stop_answering(struct xdp_port *port);
/* Takes the name, or finds who has it; neither: later. */
void xdp_group_find_answerer(struct xdp_port *port);
/* Newcomers at listen_fd (false: there is no descriptor for them); one that speaks. */
bool xdp_group_accept(struct xdp_port *port);
/* False: it is gone. */
bool xdp_group_answer(struct xdp_port *port, int conn);

/*
 * xdp_group_name.c: where the group's processes find each other.  A listening socket:
 * -EADDRINUSE: another process has the name; -EAGAIN: another one is about to take it.  A
 * connection to whoever has it: -ECONNREFUSED, -ENOENT, -EAGAIN: nobody, or not yet.
 */
int xdp_group_name_take(const struct xdp_port *port);
int xdp_group_name_call(const struct xdp_port *port);

/*
 * xdp_group_proof.c.  Descriptors that a process without the capabilities of the port
 * cannot make, for the caller to close (-1: none), also on failure; are these such?
 */
#define XDP_PROOFS 2
int xdp_group_prove(int fds[XDP_PROOFS]);
bool xdp_group_is_proof(const struct xdp_port *port, const int *fds, unsigned n);

/* xdp_group_service.c */
int xdp_service_init(struct xdp_port *port);
void xdp_service_watch(struct xdp_port *port, int fd, uint32_t events);
/* Of a descriptor that is watched. */
void xdp_service_close(struct xdp_port *port, int *fd);
int xdp_service(struct port *port, int fds[PORT_FDS_MAX]);
void xdp_service_fini(struct xdp_port *port);

/* xdp_flow.c */
int xdp_add_flow(struct port_queue *q, const struct flow_key *key);
int xdp_del_flow(struct port_queue *q, const struct flow_key *key);
int xdp_move_flow(struct port_queue *q, const struct flow_key *key);
int xdp_take_flow(struct port_queue *q, const struct flow_key *key);
bool xdp_flow_is_foreign(struct port *port, const struct flow_key *key);
/*
 * xdp_conns.c: the connections that need no entry of a map.  add: -EEXIST: it is
 * there; -ENOSPC: its place is another's.  move, del: -ENOENT: it is not there, or not
 * the slot's.
 */
int xdp_map_conns(struct xdp_port *port);
void xdp_unmap_conns(struct xdp_port *port);
int xdp_conn_add(struct xdp_port *port, const struct xdp_steer_key5 *key, unsigned slot);
int xdp_conn_move(struct xdp_port *port, const struct xdp_steer_key5 *key, unsigned from,
		  unsigned to);
int xdp_conn_del(struct xdp_port *port, const struct xdp_steer_key5 *key, unsigned slot);
/* Whose it is; XDP_STEER_SLOTS: nobody's. */
unsigned xdp_conn_find(const struct xdp_port *port, const struct xdp_steer_key5 *key);
void xdp_conns_clear(struct xdp_port *port, const uint8_t slots[XDP_STEER_SLOTS]);
/* xdp_share.c: flows with several receivers. */
int xdp_map_shares(struct xdp_port *port);
void xdp_unmap_shares(struct xdp_port *port);
int xdp_share_join(struct port_queue *q, const struct flow_key *key, struct flow_share *share);
void xdp_share_leave(struct port_queue *q, const struct flow_key *key,
		     const struct flow_share *share);
int xdp_share_move(struct port_queue *q, const struct flow_key *key,
		   const struct flow_share *share);
unsigned xdp_share_pick(struct port_queue *q, const struct flow_share *share,
			const struct flow_key *key);
/* The group's lock: of an entry with XDP_STEER_SHARED, has nobody alive any part in it? */
bool xdp_share_is_dead(const struct xdp_port *port, uint32_t entry);
/*
 * Members of these slots are none any more.  locked: the group's lock is held; without
 * it, which is for slots of ours only, the kernel has their part for a while.
 */
void xdp_shares_clear(struct xdp_port *port, const uint8_t slots[XDP_STEER_SLOTS], bool locked);

/* The part of an IPv4 key that says where to. */
static inline struct xdp_steer_key3 xdp_key3_of(const struct flow_key *key)
{
	return (struct xdp_steer_key3){
		.local = addr_v4_of(&key->local),
		.local_port = key->local_port,
		.proto = key->proto,
	};
}

/* Is it a ring of this process? */
bool xdp_slot_is_ours(const struct xdp_port *port, unsigned slot);

/*
 * xdp_kernel.c: listeners at whose address and port the kernel may have connections,
 * too.  Of a key that is not TCP's: nothing is done.
 */
void xdp_kernel_set(struct xdp_port *port, const struct xdp_steer_key3 *key, unsigned slot);
/* To another slot, if it is of one of ours. */
void xdp_kernel_move(struct xdp_port *port, const struct xdp_steer_key3 *key, unsigned slot);
/* If it is of a slot of ours. */
void xdp_kernel_del(struct xdp_port *port, const struct xdp_steer_key3 *key);
void xdp_kernel_done(struct port_queue *q, const struct flow_key *key);

/* xdp_gone.c: addresses that the host has lost. */
void xdp_addrs_gone(struct port *port, const struct inaddr *gone, unsigned n);

/* xdp_fence.c: a process without privileges gets what it had before, and no more. */
int xdp_grant(struct port *port, const struct flow_key *key);
void xdp_fence(struct port *port);
/* May its queues have it?  True where it is not fenced. */
bool xdp_may_have(const struct xdp_port *port, const struct flow_key *key);
/* The slot is a new one's: whatever its last one was granted is not. */
void xdp_unfence(struct xdp_port *port, unsigned slot);
void xdp_grants_free(struct xdp_port *port);

/* Nothing but shared flows is steered to these slots any more. */
void xdp_unsteer(struct xdp_port *port, const uint8_t slots[XDP_STEER_SLOTS]);
/* Frames of the slot that arrive on RX queue i go to this socket; -1: to the kernel. */
int xdp_flow_set_socket(struct xdp_port *port, unsigned slot, unsigned i, int fd);

/* xdp_queue.c */
int xdp_open_queue(struct port *port, struct port_queue **q, char why[PORT_WHY]);
void xdp_close_queue(struct port_queue *q);
void xdp_at_exit(struct port_queue *q, bool held);
bool xdp_idle(struct port_queue *q);
/* How much of the frames is ours, now that there are so many rings. */
void xdp_share(struct xdp_queue *q);

/* xdp_tx.c */
void xdp_tx_flush(struct port_queue *q);
struct pkt *xdp_tx_get(struct port_queue *q);
int xdp_tx_put(struct port_queue *q, struct pkt *pkt);
/* When nothing arrives: what was sent is reaped, what the kernel did not take is kicked. */
void xdp_tx_idle(struct xdp_queue *q, bool look);

/* xdp_drive.c, of zero-copy queues */
/* Lets the anchor of a queue busy poll. */
void xdp_drive_allow(int anchor);
/* Nothing came: runs the NAPI instances that had traffic lately; true: now something did. */
bool xdp_drive_idle(struct xdp_queue *q);
/* A burst came by socket s. */
void xdp_drive_arrived(struct xdp_sock *s);
/* A call instead of a wake-up of the driver; false: it did not send all, or was not made. */
bool xdp_drive_send(struct xdp_queue *q, struct xdp_sock *s);
void xdp_drive_log(const struct xdp_queue *q);
/* What is in the TX ring was not sent, although the driver was woken. */
void xdp_drive_stuck(struct xdp_queue *q, struct xdp_sock *s);
static inline bool xdp_tx_consumed(const struct xdp_sock *s)
{
	return __atomic_load_n(s->tx.consumer, __ATOMIC_RELAXED) == s->tx.cached_prod;
}

/* xdp_napi.c, of zero-copy queues */
void xdp_napi_init(struct xdp_port *port);
/* Interrupts are as we found them. */
void xdp_napi_unmask(struct xdp_port *port);
void xdp_napi_fini(struct xdp_port *port);
/* A round of service(); true: the next one is due soon. */
bool xdp_napi_service(struct xdp_port *port);

/* xdp_burst.c */
int xdp_rx_burst(struct port_queue *q, struct pkt **pkts, int max);
bool xdp_rx_pending(struct port_queue *q);
/* More than our share of frames is on the stack: the others can use it. */
void xdp_give_some(struct xdp_queue *q);
void xdp_pool_put(struct pkt_pool *pool, struct pkt *pkt);
/* A frame that was not made a packet. */
void xdp_take_back(struct xdp_queue *q, uint32_t frame);
/* Computes base.frames_free: the pool changes beside us. */
void xdp_count_free(struct xdp_queue *q);
/* What is left on the stack is given back; and in the RX rings. */
void xdp_give_back(struct xdp_queue *q);
void xdp_drain(struct xdp_queue *q);

/* xdp_big.c */
void xdp_big_init(struct xdp_queue *q);
/* Frees them all, also those that somebody holds. */
void xdp_big_fini(struct xdp_queue *q);
/* A piece of a large frame, consumed; the frame when it was the last one of it, or NULL. */
struct pkt *xdp_big_add(struct xdp_queue *q, struct xdp_sock *s, const struct xdp_desc *desc);

/*
 * xdp_why.c: the sentences for the user.  Each writes why and returns the
 * error the caller passes on.
 */
int xdp_why(char why[PORT_WHY], int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The capabilities AF_XDP needs; 0 when this process has them all. */
int xdp_why_missing_caps(char why[PORT_WHY], const char *ifname);
bool xdp_is_attached(int ifindex); /* an XDP program, anybody's */
/* The kernel refused although the capabilities are there. */
int xdp_why_refused(char why[PORT_WHY], const char *ifname, const char *what);
/*
 * An XDP program is on the interface.  -EAGAIN: it may be one of this user's own; -ENOTUNIQ:
 * that, too, but another user seems to have it; else -EBUSY.
 */
int xdp_why_taken(char why[PORT_WHY], const struct xdp_device *dev);
/* The kernel's verifier refused (EACCES), as old ones do without CAP_PERFMON. */
int xdp_why_not_verified(char why[PORT_WHY], const char *ifname);
/* No AF_XDP socket on an RX queue. */
int xdp_why_no_sock(char why[PORT_WHY], const struct xdp_port *port, unsigned rx_queue, int rc);
/* So much locked memory: of packet buffers; of maps, before Linux 5.11. */
int xdp_why_memlock(char why[PORT_WHY], const char *ifname, uint32_t bytes);
int xdp_why_memlock_maps(char why[PORT_WHY], const char *ifname);

#endif
