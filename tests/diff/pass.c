/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections that are sent to other processes with SCM_RIGHTS, and used there. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/diff/diff.h"
#include "tests/diff/way.h"

/* Between two processes: sockets to send descriptors, and pipes to continue the other one. */
struct way {
	int fd[2]; /* ours, theirs */
	int go[2];
};

static struct way way;

static void way_open(int type)
{
	MUST(socketpair(AF_UNIX, type, 0, way.fd));
	MUST(pipe(way.go));
}

static void way_shut(void)
{
	for (int i = 0; i < 2; i++) {
		close(way.fd[i]);
		close(way.go[i]);
	}
}

static void step(void)
{
	if (write(way.go[1], "x", 1) != 1)
		say("the pipe has no other end");
}

static void await_step(void)
{
	char c;

	if (read(way.go[0], &c, 1) != 1)
		say("the pipe has no other end");
}

/* Waits until the other process has done its part. */
static void answer_step(void)
{
	MUST(send(way.fd[1], "x", 1, 0));
}

static void await_answer(void)
{
	char c;

	MUST(recv(way.fd[0], &c, 1, 0));
}

static void send_away(int fd)
{
	SAY(way_pass(way.fd[0], &fd, 1));
	close(fd);
}

/* ---- a worker serves what its master accepts --------------------------------------- */

static int serve_one(void *arg)
{
	int fd;

	await_step();
	fd = way_take_one(way.fd[1]);
	pong(fd);
	pong(fd);
	close(fd);
	return 0;
}

static int connect_and_serve(void *arg)
{
	struct sockaddr_in to = server_addr(1);
	int fd;

	(void)arg;
	await_step();
	fd = way_take_one(way.fd[1]);
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	pong(fd);
	pong(fd);
	close(fd);
	return 0;
}

static void connected_server(void)
{
	int pid;

	way_open(SOCK_STREAM);
	pid = spawn(connect_and_serve, NULL);
	send_away(tcp_pair());
	step();
	join(pid);
	way_shut();
}

static void worker_of(int type)
{
	int pid;

	way_open(type);
	pid = spawn(serve_one, NULL);
	send_away(tcp_pair());
	step();
	join(pid);
	way_shut();
}

static void worker_server(void)
{
	worker_of(SOCK_STREAM);
}

static void packets_server(void)
{
	worker_of(SOCK_SEQPACKET);
}

static void datagrams_server(void)
{
	worker_of(SOCK_DGRAM);
}

static void two_pings_client(void)
{
	int fd = tcp_pair();

	ping(fd, "hello");
	ping(fd, "and again");
	expect_end(fd);
	close(fd);
}

/* The child has had it since the fork. */
static int serve_own(void *arg)
{
	int own = *(int *)arg, fd;

	await_step();
	fd = way_take_one(way.fd[1]);
	pong(own);
	close(own);
	pong(fd);
	close(fd);
	return 0;
}

static void inherited_server(void)
{
	int fd = tcp_pair(), pid;

	way_open(SOCK_STREAM);
	pid = spawn(serve_own, &fd);
	send_away(fd);
	step();
	join(pid);
	way_shut();
}

/* The child had it, and closed it. */
static int serve_closed(void *arg)
{
	close(*(int *)arg);
	answer_step();
	return serve_one(NULL);
}

static void inherited_and_closed_server(void)
{
	int fd = tcp_pair(), pid;

	way_open(SOCK_STREAM);
	pid = spawn(serve_closed, &fd);
	await_answer();
	send_away(fd);
	step();
	join(pid);
	way_shut();
}

/* Processes that share only the address of a socket. */
static socklen_t name_of(struct sockaddr_un *addr)
{
	memset(addr, 0, sizeof(*addr));
	addr->sun_family = AF_UNIX;
	memcpy(addr->sun_path, "\0broker", 7);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 7);
}

static int serve_for_broker(void *arg)
{
	struct sockaddr_un addr;
	socklen_t len = name_of(&addr);
	int to = (int)MUST(socket(AF_UNIX, SOCK_STREAM, 0)), fd;

	MUST(connect(to, (struct sockaddr *)&addr, len));
	fd = way_take_one(to);
	close(to);
	pong(fd);
	pong(fd);
	close(fd);
	return 0;
}

