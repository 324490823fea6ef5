/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Single steps of the rules of process sharing that the simulator (tests/sim/share_test) reaches
 * seldom: one process with two channels, whose messages are recorded.
 */
#include "sock/share/share_machine.h"

#include <errno.h>
#include <string.h>

#include "tests/vma_test.h"

#define ID 5

static struct {
	struct share_sink sink;
	struct list channels;
	struct channel a, b;
	struct shared s;
	char text[300]; /* what the machine did */
	bool kept, gone;
	int fails;	   /* what export() and transit_over() return */
	int takes;	   /* ... and take_pending() */
	bool shakes, busy; /* has_handshakes(), not is_idle() */
} t;

static void note(const char *what, const struct channel *ch, uint64_t flags)
{
	size_t n = strlen(t.text);

	snprintf(t.text + n, sizeof(t.text) - n, "%s%s%s%s", n ? ", " : "", what,
		 ch == &t.a   ? " a"
		 : ch == &t.b ? " b"
			      : "",
		 flags ? "!" : "");
}

static void send(struct share_sink *sink, struct channel *ch, enum message_kind kind, uint64_t id,
		 uint64_t flags)
{
	assert_int_equal(id, ID);
	note(message_rules[kind].name, ch, flags);
}

static struct channel *passed(struct share_sink *sink, uint64_t id)
{
	return NULL;
}

static void arrived(struct share_sink *sink, struct shared *s)
{
}

static void keep(struct share_sink *sink, struct shared *s)
{
	t.kept = true;
}

static void drop(struct share_sink *sink, struct shared *s)
{
	t.gone = true;
}

static int spread(struct share_sink *sink, struct shared *s)
{
	return 0;
}

static int join(struct share_sink *sink, struct shared *s)
{
	note("joins", NULL, 0);
	return 0;
}

static void stop(struct share_sink *sink, struct shared *s)
{
}

static void withdraw(struct share_sink *sink, struct shared *s, struct channel *ch, bool stays)
{
	note(stays ? "withdraws" : "ends", ch, 0);
}

static void look(struct share_sink *sink, struct shared *s, bool at_it)
{
}

static bool is_idle(struct share_sink *sink, struct shared *s)
{
	return !t.busy;
}

static bool has_handshakes(struct share_sink *sink, struct shared *s)
{
	return t.shakes;
}

static void send_waiting(struct share_sink *sink, struct shared *s, struct channel *ch)
{
}

static int take_pending(struct share_sink *sink, struct shared *s, struct channel *ch)
{
	note("takes", ch, 0);
	return t.takes;
}

static void forward(struct share_sink *sink, uint64_t id, struct channel *to, uint64_t flags)
{
	assert_int_equal(id, ID);
	note("forwards", to, flags & MESSAGE_FLAG_BACK);
	to->pending++;
}

static void ask_later(struct share_sink *sink, struct shared *s)
{
	note("later", NULL, 0);
}

static bool used(struct share_sink *sink, struct shared *s, bool noted)
{
	return false;
}

static int export(struct share_sink *sink, struct shared *s, struct channel *ch)
{
	note("exports", ch, 0);
	return t.fails;
}

static int transit_over(struct share_sink *sink, struct shared *s, bool back)
{
	note(back ? "imports" : "over", NULL, 0);
	return t.fails;
}

static void reset(struct share_sink *sink, struct shared *s)
{
	note("reset", NULL, 0);
}

static const struct share_sink_ops ops = {
	.send = send,
	.passed = passed,
	.ask_later = ask_later,
	.arrived = arrived,
	.used = used,
	.export = export,
	.transit_over = transit_over,
	.reset = reset,
	.keep = keep,
	.drop = drop,
	.spread = spread,
	.join = join,
	.stop = stop,
	.withdraw = withdraw,
	.look = look,
	.has_handshakes = has_handshakes,
	.is_idle = is_idle,
	.send_waiting = send_waiting,
	.take_pending = take_pending,
	.forward = forward,
};

static void add(struct channel *ch, uint64_t serial)
{
	ch->serial = serial;
	ch->last_id = ID;
	list_init(&ch->link);
	list_push_back(&t.channels, &ch->link);
}

