/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that is compiled with the header of the extra API, and runs with the library or
 * without it.
 *
 *	feed udp|tcp IP PORT plain|zcopy|callback|early|rule N
 *				N echoes of an echo server, one by one; early: a callback that is
 *				registered before connect()
 *
 * Prints the API that it found, and how the echoes came.
 */
#include <arpa/inet.h>
#include <mellanox/vma_extra.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE 5000 /* ms */
#define TAG 77u
#define HALF 100 /* messages: then the socket has the tag */

static struct vma_api_t *api;
static int sock;
static bool tcp;
static unsigned seen, bad;

static void die(const char *what)
{
	printf("%s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

static void check(const void *data, size_t len, unsigned number)
{
	unsigned got;

	if (len != sizeof(got) || (memcpy(&got, data, len), got != number))
		bad++;
}

static vma_recv_callback_retval_t callback(int fd, size_t n, struct iovec iov[],
					   struct vma_info_t *info, void *context)
{
	/* Told when half of them have been seen. */
	uint32_t tag = 0;
	socklen_t len = sizeof(tag);

	if (getsockopt(fd, SOL_SOCKET, SO_VMA_FLOW_TAG, &tag, &len) ||
	    tag != (seen < HALF ? 0 : TAG) || info->struct_sz != sizeof(*info) ||
	    info->flow_tag != tag)
		bad++;
	if (fd != sock || context != &seen || n != 1 || ntohs(info->src->sin_port) == 0)
		bad++;
	check(iov[0].iov_base, iov[0].iov_len, seen++);
	return VMA_PACKET_DROP;
}

static void wait_for_it(void)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};

	if (poll(&p, 1, PATIENCE) != 1)
		die("no echo");
}

static void take_plain(unsigned number)
{
	unsigned got;
	ssize_t n;

	wait_for_it();
	n = recv(sock, &got, sizeof(got), 0);
	check(&got, n < 0 ? 0 : (size_t)n, number);
}

/* The data is there: a buffer that cannot be used leaves it there. */
static void misuse(void)
{
	static char *none;
	char small[sizeof(struct vma_packets_t) + sizeof(struct vma_packet_t)];
	int flags = 0;

	if (!none)
		none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	wait_for_it();
	if (api->recvfrom_zcopy(sock, none, 4096, &flags, NULL, NULL) != -1 || errno != EFAULT)
		bad++;
	if (api->recvfrom_zcopy(sock, small, sizeof(small), &flags, NULL, NULL) != -1 ||
	    errno != ENOBUFS)
		bad++;
	if (api->free_packets(sock, (struct vma_packet_t *)none, 1) != -1 || errno != EFAULT)
		bad++;
}

/* A child has none of the packets that this process holds, and ends without harm to them. */
static void fork_with(struct vma_packets_t *packets)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(api->free_packets(sock, packets->pkts, 1) != -1 || errno != ENOENT);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		bad++;
}

static void take_zcopy(unsigned number)
{
	char buf[64];
	struct vma_packets_t *packets = (struct vma_packets_t *)(void *)buf;
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	int flags = MSG_VMA_ZCOPY_FORCE, n;

	misuse();
	n = api->recvfrom_zcopy(sock, buf, sizeof(buf), &flags, (struct sockaddr *)&from, &len);
	if (n < 0)
		die("recvfrom_zcopy");
	if (!(flags & MSG_VMA_ZCOPY) || packets->n_packet_num != 1)
		bad++;
	if (tcp ? len != 0 : from.sin_family != AF_INET)
		bad++; /* as recvfrom() */
	if (tcp && number % 50 == 49)
		fork_with(packets);
	check(packets->pkts[0].iov[0].iov_base, packets->pkts[0].iov[0].iov_len, number);
	if (api->free_packets(sock, packets->pkts, 1))
		die("free_packets");
	if (!api->free_packets(sock, packets->pkts, 1) || errno != ENOENT)
		bad++;
}

/* A child of a process with a callback ends without harm to the socket. */
static void fork_away(void)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(api->register_recv_callback(-1, callback, NULL) != -1 || errno != EINVAL);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		bad++;
}

static void take_callback(unsigned number)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	const uint32_t tag = TAG;

	if (tcp && number % 50 == 49)
		fork_away();
	for (int ms = 0; seen <= number && ms < PATIENCE; ms += 10) {
		if (poll(&p, 1, 10) > 0)
			bad++; /* it drops everything */
	}
	if (seen != number + 1)
		die("the callback was not called");
	if (number + 1 == HALF && setsockopt(sock, SOL_SOCKET, SO_VMA_FLOW_TAG, &tag, sizeof(tag)))
		die("SO_VMA_FLOW_TAG");
}

static void print_header(void)
{
	unsigned char header[128];
	uint16_t len = sizeof(header);

	if (api->get_socket_network_header(sock, header, &len)) {
		printf("header none: %s\n", strerrorname_np(errno)); /* within this host */
		return;
	}
	printf("header %d %02x%02x %d\n", len, header[12], header[13], header[23]);
}

int main(int argc, char **argv)
{
	static char rule[] = "use os udp_connect *:*\n"; /* of datagram sockets */
	struct sockaddr_in to = {.sin_family = AF_INET};
	const char *way = argc == 6 ? argv[4] : "";
	void (*take)(unsigned number) = take_plain;

	if (argc != 6)
		return 2;
	tcp = !strcmp(argv[1], "tcp");
	inet_pton(AF_INET, argv[2], &to.sin_addr);
	to.sin_port = htons((uint16_t)atoi(argv[3]));
	api = vma_get_api();
	printf("api %s\n", api ? "here" : "none");
	if (api && !strcmp(way, "rule") && api->add_conf_rule(rule))
		die("add_conf_rule");
	sock = socket(AF_INET, tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
	if (api && !strcmp(way, "early")) {
		if (api->register_recv_callback(sock, callback, &seen))
			die("register_recv_callback");
		take = take_callback;
	}
	if (sock < 0 || connect(sock, (struct sockaddr *)&to, sizeof(to)))
		die("connect");
	if (api && !strcmp(way, "zcopy"))
		take = take_zcopy;
	if (api && !strcmp(way, "rule") &&
	    (!setsockopt(sock, SOL_SOCKET, SO_VMA_FLOW_TAG, &seen, sizeof(seen)) ||
	     errno != ENOPROTOOPT))
		bad++; /* an option of sockets that the library serves */
	if (api && !strcmp(way, "callback")) {
		if (api->register_recv_callback(sock, callback, &seen))
			die("register_recv_callback");
		take = take_callback;
	}
	for (int i = 0; api && tcp && !strcmp(way, "plain") && i < 2; i++) {
		if (!setsockopt(sock, SOL_SOCKET, SO_VMA_SHUTDOWN_RX, NULL, 0) ||
		    errno != EOPNOTSUPP)
			bad++; /* of datagram sockets */
	}
	for (unsigned i = 0; i < (unsigned)atoi(argv[5]); i++) {
		if (send(sock, &i, sizeof(i), 0) != sizeof(i))
			die("send");
		take(i);
	}
	if (api && strcmp(way, "rule") != 0) {
		print_header();
		if (api->dump_fd_stats(sock, 2))
			die("dump_fd_stats");
	}
	printf("bad %u\n", bad);
	return 0;
}