static void broker_server(void)
{
	struct sockaddr_un addr;
	socklen_t len = name_of(&addr);
	int listener = (int)MUST(socket(AF_UNIX, SOCK_STREAM, 0)), pid, to, fd;

	MUST(bind(listener, (struct sockaddr *)&addr, len));
	MUST(listen(listener, 5));
	pid = spawn(serve_for_broker, NULL);
	fd = tcp_pair();
	to = (int)MUST(accept(listener, NULL, NULL));
	MUST(way_pass(to, &fd, 1));
	close(fd);
	join(pid);
	close(to);
	close(listener);
}

/* Sent before the listening process accepts. */
static int accept_late(void *arg)
{
	int listener = *(int *)arg, from, fd;

	await_step();
	from = (int)MUST(accept(listener, NULL, NULL));
	fd = way_take_one(from);
	close(from);
	pong(fd);
	pong(fd);
	close(fd);
	return 0;
}

static void accepted_late_server(void)
{
	struct sockaddr_un addr;
	socklen_t len = name_of(&addr);
	int listener = (int)MUST(socket(AF_UNIX, SOCK_STREAM, 0)), pid, to, fd;

	way_open(SOCK_STREAM);
	MUST(bind(listener, (struct sockaddr *)&addr, len));
	MUST(listen(listener, 5));
	pid = spawn(accept_late, &listener);
	close(listener);
	fd = tcp_pair();
	to = (int)MUST(socket(AF_UNIX, SOCK_STREAM, 0));
	MUST(connect(to, (struct sockaddr *)&addr, len));
	SAY(way_pass(to, &fd, 1));
	close(fd);
	close(to);
	step();
	join(pid);
	way_shut();
}

/* ---- with data in transit ---------------------------------------------------------- */

#define MUCH 300000

static void fill_buffer(unsigned char *buf, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf[i] = (unsigned char)(i * 7 + i / 251);
}

/* n bytes of the stream, after the first `skip`, which were read before. */
static void read_much(int fd, size_t skip, size_t n)
{
	static unsigned char want[MUCH], got[MUCH];
	size_t done = 0;

	fill_buffer(want, sizeof(want));
	while (done < n) {
		long rc = recv(fd, got + done, n - done, 0);

		if (rc <= 0) {
			say_result("recv", rc);
			return;
		}
		done += (size_t)rc;
	}
	say("%zu bytes: %s", n, memcmp(got, want + skip, n) ? "wrong" : "right");
}

static void write_much(int fd, size_t skip, size_t n)
{
	static unsigned char buf[MUCH];
	size_t done = 0;

	fill_buffer(buf, sizeof(buf));
	while (done < n) {
		long rc = send(fd, buf + skip + done, n - done, 0);

		if (rc <= 0) {
			say_result("send", rc);
			return;
		}
		done += (size_t)rc;
	}
	say("%zu bytes sent", n);
}

static int read_and_write_rest(void *arg)
{
	int fd;

	await_step();
	fd = way_take_one(way.fd[1]);
	read_much(fd, 1000, MUCH - 1000);
	write_much(fd, 1000, MUCH - 1000);
	close(fd);
	return 0;
}

/* Data is in transit in both directions. */
static void streams_server(void)
{
	int pid, fd;

	way_open(SOCK_STREAM);
	pid = spawn(read_and_write_rest, NULL);
	fd = tcp_pair();
	write_much(fd, 0, 1000);
	read_much(fd, 0, 1000);
	send_away(fd);
	step();
	join(pid);
	way_shut();
}

static void streams_client(void)
{
	int fd = tcp_pair();

	write_much(fd, 0, MUCH);
	read_much(fd, 0, MUCH);
	expect_end(fd);
	close(fd);
}

/* Data that was unread before, and the FIN. */
static void queued_server(void)
{
	int pid, fd;

	way_open(SOCK_STREAM);
	pid = spawn(serve_one, NULL);
	fd = tcp_pair();
	await_bytes(fd, 5);
	meet();
	SAY(send(fd, "first", 5, 0));
	send_away(fd);
	step();
	join(pid);
	way_shut();
}

static void queued_client(void)
{
	int fd = tcp_pair();
	char buf[100] = "";

	SAY(send(fd, "hello", 5, 0));
	meet();
	SAY(shutdown(fd, SHUT_WR));
	SAY(recv(fd, buf, 10, MSG_WAITALL));
	say_bytes(buf, 10);
	expect_end(fd);
	close(fd);
}

