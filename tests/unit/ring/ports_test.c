/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/ports.h"

#include <stdio.h>

#include "base/log.h"
#include "net/netlink/netlink.h"
#include "ring/loop/port_loop.h"
#include "vma_test.h"

static int card_error, slow_error; /* of the next open */
static unsigned begun, ended, forgotten;
static struct port card_port, slow_port;

static bool card_takes(const struct link *link, char why[PORT_WHY])
{
	snprintf(why, PORT_WHY, "%s is no card", link->name);
	return link->ethernet;
}

static int card_open(int ifindex, struct port **port, char why[PORT_WHY])
{
	if (card_error) {
		snprintf(why, PORT_WHY, "Interface %d has no card.\nBuy one.\n", ifindex);
		return card_error;
	}
	*port = &card_port;
	return 0;
}

static bool slow_takes(const struct link *link, char why[PORT_WHY])
{
	snprintf(why, PORT_WHY, "%s is down", link->name);
	return link->up;
}

static int slow_open(int ifindex, struct port **port, char why[PORT_WHY])
{
	if (slow_error) {
		snprintf(why, PORT_WHY, "Interface %d is slow.\n", ifindex);
		return slow_error;
	}
	*port = &slow_port;
	return 0;
}

static void begin(void)
{
	begun++;
}

static void end(void)
{
	ended++;
}

static void forget(void)
{
	forgotten++;
}

static const struct port_kind card = {"card", 0, card_takes, card_open, begin, end, forget};
static const struct port_kind slow = {"slow", 0, slow_takes, slow_open, begin, end, forget};
static const struct port_kind *const both[] = {&card, &slow, NULL};
static const struct port_kind *const one[] = {&card, NULL};

static char why[PORT_WHY];
static struct port *port;

static int setup(void **state)
{
	card_error = slow_error = 0;
	begun = ended = forgotten = 0;
	port = NULL;
	return 0;
}

static void test_the_first_kind_that_can_opens_the_interface(void **state)
{
	ports_init(both);
	assert_int_equal(ports_open(1, &port, why), 0);
	assert_ptr_equal(port, &card_port);
	card_error = -EPERM;
	assert_int_equal(ports_open(1, &port, why), 0);
	assert_ptr_equal(port, &slow_port);
}

static void test_the_reasons_of_all_kinds_are_told_a_line_each(void **state)
{
	ports_init(both);
	card_error = -EPERM;
	slow_error = -EBUSY;
	assert_int_equal(ports_open(7, &port, why), -EPERM);
	assert_string_equal(why, "card: Interface 7 has no card. Buy one.\n"
				 "slow: Interface 7 is slow.\n");
}

/* It is told as an information; every other reason is a warning. */
static void test_a_device_that_was_not_tried_hides_no_other_error(void **state)
{
	ports_init(both);
	card_error = -PORT_UNTRIED;
	slow_error = -EBUSY;
	assert_int_equal(ports_open(7, &port, why), -EBUSY);
	slow_error = -PORT_UNTRIED;
	assert_int_equal(ports_open(7, &port, why), -PORT_UNTRIED);
}

static void test_a_single_kind_speaks_for_itself(void **state)
{
	ports_init(one);
	card_error = -EPERM;
	assert_int_equal(ports_open(7, &port, why), -EPERM);
	assert_string_equal(why, "Interface 7 has no card.\nBuy one.\n");
}

/* A kind whose port is no interface. */
static int own_open(int ifindex, struct port **out, char reason[PORT_WHY])
{
	assert_int_equal(ifindex, -9);
	*out = &slow_port;
	return 0;
}

static void test_a_port_that_is_no_interface_has_one_kind(void **state)
{
	static const struct port_kind own = {"own", -9,	 port_takes_all, own_open,
					     begin, end, forget};
	static const struct port_kind *const list[] = {&own, &card, NULL};
	struct link link = {.name = "eth0"}; /* no card takes it */

	ports_init(list);
	assert_int_equal(ports_open(-9, &port, why), 0);
	assert_ptr_equal(port, &slow_port);
	assert_int_equal(ports_open(7, &port, why), 0);
	assert_ptr_equal(port, &card_port);
	card_error = -EPERM; /* the only kind for interfaces: its reason stays as it is */
	assert_int_equal(ports_open(7, &port, why), -EPERM);
	assert_string_equal(why, "Interface 7 has no card.\nBuy one.\n");
	assert_false(ports_take(&link, why));
	assert_string_equal(why, "eth0 is no card");
}

static int silent_open(int ifindex, struct port **out, char reason[PORT_WHY])
{
	return -PORT_UNTRIED;
}

static bool silent_takes(const struct link *link, char reason[PORT_WHY])
{
	return false;
}

/* Hosts without a card: everything is as if there were no kind for cards. */
static void test_a_kind_without_a_reason_is_not_named(void **state)
{
	static const struct port_kind silent = {"silent", 0,   silent_takes, silent_open,
						begin,	  end, forget};
	static const struct port_kind *const kinds[] = {&silent, &card, NULL};
	struct link link = {.name = "eth7"};

	ports_init(kinds);
	card_error = -EPERM;
	assert_int_equal(ports_open(7, &port, why), -EPERM);
	assert_string_equal(why, "Interface 7 has no card.\nBuy one.\n");
	assert_false(ports_take(&link, why));
	assert_string_equal(why, "eth7 is no card");
}

