/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A latency test of two programs, as sockperf and udp_lat are: the client sends a message and takes the
 * answer, in any way of the extra API; without the library, by the ordinary calls.
 *
 *	lat server|client udp|tcp IP PORT N plain|callback|zcopy|xtreme [dummy]
 *
 * N messages of different lengths; dummy: the client makes dummy sends between them.  The server, of one
 * client, answers inside the callback, or while it has the packet.  Each prints what it has counted.
 */
#include <arpa/inet.h>
#include <mellanox/vma_extra.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "program.h"

#define HEADER 8u      /* number and length of a message, uint32_t */
#define MESSAGE 1400u  /* bytes at most */
#define PATIENCE 10000 /* ms, of a wait */
#define LAST UINT32_MAX

static struct vma_api_t *api;
static bool server, tcp;
static int sock = -1, ring = -1; /* sock: of messages */
static uint8_t part[MESSAGE];	 /* of a connection: an incomplete message */
static uint32_t n_part;
static uint32_t received, answered, repeated, misplaced;
static bool over;
static bool (*take)(void); /* what there is; true: there was something */

static uint32_t length_of(uint32_t number)
{
	return number == LAST ? HEADER : HEADER + number * 37 % (MESSAGE - HEADER);
}

static uint32_t make(uint8_t *message, uint32_t number)
{
	uint32_t len = length_of(number);

	memcpy(message, &number, 4);
	memcpy(message + 4, &len, 4);
	for (uint32_t i = HEADER; i < len; i++)
		message[i] = (uint8_t)(number + i);
	return len;
}

static void give(const uint8_t *data, uint32_t len, const struct sockaddr_in *to)
{
	ssize_t n = sendto(sock, data, len, 0, (const struct sockaddr *)(tcp ? NULL : to),
			   tcp || !to ? 0 : sizeof(*to));

	if (n != (ssize_t)len)
		die("send");
}

static void on_message(const uint8_t *data, uint32_t len, const struct sockaddr_in *from)
{
	uint8_t right[MESSAGE];
	uint32_t number;

	memcpy(&number, data, 4);
	if (server && number == LAST) {
		over = true;
		return;
	}
	repeated += number < received;
	misplaced += number > received;
	expect(len == make(right, number) && !memcmp(right, data, len), "the message");
	received++;
	if (!server)
		return;
	give(data, len, from);
	answered++;
}

static void on_bytes(const uint8_t *data, size_t n, const struct sockaddr_in *from)
{
	uint32_t len;

	if (!tcp && n >= HEADER) {
		on_message(data, (uint32_t)n, from);
		return;
	}
	while (n) {
		uint32_t want = HEADER, some;

		if (n_part >= HEADER) {
			memcpy(&len, part + 4, 4);
			if (len < HEADER || len > MESSAGE)
				die("no message");
			want = len;
		}
		some = want - n_part < n ? want - n_part : (uint32_t)n;
		memcpy(part + n_part, data, some);
		n_part += some;
		data += some;
		n -= some;
		if (n_part < HEADER)
			continue;
		memcpy(&len, part + 4, 4);
		if (n_part == len) {
			n_part = 0;
			on_message(part, len, from);
		}
	}
}

/* ---- the ways ----------------------------------------------------------------------------- */

static bool take_called(void);

static void wait_for_it(void)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};

	/* What a callback takes ends no poll(). */
	poll(&p, 1, take == take_called ? 1 : 10);
}

static bool take_plain(void)
{
	uint8_t buf[2 * MESSAGE];
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	ssize_t n;

	wait_for_it();
	n = recvfrom(sock, buf, sizeof(buf), MSG_DONTWAIT, (struct sockaddr *)&from, &len);
	if (n <= 0)
		return false;
	on_bytes(buf, (size_t)n, &from);
	return true;
}

static unsigned called;

static vma_recv_callback_retval_t callback(int fd, size_t n, struct iovec iov[],
					   struct vma_info_t *info, void *context)
{
	struct sockaddr_in from = *info->src;

	called++;
	for (size_t i = 0; i < n; i++)
		on_bytes(iov[i].iov_base, iov[i].iov_len, &from);
	return VMA_PACKET_DROP;
}

/* recv() finds what came before the callback was registered. */
static bool take_called(void)
{
	unsigned before = called;

	return take_plain() || called != before;
}