/* ---- several processes hold it ----------------------------------------------------- */

static int take_turns(void *arg)
{
	int fd;

	await_step();
	fd = way_take_one(way.fd[1]);
	answer_step();
	for (int i = 0; i < 3; i++) {
		await_step();
		pong(fd);
		answer_step();
	}
	close(fd);
	return 0;
}

static void turns_server(void)
{
	int pid, fd;

	way_open(SOCK_STREAM);
	pid = spawn(take_turns, NULL);
	fd = tcp_pair();
	SAY(way_pass(way.fd[0], &fd, 1));
	step();
	await_answer();
	for (int i = 0; i < 3; i++) {
		pong(fd);
		step();
		await_answer();
	}
	join(pid);
	pong(fd);
	close(fd);
	way_shut();
}

static void seven_pings_client(void)
{
	int fd = tcp_pair();

	for (int i = 0; i < 7; i++)
		ping(fd, "ball");
	expect_end(fd);
	close(fd);
}

/* Sent there, used, and sent back. */
static int use_and_return(void *arg)
{
	int fd;

	await_step();
	fd = way_take_one(way.fd[1]);
	pong(fd);
	MUST(way_pass(way.fd[1], &fd, 1));
	close(fd);
	return 0;
}

static void back_server(void)
{
	int pid, fd;

	way_open(SOCK_STREAM);
	pid = spawn(use_and_return, NULL);
	send_away(tcp_pair());
	step();
	fd = way_take_one(way.fd[0]);
	join(pid);
	pong(fd);
	close(fd);
	way_shut();
}

/* Sent twice to the same process, which closes one of the two. */
static int take_twice(void *arg)
{
	int one, other;

	await_step();
	one = way_take_one(way.fd[1]);
	other = way_take_one(way.fd[1]);
	pong(one);
	close(one);
	pong(other);
	close(other);
	return 0;
}

static void twice_server(void)
{
	int pid, fd;

	way_open(SOCK_STREAM);
	pid = spawn(take_twice, NULL);
	fd = tcp_pair();
	SAY(way_pass(way.fd[0], &fd, 1));
	send_away(fd);
	step();
	join(pid);
	way_shut();
}

/* Two workers receive it; the parent has closed it. */
static int serve_once(void *arg)
{
	int fd;

	await_step();
	fd = way_take_one(way.fd[1]);
	answer_step();
	await_step();
	pong(fd);
	close(fd);
	return 0;
}

static void two_workers_server(void)
{
	int pid[2], go[2][2], fd;

	way_open(SOCK_SEQPACKET);
	fd = tcp_pair();
	for (int i = 0; i < 2; i++) {
		MUST(pipe(go[i]));
		dup2(go[i][0], way.go[0]);
		dup2(go[i][1], way.go[1]);
		pid[i] = spawn(serve_once, NULL);
		SAY(way_pass(way.fd[0], &fd, 1));
		step();
		await_answer();
	}
	close(fd);
	for (int i = 0; i < 2; i++) {
		MUST(write(go[i][1], "x", 1));
		join(pid[i]);
		close(go[i][0]);
		close(go[i][1]);
	}
	way_shut();
}

/* A chain: each process receives it from the previous one. */
static int hand_on(void *arg)
{
	int fd, next[2], pid = 0, depth = *(int *)arg - 1;

	if (!depth)
		return serve_one(NULL);
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, next));
	await_step();
	fd = way_take_one(way.fd[1]);
	memcpy(way.fd, next, sizeof(next));
	pid = spawn(hand_on, &depth);
	send_away(fd);
	step();
	join(pid);
	return 0;
}

static void chain_server(void)
{
	int pid, depth = 4;

	way_open(SOCK_STREAM);
	pid = spawn(hand_on, &depth);
	send_away(tcp_pair());
	step();
	join(pid);
	way_shut();
}

/* ---- to the same process ----------------------------------------------------------- */

static void self_server(void)
{
	int fd = tcp_pair(), other;

	way_open(SOCK_STREAM);
	SAY(way_pass(way.fd[0], &fd, 1));
	close(fd);
	other = way_take_one(way.fd[1]);
	pong(other);
	SAY(way_pass(way.fd[0], &other, 1));
	fd = way_take_one(way.fd[1]);
	close(other);
	pong(fd);
	close(fd);
	way_shut();
}

