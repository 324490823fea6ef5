/* SPDX-License-Identifier: BSD-2-Clause */
/* Members of multicast groups that local senders reach; see local_group.h. */
#include "sock/local/local_group.h"

#include "base/mem.h"
#include "base/sys.h"
#include "ring/local/record_quick.h"
#include "sock/local/local.h"
#include "sock/local/local_sock.h"
#include "sock/local/local_udp.h"
#include "sock/udp/mcast.h"

/* ---- what a socket hears --------------------------------------------------------------------- */

bool local_groups_take(const struct local_groups *g, const struct inaddr *group, int ifindex,
		       const struct inaddr *from)
{
	for (unsigned i = 0; i < g->n; i++) {
		const struct local_membership *m = &g->m[i];

		if (m->ifindex == ifindex && addr_eq(&m->group, group))
			return !m->filtered ||
			       mcast_accepts(m->exclude, local_groups_sources(g) + m->first, m->n,
					     from);
	}
	return g->all;
}

bool local_group_takes(const struct local_udp *l, const struct record_header *h)
{
	struct inaddr to = addr_v4(h->to), from = addr_v4(h->from);
	const struct inaddr *at = &l->place.at.addr;

	/* place: an address of IPv6 but :: has no group of IPv4, nor has :: with IPV6_V6ONLY. */
	if (!l->groups || h->to_port != l->place.at.port || !addr_is_multicast(&to) ||
	    !h->ifindex || h->ifindex > INT32_MAX || !local_place_has(&l->place, &to))
		return false;
	return (addr_is_any(at) || addr_eq(at, &to)) && local_may_be_from(l, h) &&
	       local_groups_take(l->groups, &to, (int)h->ifindex, &from);
}

bool local_group_is_for(const struct local_udp *l, const struct local_message *m)
{
	struct inaddr all = local_all_groups();

	return l->grouped && addr_eq(&m->to, &all) && m->to_port == l->place.at.port &&
	       addr_is_v4(&m->from) && local_is_address(&m->from);
}

/* ---- its memberships (control lock) ------------------------------------------------------------- */

static void count_one(const struct inaddr *group, int ifindex, const struct mcast_sources *sources,
		      void *arg)
{
	struct local_groups *size = arg;

	(void)group;
	(void)ifindex;
	size->n++;
	size->n_sources += sources ? sources->n : 0;
}

/* n counts up to what it was when the memory was taken. */
struct copy {
	struct local_groups *to;
	unsigned n;
};

static void copy_one(const struct inaddr *group, int ifindex, const struct mcast_sources *sources,
		     void *arg)
{
	struct copy *copy = arg;
	struct local_groups *to = copy->to;
	struct local_membership *m = &to->m[copy->n++];

	*m = (struct local_membership){.group = *group, .ifindex = ifindex};
	if (!sources)
		return;
	m->filtered = true;
	m->exclude = sources->exclude;
	m->first = to->n_sources;
	m->n = sources->n;
	for (unsigned i = 0; i < m->n; i++)
		local_groups_sources(to)[m->first + i] = sources->addr[i];
	to->n_sources += m->n;
}

/* NULL: no memory. */
static struct local_groups *groups_of(const struct inet_sock *so)
{
	struct local_groups size = {.n = 0}, *g;
	struct copy copy = {.n = 0};

	mcast_each_own(so, count_one, &size);
	g = mem_zalloc(sizeof(*g) + size.n * sizeof(g->m[0]) +
		       size.n_sources * sizeof(struct inaddr));
	if (!g)
		return NULL;
	g->all = so->opt->mc_all;
	g->n = size.n;
	copy.to = g;
	mcast_each_own(so, copy_one, &copy);
	return g;
}

/* holder: what was written so far is heard as the memberships are now. */
static void take_in(struct local_udp *l, struct inet_sock *so)
{
	uint32_t limit = so->udp.limit;
	uint64_t end;

	if (!l->segment.base || !limit)
		return;
	so->udp.limit = UINT32_MAX;
	end = record_ring_end(&l->reader);
	while (l->reader.next < end) {
		uint64_t before = l->reader.next;

		local_pull(l, LOCAL_PULL_MAX);
		if (l->reader.next == before)
			break; /* the twin has its turn */
	}
	so->udp.limit = limit;
}

/* May it hear a group that shared memory brings? */
static bool may_hear(const struct local_udp *l, const struct inet_sock *so)
{
	const struct inaddr *at = &l->place.at.addr;

	if (!l->registered || (so->udp.connected && !addr_is_v4(&so->remote.addr)))
		return false;
	if (addr_is_any(at))
		return addr_is_v4(at) || l->place.ipv4;
	return addr_is_v4(at) && addr_is_multicast(at);
}

/* Adds the entry, or tells those who have found it that something is different. */
static void join(struct local_udp *l, const struct inet_sock *so)
{
	struct local_place place = local_group_place(l->place.at.port);

	l->member = l->entry;
	l->member.cookie = sys_socket_cookie(sock_twin(&so->sk));
	if (!l->member.cookie)
		return;
	/* Before anybody finds it: what local_group_is_for() says. */
	local_lock();
	l->grouped = true;
	local_unlock();
	if (local_dir_add(&place, &l->member))
		local_group_leave(l);
}

void local_group_leave(struct local_udp *l)
{
	struct local_place place = local_group_place(l->place.at.port);

	control_assert_held();
	if (!l->grouped)
		return;
	local_dir_remove(&place, &l->member);
	local_lock();
	l->grouped = false;
	local_unlock();
}

void local_groups(struct inet_sock *so)
{
	struct local_udp *l = so->udp.local;
	struct local_groups *next, *before;
	struct ring *home;

	control_assert_held();
	control_assert_no_ring();
	if (list_empty(&so->udp.groups) && !l->groups)
		return;
	next = groups_of(so);
	if (!next || !next->n || !may_hear(l, so))
		local_group_leave(l);
	home = local_hold_home(l);
	if (!home) { /* never: no ring is held */
		mem_free(next);
		return;
	}
	take_in(l, so);
	before = l->groups;
	l->groups = next;
	ring_release_cold(home);
	mem_free(before);
	if (next && next->n && may_hear(l, so))
		join(l, so);
}
