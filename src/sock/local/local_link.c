/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/local/local_link.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/sys.h"
#include "base/unix_socket.h"
#include "ring/progress.h"
#include "ring/rings.h"
#include "sock/local/local_dir.h"
#include "sock/local/local_link_internal.h"

#define EVENTS_MAX 16
#define MESSAGES_MAX 64		   /* of one link, before the others' are looked at */
#define REST (100 * NSEC_PER_MSEC) /* before newcomers are accepted again */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
struct local_process local = {.listen_fd = -1, .epoll_fd = -1};

void local_lock(void)
{
	mutex_lock(&lock);
}

void local_unlock(void)
{
	mutex_unlock(&lock);
}

struct ring *local_ring(void)
{
	return local.ring;
}

uint64_t local_name(void)
{
	return local.name;
}

bool local_links_started(void)
{
	return local.started;
}

static int watch(int fd, void *ptr)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = ptr};

	return (int)sys_call(SYS_epoll_ctl, local.epoll_fd, EPOLL_CTL_ADD, fd, &event, 0, 0);
}

/* ---- notices (holder) ---------------------------------------------------------------------- */

static void on_notice(void *arg, uint32_t number)
{
	struct local_link *link = arg;
	struct local_end *end = number < link->n_ends ? link->ends[number] : NULL;

	if (__builtin_expect(end != NULL, 1))
		end->ops->notice(end);
}

/* port_local_lane.look: true: an end does not want any more. */
static bool look(void *arg)
{
	struct local_link *link = arg;
	bool some = false;

	list_for_each_safe(at, &link->wanting) {
		struct local_end *end = container_of(at, struct local_end, wants);

		if (end->ops->look)
			end->ops->look(end);
		else
			end->ops->notice(end);
		some = some || !list_linked(at);
	}
	return some;
}

bool local_link_is_dead(const struct local_link *link)
{
	return link->dead;
}

void local_link_answered(struct local_link *link)
{
	if (link->answered)
		return;
	link->answered = true;
	/* It cannot fail: the number of connections is as before. */
	notice_writer_open(&link->out, &link->shared->to_responder, NOTICE_CONNS, link->peer_fd);
}

/* ---- making a link (lock) ------------------------------------------------------------------ */

static void free_link(struct local_link *link)
{
	list_remove(&link->link);
	sys_close_fd(&link->sock);
	local_ways_close(link);
	sys_close_fd(&link->wake_fd);
	sys_close_fd(&link->peer_fd);
	segment_close(&link->segment);
	for (unsigned i = 0; i < LOCAL_CHUNKS; i++) {
		if (!link->chunks[i])
			continue;
		segment_close(link->chunks[i]);
		mem_free(link->chunks[i]);
	}
	mem_free(link->ends);
	mem_free(link->begun);
	mem_free(link->left);
	mem_free(link);
}

static struct local_link *new_link(int sock, bool initiator)
{
	struct local_link *link = mem_zalloc(sizeof(*link));

	if (!link)
		return NULL;
	link->sock = sock;
	for (unsigned i = 0; i < LOCAL_WAYS; i++)
		link->way[i] = (struct local_way){.fd = -1, .memory = -1};
	link->wake_fd = link->peer_fd = -1;
	link->segment = SEGMENT_NONE;
	link->initiator = initiator;
	list_init(&link->wanting);
	list_push_back(&local.links, &link->link);
	return link;
}

/* The segment and the eventfds are there: opens this side of the lanes. */
static int open_lanes(struct local_link *link)
{
	struct link_shared *shared =
		segment_at(&link->segment, SEGMENT_HEADER, sizeof(*shared), 64);
	struct notice_lane *in, *out;
	int rc;

	if (!shared)
		return -EPROTO;
	link->shared = shared;
	in = link->initiator ? &shared->to_initiator : &shared->to_responder;
	out = link->initiator ? &shared->to_responder : &shared->to_initiator;
	rc = notice_reader_open(&link->lane.in, in, NOTICE_CONNS);
	if (!rc)
		rc = notice_writer_open(&link->out, out, NOTICE_CONNS, link->peer_fd);
	if (rc)
		return rc;
	link->lane.wake_fd = link->wake_fd;
	link->lane.notice = on_notice;
	link->lane.look = look;
	link->lane.arg = link;
	if (!ring_hold_cold(local.ring))
		return -EAGAIN;
	rc = port_local_add(local.ring, &link->lane);
	ring_release_cold(local.ring);
	link->open = !rc;
	return rc;
}

