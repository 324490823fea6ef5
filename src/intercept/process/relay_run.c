/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/process/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/param.h"
#include "intercept/wrap.h"

#define BUFFER 65536u
#define FIRST_ROUNDS 64u

/* ---- its process --------------------------------------------------------------------- */

/* Signals are meant for the program. */
static void block_signals(void)
{
	sigset_t set;

	sigfillset(&set);
	sigdelset(&set, SIGSEGV);
	sigdelset(&set, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
}

void relay_begin(void)
{
	block_signals();
	setsid();
	prctl(PR_SET_NAME, "vma-relay");
	params.select_poll = 0; /* it leaves the processors to others */
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

void relay_close_others(int *keep, unsigned n)
{
	int from = 0, fd;

	qsort(keep, n, sizeof(*keep), by_number);
	for (unsigned i = 0; i < n; i++) {
		if (keep[i] > from)
			close_range((unsigned)from, (unsigned)keep[i] - 1, 0);
		from = keep[i] + 1;
	}
	close_range((unsigned)from, UINT_MAX, 0);
	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd < STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
}

int relay_await(int ready)
{
	struct pollfd fd = {.fd = ready, .events = POLLIN};
	char byte;

	if (libc.poll(&fd, 1, RELAY_START_MS) != 1)
		return -ETIMEDOUT;
	return read(ready, &byte, 1) == 1 ? 0 : -EPIPE;
}

/* ---- bytes --------------------------------------------------------------------------- */

/* One direction of a pair: what was read waits here until it is written. */
struct stream {
	uint32_t at, end; /* of bytes */
	bool eof;	  /* nothing more comes */
	bool shut;	  /* ... and the other side knows */
	uint8_t bytes[BUFFER];
};

struct streams {
	struct stream to_kernel, to_local;
};

static bool is_later(void)
{
	return errno == EAGAIN || errno == EINTR;
}

/* False: the connection that it reads from has failed. */
static bool fill(struct stream *s, int from)
{
	ssize_t n;

	if (s->at < s->end || s->eof)
		return true;
	n = recv(from, s->bytes, sizeof(s->bytes), MSG_DONTWAIT);
	if (n < 0)
		return is_later();
	s->at = 0;
	s->end = (uint32_t)n;
	s->eof = n == 0;
	return true;
}

/* False: the connection that it writes to has failed. */
static bool drain(struct stream *s, int to)
{
	ssize_t n;

	while (s->at < s->end) {
		n = send(to, s->bytes + s->at, s->end - s->at, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0)
			return is_later();
		s->at += (uint32_t)n;
	}
	if (s->eof && !s->shut) {
		shutdown(to, SHUT_WR);
		s->shut = true;
	}
	return true;
}

static bool pass(struct stream *s, int from, int to)
{
	return drain(s, to) && fill(s, from) && drain(s, to);
}

/* Is its close a reset? */
static void set_reset(int fd, bool reset)
{
	const struct linger at_once = {.l_onoff = reset};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

static void end(struct relay_pair *pair, bool reset)
{
	set_reset(pair->local, reset);
	set_reset(pair->kernel, reset);
	close(pair->local);
	close(pair->kernel);
	pair->local = pair->kernel = -1;
}

static void advance(struct relay_pair *pair, struct streams *s)
{
	if (!pass(&s->to_kernel, pair->local, pair->kernel) ||
	    !pass(&s->to_local, pair->kernel, pair->local))
		end(pair, true);
	else if (s->to_kernel.shut && s->to_local.shut)
		end(pair, false);
}

/*
 * What the side of a descriptor waits for: in is what it reads into, out what it writes from. Where it
 * is done with reading, and has nothing to write, it may still be reset.
 */
static struct pollfd side(int fd, const struct stream *in, const struct stream *out)
{
	short events = 0;

	if (in->at == in->end && !in->eof)
		events |= POLLIN;
	if (out->at < out->end)
		events |= POLLOUT;
	/* poll() would return at once, and again, for an end that has failed and cannot be read yet. */
	return (struct pollfd){.fd = events || in->shut ? fd : -1, .events = events};
}

static bool is_reset(const struct pollfd *fd)
{
	return !fd->events && fd->revents & (POLLERR | POLLHUP);
}

/* False: no pair is left. */
static bool prepare(struct pollfd *fds, const struct relay_pair *pairs, const struct streams *all,
		    unsigned n)
{
	bool any = false;

	for (unsigned i = 0; i < n; i++) {
		const struct streams *s = &all[i];

		fds[2 * i] = side(pairs[i].local, &s->to_kernel, &s->to_local);
		fds[2 * i + 1] = side(pairs[i].kernel, &s->to_local, &s->to_kernel);
		any |= pairs[i].local >= 0;
	}
	return any;
}

/* What has arrived by now: the kernel would have had it before. */
static void advance_first(struct relay_pair *pair, struct streams *s)
{
	int unread = 1;

	for (unsigned i = 0; unread && i < FIRST_ROUNDS && pair->local >= 0; i++) {
		advance(pair, s);
		if (pair->local < 0 || s->to_kernel.at < s->to_kernel.end ||
		    ioctl(pair->local, FIONREAD, &unread))
			unread = 0;
	}
}

/* False: whoever started the relay does not wait for it any more. */
static bool begin(struct relay_pair *pairs, struct streams *all, unsigned n, int ready)
{
	bool good;

	for (unsigned i = 0; i < n; i++) {
		set_reset(pairs[i].kernel, true); /* if the relay is killed, as the local one */
		advance_first(&pairs[i], &all[i]);
	}
	good = write(ready, "", 1) == 1;
	close(ready);
	return good;
}

bool relay_run(struct relay_pair *pairs, unsigned n, int ready)
{
	struct streams *all = mem_zalloc(n * sizeof(*all));
	struct pollfd *fds = mem_zalloc(2 * n * sizeof(*fds));
	bool good = all && fds && begin(pairs, all, n, ready);

	while (good && prepare(fds, pairs, all, n)) {
		if (poll(fds, 2 * n, -1) < 0 && errno != EINTR)
			break;
		for (unsigned i = 0; i < n; i++) {
			const struct pollfd *both = &fds[2 * i];

			if (pairs[i].local < 0)
				continue;
			if (is_reset(&both[0]) || is_reset(&both[1]))
				end(&pairs[i], true);
			else if (both[0].revents || both[1].revents)
				advance(&pairs[i], &all[i]);
		}
	}
	mem_free(fds);
	mem_free(all);
	return good;
}
