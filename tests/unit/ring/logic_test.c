/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/logic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/param.h"
#include "ring/ring.h"
#include "vma_test.h"

#define VALUE(key) ((key) & ((UINT64_C(1) << RING_KEY_LOGIC_SHIFT) - 1))

static const int logics[] = {0, 1, 10, 11, 20, 30, 31};

#define LOGICS (sizeof(logics) / sizeof(logics[0]))

static cpu_set_t allowed; /* affinity of this process when it began */

static uint64_t key_of(int logic)
{
	struct ring_alloc alloc = {.logic = logic, .user_id = 3};
	struct inaddr local = addr_v4(htonl(0x0a000001));

	return ring_key(&alloc, &local, 3);
}

static uint64_t attached(void)
{
	uint64_t key = key_of(RING_LOGIC_CORE_ATTACH_THREADS);

	assert_int_equal(ring_key_logic(key), RING_LOGIC_CORE_ATTACH_THREADS);
	return VALUE(key);
}

static void get_mask(cpu_set_t *mask)
{
	assert_int_equal(sched_getaffinity(0, sizeof(*mask), mask), 0);
}

static void set_mask(const cpu_set_t *mask)
{
	assert_int_equal(sched_setaffinity(0, sizeof(*mask), mask), 0);
}

/* ---- threads that call a function and stay until they are told to exit --------- */

struct worker {
	pthread_t thread;
	pthread_barrier_t done, leave;
	uint64_t (*get)(void);
	uint64_t result;
	cpu_set_t mask; /* affinity after the call */
	bool inherits;	/* keeps the affinity of the thread that starts it */
};

static void *work(void *arg)
{
	struct worker *worker = arg;

	if (!worker->inherits)
		set_mask(&allowed); /* the thread that started us may be bound */
	worker->result = worker->get();
	get_mask(&worker->mask);
	pthread_barrier_wait(&worker->done);
	pthread_barrier_wait(&worker->leave);
	return NULL;
}

/* Starts a thread; returns when it has the result. */
static void start(struct worker *worker, uint64_t (*get)(void), bool inherits)
{
	worker->get = get;
	worker->inherits = inherits;
	pthread_barrier_init(&worker->done, NULL, 2);
	pthread_barrier_init(&worker->leave, NULL, 2);
	assert_int_equal(pthread_create(&worker->thread, NULL, work, worker), 0);
	pthread_barrier_wait(&worker->done);
}

static void worker_start(struct worker *worker, uint64_t (*get)(void))
{
	start(worker, get, false);
}

static void worker_stop(struct worker *worker)
{
	pthread_barrier_wait(&worker->leave);
	assert_int_equal(pthread_join(worker->thread, NULL), 0);
	pthread_barrier_destroy(&worker->done);
	pthread_barrier_destroy(&worker->leave);
}

/* ---- logics ---------------------------------------------------------------------- */

static void test_a_logic_is_one_of_a_list(void **state)
{
	size_t n = 0;

	for (int logic = -1; logic < 300; logic++) {
		bool listed = n < LOGICS && logics[n] == logic;

		n += listed;
		assert_int_equal(ring_logic_valid(logic), listed);
		assert_int_equal(!strcmp(ring_logic_name(logic), "unknown"), !listed);
		if (listed)
			assert_int_equal(ring_logic_moves(logic), logic >= 20);
	}
	assert_int_equal(n, LOGICS);
	assert_false(ring_logic_valid(256 + RING_LOGIC_IP));
	assert_string_equal(ring_logic_name(RING_LOGIC_THREAD), "thread");
}

static const char *wanted; /* value of the variable */

static const char *lookup(const char *name)
{
	return strcmp(name, "VMA_RING_ALLOCATION_LOGIC_RX") ? NULL : wanted;
}

static void test_the_environment_names_valid_logics(void **state)
{
	for (int logic = 1; logic < 100; logic++) {
		char text[16];

		snprintf(text, sizeof(text), "%d", logic);
		wanted = text;
		param_init(lookup);
		/* All but the user id, which the parameter does not accept. */
		assert_int_equal(params.ring_logic_rx,
				 ring_logic_valid(logic) && logic != RING_LOGIC_USER_ID ? logic
											: 0);
	}
	wanted = NULL;
	param_init(lookup);
}

static void test_keys_of_different_logics_differ(void **state)
{
	uint64_t keys[LOGICS];

	for (size_t i = 0; i < LOGICS - 1; i++) { /* the last logic binds threads: tested below */
		keys[i] = key_of(logics[i]);
		assert_int_equal(ring_key_logic(keys[i]), logics[i]);
		for (size_t j = 0; j < i; j++)
			assert_true(keys[i] != keys[j]);
	}
	assert_int_equal(keys[0], 0);
}

