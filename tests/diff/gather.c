/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams that do not match one call each: calls split into segments (UDP_SEGMENT), datagrams
 * joined from pieces (MSG_MORE, UDP_CORK), with control messages.
 */
#include <errno.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/diff/diff.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#define UDP_GRO 104
#endif

static char bytes[70000];

static void fill(void)
{
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)('a' + i % 23 + i % 3);
}

/* ---- the receiver ------------------------------------------------------------------------- */

/* Until a datagram says "end". */
static void list_from(int fd)
{
	static char buf[70000];
	long n;

	for (;;) {
		struct sockaddr_in from;
		socklen_t len = sizeof(from);

		n = recvfrom(fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len);
		say("%ld bytes", n);
		if (n < 0)
			break;
		say_addr("from", &from, len);
		say_bytes(buf, (size_t)n);
		if (n == 3 && !memcmp(buf, "end", 3))
			break;
	}
}

static void lists_server(void)
{
	int fd = udp_bound(0);

	set_int(fd, SOL_SOCKET, SO_RCVBUF, 1 << 20);
	meet();
	list_from(fd);
	meet();
	close(fd);
}

/* The kernel receives fragments; datagrams that were sent later may arrive earlier. */
static void two_large_server(void)
{
	static char buf[70000];
	int fd = udp_bound(0);
	long n;

	set_int(fd, SOL_SOCKET, SO_RCVBUF, 1 << 20);
	meet();
	for (int i = 0; i < 2; i++) {
		n = SAY(recv(fd, buf, sizeof(buf), 0));
		say_bytes(buf, n < 0 ? 0 : (size_t)n);
	}
	meet();
	close(fd);
}

/* With the TTL and TOS of each. */
static void lists_headers_server(void)
{
	int fd = udp_bound(0);
	char buf[2000], control[200];
	long n;

	set_int(fd, IPPROTO_IP, IP_RECVTTL, 1);
	set_int(fd, IPPROTO_IP, IP_RECVTOS, 1);
	meet();
	do {
		struct sockaddr_in from;
		struct iovec iov = {buf, sizeof(buf)};
		struct msghdr msg = {.msg_iov = &iov,
				     .msg_iovlen = 1,
				     .msg_name = &from,
				     .msg_namelen = sizeof(from),
				     .msg_control = control,
				     .msg_controllen = sizeof(control)};

		n = recvmsg(fd, &msg, 0);
		say("%ld bytes", n);
		say_bytes(buf, n < 0 ? 0 : (size_t)n);
		say_addr("from", &from, msg.msg_namelen);
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
			say("type %d value %d", c->cmsg_type, *CMSG_DATA(c));
	} while (n >= 0 && !(n == 3 && !memcmp(buf, "end", 3)));
	meet();
	close(fd);
}

/* ---- the sender ---------------------------------------------------------------------------- */

static int begin(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = udp_bound(1);

	fill();
	meet(); /* the server has its port */
	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	return fd;
}

static void end(int fd)
{
	struct sockaddr_in to = server_addr(0);

	MUST(sendto(fd, "end", 3, 0, (struct sockaddr *)&to, sizeof(to)));
	meet();
	close(fd);
}

struct control {
	char bytes[128];
	size_t n;
};

static void add(struct control *c, int level, int type, const void *data, size_t n)
{
	struct cmsghdr head = {.cmsg_len = CMSG_LEN(n), .cmsg_level = level, .cmsg_type = type};

	memcpy(c->bytes + c->n, &head, sizeof(head));
	memcpy(c->bytes + c->n + CMSG_LEN(0), data, n);
	c->n += CMSG_SPACE(n);
}

static void add_int(struct control *c, int type, int value)
{
	add(c, IPPROTO_IP, type, &value, sizeof(value));
}

/* c may be NULL; the call empties it. */
static long send_with(int fd, const struct sockaddr_in *to, struct control *c, size_t len,
		      int flags)
{
	struct iovec iov = {bytes, len};
	struct msghdr msg = {.msg_name = (void *)(uintptr_t)to,
			     .msg_namelen = to ? sizeof(*to) : 0,
			     .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = c ? c->bytes : NULL,
			     .msg_controllen = c ? c->n : 0};
	long n = sendmsg(fd, &msg, flags);

	if (c)
		c->n = 0;
	return n;
}

