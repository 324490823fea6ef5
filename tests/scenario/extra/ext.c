/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that is compiled with <vma/vma.h>, and runs with the library or without it.
 *
 *	ext udp|tcp IP PORT N		N rounds with an echo server
 *
 * Prints the table that it found, how the socket is served, how many messages were written into frames,
 * and what was wrong.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vma/vma.h>

#include "program.h"

#define SIZE 100
#define BATCH 40       /* more than the library takes at a time */
#define PATIENCE 10000 /* msec */

static const struct vma_ext_t *vma;
static struct sockaddr_in server;
static bool tcp;
static int sock;
static unsigned in_frame;
static char *none; /* memory that nobody may touch */

static int open_socket(void)
{
	int fd = socket(AF_INET, tcp ? SOCK_STREAM : SOCK_DGRAM, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&server, sizeof(server)))
		die("connect");
	return fd;
}

static bool fails(ssize_t rc, int error)
{
	return rc == -1 && errno == error;
}

static void await(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	if (poll(&p, 1, PATIENCE) != 1)
		die("poll");
}

/* The byte at this position of message number. */
static char byte_of(unsigned number, unsigned at)
{
	return (char)(number * 7 + at);
}

static void write_message(char *to, unsigned number)
{
	for (unsigned i = 0; i < SIZE; i++)
		to[i] = byte_of(number, i);
}

static bool is_message(const char *data, unsigned number)
{
	for (unsigned i = 0; i < SIZE; i++) {
		if (data[i] != byte_of(number, i))
			return false;
	}
	return true;
}

/* The echo of message number. */
static void receive(int fd, unsigned number)
{
	char buf[SIZE];

	for (size_t have = 0; have < SIZE;) {
		ssize_t n;

		await(fd, POLLIN);
		n = recv(fd, buf + have, SIZE - have, 0);
		if (n <= 0)
			die("recv");
		have += (size_t)n;
	}
	expect(is_message(buf, number), "the echo");
}

/* ---- without the library -------------------------------------------------------------- */

static void go_without(unsigned rounds)
{
	char buf[SIZE];

	for (unsigned i = 0; i < rounds; i++) {
		write_message(buf, i);
		if (send(sock, buf, SIZE, 0) != SIZE)
			die("send");
		receive(sock, i);
	}
}

/* ---- batches ---------------------------------------------------------------------------- */

static char sent[BATCH][SIZE], got[BATCH][SIZE];

static void fill(struct vma_message_t *messages, char buffers[BATCH][SIZE], unsigned n)
{
	memset(messages, 0, n * sizeof(*messages));
	for (unsigned i = 0; i < n; i++) {
		messages[i].data = buffers[i];
		messages[i].size = SIZE;
		messages[i].error = -1; /* the library says it */
	}
}

/* Receives n echoes: datagrams one for one, of a stream all bytes. */
static void receive_batch(unsigned first, unsigned n)
{
	struct vma_message_t messages[BATCH];
	struct sockaddr_in from[BATCH];
	unsigned have = 0;
	size_t bytes = 0;

	while (tcp ? bytes < n * SIZE : have < n) {
		unsigned at = tcp ? (unsigned)(bytes / SIZE) : have, rest = n - at;
		int k;

		fill(messages, got + at, rest);
		if (tcp) { /* behind what has come of the message */
			messages[0].data = got[at] + bytes % SIZE;
			messages[0].size -= bytes % SIZE;
		}
		for (unsigned i = 0; i < rest && !tcp; i++) {
			messages[i].addr = (struct sockaddr *)&from[i];
			messages[i].addr_len = sizeof(from[i]);
		}
		await(sock, POLLIN);
		k = vma->vma_recv_batch(sock, messages, rest, at % 2 ? MSG_DONTWAIT : 0);
		if (k <= 0)
			die("vma_recv_batch");
		for (int i = 0; i < k; i++) {
			expect(messages[i].error == 0 && messages[i].flags == 0, "no error");
			expect(tcp ? i + 1 == k || messages[i].done == messages[i].size
				   : messages[i].done == SIZE,
			       "the size of a message");
			expect(tcp || (messages[i].addr_len == sizeof(from[i]) &&
				       from[i].sin_port == server.sin_port),
			       "the sender");
			bytes += messages[i].done;
		}
		have += (unsigned)k;
	}
	for (unsigned i = 0; i < n; i++)
		expect(is_message(got[i], first + i), "an echo of the batch");
}

