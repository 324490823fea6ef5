/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The emulated card: card SOCKET WIRE TAP MAC
 *
 * WIRE: an interface that it takes as its cable, as NAMESPACE:INTERFACE: of another network
 * namespace, whose kernel does not answer for the host.  TAP: the name of the interface that it
 * makes, for the kernel.  Prints a line when it is ready, one for each violation, and, when a line comes on
 * its standard input, its counters.  The line may name a fault: see inject().  Ends with its
 * standard input.
 */
#include "tests/mlx5/card.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <rdma/ib_user_verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tests/mlx5/protocol.h"

#define CONTEXTS 64
#define BURST 32
/* Without work, before it sleeps, and before it sleeps longer: there may be eight cards on two processors. */
#define BUSY_ROUNDS 100
#define SHORT_ROUNDS 300
#define SHORT_NAP 20000 /* nsec: doorbells are memory, and wake nobody */
#define LONG_NAP 500000
#define CAP_NET_RAW 13

struct list contexts = {&contexts, &contexts};
struct card_counters counters;
static int wire = -1, tap = -1, listener = -1;
static bool absent; /* the device was pulled out */
static bool held;   /* nothing is sent, as on a link that is paused */
bool timeless, refusing;

static void fail(const char *what)
{
	fprintf(stderr, "card: %s: %s\n", what, strerror(errno));
	exit(1);
}

void violation(const char *format, ...)
{
	va_list args;

	counters.violations++;
	printf("violation: ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

void wire_send(const void *frame, size_t len)
{
	counters.sent++;
	/* A full queue loses the frame, as a cable does. */
	if (send(wire, frame, len, MSG_DONTWAIT) < 0 && errno != EAGAIN && errno != ENOBUFS)
		violation("a frame of %zu bytes: %s", len, strerror(errno));
}

/* ---- frames ------------------------------------------------------------------------------- */

static bool from_wire(void)
{
	static uint8_t frame[FRAME_MAX];
	unsigned n = 0;
	ssize_t len;

	while (n < BURST && (len = recv(wire, frame, sizeof(frame), MSG_DONTWAIT)) > 0) {
		n++;
		if (rules_deliver(frame, (size_t)len))
			continue;
		counters.to_kernel++;
		if (write(tap, frame, (size_t)len) < 0)
			continue; /* the interface is down */
	}
	return n > 0;
}

static bool from_tap(void)
{
	static uint8_t frame[FRAME_MAX];
	unsigned n = 0;
	ssize_t len;

	while (n < BURST && (len = read(tap, frame, sizeof(frame))) > 0) {
		n++;
		counters.from_kernel++;
		wire_send(frame, (size_t)len);
	}
	return n > 0;
}

/* ---- processes ---------------------------------------------------------------------------- */

static bool has_net_raw(pid_t pid)
{
	unsigned long long caps = 0;
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "CapEff: %llx", &caps) == 1)
			break;
	if (f)
		fclose(f);
	return caps >> CAP_NET_RAW & 1;
}

static void init_lists(struct context *context)
{
	list_init(&context->pds);
	list_init(&context->channels);
	list_init(&context->regions);
	list_init(&context->cqs);
	list_init(&context->qps);
	list_init(&context->flows);
}

static void welcome(void)
{
	int conn = accept4(listener, NULL, NULL, SOCK_CLOEXEC), events[2];
	struct context *context;
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (conn < 0)
		return;
	if (absent) {
		close(conn);
		return;
	}
	context = calloc(1, sizeof(*context));
	if (!context || getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &peer, &len) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, events))
		fail("a process");
	context->conn = conn;
	context->pid = peer.pid;
	context->raw = has_net_raw(peer.pid);
	context->async_fd = events[0];
	context->async_peer = events[1];
	context->uar_fd = memfd_create("uar", MFD_CLOEXEC);
	if (context->uar_fd < 0 || ftruncate(context->uar_fd, UAR_PAGES * UAR_SIZE))
		fail("doorbells");
	context->uar = mmap(NULL, UAR_PAGES * UAR_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			    context->uar_fd, 0);
	if (context->uar == MAP_FAILED)
		fail("doorbells");
	init_lists(context);
	list_push_back(&contexts, &context->link);
}

