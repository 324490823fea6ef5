/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that receives messages of 100 bytes in each way that the extra API has, and sends some;
 * steps counts its instructions.
 *
 *	extra IP PORT COUNT [time] [nap]
 *	extra IP PORT COUNT beside|bound
 *	extra local COUNT [time]
 *
 * An echo server is at IP and PORT, over UDP and TCP.  Or (local) the messages come through shared
 * memory, from a socket of this process, so each is there when its send has returned.  The names are udp_recv_1, udp_callback_10...:
 * one call of a function that takes so many messages, which have arrived at the port before it;
 * udp_dummy, tcp_dummy: a dummy send; udp_send_1, udp_commit_1 ...: a send, and one of a message that
 * is in its frame; udp_out_10 ...: a batch of them.  Each is counted COUNT times.
 *
 * With VMA_SOCKETXTREME=1 only udp_xtreme_1 ... are counted: the other ways would pay for it.
 *
 * beside: the names are beside_udp_recv_1 ...  bound: the datagram socket is not connected, and has got a
 * datagram through shared memory before; bound_udp_recv_1 ...
 *
 * time: without steps; prints how many nanoseconds a message has taken, the fewest and the median.
 * nap: v0 does not count what arrives: waits for some time instead.
 *
 * local_udp_zcopy_14, local_udp_zcopy_1000 ...: one message of so many bytes.
 */
#include <arpa/inet.h>
#include <mellanox/vma_extra.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>
#include <vma/vma.h>

#include "tests/budget/program.h"
#include "tools/bench/steps.h"

#define SIZE 100
#define LONG 8000
#define BURST 10	      /* segments: what the initial window allows, RFC 6928 */
#define WARM_UP 1200000000ull /* nsec: the clock is calibrated once a second from then on */

#define NAP 25	    /* msec */
#define LOOKS 20000 /* nsec */

static struct vma_api_t *api;
static const struct vma_ext_t *vma;
static bool timed, naps, local, stream, bound;
static const char *prefix = ""; /* of names */
static struct sockaddr_in to = {.sin_family = AF_INET};
static int fd, epfd, ring, peer;
static unsigned wanted, taken, seen; /* bytes to take; bytes taken; bytes seen by the callback */
static uint64_t sent; /* when what arrive() sent was: for the call that takes the answer it is now */

static int (*do_epoll_wait)(int, struct epoll_event *, int, int);
static ssize_t (*do_recv)(int, void *, size_t, int);
static ssize_t (*do_send)(int, const void *, size_t, int);
static ssize_t (*do_sendto)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);

/* ---- the ways: each takes wanted bytes ---------------------------------------------------- */

static __attribute__((noinline)) void take_recv(void)
{
	char buf[SIZE];

	for (taken = 0; taken < wanted; taken += SIZE) {
		if (do_recv(fd, buf, SIZE, 0) != SIZE)
			die("recv");
	}
}

static __attribute__((noinline)) void take_batch(void)
{
	static char bufs[BURST][SIZE];
	struct vma_message_t messages[BURST] = {{0}};

	for (int i = 0; i < BURST; i++) {
		messages[i].data = bufs[i];
		messages[i].size = SIZE;
	}
	for (taken = 0; taken < wanted;) {
		unsigned n = (wanted - taken + SIZE - 1) / SIZE;
		int done = vma->vma_recv_batch(fd, messages, n, 0);

		if (done <= 0)
			die("vma_recv_batch");
		for (int i = 0; i < done; i++)
			taken += (unsigned)messages[i].done;
	}
}

static __attribute__((noinline)) void take_epoll(void)
{
	struct epoll_event event;
	char buf[SIZE];

	for (taken = 0; taken < wanted; taken += SIZE) {
		if (do_epoll_wait(epfd, &event, 1, -1) != 1)
			die("epoll_wait");
		if (do_recv(fd, buf, SIZE, 0) != SIZE)
			die("recv");
	}
}