static void batches(unsigned rounds)
{
	struct vma_message_t messages[BATCH];

	for (unsigned r = 0; r < rounds; r++) {
		unsigned n = 1 + (r * 13) % BATCH;

		fill(messages, sent, n);
		for (unsigned i = 0; i < n; i++) {
			write_message(sent[i], r + i);
			if (!tcp && r % 2) {
				messages[i].addr = (struct sockaddr *)&server;
				messages[i].addr_len = sizeof(server);
			}
		}
		if (vma->vma_send_batch(sock, messages, n, 0) != (int)n)
			die("vma_send_batch");
		for (unsigned i = 0; i < n; i++)
			expect(messages[i].done == SIZE && !messages[i].error, "a sent message");
		receive_batch(r, n);
	}
}

static void batch_errors(void)
{
	struct vma_message_t messages[3];
	char small[1];

	fill(messages, got, 3);
	expect(fails(vma->vma_recv_batch(sock, messages, 3, MSG_DONTWAIT), EAGAIN),
	       "nothing there");
	expect(fails(vma->vma_recv_batch(sock, messages, 0, 0), EINVAL), "no messages");
	expect(fails(vma->vma_recv_batch(sock, messages, 1025, 0), EINVAL), "too many");
	expect(fails(vma->vma_recv_batch(sock, messages, 3, MSG_PEEK), EINVAL), "a flag");
	expect(fails(vma->vma_recv_batch(-1, messages, 3, 0), EBADF), "no descriptor");
	expect(fails(vma->vma_recv_batch(sock, (void *)none, 3, 0), EFAULT), "no memory");
	expect(fails(vma->vma_send_batch(sock, messages, 0, 0), EINVAL), "no messages to send");
	expect(fails(vma->vma_send_batch(sock, messages, 3, MSG_OOB), EINVAL), "a flag to send");
	expect(fails(vma->vma_send_batch(-1, messages, 3, 0), EBADF), "no descriptor to send");
	expect(fails(vma->vma_send_batch(sock, (void *)none, 3, 0), EFAULT), "no memory to send");
	/* A part: the first message is sent, the second one cannot be read. */
	fill(messages, sent, 3);
	write_message(sent[0], 5);
	if (!tcp) {
		messages[1].data = none;
		expect(vma->vma_send_batch(sock, messages, 3, 0) == 1, "a part");
		expect(messages[0].done == SIZE && messages[1].error == EFAULT &&
			       messages[2].error == -1,
		       "why not the second one");
		receive(sock, 5);
		messages[1].data = sent[1];
		messages[1].size = 70000;
		expect(vma->vma_send_batch(sock, messages, 3, 0) == 1, "a part, again");
		expect(messages[1].error == EMSGSIZE, "too long");
		receive(sock, 5);
		/* What is too long for its buffer. */
		if (send(sock, sent[0], SIZE, 0) != SIZE)
			die("send");
		await(sock, POLLIN);
		messages[0] = (struct vma_message_t){.data = small, .size = 1};
		expect(vma->vma_recv_batch(sock, messages, 1, 0) == 1 && messages[0].done == 1 &&
			       messages[0].flags == MSG_TRUNC,
		       "a datagram that does not fit");
	} else {
		messages[1].addr = (struct sockaddr *)&server;
		messages[1].addr_len = sizeof(server);
		expect(vma->vma_send_batch(sock, messages, 3, 0) == 1 &&
			       messages[1].error == EISCONN,
		       "an address of a connection");
		receive(sock, 5);
		messages[0].data = none;
		expect(fails(vma->vma_send_batch(sock, messages, 1, 0), EFAULT), "no memory");
	}
}

