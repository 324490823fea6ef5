/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages come from any host: the test sends them by a raw socket, as a router would. */
#include "sock/core/icmp.h"

#include <dirent.h>
#include <netinet/ip_icmp.h>
#include <sys/wait.h>

#include "tests/unit/sock/world.h"

#define SERVER 9  /* the port of a listener in the middle of nowhere: all its segments are lost */
#define BURST 150 /* messages, more than a round reads; the socket has room for them */

static int raw = -1;

static int start(void **state)
{
	world_start(state);
	raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
	return raw < 0;
}

static int finish(void **state)
{
	close(raw);
	return world_finish(state);
}

/* The message quotes a packet from the address 0 to the address 1. */
struct message {
	struct icmphdr icmp;
	uint8_t ip[20];
	uint8_t l4[8];
};

static uint16_t sum_of(const void *data, size_t len)
{
	const uint16_t *p = data;
	uint32_t sum = 0;

	for (size_t i = 0; i < len / 2; i++)
		sum += p[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

static struct message message(uint8_t type, uint8_t code, uint8_t proto, unsigned from, unsigned to,
			      uint32_t seq)
{
	struct message m = {.icmp = {.type = type, .code = code},
			    .ip = {0x45, [3] = 60, [9] = proto}};
	uint32_t local = fake_link_addr(0), remote = fake_link_addr(1);
	uint16_t ports[2] = {htons((uint16_t)from), htons((uint16_t)to)};

	memcpy(m.ip + 12, &local, 4);
	memcpy(m.ip + 16, &remote, 4);
	memcpy(m.l4, ports, 4);
	seq = htonl(seq);
	memcpy(m.l4 + 4, &seq, 4);
	return m;
}

static void send_message(struct message m, size_t len)
{
	struct sockaddr_in to = world_addr(0, 0);

	m.icmp.checksum = 0;
	m.icmp.checksum = sum_of(&m, len);
	assert_int_equal(sendto(raw, &m, len, 0, (struct sockaddr *)&to, sizeof(to)), len);
}

/* ---- TCP: a connection that is being made ---------------------------------------------- */

static bool lose_all(const struct pkt *pkt)
{
	return true;
}

static struct tsock ts;
static unsigned port;

static int connecting(void **state)
{
	loop_port_lose(lose_all);
	ts = tsock_tcp();
	port = world_port();
	assert_int_equal(tsock_bind(&ts, fake_link_addr(0), port), 0);
	world_connect(&ts, 1, SERVER);
	return 0;
}

static int end(void **state)
{
	loop_port_lose(NULL);
	tsock_close(&ts);
	return 0;
}

static uint32_t seq_of(void)
{
	struct ring *ring;
	uint32_t seq;

	assert_true(sock_hold(ts.ref, &ring));
	seq = tsock_inet(&ts)->tcp.conn.snd_una;
	sock_release(ring);
	return seq;
}

static bool has_failed(void)
{
	return sock_events(ts.ref.sk) & EPOLLERR;
}

static int error_of(void)
{
	int error = 0;
	socklen_t len = sizeof(error);

	assert_int_equal(
		sock_ops_of(ts.ref.sk)->getsockopt(ts.ref, SOL_SOCKET, SO_ERROR, &error, &len), 0);
	return error;
}

static void test_a_host_that_is_unreachable_ends_the_attempt(void **state)
{
	send_message(message(3, 1, IPPROTO_TCP, port, SERVER, seq_of()), sizeof(struct message));
	assert_true(NET_WAIT(has_failed(), WORLD_WAIT));
	assert_int_equal(error_of(), EHOSTUNREACH);
}

/* RFC 5927: a blind sender does not know the sequence number, nor the ports. */
static void test_what_nobody_sent_is_no_error(void **state)
{
	uint32_t seq = seq_of();

	send_message(message(3, 1, IPPROTO_TCP, port, SERVER, seq - 1), sizeof(struct message));
	send_message(message(3, 1, IPPROTO_TCP, port, SERVER, seq + 100000),
		     sizeof(struct message));
	send_message(message(3, 1, IPPROTO_TCP, port + 1, SERVER, seq), sizeof(struct message));
	send_message(message(3, 1, IPPROTO_UDP, port, SERVER, seq), sizeof(struct message));
	/* Without all ports, or with no code that exists. */
	send_message(message(3, 1, IPPROTO_TCP, port, SERVER, seq), sizeof(struct message) - 6);
	send_message(message(3, 99, IPPROTO_TCP, port, SERVER, seq), sizeof(struct message));
	/* They are read in their order, so the next one is the proof that these were read. */
	send_message(message(12, 0, IPPROTO_TCP, port, SERVER, seq), sizeof(struct message));
	assert_true(NET_WAIT(has_failed(), WORLD_WAIT));
	assert_int_equal(error_of(), EPROTO);
}

/* The socket keeps what a round leaves, and the error behind it is not lost. */
static void test_many_messages_are_read_in_more_than_one_round(void **state)
{
	for (unsigned i = 0; i < BURST; i++)
		send_message(message(3, 1, IPPROTO_TCP, port, SERVER + 1, i),
			     sizeof(struct message));
	send_message(message(11, 0, IPPROTO_TCP, port, SERVER, seq_of()), sizeof(struct message));
	assert_true(NET_WAIT(has_failed(), WORLD_WAIT));
	assert_int_equal(error_of(), EHOSTUNREACH);
}

/* ---- UDP ------------------------------------------------------------------------------- */

/* The kernel has given the error to the twin, where the call looks. */
static void test_a_sender_of_datagrams_learns_that_nobody_listens(void **state)
{
	struct sockaddr_in sin = world_addr(1, SERVER);
	int fd;

	ts = world_udp(0, world_port());
	world_connect(&ts, 1, SERVER);
	/* What the datagram causes whose frame reaches the peer: here the twin sends it. */
	fd = dup(ts.fd);
	assert_int_equal(sendto(fd, "x", 1, 0, (struct sockaddr *)&sin, sizeof(sin)), 1);
	close(fd);
	assert_true(NET_WAIT(tsock_send(&ts, "y", 1, 0) == -ECONNREFUSED, WORLD_WAIT));
	assert_int_equal(tsock_send(&ts, "y", 1, 0), 1); /* once */
}

/* udp(7): a router that gave up is no error of a socket without IP_RECVERR. */
static void test_the_kernel_decides_what_is_an_error(void **state)
{
	unsigned from = world_port();
	ssize_t n = -1;

	ts = world_udp(0, from);
	world_connect(&ts, 1, SERVER);
	for (unsigned i = 0; i < 4; i++)
		send_message(message(11, 0, IPPROTO_UDP, from, SERVER, 0), sizeof(struct message));
	/* They are read in their order: an error of these would come first. */
	send_message(message(3, 3, IPPROTO_UDP, from, SERVER, 0), sizeof(struct message));
	assert_true(NET_WAIT((n = tsock_send(&ts, "y", 1, 0)) != 1, WORLD_WAIT));
	assert_int_equal(n, -ECONNREFUSED);
}

/* ---- the raw socket -------------------------------------------------------------------- */

static int raw_sockets(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int n = 0;

	while ((entry = readdir(dir))) {
		int fd = atoi(entry->d_name), protocol = 0, type = 0;
		socklen_t len = sizeof(int);

		if (sys_fd_is_hidden(fd) &&
		    !getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) &&
		    !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len))
			n += type == SOCK_RAW && protocol == IPPROTO_ICMP;
	}
	closedir(dir);
	return n;
}

