/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The processes that write into the ring of a receiver of datagrams; see local_udp.h.
 *
 * Notices, and the end of a process, reach the holder of local_ring(); the ring of the receiver belongs
 * to the holder of the socket's home.  Where these are two rings, the first posts to the second: to look
 * at the ring, or that a writer is gone.
 */
#include <errno.h>

#include "base/mem.h"
#include "base/unix_socket.h"
#include "net/netlink/netlink.h"
#include "sock/local/local.h"
#include "sock/local/local_sock.h"
#include "sock/local/local_udp.h"
#include "sock/udp/udp_sock.h"

/* A process that has the ring of a receiver. */
struct writer {
	/* holder of local_ring() */
	struct local_end end; /* first */
	struct list link;     /* of local_udp.writers */
	struct local_udp *to; /* NULL: it was refused, or not yet admitted */
	/* set before it is admitted */
	struct sock_ref ref; /* of the receiver */
	uint32_t number;
	uint32_t addrs;	   /* the indices of its address and of that it sends to */
	uint32_t closed;   /* as local_udp.closed was */
	bool to_connected; /* the receiver heard its peer only */
	/* posted when it is gone; the writer's owner from then on */
	struct inbox_item gone;
};

/* ---- notices --------------------------------------------------------------------------------- */

static struct ring *home_of(const struct sock *sk)
{
	/* Pairs with sock_set_home() and with the ARRIVE of a move. */
	return __atomic_load_n(&sk->home, __ATOMIC_ACQUIRE);
}

/* holder of a ring that was home: looks, or sends the item on. */
void local_look_run(struct ring *ring, struct inbox_item *item)
{
	struct local_udp *l = container_of(item, struct local_udp, look);
	uint32_t state = LOOK_POSTED;
	struct ring *home;

	/* acquire: pairs with local_udp_end() */
	if (__atomic_load_n(&l->look_state, __ATOMIC_ACQUIRE) == LOOK_POSTED) {
		home = home_of(l->ref.sk);
		if (home != ring) {
			ring_post(home, item); /* the socket has moved on */
			return;
		}
		/* Pairs with look_later(), and with local_udp_end(), which needs this ring. */
		state = __atomic_exchange_n(&l->look_state, LOOK_NOT, __ATOMIC_ACQ_REL);
	} else {
		state = LOOK_ENDED;
	}
	if (state == LOOK_ENDED)
		mem_free(l);
	else
		local_pull(l, LOCAL_PULL_MAX);
}

static void look_later(struct local_udp *l, struct ring *home)
{
	/* Pairs with local_look_run(): what it has not seen yet is looked at once more. */
	if (__atomic_exchange_n(&l->look_state, LOOK_POSTED, __ATOMIC_ACQ_REL) == LOOK_NOT)
		ring_post(home, &l->look);
}

static struct writer *writer_of(struct local_end *end)
{
	return container_of(end, struct writer, end);
}

/*
 * Have threads of the program read since this thread, the internal one, was here?  Those that read by the quick way
 * (local_udp_quick.c) poll no ring, so nothing else tells; what it made datagrams of would be read in the slow way.
 */
static bool is_read_by_others(struct local_udp *l)
{
	uint32_t poll = local_ring()->polls;

	if (l->left_in == poll) /* also the looks after a notice, and after arming */
		return true;
	if (!l->segment.base || l->visited == l->reader.next)
		return false;
	l->left_in = poll;
	progress_note_use();
	return true;
}

static __attribute__((noinline)) bool pull_beside_others(struct local_udp *l)
{
	bool more = is_read_by_others(l) || local_pull(l, LOCAL_PULL_MAX);

	l->visited = l->reader.next;
	return more;
}

/* holder of local_ring(), which is home: makes datagrams.  True: it is to be looked at again. */
static inline bool pull_at_home(struct local_udp *l)
{
	return __builtin_expect(ring_thread.internal, 0) ? pull_beside_others(l)
							 : local_pull(l, LOCAL_PULL_MAX);
}

static void on_notice(struct local_end *end)
{
	struct local_udp *l = writer_of(end)->to;
	struct ring *home;

	if (!l)
		return;
	home = home_of(l->ref.sk);
	if (home == local_ring()) {
		local_end_wants(end, pull_at_home(l));
	} else {
		look_later(l, home);
		local_end_wants(end, true); /* until on_look() knows whether there is more */
	}
}

