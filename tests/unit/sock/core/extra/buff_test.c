/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buffers of socketxtreme: which addresses name one, how often it can be put, and that its packet and
 * what its socket was charged go back once, wherever the socket lives by then.
 */
#include "sock/core/extra/buff.h"

#include "ring/logic.h"
#include "sock/core/kind.h"
#include "tests/unit/sock/world.h"

#define PACKETS 64u
#define BLOCK 64u /* buffers that a store gets at once */
#define CHARGE 1000u

/* ---- packets of the test ------------------------------------------------------------------ */

static unsigned given_back[PACKETS]; /* any, atomic: how often each was put back */
static unsigned all_given_back;	     /* any, atomic */
static struct pkt pkts[PACKETS];
static uint8_t frames[PACKETS][128];

static void put(struct pkt_pool *pool, struct pkt *pkt)
{
	__atomic_fetch_add(&given_back[pkt - pkts], 1, __ATOMIC_RELAXED);
	/* Release: pairs with count_given_back(): what was done before is seen. */
	__atomic_fetch_add(&all_given_back, 1, __ATOMIC_RELEASE);
}

static struct pkt_pool pool = {.put = put};

static struct pkt *pkt(unsigned i)
{
	pkts[i] = (struct pkt){.pool = &pool,
			       .frame = frames[i],
			       .off = (uint16_t)(40 + i),
			       .len = (uint16_t)(i + 1)};
	return &pkts[i];
}

static unsigned count_given_back(void)
{
	return __atomic_load_n(&all_given_back, __ATOMIC_ACQUIRE);
}

/* ---- a store of a ring, and sockets --------------------------------------------------------- */

static struct buff_store store;
static struct tsock here, elsewhere;
static struct ring *ring, *other; /* the store's; of the socket elsewhere */

static struct tsock udp_on(unsigned user)
{
	struct tsock ts = tsock_udp();

	assert_int_equal(tsock_set_logic(&ts, RING_LOGIC_USER_ID, user, true, true), 0);
	assert_int_equal(tsock_bind(&ts, fake_link_addr(0), world_port()), 0);
	return ts;
}

static int begin(void **state)
{
	memset(given_back, 0, sizeof(given_back));
	all_given_back = 0;
	buff_fork_child(); /* as if none was ever given out */
	here = udp_on(1);
	elsewhere = udp_on(2);
	ring = tsock_home(&here);
	other = tsock_home(&elsewhere);
	assert_ptr_not_equal(ring, other);
	memset(&store, 0xff, sizeof(store));
	buff_store_init(&store, ring->id);
	return 0;
}

static int finish(void **state)
{
	tsock_close(&here);
	tsock_close(&elsewhere);
	for (unsigned i = 0; i < PACKETS; i++)
		assert_in_range(given_back[i], 0, 1);
	return 0;
}

#define HELD(of, what)                           \
	do {                                     \
		assert_true(ring_hold_cold(of)); \
		what;                            \
		ring_release_cold(of);           \
	} while (0)

/* The socket is charged with it, as when a poll hands it out. */
static struct buff *give(const struct tsock *to, unsigned i, uint32_t charge)
{
	struct ring *home = tsock_home(to);
	struct buff *buff;

	HELD(ring, buff = buff_new(&store, to->ref, pkt(i), charge));
	assert_non_null(buff);
	HELD(home, tsock_inet(to)->udp.bytes += charge);
	return buff;
}

static uint32_t charged(const struct tsock *ts)
{
	uint32_t bytes;

	HELD(tsock_home(ts), bytes = tsock_inet(ts)->udp.bytes);
	return bytes;
}

static unsigned count_free(void)
{
	unsigned n = 0;

	HELD(ring, for (struct buff *b = store.free; b; b = b->next) n++);
	return n;
}

static void take_returned(void)
{
	HELD(ring, buff_take_returned(&store, ring));
}

/* ---- handing out ---------------------------------------------------------------------------- */

