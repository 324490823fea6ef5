/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who receives when several sockets share a port: a socket of ours alone, until one comes that the
 * kernel receives for.  Those are sockets of this test that the library does not know; with a claim
 * they are what another accelerated process has.
 */
#include "sock/core/port/port_share.h"

#include <sys/stat.h>

#include "sock/core/port/port_claim.h"
#include "sock/core/stats/sock_stats.h"
#include "tests/unit/sock/world.h"

#define OTHERS_MAX 80
#define SLOTS 16    /* of sockets, in the page of statistics */
#define SUSPECTS 64 /* that one look remembers */

static struct tsock ours;
static unsigned port;
static struct {
	int fd, claim;
} others[OTHERS_MAX];
static unsigned n_others;

static int begin(void **state)
{
	port = world_port();
	ours = TSOCK_NONE;
	n_others = 0;
	return 0;
}

static void close_others(void)
{
	while (n_others) {
		close(others[--n_others].fd);
		if (others[n_others].claim >= 0)
			close(others[n_others].claim);
	}
}

static int finish(void **state)
{
	close_others();
	if (ours.fd >= 0)
		tsock_close(&ours);
	return 0;
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, finish)

static unsigned long inode_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

/* ---- sockets of the kernel ------------------------------------------------------------------ */

#define ONLY6 "only " /* before an address: IPV6_V6ONLY */

struct any_addr {
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	};
	socklen_t len;
	bool only6;
};

static struct any_addr parse(const char *text, unsigned at_port)
{
	struct any_addr a = {.only6 = !strncmp(text, ONLY6, strlen(ONLY6))};

	if (a.only6)
		text += strlen(ONLY6);
	if (strchr(text, ':')) {
		a.in6.sin6_family = AF_INET6;
		a.in6.sin6_port = htons((uint16_t)at_port);
		a.len = sizeof(a.in6);
		assert_int_equal(inet_pton(AF_INET6, text, &a.in6.sin6_addr), 1);
	} else {
		a.in.sin_family = AF_INET;
		a.in.sin_port = htons((uint16_t)at_port);
		a.len = sizeof(a.in);
		assert_int_equal(inet_pton(AF_INET, text, &a.in.sin_addr), 1);
	}
	return a;
}

/* Of the kernel, with the options that let it share the port. */
static int other_at(const char *text, unsigned at_port, int type)
{
	struct any_addr a = parse(text, at_port);
	int fd = socket(a.sa.sa_family, type | SOCK_CLOEXEC, 0), on = 1, only6 = a.only6;

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	if (a.sa.sa_family == AF_INET6)
		assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only6, sizeof(only6)),
				 0);
	assert_int_equal(bind(fd, &a.sa, a.len), 0);
	if (type == SOCK_STREAM)
		assert_int_equal(listen(fd, 1), 0);
	others[n_others].claim = -1;
	others[n_others++].fd = fd;
	return fd;
}

static int other(const char *text)
{
	return other_at(text, port, SOCK_DGRAM);
}

static void claim_other(unsigned i)
{
	WORLD_LOCKED(others[i].claim = port_claim(inode_of(others[i].fd)));
	assert_true(others[i].claim >= 0);
}

/* ---- before attaching ----------------------------------------------------------------------- */

/* A socket of ours that is about to have this address; its twin has none yet. */
static void ours_at(const char *text, int type)
{
	struct any_addr a = parse(text, port);
	int fd = socket(a.sa.sa_family, type | SOCK_CLOEXEC, 0), only6 = a.only6;

	ours.fd = fd;
	ours.ref = sock_create(fd, a.sa.sa_family, type, 0, true);
	assert_non_null(ours.ref.sk);
	if (a.sa.sa_family == AF_INET6) {
		assert_int_equal(tsock_set(&ours, IPPROTO_IPV6, IPV6_V6ONLY, &only6, sizeof(only6)),
				 0);
		memcpy(&tsock_inet(&ours)->local.addr, &a.in6.sin6_addr, sizeof(struct inaddr));
	} else {
		tsock_inet(&ours)->local.addr = addr_v4(a.in.sin_addr.s_addr);
	}
	tsock_inet(&ours)->local.port = htons((uint16_t)port);
}