static int wordy_open(int ifindex, struct port **out, char reason[PORT_WHY])
{
	memset(reason, 'x', PORT_WHY - 1);
	reason[PORT_WHY - 1] = '\0';
	return -EPERM;
}

static void test_long_reasons_are_cut_off_and_end_a_line(void **state)
{
	static const struct port_kind wordy = {"wordy", 0,   card_takes, wordy_open,
					       begin,	end, forget};
	static const struct port_kind *const kinds[] = {&wordy, &wordy, &slow, NULL};

	ports_init(kinds);
	slow_error = -EBUSY;
	assert_int_equal(ports_open(7, &port, why), -EPERM);
	assert_int_equal(strlen(why), PORT_WHY - 1);
	assert_int_equal(why[PORT_WHY - 2], '\n');
}

static void test_a_link_is_taken_if_one_kind_takes_it(void **state)
{
	struct link link = {.name = "eth7", .ethernet = true};

	ports_init(both);
	assert_true(ports_take(&link, why));
	link = (struct link){.name = "eth7", .up = true};
	assert_true(ports_take(&link, why));
	link.up = false;
	assert_false(ports_take(&link, why));
	assert_string_equal(why, "card: eth7 is no card;slow: eth7 is down");
	ports_init(one);
	assert_false(ports_take(&link, why));
	assert_string_equal(why, "eth7 is no card");
}

static void test_without_kinds_no_interface_is_served(void **state)
{
	struct link link = {.name = "eth7", .ethernet = true, .up = true};

	ports_init(NULL);
	assert_false(ports_take(&link, why));
	assert_true(strlen(why) > 0);
	assert_int_equal(ports_open(7, &port, why), -EOPNOTSUPP);
	assert_non_null(strstr(why, "number 7"));
	ports_thread_begins();
	ports_thread_ends();
	ports_forget();
}

static void test_every_kind_hears_of_the_thread_and_of_forks(void **state)
{
	ports_init(both);
	ports_thread_begins();
	assert_int_equal(begun, 2);
	ports_thread_ends();
	assert_int_equal(ended, 2);
	ports_forget();
	assert_int_equal(forgotten, 2);
}

static void test_the_loop_kind_opens_any_interface(void **state)
{
	static const struct port_kind *const kinds[] = {&port_loop_kind, NULL};
	struct link link = {.ifindex = 5};

	ports_init(kinds);
	assert_true(ports_take(&link, why));
	assert_int_equal(ports_open(5, &port, why), 0);
	assert_int_equal(port->ifindex, 5);
	port->ops->free_port(port);
}

static const char *opening_line(const struct port_abilities *can)
{
	static char line[512];
	char path[] = "/tmp/ports_test.XXXXXX";
	int fd = mkstemp(path);
	ssize_t n;

	assert_true(fd >= 0);
	log_init(LOG_DETAILS, 0, false, path);
	strcpy(card_port.name, "eth7");
	card_port.can = *can;
	assert_int_equal(ports_open(1, &port, why), 0);
	log_init(LOG_WARNING, 0, false, "");
	n = read(fd, line, sizeof(line) - 1);
	assert_true(n > 0);
	line[n] = '\0';
	close(fd);
	unlink(path);
	return line;
}

static void test_the_opening_line_tells_the_abilities(void **state)
{
	struct port_abilities none = {.frame_max = 1518};
	struct port_abilities all = {
		true, true, true, true, true, true, true, true, true, true, 9018, 65536, true,
	};

	ports_init(both);
	assert_non_null(strstr(opening_line(&none),
			       "eth7: card port: frames of up to 1518 bytes, copied, checksums by "
			       "the processor, no segmentation, timestamps by the processor, "
			       "steering of this process\n"));
	assert_non_null(
		strstr(opening_line(&all),
		       "eth7: card port: frames of up to 9018 bytes, zero-copy, checksums "
		       "by the device (partial ones accepted), segmentation of 65536 bytes "
		       "(UDP, too), timestamps by the device, steering of several processes\n"));
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

static const struct CMUnitTest tests[] = {
	TEST(test_the_first_kind_that_can_opens_the_interface),
	TEST(test_the_reasons_of_all_kinds_are_told_a_line_each),
	TEST(test_a_device_that_was_not_tried_hides_no_other_error),
	TEST(test_a_single_kind_speaks_for_itself),
	TEST(test_a_kind_without_a_reason_is_not_named),
	TEST(test_a_port_that_is_no_interface_has_one_kind),
	TEST(test_long_reasons_are_cut_off_and_end_a_line),
	TEST(test_a_link_is_taken_if_one_kind_takes_it),
	TEST(test_without_kinds_no_interface_is_served),
	TEST(test_every_kind_hears_of_the_thread_and_of_forks),
	TEST(test_the_loop_kind_opens_any_interface),
	TEST(test_the_opening_line_tells_the_abilities),
};

VMA_TEST_MAIN("ports", tests, NULL, NULL)