/* It wants: is there still something that a look would find room for? */
static void on_look(struct local_end *end)
{
	struct local_udp *l = writer_of(end)->to;
	struct ring *home = home_of(l->ref.sk);

	if (home == local_ring())
		local_end_wants(end, pull_at_home(l));
	else if (__atomic_load_n(&l->look_state, __ATOMIC_RELAXED) == LOOK_POSTED)
		return;
	else if (__atomic_load_n(&l->more, __ATOMIC_RELAXED))
		look_later(l, home);
	else
		local_end_wants(end, false);
}

bool local_look_for_more(struct local_udp *l)
{
	ring_assert_held(home_of(l->ref.sk));
	if (home_of(l->ref.sk) != local_ring() || list_empty(&l->writers))
		return false;
	local_end_wants(&container_of(l->writers.next, struct writer, link)->end, true);
	return true;
}

/* ---- the end of a writer ---------------------------------------------------------------------- */

/* holder of home */
static void forget_writer(struct local_udp *l, const struct writer *w)
{
	if (l != w->to || !l->segment.base || l->closed != w->closed)
		return;
	record_ring_writer_gone(&l->reader, w->number);
	local_pull(l, LOCAL_PULL_MAX);
}

static void gone_run(struct ring *ring, struct inbox_item *item)
{
	struct writer *w = container_of(item, struct writer, gone);
	struct ring *home = home_of(w->ref.sk);

	/* Pairs with the end of references in core/sock.c. */
	if (__atomic_load_n(&w->ref.sk->gen, __ATOMIC_ACQUIRE) == w->ref.gen) {
		if (home != ring) {
			ring_post(home, item); /* the socket has moved on */
			return;
		}
		forget_writer(inet_of(w->ref.sk)->udp.local, w);
	}
	mem_free(w);
}

/* holder of local_ring(): it is in no list, and no link has it any more. */
static void take_away(struct writer *w)
{
	local_end_wants(&w->end, false);
	local_end_leave(&w->end);
	list_remove(&w->link);
}

static void on_death(struct local_end *end)
{
	struct writer *w = writer_of(end);
	struct ring *home;

	take_away(w);
	if (!w->to) {
		mem_free(w);
		return;
	}
	home = home_of(w->ref.sk);
	w->gone.run = gone_run;
	if (home == local_ring())
		gone_run(home, &w->gone);
	else
		ring_post(home, &w->gone);
}

static const struct local_end_ops writer_ops = {.notice = on_notice,
						.look = on_look,
						.died = on_death};

bool local_writers_end(struct local_udp *l)
{
	control_assert_held();
	control_assert_no_ring();
	if (!ring_hold_cold(local_ring()))
		return false;
	while (!list_empty(&l->writers)) {
		struct writer *w = container_of(l->writers.next, struct writer, link);

		local_end_post(&w->end);
		take_away(w);
		mem_free(w);
	}
	ring_release_cold(local_ring());
	return true;
}

/* ---- LOCAL_ASK (lock, internal thread) ------------------------------------------------------- */

/*
 * Bytes of SO_RCVBUF that a cell counts for.  Headers and rounding take less than half of the cells of a datagram of 64
 * bytes or more, so of those it holds as many bytes as SO_RCVBUF says; of shorter ones, a datagram for each 32 or 64
 * bytes.  The kernel counts its own structures, too: 768 bytes or more for any datagram.
 */
#define CELL_COUNTS (RECORD_CELL / 2)

/* A power of two cells for what SO_RCVBUF allows, and one datagram more. */
static uint32_t cells_for(uint32_t limit)
{
	uint32_t cells = RECORD_CELLS_MIN, most = RECORD_CELLS_MAX / 4;

	while (cells < most && cells - record_ring_cells(RECORD_MAX) < limit)
		cells *= 2;
	return cells;
}

