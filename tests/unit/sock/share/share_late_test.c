/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Late frames of connections that were exported: how they are sent, and which of those that come
 * are delivered.  The other process is a channel that was made for a child and never given to one.
 */
#include <sys/mman.h>
#include <sys/wait.h>

#include "sock/core/quarantine.h"
#include "sock/share/exec_inherit.h"
#include "sock/share/share_internal.h"
#include "sock/share/transfer.h"
#include "tests/unit/sock/world.h"

#define LATE_MAX (2 * QUARANTINE_TIME)

static unsigned port;
static struct tsock listener, client, child;
static struct channel *end, *channel; /* the other process's, and ours */
static size_t bufs;

static struct channel *lend(struct channel **ours)
{
	struct exec_channel ch;
	struct channel *other;

	assert_true(exec_inherit_lend(&ch));
	other = channel_create(ch.fd, ch.last_id);
	assert_non_null(other);
	*ours = container_of(share_process.channels.prev, struct channel, link);
	return other;
}

static bool channels_have_ended(void)
{
	bool ended;

	WORLD_LOCKED(ended = list_empty(&share_process.channels));
	return ended;
}

/* ---- frames of the client that do not arrive by the wire ----------------------------------- */

static struct pkt *lost; /* holder: the first one */

static bool lose(const struct pkt *pkt)
{
	if (!lost)
		lost = pkt_copy(pkt);
	return true;
}

/* A frame with these bytes for the child; from now on the wire loses everything. */
static struct pkt *take_frame(const char *text)
{
	struct pkt *pkt;

	lost = NULL;
	loop_port_lose(lose);
	assert_int_equal(tsock_send(&client, text, strlen(text), 0), strlen(text));
	assert_true(NET_WAIT(__atomic_load_n(&lost, __ATOMIC_ACQUIRE), WORLD_WAIT));
	pkt = lost;
	assert_non_null(memmem(pkt->frame, pkt->frame_len, text, strlen(text)));
	return pkt;
}

static int begin(void **state)
{
	bufs = pkt_bufs_left();
	port = world_port();
	listener = world_listener(0, port, 4);
	world_pair(&listener, port, &client, &child);
	end = lend(&channel);
	return 0;
}

static int finish(void **state)
{
	loop_port_lose(NULL);
	channel_destroy(end);
	tsock_linger_none(&client);
	tsock_linger_none(&child);
	tsock_close(&client);
	tsock_close(&child);
	tsock_close(&listener);
	assert_true(NET_WAIT(channels_have_ended(), WORLD_WAIT));
	assert_true(NET_WAIT(pkt_bufs_left() == bufs, WORLD_WAIT)); /* no copy is left */
	return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, finish)

/* ---- sending ------------------------------------------------------------------------------ */

static struct pkt *frame_of(const char *text)
{
	struct pkt *pkt = pkt_blank(64);

	assert_non_null(pkt);
	pkt->frame_len = (uint32_t)strlen(text);
	memcpy(pkt->frame, text, pkt->frame_len);
	return pkt;
}

static void post(uint64_t serial, uint64_t id, const char *text)
{
	struct pkt *pkt = frame_of(text);

	assert_true(share_late(serial, id, pkt));
	pkt_free(pkt); /* it is still the caller's */
}

/* The next message is about id, and has these frames. */
static void expect(uint64_t id, const char *const *texts, unsigned n)
{
	struct message message;
	struct pkt *pkt;
	off_t at = 0;
	int memfd;

	assert_int_equal(channel_receive(end, &message, &memfd), 1);
	assert_int_equal(message.kind, MESSAGE_LATE);
	assert_int_equal(message.id, id);
	for (unsigned i = 0; i < n; i++) {
		pkt = transfer_next_frame(memfd, &at);
		assert_non_null(pkt);
		assert_int_equal(pkt->frame_len, strlen(texts[i]));
		assert_memory_equal(pkt->frame, texts[i], strlen(texts[i]));
		pkt_free(pkt);
	}
	assert_null(transfer_next_frame(memfd, &at));
	sys_close_fd(&memfd);
}