static void test_what_the_key_depends_on(void **state)
{
	static const struct {
		int logic;
		bool address, sock, user;
	} rows[] = {
		{RING_LOGIC_INTERFACE, false, false, false},
		{RING_LOGIC_IP, true, false, false},
		{RING_LOGIC_SOCKET, false, true, false},
		{RING_LOGIC_USER_ID, false, false, true},
		{RING_LOGIC_THREAD, false, false, false},
	};
	struct inaddr a = addr_v4(htonl(0x0a000001)), b = addr_v4(htonl(0x0a000002));

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ring_alloc one = {.logic = rows[i].logic, .user_id = 1}, two = one;
		uint64_t key = ring_key(&one, &a, 1);

		two.user_id = 2;
		assert_true(ring_key(&one, &a, 1) == key);
		assert_int_equal(ring_key(&one, &b, 1) != key, rows[i].address);
		assert_int_equal(ring_key(&one, &a, 2) != key, rows[i].sock);
		assert_int_equal(ring_key(&two, &a, 1) != key, rows[i].user);
	}
}

static void test_values_stay_below_the_logic(void **state)
{
	struct ring_alloc sock = {.logic = RING_LOGIC_SOCKET},
			  user = {.logic = RING_LOGIC_USER_ID, .user_id = UINT32_MAX};
	struct inaddr local = addr_v4_any();

	assert_int_equal(ring_key_logic(ring_key(&sock, &local, UINT64_MAX)), RING_LOGIC_SOCKET);
	assert_true(VALUE(ring_key(&sock, &local, 1234567)) == 1234567);
	assert_int_equal(ring_key_logic(ring_key(&user, &local, 0)), RING_LOGIC_USER_ID);
	for (uint8_t profile = 1; profile <= RING_PROFILES_MAX; profile++) {
		struct ring_alloc other = user;
		uint64_t key;

		other.profile = profile;
		key = ring_key(&other, &local, 0);
		assert_int_equal(ring_key_logic(key), RING_LOGIC_USER_ID);
		assert_int_equal(key >> RING_KEY_PROFILE_SHIFT, profile);
		assert_int_not_equal(key, ring_key(&user, &local, 0));
		other.direct = true; /* of another kind of ring */
		assert_int_equal(ring_key(&other, &local, 0), key);
	}
	assert_true(VALUE(ring_key(&user, &local, 0)) == UINT32_MAX);
}

static void test_addresses_of_both_families(void **state)
{
	static const char *const v6[] = {
		"::",	   "::1",     "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1",
		"fe80::1", "::a00:1", "1::",	     "::1:0:0:0:0"};
	struct ring_alloc alloc = {.logic = RING_LOGIC_IP};
	struct inaddr any = addr_v4_any(), local = addr_v4(htonl(0x0a000001));
	uint64_t keys[2 + sizeof(v6) / sizeof(v6[0])];
	size_t n = 0;

	keys[n++] = ring_key(&alloc, &any, 0);
	keys[n++] = ring_key(&alloc, &local, 0);
	assert_true(VALUE(keys[0]) == 0);
	assert_true(VALUE(keys[1]) == htonl(0x0a000001));
	for (size_t i = 0; i < sizeof(v6) / sizeof(v6[0]); i++) {
		assert_int_equal(inet_pton(AF_INET6, v6[i], &local), 1);
		keys[n++] = ring_key(&alloc, &local, 0);
	}
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(ring_key_logic(keys[i]), RING_LOGIC_IP);
		for (size_t j = 0; j < i; j++)
			assert_true(keys[i] != keys[j]);
	}
}

/* ---- threads --------------------------------------------------------------------- */

static uint64_t number(void)
{
	uint64_t key = key_of(RING_LOGIC_THREAD);

	assert_true(key_of(RING_LOGIC_THREAD) == key);
	return VALUE(key);
}

static void test_a_thread_has_a_number_that_is_never_used_again(void **state)
{
	enum { AT_ONCE = 4, ROUNDS = 16 };
	struct worker workers[AT_ONCE];
	uint64_t seen[1 + AT_ONCE * ROUNDS];
	size_t n = 0;

	seen[n++] = number();
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < AT_ONCE; i++) {
			worker_start(&workers[i], number);
			seen[n++] = workers[i].result;
		}
		for (int i = 0; i < AT_ONCE; i++)
			worker_stop(&workers[i]);
	}
	for (size_t i = 0; i < n; i++) {
		assert_true(seen[i] > 0);
		for (size_t j = 0; j < i; j++)
			assert_true(seen[i] != seen[j]);
	}
	assert_true(number() == seen[0]);
}

