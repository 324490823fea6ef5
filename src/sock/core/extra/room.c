/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/extra/room.h"

#include <errno.h>

#include "base/delay.h"
#include "base/mem.h"
#include "sock/core/kind.h"
#include "sock/core/msg/family.h"

#define WORDS (VMA_ROOM_MAX / 64)
#define COPY_MAX 9216u /* bytes in ordinary memory */
#define FRAME_SHARE 8u /* of a ring's frames, one in so many may be in rooms */

static struct room *rooms;		   /* any, atomic; VMA_ROOM_MAX of them, made once */
static uint64_t used[WORDS];		   /* any, atomic: a bit for each slot */
static uint32_t frames[SOCK_RING_NUMBERS]; /* any, atomic: frames of each ring that are in rooms */

/* ---- slots ------------------------------------------------------------------------------ */

/* NULL: no memory.  Of several threads that make them, one does. */
static struct room *all_rooms(void)
{
	/* acquire: pairs with the exchange below */
	struct room *had = __atomic_load_n(&rooms, __ATOMIC_ACQUIRE), *made;

	if (had)
		return had;
	made = mem_zalloc(VMA_ROOM_MAX * sizeof(*made));
	for (uint32_t i = 0; made && i < VMA_ROOM_MAX; i++)
		made[i].index = i;
	/* release: pairs with the load above */
	if (!made || __atomic_compare_exchange_n(&rooms, &had, made, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_ACQUIRE))
		return made;
	mem_free(made);
	return had;
}

static struct room *take_slot(struct room *all)
{
	for (unsigned i = 0; i < WORDS; i++) {
		uint64_t now = __atomic_load_n(&used[i], __ATOMIC_RELAXED);

		while (~now) {
			uint64_t bit = ~now & (now + 1);

			/* acquire: pairs with put_slot() */
			if (__atomic_compare_exchange_n(&used[i], &now, now | bit, true,
							__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return &all[i * 64 + (unsigned)__builtin_ctzll(bit)];
		}
	}
	return NULL;
}

static void put_slot(const struct room *room)
{
	/* release: pairs with take_slot() */
	__atomic_fetch_and(&used[room->index / 64], ~(1ull << room->index % 64), __ATOMIC_RELEASE);
}

unsigned room_count(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < WORDS; i++)
		n += (unsigned)__builtin_popcountll(__atomic_load_n(&used[i], __ATOMIC_RELAXED));
	return n;
}

void rooms_fork_child(void)
{
	rooms = NULL; /* other threads of the parent may have been there */
	memset(used, 0, sizeof(used));
	memset(frames, 0, sizeof(frames));
}

/* ---- memory ------------------------------------------------------------------------------- */

/* holder: a frame for a room.  NULL: the ring must keep what it has. */
static struct pkt *frame_of(struct ring *ring)
{
	struct pkt *pkt;

