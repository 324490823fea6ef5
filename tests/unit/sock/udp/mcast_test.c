/* SPDX-License-Identifier: BSD-2-Clause */
/* Which members get a group's datagrams; the kernel's twin says what a call changed. */
#include "sock/udp/mcast.h"

#include "sock/udp/udp_sock.h"
#include "tests/unit/sock/world.h"

#define LO 1	   /* where the twins join; FAKE_LINK_INDEX for the library */
#define SOURCES 10 /* net.ipv4.igmp_max_msf */

static const char *const group = "239.1.1.1", *const other_group = "239.1.1.2";
static struct tsock ts, second, from;
static unsigned port;

static struct tsock member(uint32_t addr)
{
	struct tsock one = tsock_udp();

	assert_int_equal(tsock_set_int(&one, SOL_SOCKET, SO_REUSEADDR, 1), 0);
	assert_int_equal(tsock_bind(&one, addr, port), 0);
	return one;
}

static int three(void **state)
{
	port = world_port();
	ts = member(INADDR_ANY);
	second = member(INADDR_ANY);
	from = world_udp(1, world_port());
	/* As from another host: the kernel loops nothing back to members of this one. */
	return tsock_set_int(&from, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
}

static int end(void **state)
{
	tsock_close(&ts);
	tsock_close(&second);
	tsock_close(&from);
	return 0;
}

static int change(struct tsock *one, int name, const char *which)
{
	struct ip_mreqn req = {.imr_multiaddr.s_addr = inet_addr(which), .imr_ifindex = LO};

	return tsock_set(one, IPPROTO_IP, name, &req, sizeof(req));
}

static int join(struct tsock *one, const char *which)
{
	return change(one, IP_ADD_MEMBERSHIP, which);
}

static int change_source(struct tsock *one, int name, unsigned sender)
{
	struct ip_mreq_source req = {.imr_multiaddr.s_addr = inet_addr(group),
				     .imr_interface.s_addr = fake_link_addr(0),
				     .imr_sourceaddr.s_addr = fake_link_addr(sender)};

	return tsock_set(one, IPPROTO_IP, name, &req, sizeof(req));
}

static void send_to(const char *which)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_addr.s_addr = inet_addr(which),
				 .sin_port = htons((uint16_t)port)};

	assert_int_equal(tsock_sendto(&from, which, strlen(which), &to), strlen(which));
}

/* Each of the two gets what is sent, or nothing. */
static void expect(const char *which, bool first_gets, bool second_gets)
{
	struct tsock *both[] = {&ts, &second};
	bool gets[] = {first_gets, second_gets};

	send_to(which);
	for (unsigned i = 0; i < 2; i++) {
		char buf[32];

		if (gets[i])
			world_expect(both[i], which);
		world_settle();
		assert_int_equal(tsock_recv(both[i], buf, sizeof(buf), 0), -EAGAIN);
	}
}

static void mute(struct tsock *one)
{
	assert_int_equal(tsock_set_int(one, IPPROTO_IP, IP_MULTICAST_ALL, 0), 0);
}

static void mute_both(void)
{
	mute(&ts);
	mute(&second);
}

static unsigned memberships(const struct tsock *one)
{
	unsigned n = 0;

	list_for_each(link, &tsock_inet(one)->udp.groups)
		n++;
	return n;
}

static void test_a_member_gets_its_group_until_it_leaves(void **state)
{
	mute_both();
	expect(group, false, false);
	assert_int_equal(join(&ts, group), 0);
	expect(group, true, false);
	expect(other_group, false, false);
	assert_int_equal(change(&ts, IP_DROP_MEMBERSHIP, group), 0);
	expect(group, false, false);
	assert_int_equal(memberships(&ts), 0);
}

static void test_every_member_gets_a_copy(void **state)
{
	mute_both();
	assert_int_equal(join(&ts, group), 0);
	assert_int_equal(join(&second, group), 0);
	expect(group, true, true);
	tsock_close(&ts);
	send_to(group);
	world_expect(&second, group);
}

