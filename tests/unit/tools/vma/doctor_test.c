/* SPDX-License-Identifier: BSD-2-Clause */
/* What vma doctor reads from /proc and /sys, in trees that the test makes. */
#include "tools/vma/doctor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/vma_test.h"

static char root[512], *said;
static size_t said_len;
static struct report report;
static struct patient patient;

static int begin(void **state)
{
	const char *dir = getenv("TEST_TMPDIR");

	snprintf(root, sizeof(root), "%s/doctor.XXXXXX", dir ? dir : "/tmp");
	assert_non_null(mkdtemp(root));
	report = (struct report){.out = open_memstream(&said, &said_len)};
	patient = (struct patient){.report = &report, .root = root, .n_cpus = 4};
	assert_true(patient_parse_cpus("0-3", &patient.cpus));
	return 0;
}

static int end(void **state)
{
	char command[1024];

	fclose(report.out);
	free(said);
	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	return system(command);
}

/* Makes a file of the tree, and the folders above it. */
static void put(const char *path, const char *text)
{
	char full[1024];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(full, 0755);
		*at = '/';
	}
	file = fopen(full, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void expect(enum severity severity, const char *words)
{
	fflush(report.out);
	for (int i = FINDING_OK; i <= FINDING_BLOCKS; i++)
		if (i != FINDING_OK && report.found[i] != (i == (int)severity))
			fail_msg("%u findings of %d: %s", report.found[i], i, said);
	if (words && !strstr(said, words))
		fail_msg("not said: %s\n%s", words, said);
}

#define CPU "/sys/devices/system/cpu/cpu"

static void test_governor(void **state)
{
	put(CPU "0/cpufreq/scaling_governor", "performance\n");
	put(CPU "2/cpufreq/scaling_governor", "powersave\n");
	put(CPU "3/cpufreq/scaling_governor", "powersave\n");
	put(CPU "9/cpufreq/scaling_governor", "powersave\n"); /* not ours */
	doctor_processors(&patient);
	expect(FINDING_SLOW, "2 of 4, the first is 2, have the frequency governor powersave");
	assert_non_null(strstr(said, "mend: cpupower frequency-set -g performance"));
}

static void test_nothing_is_wrong(void **state)
{
	put(CPU "0/cpufreq/scaling_governor", "performance\n");
	put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
	put(CPU "0/topology/thread_siblings_list", "0\n");
	doctor_processors(&patient);
	doctor_placement(&patient, "eth0");
	expect(FINDING_OK, "4 may be used");
}

static void test_siblings(void **state)
{
	put(CPU "1/topology/thread_siblings_list", "1,17\n"); /* the other one is not ours */
	put(CPU "2/topology/thread_siblings_list", "2-3\n");
	doctor_processors(&patient);
	expect(FINDING_NOTE, "2-3 are threads of one core");
}

static void test_clock(void **state)
{
	put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
	doctor_processors(&patient);
	expect(FINDING_SLOW, "the kernel's clock is hpet");
}

static void test_one_processor(void **state)
{
	patient.n_cpus = 1;
	doctor_processors(&patient);
	expect(FINDING_SLOW, "VMA_RX_POLL=0");
}

static void test_other_node(void **state)
{
	put("/sys/class/net/eth0/device/numa_node", "1\n");
	put("/sys/devices/system/node/node1/cpulist", "8-15\n");
	doctor_placement(&patient, "eth0");
	expect(FINDING_SLOW, "numactl --cpunodebind=1 --membind=1");
}

static void test_our_node(void **state)
{
	put("/sys/class/net/eth0/device/numa_node", "1\n");
	put("/sys/devices/system/node/node1/cpulist", "3,8-15\n");
	put("/sys/class/net/eth1/device/numa_node", "-1\n");
	doctor_placement(&patient, "eth0");
	doctor_placement(&patient, "eth1");
	expect(FINDING_OK, NULL);
}

static void put_interrupts(const char *const *cpus, int n)
{
	char path[128];

	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "/sys/class/net/eth0/device/msi_irqs/%d", 30 + i);
		put(path, "msix\n");
		snprintf(path, sizeof(path), "/proc/irq/%d/effective_affinity_list", 30 + i);
		put(path, cpus[i]);
	}
}

static void test_interrupts_in_one_place(void **state)
{
	static const char *const cpus[] = {"2\n", "2\n", "2\n"};

	put_interrupts(cpus, 3);
	doctor_placement(&patient, "eth0");
	expect(FINDING_SLOW, "one processor serves all of its 3 interrupts");
}

static void test_interrupts_apart(void **state)
{
	static const char *const cpus[] = {"2\n", "2\n", "1\n"};

	put_interrupts(cpus, 3);
	doctor_placement(&patient, "eth0");
	expect(FINDING_OK, NULL);
}

static void test_lists_of_processors(void **state)
{
	static const char *const bad[] = {"", "x", "1-", "3-1", "1,,2", "1-99999", "1 2", "-1"};
	cpu_set_t cpus;

	assert_true(patient_parse_cpus("0,2-4", &cpus));
	assert_int_equal(CPU_COUNT(&cpus), 4);
	assert_false(CPU_ISSET(1, &cpus));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(patient_parse_cpus(bad[i], &cpus));
}

static void test_the_verdict_is_the_worst(void **state)
{
	assert_int_equal(report_end(&report), 0);
	report_finding(&report, FINDING_NOTE, "a", NULL, "b");
	assert_int_equal(report_end(&report), 0);
	report_finding(&report, FINDING_SLOW, "a", "c", "b");
	assert_int_equal(report_end(&report), 1);
	report_text(&report, FINDING_BLOCKS, "a", "b\nc\n");
	assert_int_equal(report_end(&report), 2);
	fflush(report.out);
	assert_non_null(strstr(said, "1 finding blocks acceleration, 1 costs speed."));
}

static void test_brief_leaves_out_what_needs_no_mending(void **state)
{
	report.brief = true;
	report_finding(&report, FINDING_OK, "one", NULL, "b");
	report_finding(&report, FINDING_NOTE, "two", NULL, "b");
	report_finding(&report, FINDING_SLOW, "three", NULL, "b");
	fflush(report.out);
	assert_null(strstr(said, "one"));
	assert_null(strstr(said, "two"));
	assert_non_null(strstr(said, "three"));
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, begin, end)

static const struct CMUnitTest tests[] = {
	ROW(test_governor),
	ROW(test_nothing_is_wrong),
	ROW(test_siblings),
	ROW(test_clock),
	ROW(test_one_processor),
	ROW(test_other_node),
	ROW(test_our_node),
	ROW(test_interrupts_in_one_place),
	ROW(test_interrupts_apart),
	ROW(test_lists_of_processors),
	ROW(test_the_verdict_is_the_worst),
	ROW(test_brief_leaves_out_what_needs_no_mending),
};

VMA_TEST_MAIN("tools/doctor", tests, NULL, NULL)