/* Nobody can keep the internal thread awake with pings. */
static void test_pings_do_not_reach_the_socket(void **state)
{
	uint32_t filter = 0;
	socklen_t len = sizeof(filter);
	int n = 0;

	for (int fd = 3; fd < 1 << 20; fd++) {
		if (getsockopt(fd, SOL_RAW, 1, &filter, &len))
			continue;
		if (fd == raw)
			continue;
		n++;
		assert_int_equal(filter, ~(1u << 3 | 1u << 11 | 1u << 12));
	}
	assert_int_equal(n, 1);
}

/* In the child, where there is no internal thread. */
static int forget_and_open(void)
{
	int had, after, again;

	sock_icmp_forget();
	had = raw_sockets();
	sock_icmp_forget();
	after = raw_sockets();
	sock_icmp_open();
	again = raw_sockets();
	return had == 0 && after == 0 && again == 1 ? 0 : 1;
}

static void test_a_forked_child_has_none(void **state)
{
	int status;
	pid_t pid;

	assert_int_equal(raw_sockets(), 1);
	WORLD_LOCKED({
		pid = fork();
		if (!pid)
			_exit(forget_and_open());
	});
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(raw_sockets(), 1);
}

#define TCP(name) cmocka_unit_test_setup_teardown(name, connecting, end)
#define UDP(name) cmocka_unit_test_setup_teardown(name, NULL, end)

static const struct CMUnitTest tests[] = {
	TCP(test_a_host_that_is_unreachable_ends_the_attempt),
	TCP(test_what_nobody_sent_is_no_error),
	TCP(test_many_messages_are_read_in_more_than_one_round),
	UDP(test_a_sender_of_datagrams_learns_that_nobody_listens),
	UDP(test_the_kernel_decides_what_is_an_error),
	cmocka_unit_test(test_pings_do_not_reach_the_socket),
	cmocka_unit_test(test_a_forked_child_has_none),
};

VMA_TEST_MAIN("sock/core/icmp", tests, start, finish)
