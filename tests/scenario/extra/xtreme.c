/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program of socketxtreme.
 *
 *	xtreme udp|tcp|local IP PORT N	N echoes of an echo server, one by one and in bursts; local: a
 *					connection within the host
 *	xtreme server IP PORT N		N echoes for each of the clients that connect, at IP and PORT
 *	xtreme server6 IP PORT N	the same at all addresses, of both families
 *	xtreme none IP PORT N		as a program without VMA_SOCKETXTREME finds the calls
 *
 * Prints what was wrong.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <mellanox/vma_extra.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

#define PATIENCE 30000 /* ms */
#define BURST 10
#define CLIENTS 8
#define DATA 0x1234567890abcdefull
#define TAG 0x89abcdefu

static struct vma_api_t *api;
static struct sockaddr_in to = {.sin_family = AF_INET};
static int sock, ring, second = -1; /* another ring that is polled, too */
static bool tcp, local;

static void fails(int rc, int error, const char *what)
{
	expect(rc == -1 && errno == error, what);
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* The completions of one poll that has some. */
static int await(struct vma_completion_t *c, unsigned max)
{
	uint64_t end = now_ms() + PATIENCE;
	int n;

	do {
		n = api->socketxtreme_poll(ring, c, max, 0);
		if (!n && second >= 0)
			n = api->socketxtreme_poll(second, c, max, 0);
		if (n < 0)
			die("socketxtreme_poll");
		if (n > (int)max)
			die("too many completions");
	} while (!n && now_ms() < end);
	if (!n)
		die("nothing comes");
	return n;
}

static void expect_none(const char *what)
{
	struct vma_completion_t c;

	expect(api->socketxtreme_poll(ring, &c, 1, 0) == 0, what);
}

static int get_ring(int fd)
{
	int fds[8] = {-1};

	if (api->get_socket_rings_fds(fd, fds, 8) < 1)
		die("get_socket_rings_fds");
	return fds[0];
}

static void send_number(int fd, unsigned number)
{
	if (send(fd, &number, sizeof(number), 0) != sizeof(number))
		die("send");
}

/* ---- packets ------------------------------------------------------------------------------- */

static void check_packet(const struct vma_completion_t *c)
{
	expect(c->events & VMA_SOCKETXTREME_PACKET, "no packet");
	expect(c->user_data == DATA, "the user data");
	expect(c->flow_tag == TAG && c->listen_fd == 0, "the flow tag");
	expect(c->packet.num_bufs == 1 && c->packet.buff_lst && !c->packet.buff_lst->next,
	       "the number of buffers");
	expect(c->packet.total_len == c->packet.buff_lst->len, "the length");
	expect(c->src.sin_family == AF_INET && c->src.sin_port == to.sin_port &&
		       c->src.sin_addr.s_addr == to.sin_addr.s_addr,
	       "the sender");
}

/* Buffers of a completion are counted, and one that is free is none. */
static void count_refs(struct vma_completion_t *c)
{
	struct vma_buff_t *buff = c->packet.buff_lst;
	unsigned number;

	memcpy(&number, buff->payload, sizeof(number));
	expect(api->socketxtreme_ref_vma_buff(buff) == 2, "the second reference");
	expect(api->socketxtreme_ref_vma_buff(buff) == 3, "the third reference");
	expect(api->socketxtreme_free_vma_packets(&c->packet, 1) == 0, "free_vma_packets");
	expect(api->socketxtreme_free_vma_buff(buff) == 1, "one is left");
	expect(!memcmp(&number, buff->payload, sizeof(number)), "the data changes");
	expect(api->socketxtreme_free_vma_buff(buff) == 0, "none is left");
	fails(api->socketxtreme_free_vma_buff(buff), EINVAL, "freed twice");
	fails(api->socketxtreme_ref_vma_buff(buff), EINVAL, "a reference to nothing");
	fails(api->socketxtreme_free_vma_packets(&c->packet, 1), EINVAL, "a packet freed twice");
}

/* Takes the bytes of count numbers, from first on. */
static void take(unsigned first, unsigned count, bool refs)
{
	unsigned got = 0, numbers[BURST];

	while (got < count * sizeof(*numbers)) {
		struct vma_completion_t c[BURST];
		int n = await(c, BURST);

		for (int i = 0; i < n; i++) {
			check_packet(&c[i]);
			if (got + c[i].packet.total_len > sizeof(numbers))
				die("too many bytes");
			memcpy((char *)numbers + got, c[i].packet.buff_lst->payload,
			       c[i].packet.total_len);
			got += c[i].packet.total_len;
			if (refs)
				count_refs(&c[i]);
			else if (api->socketxtreme_free_vma_packets(&c[i].packet, 1))
				die("socketxtreme_free_vma_packets");
		}
	}
	for (unsigned i = 0; i < count; i++)
		expect(numbers[i] == first + i, "the number");
}

static void *frees(void *arg)
{
	struct vma_completion_t *c = arg;

	if (api->socketxtreme_free_vma_packets(&c->packet, 1))
		die("free in another thread");
	return NULL;
}

/* The packet stays readable after the socket was closed, and another thread frees it. */
static void outlive(int fd)
{
	struct vma_completion_t c;
	pthread_t tid;
	unsigned number;

	send_number(fd, 77);
	await(&c, 1);
	close(fd);
	memcpy(&number, c.packet.buff_lst->payload, sizeof(number));
	expect(number == 77, "the packet of a closed socket");
	if (pthread_create(&tid, NULL, frees, &c))
		die("pthread_create");
	pthread_join(tid, NULL);
}

/* ---- misuse -------------------------------------------------------------------------------- */

static void misuse(void)
{
	struct vma_completion_t c = {0};
	char *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int epfd = epoll_create1(0);

	fails(api->socketxtreme_poll(sock, &c, 1, 0), EBADFD, "a socket is no ring");
	fails(api->socketxtreme_poll(epfd, &c, 1, 0), EBADFD, "an epoll set is no ring");
	fails(api->socketxtreme_poll(-1, &c, 1, 0), EBADFD, "no descriptor");
	fails(api->socketxtreme_poll(ring, NULL, 1, 0), EFAULT, "no memory");
	fails(api->socketxtreme_poll(ring, (void *)none, 4, 0), EFAULT, "memory not to be used");
	expect(api->socketxtreme_poll(ring, &c, 0, 0) == 0, "room for nothing");
	fails(api->socketxtreme_free_vma_packets(NULL, 1), EINVAL, "no packets");
	fails(api->socketxtreme_free_vma_packets(&c.packet, -1), EINVAL, "-1 packets");
	fails(api->socketxtreme_free_vma_packets(&c.packet, 1), EINVAL, "an empty packet");
	fails(api->socketxtreme_free_vma_packets((void *)none, 1), EFAULT, "packets nowhere");
	fails(api->socketxtreme_free_vma_buff(NULL), EINVAL, "no buffer");
	fails(api->socketxtreme_free_vma_buff((void *)none), EINVAL, "not a buffer");
	fails(api->socketxtreme_ref_vma_buff((void *)&c), EINVAL, "a reference to the stack");
	close(epfd);
	munmap(none, 4096);
}

/* Memory that cannot be used leaves what has arrived; a pointer into a buffer is none. */
static void misuse_with_data(void)
{
	char *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct vma_completion_t c;
	struct pollfd p = {.fd = sock, .events = POLLIN};

	send_number(sock, 5);
	expect(poll(&p, 1, PATIENCE) == 1, "poll() of the socket");
	fails(api->socketxtreme_poll(ring, (void *)none, 4, 0), EFAULT, "memory not to be used");
	await(&c, 1);
	fails(api->socketxtreme_free_vma_buff((void *)((char *)c.packet.buff_lst + 8)), EINVAL,
	      "the middle of a buffer");
	count_refs(&c);
	munmap(none, 4096);
}

/* What no poll has taken is there for recv(). */
static void ordinary(void)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	unsigned got;

	send_number(sock, 6);
	expect(poll(&p, 1, PATIENCE) == 1, "poll() of the socket");
	expect(recv(sock, &got, sizeof(got), 0) == sizeof(got) && got == 6, "recv()");
	expect_none("what recv() has returned");
	send_number(sock, 7);
	take(7, 1, false);
	expect(recv(sock, &got, sizeof(got), MSG_DONTWAIT) == -1 && errno == EAGAIN,
	       "recv() of what was taken");
}

