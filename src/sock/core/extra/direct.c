/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/extra/direct.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/image/sections.h"
#include "ring/rings.h"

/* A socket that keeps a direct ring, or has memory for one. */
struct keeper {
	struct list link;
	struct sock_ref ref;
	struct iovec memory; /* of SO_VMA_RING_USER_MEMORY; of a ring: what was registered for it */
};

/* control lock, but life */
static struct slot {
	struct direct *direct; /* NULL: none */
	int ifindex;
	uint64_t key;
	uint32_t life; /* atomic: any reads; 0: none */
	struct list keepers;
} slots[DIRECT_MAX];

static const struct direct_kind *kind EARLY_DATA;
static uint32_t last_life;   /* control lock */
static unsigned in_use;	     /* control lock: slots, and sockets with memory */
static struct list memories; /* control lock: of struct keeper */
static bool known_available; /* any, atomic */

EARLY_CODE void direct_init(const struct direct_kind *new_kind)
{
	kind = new_kind;
	list_init(&memories);
}

bool direct_available(void)
{
	bool is = __atomic_load_n(&known_available, __ATOMIC_RELAXED);

	if (is || !kind || !control_lock())
		return is;
	is = kind->available();
	control_unlock();
	__atomic_store_n(&known_available, is, __ATOMIC_RELAXED);
	return is;
}

/* ---- regions (control lock) ---------------------------------------------------------------- */

static struct direct_region *find_region(struct slot *s, const void *addr, size_t len)
{
	list_for_each(link, &s->direct->regions) {
		struct direct_region *r = container_of(link, struct direct_region, link);

		if (r->addr == addr && r->len == len)
			return r;
	}
	return NULL;
}

