/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/local/local_move.h"

#include <ck_pr.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/sys.h"
#include "ring/progress.h"
#include "sock/core/sock_options.h"
#include "sock/local/local.h"
#include "sock/local/local_sock.h"
#include "sock/tcp/tcp_sock.h"

#define LIMBO (5 * NSEC_PER_SEC)
#define BUCKETS 256u
#define LOOKS 64u /* at ends in limbo, in one round */

static struct list known[BUCKETS]; /* holder: of shm_state.known, by token */
static struct list limbo;	   /* holder: of shm_state.limbo */
static bool waits;		   /* any, atomic: limbo is not empty */

static struct list *bucket(uint64_t token)
{
	struct list *head = &known[token % BUCKETS];

	if (!head->next)
		list_init(head);
	return head;
}

static struct local_side *our_side(const struct inet_sock *so)
{
	return &so->shm.shared->side[local_side_of(so)];
}

static struct local_side *other_side(const struct inet_sock *so)
{
	return &so->shm.shared->side[!local_side_of(so)];
}

/* ---- limbo (holder) ------------------------------------------------------------------------ */

/* Has the peer's end left its process, for one that this end does not know? */
static bool peer_moves(const struct inet_sock *so)
{
	/* acquire: pairs with local_export() */
	return (uint32_t)__atomic_load_n(&other_side(so)->moves, __ATOMIC_ACQUIRE) !=
	       so->shm.moves_seen;
}

static void begin_limbo(struct inet_sock *so)
{
	if (list_linked(&so->shm.limbo))
		return;
	if (!limbo.next)
		list_init(&limbo);
	so->shm.limbo_until = clock_now() + LIMBO;
	list_push_back(&limbo, &so->shm.limbo);
	__atomic_store_n(&waits, true, __ATOMIC_RELAXED);
	if (progress_running())
		progress_kick();
}

/* lock, holder: the memory of the connection; NULL: its descriptor is not known. */
static const struct segment *memory_of(const struct inet_sock *so)
{
	const struct local_end *end = &so->shm.end;
	const struct segment *memory = &so->shm.own;

	if (!memory->base)
		memory = end->link ? local_link_chunk(end->link, end->number) : NULL;
	return memory && memory->fd >= 0 ? memory : NULL;
}

/* Had the end a lock when it left its process? */
static bool is_locked(const struct local_side *side)
{
	return __atomic_load_n(&side->locked, __ATOMIC_RELAXED) ==
	       __atomic_load_n(&side->moves, __ATOMIC_RELAXED);
}

/* lock, holder: is there no process any more that has the peer's end, or could get it? */
static bool is_abandoned(const struct inet_sock *so)
{
	const struct segment *memory = memory_of(so);

	/* peer_moves() reads `moves` first, by acquire: `locked` is not older */
	return memory && peer_moves(so) && is_locked(other_side(so)) &&
	       local_transit_is_over(memory->fd, so->shm.slot, !local_side_of(so));
}

/* The end is known to its peer here, and in no transit any more. */
static void end_transit(struct inet_sock *so)
{
	if (so->shm.own.fd >= 0)
		local_transit_end(so->shm.own.fd, so->shm.slot, local_side_of(so));
}

/*
 * The responder may move as soon as it has answered: does so, before this end has seen the
 * answer?
 */
static bool is_established(struct inet_sock *so)
{
	if (!so->shm.established)
		local_conn_look(so);
	return so->shm.established;
}

bool local_move_waits(struct inet_sock *so)
{
	if (!so->shm.shared || !is_established(so) || !peer_moves(so))
		return false;
	begin_limbo(so);
	return true;
}

void local_move_execs(struct inet_sock *so, bool execs)
{
	/* release: pairs with local_move_is_closed() */
	__atomic_store_n(&our_side(so)->execs, execs, __ATOMIC_RELEASE);
}

