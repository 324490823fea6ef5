/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/share/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <net/ethernet.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "base/sys.h"
#include "net/netlink/netlink.h"
#include "net/tcp/tcp_snapshot.h"
#include "sock/core/access.h"
#include "sock/core/kernel_conns.h"
#include "sock/core/msg/family.h"
#include "sock/core/quarantine.h"
#include "sock/core/sock_options.h"
#include "sock/local/local_move.h"
#include "sock/share/share_internal.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/tcp/timewait.h"

#define MAGIC 0x766d6174u
#define VERSION 4u
#define BYTES_MAX (1ull << 31)
#define ETH_MTU 1500u
#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)

/* The part of a snapshot that is not the TCP engine's. */
struct head {
	uint32_t magic, version;
	uint32_t head_size, options_size; /* reject the bytes of another build */
	struct endpoint local, remote;
	uint8_t error, kept_error;
	uint8_t family;
	uint32_t rcvtimeo, sndtimeo;
	bool shut_rd, shut_wr;
	bool dead;
	bool reported; /* accept(2) or connect(2) has reported the connection */
	bool bound, bound_addr;
	struct error_queue completions;
	struct sock_options opt;
};

/* ---- out --------------------------------------------------------------------------- */

static void fill_head(struct head *h, const struct inet_sock *so)
{
	memset(h, 0, sizeof(*h));
	h->magic = MAGIC;
	h->version = VERSION;
	h->head_size = sizeof(*h);
	h->options_size = sizeof(h->opt);
	h->local = so->local;
	h->remote = so->remote;
	h->family = so->family;
	if (so->inet == INET_TCP) {
		h->error = so->tcp.error;
		h->kept_error = so->tcp.kept_error;
		h->dead = sock_has_ended(so);
	}
	h->rcvtimeo = so->rcvtimeo;
	h->sndtimeo = so->sndtimeo;
	h->shut_rd = so->shut_rd;
	h->shut_wr = so->shut_wr;
	h->reported = sock_life_is(so, LIFE_CONNECTED) || sock_life_is(so, LIFE_KEPT);
	h->bound = so->bound;
	h->bound_addr = so->bound_addr;
	h->completions = sock_error_queue(so);
	h->opt = *so->opt;
	h->opt.accept_options = NULL; /* a pointer of this process */
}

static int make_memfd(size_t size, uint8_t **bytes)
{
	int fd = (int)sys_call(SYS_memfd_create, "vma-connection", MFD_CLOEXEC | MFD_ALLOW_SEALING,
			       0, 0, 0, 0);
	void *addr;

	if (fd < 0)
		return fd;
	fd = sys_fd_hide(fd);
	addr = MAP_FAILED;
	if (!sys_call(SYS_ftruncate, fd, size, 0, 0, 0, 0))
		addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (addr == MAP_FAILED) {
		sys_close_fd(&fd);
		return -ENOMEM;
	}
	*bytes = addr;
	return fd;
}

/* ---- frames ------------------------------------------------------------------------ */

#define FRAME_MAX (65536u + 64u) /* a datagram with its headers */

int transfer_frames(void)
{
	return sys_fd_hide((int)sys_call(SYS_memfd_create, "vma-frames", MFD_CLOEXEC, 0, 0, 0, 0));
}

/* In front of each frame. */
struct frame_head {
	uint32_t len;
	int ifindex; /* of a datagram: struct pkt */
};

void transfer_put_frame(int memfd, const struct pkt *pkt)
{
	static const uint8_t eth[ETH_HDR] = {[12] = ETHERTYPE_IP >> 8, ETHERTYPE_IP & 0xff};
	bool bare = pkt->l4 && !pkt->l3; /* local_udp_frame() */
	const struct frame_head head = {pkt->frame_len + (bare ? ETH_HDR : 0), pkt->ifindex};

	(void)sys_call(SYS_write, memfd, &head, sizeof(head), 0, 0, 0);
	if (bare)
		(void)sys_call(SYS_write, memfd, eth, sizeof(eth), 0, 0, 0);
	(void)sys_call(SYS_write, memfd, pkt->frame, pkt->frame_len, 0, 0, 0);
}

