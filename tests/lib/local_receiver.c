/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/local_receiver.h"

#include <string.h>
#include <unistd.h>

#include "base/param.h"
#include "ring/rings.h"
#include "sock/core/control.h"
#include "sock/core/sock_options.h"
#include "sock/local/local.h"
#include "sock/local/local_sock.h"
#include "sock/local/local_udp.h"
#include "sock/udp/udp_sock.h"

void local_receiver_start(local_handler *const *handlers)
{
	static const struct port_kind *const kinds[] = {&port_local_kind, NULL};

	clock_init();
	params.local = 1;
	params.local_mem = 64;
	ring_mode = HOLD_YIELD;
	rings_init(kinds);
	sock_alloc_init();
	sock_list_init();
	local_init(handlers);
}

struct inet_sock *local_receiver_open(int fd, const struct sockaddr *at, socklen_t len)
{
	struct inet_sock *so = NULL;
	bool receives = false;

	if (!control_lock())
		return NULL;
	if (!bind(fd, at, len))
		so = sock_alloc(SOCK_TYPE_UDP);
	if (so) {
		so->sk.twin = fd;
		so->family = (uint8_t)at->sa_family;
		if (sock_options_init_new(so, sock_kinds[INET_UDP])) {
			sock_kinds[INET_UDP]->init(so);
			sock_read_local(so);
			so->bound = true;
			sock_life_set(so, LIFE_RECEIVING);
			receives = local_receive(so);
		}
	}
	control_unlock();
	return receives ? so : NULL;
}

void local_receiver_close(struct inet_sock *so)
{
	struct ring *ring;

	if (!control_lock())
		return;
	if (!sock_hold_cold(sock_ref_of(so), &ring)) {
		sock_life_set(so, LIFE_CLOSED);
		udp_close(so, ring);
		ring_release_cold(ring);
	}
	local_udp_end(so);
	if (!sock_hold_cold(sock_ref_of(so), &ring)) {
		close(sock_twin(&so->sk));
		sock_free(so);
		ring_release_cold(ring);
	}
	control_unlock();
}

struct inet_sock *local_listener_open(int fd, const struct sockaddr *at, socklen_t len,
				      unsigned backlog)
{
	struct sock_ref ref = {NULL, 0};
	struct inet_sock *so;
	bool listens = false;

	if (!bind(fd, at, len))
		ref = sock_create(fd, at->sa_family, SOCK_STREAM, 0, true);
	if (!ref.sk || !control_lock())
		return NULL;
	so = inet_of(ref.sk);
	if (!sock_read_local(so)) {
		so->bound = so->bound_addr = true;
		so->inet = INET_LISTEN;
		sock_life_set(so, LIFE_LISTENING);
		memset(&so->listen, 0, sizeof(so->listen));
		list_init(&so->listen.queue);
		so->listen.claim = -1;
		so->listen.backlog = backlog;
		listens = local_listen(so);
	}
	control_unlock();
	return listens ? so : NULL;
}