static void user_data(void)
{
	uint64_t data = DATA, got = 0;
	socklen_t len = sizeof(got);

	expect(!getsockopt(sock, SOL_SOCKET, SO_VMA_USER_DATA, &got, &len) &&
		       got == (uint64_t)sock && len == 8,
	       "the user data of a new socket");
	fails(setsockopt(sock, SOL_SOCKET, SO_VMA_USER_DATA, &data, 4), EINVAL, "half of it");
	fails(setsockopt(sock, SOL_SOCKET, SO_VMA_USER_DATA, NULL, 8), EFAULT, "no user data");
	expect(!setsockopt(sock, SOL_SOCKET, SO_VMA_USER_DATA, &data, 8), "SO_VMA_USER_DATA");
	expect(!getsockopt(sock, SOL_SOCKET, SO_VMA_USER_DATA, &got, &len) && got == DATA,
	       "the user data");
	len = 4;
	fails(getsockopt(sock, SOL_SOCKET, SO_VMA_USER_DATA, &got, &len), EINVAL, "room for half");
}

/* A new socket has none; then each packet is told it. */
static void flow_tag(void)
{
	uint32_t tag = TAG, got = 1, bad_tags[] = {0, 0xfffff};
	socklen_t len = sizeof(got);

	expect(!getsockopt(sock, SOL_SOCKET, SO_VMA_FLOW_TAG, &got, &len) && !got && len == 4,
	       "the flow tag of a new socket");
	for (unsigned i = 0; i < 2; i++)
		fails(setsockopt(sock, SOL_SOCKET, SO_VMA_FLOW_TAG, &bad_tags[i], 4), EINVAL,
		      "no tag");
	fails(setsockopt(sock, SOL_SOCKET, SO_VMA_FLOW_TAG, &tag, 2), EINVAL, "half of a tag");
	fails(setsockopt(sock, SOL_SOCKET, SO_VMA_FLOW_TAG, NULL, 4), EFAULT, "no flow tag");
	expect(!setsockopt(sock, SOL_SOCKET, SO_VMA_FLOW_TAG, &tag, 4), "SO_VMA_FLOW_TAG");
	len = 8;
	expect(!getsockopt(sock, SOL_SOCKET, SO_VMA_FLOW_TAG, &got, &len) && got == TAG && len == 4,
	       "the flow tag");
	fails(getsockopt(sock, SOL_SOCKET, SO_VMA_FLOW_TAG, NULL, &len), EFAULT, "no room");
	fails(getsockopt(sock, SOL_SOCKET, SO_VMA_FLOW_TAG, &got, NULL), EFAULT, "no length");
	len = 2;
	fails(getsockopt(sock, SOL_SOCKET, SO_VMA_FLOW_TAG, &got, &len), EINVAL, "room for half");
}