static __attribute__((noinline)) void take_zcopy(void)
{
	char buf[sizeof(struct vma_packets_t) +
		 BURST * (sizeof(struct vma_packet_t) + sizeof(struct iovec))];
	struct vma_packets_t *packets = (struct vma_packets_t *)(void *)buf;

	for (taken = 0; taken < wanted;) {
		int flags = MSG_VMA_ZCOPY_FORCE;
		int n = api->recvfrom_zcopy(fd, buf, sizeof(buf), &flags, NULL, NULL);

		if (n <= 0 || api->free_packets(fd, packets->pkts, packets->n_packet_num))
			die("recvfrom_zcopy");
		taken += (unsigned)n;
	}
}

/* The program waits for anything, as it would for other sockets, too. */
static __attribute__((noinline)) void take_callback(void)
{
	struct epoll_event event;

	while (seen < wanted) {
		if (do_epoll_wait(epfd, &event, 1, 0) != 0)
			die("epoll_wait");
	}
}

/* The program asks this socket alone, and never gets anything. */
static __attribute__((noinline)) void take_called(void)
{
	char buf[SIZE];

	while (seen < wanted) {
		if (do_recv(fd, buf, SIZE, MSG_DONTWAIT) != -1)
			die("recv");
	}
}

static vma_recv_callback_retval_t callback(int sock, size_t n, struct iovec iov[],
					   struct vma_info_t *info, void *context)
{
	seen += (unsigned)iov[0].iov_len;
	return VMA_PACKET_DROP;
}

/* A poll of the ring takes what has arrived, and each packet is given back. */
static __attribute__((noinline)) void take_xtreme(void)
{
	struct vma_completion_t completions[BURST];

	for (taken = 0; taken < wanted;) {
		int n = api->socketxtreme_poll(ring, completions, BURST, 0);

		for (int i = 0; i < n; i++) {
			if (!(completions[i].events & VMA_SOCKETXTREME_PACKET))
				continue;
			taken += completions[i].packet.total_len;
			if (api->socketxtreme_free_vma_packets(&completions[i].packet, 1))
				die("socketxtreme_free_vma_packets");
		}
	}
}

/* ---- counting ---------------------------------------------------------------------------- */

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static unsigned long arrived(void)
{
	return naps || local ? 0 : received_bytes();
}

static void await_arrival(unsigned long before, unsigned messages)
{
	if (naps)
		nap_msec(NAP);
	else if (!local)
		await_received(before, messages * SIZE);
}

static ssize_t send_from(int from, const void *message, size_t size)
{
	if (bound)
		return do_sendto(from, message, size, 0, (struct sockaddr *)&to, sizeof(to));
	return do_send(from, message, size, 0);
}

/*
 * A call that finds nothing through shared memory looks at the kernel, too, unless it has in the last 8 us: so
 * that each does, whatever the speed of the machine.
 */
static void let_looks_be_due(void)
{
	uint64_t until = now() + LOOKS;

	while (now() < until)
		;
}

/* To a connection they are sent as one segment, so their echoes are one, too. */
static void arrive(unsigned messages)
{
	static const char message[BURST * SIZE];
	unsigned at_once = stream ? messages : 1;
	unsigned long before = arrived();

	if (local)
		let_looks_be_due();
	for (unsigned i = 0; i < messages; i += at_once) {
		size_t size = (size_t)at_once * SIZE;

		if (send_from(local ? peer : fd, message, size) != (ssize_t)size)
			die("send");
	}
	sent = steps_time();
	await_arrival(before, messages);
	wanted = messages * SIZE;
	seen = 0;
}

/* How long it took, the last count times. */
#define TIMES_MAX 1000
static uint64_t times[TIMES_MAX];
static int n_times;

