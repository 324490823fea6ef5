/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sender of local datagrams and the receivers that it asks.  Both are of this process, and what the
 * receiver answers is in the test's hands; this thread is the internal one, too.
 */
#include "sock/local/local_udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/param.h"
#include "base/sys.h"
#include "sock/core/sock_options.h"
#include "sock/udp/udp_sock.h"
#include "tests/guard.h"
#include "links_fixture.h"

#define OTHER htonl(INADDR_LOOPBACK + 1)

static struct inet_sock *sender, *receiver;
static bool silent; /* the receiver gets no question */
static struct local_message asked;
static unsigned n_asked;

static bool take_ask(struct local_link *link, const struct local_message *m, int *fds, unsigned n)
{
	asked = *m;
	n_asked++;
	return silent || local_take_ask(link, m, fds, n);
}

static int setup(void **state)
{
	static local_handler *const handlers[LOCAL_KINDS] = {
		[LOCAL_ASK] = take_ask, [LOCAL_RECORDS] = local_take_records};

	start_links(handlers);
	return 0;
}

static int teardown(void **state)
{
	end_links();
	return 0;
}

static struct inet_sock *open_socket(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = HERE};
	struct inet_sock *so = local_receiver_open(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0),
						   (struct sockaddr *)&at, sizeof(at));

	assert_non_null(so);
	return so;
}

static int begin(void **state)
{
	silent = false;
	n_asked = 0;
	sender = open_socket();
	receiver = open_socket();
	return 0;
}

static int finish(void **state)
{
	local_receiver_close(receiver);
	local_receiver_close(sender);
	settle();
	return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, finish)

static struct endpoint there(void)
{
	return (struct endpoint){.addr = addr_v4(HERE), .port = receiver->local.port};
}

static int get_of(uint64_t process, uint32_t socket, uint32_t from, struct local_target_ref *ref)
{
	struct local_entry entry = {.process = process, .socket = socket};
	struct endpoint to = there();
	struct inaddr source = addr_v4(from);
	int rc;

	*ref = (struct local_target_ref){.target = NULL};
	assert_true(control_lock());
	local_lock();
	rc = local_target_get(sender, &entry, &source, &to, ref);
	local_unlock();
	control_unlock();
	return rc;
}

static int get(struct local_target_ref *ref)
{
	return get_of(local_name(), receiver->udp.local->entry.socket, HERE, ref);
}

static void end_target(struct local_target *target)
{
	assert_true(ring_hold_cold(local_ring()));
	local_target_end(target);
	ring_release_cold(local_ring());
}

static struct local_target *of(const struct local_target_ref *ref)
{
	struct local_target *target;

	assert_true(ring_hold_cold(local_ring()));
	target = local_target_of(ref);
	ring_release_cold(local_ring());
	return target;
}

/* The target, which is open. */
static struct local_target_ref open_target(void)
{
	struct local_target_ref ref;

	assert_int_equal(get(&ref), -EINPROGRESS);
	settle();
	assert_int_equal(get(&ref), 0);
	return ref;
}

/* ---- asking ------------------------------------------------------------------------------- */

static void test_a_receiver_is_asked_once(void **state)
{
	struct local_target_ref first, ref;

	assert_int_equal(get(&first), -EINPROGRESS);
	assert_int_equal(first.target->state, TARGET_ASKED);
	assert_int_equal(get(&ref), -EINPROGRESS);
	assert_ptr_equal(ref.target, first.target);
	assert_int_equal(ref.gen, first.gen);
	settle();
	assert_int_equal(n_asked, 1);
	assert_int_equal(asked.socket, receiver->udp.local->entry.socket);
	assert_int_equal(addr_v4_of(&asked.from), HERE);
	assert_int_equal(addr_v4_of(&asked.to), HERE);
	assert_int_equal(asked.from_port, sender->local.port);
	assert_int_equal(asked.to_port, receiver->local.port);
	assert_int_equal(get(&ref), 0);
	assert_ptr_equal(ref.target, first.target);
	assert_int_equal(ref.target->state, TARGET_OPEN);
	assert_ptr_equal(of(&ref), first.target);
	assert_int_equal(n_asked, 1);
	end_target(first.target);
}

static void test_a_target_is_for_the_addresses_that_were_asked_for(void **state)
{
	struct local_target_ref first = open_target(), ref;
	uint16_t port = sender->local.port;

	silent = true;
	assert_int_equal(get_of(local_name(), receiver->udp.local->entry.socket, OTHER, &ref),
			 -EINPROGRESS);
	assert_ptr_not_equal(ref.target, first.target);
	end_target(ref.target);
	assert_int_equal(get_of(local_name(), ~0u, HERE, &ref), -EINPROGRESS);
	assert_ptr_not_equal(ref.target, first.target);
	end_target(ref.target);
	/* The receiver hears all ports, but the low ones, which stand for a privilege. */
	sender->local.port = htons(5000);
	assert_int_equal(get(&ref), 0);
	assert_ptr_equal(ref.target, first.target);
	sender->local.port = htons(53);
	assert_int_equal(get(&ref), -EINPROGRESS);
	assert_ptr_not_equal(ref.target, first.target);
	end_target(ref.target);
	sender->local.port = port;
	end_target(first.target);
}

