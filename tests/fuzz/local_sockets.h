/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sockets of a process that has local connections, as its program made them, and what is true of
 * them whatever a peer does.
 */
#ifndef TESTS_FUZZ_LOCAL_SOCKETS_H
#define TESTS_FUZZ_LOCAL_SOCKETS_H

#include <dirent.h>
#include <errno.h>
#include <sys/epoll.h>

#include "base/sys.h"
#include "fuzz/local_host.h"
#include "net/netlink/netlink.h"
#include "ring/progress.h"
#include "sock/local/local.h"
#include "sock/local/local_dir.h"
#include "sock/local/local_link_internal.h"
#include "sock/local/local_move.h"
#include "sock/local/local_sock.h"
#include "sock/local/local_udp.h"
#include "sock/share/transfer.h"
#include "sock/tcp/tcp_sock.h"

#define CONNS 8u

static struct sock_ref listener, conns[CONNS]; /* sk is NULL: none */
static uint32_t listener_number;	       /* in the directory */

/* ---- the process ----------------------------------------------------------------------------- */

/* It has no internal thread: the target calls what that would. */
static inline void process_begin(void)
{
	static local_handler *const handlers[LOCAL_KINDS] = {
		[LOCAL_CONNECT] = local_take_connect, [LOCAL_MOVE] = local_take_move,
		[LOCAL_MOVED] = local_take_moved,     [LOCAL_ASK] = local_take_ask,
		[LOCAL_RECORDS] = local_take_records,
	};

	host_begin(handlers);
	check(control_lock());
	check(sock_start());
	progress_stop();
	check(local_available());
	control_unlock();
}

static inline unsigned count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	check(dir != NULL);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static inline unsigned count_segments(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned n = 0;

	check(maps != NULL);
	while (fgets(line, sizeof(line), maps))
		n += strstr(line, "memfd:vma-local") != NULL;
	fclose(maps);
	return n;
}

/* ---- sockets ---------------------------------------------------------------------------------- */

static inline struct sock_ref new_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sock_ref ref = sock_create(fd, AF_INET, SOCK_STREAM, 0, true);

	check(fd >= 0 && ref.sk);
	return ref;
}

static inline void close_socket(struct sock_ref *ref)
{
	struct inet_sock *so = inet_of(ref->sk);
	bool connection = so->inet == INET_LOCAL;
	int fd = sock_twin(ref->sk);

	sock_close(*ref);
	if (connection)
		check(!list_linked(&so->shm.known) && !list_linked(&so->shm.limbo) &&
		      !so->shm.end.link && !so->shm.own.base && !so->shm.memory);
	close(fd);
	ref->sk = NULL;
}

/* Control lock: the number that the library has given it. */
static inline void find_listener_number(const struct inet_sock *so)
{
	struct local_place place = {.proto = LOCAL_TCP,
				    .at = {.addr = addrs[0], .port = so->local.port}},
			   at;
	struct local_entry found[LOCAL_MEMBERS];

	check(local_dir_find(&place, &at, found) == 1 && found[0].process == local_name());
	listener_number = found[0].socket;
}

static inline void open_listener(unsigned backlog, bool any)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(any ? INADDR_ANY : INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct inet_sock *so = local_listener_open(fd, (struct sockaddr *)&at, sizeof(at), backlog);

	check(so && control_lock());
	listener = sock_ref_of(so);
	find_listener_number(so);
	control_unlock();
}

static inline struct sock_ref *free_place(void)
{
	for (unsigned i = 0; i < CONNS; i++) {
		if (!conns[i].sk)
			return &conns[i];
	}
	return NULL;
}

/* ---- what is true ------------------------------------------------------------------------------ */

static inline bool is_within(const void *at, size_t size, const uint8_t *slot)
{
	const uint8_t *from = at;

	return from >= slot && from + size <= slot + LOCAL_SLOT;
}

static inline void check_connection(const struct inet_sock *so)
{
	const struct shm_state *shm = &so->shm;
	const struct segment *memory = &shm->own;
	const uint8_t *slot;

	if (so->inet != INET_LOCAL || !shm->shared)
		return;
	check(local_is_address(&so->local.addr) && local_is_address(&so->remote.addr));
	check(so->local.port && so->remote.port);
	if (!memory->base)
		memory = local_link_chunk(shm->end.link, shm->end.number);
	slot = memory && memory->base ? local_slot(memory, shm->slot) : NULL;
	check(slot && (const uint8_t *)shm->shared == slot && shm->slot < LOCAL_CHUNK);
	check(is_within(shm->in.shared, sizeof(*shm->in.shared), slot));
	check(is_within(shm->out.shared, sizeof(*shm->out.shared), slot));
	check(is_within(shm->in.data, shm->in.capacity, slot) &&
	      is_within(shm->out.data, shm->out.capacity, slot));
	check(shm->in.tail - shm->in.head <= shm->in.capacity);
	check(shm->out.tail - shm->out.head <= shm->out.capacity);
	check(shm->wants_space <= shm->out.capacity && shm->peek_offset >= 0);
}

static inline bool never_blocks(int fd)
{
	return fcntl(fd, F_GETFL) & O_NONBLOCK;
}

static inline void check_link(const struct local_link *link)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < link->n_ends; i++) {
		const struct local_end *end = link->ends[i];

		if (!end)
			continue;
		check(end->link == link && end->number == i && end->ops);
		/* What has not been accepted ends with the peer. */
		check(!link->dead || local_conn_at(link->ends[i]));
		used++;
	}
	check(!link->open || (never_blocks(link->wake_fd) && never_blocks(link->peer_fd)));
	check(used == link->used && link->n_ends <= NOTICE_CONNS);
	check(link->open || !used);
}

static inline void check_all(void)
{
	local_lock();
	check(ring_hold_cold(local_ring()));
	list_for_each(at, &local.links)
		check_link(container_of(at, struct local_link, link));
	for (unsigned i = 0; i < CONNS; i++) {
		if (conns[i].sk)
			check_connection(inet_of(conns[i].sk));
	}
	for (struct list *at = inet_of(listener.sk)->listen.queue.next;
	     at != &inet_of(listener.sk)->listen.queue; at = at->next)
		check_connection(container_of(at, struct inet_sock, accept_link));
	check(inet_of(listener.sk)->listen.waiting <= inet_of(listener.sk)->listen.backlog + 1);
	ring_release_cold(local_ring());
	local_unlock();
}

#endif