static uint64_t core(void)
{
	return VALUE(key_of(RING_LOGIC_CORE));
}

static void test_per_core_is_where_the_thread_runs(void **state)
{
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		cpu_set_t one;

		if (!CPU_ISSET(cpu, &allowed))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		set_mask(&one);
		assert_int_equal(core(), cpu);
	}
	set_mask(&allowed);
}

/* ---- threads bound to processors -------------------------------------------------- */

static bool is_bound_to(const struct worker *worker, uint64_t cpu)
{
	return CPU_COUNT(&worker->mask) == 1 && CPU_ISSET(cpu, &worker->mask);
}

static bool is_as_it_was(const struct worker *worker)
{
	return CPU_EQUAL(&worker->mask, &allowed);
}

static uint64_t attached_twice(void)
{
	uint64_t cpu = attached();

	set_mask(&allowed); /* the program may set its affinity; the place stays taken */
	assert_int_equal(attached(), cpu);
	assert_int_equal(key_of(RING_LOGIC_INTERFACE), 0);
	return cpu;
}

static void test_threads_are_spread_and_make_room_when_they_exit(void **state)
{
	unsigned n = (unsigned)CPU_COUNT(&allowed), counts[CPU_SETSIZE] = {0};
	struct worker *workers = calloc(3 * n, sizeof(*workers)), extra;

	assert_non_null(workers);
	for (unsigned i = 0; i < 3 * n; i++) {
		worker_start(&workers[i], attached);
		assert_true(CPU_ISSET(workers[i].result, &allowed));
		assert_true(is_bound_to(&workers[i], workers[i].result));
		/* At any time, threads are spread as evenly as possible. */
		assert_int_equal(counts[workers[i].result]++, i / n);
	}
	/* A thread that replaces an exited thread gets its place, whichever it is. */
	for (unsigned i = 0; i < n; i++) {
		worker_stop(&workers[i]);
		worker_start(&extra, attached);
		assert_int_equal(extra.result, workers[i].result);
		worker_stop(&extra);
		worker_start(&workers[i], attached_twice);
		assert_int_equal(extra.result, workers[i].result);
		assert_true(is_as_it_was(&workers[i]));
	}
	for (unsigned i = 0; i < 3 * n; i++)
		worker_stop(&workers[i]);
	free(workers);
}

static void test_only_processors_of_the_mask_are_used(void **state)
{
	unsigned last = 0;
	struct worker workers[3];
	cpu_set_t all = allowed;

	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &all))
			last = cpu;
	}
	CPU_ZERO(&allowed);
	CPU_SET(last, &allowed);
	for (int i = 0; i < 3; i++) {
		worker_start(&workers[i], attached);
		assert_int_equal(workers[i].result, last);
	}
	for (int i = 0; i < 3; i++)
		worker_stop(&workers[i]);
	allowed = all;
}

#define CHILDREN 7

static unsigned children, children_on[CPU_SETSIZE];

/* Each thread is started by the previous one, with the affinity of that bound thread. */
static uint64_t attached_with_children(void)
{
	uint64_t cpu = attached();
	struct worker child;

	/* At any time, threads are spread as evenly as possible. */
	assert_int_equal(children_on[cpu]++, children++ / (unsigned)CPU_COUNT(&allowed));
	if (children == CHILDREN)
		return cpu;
	start(&child, attached_with_children, true);
	assert_true(is_bound_to(&child, child.result));
	worker_stop(&child);
	return cpu;
}

static void test_a_thread_does_not_inherit_its_place(void **state)
{
	struct worker worker;

	worker_start(&worker, attached_with_children);
	worker_stop(&worker);
	assert_int_equal(children, CHILDREN);
}

/* The thread is neither bound nor counted: the next thread gets the first place. */
static void check_not_bound(uint64_t (*get)(void))
{
	struct worker loose, next[2];
	unsigned first = 0;

	while (!CPU_ISSET(first, &allowed))
		first++;
	worker_start(&loose, get);
	assert_true(CPU_ISSET(loose.result, &allowed)); /* the processor that it ran on */
	assert_true(is_as_it_was(&loose));
	worker_start(&next[0], attached);
	assert_int_equal(next[0].result, first);
	worker_stop(&loose);
	/* The thread gives back no place, because it took none. */
	worker_start(&next[1], attached);
	assert_int_equal(next[1].result == first, CPU_COUNT(&allowed) == 1);
	worker_stop(&next[0]);
	worker_stop(&next[1]);
}

