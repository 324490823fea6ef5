/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/share/exec_local.h"

#include <errno.h>
#include <fcntl.h>

#include "base/log.h"
#include "base/sys.h"
#include "sock/core/accept_options.h"
#include "sock/core/kind.h"
#include "sock/core/msg/family.h"
#include "sock/core/sock_options.h"
#include "sock/local/local.h"
#include "sock/local/local_move.h"
#include "sock/local/local_sock.h"
#include "sock/move/repair.h"
#include "sock/share/share_internal.h"
#include "sock/share/transfer.h"

static struct inet_sock *sock_at(struct list *link)
{
	return container_of(link, struct inet_sock, link);
}

static bool is_packed(const struct inet_sock *so)
{
	const struct sharing *sharing = so->sharing;

	return sharing && shared_is_packed(&sharing->shared) && sharing->memfd >= 0 &&
	       !sharing->passed;
}

/* ---- this image -------------------------------------------------------------------- */

static bool may_matter(const struct inet_sock *so)
{
	return so->verdict == VERDICT_LOCAL || (so->inet == INET_LISTEN && so->listen.local);
}

bool exec_local_any(void)
{
	bool any = false;

	if (!control_lock())
		return false;
	list_for_each(link, sock_list())
		any |= may_matter(sock_at(link));
	control_unlock();
	return any;
}

bool exec_local_is_one(struct sock_ref ref)
{
	bool is;

	if (!control_lock())
		return false;
	is = sock_ref_valid(ref) && inet_of(ref.sk)->verdict == VERDICT_LOCAL;
	control_unlock();
	return is;
}

bool exec_local_begin(void)
{
	bool any = false;

	if (!control_lock())
		return false;
	list_for_each(link, sock_list()) {
		struct inet_sock *so = sock_at(link);

		if (so->inet == INET_LOCAL)
			so->shm.stays = false;
		any |= so->inet == INET_LOCAL;
	}
	control_unlock();
	return any;
}

void exec_local_stays(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);

	if (!control_lock())
		return;
	if (sock_ref_valid(ref) && so->inet == INET_LOCAL)
		so->shm.stays = true;
	control_unlock();
}

/* It may have been accepted, which nobody has seen so far. */
static void look(struct inet_sock *so)
{
	struct ring *ring;

	if (sock_hold_cold(sock_ref_of(so), &ring))
		return;
	if (so->inet == INET_LOCAL)
		local_conn_look(so);
	ring_release_cold(ring);
}

static void pack(struct inet_sock *so)
{
	struct shared *s;
	int rc;

	share_init();
	look(so);
	/* A program of another user does not reach the peer's process. */
	if (!share_may_export(so) || share_other_holder(so, NULL) || !local_available())
		return;
	sock_twin_prepare(so); /* the next image does not know how */
	s = share_of(so);
	rc = s ? shared_pack(share_sink(), s) : -ENOMEM;
	if (rc)
		log_debug("fd %d: the connection cannot be prepared for exec: %s",
			  sock_twin(&so->sk), strerrordesc_np(-rc));
}

int exec_local_pack(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	int fd = -1;

	if (!control_lock())
		return -1;
	if (sock_ref_valid(ref) && so->inet == INET_LOCAL)
		pack(so);
	if (sock_ref_valid(ref) && is_packed(so))
		fd = so->sharing->memfd;
	if (fd >= 0 && sys_fcntl(fd, F_SETFD, 0))
		fd = -1;
	control_unlock();
	return fd;
}

/* Control lock: the way to the process of the peer's end; the descriptor stays here. */
static struct local_way way_of(struct inet_sock *so, unsigned which)
{
	struct local_way way = {.fd = -1, .memory = -1};
	struct ring *ring;

	control_assert_held();
	local_lock();
	if (!sock_hold_cold(sock_ref_of(so), &ring)) {
		if (so->inet == INET_LOCAL && so->shm.end.link)
			way = local_link_way(so->shm.end.link, which);
		ring_release_cold(ring);
	}
	local_unlock();
	return way;
}

