/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The inside of the xdp port.
 *
 * A port is this process's membership in the port group of its interface (see xdp_group.h): the
 * descriptors that all members hold, and the group's memory.  A queue is a slot of the group: its
 * flows, and one AF_XDP socket per RX queue of the interface, with RX ring and TX ring.  Fill and
 * completion rings belong to the group.
 *
 * A frame is in the group's pool, on a queue's free stack, in a fill ring, in an RX ring, in a
 * packet that rx_burst() or tx_get() returned, or put and not yet reaped (TX ring, driver,
 * completion ring).
 */
#ifndef RING_XDP_XDP_INTERNAL_H
#define RING_XDP_XDP_INTERNAL_H

#include <linux/if_xdp.h>
#include <pthread.h>
#include <sys/resource.h>
#include <xdp/xsk.h>

#include "base/frame/frame_mem.h"
#include "base/list.h"
#include "ring/packet/packet_tx.h"
#include "ring/ports.h"
#include "ring/xdp/deathmark.h"
#include "ring/xdp/grace.h"
#include "ring/xdp/xdp_group.h"
#include "ring/xdp/xdp_steer.h"

#define XDP_RX_ENTRIES 4096u /* of an RX ring, if the interface has one queue and one ring */
#define XDP_TX_ENTRIES 2048u
#define XDP_FILL_BATCH 64u /* most frames taken from an RX ring before its fill ring is filled */
#define XDP_REAP_IDLE 16u  /* frames sent before completion rings are read, when nothing arrives */
#define XDP_REAP_BATCH 64u /* frames sent before completion rings are read, otherwise */
#define XDP_KERNEL_HEADROOM 256u /* XDP_PACKET_HEADROOM, kept free in each frame */

/* Largest IP packet in such a frame: less the headroom, Ethernet header and one tag. */
#define XDP_MTU_OF(frame) ((frame)-XDP_KERNEL_HEADROOM - 18)
/* Native XDP reserves more of a page: veth accepts an MTU of 3504 at most. */
#define XDP_MTU_MAX 3500u
/* With a larger MTU, frames come and leave in pieces: see xdp_big.c. */
#define XDP_JUMBO_MTU_MAX 9216u

struct xdp_map {
	void *addr;
	size_t len;
};

/*
 * Busy polling, in zero-copy mode: a thread that polls runs the driver's NAPI instance itself, so
 * that a frame costs no interrupt; see xdp_drive.c.  A call below is one such run.
 */
#define XDP_DRIVE_QUIET 4096u /* idle rounds without a frame, after which interrupts are used */

struct xdp_drive {
	/* holder */
	uint32_t quiet;	    /* idle rounds since the last frame, or since useless was set */
	uint8_t hits;	    /* bursts of this trial that a call brought */
	uint8_t misses;	    /* bursts of this trial that arrived between two calls */
	uint8_t tx_misses;  /* calls in a row that did not send */
	uint8_t trials;	    /* trials that failed */
	bool useless;	    /* calls bring no frames, or take too long */
	bool brought;	    /* the last call brought frames */
	nsec_t cost;	    /* of a call: moving average */
	nsec_t stuck_since; /* the TX ring has not moved since; 0: it moves */
	uint32_t calls;	    /* atomic: any reads */
	uint32_t bursts;    /* in total, that calls brought */
	uint32_t between;   /* in total, that arrived between two calls */
	/* service */
	uint32_t calls_seen;
};