static void expect_nothing(void)
{
	struct message message;
	int memfd;

	assert_int_equal(channel_receive(end, &message, &memfd), 0);
}

#define ARRAY(...)            \
	(const char *const[]) \
	{                     \
		__VA_ARGS__   \
	}

/* The internal thread sends some before, unless the control lock is held.  It is not held by checks. */
#define SEND(posts)                          \
	do {                                 \
		assert_true(control_lock()); \
		posts;                       \
		share_send_late();           \
		control_unlock();            \
	} while (0)

static void test_frames_that_follow_each_other_go_together(void **state)
{
	uint64_t serial = channel->serial;

	SEND({
		post(serial, 1, "one");
		post(serial, 1, "two");
		post(serial, 2, "other");
		post(serial, 1, "three");
	});
	expect(1, ARRAY("one", "two"), 2);
	expect(2, ARRAY("other"), 1);
	expect(1, ARRAY("three"), 1);
	SEND();
	expect_nothing();
}

static void test_the_internal_thread_sends_what_was_posted(void **state)
{
	struct message message;
	int memfd = -1;

	post(channel->serial, 1, "frame");
	assert_true(NET_WAIT(channel_receive(end, &message, &memfd) == 1, WORLD_WAIT));
	assert_int_equal(message.kind, MESSAGE_LATE);
	sys_close_fd(&memfd);
}

/* The channel has ended meanwhile: its frames are freed, those of others go on. */
static void test_frames_for_a_channel_that_ended_are_freed(void **state)
{
	SEND({
		post(channel->serial + 1000, 1, "nobody's");
		post(channel->serial, 1, "ours");
		post(channel->serial + 1000, 1, "nobody's, too");
	});
	expect(1, ARRAY("ours"), 1);
	expect_nothing();
}

static void test_without_memory_a_frame_is_not_taken(void **state)
{
	struct pkt *pkt = frame_of("frame");
	int before = params.rx_bufs;
	bool taken;

	params.rx_bufs = 0; /* no frame of another is on its way */
	taken = share_late(channel->serial, 1, pkt);
	params.rx_bufs = before;
	assert_false(taken);
	SEND();
	expect_nothing();
	pkt_free(pkt);
}

/* The channel is one for both: the parent sends when the child has ended. */
static void test_a_forked_child_forgets_the_frames_of_its_parent(void **state)
{
	pid_t pid, ended = 0;
	int status = -1;

	SEND({
		post(channel->serial, 1, "the parent's");
		pid = fork();
		if (!pid) {
			share_forget_late();
			share_send_late();
			expect_nothing();
			_exit(0);
		}
		ended = waitpid(pid, &status, 0);
	});
	assert_int_equal(ended, pid);
	assert_int_equal(status, 0);
	expect(1, ARRAY("the parent's"), 1);
}

/* ---- receiving ---------------------------------------------------------------------------- */

static int memfd_of(const struct pkt *pkt)
{
	int memfd = transfer_frames();

	assert_true(memfd >= 0);
	transfer_put_frame(memfd, pkt);
	return memfd;
}

/* As if the child had been imported from this channel at this time. */
static void note_import(uint64_t serial, nsec_t at)
{
	struct shared *s;

	assert_true(control_lock());
	s = share_of(tsock_inet(&child));
	assert_non_null(s);
	s->from = serial;
	s->arrived = at;
	control_unlock();
}

static void deliver(const struct tsock *about, int memfd)
{
	struct message message = {.kind = MESSAGE_LATE, .id = tsock_inet(about)->id};

	WORLD_LOCKED(share_on_late(channel, &message, memfd));
	sys_close_fd(&memfd);
}

/* What was delivered is there at once. */
static void expect_no_bytes(void)
{
	char buf[64];

	assert_int_equal(tsock_recv(&child, buf, sizeof(buf), 0), -EAGAIN);
}