static bool serve_process(struct context *context)
{
	bool worked = false;

	if (context->gone)
		return false;
	if (!held)
		worked = queues_serve(context);
	return cqs_serve(context) || worked;
}

static bool serve_processes(void)
{
	bool worked = false;

	list_for_each(link, &contexts)
		worked |= serve_process(container_of(link, struct context, link));
	return worked;
}

static void read_commands(const struct pollfd *fds, nfds_t n)
{
	list_for_each_safe(link, &contexts) {
		struct context *context = container_of(link, struct context, link);

		for (nfds_t i = 0; i < n; i++) {
			if (fds[i].fd != context->conn || !fds[i].revents)
				continue;
			/* What rang before the command is served before it. */
			serve_process(context);
			if (!command_serve(context)) {
				context_free(context);
				break;
			}
		}
	}
}

/* ---- start -------------------------------------------------------------------------------- */

static void enter(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWNET))
		fail(path);
	close(fd);
}

static int open_wire(char *where)
{
	char *name = strchr(where, ':'), path[64];
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	struct packet_mreq promiscuous = {.mr_type = PACKET_MR_PROMISC};
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), on = 1, size = 4 << 20, fd;

	if (!name || home < 0)
		fail(where);
	*name++ = '\0';
	snprintf(path, sizeof(path), "/run/netns/%s", where);
	enter(path);
	at.sll_ifindex = promiscuous.mr_ifindex = (int)if_nametoindex(name);
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (setns(home, CLONE_NEWNET))
		fail("setns");
	close(home);
	if (fd < 0 || !at.sll_ifindex ||
	    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) ||
	    setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof(promiscuous)) ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)))
		fail(name);
	return fd;
}

static int open_tap(const char *name, const char *mac)
{
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	uint8_t *m = (uint8_t *)ifr.ifr_hwaddr.sa_data;

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &ifr))
		fail("/dev/net/tun");
	ifr.ifr_hwaddr.sa_family = ARPHRD_ETHER;
	if (sscanf(mac, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", m, m + 1, m + 2, m + 3, m + 4, m + 5) !=
		    6 ||
	    ioctl(fd, SIOCSIFHWADDR, &ifr))
		fail(mac);
	return fd;
}

static int open_listener(const char *path)
{
	struct sockaddr_un at;
	socklen_t len = card_address(&at, path);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (path[0] != '@')
		unlink(path);
	if (fd < 0 || !len || bind(fd, (struct sockaddr *)&at, len) || listen(fd, CONTEXTS))
		fail(path);
	return fd;
}

static void print_counters(void)
{
	counters.waiting = queues_waiting();
	printf("sent %lu received %lu to_kernel %lu from_kernel %lu no_buffer %lu segmented %lu "
	       "parts %lu violations %lu bells %lu blue_flames %lu in_place %lu signals %lu "
	       "posts %lu arms %lu waiting %lu events %lu moderated %lu frames %lu usec %lu rq %lu "
	       "sq %lu\n",
	       counters.sent, counters.received, counters.to_kernel, counters.from_kernel,
	       counters.no_buffer, counters.segmented, counters.parts, counters.violations,
	       counters.bells, counters.blue_flames, counters.in_place, counters.signals,
	       counters.posts, counters.arms, counters.waiting, counters.events, counters.moderated,
	       counters.frames, counters.usec, counters.rq, counters.sq);
	fflush(stdout);
}

/* What the kernel's driver reports of the device. */
static void report(struct context *context, enum ibv_event_type event, uint64_t element)
{
	struct ib_uverbs_async_event_desc desc = {.element = element, .event_type = event};

	if (write(context->async_fd, &desc, sizeof(desc)) < 0)
		return; /* the process has gone */
}

