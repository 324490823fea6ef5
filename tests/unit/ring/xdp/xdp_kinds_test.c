/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "ring/xdp/xdp_internal.h"
#include "vma_test.h"

/* The devices below the VLAN devices of the table. */
static const struct xdp_kind veth = {.name = "v0", .kind = "veth", .driver = "veth"},
			     bond = {.name = "bond0", .kind = "bond", .driver = "bonding"},
			     slave = {.name = "e0", .driver = "igb", .master = "bond0"},
			     card = {.name = "e0", .driver = "igb"},
			     other_card = {.name = "e0", .driver = "ixgbe"},
			     vlan = {.name = "v0.5",
				     .kind = "vlan",
				     .driver = "802.1Q VLAN Support",
				     .lower = &veth};

static const struct {
	struct xdp_kind dev;
	const char *also;
	const char *words[3]; /* part of the reason; none: the device is accelerated */
} rows[] = {
	/* tested */
	{{.kind = "veth"}, "", {0}},
	{{.driver = "igb"}, "", {0}},
	{{.driver = "virtio_net"}, "", {0}},
	{{.driver = "vmxnet3"}, "", {0}},
	{{.driver = "e1000e"}, "", {0}},
	/* not tested */
	{{.driver = "ixgbe"}, "", {"driver ixgbe", "not tried", "VMA_XDP_DEVICES=ixgbe"}},
	{{.driver = "mlx5_core"}, "ixgbe,i40e", {"VMA_XDP_DEVICES=mlx5_core"}},
	{{.driver = "e1000"}, "", {"VMA_XDP_DEVICES=e1000"}},
	{{.kind = "tun", .driver = "tun"}, "", {"kind tun", "VMA_XDP_DEVICES=tun"}},
	{{.kind = "nobody-knows"}, "", {"VMA_XDP_DEVICES=nobody-knows"}},
	/* for a device with a kind, the name of the driver is not sufficient */
	{{.kind = "dsa", .driver = "igb"}, "", {"kind dsa"}},
	{{.kind = "igb"}, "", {"kind igb"}},
	{{.name = "x"}, "", {"does not name its driver"}},
	{{.name = "x"}, ",, ", {"does not name its driver"}},
	/* allowed by the user */
	{{.driver = "ixgbe"}, "ixgbe", {0}},
	{{.driver = "ixgbe"}, "i40e, ixgbe", {0}},
	{{.driver = "ixgbe"}, "ixgbe,i40e", {0}},
	{{.driver = "ixgbe"}, "ixgbevf,ixgb", {"not tried"}},
	{{.kind = "tun", .driver = "tun"}, "tun", {0}},
	/* stacked, even if the user allows it */
	{{.kind = "bond", .driver = "bonding"}, "bond,bonding", {"kind bond", "not supported"}},
	{{.kind = "team"}, "team", {"kind team", "not supported"}},
	{{.kind = "bridge"}, "bridge", {"kind bridge", "not supported"}},
	{{.kind = "macvlan"}, "macvlan", {"kind macvlan", "not supported"}},
	{{.kind = "macvtap"}, "macvtap", {"kind macvtap", "not supported"}},
	{{.kind = "ipvlan"}, "ipvlan", {"kind ipvlan", "not supported"}},
	{{.kind = "ipvtap"}, "ipvtap", {"kind ipvtap", "not supported"}},
	{{.kind = "vrf"}, "vrf", {"kind vrf", "not supported"}},
	{{.driver = "hv_netvsc"}, "hv_netvsc", {"driver hv_netvsc", "not supported"}},
	{{.driver = "net_failover"}, "net_failover", {"driver net_failover", "not supported"}},
	/* part of another device */
	{{.driver = "igb", .master = "bond0"}, "igb", {"belongs to bond0", "nomaster"}},
	{{.kind = "veth", .master = "vrf0"}, "", {"belongs to vrf0"}},
	{{.driver = "virtio_net", .slave = "e1"}, "", {"e1 belongs to it"}},
	{{.driver = "ixgbe", .slave = "e1"}, "ixgbe", {"e1 belongs to it"}},
	{{.driver = "igb", .sharer = "mac0", .sharer_kind = "macvlan"}, "", {"mac0 (macvlan)"}},
	/* VLANs */
	{{.kind = "vlan", .lower = &veth}, "", {0}},
	{{.kind = "vlan", .lower = &card}, "", {0}},
	{{.kind = "vlan", .lower = &vlan}, "", {0}},
	{{.kind = "vlan", .lower = &other_card}, "ixgbe", {0}},
	{{.kind = "vlan", .lower = &other_card}, "", {"on e0", "not tried", "=ixgbe"}},
	{{.kind = "vlan", .lower = &bond}, "vlan,bond", {"on bond0, kind bond", "not supported"}},
	{{.kind = "vlan", .lower = &slave}, "vlan", {"belongs to bond0"}},
	{{.kind = "vlan"}, "vlan", {"network namespace"}},
	{{.kind = "vlan", .lower = &veth, .master = "br0"}, "", {"belongs to br0"}},
};

static void test_what_was_tried_is_attached_and_nothing_else(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char why[PORT_WHY] = "";
		struct xdp_kind dev = rows[i].dev;
		int rc;

		if (!dev.name[0])
			strcpy(dev.name, "if0");
		rc = xdp_kind_decide(&dev, rows[i].also, why);
		if (rc != (rows[i].words[0] ? -PORT_UNTRIED : 0))
			fail_msg("row %zu: %d %s", i, rc, why);
		if (!rc)
			continue;
		for (size_t w = 0; w < 3 && rows[i].words[w]; w++)
			if (!strstr(why, rows[i].words[w]))
				fail_msg("row %zu: no '%s' in: %s", i, rows[i].words[w], why);
		/* one line, which contains the name of the interface */
		assert_ptr_equal(strstr(why, dev.name), why);
		assert_ptr_equal(strchr(why, '\n'), why + strlen(why) - 1);
		assert_non_null(strstr(why, "left to the kernel"));
	}
}

static void test_a_reason_fits_with_the_longest_names(void **state)
{
	struct xdp_kind lower = {.name = "lower-of-name15",
				 .driver = "a-driver-of-thirty-one-messagesX"};
	struct xdp_kind dev = {.kind = "vlan", .lower = &lower};
	char why[PORT_WHY];

	memset(dev.name, 'n', 15);
	assert_int_equal(xdp_kind_decide(&dev, "", why), -PORT_UNTRIED);
	assert_int_equal(why[strlen(why) - 1], '\n');
	assert_non_null(strstr(why, "all the same"));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_what_was_tried_is_attached_and_nothing_else),
	cmocka_unit_test(test_a_reason_fits_with_the_longest_names),
};

VMA_TEST_MAIN("xdp_kinds", tests, NULL, NULL)