static void time_call(void (*call)(void))
{
	uint64_t began = now();

	call();
	if (n_times < TIMES_MAX)
		times[n_times++] = now() - began;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void say_times(const char *name, unsigned messages)
{
	if (!n_times)
		return;
	qsort(times, (size_t)n_times, sizeof(*times), by_size);
	printf("call=%s ns=%llu fewest=%llu\n", name,
	       (unsigned long long)(times[n_times / 2] / messages),
	       (unsigned long long)(times[0] / messages));
	n_times = 0;
}

static char *name_of(const char *proto, const char *way, unsigned messages)
{
	static char names[64][32];
	static unsigned used;
	char *name = names[used++];

	snprintf(name, sizeof(names[0]), "%s%s_%s_%u", prefix, proto, way, messages);
	return name;
}

static void count_way(const char *proto, const char *way, void (*take)(void), int count)
{
	for (unsigned messages = 1; messages <= BURST; messages += BURST - 1) {
		char *name = name_of(proto, way, messages);

		for (int i = 0; i < count; i++) {
			arrive(messages); /* calibrates the clock, if that is due */
			take();
			arrive(messages);
			if (timed) {
				time_call(take);
				continue;
			}
			steps_count_at((void *)take, name, sent);
			take();
		}
		say_times(name, messages);
	}
}

/* One message of each size, without a copy. */
static void count_sizes(const char *proto, int count)
{
	static const unsigned sizes[] = {14, 1000, LONG};
	static const char message[LONG];

	for (unsigned n = 0; n < sizeof(sizes) / sizeof(sizes[0]); n++) {
		char *name = name_of(proto, "zcopy", sizes[n]);

		wanted = sizes[n];
		for (int i = 0; i < count; i++) {
			if (do_send(peer, message, wanted, 0) != (ssize_t)wanted)
				die("send");
			steps_count((void *)take_zcopy, name);
			take_zcopy();
		}
	}
}

/* Of a connected socket. */
static void count_dummy(const char *name, int count)
{
	static const char message[SIZE];

	for (int i = 0; i < count; i++) {
		arrive(1);
		take_recv();
		steps_count((void *)do_send, name);
		if (do_send(fd, message, SIZE, VMA_SND_FLAGS_DUMMY) != SIZE)
			die("dummy send");
	}
}

/* ---- sending ---------------------------------------------------------------------------- */

static struct vma_room_t room;

static __attribute__((noinline)) void give_send(void)
{
	static const char message[SIZE];

	if (send_from(fd, message, SIZE) != SIZE)
		die("send");
}

static __attribute__((noinline)) void give_commit(void)
{
	struct sockaddr *at = bound ? (struct sockaddr *)&to : NULL;

	if (vma->vma_commit(fd, room.id, SIZE, 0, at, at ? sizeof(to) : 0) != SIZE)
		die("vma_commit");
}

static __attribute__((noinline)) void give_batch(void)
{
	static char message[SIZE];
	struct vma_message_t messages[BURST] = {{0}};

	for (int i = 0; i < BURST; i++) {
		messages[i].data = message;
		messages[i].size = SIZE;
		messages[i].addr = bound ? (struct sockaddr *)&to : NULL;
		messages[i].addr_len = bound ? sizeof(to) : 0;
	}
	if (vma->vma_send_batch(fd, messages, BURST, 0) != BURST)
		die("vma_send_batch");
}

/* The echo, or what the peer has. */
static void take_given(unsigned long before, unsigned messages)
{
	char buf[SIZE];

	if (local) {
		while (do_recv(peer, buf, SIZE, MSG_DONTWAIT) > 0)
			;
		return;
	}
	await_arrival(before, messages);
	wanted = messages * SIZE;
	take_recv();
}

static void count_give(const char *proto, const char *way, void (*give)(void), unsigned messages,
		       int count)
{
	char *name = name_of(proto, way, messages);

	for (int i = 0; i < count; i++) {
		unsigned long before;

		arrive(1); /* all is acknowledged */
		take_recv();
		before = arrived();
		if (give == give_commit) {
			if (vma->vma_reserve(fd, SIZE, &room, NULL))
				die("vma_reserve");
			memset(room.data, 1, SIZE);
		}
		if (timed)
			time_call(give);
		else
			steps_count((void *)give, name);
		if (!timed)
			give();
		take_given(before, messages);
	}
	say_times(name, messages);
}

/* ---- everything -------------------------------------------------------------------------- */

static void await_local(int sock)
{
	struct vma_verdict_t verdict;

	if (vma->vma_get_verdict(sock, &verdict, sizeof(verdict)))
		die("vma_get_verdict");
	if (verdict.served != VMA_SERVED_LOCAL)
		die("not local");
}

/* fd and peer are connected with each other. */
static void connect_within(int type)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct sockaddr *at = (struct sockaddr *)&name;
	socklen_t len = sizeof(name);
	int other = socket(AF_INET, type, 0);

	if (other < 0 || bind(other, at, len) || getsockname(other, at, &len))
		die("bind");
	if (stream && listen(other, 1))
		die("listen");
	if (connect(fd, at, len))
		die("connect");
	peer = stream ? accept(other, NULL, NULL) : other;
	if (stream)
		close(other);
	else if (getsockname(fd, at, &len) || connect(peer, at, len))
		die("connect back");
	if (peer < 0)
		die("accept");
	await_local(fd);
}

