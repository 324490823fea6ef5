/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel says of bonds and their slaves, as part of a link.  Only what decides by which
 * slave frames leave and arrive: everything else changes too often, and a link whose fields have
 * not changed is no event.
 */
#include <linux/if_bonding.h>
#include <linux/if_link.h>
#include <netlink/attr.h>
#include <string.h>

#include "net/netlink/netlink_internal.h"

/* Linux 6.10; Debian 12's headers are older. */
#define BOND_COUPLED_CONTROL 32

#define BOND_ATTRS BOND_COUPLED_CONTROL

static uint8_t u8_of(struct nlattr *attr, uint8_t otherwise)
{
	return attr && nla_len(attr) >= (int)sizeof(uint8_t) ? nla_get_u8(attr) : otherwise;
}

static void parse_bond(struct nlattr *data, struct link_bond *bond)
{
	struct nlattr *tb[BOND_ATTRS + 1];

	if (nla_parse_nested(tb, BOND_ATTRS, data, NULL) < 0)
		return;
	bond->mode = u8_of(tb[IFLA_BOND_MODE], BOND_MODE_ROUNDROBIN);
	bond->hash = u8_of(tb[IFLA_BOND_XMIT_HASH_POLICY], BOND_XMIT_POLICY_LAYER2);
	bond->fail_over_mac = u8_of(tb[IFLA_BOND_FAIL_OVER_MAC], 0);
	bond->all_slaves_active = u8_of(tb[IFLA_BOND_ALL_SLAVES_ACTIVE], 0) != 0;
	bond->uncoupled = bond->mode == BOND_MODE_8023AD && !u8_of(tb[BOND_COUPLED_CONTROL], 1);
	if (tb[IFLA_BOND_ACTIVE_SLAVE] && nla_len(tb[IFLA_BOND_ACTIVE_SLAVE]) >= 4)
		bond->active = (int)nla_get_u32(tb[IFLA_BOND_ACTIVE_SLAVE]);
}

static void parse_slave(struct nlattr *data, struct link_slave *slave)
{
	struct nlattr *tb[IFLA_BOND_SLAVE_MAX + 1];

	if (nla_parse_nested(tb, IFLA_BOND_SLAVE_MAX, data, NULL) < 0)
		return;
	slave->of_bond = true;
	slave->active = u8_of(tb[IFLA_BOND_SLAVE_STATE], BOND_STATE_BACKUP) == BOND_STATE_ACTIVE;
	slave->up = u8_of(tb[IFLA_BOND_SLAVE_MII_STATUS], BOND_LINK_DOWN) == BOND_LINK_UP;
}

static bool says(struct nlattr *attr, const char *text)
{
	return attr && nla_strcmp(attr, text) == 0;
}

void bond_parse(struct nlattr *const info[], struct link *link)
{
	if (says(info[IFLA_INFO_KIND], "bond") && info[IFLA_INFO_DATA])
		parse_bond(info[IFLA_INFO_DATA], &link->bond);
	if (says(info[IFLA_INFO_SLAVE_KIND], "bond") && info[IFLA_INFO_SLAVE_DATA])
		parse_slave(info[IFLA_INFO_SLAVE_DATA], &link->slave);
}
