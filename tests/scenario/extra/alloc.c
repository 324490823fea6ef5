/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames in memory of the program.
 *
 *	alloc good|odd|null|short|late|hold IP PORT	with an echo server of the kernel there
 *
 * good, odd: receives without a copy, and looks where the bytes are; odd: the memory has no alignment.
 * null, short: the allocator fails, or lies.  late: it is set when there are frames.  hold: as good,
 * and waits for the end of standard input.  Prints what was wrong, and how its socket was served.
 */
#include <arpa/inet.h>
#include <mellanox/vma_extra.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

#define ROOM (64u << 20)

static struct vma_api_t *api;
static struct sockaddr_in to = {.sin_family = AF_INET};
static const char *how;
static uint8_t *area; /* ROOM bytes, and a page that cannot be accessed */
static uint8_t *last; /* what give() returned last */
static size_t used, asked;
static unsigned n_alloc, n_free;

static bool is(const char *name)
{
	return !strcmp(how, name);
}

static void *give(size_t size)
{
	void *memory = area + used + (is("odd") ? 13 : 0);

	n_alloc++;
	asked = size;
	if (is("null") || used + size + 13 > ROOM)
		return NULL;
	if (is("short"))
		return area + ROOM - size / 2;
	last = memory;
	used += size + 4096;
	return memory;
}

static void take(void *memory)
{
	expect((uint8_t *)memory >= area && (uint8_t *)memory < area + ROOM, "what is given back");
	n_free++;
}

static int set(void)
{
	struct vma_cmsg_ioctl_user_alloc_t data = {VMA_IOCTL_USER_ALLOC_FLAG_RX, give, take};
	struct cmsghdr head = {.cmsg_len = CMSG_LEN(sizeof(data)),
			       .cmsg_level = SOL_SOCKET,
			       .cmsg_type = CMSG_VMA_IOCTL_USER_ALLOC};
	_Alignas(struct cmsghdr) char ask[CMSG_SPACE(sizeof(data))] = {0};

	memcpy(ask, &head, sizeof(head));
	memcpy(ask + CMSG_LEN(0), &data, sizeof(data));
	return api->ioctl(ask, head.cmsg_len);
}

/* An echo; true: without a copy, and then the bytes are in the program's memory. */
static bool echo(int fd)
{
	union {
		struct vma_packets_t packets;
		char bytes[256];
	} buf;
	int flags = 0;

	if (send(fd, "hello", 5, 0) != 5)
		die("send");
	if (api->recvfrom_zcopy(fd, &buf, sizeof(buf), &flags, NULL, NULL) != 5)
		die("recvfrom_zcopy");
	if (!(flags & MSG_VMA_ZCOPY)) {
		expect(!memcmp(buf.bytes, "hello", 5), "the bytes");
		return false;
	}
	if (!is("late")) {
		uint8_t *at = buf.packets.pkts[0].iov[0].iov_base;

		expect(at >= area && at < area + ROOM, "the frame is not in the program's memory");
	}
	expect(!memcmp(buf.packets.pkts[0].iov[0].iov_base, "hello", 5), "the bytes");
	expect(!api->free_packets(fd, buf.packets.pkts, 1), "free_packets");
	return true;
}

/* Is there memory? */
static bool is_there(const void *at)
{
	static int ends[2];
	char byte;

	if (!ends[1] && pipe(ends))
		die("pipe");
	return write(ends[1], at, 1) == 1 && read(ends[0], &byte, 1) == 1;
}

/* A child does not have the frames, but the page behind them; nothing is given back there. */
static void fork_away(void)
{
	const uint8_t *frames = last, *end = last + asked - 4096;
	unsigned freed = n_free;
	int status;
	pid_t pid;

	expect(is_there(frames) && is_there(end - 1), "the frames");
	pid = fork();
	if (!pid) {
		bool has = is_there(frames) || is_there(end - 1) || !is_there(end);

		close(socket(AF_INET, SOCK_DGRAM, 0));
		_exit(has || n_free != freed);
	}
	expect(waitpid(pid, &status, 0) == pid && status == 0, "the child");
}

int main(int argc, char **argv)
{
	bool zcopy = true;
	char byte;
	int fd;

	api = vma_get_api();
	if (argc != 4 || !api)
		return 2;
	how = argv[1];
	inet_pton(AF_INET, argv[2], &to.sin_addr);
	to.sin_port = htons((uint16_t)atoi(argv[3]));
	area = mmap(NULL, ROOM + 4096, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED || mprotect(area + ROOM, 4096, PROT_NONE))
		die("mmap");
	if (!is("late") && set())
		die("ioctl");
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		die("connect");
	if (is("late"))
		expect(set() == -1 && errno == EINVAL, "it is too late");
	for (unsigned i = 0; i < 100; i++)
		zcopy &= echo(fd);
	if (is("good") && zcopy) {
		fork_away();
		zcopy &= echo(fd);
	}
	expect(is("late") ? !n_alloc : n_alloc > 0, "the allocator is asked");
	if (is("null") || is("short"))
		expect(n_free == (is("short") ? n_alloc : 0), "what cannot be used is given back");
	printf("%s\n", zcopy ? "zero-copy" : "kernel");
	if (is("hold")) {
		puts("ready");
		fflush(stdout);
		expect(read(0, &byte, 1) == 0, "the end");
	}
	printf("bad %u\n", bad);
	return 0;
}