/* ---- no process receives it -------------------------------------------------------- */

static void unreceived_server(void)
{
	int fd = tcp_pair();
	struct pollfd quiet = {.fd = -1};

	way_open(SOCK_STREAM);
	SAY(way_pass(way.fd[0], &fd, 1));
	close(fd);
	poll(&quiet, 1, 200);
	meet();
	meet();
	way_shut();
}

static void unreceived_client(void)
{
	int fd = tcp_pair();
	struct pollfd end = {.fd = fd, .events = POLLIN};

	meet();
	say("before it is closed there: %d", poll(&end, 1, 50));
	meet();
	expect_end(fd);
	close(fd);
}

/* The process that could have received it is killed, and both ends are closed. */
static int wait_to_be_killed(void *arg)
{
	close(way.fd[0]);
	pause();
	return 0;
}

static void killed_before_server(void)
{
	int pid, fd;

	way_open(SOCK_STREAM);
	pid = spawn(wait_to_be_killed, NULL);
	close(way.fd[1]);
	fd = tcp_pair();
	SAY(way_pass(way.fd[0], &fd, 1));
	close(fd);
	kill(pid, SIGKILL);
	join(pid);
	close(way.fd[0]);
	close(way.go[0]);
	close(way.go[1]);
}

static void one_end_client(void)
{
	int fd = tcp_pair();

	expect_end(fd);
	close(fd);
}

/* The receiver is killed before it uses the connection: the parent still has it. */
static int receive_only(void *arg)
{
	await_step();
	way_take_one(way.fd[1]);
	answer_step();
	return wait_to_be_killed(NULL);
}

static void killed_after_server(void)
{
	int pid, fd;

	way_open(SOCK_STREAM);
	pid = spawn(receive_only, NULL);
	fd = tcp_pair();
	SAY(way_pass(way.fd[0], &fd, 1));
	step();
	await_answer();
	kill(pid, SIGKILL);
	join(pid);
	pong(fd);
	pong(fd);
	close(fd);
	way_shut();
}

/* The sender exits at once. */
static int send_and_exit(void *arg)
{
	send_away(tcp_pair());
	step();
	return 0;
}

static void sender_exits_server(void)
{
	int worker, master;

	way_open(SOCK_STREAM);
	worker = spawn(serve_one, NULL);
	master = spawn(send_and_exit, NULL);
	join(worker);
	join(master);
	way_shut();
}

/* ---- how it is received ------------------------------------------------------------ */

/* Peeks first, which already gives a descriptor. */
static int peek_first(void *arg)
{
	int fd = -1, other;

	await_step();
	SAY(way_take(way.fd[1], &fd, 1, MSG_PEEK));
	pong(fd);
	close(fd);
	other = way_take_one(way.fd[1]);
	pong(other);
	close(other);
	return 0;
}

static void peek_server(void)
{
	int pid;

	way_open(SOCK_STREAM);
	pid = spawn(peek_first, NULL);
	send_away(tcp_pair());
	step();
	join(pid);
	way_shut();
}

static int wait_for_it(void *arg)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int set = (int)MUST(epoll_create1(0)), fd;

	await_step();
	fd = way_take_one(way.fd[1]);
	set_nonblocking(fd, true);
	MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev));
	for (int i = 0; i < 2; i++) {
		SAY(epoll_wait(set, &ev, 1, PATIENCE));
		pong(fd);
	}
	SAY(recv(fd, &ev, 1, 0));
	close(fd);
	close(set);
	return 0;
}

static void epoll_server(void)
{
	int pid;

	way_open(SOCK_STREAM);
	pid = spawn(wait_for_it, NULL);
	send_away(tcp_pair());
	step();
	join(pid);
	way_shut();
}

/* Addresses, options and flags of a connection that was never used here. */
static int describe(void *arg)
{
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	int fd = -1;

	await_step();
	SAY(way_take(way.fd[1], &fd, 1, MSG_CMSG_CLOEXEC));
	SAY(fcntl(fd, F_GETFD));
	SAY(fcntl(fd, F_GETFL) & O_NONBLOCK);
	SAY(getsockname(fd, (struct sockaddr *)&addr, &len));
	say_addr("our end", &addr, len);
	len = sizeof(addr);
	SAY(getpeername(fd, (struct sockaddr *)&addr, &len));
	say("the other is %s",
	    addr.sin_addr.s_addr == client_addr(0).sin_addr.s_addr ? "his" : "?");
	SAY(get_int(fd, SOL_SOCKET, SO_KEEPALIVE));
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	SAY(recv(fd, &addr, 1, 0));
	answer_step();
	set_nonblocking(fd, false);
	pong(fd);
	SAY(shutdown(fd, SHUT_WR));
	expect_end(fd);
	close(fd);
	return 0;
}

