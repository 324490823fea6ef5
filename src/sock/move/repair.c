/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/move/repair.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/sys.h"

/* TCP option kinds. */
enum { OPTION_MSS = 2, OPTION_WINDOW = 3, OPTION_SACK = 4, OPTION_TIMESTAMP = 8 };

int repair_set(int fd, int name, int value)
{
	return sys_setsockopt(fd, IPPROTO_TCP, name, &value, sizeof(value));
}

int repair_set_sequence(int fd, int queue, uint32_t seq)
{
	int rc = repair_set(fd, TCP_REPAIR_QUEUE, queue);

	return rc ? rc : repair_set(fd, TCP_QUEUE_SEQ, (int)seq);
}

int repair_set_negotiated(int fd, const struct tcp_handover *h)
{
	struct tcp_repair_opt opt[4];
	unsigned n = 0;

	opt[n++] = (struct tcp_repair_opt){OPTION_MSS, h->mss};
	if (h->wscale)
		opt[n++] = (struct tcp_repair_opt){OPTION_WINDOW,
						   h->snd_wscale | (uint32_t)h->rcv_wscale << 16};
	if (h->sack)
		opt[n++] = (struct tcp_repair_opt){OPTION_SACK, 0};
	if (h->timestamps)
		opt[n++] = (struct tcp_repair_opt){OPTION_TIMESTAMP, 0};
	return sys_setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_OPTIONS, opt, n * sizeof(*opt));
}

/* The lowest bit is not part of the time: it would select microseconds. */
int repair_set_clock(int fd, const struct tcp_handover *h)
{
	return h->timestamps ? repair_set(fd, TCP_TIMESTAMP, (int)(h->timestamp & ~1u)) : 0;
}

int repair_set_window(int fd, const struct tcp_handover *h)
{
	struct tcp_repair_window w = {
		.snd_wl1 = h->snd_wl1,
		.snd_wnd = h->snd_wnd,
		.max_window = h->snd_wnd_max,
		.rcv_wnd = h->rcv_wnd,
		.rcv_wup = h->read_seq + h->to_read,
	};

	return sys_setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_WINDOW, &w, sizeof(w));
}

/* ---- numbers of sends with MSG_ZEROCOPY --------------------------------------------------------- */

/*
 * A send to the queue of received bytes that cannot read its memory keeps the number that it was given, and tells
 * its completion; bad: memory that cannot be read.
 */
static int use_numbers(int fd, const void *bad, uint32_t n)
{
	const int flags = MSG_ZEROCOPY | MSG_DONTWAIT | MSG_NOSIGNAL;

	while (n--) {
		ssize_t rc = sys_sendto(fd, bad, 1, flags, NULL, 0);

		if (rc != -EFAULT)
			return rc < 0 ? (int)rc : -EPROTO;
	}
	return 0;
}

/* Takes the only entry of the error queue, which must end with the number `last`. */
static int read_numbers(int fd, uint32_t last)
{
	char control[256] __attribute__((aligned(8)));
	struct msghdr msg = {.msg_control = control, .msg_controllen = sizeof(control)};
	struct sock_extended_err error;
	const struct cmsghdr *c;
	ssize_t rc = sys_recvmsg(fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT);

	if (rc < 0)
		return (int)rc;
	for (c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, (struct cmsghdr *)(uintptr_t)c)) {
		if (c->cmsg_len != CMSG_LEN(sizeof(error) + sizeof(struct sockaddr_in)) &&
		    c->cmsg_len != CMSG_LEN(sizeof(error) + sizeof(struct sockaddr_in6)))
			continue;
		memcpy(&error, CMSG_DATA(c), sizeof(error));
		if (error.ee_origin == SO_EE_ORIGIN_ZEROCOPY && error.ee_data == last)
			return 0;
	}
	return -EPROTO;
}

static int use_all_numbers(int fd, const void *bad, struct error_queue completions)
{
	int rc = use_numbers(fd, bad, completions.first);

	if (!rc && completions.first)
		rc = read_numbers(fd, completions.first - 1);
	return rc ? rc : use_numbers(fd, bad, completions.next - completions.first);
}

/* In repair mode. */
static int tell_all(int fd, struct error_queue completions)
{
	const int page = 4096, on = 1;
	void *bad = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int rc;

	if (bad == MAP_FAILED)
		return -ENOMEM;
	rc = sys_setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on));
	rc = rc ? rc : repair_set(fd, TCP_REPAIR_QUEUE, TCP_RECV_QUEUE);
	rc = rc ? rc : use_all_numbers(fd, bad, completions);
	(void)repair_set(fd, TCP_REPAIR_QUEUE, TCP_NO_QUEUE);
	munmap(bad, page);
	return rc;
}

static int tell_in_repair_mode(int fd, struct error_queue completions)
{
	int repaired = 0, reuse = 0, rc;
	socklen_t len = sizeof(int);

	(void)sys_getsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &repaired, &len);
	if (repaired)
		return tell_all(fd, completions);
	(void)sys_getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, &len);
	rc = repair_set(fd, TCP_REPAIR, TCP_REPAIR_ON);
	if (rc)
		return rc;
	rc = tell_all(fd, completions);
	(void)repair_set(fd, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
	/* Repair mode clears it. */
	(void)sys_setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
	return rc;
}

void repair_completions(int fd, struct error_queue completions)
{
	int on = 0, rc = -E2BIG;
	socklen_t len = sizeof(on);

	if (!completions.next && !completions.first)
		return;
	(void)sys_getsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, &len);
	if (completions.first <= completions.next && completions.next <= REPAIR_COMPLETIONS_MAX)
		rc = tell_in_repair_mode(fd, completions);
	if (rc && on)
		log_warn("fd %d: the kernel serves the connection, and cannot go on with its %u "
			 "completions of MSG_ZEROCOPY: SO_ZEROCOPY is off (%s)",
			 fd, completions.next, strerrordesc_np(-rc));
	on = on && !rc;
	(void)sys_setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on));
}