static bool is_shared(void)
{
	bool shared, foreign;

	WORLD_LOCKED({
		shared = sock_port_shared(tsock_inet(&ours));
		foreign = sock_port_foreign(tsock_inet(&ours));
	});
	assert_int_equal(shared, foreign); /* the others are of no socket of this process */
	return shared;
}

static void test_which_addresses_share_traffic(void **state)
{
	static const struct {
		const char *ours, *other;
		bool shared;
	} rows[] = {
		{"10.1.0.1", "10.1.0.1", true},
		{"10.1.0.1", "10.1.0.2", false},
		{"10.1.0.1", "0.0.0.0", true},
		{"10.1.0.1", "::", true},
		{"10.1.0.1", ONLY6 "::", false},
		{"10.1.0.1", "::ffff:10.1.0.1", true},
		{"10.1.0.1", "::ffff:10.1.0.2", false},
		{"10.1.0.1", "::1", false},
		{"0.0.0.0", "10.1.0.1", true},
		{"0.0.0.0", "0.0.0.0", true},
		{"0.0.0.0", "::", true},
		{"0.0.0.0", ONLY6 "::", false},
		{"0.0.0.0", "::1", false},
		{"::", "10.1.0.1", true},
		{"::", "0.0.0.0", true},
		{"::", "::", true},
		{"::", ONLY6 "::", true},
		{"::", "::1", true},
		{ONLY6 "::", "10.1.0.1", false},
		{ONLY6 "::", "0.0.0.0", false},
		{ONLY6 "::", "::", true},
		{ONLY6 "::", ONLY6 "::", true},
		{ONLY6 "::", "::1", true},
		{"::1", "10.1.0.1", false},
		{"::1", "0.0.0.0", false},
		{"::1", "::", true},
		{"::1", ONLY6 "::", true},
		{"::1", "::1", true},
	};
	static const int types[] = {SOCK_DGRAM, SOCK_STREAM};

	for (unsigned i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		int type = types[i & 1];

		port = world_port();
		ours_at(rows[i / 2].ours, type);
		assert_int_equal(tsock_set_int(&ours, SOL_SOCKET, SO_REUSEPORT, 1), 0);
		assert_false(is_shared());
		other_at(rows[i / 2].other, port, type);
		if (is_shared() != rows[i / 2].shared)
			fail_msg("row %u, type %d", i / 2, type);
		close_others();
		tsock_close(&ours);
	}
}

static void test_another_port_or_protocol_is_no_matter(void **state)
{
	ours_at("10.1.0.1", SOCK_DGRAM);
	tsock_set_int(&ours, SOL_SOCKET, SO_REUSEPORT, 1);
	other_at("10.1.0.1", world_port(), SOCK_DGRAM);
	other_at("10.1.0.1", port, SOCK_STREAM);
	assert_false(is_shared());
	other("10.1.0.1");
	assert_true(is_shared());
}

/* Without one the kernel lets no other socket have the port, and its tables are not read. */
static void test_only_options_make_a_port_shared(void **state)
{
	static const struct {
		int type, option;
		bool shared;
	} rows[] = {
		{SOCK_DGRAM, 0, false},		  {SOCK_STREAM, 0, false},
		{SOCK_DGRAM, SO_REUSEADDR, true}, {SOCK_STREAM, SO_REUSEADDR, false},
		{SOCK_DGRAM, SO_REUSEPORT, true}, {SOCK_STREAM, SO_REUSEPORT, true},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ours_at("10.1.0.1", rows[i].type);
		if (rows[i].option)
			tsock_set_int(&ours, SOL_SOCKET, rows[i].option, 1);
		other_at("10.1.0.1", port, rows[i].type);
		if (is_shared() != rows[i].shared)
			fail_msg("row %u", i);
		close_others();
		tsock_close(&ours);
	}
}