static long send_segments(int fd, uint16_t size, size_t len)
{
	struct control c = {.n = 0};

	add(&c, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size));
	return send_with(fd, NULL, &c, len, 0);
}

/* ---- UDP_SEGMENT --------------------------------------------------------------------------- */

static void segments_client(void)
{
	int fd = begin();

	SAY(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){300}, sizeof(int)));
	SAY(get_int(fd, IPPROTO_UDP, UDP_SEGMENT));
	SAY(send(fd, bytes, 1000, 0));
	SAY(send(fd, bytes, 900, 0));
	SAY(send(fd, bytes, 300, 0));
	SAY(send(fd, bytes, 299, 0));
	SAY(send(fd, bytes, 301, 0));
	SAY(send(fd, bytes, 0, 0));
	SAY(send(fd, bytes, 300 * 64, 0));
	SAY(send_segments(fd, 0, 1000));
	SAY(send_segments(fd, 700, 1000));
	SAY(send_segments(fd, 1, 10));
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){0}, sizeof(int)));
	SAY(send(fd, bytes, 1000, 0));
	SAY(send_segments(fd, 1472, 65507));
	end(fd);
}

static void segment_errors_client(void)
{
	int fd = begin();

	SAY(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){-1}, sizeof(int)));
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){65536}, sizeof(int)));
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){5}, 3));
	SAY(get_int(fd, IPPROTO_UDP, UDP_SEGMENT));
	SAY(send_segments(fd, 1473, 2000));
	SAY(send_segments(fd, 1472, 65508));
	SAY(send_segments(fd, 1472, 65536));
	SAY(send_segments(fd, 1, 1000));
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){65535}, sizeof(int)));
	SAY(send(fd, bytes, 1472, 0));
	SAY(send(fd, bytes, 1473, 0));
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){100}, sizeof(int)));
	SAY(setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &(int){1}, sizeof(int)));
	SAY(send(fd, bytes, 250, 0));
	SAY(setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &(int){0}, sizeof(int)));
	SAY(send(fd, bytes, 250, MSG_OOB));
	SAY(send(fd, bytes, 250, MSG_DONTWAIT));
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){0}, sizeof(int)));
	end(fd);
}

static void segment_vectors_client(void)
{
	int fd = begin();
	struct iovec iov[20];

	SAY(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){7}, sizeof(int)));
	for (int i = 0; i < 20; i++)
		iov[i] = (struct iovec){bytes + 50 * i, (size_t)(i % 5)};
	SAY(writev(fd, iov, 20));
	SAY(writev(fd, iov, 9));
	SAY(writev(fd, iov, 1));
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){0}, sizeof(int)));
	end(fd);
}

/* ---- UDP_GRO ------------------------------------------------------------------------------- */

struct joined {
	char text[4000];
	size_t n;
	int datagrams;
	bool good; /* each call returned as many datagrams as its control message says */
};

/* One call; false: there is no datagram. */
static bool read_joined(int fd, struct joined *j)
{
	char buf[4000], control[100];
	struct iovec iov[2] = {{buf, 3}, {buf + 3, sizeof(buf) - 3}};
	struct msghdr msg = {.msg_iov = iov,
			     .msg_iovlen = 2,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	long n = recvmsg(fd, &msg, MSG_DONTWAIT);
	struct cmsghdr *c;
	int size = (int)n;

	if (n < 0)
		return false;
	c = CMSG_FIRSTHDR(&msg);
	if (c && (c->cmsg_level != IPPROTO_UDP || c->cmsg_type != UDP_GRO ||
		  c->cmsg_len != CMSG_LEN(sizeof(size))))
		j->good = false;
	else if (c)
		memcpy(&size, CMSG_DATA(c), sizeof(size));
	if ((c && n <= size) || (msg.msg_flags & MSG_TRUNC) || size < 0)
		j->good = false;
	memcpy(j->text + j->n, buf, (size_t)n);
	j->n += (size_t)n;
	j->datagrams += n ? (int)((n + size - 1) / size) : 1;
	return true;
}

/* The number of calls depends on the timing; their data does not. */
static void gro_server(void)
{
	struct joined j = {.good = true};
	int fd = udp_bound(0), calls = 0;

	SAY(setsockopt(fd, IPPROTO_UDP, UDP_GRO, &(int){1}, sizeof(int)));
	SAY(get_int(fd, IPPROTO_UDP, UDP_GRO));
	meet();
	arrive();
	while (read_joined(fd, &j))
		calls++;
	say_bytes(j.text, j.n);
	say("%d datagrams", j.datagrams);
	SAY_IF(j.good);
	if (with_lib && calls >= j.datagrams)
		say("nothing was joined"); /* the kernel may join them, the library does */
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_GRO, &(int){0}, sizeof(int)));
	meet();
	close(fd);
}