bool exec_local_needs_relay(struct sock_ref ref, bool shared)
{
	struct inet_sock *so = inet_of(ref.sk);
	bool needs;

	if (!control_lock())
		return false;
	share_init();
	needs = sock_ref_valid(ref) && so->inet == INET_LOCAL && share_may_export(so) &&
		(local_available() || way_of(so, 0).fd >= 0) &&
		(shared || !share_other_holder(so, NULL));
	if (needs) {
		look(so);
		needs = so->inet == INET_LOCAL && (so->shm.established || so->shm.ended);
	}
	control_unlock();
	return needs;
}

bool exec_local_is_shared(struct sock_ref ref, bool stays)
{
	struct inet_sock *so = inet_of(ref.sk);
	bool is;

	if (!control_lock())
		return false;
	share_init();
	is = sock_ref_valid(ref) && so->verdict == VERDICT_LOCAL &&
	     share_other_holder(so, share_process.up) && (stays || share_parent_holds(so));
	control_unlock();
	return is;
}

/* The oldest local connection, off the queue; NULL: there is none. */
static struct inet_sock *pop_waiting(struct inet_sock *so)
{
	struct inet_sock *child = NULL;
	struct ring *ring;

	if (sock_hold_cold(sock_ref_of(so), &ring))
		return NULL;
	list_for_each(link, &so->listen.queue) {
		struct inet_sock *at = container_of(link, struct inet_sock, accept_link);

		if (at->inet != INET_LOCAL)
			continue;
		child = at;
		list_remove(link);
		__atomic_store_n(&so->listen.waiting, so->listen.waiting - 1, __ATOMIC_RELAXED);
		break;
	}
	ring_release_cold(ring);
	return child;
}

/* Consumes child. */
static bool pack_waiting(struct inet_sock *child, struct local_waiting *w)
{
	int memfd, rc;

	w->name = sock_addr_of(child, &child->local);
	w->peer = sock_addr_of(child, &child->remote);
	rc = transfer_export(child, 0, child->id, &memfd);
	sock_end(child); /* closes the connection if the export failed */
	if (rc)
		return false;
	w->packed = sys_fcntl(memfd, F_DUPFD_CLOEXEC, 0);
	sys_close(memfd);
	return w->packed >= 0;
}

bool exec_local_take_waiting(struct sock_ref listener, struct local_waiting *w)
{
	struct inet_sock *so = inet_of(listener.sk), *child = NULL;
	bool taken = false;

	if (!control_lock())
		return false;
	if (sock_ref_valid(listener) && so->inet == INET_LISTEN && so->listen.local &&
	    !share_parent_holds(so) && local_available()) {
		local_listen_stop(so);
		while (!taken && (child = pop_waiting(so)))
			taken = pack_waiting(child, w);
	}
	control_unlock();
	return taken;
}

bool exec_local_is_over(void)
{
	bool over;

	if (!control_lock())
		return false;
	over = local_is_over();
	control_unlock();
	return over;
}

struct local_way exec_local_way(struct sock_ref ref, unsigned which)
{
	struct local_way way = {.fd = -1, .memory = -1};

	if (!control_lock())
		return way;
	if (sock_ref_valid(ref) && !local_available())
		way = way_of(inet_of(ref.sk), which);
	if (way.fd >= 0)
		way = local_way_copy(&way);
	control_unlock();
	return way;
}

void exec_local_take_way(const struct local_way *way)
{
	if (way->fd < 0 || !control_lock())
		return;
	(void)local_take_way(way);
	control_unlock();
}

void exec_local_close_ways(void)
{
	if (!control_lock())
		return;
	local_links_close_ways();
	control_unlock();
}

static void copy_completions(struct inet_sock *so, int fd)
{
	struct error_queue completions;
	struct ring *ring;

	control_assert_held();
	if (sock_hold_cold(sock_ref_of(so), &ring))
		return;
	completions = sock_error_queue(so);
	ring_release_cold(ring);
	repair_completions(fd, completions);
}

void exec_local_copy_options(struct sock_ref ref, int fd)
{
	struct inet_sock *so = inet_of(ref.sk);
	const struct accept_options *options;

	if (!control_lock())
		return;
	if (sock_ref_valid(ref)) {
		sock_twin_prepare(so);
		options = accept_options_look(sock_twin(&so->sk), so->family);
		accept_options_apply(options, fd);
		accept_options_put(options);
		copy_completions(so, fd);
	}
	control_unlock();
}

