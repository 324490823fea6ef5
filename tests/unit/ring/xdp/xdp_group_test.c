/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of a port group, without a kernel: the fill ring, the completion ring and the RX rings
 * are in memory of the test, and members are processes. The test ends a member at each of its
 * steps (GROUP_STEP()); the surviving members must find every frame.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "ring/xdp/xdp_group.h"
#include "vma_test.h"

#define FRAMES 1024u
#define SHIFT 11
#define ENTRIES 256u
#define QUEUES 2
#define TARGET 128u

/* The frames of a member that the kernel has: those in its RX ring. */
struct rx_ring {
	uint32_t frames[ENTRIES];
	uint32_t n;
};

struct shared_ring {
	uint32_t producer, consumer, flags;
	uint64_t addrs[ENTRIES];
};

/* Shared by all processes, except for private mappings. */
struct wire {
	struct shared_ring fill[QUEUES], comp[QUEUES];
};

struct world {
	struct xdp_group g;
	struct wire *wire;
	nsec_t now;
};

struct actor {
	struct xdp_group *g;
	struct group_stack stack;
	struct rx_ring rx[QUEUES];
	unsigned slot;
};

static struct group_ring ring_of(struct shared_ring *r)
{
	return (struct group_ring){.producer = &r->producer,
				   .consumer = &r->consumer,
				   .flags = &r->flags,
				   .addrs = r->addrs,
				   .size = ENTRIES};
}

static struct world *make_world(void)
{
	struct world *w = calloc(1, sizeof(*w));
	struct xdp_group *g = &w->g;

	w->now = group_now();
	g->ctl_fd = memfd_create("group", MFD_CLOEXEC);
	assert_int_equal(ftruncate(g->ctl_fd, sizeof(*g->ctl)), 0);
	g->ctl = mmap(NULL, sizeof(*g->ctl), PROT_READ | PROT_WRITE, MAP_SHARED, g->ctl_fd, 0);
	w->wire = mmap(NULL, sizeof(*w->wire), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	g->ctl->frames = g->frames = FRAMES;
	g->frame_shift = SHIFT;
	g->queues = QUEUES;
	g->fill_target = TARGET;
	for (unsigned i = 0; i < QUEUES; i++) {
		g->fill[i] = ring_of(&w->wire->fill[i]);
		g->comp[i] = ring_of(&w->wire->comp[i]);
	}
	group_frames_init(g->ctl, 0);
	return w;
}

static void free_world(struct world *w)
{
	munmap(w->g.ctl, sizeof(*w->g.ctl));
	munmap(w->wire, sizeof(*w->wire));
	close(w->g.ctl_fd);
	free(w);
}

static struct actor *enter(struct world *w)
{
	struct actor *a = calloc(1, sizeof(*a));

