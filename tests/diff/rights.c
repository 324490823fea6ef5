/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors that are sent to other processes with SCM_RIGHTS: no receiver gets an
 * unusable socket.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "tests/diff/diff.h"
#include "tests/diff/way.h"

static int go[2]; /* orders the parent's output before the child's */

static void way_make(int way[2])
{
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, way));
	MUST(pipe(go));
}

static void way_close(const int way[2])
{
	close(way[0]);
	close(way[1]);
	close(go[0]);
	close(go[1]);
}

static void let_go(void)
{
	MUST(write(go[1], "x", 1));
}

static void await_go(void)
{
	char c;

	await(go[0], POLLIN);
	MUST(read(go[0], &c, 1));
}

static void echo(int fd)
{
	char buf[100];
	long n = recv(fd, buf, sizeof(buf), 0);

	say_result("recv", n);
	if (n > 0)
		say_result("send", send(fd, buf, (size_t)n, 0));
}

static void accept_and_echo(int listener)
{
	int fd = (int)MUST(accept(listener, NULL, NULL));

	echo(fd);
	close(fd);
}

static void answer(int fd)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char buf[100];
	long n;

	await(fd, POLLIN);
	n = recvfrom(fd, buf, sizeof(buf), MSG_DONTWAIT, (struct sockaddr *)&from, &len);
	say_result("recvfrom", n);
	if (n > 0)
		SAY(sendto(fd, buf, (size_t)n, 0, (struct sockaddr *)&from, len));
}

static void call(void)
{
	struct sockaddr_in to = server_addr(1);
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	char buf[10] = "";

	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(send(fd, "anybody?", 8, 0));
	await(fd, POLLIN);
	SAY(recv(fd, buf, sizeof(buf), 0));
	say_bytes(buf, 8);
	close(fd);
}

static void ask(int fd)
{
	struct sockaddr_in to = server_addr(1);
	char buf[10] = "";

	SAY(sendto(fd, "question", 8, 0, (struct sockaddr *)&to, sizeof(to)));
	await(fd, POLLIN);
	SAY(recv(fd, buf, sizeof(buf), MSG_DONTWAIT));
	say_bytes(buf, 8);
}

/* ---- listeners --------------------------------------------------------------------- */

static int accept_of_parent(void *arg)
{
	await_go();
	accept_and_echo(way_take_one(*(int *)arg));
	return 0;
}

/* The child was made before the listener. */
static void listener_server(void)
{
	int way[2], pid, fd;

	way_make(way);
	pid = spawn(accept_of_parent, &way[1]);
	fd = tcp_listening(1);
	SAY(way_pass(way[0], &fd, 1));
	let_go();
	meet();
	join(pid);
	close(fd);
	way_close(way);
}

static void one_call_client(void)
{
	meet();
	call();
}

/* To the same process: both descriptors name one listener. */
static void to_ourselves_server(void)
{
	int way[2], fd = tcp_listening(1), other;

	way_make(way);
	SAY(way_pass(way[0], &fd, 1));
	other = way_take_one(way[1]);
	SAY(way_pass(way[0], &other, 1));
	close(way_take_one(way[1]));
	meet();
	accept_and_echo(other);
	meet();
	accept_and_echo(fd);
	close(fd);
	close(other);
	way_close(way);
}

static void two_calls_client(void)
{
	meet();
	call();
	meet();
	call();
}

/* A connection that waits is accepted in the process where it waits. */
static void waiting_server(void)
{
	int way[2], fd = tcp_listening(1), other;

	way_make(way);
	meet();
	await(fd, POLLIN);
	SAY(way_pass(way[0], &fd, 1));
	other = way_take_one(way[1]);
	accept_and_echo(fd);
	close(fd);
	meet();
	accept_and_echo(other);
	close(other);
	way_close(way);
}

static int wait_for_go(void *arg)
{
	await_go();
	return 0;
}

static long pass_in_time(int way, int fd)
{
	long rc = -1, until = now_ms() + PATIENCE;

	while (rc < 0 && now_ms() < until) {
		rc = way_pass(way, &fd, 1);
		if (rc < 0)
			let_pass(10, "another thread learns it");
	}
	return rc;
}

/* A process cannot make a listener fall back to the kernel that other processes have, too. */
static void held_server(void)
{
	int way[2], fd = tcp_listening(1), pid, other;

	way_make(way);
	pid = spawn(wait_for_go, NULL);
	SAY(way_pass(way[0], &fd, 1));
	let_go();
	join(pid);
	say_result("when it is known that the child is gone", pass_in_time(way[0], fd));
	other = way_take_one(way[1]);
	close(fd);
	meet();
	accept_and_echo(other);
	close(other);
	way_close(way);
}

/* ---- connections ------------------------------------------------------------------- */

static void connection_server(void)
{
	int way[2], fd = tcp_pair();

	way_make(way);
	SAY(way_pass(way[0], &fd, 1));
	SAY(send(way[0], "y", 1, 0));
	echo(fd);
	close(fd);
	way_close(way);
}

static void say_and_hear(int fd)
{
	char buf[10] = "";

	SAY(send(fd, "hello", 5, 0));
	await(fd, POLLIN);
	SAY(recv(fd, buf, sizeof(buf), 0));
	say_bytes(buf, 5);
}

static void connection_client(void)
{
	int fd = tcp_pair();

	say_and_hear(fd);
	close(fd);
}

/* ---- datagrams --------------------------------------------------------------------- */

static int answer_and_return(void *arg)
{
	int way = *(int *)arg, fd;

	await_go();
	fd = way_take_one(way);
	answer(fd);
	SAY(way_pass(way, &fd, 1));
	close(fd);
	return 0;
}

