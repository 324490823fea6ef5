/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of a connection that goes from one process to another: two ports with claims of their
 * own are two processes, and the card is a list.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>

#include "ring/mlx5/mlx5_internal.h"
#include "vma_test.h"

#define PROCESSES 5
#define QUEUES 2
#define RULES 16

struct fake_rule {
	struct ibv_flow flow;
	struct ibv_qp *qp; /* NULL: free */
	unsigned priority;
};

static struct fake_rule rules[RULES];
static struct verbs_context verbs;
static struct mlx5_port ports[PROCESSES];
static struct mlx5_queue queues[PROCESSES][QUEUES];
static struct ibv_qp qps[PROCESSES][QUEUES];
static const struct flow_key key = {
	.local = {.w = {0, 0, 0xffff0000, 0x0100000a}},
	.remote = {.w = {0, 0, 0xffff0000, 0x0200000a}},
	.local_port = 80,
	.remote_port = 1000,
	.proto = IPPROTO_TCP,
};

static struct ibv_flow *create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	for (unsigned i = 0; i < RULES; i++) {
		if (rules[i].qp)
			continue;
		rules[i].qp = qp;
		rules[i].priority = attr->priority;
		rules[i].flow.context = &verbs.context;
		return &rules[i].flow;
	}
	fail_msg("too many rules");
	return NULL;
}

static int destroy_flow(struct ibv_flow *flow)
{
	container_of(flow, struct fake_rule, flow)->qp = NULL;
	return 0;
}

static void port_begin(struct mlx5_port *port, const char *claims)
{
	memset(port, 0, sizeof(*port));
	port->claims = open(claims, O_RDWR | O_CLOEXEC);
	assert_true(port->claims >= 0);
	pthread_mutex_init(&port->lock, NULL);
	list_init(&port->queues);
	list_init(&port->shares);
	for (unsigned i = 0; i < MLX5_RULE_LISTS; i++)
		list_init(&port->rules[i]);
}

static int set_up(void **state)
{
	char claims[] = "/tmp/mlx5_take_XXXXXX";
	int fd = mkstemp(claims);

	(void)state;
	assert_true(fd >= 0);
	verbs.sz = sizeof(verbs);
	verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	verbs.ibv_create_flow = create_flow;
	verbs.ibv_destroy_flow = destroy_flow;
	memset(rules, 0, sizeof(rules));
	for (unsigned p = 0; p < PROCESSES; p++) {
		port_begin(&ports[p], claims);
		for (unsigned q = 0; q < QUEUES; q++) {
			qps[p][q].context = &verbs.context;
			queues[p][q] = (struct mlx5_queue){.port = &ports[p], .qp = &qps[p][q]};
		}
	}
	unlink(claims);
	close(fd);
	return 0;
}

/* Nothing of any process is left. */
static int tear_down(void **state)
{
	(void)state;
	for (unsigned p = 0; p < PROCESSES; p++)
		for (unsigned q = 0; q < QUEUES; q++)
			mlx5_flows_end(&queues[p][q]);
	for (unsigned p = 0; p < PROCESSES; p++) {
		assert_false(mlx5_is_taken(&ports[p], &key));
		assert_false(mlx5_is_claimed(&ports[p], &key));
	}
	for (unsigned p = 0; p < PROCESSES; p++) {
		close(ports[p].claims);
		pthread_mutex_destroy(&ports[p].lock);
	}
	for (unsigned i = 0; i < RULES; i++)
		assert_null(rules[i].qp);
	return 0;
}

static struct port_queue *queue_of(unsigned process, unsigned q)
{
	return &queues[process][q].base;
}

/* Rules of this process; -1: of all. */
static unsigned rules_of(int process)
{
	unsigned n = 0;

	for (unsigned i = 0; i < RULES; i++)
		for (int p = 0; p < PROCESSES; p++)
			n += rules[i].qp && (process < 0 || p == process) &&
			     rules[i].qp >= qps[p] && rules[i].qp < qps[p] + QUEUES;
	return n;
}

