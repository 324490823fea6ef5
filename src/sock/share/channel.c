/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/share/channel.h"

#include <errno.h>

#include "base/image/sections.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/unix_socket.h"
#include "sock/core/control.h"

#define MAGIC 0x766d616cu
#define FDS_MAX 4u /* descriptors that a message may have; only the first one is used */

/*
 * Limit of queued messages: some for each shared socket, and more for unaccepted
 * connections.
 */
#define UNSENT_EACH 8
#define UNSENT_MORE 16384

struct unsent {
	struct list link;
	struct message message;
	int memfd;
};

struct channel *channel_create(int fd, uint64_t last_id)
{
	static uint64_t created EARLY_DATA; /* any, atomic */
	struct channel *ch = mem_zalloc(sizeof(*ch));

	if (!ch) {
		sys_close_fd(&fd);
		return NULL;
	}
	list_init(&ch->link);
	list_init(&ch->wants);
	list_init(&ch->unsent);
	ch->serial = __atomic_add_fetch(&created, 1, __ATOMIC_RELAXED);
	ch->fd = fd;
	ch->last_id = last_id;
	return ch;
}

struct channel *channel_create_only(int fd, uint64_t id)
{
	struct channel *ch = channel_create(fd, id);

	if (ch)
		ch->only = id;
	return ch;
}

void channel_destroy(struct channel *ch)
{
	struct list *link;

	while (!list_empty(&ch->wants))
		channel_want_end(container_of(ch->wants.next, struct want, link));
	while ((link = list_pop_front(&ch->unsent))) {
		struct unsent *u = container_of(link, struct unsent, link);

		sys_close_fd(&u->memfd);
		mem_free(u);
	}
	idset_fini(&ch->closed);
	idset_fini(&ch->all_closed);
	idset_fini(&ch->held);
	sys_close_fd(&ch->fd);
	mem_free(ch);
}

/* False: it has no room now. A message to an end that is gone counts as sent. */
static bool send_now(struct channel *ch, const struct message *message, int memfd)
{
	struct iovec iov = {(void *)(uintptr_t)message, sizeof(*message)};
	int n = unix_socket_send(ch->fd, &iov, 1, &memfd, memfd >= 0);

	return n != -EAGAIN && n != -ENOBUFS && n != -ETOOMANYREFS && n != -ENOMEM;
}

void channel_send(struct channel *ch, enum message_kind kind, uint64_t id, uint64_t flags,
		  int memfd)
{
	struct message message = {
		.magic = MAGIC, .kind = kind, .id = ch->only ? 1 : id, .flags = flags};
	struct unsent *u;

	if (list_empty(&ch->unsent) && send_now(ch, &message, memfd)) {
		sys_close_fd(&memfd);
		return;
	}
	if (ch->n_unsent >= UNSENT_EACH * ch->last_id + UNSENT_MORE)
		ch->broken = true;
	u = ch->broken ? NULL : mem_alloc(sizeof(*u));
	if (!u) { /* the message is lost: the other end gets no answer */
		sys_close_fd(&memfd);
		return;
	}
	u->message = message;
	u->memfd = memfd;
	list_push_back(&ch->unsent, &u->link);
	ch->n_unsent++;
}

bool channel_flush(struct channel *ch)
{
	while (!list_empty(&ch->unsent)) {
		struct unsent *u = container_of(ch->unsent.next, struct unsent, link);

		if (!send_now(ch, &u->message, u->memfd))
			return false;
		list_remove(&u->link);
		ch->n_unsent--;
		sys_close_fd(&u->memfd);
		mem_free(u);
	}
	return true;
}

int channel_receive(struct channel *ch, struct message *message, int *memfd)
{
	for (;;) {
		struct iovec iov = {message, sizeof(*message)};
		int fds[FDS_MAX];
		unsigned n_fds;
		ssize_t n = unix_socket_receive(ch->fd, &iov, 1, 0, fds, FDS_MAX, &n_fds);

		*memfd = n_fds ? fds[0] : -1;
		if (n_fds > 1)
			unix_socket_close_fds(fds + 1, n_fds - 1);
		if (n == -EINTR)
			continue;
		if (n == -EAGAIN)
			return 0;
		if (n <= 0 && n != -EBADMSG)
			return -1;
		if (n == sizeof(*message) && message->magic == MAGIC && message->id) {
			message->id = ch->only ? ch->only : message->id;
			return 1;
		}
		sys_close_fd(memfd);
	}
}

static bool is_answer(const struct message *message)
{
	return message->kind == MESSAGE_ACK || message->kind == MESSAGE_NACK ||
	       message->kind == MESSAGE_RECEIVED || message->kind == MESSAGE_STAYS;
}

bool channel_relay(struct channel *from, struct channel *to)
{
	struct message message;
	int memfd, rc;

	while ((rc = channel_receive(from, &message, &memfd)) > 0) {
		if (is_answer(&message))
			sys_close_fd(&memfd);
		else
			channel_send(to, message.kind, message.id, message.flags, memfd);
	}
	return rc == 0;
}

struct want *channel_want(const struct channel *ch, uint64_t id)
{
	list_for_each(link, &ch->wants) {
		struct want *want = container_of(link, struct want, link);

		if (want->id == id)
			return want;
	}
	return NULL;
}

void channel_note_request(struct channel *ch, uint64_t id, int twin)
{
	struct want *want = channel_want(ch, id) ? NULL : mem_alloc(sizeof(*want));

	if (!want) { /* no memory: the request gets no answer */
		sys_close_fd(&twin);
		return;
	}
	want->id = id;
	want->twin = twin;
	list_push_back(&ch->wants, &want->link);
}

void channel_want_end(struct want *want)
{
	list_remove(&want->link);
	sys_close_fd(&want->twin);
	mem_free(want);
}
