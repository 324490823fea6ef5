/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections in transit to other processes, in messages that nobody has received yet.
 *
 * Role		control lock.
 * Lifetime	a place, the address at which receivers of a connection connect, lives as long
 *		as messages are in transit.  A message is over when its receiver has
 *		connected, or when the queue that it was put in has been empty for a while:
 *		then a process without the library received it, or it was destroyed.
 *
 * The addresses are abstract names made of a key in the twin's mark (pass_mark.c), so nobody
 * else can guess them.  But everybody can read one in /proc/net/unix, and bind it once we
 * have closed it: a name that a stranger has taken is not used again, and receivers skip it.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "base/mem.h"
#include "base/siphash.h"
#include "base/sys.h"
#include "base/unix_socket.h"
#include "sock/core/host_state.h"
#include "sock/share/pass.h"
#include "sock/share/share_internal.h"

#define NAMES 8 /* names in use at a time: one for each process that sends the connection */
#define LISTEN_TRIES 5
#define BACKLOG 256
#define EVENTS_MAX 64
#define CONNECT_MAX NSEC_PER_SEC

/*
 * How long a queue has to be empty before its message is over: usually; if the other end is
 * closed; and for a message that is just being sent.
 */
#define GRACE (3 * NSEC_PER_SEC)
#define GRACE_GONE (200 * NSEC_PER_MSEC)
#define SENDING_MAX (10 * NSEC_PER_SEC)
/* How long a place is looked at often after an event. */
#define ACTIVE (50 * NSEC_PER_MSEC)

struct unix_message {
	struct list link; /* in place.messages */
	uint64_t ticket;
	int unix_fd;  /* a copy of the sending socket; hidden */
	bool sending; /* the call has not returned */
	nsec_t empty; /* since when its queue is empty; 0: it is not */
};

struct place {
	struct channel holder; /* first: stands for the receivers; never read */
	struct list link;      /* in pass.places */
	struct list active;    /* in pass.active: looked at often */
	nsec_t active_until;
	uint64_t id;
	struct pass_mark mark; /* the mark when listen_fd was bound */
	int listen_fd;
	bool paused; /* out of descriptors: listen_fd is not watched */
	struct list messages;
};

static struct {
	struct list places, active; /* of struct place */
	int epoll_fd;		    /* of listening sockets and copies; hidden; 0: none */
	unsigned n_paused;	    /* places */
	uint64_t tickets;	    /* any, atomic: the last one given out */
} pass;

uint64_t pass_ticket(unsigned n)
{
	return __atomic_add_fetch(&pass.tickets, n, __ATOMIC_RELAXED) - n + 1;
}

bool pass_any(void)
{
	return pass.places.next && !list_empty(&pass.places);
}

static struct place *find_place(uint64_t id)
{
	if (!pass_any())
		return NULL;
	list_for_each(link, &pass.places) {
		struct place *place = container_of(link, struct place, link);

		if (place->id == id)
			return place;
	}
	return NULL;
}

struct channel *pass_holder(uint64_t id)
{
	struct place *place = find_place(id);

	return place ? &place->holder : NULL;
}

/* ---- where receivers connect ------------------------------------------------------- */

/*
 * The same secret and cookie give the same key, so several processes can mark the twin at a
 * time.
 */
static uint64_t key_of(uint64_t cookie)
{
	const struct {
		char what[8];
		uint64_t cookie;
	} bytes = {"passing", cookie};

	return siphash(host_secret(), &bytes, sizeof(bytes));
}

static socklen_t name_of(struct sockaddr_un *addr, uint64_t key, uint32_t nr)
{
	uint8_t long_key[SIPHASH_KEY] = {0};

	memcpy(long_key, &key, sizeof(key));
	return unix_socket_name(addr, "libvma-pass-%016llx",
				(unsigned long long)siphash(long_key, &nr, sizeof(nr)));
}

/* As unix_socket_connect(); -EACCES: a stranger has the name. */
static int connect_name(uint64_t key, uint32_t nr)
{
	struct sockaddr_un addr;
	socklen_t len = name_of(&addr, key, nr);

	return unix_socket_connect(&addr, len);
}

int pass_connect(const struct pass_mark *mark)
{
	nsec_t deadline = clock_now() + CONNECT_MAX;

	assert(!control_is_held());
	for (;;) {
		int fd = -ECONNREFUSED;
		bool busy = false;

		for (uint32_t i = 0; i < NAMES; i++) {
			fd = connect_name(mark->key, mark->first + i);
			if (fd >= 0)
				return fd;
			busy |= fd == -EAGAIN;
		}
		if (!busy || clock_now() >= deadline)
			return fd;
		sys_sleep(NSEC_PER_MSEC);
	}
}

/*
 * Does a stranger have the name, rather than a process of ours that sends the connection,
 * too? One that has just bound the name listens soon, and its backlog is never full for
 * long.
 */
static bool is_taken_by_stranger(uint64_t key, uint32_t nr)
{
	int fd = -ECONNREFUSED;

	for (unsigned i = 0; i < LISTEN_TRIES && fd == -ECONNREFUSED; i++) {
		if (i)
			sys_sleep(NSEC_PER_MSEC);
		fd = connect_name(key, nr);
	}
	sys_close_fd(&(int){fd});
	return fd == -EACCES || fd == -EAGAIN || fd == -ECONNREFUSED;
}

