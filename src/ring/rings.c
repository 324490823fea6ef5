/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/rings.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/param.h"
#include "base/image/sections.h"
#include "net/netlink/netlink.h"

#define CLOSE_AFTER NSEC_PER_SEC /* a ring without references stays open: it may be used again */

/* A port of this process, or a record that it could not be opened. */
struct port_entry {
	int ifindex;
	struct port *port; /* NULL: it could not be opened */
	bool gone;	   /* the interface is gone; ifindex is NO_INTERFACE */
	int error;
	unsigned limit;	     /* most rings that the interface allows; 0: not known */
	nsec_t unused_since; /* it has had no ring since; 0: it has rings */
};

static struct port_entry ports[RINGS_PORTS_MAX]; /* either lock to read, both to write: control, */
static unsigned n_ports;
static pthread_mutex_t ports_lock EARLY_DATA = PTHREAD_MUTEX_INITIALIZER; /* and this: services' */
static struct ring *rings[RINGS_MAX]; /* control lock to write; any reads */
static unsigned n_rings;	      /* atomic: control lock to write; entries below it are set */
static struct ring nowhere;
static bool told_limit; /* control lock: the warning of join_at_limit() was logged */

EARLY_CODE void rings_init(const struct port_kind *const *kinds)
{
	ports_init(kinds);
	ring_init(&nowhere, NULL, UINT32_MAX);
}

struct ring *rings_nowhere(void)
{
	return &nowhere;
}

unsigned rings_count(void)
{
	return __atomic_load_n(&n_rings, __ATOMIC_ACQUIRE); /* pairs with publish_ring() */
}

struct ring *rings_at(unsigned i)
{
	return rings[i];
}

static void publish_ring(struct ring *ring)
{
	rings[n_rings] = ring;
	__atomic_store_n(&n_rings, n_rings + 1, __ATOMIC_RELEASE); /* pairs with rings_count() */
}

/* ---- ports (control lock) ------------------------------------------------------- */

static struct port_entry *find_port(int ifindex)
{
	for (unsigned i = 0; i < n_ports; i++) {
		if (ports[i].ifindex == ifindex)
			return &ports[i];
	}
	return NULL;
}

static int get_port(int ifindex, struct port_entry **out, char why[PORT_WHY], bool *fresh)
{
	struct port_entry *entry = find_port(ifindex);
	struct port_entry made = {.ifindex = ifindex};

	*fresh = entry == NULL;
	if (!entry) {
		if (n_ports == RINGS_PORTS_MAX) {
			snprintf(why, PORT_WHY, "More than %d interfaces are in use.\n",
				 RINGS_PORTS_MAX);
			return -ENOSPC;
		}
		made.error = ports_open(ifindex, &made.port, why);
		mutex_lock(&ports_lock);
		entry = &ports[n_ports++];
		*entry = made;
		mutex_unlock(&ports_lock);
		/* In `ports` it is serviced: other processes can join it while this one waits. */
		if (made.port && !made.port->ops->settle(made.port))
			log_warn("%s: no carrier since its port was opened; what is sent before it "
				 "returns is lost",
				 made.port->name);
	}
	*out = entry;
	return entry->error;
}

static unsigned rings_of(int ifindex)
{
	unsigned n = 0;

	for (unsigned i = 0; i < n_rings; i++)
		n += rings[i]->ifindex == ifindex;
	return n;
}

static void free_port(struct port_entry *entry)
{
	struct port *port = entry->port;

	mutex_lock(&ports_lock);
	entry->port = NULL;
	mutex_unlock(&ports_lock);
	port->ops->free_port(port);
}

static void drop_entry(struct port_entry *entry)
{
	mutex_lock(&ports_lock);
	*entry = ports[--n_ports];
	mutex_unlock(&ports_lock);
}

unsigned rings_service(struct pollfd *fds, unsigned max)
{
	unsigned n = 0;

	mutex_lock(&ports_lock);
	for (unsigned i = 0; i < n_ports; i++) {
		int service[PORT_FDS_MAX], got = 0;

		if (ports[i].port)
			got = ports[i].port->ops->service(ports[i].port, service);
		for (int f = 0; f < got && n < max; f++)
			fds[n++] = (struct pollfd){.fd = service[f], .events = POLLIN};
	}
	mutex_unlock(&ports_lock);
	return n;
}

int rings_lost(void)
{
	int ifindex = 0;

	mutex_lock(&ports_lock);
	for (unsigned i = 0; i < n_ports; i++) {
		if (ports[i].port && port_is_lost(ports[i].port) && !ports[i].gone)
			ifindex = ports[i].ifindex;
	}
	mutex_unlock(&ports_lock);
	return ifindex;
}

