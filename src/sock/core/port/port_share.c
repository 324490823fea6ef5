/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports that several sockets share (SO_REUSEADDR, SO_REUSEPORT).  Accelerated sockets, of all
 * processes, share the frames of a port among themselves (ring/reuseport.h).  But a frame that
 * the kernel would give to a socket that it receives for must go to the kernel.
 */
#include "sock/core/port/port_share.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "sock/core/kind.h"
#include "sock/core/msg/family.h"
#include "sock/core/port/port_claim.h"
#include "sock/core/port/port_table.h"
#include "sock/core/stats/sock_stats.h"

static unsigned long inode_of(int fd)
{
	struct stat st;

	return sys_call(SYS_fstat, fd, &st, 0, 0, 0, 0) == 0 ? st.st_ino : 0;
}

struct owner {
	unsigned long inode;
	struct inet_sock *so;
};

static void find_owner(struct inet_sock *so, void *arg)
{
	struct owner *owner = arg;

	if (!owner->so && so->bound && inode_of(sock_twin(&so->sk)) == owner->inode)
		owner->so = so;
}

static bool is_udp(const struct inet_sock *so)
{
	return so->inet == INET_UDP;
}

/* Could both have IPv4 traffic with one address?  A socket at :: may have that of any. */
static bool overlap_ipv4(const struct inaddr *a, const struct inaddr *b)
{
	return addr_is_any(a) ? addr_is_v4(b) || addr_is_any(b)
			      : addr_is_v4(a) && (addr_is_any(b) || addr_eq(a, b));
}

static bool overlap_ipv6(const struct inaddr *a, const struct inaddr *b)
{
	return !addr_is_v4(a) && !addr_is_v4(b) &&
	       (addr_is_any(a) || addr_is_any(b) || addr_eq(a, b));
}

/* May both get the same frames?  shares_traffic() tells whether they do. */
static bool same_address(const struct inet_sock *so, const struct port_row *row)
{
	return row->port == ntohs(so->local.port) && (overlap_ipv4(&so->local.addr, &row->addr) ||
						      overlap_ipv6(&so->local.addr, &row->addr));
}

/* After same_address().  It may ask the kernel for IPV6_V6ONLY. */
static bool shares_traffic(const struct inet_sock *so, const struct port_row *row)
{
	if (overlap_ipv6(&so->local.addr, &row->addr))
		return true;
	return port_row_has_ipv4(is_udp(so), row) &&
	       (addr_is_v4(&so->local.addr) || sock_has_ipv4(so));
}

/*
 * Another socket has the address and port.  True: the kernel must receive for so.  others: only if it is one
 * of another program.
 */
static bool conflict(const struct inet_sock *so, const struct port_row *row, bool others)
{
	struct owner owner = {row->inode, NULL};
	bool by_kernel;

	sock_each(find_owner, &owner);
	if (owner.so)
		by_kernel = !others && so->opt->reuseport && owner.so->opt->reuseport &&
			    owner.so->verdict != VERDICT_ACCELERATED;
	else
		by_kernel = !port_is_claimed(row->inode);
	return by_kernel && shares_traffic(so, row);
}

/* ---- claims --------------------------------------------------------------------------- */

void sock_port_claim(struct inet_sock *so)
{
	int *claim = sock_kind_of(so)->claim ? sock_kind_of(so)->claim(so) : NULL;

	control_assert_held();
	if (claim && *claim < 0 &&
	    (so->opt->reuseport || (so->inet == INET_UDP && so->opt->reuseaddr)))
		*claim = port_claim(inode_of(sock_twin(&so->sk)));
}

void sock_port_unclaim(struct inet_sock *so)
{
	control_assert_held();
	if (sock_kind_of(so)->claim)
		sys_close_fd(sock_kind_of(so)->claim(so));
}

/* ---- before attaching -------------------------------------------------------------------- */

struct asked {
	struct inet_sock *so;
	unsigned long inode;
	bool others, shared;
};

static void ask_row(const struct port_row *row, void *arg)
{
	struct asked *asked = arg;

	if (row->inode != asked->inode && same_address(asked->so, row))
		asked->shared |= conflict(asked->so, row, asked->others);
}

static bool is_shared(struct inet_sock *so, bool others)
{
	struct asked asked = {.so = so, .others = others};

	control_assert_held();
	if (!so->opt->reuseport && !(is_udp(so) && so->opt->reuseaddr))
		return false; /* the kernel lets no other socket bind to the port */
	asked.inode = inode_of(sock_twin(&so->sk));
	port_table_each(is_udp(so), ask_row, &asked);
	return asked.shared;
}

bool sock_port_shared(struct inet_sock *so)
{
	control_assert_held();
	return is_shared(so, false);
}

bool sock_port_foreign(struct inet_sock *so)
{
	control_assert_held();
	return is_shared(so, true);
}

/* ---- sockets that come later -------------------------------------------------------------- */

bool sock_ports_may_be_shared;

static bool may_be_shared(const struct inet_sock *so)
{
	if (sock_is_gone(so) || so->verdict != VERDICT_ACCELERATED || !so->bound)
		return false;
	return so->inet == INET_UDP ? so->opt->reuseaddr || so->opt->reuseport
				    : so->inet == INET_LISTEN && so->opt->reuseport;
}

