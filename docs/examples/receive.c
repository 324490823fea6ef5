/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads datagrams in the frames that the library received, without a copy, if it is there, and
 * with recvfrom() otherwise.
 *
 *	receive PORT COUNT	answers each datagram, and ends after COUNT of them
 *
 *	cc $(pkg-config --cflags libvma) -o receive receive.c
 *	LD_PRELOAD=libvma.so ./receive 7000 1000
 */
#include <mellanox/vma_extra.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DATAGRAM_MAX = 65536 };

/* How the datagrams came. */
static unsigned long in_place, copied;

static void answer(int fd, const void *bytes, size_t n, const struct sockaddr_in *to)
{
	if (sendto(fd, bytes, n, 0, (const struct sockaddr *)to, sizeof(*to)) < 0)
		perror("sendto");
}

/* One datagram; -1: none was received. */
static int receive(int fd, struct vma_api_t *api)
{
	static char buf[DATAGRAM_MAX];
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	struct vma_packets_t *packets = (void *)buf;
	int flags = 0, n;

	if (api && api->vma_extra_supported_mask & VMA_EXTRA_API_RECVFROM_ZCOPY)
		n = api->recvfrom_zcopy(fd, buf, sizeof(buf), &flags, (struct sockaddr *)&from,
					&len);
	else
		n = recvfrom(fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len);
	if (n < 0)
		return -1;
	if (!(flags & MSG_VMA_ZCOPY)) { /* what the kernel received is copied */
		copied++;
		answer(fd, buf, n, &from);
		return 0;
	}
	in_place++;
	answer(fd, packets->pkts[0].iov[0].iov_base, n, &from);
	return api->free_packets(fd, packets->pkts, packets->n_packet_num);
}

int main(int argc, char **argv)
{
	struct vma_api_t *api = vma_get_api();
	struct sockaddr_in here = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	long count;

	if (argc != 3) {
		fprintf(stderr, "usage: %s PORT COUNT\n", argv[0]);
		return 2;
	}
	here.sin_port = htons(atoi(argv[1]));
	if (fd < 0 || bind(fd, (struct sockaddr *)&here, sizeof(here)) < 0) {
		perror(argv[0]);
		return 1;
	}
	puts("ready");
	fflush(stdout);
	for (count = atol(argv[2]); count > 0; count--)
		if (receive(fd, api) < 0) {
			perror("receive");
			return 1;
		}
	printf("library %s, %lu in place, %lu copied\n", api ? "here" : "not here", in_place,
	       copied);
	close(fd);
	return 0;
}
