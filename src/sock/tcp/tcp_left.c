/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/tcp/tcp_left.h"

#include <netinet/in.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/stats/recorder.h"
#include "base/sys.h"
#include "net/tcp/tcp_wire.h"
#include "ring/ports.h"

#define ROUNDS 3
#define PROCESSES 32		   /* that a look finds; a later look finds others */
#define FIRST (50 * NSEC_PER_MSEC) /* the dead process's XDP program may still be there */
/* Linux answers no more than one such segment of a connection in 500 ms. */
#define BETWEEN (600 * NSEC_PER_MSEC)
#define PROBE_LEN (IP4_HDR + TCP_HDR)
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

/* Does the connection lead to another host?  The memory of the dead process may be damaged. */
static bool is_sound(const struct recorder_conn *conn)
{
	uint8_t first = (uint8_t)(ntohl(conn->remote_addr) >> 24);

	return conn->local_addr && conn->local_port && conn->remote_port && first && first != 127 &&
	       first < 224;
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

/* False: the template is for IPv4 only. */
static bool build(const struct recorder_conn *conn, uint32_t seq, uint8_t frame[FRAME_HDR_MAX])
{
	static const uint8_t no_mac[6]; /* the kernel adds the Ethernet header */
	const struct frame_params params = {
		.src_mac = no_mac,
		.dst_mac = no_mac,
		.src = {.addr = addr_v4(conn->local_addr), .port = conn->local_port},
		.dst = {.addr = addr_v4(conn->remote_addr), .port = conn->remote_port},
		.proto = IPPROTO_TCP,
		.ttl = TTL,
		.dont_fragment = true,
	};
	const struct tcp_segment segment = {.seq = seq, .flags = TCP_ACK};
	struct frame_template template;

	return !frame_template_init(&template, &params) &&
	       frame_build_tcp(&template, frame, &segment) == ETH_HDR + PROBE_LEN;
}

static void probe(int fd, const struct recorder_conn *conn, uint32_t seq)
{
	const struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {conn->remote_addr}};
	uint8_t frame[FRAME_HDR_MAX];

	if (build(conn, seq, frame))
		sys_sendto(fd, frame + ETH_HDR, PROBE_LEN, MSG_DONTWAIT,
			   (const struct sockaddr *)&to, sizeof(to));
}

/* False: it cannot send. */
static bool probe_all(void)
{
	int fd = sys_socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
	uint32_t seq;

	if (fd < 0) {
		log_debug("no raw socket: the peers of a process that was killed are not told");
		return false;
	}
	for (unsigned i = 0; i < left.n && random_bytes(&seq, sizeof(seq)); i++) {
		probe(fd, &left.conns[i], seq);
		probe(fd, &left.conns[i], seq + (1u << 31));
	}
	sys_close(fd);
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
	/* Memory of other threads is abandoned, not freed: see sock_fork_child(). */
	memset(&left, 0, sizeof(left));
}