/* A receiver that is connected to the sender hears nobody else. */
static void test_a_target_of_one_port_is_for_no_other(void **state)
{
	struct local_target_ref first, ref;
	uint16_t port = sender->local.port;

	receiver->udp.connected = true;
	receiver->remote = sender->local;
	first = open_target();
	assert_int_equal(first.target->port, port);
	silent = true;
	sender->local.port = htons(5000);
	assert_int_equal(get(&ref), -EINPROGRESS);
	assert_ptr_not_equal(ref.target, first.target);
	end_target(ref.target);
	sender->local.port = port;
	assert_int_equal(get(&ref), 0);
	end_target(first.target);
}

static void test_a_process_that_has_ended_is_told(void **state)
{
	struct local_target_ref ref;

	assert_int_equal(get_of(local_name() ^ 1, 1, HERE, &ref), -ECONNREFUSED);
}

static void test_what_ended_is_asked_again_as_another(void **state)
{
	struct local_target_ref first = open_target(), ref;
	struct local_target *target = first.target;

	end_target(target);
	assert_int_equal(target->state, TARGET_UNUSED);
	assert_null(of(&first));
	assert_null(target->segment.base);
	assert_int_equal(get(&ref), -EINPROGRESS);
	assert_ptr_equal(ref.target, target);	  /* the object is used again, */
	assert_int_not_equal(ref.gen, first.gen); /* and the old reference is not good for it */
	settle();
	assert_null(of(&first));
	assert_ptr_equal(of(&ref), target);
	end_target(target);
}

static void test_a_receiver_that_closes_its_ring_is_not_reached(void **state)
{
	struct local_target_ref ref = open_target();

	assert_true(control_lock());
	local_receive_stop(receiver);
	control_unlock();
	settle();
	assert_int_equal(ref.target->state, TARGET_UNUSED);
	assert_null(of(&ref));
}

/* ---- answers ------------------------------------------------------------------------------ */

static struct local_target_ref ask_in_silence(void)
{
	struct local_target_ref ref;

	silent = true;
	assert_int_equal(get(&ref), -EINPROGRESS);
	settle();
	return ref;
}

static struct local_link *link_to_us(void)
{
	return container_of(local.links.next, struct local_link, link);
}

/* The end that began the link. */
static struct local_link *our_link(void)
{
	list_for_each(at, &local.links) {
		struct local_link *link = container_of(at, struct local_link, link);

		if (link->initiator)
			return link;
	}
	return link_to_us();
}

static int new_memfd(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	return fd;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void answer(struct local_message m, int *fds, unsigned n)
{
	int copies[2] = {n > 0 ? fds[0] : -1, n > 1 ? fds[1] : -1};

	local_lock();
	assert_true(local_take_records(our_link(), &m, fds, n));
	local_unlock();
	for (unsigned i = 0; i < n; i++)
		assert_false(is_open(copies[i])); /* whatever came is consumed */
}

static void test_an_answer_that_cannot_be_is_a_refusal(void **state)
{
	static const uint32_t sizes[] = {0, RECORD_CELLS_MIN - 1, RECORD_CELLS_MAX + 1, ~0u,
					 RECORD_CELLS_MIN};

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct local_target_ref ref = ask_in_silence();
		struct local_message m = {
			.kind = LOCAL_RECORDS, .number = ref.target->end.number, .size = sizes[i]};
		int fd = new_memfd(); /* not sealed, and without a header */

		answer(m, &fd, 1);
		assert_int_equal(ref.target->state, TARGET_REFUSED);
		assert_null(of(&ref));
		assert_null(ref.target->segment.base);
	}
}

static void test_an_answer_without_a_ring_is_a_refusal(void **state)
{
	struct local_target_ref ref = ask_in_silence();
	struct local_message m = {
		.kind = LOCAL_RECORDS, .number = ref.target->end.number, .size = RECORD_CELLS_MIN};

	answer(m, NULL, 0);
	assert_int_equal(ref.target->state, TARGET_REFUSED);
	assert_int_equal(ref.target->end.number, m.number);
	/* Nobody waits for another one. */
	answer(m, (int[]){new_memfd(), new_memfd()}, 2);
	assert_int_equal(ref.target->state, TARGET_REFUSED);
	m.number = NOTICE_CONNS + 1;
	answer(m, (int[]){new_memfd()}, 1);
}