/* One AF_XDP socket of a queue: for one RX queue, and for the TX queue of the same number. */
struct xdp_sock {
	/* holder */
	struct xsk_ring_cons rx;
	struct xsk_ring_prod tx;
	unsigned taken;	 /* frames taken from the RX ring since the fill ring was filled */
	struct pkt *big; /* the pieces of a large frame so far; NULL: dropped */
	bool in_big;	 /* the last descriptor was a piece, and not the last one */
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
	uint64_t held_word; /* owner word of a frame that this queue holds */
	uint64_t sent_word; /* owner word of a frame that this queue has put */
	unsigned nframes;
	unsigned frame_shift;
	unsigned free_max;    /* most frames on the stack; more go to the pool */
	unsigned told_spare;  /* frames on the stack, as group_slot_tell_spare() was told */
	unsigned held;	      /* packets of rx_burst() and tx_get() that were not given back */
	unsigned held_max;    /* with more, frames that arrive are dropped */
	unsigned fill_batch;  /* frames taken from an RX ring before its fill ring is filled */
	unsigned next;	      /* AF_XDP socket that rx_burst() looks at first */
	unsigned idles;	      /* bursts that found nothing */
	unsigned tx_last;     /* AF_XDP socket of the last frame put */
	unsigned tx_unreaped; /* frames that this queue has put and that were not reaped */
	uint64_t tx_dirty;    /* bit i: AF_XDP socket i has frames that were not flushed */
	uint64_t tx_stuck;    /* bit i: the kernel did not take all of TX ring i */
	nsec_t real_ahead;    /* see xdp_burst.c */
	/* holder, see xdp_big.c */
	struct pkt_pool jumbo_pool;
	struct list jumbos, spares;
	unsigned n_spares;
	struct packet_tx large; /* see its members */
	/* set when opened */
	bool zerocopy;
	unsigned slot;
	unsigned nsocks;
	unsigned tx_socks;	   /* the first so many AF_XDP sockets can send */
	const uint32_t *unstamped; /* of the program's settings: frames have no time */
	int fds; /* readable when one of several sockets is; -1: there is one socket */
	/* the port's lock */
	struct list link;
	uint32_t drain_seq; /* the audit that socks[].drain_to is for */
	struct xdp_sock socks[XDP_STEER_QUEUES];
};

/* Generic netlink, to mask the interrupts of queues that are busy polled. */
struct xdp_napi {
	int fd; /* -1: there are no interrupts to mask, or the kernel cannot */
	uint16_t family;
};

struct xdp_port {
	struct port base;
	/* set when opened */
	unsigned rx_queues;
	bool native;
	bool jumbo;   /* of the group: frames in pieces; until it is joined: wanted */
	bool grew;    /* see struct xdp_device; set only in the process that made the group */
	unsigned uid; /* effective user when the port was opened: the user of the group */
	struct port_ops plain;	  /* of all queues at first */
	struct port_ops stamping; /* of queues whose frames get times of arrival */
	struct grace grace;
	struct xdp_group group;
	/* descriptors that all members have */
	int umem_fd;
	int wake_fd; /* eventfd: after a write, every member runs service() */
	int link_fd;
	int xsks_fd;
	int flows3_fd;
	int flows5_fd;
	int local_ports_fd;
	int shares_fd;
	int gone_fd;
	int fences_fd; /* this and grants_fd are closed when the port is fenced */
	int grants_fd;
	int lives_fd;
	int kernel_fd;
	int exact_fd;
	int conf_fd;
	int anchors[XDP_STEER_QUEUES];
	/* while it is opened */
	pthread_t toucher;
	void *touch_stack; /* of toucher */
	bool touching;
	bool told_drive; /* any, atomic */
	/* mapped */
	struct xdp_map ctl_map, umem_map;
	struct frame_mem own; /* the UMEM, if it is the program's; no other process can join */
	struct xdp_map fill_maps[XDP_STEER_QUEUES], comp_maps[XDP_STEER_QUEUES];
	struct xdp_steer_conf *conf; /* the XDP program's memory, mapped */
	size_t conf_len;
	struct xdp_steer_conn *local_ports; /* by port in network byte order; any member writes */
	struct xdp_steer_share *shares;	    /* group's lock to write; a slot's member: any time */
	/* control lock to write, any to read, atomic */
	bool fenced;		 /* see port_ops.fence */
	struct list grants;	 /* of struct grant; does not change when fenced */
	struct deathmarks lives; /* by slot */
	/* lock: open_queue, close_queue, service */
	pthread_mutex_t lock;
	struct list queues;
	/* service */
	int epoll_fd; /* readable: service() is due */
	int timer_fd;
	int listen_fd;	   /* this member has the name and accepts newcomers here; else -1 */
	bool listen_rests; /* no descriptor was left to accept: not watched for a while */
	int lifeline_fd;   /* connection to the member that has the name; else -1 */
	struct group_conn conns[GROUP_MEMBERS]; /* accepted at listen_fd, oldest first */
	unsigned n_conns;
	struct xdp_napi napi;
	nsec_t swept;	   /* time of the last sweep */
	bool sweeping;	   /* the last sweep has more to do */
	uint32_t rung_seq; /* number of the audit for which wake_fd was last written */
};