/* Accelerated sockets whose port another socket may share. */
struct candidates {
	unsigned n, max;
	struct candidate {
		struct inet_sock *so;
		unsigned long inode;
	} * list;
};

static void count_candidate(struct inet_sock *so, void *arg)
{
	struct candidates *c = arg;

	c->max += may_be_shared(so);
}

static void add_candidate(struct inet_sock *so, void *arg)
{
	struct candidates *c = arg;

	if (!may_be_shared(so) || c->n == c->max)
		return;
	/* Another process that has the twin may have made the claim, and may have ended. */
	sock_port_claim(so);
	c->list[c->n++] = (struct candidate){so, inode_of(sock_twin(&so->sk))};
}

/*
 * The kernel receives for so from now on.  The socket keeps its unread data, sends as before,
 * and reads from its twin.
 */
static void give_frames_back(struct inet_sock *so)
{
	log_debug("fd %d: another socket shares its port: the kernel receives", sock_twin(&so->sk));
	sock_flows_del(so);
	if (sock_kind_of(so)->detached)
		sock_kind_of(so)->detached(so);
	so->verdict = so->inet == INET_LISTEN && so->listen.local ? VERDICT_LOCAL
								  : VERDICT_SHARED_PORT;
	sock_stats_verdict(so);
	sock_port_unclaim(so);
}

static bool has_groups(const struct inet_sock *so)
{
	list_for_each(link, &so->flows) {
		if (sock_flow_of(link)->multicast)
			return true;
	}
	return false;
}

/* All members of a group receive its datagrams, but a frame reaches one process only. */
static void give_groups_back(struct inet_sock *so)
{
	log_debug("fd %d: another socket shares its port: the kernel receives its groups",
		  sock_twin(&so->sk));
	sock_kind_of(so)->groups_to_kernel(so); /* not NULL: the kind has flows of groups */
}

/*
 * Sockets without a claim, found by this look [0] and by the last one [1].  A socket that is
 * being closed has no claim for a moment, so only those that were found twice count.
 */
#define SUSPECTS 64
static struct suspects {
	unsigned n;
	unsigned long inode[SUSPECTS];
} suspects[2];

static bool is_suspect(const struct suspects *s, unsigned long inode)
{
	for (unsigned i = 0; i < s->n; i++) {
		if (s->inode[i] == inode)
			return true;
	}
	return false;
}

/* The socket has no claim: does the kernel receive for it?  True the second time. */
static bool is_without_claim(unsigned long inode)
{
	struct suspects *now = &suspects[0];

	if (!is_suspect(now, inode) && now->n < SUSPECTS)
		now->inode[now->n++] = inode;
	return is_suspect(&suspects[1], inode);
}

/* A socket that is not a candidate has the address and port of so. */
static void share_with(struct inet_sock *so, const struct port_row *row, bool claimed)
{
	if (!claimed && !shares_traffic(so, row))
		return;
	if (!claimed && is_without_claim(row->inode))
		give_frames_back(so);
	else if (has_groups(so))
		give_groups_back(so);
}

static bool is_candidate(const struct candidates *c, unsigned long inode)
{
	for (unsigned i = 0; i < c->n; i++) {
		if (c->list[i].inode == inode)
			return true;
	}
	return false;
}

struct look {
	const struct candidates *c;
	bool udp;
};

static void look_at_row(const struct port_row *row, void *arg)
{
	const struct look *look = arg;
	bool asked = false, claimed = false;

	for (unsigned i = 0; i < look->c->n; i++) {
		struct inet_sock *so = look->c->list[i].so;

		if (is_udp(so) != look->udp || !same_address(so, row) ||
		    so->verdict != VERDICT_ACCELERATED)
			continue;
		/* Candidates share frames among themselves. */
		if (is_candidate(look->c, row->inode))
			return;
		claimed = asked ? claimed : port_is_claimed(row->inode);
		asked = true;
		share_with(so, row, claimed);
	}
}

static void look_at_table(const struct candidates *c, bool udp)
{
	struct look look = {c, udp};

	port_table_each(udp, look_at_row, &look);
}

/* Did this look find a socket that the last one did not? */
static bool has_fresh(void)
{
	for (unsigned i = 0; i < suspects[0].n; i++) {
		if (!is_suspect(&suspects[1], suspects[0].inode[i]))
			return true;
	}
	return false;
}

bool sock_ports_look(void)
{
	struct candidates c = {0};
	bool udp = false, tcp = false;

	control_assert_held();
	if (!sock_ports_may_be_shared)
		return false;
	suspects[1] = suspects[0];
	suspects[0].n = 0;
	sock_each(count_candidate, &c);
	c.list = c.max ? mem_alloc(c.max * sizeof(*c.list)) : NULL;
	if (!c.list)
		return false;
	sock_each(add_candidate, &c);
	for (unsigned i = 0; i < c.n; i++)
		*(is_udp(c.list[i].so) ? &udp : &tcp) = true;
	if (udp)
		look_at_table(&c, true);
	if (tcp)
		look_at_table(&c, false);
	mem_free(c.list);
	return has_fresh();
}

void sock_ports_follow(void)
{
	control_assert_held();
	sock_ports_look();
	sock_ports_look(); /* sockets that are found twice count */
}