	a->g = &w->g;
	a->stack.frames = calloc(FRAMES, sizeof(uint32_t));
	assert_int_equal(group_member_enter(&w->g), 0);
	assert_int_equal(group_slot_open(&w->g, &a->slot), 0);
	a->stack.slot = a->slot;
	return a;
}

static void free_actor(struct actor *a)
{
	free(a->stack.frames);
	free(a);
}

/* ---- what the kernel does ----------------------------------------------------- */

/* n frames arrive for a member. */
static void kernel_receives(struct world *w, struct actor *to, unsigned queue, unsigned n)
{
	struct shared_ring *fill = &w->wire->fill[queue];

	while (n-- && fill->consumer != fill->producer)
		to->rx[queue].frames[to->rx[queue].n++] =
			(uint32_t)(fill->addrs[fill->consumer++ % ENTRIES] >> SHIFT);
}

/* A frame was sent. */
static void kernel_completes(struct world *w, unsigned queue, uint32_t frame)
{
	struct shared_ring *comp = &w->wire->comp[queue];

	comp->addrs[comp->producer % ENTRIES] = (uint64_t)frame << SHIFT;
	comp->producer++;
}

/* ---- what a member does ----------------------------------------------------------- */

static void reads(struct actor *a, unsigned queue, unsigned n)
{
	while (n-- && a->rx[queue].n) {
		uint32_t f = a->rx[queue].frames[--a->rx[queue].n];

		group_set_owner(a->g, f, owner_word(OWNER_HELD, a->slot));
		GROUP_STEP();
		a->stack.frames[a->stack.n++] = f;
	}
}

static uint32_t sends(struct actor *a)
{
	uint32_t f = a->stack.frames[--a->stack.n];

	group_set_owner(a->g, f, owner_word(OWNER_TX, a->slot));
	GROUP_STEP();
	return f;
}

/* Does all operations; frames stay behind in each state. */
static void works(struct world *w, struct actor *a)
{
	for (unsigned q = 0; q < QUEUES; q++) {
		group_fill(&w->g, &a->stack, q, 0);
		kernel_receives(w, a, q, 20);
		reads(a, q, 7);
		group_fill(&w->g, &a->stack, q, a->rx[q].n);
	}
	group_take(&w->g, &a->stack, 24);
	for (unsigned i = 0; i < 10; i++) {
		uint32_t f = sends(a);

		if (i % 3)
			kernel_completes(w, 0, f);
	}
	group_reap(&w->g, &a->stack, 0);
	for (unsigned i = 0; i < 4; i++)
		kernel_completes(w, 0, sends(a));
	group_give(&w->g, &a->stack, 9);
}

static void leaves(struct world *w, struct actor *a)
{
	for (unsigned q = 0; q < QUEUES; q++)
		reads(a, q, ENTRIES);
	group_give(&w->g, &a->stack, a->stack.n);
	group_slot_close(&w->g, a->slot, false, w->now);
	group_member_leave(&w->g);
}

/* ---- accounting ------------------------------------------------------------------ */

static void unsteer(void *arg, const uint8_t slots[XDP_STEER_SLOTS])
{
}

/* A virtual second of rounds; the survivor reads what it received. */
static void sweep_for_a_second(struct world *w, struct actor *survivor)
{
	nsec_t end = w->now + NSEC_PER_SEC;

	for (; w->now < end; w->now += 10 * NSEC_PER_MSEC) {
		group_sweep(&w->g, w->now, unsteer, w);
		for (unsigned q = 0; q < QUEUES; q++)
			reads(survivor, q, ENTRIES);
		group_slot_drained(&w->g, survivor->slot, w->g.ctl->audit.seq);
	}
	assert_false(group_sweep(&w->g, w->now, unsteer, w));
}

static void see(uint8_t *seen, uint64_t frame, const char *where)
{
	if (frame >= FRAMES)
		fail_msg("%s: frame %lu", where, (unsigned long)frame);
	if (seen[frame]++)
		fail_msg("%s: frame %lu is there twice", where, (unsigned long)frame);
}

/*
 * Every frame is in one place, and its owner word says where. One frame per queue may be
 * missing: the last one that the kernel took.
 */
static void check_all_there(struct world *w, const struct actor *survivor)
{
	uint8_t seen[FRAMES] = {0};
	unsigned lost = 0;

	for (uint32_t i = 0; i < w->g.ctl->pool_n; i++) {
		see(seen, w->g.ctl->pool[i], "pool");
		assert_int_equal(owner_kind(w->g.ctl->owner[w->g.ctl->pool[i]]), OWNER_POOL);
	}
	for (unsigned q = 0; q < QUEUES; q++) {
		const struct shared_ring *fill = &w->wire->fill[q];

		assert_in_range(fill->producer - fill->consumer, 0, TARGET);
		for (uint32_t p = fill->consumer; p != fill->producer; p++) {
			uint64_t f = fill->addrs[p % ENTRIES] >> SHIFT;

			see(seen, f, "fill ring");
			assert_int_equal(owner_kind(w->g.ctl->owner[f]), OWNER_FILL);
			assert_int_equal(owner_pos(w->g.ctl->owner[f]), p);
		}
	}
	for (unsigned i = 0; i < survivor->stack.n; i++) {
		see(seen, survivor->stack.frames[i], "stack");
		assert_int_equal(w->g.ctl->owner[survivor->stack.frames[i]],
				 owner_word(OWNER_HELD, survivor->slot));
	}
	for (uint32_t f = 0; f < FRAMES; f++) {
		uint64_t word = w->g.ctl->owner[f];

		if (seen[f])
			continue;
		if (owner_kind(word) != OWNER_FILL)
			fail_msg("frame %u is lost: word %lx", f, (unsigned long)word);
		lost++;
	}
	assert_in_range(lost, 0, QUEUES);
	assert_int_equal(w->g.ctl->n_slots, 1);
	for (unsigned i = 0; i < XDP_STEER_SLOTS; i++)
		assert_int_equal(w->g.ctl->slots[i].state,
				 i == survivor->slot ? SLOT_USED : SLOT_FREE);
	for (unsigned i = 0; i < GROUP_MEMBERS; i++)
		assert_int_equal(w->g.ctl->members[i].used, i == w->g.member ? w->g.gen + 1 : 0);
}

/* Dead members have none: a late completion frees a frame that is in use again. */
static void check_completions(const struct world *w, const struct actor *survivor)
{
	for (unsigned q = 0; q < QUEUES; q++) {
		const struct shared_ring *comp = &w->wire->comp[q];

		for (uint32_t p = comp->consumer; p != comp->producer; p++)
			assert_int_equal(w->g.ctl->owner[comp->addrs[p % ENTRIES] >> SHIFT],
					 owner_word(OWNER_TX, survivor->slot));
	}
}

/* ---- a member dies ------------------------------------------------------------------- */

static unsigned steps_left;

static void step_and_die(void)
{
	if (!--steps_left)
		kill(getpid(), SIGKILL);
}

static void no_step(void)
{
}

static struct world *shared_world;
static unsigned hits;

static void step_and_count(void)
{
	hits++;
}

/* Runs body in a process that ends at this step; false: body had fewer steps. */
static bool dies_at(struct world *w, unsigned step, void (*body)(struct world *))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		w->g.entered = false;
		steps_left = step;
		group_step = step_and_die;
		body(w);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status))
		assert_int_equal(WEXITSTATUS(status), 0);
	return WIFSIGNALED(status);
}