/*
 * Is the interface gone, replaced by another device, in a bond or bridge, or has its MAC address
 * changed?
 */
static bool is_gone(const struct port *port)
{
	struct link link;

	if (port->ifindex <= 0) /* a port of tests */
		return false;
	return port_is_lost(port) || link_get(port->ifindex, &link) == -ENODEV || link.master ||
	       memcmp(link.mac, port->mac, sizeof(link.mac)) != 0;
}

int rings_gone(void)
{
	for (unsigned i = 0; i < rings_count(); i++) {
		struct port_queue *q = ring_queue(rings_at(i));

		if (q && is_gone(q->port))
			return q->port->ifindex;
	}
	return 0;
}

void rings_addrs_gone(const struct endpoint *gone, unsigned n)
{
	mutex_lock(&ports_lock);
	for (unsigned i = 0; i < n_ports; i++) {
		if (ports[i].port)
			ports_tell_gone(ports[i].port, gone, n);
	}
	mutex_unlock(&ports_lock);
}

/* ---- rings (control lock) ---------------------------------------------------------- */

static int leaving; /* control lock: see rings_interface_leaving(); 0: none */

static struct ring *find_ring(int ifindex, uint64_t key)
{
	for (unsigned i = 0; i < n_rings; i++) {
		if (rings[i]->ifindex == ifindex && rings[i]->key == key)
			return rings[i];
	}
	return NULL;
}

/* The ring of the interface with the fewest references; NULL: it has no rings. */
static struct ring *emptiest(int ifindex)
{
	struct ring *best = NULL;

	for (unsigned i = 0; i < n_rings; i++) {
		struct ring *r = rings[i];

		if (r->ifindex == ifindex &&
		    (!best || __atomic_load_n(&r->refs, __ATOMIC_RELAXED) <
				      __atomic_load_n(&best->refs, __ATOMIC_RELAXED)))
			best = r;
	}
	return best;
}

/* May the interface have one more ring? */
static bool within_limit(const struct port_entry *entry)
{
	unsigned n = rings_of(entry->ifindex);
	unsigned limit = (unsigned)params.ring_limit;

	return n < RINGS_MAX && (!limit || n < limit) && (!entry->limit || n < entry->limit);
}

/* The interface allows no more rings: from now on their number is its limit. */
static struct ring *join_at_limit(struct port_entry *entry, const char *why)
{
	entry->limit = rings_of(entry->ifindex);
	if (!told_limit)
		log_warn("%s: no room for more than %u rings, new sockets share them: %.*s",
			 entry->port->name, entry->limit, (int)strcspn(why, "\n"), why);
	told_limit = true;
	return emptiest(entry->ifindex);
}

/* A closed ring, or a new one.  Threads that still know the closed ring check after holding it. */
static struct ring *blank_ring(void)
{
	struct ring *r;

	for (unsigned i = 0; i < n_rings; i++) {
		/* acquire: pairs with ring_put() */
		if (!rings[i]->q && !rings[i]->retired &&
		    !__atomic_load_n(&rings[i]->refs, __ATOMIC_ACQUIRE))
			return rings[i];
	}
	if (n_rings == RINGS_MAX)
		return NULL;
	r = mem_aligned(64, sizeof(*r));
	if (!r)
		return NULL;
	ring_init(r, NULL, n_rings);
	publish_ring(r);
	return r;
}

static int open_ring(struct port_entry *entry, uint64_t key, struct ring **ring, char why[PORT_WHY])
{
	struct ring *r = blank_ring();
	struct port_queue *q;
	int rc;

	if (!r)
		return -ENOMEM;
	rc = entry->port->ops->open_queue(entry->port, &q, why);
	if (rc)
		return rc;
	if (!ring_hold_cold(r)) {
		entry->port->ops->close_queue(q);
		return -EAGAIN;
	}
	ring_open(r, q);
	r->ifindex = entry->ifindex;
	r->key = key;
	r->addr = addr_v4_any();
	link_addrs(entry->ifindex, &r->addr, 1);
	ring_release_cold(r);
	log_debug("ring %u on %s opened for key %#lx", r->id, entry->port->name, key);
	*ring = r;
	return 0;
}