static void test_an_answer_does_not_change_what_is_open(void **state)
{
	struct local_target_ref ref = open_target();
	struct local_message m = {
		.kind = LOCAL_RECORDS, .number = ref.target->end.number, .size = RECORD_CELLS_MIN};

	answer(m, (int[]){new_memfd()}, 1);
	answer(m, NULL, 0);
	assert_ptr_equal(of(&ref), ref.target);
	end_target(ref.target);
}

/* ---- waiting for an answer ------------------------------------------------------------------ */

static bool is_kernels(uint32_t looked)
{
	struct endpoint to = there();
	bool is;

	assert_true(control_lock());
	is = local_is_kernels(sender->udp.local, &to, looked);
	control_unlock();
	return is;
}

static void await(struct local_target_ref ref)
{
	struct endpoint to = there();

	ref.looked = local_dir_generation();
	local_await(sock_ref_of(sender), &to, &ref);
}

static void test_who_waits_goes_on_when_the_ring_is_open(void **state)
{
	struct local_target_ref ref = open_target();
	nsec_t from = clock_now();

	await(ref);
	assert_true(clock_now() - from < NSEC_PER_SEC);
	assert_false(is_kernels(local_dir_generation()));
	assert_ptr_equal(of(&ref), ref.target);
	end_target(ref.target);
}

static void *refuse(void *arg)
{
	struct local_message m = {.kind = LOCAL_RECORDS, .number = *(uint32_t *)arg};

	local_lock();
	local_take_records(our_link(), &m, NULL, 0);
	local_unlock();
	return NULL;
}

/* The answer wakes the thread, long before it would give up. */
static void test_a_refusal_leaves_it_to_the_kernel(void **state)
{
	struct local_target_ref ref = ask_in_silence();
	uint32_t number = ref.target->end.number;
	nsec_t from = clock_now();
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, refuse, &number), 0);
	await(ref);
	pthread_join(thread, NULL);
	assert_true(clock_now() - from < NSEC_PER_SEC);
	assert_true(is_kernels(local_dir_generation()));
	assert_int_equal(ref.target->state, TARGET_UNUSED);
}

static void test_no_answer_for_a_second_leaves_it_to_the_kernel(void **state)
{
	struct local_target_ref ref = ask_in_silence();
	struct local_message m = {.kind = LOCAL_RECORDS, .number = ref.target->end.number};
	nsec_t from = clock_now();

	await(ref);
	assert_true(clock_now() - from >= NSEC_PER_SEC);
	assert_true(is_kernels(local_dir_generation()));
	assert_int_equal(ref.target->state, TARGET_UNUSED);
	answer(m, (int[]){new_memfd()}, 1); /* too late */
	assert_int_equal(ref.target->state, TARGET_UNUSED);
}

/* It ended, and the object was given to somebody else: that one's question goes on. */
static void test_who_waits_for_what_has_ended_ends_nothing_else(void **state)
{
	struct local_target_ref old = ask_in_silence(), ref;
	nsec_t from = clock_now();

	end_target(old.target);
	assert_int_equal(get(&ref), -EINPROGRESS);
	assert_ptr_equal(ref.target, old.target);
	await(old);
	assert_true(clock_now() - from < NSEC_PER_SEC);
	assert_int_equal(ref.target->state, TARGET_ASKED);
	assert_true(is_kernels(local_dir_generation()));
	end_target(ref.target);
}

/* ---- sending ------------------------------------------------------------------------------ */