static void lives_and_leaves(struct world *w)
{
	struct actor *a = enter(w);

	works(w, a);
	leaves(w, a);
}

static void lives_and_is_gone(struct world *w)
{
	works(w, enter(w));
	kill(getpid(), SIGKILL);
}

static void sweeps(struct world *w)
{
	struct actor *a = enter(w);

	for (int i = 0; i < 100; i++, w->now += 10 * NSEC_PER_MSEC) {
		group_sweep(&w->g, w->now, unsteer, w);
		/* Marks them as dead for the other members, too: they do not run. */
		for (unsigned s = 0; s < XDP_STEER_SLOTS; s++)
			group_slot_drained(&w->g, s, w->g.ctl->audit.seq);
	}
	leaves(w, a);
}

/* busy: the survivor continues at once; otherwise the sweep does everything. */
static unsigned die_at_each_step(bool busy)
{
	unsigned step = 1;
	bool died = true;

	for (; died; step++) {
		struct world *w = make_world();
		struct actor *a = enter(w);

		died = dies_at(w, step, lives_and_leaves);
		if (busy) {
			works(w, a); /* locks of the dead member are free */
			assert_int_equal(group_take(&w->g, &a->stack, 1), 1);
		}
		sweep_for_a_second(w, a);
		check_completions(w, a);
		for (uint32_t f = 0; f < FRAMES; f++)
			if (w->g.ctl->owner[f] == owner_word(OWNER_TX, a->slot))
				kernel_completes(w, 0, f);
		group_reap(&w->g, &a->stack, 0);
		check_all_there(w, a);
		free_actor(a);
		free_world(w);
	}
	return step;
}

static void test_a_member_may_die_at_any_step(void **state)
{
	assert_true(die_at_each_step(true) > 200);
	assert_true(die_at_each_step(false) > 200);
}