/* A child has neither rings nor buffers, and ends without harm. */
static void fork_away(void)
{
	struct vma_completion_t c, d;
	int status;
	pid_t pid;

	send_number(sock, 8);
	await(&c, 1);
	pid = fork();
	if (!pid) {
		bool good = api->socketxtreme_poll(ring, &d, 1, 0) == -1 && errno == EBADFD;

		good = good && api->socketxtreme_free_vma_packets(&c.packet, 1) == -1 &&
		       errno == EINVAL;
		_exit(!good);
	}
	expect(waitpid(pid, &status, 0) == pid && status == 0, "the child");
	count_refs(&c);
}

/* Is it in memory that two processes share? */
static bool is_shared(const void *at)
{
	char line[512];
	bool is = false;
	FILE *maps = fopen("/proc/self/maps", "re");

	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long begin, end;

		if (sscanf(line, "%lx-%lx", &begin, &end) == 2 && (unsigned long)at >= begin &&
		    (unsigned long)at < end)
			is = strstr(line, "memfd:vma-local") != NULL;
	}
	if (maps)
		fclose(maps);
	return is;
}

/* Of a connection within the host, bytes are where the peer has put them. */
static void within_the_host(void)
{
	int flags = MSG_VMA_ZCOPY_FORCE;
	char buf[256];
	struct vma_packets_t *packets = (struct vma_packets_t *)(void *)buf;
	struct vma_completion_t c;

	send_number(sock, 9);
	expect(api->recvfrom_zcopy(sock, buf, sizeof(buf), &flags, NULL, NULL) == 4, "by force");
	expect(flags & MSG_VMA_ZCOPY, "no copy");
	expect(is_shared(packets->pkts[0].iov[0].iov_base), "the place");
	expect(*(char *)packets->pkts[0].iov[0].iov_base == 9, "the number there");
	expect(!api->free_packets(sock, packets->pkts, 1), "free_packets");
	fails(api->free_packets(sock, packets->pkts, 1), ENOENT, "free_packets twice");
	send_number(sock, 10);
	await(&c, 1);
	expect(is_shared(c.packet.buff_lst->payload), "the place of a packet");
	expect(!api->socketxtreme_free_vma_packets(&c.packet, 1), "free_vma_packets");
}

