/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of the xdp port.
 *
 * A port is this process's membership in the port group of its interface (see
 * port_xdp_group.h): the descriptors all members hold, and the group's memory.
 * A queue is a slot of the group: its flows, and one AF_XDP socket per RX queue
 * of the interface, with RX ring and TX ring; fill and completion rings are the
 * group's.
 *
 * Life of a frame: in the group's pool, on the queue's free stack, in a fill
 * ring, in the RX ring, with whoever took it from rx_burst() or tx_get(), or put
 * and not yet reaped (TX ring, driver, completion ring).
 */
#ifndef RING_PORT_XDP_INTERNAL_H
#define RING_PORT_XDP_INTERNAL_H

#include <linux/if_xdp.h>
#include <pthread.h>
#include <xdp/xsk.h>

#include "base/list.h"
#include "ring/grace.h"
#include "ring/port.h"
#include "ring/port_xdp_group.h"
#include "ring/xdp_steer.h"

#define XDP_RX_ENTRIES 4096u /* of a lone ring on one RX queue */
#define XDP_TX_ENTRIES 2048u
#define XDP_FILL_BATCH 64u	 /* frames taken from an RX ring before the fill ring is touched */
#define XDP_REAP_IDLE 16u	 /* ... when there is time */
#define XDP_REAP_BATCH 64u	 /* frames sent before the completion rings are looked at */
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

_Static_assert(PORT_FDS_MAX == XDP_STEER_QUEUES, "one socket per RX queue");

struct xdp_map {
	void *addr;
	size_t len;
};

/* One AF_XDP socket: the share of one RX queue. */
struct xdp_sock {
	/* holder */
	struct xsk_ring_cons rx;
	struct xsk_ring_prod tx; /* of the first one only */
	unsigned taken;		 /* from the RX ring since the fill ring was looked at */
	bool in_big;		 /* the last descriptor is continued in the next */
	struct pkt *big;	 /* what came of it so far; NULL: dropped */
	/* set when opened */
	int fd;
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
	unsigned free_max;     /* on the stack; more go to the pool */
	unsigned held;	       /* packets of rx_burst() and tx_get() that did not come back */
	unsigned held_max;     /* more are dropped */
	unsigned next;	       /* socket rx_burst() looks at first */
	unsigned idles;	       /* bursts that found nothing */
	unsigned tx_unflushed; /* put since the last flush */
	unsigned tx_unreaped;  /* put and not reaped, by us */
	bool tx_stuck;	       /* the kernel did not take all of the TX ring */
	/* holder, see port_xdp_big.c */
	struct pkt_pool big_pool;
	struct list bigs;
	unsigned nbigs;
	/* set when opened */
	bool zerocopy;
	unsigned slot;
	unsigned nsocks;
	/* the port's lock */
	struct list link;
	uint32_t drain_seq; /* that drain_to is for */
	struct xdp_sock socks[XDP_STEER_QUEUES];
};

struct xdp_port {
	struct port base;
	/* set when opened */
	unsigned rx_queues;
	bool native;
	struct grace grace;
	struct xdp_group group;
	/* descriptors all members have */
	int umem_fd;
	int bell_fd; /* written to: everybody's service() is due */
	int link_fd;
	int xsks_fd;
	int flows3_fd;
	int flows5_fd;
	int local_ports_fd;
	int shares_fd;
	int conf_fd;
	int anchors[XDP_STEER_QUEUES];
	/* while it is opened */
	pthread_t toucher;
	bool touching;
	/* mapped */
	struct xdp_map ctl_map, umem_map;
	struct xdp_map fill_maps[XDP_STEER_QUEUES], comp_maps[XDP_STEER_QUEUES];
	struct xdp_steer_conf *conf; /* mapped from the program's memory */
	size_t conf_len;
	struct xdp_steer_conn *local_ports; /* by number, as it is in a frame; any member writes */
	struct xdp_steer_share *shares;	    /* under the group's lock; one's own slot any time */
	/* lock: open_queue, close_queue, service */
	pthread_mutex_t lock;
	struct list queues;
	/* service */
	int epoll_fd; /* readable: service() is due */
	int timer_fd;
	int listen_fd;		  /* we have the name: newcomers come here; else -1 */
	int lifeline_fd;	  /* to the member that has it; else -1 */
	int conns[GROUP_MEMBERS]; /* listen_fd: from the others */
	unsigned n_conns;
	nsec_t swept;
	bool sweeping;	   /* the last sweep has more to do */
	uint32_t rung_seq; /* of the audit the bell was last rung for */
};

/* An interface, as ioctl(2) tells. */
struct xdp_device {
	int ifindex;
	char name[16];
	char driver[32];  /* "" when it does not tell */
	unsigned flags;	  /* IFF_* */
	unsigned hw_type; /* ARPHRD_* */
	uint8_t mac[6];
	uint32_t mtu;
	unsigned rx_queues; /* 0 when it does not tell */
	bool is_virtual;
};

/* port_xdp_device.c */
int xdp_device_query(struct xdp_device *dev, int ifindex);

/*
 * port_xdp_load.c: program, maps and link into port->*_fd; conf.  -EAGAIN: our own
 * group has the interface, but nobody answered for it.
 */