static void test_a_sweeping_member_may_die_at_any_step(void **state)
{
	unsigned step = 1;
	bool died = true;

	for (; died; step += 1 + step / 64) {
		struct world *w = make_world();
		struct actor *a = enter(w);

		assert_true(dies_at(w, UINT32_MAX, lives_and_is_gone));
		died = dies_at(w, step, sweeps);
		w->now += NSEC_PER_SEC;
		sweep_for_a_second(w, a);
		check_all_there(w, a);
		free_actor(a);
		free_world(w);
	}
	assert_true(step > 200);
}

static void test_a_clean_exit_leaves_nothing_to_sweep(void **state)
{
	struct world *w = make_world();
	struct actor *a = enter(w);

	assert_false(dies_at(w, UINT32_MAX, lives_and_leaves));
	sweep_for_a_second(w, a); /* what the member had sent */
	check_all_there(w, a);
	assert_int_equal(w->g.ctl->stolen, 0);
	free_actor(a);
	free_world(w);
}

/* ---- no member dies --------------------------------------------------------------------- */

static void test_one_sends_and_another_receives_for_ever(void **state)
{
	struct world *w = make_world();
	struct actor *sender = enter(w);
	struct actor *receiver = calloc(1, sizeof(*receiver));

	receiver->g = &w->g;
	receiver->stack.frames = calloc(FRAMES, sizeof(uint32_t));
	assert_int_equal(group_slot_open(&w->g, &receiver->slot), 0);
	receiver->stack.slot = receiver->slot;
	assert_int_not_equal(receiver->slot, sender->slot);
	for (int round = 0; round < 1000; round++) {
		group_fill(&w->g, &receiver->stack, 0, 0);
		kernel_receives(w, receiver, 0, 50);
		assert_int_equal(receiver->rx[0].n, 50);
		reads(receiver, 0, 50);
		group_give(&w->g, &receiver->stack, receiver->stack.n);
		group_take(&w->g, &sender->stack, 50);
		assert_int_equal(sender->stack.n, 50);
		while (sender->stack.n)
			kernel_completes(w, 0, sends(sender));
		/* Any member does it. */
		assert_int_equal(group_reap(&w->g, &receiver->stack, 0), 50);
		group_give(&w->g, &receiver->stack, receiver->stack.n);
	}
	assert_int_equal(w->g.ctl->odd, 0);
	group_slot_close(&w->g, receiver->slot, false, w->now);
	check_all_there(w, sender);
	free_actor(receiver);
	free_actor(sender);
	free_world(w);
}

static void test_nonsense_in_shared_memory_does_no_harm(void **state)
{
	struct world *w = make_world();
	struct actor *a = enter(w);
	struct group_ctl *ctl = w->g.ctl;

	srand(1);
	for (int round = 0; round < 200; round++) {
		uint32_t *word = (uint32_t *)(void *)ctl;
		size_t words = sizeof(*ctl) / sizeof(*word);

		for (int i = 0; i < 64; i++)
			word[(size_t)rand() % words] = (uint32_t)rand();
		for (unsigned q = 0; q < QUEUES; q++) {
			w->wire->fill[q].producer = (uint32_t)rand();
			w->wire->comp[q].producer = (uint32_t)rand();
			w->wire->comp[q].addrs[rand() % (int)ENTRIES] = (uint64_t)rand() << 16;
		}
		a->stack.n = 0;
		for (unsigned q = 0; q < QUEUES; q++) {
			group_take(&w->g, &a->stack, 64);
			group_fill(&w->g, &a->stack, q, 0);
			group_reap(&w->g, &a->stack, q);
		}
		group_give(&w->g, &a->stack, 32);
		group_sweep(&w->g, w->now += 10 * NSEC_PER_MSEC, unsteer, w);
		group_slot_is_dead(&w->g, (unsigned)rand());
		assert_true(a->stack.n <= FRAMES);
	}
	free_actor(a);
	free_world(w);
}

