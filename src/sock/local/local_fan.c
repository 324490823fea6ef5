/* SPDX-License-Identifier: BSD-2-Clause */
/* Senders to groups with members on this host; see local_group.h. */
#include <errno.h>

#include "base/mem.h"
#include "ring/local/record_fan.h"
#include "sock/core/access.h"
#include "sock/local/local.h"
#include "sock/local/local_group.h"
#include "sock/local/local_sock.h"
#include "sock/local/local_udp.h"
#include "sock/udp/udp_sock.h"

#define TRIES 4 /* without a send to a group in between */
#define PAUSE_LEAST NSEC_PER_MSEC
#define PAUSE_MOST NSEC_PER_SEC

_Static_assert(LOCAL_MEMBERS <= RECORD_FAN_MAX, "one write reaches all");

/* ---- finding them (control lock) -------------------------------------------------------------- */

struct members {
	struct endpoint from; /* the sender */
	struct local_place at;
	struct local_entry entry[LOCAL_MEMBERS];
	uint64_t cookie[LOCAL_MEMBERS]; /* of those that hear it */
	struct local_target_ref to[LOCAL_MEMBERS];
	unsigned entries, n;
};

static const struct local_entry *entry_of(const struct members *m, uint64_t cookie)
{
	for (unsigned i = 0; i < m->entries; i++) {
		if (m->entry[i].cookie == cookie)
			return &m->entry[i];
	}
	return NULL;
}

/* Those of processes that were killed. */
static void remove_dead(const struct members *m)
{
	for (unsigned i = 0; i < m->entries; i++) {
		bool hears = false;

		for (unsigned k = 0; k < m->n; k++)
			hears |= m->cookie[k] == m->entry[i].cookie;
		if (!hears && local_is_dead(m->entry[i].process))
			local_dir_remove(&m->at, &m->entry[i]);
	}
}

/*
 * Every socket that hears the sender is an entry.  0; -ENOENT: one is not, or that is not known; -EAGAIN: that
 * may be known soon.
 */
static int find_members(struct members *m, const struct endpoint *to, int ifindex)
{
	struct local_place place = local_group_place(to->port);
	int loops = local_group_loops(&to->addr, &m->from.addr, ifindex), n = 0;

	if (loops > 0)
		n = local_group_hearers(IPPROTO_UDP, &m->from, to, ifindex, m->cookie,
					LOCAL_MEMBERS);
	if (loops < 0 || n < 0)
		return loops == -EAGAIN || n == -EAGAIN ? -EAGAIN : -ENOENT;
	m->n = (unsigned)n;
	m->entries = local_dir_find(&place, &m->at, m->entry);
	if (m->entries > m->n)
		remove_dead(m);
	for (unsigned i = 0; i < m->n; i++) {
		if (!entry_of(m, m->cookie[i]))
			return -ENOENT;
	}
	return 0;
}

/*
 * 0; -EAGAIN: some have not answered yet; or -errno.  Nobody waits for them: a process that is stopped does
 * not answer.  Whoever looks again finds those open that have.
 */
static int open_members(const struct inet_sock *so, struct members *m)
{
	const struct endpoint all = {.addr = local_all_groups(), .port = m->at.at.port};
	int rc = 0, one = 0;

	local_lock();
	for (unsigned i = 0; i < m->n && (!one || one == -EINPROGRESS); i++) {
		const struct local_entry *entry = entry_of(m, m->cookie[i]);

		one = local_target_get(so, entry, &m->from.addr, &all, &m->to[i]);
		if (one == -ECONNREFUSED) /* its process has ended */
			local_dir_remove(&m->at, entry);
		if (one)
			rc = one;
	}
	local_unlock();
	return rc == -EINPROGRESS ? -EAGAIN : rc;
}

static int make_fan(const struct members *m, const struct dst_found *wire, uint32_t looked,
		    struct dst_found *found)
{
	struct dst_fan *fan = mem_zalloc(sizeof(*fan) + m->n * sizeof(fan->to[0]));

	if (!fan)
		return -ENOMEM;
	dst_init(&fan->wire);
	fan->found = *wire;
	fan->looked = looked;
	fan->ifindex = (uint32_t)wire->ring->ifindex;
	fan->n = m->n;
	for (unsigned i = 0; i < m->n; i++)
		fan->to[i] = m->to[i];
	found->fan = fan;
	return 0;
}