/* An interface, as ioctl(2) describes it. */
struct xdp_device {
	int ifindex;
	char name[16];
	char driver[32];  /* "" when the driver does not give its name */
	char kind[16];	  /* of rtnetlink, set by xdp_kind_check(); "" for hardware */
	unsigned flags;	  /* IFF_* */
	unsigned hw_type; /* ARPHRD_* */
	uint8_t mac[6];
	uint32_t mtu;
	unsigned rx_queues;  /* 0: not known */
	unsigned tx_queues;  /* 0: not known */
	unsigned max_queues; /* most RX queues that ethtool -L can set */
	bool combined;	     /* the queues also send ("combined" of ethtool -L) */
	bool is_virtual;
	bool carrier; /* true also when not known */
	bool stamps;  /* the driver can stamp what arrives */
	bool grew;    /* set by xdp_device_recount(): it has more queues with a program */
	int master;   /* the device that it may belong to; 0: none */
};

/*
 * xdp_device.c: fills in dev.  -EXDEV: the calling thread is in another network namespace than
 * the process's netlink socket; or another error.
 */
int xdp_device_query(struct xdp_device *dev, int ifindex);
/* Counts the queues again: with some drivers their number changes when a program is attached. */
int xdp_device_recount(struct xdp_device *dev);
/* -EOPNOTSUPP and why: it has more than XDP_STEER_QUEUES RX queues. */
int xdp_device_check_queues(const struct xdp_device *dev, char why[PORT_WHY]);
/* An AF_XDP socket, hidden from the program; or -errno. */
int xdp_socket(void);
/* See port_ops.settle. */
bool xdp_settle(struct port *port);

/* xdp_kinds.c: a device and its relations to other devices.  Names, or "". */
struct xdp_kind {
	char name[16];
	char kind[16]; /* of rtnetlink */
	char driver[32];
	char master[16]; /* the device that it belongs to */
	char slave[16];	 /* a device that belongs to it */
	char sharer[16]; /* a device on top of it that takes some of its frames */
	char sharer_kind[16];
	const struct xdp_kind *lower; /* device under a VLAN; NULL: not in this namespace */
};

/*
 * May an XDP program be attached to the device?  0, or -PORT_UNTRIED and why, one line.  also:
 * names of drivers and kinds, separated by commas, that are allowed beside the tested ones.
 */
int xdp_kind_decide(const struct xdp_kind *dev, const char *also, char why[PORT_WHY]);
/* Queries the kind of a device of this namespace, sets dev->kind, and decides. */
int xdp_kind_check(struct xdp_device *dev, char why[PORT_WHY]);
/* See struct port_kind. */
bool xdp_takes(const struct link *link, char why[PORT_WHY]);

/*
 * xdp_check.c: fills in dev, and checks what needs nothing to be opened: kind, MTU, queues, state.
 * The capabilities of the process are not looked at.  master: the device that it may belong to; 0:
 * none.  -errno and why.
 */
int xdp_check_device(struct xdp_device *dev, int ifindex, int master, char why[PORT_WHY]);

/* xdp_mode.c: one line for the user that says how the interface is accelerated. */
struct xdp_mode {
	bool native, zerocopy;
	unsigned queues, processors;
};
void xdp_mode_describe(char text[PORT_WHY], const struct xdp_device *dev,
		       const struct xdp_mode *mode);
void xdp_mode_of(char text[PORT_WHY], const struct xdp_port *port, const struct xdp_device *dev);
/* Logs the line of a port group that was just made. */
void xdp_mode_tell(const struct xdp_port *port, const struct xdp_device *dev);

/* xdp_memlock.c: the limit of locked memory. */
struct xdp_memlock {
	struct rlimit old, now;
	bool raised;
};
/* Raises the limit as far as possible, until restore.  False: it was not raised. */
bool xdp_memlock_raise(struct xdp_memlock *m);
void xdp_memlock_restore(struct xdp_memlock *m);
/* Do maps count against the limit, and need more than it allows? */
bool xdp_memlock_needed(void);
/* The kernel refused a program (EPERM): because of the limit? */
bool xdp_memlock_is_cause(void);
/* Decides that; small, large: 0 or -errno of an attempt to make a map of that size. */
bool xdp_memlock_decide(bool limited, int small, int large, bool old_kernel);