static void test_a_completion_ring_is_read_once(void **state)
{
	struct world *w = make_world();
	struct shared_ring *comp = &w->wire->comp[0];
	uint32_t begin = comp->consumer;

	comp->producer = begin + (1u << 31);
	assert_true(group_reclaim(&w->g, NULL, NULL));
	assert_int_equal(comp->consumer - begin, ENTRIES);
	free_world(w);
}

static void test_a_living_holder_keeps_its_lock(void **state)
{
	struct world *w = make_world();
	int ready[2], done[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready) | pipe(done), 0);
	pid = fork();
	if (pid == 0) {
		bool ok = !group_member_enter(&w->g) &&
			  group_lock_try(&w->g, &w->g.ctl->pool_lock) == GROUP_LOCKED;

		if (!ok || write(ready[1], "x", 1) != 1 || read(done[0], &byte, 1) != 1)
			_exit(1);
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(group_member_enter(&w->g), 0);
	assert_int_equal(w->g.member, 1);
	assert_int_equal(group_lock_try(&w->g, &w->g.ctl->pool_lock), GROUP_BUSY);
	assert_int_equal(write(done[1], "x", 1), 1);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(group_lock_try(&w->g, &w->g.ctl->pool_lock), GROUP_DIED);
	group_lock_release(&w->g, &w->g.ctl->pool_lock);
	assert_int_equal(w->g.ctl->stolen, 1);
	free_world(w);
}

/* ---- members that wait for a lock ----------------------------------------------------- */

/* What waiting members share; each that has the lock takes the next place. */
struct queue_of_members {
	uint32_t places; /* atomic */
	uint32_t place_of[3];
	uint32_t released; /* atomic: the lock may be had */
	uint32_t failed;   /* atomic: waits that ended without it */
	uint32_t steps;	   /* atomic: of the two that take turns */
	uint32_t runs;	   /* atomic: the one of them that runs */
};

static struct queue_of_members *order;

static uint32_t look(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static bool wait_for_place(struct world *w)
{
	if (!group_lock_wait(&w->g, &w->g.ctl->lock)) {
		__atomic_fetch_add(&order->failed, 1, __ATOMIC_ACQ_REL);
		return false;
	}
	order->place_of[w->g.member] = __atomic_fetch_add(&order->places, 1, __ATOMIC_ACQ_REL);
	group_lock_release(&w->g, &w->g.ctl->lock);
	return true;
}

static pid_t start_waiter(struct world *w, void (*step)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that failed does not release it */
		if (group_member_enter(&w->g))
			_exit(2);
		group_step = step;
		_exit(!wait_for_place(w));
	}
	return pid;
}