struct pkt *transfer_next_frame(int memfd, off_t *at)
{
	struct frame_head head;
	struct pkt *pkt;

	if (sys_call(SYS_pread64, memfd, &head, sizeof(head), *at, 0, 0) != sizeof(head) ||
	    !head.len || head.len > FRAME_MAX)
		return NULL;
	pkt = pkt_blank(head.len);
	if (!pkt)
		return NULL;
	*at += (off_t)sizeof(head);
	if (sys_call(SYS_pread64, memfd, pkt->frame, head.len, *at, 0, 0) != head.len) {
		pkt_free(pkt);
		return NULL;
	}
	*at += head.len;
	pkt->frame_len = head.len;
	pkt->ifindex = head.ifindex;
	pkt->flags = PKT_CSUM_OK;
	return pkt;
}

/* ---- a connection as bytes --------------------------------------------------------- */

/* holder of home: memfd, or -errno. */
static int write_bytes(const struct inet_sock *so)
{
	size_t size = sizeof(struct head) + tcp_snapshot_size(&so->tcp.conn);
	struct head h;
	uint8_t *bytes;
	int fd;

	if (size > BYTES_MAX)
		return -EFBIG;
	fd = make_memfd(size, &bytes);
	if (fd < 0)
		return fd;
	fill_head(&h, so);
	memcpy(bytes, &h, sizeof(h));
	tcp_snapshot_write(&so->tcp.conn, bytes + sizeof(h), clock_now());
	munmap(bytes, size);
	sys_fcntl(fd, F_ADD_SEALS, SEALS); /* what comes back is what was sent */
	return fd;
}

/* A local connection stays in its memory: local/local_move.h. */
static int export_local(struct inet_sock *so, int *memfd)
{
	struct head h;
	int rc;

	fill_head(&h, so);
	rc = local_export(so, &h, sizeof(h));
	if (rc < 0)
		return rc;
	*memfd = rc;
	return 0;
}

/* holder of home; channel 0: to the next image, which closes the rings of this one. */
static bool must_stay(const struct inet_sock *so, const struct ring *ring, uint64_t channel)
{
	return tcp_filter_is_out(so) || (channel && !ring_flow_may_part(ring, &so->tcp.flow));
}

int transfer_export(struct inet_sock *so, uint64_t channel, uint64_t id, int *memfd)
{
	struct quarantine *quarantine;
	struct ring *ring;
	int rc;

	control_assert_held();
	control_assert_no_ring();
	if (so->move)
		return -EBUSY;
	if (so->inet == INET_LOCAL)
		return export_local(so, memfd);
	kernel_conns_expect(so);
	rc = sock_hold_cold(sock_ref_of(so), &ring);
	if (rc)
		return rc;
	rc = -ENOMEM;
	quarantine = quarantine_create(ring);
	if (quarantine) {
		if (channel)
			quarantine_forward(quarantine, share_late, channel, id);
		ring_drain(ring);
		rc = must_stay(so, ring, channel) ? -EBUSY : write_bytes(so);
	}
	if (rc < 0) {
		quarantine_free(quarantine);
		ring_release_cold(ring);
		return rc;
	}
	*memfd = rc;
	if (so->tcp.flow.listed)
		quarantine_begin(quarantine, &so->tcp.flow);
	else
		quarantine_free(quarantine);
	tcp_detach(so, ring);
	sock_become_exported(so);
	ready_wake_all(&so->sk); /* threads that wait for it request it */
	sock_set_home(so, rings_nowhere());
	ring_release_cold(ring);
	return 0;
}