static uint64_t attached_internal(void)
{
	ring_thread.internal = true;
	return attached();
}

static void test_the_internal_thread_is_not_bound(void **state)
{
	check_not_bound(attached_internal);
}

/* From here on the affinity of this thread cannot be set. */
static void refuse_affinity(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setaffinity, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
}

static uint64_t attached_in_vain(void)
{
	uint64_t cpu;

	refuse_affinity();
	errno = 77;
	cpu = attached();
	assert_int_equal(errno, 77);
	return cpu;
}

static void test_a_thread_that_cannot_be_bound_goes_on(void **state)
{
	check_not_bound(attached_in_vain);
}

static int handled; /* calls */

static void handle(int sig)
{
	attached();
	handled++;
}

static uint64_t attached_under_signals(void)
{
	uint64_t cpu;

	pthread_kill(pthread_self(), SIGUSR1);
	cpu = attached();
	pthread_kill(pthread_self(), SIGUSR1);
	assert_int_equal(attached(), cpu);
	return cpu;
}

static void test_a_signal_handler_may_be_first(void **state)
{
	struct sigaction action = {.sa_handler = handle}, old;
	struct worker worker;

	assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
	worker_start(&worker, attached_under_signals);
	assert_true(is_bound_to(&worker, worker.result));
	worker_stop(&worker);
	assert_int_equal(handled, 2);
	sigaction(SIGUSR1, &old, NULL);
}

#define IN_CHILD(condition)                     \
	do {                                    \
		if (!(condition))               \
			_exit(__LINE__ & 0xff); \
	} while (0)

#if !defined(__SANITIZE_THREAD__) /* it ends children of several threads that start a thread */
static void *child_thread(void *arg)
{
	uint64_t *cpu = arg;

	set_mask(&allowed);
	*cpu = attached();
	return NULL;
}

static void run_child(uint64_t own, uint64_t own_number)
{
	bool alone = CPU_COUNT(&allowed) == 1;
	uint64_t cpu = UINT64_MAX;
	pthread_t thread;

	logic_fork_child();
	IN_CHILD(attached() == own);
	IN_CHILD(number() == own_number);
	/* Twice: the first thread gave its place back. */
	for (int i = 0; i < 2; i++) {
		IN_CHILD(!pthread_create(&thread, NULL, child_thread, &cpu));
		IN_CHILD(!pthread_join(thread, NULL));
		/*
		 * The other threads of the parent do not exist here: the place beside ours is
		 * free.
		 */
		IN_CHILD((cpu == own) == alone);
	}
	_exit(0);
}

static uint64_t fork_attached(void)
{
	uint64_t own = attached(), own_number = number();
	struct worker others[3];
	int status;
	pid_t pid;

	/* Most threads run on other processors. */
	for (int i = 0; i < 3; i++)
		worker_start(&others[i], attached);
	set_mask(&allowed);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		run_child(own, own_number);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (int i = 0; i < 3; i++)
		worker_stop(&others[i]);
	return own;
}

static void test_a_forked_child_counts_anew(void **state)
{
	struct worker worker;

	worker_start(&worker, fork_attached);
	worker_stop(&worker);
}
#endif

static int setup(void **state)
{
	get_mask(&allowed);
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_logic_is_one_of_a_list),
	cmocka_unit_test(test_the_environment_names_valid_logics),
	cmocka_unit_test(test_keys_of_different_logics_differ),
	cmocka_unit_test(test_what_the_key_depends_on),
	cmocka_unit_test(test_values_stay_below_the_logic),
	cmocka_unit_test(test_addresses_of_both_families),
	cmocka_unit_test(test_a_thread_has_a_number_that_is_never_used_again),
	cmocka_unit_test(test_per_core_is_where_the_thread_runs),
	cmocka_unit_test(test_threads_are_spread_and_make_room_when_they_exit),
	cmocka_unit_test(test_only_processors_of_the_mask_are_used),
	cmocka_unit_test(test_a_thread_does_not_inherit_its_place),
	cmocka_unit_test(test_the_internal_thread_is_not_bound),
	cmocka_unit_test(test_a_thread_that_cannot_be_bound_goes_on),
	cmocka_unit_test(test_a_signal_handler_may_be_first),
#if !defined(__SANITIZE_THREAD__)
	cmocka_unit_test(test_a_forked_child_counts_anew),
#endif
};

VMA_TEST_MAIN("logic", tests, setup, NULL)