int xdp_load(struct xdp_port *port, const struct xdp_device *dev, char why[PORT_WHY]);
int xdp_map_conf(struct xdp_port *port);
void xdp_unload(struct xdp_port *port);

/* port_xdp_map.c: memory, and the rings of a socket. */
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

/* port_xdp_group_umem.c: control segment, UMEM, anchors. */
/*
 * The memory of a new group.  A thread gives the UMEM its pages, which takes as long
 * as to attach the program, until xdp_group_memory_wait().
 */
int xdp_group_memory(struct xdp_port *port, char why[PORT_WHY]);
void xdp_group_memory_wait(struct xdp_port *port);
int xdp_group_create(struct xdp_port *port, char why[PORT_WHY]);
/* What another member made, from its descriptors. */
int xdp_group_adopt(struct xdp_port *port, char why[PORT_WHY]);
void xdp_group_drop(struct xdp_port *port);

/* port_xdp_group_join.c: makes the group of the interface, or joins it. */
int xdp_group_join(struct xdp_port *port, const struct xdp_device *dev, char why[PORT_WHY]);
/* Takes the name, or finds who has it; neither: later. */
void xdp_group_find_answerer(struct xdp_port *port);
/* Newcomers at listen_fd; one that speaks. */
void xdp_group_accept(struct xdp_port *port);
/* False: it is gone. */
bool xdp_group_answer(struct xdp_port *port, int conn);

/* port_xdp_group_service.c */
int xdp_service_init(struct xdp_port *port);
void xdp_service_watch(struct xdp_port *port, int fd, uint32_t events);
/* Of a descriptor that is watched. */
void xdp_service_close(struct xdp_port *port, int *fd);
int xdp_service(struct port *port, int fds[PORT_FDS_MAX]);
void xdp_service_fini(struct xdp_port *port);

/* port_xdp_flow.c */
int xdp_add_flow(struct port_queue *q, const struct flow_key *key);
int xdp_del_flow(struct port_queue *q, const struct flow_key *key);
int xdp_move_flow(struct port_queue *q, const struct flow_key *key);
int xdp_take_flow(struct port_queue *q, const struct flow_key *key);
bool xdp_flow_is_foreign(struct port *port, const struct flow_key *key);
/*
 * port_xdp_conns.c: the connections that need no entry of a map.  add: -EEXIST: it is
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
/* port_xdp_share.c: flows with several receivers. */
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

/* Nothing but shared flows is steered to these slots any more. */
void xdp_unsteer(struct xdp_port *port, const uint8_t slots[XDP_STEER_SLOTS]);
/* Frames of the slot that arrive on RX queue i go to this socket; -1: to the kernel. */
int xdp_flow_set_socket(struct xdp_port *port, unsigned slot, unsigned i, int fd);

/* port_xdp_queue.c */
int xdp_open_queue(struct port *port, struct port_queue **q, char why[PORT_WHY]);
void xdp_close_queue(struct port_queue *q);
bool xdp_idle(struct port_queue *q);
/* How much of the frames is ours, now that there are so many rings. */
void xdp_share(struct xdp_queue *q);

/* port_xdp_burst.c */
int xdp_rx_burst(struct port_queue *q, struct pkt **pkts, int max);
bool xdp_rx_pending(struct port_queue *q);
void xdp_tx_flush(struct port_queue *q);
struct pkt *xdp_tx_get(struct port_queue *q);
int xdp_tx_put(struct port_queue *q, struct pkt *pkt);
void xdp_pool_put(struct pkt_pool *pool, struct pkt *pkt);
/* A frame that was not made a packet. */
void xdp_take_back(struct xdp_queue *q, uint32_t frame);
/* Computes base.frames_free: the pool changes beside us. */
void xdp_count_free(struct xdp_queue *q);
/* What is left in the RX rings and on the stack is given back. */
void xdp_drain(struct xdp_queue *q);

/* port_xdp_big.c */
void xdp_big_init(struct xdp_queue *q);
/* Frees them all, also those that somebody holds. */
void xdp_big_fini(struct xdp_queue *q);
/* A piece of a large frame, consumed; the frame when it was the last one of it, or NULL. */
struct pkt *xdp_big_add(struct xdp_queue *q, struct xdp_sock *s, const struct xdp_desc *desc);

/*
 * port_xdp_why.c: the sentences for the user.  Each writes why and returns the
 * error the caller passes on.
 */
int xdp_why(char why[PORT_WHY], int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The capabilities AF_XDP needs; 0 when this process has them all. */
int xdp_why_missing_caps(char why[PORT_WHY], const char *ifname);
/* The kernel refused although the capabilities are there. */
int xdp_why_refused(char why[PORT_WHY], const char *ifname, const char *what);
/* An XDP program is on the interface.  -EAGAIN: one of this user's own, else -EBUSY. */
int xdp_why_taken(char why[PORT_WHY], const struct xdp_device *dev);
/* No AF_XDP socket on an RX queue. */
int xdp_why_no_sock(char why[PORT_WHY], const char *ifname, unsigned rx_queue, int rc);
/* Locked memory. */
int xdp_why_memlock(char why[PORT_WHY], const char *ifname);

#endif