void transfer_blank(struct inet_sock *so)
{
	control_assert_no_ring();
	control_assert_held();
	tcp_part_init(so);
	sock_become_exported(so);
}

struct inet_sock *transfer_create(int fd)
{
	struct inet_sock *so = sock_alloc(SOCK_TYPE_TCP);

	control_assert_held();
	control_assert_no_ring();
	if (!so)
		return NULL;
	__atomic_store_n(&so->sk.twin, fd, __ATOMIC_RELAXED);
	sock_family_init(so, fd);
	if (!sock_options_init(so, sock_kinds[INET_TCP])) {
		sock_free(so);
		return NULL;
	}
	so->verdict = VERDICT_ACCELERATED;
	so->inet = INET_TCP;
	transfer_blank(so);
	return so;
}

/*
 * In the child's own copy of the memory: what other threads of the parent did to so is
 * undone.
 */
void transfer_begin_exported(struct inet_sock *so)
{
	const struct sock_options *opt = options_share(so->opt);

	control_assert_no_ring();
	control_assert_held();
	list_init(&so->sk.watches);
	list_init(&so->flows);
	so->sk.waiters = 0;
	so->opt = opt ? opt : so->opt; /* the parent's options, never freed here */
	so->move = NULL;
	so->n_rings = 0;
	so->rare = NULL;
	so->sharing = NULL;
	so->spare = PORT_KEEPER_NONE;
	so->close_pending = false;
	if (sock_has_owner(so)) {
		so->inet = INET_TCP;
		transfer_blank(so);
	} else {
		member_begin_exported(so);
	}
	ring_get(rings_nowhere());
	/* Pairs with sock_at_home(): whoever holds this home sees the fields above. */
	__atomic_store_n(&so->sk.home, rings_nowhere(), __ATOMIC_RELEASE);
}

/* ---- in ---------------------------------------------------------------------------- */

void transfer_prepare(struct inet_sock *so)
{
	struct dst_query query;
	struct dst_found found;

	control_assert_held();
	control_assert_no_ring();
	if (sock_start_for(so) != VERDICT_ACCELERATED)
		return;
	query = sock_query(so);
	dst_find(&query, &found);
	if (found.verdict == VERDICT_ACCELERATED)
		(void)sock_rx_ring_beside(so, found.ring);
}

/* As a byte: a bool with another value must not be read as one. */
static bool is_flag(const bool *flag)
{
	uint8_t byte;

	memcpy(&byte, flag, sizeof(byte));
	return byte <= 1;
}

static bool is_sane(const struct head *h)
{
	return h->magic == MAGIC && h->version == VERSION && h->head_size == sizeof(*h) &&
	       h->options_size == sizeof(h->opt) && h->local.port && h->remote.port &&
	       addr_is_v4(&h->local.addr) == addr_is_v4(&h->remote.addr) &&
	       (h->family == AF_INET6 || addr_is_v4(&h->local.addr)) && is_flag(&h->shut_rd) &&
	       is_flag(&h->shut_wr) && is_flag(&h->dead) && is_flag(&h->reported) &&
	       is_flag(&h->bound) && is_flag(&h->bound_addr) && options_are_sane(&h->opt);
}

static bool is_at(const struct endpoint *known, const struct endpoint *ep)
{
	return !known->port || (known->port == ep->port &&
				(addr_is_any(&known->addr) || addr_eq(&known->addr, &ep->addr)));
}

/* Without this check a peer process could substitute a connection of its choice. */
static bool is_of(const struct inet_sock *so, const struct head *h)
{
	return so->family == h->family && is_at(&so->local, &h->local) &&
	       is_at(&so->remote, &h->remote);
}

/*
 * Copies the bytes into memory, because the sender can still truncate the memfd. 0 or
 * -errno.
 */