static void test_a_buffer_shows_its_packet(void **state)
{
	struct buff *buff = give(&here, 5, CHARGE);

	assert_ptr_equal(buff_at(&buff->pub), buff);
	assert_null(buff->pub.next);
	assert_ptr_equal(buff->pub.payload, frames[5] + 45);
	assert_int_equal(buff->pub.len, 6);
	assert_ptr_equal(buff->pkt, &pkts[5]);
	assert_ptr_equal(buff->store, &store);
	assert_ptr_equal(buff->ref.sk, here.ref.sk);
	assert_int_equal(buff->ref.gen, here.ref.gen);
	assert_int_equal(buff->charge, CHARGE);
	assert_int_equal(buff->refs, 1);
	assert_int_equal(count_free(), BLOCK - 1);
	assert_int_equal(buff_put(&buff->pub), 0);
	take_returned();
}

/* Each at once, and a second block when the first is given out. */
static void test_a_store_gets_blocks_of_buffers(void **state)
{
	struct buff *buffs[BLOCK + 1];

	for (unsigned i = 0; i <= BLOCK; i++) {
		HELD(ring, buffs[i] = buff_new(&store, here.ref, pkt(0), 0));
		assert_non_null(buffs[i]);
		assert_int_equal((uintptr_t)buffs[i] % 64, 0);
		for (unsigned j = 0; j < i; j++)
			assert_ptr_not_equal(buffs[i], buffs[j]);
	}
	assert_int_equal(buff_given_out, 2 * BLOCK);
	assert_int_equal(count_free(), BLOCK - 1);
	for (unsigned i = 0; i <= BLOCK; i++)
		buffs[i]->pkt = NULL; /* all had the same */
	for (unsigned i = 0; i <= BLOCK; i++)
		assert_int_equal(buff_put(&buffs[i]->pub), 0);
	take_returned();
	assert_int_equal(count_free(), 2 * BLOCK);
	assert_int_equal(count_given_back(), 0);
}

static bool names(uintptr_t at)
{
	return buff_is_at((const struct vma_buff_t *)at);
}

static void test_which_addresses_name_a_buffer(void **state)
{
	struct vma_buff_t *volatile bad = WORLD_BAD; /* the compiler does not know */
	uintptr_t base, size = sizeof(struct buff);

	assert_false(names((uintptr_t)buff_all)); /* none was given out */
	HELD(ring, assert_true(buff_store_extend(&store)));
	base = (uintptr_t)buff_all;
	for (uintptr_t i = 0; i < BLOCK; i++) {
		assert_true(names(base + i * size));
		for (uintptr_t in = 1; in < size; in++)
			assert_false(names(base + i * size + in));
	}
	assert_false(names(0));
	assert_false(names(base - size));
	assert_false(names(base - 1));
	assert_false(names(base + BLOCK * size)); /* of the next block */
	assert_false(names(base + BUFF_MAX * size));
	assert_false(names(UINTPTR_MAX));
	assert_false(names((uintptr_t)&store));
	/* What names none is not followed. */
	assert_int_equal(buff_get(bad), -EINVAL);
	assert_int_equal(buff_put(bad), -EINVAL);
	assert_int_equal(buff_get((void *)(base + 8)), -EINVAL);
	assert_int_equal(buff_put((void *)(base + 8)), -EINVAL);
}

/* The child of a fork starts anew: what its parent gave out names nothing, also when it is used again. */
static void test_a_child_has_none_of_its_parents(void **state)
{
	struct buff *buff = give(&here, 0, 0);
	const struct vma_buff_t *pub = &buff->pub;

	assert_int_equal(buff_get(pub), 2);
	buff_fork_child();
	assert_int_equal(buff_get(pub), -EINVAL);
	assert_int_equal(buff_put(pub), -EINVAL);
	buff_store_init(&store, ring->id);
	HELD(ring, assert_true(buff_store_extend(&store)));
	assert_true(buff_is_at(pub));
	assert_int_equal(buff_get(pub), -EINVAL);
	assert_int_equal(buff_put(pub), -EINVAL);
	assert_false(buff_has_returned(&store));
}

/* ---- references ----------------------------------------------------------------------------- */