/* 0; or -errno: the kernel sends, until something changes (-ENOENT), or for a while. */
static int find(struct inet_sock *so, const struct endpoint *to, const struct dst_found *wire,
		struct dst_found *found)
{
	struct members m = {.from = {.addr = wire->src, .port = so->local.port}};
	struct local_udp *l = so->udp.local;
	int rc;

	if (__atomic_fetch_add(&l->tries, 1, __ATOMIC_RELAXED) >= TRIES)
		return -EAGAIN;
	rc = find_members(&m, to, wire->ring->ifindex);
	if (!rc)
		rc = open_members(so, &m);
	if (!rc)
		rc = local_change_group(so, to, found, m.to, m.n);
	return rc ? rc : make_fan(&m, wire, found->local.looked, found);
}

/* The kernel serves it until something changes, or for a second.  soon: or for a while. */
static void leave_to_kernel(struct local_udp *l, const struct endpoint *to, struct dst_found *found,
			    bool soon)
{
	uint32_t looked = found->local.looked;

	local_leave_to_kernel(l, to, found);
	local_note_kernels(l, to, looked - 1); /* the next look is one, whatever happens */
	if (soon && !l->kernel_only) {
		l->group_pause = local_longer(l->group_pause, PAUSE_LEAST, PAUSE_MOST);
		found->local.looked = looked - 1;
		found->local.at += l->group_pause;
	}
	__atomic_store_n(&l->tries, 0, __ATOMIC_RELAXED);
}

/* Would members believe that the sender is there? */
static bool may_send_from(const struct inet_sock *so, const struct inaddr *from)
{
	return local_may_come_from(so->local.port) && addr_is_v4(from) && local_is_address(from);
}

int local_find_group(struct inet_sock *so, const struct udp_way *way, const struct dst_found *wire,
		     struct dst_found *found)
{
	const struct endpoint *to = &way->to;
	struct local_udp *l = so->udp.local;
	int rc = -ENOENT;

	control_assert_held();
	if (found->verdict == VERDICT_LOOPBACK)
		l = local_udp_part(so);
	if (!l)
		return 0;
	if (found->verdict != VERDICT_LOOPBACK) {
		local_note_kernels(l, to, local_dir_generation() - 1);
		return 0;
	}
	if (!local_dir_catch_up() || wire->verdict != VERDICT_ACCELERATED || !way->plain ||
	    !addr_is_v4(&to->addr) || !may_send_from(so, &wire->src)) {
		leave_to_kernel(l, to, found, false);
		return 0;
	}
	found->local.looked = local_dir_generation(); /* before the search */
	if (local_is_kernels(l, to, found->local.looked)) {
		local_leave_to_kernel(l, to, found);
		return 0;
	}
	rc = find(so, to, wire, found);
	if (rc) {
		leave_to_kernel(l, to, found, rc != -ENOENT);
		return 0;
	}
	l->group_pause = 0;
	found->src = wire->src;
	found->ring = wire->ring;
	found->record =
		(struct record_addrs){addr_v4_of(&wire->src), addr_v4_of(&to->addr), RECORD_GROUP};
	return 0;
}

/* ---- sending (holder) ------------------------------------------------------------------------- */

/* What a send needs while its home is let go: the destination may change meanwhile. */
struct fan_send {
	struct record_header header;
	unsigned n;
	struct local_target_ref to[LOCAL_MEMBERS];
};

/* holder of local_ring(): all members get the bytes, or none does.  0 or -ESTALE. */
static int write_all(const struct fan_send *f, const struct iovec *bytes)
{
	struct record_part parts[LOCAL_MEMBERS];
	unsigned failed = 0;
	int rc;

	for (unsigned i = 0; i < f->n; i++) {
		struct local_target *t = local_target_of(&f->to[i]);

		if (!t)
			return -ESTALE;
		parts[i].writer = &t->writer;
	}
	rc = record_fan_write(parts, f->n, &f->header, bytes, &failed);
	if (rc == -EPIPE || rc == -EPROTO) /* it has closed the ring, or spoilt it */
		local_target_end(f->to[failed].target);
	if (rc)
		return -ESTALE;
	for (unsigned i = 0; i < f->n; i++)
		local_end_post(&f->to[i].target->end);
	return 0;
}

/* The same of a socket with another home, which is let go meanwhile. */
static int write_beside(const struct fan_send *f, const struct iovec *bytes, struct ring *home)
{
	int rc = -ESTALE;

	ring_release_cold(home);
	if (ring_hold_cold(local_ring())) {
		rc = write_all(f, bytes);
		ring_release_cold(local_ring());
	}
	/* No ring was held, so this cannot fail.  The socket may have another home by now. */
	while (!ring_hold_cold(home))
		;
	return rc;
}