static int bind_name(int fd, uint64_t key, uint32_t nr)
{
	struct sockaddr_un addr;
	socklen_t len = name_of(&addr, key, nr);

	return sys_bind(fd, (struct sockaddr *)&addr, len);
}

/* The listening socket, or -errno; mark->first goes past the names that strangers have. */
static int listen_at_name(struct pass_mark *mark)
{
	int fd = unix_socket_new(), rc = -EADDRINUSE;

	if (fd < 0)
		return fd;
	for (uint32_t i = 0; i < NAMES && rc == -EADDRINUSE;) {
		rc = bind_name(fd, mark->key, mark->first + i);
		if (rc == -EADDRINUSE && !i && is_taken_by_stranger(mark->key, mark->first))
			mark->first++;
		else
			i++;
	}
	if (!rc)
		rc = sys_listen(fd, BACKLOG);
	if (!rc)
		return fd;
	sys_close(fd);
	return rc;
}

static bool watch_fd(struct place *place, int fd, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = place};

	return !sys_call(SYS_epoll_ctl, pass.epoll_fd, EPOLL_CTL_ADD, fd, &ev, 0, 0);
}

/* The epoll entry has to be deleted: copies of the descriptor keep the file open. */
static void close_watched(int *fd)
{
	sys_call(SYS_epoll_ctl, pass.epoll_fd, EPOLL_CTL_DEL, *fd, NULL, 0, 0);
	sys_close_fd(fd);
}

/* An epoll set inside that of the channels, so that it wakes the internal thread. */
static bool open_epoll(void)
{
	if (pass.epoll_fd > 0)
		return true;
	list_init(&pass.places);
	list_init(&pass.active);
	pass.epoll_fd = sys_fd_hide((int)sys_call(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0, 0, 0, 0));
	if (pass.epoll_fd > 0 && share_watch(pass.epoll_fd))
		return true;
	sys_close_fd(&pass.epoll_fd);
	return false;
}

static struct place *make_place(struct inet_sock *so)
{
	struct place *place;

	if (!open_epoll() || host_state_open())
		return NULL;
	place = mem_zalloc(sizeof(*place));
	if (!place)
		return NULL;
	place->id = so->id;
	place->holder.fd = -1;
	list_init(&place->holder.wants);
	list_init(&place->holder.unsent);
	list_init(&place->holder.link);
	list_init(&place->active);
	list_init(&place->messages);
	if (!pass_mark_get(sock_twin(&so->sk), &place->mark))
		place->mark.key = key_of(so->sharing->cookie);
	place->listen_fd = listen_at_name(&place->mark);
	if (place->listen_fd < 0 || !watch_fd(place, place->listen_fd, EPOLLIN)) {
		sys_close_fd(&place->listen_fd);
		mem_free(place);
		return NULL;
	}
	list_push_back(&pass.places, &place->link);
	share_note_held(so->id);
	return place;
}

/* Paused, or connections that wait there would keep the internal thread awake. */
static void set_paused(struct place *place, bool paused)
{
	if (place->paused == paused)
		return;
	place->paused = paused;
	pass.n_paused += paused ? 1u : -1u;
	if (paused)
		sys_call(SYS_epoll_ctl, pass.epoll_fd, EPOLL_CTL_DEL, place->listen_fd, NULL, 0, 0);
	else
		watch_fd(place, place->listen_fd, EPOLLIN);
}

