/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the rules of process sharing do to the sockets of this process.  The other process is a
 * channel that was made for a child and never given to one; its messages are acted on at once.
 */
#include <sys/mman.h>

#include "sock/share/exec_inherit.h"
#include "sock/share/share_internal.h"
#include "sock/share/transfer.h"
#include "tests/unit/sock/world.h"

static unsigned port;
static struct tsock listener, client, child, udp, sender;
static struct tsock probe;	      /* has no connection */
static struct channel *end, *channel; /* the other process's, and ours */
static uint64_t id;		      /* of the child */
static unsigned lefts;		      /* sockets that fell back to the kernel */
static enum verdict reason;	      /* of the last one */
static size_t bufs;

static void left(struct sock *sk)
{
	lefts++;
	reason = sock_verdict(sk);
}

static void lend(void)
{
	struct exec_channel ch;

	assert_true(exec_inherit_lend(&ch));
	end = channel_create(ch.fd, ch.last_id);
	assert_non_null(end);
	channel = container_of(share_process.channels.prev, struct channel, link);
}

static int begin(void **state)
{
	sock_hooks.left = left;
	lefts = 0;
	if (!bufs)
		bufs = pkt_bufs_left(); /* later, a frame of the case before may be under way */
	port = world_port();
	listener = world_listener(0, port, 4);
	udp = world_udp(0, world_port());
	sender = world_udp(1, world_port());
	probe = tsock_tcp();
	world_pair(&listener, port, &client, &child);
	id = tsock_inet(&child)->id;
	lend();
	return 0;
}

static bool channels_have_ended(void)
{
	bool ended;

	WORLD_LOCKED(ended = list_empty(&share_process.channels));
	return ended;
}

static void abandon(struct tsock *ts)
{
	if (ts->fd >= 0)
		tsock_linger_none(ts);
	tsock_close(ts);
}

static int finish(void **state)
{
	WORLD_LOCKED(channel = NULL); /* all reads of it come before its end */
	channel_destroy(end);
	assert_true(NET_WAIT(channels_have_ended(), WORLD_WAIT));
	assert_true(list_empty(&share_process.kept));
	assert_true(list_empty(&share_process.asking));
	abandon(&client);
	abandon(&child);
	abandon(&probe);
	abandon(&udp);
	abandon(&sender);
	tsock_close(&listener);
	assert_true(NET_WAIT(pkt_bufs_left() == bufs, WORLD_WAIT));
	return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, finish)

/* ---- messages -------------------------------------------------------------------------- */

/* The other process sends it.  fd: consumed.  False: the channel is to end. */
static bool act(enum message_kind kind, uint64_t about, uint64_t flags, int fd)
{
	struct message message = {.kind = kind, .id = about, .flags = flags};
	bool goes_on;

	WORLD_LOCKED(goes_on = share_act(channel, &message, fd));
	return goes_on;
}

/* channel_receive(), but for frames of the client that came late: it may acknowledge at any time. */
static int receive(struct message *message, int *fd)
{
	int rc;

	while ((rc = channel_receive(end, message, fd)) == 1 && message->kind == MESSAGE_LATE)
		sys_close_fd(fd);
	return rc;
}

/* The next message to the other process.  Its descriptor, or -1. */
static int expect_with(enum message_kind kind, uint64_t about, uint64_t flags)
{
	struct message message;
	int fd;

	assert_int_equal(receive(&message, &fd), 1);
	assert_int_equal(message.kind, kind);
	assert_int_equal(message.id, about);
	assert_int_equal(message.flags, flags);
	return fd;
}

/* ... which has no descriptor. */
static void expect(enum message_kind kind, uint64_t about, uint64_t flags)
{
	assert_int_equal(expect_with(kind, about, flags), -1);
}

static void expect_nothing(void)
{
	struct message message;
	int fd;

	assert_int_equal(receive(&message, &fd), 0);
}

/* The child's connection is in transit: its bytes. */
static int take_export(void)
{
	bool served;
	int bytes;

	WORLD_LOCKED({
		channel_note_request(channel, id, -1);
		share_find(id)->sharing ? share_find(id)->sharing->shared.arrived = 0 : 0;
		served = share_serve_requests(channel);
	});
	assert_true(served);
	bytes = expect_with(MESSAGE_EXPORT, id, 0);
	assert_true(bytes >= 0);
	return bytes;
}

