/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "ring/xdp/xdp_internal.h"
#include "vma_test.h"

#define NATIVE                                               \
	{                                                    \
		.native = true, .queues = 1, .processors = 1 \
	}
#define GENERIC                              \
	{                                    \
		.queues = 1, .processors = 1 \
	}

static const struct {
	struct xdp_device dev;
	struct xdp_mode mode;
	const char *text;
} rows[] = {
	{{.driver = "e1000e"},
	 GENERIC,
	 "eth0: accelerated with generic XDP, copies: driver e1000e has no native XDP in this "
	 "kernel; a card whose driver has it is faster"},
	{{.kind = "vlan", .driver = "802.1Q VLAN Support"},
	 GENERIC,
	 "eth0: accelerated with generic XDP, copies: all that a VLAN device can do"},
	{{.driver = "virtio_net"},
	 GENERIC,
	 "eth0: accelerated with generic XDP, copies: native XDP needs more queues from the "
	 "hypervisor (twice as many as processors)"},
	{{.driver = "virtio_net"},
	 NATIVE,
	 "eth0: accelerated with native XDP, copies: zero-copy needs Linux 6.13 and "
	 "iommu_platform=on of the device"},
	{{.driver = "virtio_net", .max_queues = 4, .combined = true, .grew = true},
	 NATIVE,
	 "eth0: accelerated with native XDP, copies: zero-copy needs all of its queues in use: "
	 "ethtool -L eth0 combined 4"},
	{{.driver = "igb"},
	 NATIVE,
	 "eth0: accelerated with native XDP, copies: zero-copy needs Linux 6.14"},
	{{.driver = "vmxnet3"},
	 NATIVE,
	 "eth0: accelerated with native XDP, copies: a card whose driver has AF_XDP zero-copy is "
	 "faster"},
	{{.driver = "igb"},
	 {.native = true, .zerocopy = true, .queues = 2, .processors = 2},
	 "eth0: accelerated with native XDP, zero-copy"},
	/* only advice that the user can follow */
	{{.kind = "veth", .driver = "veth", .max_queues = 1},
	 {.native = true, .queues = 1, .processors = 8},
	 "eth0: accelerated with native XDP, copies: all that veth can do"},
	{{.driver = "igb", .max_queues = 8, .combined = true},
	 {.native = true, .zerocopy = true, .queues = 2, .processors = 4},
	 "eth0: accelerated with native XDP, zero-copy; 2 RX queues for 4 processors: "
	 "ethtool -L eth0 combined 4"},
	{{.driver = "igb", .max_queues = 8, .combined = true},
	 {.native = true, .zerocopy = true, .queues = 1, .processors = 64},
	 "eth0: accelerated with native XDP, zero-copy; 1 RX queue for 64 processors: "
	 "ethtool -L eth0 combined 8"},
	{{.driver = "x", .max_queues = 256},
	 {.native = true, .zerocopy = true, .queues = 15, .processors = 200},
	 "eth0: accelerated with native XDP, zero-copy; 15 RX queues for 200 processors: "
	 "ethtool -L eth0 rx 64"},
	{{.driver = "igb", .max_queues = 8, .combined = true},
	 {.native = true, .zerocopy = true, .queues = 8, .processors = 4},
	 "eth0: accelerated with native XDP, zero-copy"},
};

static void test_one_line_says_how_and_what_would_be_better(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct xdp_device dev = rows[i].dev;
		char text[PORT_WHY];

		strcpy(dev.name, "eth0");
		xdp_mode_describe(text, &dev, &rows[i].mode);
		assert_string_equal(text, rows[i].text);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_one_line_says_how_and_what_would_be_better),
};

VMA_TEST_MAIN("xdp_mode", tests, NULL, NULL)