/* holder: 0 or -errno. */
static int open_ring(struct local_udp *l)
{
	uint32_t limit = inet_of(l->ref.sk)->udp.limit / CELL_COUNTS, cells = cells_for(limit);
	uint64_t size = local_records_size(cells);
	int rc;

	if (l->segment.base)
		return 0;
	if (!local_memory_take(size))
		return -ENOBUFS;
	rc = segment_create(&l->segment, LOCAL_RECORDS_SEGMENT, size);
	if (!rc)
		rc = record_ring_init(&l->reader, local_records(&l->segment, cells), cells, limit);
	if (!rc) {
		l->memory = size;
		l->dropped = 0;
		l->read = 0;
		local_twin_pause(l);
		local_twin_unquiet(l);
		local_turn_begin(l);
		local_watch_later(l);
		return 0;
	}
	segment_close(&l->segment);
	local_memory_give(size);
	return rc;
}

/* holder: records may have this address from now on. */
static int add_address(struct local_udp *l, const struct inaddr *addr)
{
	if ((addr_is_v4(addr) && addr_is_loopback(addr)) ||
	    local_address_at(l, addr) != LOCAL_NO_ADDRESS)
		return 0;
	if (l->n_addrs == LOCAL_ADDRESSES)
		return -ENOBUFS;
	l->addrs[l->n_addrs++] = *addr;
	return 0;
}

/* holder of home: lets the process write, as w->number.  0 or -errno: it is refused. */
static int admit(struct writer *w, struct local_udp *l, const struct local_message *m)
{
	int number, rc;

	if (!local_hears(inet_of(l->ref.sk), &m->from, m->from_port))
		return -ECONNREFUSED;
	rc = open_ring(l);
	if (!rc)
		rc = add_address(l, &m->from);
	if (!rc && !addr_is_multicast(&m->to))
		rc = add_address(l, &m->to);
	if (rc)
		return rc;
	number = record_ring_add_writer(&l->reader);
	if (number < 0)
		return number;
	if (ntohs(m->from_port) < l->lowest)
		l->lowest = ntohs(m->from_port); /* local_take_ask() has looked */
	w->number = (uint32_t)number;
	w->ref = l->ref;
	w->addrs = local_address_at(l, &m->from) << 16 | local_address_at(l, &m->to);
	w->closed = l->closed;
	w->to_connected = inet_of(l->ref.sk)->udp.connected;
	return 0;
}

/* The receiver is listed, so its ring stays until the lock is free. */
static int answer(struct local_link *link, const struct local_message *m, const struct writer *w)
{
	struct local_message out = {.kind = LOCAL_RECORDS, .number = m->number};
	int fd = -1;

	if (w->to) {
		out.size = w->to->reader.cells;
		out.value[0] = w->number;
		out.value[1] = w->to_connected;
		out.value[2] = w->addrs;
		fd = w->to->segment.fd;
	}
	return local_link_send(link, &out, fd);
}

/* holder of local_ring(): the link has a writer with this number; NULL: it cannot. */
static struct writer *begin_writer(struct local_link *link, uint32_t number)
{
	struct writer *w = mem_zalloc(sizeof(*w));

	if (!w)
		return NULL;
	w->end.ops = &writer_ops;
	list_init(&w->link);
	if (!local_end_begin_at(link, &w->end, number))
		return w;
	mem_free(w);
	return NULL;
}

/* False: the receiver refuses it. */
static bool admit_to(struct writer *w, struct local_udp *l, const struct local_message *m)
{
	struct ring *home = local_hold_home(l);
	int rc;

	if (!home)
		return false;
	rc = admit(w, l, m);
	ring_release_cold(home);
	return !rc;
}

static bool is_for(const struct local_udp *l, const struct local_message *m)
{
	return addr_is_multicast(&m->to) ? local_group_is_for(l, m) : local_is_for(&l->place, m);
}

bool local_take_ask(struct local_link *link, const struct local_message *m, int *fds, unsigned n)
{
	struct local_udp *l = local_receiver(m->socket);
	struct writer *w;
	bool good;

	unix_socket_close_fds(fds, n);
	if (l && (!is_for(l, m) || !local_may_come_from(m->from_port)))
		l = NULL;
	if (!ring_hold_cold(local_ring()))
		return false;
	w = begin_writer(link, m->number);
	ring_release_cold(local_ring());
	if (!w)
		return false;
	if (l && !admit_to(w, l, m))
		l = NULL;
	if (!ring_hold_cold(local_ring()))
		return false;
	if (l) {
		w->to = l;
		list_push_back(&l->writers, &w->link);
	}
	good = !answer(link, m, w);
	if (!good || !l)
		on_death(&w->end); /* as if it had ended */
	ring_release_cold(local_ring());
	return good;
}