/* The process that gets the frames, or -1: the kernel does. */
static int receiver(void)
{
	const struct fake_rule *best = NULL;

	for (unsigned i = 0; i < RULES; i++)
		if (rules[i].qp && (!best || rules[i].priority < best->priority))
			best = &rules[i];
	for (int p = 0; best && p < PROCESSES; p++)
		if (best->qp >= qps[p] && best->qp < qps[p] + QUEUES)
			return p;
	return -1;
}

static bool two_of_one_priority(void)
{
	for (unsigned i = 0; i < RULES; i++)
		for (unsigned j = 0; j < i; j++)
			if (rules[i].qp && rules[j].qp && rules[i].priority == rules[j].priority)
				return true;
	return false;
}

static bool part(unsigned process, unsigned q, bool over)
{
	return mlx5_part_flow(queue_of(process, q), &key, over);
}

static int take(unsigned process, unsigned q)
{
	return mlx5_take_flow(queue_of(process, q), &key);
}

static void test_the_giver_has_a_rule_until_the_taker_has_one(void **state)
{
	(void)state;
	assert_int_equal(mlx5_add_flow(queue_of(0, 0), &key), 0);
	assert_false(part(0, 0, false));
	assert_int_equal(receiver(), 0);
	assert_int_equal(take(1, 0), 0);
	assert_int_equal(rules_of(-1), 2);
	assert_false(two_of_one_priority());
	assert_true(part(0, 0, false));
	assert_int_equal(rules_of(0), 0);
	assert_int_equal(receiver(), 1);
}

static void test_nobody_takes_it_and_the_kernel_gets_its_frames(void **state)
{
	(void)state;
	assert_int_equal(mlx5_add_flow(queue_of(0, 0), &key), 0);
	assert_false(part(0, 0, false));
	assert_true(part(0, 0, true));
	assert_int_equal(receiver(), -1);
	assert_int_equal(mlx5_add_flow(queue_of(1, 0), &key), 0); /* its claims are gone, too */
}

/* Only who was given the connection may have a second rule. */
static void test_others_may_not_have_the_key_meanwhile(void **state)
{
	(void)state;
	assert_int_equal(mlx5_add_flow(queue_of(0, 0), &key), 0);
	assert_int_equal(mlx5_add_flow(queue_of(2, 0), &key), -EEXIST);
	assert_false(part(0, 0, false));
	assert_int_equal(take(1, 0), 0);
	assert_int_equal(mlx5_add_flow(queue_of(2, 0), &key), -EEXIST);
	assert_true(part(0, 0, false));
	assert_int_equal(mlx5_add_flow(queue_of(2, 0), &key), -EEXIST); /* the second priority */
	assert_true(mlx5_flow_is_foreign(&ports[2].base, &key));
	assert_false(mlx5_flow_is_foreign(&ports[1].base, &key));
	assert_int_equal(take(2, 0), 0); /* the first one is free again */
	assert_false(two_of_one_priority());
}

/* As many processes as there are priorities have had it, and none of them has looked since. */
static void test_it_waits_where_it_is_until_an_earlier_owner_has_looked(void **state)
{
	unsigned last = mlx5_priorities(&key) - 1;

	(void)state;
	assert_true(last + 1 < PROCESSES);
	assert_int_equal(mlx5_add_flow(queue_of(0, 0), &key), 0);
	for (unsigned p = 0; p < last; p++) {
		assert_true(mlx5_may_part(queue_of(p, 0), &key));
		assert_false(part(p, 0, false));
		assert_int_equal(take(p + 1, 0), 0);
	}
	assert_false(mlx5_may_part(queue_of(last, 0), &key));
	assert_int_equal(take(last + 1, 0), -EEXIST);
	assert_true(part(1, 0, false));
	assert_true(mlx5_may_part(queue_of(last, 0), &key));
	assert_int_equal(take(last + 1, 0), 0);
	assert_false(two_of_one_priority());
}

