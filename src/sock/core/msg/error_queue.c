/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/msg/error_queue.h"

#include "sock/core/access.h"
#include "sock/core/msg/cmsg.h"

uint32_t error_queue_events(const struct sock_rare *rare, uint32_t events)
{
	if (error_queue_empty(&rare->completions) || (events & EPOLLERR))
		return events;
	return events | EPOLLERR | SOCK_COMPLETED;
}

/* What is told has changed; happened: EPOLLERR, if there is more. */
static void update_events(struct inet_sock *so, uint32_t happened)
{
	uint32_t before = sock_own_events(so), now = before;

	if (now & SOCK_COMPLETED)
		now &= ~(EPOLLERR | SOCK_COMPLETED);
	now = error_queue_events(so->rare, now);
	if (now != before)
		sock_set_events(so, now);
	if (happened)
		ready_notify(&so->sk, happened);
}

int sock_error_queue_begin(struct inet_sock *so)
{
	ring_assert_held(sock_home(so));
	if (!so->opt->zerocopy)
		return 0;
	return sock_rare_make(so) && !error_queue_full(&so->rare->completions) ? 1 : -ENOBUFS;
}

void sock_error_queue_tell(struct inet_sock *so)
{
	ring_assert_held(sock_home(so));
	/* Another process had the socket meanwhile, and there was no memory for what it told. */
	if (!sock_rare_make(so))
		return;
	error_queue_tell(&so->rare->completions);
	update_events(so, EPOLLERR);
}

int sock_error_queue_read(struct inet_sock *so, struct msghdr *msg)
{
	uint32_t lo, hi;

	ring_assert_held(sock_home(so));
	if (!so->rare || !error_queue_take(&so->rare->completions, &lo, &hi))
		return -EAGAIN;
	update_events(so, 0);
	msg->msg_namelen = 0;
	msg->msg_flags = MSG_ERRQUEUE;
	cmsg_fill_completion(so->opt, so->family, lo, hi, msg);
	return 0;
}

struct error_queue sock_error_queue(const struct inet_sock *so)
{
	return so->rare ? so->rare->completions : (struct error_queue){0};
}

int sock_error_queue_set(struct inet_sock *so, struct error_queue completions)
{
	if (!so->rare && !completions.next && !completions.first)
		return 0;
	if (!sock_rare_make(so))
		return -ENOMEM;
	so->rare->completions = completions;
	return 0;
}