int rings_get(int ifindex, uint64_t key, struct ring **ring, char why[PORT_WHY], bool *fresh)
{
	struct port_entry *entry;
	int rc;

	*fresh = false;
	if (ifindex == leaving) {
		snprintf(why, PORT_WHY, "Interface number %d is being left.\n", ifindex);
		return -ENODEV;
	}
	*ring = find_ring(ifindex, key);
	if (*ring)
		return 0;
	rc = get_port(ifindex, &entry, why, fresh);
	if (rc)
		return rc;
	if (!within_limit(entry)) {
		*ring = emptiest(ifindex);
		return *ring ? 0 : -ENOSPC;
	}
	rc = open_ring(entry, key, ring, why);
	if (!rc) {
		entry->unused_since = 0;
		return 0;
	}
	if (rings_of(ifindex)) {
		*ring = join_at_limit(entry, why);
		return 0;
	}
	/* The entry stays and says that it failed, so that the user is told once. */
	entry->unused_since = 0;
	free_port(entry);
	entry->error = rc;
	return rc;
}

/* True: it was closed. */
static bool close_ring(struct ring *r)
{
	bool closed = false;

	if (!ring_hold_cold(r))
		return false;
	/*
	 * Again, holding it: an item of the inbox may have taken a reference.
	 * acquire: pairs with ring_put()
	 */
	if (!__atomic_load_n(&r->refs, __ATOMIC_ACQUIRE) && r->ops->idle(r->q)) {
		ring_log_stats(r);
		log_debug("ring %u on %s closed: unused", r->id, r->q->port->name);
		ring_close(r);
		closed = true;
	}
	ring_release_cold(r);
	return closed;
}

/* Another ring of its interface, which has references; NULL: there is none. */
static struct ring *other_ring_of(const struct ring *ring)
{
	for (unsigned i = 0; i < n_rings; i++) {
		struct ring *r = rings[i];

		if (r != ring && r->ifindex == ring->ifindex &&
		    __atomic_load_n(&r->refs, __ATOMIC_RELAXED))
			return r;
	}
	return NULL;
}

/* ---- rings and ports of interfaces that are gone (control lock) ------------------------ */

#define NO_INTERFACE (-2)

static void close_dead_queue(struct ring *r)
{
	if (!ring_hold_cold(r))
		return;
	if (r->dead->ops->idle(r->dead)) {
		r->dead->ops->close_queue(r->dead);
		r->dead = NULL;
	}
	ring_release_cold(r);
}

static bool has_dead_queue(const struct port *port)
{
	for (unsigned i = 0; i < n_rings; i++) {
		if (rings[i]->dead && rings[i]->dead->port == port)
			return true;
	}
	return false;
}

/* The port has no rings and lingers, but its interface does not exist any more. */
static bool lingers_in_vain(const struct port_entry *entry)
{
	struct link link;

	return entry->unused_since && netlink_fd() >= 0 &&
	       link_get(entry->ifindex, &link) == -ENODEV;
}

static void recycle(struct ring *r, void (*vacate)(struct ring *ring, struct ring *other))
{
	if (vacate)
		vacate(r, NULL);
	if (!ring_hold_cold(r))
		return;
	/* acquire: pairs with ring_put() */
	if (!__atomic_load_n(&r->refs, __ATOMIC_ACQUIRE))
		ring_recycle(r);
	ring_release_cold(r);
}

static void close_gone(void (*vacate)(struct ring *ring, struct ring *other))
{
	for (unsigned i = 0; i < n_rings; i++) {
		struct ring *r = rings[i];

		if (r->dead)
			close_dead_queue(r);
		/* acquire: pairs with ring_put() */
		if (r->retired && !r->dead && !__atomic_load_n(&r->refs, __ATOMIC_ACQUIRE))
			recycle(r, vacate);
	}
	for (unsigned i = n_ports; i-- > 0;) {
		if (!(ports[i].gone || lingers_in_vain(&ports[i])) || has_dead_queue(ports[i].port))
			continue;
		log_debug("%s: interface is gone, port closed", ports[i].port->name);
		free_port(&ports[i]);
		drop_entry(&ports[i]);
	}
}

void rings_interface_leaving(int ifindex)
{
	leaving = ifindex;
}

void rings_interface_gone(int ifindex)
{
	struct port_entry *entry = find_port(ifindex);

	leaving = 0;
	if (!entry)
		return;
	mutex_lock(&ports_lock);
	entry->ifindex = NO_INTERFACE;
	entry->unused_since = 0;
	entry->gone = entry->port != NULL;
	mutex_unlock(&ports_lock);
	if (!entry->port)
		drop_entry(entry);
	close_gone(NULL);
}

void rings_interface_deaf(int ifindex)
{
	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *r = rings[i];

		if (!ring_queue(r) || !ring_hold_cold(r))
			continue;
		if (r->ifindex == ifindex) {
			__atomic_store_n(&r->n_fds, 0, __ATOMIC_RELAXED);
			ring_fds_changed(r);
		}
		ring_release_cold(r);
	}
}