/* All work ends: rules, queues and what waits in them are gone. */
static void remove_device(void)
{
	absent = true;
	list_for_each(link, &contexts) {
		struct context *context = container_of(link, struct context, link);

		context->gone = true;
		report(context, IBV_EVENT_DEVICE_FATAL, 0);
	}
}

static void fail_queues(void)
{
	list_for_each(c, &contexts) {
		struct context *context = container_of(c, struct context, link);

		list_for_each(link, &context->qps)
			queue_fail(container_of(link, struct qp, object.link));
	}
}

/* As the driver does, without a completion: the program hears only of the event. */
static void report_queues(void)
{
	list_for_each(c, &contexts) {
		struct context *context = container_of(c, struct context, link);

		list_for_each(link, &context->qps) {
			struct qp *qp = container_of(link, struct qp, object.link);

			qp->events++;
			report(context, IBV_EVENT_QP_FATAL, qp->user_handle);
		}
	}
}

/*
 * fail: all queues go to the error state.  report: the driver says that a queue has.  remove: the
 * device is pulled out; return: it is there again, for processes that open it.  hold: nothing is
 * sent any more; go: it is.  stop: no time passes for events that are held back; start: it does.
 * refuse: no rule is made any more; admit: it is.  rules: prints them.  Others: see clock_command().
 */
static void inject(const char *what)
{
	if (!strcmp(what, "fail"))
		fail_queues();
	else if (!strcmp(what, "report"))
		report_queues();
	else if (!strcmp(what, "remove"))
		remove_device();
	else if (!strcmp(what, "return"))
		absent = false;
	else if (!strcmp(what, "hold") || !strcmp(what, "go"))
		held = !strcmp(what, "hold");
	else if (!strcmp(what, "stop") || !strcmp(what, "start"))
		timeless = !strcmp(what, "stop");
	else if (!strcmp(what, "refuse") || !strcmp(what, "admit"))
		refusing = !strcmp(what, "refuse");
	else if (!strcmp(what, "rules"))
		rules_print();
	else
		clock_command(what);
}

/* False: the one who started it has gone. */
static bool read_input(void)
{
	char line[256];
	ssize_t n = read(STDIN_FILENO, line, sizeof(line) - 1);

	if (n <= 0)
		return false;
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	inject(line);
	print_counters();
	return true;
}

/* How long nothing but descriptors wakes it, after so many rounds without work: nsec. */
static long nap_length(unsigned idle)
{
	if (idle < BUSY_ROUNDS)
		return 0;
	return idle < SHORT_ROUNDS ? SHORT_NAP : LONG_NAP;
}

int main(int argc, char **argv)
{
	struct pollfd fds[4 + CONTEXTS];
	unsigned idle = 0;

	if (argc != 5) {
		fprintf(stderr, "usage: card SOCKET WIRE TAP MAC\n");
		return 2;
	}
	if (!clock_start())
		fail("clock");
	wire = open_wire(argv[2]);
	tap = open_tap(argv[3], argv[4]);
	listener = open_listener(argv[1]);
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		struct timespec nap = {0, nap_length(idle)};
		nfds_t n = 4;
		bool worked;

		fds[0] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
		fds[1] = (struct pollfd){.fd = listener, .events = POLLIN};
		fds[2] = (struct pollfd){.fd = wire, .events = POLLIN};
		fds[3] = (struct pollfd){.fd = tap, .events = POLLIN};
		list_for_each(link, &contexts) {
			if (n < 4 + CONTEXTS)
				fds[n++] = (struct pollfd){
					.fd = container_of(link, struct context, link)->conn,
					.events = POLLIN};
		}
		/* Without a process nothing happens but on descriptors. */
		if (ppoll(fds, n, list_empty(&contexts) ? NULL : &nap, NULL) < 0 && errno != EINTR)
			fail("poll");
		if (fds[0].revents && !read_input())
			return 0;
		if (fds[1].revents)
			welcome();
		read_commands(fds + 4, n - 4);
		worked = from_wire();
		worked |= from_tap();
		worked |= serve_processes();
		clock_ticks();
		idle = worked ? 0 : idle + 1;
	}
}
