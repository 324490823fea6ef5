/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dummy sends between real ones.
 *
 *	dummy udp|tcp IP PORT N		asks an echo server; N dummy sends by each call; asks again
 *
 * Prints how many dummy sends returned the length, and the error of the others.
 */
#include <arpa/inet.h>
#include <mellanox/vma_extra.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE 5000 /* ms */

static char message[] = "a dummy message, which nobody must see";
static int sock;
static unsigned good;
static int error;

static void die(const char *what)
{
	printf("%s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

static void ask(char c)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	char answer[100];

	if (send(sock, &c, 1, 0) != 1)
		die("send");
	if (poll(&p, 1, PATIENCE) != 1)
		die("no echo");
	if (recv(sock, answer, sizeof(answer), 0) != 1 || answer[0] != c)
		die("not the echo");
}

static void note(ssize_t rc, ssize_t wanted)
{
	if (rc == wanted)
		good++;
	else if (rc < 0)
		error = errno;
}

static void send_dummies(const struct sockaddr_in *to)
{
	struct iovec iov = {message, sizeof(message)};
	struct mmsghdr many[2] = {0};

	for (int i = 0; i < 2; i++) {
		many[i].msg_hdr.msg_iov = &iov;
		many[i].msg_hdr.msg_iovlen = 1;
	}
	note(send(sock, message, sizeof(message), VMA_SND_FLAGS_DUMMY), sizeof(message));
	note(sendto(sock, message, sizeof(message), VMA_SND_FLAGS_DUMMY,
		    (const struct sockaddr *)to, sizeof(*to)),
	     sizeof(message));
	note(sendmsg(sock, &many[0].msg_hdr, VMA_SND_FLAGS_DUMMY), sizeof(message));
	note(sendmmsg(sock, many, 2, VMA_SND_FLAGS_DUMMY), 2);
}

/* The acknowledgement of what was sent before has arrived. */
static void settle(void)
{
	for (int ms = 0; ms < PATIENCE; ms++) {
		struct pollfd p = {.fd = sock, .events = POLLIN};

		if (send(sock, message, 1, VMA_SND_FLAGS_DUMMY) == 1 || errno != EAGAIN)
			return;
		poll(&p, 1, 1);
	}
	die("never acknowledged");
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET};

	if (argc != 5)
		return 2;
	if (!vma_get_api())
		return 3;
	inet_pton(AF_INET, argv[2], &to.sin_addr);
	to.sin_port = htons((uint16_t)atoi(argv[3]));
	sock = socket(AF_INET, strcmp(argv[1], "tcp") ? SOCK_DGRAM : SOCK_STREAM, 0);
	if (sock < 0 || connect(sock, (struct sockaddr *)&to, sizeof(to)))
		die("connect");
	ask('1');
	settle();
	for (int i = atoi(argv[4]); i > 0; i--)
		send_dummies(&to);
	ask('2');
	printf("good %u\nerror %s\n", good, error ? strerrorname_np(error) : "none");
	close(sock);
	return 0;
}
