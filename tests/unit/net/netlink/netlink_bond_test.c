/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages as the kernel builds them, in bond_fill_info() and bond_fill_slave_info(). */
#include <linux/if_bonding.h>
#include <linux/if_link.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <string.h>

#include "net/netlink/netlink_internal.h"
#include "vma_test.h"

#define COUPLED_CONTROL 32

struct fixture {
	struct nl_msg *msg;
	struct link link;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->msg = nlmsg_alloc();
	assert_non_null(f->msg);
	nlmsg_put(f->msg, 0, 0, 0, 0, 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	nlmsg_free(f->msg);
	free(f);
	return 0;
}

/* What was put so far is the content of IFLA_LINKINFO. */
static const struct link *parse(struct fixture *f)
{
	struct nlattr *tb[IFLA_INFO_MAX + 1];

	assert_int_equal(nlmsg_parse(nlmsg_hdr(f->msg), 0, tb, IFLA_INFO_MAX, NULL), 0);
	bond_parse(tb, &f->link);
	return &f->link;
}

static void put_bond(struct fixture *f, const char *kind, uint8_t mode, int coupled)
{
	struct nlattr *data;

	nla_put_string(f->msg, IFLA_INFO_KIND, kind);
	data = nla_nest_start(f->msg, IFLA_INFO_DATA);
	nla_put_u8(f->msg, IFLA_BOND_MODE, mode);
	nla_put_u8(f->msg, IFLA_BOND_FAIL_OVER_MAC, 2);
	nla_put_u8(f->msg, IFLA_BOND_XMIT_HASH_POLICY, BOND_XMIT_POLICY_LAYER34);
	nla_put_u8(f->msg, IFLA_BOND_ALL_SLAVES_ACTIVE, 1);
	nla_put_u32(f->msg, IFLA_BOND_ACTIVE_SLAVE, 77);
	if (coupled >= 0)
		nla_put_u8(f->msg, COUPLED_CONTROL, (uint8_t)coupled);
	nla_nest_end(f->msg, data);
}

static void put_slave(struct fixture *f, const char *kind, uint8_t state, uint8_t mii)
{
	struct nlattr *data;

	nla_put_string(f->msg, IFLA_INFO_SLAVE_KIND, kind);
	data = nla_nest_start(f->msg, IFLA_INFO_SLAVE_DATA);
	nla_put_u8(f->msg, IFLA_BOND_SLAVE_STATE, state);
	nla_put_u8(f->msg, IFLA_BOND_SLAVE_MII_STATUS, mii);
	nla_nest_end(f->msg, data);
}

static void test_a_bond(void **state)
{
	const struct link *link;

	put_bond(*state, "bond", BOND_MODE_ACTIVEBACKUP, 0);
	link = parse(*state);
	assert_int_equal(link->bond.mode, BOND_MODE_ACTIVEBACKUP);
	assert_int_equal(link->bond.hash, BOND_XMIT_POLICY_LAYER34);
	assert_int_equal(link->bond.fail_over_mac, 2);
	assert_true(link->bond.all_slaves_active);
	assert_int_equal(link->bond.active, 77);
	assert_false(link->bond.uncoupled); /* it means nothing in this mode */
	assert_false(link->slave.of_bond);
}

static void test_coupled_control_is_on_if_it_is_not_said(void **state)
{
	put_bond(*state, "bond", BOND_MODE_8023AD, -1);
	assert_false(parse(*state)->bond.uncoupled);
}

static void test_coupled_control_off(void **state)
{
	put_bond(*state, "bond", BOND_MODE_8023AD, 0);
	assert_true(parse(*state)->bond.uncoupled);
}

static void test_an_active_slave(void **state)
{
	const struct link *link;

	put_slave(*state, "bond", BOND_STATE_ACTIVE, BOND_LINK_UP);
	link = parse(*state);
	assert_true(link->slave.of_bond && link->slave.active && link->slave.up);
}

static void test_a_backup_slave_that_is_down(void **state)
{
	const struct link *link;

	put_slave(*state, "bond", BOND_STATE_BACKUP, BOND_LINK_FAIL);
	link = parse(*state);
	assert_true(link->slave.of_bond);
	assert_false(link->slave.active || link->slave.up);
}

static void test_other_kinds_have_other_numbers(void **state)
{
	const struct link *link;

	put_bond(*state, "team", BOND_MODE_8023AD, 0);
	put_slave(*state, "bridge", BOND_STATE_ACTIVE, BOND_LINK_UP);
	link = parse(*state);
	assert_int_equal(link->bond.mode, 0);
	assert_false(link->slave.of_bond);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_a_bond),
	TEST(test_coupled_control_is_on_if_it_is_not_said),
	TEST(test_coupled_control_off),
	TEST(test_an_active_slave),
	TEST(test_a_backup_slave_that_is_down),
	TEST(test_other_kinds_have_other_numbers),
};

VMA_TEST_MAIN("netlink_bond", tests, NULL, NULL)
