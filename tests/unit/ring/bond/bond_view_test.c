/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/bond/bond_view.h"

#include <linux/if_bonding.h>
#include <string.h>

#include "vma_test.h"

#define BOND 10

static char why[PORT_WHY];

static struct link bond_of(uint8_t mode)
{
	struct link link = {.ifindex = BOND, .name = "bond0", .kind = "bond", .up = true};

	link.bond.mode = mode;
	return link;
}

static struct link slave(int ifindex, bool active)
{
	struct link link = {.ifindex = ifindex, .master = BOND, .up = true};

	link.slave = (struct link_slave){.of_bond = true, .active = active, .up = true};
	snprintf(link.name, sizeof(link.name), "p%d", ifindex);
	return link;
}

static struct bond_view view_of(struct link bond)
{
	struct bond_view view;

	bond_view_begin(&view, BOND);
	bond_view_add(&bond, &view);
	return view;
}

static void add(struct bond_view *view, struct link link)
{
	bond_view_add(&link, view);
}

static void test_slaves_are_sorted_and_others_left_out(void **state)
{
	struct bond_view view = view_of(bond_of(BOND_MODE_ACTIVEBACKUP));
	struct link other = slave(4, true), port = slave(6, true);

	other.master = BOND + 1;
	port.slave.of_bond = false;
	add(&view, slave(7, true));
	add(&view, other);
	add(&view, slave(3, false));
	add(&view, port);
	add(&view, slave(5, false));
	assert_int_equal(view.n, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(view.slaves[i].ifindex, 3 + 2 * i);
	assert_string_equal(view.slaves[2].name, "p7");
	assert_int_equal(bond_view_decide(&view, why), 0);
}

static void assert_refused(const struct bond_view *view, const char *text)
{
	assert_int_equal(bond_view_decide(view, why), -PORT_UNTRIED);
	assert_non_null(strstr(why, "bond0 (kind bond) is left to the kernel: "));
	assert_non_null(strstr(why, text));
}

static void test_only_two_modes_are_served(void **state)
{
	static const char *const names[] = {"balance-rr", NULL,		 "balance-xor", "broadcast",
					    NULL,	  "balance-tlb", "balance-alb", "unknown"};

	for (uint8_t mode = 0; mode < 8; mode++) {
		struct bond_view view = view_of(bond_of(mode));

		if (names[mode])
			assert_refused(&view, names[mode]);
		else
			assert_int_equal(bond_view_decide(&view, why), 0);
	}
}

static void test_what_is_refused_and_why(void **state)
{
	struct link link = bond_of(BOND_MODE_ACTIVEBACKUP);
	struct link above = {.ifindex = 20, .name = "m0", .kind = "macvlan", .lower = BOND};
	struct bond_view view;

	link.bond.fail_over_mac = 1;
	view = view_of(link);
	assert_refused(&view, "fail_over_mac none");
	link = bond_of(BOND_MODE_8023AD);
	link.bond.uncoupled = true;
	view = view_of(link);
	assert_refused(&view, "coupled_control");
	link = bond_of(BOND_MODE_8023AD);
	link.master = 5;
	view = view_of(link);
	assert_refused(&view, "another device");
	view = view_of(bond_of(BOND_MODE_8023AD));
	add(&view, above);
	assert_refused(&view, "m0 shares it");
	view = view_of(bond_of(BOND_MODE_8023AD));
	for (int i = 1; i <= BOND_SLAVES_MAX; i++)
		add(&view, slave(i, true));
	assert_int_equal(bond_view_decide(&view, why), 0);
	add(&view, slave(30, true));
	assert_refused(&view, "more than 8");
}

static void test_what_is_no_bond_is_refused_without_a_reason(void **state)
{
	struct link link = {.ifindex = BOND, .name = "e0", .kind = "vlan"};
	struct bond_view view = view_of(link);

	assert_int_equal(bond_view_decide(&view, why), -PORT_UNTRIED);
	assert_string_equal(why, "");
}

static void test_the_active_slave_sends_and_is_heard(void **state)
{
	struct link link = bond_of(BOND_MODE_ACTIVEBACKUP);
	struct bond_view view;

	link.bond.active = 5;
	view = view_of(link);
	/* The bond's word counts: its message comes before those of the slaves. */
	add(&view, slave(3, true));
	add(&view, slave(5, false));
	assert_false(bond_view_sends(&view, &view.slaves[0]));
	assert_false(bond_view_hears(&view, &view.slaves[0]));
	assert_true(bond_view_sends(&view, &view.slaves[1]));
	assert_true(bond_view_hears(&view, &view.slaves[1]));
	view.bond.bond.all_slaves_active = true;
	assert_false(bond_view_sends(&view, &view.slaves[0]));
	assert_true(bond_view_hears(&view, &view.slaves[0]));
}

static void test_slaves_of_the_aggregator_send_and_are_heard(void **state)
{
	struct bond_view view = view_of(bond_of(BOND_MODE_8023AD));
	struct link down = slave(5, true);

	down.slave.up = false;
	add(&view, slave(3, false));
	add(&view, slave(4, true));
	add(&view, down);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(bond_view_sends(&view, &view.slaves[i]), i == 1);
		assert_int_equal(bond_view_hears(&view, &view.slaves[i]), i != 0);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_slaves_are_sorted_and_others_left_out),
	cmocka_unit_test(test_only_two_modes_are_served),
	cmocka_unit_test(test_what_is_refused_and_why),
	cmocka_unit_test(test_what_is_no_bond_is_refused_without_a_reason),
	cmocka_unit_test(test_the_active_slave_sends_and_is_heard),
	cmocka_unit_test(test_slaves_of_the_aggregator_send_and_are_heard),
};

VMA_TEST_MAIN("bond_view", tests, NULL, NULL)