/* 1 has a rule of its time, that 0 must not take for one of now. */
static void test_back_and_forth_before_anybody_looked(void **state)
{
	(void)state;
	assert_int_equal(mlx5_add_flow(queue_of(0, 0), &key), 0);
	assert_false(part(0, 0, false));
	assert_int_equal(take(1, 0), 0);
	assert_false(part(1, 0, false)); /* 0 was given it back, and has not taken it yet */
	assert_int_equal(take(0, 0), 0);
	assert_int_equal(rules_of(-1), 2);
	assert_false(part(0, 0, false)); /* given to 1 again */
	assert_false(part(1, 0, false));
	assert_int_equal(rules_of(-1), 2);
	assert_int_equal(take(1, 0), 0);
	assert_true(part(0, 0, false));
	assert_int_equal(receiver(), 1);
}

static void test_it_comes_back_to_another_queue(void **state)
{
	(void)state;
	assert_int_equal(mlx5_add_flow(queue_of(0, 0), &key), 0);
	assert_false(part(0, 0, false));
	assert_int_equal(take(1, 0), 0);
	assert_false(part(1, 0, false));
	assert_int_equal(take(0, 1), 0);
	assert_true(part(1, 0, false));
	assert_true(part(0, 0, true)); /* the end of the first stand-in is not that of the rule */
	assert_int_equal(receiver(), 0);
	assert_int_equal(rules_of(-1), 1);
	assert_int_equal(mlx5_move_flow(queue_of(0, 0), &key), 0);
	assert_false(part(0, 0, false));
	assert_int_equal(take(2, 1), 0);
	assert_true(part(0, 0, false));
	assert_int_equal(receiver(), 2);
}

/*
 * Whatever the order: the connection has a receiver, and when all have looked, it is the only one.
 * `at`: its process and queue; a stand-in of each queue may be left.
 */
static void test_any_order(void **state)
{
	unsigned process = 0, q = 0, moves = 0, seed = 17;
	bool left[PROCESSES][QUEUES] = {{false}};

	(void)state;
	assert_int_equal(mlx5_add_flow(queue_of(0, 0), &key), 0);
	for (unsigned i = 0; i < 20000; i++) {
		unsigned p = (unsigned)rand_r(&seed) % PROCESSES,
			 at = (unsigned)rand_r(&seed) % QUEUES;

		if (rand_r(&seed) % 2) {
			if (left[p][at] && (p != process || at != q))
				left[p][at] = !part(p, at, rand_r(&seed) % 8 == 0);
		} else if (p != process && mlx5_may_part(queue_of(process, q), &key)) {
			left[process][q] = !part(process, q, false);
			assert_int_equal(take(p, at), 0);
			process = p;
			q = at;
			left[process][q] = false;
			moves++;
		}
		assert_int_not_equal(receiver(), -1);
		assert_true(rules_of((int)process) >= 1);
	}
	for (unsigned p = 0; p < PROCESSES; p++)
		for (unsigned at = 0; at < QUEUES; at++)
			if (left[p][at])
				part(p, at, true);
	assert_int_equal(rules_of(-1), 1);
	assert_int_equal(receiver(), process);
	assert_true(moves > 1000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
static const struct CMUnitTest tests[] = {
	TEST(test_the_giver_has_a_rule_until_the_taker_has_one),
	TEST(test_nobody_takes_it_and_the_kernel_gets_its_frames),
	TEST(test_others_may_not_have_the_key_meanwhile),
	TEST(test_it_waits_where_it_is_until_an_earlier_owner_has_looked),
	TEST(test_back_and_forth_before_anybody_looked),
	TEST(test_it_comes_back_to_another_queue),
	TEST(test_any_order),
};

VMA_TEST_MAIN("mlx5_take", tests, NULL, NULL)