static int fresh(void **state)
{
	memset(&t, 0, sizeof(t));
	list_init(&t.channels);
	add(&t.a, 1);
	add(&t.b, 2);
	t.sink = (struct share_sink){.ops = &ops, .channels = &t.channels, .now = NSEC_PER_SEC};
	t.s = (struct shared){.id = ID, .member = true, .state = SHARED_HERE};
	return 0;
}

static int end(void **state)
{
	idset_fini(&t.a.closed);
	idset_fini(&t.b.closed);
	idset_fini(&t.a.all_closed);
	idset_fini(&t.b.all_closed);
	return 0;
}

#define DID(what)                                  \
	do {                                       \
		assert_string_equal(t.text, what); \
		t.text[0] = 0;                     \
	} while (0)

static void receive(struct channel *ch, enum message_kind kind, uint64_t flags)
{
	struct message message = {.kind = kind, .id = ID, .flags = flags};

	assert_true(shared_is_legal(t.gone ? NULL : &t.s, ch, &message));
	shared_receive(&t.sink, t.gone ? NULL : &t.s, ch, &message);
}

static void begin_exported(void)
{
	t.s.state = SHARED_EXPORTED;
	shared_set_toward(&t.s, &t.a);
}

static void test_a_member_in_the_middle_passes_requests_on_after_it_is_closed(void **state)
{
	begin_exported();
	assert_true(shared_close_member(&t.sink, &t.s));
	assert_true(t.kept);
	DID("");
	assert_false(shared_serve(&t.sink, &t.s, &t.b, ID));
	DID("REQUEST a");
	receive(&t.a, MESSAGE_JOIN, 0);
	DID("JOIN b");
	assert_true(shared_serve(&t.sink, &t.s, &t.b, ID));
	DID("JOIN b");
	/* Nobody is behind a any more: b is told, because it may be the last. */
	receive(&t.a, MESSAGE_CLOSED, 0);
	DID("CLOSED b");
	assert_true(t.gone);
	assert_int_equal(t.a.toward, 0);
}

static void test_a_member_in_the_middle_passes_what_waits_on(void **state)
{
	begin_exported();
	assert_true(shared_close_member(&t.sink, &t.s));
	assert_true(shared_pending(&t.sink, &t.s, ID, &t.a, 0));
	DID("forwards b");
	assert_true(shared_pending(&t.sink, &t.s, ID, &t.b, MESSAGE_HOPS_MAX - 1));
	DID("forwards a");
	assert_false(shared_pending(&t.sink, &t.s, ID, &t.b, MESSAGE_HOPS_MAX));
	DID("");
}

/* The sender's business from now on, however often it was forwarded: nobody here can accept it. */
static void test_what_a_member_cannot_receive_goes_back(void **state)
{
	t.takes = SHARE_UNABLE;
	assert_true(shared_pending(&t.sink, &t.s, ID, &t.a, MESSAGE_HOPS_MAX));
	DID("takes a, forwards a!");
	assert_false(shared_pending(&t.sink, &t.s, ID, NULL, 0));
	DID("takes");
	t.a.pending = SHARED_PENDING_MAX;
	assert_false(shared_pending(&t.sink, &t.s, ID, &t.a, 0));
	DID("takes a");
	/* It may be possible later, there or here. */
	t.a.pending = 0;
	t.takes = -EAGAIN;
	assert_true(shared_pending(&t.sink, &t.s, ID, &t.a, 0));
	DID("takes a, forwards a");
	t.takes = -EINVAL;
	assert_false(shared_pending(&t.sink, &t.s, ID, &t.a, 0));
	DID("takes a");
}

static void test_only_pending_may_be_sent_back(void **state)
{
	struct message message = {.kind = MESSAGE_PENDING, .id = ID, .flags = MESSAGE_FLAG_BACK};

	assert_true(shared_is_legal(&t.s, &t.a, &message));
	message.flags++;
	assert_false(shared_is_legal(&t.s, &t.a, &message));
	message.flags = MESSAGE_HOPS_MAX + 1;
	assert_false(shared_is_legal(&t.s, &t.a, &message));
}

