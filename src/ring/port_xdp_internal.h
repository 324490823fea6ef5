/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of the xdp port.
 *
 * A port owns the XDP program on its interface (a link that dies with the
 * process) and the steering maps.  A queue owns a slot of the steering, one
 * UMEM, and one AF_XDP socket per RX queue of the interface, each with its own
 * four rings.
 *
 * Life of a frame: on the free stack (frames_free of them), or in the fill
 * ring, or in the RX ring, or with whoever took it from rx_burst() or tx_get(),
 * or put and not yet reaped (TX ring, driver, completion ring).
 */
#ifndef RING_PORT_XDP_INTERNAL_H
#define RING_PORT_XDP_INTERNAL_H

#include <linux/if_xdp.h>
#include <xdp/xsk.h>

#include "base/list.h"
#include "ring/port.h"
#include "ring/xdp_steer.h"

#define XDP_UMEM_SIZE (16u << 20)
#define XDP_RX_ENTRIES 4096u /* also what one fill ring is kept filled to, at most */
#define XDP_TX_ENTRIES 2048u
#define XDP_FILL_BATCH 64u	 /* frames missing in a fill ring before it is touched */
#define XDP_REAP_BATCH 64u	 /* frames sent before the completion rings are looked at */
#define XDP_TX_RESERVE 256u	 /* free frames that are not used to fill */
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
	struct xsk_ring_prod fill;
	struct xsk_ring_prod tx;
	struct xsk_ring_cons comp;
	unsigned fill_missing; /* entries the fill ring lacks */
	bool in_big;	       /* the last descriptor is continued in the next */
	struct pkt *big;       /* what came of it so far; NULL: dropped */
	/* set when opened */
	int fd;
	struct xdp_map maps[4];
};

struct xdp_queue {
	struct port_queue base;
	/* holder, every burst */
	uint8_t *umem;
	struct pkt *pkts; /* one per frame, by frame number */
	uint32_t *free;	  /* stack of frame numbers; base.frames_free is its height */
	unsigned frame_shift;
	unsigned next;		 /* socket rx_burst() looks at first */
	unsigned tx_unflushed;	 /* put since the last flush */
	unsigned tx_outstanding; /* put and not reaped */
	bool tx_stuck;		 /* the kernel did not take all of the TX ring */
	/* holder, see port_xdp_big.c */
	struct pkt_pool big_pool;
	struct list bigs;
	unsigned nbigs;
	/* set when opened */
	bool zerocopy;
	unsigned slot;
	unsigned nsocks;
	unsigned fill_target; /* entries a fill ring is kept filled to */
	struct xdp_sock socks[XDP_STEER_QUEUES];
};

struct xdp_port {
	struct port base;
	/* set when opened */
	unsigned rx_queues;
	bool native;
	int link_fd;
	int xsks_fd;
	int flows3_fd;
	int flows5_fd;
	struct xdp_steer_conf *conf; /* mapped from the program's memory */
	size_t conf_len;
	/* control lock of the caller */
	uint64_t slots; /* taken */
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

/* port_xdp_load.c: program, maps and link into port->*_fd; conf. */
int xdp_load(struct xdp_port *port, const struct xdp_device *dev, char why[PORT_WHY]);
void xdp_unload(struct xdp_port *port);

/* port_xdp_flow.c */
int xdp_add_flow(struct port_queue *q, const struct flow_key *key);
int xdp_del_flow(struct port_queue *q, const struct flow_key *key);
int xdp_move_flow(struct port_queue *q, const struct flow_key *key);
/* Removes what an earlier queue left behind in a slot. */
void xdp_flow_clear_slot(struct xdp_port *port, unsigned slot);
/* Frames of the slot that arrive on RX queue i go to this socket. */
int xdp_flow_set_socket(struct xdp_port *port, unsigned slot, unsigned i, int fd);

/* port_xdp_queue.c */
int xdp_open_queue(struct port *port, struct port_queue **q, char why[PORT_WHY]);
void xdp_close_queue(struct port_queue *q);
bool xdp_idle(struct port_queue *q);

/* port_xdp_burst.c */
int xdp_rx_burst(struct port_queue *q, struct pkt **pkts, int max);
bool xdp_rx_pending(struct port_queue *q);
void xdp_tx_flush(struct port_queue *q);
struct pkt *xdp_tx_get(struct port_queue *q);
int xdp_tx_put(struct port_queue *q, struct pkt *pkt);
void xdp_pool_put(struct pkt_pool *pool, struct pkt *pkt);
/* Puts what is missing into a fill ring, as far as frames allow. */
void xdp_refill(struct xdp_queue *q, struct xdp_sock *s);

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
/* Another XDP program is on the interface. */
int xdp_why_taken(char why[PORT_WHY], const struct xdp_device *dev);
/* Locked memory. */
int xdp_why_memlock(char why[PORT_WHY], const char *ifname);

#endif