static uint64_t dropped(enum drop reason)
{
	return tsock_home(&child)->stats.drops[reason];
}

static void test_frames_of_an_imported_connection_are_delivered(void **state)
{
	struct pkt *pkt = take_frame("late");

	note_import(channel->serial, clock_now());
	deliver(&child, memfd_of(pkt));
	world_expect(&child, "late");
	deliver(&child, memfd_of(pkt)); /* once more, as the wire may do */
	expect_no_bytes();
	pkt_free(pkt);
}

static void test_frames_that_come_by_another_channel_are_not(void **state)
{
	struct pkt *pkt = take_frame("late");

	note_import(channel->serial + 1, clock_now());
	deliver(&child, memfd_of(pkt));
	expect_no_bytes();
	pkt_free(pkt);
}

static void test_frames_that_come_too_late_are_not(void **state)
{
	struct pkt *pkt = take_frame("late");

	note_import(channel->serial, clock_now() - LATE_MAX - NSEC_PER_SEC);
	deliver(&child, memfd_of(pkt));
	expect_no_bytes();
	note_import(channel->serial, clock_now() - LATE_MAX / 2);
	deliver(&child, memfd_of(pkt));
	world_expect(&child, "late");
	pkt_free(pkt);
}

static void test_frames_of_a_connection_that_nobody_shared_are_not(void **state)
{
	struct pkt *pkt = take_frame("late");

	assert_null(tsock_inet(&child)->sharing);
	deliver(&child, memfd_of(pkt));
	expect_no_bytes();
	pkt_free(pkt);
}

/* They may be changed by whoever sends them: only what belongs to the connection is taken. */
static void test_frames_of_another_connection_are_dropped(void **state)
{
	struct pkt *pkt = take_frame("late"), *odd = frame_of("this is no frame");
	uint64_t before = dropped(DROP_SOCK_EXPORTED);
	int memfd = transfer_frames();

	note_import(channel->serial, clock_now());
	transfer_put_frame(memfd, odd);
	pkt->frame[14 + 20 + 1] ^= 1; /* the peer's port */
	transfer_put_frame(memfd, pkt);
	deliver(&child, memfd);
	expect_no_bytes();
	assert_int_equal(dropped(DROP_SOCK_EXPORTED), before + 2);
	pkt->frame[14 + 20 + 1] ^= 1;
	deliver(&child, memfd_of(pkt));
	world_expect(&child, "late");
	pkt_free(odd);
	pkt_free(pkt);
}

static void test_no_more_frames_are_taken_than_are_sent(void **state)
{
	struct pkt *pkt = take_frame("late"), *odd = frame_of("this is no frame");
	int memfd = transfer_frames(), more = transfer_frames();

	note_import(channel->serial, clock_now());
	for (unsigned i = 0; i < QUARANTINE_LATE_MAX; i++) {
		if (i)
			transfer_put_frame(memfd, odd);
		transfer_put_frame(more, odd);
	}
	transfer_put_frame(more, pkt);
	deliver(&child, more);
	expect_no_bytes();
	transfer_put_frame(memfd, pkt);
	deliver(&child, memfd);
	world_expect(&child, "late");
	pkt_free(odd);
	pkt_free(pkt);
}

static void test_a_message_without_frames_does_nothing(void **state)
{
	note_import(channel->serial, clock_now());
	deliver(&child, -1);
	deliver(&child, transfer_frames());
	expect_no_bytes();
}

/* ---- connections that the program has not accepted yet --------------------------------------- */

static void note_arrival(uint64_t serial)
{
	WORLD_LOCKED(share_note_arrival(serial, tsock_inet(&child)));
}

static void test_frames_follow_a_connection_that_waits_for_accept(void **state)
{
	struct pkt *pkt = take_frame("late");

	deliver(&listener, memfd_of(pkt)); /* nothing of the kind has arrived */
	expect_no_bytes();
	note_arrival(channel->serial + 1);
	deliver(&listener, memfd_of(pkt));
	expect_no_bytes();
	note_arrival(channel->serial);
	deliver(&listener, memfd_of(pkt));
	world_expect(&child, "late");
	pkt_free(pkt);
}