/*
 * xdp_load.c: loads and attaches the program; sets the descriptors of maps and link in port, and
 * maps the memory that they share with the program.  -EAGAIN, -ENOTUNIQ: see xdp_why_taken();
 * or another error and why.
 */
int xdp_load(struct xdp_port *port, struct xdp_device *dev, char why[PORT_WHY]);
/* Enough time for all processes that share a port to open a new one and add their flows again. */
#define XDP_HOLD NSEC_PER_SEC
/*
 * keep: leaves the program attached after the port is closed.  The next port of the interface in
 * this process replaces the program, so that the kernel gets no frame of our connections in
 * between.  let_go: detaches it, if no port replaced it.
 */
void xdp_link_keep(struct xdp_port *port);
void xdp_link_let_go(int ifindex);
/* Maps the memory that the program shares: conf, local_ports, shares, lives. */
int xdp_map_conf(struct xdp_port *port);
/* Tells the program the interface's MAC address. */
void xdp_conf_mac(struct xdp_port *port, const uint8_t mac[6]);
/* Closes and unmaps what xdp_load() opened. */
void xdp_unload(struct xdp_port *port);

/*
 * xdp_map.c: mappings, and the rings of an AF_XDP socket.  A forked child does not inherit these
 * mappings, so it keeps nothing of the port open when this process ends.
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
/* bind(2); repeats on -EBUSY, because the kernel frees the queues of a closed socket late. */
int xdp_bind(int fd, const struct sockaddr_xdp *addr);
int xdp_set_option(int fd, int name, const void *val, socklen_t len);

/*
 * xdp_group_umem.c: control segment, UMEM, anchors.
 *
 * Makes the memory of a new group.  A thread touches the pages of the UMEM, which takes about as
 * long as attaching the program, until xdp_group_memory_wait().
 */
int xdp_group_memory(struct xdp_port *port, char why[PORT_WHY]);
void xdp_group_memory_wait(struct xdp_port *port);
/* After the wait: makes a larger UMEM if the interface has more queues now. */
int xdp_group_memory_fit(struct xdp_port *port, char why[PORT_WHY]);
/* Makes the group in that memory: anchors, frames; this process becomes its first member. */
int xdp_group_create(struct xdp_port *port, char why[PORT_WHY]);
/* Becomes a member of a group that exists; its descriptors are set in port. */
int xdp_group_adopt(struct xdp_port *port, char why[PORT_WHY]);
/* Unmaps and closes what the three above made. */
void xdp_group_drop(struct xdp_port *port);

/* xdp_group_join.c: makes the group of the interface, or joins it. */
int xdp_group_join(struct xdp_port *port, struct xdp_device *dev, char why[PORT_WHY]);
extern nsec_t xdp_wait_max; /* its wait for an answerer; longer if that runs; tests change it */
/*
 * Is the effective user still the one that opened the port?  A process that is not answers no
 * newcomers, and leaves the name to other members.
 */
bool xdp_group_is_opener(const struct xdp_port *port);
bool xdp_group_needs(struct port *base); /* port_ops.is_needed */
/* Frames arrived by RX queues for which the group has no sockets: it takes no more members. */
bool xdp_group_outgrown(const struct xdp_port *port);
/* Gives up the name, and closes the connections of newcomers and members. */
void xdp_group_stop_answering(struct xdp_port *port);
/* Takes the name, or connects to the member that has it; if neither works, call it later. */
void xdp_group_find_answerer(struct xdp_port *port);
/* Accepts some newcomers at listen_fd.  False: there is no descriptor for them. */
bool xdp_group_accept(struct xdp_port *port);
/* Answers a connection that sent a message, if it is one of this port.  False: it is closed. */
bool xdp_group_answer(struct xdp_port *port, int conn);

/*
 * xdp_group_name.c: the name by which the group's processes find each other.
 * take: returns a listening socket.  -EADDRINUSE: another process has the name.  -EAGAIN: another
 * process is about to take it.
 * call: returns a connection to the process that has the name.  -ECONNREFUSED, -ENOENT, -EAGAIN:
 * no process has it, or not yet.
 */
