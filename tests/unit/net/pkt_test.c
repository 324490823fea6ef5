/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists of packets of several pools. */
#include "net/pkt.h"

#include "tests/vma_test.h"

#define N 9

struct pool {
	struct pkt_pool pool; /* first */
	unsigned calls, put;
	unsigned most; /* that put_some() takes at once */
};

static void put(struct pkt_pool *pool, struct pkt *pkt)
{
	struct pool *p = (struct pool *)pool;

	assert_ptr_equal(pkt->pool, pool);
	pkt->pool = NULL; /* a second time would be seen */
	pkt->next = pkt;  /* whoever has it now may use it */
	p->put++;
	p->calls++;
}

static struct pkt *put_some(struct pkt_pool *pool, struct pkt *list)
{
	struct pool *p = (struct pool *)pool;

	p->calls++;
	for (unsigned n = 0; n < p->most && list && list->pool == pool; n++) {
		struct pkt *next = list->next;

		list->pool = NULL;
		list->next = list;
		p->put++;
		list = next;
	}
	return list;
}

static void test_a_list_goes_back_to_its_pools(void **state)
{
	struct pool one = {.pool.put = put};
	struct pool some = {.pool = {.put = put, .put_some = put_some}, .most = 3};
	struct pkt pkts[N] = {0}, *head = NULL, *tail = NULL;
	/* some, 4 in turn: two calls; one; some; one, one; some */
	const char order[N + 1] = "ssssosoos";

	pkt_free_list(NULL);
	for (unsigned i = 0; i < N; i++) {
		pkts[i].pool = order[i] == 's' ? &some.pool : &one.pool;
		pkt_append(&head, &tail, &pkts[i]);
	}
	pkt_free_list(head);
	for (unsigned i = 0; i < N; i++)
		assert_null(pkts[i].pool);
	assert_int_equal(one.put, 3);
	assert_int_equal(one.calls, 3);
	assert_int_equal(some.put, 6);
	assert_int_equal(some.calls, 4);
}

static void test_a_run_is_appended(void **state)
{
	struct pkt pkts[4] = {{.next = &pkts[1]}, {0}, {.next = &pkts[3]}, {0}};
	struct pkt *head = NULL, *tail = &pkts[3]; /* means nothing */

	pkt_append_run(&head, &tail, &pkts[0], &pkts[1]);
	assert_ptr_equal(head, &pkts[0]);
	assert_ptr_equal(tail, &pkts[1]);
	pkt_append_run(&head, &tail, &pkts[2], &pkts[3]);
	assert_ptr_equal(pkts[1].next, &pkts[2]);
	assert_ptr_equal(tail, &pkts[3]);
	assert_null(tail->next);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_list_goes_back_to_its_pools),
	cmocka_unit_test(test_a_run_is_appended),
};

VMA_TEST_MAIN("pkt", tests, NULL, NULL)