/* The other process has it. */
static int give_away(void)
{
	int bytes = take_export();

	assert_true(act(MESSAGE_ACK, id, 0, -1));
	assert_true(sock_is_exported(child.ref.sk));
	expect_nothing();
	return bytes;
}

static struct sharing *sharing_of(const struct tsock *ts)
{
	return tsock_inet(ts)->sharing;
}

/* The program wants it, at this time at the earliest. */
static void request_at(nsec_t at)
{
	WORLD_LOCKED({
		sharing_of(&child)->shared.ask_at = at;
		share_request_for(tsock_inet(&child));
	});
}

/* The next message has the twin: the file that is open as fd. */
static void expect_twin(enum message_kind kind, uint64_t flags, int fd)
{
	int twin = expect_with(kind, id, flags);

	assert_int_equal(sys_socket_cookie(twin), sys_socket_cookie(fd));
	sys_close_fd(&twin);
}

static void request(void)
{
	request_at(0);
	expect_twin(MESSAGE_REQUEST, 0, child.fd);
}

/* It comes with these bytes, which are consumed. */
static void come_back(int bytes)
{
	assert_true(act(MESSAGE_EXPORT, id, 0, bytes));
	expect(MESSAGE_ACK, id, 0);
	assert_false(sock_is_exported(child.ref.sk));
}

static void talk(void)
{
	assert_int_equal(tsock_send(&client, "to the child", 12, 0), 12);
	world_expect(&child, "to the child");
	assert_int_equal(tsock_send(&child, "and back", 8, 0), 8);
	world_expect(&client, "and back");
}

/* Does this make blocked calls look again? */
#define WAKES(what)                                                                         \
	({                                                                                  \
		uint32_t before_ = __atomic_load_n(&share_process.turns, __ATOMIC_SEQ_CST); \
		what;                                                                       \
		__atomic_load_n(&share_process.turns, __ATOMIC_SEQ_CST) != before_;         \
	})

/* ---- requests of the other process ------------------------------------------------------- */

/* As if the child had arrived at this time. */
static void note_arrived(nsec_t at)
{
	share_of(tsock_inet(&child))->arrived = at;
}

static void test_an_early_request_is_kept_and_answered_later(void **state)
{
	bool early, kept, again, due, done;

	WORLD_LOCKED({
		note_arrived(clock_now() + 60 * NSEC_PER_SEC);
		channel_note_request(channel, id, -1);
		early = share_serve_requests(channel);
		kept = !list_empty(&channel->wants);
		again = share_serve(); /* something is left */
		note_arrived(0);
		due = share_serve_requests(channel);
		done = list_empty(&channel->wants) && !share_serve();
	});
	assert_false(early);
	assert_true(kept);
	assert_true(again);
	assert_true(due);
	assert_true(done);
	sys_close_fd(&(int){expect_with(MESSAGE_EXPORT, id, 0)});
	expect_nothing();
	assert_true(act(MESSAGE_NACK, id, 0, -1));
}

static bool may_part;

static bool says_may_part(struct port_queue *q, const struct flow_key *key)
{
	(void)q;
	assert_true(flow_key_eq(key, &tsock_inet(&child)->tcp.flow.key));
	return may_part;
}

/* control lock */
static void set_ops(struct ring *ring, const struct port_ops *ops)
{
	assert_true(ring_hold_cold(ring));
	ring->ops = ops;
	ring_release_cold(ring);
}

static void test_a_connection_stays_until_its_port_could_give_it_away(void **state)
{
	const struct port_ops *before;
	bool early, here, due;
	int bytes = give_away();

	/* The listener's entry served it until now; what is imported has one of its own. */
	request();
	come_back(bytes);
	WORLD_LOCKED({
		struct ring *ring = sock_home(tsock_inet(&child));
		struct port_ops ops = *ring->ops;

		before = ring->ops;
		ops.may_part = says_may_part;
		set_ops(ring, &ops);
		may_part = false;
		note_arrived(0);
		channel_note_request(channel, id, -1);
		early = share_serve_requests(channel);
		here = !sock_is_exported(child.ref.sk);
		may_part = true;
		due = share_serve_requests(channel);
		set_ops(ring, before);
	});
	assert_false(early);
	assert_true(here);
	assert_true(due);
	sys_close_fd(&(int){expect_with(MESSAGE_EXPORT, id, 0)});
	expect_nothing();
	assert_true(act(MESSAGE_NACK, id, 0, -1));
	talk();
}