static void test_the_last_put_returns_it(void **state)
{
	struct buff *buff = give(&here, 0, CHARGE);
	const struct vma_buff_t *pub = &buff->pub;

	assert_int_equal(buff_get(pub), 2);
	assert_int_equal(buff_get(pub), 3);
	assert_int_equal(buff_put(pub), 2);
	assert_int_equal(buff_put(pub), 1);
	assert_false(buff_has_returned(&store));
	take_returned();
	assert_int_equal(count_given_back(), 0);
	assert_int_equal(buff_put(pub), 0);
	assert_true(buff_has_returned(&store));
	assert_int_equal(store.n_returned, 1);
	assert_int_equal(buff_put(pub), -EINVAL);
	assert_int_equal(buff_get(pub), -EINVAL);
	take_returned();
	assert_false(buff_has_returned(&store));
	assert_int_equal(count_given_back(), 1);
	assert_int_equal(charged(&here), 0);
	assert_int_equal(buff_put(pub), -EINVAL);
	assert_int_equal(buff_get(pub), -EINVAL);
	take_returned();
	assert_int_equal(count_given_back(), 1);
}

/* By the way of many references, too. */
static void test_the_last_of_many_returns_it(void **state)
{
	struct buff *buff = give(&here, 0, CHARGE);

	assert_int_equal(buff_get(&buff->pub), 2);
	assert_int_equal(buff_put_one_of_many(buff), 1);
	assert_false(buff_has_returned(&store));
	assert_int_equal(buff_put_one_of_many(buff), 0);
	assert_true(buff_has_returned(&store));
	assert_int_equal(buff_put_one_of_many(buff), -EINVAL);
	take_returned();
	assert_int_equal(count_given_back(), 1);
}

static void test_references_do_not_overflow(void **state)
{
	struct buff *buff = give(&here, 0, 0);

	buff->refs = INT32_MAX - 1;
	assert_int_equal(buff_get(&buff->pub), INT32_MAX);
	assert_int_equal(buff_get(&buff->pub), -EINVAL);
	assert_int_equal(buff->refs, INT32_MAX);
	assert_int_equal(buff_put(&buff->pub), INT32_MAX - 1);
	buff->refs = 1;
	assert_int_equal(buff_put(&buff->pub), 0);
	take_returned();
}

/* ---- back ------------------------------------------------------------------------------------- */

static void test_what_was_charged_goes_back_to_the_socket(void **state)
{
	struct buff *buffs[3];

	HELD(ring, tsock_inet(&here)->udp.bytes += 7); /* of a datagram in its queue */
	for (unsigned i = 0; i < 3; i++)
		buffs[i] = give(&here, i, CHARGE << i);
	buff_charge(&buffs[1]->pub, CHARGE * 2 + 1);
	HELD(ring, tsock_inet(&here)->udp.bytes++);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(buff_put(&buffs[i]->pub), 0);
	take_returned();
	assert_int_equal(charged(&here), 7 + (CHARGE << 2));
	assert_int_equal(buff_put(&buffs[2]->pub), 0);
	take_returned();
	assert_int_equal(charged(&here), 7);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(given_back[i], 1);
	assert_int_equal(count_free(), BLOCK);
	assert_int_equal(store.n_returned, 0);
	HELD(ring, tsock_inet(&here)->udp.bytes -= 7);
}

/* A packet that went back by another way, before the buffer did. */
static void test_a_buffer_without_a_packet_is_charged_to_nobody(void **state)
{
	struct buff *gone = give(&here, 0, CHARGE), *old;
	struct tsock closed = udp_on(1);

	gone->pkt = NULL;
	assert_int_equal(buff_put(&gone->pub), 0);
	take_returned();
	assert_int_equal(charged(&here), CHARGE);
	old = give(&closed, 1, CHARGE);
	old->pkt = NULL;
	tsock_close(&closed);
	assert_int_equal(buff_put(&old->pub), 0);
	take_returned();
	assert_int_equal(count_given_back(), 0);
	assert_int_equal(count_free(), BLOCK);
	HELD(ring, tsock_inet(&here)->udp.bytes -= CHARGE);
}