	if (ring->id >= SOCK_RING_NUMBERS || !ring->q || ring_is_short(ring))
		return NULL;
	if (__atomic_load_n(&frames[ring->id], __ATOMIC_RELAXED) >= ring->q->frames / FRAME_SHARE)
		return NULL;
	pkt = ring_tx_get(ring);
	if (pkt)
		__atomic_fetch_add(&frames[ring->id], 1, __ATOMIC_RELAXED);
	return pkt;
}

/* The frame is not the room's any more. */
static void forget_frame(struct room *room)
{
	if (room->ring)
		__atomic_fetch_sub(&frames[room->ring->id], 1, __ATOMIC_RELAXED);
	room->ring = NULL;
	room->pkt = NULL;
}

/* holder: a frame of the ring, if the socket can send it; how much a message may have in *most. */
static int take_frame(struct room *room, struct inet_sock *so, struct ring *ring, size_t *most)
{
	const struct sock_kind *kind = sock_kind_of(so);
	uint32_t header = 0;
	int rc;

	*most = COPY_MAX;
	if (!kind->room)
		return 0;
	rc = kind->room(so, &header, most);
	if (rc || !header)
		return rc;
	room->pkt = frame_of(ring);
	if (!room->pkt)
		return 0;
	room->ring = ring;
	room->at = header;
	if (*most > room->pkt->room - header)
		*most = room->pkt->room - header;
	return 0;
}

/* ---- reserving ---------------------------------------------------------------------------- */

static void publish(struct room *room, struct sock_ref ref, struct vma_room_t *out)
{
	uint32_t gen = room->gen + 1;

	*out = (struct vma_room_t){
		.data = room->pkt->frame + room->at,
		.size = room->size,
		.id = (uint64_t)gen << 32 | room->index,
		.in_frame = room->ring != NULL,
	};
	__atomic_store_n(&room->sk, ref.sk, __ATOMIC_RELAXED);
	__atomic_store_n(&room->sock_gen, ref.gen, __ATOMIC_RELAXED);
	/* release: pairs with room_claim(), which reads what was stored here */
	__atomic_store_n(&room->gen, gen, __ATOMIC_RELEASE);
}

static int fill(struct room *room, struct sock_ref ref, size_t size, size_t *max)
{
	struct ring *ring;
	int rc = sock_hold_cold(ref, &ring);

	if (rc)
		return rc;
	rc = take_frame(room, inet_of(ref.sk), ring, max);
	ring_release_cold(ring);
	room->size = *max;
	if (!rc && !room->pkt && *max > COPY_MAX)
		*max = COPY_MAX;
	if (!rc && size > *max)
		rc = -EMSGSIZE;
	if (rc || room->pkt)
		return rc;
	room->at = 0;
	room->size = size;
	room->pkt = pkt_blank((uint32_t)size);
	return room->pkt ? 0 : -ENOMEM;
}

int room_reserve(struct sock_ref ref, size_t size, struct vma_room_t *out, size_t *max)
{
	struct room *all = all_rooms(), *room;
	int rc;

	*max = 0;
	if (!all)
		return -ENOMEM;
	room = take_slot(all);
	if (!room)
		return -ENOBUFS;
	room->pkt = NULL;
	room->ring = NULL;
	while ((rc = fill(room, ref, size, max)) == SOCK_FETCH) {
		rc = sock_upcalls.fetch(ref, 0);
		if (rc)
			break;
	}
	if (rc)
		room_free(room);
	else
		publish(room, ref, out);
	return rc;
}

/* ---- committing --------------------------------------------------------------------------- */

struct room *room_claim(uint64_t id, struct sock_ref ref, bool ended)
{
	uint32_t index = (uint32_t)id, gen = (uint32_t)(id >> 32);
	/* acquire: pairs with all_rooms() */
	struct room *all = __atomic_load_n(&rooms, __ATOMIC_ACQUIRE), *room;
	struct sock_ref owner;

	if (!all || index >= VMA_ROOM_MAX || !(gen & 1))
		return NULL;
	room = &all[index];
	/* acquire: pairs with publish() */
	if (__atomic_load_n(&room->gen, __ATOMIC_ACQUIRE) != gen)
		return NULL;
	owner.sk = __atomic_load_n(&room->sk, __ATOMIC_RELAXED);
	owner.gen = __atomic_load_n(&room->sock_gen, __ATOMIC_RELAXED);
	if ((owner.sk != ref.sk || owner.gen != ref.gen) && (!ended || sock_ref_valid(owner)))
		return NULL;
	delay_at(DELAY_INBOX_POST);
	/* acquire: pairs with publish() and room_keep(); one thread gets the room */
	if (!__atomic_compare_exchange_n(&room->gen, &gen, gen + 1, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return NULL;
	return room;
}

ssize_t room_commit(struct room *room, struct sock_ref ref, size_t len, const struct sockaddr *addr,
		    socklen_t addr_len)
{
	const struct sock_kind *kind;
	struct endpoint to;
	struct ring *ring;
	ssize_t n = SOCK_KERNEL;

	/* The call that copies knows the errors, and more addresses. */
	if (!room->ring || (addr && !sock_addr_read(inet_of(ref.sk), &to, addr, addr_len)) ||
	    sock_hold_cold(ref, &ring))
		return SOCK_KERNEL;
	kind = sock_kind_of(inet_of(ref.sk));
	/* A ring that was closed and opened again has other frames; it is not while this one is out. */
	if (ring == room->ring && ring->q && kind->commit)
		n = kind->commit(inet_of(ref.sk), ring, room->pkt, room->at, len,
				 addr ? &to : NULL);
	if (n >= 0)
		forget_frame(room);
	ring_release_cold(ring);
	if (n >= 0)
		put_slot(room);
	return n;
}

void room_keep(struct room *room)
{
	/* release: pairs with room_claim(); the program knows the room by its old number */
	__atomic_store_n(&room->gen, room->gen - 1, __ATOMIC_RELEASE);
}

void room_free(struct room *room)
{
	struct pkt *pkt = room->pkt;

	forget_frame(room);
	if (pkt)
		pkt_free(pkt);
	put_slot(room);
}

void room_done(struct room *room, size_t len, size_t asked)
{
	if (len >= asked) {
		room_free(room);
		return;
	}
	room->at += (uint32_t)len;
	room->size -= len;
	room_keep(room);
}