static void test_requests_do_not_wait_for_an_early_one(void **state)
{
	uint64_t other = tsock_inet(&probe)->id, first = 0;
	bool all;

	WORLD_LOCKED({
		note_arrived(clock_now() + 60 * NSEC_PER_SEC);
		channel_note_request(channel, id, -1);
		channel_note_request(channel, other, -1);
		all = share_serve_requests(channel);
		first = container_of(channel->wants.next, struct want, link)->id;
		note_arrived(0);
		(void)share_serve_requests(channel);
	});
	assert_false(all);
	assert_int_equal(first, id);
	expect(MESSAGE_LOST, other, 0);
	sys_close_fd(&(int){expect_with(MESSAGE_EXPORT, id, 0)});
	expect_nothing();
	assert_true(act(MESSAGE_NACK, id, 0, -1));
}

/* ---- requests of this process ------------------------------------------------------------ */

static void test_a_request_that_is_not_due_is_sent_later_and_once(void **state)
{
	struct inet_sock *so = tsock_inet(&child);
	struct list *only;
	int bytes = give_away();
	bool left_over, none_left;

	WORLD_LOCKED({
		so->sharing->shared.ask_at = clock_now() + 60 * NSEC_PER_SEC;
		share_request_for(so);
		share_request_for(so);
		only = share_process.asking.next->next;
		left_over = share_request_due();
		so->sharing->shared.ask_at = 0;
		none_left = !share_request_due() && !share_request_due();
	});
	assert_ptr_equal(only, &share_process.asking);
	assert_true(left_over);
	assert_true(none_left);
	expect_twin(MESSAGE_REQUEST, 0, child.fd);
	expect_nothing();
	come_back(bytes);
	talk();
}

static void test_what_has_arrived_is_not_requested_any_more(void **state)
{
	int bytes = give_away();
	bool left_over;

	request_at(clock_now() + 60 * NSEC_PER_SEC);
	come_back(bytes);
	WORLD_LOCKED(left_over = share_request_due());
	assert_false(left_over);
	expect_nothing();
	talk();
}

/* ---- waiting calls ----------------------------------------------------------------------- */

static void test_who_waits_looks_when_a_connection_has_arrived(void **state)
{
	int bytes = give_away();

	request();
	assert_true(WAKES(come_back(bytes)));
	talk();
}

static void test_who_waits_looks_when_a_connection_has_come_back(void **state)
{
	sys_close_fd(&(int){take_export()});
	assert_true(WAKES(assert_true(act(MESSAGE_NACK, id, 0, -1))));
	assert_int_equal(sharing_of(&child)->memfd, -1);
	talk();
}

static void test_who_waits_looks_when_a_connection_is_lost(void **state)
{
	char byte;

	sys_close_fd(&(int){give_away()});
	request();
	assert_true(WAKES(assert_true(act(MESSAGE_LOST, id, 0, -1))));
	assert_int_equal(tsock_recv(&child, &byte, 1, 0), -ECONNRESET);
}

static void test_who_waits_looks_when_a_connection_cannot_arrive(void **state)
{
	sys_close_fd(&(int){give_away()});
	request();
	assert_true(WAKES(assert_true(act(MESSAGE_STAYS, id, 0, -1))));
	assert_int_equal(share_fetch(child.ref, SHARE_FETCH_MAX), -ENETUNREACH);
}

static void test_who_waits_looks_when_the_kernel_serves_a_connection(void **state)
{
	sys_close_fd(&(int){give_away()});
	request();
	assert_true(WAKES(assert_true(act(MESSAGE_TO_KERNEL, id, 0, -1))));
	assert_int_equal(lefts, 1);
	assert_int_equal(reason, VERDICT_SHARED);
}

/* ---- bytes and descriptors ----------------------------------------------------------------- */