static void expect_end_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static struct world *make_world_of_waiters(void)
{
	struct world *w = shared_world = make_world();

	order = mmap(NULL, sizeof(*order), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_int_equal(group_member_enter(&w->g), 0);
	assert_int_equal(group_lock_try(&w->g, &w->g.ctl->lock), GROUP_LOCKED);
	return w;
}

static void free_world_of_waiters(struct world *w)
{
	assert_int_equal(w->g.ctl->lock.wanted, 0);
	munmap(order, sizeof(*order));
	free_world(w);
}

static void release_to_waiters(struct world *w)
{
	group_lock_release(&w->g, &w->g.ctl->lock);
	__atomic_store_n(&order->released, 1, __ATOMIC_RELEASE);
}

static uint32_t await_next(struct world *w)
{
	uint32_t next;

	while (!(next = look(&w->g.ctl->lock.wanted)))
		sched_yield();
	return next;
}

/* A member that is slow once it is next. */
static void step_until_released(void)
{
	while (!look(&order->released) && look(&shared_world->g.ctl->lock.wanted))
		sched_yield();
}

/* While this member pauses without the lock, the other one gets it, however slow it is. */
static void step_until_the_other_had_it(void)
{
	const struct xdp_group *g = &shared_world->g;

	while (!look(&order->places) && !look(&order->failed) &&
	       (look(&g->ctl->lock.word) & 0xff) != g->member + 1)
		sched_yield();
}

/* A member that takes the lock, when it has it, again and again would starve all others. */
static void test_who_waits_is_next(void **state)
{
	struct world *w = make_world_of_waiters();
	pid_t pid = start_waiter(w, step_until_released);

	await_next(w);
	release_to_waiters(w);
	group_step = step_until_the_other_had_it;
	assert_true(wait_for_place(w));
	group_step = no_step;
	expect_end_of(pid);
	assert_int_equal(order->place_of[1], 0);
	assert_int_equal(order->place_of[0], 1);
	free_world_of_waiters(w);
}

/* A sweep, which does not wait, takes it no earlier; but it is not held up for ever. */
static void test_a_sweep_lets_go_first_who_is_next(void **state)
{
	struct world *w = make_world_of_waiters();
	pid_t pid = start_waiter(w, step_until_released);
	uint32_t next = await_next(w);

	group_lock_release(&w->g, &w->g.ctl->lock);
	hits = 0;
	group_step = step_and_count;
	assert_true(group_sweep(&w->g, w->now, unsteer, w));
	assert_int_equal(hits, 0); /* it did not even try */
	for (unsigned i = 0; i < 100 && !hits; i++)
		group_sweep(&w->g, w->now, unsteer, w);
	assert_true(hits > 0);
	group_step = no_step;
	assert_int_equal(look(&w->g.ctl->lock.wanted), next);
	__atomic_store_n(&order->released, 1, __ATOMIC_RELEASE);
	expect_end_of(pid);
	free_world_of_waiters(w);
}

#define LONG 100 /* steps, each with a pause: more than a turn of each of the two */

/* At each step of one of the two, the other one goes on to its next step. */
static void step_in_turns(void)
{
	unsigned me = shared_world->g.member;

	if (__atomic_add_fetch(&order->steps, 1, __ATOMIC_ACQ_REL) == LONG)
		step_until_released();
	__atomic_store_n(&order->runs, 3 - me, __ATOMIC_RELEASE);
	while (look(&order->runs) != me && !look(&order->places) && !look(&order->failed))
		sched_yield();
}

/* Else each of two that have waited for long would put itself before the other, for ever. */
static void test_who_is_next_after_a_long_wait_has_a_whole_turn(void **state)
{
	struct world *w = make_world_of_waiters();
	pid_t pids[2];
	uint32_t next;

	for (unsigned i = 0; i < 2; i++)
		pids[i] = start_waiter(w, step_in_turns);
	while (look(&order->steps) < LONG)
		sched_yield();
	next = await_next(w);
	release_to_waiters(w);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
	assert_int_equal(order->failed, 0);
	assert_int_equal(order->places, 2);
	assert_int_equal(order->place_of[(next & 0xff) - 1], 0);
	free_world_of_waiters(w);
}

/* A member that is next, and stopped, holds the others up once; a dead one does not. */
static void test_who_waits_and_is_stopped_is_passed_over(void **state)
{
	struct world *w = make_world();
	struct group_lock *lock = &w->g.ctl->lock;
	pid_t pid;

	assert_int_equal(group_member_enter(&w->g), 0);
	assert_int_equal(group_lock_try(&w->g, lock), GROUP_LOCKED);
	pid = fork();
	if (pid == 0)
		_exit(group_member_enter(&w->g) || !group_lock_wait(&w->g, lock));
	while (!__atomic_load_n(&lock->wanted, __ATOMIC_RELAXED))
		sched_yield();
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	group_lock_release(&w->g, lock);
	assert_true(group_lock_wait(&w->g, lock));
	assert_int_equal(lock->wanted, 0);
	group_lock_release(&w->g, lock);

	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	lock->wanted = w->g.ctl->members[1].gen << 8 | 2;
	assert_true(group_lock_wait(&w->g, lock));
	assert_int_equal(lock->wanted, 0);
	group_lock_release(&w->g, lock);
	free_world(w);
}

/* Only time shows that a holder is stopped, so there is a pause between all looks, not only before the second. */
static void test_a_holder_that_lives_is_waited_for(void **state)
{
	struct world *w = make_world();
	struct group_lock *lock = &w->g.ctl->lock;
	nsec_t begin;
	pid_t pid;

	assert_int_equal(group_member_enter(&w->g), 0);
	pid = fork();
	if (pid == 0) {
		if (group_member_enter(&w->g) || !group_lock_wait(&w->g, lock))
			_exit(1);
		raise(SIGSTOP);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	assert_int_not_equal(lock->word, 0);
	begin = group_now();
	assert_false(group_lock_wait(&w->g, lock));
	assert_true(group_now() - begin >= 400 * NSEC_PER_MSEC);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(group_lock_wait(&w->g, lock));
	group_lock_release(&w->g, lock);
	free_world(w);
}

/* ---- a member that is believed to be dead --------------------------------------------- */

/* A member in its own process, which obeys commands. */
struct member_process {
	pid_t pid;
	int to, from;
};

static void drop_record_lock(struct xdp_group *g)
{
	close(dup(g->ctl_fd)); /* as POSIX requires */
}

static char obey(struct world *w, struct actor **a, char what)
{
	switch (what) {
	case 'e':
		*a = enter(w);
		return (char)w->g.member;
	case 'm': /* a member without a slot */
		return group_member_enter(&w->g) ? 99 : (char)w->g.member;
	case 'd':
		drop_record_lock(&w->g);
		return 0;
	case 'r':
		return group_member_renew(&w->g);
	case 'l':
		if (group_slot_close(&w->g, (*a)->slot, false, w->now))
			return 1;
		group_member_leave(&w->g);
		return 0;
	case 'v': /* its slot belongs to another member */
		group_member_leave(&w->g);
		return 0;
	default:
		return 99;
	}
}

static struct member_process start_process(struct world *w)
{
	struct actor *a = NULL;
	int to[2], from[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(to) | pipe(from), 0);
	pid = fork();
	if (!pid) {
		close(to[1]);
		w->g.entered = false;
		group_step = no_step;
		while (read(to[0], &byte, 1) == 1 && byte != 'q') {
			byte = obey(w, &a, byte);
			if (write(from[1], &byte, 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	return (struct member_process){.pid = pid, .to = to[1], .from = from[0]};
}

static int tell(const struct member_process *p, char what)
{
	char answer = 99;

	assert_int_equal(write(p->to, &what, 1), 1);
	assert_int_equal(read(p->from, &answer, 1), 1);
	return answer;
}

/* Closing the pipe does not end it: the next process has a copy. */
static void end_process(struct member_process *p)
{
	assert_int_equal(write(p->to, "q", 1), 1);
	close(p->to);
	close(p->from);
	assert_int_equal(waitpid(p->pid, NULL, 0), p->pid);
}

static struct member_process leaver, newcomer;

/* The sweep has read that index 1 is used; next it asks whether that member lives. */
static void step_and_change_places(void)
{
	const struct group_ctl *ctl = shared_world->g.ctl;

	/* Its lock, its own mark, the mark of index 1. */
	if (++hits != 3)
		return;
	/* The sweep has the lock; at the same time a member leaves without it. */
	assert_int_equal(tell(&leaver, 'v'), 0);
	assert_int_equal(ctl->members[1].used, 0);
	assert_int_equal(tell(&newcomer, 'm'), 1);
}

static void test_a_new_member_is_not_marked_dead_for_the_previous_one(void **state)
{
	struct world *w = make_world();
	struct actor *a = enter(w);

	shared_world = w;
	leaver = start_process(w);
	newcomer = start_process(w);
	assert_int_equal(tell(&leaver, 'e'), 1);
	hits = 0;
	group_step = step_and_change_places;
	group_sweep(&w->g, w->now, unsteer, w);
	group_step = no_step;
	assert_true(hits >= 3);
	assert_int_equal(tell(&newcomer, 'r'), 1);
	/* The sweep nevertheless finds what the previous member left. */
	sweep_for_a_second(w, a);
	assert_int_equal(w->g.ctl->slots[1].state, SLOT_FREE);
	assert_int_equal(tell(&newcomer, 'r'), 1);
	end_process(&leaver);
	end_process(&newcomer);
	free_actor(a);
	free_world(w);
}

static void test_a_living_member_marked_dead_notices_and_does_no_harm(void **state)
{
	struct world *w = make_world();
	struct actor *a = enter(w);
	struct member_process marked = start_process(w), next = start_process(w);

	assert_int_equal(tell(&marked, 'e'), 1);
	assert_int_equal(tell(&marked, 'r'), 1);
	assert_int_equal(tell(&marked, 'd'), 0);
	sweep_for_a_second(w, a);
	assert_int_equal(tell(&marked, 'r'), 0);
	assert_int_equal(w->g.ctl->slots[1].state, SLOT_FREE);
	/* The index belongs to another member, which must not be marked as dead. */
	assert_int_equal(tell(&next, 'e'), 1);
	assert_int_equal(tell(&marked, 'r'), 0);
	assert_int_equal(tell(&marked, 'v'), 0);
	assert_int_equal(tell(&next, 'r'), 1);
	sweep_for_a_second(w, a);
	assert_int_equal(w->g.ctl->slots[1].state, SLOT_USED);
	assert_int_equal(tell(&next, 'r'), 1);
	assert_int_equal(tell(&next, 'l'), 0);
	end_process(&marked);
	end_process(&next);
	sweep_for_a_second(w, a);
	check_all_there(w, a);
	free_actor(a);
	free_world(w);
}

#define HANDOVERS 1400 /* steps, two of each pause: more than a holder is waited for */

static uint32_t holders[2]; /* words of two living members */

/* The lock always has another holder, and is free in the end. */
static void step_to_the_other_holder(void)
{
	uint32_t word = hits < HANDOVERS ? holders[hits / 2 % 2] : 0;

	hits++;
	__atomic_store_n(&shared_world->g.ctl->lock.word, word, __ATOMIC_RELEASE);
}

/* Only a member that has the lock for long is stopped, not one of many that have it in turn. */
static void test_a_lock_that_changes_hands_is_waited_for(void **state)
{
	struct world *w = make_world();
	struct member_process p[2] = {start_process(w), start_process(w)};

	for (unsigned i = 0; i < 2; i++) {
		unsigned member = (unsigned)tell(&p[i], 'm');

		holders[i] = w->g.ctl->members[member].gen << 8 | (member + 1);
	}
	assert_int_equal(group_member_enter(&w->g), 0);
	shared_world = w;
	hits = 0;
	step_to_the_other_holder();
	group_step = step_to_the_other_holder;
	assert_true(group_lock_wait(&w->g, &w->g.ctl->lock));
	group_step = no_step;
	assert_true(hits > HANDOVERS);
	group_lock_release(&w->g, &w->g.ctl->lock);
	end_process(&p[0]);
	end_process(&p[1]);
	free_world(w);
}

static int setup(void **state)
{
	group_step = no_step;
	return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

static const struct CMUnitTest tests[] = {
	TEST(test_a_member_may_die_at_any_step),
	TEST(test_a_sweeping_member_may_die_at_any_step),
	TEST(test_a_clean_exit_leaves_nothing_to_sweep),
	TEST(test_one_sends_and_another_receives_for_ever),
	TEST(test_nonsense_in_shared_memory_does_no_harm),
	TEST(test_a_completion_ring_is_read_once),
	TEST(test_a_living_holder_keeps_its_lock),
	TEST(test_who_waits_is_next),
	TEST(test_who_is_next_after_a_long_wait_has_a_whole_turn),
	TEST(test_a_sweep_lets_go_first_who_is_next),
	TEST(test_who_waits_and_is_stopped_is_passed_over),
	TEST(test_a_holder_that_lives_is_waited_for),
	TEST(test_a_lock_that_changes_hands_is_waited_for),
	TEST(test_a_new_member_is_not_marked_dead_for_the_previous_one),
	TEST(test_a_living_member_marked_dead_notices_and_does_no_harm),
};

VMA_TEST_MAIN("xdp_group", tests, NULL, NULL)
