/* SPDX-License-Identifier: BSD-2-Clause */
/* A member of groups that local senders reach: what it hears is what the kernel would give it. */
#include "receiver_fixture.h"

#include "base/mem.h"
#include "ring/local/record_fan.h"
#include "sock/local/local_group.h"

#define GROUP htonl(0xefff0707) /* 239.255.7.7 */
#define OTHER htonl(0xefff0708)

/* ---- the rule ----------------------------------------------------------------------------------- */

/* Member of GROUP on interface 3, and with filtered, as of this mode for senders HERE. */
static struct local_groups *groups(bool all, bool filtered, bool exclude)
{
	struct local_groups *g = mem_zalloc(sizeof(*g) + sizeof(g->m[0]) + sizeof(struct inaddr));

	assert_non_null(g);
	g->all = all;
	g->n = 1;
	g->m[0] = (struct local_membership){.group = addr_v4(GROUP),
					    .ifindex = 3,
					    .filtered = filtered,
					    .exclude = exclude,
					    .n = filtered};
	g->n_sources = filtered;
	if (filtered)
		local_groups_sources(g)[0] = addr_v4(HERE);
	return g;
}

static void test_memberships_decide_as_in_the_kernel(void **state)
{
	static const struct {
		bool all, filtered, exclude;
		bool here, there, on4, other; /* from HERE; from THERE; on interface 4; to OTHER */
	} rows[] = {
		{.here = true, .there = true},
		{.all = true, .here = true, .there = true, .on4 = true, .other = true},
		{.filtered = true, .here = true},
		{.filtered = true, .exclude = true, .there = true},
		{.all = true,
		 .filtered = true,
		 .exclude = true,
		 .there = true,
		 .on4 = true,
		 .other = true},
	};
	struct inaddr group = addr_v4(GROUP), other = addr_v4(OTHER), here = addr_v4(HERE),
		      there = addr_v4(THERE);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct local_groups *g = groups(rows[i].all, rows[i].filtered, rows[i].exclude);

		assert_int_equal(local_groups_take(g, &group, 3, &here), rows[i].here);
		assert_int_equal(local_groups_take(g, &group, 3, &there), rows[i].there);
		assert_int_equal(local_groups_take(g, &group, 4, &here), rows[i].on4);
		assert_int_equal(local_groups_take(g, &other, 3, &here), rows[i].other);
		mem_free(g);
	}
}

/* ---- a member ------------------------------------------------------------------------------------ */

static struct local_message question_for_groups(void)
{
	struct local_message m = question();

	m.to = local_all_groups();
	return m;
}

/* Bound to any address, and a member as its program has never made it. */
static int begin_member(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET};

	begin_at(socket(AF_INET, SOCK_DGRAM, 0), (struct sockaddr *)&at, sizeof(at));
	so->udp.local->groups = groups(false, true, false);
	local_lock();
	so->udp.local->grouped = true;
	local_unlock();
	assert_true(ask(question_for_groups()));
	open_writer_of_answer();
	return 0;
}

static int finish_member(void **state)
{
	local_lock();
	so->udp.local->grouped = false; /* it has no entry */
	local_unlock();
	return finish(state);
}

static struct record_header to_group(void)
{
	struct record_header h = header();

	h.to = GROUP;
	h.ifindex = 3;
	h.flags = RECORD_GROUP;
	return h;
}

/* Writes a record as senders to groups do, and returns how many datagrams the socket has then. */
static uint32_t fan_one(struct record_header h)
{
	struct record_part part = {.writer = &writer};
	char byte = 'g';
	struct iovec bytes = {&byte, 1};
	unsigned failed;
	uint32_t n;

	assert_true(ring_hold_cold(local_ring()));
	assert_int_equal(record_fan_write(&part, 1, &h, &bytes, &failed), 0);
	local_end_post(&end);
	ring_poll(local_ring());
	n = so->udp.count;
	ring_release_cold(local_ring());
	return n;
}