static void test_the_bytes_are_kept_until_they_are_acknowledged(void **state)
{
	int bytes = take_export();

	assert_true(sharing_of(&child)->memfd >= 0);
	assert_true(act(MESSAGE_ACK, id, 0, -1));
	assert_int_equal(sharing_of(&child)->memfd, -1);
	request();
	come_back(bytes);
	talk();
}

static void test_bytes_of_nobody_are_refused(void **state)
{
	int bytes = give_away();

	request();
	assert_true(WAKES(assert_true(act(MESSAGE_EXPORT, id, 0, transfer_frames()))));
	expect(MESSAGE_NACK, id, 0); /* no twin: the owner is not to hand it over */
	assert_int_equal(share_fetch(child.ref, SHARE_FETCH_MAX), -EINVAL);
	request();
	come_back(bytes);
	talk();
}

/* The other process has it, with bytes that are unread. */
static int give_away_unread(void)
{
	assert_int_equal(tsock_send(&client, "unread", 6, 0), 6);
	assert_true(NET_WAIT(sock_events(child.ref.sk) & EPOLLIN, WORLD_WAIT));
	return give_away();
}

/* It comes, and there is no memory for what is unread. */
static void come_in_vain(int bytes)
{
	int before = params.rx_bufs;
	bool acted;

	params.rx_bufs = 0;
	acted = act(MESSAGE_EXPORT, id, 0, bytes);
	params.rx_bufs = before;
	assert_true(acted);
}

/* It cannot be imported: the owner gets the twin, to hand it over. */
static void test_the_owner_gets_the_twin_of_what_cannot_be_imported(void **state)
{
	int bytes = give_away_unread();

	request();
	come_in_vain(sys_fd_copy(bytes));
	expect_twin(MESSAGE_NACK, MESSAGE_FLAG_UNABLE, child.fd);
	come_back(bytes);
	world_expect(&child, "unread");
}

/* ---- kernel handover on behalf of another process --------------------------------------- */

/* The process at the other end of a second channel takes part from now on, or the first one again. */
static void swap_ends(struct channel *ends[2])
{
	struct channel *end_then = end, *channel_then = channel;

	end = ends[0];
	channel = ends[1];
	ends[0] = end_then;
	ends[1] = channel_then;
}

static bool is_connected(int fd)
{
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);

	return !getpeername(fd, (struct sockaddr *)&peer, &len);
}

static bool unable(int twin)
{
	return act(MESSAGE_NACK, id, MESSAGE_FLAG_UNABLE, twin);
}

/* The program closed it: the file stays, as another process has it. */
static int close_child(void)
{
	int file = fcntl(child.fd, F_DUPFD_CLOEXEC, 0);

	assert_true(file >= 0);
	tsock_close(&child);
	return file;
}

static bool is_kept(void)
{
	bool kept;

	WORLD_LOCKED(kept = !list_empty(&share_process.kept) && share_find(id));
	return kept;
}

/* Our own twin is used, whatever came. */
static void test_the_kernel_gets_an_open_connection_in_its_own_twin(void **state)
{
	sys_close_fd(&(int){take_export()});
	assert_true(unable(sys_fd_copy(probe.fd)));
	expect(MESSAGE_TO_KERNEL, id, 0);
	expect_nothing();
	assert_int_equal(lefts, 1);
	assert_int_equal(reason, VERDICT_SHARED);
	assert_false(is_connected(probe.fd));
}

static void test_the_kernel_gets_a_closed_connection_in_the_twin_that_came(void **state)
{
	int file = close_child();

	assert_true(is_kept());
	sys_close_fd(&(int){take_export()});
	assert_true(unable(sys_fd_copy(file)));
	expect(MESSAGE_TO_KERNEL, id, 0);
	assert_false(is_kept());
	close(file);
}

/* Else a process that receives the twin would look for the one that sent it. */
static void test_what_the_kernel_serves_is_no_passed_connection_any_more(void **state)
{
	struct pass_mark mark = {.key = 1};
	int file = fcntl(child.fd, F_DUPFD_CLOEXEC, 0);

	assert_true(file >= 0);
	sys_close_fd(&(int){take_export()});
	sharing_of(&child)->cookie = sys_socket_cookie(file);
	assert_true(pass_mark_set(file, &mark));
	assert_true(unable(sys_fd_copy(file)));
	expect(MESSAGE_TO_KERNEL, id, 0);
	assert_false(pass_mark_get(file, &mark));
	close(file);
}

