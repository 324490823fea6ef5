/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Direct rings: a queue pair of a card that sends what the program posts to it (vma_extra.h).
 *
 * Role		all functions: any thread, one at a time (the control lock), holding no ring.
 * Lifetime	independent of ports and of rings: a direct ring has the device open on its own, from
 *		open until close.  The program writes to its queues meanwhile, in any thread.
 * Errors	-errno.
 */
#ifndef RING_DIRECT_H
#define RING_DIRECT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "ring/port.h"

struct direct;

/* Memory that the program registered: in the list of its ring, from region_add() until region_del(). */
struct direct_region {
	struct list link;
	void *addr;
	size_t len;
	unsigned count; /* how often it was registered */
	/* set by region_add() */
	uint32_t key;
	void *handle; /* the kind's */
};

/* What the program needs to use it: see vma_extra.h. */
struct direct_view {
	uint32_t vendor, part;
	bool paces;
	struct {
		void *buf;
		volatile uint32_t *record;
		uint32_t n, size, number;
		void *page;
		uint32_t *consumed; /* the program's consumer index */
	} cq;
	struct {
		void *buf;
		volatile uint32_t *record;
		uint32_t n, stride, number;
		void *reg;
		uint32_t half;
	} sq;
};

/* Sorted. */
struct direct_ops {
	/* The next completion behind the consumer index makes the descriptor readable. */
	int (*arm)(struct direct *direct);
	/* Frees it, and its regions (mem_free()). */
	void (*close)(struct direct *direct);
	/* An event for so many completions, or so many microseconds after the first. */
	int (*moderate)(struct direct *direct, uint16_t completions, uint16_t usec);
	/* ->addr and ->len are set.  -EFAULT: not all of it is mapped, and can be written. */
	int (*region_add)(struct direct *direct, struct direct_region *region);
	/* After an error it is as before. */
	int (*region_del)(struct direct *direct, const struct direct_region *region);
	void (*view)(struct direct *direct, struct direct_view *view);
};

struct direct {
	/* set when opened */
	const struct direct_ops *ops;
	int fd; /* readable: a completion has come since the last arm(); until the next one */
	/* whoever calls the functions: begins empty */
	struct list regions; /* of struct direct_region */
};

/* Who makes them. */
struct direct_kind {
	/* Is there an interface on this host that one could be opened for?  It needs no privilege. */
	bool (*available)(void);
	/* -ENODEV: the interface is not one of a card's. */
	int (*open)(int ifindex, struct direct **direct, char why[PORT_WHY]);
};

#endif