static int map_bytes(int memfd, uint8_t **bytes, size_t *size)
{
	off_t len;
	ssize_t n;

	len = sys_call(SYS_lseek, memfd, 0, SEEK_END, 0, 0, 0);
	if (len <= 0 || (uint64_t)len > BYTES_MAX)
		return -EINVAL;
	*size = (size_t)len;
	*bytes = mem_map(*size);
	if (!*bytes)
		return -ENOMEM;
	n = sys_call(SYS_pread64, memfd, *bytes, *size, 0, 0, 0);
	if (n != len) {
		mem_unmap(*bytes, *size);
		return -EINVAL;
	}
	return 0;
}

int transfer_family(int memfd)
{
	int seals = sys_fcntl(memfd, F_GET_SEALS, 0);
	struct head h;

	if (seals < 0 || (seals & SEALS) != SEALS ||
	    sys_call(SYS_pread64, memfd, &h, sizeof(h), 0, 0, 0) != sizeof(h) || !is_sane(&h))
		return 0;
	return h.family;
}

static int take_head(struct inet_sock *so, const struct head *h)
{
	struct sock_options own = h->opt;
	struct ring *ring;
	int rc;

	own.accept_options = so->opt->accept_options;
	rc = sock_options_hold(sock_ref_of(so), &own, &ring);
	if (rc)
		return rc;
	so->local = h->local;
	so->remote = h->remote;
	__atomic_store_n(&so->rcvtimeo, h->rcvtimeo, __ATOMIC_RELAXED);
	__atomic_store_n(&so->sndtimeo, h->sndtimeo, __ATOMIC_RELAXED);
	so->shut_rd = h->shut_rd;
	so->shut_wr = h->shut_wr;
	so->bound = h->bound;
	so->bound_addr = h->bound_addr;
	rc = sock_error_queue_set(so, h->completions);
	ring_release_cold(ring);
	return rc;
}

static int change_home(struct inet_sock *so, struct ring *to)
{
	struct ring *from;
	int rc = sock_hold_cold(sock_ref_of(so), &from);

	if (rc)
		return rc;
	sock_set_home(so, to);
	ring_release_cold(from);
	return 0;
}

/* holder of home: sets up the destination, the engine and the flow. */
static int put_on_ring(struct inet_sock *so, struct ring *ring, const struct dst_found *found,
		       const struct head *h, const uint8_t *bytes, size_t size)
{
	struct dst_headers headers = tcp_headers(so);
	nsec_t now = clock_now();
	int rc;

	tcp_part_init(so);
	sock_access_init(so);
	rc = dst_apply(&so->tcp.dst, ring, &so->remote, found, &headers);
	if (rc)
		return rc;
	so->tcp.flow.key = tcp_pair_key(so, &so->remote);
	rc = tcp_snapshot_read(&so->tcp.conn, &tcp_sock_engine_ops, bytes, size, pkt_blank, now);
	if (rc)
		goto no_engine;
	if (!h->dead)
		rc = ring_flow_take(ring, &so->tcp.flow);
	if (rc)
		goto no_flow;
	so->tcp.error = h->error;
	so->tcp.kept_error = h->kept_error;
	if (!sock_has_ended(so))
		tcp_snapshot_probe(&so->tcp.conn, now);
	return 0;

no_flow:
	tcp_snapshot_release(&so->tcp.conn);
no_engine:
	dst_fini(&so->tcp.dst);
	tcp_part_init(so);
	return rc;
}

/* holder of home; reported: by connect(2) or accept(2) */
static void become_local(struct inet_sock *so, struct ring *ring, bool reported)
{
	enum sock_life life = reported ? LIFE_CONNECTED : LIFE_CONNECTING;

	(void)share_nonblock_now(so);
	sock_life_set(so, sock_is_kept(so) ? LIFE_KEPT : life);
	so->verdict = VERDICT_ACCELERATED;
	/* Pairs with the load of ops in each wrapper: the connection is set up. */
	__atomic_store_n(&so->sk.ops, &tcp_kind.ops[ring_mode_now()], __ATOMIC_RELEASE);
	tcp_update_events(so, EPOLLIN | EPOLLOUT);
	ready_wake_all(&so->sk); /* blocked threads look for the new home ring */
	ring_work_add(ring, &so->tcp.flush);
}