static void test_nor_if_the_program_has_closed_it(void **state)
{
	struct pass_mark mark = {.key = 1};
	int file = close_child();

	sys_close_fd(&(int){take_export()});
	assert_true(pass_mark_set(file, &mark));
	assert_true(unable(sys_fd_copy(file)));
	expect(MESSAGE_TO_KERNEL, id, 0);
	assert_false(pass_mark_get(file, &mark));
	close(file);
}

/* A closed connection, for which another process sends another descriptor than its twin. */
static void expect_refused(int stranger)
{
	int file = close_child();

	sys_close_fd(&(int){take_export()});
	assert_true(unable(stranger));
	expect(MESSAGE_STAYS, id, 0);
	expect_nothing();
	assert_true(is_kept());
	assert_false(is_connected(file));
	/* It is as it was: with its twin the kernel gets it. */
	sys_close_fd(&(int){take_export()});
	assert_true(unable(sys_fd_copy(file)));
	expect(MESSAGE_TO_KERNEL, id, 0);
	assert_false(is_kept());
	close(file);
}

/*
 * The program closed what another process owns, and a third one asks for it: only that one has the
 * twin.
 */
static void test_a_process_between_passes_on_the_twin_of_the_one_that_asks(void **state)
{
	int bytes = give_away_unread(), file;
	struct channel *others[2] = {end, channel};

	lend();
	file = close_child();
	assert_true(is_kept());
	assert_true(act(MESSAGE_REQUEST, id, 0, sys_fd_copy(file)));
	WORLD_LOCKED({
		share_find(id)->sharing->shared.ask_at = 0;
		(void)share_serve_requests(channel);
	});
	swap_ends(others); /* the owner */
	expect_twin(MESSAGE_REQUEST, 0, file);
	come_in_vain(bytes);
	expect_twin(MESSAGE_NACK, MESSAGE_FLAG_UNABLE, file);
	assert_true(act(MESSAGE_TO_KERNEL, id, 0, -1));
	assert_false(is_kept());
	channel_destroy(end);
	swap_ends(others);
	expect(MESSAGE_TO_KERNEL, id, 0);
	close(file);
}

static void test_a_closed_connection_is_not_put_in_another_socket(void **state)
{
	expect_refused(sys_fd_copy(probe.fd));
	assert_false(is_connected(probe.fd));
}

static void test_a_closed_connection_is_not_put_in_what_is_no_socket(void **state)
{
	expect_refused(transfer_frames());
}

static void test_a_closed_connection_stays_if_no_twin_came(void **state)
{
	expect_refused(-1);
}

/* Not even if this process could not read the twin's cookie when the program closed it. */
static void test_a_closed_connection_whose_twin_is_unknown_stays(void **state)
{
	int file = close_child();

	WORLD_LOCKED(share_find(id)->sharing->cookie = 0);
	sys_close_fd(&(int){take_export()});
	assert_true(unable(sys_fd_copy(file)));
	expect(MESSAGE_STAYS, id, 0);
	assert_true(is_kept());
	assert_false(is_connected(file));
	close(file);
}

/* ---- how long a connection stays --------------------------------------------------------- */

/* The connection leaves and comes back. The pause before the next request. */
static nsec_t leave_and_return(void)
{
	int bytes = take_export();
	nsec_t pause = sharing_of(&child)->shared.pause;

	sys_close_fd(&bytes);
	assert_true(act(MESSAGE_NACK, id, 0, -1));
	return pause;
}