/* Where the datagram is put together, for all members and the wire. */
struct fan_frame {
	struct pkt *pkt; /* NULL: the wire gets none */
	void *memory;
	uint8_t *bytes;
};

/* holder of home.  0; -ENOBUFS: no frame is free, and not lossy: the call can wait; -ENOMEM. */
static int get_frame(struct fan_frame *f, struct ring *home, uint32_t size, bool lossy)
{
	/* One of local_ring() would count as the largest there is. */
	*f = (struct fan_frame){.pkt = home == local_ring() ? pkt_blank(size) : ring_tx_get(home)};
	if (!f->pkt && home != local_ring() && !lossy)
		return -ENOBUFS;
	if (!f->pkt)
		f->memory = mem_alloc(size);
	f->bytes = f->pkt ? f->pkt->frame : f->memory;
	return f->bytes ? 0 : -ENOMEM;
}

static void put_frame(struct fan_frame *f)
{
	if (f->pkt)
		pkt_free(f->pkt);
	mem_free(f->memory);
}

/* The frame leaves where the destination led when the members got theirs; its packet is consumed. */
static void send_frame(struct sock_ref ref, struct dst *dst, const struct dst_fan *fan,
		       const struct dst_hop *hop, struct ring *home, struct fan_frame *frame)
{
	struct pkt *pkt = frame->pkt;

	frame->pkt = NULL;
	if (!pkt) {
		ring_drop(home, DROP_NO_MEMORY);
		return;
	}
	if (sock_at_home(ref, home) && dst->fans && dst->fan == fan) {
		dst_send(&dst->fan->wire, home, pkt);
		return;
	}
	if (!dst_hop_send(hop, home, pkt->frame, pkt->frame_len))
		ring_drop(home, DROP_NO_MEMORY);
	pkt_free(pkt);
}

/* The datagram of the call, with its headers.  0; -EFAULT; as get_frame(). */
static int build_frame(struct fan_frame *f, struct inet_sock *so, const struct frame_template *tmpl,
		       const struct msghdr *msg, size_t len, bool lossy)
{
	int rc = get_frame(f, sock_home(so), (uint32_t)(tmpl->l4 + UDP_HDR + len), lossy);
	size_t size;

	if (rc)
		return rc;
	size = frame_build_udp(tmpl, f->bytes, msg->msg_iov, (int)msg->msg_iovlen, len);
	if (f->pkt)
		f->pkt->frame_len = (uint32_t)size;
	if (size)
		return 0;
	sock_count(so, tx_errors, 1);
	put_frame(f);
	return -EFAULT;
}

static void prepare(struct fan_send *f, struct dst *dst)
{
	f->header = *dst_local_header(dst);
	f->n = dst->fan->n;
	for (unsigned i = 0; i < f->n; i++)
		f->to[i] = dst->fan->to[i];
}

ssize_t local_fan_send(struct inet_sock *so, struct dst *dst, const struct msghdr *msg, size_t len,
		       bool lossy)
{
	struct sock_ref ref = sock_ref_of(so);
	struct ring *home = sock_home(so);
	struct dst_fan *fan = dst->fan;
	struct fan_frame frame;
	struct fan_send f;
	struct dst_hop hop;
	struct iovec bytes;
	int rc;

	if (!so->udp.local) /* it is leaving to the kernel */
		return SOCK_KERNEL;
	if (len > fan->wire.payload_max) { /* in fragments */
		local_send_stop(so);
		return SOCK_KERNEL;
	}
	if (!local_dir_is_still(fan->looked))
		return -ESTALE;
	rc = build_frame(&frame, so, &fan->wire.tmpl, msg, len, lossy);
	if (rc)
		return rc;
	bytes = (struct iovec){frame.bytes + fan->wire.tmpl.l4 + UDP_HDR, len};
	prepare(&f, dst);
	dst_hop_get(&fan->wire, &hop);
	ring_get(home); /* the frame is its */
	rc = home == local_ring() ? write_all(&f, &bytes) : write_beside(&f, &bytes, home);
	if (!rc)
		send_frame(ref, dst, fan, &hop, home, &frame);
	put_frame(&frame);
	dst_hop_put(&hop);
	ring_put(home);
	if (rc || !sock_at_home(ref, home) || !so->udp.local)
		return rc ? rc : (ssize_t)len;
	__atomic_store_n(&so->udp.local->tries, 0, __ATOMIC_RELAXED);
	udp_count_sent(so, len);
	sock_access_tx(so);
	return (ssize_t)len;
}