/* Of several sockets in turn, one of which has ended; another uses its object. */
static void test_buffers_of_several_sockets_come_back_together(void **state)
{
	struct tsock second = udp_on(1), closed = udp_on(1), again;
	const struct tsock *of[] = {&here, &second, &here, &here, &closed, &closed, &second};
	struct buff *buffs[7];

	for (unsigned i = 0; i < 7; i++)
		buffs[i] = give(of[i], i, CHARGE + i);
	tsock_close(&closed);
	again = udp_on(1);
	HELD(tsock_home(&again), tsock_inet(&again)->udp.bytes = 5);
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(buff_put(&buffs[i]->pub), 0);
	take_returned();
	assert_int_equal(charged(&here), 0);
	assert_int_equal(charged(&second), 0);
	assert_int_equal(charged(&again), 5);
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(given_back[i], 1);
	assert_int_equal(count_free(), BLOCK);
	HELD(tsock_home(&again), tsock_inet(&again)->udp.bytes = 0);
	tsock_close(&again);
	tsock_close(&second);
}

static void set_gen(const struct tsock *ts, uint32_t gen)
{
	__atomic_store_n(&ts->ref.sk->gen, gen, __ATOMIC_RELEASE);
}

/* What the object of the socket was before is nobody, whichever comes first. */
static void test_a_former_socket_of_the_object_is_charged_nothing(void **state)
{
	for (unsigned old = 0; old < 2; old++) {
		struct buff *buffs[2];

		for (unsigned i = 0; i < 2; i++) {
			given_back[i] = 0;
			buffs[i] = give(&here, i, CHARGE);
		}
		buffs[old]->ref.gen--;
		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(buff_put(&buffs[i]->pub), 0);
		take_returned();
		assert_int_equal(charged(&here), CHARGE);
		assert_int_equal(given_back[0] + given_back[1], 2);
		HELD(ring, tsock_inet(&here)->udp.bytes = 0);
	}
}

/* Two objects in the same life. */
static void test_two_sockets_of_one_generation(void **state)
{
	struct tsock second = udp_on(1);
	uint32_t was = second.ref.gen;
	struct buff *buffs[4];

	WORLD_LOCKED({ /* nobody else looks at the socket */
		       set_gen(&second, here.ref.gen);
		       second.ref.gen = here.ref.gen;
		       for (unsigned i = 0; i < 4; i++)
			       buffs[i] = give(i % 2 ? &here : &second, i, CHARGE << i);
		       for (unsigned i = 0; i < 4; i++)
			       assert_int_equal(buff_put(&buffs[i]->pub), 0);
		       take_returned();
		       set_gen(&second, was);
		       second.ref.gen = was;
	});
	assert_int_equal(charged(&here), 0);
	assert_int_equal(charged(&second), 0);
	tsock_close(&second);
}

/* Each to the store that it is of. */
static void test_two_rings_have_stores_of_their_own(void **state)
{
	static struct buff_store second;
	struct buff *first = give(&here, 0, 0), *buff;
	unsigned n = 0;

	buff_store_init(&second, other->id);
	HELD(other, buff = buff_new(&second, elsewhere.ref, pkt(1), 0));
	assert_int_equal(buff_put(&buff->pub), 0);
	assert_false(buff_has_returned(&store));
	HELD(other, buff_take_returned(&second, other));
	assert_int_equal(given_back[1], 1);
	HELD(other, for (struct buff *b = second.free; b; b = b->next) n++);
	assert_int_equal(n, BLOCK);
	assert_int_equal(count_free(), BLOCK - 1);
	assert_int_equal(buff_put(&first->pub), 0);
	take_returned();
	assert_int_equal(count_free(), BLOCK);
}

static bool listener_is_done(void)
{
	return count_given_back() == 1 && !__atomic_load_n(&store.posted, __ATOMIC_RELAXED);
}

/* Nothing is charged to a kind that does not count. */
static void test_a_listener_is_not_charged(void **state)
{
	struct tsock listener = tsock_tcp();
	struct buff *buff;

	assert_int_equal(tsock_set_logic(&listener, RING_LOGIC_USER_ID, 1, true, true), 0);
	assert_int_equal(tsock_bind(&listener, fake_link_addr(0), world_port()), 0);
	assert_int_equal(tsock_listen(&listener, 1), 0);
	assert_null(sock_kind_of(tsock_inet(&listener))->held_freed);
	HELD(ring, buff = buff_new(&store, listener.ref, pkt(0), CHARGE));
	assert_int_equal(buff_put(&buff->pub), 0);
	take_returned();
	assert_true(NET_WAIT(listener_is_done(), WORLD_WAIT));
	tsock_close(&listener);
}