/* Accepts receivers: each holds the connection from now on, and sends MESSAGE_CLAIM first. */
static void accept_callers(struct place *place)
{
	int fd;

	while ((fd = sys_accept4(place->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >=
	       0) {
		struct inet_sock *so = share_find(place->id);
		struct channel *ch = NULL;

		fd = sys_fd_hide(fd);
		if (so && so->sharing && unix_socket_is_of(fd, sys_geteuid(), NULL))
			ch = channel_create_only(fd, place->id);
		else
			sys_close(fd);
		if (!ch)
			continue;
		ch->expects_claim = true;
		so->sharing->shared.offered = false; /* not to this one */
		share_listen_to(ch);
		share_read(ch);
	}
	set_paused(place, fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS);
}

/* ---- messages ---------------------------------------------------------------------- */

static void end_message(struct unix_message *message)
{
	list_remove(&message->link);
	close_watched(&message->unix_fd);
	mem_free(message);
}

/* No message is in transit any more. */
static void end_place(struct place *place)
{
	struct inet_sock *so;

	accept_callers(place);
	set_paused(place, false);
	close_watched(&place->listen_fd);
	list_remove(&place->link);
	list_remove(&place->active);
	so = share_find(place->id);
	mem_free(place);
	if (so)
		share_settle(so);
}

static void end_if_empty(struct place *place)
{
	if (list_empty(&place->messages))
		end_place(place);
}

/* A receiver had the other end open, and connected before it could close it. */
static nsec_t grace(const struct unix_message *message)
{
	struct pollfd pfd = {.fd = message->unix_fd};
	struct timespec zero = {0, 0};

	if (message->sending)
		return SENDING_MAX;
	return sys_ppoll(&pfd, 1, &zero, NULL) == 1 ? GRACE_GONE : GRACE;
}

static bool is_over(struct unix_message *message, nsec_t now)
{
	int bytes = 0;

	if (sys_ioctl(message->unix_fd, SIOCOUTQ, &bytes) || !bytes)
		message->empty = message->empty ? message->empty : now;
	else
		message->empty = 0;
	return message->empty && now - message->empty >= grace(message);
}

/* Its queue may have become empty: looks often for a while, so that this is not missed. */
static void look_often(struct place *place)
{
	place->active_until = clock_now() + ACTIVE;
	if (!list_linked(&place->active))
		list_push_back(&pass.active, &place->active);
	share_busy();
}

/* Receivers first, because they end messages. */
static void look_at(struct place *place, nsec_t now)
{
	bool again;

	accept_callers(place);
	again = now < place->active_until;
	list_for_each_safe(link, &place->messages) {
		struct unix_message *message = container_of(link, struct unix_message, link);

		if (is_over(message, now))
			end_message(message);
		else
			again |= message->empty || message->sending;
	}
	if (!again)
		list_remove(&place->active);
	end_if_empty(place);
}

static void take_events(void)
{
	for (unsigned n = 0; n < EVENTS_MAX; n++) {
		struct epoll_event ev;
		struct place *place;

		if (sys_call(SYS_epoll_wait, pass.epoll_fd, &ev, 1, 0, 0, 0) != 1)
			return;
		place = ev.data.ptr;
		accept_callers(place);
		look_often(place);
	}
}

bool pass_is_paused(void)
{
	return pass.n_paused != 0;
}

static void accept_paused(void)
{
	list_for_each(link, &pass.places) {
		struct place *place = container_of(link, struct place, link);

		if (place->paused)
			accept_callers(place);
	}
}

bool pass_serve(void)
{
	nsec_t now;

	if (!pass_any())
		return false;
	take_events();
	if (pass.n_paused)
		accept_paused();
	now = clock_now();
	list_for_each_safe(link, &pass.active)
		look_at(container_of(link, struct place, active), now);
	return !list_empty(&pass.active);
}

/* The mark may be another process's of ours, which knows of more strangers by now. */
static bool is_marked(const struct place *place, int twin)
{
	struct pass_mark found;

	return pass_mark_get(twin, &found) && found.key == place->mark.key;
}

int pass_send(struct inet_sock *so, int unix_fd, uint64_t ticket)
{
	struct place *place = find_place(so->id);
	struct unix_message *message;
	bool made = !place;
	int rc = -ENOBUFS;

	place = place ? place : make_place(so);
	message = place ? mem_zalloc(sizeof(*message)) : NULL;
	if (!message)
		goto no_memory;
	rc = -EBUSY;
	if ((made || !is_marked(place, sock_twin(&so->sk))) &&
	    !pass_mark_set(sock_twin(&so->sk), &place->mark))
		goto no_mark;
	rc = -ENOBUFS;
	message->ticket = ticket;
	message->sending = true;
	message->unix_fd = sys_fd_copy(unix_fd);
	if (message->unix_fd < 0 ||
	    !watch_fd(place, message->unix_fd, EPOLLIN | EPOLLOUT | EPOLLET))
		goto no_way;
	list_push_back(&place->messages, &message->link);
	look_often(place);
	return 0;

no_way:
	sys_close_fd(&message->unix_fd);
no_mark:
	mem_free(message);
no_memory:
	if (place)
		end_if_empty(place);
	return rc;
}

static void done_at(struct place *place, uint64_t ticket, bool sent)
{
	bool found = false;

	list_for_each_safe(link, &place->messages) {
		struct unix_message *message = container_of(link, struct unix_message, link);

		if (message->ticket != ticket)
			continue;
		found = true;
		message->sending = false;
		message->empty = 0;
		if (!sent)
			end_message(message);
	}
	if (found)
		look_often(place);
	end_if_empty(place);
}

void pass_done(uint64_t ticket, bool sent)
{
	if (!control_lock())
		return;
	if (pass_any()) {
		list_for_each_safe(link, &pass.places)
			done_at(container_of(link, struct place, link), ticket, sent);
	}
	control_unlock();
}

void pass_received(uint64_t id)
{
	struct place *place = find_place(id);

	if (!place || list_empty(&place->messages))
		return;
	end_message(container_of(place->messages.next, struct unix_message, link));
	look_often(place);
}

void pass_on_claim(struct channel *ch, const struct message *message)
{
	ch->claimed = true;
	if (!(message->flags & MESSAGE_FLAG_PEEK))
		pass_received(ch->only);
	if ((message->flags & MESSAGE_FLAG_HAVE) && idset_add(&ch->closed, ch->only))
		ch->done = true;
}

void pass_fork_child(void)
{
	pass.epoll_fd = 0;
	pass.n_paused = 0;
	list_init(&pass.places);
	list_init(&pass.active);
}