static int region_get(struct slot *s, void *addr, size_t len, uint32_t *key)
{
	struct direct_region *r = find_region(s, addr, len);
	uintptr_t end;
	int rc;

	if (r) {
		r->count++;
		*key = r->key;
		return 0;
	}
	if (!len || __builtin_add_overflow((uintptr_t)addr, len, &end))
		return -EINVAL;
	r = mem_zalloc(sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->addr = addr;
	r->len = len;
	r->count = 1;
	rc = s->direct->ops->region_add(s->direct, r);
	if (rc) {
		mem_free(r);
		return rc;
	}
	*key = r->key;
	list_push_back(&s->direct->regions, &r->link);
	return 0;
}

static int region_put(struct slot *s, const void *addr, size_t len)
{
	struct direct_region *r = find_region(s, addr, len);
	int rc;

	if (!r)
		return -ENOENT;
	if (r->count > 1) {
		r->count--;
		return 0;
	}
	rc = s->direct->ops->region_del(s->direct, r);
	if (rc)
		return rc;
	list_remove(&r->link);
	mem_free(r);
	return 0;
}

/* ---- sockets that keep rings (control lock) ------------------------------------------------- */

static struct keeper *find_keeper(struct list *in, struct sock_ref ref)
{
	list_for_each(link, in) {
		struct keeper *k = container_of(link, struct keeper, link);

		if (k->ref.sk == ref.sk && k->ref.gen == ref.gen)
			return k;
	}
	return NULL;
}

static struct keeper *make_keeper(struct list *in, struct sock_ref ref)
{
	struct keeper *k = find_keeper(in, ref);

	if (k)
		return k;
	k = mem_zalloc(sizeof(*k));
	if (!k)
		return NULL;
	k->ref = ref;
	list_push_back(in, &k->link);
	return k;
}

static void drop_keeper(struct keeper *k)
{
	list_remove(&k->link);
	mem_free(k);
}

/* The memory of the socket is registered, once, unless that has been done. */
static int bring_memory(struct slot *s, struct keeper *k)
{
	const struct keeper *has = find_keeper(&memories, k->ref);
	uint32_t key;
	int rc;

	if (!has || (k->memory.iov_base == has->memory.iov_base &&
		     k->memory.iov_len == has->memory.iov_len))
		return 0;
	rc = region_get(s, has->memory.iov_base, has->memory.iov_len, &key);
	if (rc) {
		log_debug("SO_VMA_RING_USER_MEMORY: %p, %zu bytes: %s", has->memory.iov_base,
			  has->memory.iov_len, strerrordesc_np(-rc));
		return rc;
	}
	if (k->memory.iov_len)
		region_put(s, k->memory.iov_base, k->memory.iov_len);
	k->memory = has->memory;
	return 0;
}

/* ---- rings (control lock) ------------------------------------------------------------------- */

static unsigned number_of(const struct slot *s)
{
	return SOCK_RING_NUMBERS + (unsigned)(s - slots);
}

/* NULL: it has ended. */
static struct slot *slot_of(struct direct_id id)
{
	return id.life && direct_life(id.number) == id.life ? &slots[id.number - SOCK_RING_NUMBERS]
							    : NULL;
}

uint32_t direct_life(unsigned number)
{
	if (number < SOCK_RING_NUMBERS || number >= SOCK_RING_NUMBERS + DIRECT_MAX)
		return 0;
	return __atomic_load_n(&slots[number - SOCK_RING_NUMBERS].life, __ATOMIC_RELAXED);
}

static void end(struct slot *s)
{
	log_debug("direct ring %u ends", number_of(s));
	__atomic_store_n(&s->life, 0, __ATOMIC_RELAXED);
	s->direct->ops->close(s->direct);
	s->direct = NULL;
	while (!list_empty(&s->keepers))
		drop_keeper(container_of(s->keepers.next, struct keeper, link));
	in_use--;
}

static struct slot *find_slot(int ifindex, uint64_t key)
{
	for (unsigned i = 0; i < DIRECT_MAX; i++) {
		if (slots[i].direct && slots[i].ifindex == ifindex && slots[i].key == key)
			return &slots[i];
	}
	return NULL;
}

static int open_slot(int ifindex, uint64_t key, struct slot **out)
{
	char why[PORT_WHY] = "";
	struct slot *s = slots;
	int rc;

	while (s < slots + DIRECT_MAX && s->direct)
		s++;
	if (s == slots + DIRECT_MAX)
		return -ENOSPC;
	rc = kind ? kind->open(ifindex, &s->direct, why) : -ENODEV;
	if (rc) {
		s->direct = NULL;
		if (rc == -ENODEV)
			rc = -EOPNOTSUPP;
		log_warn_once("get_socket_tx_ring_fd(): no direct ring (%s).  %s",
			      strerrordesc_np(-rc),
			      why[0] ? why : "The interface is not one of a card's.");
		return rc;
	}
	s->ifindex = ifindex;
	s->key = key;
	list_init(&s->keepers);
	if (!++last_life)
		last_life = 1;
	__atomic_store_n(&s->life, last_life, __ATOMIC_RELAXED);
	in_use++;
	*out = s;
	return 0;
}

int direct_get(struct inet_sock *so, const struct ring *ring)
{
	uint64_t key = ring_key(&so->opt->alloc_tx, &so->local.addr, so->id);
	int ifindex = ring_interface(ring), rc = 0;
	struct slot *s = find_slot(ifindex, key);
	struct keeper *k;

	control_assert_held();
	if (!s)
		rc = open_slot(ifindex, key, &s);
	if (rc)
		return rc;
	k = make_keeper(&s->keepers, sock_ref_of(so));
	rc = k ? bring_memory(s, k) : -ENOMEM;
	if (!rc)
		return (int)number_of(s);
	if (k && !k->memory.iov_len)
		drop_keeper(k);
	if (list_empty(&s->keepers))
		end(s);
	return rc;
}

int direct_set_memory(struct inet_sock *so, const struct iovec *memory)
{
	uintptr_t end_of_it;
	struct keeper *k;

	control_assert_held();
	if (!memory->iov_base || !memory->iov_len ||
	    __builtin_add_overflow((uintptr_t)memory->iov_base, memory->iov_len, &end_of_it))
		return -EINVAL;
	if (!kind || !kind->available()) {
		log_warn_once("SO_VMA_RING_USER_MEMORY: this host has no card for direct rings; "
			      "EOPNOTSUPP");
		return -EOPNOTSUPP;
	}
	k = find_keeper(&memories, sock_ref_of(so));
	if (!k) {
		k = make_keeper(&memories, sock_ref_of(so));
		if (!k)
			return -ENOMEM;
		in_use++;
	}
	k->memory = *memory;
	return 0;
}

/* Forgets sockets that are closed. */
static void sweep(struct list *keepers)
{
	for (struct list *link = keepers->next, *next; link != keepers; link = next) {
		struct keeper *k = container_of(link, struct keeper, link);

		next = link->next;
		if (sock_ref_valid(k->ref))
			continue;
		if (keepers == &memories)
			in_use--;
		drop_keeper(k);
	}
}

void direct_run(void)
{
	control_assert_held();
	if (!in_use)
		return;
	sweep(&memories);
	for (unsigned i = 0; i < DIRECT_MAX; i++) {
		if (!slots[i].direct)
			continue;
		sweep(&slots[i].keepers);
		if (list_empty(&slots[i].keepers))
			end(&slots[i]);
	}
}

/* The queues are the parent's. */
void direct_fork_child(void)
{
	memset(slots, 0, sizeof(slots));
	list_init(&memories);
	in_use = 0;
}

/* ---- for programs (app) ---------------------------------------------------------------------- */

int direct_fd(struct direct_id id)
{
	struct slot *s;
	int fd;

	if (!control_lock())
		return -EAGAIN;
	s = slot_of(id);
	fd = s ? s->direct->fd : -ENODEV;
	control_unlock();
	return fd;
}

static void describe(struct vma_mlx_hw_device_data *data, const struct direct_view *view)
{
	*data = (struct vma_mlx_hw_device_data){
		.valid_mask = 1u << DATA_VALID_DEV | 1u << DATA_VALID_SQ,
		.dev_data = {.vendor_id = view->vendor,
			     .vendor_part_id = view->part,
			     .device_cap = view->paces ? VMA_HW_PP_EN : 0},
		.sq_data.sq_num = view->sq.number,
		.sq_data.bf = {.reg = view->sq.reg, .size = view->sq.half},
		.sq_data.wq_data = {.buf = view->sq.buf,
				    .wqe_cnt = view->sq.n,
				    .stride = view->sq.stride,
				    .dbrec = view->sq.record,
				    .cq_data = {.buf = view->cq.buf,
						.dbrec = view->cq.record,
						.cq_size = view->cq.n,
						.cqe_size = view->cq.size,
						.cqn = view->cq.number,
						.uar = view->cq.page,
						.cons_idx = view->cq.consumed}},
	};
}

int direct_describe(struct direct_id id, struct vma_mlx_hw_device_data *data)
{
	struct direct_view view;
	struct slot *s;

	if (!control_lock())
		return -EAGAIN;
	s = slot_of(id);
	if (s)
		s->direct->ops->view(s->direct, &view);
	control_unlock();
	if (!s)
		return -ENODEV;
	describe(data, &view);
	return 0;
}

int direct_register(struct direct_id id, void *addr, size_t len, uint32_t *key)
{
	struct slot *s;
	int rc;

	if (!control_lock())
		return -EAGAIN;
	s = slot_of(id);
	rc = s ? region_get(s, addr, len, key) : -ENODEV;
	control_unlock();
	return rc;
}

int direct_deregister(struct direct_id id, void *addr, size_t len)
{
	struct slot *s;
	int rc;

	if (!control_lock())
		return -EAGAIN;
	s = slot_of(id);
	rc = s ? region_put(s, addr, len) : -ENODEV;
	control_unlock();
	return rc;
}

/* ---- settings ------------------------------------------------------------------------------- */

static int moderate_ring(unsigned number, uint16_t frames, uint16_t usec)
{
	struct ring *ring = number < rings_count() ? rings_at(number) : NULL;
	int rc = -ENODEV;

	if (!ring || !ring_hold_cold(ring))
		return ring ? -EAGAIN : -ENODEV;
	if (ring_is_open(ring))
		rc = ring->ops->moderate(ring->q, frames, usec);
	ring_release_cold(ring);
	if (rc == -EOPNOTSUPP)
		log_warn_once("vma_modify_ring(): the port of the ring does not moderate "
			      "interrupts; EOPNOTSUPP");
	return rc;
}

static int moderate(struct direct_id id, const struct vma_cq_moderation_attr *to)
{
	uint32_t count = to->cq_moderation_count, usec = to->cq_moderation_period_usec;
	struct direct *direct;

	if (count > UINT16_MAX || usec > UINT16_MAX)
		return -EINVAL;
	if (!count || !usec)
		count = usec = 0;
	if (!id.life)
		return moderate_ring(id.number, (uint16_t)count, (uint16_t)usec);
	direct = slot_of(id)->direct;
	return direct->ops->moderate(direct, (uint16_t)count, (uint16_t)usec);
}

/* Control lock. */
static int modify(struct direct_id id, const struct vma_modify_ring_attr *attr)
{
	int rc = 0;

	control_assert_held();
	if (id.life && !slot_of(id))
		return -ENODEV;
	if (attr->comp_bit_mask & VMA_MODIFY_RING_CQ_MODERATION)
		rc = moderate(id, &attr->cq_moderation);
	if (!rc && attr->comp_bit_mask & VMA_MODIFY_RING_CQ_ARM && id.life)
		rc = slot_of(id)->direct->ops->arm(slot_of(id)->direct);
	return rc;
}

int direct_modify(struct direct_id id, const struct vma_modify_ring_attr *attr)
{
	const uint32_t known = VMA_MODIFY_RING_CQ_MODERATION | VMA_MODIFY_RING_CQ_ARM;
	int rc;

	if (!attr->comp_bit_mask || attr->comp_bit_mask & ~known)
		return -EINVAL;
	if (!control_lock())
		return -EAGAIN;
	rc = modify(id, attr);
	control_unlock();
	return rc;
}