static int say_hello(struct local_link *link)
{
	struct local_message hello = {
		.kind = LOCAL_HELLO,
		.number = LOCAL_PROTOCOL,
		.value = {(uint32_t)local.name, (uint32_t)(local.name >> 32)},
	};
	int fds[LOCAL_HELLO_FDS] = {link->segment.fd, link->wake_fd, link->peer_fd};

	return local_wire_send(link->sock, &hello, fds, LOCAL_HELLO_FDS);
}

/*
 * Makes what both share, if memory, which it consumes, is -1, and sends it.  The segment's descriptor is
 * not needed afterwards.
 */
static int initiate(struct local_link *link, int memory)
{
	int rc = memory < 0 ? segment_create(&link->segment, LOCAL_LINK_SEGMENT, LINK_SIZE)
			    : segment_open(&link->segment, memory, LOCAL_LINK_SEGMENT, LINK_SIZE,
					   LINK_SIZE + SEGMENT_PAGE);

	if (rc)
		return rc;
	link->wake_fd = sys_fd_hide(sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	link->peer_fd = sys_fd_hide(sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (link->wake_fd < 0 || link->peer_fd < 0)
		return -EMFILE;
	rc = open_lanes(link);
	if (!rc)
		rc = say_hello(link);
	sys_close_fd(&link->segment.fd);
	if (!rc)
		rc = watch(link->sock, link);
	return rc;
}

static void leave_ring(struct local_link *link)
{
	if (!link->open || !ring_hold_cold(local.ring))
		return;
	port_local_remove(local.ring, &link->lane);
	link->open = false;
	ring_release_cold(local.ring);
}

int local_link_to(uint64_t process, struct local_link **out)
{
	struct local_link *link;
	struct local_way way;
	int rc;

	control_assert_held();
	if (!local.started)
		return -ENOENT;
	list_for_each(at, &local.links) {
		link = container_of(at, struct local_link, link);
		if (link->initiator && link->process == process && link->sock >= 0) {
			*out = link;
			return 0;
		}
	}
	way = local_way_take(process);
	if (way.fd < 0)
		way.fd = local_wire_connect(process);
	if (way.fd < 0)
		return way.fd;
	link = new_link(way.fd, true);
	if (!link) {
		local_way_close(&way);
		return -ENOMEM;
	}
	link->process = process;
	rc = initiate(link, way.memory);
	if (rc) {
		leave_ring(link);
		free_link(link);
		return rc == -EPIPE ? -ECONNREFUSED : rc; /* it ends just now */
	}
	*out = link;
	return 0;
}

int local_link_send(struct local_link *link, const struct local_message *message, int fd)
{
	if (link->sock < 0)
		return -EPIPE;
	return local_wire_send(link->sock, message, &fd, fd >= 0);
}

struct segment *local_link_chunk(struct local_link *link, uint32_t number)
{
	struct segment **chunk = &link->chunks[number / LOCAL_CHUNK % LOCAL_CHUNKS];

	if (*chunk)
		return *chunk;
	*chunk = mem_alloc(sizeof(**chunk));
	if (*chunk)
		**chunk = SEGMENT_NONE;
	return *chunk;
}

int local_link_chunk_to_send(struct local_link *link, uint32_t number)
{
	unsigned i = number / LOCAL_CHUNK % LOCAL_CHUNKS;

	return link->sent[i] || !link->chunks[i] ? -1 : link->chunks[i]->fd;
}

void local_link_chunk_sent(struct local_link *link, uint32_t number)
{
	link->sent[number / LOCAL_CHUNK % LOCAL_CHUNKS] = true;
}

uint64_t local_link_process(const struct local_link *link)
{
	return link->process;
}

/* ---- the internal thread (lock) ------------------------------------------------------------ */

/* The peer has ended, or broke the rules: tells the ends. */
static void end_link(struct local_link *link)
{
	log_debug("a process on this host is not reached through shared memory any more");
	sys_call(SYS_epoll_ctl, local.epoll_fd, EPOLL_CTL_DEL, link->sock, NULL, 0, 0);
	sys_close_fd(&link->sock);
	local_ways_close(link);
	if (!ring_hold_cold(local.ring))
		return;
	link->dead = true;
	if (link->open)
		notice_take(&link->lane.in, on_notice, link); /* the last ones */
	for (uint32_t i = 0; i < link->n_ends; i++) {
		if (link->ends[i])
			link->ends[i]->ops->died(link->ends[i]);
	}
	__atomic_store_n(&local.to_do, true, __ATOMIC_RELAXED);
	ring_release_cold(local.ring);
}

/*
 * Threads write and read it while they hold the ring, so nothing else is accepted: a pipe would block
 * them, or raise SIGPIPE.
 */
static bool is_wake_fd(int fd)
{
	static const char eventfd[] = "anon_inode:[eventfd]";
	char path[32], name[sizeof(eventfd)];
	int flags = sys_fcntl(fd, F_GETFL, 0);
	long n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = sys_call(SYS_readlink, path, name, sizeof(name), 0, 0, 0);
	return n == sizeof(eventfd) - 1 && !memcmp(name, eventfd, sizeof(eventfd) - 1) &&
	       flags >= 0 && (flags & O_NONBLOCK);
}

static bool take_hello(struct local_link *link, const struct local_message *m, int *fds, unsigned n)
{
	int rc;

	if (m->kind != LOCAL_HELLO || m->number != LOCAL_PROTOCOL || n != LOCAL_HELLO_FDS) {
		unix_socket_close_fds(fds, n);
		return false;
	}
	link->process = m->value[0] | (uint64_t)m->value[1] << 32;
	link->peer_fd = fds[1];
	link->wake_fd = fds[2];
	rc = segment_open(&link->segment, fds[0], LOCAL_LINK_SEGMENT, LINK_SIZE,
			  LINK_SIZE + SEGMENT_PAGE);
	if (!rc && (!is_wake_fd(fds[1]) || !is_wake_fd(fds[2])))
		rc = -EPROTO;
	if (!rc)
		rc = open_lanes(link);
	sys_close_fd(&link->segment.fd);
	return !rc;
}

static bool handle(struct local_link *link, const struct local_message *m, int *fds, unsigned n)
{
	if (!link->open && !link->initiator)
		return take_hello(link, m, fds, n);
	if (m->kind < LOCAL_KINDS && local.handlers[m->kind])
		return local.handlers[m->kind](link, m, fds, n);
	unix_socket_close_fds(fds, n);
	return false;
}

static void read_link(struct local_link *link)
{
	struct local_message message;
	int fds[LOCAL_FDS], rc;
	unsigned n;

	for (unsigned i = 0; i < MESSAGES_MAX; i++) {
		rc = local_wire_receive(link->sock, &message, fds, &n);
		if (rc == -EAGAIN)
			return;
		if (!rc)
			unix_socket_close_fds(fds, n);
		if (!rc || !handle(link, &message, fds, n)) {
			end_link(link);
			return;
		}
	}
}

static void accept_links(void)
{
	int fd;

	while ((fd = sys_accept4(local.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		struct local_link *link;

		fd = sys_fd_hide(fd);
		link = unix_socket_is_of(fd, sys_geteuid(), NULL) ? new_link(fd, false) : NULL;
		if (!link) {
			sys_close(fd);
			continue;
		}
		if (watch(fd, link))
			end_link(link);
		else
			read_link(link); /* what was sent at once */
	}
	if (fd != -EMFILE && fd != -ENFILE)
		return;
	/* Not watched meanwhile, or the set would stay readable. */
	sys_call(SYS_epoll_ctl, local.epoll_fd, EPOLL_CTL_DEL, local.listen_fd, NULL, 0, 0);
	__atomic_store_n(&local.rests_until, clock_now() + REST, __ATOMIC_RELAXED);
}

static void end_rest(nsec_t now)
{
	nsec_t until = __atomic_load_n(&local.rests_until, __ATOMIC_RELAXED);

	if (__builtin_expect(!until || now < until, 1))
		return;
	local_lock();
	__atomic_store_n(&local.rests_until, 0, __ATOMIC_RELAXED);
	if (local.listen_fd >= 0)
		watch(local.listen_fd, &local);
	local_unlock();
}

void local_links_readable(void)
{
	struct epoll_event events[EVENTS_MAX];
	long n;

	local_lock();
	n = local.started
		    ? sys_call(SYS_epoll_pwait, local.epoll_fd, events, EVENTS_MAX, 0, NULL, 8)
		    : 0;
	for (long i = 0; i < n; i++) {
		if (events[i].data.ptr == &local)
			accept_links();
		else if (events[i].data.ptr == &lock)
			local_dir_changed();
		else
			read_link(events[i].data.ptr);
	}
	local_unlock();
}

/* The last end has left a link whose peer has ended. */
static void free_if_over(struct local_link *link)
{
	bool over;

	if (link->sock >= 0 || !ring_hold_cold(local.ring))
		return;
	over = !link->used;
	if (over && link->open)
		port_local_remove(local.ring, &link->lane);
	ring_release_cold(local.ring);
	if (over)
		free_link(link);
}

void local_links_run(nsec_t now)
{
	end_rest(now);
	if (__builtin_expect(!__atomic_load_n(&local.to_do, __ATOMIC_RELAXED), 1))
		return;
	__atomic_store_n(&local.to_do, false, __ATOMIC_RELAXED);
	local_lock();
	list_for_each_safe(at, &local.links)
		free_if_over(container_of(at, struct local_link, link));
	local_unlock();
}

/* ---- start and stop ------------------------------------------------------------------------ */

static int open_descriptors(const char *base)
{
	int rc;

	local.epoll_fd =
		sys_fd_hide((int)sys_call(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0, 0, 0, 0));
	if (local.epoll_fd < 0)
		return local.epoll_fd;
	local.listen_fd = local_wire_listen(&local.name);
	if (local.listen_fd < 0)
		return local.listen_fd;
	rc = watch(local.listen_fd, &local);
	if (!rc && (!base || *base))
		rc = local_dir_open(base, local_is_dead);
	if (!rc && local_dir_fd() >= 0)
		rc = watch(local_dir_fd(), &lock);
	return rc;
}

int local_links_start(const char *base, local_handler *const *handlers)
{
	char why[PORT_WHY];
	bool fresh;
	int rc;

	control_assert_held();
	if (local.started)
		return 0;
	rc = rings_get(PORT_LOCAL_IFINDEX, 0, &local.ring, why, &fresh);
	if (rc)
		return rc;
	local_lock();
	list_init(&local.links);
	local.handlers = handlers;
	rc = open_descriptors(base);
	if (rc) {
		local_dir_close();
		sys_close_fd(&local.listen_fd);
		sys_close_fd(&local.epoll_fd);
	} else {
		ring_get(local.ring); /* open as long as the process takes part */
		local.started = true;
	}
	local_unlock();
	if (!rc)
		progress_watch(local.epoll_fd, local_links_readable);
	progress_kick();
	return rc;
}

void local_links_hide(void)
{
	control_assert_held();
	local_lock();
	sys_close_fd(&local.listen_fd);
	local_dir_close();
	local_unlock();
}

void local_links_stop(void)
{
	control_assert_held();
	if (!local.started)
		return;
	local_links_hide();
	local_lock();
	list_for_each(at, &local.links)
		sys_close_fd(&container_of(at, struct local_link, link)->sock);
	local_unlock();
}

void local_links_forget(void)
{
	/* The descriptors are closed there, and the memory is abandoned. */
	pthread_mutex_init(&lock, NULL);
	local_dir_forget();
	memset(&local, 0, sizeof(local));
	local.listen_fd = local.epoll_fd = -1;
}