static void test_what_the_kernel_refuses_changes_nothing(void **state)
{
	struct ip_mreqn unicast = {.imr_multiaddr.s_addr = fake_link_addr(2), .imr_ifindex = LO};

	mute_both();
	assert_int_equal(change(&ts, IP_DROP_MEMBERSHIP, group), -EADDRNOTAVAIL);
	assert_int_equal(join(&ts, group), 0);
	assert_int_equal(join(&ts, group), -EADDRINUSE);
	assert_int_equal(tsock_set(&ts, IPPROTO_IP, IP_ADD_MEMBERSHIP, &unicast, sizeof(unicast)),
			 -EINVAL);
	assert_int_equal(tsock_set(&ts, IPPROTO_IP, IP_ADD_MEMBERSHIP, &unicast, 3), -EINVAL);
	assert_int_equal(memberships(&ts), 1);
	expect(group, true, false);
}

static void test_a_pointer_that_is_wrong_is_the_kernels_affair(void **state)
{
	test_guard();
	assert_int_equal(tsock_set(&ts, IPPROTO_IP, IP_ADD_MEMBERSHIP, WORLD_BAD, 12), -EFAULT);
	assert_int_equal(memberships(&ts), 0);
}

/* ---- senders ------------------------------------------------------------------------------- */

static void test_a_member_may_choose_its_senders(void **state)
{
	mute_both();
	assert_int_equal(change_source(&ts, IP_ADD_SOURCE_MEMBERSHIP, 2), 0);
	assert_int_equal(change_source(&second, IP_ADD_SOURCE_MEMBERSHIP, 1), 0);
	expect(group, false, true);
	assert_int_equal(change_source(&ts, IP_ADD_SOURCE_MEMBERSHIP, 1), 0);
	expect(group, true, true);
	assert_int_equal(change_source(&ts, IP_DROP_SOURCE_MEMBERSHIP, 1), 0);
	expect(group, false, true);
	assert_int_equal(change_source(&ts, IP_DROP_SOURCE_MEMBERSHIP, 2), 0);
	assert_int_equal(memberships(&ts), 0); /* the last one ends it */
}

static void test_a_member_may_refuse_senders(void **state)
{
	mute_both();
	assert_int_equal(join(&ts, group), 0);
	assert_int_equal(change_source(&ts, IP_BLOCK_SOURCE, 1), 0);
	expect(group, false, false);
	assert_int_equal(change_source(&ts, IP_UNBLOCK_SOURCE, 1), 0);
	expect(group, true, false);
	assert_int_equal(change_source(&ts, IP_UNBLOCK_SOURCE, 1), -EADDRNOTAVAIL);
	expect(group, true, false);
}

/* One more is refused, and the filter of those that there are stays in force. */
static void test_the_number_of_senders_is_the_kernels(void **state)
{
	mute_both();
	for (unsigned i = 0; i < SOURCES; i++)
		assert_int_equal(change_source(&ts, IP_ADD_SOURCE_MEMBERSHIP, 100 + i), 0);
	expect(group, false, false);
	assert_int_equal(change_source(&ts, IP_ADD_SOURCE_MEMBERSHIP, 1), -ENOBUFS);
	expect(group, false, false);
	assert_int_equal(change_source(&ts, IP_DROP_SOURCE_MEMBERSHIP, 100), 0);
	assert_int_equal(change_source(&ts, IP_ADD_SOURCE_MEMBERSHIP, 1), 0);
	expect(group, true, false);
}

static void test_filters_include_or_exclude(void **state)
{
	struct mcast_sources *s = calloc(1, sizeof(*s) + 2 * sizeof(s->addr[0]));
	struct inaddr in = addr_v4(fake_link_addr(1)), out = addr_v4(fake_link_addr(3));

	assert_false(mcast_wants(s, &in)); /* includes nobody */
	s->exclude = true;
	assert_true(mcast_wants(s, &in));
	s->n = 2;
	s->addr[0] = addr_v4(fake_link_addr(0));
	s->addr[1] = addr_v4(fake_link_addr(1));
	assert_false(mcast_wants(s, &in));
	assert_true(mcast_wants(s, &out));
	s->exclude = false;
	assert_true(mcast_wants(s, &in));
	assert_false(mcast_wants(s, &out));
	free(s);
}