static bool take_zcopy(void)
{
	_Alignas(8) uint8_t buf[2 * MESSAGE];
	struct vma_packets_t *packets = (struct vma_packets_t *)(void *)buf;
	struct vma_packet_t *p = packets->pkts;
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	int flags = MSG_DONTWAIT, n;

	wait_for_it();
	n = api->recvfrom_zcopy(sock, buf, sizeof(buf), &flags, (struct sockaddr *)&from, &len);
	if (n <= 0)
		return false;
	expect(flags & MSG_VMA_ZCOPY, "without a copy");
	for (size_t i = 0; i < packets->n_packet_num; i++) {
		for (size_t j = 0; j < p->sz_iov; j++)
			on_bytes(p->iov[j].iov_base, p->iov[j].iov_len, &from);
		p = (struct vma_packet_t *)(void *)&p->iov[p->sz_iov];
	}
	expect(!api->free_packets(sock, packets->pkts, packets->n_packet_num), "free_packets");
	return true;
}

static bool take_xtreme(void)
{
	struct vma_completion_t c[8];
	int n = api->socketxtreme_poll(ring, c, 8, 0);

	if (n < 0)
		die("socketxtreme_poll");
	for (int i = 0; i < n; i++) {
		if (c[i].events & VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED)
			sock = (int)c[i].user_data;
		if (!(c[i].events & VMA_SOCKETXTREME_PACKET))
			continue;
		on_bytes(c[i].packet.buff_lst->payload, c[i].packet.total_len, &c[i].src);
		expect(!api->socketxtreme_free_vma_packets(&c[i].packet, 1), "free");
	}
	if (!n)
		usleep(50);
	return n > 0;
}

/* ---- the two programs ---------------------------------------------------------------------- */

static void begin(const char *way)
{
	if (!api || !strcmp(way, "plain"))
		take = take_plain;
	else if (!strcmp(way, "callback"))
		take = take_called;
	else if (!strcmp(way, "zcopy"))
		take = take_zcopy;
	else
		take = take_xtreme;
}

static void get_ring(int fd)
{
	if (take == take_xtreme && api->get_socket_rings_fds(fd, &ring, 1) != 1)
		die("get_socket_rings_fds");
}

static void follow(int fd)
{
	sock = fd;
	if (take == take_called && api->register_recv_callback(fd, callback, NULL))
		die("register_recv_callback");
}

static void serve(const struct sockaddr_in *at)
{
	int fd = socket(AF_INET, tcp ? SOCK_STREAM : SOCK_DGRAM, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)at, sizeof(*at)) || (tcp && listen(fd, 5)))
		die("bind");
	get_ring(fd);
	puts("ready");
	fflush(stdout);
	if (!tcp)
		follow(fd);
	else if (take != take_xtreme)
		follow(accept(fd, NULL, NULL));
	while (!over)
		take();
	printf("received %u answered %u\n", received, answered);
}

static void send_dummies(uint32_t number)
{
	static const uint8_t dummy[MESSAGE];

	/* EAGAIN: the last message is not acknowledged yet. */
	for (uint32_t i = 1; i <= 3; i++) {
		if (send(sock, dummy, number * i % MESSAGE + 1, VMA_SND_FLAGS_DUMMY) < 0)
			expect(errno == EAGAIN, "a dummy send");
	}
}

static void ask(const struct sockaddr_in *to, uint32_t n, bool dummies)
{
	uint8_t message[MESSAGE];
	int fd = socket(AF_INET, tcp ? SOCK_STREAM : SOCK_DGRAM, 0), one = 1;

	if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof(*to)))
		die("connect");
	if (tcp)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	get_ring(fd);
	follow(fd);
	for (uint32_t i = 0; i < n; i++) {
		struct timespec now;
		time_t end;

		give(message, make(message, i), NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
		end = now.tv_sec + PATIENCE / 1000;
		while (received <= i) {
			if (!take() && (clock_gettime(CLOCK_MONOTONIC, &now), now.tv_sec > end))
				die("no answer");
		}
		if (dummies && api)
			send_dummies(i);
	}
	give(message, make(message, LAST), NULL);
	printf("sent %u received %u\n", n, received);
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};

	if (argc < 7)
		return 2;
	server = !strcmp(argv[1], "server");
	tcp = !strcmp(argv[2], "tcp");
	inet_pton(AF_INET, argv[3], &addr.sin_addr);
	addr.sin_port = htons((uint16_t)atoi(argv[4]));
	api = vma_get_api();
	begin(argv[6]);
	if (server)
		serve(&addr);
	else
		ask(&addr, (uint32_t)atoi(argv[5]), argc > 7);
	printf("repeated %u misplaced %u bad %u\n", repeated, misplaced, bad);
	return 0;
}
