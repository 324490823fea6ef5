/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/logic.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "base/signals.h"
#include "base/mutex.h"
#include "base/sys.h"
#include "ring/ring.h"

#define VALUE_BITS RING_KEY_LOGIC_SHIFT
#define VALUE_MASK ((UINT64_C(1) << VALUE_BITS) - 1)

static const struct {
	enum ring_logic logic;
	const char *name;
} logics[] = {
	{RING_LOGIC_INTERFACE, "interface"},
	{RING_LOGIC_IP, "ip"},
	{RING_LOGIC_SOCKET, "socket"},
	{RING_LOGIC_USER_ID, "user id"},
	{RING_LOGIC_THREAD, "thread"},
	{RING_LOGIC_CORE, "core"},
	{RING_LOGIC_CORE_ATTACH_THREADS, "core, attached"},
};

#define LOGICS (sizeof(logics) / sizeof(logics[0]))

static const char *name_of(int logic)
{
	for (size_t i = 0; i < LOGICS; i++) {
		if ((int)logics[i].logic == logic)
			return logics[i].name;
	}
	return NULL;
}

bool ring_logic_valid(int logic)
{
	return name_of(logic) != NULL;
}

const char *ring_logic_name(int logic)
{
	const char *name = name_of(logic);

	return name ? name : "unknown";
}

/* ---- the calling thread --------------------------------------------------------- */

enum place {
	PLACE_NONE,  /* not tried yet */
	PLACE_BOUND, /* bound to self.cpu, and counted there */
	PLACE_FREE,  /* not bound: that failed or is under way, or the thread exits */
};

static __thread struct {
	uint64_t number; /* see ring_key(); 0: none yet */
	enum place place;
	unsigned cpu;
} self __attribute__((tls_model("initial-exec")));

static uint64_t last_number; /* atomic: any adds to it */

static __attribute__((noinline, cold)) uint64_t number_self(void)
{
	self.number = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
	return self.number;
}

static uint64_t thread_number(void)
{
	return __builtin_expect(self.number != 0, 1) ? self.number : number_self();
}

static uint64_t current_cpu(void)
{
	int cpu = sched_getcpu();

	return cpu < 0 ? 0 : (uint64_t)cpu;
}

/* ---- threads bound to processors ------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned bound[CPU_SETSIZE];  /* lock: number of threads bound by us */
static cpu_set_t given[CPU_SETSIZE]; /* lock: mask that the program gave the last one bound */
static pthread_key_t self_key;	     /* its destructor counts the thread out */
static bool have_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* mutex_lock(): a signal handler that asks for a key must not find its own thread's lock. */
static void lock_counts(void)
{
	mutex_lock(&lock);
}

static void unlock_counts(void)
{
	mutex_unlock(&lock);
}

/* At the exit of a thread.  Destructors that run later may still ask for keys. */
static void count_out(void *arg)
{
	lock_counts();

	if (self.place == PLACE_BOUND)
		bound[self.cpu]--;
	self.place = PLACE_FREE;
	unlock_counts();
}

static void make_key(void)
{
	have_key = pthread_key_create(&self_key, count_out) == 0;
}

/* Of the processors in mask, which is not empty, the first one with the fewest threads. */
static unsigned least_used(const cpu_set_t *mask)
{
	unsigned best = CPU_SETSIZE;

	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, mask) && (best == CPU_SETSIZE || bound[cpu] < bound[best]))
			best = cpu;
	}
	return best;
}

/* lock: a thread that a bound thread started has our mask of one processor, not the program's. */
static void undo_inheritance(cpu_set_t *mask)
{
	unsigned cpu = least_used(mask);

	if (CPU_COUNT(mask) == 1 && bound[cpu])
		*mask = given[cpu];
}

/*
 * Raw system calls: the C library's functions set errno.  The lock is held until the thread is
 * bound, so that a signal handler that forks finds it bound and counted, or neither.
 */
static void bind_to_least_used(void)
{
	cpu_set_t mask = {0}, one = {0};
	unsigned cpu;

	if (sys_call(SYS_sched_getaffinity, 0, sizeof(mask), &mask, 0, 0, 0) < 0 ||
	    !CPU_COUNT(&mask))
		return;
	lock_counts();
	undo_inheritance(&mask);
	cpu = least_used(&mask);
	CPU_SET(cpu, &one);
	if (sys_call(SYS_sched_setaffinity, 0, sizeof(one), &one, 0, 0, 0) == 0) {
		bound[cpu]++;
		given[cpu] = mask;
		self.cpu = cpu;
		self.place = PLACE_BOUND;
	}
	unlock_counts();
}

/* Once per thread, but never for the internal one. */
static __attribute__((noinline, cold)) void attach_self(void)
{
	/* First: pthread_setspecific() may allocate, and a malloc hook may ask for a key. */
	self.place = PLACE_FREE;
	pthread_once(&once, make_key);
	/* Without a destructor the thread would be counted for ever. */
	if (have_key && pthread_setspecific(self_key, &self) == 0)
		bind_to_least_used();
}

static uint64_t attached_cpu(void)
{
	if (__builtin_expect(self.place == PLACE_NONE, 0) && !ring_thread.internal)
		attach_self();
	return self.place == PLACE_BOUND ? self.cpu : current_cpu();
}

void logic_fork_child(void)
{
	lock = (pthread_mutex_t)
		PTHREAD_MUTEX_INITIALIZER; /* the child does not have the thread that held it */
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
		bound[cpu] = 0;
	if (self.place == PLACE_BOUND)
		bound[self.cpu] = 1;
}

/* ---- keys ----------------------------------------------------------------------- */

/* IPv6 addresses with the same hash share a ring, which does no harm. */
static uint64_t address_value(const struct inaddr *a)
{
	uint64_t h;

	if (addr_is_v4(a))
		return addr_v4_of(a);
	h = (a->q[0] ^ a->q[1] * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93);
	return h >> (64 - VALUE_BITS) | UINT64_C(1) << (VALUE_BITS - 1);
}

static uint64_t value(const struct ring_alloc *alloc, const struct inaddr *local, uint64_t owner_id)
{
	switch ((enum ring_logic)alloc->logic) {
	case RING_LOGIC_INTERFACE:
		break;
	case RING_LOGIC_IP:
		return address_value(local);
	case RING_LOGIC_SOCKET:
		return owner_id & VALUE_MASK;
	case RING_LOGIC_USER_ID:
		return alloc->user_id;
	case RING_LOGIC_THREAD:
		return thread_number();
	case RING_LOGIC_CORE:
		return current_cpu();
	case RING_LOGIC_CORE_ATTACH_THREADS:
		return attached_cpu();
	}
	return 0;
}

uint64_t ring_key(const struct ring_alloc *alloc, const struct inaddr *local, uint64_t owner_id)
{
	return (uint64_t)alloc->profile << RING_KEY_PROFILE_SHIFT |
	       (uint64_t)alloc->logic << RING_KEY_LOGIC_SHIFT | value(alloc, local, owner_id);
}
