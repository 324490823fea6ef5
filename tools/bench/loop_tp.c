/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages one way over the loop-back port: what sockets and the TCP engine can do
 * when there is neither a wire nor a kernel.
 *
 *	loop_tp CPU,CPU
 *
 * One thread sends messages of 100 bytes for SECONDS, the other one reads them, each
 * with a ring of its own; one send a message, and reads of what is there, as sockperf
 * does.  Prints messages_per_s for TCP_NODELAY, and nagle for a socket without it,
 * as sockperf has it unless it is told otherwise.
 */
#include <pthread.h>
#include <stdio.h>

#include "ring/logic.h"
#include "tests/lib/loop_net.h"
#include "tools/bench/crew.h"

#define SECONDS 1
#define SIZE 100
#define PORT 7000
#define BUFFER 65536
#define TCP_NODELAY 1 /* netinet/tcp.h has states named as ours */

struct stream {
	struct tsock from, to;
	int cpus[2];
	pthread_barrier_t gate; /* both are on their processors */
	/* reader, when it has ended */
	uint64_t bytes;
};

static int open_loop(int ifindex, struct port **port, char why[PORT_WHY])
{
	(void)ifindex;
	(void)why;
	return port_loop_open(1500, port);
}

/* A ring of its own, whoever uses it. */
static struct tsock make(unsigned user)
{
	struct tsock ts = tsock_tcp();

	NET_CHECK(ts.fd >= 0);
	NET_CHECK_EQ(tsock_set_logic(&ts, RING_LOGIC_USER_ID, user, true, true), 0);
	return ts;
}

/* Polls both rings: nobody else does. */
static void join(struct stream *s, bool nodelay)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons(PORT),
				 .sin_addr.s_addr = fake_link_addr(0)};
	struct tsock listener = make(2);
	int rc;

	s->from = make(1);
	NET_CHECK_EQ(tsock_set_int(&s->from, IPPROTO_TCP, TCP_NODELAY, nodelay), 0);
	NET_CHECK_EQ(tsock_bind(&listener, at.sin_addr.s_addr, PORT), 0);
	NET_CHECK_EQ(tsock_listen(&listener, 1), 0);
	rc = tsock_connect(&s->from, &at);
	NET_CHECK(!rc || rc == -EINPROGRESS);
	while (!(sock_events(s->from.ref.sk) & EPOLLOUT)) {
		sock_poll_ring(tsock_home(&listener));
		sock_poll_ring(tsock_home(&s->from));
	}
	sock_poll_ring(tsock_home(&listener));
	NET_CHECK(tsock_accept(&listener, &s->to, NULL) >= 0);
	tsock_close(&listener);
	tsock_block(&s->from, true);
	tsock_block(&s->to, true);
	NET_CHECK(tsock_home(&s->from) != tsock_home(&s->to));
}

static void *read_all(void *arg)
{
	static char buf[BUFFER];
	struct stream *s = arg;
	ssize_t n;

	crew_pin(s->cpus[1]);
	pthread_barrier_wait(&s->gate);
	while ((n = tsock_recv(&s->to, buf, sizeof(buf), 0)) > 0)
		s->bytes += (uint64_t)n;
	NET_CHECK_EQ(n, 0);
	return NULL;
}

/* Messages a second that were received. */
static double stream(const int cpus[2], bool nodelay)
{
	struct stream s = {.cpus = {cpus[0], cpus[1]}};
	static const char message[SIZE];
	nsec_t start, now;
	pthread_t reader;

	join(&s, nodelay);
	pthread_barrier_init(&s.gate, NULL, 2);
	NET_CHECK_EQ(pthread_create(&reader, NULL, read_all, &s), 0);
	crew_pin(cpus[0]);
	pthread_barrier_wait(&s.gate);
	start = clock_now();
	do {
		for (int i = 0; i < 64; i++)
			NET_CHECK_EQ(tsock_send(&s.from, message, SIZE, 0), SIZE);
		now = clock_now();
	} while (now - start < SECONDS * NSEC_PER_SEC);
	NET_CHECK_EQ(tsock_shutdown(&s.from, SHUT_WR), 0);
	pthread_join(reader, NULL);
	pthread_barrier_destroy(&s.gate);
	now = clock_now();
	tsock_close(&s.to);
	tsock_close(&s.from);
	return (double)(s.bytes / SIZE) * NSEC_PER_SEC / (double)(now - start);
}

static const char *variable(const char *name)
{
	return getenv(name);
}

int main(int argc, char **argv)
{
	static const struct sock_hooks hooks;
	int cpus[2];

	if (argc != 2) {
		fprintf(stderr, "usage: loop_tp CPU,CPU\n");
		return 2;
	}
	crew_parse_cpus(argv[1], cpus);
	clock_init();
	param_init(variable);
	loop_net_enter();
	sock_init(&hooks);
	rings_init(open_loop);
	printf("messages_per_s=%.0f ", stream(cpus, true));
	printf("nagle=%.0f\n", stream(cpus, false));
	return 0;
}