static int open_socket(void)
{
	int fd = socket(AF_INET, tcp ? SOCK_STREAM : SOCK_DGRAM, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		die("connect");
	return fd;
}

/* The connection reports that it can be written to. */
static void connected(void)
{
	struct vma_completion_t c;

	if (!tcp)
		return;
	await(&c, 1);
	expect(c.events == EPOLLOUT && c.user_data == (uint64_t)sock, "the end of connect()");
}

static void run_client(unsigned n)
{
	sock = open_socket();
	ring = get_ring(sock);
	connected();
	user_data();
	flow_tag();
	misuse();
	for (unsigned i = 0; i < n; i++) {
		send_number(sock, i);
		take(i, 1, i % 4 == 0);
	}
	for (unsigned i = 0; i < n; i += BURST) {
		for (unsigned k = 0; k < BURST; k++)
			send_number(sock, i + k);
		take(i, BURST, false);
	}
	misuse_with_data();
	ordinary();
	if (local)
		within_the_host();
	fork_away();
	outlive(sock);
	expect_none("a closed socket");
}

static void run_none(void)
{
	const uint64_t bits =
		VMA_EXTRA_API_SOCKETXTREME_POLL | VMA_EXTRA_API_SOCKETXTREME_FREE_VMA_PACKETS |
		VMA_EXTRA_API_SOCKETXTREME_REF_VMA_BUFF | VMA_EXTRA_API_SOCKETXTREME_FREE_VMA_BUFF;
	struct vma_completion_t c = {0};
	uint64_t data = 0;

	sock = open_socket();
	expect(!(api->vma_extra_supported_mask & bits), "the mask");
	fails(api->socketxtreme_poll(get_ring(sock), &c, 1, 0), EOPNOTSUPP, "poll");
	fails(api->socketxtreme_free_vma_packets(&c.packet, 1), EOPNOTSUPP, "free_vma_packets");
	fails(api->socketxtreme_ref_vma_buff(NULL), EOPNOTSUPP, "ref_vma_buff");
	fails(api->socketxtreme_free_vma_buff(NULL), EOPNOTSUPP, "free_vma_buff");
	fails(setsockopt(sock, SOL_SOCKET, SO_VMA_USER_DATA, &data, 8), ENOPROTOOPT, "user data");
}

/* ---- a server ------------------------------------------------------------------------------ */

static unsigned left; /* clients that have not ended */

/* A peer of IPv6 has no place in a completion but for its family and port. */
static void check_client(const struct vma_completion_t *c, int fd)
{
	union {
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} peer;
	socklen_t len = sizeof(peer);
	const void *v4 = &peer.in.sin_addr;
	int family = AF_INET;

	if (getpeername(fd, (struct sockaddr *)&peer, &len))
		die("getpeername");
	if (peer.in.sin_family == AF_INET6)
		v4 = &peer.in6.sin6_addr.s6_addr[12];
	if (peer.in.sin_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&peer.in6.sin6_addr))
		family = AF_INET6;
	expect(c->src.sin_family == family && c->src.sin_port == peer.in.sin_port,
	       "the family and port of the client");
	expect(family == AF_INET6 || !memcmp(&c->src.sin_addr, v4, 4), "the address of the client");
}