/* fd is bound, and gets a datagram through shared memory. */
static void bind_within(void)
{
	struct sockaddr_in name = {.sin_family = AF_INET};
	struct sockaddr *at = (struct sockaddr *)&name;
	int other = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t len = sizeof(name);
	char buf[SIZE];

	if (other < 0 || bind(fd, at, len) || getsockname(fd, at, &len))
		die("bind");
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(other, at, len) || do_send(other, buf, SIZE, 0) != SIZE ||
	    do_recv(fd, buf, SIZE, 0) != SIZE)
		die("datagram");
	await_local(other);
	close(other);
}

static void count_all(const char *proto, int type, int count)
{
	struct epoll_event event = {.events = EPOLLIN};
	uint64_t warm = now() + WARM_UP;
	int one = 1;

	fd = socket(AF_INET, type, 0);
	stream = type == SOCK_STREAM;
	if (local)
		connect_within(type);
	else if (bound)
		bind_within();
	else if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		die("connect");
	if (stream)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	ring = -1;
	if (api->vma_extra_supported_mask & VMA_EXTRA_API_SOCKETXTREME_POLL)
		api->get_socket_rings_fds(fd, &ring, 1);
	while (now() < warm) {
		arrive(1);
		take_recv();
	}
	if (ring >= 0) {
		count_way(proto, "xtreme", take_xtreme, count);
		close(fd);
		return;
	}
	count_way(proto, "recv", take_recv, count);
	count_way(proto, "batch", take_batch, count);
	count_way(proto, "zcopy", take_zcopy, count);
	if (local && !timed)
		count_sizes(proto, count);
	if (!timed && !naps && !*prefix)
		count_dummy(type == SOCK_STREAM ? "tcp_dummy" : "udp_dummy", count);
	count_give(proto, "send", give_send, 1, count);
	count_give(proto, "commit", give_commit, 1, count);
	count_give(proto, "out", give_batch, BURST, count);
	epfd = epoll_create1(0);
	if (epfd < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event))
		die("epoll");
	count_way(proto, "epoll", take_epoll, count);
	if (api->register_recv_callback(fd, callback, NULL))
		die("register_recv_callback");
	count_way(proto, "callback", take_callback, count);
	count_way(proto, "called", take_called, count);
	close(epfd);
	close(fd);
}

int main(int argc, char **argv)
{
	int count;

	local = argc > 1 && !strcmp(argv[1], "local");
	if (local)
		prefix = "local_";
	for (int i = local ? 3 : 4; i < argc; i++) {
		timed |= !strcmp(argv[i], "time");
		naps |= !strcmp(argv[i], "nap");
		bound |= !strcmp(argv[i], "bound");
		if (bound || !strcmp(argv[i], "beside"))
			prefix = bound ? "bound_" : "beside_";
	}
	if (argc < (local ? 3 : 4) || (!local && inet_pton(AF_INET, argv[1], &to.sin_addr) != 1))
		return 2;
	count = atoi(argv[local ? 2 : 3]);
	if (!local)
		to.sin_port = htons((uint16_t)atoi(argv[2]));
	api = vma_get_api();
	vma = vma_get_ext();
	if (!api || !vma)
		die("no library");
	do_epoll_wait = (int (*)(int, struct epoll_event *, int, int))function("epoll_wait");
	do_recv = (ssize_t(*)(int, void *, size_t, int))function("recv");
	do_send = (ssize_t(*)(int, const void *, size_t, int))function("send");
	do_sendto = (ssize_t(*)(int, const void *, size_t, int, const struct sockaddr *,
				socklen_t))function("sendto");
	count_all("udp", SOCK_DGRAM, count);
	if (!bound)
		count_all("tcp", SOCK_STREAM, count);
	return 0;
}