/* ---- sockets that live elsewhere ------------------------------------------------------------ */

/* Another thread, which holds a ring until it is told to let it go. */
struct other_holder {
	struct ring *ring;
	pthread_barrier_t holds, lets_go;
	pthread_t thread;
};

static void *hold_it(void *arg)
{
	struct other_holder *h = arg;

	if (!ring_hold_cold(h->ring))
		abort();
	pthread_barrier_wait(&h->holds);
	pthread_barrier_wait(&h->lets_go);
	ring_release_cold(h->ring);
	return NULL;
}

static void hold_elsewhere(struct other_holder *h, struct ring *of)
{
	h->ring = of;
	pthread_barrier_init(&h->holds, NULL, 2);
	pthread_barrier_init(&h->lets_go, NULL, 2);
	assert_int_equal(pthread_create(&h->thread, NULL, hold_it, h), 0);
	pthread_barrier_wait(&h->holds);
}

static void let_go(struct other_holder *h)
{
	pthread_barrier_wait(&h->lets_go);
	pthread_join(h->thread, NULL);
}

/* It goes by the socket's home, and comes back to its store. */
static bool is_back(void)
{
	return count_free() == BLOCK;
}

/* Nothing is charged back, and no packet is freed, before the holder of the home does it. */
static void test_the_holder_of_the_home_charges_back(void **state)
{
	struct buff *buff = give(&elsewhere, 0, CHARGE), *local = give(&here, 1, CHARGE);
	struct other_holder h;

	hold_elsewhere(&h, other);
	assert_int_equal(buff_put(&buff->pub), 0);
	assert_int_equal(buff_put(&local->pub), 0);
	take_returned();
	assert_int_equal(charged(&here), 0);
	assert_int_equal(given_back[1], 1);
	assert_int_equal(given_back[0], 0);
	assert_int_equal(tsock_inet(&elsewhere)->udp.bytes, CHARGE);
	assert_int_equal(count_free(), BLOCK - 1);
	let_go(&h);
	assert_true(NET_WAIT(is_back(), WORLD_WAIT));
	assert_int_equal(charged(&elsewhere), 0);
	assert_int_equal(given_back[0], 1);
	assert_true(NET_WAIT(!__atomic_load_n(&store.posted, __ATOMIC_RELAXED), WORLD_WAIT));
}

/* The object is another socket's when the home is asked: that is charged nothing back. */
static void test_the_socket_ends_meanwhile(void **state)
{
	struct buff *buff = give(&elsewhere, 0, CHARGE);
	struct other_holder h;

	hold_elsewhere(&h, other);
	assert_int_equal(buff_put(&buff->pub), 0);
	WORLD_LOCKED({ /* nobody else looks at the socket */
		       take_returned();
		       assert_int_equal(given_back[0], 0);
		       set_gen(&elsewhere, elsewhere.ref.gen + 1);
		       let_go(&h);
		       HELD(other, {});
		       set_gen(&elsewhere, elsewhere.ref.gen);
	});
	assert_int_equal(charged(&elsewhere), CHARGE);
	assert_int_equal(given_back[0], 1);
	assert_true(NET_WAIT(is_back(), WORLD_WAIT));
	assert_int_equal(given_back[0], 1);
	HELD(other, tsock_inet(&elsewhere)->udp.bytes = 0);
}

static void move_to(const struct tsock *ts, struct ring *home)
{
	__atomic_store_n(&ts->ref.sk->home, home, __ATOMIC_RELEASE);
}

/* The socket has moved on when its home is asked: the next one is. */
static void test_the_socket_moves_meanwhile(void **state)
{
	struct tsock third = udp_on(3);
	struct ring *next = tsock_home(&third);
	struct buff *buff = give(&elsewhere, 0, CHARGE);
	struct other_holder h;

	hold_elsewhere(&h, other);
	assert_int_equal(buff_put(&buff->pub), 0);
	WORLD_LOCKED({ /* nobody else looks at the socket */
		       take_returned();
		       HELD(next, {
			       move_to(&elsewhere, next);
			       let_go(&h); /* it runs the item */
			       assert_int_equal(tsock_inet(&elsewhere)->udp.bytes, CHARGE);
			       assert_int_equal(given_back[0], 0);
		       });
		       HELD(next, {});
		       assert_int_equal(tsock_inet(&elsewhere)->udp.bytes, 0);
		       assert_int_equal(given_back[0], 1);
		       move_to(&elsewhere, other);
	});
	assert_true(NET_WAIT(is_back(), WORLD_WAIT));
	tsock_close(&third);
}

