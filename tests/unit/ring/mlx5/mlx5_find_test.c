/* SPDX-License-Identifier: BSD-2-Clause */
/* Which RDMA device belongs to an interface: a folder that looks like sysfs. */
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ring/mlx5/mlx5_internal.h"
#include "tests/vma_test.h"

#define CARD "0x15b3"

static char root[] = "/tmp/mlx5_find_XXXXXX";

/* A file of this text, and the folders above it; text NULL: a folder. */
__attribute__((format(printf, 2, 3))) static void make(const char *text, const char *format, ...)
{
	char path[PATH_MAX];
	size_t n = (size_t)snprintf(path, sizeof(path), "%s/class/infiniband/", root);
	va_list args;
	FILE *file;

	va_start(args, format);
	vsnprintf(path + n, sizeof(path) - n, format, args);
	va_end(args);
	for (char *slash = path + strlen(root); (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		assert_true(!mkdir(path, 0755) || errno == EEXIST);
		*slash = '/';
	}
	if (!text) {
		assert_true(!mkdir(path, 0755) || errno == EEXIST);
		return;
	}
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "%s\n", text);
	fclose(file);
}

static int end_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
	(void)st;
	(void)flag;
	(void)at;
	return remove(path);
}

static int begin(void **state)
{
	(void)state;
	return mkdir(root, 0755);
}

static int end(void **state)
{
	(void)state;
	return nftw(root, end_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* A device in the folder of a PCI function that has this vendor and interface. */
static void make_device(const char *name, const char *vendor, const char *interface)
{
	make(vendor, "%s/device/vendor", name);
	make("0", "%s/device/net/%s/dev_port", name, interface);
	make(interface, "%s/ports/1/gid_attrs/ndevs/0", name);
}

static void make_card(const char *name, const char *interface)
{
	make_device(name, CARD, interface);
	make("MT4119", "%s/hca_type", name);
}

static void check(const char *interface, int rc, const char *device)
{
	char why[PORT_WHY] = "";
	struct mlx5_name name;

	assert_int_equal(mlx5_find(interface, &name, why), rc);
	assert_string_equal(name.device, device);
	assert_int_equal(strlen(why) != 0, rc && rc != -ENODEV);
	if (!rc)
		assert_int_equal(name.port, 1);
}

static void test_no_device_at_all(void **state)
{
	(void)state;
	check("eth0", -ENODEV, "");
	make(NULL, "mlx5_0");
	check("eth0", -ENODEV, "");
	check("../eth0", -ENODEV, "");
}

static void test_a_card_has_its_interface(void **state)
{
	(void)state;
	make_card("mlx5_0", "eth0");
	make_card("mlx5_1", "eth1");
	check("eth0", 0, "mlx5_0");
	check("eth1", 0, "mlx5_1");
	check("eth2", -ENODEV, "");
}

/* Its type is not needed. */
static void test_a_card_that_tells_little(void **state)
{
	(void)state;
	make_device("mlx5_0", CARD, "eth0");
	check("eth0", 0, "mlx5_0");
}

static void test_a_representor_is_refused(void **state)
{
	(void)state;
	make_card("mlx5_0", "eth0");
	make("0", "mlx5_0/device/net/eth0_1/dev_port");
	check("eth0_1", -EOPNOTSUPP, "mlx5_0");
	check("eth0", 0, "mlx5_0");
}

static void test_other_devices_are_named(void **state)
{
	(void)state;
	make("eth0", "rxe0/parent");
	check("eth0", -ENODEV, "rxe0");
	make_device("irdma0", "0x8086", "eth1");
	check("eth1", -ENODEV, "irdma0");
	check("eth2", -ENODEV, "");
}

/* An emulated device that shares a card's folder hides the card in no order of the directory. */
static void test_an_emulated_device_on_a_card(void **state)
{
	static const char *const names[] = {"a", "rxe0", "z", "siw0", "b"};

	(void)state;
	make_card("mlx5_0", "eth0");
	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		make_device(names[i], CARD, "eth0");
		make("eth0", "%s/parent", names[i]);
		check("eth0", 0, "mlx5_0");
	}
	make_card("mlx5_1", "eth1");
	for (unsigned i = 0; i < 20; i++) {
		char name[16];

		snprintf(name, sizeof(name), "rxe1_%u", i);
		make_device(name, CARD, "eth1");
		check("eth1", 0, "mlx5_1");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_device_at_all, begin, end),
		cmocka_unit_test_setup_teardown(test_a_card_has_its_interface, begin, end),
		cmocka_unit_test_setup_teardown(test_a_card_that_tells_little, begin, end),
		cmocka_unit_test_setup_teardown(test_a_representor_is_refused, begin, end),
		cmocka_unit_test_setup_teardown(test_other_devices_are_named, begin, end),
		cmocka_unit_test_setup_teardown(test_an_emulated_device_on_a_card, begin, end),
	};

	if (!mkdtemp(root) || rmdir(root) || setenv("SYSFS_PATH", root, 1))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