/* ---- rooms -------------------------------------------------------------------------------- */

static struct vma_room_t reserve(int fd)
{
	struct vma_room_t room;

	if (vma->vma_reserve(fd, SIZE, &room, NULL))
		die("vma_reserve");
	expect(room.size >= SIZE, "the size of a room");
	in_frame += (unsigned)room.in_frame;
	return room;
}

static void rooms(unsigned rounds)
{
	for (unsigned r = 0; r < rounds; r++) {
		struct vma_room_t room = reserve(sock), other = reserve(sock);
		const struct sockaddr *to = !tcp && r % 2 ? (struct sockaddr *)&server : NULL;

		write_message(room.data, r);
		write_message(other.data, r + 1);
		if (r % 3 == 2) { /* the other one first */
			expect(vma->vma_commit(sock, other.id, SIZE, 0, to, sizeof(server)) == SIZE,
			       "the second room");
			receive(sock, r + 1);
		} else {
			expect(vma->vma_abandon(sock, other.id) == 0, "a room is given back");
		}
		expect(vma->vma_commit(sock, room.id, SIZE, 0, to, sizeof(server)) == SIZE,
		       "a room");
		receive(sock, r);
		expect(fails(vma->vma_commit(sock, room.id, SIZE, 0, to, sizeof(server)), ENOENT),
		       "twice");
		expect(fails(vma->vma_abandon(sock, room.id), ENOENT), "a room that was sent");
		expect(fails(vma->vma_abandon(sock, other.id), ENOENT), "a room that is gone");
	}
}

static void room_errors(void)
{
	struct vma_room_t room = reserve(sock), more;
	int other = open_socket(), pipes[2];
	size_t max = 0;

	write_message(room.data, 9);
	expect(fails(vma->vma_commit(other, room.id, SIZE, 0, NULL, 0), ENOENT),
	       "another socket's");
	expect(fails(vma->vma_abandon(other, room.id), ENOENT), "another socket gives it back");
	expect(fails(vma->vma_commit(-1, room.id, SIZE, 0, NULL, 0), ENOENT), "no socket's");
	expect(fails(vma->vma_commit(sock, room.id + 1, SIZE, 0, NULL, 0), ENOENT), "no room");
	expect(fails(vma->vma_commit(sock, UINT64_MAX, SIZE, 0, NULL, 0), ENOENT), "far away");
	expect(fails(vma->vma_commit(sock, 0, SIZE, 0, NULL, 0), ENOENT), "nothing");
	expect(fails(vma->vma_commit(sock, room.id, room.size + 1, 0, NULL, 0), EINVAL),
	       "too long");
	expect(fails(vma->vma_commit(sock, room.id, SIZE, MSG_MORE, NULL, 0), EINVAL), "a flag");
	expect(fails(vma->vma_commit(sock, room.id, SIZE, 0, (struct sockaddr *)none, 16), EFAULT),
	       "an address that cannot be read");
	if (tcp)
		expect(fails(vma->vma_commit(sock, room.id, SIZE, 0, (struct sockaddr *)&server,
					     sizeof(server)),
			     EINVAL),
		       "an address of a connection");
	expect(fails(vma->vma_reserve(sock, 100000, &more, &max), EMSGSIZE) && max >= 500,
	       "more than a frame has");
	expect(vma->vma_reserve(sock, max, &more, &max) == 0 && !vma->vma_abandon(sock, more.id),
	       "as much as it has");
	expect(fails(vma->vma_reserve(sock, 1, (struct vma_room_t *)none, NULL), EFAULT),
	       "nowhere to tell it");
	expect(fails(vma->vma_reserve(-1, 1, &more, NULL), EOPNOTSUPP), "no descriptor");
	if (pipe(pipes))
		die("pipe");
	expect(fails(vma->vma_reserve(pipes[0], 1, &more, NULL), EOPNOTSUPP), "a pipe");
	if (tcp) {
		int alone = socket(AF_INET, SOCK_STREAM, 0);

		expect(fails(vma->vma_reserve(alone, 1, &more, NULL), ENOTCONN), "no connection");
		close(alone);
	}
	expect(vma->vma_commit(sock, room.id, SIZE, 0, NULL, 0) == SIZE, "it is as before");
	receive(sock, 9);

	/* A room outlives its socket, and then it can only be given back. */
	more = reserve(other);
	close(other);
	memset(more.data, 1, SIZE);
	expect(fails(vma->vma_commit(other, more.id, SIZE, 0, NULL, 0), ENOENT), "after close");
	other = open_socket();
	expect(fails(vma->vma_commit(other, more.id, SIZE, 0, NULL, 0), ENOENT), "the next socket");
	expect(vma->vma_abandon(other, more.id) == 0, "given back after close");
	close(other);
	close(pipes[0]);
	close(pipes[1]);
}