static void serve(const struct vma_completion_t *c, int listener)
{
	int fd = (int)c->user_data;
	char byte;

	if (c->events & VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED) {
		/* A connection within this host has another ring. */
		if (get_ring(fd) != ring)
			second = get_ring(fd);
		expect(c->listen_fd == listener, "the listener");
		check_client(c, fd);
	}
	expect(c->flow_tag == (c->events & VMA_SOCKETXTREME_PACKET ? TAG : 0),
	       "the flow tag of the listener");
	if (c->events & VMA_SOCKETXTREME_PACKET) {
		const struct vma_buff_t *buff = c->packet.buff_lst;

		if (send(fd, buff->payload, buff->len, 0) != buff->len)
			die("send");
		if (api->socketxtreme_free_vma_packets((struct vma_packet_desc_t *)&c->packet, 1))
			die("socketxtreme_free_vma_packets");
	}
	if (c->events & (EPOLLRDHUP | EPOLLHUP)) {
		expect(c->events & EPOLLIN, "the end is readable");
		expect(recv(fd, &byte, 1, MSG_DONTWAIT) == 0, "the end");
		close(fd);
		left--;
	}
}

/* both: of IPv6 and IPv4, at all addresses. */
static void run_server(bool both)
{
	struct vma_completion_t c[4];
	const struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = to.sin_port};
	int listener = socket(both ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
	const uint32_t tag = TAG;

	if (both ? bind(listener, (const struct sockaddr *)&any, sizeof(any))
		 : bind(listener, (struct sockaddr *)&to, sizeof(to)))
		die("bind");
	if (setsockopt(listener, SOL_SOCKET, SO_VMA_FLOW_TAG, &tag, sizeof(tag)))
		die("SO_VMA_FLOW_TAG");
	if (listen(listener, CLIENTS))
		die("listen");
	ring = get_ring(listener);
	printf("ready\n");
	fflush(stdout);
	for (left = CLIENTS; left;) {
		int n = await(c, 4);

		for (int i = 0; i < n; i++)
			serve(&c[i], listener);
	}
	expect_none("after the last client");
	printf("rings %d\n", second < 0 ? 1 : 2);
	close(listener);
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	local = !strcmp(argv[1], "local");
	tcp = local || !strcmp(argv[1], "tcp");
	inet_pton(AF_INET, argv[2], &to.sin_addr);
	to.sin_port = htons((uint16_t)atoi(argv[3]));
	api = vma_get_api();
	if (!api)
		die("no library");
	if (!strcmp(argv[1], "none"))
		run_none();
	else if (!strcmp(argv[1], "server"))
		run_server(false);
	else if (!strcmp(argv[1], "server6"))
		run_server(true);
	else
		run_client((unsigned)atoi(argv[4]));
	printf("bad %u\n", bad);
	return 0;
}