static ssize_t send_by(struct local_target_ref ref, const char *text, size_t len)
{
	struct iovec iov = {(void *)(uintptr_t)text, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct dst dst = {.verdict = VERDICT_LOCAL, .local = ref};
	struct record_header *h = dst_local_header(&dst);
	ssize_t n;

	*h = (struct record_header){.from = HERE,
				    .to = HERE,
				    .from_port = sender->local.port,
				    .to_port = receiver->local.port,
				    .ttl = 64};
	assert_true(ring_hold_cold(sock_home(sender)));
	n = local_udp_send(sender, &dst, &msg, len, false);
	ring_release_cold(sock_home(sender));
	return n;
}

static void test_a_datagram_is_in_the_receivers_ring(void **state)
{
	struct local_target_ref ref = open_target();

	assert_int_equal(send_by(ref, "hello", 5), 5);
	assert_int_equal(send_by(ref, "", 0), 0);
	settle();
	assert_int_equal(receiver->udp.count, 2);
	assert_memory_equal(pkt_payload(receiver->udp.head), "hello", 5);
	end_target(ref.target);
}

static void test_what_cannot_be_sent_says_so(void **state)
{
	static char large[RECORD_MAX + 1];
	struct local_target_ref ref = open_target(), old = ref;

	test_guard();
	assert_int_equal(send_by(ref, large, sizeof(large)), SOCK_KERNEL);
	assert_int_equal(send_by(ref, (const char *)(uintptr_t)8, 5), -EFAULT);
	old.gen--;
	assert_int_equal(send_by(old, "x", 1), -ESTALE);
	assert_int_equal(send_by(ref, "x", 1), 1);
	end_target(ref.target);
	assert_int_equal(send_by(ref, "x", 1), -ESTALE);
	settle();
	assert_int_equal(receiver->udp.count, 1);
}

/* As at a full socket of the kernel: it is sent, and lost. */
static void test_a_full_ring_drops(void **state)
{
	static char bytes[1000];
	struct local_target_ref ref = open_target();

	for (unsigned i = 0; i < 100000; i++)
		assert_int_equal(send_by(ref, bytes, sizeof(bytes)), sizeof(bytes));
	assert_ptr_equal(of(&ref), ref.target);
	end_target(ref.target);
}

static void test_a_spoilt_ring_is_not_used_any_more(void **state)
{
	struct local_target_ref ref = open_target();

	assert_true(control_lock());
	local_receive_stop(receiver); /* its ring is closed, and the notice has not come */
	control_unlock();
	assert_int_equal(send_by(ref, "x", 1), -ESTALE);
	assert_int_equal(ref.target->state, TARGET_UNUSED);
}

/* ---- who may ------------------------------------------------------------------------------ */

static bool may(const char *addr)
{
	struct endpoint to = {.addr = addr_v4(inet_addr(addr)), .port = htons(1)};
	bool ok;

	assert_true(control_lock());
	ok = local_may_connect(sender, &to);
	control_unlock();
	return ok;
}

static void test_what_the_kernel_alone_can_send_is_left_to_it(void **state)
{
	struct local_udp *l = sender->udp.local;

	assert_true(may("127.0.0.1"));
	assert_false(may("0.0.0.0"));
	assert_false(may("239.1.1.1"));
	assert_false(may("255.255.255.255"));
	l->stopped = true;
	assert_false(may("127.0.0.1"));
	l->stopped = false;
	l->kernel_only = true;
	assert_false(may("127.0.0.1"));
	l->kernel_only = false;
	assert_true(may("127.0.0.1"));
}

static bool is_there(struct endpoint to)
{
	bool is;

	assert_true(control_lock());
	is = local_is_there(&to);
	control_unlock();
	return is;
}

static void test_a_receiver_is_there_while_it_receives(void **state)
{
	struct endpoint to = there();

	assert_true(is_there(to));
	to.port ^= htons(1);
	assert_false(is_there(to));
	to = there();
	assert_true(control_lock());
	local_receive_stop(receiver);
	control_unlock();
	assert_false(is_there(to));
}

static void test_a_socket_that_stops_sends_by_the_kernel(void **state)
{
	assert_true(control_lock());
	assert_true(ring_hold_cold(local_ring()));
	local_send_stop(sender);
	ring_release_cold(local_ring());
	control_unlock();
	assert_true(sender->udp.local->kernel_only);
	assert_false(may("127.0.0.1"));
}

static const struct CMUnitTest tests[] = {
	CASE(test_a_receiver_is_asked_once),
	CASE(test_a_target_is_for_the_addresses_that_were_asked_for),
	CASE(test_a_target_of_one_port_is_for_no_other),
	CASE(test_a_process_that_has_ended_is_told),
	CASE(test_what_ended_is_asked_again_as_another),
	CASE(test_a_receiver_that_closes_its_ring_is_not_reached),
	CASE(test_an_answer_that_cannot_be_is_a_refusal),
	CASE(test_an_answer_without_a_ring_is_a_refusal),
	CASE(test_an_answer_does_not_change_what_is_open),
	CASE(test_who_waits_goes_on_when_the_ring_is_open),
	CASE(test_a_refusal_leaves_it_to_the_kernel),
	CASE(test_no_answer_for_a_second_leaves_it_to_the_kernel),
	CASE(test_who_waits_for_what_has_ended_ends_nothing_else),
	CASE(test_a_datagram_is_in_the_receivers_ring),
	CASE(test_what_cannot_be_sent_says_so),
	CASE(test_a_full_ring_drops),
	CASE(test_a_spoilt_ring_is_not_used_any_more),
	CASE(test_what_the_kernel_alone_can_send_is_left_to_it),
	CASE(test_a_receiver_is_there_while_it_receives),
	CASE(test_a_socket_that_stops_sends_by_the_kernel),
};

VMA_TEST_MAIN("sock/local/local_target", tests, setup, teardown)