static void there_and_back_server(void)
{
	int way[2], pid, fd;

	way_make(way);
	pid = spawn(answer_and_return, &way[1]);
	fd = udp_bound(1);
	SAY(way_pass(way[0], &fd, 1));
	let_go();
	meet();
	join(pid);
	close(fd);
	fd = way_take_one(way[0]);
	meet();
	answer(fd);
	close(fd);
	way_close(way);
}

static void two_questions_client(void)
{
	int fd = udp_bound(2);

	meet();
	ask(fd);
	meet();
	ask(fd);
	close(fd);
}

/* Otherwise unread datagrams of a connected socket would be lost. */
static void unread_server(void)
{
	int way[2], fd = udp_pair(), other;

	way_make(way);
	await(fd, POLLIN);
	SAY(way_pass(way[0], &fd, 1));
	echo(fd);
	SAY(way_pass(way[0], &fd, 1));
	other = way_take_one(way[1]);
	close(fd);
	meet();
	await(other, POLLIN);
	echo(other);
	close(other);
	way_close(way);
}

static void unread_client(void)
{
	int fd = udp_pair();

	say_and_hear(fd);
	meet();
	say_and_hear(fd);
	close(fd);
}

/* Then the kernel serves every descriptor of the socket. */
static void dups_server(void)
{
	int way[2], fd = udp_bound(1), copy = (int)MUST(dup(fd)), other;

	way_make(way);
	SAY(way_pass(way[0], &copy, 1));
	other = way_take_one(way[1]);
	meet();
	answer(other);
	close(other);
	meet();
	answer(fd);
	close(fd);
	meet();
	answer(copy);
	close(copy);
	way_close(way);
}

static void three_questions_client(void)
{
	int fd = udp_bound(2);

	for (int i = 0; i < 3; i++) {
		meet();
		ask(fd);
	}
	close(fd);
}

/* ---- messages ---------------------------------------------------------------------- */

static int use_several(void *arg)
{
	int fds[4] = {-1, -1, -1, -1};

	await_go();
	say("descriptors: %zu", way_take(*(int *)arg, fds, 4, 0));
	SAY(write(fds[0], "z", 1));
	answer(fds[1]);
	SAY(get_int(fds[2], SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
	return 0;
}

static void several_server(void)
{
	int way[2], ends[2], fds[3], pid;
	char c;

	way_make(way);
	pid = spawn(use_several, &way[1]);
	MUST(pipe(ends));
	fds[0] = ends[1];
	fds[1] = udp_bound(1);
	fds[2] = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	SAY(way_pass(way[0], fds, 3));
	let_go();
	meet();
	join(pid);
	SAY(read(ends[0], &c, 1));
	close(ends[0]);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	way_close(way);
}

static void one_question_client(void)
{
	int fd = udp_bound(2);

	meet();
	ask(fd);
	close(fd);
}

static void cloexec_server(void)
{
	int way[2], fd = udp_bound(1), got = -1;

	way_make(way);
	SAY(way_pass(way[0], &fd, 1));
	SAY(way_take(way[1], &got, 1, MSG_CMSG_CLOEXEC));
	SAY(fcntl(got, F_GETFD));
	SAY(fcntl(fd, F_GETFD));
	close(got);
	SAY(way_pass(way[0], &fd, 1));
	got = way_take_one(way[1]);
	SAY(fcntl(got, F_GETFD));
	close(fd);
	meet();
	answer(got);
	close(got);
	way_close(way);
}

static void bad_server(void)
{
	int way[2], fd = udp_bound(1), fds[WAY_FDS_MAX] = {fd, -1};
	union way_control control;
	struct iovec iov;
	struct msghdr msg = way_message(&iov, &control, CMSG_SPACE(sizeof(int)));

	way_make(way);
	SAY(way_pass(way[0], fds, 2));
	way_fill(&control, &fd, 1);
	control.head.cmsg_len = 3;
	SAY(sendmsg(way[0], &msg, 0));
	control.head.cmsg_len = sizeof(control);
	SAY(sendmsg(way[0], &msg, 0));
	way_fill(&control, &fd, 1);
	control.head.cmsg_type = 77;
	SAY(sendmsg(way[0], &msg, 0));
	msg.msg_control = NULL;
	SAY(sendmsg(way[0], &msg, 0));
	msg.msg_control = (void *)(uintptr_t)4096; /* not mapped */
	SAY(sendmsg(way[0], &msg, 0));
	for (int i = 0; i < WAY_FDS_MAX; i++)
		fds[i] = fd;
	SAY(way_pass(way[0], fds, WAY_FDS_MAX));
	meet();
	answer(fd);
	close(fd);
	way_close(way);
}

const struct behaviour rights_behaviours[] = {
	{"listener", listener_server, one_call_client, KERNEL},
	{"to_ourselves", to_ourselves_server, two_calls_client, KERNEL},
	{"waiting", waiting_server, two_calls_client, KERNEL},
	{"held", held_server, one_call_client, KERNEL},
	{"connection", connection_server, connection_client, OURS},
	{"there_and_back", there_and_back_server, two_questions_client, KERNEL},
	{"unread", unread_server, unread_client, KERNEL},
	{"dups", dups_server, three_questions_client, KERNEL},
	{"several", several_server, one_question_client, KERNEL},
	{"cloexec", cloexec_server, one_question_client, KERNEL},
	{"bad", bad_server, one_question_client, KERNEL},
	{NULL, NULL, NULL, OURS},
};
