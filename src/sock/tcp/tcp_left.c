/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/tcp/tcp_left.h"

#include <netinet/in.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/stats/recorder.h"
#include "base/stats/stats_text.h"
#include "base/sys.h"
#include "net/tcp/tcp_wire.h"
#include "ring/ports.h"

#define ROUNDS 3
#define PROCESSES 32		   /* that a look finds; a later look finds others */
#define FIRST (50 * NSEC_PER_MSEC) /* the dead process's XDP program may still be there */
/* Linux answers no more than one such segment of a connection in 500 ms. */
#define BETWEEN (600 * NSEC_PER_MSEC)
#define TTL 64

/* The internal thread. */
static struct {
	bool looked;	 /* at least once */
	uint32_t deaths; /* ports_deaths at the last look */
	unsigned rounds; /* that are still to come */
	nsec_t due;	 /* the next round */
	struct recorder_conn *conns;
	unsigned n;
	int ids[PROCESSES]; /* of the processes that had them */
	unsigned processes;
} left;

/* ---- what was left ------------------------------------------------------------------------- */

static struct inaddr addr_of(const struct stats_addr *from)
{
	struct inaddr addr;

	memcpy(&addr, from, sizeof(addr));
	return addr;
}

/* Does the connection lead to another host?  The memory of the dead process may be damaged. */
static bool is_sound(const struct recorder_conn *conn)
{
	struct inaddr local = addr_of(&conn->local_addr), remote = addr_of(&conn->remote_addr);

	return conn->local_port && conn->remote_port && addr_is_v4(&local) == addr_is_v4(&remote) &&
	       !addr_is_any(&local) &&
	       (!addr_is_v4(&remote) || (remote.b[12] && remote.b[12] < 224)) &&
	       !addr_is_loopback(&remote) && !addr_is_multicast(&remote) &&
	       !addr_is_link_local6(&remote);
}

static void add_conns(const struct recorder_conn *conns, unsigned n)
{
	struct recorder_conn *all = mem_realloc(left.conns, (left.n + n) * sizeof(*all));

	if (!all)
		return;
	left.conns = all;
	for (unsigned i = 0; i < n; i++)
		if (is_sound(&conns[i]))
			all[left.n++] = conns[i];
}

static void find_all(void)
{
	struct recorder_conn *conns = mem_alloc(RECORDER_SOCKS * sizeof(*conns));
	int from = 0, id, n;

	while (conns && left.processes < PROCESSES && (n = recorder_left(&from, conns, &id)) >= 0) {
		left.ids[left.processes++] = id;
		if (n)
			add_conns(conns, (unsigned)n);
	}
	mem_free(conns);
	if (left.processes)
		log_debug("%u processes that were killed left %u connections", left.processes,
			  left.n);
}

/* After the last round: if this process is killed before, the next one tells the peers. */
static void done(void)
{
	while (left.processes)
		recorder_left_done(left.ids[--left.processes]);
	mem_free(left.conns);
	left.conns = NULL;
	left.n = 0;
	left.rounds = 0;
}

/* ---- probes -------------------------------------------------------------------------------- */

/* The length of the frame; 0: there is none. */
static size_t build(const struct recorder_conn *conn, uint32_t seq, uint8_t frame[FRAME_HDR_MAX])
{
	static const uint8_t no_mac[6]; /* the kernel adds the Ethernet header */
	const struct frame_params params = {
		.src_mac = no_mac,
		.dst_mac = no_mac,
		.src = {.addr = addr_of(&conn->local_addr), .port = conn->local_port},
		.dst = {.addr = addr_of(&conn->remote_addr), .port = conn->remote_port},
		.proto = IPPROTO_TCP,
		.ttl = TTL,
	};
	const struct tcp_segment segment = {.seq = seq, .flags = TCP_ACK};
	struct frame_template template;

	return frame_template_init(&template, &params)
		       ? 0
		       : frame_build_tcp(&template, frame, &segment);
}

static void probe(int fd, const struct recorder_conn *conn, uint32_t seq)
{
	const struct endpoint ep = {.addr = addr_of(&conn->remote_addr)};
	int family = addr_is_v4(&ep.addr) ? AF_INET : AF_INET6;
	struct sockaddr_storage to;
	socklen_t to_len = sizeof(to);
	uint8_t frame[FRAME_HDR_MAX];
	size_t len = build(conn, seq, frame);

	endpoint_to_sockaddr(&ep, family, (struct sockaddr *)&to, &to_len);
	if (len)
		sys_sendto(fd, frame + ETH_HDR, len - ETH_HDR, MSG_DONTWAIT,
			   (const struct sockaddr *)&to, to_len);
}

/* False: it cannot send. */
static bool probe_all(void)
{
	int fd = sys_socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
	/* Without IPv6 in the kernel there were no such connections. */
	int fd6 = sys_socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
	uint32_t seq;

	if (fd < 0) {
		log_debug("no raw socket: the peers of a process that was killed are not told");
		sys_close_fd(&fd6);
		return false;
	}
	for (unsigned i = 0; i < left.n && random_bytes(&seq, sizeof(seq)); i++) {
		int raw = stats_addr_is_ipv4(&left.conns[i].local_addr) ? fd : fd6;

		probe(raw, &left.conns[i], seq);
		probe(raw, &left.conns[i], seq + (1u << 31));
	}
	sys_close(fd);
	sys_close_fd(&fd6);
	return true;
}

/* ---- rounds -------------------------------------------------------------------------------- */

static bool must_look(void)
{
	uint32_t deaths = __atomic_load_n(&ports_deaths, __ATOMIC_RELAXED);

	if (__builtin_expect(left.looked && deaths == left.deaths, 1))
		return false;
	left.looked = true;
	left.deaths = deaths;
	return true;
}

bool tcp_left_run(nsec_t now)
{
	/* Those of a look whose rounds are not over are found again. */
	if (must_look()) {
		left.n = left.processes = 0;
		find_all();
		left.rounds = ROUNDS;
		left.due = now + FIRST;
		if (!left.n)
			done();
	}
	if (!left.rounds)
		return false;
	if (now < left.due)
		return true;
	left.due = now + BETWEEN;
	if (!probe_all()) {
		left.processes = 0; /* another process may be able to */
		left.rounds = 1;
	}
	if (--left.rounds)
		return true;
	done();
	return false;
}

void tcp_left_forget(void)
{
	bool looked = left.looked;

	/* Memory of other threads is abandoned, not freed: see sock_fork_child(). */
	memset(&left, 0, sizeof(left));
	/* Its parent has looked, or does; a child looks when another process dies. */
	left.looked = looked;
	left.deaths = __atomic_load_n(&ports_deaths, __ATOMIC_RELAXED);
}