static void gro_client(void)
{
	static const int sizes[] = {5, 5, 5, 3, 5, 5, 6, 0, 6, 6, 7, 1, 1, 1, 1};
	struct sockaddr_in to = server_addr(0);
	int fd = begin(), other = udp_bound(2);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		MUST(send(fd, bytes + 10 * i, (size_t)sizes[i], 0));
	for (int i = 0; i < 4; i++) {
		MUST(send(fd, bytes + i, 4, 0));
		MUST(sendto(other, bytes, 4, 0, (struct sockaddr *)&to, sizeof(to)));
	}
	MUST(send(fd, bytes, 4, 0));
	set_int(fd, IPPROTO_IP, IP_TTL, 7);
	MUST(send(fd, bytes, 4, 0));
	SAY(send_segments(fd, 100, 1050));
	arrive();
	meet();
	close(other);
	close(fd);
}

/* ---- MSG_MORE, UDP_CORK --------------------------------------------------------------------- */

static void more_client(void)
{
	struct sockaddr_in to = server_addr(5), none = {.sin_family = AF_UNSPEC};
	int fd = begin();

	SAY(send(fd, "one", 3, MSG_MORE));
	SAY(send(fd, " and ", 5, MSG_MORE));
	SAY(send(fd, "two", 3, 0));
	SAY(send(fd, "", 0, MSG_MORE));
	SAY(send(fd, "", 0, 0));
	SAY(send(fd, "", 0, MSG_MORE));
	SAY(send(fd, "three", 5, 0));
	/* The first piece decides, whatever the later ones contain. */
	SAY(send(fd, "where ", 6, MSG_MORE));
	SAY(sendto(fd, "to", 2, 0, (struct sockaddr *)&to, sizeof(to)));
	SAY(send(fd, "and ", 4, MSG_MORE));
	SAY(connect(fd, (struct sockaddr *)&none, sizeof(none)));
	SAY(send(fd, "connected", 9, 0));
	SAY(send(fd, "to nobody", 9, MSG_MORE));
	SAY(send(fd, "to nobody", 9, 0));
	to = server_addr(0);
	SAY(sendto(fd, "by ", 3, MSG_MORE, (struct sockaddr *)&to, sizeof(to)));
	SAY(sendto(fd, "address", 7, 0, NULL, 0));
	end(fd);
}

static void more_errors_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = begin();

	SAY(send(fd, "a", 1, MSG_MORE));
	SAY(send(fd, "b", 1, MSG_OOB));
	SAY(send(fd, bytes, 65536, 0));
	SAY(send(fd, "c", 1, MSG_MORE | MSG_DONTWAIT));
	SAY(send(fd, "d", 1, 0));
	/* Too long: all pieces are discarded. */
	SAY(send(fd, bytes, 60000, MSG_MORE));
	SAY(send(fd, bytes, 5508, 0));
	SAY(send(fd, "e", 1, 0));
	SAY(send(fd, bytes, 65508, MSG_MORE));
	SAY(send(fd, "f", 1, 0));
	SAY(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &(int){IP_PMTUDISC_DO}, sizeof(int)));
	SAY(send(fd, bytes, 1000, MSG_MORE));
	SAY(send(fd, bytes, 473, MSG_MORE));
	SAY(send(fd, "g", 1, 0));
	SAY(send(fd, bytes, 1000, MSG_MORE));
	SAY(send(fd, bytes, 472, 0));
	to.sin_port = 0;
	SAY(sendto(fd, "h", 1, MSG_MORE, (struct sockaddr *)&to, sizeof(to)));
	SAY(send(fd, "i", 1, 0));
	end(fd);
}