static void test_a_claimed_socket_is_no_matter(void **state)
{
	ours_at("10.1.0.1", SOCK_DGRAM);
	tsock_set_int(&ours, SOL_SOCKET, SO_REUSEPORT, 1);
	other("10.1.0.1");
	claim_other(0);
	assert_false(is_shared());
	other("0.0.0.0"); /* one of two has no claim */
	assert_true(is_shared());
	claim_other(1);
	assert_false(is_shared());
}

/* Its own row is in the table. */
static void test_a_socket_does_not_share_with_itself(void **state)
{
	struct sockaddr_in sin = world_addr(0, port);

	ours_at("10.1.0.1", SOCK_DGRAM);
	tsock_set_int(&ours, SOL_SOCKET, SO_REUSEPORT, 1);
	assert_int_equal(bind(ours.fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_false(is_shared());
}

/* Two of this process: both are accelerated or none, if the kernel would spread frames over both. */
static void test_sockets_of_this_process(void **state)
{
	static const struct {
		int option, other_option;
		bool accelerated, shared;
	} rows[] = {
		{SO_REUSEPORT, SO_REUSEPORT, true, false},
		{SO_REUSEPORT, SO_REUSEPORT, false, true},
		{SO_REUSEADDR, SO_REUSEADDR, false, false}, /* the last one gets all */
		{SO_REUSEADDR, SO_REUSEPORT, false, false},
		{SO_REUSEPORT, SO_REUSEADDR, false, false},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tsock first = tsock_udp();
		enum verdict was;
		bool shared, foreign;

		port = world_port();
		tsock_set_int(&first, SOL_SOCKET, rows[i].other_option, 1);
		assert_int_equal(tsock_bind(&first, fake_link_addr(0), port), 0);
		ours_at("10.1.0.1", SOCK_DGRAM);
		tsock_set_int(&ours, SOL_SOCKET, rows[i].option, 1);
		WORLD_LOCKED({
			was = tsock_inet(&first)->verdict;
			if (!rows[i].accelerated)
				tsock_inet(&first)->verdict = VERDICT_OPTION;
			shared = sock_port_shared(tsock_inet(&ours));
			foreign = sock_port_foreign(tsock_inet(&ours));
			tsock_inet(&first)->verdict = was;
		});
		assert_int_equal(was, VERDICT_ACCELERATED);
		if (shared != rows[i].shared)
			fail_msg("row %u", i);
		assert_false(foreign);
		tsock_close(&ours);
		tsock_close(&first);
	}
}

/* The kernel serves one of this process, whose address looks alike: it has no traffic of IPv4. */
static void test_a_socket_of_this_process_without_common_traffic(void **state)
{
	struct tsock first;
	bool shared;

	other(ONLY6 "::");
	first = (struct tsock){.fd = others[--n_others].fd};
	first.ref = sock_create(first.fd, AF_INET6, SOCK_DGRAM, 0, true);
	assert_non_null(first.ref.sk);
	WORLD_LOCKED({
		assert_int_equal(sock_read_local(tsock_inet(&first)), 0);
		tsock_inet(&first)->bound = true;
		tsock_inet(&first)->verdict = VERDICT_OPTION;
	});
	tsock_set_int(&first, SOL_SOCKET, SO_REUSEPORT, 1);
	ours_at("0.0.0.0", SOCK_DGRAM);
	tsock_set_int(&ours, SOL_SOCKET, SO_REUSEPORT, 1);
	WORLD_LOCKED(shared = sock_port_shared(tsock_inet(&ours)));
	assert_false(shared);
	tsock_close(&ours);
	ours_at("::", SOCK_DGRAM);
	tsock_set_int(&ours, SOL_SOCKET, SO_REUSEPORT, 1);
	WORLD_LOCKED(shared = sock_port_shared(tsock_inet(&ours)));
	assert_true(shared);
	tsock_close(&first);
}

/* ---- claims --------------------------------------------------------------------------------- */

static bool is_claimed(void)
{
	bool claimed;

	WORLD_LOCKED(claimed = port_is_claimed(inode_of(ours.fd)));
	return claimed;
}

static int claim_of(const struct tsock *ts)
{
	return tsock_inet(ts)->inet == INET_UDP ? tsock_inet(ts)->udp.claim
						: tsock_inet(ts)->listen.claim;
}

static void listen_ours(int option)
{
	ours = tsock_tcp();
	if (option)
		assert_int_equal(tsock_set_int(&ours, SOL_SOCKET, option, 1), 0);
	assert_int_equal(tsock_bind(&ours, fake_link_addr(0), port), 0);
	assert_int_equal(tsock_listen(&ours, 4), 0);
	assert_int_equal(tsock_inet(&ours)->verdict, VERDICT_ACCELERATED);
}

/* Accelerated. */
static void bind_ours_to(uint32_t addr, int option)
{
	ours = tsock_udp();
	if (option)
		assert_int_equal(tsock_set_int(&ours, SOL_SOCKET, option, 1), 0);
	assert_int_equal(tsock_bind(&ours, addr, port), 0);
	assert_int_equal(tsock_inet(&ours)->verdict, VERDICT_ACCELERATED);
}

static void bind_ours(int option)
{
	bind_ours_to(fake_link_addr(0), option);
}

static void test_who_claims_a_port(void **state)
{
	static const struct {
		bool udp;
		int option;
		bool claims;
	} rows[] = {
		{true, 0, false},	    {false, 0, false},
		{true, SO_REUSEADDR, true}, {false, SO_REUSEADDR, false},
		{true, SO_REUSEPORT, true}, {false, SO_REUSEPORT, true},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		(rows[i].udp ? bind_ours : listen_ours)(rows[i].option);
		if (is_claimed() != rows[i].claims)
			fail_msg("row %u", i);
		assert_int_equal(claim_of(&ours) >= 0, rows[i].claims);
		tsock_close(&ours);
		port = world_port();
	}
}

static void test_a_claim_is_made_once_and_given_up(void **state)
{
	struct inet_sock *so;
	int claim;

	bind_ours(SO_REUSEPORT);
	so = tsock_inet(&ours);
	claim = claim_of(&ours);
	WORLD_LOCKED(sock_port_claim(so));
	assert_int_equal(claim_of(&ours), claim);
	WORLD_LOCKED(sock_port_unclaim(so));
	assert_int_equal(claim_of(&ours), -1);
	assert_false(is_claimed());
	assert_int_equal(fcntl(claim, F_GETFD), -1);
	WORLD_LOCKED(sock_port_unclaim(so)); /* there is none */
	WORLD_LOCKED(sock_port_claim(so));
	assert_true(is_claimed());
}

/* A connection shares its port with nobody. */
static void test_a_connection_claims_nothing(void **state)
{
	ours = tsock_tcp();
	tsock_set_int(&ours, SOL_SOCKET, SO_REUSEPORT, 1);
	WORLD_LOCKED({
		sock_port_claim(tsock_inet(&ours));
		sock_port_unclaim(tsock_inet(&ours));
	});
	assert_false(is_claimed());
}

/* ---- sockets that come later ------------------------------------------------------------------ */

/* The internal thread looks as well, but only while this is true. */
static bool look(void)
{
	bool again;

	WORLD_LOCKED({
		sock_ports_may_be_shared = true;
		again = sock_ports_look();
		sock_ports_may_be_shared = false;
	});
	return again;
}

/* From here on only look() looks, and what was seen before is forgotten. */
static void look_from_here(void)
{
	WORLD_LOCKED({
		sock_ports_may_be_shared = true;
		sock_ports_look();
		sock_ports_look();
		sock_ports_may_be_shared = false;
	});
}

static bool is_ours(void)
{
	enum verdict verdict;
	bool flows, told;
	unsigned slot;

	WORLD_LOCKED({
		slot = tsock_inet(&ours)->stats_slot;
		told = slot && stats_slot(slot)->accelerated;
		verdict = tsock_inet(&ours)->verdict;
		flows = !list_empty(&tsock_inet(&ours)->flows);
	});
	assert_true(verdict == VERDICT_ACCELERATED || verdict == VERDICT_SHARED_PORT);
	assert_true(slot);
	assert_int_equal(told, verdict == VERDICT_ACCELERATED);
	assert_int_equal(flows, verdict == VERDICT_ACCELERATED);
	assert_int_equal(is_claimed(), verdict == VERDICT_ACCELERATED);
	return verdict == VERDICT_ACCELERATED;
}

/* Found twice: it was not just being closed. */
static void test_the_kernel_receives_when_another_socket_was_seen_twice(void **state)
{
	bind_ours(SO_REUSEPORT);
	look_from_here();
	assert_false(look());
	other("10.1.0.1");
	assert_true(look()); /* for the first time */
	assert_true(is_ours());
	assert_false(look());
	assert_false(is_ours());
	assert_false(look());
	assert_false(is_ours());
}

static void test_what_arrives_is_the_kernels_then(void **state)
{
	struct tsock from = world_udp(1, world_port());
	struct sockaddr_in to = world_addr(0, port);
	int fd = world_kernel_udp(2, world_port());
	char buf[8];

	bind_ours(SO_REUSEADDR);
	look_from_here();
	world_send(&from, 0, port, "ours");
	assert_true(NET_WAIT(world_queued(&ours, 1), WORLD_WAIT)); /* it is kept */
	other("10.1.0.1");
	close(others[--n_others].fd); /* it is gone; the next one is another */
	other("10.1.0.1");
	WORLD_LOCKED({
		sock_ports_may_be_shared = true;
		sock_ports_follow();
		sock_ports_may_be_shared = false;
	});
	assert_false(is_ours());
	close_others();
	world_expect(&ours, "ours");
	world_send(&from, 0, port, "lost"); /* the wire has no flow for it */
	world_settle();
	assert_int_equal(sendto(fd, "kernel", 6, 0, (struct sockaddr *)&to, sizeof(to)), 6);
	world_expect(&ours, "kernel");
	assert_int_equal(tsock_recv(&ours, buf, sizeof(buf), 0), -EAGAIN);
	close(fd);
	tsock_close(&from);
}

static void test_a_socket_that_is_gone_at_the_second_look_does_not_count(void **state)
{
	bind_ours(SO_REUSEPORT);
	look_from_here();
	other("10.1.0.1");
	assert_true(look());
	close_others();
	other("10.1.0.1"); /* another one */
	assert_true(look());
	assert_true(is_ours());
	close_others();
	assert_false(look());
	assert_true(is_ours());
	other("10.1.0.1");
	assert_true(look()); /* nothing is remembered of earlier ones */
	assert_true(is_ours());
}

static void test_a_listener_follows_too(void **state)
{
	listen_ours(SO_REUSEPORT);
	look_from_here();
	other("10.1.0.1"); /* a datagram socket */
	assert_false(look());
	other_at("10.1.0.1", port, SOCK_STREAM);
	assert_true(look());
	assert_true(is_ours());
	assert_false(look());
	assert_false(is_ours());
}

/* One that local connections reach as well goes on with these. */
static void test_a_listener_keeps_its_local_connections(void **state)
{
	struct local_listener *some = (void *)&others;
	enum verdict verdict;

	listen_ours(SO_REUSEPORT);
	look_from_here();
	other_at("10.1.0.1", port, SOCK_STREAM);
	WORLD_LOCKED({
		sock_ports_may_be_shared = true;
		tsock_inet(&ours)->listen.local = some;
		sock_ports_follow();
		tsock_inet(&ours)->listen.local = NULL;
		sock_ports_may_be_shared = false;
		verdict = tsock_inet(&ours)->verdict;
	});
	assert_int_equal(verdict, VERDICT_LOCAL);
}

static void test_what_does_not_share_the_port_is_no_matter(void **state)
{
	struct tsock listener = tsock_tcp();

	/* So that the listeners are looked at, too. */
	tsock_set_int(&listener, SOL_SOCKET, SO_REUSEPORT, 1);
	assert_int_equal(tsock_bind(&listener, fake_link_addr(0), world_port()), 0);
	assert_int_equal(tsock_listen(&listener, 4), 0);
	bind_ours(SO_REUSEPORT);
	look_from_here();
	other("10.1.0.2");
	other(ONLY6 "::");
	other("::1");
	other_at("10.1.0.1", world_port(), SOCK_DGRAM);
	other_at("10.1.0.1", port, SOCK_STREAM);
	other("0.0.0.0");
	claim_other(5);
	for (unsigned i = 0; i < 3; i++)
		assert_false(look());
	assert_true(is_ours());
	tsock_close(&listener);
}

/* They share the frames among themselves: ring/reuseport.h. */
static void test_accelerated_sockets_of_this_process_go_on(void **state)
{
	struct tsock second = tsock_udp();

	bind_ours(SO_REUSEPORT);
	assert_int_equal(tsock_set_int(&second, SOL_SOCKET, SO_REUSEPORT, 1), 0);
	assert_int_equal(tsock_bind(&second, fake_link_addr(0), port), 0);
	assert_int_equal(tsock_inet(&second)->verdict, VERDICT_ACCELERATED);
	look_from_here();
	/* Even if a claim cannot be seen. */
	WORLD_LOCKED(sock_port_unclaim(tsock_inet(&second)));
	for (unsigned i = 0; i < 3; i++)
		assert_false(look());
	assert_true(is_ours());
	other("10.1.0.1");
	claim_other(0);
	for (unsigned i = 0; i < 3; i++)
		assert_false(look());
	assert_true(is_ours());
	assert_int_equal(tsock_inet(&second)->verdict, VERDICT_ACCELERATED);
	other("10.1.0.1");
	assert_true(look());
	assert_false(look());
	assert_false(is_ours());
	assert_int_equal(tsock_inet(&second)->verdict, VERDICT_SHARED_PORT);
	tsock_close(&second);
}

/* A process that made the claim, and has the twin as well, may have ended. */
static void test_a_claim_is_renewed(void **state)
{
	bind_ours(SO_REUSEPORT);
	look_from_here();
	WORLD_LOCKED(sock_port_unclaim(tsock_inet(&ours)));
	assert_false(is_claimed());
	assert_false(look());
	assert_true(is_claimed());
}

static void test_nothing_is_looked_at_unless_an_option_was_set(void **state)
{
	bind_ours(SO_REUSEPORT);
	look_from_here();
	other("10.1.0.1");
	WORLD_LOCKED({
		assert_false(sock_ports_look());
		assert_false(sock_ports_look());
	});
	assert_true(is_ours());
	assert_int_equal(tsock_set_int(&ours, SOL_SOCKET, SO_REUSEPORT, 1), 0);
	assert_true(sock_ports_may_be_shared);
}

#define GROUP "239.1.2.3"
#define OTHER_GROUP "239.1.2.4"

static unsigned group_flows(void)
{
	unsigned n = 0;

	WORLD_LOCKED({
		list_for_each(link, &tsock_inet(&ours)->flows)
			n += sock_flow_of(link)->multicast;
	});
	return n;
}

static int group_option(int name, const char *group)
{
	struct ip_mreqn req = {.imr_multiaddr.s_addr = inet_addr(group),
			       .imr_address.s_addr = fake_link_addr(0),
			       .imr_ifindex = FAKE_LINK_INDEX};

	return tsock_set(&ours, IPPROTO_IP, name, &req, sizeof(req));
}

/* A socket of any address, in a group. */
static void join(void)
{
	bind_ours_to(INADDR_ANY, SO_REUSEADDR);
	assert_int_equal(group_option(IP_ADD_MEMBERSHIP, GROUP), 0);
	look_from_here();
	assert_int_equal(group_flows(), 1);
}

/* All members get a datagram of a group, but a frame reaches one process. */
static void test_groups_are_the_kernels_when_another_process_has_the_port(void **state)
{
	join();
	assert_false(look());
	assert_int_equal(group_flows(), 1);
	other("10.1.0.1");
	claim_other(0);
	assert_false(look());
	assert_int_equal(group_flows(), 0);
	assert_true(is_ours()); /* with its other flows */
	assert_false(look());
	assert_true(is_ours());
}

/* At once, and the rest when it was seen twice. */
static void test_groups_go_first(void **state)
{
	join();
	other("0.0.0.0");
	assert_true(look());
	assert_int_equal(group_flows(), 0);
	assert_true(is_ours());
	assert_int_equal(group_option(IP_ADD_MEMBERSHIP, OTHER_GROUP), 0); /* in between */
	assert_int_equal(group_flows(), 1);
	assert_false(look());
	assert_false(is_ours());
	assert_int_equal(group_option(IP_DROP_MEMBERSHIP, GROUP), 0);
	assert_int_equal(group_option(IP_DROP_MEMBERSHIP, OTHER_GROUP), 0);
	assert_int_equal(group_flows(), 0);
}

/* More of them than one look remembers: those of another port come later. */
static void test_many_sockets_at_a_port(void **state)
{
	struct tsock second = tsock_udp();
	unsigned second_port = world_port(), looks = 0;

	bind_ours(SO_REUSEPORT);
	assert_int_equal(tsock_set_int(&second, SOL_SOCKET, SO_REUSEPORT, 1), 0);
	assert_int_equal(tsock_bind(&second, fake_link_addr(0), second_port), 0);
	look_from_here();
	for (unsigned i = 0; i < SUSPECTS + 5; i++)
		other("10.1.0.1");
	other_at("10.1.0.1", second_port, SOCK_DGRAM);
	while (look())
		assert_in_range(++looks, 1, 4);
	assert_false(is_ours());
	assert_int_equal(tsock_inet(&second)->verdict, VERDICT_SHARED_PORT);
	tsock_close(&second);
}

static const struct CMUnitTest tests[] = {
	CASE(test_which_addresses_share_traffic),
	CASE(test_another_port_or_protocol_is_no_matter),
	CASE(test_only_options_make_a_port_shared),
	CASE(test_a_claimed_socket_is_no_matter),
	CASE(test_a_socket_does_not_share_with_itself),
	CASE(test_sockets_of_this_process),
	CASE(test_a_socket_of_this_process_without_common_traffic),
	CASE(test_who_claims_a_port),
	CASE(test_a_claim_is_made_once_and_given_up),
	CASE(test_a_connection_claims_nothing),
	CASE(test_the_kernel_receives_when_another_socket_was_seen_twice),
	CASE(test_what_arrives_is_the_kernels_then),
	CASE(test_a_socket_that_is_gone_at_the_second_look_does_not_count),
	CASE(test_a_listener_follows_too),
	CASE(test_a_listener_keeps_its_local_connections),
	CASE(test_what_does_not_share_the_port_is_no_matter),
	CASE(test_accelerated_sockets_of_this_process_go_on),
	CASE(test_a_claim_is_renewed),
	CASE(test_nothing_is_looked_at_unless_an_option_was_set),
	CASE(test_groups_are_the_kernels_when_another_process_has_the_port),
	CASE(test_groups_go_first),
	CASE(test_many_sockets_at_a_port),
};

static char dir[] = "/tmp/port_share-XXXXXX";

/* With statistics, which show the verdicts. */
static int start(void **state)
{
	loop_net_enter();
	assert_non_null(mkdtemp(dir));
	params.log_level = LOG_WARNING;
	params.progress_interval = 1;
	params.thread_mode = HOLD_YIELD;
	stats_init(dir, "", SLOTS, true);
	assert_true(stats_open());
	loop_net_start();
	return 0;
}

static int end(void **state)
{
	loop_net_finish();
	stats_close();
	return rmdir(dir);
}

VMA_TEST_MAIN("sock/port_share", tests, start, end)