static void test_a_member_on_one_side_only_is_forgotten(void **state)
{
	begin_exported();
	idset_add(&t.b.closed, ID);
	assert_false(shared_close_member(&t.sink, &t.s));
	assert_false(t.kept);
	DID("CLOSED a");
}

static void test_a_receiver_in_the_middle_withdraws_and_goes_on_passing_on(void **state)
{
	assert_true(shared_close_member(&t.sink, &t.s));
	DID("OFFER a");
	receive(&t.a, MESSAGE_JOIN, MESSAGE_FLAG_ANSWER);
	DID("JOIN b!, withdraws a");
	assert_false(t.gone);
	assert_int_equal(t.s.state, SHARED_EXPORTED);
	receive(&t.b, MESSAGE_OFFER, MESSAGE_FLAG_LAST);
	DID("OFFER a!");
}

static void test_an_idle_receiver_leaves_when_another_one_stays(void **state)
{
	receive(&t.a, MESSAGE_JOIN, 0);
	DID("OFFER a");
	receive(&t.b, MESSAGE_JOIN, MESSAGE_FLAG_ANSWER); /* to something else */
	DID("");
	receive(&t.a, MESSAGE_JOIN, MESSAGE_FLAG_ANSWER);
	DID("withdraws a");
	assert_int_equal(t.s.state, SHARED_EXPORTED);
}

/* Otherwise the kernel would receive. */
static void test_of_two_idle_receivers_that_offer_none_leaves(void **state)
{
	receive(&t.a, MESSAGE_JOIN, 0);
	DID("OFFER a");
	receive(&t.a, MESSAGE_OFFER, 0); /* crossed it */
	DID("JOIN a!");
	receive(&t.a, MESSAGE_JOIN, MESSAGE_FLAG_ANSWER);
	DID("");
	assert_int_equal(t.s.state, SHARED_HERE);
}

static void test_a_receiver_stays_that_is_used_meanwhile(void **state)
{
	receive(&t.a, MESSAGE_JOIN, 0);
	DID("OFFER a");
	t.busy = true;
	receive(&t.a, MESSAGE_JOIN, MESSAGE_FLAG_ANSWER);
	DID("");
	receive(&t.a, MESSAGE_JOIN, 0);
	DID("JOIN a!");
}

/* After so long. */
static void look_after(nsec_t time)
{
	t.sink.now += time;
	(void)shared_look(&t.sink, &t.s);
}

static void begin_withdrawing(void)
{
	t.s.listens = true;
	t.shakes = true;
	t.s.offered = true;
	receive(&t.a, MESSAGE_JOIN, 0);
	assert_int_equal(t.s.state, SHARED_WITHDRAWING);
}

/* A SYN that was steered here before may come late. */
static void test_a_listener_withdraws_a_moment_after_the_last_handshake(void **state)
{
	begin_withdrawing();
	t.shakes = false;
	look_after(SHARED_LATE / 2); /* had no processor */
	for (nsec_t time = 0; time < SHARED_LATE - SHARED_LOOK_MAX; time += SHARED_LOOK_MAX) {
		DID("");
		look_after(SHARED_LOOK_MAX);
	}
	DID("withdraws a");
}

/* It has answered nobody meanwhile. */
static void test_handshakes_have_time_also_without_a_processor(void **state)
{
	nsec_t spent = 0;

	begin_withdrawing();
	look_after(2 * SHARED_HANDSHAKES_MAX);
	look_after(2 * SHARED_HANDSHAKES_MAX);
	DID("");
	assert_int_equal(t.s.state, SHARED_WITHDRAWING);
	while (t.s.state == SHARED_WITHDRAWING) {
		look_after(SHARED_LOOK_MAX / 2);
		spent += SHARED_LOOK_MAX / 2;
	}
	DID("withdraws a");
	assert_in_range(spent, SHARED_HANDSHAKES_MAX - 2 * SHARED_LOOK_MAX, SHARED_HANDSHAKES_MAX);
}

static void test_a_closed_receiver_offers_its_place_to_who_requests_it(void **state)
{
	assert_true(shared_close_member(&t.sink, &t.s));
	DID("OFFER a");
	assert_true(shared_serve(&t.sink, &t.s, &t.a, ID));
	DID("OFFER a");
	assert_true(shared_serve(&t.sink, &t.s, &t.b, ID));
	DID("OFFER b");
}