/* The pieces are discarded when the socket is closed. */
static void more_closed_client(void)
{
	int fd = begin();

	SAY(send(fd, "never sent", 10, MSG_MORE));
	SAY(close(fd));
	fd = udp_bound(2);
	end(fd);
}

/* More than a frame. */
static void more_large_client(void)
{
	int fd = begin();

	SAY(send(fd, bytes, 1000, MSG_MORE));
	SAY(send(fd, bytes, 1000, MSG_MORE));
	SAY(send(fd, bytes, 1000, 0));
	SAY(send(fd, bytes, 60000, MSG_MORE));
	SAY(send(fd, bytes, 5507, 0));
	meet();
	close(fd);
}

static void cork_client(void)
{
	int fd = begin();

	SAY(setsockopt(fd, IPPROTO_UDP, UDP_CORK, &(int){1}, sizeof(int)));
	SAY(get_int(fd, IPPROTO_UDP, UDP_CORK));
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_CORK, &(int){0}, sizeof(int)));
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_CORK, &(int){2}, sizeof(int)));
	SAY(get_int(fd, IPPROTO_UDP, UDP_CORK));
	SAY(send(fd, "one ", 4, 0));
	SAY(send(fd, "two ", 4, MSG_MORE));
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_CORK, &(int){1}, sizeof(int)));
	SAY(send(fd, "three", 5, 0));
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_CORK, &(int){0}, sizeof(int)));
	SAY(get_int(fd, IPPROTO_UDP, UDP_CORK));
	SAY(send(fd, "plain", 5, 0));
	/* It also ends a datagram that MSG_MORE began. */
	SAY(send(fd, "more", 4, MSG_MORE));
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_CORK, &(int){0}, sizeof(int)));
	SAY(send(fd, "other", 5, 0));
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_CORK, &(int){1}, 3));
	/* Without UDP_CORK, the piece without MSG_MORE is the last one. */
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_CORK, &(int){1}, sizeof(int)));
	SAY(send(fd, "last ", 5, 0));
	SAY(send(fd, "piece", 5, 0));
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_CORK, &(int){0}, sizeof(int)));
	end(fd);
}

static void cork_segments_client(void)
{
	int fd = begin();

	SAY(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){4}, sizeof(int)));
	SAY(send(fd, "12345", 5, MSG_MORE));
	SAY(send(fd, "67890", 5, 0));
	SAY(send(fd, "123", 3, MSG_MORE));
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){2}, sizeof(int)));
	SAY(send(fd, "456", 3, 0));
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){1473}, sizeof(int)));
	SAY(send(fd, bytes, 1000, MSG_MORE));
	SAY(send(fd, bytes, 1000, 0));
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){1}, sizeof(int)));
	SAY(send(fd, bytes, 100, MSG_MORE));
	SAY(send(fd, bytes, 100, 0));
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){0}, sizeof(int)));
	end(fd);
}

/* The socket falls back to the kernel in the middle of a datagram. */
static void more_left_client(void)
{
	int fd = begin();

	SAY(send(fd, "one ", 4, MSG_MORE));
	SAY(setsockopt(fd, IPPROTO_IP, IP_RETOPTS, &(int){1}, sizeof(int)));
	SAY(send(fd, "two ", 4, MSG_MORE));
	SAY(send(fd, "three", 5, 0));
	SAY(send(fd, "four", 4, 0));
	end(fd);
}

/* ---- control messages -------------------------------------------------------------------------- */