bool local_move_is_closed(const struct inet_sock *so)
{
	/* acquire: pairs with local_move_execs() */
	return __atomic_load_n(&other_side(so)->execs, __ATOMIC_ACQUIRE);
}

/* lock, holder: looks at some of those in limbo, in turn. */
static void look_at_limbo(void)
{
	const struct inet_sock *first = NULL;
	nsec_t now = clock_now();

	for (unsigned i = 0; i < LOOKS && !list_empty(&limbo); i++) {
		struct inet_sock *so = container_of(limbo.next, struct inet_sock, shm.limbo);

		if (so == first)
			break;
		list_remove(&so->shm.limbo);
		if (so->shm.limbo_until <= now || is_abandoned(so)) {
			local_conn_lost(so);
			continue;
		}
		list_push_back(&limbo, &so->shm.limbo);
		first = first ? first : so;
	}
}

bool local_moves_run(void)
{
	if (__builtin_expect(!__atomic_load_n(&waits, __ATOMIC_RELAXED), 1))
		return false;
	local_lock();
	if (ring_hold_cold(local_ring())) {
		look_at_limbo();
		__atomic_store_n(&waits, !list_empty(&limbo), __ATOMIC_RELAXED);
		ring_release_cold(local_ring());
	}
	local_unlock();
	return __atomic_load_n(&waits, __ATOMIC_RELAXED);
}

/* ---- begin and end (holder) ----------------------------------------------------------------- */

void local_move_begin(struct inet_sock *so, uint32_t slot)
{
	so->shm.slot = slot;
	/* orders nothing by itself: see local_import() */
	__atomic_store_n(&our_side(so)->process, local_name(), __ATOMIC_RELAXED);
	list_push_back(bucket(so->shm.token), &so->shm.known);
}

void local_move_end(struct inet_sock *so)
{
	struct shm_state *shm = &so->shm;

	list_remove(&shm->known);
	list_remove(&shm->limbo);
	if (!shm->shared || !shm->own.base)
		return;
	if (shm->keeper)
		shm->keeper->side = our_side(so); /* when it does not need the memory */
	else					  /* release: pairs with is_gone() (local_end.c) */
		__atomic_store_n(&our_side(so)->gone, 1, __ATOMIC_RELEASE);
	if (shm->died)
		__atomic_store_n(&other_side(so)->gone, 1, __ATOMIC_RELEASE);
}

void local_conns_each(void (*fn)(struct inet_sock *so, bool arg), bool arg)
{
	for (unsigned i = 0; i < BUCKETS; i++) {
		list_for_each(link, bucket(i))
			fn(container_of(link, struct inet_sock, shm.known), arg);
	}
}

void local_moves_forget(void)
{
	memset(known, 0, sizeof(known));
	limbo = (struct list){0};
	__atomic_store_n(&waits, false, __ATOMIC_RELAXED);
}

/* holder: so does not use its number any more. */
static void leave_link(struct inet_sock *so)
{
	local_end_wants(&so->shm.end, false);
	if (so->shm.own.base)
		local_end_leave(&so->shm.end);
	else
		local_end_move_away(&so->shm.end);
}

/* holder: another process has the connection, or is to have it. */
static void become_exported(struct inet_sock *so)
{
	so->inet = INET_TCP;
	tcp_part_init(so);
	sock_become_exported(so);
	sock_set_home(so, rings_nowhere());
}

/* ---- export --------------------------------------------------------------------------------- */

/* lock, holder: the descriptor has the lock of an end in transit, if that is possible here. */
static int take_snapshot(const struct inet_sock *so, const void *head, size_t size)
{
	const struct segment *memory = memory_of(so);
	struct local_side *side = our_side(so);
	struct local_snapshot s;
	int own, fd;

	if (!memory)
		return -EBADF;
	s = local_snapshot_of(so);
	own = local_transit_begin(memory->fd, s.slot, local_side_of(so));
	s.fd = own < 0 ? memory->fd : own;
	fd = local_snapshot_write(head, size, &s);
	/* orders nothing by itself: export_end() stores `moves` next */
	__atomic_store_n(&side->locked, own < 0 ? 0 : side->moves + 1, __ATOMIC_RELAXED);
	sys_close_fd(&own);
	return fd;
}