static int take_to_ring(struct inet_sock *so, const struct head *h, const uint8_t *bytes,
			size_t size)
{
	struct dst_found found;
	struct dst_query query;
	struct ring *ring;
	int rc;

	if (!sock_start() || !netlink_is_of(sock_twin(&so->sk)))
		return -ENETUNREACH;
	query = sock_query(so);
	dst_find(&query, &found);
	if (found.verdict != VERDICT_ACCELERATED)
		return -ENETUNREACH;
	rc = change_home(so, sock_rx_ring_beside(so, found.ring));
	if (!rc)
		rc = sock_hold_cold(sock_ref_of(so), &ring);
	if (rc)
		return rc;
	rc = put_on_ring(so, ring, &found, h, bytes, size);
	if (rc) {
		sock_become_exported(so);
		sock_set_home(so, rings_nowhere());
	} else {
		become_local(so, ring, h->reported);
	}
	ring_release_cold(ring);
	if (!rc) {
		sock_stats_begin(so, true);
		dst_resolve_neighbour(&found);
	}
	return rc;
}

bool transfer_is_local(int fd)
{
	struct local_snapshot snapshot;
	struct head h;

	control_assert_held();
	control_assert_no_ring();
	if (!local_snapshot_is(fd) || local_snapshot_read(fd, &h, sizeof(h), &snapshot))
		return false;
	sys_close_fd(&snapshot.fd);
	return is_sane(&h);
}

static int import_local(struct inet_sock *so, int fd)
{
	struct local_snapshot snapshot;
	struct head h;
	int rc = local_snapshot_read(fd, &h, sizeof(h), &snapshot);

	if (rc)
		return rc;
	rc = -EINVAL;
	if (is_sane(&h) && is_of(so, &h))
		rc = take_head(so, &h);
	if (!rc && !sock_start())
		rc = -ENOMEM;
	if (rc) {
		sys_close_fd(&snapshot.fd);
		return rc;
	}
	return local_import(so, &snapshot);
}

int transfer_import(struct inet_sock *so, int memfd)
{
	uint8_t *bytes = NULL;
	struct head h;
	size_t size = 0;
	int rc;

	control_assert_held();
	control_assert_no_ring();
	if (local_snapshot_is(memfd))
		return import_local(so, memfd);
	rc = map_bytes(memfd, &bytes, &size);
	if (rc)
		return rc;
	rc = -EINVAL;
	if (size > sizeof(h)) {
		memcpy(&h, bytes, sizeof(h));
		if (is_sane(&h) && is_of(so, &h))
			rc = take_head(so, &h);
	}
	if (!rc)
		rc = take_to_ring(so, &h, bytes + sizeof(h), size - sizeof(h));
	mem_unmap(bytes, size);
	return rc;
}

/* A connection that was never here has the addresses that its twin knows. */
static void read_addresses(struct inet_sock *so)
{
	if (so->local.port)
		return;
	so->local.addr = so->remote.addr = sock_addr_any(so);
	(void)sock_read_local(so);
}

void transfer_lost(struct inet_sock *so)
{
	struct tcp_config config;
	struct ring *ring;

	control_assert_held();
	control_assert_no_ring();
	if (sock_hold_cold(sock_ref_of(so), &ring))
		return;
	read_addresses(so);
	config = tcp_config_for(so->opt, ETH_MTU, &so->remote.addr);
	tcp_part_init(so);
	tcp_snapshot_lost(&so->tcp.conn, &tcp_sock_engine_ops, &config, ECONNRESET);
	so->tcp.error = ECONNRESET;
	become_local(so, ring, true);
	ring_release_cold(ring);
}
