/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The registry of port kinds: an ordered list, best first.  Each kind says of an interface that
 * it serves it, or why not, and opens it.
 *
 * Role		ports_init(): once at start, before any other thread.  ports_take(),
 *		ports_open(): one thread at a time (the control lock, see rings.h).
 *		ports_thread_begins(), ports_thread_ends(): the internal thread.
 * Lifetime	kinds are constant.
 */
#ifndef RING_PORTS_H
#define RING_PORTS_H

#include "ring/port.h"

struct link;

struct port_kind {
	const char *name;
	/*
	 * 0: it serves interfaces.  Otherwise a negative number that stands for its only port,
	 * which no other kind opens.
	 */
	int own_ifindex;
	/*
	 * Can the kind serve an interface like this one?  It opens nothing and needs no
	 * privilege.  False: why is one line for the user, without \n; or it stays empty, if the
	 * interface does not concern the kind.
	 */
	bool (*takes)(const struct link *link, char why[PORT_WHY]);
	/*
	 * Opens the interface.  0, or -errno and why: what happened, the reason, and what to do,
	 * for the user; lines end in \n.  -PORT_UNTRIED with an empty why: as of takes.
	 */
	int (*open)(int ifindex, struct port **port, char why[PORT_WHY]);
	/* The internal thread has begun, or ends: it calls these. */
	void (*thread_begins)(void);
	void (*thread_ends)(void);
	/* In a forked child, where no other thread exists: its ports are the parent's. */
	void (*forget)(void);
};

/* The kind that serves no interface; its operations are a default for other kinds. */
extern const struct port_kind port_null_kind;

/* list: ends with NULL, and stays.  NULL: no interface is served. */
void ports_init(const struct port_kind *const *list);

/* Does a kind take the link?  False: why is one line without \n, with the reasons of all kinds. */
bool ports_take(const struct link *link, char why[PORT_WHY]);

/*
 * Opens the interface with the first kind that can.  Otherwise the error of the first kind that
 * refused for another reason than PORT_UNTRIED, and why: what the kind said, or a line from each
 * if several did.  A kind that refused for a reason of its own is named in the log.
 */
int ports_open(int ifindex, struct port **port, char why[PORT_WHY]);

/*
 * rings_addrs_gone(): port_ops.addrs_gone with the addresses that concern this port: without a scope, or
 * of its interface.
 */
#define PORTS_GONE_MAX 1024
void ports_tell_gone(struct port *port, const struct endpoint *gone, unsigned n);

/* Tell all kinds, see struct port_kind. */
void ports_thread_begins(void);
void ports_thread_ends(void);
void ports_forget(void);

/*
 * any, atomic: how often a process that shared a port with this one may have died; the internal
 * thread counts when it services the ports.
 */
extern uint32_t ports_deaths;

/* Operations of kinds that need nothing in their place. */
bool port_takes_all(const struct link *link, char why[PORT_WHY]);
void port_kind_ignores(void);

#endif