/* Who reserves everything gets no more, and can send nevertheless; so can others. */
static void room_limit(void)
{
	static struct vma_room_t all[VMA_ROOM_MAX];
	struct vma_room_t more;
	int other = open_socket();
	char buf[SIZE];

	for (unsigned i = 0; i < VMA_ROOM_MAX; i++) {
		all[i] = reserve(sock);
		write_message(all[i].data, i);
	}
	expect(fails(vma->vma_reserve(sock, 1, &more, NULL), ENOBUFS), "too many rooms");
	for (unsigned i = 0; i < 50; i++) {
		int fd = i % 2 ? sock : other;

		write_message(buf, i);
		if (send(fd, buf, SIZE, 0) != SIZE)
			die("send beside rooms");
		receive(fd, i);
	}
	for (unsigned i = 0; i < VMA_ROOM_MAX; i++) {
		if (i % 8) {
			expect(vma->vma_abandon(sock, all[i].id) == 0, "one of many rooms");
			continue;
		}
		expect(vma->vma_commit(sock, all[i].id, SIZE, 0, NULL, 0) == SIZE, "of many rooms");
		receive(sock, i);
	}
	more = reserve(sock);
	expect(vma->vma_abandon(sock, more.id) == 0, "room again");
	close(other);
}

/* ---- what became of sockets --------------------------------------------------------------- */

static struct vma_verdict_t verdict_of(int fd)
{
	struct vma_verdict_t v;

	if (vma->vma_get_verdict(fd, &v, sizeof(v)))
		die("vma_get_verdict");
	return v;
}

static bool never_served(int fd)
{
	struct vma_verdict_t v = verdict_of(fd);

	return v.served == VMA_SERVED_KERNEL && !strcmp(v.reason, "the library never served it");
}

/* close(2), not by libc. */
static void close_unseen(int fd)
{
	long rc;

	__asm__ volatile("syscall"
			 : "=a"(rc)
			 : "a"((long)SYS_close), "D"((long)fd)
			 : "rcx", "r11", "memory");
	expect(rc == 0, "close by a system call");
}

static void told(void)
{
	static const char nops[] = {1, 1, 1, 0};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), unix_fd = socket(AF_UNIX, SOCK_DGRAM, 0), file;
	struct vma_verdict_t v;

	v = verdict_of(sock);
	printf("served %d by ring %d of %d: %s\n", v.served, v.ring, v.ifindex, v.reason);
	v = verdict_of(fd);
	expect(v.served == VMA_SERVED_UNDECIDED && v.ring == -1, "a new socket");
	if (setsockopt(fd, IPPROTO_IP, IP_OPTIONS, nops, sizeof(nops)))
		die("setsockopt");
	v = verdict_of(fd);
	printf("options %d: %s\n", v.served, v.reason);
	expect(never_served(unix_fd), "another family");
	file = dup(0); /* /dev/null */
	expect(fails(vma->vma_get_verdict(file, &v, sizeof(v)), ENOTSOCK), "no socket");
	close(file);
	expect(fails(vma->vma_get_verdict(-1, &v, sizeof(v)), EBADF), "no descriptor");
	expect(fails(vma->vma_get_verdict(sock, (void *)none, sizeof(v)), EFAULT), "no memory");
	/* The library does not see that the descriptor ends, and is another socket's. */
	close(unix_fd);
	close_unseen(fd);
	unix_fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	expect(unix_fd == fd && never_served(unix_fd), "a socket in place of one that was left");
	close(unix_fd);
}