int xdp_group_name_take(const struct xdp_port *port);
int xdp_group_name_call(const struct xdp_port *port);

/*
 * xdp_group_proof.c: prove makes descriptors that a process without the port's capabilities
 * cannot make.  The caller closes them (-1: none), also on failure.  is_proof: are these such
 * descriptors?
 */
#define XDP_PROOFS 2
int xdp_group_prove(int fds[XDP_PROOFS]);
bool xdp_group_is_proof(const struct xdp_port *port, const int *fds, unsigned n);

/* xdp_group_service.c: port_ops.service, and the set of descriptors that it watches. */
int xdp_service_init(struct xdp_port *port);
/* Adds a descriptor to the set. */
void xdp_service_watch(struct xdp_port *port, int fd, uint32_t events);
/* Removes a descriptor from the set and closes it. */
void xdp_service_close(struct xdp_port *port, int *fd);
int xdp_service(struct port *port, int fds[PORT_FDS_MAX]);
void xdp_service_fini(struct xdp_port *port);

/* xdp_flow.c: see struct port_ops. */
int xdp_add_flow(struct port_queue *q, const struct flow_key *key);
int xdp_del_flow(struct port_queue *q, const struct flow_key *key);
int xdp_move_flow(struct port_queue *q, const struct flow_key *key);
int xdp_take_flow(struct port_queue *q, const struct flow_key *key);
bool xdp_flow_is_foreign(struct port *port, const struct flow_key *key);
bool xdp_part_flow(struct port_queue *q, const struct flow_key *key, bool over);
/*
 * xdp_conns.c: TCP connections in the table of local ports, which need no entry of a map.
 * add: -EEXIST: the table has it; -ENOSPC: another connection has its place.
 * move, del: -ENOENT: the table does not have it, or another slot does.
 */
int xdp_map_conns(struct xdp_port *port);
void xdp_unmap_conns(struct xdp_port *port);
int xdp_conn_add(struct xdp_port *port, const struct xdp_steer_key5 *key, unsigned slot);
int xdp_conn_move(struct xdp_port *port, const struct xdp_steer_key5 *key, unsigned from,
		  unsigned to);
int xdp_conn_del(struct xdp_port *port, const struct xdp_steer_key5 *key, unsigned slot);
/* The slot that has it; XDP_STEER_SLOTS: the table does not have it. */
unsigned xdp_conn_find(const struct xdp_port *port, const struct xdp_steer_key5 *key);
/* Removes the connections of these slots. */
void xdp_conns_clear(struct xdp_port *port, const uint8_t slots[XDP_STEER_SLOTS]);
/* xdp_share.c: flows with several receivers; see struct port_ops. */
int xdp_map_shares(struct xdp_port *port);
void xdp_unmap_shares(struct xdp_port *port);
int xdp_share_join(struct port_queue *q, const struct flow_key *key, struct flow_share *share);
void xdp_share_leave(struct port_queue *q, const struct flow_key *key,
		     const struct flow_share *share);
int xdp_share_move(struct port_queue *q, const struct flow_key *key,
		   const struct flow_share *share);
unsigned xdp_share_pick(struct port_queue *q, const struct flow_share *share,
			const struct flow_key *key);
/* The group's lock: are all members of the share dead?  entry has XDP_STEER_SHARED set. */
bool xdp_share_is_dead(const struct xdp_port *port, uint32_t entry);
/*
 * Removes the members of these slots.  locked: the caller has the group's lock.  Without it, only
 * for slots of this process: then the kernel gets their part of the frames for a while.
 */
void xdp_shares_clear(struct xdp_port *port, const uint8_t slots[XDP_STEER_SLOTS], bool locked);

/* An address as keys have it. */
static inline uint32_t xdp_key_addr(const struct xdp_port *port, const struct inaddr *addr)
{
	return addr_is_v4(addr) ? addr_v4_of(addr) : xdp_steer_alias(addr->w, port->conf->seed);
}

static inline struct xdp_steer_key3 xdp_key3_of(const struct xdp_port *port,
						const struct flow_key *key)
{
	return (struct xdp_steer_key3){
		.local = xdp_key_addr(port, &key->local),
		.local_port = key->local_port,
		.proto = key->proto,
	};
}

/* Is the slot a ring of this process? */
bool xdp_slot_is_ours(const struct xdp_port *port, unsigned slot);

