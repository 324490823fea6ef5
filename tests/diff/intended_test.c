/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/diff/intended.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "vma_test.h"

static const char entries[] = "# SUITES\n"
			      "\n"
			      "poll ready client client,both the reason\n"
			      " first\n"
			      "+between\n"
			      "-third\n"
			      "+instead\n"
			      "poll other client both another reason\n"
			      "-first\n"
			      "poll mapped client both a third reason\n"
			      "4-first\n"
			      "6-second\n"
			      "m+mapped\n"
			      "n+native\n"
			      "poll kernels client both a fourth reason\n"
			      "~\n"
			      "poll either client both a sixth reason\n"
			      "?\n"
			      "card:poll card client both a fifth reason\n"
			      "-first\n";

static const char text[] = "first\nsecond\nthird\nfourth\n";

static char path[] = "/tmp/intended.XXXXXX";

static int write_entries(void **state)
{
	int fd = mkstemp(path);
	ssize_t n = write(fd, entries, sizeof(entries) - 1);

	close(fd);
	return n != sizeof(entries) - 1;
}

static int remove_entries(void **state)
{
	return unlink(path);
}

static void expect(const char *behaviour, const char *side, const char *mode, const char *said,
		   const char *edited, const char *why)
{
	const struct intended_at at = {"poll", behaviour, side, mode, '4', false};
	enum intended_frames frames;
	char *reason, *got = intended_edit(path, &at, said, &reason, &frames);

	if (edited) {
		assert_non_null(got);
		assert_string_equal(got, edited);
	} else {
		assert_null(got);
	}
	if (why)
		assert_string_equal(reason, why);
	else
		assert_null(reason);
	free(got);
	free(reason);
}

static void test_the_entry_is_applied_where_it_says(void **state)
{
	expect("ready", "client", "client", text, "first\nbetween\nsecond\ninstead\nfourth\n",
	       "the reason");
	expect("ready", "client", "both", text, "first\nbetween\nsecond\ninstead\nfourth\n",
	       "the reason");
	expect("other", "client", "both", text, "second\nthird\nfourth\n", "another reason");
}

static void expect_family(char family, const char *edited)
{
	struct intended_at at = {"poll", "mapped", "client", "both", family, false};
	enum intended_frames frames;
	char *reason, *got = intended_edit(path, &at, text, &reason, &frames);

	assert_string_equal(got, edited);
	assert_string_equal(reason, "a third reason");
	free(got);
	free(reason);
}

static void test_lines_for_one_family(void **state)
{
	expect_family('6', "first\nmapped\nthird\nfourth\n");
	expect_family('n', "first\nnative\nthird\nfourth\n");
	expect("mapped", "client", "both", text, "second\nthird\nfourth\n", "a third reason");
}

/* Whether the entry says that the kernel sees frames. */
static enum intended_frames frames_at(const char *behaviour, const char *mode)
{
	const struct intended_at at = {"poll", behaviour, "client", mode, '4', false};
	enum intended_frames frames;
	char *reason, *got = intended_edit(path, &at, text, &reason, &frames);

	assert_string_equal(got, text);
	free(got);
	free(reason);
	return frames;
}

static void test_the_kernel_sees_frames_where_the_entry_says_so(void **state)
{
	assert_int_equal(frames_at("kernels", "both"), FRAMES_KERNELS);
	assert_int_equal(frames_at("kernels", "client"), FRAMES_OURS);
	assert_int_equal(frames_at("none", "both"), FRAMES_OURS);
	assert_int_equal(frames_at("either", "both"), FRAMES_EITHER);
	expect("kernels", "client", "both", text, text, "a fourth reason");
}

static void test_entries_for_cards(void **state)
{
	struct intended_at at = {"poll", "card", "client", "both", '4', true};
	enum intended_frames frames;
	char *reason, *got = intended_edit(path, &at, text, &reason, &frames);

	assert_string_equal(got, "second\nthird\nfourth\n");
	assert_string_equal(reason, "a fifth reason");
	free(got);
	free(reason);
	expect("card", "client", "both", text, text, NULL);
	at.behaviour = "other"; /* those for all ports */
	got = intended_edit(path, &at, text, &reason, &frames);
	assert_string_equal(got, "second\nthird\nfourth\n");
	free(got);
	free(reason);
}

static void test_nowhere_else(void **state)
{
	expect("ready", "server", "both", text, text, NULL);
	expect("ready", "client", "server", text, text, NULL);
	expect("ready", "client", "bot", text, text, NULL);
	expect("read", "client", "both", text, text, NULL);
	expect("other", "client", "client", text, text, NULL);
}

static void test_what_died_or_changed_does_not_fit(void **state)
{
	expect("ready", "client", "both", "first\nsecond\ndies of signal 11\n", NULL, "the reason");
	expect("ready", "client", "both", "second\nthird\n", NULL, "the reason");
	expect("ready", "client", "both", "third\nfirst\n", NULL, "the reason");
	expect("ready", "client", "both", "", NULL, "the reason");
	expect("ready", "client", "both", "first\nthird", "first\nbetween\ninstead\n",
	       "the reason");
}

static void test_without_a_file_nothing_fits(void **state)
{
	const struct intended_at at = {"poll", "ready", "client", "both", '4', false};
	enum intended_frames frames;
	char *reason;

	assert_null(intended_edit("/nowhere/intended.txt", &at, text, &reason, &frames));
	assert_null(reason);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_the_entry_is_applied_where_it_says),
	cmocka_unit_test(test_lines_for_one_family),
	cmocka_unit_test(test_the_kernel_sees_frames_where_the_entry_says_so),
	cmocka_unit_test(test_entries_for_cards),
	cmocka_unit_test(test_nowhere_else),
	cmocka_unit_test(test_what_died_or_changed_does_not_fit),
	cmocka_unit_test(test_without_a_file_nothing_fits),
};

VMA_TEST_MAIN("intended", tests, write_entries, remove_entries)