static void test_a_record_becomes_a_datagram_of_its_interface(void **state)
{
	struct endpoint to;

	assert_int_equal(fan_one(to_group()), 1);
	assert_true(ring_hold_cold(local_ring()));
	assert_int_equal(so->udp.head->ifindex, 3);
	assert_true(so->udp.head->flags & PKT_LOOPED);
	assert_int_equal(*pkt_payload(so->udp.head), 'g');
	to = frame_destination(so->udp.head);
	assert_int_equal(addr_v4_of(&to.addr), GROUP);
	ring_release_cold(local_ring());
}

static void test_what_cannot_be_is_dropped(void **state)
{
	struct record_header h = to_group();

#define REFUSED(member, value)                   \
	do {                                     \
		h = to_group();                  \
		h.member = (value);              \
		assert_int_equal(fan_one(h), 0); \
	} while (0)
	REFUSED(ifindex, 0);
	REFUSED(ifindex, UINT32_MAX);
	REFUSED(ifindex, 4); /* not joined there */
	REFUSED(to, OTHER);  /* not joined */
	REFUSED(to, HERE);   /* no group */
	REFUSED(to, 0);
	REFUSED(from, THERE); /* nobody has asked from there */
	REFUSED(from, GROUP);
	REFUSED(from, 0);
	REFUSED(from_port, htons(53)); /* a low port */
	REFUSED(from_port, 0);
	REFUSED(to_port, htons(1));
	REFUSED(flags, RECORD_GROUP | RECORD_IPV6); /* a mark */
	assert_int_equal(fan_one(to_group()), 1);
}

static void test_an_ordinary_record_goes_to_no_group(void **state)
{
	struct record_header h = to_group();

	assert_int_equal(write_one(h, 'a'), 0);
	h.flags = 0;
	assert_int_equal(write_one(h, 'a'), 0);
	h.to = HERE;
	assert_int_equal(write_one(h, 'a'), 1);
}

static void test_a_connected_member_hears_its_peer(void **state)
{
	so->remote = (struct endpoint){.addr = addr_v4(HERE), .port = htons(5001)};
	so->udp.connected = true;
	assert_int_equal(fan_one(to_group()), 0);
	so->remote.port = htons(5000);
	assert_int_equal(fan_one(to_group()), 1);
	so->udp.connected = false;
}

/* It excludes the sender; then it leaves its groups, and IP_MULTICAST_ALL is set. */
static void test_what_came_before_a_change_is_heard_as_it_was(void **state)
{
	struct record_part part = {.writer = &writer};
	struct record_header h = to_group();
	char byte = 'g';
	struct iovec bytes = {&byte, 1};
	unsigned failed;

	assert_true(control_lock());
	mem_free(so->udp.local->groups);
	so->udp.local->groups = groups(false, true, true);
	assert_int_equal(record_fan_write(&part, 1, &h, &bytes, &failed), 0);
	local_groups(so); /* its program has joined none */
	control_unlock();
	assert_false(so->udp.local->grouped);
	assert_int_equal(fan_one(to_group()), 1);
	assert_true(so->udp.local->groups->all);
	so->udp.local->groups->all = false;
	assert_int_equal(fan_one(to_group()), 1);
}

static void test_only_members_are_asked(void **state)
{
	struct local_message m = question_for_groups();

	m.to = addr_v4(GROUP); /* no group is asked for alone */
	assert_false(ask(m));
	m = question_for_groups();
	m.to_port ^= 1;
	assert_false(ask(m));
	m = question_for_groups();
	m.from = addr_v4(THERE);
	assert_false(ask(m));
	local_lock();
	so->udp.local->grouped = false;
	local_unlock();
	assert_false(ask(question_for_groups()));
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_member, finish_member)

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_memberships_decide_as_in_the_kernel),
	TEST(test_a_record_becomes_a_datagram_of_its_interface),
	TEST(test_what_cannot_be_is_dropped),
	TEST(test_an_ordinary_record_goes_to_no_group),
	TEST(test_a_connected_member_hears_its_peer),
	TEST(test_what_came_before_a_change_is_heard_as_it_was),
	TEST(test_only_members_are_asked),
};

VMA_TEST_MAIN("local_group", tests, setup, teardown)
