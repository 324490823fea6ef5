/* SPDX-License-Identifier: BSD-2-Clause */
/* The registry of direct rings, over a card that records what it is asked. */
#include "sock/core/extra/direct.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "sock/core/control.h"
#include "vma_test.h"

/* ---- the card -------------------------------------------------------------------------------- */

static struct card {
	bool absent;
	int open_rc, add_rc, del_rc;
	unsigned opened, closed, regions, armed;
	unsigned count, usec;
	uint32_t next_key;
} card;

static struct direct made[DIRECT_MAX + 8];

static int card_arm(struct direct *direct)
{
	card.armed++;
	return 0;
}

static void card_close(struct direct *direct)
{
	struct list *link;

	card.closed++;
	while ((link = list_pop_front(&direct->regions))) {
		mem_free(container_of(link, struct direct_region, link));
		card.regions--;
	}
}

static int card_moderate(struct direct *direct, uint16_t count, uint16_t usec)
{
	card.count = count;
	card.usec = usec;
	return 0;
}

static int card_add(struct direct *direct, struct direct_region *region)
{
	if (card.add_rc)
		return card.add_rc;
	assert_true(region->addr && region->len && !region->key);
	card.regions++;
	region->handle = &card;
	region->key = ++card.next_key;
	return 0;
}

static int card_del(struct direct *direct, const struct direct_region *region)
{
	assert_ptr_equal(region->handle, &card);
	if (!card.del_rc)
		card.regions--;
	return card.del_rc;
}

static void card_view(struct direct *direct, struct direct_view *view)
{
	*view = (struct direct_view){.vendor = 1, .paces = true, .sq = {.number = 9}};
}

static const struct direct_ops ops = {
	.arm = card_arm,
	.close = card_close,
	.moderate = card_moderate,
	.region_add = card_add,
	.region_del = card_del,
	.view = card_view,
};

static bool card_available(void)
{
	return !card.absent;
}

static int card_open(int ifindex, struct direct **direct, char why[PORT_WHY])
{
	if (card.open_rc)
		return card.open_rc;
	*direct = &made[card.opened % (DIRECT_MAX + 8)];
	(*direct)->ops = &ops;
	list_init(&(*direct)->regions);
	(*direct)->fd = 1000 + (int)card.opened++;
	return 0;
}

static const struct direct_kind kind = {.available = card_available, .open = card_open};

/* ---- sockets --------------------------------------------------------------------------------- */

static struct sock_options opt = {.alloc_tx = {.logic = RING_LOGIC_SOCKET, .direct = true}};
static struct inet_sock socks[DIRECT_MAX + 1];
static struct port port = {.ifindex = 3};
static struct port_queue queue = {.port = &port};
static struct ring ring = {.q = &queue};

static int setup(void **state)
{
	memset(&card, 0, sizeof(card));
	direct_fork_child();
	direct_init(&kind);
	opt.alloc_tx.logic = RING_LOGIC_SOCKET;
	for (unsigned i = 0; i <= DIRECT_MAX; i++) {
		socks[i].opt = &opt;
		socks[i].id = i;
	}
	return 0;
}

static int get(unsigned i)
{
	int rc;

	assert_true(control_lock());
	rc = direct_get(&socks[i], &ring);
	control_unlock();
	return rc;
}

static int give(unsigned i, void *base, size_t len)
{
	struct iovec iov = {base, len};
	int rc;

	assert_true(control_lock());
	rc = direct_set_memory(&socks[i], &iov);
	control_unlock();
	return rc;
}

static void run(void)
{
	assert_true(control_lock());
	direct_run();
	control_unlock();
}

static void close_sock(unsigned i)
{
	socks[i].sk.gen++;
	run();
}

static struct direct_id id_of(int number)
{
	assert_true(number >= SOCK_RING_NUMBERS);
	return (struct direct_id){(unsigned)number, direct_life((unsigned)number)};
}