/* ---- who overhears --------------------------------------------------------------------------- */

/* ip(7), IP_MULTICAST_ALL: on by default. */
static void test_a_socket_overhears_what_another_one_joined(void **state)
{
	assert_int_equal(join(&ts, group), 0);
	expect(group, true, true);
	mute(&second);
	expect(group, true, false);
	assert_int_equal(tsock_set_int(&second, IPPROTO_IP, IP_MULTICAST_ALL, 1), 0);
	expect(group, true, true);
	assert_int_equal(change(&ts, IP_DROP_MEMBERSHIP, group), 0);
	expect(group, false, false); /* nobody has joined */
	assert_int_equal(memberships(&second), 0);
}

static void test_a_close_ends_what_others_overheard(void **state)
{
	assert_int_equal(join(&ts, group), 0);
	expect(group, true, true);
	tsock_close(&ts);
	assert_int_equal(memberships(&second), 0);
}

/* It says itself what it wants now: its own filter counts. */
static void test_who_joins_does_not_overhear(void **state)
{
	assert_int_equal(join(&ts, group), 0);
	assert_int_equal(change_source(&second, IP_ADD_SOURCE_MEMBERSHIP, 2), 0);
	expect(group, true, false);
	assert_int_equal(memberships(&second), 1);
}

/* ---- addresses --------------------------------------------------------------------------------- */

static void test_the_bound_address_decides(void **state)
{
	tsock_close(&second);
	second = member(inet_addr(group));
	assert_int_equal(join(&second, group), 0);
	assert_int_equal(join(&second, other_group), 0);
	mute(&ts);
	expect(group, false, true);
	expect(other_group, false, false); /* bound to the other group */
	tsock_close(&second);
	second = member(fake_link_addr(0));
	assert_int_equal(join(&second, group), 0);
	expect(group, false, false); /* a unicast address */
}

static void test_a_membership_that_came_before_bind(void **state)
{
	tsock_close(&second);
	second = tsock_udp();
	mute_both();
	assert_int_equal(join(&second, group), 0);
	assert_int_equal(tsock_set_int(&second, SOL_SOCKET, SO_REUSEADDR, 1), 0);
	assert_int_equal(tsock_bind(&second, INADDR_ANY, port), 0);
	expect(group, false, true);
}

static void test_the_twin_keeps_the_memberships_of_a_socket_that_leaves(void **state)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_addr.s_addr = inet_addr(group),
				 .sin_port = htons((uint16_t)port)};
	struct in_addr by = {fake_link_addr(1)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char c;

	assert_int_equal(join(&ts, group), 0);
	assert_int_equal(sock_to_kernel(ts.ref, VERDICT_FORKED), 0);
	assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof(by)), 0);
	assert_int_equal(sendto(fd, "k", 1, 0, (struct sockaddr *)&to, sizeof(to)), 1);
	assert_true(world_readable(ts.fd, WORLD_WAIT));
	assert_int_equal(recv(ts.fd, &c, 1, MSG_DONTWAIT), 1);
	close(fd);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, three, end)

static const struct CMUnitTest tests[] = {
	CASE(test_a_member_gets_its_group_until_it_leaves),
	CASE(test_every_member_gets_a_copy),
	CASE(test_what_the_kernel_refuses_changes_nothing),
	CASE(test_a_pointer_that_is_wrong_is_the_kernels_affair),
	CASE(test_a_member_may_choose_its_senders),
	CASE(test_a_member_may_refuse_senders),
	CASE(test_the_number_of_senders_is_the_kernels),
	cmocka_unit_test(test_filters_include_or_exclude),
	CASE(test_a_socket_overhears_what_another_one_joined),
	CASE(test_a_close_ends_what_others_overheard),
	CASE(test_who_joins_does_not_overhear),
	CASE(test_the_bound_address_decides),
	CASE(test_a_membership_that_came_before_bind),
	CASE(test_the_twin_keeps_the_memberships_of_a_socket_that_leaves),
};

VMA_TEST_MAIN("sock/udp/mcast", tests, world_start, world_finish)