static void test_two_that_close_at_one_time_both_end(void **state)
{
	idset_add(&t.b.closed, ID);
	assert_true(shared_close_member(&t.sink, &t.s));
	DID("OFFER a!");
	receive(&t.a, MESSAGE_OFFER, MESSAGE_FLAG_LAST);
	DID("CLOSED a");
	assert_true(t.gone);
}

static void test_one_that_has_it_open_does_not_end_by_the_offer_of_the_last_other(void **state)
{
	receive(&t.a, MESSAGE_OFFER, MESSAGE_FLAG_LAST);
	DID("JOIN a!");
	assert_false(t.gone);
	receive(&t.b, MESSAGE_OFFER, MESSAGE_FLAG_LAST);
	DID("JOIN b!");
	/* Then it is the last: nobody would join. */
	assert_true(shared_close_member(&t.sink, &t.s));
	DID("CLOSED a, CLOSED b");
	assert_true(t.gone);
}

static void test_who_offers_without_having_closed_it_is_waited_for(void **state)
{
	idset_add(&t.b.closed, ID);
	assert_true(shared_close_member(&t.sink, &t.s));
	DID("OFFER a!");
	receive(&t.a, MESSAGE_OFFER, 0);
	DID("OFFER a!");
	assert_false(t.gone);
	receive(&t.a, MESSAGE_JOIN, MESSAGE_FLAG_ANSWER);
	DID("ends a, CLOSED a");
}

static void test_who_joins_keeps_no_direction(void **state)
{
	begin_exported();
	t.s.joins = true;
	shared_request(&t.sink, &t.s);
	DID("joins, JOIN a, JOIN b");
	assert_int_equal(t.s.state, SHARED_HERE);
	assert_null(t.s.toward);
	assert_int_equal(t.a.toward, 0);
}

static void test_what_waits_comes_back_from_a_rerouted_channel(void **state)
{
	struct message pending = {.kind = MESSAGE_PENDING, .id = ID + 1, .flags = 2};
	struct message received = {.kind = MESSAGE_RECEIVED, .id = ID + 1};

	assert_false(shared_for_another(&t.sink, &t.a, &pending));
	assert_false(shared_is_legal(NULL, &t.a, &received));
	t.a.rerouted = true;
	assert_false(shared_is_legal(NULL, &t.a, &pending));
	pending.id = ID;
	assert_true(shared_for_another(&t.sink, &t.a, &pending));
	DID("forwards a");
	assert_true(shared_is_legal(NULL, &t.a, &received));
	pending.flags = MESSAGE_HOPS_MAX;
	assert_true(shared_for_another(&t.sink, &t.a, &pending));
	DID("");
}

static void begin_packed(void)
{
	t.s.member = false;
	assert_int_equal(shared_pack(&t.sink, &t.s), 0);
	DID("exports");
	assert_true(shared_is_packed(&t.s));
}

static void test_what_is_packed_comes_back(void **state)
{
	begin_packed();
	assert_int_equal(shared_pack(&t.sink, &t.s), -EINVAL);
	DID("");
	/* Whoever wants it meanwhile waits. */
	shared_request(&t.sink, &t.s);
	DID("later");
	assert_false(shared_may_request(&t.sink, &t.s));
	assert_false(shared_serve(&t.sink, &t.s, &t.a, ID));
	DID("later");
	assert_false(shared_settle(&t.sink, &t.s));
	shared_unpack(&t.sink, &t.s);
	DID("imports");
	assert_int_equal(t.s.state, SHARED_HERE);
	assert_false(shared_is_packed(&t.s));
}

static void test_the_next_image_unpacks(void **state)
{
	t.s = (struct shared){.id = ID, .state = SHARED_EXPORTED};
	assert_false(shared_is_packed(&t.s));
	shared_begin_packed(&t.s);
	shared_observe(&t.s, true, true, false);
	assert_true(shared_is_packed(&t.s));
	shared_unpack(&t.sink, &t.s);
	DID("imports");
	assert_int_equal(t.s.state, SHARED_HERE);
}

