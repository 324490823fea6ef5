/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signal handlers that leave the calls of a program by siglongjmp() at any point, while its receive
 * callback is called, and callbacks that leave it themselves: callbacks go on.
 *
 *	storm udp|tcp IP PORT N		of an echo server; N callbacks
 *
 * Two threads take turns; a turn ends with a jump, and then the thread makes no call until its next
 * turn, so what it has left behind would never end.  The callback drops, passes, and holds packets in
 * turn.  Afterwards, without signals, each message is seen once.  Prints what came, and what was wrong.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <mellanox/vma_extra.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "wait_in.h"

#define EVERY 150		/* us between two signals */
#define RESEND 20000000ull	/* ns: what a jump has dropped is sent again */
#define PATIENCE 10000000000ull /* ns without a callback */
#define CALM 100		/* messages without signals */
#define MARK 0x40000000u	/* in the number of each of those */

static struct vma_api_t *api;
static int sock, epfd;
static unsigned wanted;

/* Of the thread whose turn it is. */
static sem_t turn[2];
static bool done;
static sigjmp_buf back;
static volatile sig_atomic_t jumps, own_jumps;
static volatile unsigned seen, passed, sent_for, bad;
static volatile uint64_t sent_at, seen_at;
static void *volatile held;
static bool storm = true;
static volatile bool may_jump;	 /* take_turn() has not returned */
static volatile unsigned marked; /* numbers with MARK that were seen in order */

static _Noreturn void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static void jump(int sig)
{
	(void)sig;
	jumps++;
	siglongjmp(back, 1);
}

static void look_for_mark(const struct iovec *iov)
{
	for (size_t at = 0; at + sizeof(unsigned) <= iov->iov_len; at += sizeof(unsigned)) {
		unsigned number;

		memcpy(&number, (char *)iov->iov_base + at, sizeof(number));
		if (number < MARK)
			continue;
		if (number != MARK + marked)
			bad++;
		marked++;
	}
}

static vma_recv_callback_retval_t callback(int fd, size_t n, struct iovec iov[],
					   struct vma_info_t *info, void *context)
{
	if (fd != sock || n != 1 || context != &sock || info->payload_sz != iov[0].iov_len)
		bad++;
	seen++;
	seen_at = now();
	if (!storm) {
		look_for_mark(&iov[0]);
		return VMA_PACKET_DROP;
	}
	if (may_jump && seen % 7 == 0) {
		own_jumps++;
		siglongjmp(back, 1);
	}
	if (seen % 5 == 0) {
		passed++;
		return VMA_PACKET_RECV;
	}
	if (seen % 5 == 1 && !held) {
		held = info->packet_id;
		return VMA_PACKET_HOLD;
	}
	return VMA_PACKET_DROP;
}

/* One message is under way. */
static void send_one(void)
{
	unsigned number = seen;

	if (sent_for == number + 1 && now() - sent_at < RESEND)
		return;
	sent_for = number + 1;
	sent_at = now();
	if (send(sock, &number, sizeof(number), 0) != sizeof(number) && errno != EINTR)
		die("send");
}

static void mask(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	if (pthread_sigmask(how, &set, NULL))
		die("pthread_sigmask");
}

/*
 * Signals are blocked: takes what the callback has passed, also in the recv() that found nothing, and
 * gives back what it has held.
 */
static void tidy(void)
{
	char buf[2048];
	unsigned before;

	do {
		before = passed;
		while (recv(sock, buf, sizeof(buf), MSG_DONTWAIT) > 0)
			;
	} while (passed != before);
	if (held) { /* not if the callback was left before it had returned */
		struct vma_packet_t packet = {.packet_id = held};

		api->free_packets(sock, &packet, 1);
		held = NULL;
	}
}

static void be_patient(void)
{
	if (now() - seen_at > PATIENCE) {
		printf("no callback after %u, %d jumps\n", seen, (int)jumps);
		exit(1);
	}
}

/* Until a jump, or the end. */
static void take_turn(void)
{
	if (!sigsetjmp(back, 1)) {
		may_jump = true;
		mask(SIG_UNBLOCK);
		while (seen < wanted) {
			be_patient();
			send_one();
			wait_in(sock, epfd, (unsigned)jumps + seen);
		}
		mask(SIG_BLOCK);
	}
	may_jump = false; /* with the mask of before */
}

static void *work(void *arg)
{
	unsigned self = arg != NULL;

	for (;;) {
		while (sem_wait(&turn[self]))
			;
		if (!done) {
			take_turn();
			tidy();
			done = seen >= wanted;
		}
		sem_post(&turn[!self]);
		if (done)
			return NULL;
	}
}

static void calm(void)
{
	struct itimerval never = {{0, 0}, {0, 0}};

	if (setitimer(ITIMER_REAL, &never, NULL) || signal(SIGALRM, SIG_IGN) == SIG_ERR)
		die("setitimer");
	storm = false;
	for (unsigned i = 0; i < CALM; i++) {
		unsigned number = MARK + i;
		uint64_t since = now();

		if (send(sock, &number, sizeof(number), 0) != sizeof(number))
			die("send");
		while (marked <= i) {
			wait_in(sock, epfd, i % 2); /* one that takes nothing */
			tidy();
			if (now() - since > PATIENCE) {
				printf("message %u of the calm was not seen\n", i);
				exit(1);
			}
		}
	}
	if (marked != CALM)
		bad++;
}

static void open_sockets(char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[3]))};
	struct timeval tv = {0, 10000};
	struct epoll_event event = {.events = EPOLLIN};

	inet_pton(AF_INET, argv[2], &to.sin_addr);
	sock = socket(AF_INET, strcmp(argv[1], "tcp") ? SOCK_DGRAM : SOCK_STREAM, 0);
	epfd = epoll_create1(EPOLL_CLOEXEC);
	if (sock < 0 || epfd < 0 || connect(sock, (struct sockaddr *)&to, sizeof(to)) ||
	    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) ||
	    epoll_ctl(epfd, EPOLL_CTL_ADD, sock, &event))
		die("socket");
	if (api->register_recv_callback(sock, callback, &sock))
		die("register_recv_callback");
}

int main(int argc, char **argv)
{
	struct itimerval often = {{0, EVERY}, {0, EVERY}};
	pthread_t threads[2];

	if (argc != 5)
		return 2;
	wanted = (unsigned)atoi(argv[4]);
	api = vma_get_api();
	if (!api)
		return 3;
	open_sockets(argv);
	mask(SIG_BLOCK);
	if (signal(SIGALRM, jump) == SIG_ERR)
		die("signal");
	seen_at = now();
	for (unsigned i = 0; i < 2; i++) {
		sem_init(&turn[i], 0, i == 0);
		if (pthread_create(&threads[i], NULL, work, i ? &sock : NULL))
			die("pthread_create");
	}
	if (setitimer(ITIMER_REAL, &often, NULL))
		die("setitimer");
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	calm();
	printf("seen %u\njumps %d\nof callbacks %d\nbad %u\n", seen - CALM, (int)jumps,
	       (int)own_jumps, bad);
	return 0;
}