static void test_the_pause_grows_while_nobody_uses_the_connection(void **state)
{
	assert_int_equal(leave_and_return(), SHARED_STAY_MIN);
	assert_int_equal(leave_and_return(), 2 * SHARED_STAY_MIN);
	assert_int_equal(leave_and_return(), 4 * SHARED_STAY_MIN);
	assert_int_equal(tsock_send(&client, "unread", 6, 0), 6);
	assert_true(NET_WAIT(sock_events(child.ref.sk) & EPOLLIN, WORLD_WAIT));
	assert_int_equal(leave_and_return(), 8 * SHARED_STAY_MIN); /* the peer's use is none */
	world_expect(&child, "unread");
	assert_int_equal(leave_and_return(), SHARED_STAY_MIN);
	assert_int_equal(leave_and_return(), 2 * SHARED_STAY_MIN);
	assert_int_equal(tsock_send(&child, "sent", 4, 0), 4);
	assert_int_equal(leave_and_return(), SHARED_STAY_MIN);
}

/* ---- endings ----------------------------------------------------------------------------- */

static void test_a_closed_connection_is_kept_until_others_have_closed_it(void **state)
{
	uint64_t cookie = sys_socket_cookie(child.fd), kept = 0;

	tsock_close(&child);
	assert_true(is_kept());
	WORLD_LOCKED(kept = share_find(id)->sharing->cookie);
	assert_int_equal(kept, cookie);
	assert_true(act(MESSAGE_CLOSED, id, 0, -1));
	assert_false(is_kept());
	expect_nothing();
}

static void test_what_the_program_closed_is_not_requested_any_more(void **state)
{
	bool left_over;

	sys_close_fd(&(int){give_away()});
	request_at(clock_now() + 60 * NSEC_PER_SEC);
	tsock_close(&child);
	expect(MESSAGE_CLOSED, id, 0);
	assert_false(is_kept());
	WORLD_LOCKED(left_over = share_request_due());
	assert_false(left_over);
}

static void test_the_channel_of_one_socket_ends_with_it(void **state)
{
	struct message message;
	struct channel *only, *other;
	bool dropped, open;
	int fds[2], fd;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds),
			 0);
	other = channel_create_only(sys_fd_hide(fds[0]), 1);
	only = channel_create_only(sys_fd_hide(fds[1]), id);
	WORLD_LOCKED(share_listen_to(only));
	assert_int_equal(channel_receive(other, &message, &fd), 0);
	tsock_close(&child);
	assert_true(act(MESSAGE_CLOSED, id, 0, -1));
	assert_true(is_kept()); /* for the other channel */
	message = (struct message){.kind = MESSAGE_CLOSED, .id = id};
	WORLD_LOCKED({
		(void)share_act(only, &message, -1);
		dropped = !share_find(id);
		open = only->link.next && !only->broken; /* it is in the middle of a message */
		(void)share_serve();
	});
	assert_true(dropped);
	assert_true(open);
	assert_int_equal(channel_receive(other, &message, &fd), -1);
	expect_nothing(); /* the channel of all sockets goes on */
	channel_destroy(other);
}

/* ---- members ----------------------------------------------------------------------------- */

static bool is_member(const struct tsock *ts)
{
	bool once;

	WORLD_LOCKED(once = share_process.members.next == &sharing_of(ts)->member &&
			    sharing_of(ts)->member.next == &share_process.members);
	return once;
}

static bool no_members(void)
{
	bool none;

	WORLD_LOCKED(none = list_empty(&share_process.members));
	return none;
}

static void test_a_listener_that_others_join_is_looked_at(void **state)
{
	uint64_t about = tsock_inet(&listener)->id;
	bool looking;

	for (unsigned i = 0; i < 2; i++) {
		WORLD_LOCKED({
			channel_note_request(channel, about, -1);
			(void)share_serve_requests(channel);
			looking = __atomic_load_n(&share_process.looking, __ATOMIC_RELAXED);
		});
		expect(MESSAGE_JOIN, about, 0);
		assert_true(looking);
		assert_true(is_member(&listener));
	}
}

/*
 * On a card, which would give it the frames of those that the kernel has accepted meanwhile: it
 * passes them on.
 */
static void test_a_listener_that_begins_again_knows_that_the_kernel_has_connections(void **state)
{
	struct kernel_conns *conns = &tsock_inet(&listener)->listen.kernel;

	WORLD_LOCKED({
		member_stop(tsock_inet(&listener));
		*conns = (struct kernel_conns){0};
		assert_true(member_start(tsock_inet(&listener)));
		assert_int_not_equal(conns->since, 0);
	});
}

