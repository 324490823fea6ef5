/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/move/repair.h"

#include <linux/tcp.h>
#include <netinet/in.h>

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