static void test_what_cannot_be_packed_stays(void **state)
{
	assert_int_equal(shared_pack(&t.sink, &t.s), -EINVAL); /* a member */
	t.s.member = false;
	t.fails = -ENFILE;
	assert_int_equal(shared_pack(&t.sink, &t.s), -ENFILE);
	DID("exports");
	assert_int_equal(t.s.state, SHARED_HERE);
}

static void test_what_cannot_be_unpacked_is_reset(void **state)
{
	begin_packed();
	t.fails = -EPROTO;
	shared_unpack(&t.sink, &t.s);
	DID("imports, reset");
	assert_int_equal(t.s.state, SHARED_HERE);
	assert_false(t.gone);
}

/* By another thread, before exec failed. */
static void test_what_was_closed_meanwhile_ends(void **state)
{
	idset_add(&t.a.closed, ID);
	idset_add(&t.b.closed, ID);
	begin_packed();
	shared_close(&t.sink, &t.s);
	assert_true(t.kept);
	assert_false(t.gone);
	shared_unpack(&t.sink, &t.s);
	DID("imports");
	assert_true(t.gone);
}

static bool is_legal(enum message_kind kind)
{
	struct message message = {.kind = kind, .id = ID};

	return shared_is_legal(NULL, &t.a, &message);
}

/* The owner offers it, or leaves it to the kernel, while its channel ends here with the socket. */
static void test_a_channel_of_one_socket_ends_before_the_other_end_knows(void **state)
{
	t.a.only = ID;
	idset_add(&t.a.closed, ID);
	assert_false(is_legal(MESSAGE_OFFER)); /* after it said that it has closed it */
	assert_false(is_legal(MESSAGE_TO_KERNEL));
	assert_true(is_legal(MESSAGE_CLOSED));
	t.a.done = true;
	assert_true(is_legal(MESSAGE_OFFER));
	assert_true(is_legal(MESSAGE_TO_KERNEL));
	assert_true(is_legal(MESSAGE_CLOSED));
	assert_false(is_legal(MESSAGE_ACK));
	/* The other end had it from elsewhere, too, and closed this channel: here it is as before. */
	assert_false(
		shared_is_legal(&t.s, &t.a, &(struct message){.kind = MESSAGE_JOIN, .id = ID}));
	t.gone = true;
	receive(&t.a, MESSAGE_OFFER, 0);
	DID("CLOSED a");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fresh, end)

static const struct CMUnitTest tests[] = {
	CASE(test_a_member_in_the_middle_passes_requests_on_after_it_is_closed),
	CASE(test_a_member_in_the_middle_passes_what_waits_on),
	CASE(test_what_a_member_cannot_receive_goes_back),
	CASE(test_only_pending_may_be_sent_back),
	CASE(test_a_member_on_one_side_only_is_forgotten),
	CASE(test_a_receiver_in_the_middle_withdraws_and_goes_on_passing_on),
	CASE(test_an_idle_receiver_leaves_when_another_one_stays),
	CASE(test_of_two_idle_receivers_that_offer_none_leaves),
	CASE(test_a_receiver_stays_that_is_used_meanwhile),
	CASE(test_a_listener_withdraws_a_moment_after_the_last_handshake),
	CASE(test_handshakes_have_time_also_without_a_processor),
	CASE(test_a_closed_receiver_offers_its_place_to_who_requests_it),
	CASE(test_two_that_close_at_one_time_both_end),
	CASE(test_one_that_has_it_open_does_not_end_by_the_offer_of_the_last_other),
	CASE(test_who_offers_without_having_closed_it_is_waited_for),
	CASE(test_who_joins_keeps_no_direction),
	CASE(test_what_waits_comes_back_from_a_rerouted_channel),
	CASE(test_what_is_packed_comes_back),
	CASE(test_the_next_image_unpacks),
	CASE(test_what_cannot_be_packed_stays),
	CASE(test_what_cannot_be_unpacked_is_reset),
	CASE(test_what_was_closed_meanwhile_ends),
	CASE(test_a_channel_of_one_socket_ends_before_the_other_end_knows),
};

VMA_TEST_MAIN("share_machine", tests, NULL, NULL)