/* The other process receives for it, and nobody uses it here: what is unread goes there. */
static int withdraw_with(const char *text)
{
	uint64_t about = tsock_inet(&udp)->id;
	int datagrams;

	world_send(&sender, 0, ntohs(tsock_name(&udp).sin_port), text);
	assert_true(NET_WAIT(world_queued(&udp, 1), WORLD_WAIT));
	WORLD_LOCKED({
		channel_note_request(channel, about, -1);
		(void)share_serve_requests(channel);
	});
	expect(MESSAGE_JOIN, about, 0);
	assert_true(is_member(&udp));
	assert_true(act(MESSAGE_JOIN, about, 0, -1));
	expect(MESSAGE_OFFER, about, 0);
	assert_true(act(MESSAGE_JOIN, about, MESSAGE_FLAG_ANSWER, -1));
	datagrams = expect_with(MESSAGE_PENDING, about, 0);
	assert_true(datagrams >= 0);
	assert_true(sock_is_exported(udp.ref.sk));
	assert_true(no_members());
	return datagrams;
}

static void test_a_member_that_withdraws_sends_what_is_unread(void **state)
{
	uint64_t about = tsock_inet(&udp)->id;
	int datagrams = withdraw_with("unread");

	assert_true(act(MESSAGE_RECEIVED, about, 0, -1));
	/* It comes back, to a process that has it open: it joins again. */
	assert_true(act(MESSAGE_CLOSED, about, 0, -1));
	assert_true(act(MESSAGE_PENDING, about, 0, datagrams));
	expect(MESSAGE_RECEIVED, about, 0);
	assert_false(sock_is_exported(udp.ref.sk));
	world_expect(&udp, "unread");
}

static void test_who_waits_looks_when_a_member_has_joined(void **state)
{
	uint64_t about = tsock_inet(&udp)->id;

	sys_close_fd(&(int){withdraw_with("unread")});
	assert_true(act(MESSAGE_RECEIVED, about, 0, -1));
	assert_true(WAKES(WORLD_LOCKED(share_request_for(tsock_inet(&udp)))));
	expect(MESSAGE_JOIN, about, 0);
	assert_false(sock_is_exported(udp.ref.sk));
	assert_true(is_member(&udp));
}

/* ---- messages that were meant for another process ----------------------------------------- */

/* What the machine does with it; *fd: as for the function. */
static bool for_another(enum message_kind kind, uint64_t flags, int *fd)
{
	struct message message = {.kind = kind, .id = channel->last_id + 1, .flags = flags};
	bool goes_on;

	WORLD_LOCKED(goes_on = share_sink_for_another(channel, &message, fd));
	return goes_on;
}

static void test_what_waits_at_another_process_goes_back_and_is_received(void **state)
{
	uint64_t about = channel->last_id + 1;
	int fd = transfer_frames();

	channel->rerouted = true;
	assert_true(for_another(MESSAGE_PENDING, 3, &fd));
	assert_int_equal(fd, -1);
	fd = expect_with(MESSAGE_PENDING, about, 4);
	assert_true(fd >= 0);
	sys_close_fd(&fd);
	expect(MESSAGE_RECEIVED, about, 0); /* its sender keeps nothing */
	expect_nothing();
	assert_int_equal(channel->pending, 1);
	assert_true(act(MESSAGE_RECEIVED, about, 0, -1));
	assert_int_equal(channel->pending, 0);
}

/* It is lost, and the sender has to know. */
static void test_what_was_forwarded_too_often_is_received(void **state)
{
	int fd = transfer_frames();

	channel->rerouted = true;
	assert_true(for_another(MESSAGE_PENDING, MESSAGE_HOPS_MAX, &fd));
	assert_true(fd >= 0); /* the caller's */
	sys_close_fd(&fd);
	expect(MESSAGE_RECEIVED, channel->last_id + 1, 0);
	expect_nothing();
}

static void test_requests_for_another_process_are_answered(void **state)
{
	int none = -1, fd = transfer_frames();

	channel->rerouted = true;
	assert_true(for_another(MESSAGE_REQUEST, 0, &none));
	expect(MESSAGE_LOST, channel->last_id + 1, 0);
	assert_true(for_another(MESSAGE_EXPORT, 0, &fd));
	expect(MESSAGE_NACK, channel->last_id + 1, 0);
	assert_true(fd >= 0);
	sys_close_fd(&fd);
	assert_true(for_another(MESSAGE_ACK, 0, &none));
	assert_true(for_another(MESSAGE_PENDING, 0, &none)); /* without what waits */
	expect_nothing();
}