static void headers_client(void)
{
	struct in_pktinfo info = {.ipi_ifindex = (int)if_nametoindex("v0")};
	struct sockaddr_in to = server_addr(0);
	struct control c = {.n = 0};
	int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0)), bound;

	fill();
	meet();
	/* Not bound, not connected. */
	add(&c, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	SAY(send_with(fd, NULL, &c, 1, 0));
	add(&c, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	SAY(send_with(fd, &to, &c, 1, 0));
	info.ipi_spec_dst = client_addr(0).sin_addr;
	info.ipi_ifindex = 0;
	add(&c, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	add_int(&c, IP_TTL, 9);
	SAY(send_with(fd, &to, &c, 2, 0));
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	add_int(&c, IP_TTL, 10);
	add_int(&c, IP_TOS, 3);
	SAY(send_with(fd, NULL, &c, 3, 0));
	SAY(setsockopt(fd, IPPROTO_IP, IP_TTL, &(int){99}, sizeof(int)));
	SAY(setsockopt(fd, IPPROTO_IP, IP_TOS, &(int){0x48}, sizeof(int)));
	add_int(&c, IP_TTL, 10);
	SAY(send_with(fd, NULL, &c, 4, 0));
	add_int(&c, IP_TOS, 0);
	SAY(send_with(fd, &to, &c, 5, 0));
	SAY(send_with(fd, NULL, NULL, 6, 0));
	add_int(&c, IP_TTL, 0);
	SAY(send_with(fd, NULL, &c, 7, 0));
	add_int(&c, IP_TTL, 256);
	SAY(send_with(fd, NULL, &c, 7, 0));
	add_int(&c, IP_TOS, 256);
	SAY(send_with(fd, NULL, &c, 7, 0));
	add_int(&c, IP_TOS, -1);
	SAY(send_with(fd, NULL, &c, 7, 0));
	add(&c, 77, 1, "x", 1); /* an unknown level */
	SAY(send_with(fd, NULL, &c, 8, 0));
	/* The first piece decides for all. */
	add_int(&c, IP_TTL, 11);
	SAY(send_with(fd, NULL, &c, 9, MSG_MORE));
	add_int(&c, IP_TTL, 12);
	SAY(send_with(fd, NULL, &c, 9, 0));
	bound = udp_bound(1);
	info.ipi_spec_dst.s_addr = 0;
	add(&c, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	SAY(send_with(bound, &to, &c, 10, 0));
	close(bound);
	end(fd);
}

/* By each of the options, several times. */
static void many_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = udp_bound(1);

	fill();
	meet();
	for (int i = 0; i < 3; i++) {
		for (int ttl = 1; ttl < 30; ttl++) {
			struct control c = {.n = 0};

			add_int(&c, IP_TTL, ttl);
			MUST(send_with(fd, &to, &c, (size_t)(ttl + 3), 0));
		}
	}
	end(fd);
}

static void sendmmsg_client(void)
{
	struct control c[4];
	struct mmsghdr msgs[4];
	struct iovec iov[4];
	int fd = begin();

	memset(msgs, 0, sizeof(msgs));
	for (int i = 0; i < 4; i++) {
		uint16_t size = (uint16_t)(i + 2);

		c[i].n = 0;
		iov[i] = (struct iovec){bytes + i, 7};
		if (i == 3)
			add_int(&c[i], IP_TTL, 1000);
		add_int(&c[i], IP_TTL, 20 + i);
		if (i == 1)
			add(&c[i], IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size));
		msgs[i].msg_hdr = (struct msghdr){.msg_iov = &iov[i],
						  .msg_iovlen = 1,
						  .msg_control = c[i].bytes,
						  .msg_controllen = c[i].n};
	}
	SAY(sendmmsg(fd, msgs, 4, 0));
	SAY(sendmmsg(fd, msgs + 3, 1, 0));
	end(fd);
}

const struct behaviour gather_behaviours[] = {
	{"segments", lists_server, segments_client, OURS},
	{"segment_errors", lists_server, segment_errors_client, OURS},
	{"segment_vectors", lists_server, segment_vectors_client, OURS},
	{"gro", gro_server, gro_client, OURS},
	{"more", lists_server, more_client, OURS},
	{"more_errors", lists_server, more_errors_client, OURS},
	{"more_closed", lists_server, more_closed_client, OURS},
	{"more_large", two_large_server, more_large_client, KERNEL},
	{"cork", lists_server, cork_client, OURS},
	{"cork_segments", lists_server, cork_segments_client, OURS},
	{"more_left", lists_server, more_left_client, KERNEL},
	{"headers", lists_headers_server, headers_client, OURS},
	{"many", lists_headers_server, many_client, OURS},
	{"sendmmsg", lists_headers_server, sendmmsg_client, OURS},
	{0},
};