/*
 * xdp_kernel.c: the map of 3-tuples at which the kernel may have TCP connections, too.  Keys of
 * other protocols are ignored.  Makes an entry of the slot, or changes the entry to it.
 */
void xdp_kernel_set(struct xdp_port *port, const struct xdp_steer_key3 *key, unsigned slot);
/* Changes the entry to another slot, if it is of a slot of this process. */
void xdp_kernel_move(struct xdp_port *port, const struct xdp_steer_key3 *key, unsigned slot);
/* Removes the entry, if it is of a slot of this process. */
void xdp_kernel_del(struct xdp_port *port, const struct xdp_steer_key3 *key);
void xdp_kernel_done(struct port_queue *q, const struct flow_key *key);

/* xdp_gone.c: see port_ops.addrs_gone. */
void xdp_addrs_gone(struct port *port, const struct inaddr *gone, unsigned n);

/* xdp_fence.c: see port_ops.grant and port_ops.fence. */
int xdp_grant(struct port *port, const struct flow_key *key);
void xdp_fence(struct port *port);
/* May the port's queues get frames that match key?  True while it is not fenced. */
bool xdp_may_have(const struct xdp_port *port, const struct flow_key *key);
/* A new ring has the slot: removes its fence and the grants of the ring before. */
void xdp_unfence(struct xdp_port *port, unsigned slot);
void xdp_grants_free(struct xdp_port *port);

/*
 * xdp_flow.c: the map of exact flows.  set: adds the flow, or changes its value; 0 or -errno.
 * *added: it was not there.  drop: removes it if it has this value.  IPv4: they do nothing.
 */
int xdp_exact_set(struct xdp_port *port, const struct xdp_steer_exact *exact, uint32_t value,
		  bool *added);
void xdp_exact_drop(struct xdp_port *port, const struct xdp_steer_exact *exact, uint32_t value);
/* The flow as the map has it; IPv4: zero. */
struct xdp_steer_exact xdp_exact_of(const struct flow_key *key);
/* xdp_flow.c: removes all entries of these slots, except those of shared flows.  The group's lock. */
void xdp_unsteer(struct xdp_port *port, const uint8_t slots[XDP_STEER_SLOTS]);
/* Frames of the slot that arrive on RX queue i go to this AF_XDP socket; -1: to the kernel. */
int xdp_flow_set_socket(struct xdp_port *port, unsigned slot, unsigned i, int fd);

/* xdp_queue.c */
int xdp_open_queue(struct port *port, struct port_queue **q, char why[PORT_WHY]);
void xdp_close_queue(struct port_queue *q);
void xdp_at_exit(struct port_queue *q, bool held);
bool xdp_idle(struct port_queue *q);
/* holder: computes the queue's part of the frames from the number of rings in the group. */
void xdp_share(struct xdp_queue *q);

/* xdp_tx.c */
void xdp_tx_flush(struct port_queue *q);
struct pkt *xdp_tx_get(struct port_queue *q);
/* Puts n packets as one frame, which begins like head; false: no room, they are still the caller's. */
bool xdp_tx_put_pieces(struct xdp_queue *q, const uint8_t *head, struct pkt **pieces, uint32_t n);
int xdp_tx_large(struct port_queue *q, const struct frame_large *large);
int xdp_tx_put(struct port_queue *q, struct pkt *pkt);
/*
 * When no frames arrive: reaps frames that were sent, and kicks TX rings that the kernel did not
 * empty.  look: reaps even a few frames.
 */
void xdp_tx_idle(struct xdp_queue *q, bool look);

/* xdp_drive.c, for zero-copy queues: allows busy polling on the anchor of an RX queue. */
void xdp_drive_allow(int anchor);
/* No frames arrived: runs the NAPI instances that had traffic lately.  True: now some have. */
bool xdp_drive_idle(struct xdp_queue *q);
/* A burst of frames arrived by socket s. */
void xdp_drive_arrived(struct xdp_sock *s);
/* Sends by a call instead of waking the driver.  False: not called, or not all was sent. */
bool xdp_drive_send(struct xdp_queue *q, struct xdp_sock *s);
void xdp_drive_log(const struct xdp_queue *q);
/* The driver was woken, but did not send what is in the TX ring. */
void xdp_drive_stuck(struct xdp_queue *q, struct xdp_sock *s);
/* Has the kernel taken all of the TX ring? */
static inline bool xdp_tx_consumed(const struct xdp_sock *s)
{
	return __atomic_load_n(s->tx.consumer, __ATOMIC_RELAXED) == s->tx.cached_prod;
}