/* lock, holder */
static int export_end(struct inet_sock *so, const void *head, size_t size)
{
	struct local_side *side;
	int fd;

	if (so->inet != INET_LOCAL || !so->shm.established || !so->shm.shared)
		return -ENOTCONN;
	if (so->shm.keeper && local_conn_keeps(so))
		return -EBUSY;
	local_conn_look(so);
	fd = take_snapshot(so, head, size);
	if (fd < 0)
		return fd;
	side = our_side(so);
	/* release: pairs with peer_moves(), before the link ends with this process */
	__atomic_store_n(&side->moves, side->moves + 1, __ATOMIC_RELEASE);
	end_transit(so); /* the former one: the snapshot has another open file */
	leave_link(so);
	list_remove(&so->shm.known);
	list_remove(&so->shm.limbo);
	if (so->shm.keeper)
		local_conn_keep_all(so);
	local_memory_put(so);
	segment_close(&so->shm.own);
	become_exported(so);
	ready_wake_all(&so->sk); /* threads that wait for it request it */
	return fd;
}

int local_export(struct inet_sock *so, const void *head, size_t size)
{
	struct ring *ring;
	int rc;

	control_assert_held();
	local_lock();
	rc = sock_hold_cold(sock_ref_of(so), &ring);
	if (!rc) {
		rc = export_end(so, head, size);
		ring_release_cold(ring);
	}
	local_unlock();
	return rc;
}

/* ---- import --------------------------------------------------------------------------------- */

/* holder */
static int resume(struct inet_sock *so, struct segment *memory, const struct local_snapshot *s)
{
	struct shm_state *shm = &so->shm;
	int rc;

	local_conn_begin(so, s->initiator);
	shm->own = *memory;
	rc = local_conn_resume(so, local_slot(memory, s->slot), s->capacity);
	if (rc)
		return rc;
	shm->token = s->token;
	shm->seen = s->seen;
	shm->urgent_done = s->urgent_done;
	shm->moves_seen = s->moves_seen;
	shm->peek_offset = s->peek_offset;
	shm->established = true;
	shm->reported = s->reported;
	shm->ended = s->ended;
	shm->died = s->died;
	shm->error = s->error;
	shm->kept_error = s->kept_error;
	local_memory_get(so, s->capacity);
	local_move_begin(so, s->slot);
	return 0;
}

/* lock: tells the process where the peer's end is, or was.  0; -EPIPE: it is gone; -errno. */
static int tell(struct inet_sock *so, struct local_link *link)
{
	const struct shm_state *shm = &so->shm;
	struct local_message message = {
		.kind = LOCAL_MOVE,
		.number = shm->end.number,
		.socket = local_side_of(so),
		.size = shm->in.capacity,
		.value = {(uint32_t)shm->token, (uint32_t)(shm->token >> 32),
			  /* orders nothing: this side wrote it */
			  (uint32_t)__atomic_load_n(&our_side(so)->moves, __ATOMIC_RELAXED),
			  shm->slot},
	};

	return local_link_send(link, &message, shm->own.fd);
}

/* lock, holder: makes the link.  0, also if the peer's process has ended; -errno. */
static int join(struct inet_sock *so, struct local_link *link)
{
	int rc = link ? local_end_begin(link, &so->shm.end) : -EPIPE;

	if (!rc) {
		so->shm.told = local_link_process(link);
		rc = tell(so, link);
		if (rc)
			local_end_leave(&so->shm.end);
	}
	if (rc != -EPIPE)
		return rc;
	if (so->shm.died || !local_move_waits(so))
		local_conn_lost(so);
	return 0;
}

