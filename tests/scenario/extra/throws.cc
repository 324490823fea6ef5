/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program in C++ whose receive callback throws: the exception reaches the handler around the
 * socket call that the callback ran in, and everything goes on.
 *
 *	throws udp|tcp IP PORT N	N echoes of an echo server, one by one
 *	throws nested IP PORT N		N times in a signal handler that interrupts the same call
 *
 * Of each three, one is thrown at.  nested: recv() is interrupted by a handler, in which recv() of another
 * socket is left by an exception of its callback, which leaves the first one, too.  Prints how many
 * exceptions came, and what was wrong.
 */
#include <arpa/inet.h>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mellanox/vma_extra.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wait_in.h"

namespace
{

const int patience = 5000; /* calls of 10 ms */

struct surprise {
	unsigned number;
};

struct vma_api_t *api;
int sock, epfd;
unsigned seen, caught, bad, wanted;

void die(const char *what)
{
	std::printf("%s: %s\n", what, std::strerror(errno));
	std::exit(1);
}

/* Objects of the frames that are left are destroyed. */
struct counted {
	static int alive;
	counted()
	{
		alive++;
	}
	~counted()
	{
		alive--;
	}
};
int counted::alive;

vma_recv_callback_retval_t callback(int fd, size_t n, struct iovec iov[], struct vma_info_t *info,
				    void *context)
{
	counted here;
	unsigned got;

	std::memcpy(&got, iov[0].iov_base, sizeof(got));
	if (n != 1 || info->payload_sz != sizeof(got) || got != seen)
		bad++;
	seen++;
	if (got % 3 == 0)
		throw surprise{got};
	return VMA_PACKET_DROP;
}

/* A callback that throws leaves recv(). */
void wait_in_one(unsigned kind)
{
	counted here;

	if (wait_in(sock, epfd, kind) != -1)
		bad++;
}

void take(unsigned number)
{
	for (int i = 0; seen <= number && i < patience; i++) {
		try {
			wait_in_one(number);
		} catch (const surprise &s) {
			if (s.number != number)
				bad++;
			caught++;
		}
	}
	if (seen != number + 1)
		die("the callback was not called");
}

/* Without the callback, everything is as ever. */
void take_plain(unsigned number)
{
	struct pollfd p = {sock, POLLIN, 0};
	unsigned got = ~number;

	if (poll(&p, 1, 10 * patience) != 1 || recv(sock, &got, sizeof(got), 0) != sizeof(got) ||
	    got != number)
		bad++;
}

void *work(void *)
{
	unsigned i;

	for (i = 0; i < wanted; i++) {
		if (send(sock, &i, sizeof(i), 0) != sizeof(i))
			die("send");
		take(i);
	}
	if (counted::alive)
		bad++;
	if (api->register_recv_callback(sock, nullptr, nullptr))
		die("register_recv_callback, none");
	if (send(sock, &i, sizeof(i), 0) != sizeof(i))
		die("send");
	take_plain(i);
	pthread_exit(nullptr); /* runs what the calls would have left behind */
}

/* ---- nested ------------------------------------------------------------------------------- */

int outer; /* a socket that receives nothing */
pthread_t sleeper;
std::atomic<int> sleeper_tid;
std::atomic<bool> over;

vma_recv_callback_retval_t throws(int fd, size_t n, struct iovec iov[], struct vma_info_t *info,
				  void *context)
{
	throw surprise{seen++};
}

void handler(int)
{
	char buf[16];

	if (send(sock, "x", 1, 0) != 1)
		bad++;
	recv(sock, buf, sizeof(buf), 0); /* the callback throws */
	bad++;
}

/* Sends a signal whenever the thread sleeps in ppoll(2). */
void *interrupt(void *)
{
	char path[64], call[256];
	int tid;

	while (!(tid = sleeper_tid))
		sched_yield();
	std::snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	while (!over) {
		FILE *f = std::fopen(path, "r");

		if (f && std::fgets(call, sizeof(call), f) && std::atoi(call) == SYS_ppoll &&
		    seen == caught)
			pthread_kill(sleeper, SIGUSR1);
		if (f)
			std::fclose(f);
		usleep(1000);
	}
	return nullptr;
}

void *sleep_and_catch(void *)
{
	char buf[16];

	sleeper_tid = gettid();
	while (caught < wanted) {
		try {
			recv(outer, buf, sizeof(buf), 0);
			bad++;
		} catch (const surprise &s) {
			if (s.number != caught)
				bad++;
			caught++;
		}
		/* What the exception would have left of the first call is overwritten. */
		char stack[16384];
		std::memset(stack, 0x5a, sizeof(stack));
		asm volatile("" : : "r"(stack) : "memory");
	}
	over = true;
	pthread_exit(nullptr);
}

void nest(const struct sockaddr_in *to)
{
	struct timeval never = {0, 0};
	struct sigaction act = {};
	pthread_t other = 0;

	act.sa_handler = handler;
	act.sa_flags = SA_NODEFER; /* the handler does not return */
	outer = socket(AF_INET, SOCK_DGRAM, 0);
	if (outer < 0 || connect(outer, (const struct sockaddr *)to, sizeof(*to)) ||
	    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &never, sizeof(never)) ||
	    sigaction(SIGUSR1, &act, nullptr) ||
	    api->register_recv_callback(sock, throws, nullptr) ||
	    pthread_create(&sleeper, nullptr, sleep_and_catch, nullptr) ||
	    pthread_create(&other, nullptr, interrupt, nullptr))
		die("nested");
	pthread_join(sleeper, nullptr);
	pthread_join(other, nullptr);
	if (close(outer)) /* waits for nobody */
		bad++;
}

} // namespace

int main(int argc, char **argv)
{
	struct sockaddr_in to = {};
	struct timeval tv = {0, 10000};
	struct epoll_event event = {};
	pthread_t thread;

	if (argc != 5)
		return 2;
	to.sin_family = AF_INET;
	inet_pton(AF_INET, argv[2], &to.sin_addr);
	to.sin_port = htons((uint16_t)std::atoi(argv[3]));
	wanted = (unsigned)std::atoi(argv[4]);
	api = vma_get_api();
	if (!api)
		return 3;
	sock = socket(AF_INET, std::strcmp(argv[1], "tcp") ? SOCK_DGRAM : SOCK_STREAM, 0);
	epfd = epoll_create1(EPOLL_CLOEXEC);
	event.events = EPOLLIN;
	if (sock < 0 || epfd < 0 || connect(sock, (struct sockaddr *)&to, sizeof(to)) ||
	    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) ||
	    epoll_ctl(epfd, EPOLL_CTL_ADD, sock, &event))
		die("socket");
	if (!std::strcmp(argv[1], "nested")) {
		nest(&to);
		std::printf("caught %u\nbad %u\n", caught, bad);
		return 0;
	}
	if (api->register_recv_callback(sock, callback, nullptr))
		die("register_recv_callback");
	if (pthread_create(&thread, nullptr, work, nullptr) || pthread_join(thread, nullptr))
		die("thread");
	std::printf("caught %u\nbad %u\n", caught, bad);
	return 0;
}