static void described_server(void)
{
	int pid, fd;

	way_open(SOCK_STREAM);
	pid = spawn(describe, NULL);
	fd = tcp_pair();
	set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_nonblocking(fd, true);
	send_away(fd);
	step();
	await_answer();
	meet();
	join(pid);
	way_shut();
}

static void described_client(void)
{
	int fd = tcp_pair();

	meet();
	ping(fd, "hello");
	expect_end(fd);
	close(fd);
}

/* Two connections, with sendmmsg() and recvmmsg(). */
static int serve_two(void *arg)
{
	union way_control control[2];
	struct iovec iov[2];
	struct mmsghdr msgs[2];
	int fds[2];

	for (int i = 0; i < 2; i++)
		msgs[i].msg_hdr = way_message(&iov[i], &control[i], CMSG_SPACE(sizeof(int)));
	await_step();
	SAY(recvmmsg(way.fd[1], msgs, 2, 0, NULL));
	for (int i = 0; i < 2; i++)
		memcpy(&fds[i], CMSG_DATA(&control[i].head), sizeof(int));
	for (int i = 0; i < 2; i++)
		pong(fds[i]);
	for (int i = 0; i < 2; i++)
		close(fds[i]);
	return 0;
}

static void several_server(void)
{
	union way_control control[2];
	struct iovec iov[2];
	struct mmsghdr msgs[2];
	int pid, fds[2], listener;

	way_open(SOCK_SEQPACKET);
	pid = spawn(serve_two, NULL);
	listener = tcp_listening(1);
	meet();
	for (int i = 0; i < 2; i++) {
		fds[i] = (int)MUST(accept(listener, NULL, NULL));
		msgs[i].msg_hdr = way_message(&iov[i], &control[i], CMSG_SPACE(sizeof(int)));
		way_fill(&control[i], &fds[i], 1);
	}
	SAY(sendmmsg(way.fd[0], msgs, 2, 0));
	close(fds[0]);
	close(fds[1]);
	step();
	join(pid);
	close(listener);
	way_shut();
}

static void several_client(void)
{
	struct sockaddr_in to = server_addr(1);
	int fds[2];

	meet();
	for (int i = 0; i < 2; i++) {
		fds[i] = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
		SAY(connect(fds[i], (struct sockaddr *)&to, sizeof(to)));
	}
	for (int i = 0; i < 2; i++)
		ping(fds[i], i ? "second" : "first");
	for (int i = 0; i < 2; i++) {
		expect_end(fds[i]);
		close(fds[i]);
	}
}

/* A program without the library, which could not use the connection. */
static int become_cat(void *arg)
{
	char *const args[] = {(char *)"cat", NULL}, *const env[] = {NULL};

	dup2(way.fd[1], 0);
	dup2((int)MUST(open("/dev/null", O_WRONLY)), 1);
	close(way.fd[0]);
	close(way.fd[1]);
	fcntl(way.go[1], F_SETFD, FD_CLOEXEC);
	execve("/bin/cat", args, env);
	return 1;
}

static void plain_receiver_server(void)
{
	int pid, fd = tcp_pair();
	char c;

	way_open(SOCK_STREAM);
	pid = spawn(become_cat, NULL);
	close(way.fd[1]);
	close(way.go[1]);
	MUST(read(way.go[0], &c, 1) + 1); /* closed by exec: the program runs */
	SAY(way_pass(way.fd[0], &fd, 1));
	pong(fd);
	pong(fd);
	close(fd);
	kill(pid, SIGKILL);
	join(pid);
	close(way.fd[0]);
	close(way.go[0]);
}

/*
 * Any process of this user can connect to the address of a receiver
 * (src/sock/share/pass_transit.c). It sends a message of each kind (src/sock/share/channel.h)
 * except MESSAGE_CLAIM, and other bytes. Without the library no process listens there.
 */
#define MESSAGE_MAGIC 0x766d616cu
#define MESSAGE_KINDS 20u
#define MESSAGE_CLAIM 14u