/* lock: the link to the process of the peer's end; NULL: that process has ended.  0 or -errno. */
static int find_link(struct local_shared *shared, const struct local_snapshot *s,
		     struct local_link **link)
{
	unsigned us = s->initiator ? LOCAL_INITIATOR : LOCAL_RESPONDER;
	int rc;

	__atomic_store_n(&shared->side[us].process, local_name(), __ATOMIC_RELAXED);
	/*
	 * Orders our name before the load of the peer's: if that end moves at this time, one of the
	 * two imports finds the other.
	 */
	ck_pr_fence_memory();
	*link = NULL;
	if (s->died)
		return 0;
	rc = local_link_to(__atomic_load_n(&shared->side[!us].process, __ATOMIC_RELAXED), link);
	return rc == -ECONNREFUSED ? 0 : rc;
}

/* holder: the import failed. */
static void undo(struct inet_sock *so)
{
	local_memory_put(so);
	list_remove(&so->shm.known);
	list_remove(&so->shm.limbo);
	segment_close(&so->shm.own);
	become_exported(so);
}

/* lock, holder of local_ring(), which is home */
static int import_end(struct inet_sock *so, struct segment *memory, const struct local_snapshot *s,
		      struct local_link *link)
{
	int rc = resume(so, memory, s);

	*memory = SEGMENT_NONE;
	if (!rc)
		rc = join(so, link);
	if (rc) {
		undo(so);
		return rc;
	}
	if (s->wants_space || !byte_ring_space(&so->shm.out))
		local_conn_want_space(so);
	so->verdict = VERDICT_LOCAL;
	local_conn_look(so);
	local_conn_events(so, EPOLLIN | EPOLLOUT);
	ready_wake_all(&so->sk);
	return 0;
}

/* Makes the local ring the home of so, and holds it. */
static int hold_at_local_ring(struct inet_sock *so)
{
	struct ring *ring;
	int rc = sock_hold_cold(sock_ref_of(so), &ring);

	if (rc)
		return rc;
	sock_set_home(so, local_ring());
	ring_release_cold(ring);
	return ring_hold_cold(local_ring()) ? 0 : -EAGAIN;
}

int local_import(struct inet_sock *so, struct local_snapshot *s)
{
	struct local_link *link;
	struct segment memory;
	int rc;

	control_assert_held();
	if (!local_available()) {
		sys_close_fd(&s->fd);
		return -EOPNOTSUPP;
	}
	rc = local_segment_open(&memory, s->fd);
	s->fd = -1;
	if (rc)
		return rc;
	local_lock();
	rc = find_link((void *)local_slot(&memory, s->slot), s, &link);
	if (!rc)
		rc = hold_at_local_ring(so);
	if (!rc) {
		rc = import_end(so, &memory, s, link);
		ring_release_cold(local_ring());
	}
	local_unlock();
	segment_close(&memory);
	if (!rc)
		sock_stats_begin(so, true);
	return rc;
}

/* ---- what the peer's process does (lock, internal thread) ------------------------------------ */

/* The number cannot be used: it is free when its initiator has left it, too. */
static void refuse_number(struct local_link *link, uint32_t number)
{
	struct local_end end = {.ops = NULL};

	if (!local_end_begin_at(link, &end, number))
		local_end_leave(&end);
}

/* holder: uses the memory that came with the message, at the same place, from now on. */
static bool change_memory(struct inet_sock *so, struct segment *memory, uint32_t slot)
{
	struct shm_state *shm = &so->shm;
	uint8_t *to = slot < LOCAL_CHUNK ? local_slot(memory, slot) : NULL;
	intptr_t by = (intptr_t)to - (intptr_t)shm->shared;

	if (!to || slot != shm->slot)
		return false;
	shm->shared = (void *)to;
	shm->in.shared = (void *)((uint8_t *)shm->in.shared + by);
	shm->in.data += by;
	shm->out.shared = (void *)((uint8_t *)shm->out.shared + by);
	shm->out.data += by;
	return true;
}