/* xdp_napi.c, for zero-copy queues: masks their interrupts while they are busy polled. */
void xdp_napi_init(struct xdp_port *port);
/* Restores the interrupt settings of all queues. */
void xdp_napi_unmask(struct xdp_port *port);
void xdp_napi_fini(struct xdp_port *port);
/* Called by service().  True: the next call is due soon. */
bool xdp_napi_service(struct xdp_port *port);

/* xdp_burst.c */
int xdp_rx_burst(struct port_queue *q, struct pkt **pkts, int max);
/* The same, with PKT_ARRIVAL. */
int xdp_rx_burst_stamped(struct port_queue *q, struct pkt **pkts, int max);
bool xdp_arm(struct port_queue *q);
/* The stack has more than free_max frames: gives half of that and more to the pool. */
void xdp_give_some(struct xdp_queue *q);
void xdp_pool_put(struct pkt_pool *pool, struct pkt *pkt);
struct pkt *xdp_pool_put_some(struct pkt_pool *pool, struct pkt *list);
/* Puts a received frame on the stack that did not become a packet. */
void xdp_take_back(struct xdp_queue *q, uint32_t frame);
/* Computes base.frames_free, since other members change the pool. */
void xdp_count_free(struct xdp_queue *q);
/* Sends what was put, and gives the frames on the stack to fill rings and pool. */
void xdp_give_back(struct xdp_queue *q);
/* The same, and frees the frames in the RX rings first. */
void xdp_drain(struct xdp_queue *q);

/* xdp_big.c: init and fini open and close the queue; the others: holder. */
void xdp_big_init(struct xdp_queue *q);
/* Frees what was built, even packets that were not given back. */
void xdp_big_fini(struct xdp_queue *q);
/* Consumes a piece of a large frame.  Returns the frame when it was the last piece, else NULL. */
struct pkt *xdp_big_add(struct xdp_queue *q, struct xdp_sock *s, const struct xdp_desc *desc);
/* port_ops.tx_get and tx_put with an MTU above XDP_MTU_MAX: packets have memory of their own. */
struct pkt *xdp_tx_get_jumbo(struct port_queue *q);
int xdp_tx_put_jumbo(struct port_queue *q, struct pkt *pkt);

/*
 * xdp_why.c: the sentences for the user.  Each function writes why and returns the error that
 * the caller returns.
 */
int xdp_why(char why[PORT_WHY], int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* -EPERM: the process lacks a capability that AF_XDP needs; 0: it has all. */
int xdp_why_missing_caps(char why[PORT_WHY], const char *ifname);
/* Is any XDP program attached to the interface? */
bool xdp_is_attached(int ifindex);
/* The kernel refused although the process has the capabilities. */
int xdp_why_refused(char why[PORT_WHY], const char *ifname, const char *what);
/*
 * An XDP program is attached already, or to a VLAN device above.  -EAGAIN: it may be that of this
 * user's port group, or be removed soon.  -ENOTUNIQ: the same, but it seems to be another user's.
 * Else -EBUSY.
 */
int xdp_why_taken(char why[PORT_WHY], const struct xdp_device *dev);
/* The verifier refused the program (EACCES), as old kernels do without CAP_PERFMON. */
int xdp_why_not_verified(char why[PORT_WHY], const char *ifname);
/* The kernel has no frames in pieces, which an MTU above XDP_MTU_MAX needs. */
int xdp_why_jumbo(char why[PORT_WHY], const char *ifname, uint32_t mtu);
/* An AF_XDP socket could not be opened on an RX queue. */
int xdp_why_no_sock(char why[PORT_WHY], const struct xdp_port *port, unsigned rx_queue, int rc);
/* The limit of locked memory is too low for packet buffers; for maps (before Linux 5.11). */
int xdp_why_memlock(char why[PORT_WHY], const char *ifname, uint32_t bytes);
int xdp_why_memlock_maps(char why[PORT_WHY], const char *ifname);

#endif