/* ---- without a poll ------------------------------------------------------------------------- */

static bool has_none_returned(void)
{
	return !buff_has_returned(&store) && !__atomic_load_n(&store.posted, __ATOMIC_RELAXED);
}

/* So many do not wait until the program polls the ring again. */
static void test_many_that_were_returned_go_back_at_once(void **state)
{
	struct buff *buffs[BUFF_MANY_RETURNED];

	for (unsigned i = 0; i < BUFF_MANY_RETURNED; i++)
		buffs[i] = give(&here, i, CHARGE);
	for (unsigned i = 1; i < BUFF_MANY_RETURNED; i++)
		assert_int_equal(buff_put(&buffs[i]->pub), 0);
	assert_false(__atomic_load_n(&store.posted, __ATOMIC_RELAXED));
	world_settle();
	assert_int_equal(count_given_back(), 0);
	assert_int_equal(buff_put(&buffs[0]->pub), 0);
	assert_true(NET_WAIT(has_none_returned(), WORLD_WAIT));
	assert_int_equal(count_given_back(), BUFF_MANY_RETURNED);
	assert_int_equal(charged(&here), 0);
	/* They are counted anew. */
	for (unsigned i = 0; i < BUFF_MANY_RETURNED - 1; i++) {
		given_back[i] = 0;
		buffs[i] = give(&here, i, CHARGE);
	}
	for (unsigned i = 0; i < BUFF_MANY_RETURNED - 1; i++)
		assert_int_equal(buff_put(&buffs[i]->pub), 0);
	world_settle();
	assert_true(buff_has_returned(&store));
	take_returned();
}

/* One item is in the inbox at a time, and takes what was returned since it was posted, too. */
static void test_one_item_is_posted(void **state)
{
	struct buff *first = give(&here, 0, CHARGE), *second = give(&here, 1, CHARGE);

	HELD(ring, {
		assert_int_equal(buff_put(&first->pub), 0);
		buff_store_post(&store);
		buff_store_post(&store);
		assert_true(store.posted);
		assert_int_equal(buff_put(&second->pub), 0);
		assert_int_equal(count_given_back(), 0);
	});
	assert_true(NET_WAIT(has_none_returned(), WORLD_WAIT));
	assert_int_equal(count_given_back(), 2);
	assert_int_equal(charged(&here), 0);
	/* And another one later. */
	given_back[0] = 0;
	first = give(&here, 0, CHARGE);
	assert_int_equal(buff_put(&first->pub), 0);
	buff_store_post(&store);
	assert_true(NET_WAIT(has_none_returned(), WORLD_WAIT));
	assert_int_equal(count_given_back(), 3);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, finish)

static const struct CMUnitTest tests[] = {
	CASE(test_a_buffer_shows_its_packet),
	CASE(test_a_store_gets_blocks_of_buffers),
	CASE(test_which_addresses_name_a_buffer),
	CASE(test_a_child_has_none_of_its_parents),
	CASE(test_the_last_put_returns_it),
	CASE(test_the_last_of_many_returns_it),
	CASE(test_references_do_not_overflow),
	CASE(test_what_was_charged_goes_back_to_the_socket),
	CASE(test_a_buffer_without_a_packet_is_charged_to_nobody),
	CASE(test_buffers_of_several_sockets_come_back_together),
	CASE(test_a_former_socket_of_the_object_is_charged_nothing),
	CASE(test_two_sockets_of_one_generation),
	CASE(test_two_rings_have_stores_of_their_own),
	CASE(test_a_listener_is_not_charged),
	CASE(test_the_holder_of_the_home_charges_back),
	CASE(test_the_socket_ends_meanwhile),
	CASE(test_the_socket_moves_meanwhile),
	CASE(test_many_that_were_returned_go_back_at_once),
	CASE(test_one_item_is_posted),
};

VMA_TEST_MAIN("sock/buff", tests, world_start, world_finish)