/* The message names a listener that is closed here: its number means nothing. */
static void test_frames_follow_it_after_the_listener_was_closed(void **state)
{
	struct pkt *pkt = take_frame("late");
	struct message message = {.kind = MESSAGE_LATE, .id = ~0ull};
	int memfd = memfd_of(pkt);

	note_arrival(channel->serial);
	WORLD_LOCKED(share_on_late(channel, &message, memfd));
	world_expect(&child, "late");
	sys_close_fd(&memfd);
	pkt_free(pkt);
}

static void test_an_arrival_is_remembered_for_a_while(void **state)
{
	struct pkt *pkt = take_frame("late");
	nsec_t at;

	note_arrival(channel->serial);
	at = clock_now();
	assert_true(NET_WAIT(clock_now() > at + LATE_MAX, WORLD_WAIT));
	deliver(&listener, memfd_of(pkt));
	expect_no_bytes();
	pkt_free(pkt);
}

#define ARRIVALS 256

static void note_others(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		note_arrival(channel->serial + 1);
}

static void test_the_latest_arrivals_are_remembered(void **state)
{
	struct pkt *pkt = take_frame("late");

	note_arrival(channel->serial);
	note_others(ARRIVALS - 1);
	deliver(&listener, memfd_of(pkt));
	world_expect(&child, "late");
	pkt_free(pkt);
}

static void test_an_arrival_is_forgotten_for_later_ones(void **state)
{
	struct pkt *pkt = take_frame("late");

	note_arrival(channel->serial);
	note_others(ARRIVALS);
	deliver(&listener, memfd_of(pkt));
	expect_no_bytes();
	pkt_free(pkt);
}

static void test_a_connection_that_ended_gets_no_frames(void **state)
{
	struct pkt *pkt = take_frame("late");

	note_arrival(channel->serial);
	tsock_linger_none(&child);
	tsock_close(&child);
	deliver(&listener, memfd_of(pkt)); /* freed, as finish() sees */
	pkt_free(pkt);
	child = tsock_tcp();
}

static void test_a_forked_child_forgets_arrivals(void **state)
{
	struct pkt *pkt = take_frame("late");

	note_arrival(channel->serial);
	WORLD_LOCKED(share_forget_late());
	deliver(&listener, memfd_of(pkt));
	expect_no_bytes();
	pkt_free(pkt);
}

static const struct CMUnitTest tests[] = {
	CASE(test_frames_that_follow_each_other_go_together),
	CASE(test_the_internal_thread_sends_what_was_posted),
	CASE(test_frames_for_a_channel_that_ended_are_freed),
	CASE(test_without_memory_a_frame_is_not_taken),
	CASE(test_a_forked_child_forgets_the_frames_of_its_parent),
	CASE(test_frames_of_an_imported_connection_are_delivered),
	CASE(test_frames_that_come_by_another_channel_are_not),
	CASE(test_frames_that_come_too_late_are_not),
	CASE(test_frames_of_a_connection_that_nobody_shared_are_not),
	CASE(test_frames_of_another_connection_are_dropped),
	CASE(test_no_more_frames_are_taken_than_are_sent),
	CASE(test_a_message_without_frames_does_nothing),
	CASE(test_frames_follow_a_connection_that_waits_for_accept),
	CASE(test_frames_follow_it_after_the_listener_was_closed),
	CASE(test_an_arrival_is_remembered_for_a_while),
	CASE(test_the_latest_arrivals_are_remembered),
	CASE(test_an_arrival_is_forgotten_for_later_ones),
	CASE(test_a_connection_that_ended_gets_no_frames),
	CASE(test_a_forked_child_forgets_arrivals),
};

VMA_TEST_MAIN("sock/share/share_late", tests, world_start, world_finish)