bool rings_follow(void)
{
	bool some = false;

	for (unsigned i = 0; i < n_ports; i++) {
		if (ports[i].port && !ports[i].gone && ports[i].port->can.follows) {
			ports[i].port->ops->follow(ports[i].port);
			some = true;
		}
	}
	return some;
}

/* A port without rings stays open for a while: opening it again resets the link of many cards. */
static void free_unused_ports(nsec_t now)
{
	for (unsigned i = n_ports; i-- > 0;) {
		struct port_entry *entry = &ports[i];

		if (!entry->unused_since || port_is_needed(entry->port) ||
		    now - entry->unused_since < entry->port->linger * NSEC_PER_SEC)
			continue;
		log_debug("%s: port closed, no ring has used it for %u s", entry->port->name,
			  entry->port->linger);
		free_port(entry);
		drop_entry(entry);
	}
}

bool rings_close_unused(nsec_t now, void (*vacate)(struct ring *ring, struct ring *other))
{
	bool closed = false;

	close_gone(vacate);
	for (unsigned i = 0; i < n_rings; i++) {
		struct ring *r = rings[i];

		/* acquire: pairs with ring_put() */
		if (!r->q || __atomic_load_n(&r->refs, __ATOMIC_ACQUIRE)) {
			r->unused_since = 0;
		} else if (!r->unused_since) {
			r->unused_since = now;
		} else if (now - r->unused_since >= CLOSE_AFTER) {
			struct port_entry *entry = find_port(r->ifindex);

			if (vacate)
				vacate(r, other_ring_of(r));
			if (!close_ring(r))
				continue;
			closed = true;
			entry->limit = 0; /* there is room again */
			if (!rings_of(entry->ifindex))
				entry->unused_since = now;
		}
	}
	free_unused_ports(now);
	return closed;
}

struct ring *rings_find_flow(int ifindex, const struct flow_key *key)
{
	for (unsigned i = 0; i < n_rings; i++) {
		struct ring *r = rings[i];
		bool found;

		if (r->ifindex != ifindex || !ring_hold_cold(r))
			continue;
		found = flow_lookup(&r->flows, key) != NULL;
		ring_release_cold(r);
		if (found)
			return r;
	}
	return NULL;
}

void rings_interface_changed(int ifindex)
{
	for (unsigned i = n_ports; i-- > 0;) {
		if (!ports[i].port &&
		    (ifindex == RINGS_ANY_INTERFACE || ports[i].ifindex == ifindex))
			drop_entry(&ports[i]);
	}
}

void rings_barrier_add(struct rings_barrier *barrier, const struct ring *ring)
{
	unsigned i = 0;

	if (!ring->q) /* the interface is gone */
		return;
	while (i < barrier->n && barrier->ports[i] != ring->q->port)
		i++;
	if (i == barrier->n && i < RINGS_PORTS_MAX)
		barrier->ports[barrier->n++] = ring->q->port;
}

EARLY_CODE void rings_barrier_wait(const struct rings_barrier *barrier)
{
	for (unsigned i = 0; i < barrier->n; i++)
		barrier->ports[i]->ops->barrier(barrier->ports[i]);
}

int rings_grant(struct ring *ring, const struct flow_key *key)
{
	struct port_entry *entry = find_port(ring->ifindex);

	return entry && entry->port ? entry->port->ops->grant(entry->port, key) : -ENODEV;
}

void rings_fence(void)
{
	for (unsigned i = 0; i < n_ports; i++)
		if (ports[i].port)
			ports[i].port->ops->fence(ports[i].port);
}

void rings_forget(bool returns)
{
	for (unsigned i = 0; returns && i < n_rings; i++)
		ring_init(rings[i], NULL, rings[i]->id);
	/* The child has one thread: rings_count() pairs with publish_ring() only. */
	__atomic_store_n(&n_rings, 0, __ATOMIC_RELEASE);
	n_ports = 0;
	pthread_mutex_init(&ports_lock, NULL);
	ring_init(&nowhere, NULL, UINT32_MAX);
}

void rings_close_all(void)
{
	for (unsigned i = 0; i < n_rings; i++) {
		if (!rings[i]->q || !ring_hold_cold(rings[i]))
			continue;
		ring_close(rings[i]);
		ring_release_cold(rings[i]);
	}
	while (n_ports) {
		if (ports[0].port)
			free_port(&ports[0]);
		drop_entry(&ports[0]);
	}
}