static void events(void)
{
	struct vma_event_t all[64], last[2];
	int n = vma->vma_get_events(sock, all, 64, sizeof(*all)), k;

	if (n < 0)
		die("vma_get_events");
	printf("events %d\n", n);
	for (int i = 0; i < n; i++) {
		printf("event %s: %s\n", all[i].name, all[i].text);
		expect(!i || all[i].when >= all[i - 1].when, "the order of events");
	}
	k = vma->vma_get_events(sock, last, 2, sizeof(*last));
	expect(n < 2 || (k == 2 && last[1].when == all[n - 1].when &&
			 last[0].when == all[n - 2].when),
	       "the last events");
	expect(fails(vma->vma_get_events(sock, all, 64, sizeof(*all) - 1), EINVAL), "a size");
	expect(fails(vma->vma_get_events(-1, all, 64, sizeof(*all)), EBADF), "no descriptor");
	expect(!n || fails(vma->vma_get_events(sock, (void *)none, 64, sizeof(*all)), EFAULT),
	       "no memory");
}

/* A child has none of the rooms, and does no harm to them.  At the end: the kernel may serve sock then. */
static void fork_away(void)
{
	struct vma_room_t room = reserve(sock);
	int status;
	pid_t pid;

	write_message(room.data, 3);
	pid = fork();
	if (!pid)
		_exit(!fails(vma->vma_commit(sock, room.id, 1, 0, NULL, 0), ENOENT) ||
		      !fails(vma->vma_abandon(sock, room.id), ENOENT));
	expect(pid > 0 && waitpid(pid, &status, 0) == pid && !status, "a child");
	expect(vma->vma_commit(sock, room.id, SIZE, 0, NULL, 0) == SIZE, "a room after fork()");
	receive(sock, 3);
}

/* The kernel serves the socket. */
static void by_kernel(unsigned rounds)
{
	struct vma_room_t room;
	struct vma_event_t event;

	batches(rounds);
	batch_errors();
	expect(fails(vma->vma_reserve(sock, 1, &room, NULL), EOPNOTSUPP), "a room for the kernel");
	expect(fails(vma->vma_get_events(sock, &event, 1, sizeof(event)), EBADF), "its events");
	printf("served %d\n", verdict_of(sock).served);
}

int main(int argc, char **argv)
{
	unsigned rounds;

	if (argc != 5 || inet_pton(AF_INET, argv[2], &server.sin_addr) != 1)
		return 2;
	tcp = !strcmp(argv[1], "tcp");
	server.sin_family = AF_INET;
	server.sin_port = htons((uint16_t)atoi(argv[3]));
	rounds = (unsigned)atoi(argv[4]);
	none = mmap(NULL, 1 << 17, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	vma = vma_get_ext();
	printf("table %s\n", vma ? "here" : "none");
	sock = open_socket();
	if (!vma) {
		go_without(rounds);
	} else if (verdict_of(sock).served == VMA_SERVED_KERNEL) {
		by_kernel(rounds);
	} else {
		expect(VMA_EXT_HAS(vma, vma_get_events) && vma->version >= VMA_EXT_VERSION,
		       "all members");
		batches(rounds);
		batch_errors();
		rooms(rounds);
		room_errors();
		room_limit();
		told();
		events();
		fork_away();
	}
	printf("frames %u\n", in_frame);
	printf("bad %u\n", bad);
	return 0;
}