static int modify(struct direct_id id, uint32_t mask, uint32_t count, uint32_t usec)
{
	struct vma_modify_ring_attr attr = {.comp_bit_mask = mask, .cq_moderation = {count, usec}};

	return direct_modify(id, &attr);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_sockets_of_one_key_share_a_ring(void **state)
{
	int one = get(0), two;

	assert_int_equal(get(0), one);
	two = get(1);
	assert_int_not_equal(one, two);
	opt.alloc_tx.logic = RING_LOGIC_INTERFACE;
	assert_int_equal(get(2), get(3));
	assert_int_equal(card.opened, 3);
	assert_int_equal(direct_fd(id_of(one)), 1000);
	assert_int_equal(direct_fd(id_of(two)), 1001);
}

static void test_a_ring_ends_with_its_last_socket(void **state)
{
	struct direct_id id, again;
	uint32_t key;

	opt.alloc_tx.logic = RING_LOGIC_INTERFACE;
	id = id_of(get(0));
	assert_int_equal(get(1), (int)id.number);
	close_sock(0);
	assert_int_equal(card.closed, 0);
	assert_int_equal(direct_register(id, &card, 8, &key), 0);
	assert_int_equal(card.regions, 1);
	close_sock(1);
	assert_int_equal(card.closed, 1);
	assert_int_equal(card.regions, 0);
	assert_int_equal(direct_life(id.number), 0);
	assert_int_equal(direct_fd(id), -ENODEV);
	assert_int_equal(direct_register(id, &card, 8, &key), -ENODEV);
	assert_int_equal(direct_deregister(id, &card, 8), -ENODEV);
	assert_int_equal(direct_describe(id, &(struct vma_mlx_hw_device_data){0}), -ENODEV);
	assert_int_equal(modify(id, VMA_MODIFY_RING_CQ_ARM, 0, 0), -ENODEV);
	/* The next one may have its number. */
	again = id_of(get(2));
	assert_int_equal(again.number, id.number);
	assert_int_not_equal(again.life, id.life);
	assert_int_equal(direct_fd(id), -ENODEV);
	assert_int_equal(direct_deregister(again, &card, 8), -ENOENT);
}

static void test_regions_are_counted(void **state)
{
	struct direct_id id = id_of(get(0));
	uint32_t one, two;
	char memory[64];

	assert_int_equal(direct_register(id, memory, 0, &one), -EINVAL);
	assert_int_equal(direct_register(id, memory, SIZE_MAX, &one), -EINVAL);
	assert_int_equal(direct_deregister(id, memory, 64), -ENOENT);
	assert_int_equal(direct_register(id, memory, 64, &one), 0);
	assert_int_equal(direct_register(id, memory, 64, &two), 0);
	assert_int_equal(one, two);
	assert_int_equal(direct_register(id, memory, 32, &two), 0);
	assert_int_not_equal(one, two);
	assert_int_equal(card.regions, 2);
	assert_int_equal(direct_deregister(id, memory, 64), 0);
	assert_int_equal(card.regions, 2);
	card.del_rc = -EBUSY;
	assert_int_equal(direct_deregister(id, memory, 64), -EBUSY);
	card.del_rc = 0;
	assert_int_equal(direct_deregister(id, memory, 64), 0);
	assert_int_equal(card.regions, 1);
	assert_int_equal(direct_deregister(id, memory, 64), -ENOENT);
	card.add_rc = -EFAULT;
	assert_int_equal(direct_register(id, memory, 64, &one), -EFAULT);
	assert_int_equal(direct_deregister(id, memory, 64), -ENOENT);
}

static void test_memory_of_a_socket_is_registered(void **state)
{
	char memory[64], other[64];
	struct direct_id id;
	uint32_t key;

	assert_int_equal(give(0, NULL, 64), -EINVAL);
	assert_int_equal(give(0, memory, 0), -EINVAL);
	assert_int_equal(give(0, memory, SIZE_MAX), -EINVAL);
	assert_int_equal(give(0, memory, 64), 0);
	card.add_rc = -ENOMEM;
	assert_int_equal(get(0), -ENOMEM);
	assert_int_equal(card.closed, 1); /* it was opened in vain */
	card.add_rc = 0;
	id = id_of(get(0));
	assert_int_equal(card.regions, 1);
	assert_int_equal(direct_register(id, memory, 64, &key), 0);
	assert_int_equal(key, 1);
	assert_int_equal(get(0), (int)id.number); /* not again */
	assert_int_equal(direct_deregister(id, memory, 64), 0);
	assert_int_equal(card.regions, 1);
	assert_int_equal(give(0, other, 64), 0);
	assert_int_equal(get(0), (int)id.number); /* instead of the first one */
	assert_int_equal(card.regions, 1);
	assert_int_equal(direct_deregister(id, memory, 64), -ENOENT);
	close_sock(0);
	card.absent = true;
	assert_int_equal(give(1, memory, 64), -EOPNOTSUPP);
}

static void test_settings(void **state)
{
	const uint32_t moderate = VMA_MODIFY_RING_CQ_MODERATION, arm = VMA_MODIFY_RING_CQ_ARM;
	struct direct_id id = id_of(get(0)), none = {.number = 5};

	assert_int_equal(modify(id, 0, 1, 1), -EINVAL);
	assert_int_equal(modify(id, 4 | moderate, 1, 1), -EINVAL);
	assert_int_equal(modify(id, moderate, 65536, 1), -EINVAL);
	assert_int_equal(modify(id, moderate, 1, 65536), -EINVAL);
	assert_int_equal(modify(id, moderate, 65535, 2), 0);
	assert_int_equal(card.count, 65535);
	assert_int_equal(card.usec, 2);
	assert_int_equal(card.armed, 0);
	assert_int_equal(modify(id, moderate | arm, 7, 0), 0); /* one alone means nothing */
	assert_int_equal(card.count, 0);
	assert_int_equal(card.usec, 0);
	assert_int_equal(card.armed, 1);
	assert_int_equal(modify(none, moderate, 1, 1), -ENODEV); /* no ring has the number */
	assert_int_equal(modify(none, arm, 0, 0), 0);
}

static void test_there_is_an_end_of_slots(void **state)
{
	for (unsigned i = 0; i < DIRECT_MAX; i++)
		id_of(get(i));
	assert_int_equal(get(DIRECT_MAX), -ENOSPC);
	close_sock(3);
	id_of(get(DIRECT_MAX));
}

static void test_a_card_that_refuses(void **state)
{
	struct vma_mlx_hw_device_data data;

	card.open_rc = -ENODEV;
	assert_int_equal(get(0), -EOPNOTSUPP);
	card.open_rc = -EPERM;
	assert_int_equal(get(0), -EPERM);
	card.open_rc = 0;
	assert_int_equal(direct_describe(id_of(get(0)), &data), 0);
	assert_int_equal(data.valid_mask, 3);
	assert_int_equal(data.dev_data.device_cap, VMA_HW_PP_EN);
	assert_int_equal(data.sq_data.sq_num, 9);
	direct_init(NULL);
	assert_int_equal(get(1), -EOPNOTSUPP);
	assert_int_equal(direct_life(0), 0);
	assert_int_equal(direct_life(UINT32_MAX), 0);
}

/* All sockets are closed: nothing is left. */
static int teardown(void **state)
{
	for (unsigned i = 0; i <= DIRECT_MAX; i++)
		socks[i].sk.gen += 2;
	run();
	return 0;
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_sockets_of_one_key_share_a_ring),
	TEST(test_a_ring_ends_with_its_last_socket),
	TEST(test_regions_are_counted),
	TEST(test_memory_of_a_socket_is_registered),
	TEST(test_settings),
	TEST(test_there_is_an_end_of_slots),
	TEST(test_a_card_that_refuses),
};

VMA_TEST_MAIN("direct", tests, NULL, NULL)