static void warn(const struct inet_sock *so)
{
	static bool warned; /* control lock */

	if (!warned)
		log_box(LOG_WARNING,
			"Descriptor %d is not inherited by the program that is executed.\n"
			"It is a connection through shared memory (VMA_LOCAL), which only a\n"
			"program with the library can go on with.  It is closed.",
			sock_twin(&so->sk));
	warned = true;
}

static void reset(struct inet_sock *so)
{
	struct ring *ring;

	if (sock_hold_cold(sock_ref_of(so), &ring))
		return;
	local_conn_close(so, true);
	ring_release_cold(ring);
}

static void closes_with_exec(struct inet_sock *so)
{
	struct ring *ring;

	if (sock_hold_cold(sock_ref_of(so), &ring))
		return;
	if (so->inet == INET_LOCAL && so->shm.shared)
		local_move_execs(so, true);
	ring_release_cold(ring);
}

void exec_local_leave(struct inet_sock *so, bool inherits)
{
	control_assert_held();
	control_assert_no_ring();
	look(so);
	if (!so->shm.stays && !inherits)
		return;
	if (!so->shm.stays) {
		closes_with_exec(so);
	} else if (!so->shm.established && !so->shm.ended) {
		(void)local_connect_by_kernel(so, VERDICT_EXECUTED, true);
	} else {
		warn(so);
		if (!share_other_holder(so, NULL))
			reset(so);
		sock_close_locked(sock_ref_of(so));
	}
}

/* ---- this image, if exec fails; or the next one --------------------------------------- */

static void unpack(const struct list *list)
{
	list_for_each_safe(link, list) {
		struct inet_sock *so = sock_at(link);

		if (is_packed(so))
			shared_unpack(share_sink(), &so->sharing->shared);
	}
}

static void stay_open(struct inet_sock *so)
{
	struct ring *ring;

	if (sock_hold_cold(sock_ref_of(so), &ring))
		return;
	if (so->inet == INET_LOCAL && so->shm.shared)
		local_move_execs(so, false);
	ring_release_cold(ring);
}

void exec_local_undo(void)
{
	if (!control_lock())
		return;
	list_for_each(link, sock_list()) {
		if (sock_at(link)->inet == INET_LOCAL)
			stay_open(sock_at(link));
	}
	share_init();
	unpack(sock_list());
	unpack(&share_process.kept); /* what another thread closed meanwhile */
	control_unlock();
}

/* ---- the next image ------------------------------------------------------------------ */

/* Another descriptor of the socket came before: one of the last that were added. */
static struct inet_sock *find(uint64_t cookie)
{
	const struct list *list = sock_list();

	for (struct list *link = list->prev; link != list; link = link->prev) {
		if (is_packed(sock_at(link)) && sock_at(link)->sharing->cookie == cookie)
			return sock_at(link);
	}
	return NULL;
}

/* Consumes packed. */
static struct inet_sock *create(int fd, int packed, uint64_t cookie)
{
	struct inet_sock *so = transfer_create(fd);

	if (so && !share_begin_toward(so, NULL)) {
		sock_free(so);
		so = NULL;
	}
	if (!so) {
		sys_close(packed);
		return NULL;
	}
	shared_begin_packed(&so->sharing->shared);
	so->sharing->memfd = sys_fd_hide(packed);
	so->sharing->cookie = cookie;
	(void)share_nonblock_now(so);
	sock_list_add(so);
	return so;
}

struct sock_ref exec_local_add(int fd, int packed)
{
	struct sock_ref none = {NULL, 0};
	struct inet_sock *so = NULL;
	uint64_t cookie;

	if (!control_lock())
		return none;
	clock_init(); /* this is the first socket here */
	share_init();
	cookie = sys_socket_cookie(fd);
	if (sys_fd_is_hidden(packed))
		so = find(cookie);
	else if (packed != fd && transfer_is_local(packed))
		so = create(fd, packed, cookie);
	control_unlock();
	return so ? sock_ref_of(so) : none;
}

void exec_local_done(void)
{
	if (!control_lock())
		return;
	share_init();
	unpack(sock_list());
	control_unlock();
}