static void test_a_channel_that_was_not_rerouted_ends(void **state)
{
	static const enum message_kind kinds[] = {MESSAGE_REQUEST, MESSAGE_EXPORT, MESSAGE_PENDING};

	for (unsigned with = 0; with < 2; with++) {
		for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
			int fd = with ? transfer_frames() : -1;

			assert_false(for_another(kinds[i], 0, &fd));
			assert_int_equal(fd >= 0, with);
			sys_close_fd(&fd);
		}
	}
	expect_nothing();
}

/* ---- the process as the machine sees it --------------------------------------------------- */

static void test_the_machine_has_the_time_and_the_channels(void **state)
{
	nsec_t before = clock_now(), now;
	const struct list *channels;
	bool was, exits;

	WORLD_LOCKED({
		now = share_sink()->now;
		channels = share_sink()->channels;
		was = share_sink()->exiting;
		share_process.exiting = true;
		exits = share_sink()->exiting;
		share_process.exiting = false;
	});
	assert_true(now >= before && now <= clock_now());
	assert_ptr_equal(channels, &share_process.channels);
	assert_false(was);
	assert_true(exits);
}

static const struct CMUnitTest tests[] = {
	CASE(test_an_early_request_is_kept_and_answered_later),
	CASE(test_a_connection_stays_until_its_port_could_give_it_away),
	CASE(test_requests_do_not_wait_for_an_early_one),
	CASE(test_a_request_that_is_not_due_is_sent_later_and_once),
	CASE(test_what_has_arrived_is_not_requested_any_more),
	CASE(test_who_waits_looks_when_a_connection_has_arrived),
	CASE(test_who_waits_looks_when_a_connection_has_come_back),
	CASE(test_who_waits_looks_when_a_connection_is_lost),
	CASE(test_who_waits_looks_when_a_connection_cannot_arrive),
	CASE(test_who_waits_looks_when_the_kernel_serves_a_connection),
	CASE(test_the_bytes_are_kept_until_they_are_acknowledged),
	CASE(test_bytes_of_nobody_are_refused),
	CASE(test_the_owner_gets_the_twin_of_what_cannot_be_imported),
	CASE(test_the_kernel_gets_an_open_connection_in_its_own_twin),
	CASE(test_the_kernel_gets_a_closed_connection_in_the_twin_that_came),
	CASE(test_what_the_kernel_serves_is_no_passed_connection_any_more),
	CASE(test_nor_if_the_program_has_closed_it),
	CASE(test_a_process_between_passes_on_the_twin_of_the_one_that_asks),
	CASE(test_a_closed_connection_is_not_put_in_another_socket),
	CASE(test_a_closed_connection_is_not_put_in_what_is_no_socket),
	CASE(test_a_closed_connection_stays_if_no_twin_came),
	CASE(test_a_closed_connection_whose_twin_is_unknown_stays),
	CASE(test_the_pause_grows_while_nobody_uses_the_connection),
	CASE(test_a_closed_connection_is_kept_until_others_have_closed_it),
	CASE(test_what_the_program_closed_is_not_requested_any_more),
	CASE(test_the_channel_of_one_socket_ends_with_it),
	CASE(test_a_listener_that_others_join_is_looked_at),
	CASE(test_a_listener_that_begins_again_knows_that_the_kernel_has_connections),
	CASE(test_a_member_that_withdraws_sends_what_is_unread),
	CASE(test_who_waits_looks_when_a_member_has_joined),
	CASE(test_what_waits_at_another_process_goes_back_and_is_received),
	CASE(test_what_was_forwarded_too_often_is_received),
	CASE(test_requests_for_another_process_are_answered),
	CASE(test_a_channel_that_was_not_rerouted_ends),
	CASE(test_the_machine_has_the_time_and_the_channels),
};

VMA_TEST_MAIN("sock/share/share_sink", tests, world_start, world_finish)