/* All processes can read these addresses. */
static int call(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = (int)MUST(socket(AF_UNIX, SOCK_SEQPACKET, 0));
	FILE *list = fopen("/proc/self/net/unix", "re");
	char line[256], *name = NULL;
	size_t n;

	while (list && !name && fgets(line, sizeof(line), list))
		name = strstr(line, "@libvma-pass-");
	if (list)
		fclose(list);
	name = name ? name : line;
	n = strcspn(name, "\n");
	n = n < sizeof(addr.sun_path) ? n : sizeof(addr.sun_path);
	memcpy(addr.sun_path, name, n);
	addr.sun_path[0] = 0;
	if (connect(fd, (struct sockaddr *)&addr,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) &&
	    with_lib)
		say("no process listens");
	return fd;
}

static void talk_nonsense(void)
{
	struct {
		uint32_t magic, kind;
		uint64_t id, flags;
	} message = {.magic = MESSAGE_MAGIC, .id = 1};
	struct pollfd quiet = {.fd = -1};

	for (uint32_t kind = 0; kind < MESSAGE_KINDS; kind++) {
		int fd = call();

		message.kind = kind == MESSAGE_CLAIM ? 0 : kind;
		for (message.flags = 0; message.flags < 4; message.flags++) {
			(void)!send(fd, &message, sizeof(message), MSG_NOSIGNAL);
			(void)!send(fd, &message, kind, MSG_NOSIGNAL);
		}
		poll(&quiet, 1, 20);
		close(fd);
	}
}

static void nonsense_server(void)
{
	int fd, other, pid;

	way_open(SOCK_STREAM);
	pid = spawn(serve_one, NULL);
	fd = tcp_pair();
	for (int i = 0; i < 2; i++) /* one of them to this process, later */
		SAY(way_pass(way.fd[i], &fd, 1));
	talk_nonsense();
	other = way_take_one(way.fd[0]);
	close(other);
	close(fd);
	step();
	join(pid);
	way_shut();
}

/* The queue is full: the connection is not sent, and unchanged here. */
static void full_server(void)
{
	int fd = tcp_pair();
	char c[1000] = "";

	way_open(SOCK_STREAM);
	set_nonblocking(way.fd[0], true);
	while (send(way.fd[0], c, sizeof(c), 0) > 0)
		;
	while (send(way.fd[0], c, 1, 0) > 0)
		;
	SAY(way_pass(way.fd[0], &fd, 1));
	pong(fd);
	pong(fd);
	close(fd);
	way_shut();
}

const struct behaviour pass_behaviours[] = {
	{"worker", worker_server, two_pings_client, OURS},
	{"connected", connected_server, two_pings_client, OURS},
	{"packets", packets_server, two_pings_client, OURS},
	{"datagrams", datagrams_server, two_pings_client, OURS},
	{"inherited", inherited_server, two_pings_client, OURS},
	{"inherited_and_closed", inherited_and_closed_server, two_pings_client, OURS},
	{"broker", broker_server, two_pings_client, OURS},
	{"accepted_late", accepted_late_server, two_pings_client, OURS},
	{"streams", streams_server, streams_client, OURS},
	{"queued", queued_server, queued_client, OURS},
	{"turns", turns_server, seven_pings_client, OURS},
	{"back", back_server, two_pings_client, OURS},
	{"twice", twice_server, two_pings_client, OURS},
	{"two_workers", two_workers_server, two_pings_client, OURS},
	{"chain", chain_server, two_pings_client, OURS},
	{"self", self_server, two_pings_client, OURS},
	{"unreceived", unreceived_server, unreceived_client, OURS},
	{"killed_before", killed_before_server, one_end_client, OURS},
	{"killed_after", killed_after_server, two_pings_client, OURS},
	{"sender_exits", sender_exits_server, two_pings_client, OURS},
	{"peek", peek_server, two_pings_client, OURS},
	{"epoll", epoll_server, two_pings_client, OURS},
	{"described", described_server, described_client, OURS},
	{"several", several_server, several_client, OURS},
	{"nonsense", nonsense_server, two_pings_client, OURS},
	{"plain_receiver", plain_receiver_server, two_pings_client, OURS},
	{"full", full_server, two_pings_client, OURS},
	{NULL, NULL, NULL, OURS},
};