/* holder: leaves the link to the process where the peer's end was, for this one. */
static bool adopt(struct inet_sock *so, struct local_link *link, const struct local_message *m,
		  struct segment *memory)
{
	struct shm_state *shm = &so->shm;
	bool first = !shm->own.base;

	if (first && (!memory->base || !change_memory(so, memory, m->value[3])))
		return false;
	if (first && shm->keeper)
		local_conn_keep_mapping(so);
	leave_link(so);
	if (first) {
		shm->own = *memory;
		*memory = SEGMENT_NONE;
	}
	if (local_end_begin_at(link, &shm->end, m->number))
		return false;
	end_transit(so);
	list_remove(&shm->limbo);
	shm->moves_seen = m->value[2];
	shm->told = 0;
	if (shm->wants_space)
		local_end_wants(&shm->end, true);
	local_end_post(&shm->end);
	local_conn_look(so);
	local_filter_look(so);
	return true;
}

/* holder: does the message name an end here, whose peer it may move?  NULL: no. */
static struct inet_sock *find_moved(const struct local_message *m)
{
	uint64_t token = local_value(m->value);

	list_for_each(link, bucket(token)) {
		struct inet_sock *so = container_of(link, struct inet_sock, shm.known);

		/* The other end may be here, too; and a later move may come first. */
		if (so->shm.token == token && local_side_of(so) != m->socket &&
		    is_established(so) && (int32_t)(m->value[2] - so->shm.moves_seen) > 0)
			return so;
	}
	return NULL;
}

/* holder: 1: the end is at this link from now on; 0: no; -1: ours has told the same process. */
static int move(struct local_link *link, const struct local_message *m, struct segment *memory)
{
	struct inet_sock *so = find_moved(m);

	if (so && so->shm.initiator && so->shm.told == local_link_process(link)) {
		so->shm.moves_seen = m->value[2];
		refuse_number(link, m->number);
		return -1;
	}
	if (so && adopt(so, link, m, memory))
		return 1;
	if (so)
		local_conn_lost(so);
	else
		refuse_number(link, m->number);
	return 0;
}

bool local_take_move(struct local_link *link, const struct local_message *m, int *fds, unsigned n)
{
	struct local_message answer = {.kind = LOCAL_MOVED, .number = m->number};
	struct segment memory = SEGMENT_NONE;
	int rc = 0;

	for (unsigned i = 1; i < n; i++)
		sys_close_fd(&fds[i]);
	if (!n || m->socket > LOCAL_RESPONDER || m->number >= NOTICE_CONNS) {
		if (n)
			sys_close_fd(&fds[0]);
		return false;
	}
	rc = local_segment_open(&memory, fds[0]);
	if (rc == -EACCES || rc == -EBADMSG)
		return false;
	if (!ring_hold_cold(local_ring()))
		return false;
	rc = move(link, m, &memory);
	ring_release_cold(local_ring());
	segment_close(&memory);
	answer.value[0] = rc == 1;
	if (rc >= 0)
		(void)local_link_send(link, &answer, -1); /* without it the end waits in limbo */
	return true;
}

bool local_take_moved(struct local_link *link, const struct local_message *m, int *fds, unsigned n)
{
	struct inet_sock *so;

	while (n)
		sys_close_fd(&fds[--n]);
	if (!ring_hold_cold(local_ring()))
		return false;
	so = local_conn_at(local_end_at(link, m->number));
	/* An answer may be for an end that had the number before. */
	if (so && !so->shm.told)
		so = NULL;
	if (so && m->value[0]) {
		so->shm.told = 0;
		end_transit(so);
		local_link_answered(link);
	} else if (so) {
		/* It moves, too; or it was closed there, and the rings say so. */
		so->shm.told = 0;
		begin_limbo(so);
		local_conn_look(so);
	}
	ring_release_cold(local_ring());
	return true;
}
