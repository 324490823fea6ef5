/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections that an executed program inherits, as with inetd. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/diff/diff.h"
#include "tests/diff/worker.h"

#define CAT "/bin/cat"

static char *const cat_args[] = {(char *)"cat", NULL};

/* Makes it standard input and output. */
static void become_stdio(int fd)
{
	dup2(fd, 0);
	dup2(fd, 1);
	close(fd);
}

static void give_back(int fd)
{
	char buf[100];
	long n = recv(fd, buf, sizeof(buf), 0);

	if (n > 0)
		send(fd, buf, (size_t)n, 0);
}

static void ping_and_end(int fd)
{
	ping(fd, "hello");
	ping(fd, "and again");
	SAY(shutdown(fd, SHUT_WR));
	expect_end(fd);
	close(fd);
}

static void pings_client(void)
{
	ping_and_end(tcp_pair());
}

/* ---- each of the calls ------------------------------------------------------------- */

static void by_execl(void)
{
	execl(CAT, "cat", "-u", NULL);
}

static void by_execle(void)
{
	execle(CAT, "cat", NULL, environ);
}

static void by_execlp(void)
{
	execlp("cat", "cat", "-u", "-", NULL);
}

static void by_execv(void)
{
	execv(CAT, cat_args);
}

static void by_execve(void)
{
	execve(CAT, cat_args, environ);
}

static void by_execvp(void)
{
	execvp("cat", cat_args);
}

static void by_execvpe(void)
{
	execvpe("cat", cat_args, environ);
}

static void by_fexecve(void)
{
	fexecve(open(CAT, O_RDONLY | O_CLOEXEC), cat_args, environ);
}

static void by_execveat(void)
{
	execveat(AT_FDCWD, CAT, cat_args, environ, 0);
}

static void (*const calls[])(void) = {
	by_execl,  by_execle,  by_execlp,  by_execv,	by_execve,
	by_execvp, by_execvpe, by_fexecve, by_execveat,
};

struct job {
	int fd;
	void (*call)(void);
};

static int be_executed(void *arg)
{
	struct job *job = arg;

	become_stdio(job->fd);
	job->call();
	return 1;
}

static void calls_server(void)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		struct job job = {tcp_pair(), calls[i]};
		int pid = spawn(be_executed, &job);

		close(job.fd);
		join(pid);
	}
}

static void calls_client(void)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		ping_and_end(tcp_pair());
}

/* ---- other circumstances ----------------------------------------------------------- */

static void serve(int (*child)(void *arg))
{
	int fd = tcp_pair(), pid = spawn(child, &fd);

	close(fd);
	join(pid);
}

static int fail_first(void *arg)
{
	int fd = *(int *)arg;

	SAY(execl("/nonexistent/program", "program", NULL));
	SAY(execv("/dev/null", cat_args));
	give_back(fd);
	become_stdio(fd);
	SAY(execl("/nonexistent/program", "program", NULL));
	give_back(0);
	return 0;
}

static void execution_fails_server(void)
{
	serve(fail_first);
}

/* The parent keeps it open until the end. */
static void parent_keeps_it_server(void)
{
	struct job job = {tcp_pair(), by_execv};

	join(spawn(be_executed, &job));
	SAY(send(job.fd, "bye", 3, 0));
	close(job.fd);
}

static void parent_keeps_it_client(void)
{
	int fd = tcp_pair();
	char buf[10];

	ping(fd, "hello");
	SAY(shutdown(fd, SHUT_WR));
	SAY(recv(fd, buf, 3, MSG_WAITALL));
	expect_end(fd);
	close(fd);
}

static int use_and_execute(void *arg)
{
	give_back(*(int *)arg);
	become_stdio(*(int *)arg);
	by_execv();
	return 1;
}

/* The child owns it when it executes a program. */
static void used_before_server(void)
{
	int fd = tcp_pair();

	join(spawn(use_and_execute, &fd));
	close(fd);
}

static int show_variable(void *arg)
{
	become_stdio(*(int *)arg);
	execl("/bin/sh", "sh", "-c", "echo ${VMA_INHERITED:-none}", NULL);
	return 1;
}

/* The library's variable is not visible to the program. */
static void environment_server(void)
{
	serve(show_variable);
}

static void environment_client(void)
{
	int fd = tcp_pair();
	char buf[5] = "";

	SAY(recv(fd, buf, 5, MSG_WAITALL));
	say_bytes(buf, 5);
	expect_end(fd);
	close(fd);
}

static int pairs[2];

static int keep_one(void *arg)
{
	fcntl(pairs[1], F_SETFD, FD_CLOEXEC);
	become_stdio(pairs[0]);
	by_execv();
	return 1;
}

/* exec closes one of two. */
static void close_on_exec_server(void)
{
	int pid;

	pairs[0] = tcp_pair();
	pairs[1] = tcp_pair();
	pid = spawn(keep_one, NULL);
	close(pairs[0]);
	close(pairs[1]);
	join(pid);
}

static void close_on_exec_client(void)
{
	int kept = tcp_pair(), closed = tcp_pair();

	expect_end(closed);
	close(closed);
	ping_and_end(kept);
}

static int lie(void *arg)
{
	int fd = *(int *)arg;

	setenv("VMA_INHERITED", "0,1,1;1,2,3;99999999999999999999,,", 1);
	become_stdio(fd);
	by_execv();
	return 1;
}

/* The library replaces a variable that the program invented. */
static void made_up_server(void)
{
	serve(lie);
}

/* ---- listeners and datagram sockets ------------------------------------------------ */

/* The same program, executed with one socket as its standard input. */
int executed_main(const char *what)
{
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);
	char buf[100];

	if (!strcmp(what, "count"))
		return (int)recv(0, buf, sizeof(buf), MSG_WAITALL);

	for (int i = 0; i < 3; i++) {
		int fd = 0;
		long n;

		if (!strcmp(what, "accept"))
			fd = accept(0, NULL, NULL);
		n = recvfrom(fd, buf, sizeof(buf), 0, (struct sockaddr *)&peer, &len);
		if (n < 0)
			return 1;
		if (fd) {
			send(fd, buf, (size_t)n, 0);
			close(fd);
		} else {
			sendto(0, buf, (size_t)n, 0, (struct sockaddr *)&peer, len);
		}
	}
	return 0;
}

static int accept_in_another(void *arg)
{
	become_stdio(*(int *)arg);
	execl("/proc/self/exe", "diff", "executed", "accept", NULL);
	return 1;
}

static int answer_in_another(void *arg)
{
	become_stdio(*(int *)arg);
	execl("/proc/self/exe", "diff", "executed", "answer", NULL);
	return 1;
}

/* Returns when the child has executed a program, or ended. */
static int spawn_until_executed(int (*child)(void *arg), void *arg)
{
	int ends[2], pid;
	char byte;

	MUST(pipe2(ends, O_CLOEXEC));
	pid = spawn(child, arg);
	close(ends[1]);
	MUST(read(ends[0], &byte, 1)); /* closed by exec */
	close(ends[0]);
	return pid;
}

/* The parent keeps it open, and the child uses it. */
static void lend(int fd, int (*child)(void *arg))
{
	int pid = spawn(child, &fd);

	meet();
	join(pid);
	close(fd);
}

static void listener_server(void)
{
	lend(tcp_listening(0), accept_in_another);
}

static void listener_client(void)
{
	struct sockaddr_in to = server_addr(0);

	meet();
	for (int i = 0; i < 3; i++) {
		int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));

		SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
		ping(fd, "a call");
		expect_end(fd);
		close(fd);
	}
}

static void datagrams_server(void)
{
	lend(udp_bound(0), answer_in_another);
}

static void datagrams_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));

	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	meet();
	for (int i = 0; i < 3; i++)
		ping(fd, "a question");
	close(fd);
}

/* ---- children that execute a program at once --------------------------------------- */

static pid_t by_vfork(int fd)
{
	pid_t pid = vfork();

	if (!pid) {
		dup2(fd, 0);
		dup2(fd, 1);
		close(fd);
		execv(CAT, cat_args);
		_exit(127);
	}
	return pid;
}

static posix_spawn_file_actions_t *as_stdio(int fd)
{
	static posix_spawn_file_actions_t actions;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fd, 0);
	posix_spawn_file_actions_adddup2(&actions, fd, 1);
	posix_spawn_file_actions_addclose(&actions, fd);
	return &actions;
}

static pid_t by_spawn(int fd)
{
	pid_t pid = 0;

	SAY(posix_spawn(&pid, CAT, as_stdio(fd), NULL, cat_args, environ));
	return pid;
}

static pid_t by_spawnp(int fd)
{
	pid_t pid = 0;

	SAY(posix_spawnp(&pid, "cat", as_stdio(fd), NULL, cat_args, environ));
	return pid;
}

static pid_t (*const makers[])(int fd) = {by_vfork, by_spawn, by_spawnp};

#define MAKERS (sizeof(makers) / sizeof(*makers))

/* The child's file actions move descriptors to 0 and 1, whether close-on-exec or not. */
static void at_once_server(void)
{
	for (size_t i = 0; i < 2 * MAKERS; i++) {
		int fd = tcp_pair(), pid;

		if (i & 1)
			fcntl(fd, F_SETFD, FD_CLOEXEC);
		pid = makers[i / 2](fd);
		close(fd);
		join(pid);
	}
}

static void at_once_client(void)
{
	for (size_t i = 0; i < 2 * MAKERS; i++)
		ping_and_end(tcp_pair());
}

/* Sockets that the child does not get stay usable, also if the call fails. */
static void at_once_parent_server(void)
{
	int fd = tcp_pair(), other = tcp_pair(), pid;
	char buf[10] = "";

	for (size_t i = 0; i < MAKERS; i++) {
		pid = makers[i](fd);
		meet();
		pong(other);
		SAY(send(fd, "mine", 4, 0));
		meet();
		kill(pid, SIGTERM);
		join(pid);
		meet();
	}
	SAY(posix_spawn(&pid, "/nonexistent/program", NULL, NULL, cat_args, environ));
	SAY(posix_spawnp(&pid, "nonexistent_program", NULL, NULL, cat_args, environ));
	SAY(recv(fd, buf, 5, MSG_WAITALL));
	say_bytes(buf, 5);
	close(fd);
	pong(other);
	close(other);
}

static void at_once_parent_client(void)
{
	int fd = tcp_pair(), other = tcp_pair();
	char buf[10] = "";

	for (size_t i = 0; i < MAKERS; i++) {
		ping(fd, "to cat");
		meet();
		ping(other, "other");
		SAY(recv(fd, buf, 4, MSG_WAITALL));
		say_bytes(buf, 4);
		meet();
		meet();
	}
	SAY(send(fd, "after", 5, 0));
	expect_end(fd);
	ping(other, "other");
	expect_end(other);
	close(fd);
	close(other);
}

/* vfork(): the parent continues when its child has executed a program, or ended. */
static void vfork_waits_server(void)
{
	int fd = tcp_pair(), pid;
	int ends[2];
	long began = now_ms();

	pid = vfork();
	if (!pid) {
		let_pass(100, "the parent waits for it");
		close(fd);
		_exit(dup2(0, fd) == fd ? 3 : 4);
	}
	not_before("the child", began, 100);
	join(pid);
	MUST(pipe2(ends, O_CLOEXEC));
	pid = vfork();
	if (!pid) {
		dup2(ends[0], 0);
		by_execv();
		_exit(127);
	}
	SAY(waitpid(pid, NULL, WNOHANG)); /* still running: it reads */
	close(ends[0]);
	close(ends[1]);
	join(pid);
	pong(fd);
	close(fd);
}

static void vfork_waits_client(void)
{
	int fd = tcp_pair();

	ping(fd, "still here");
	expect_end(fd);
	close(fd);
}

/* A shell inherits what is not close-on-exec. */
static void shells_server(void)
{
	int fd = tcp_pair();
	char command[100], buf[100] = "";
	FILE *file;

	snprintf(command, sizeof(command), "read x <&%d; echo system $x >&%d; exit 3", fd, fd);
	SAY(system(command));
	SAY(system(NULL) != 0);
	snprintf(command, sizeof(command), "read x <&%d; echo popen $x >&%d; echo done", fd, fd);
	file = popen(command, "r");
	SAY(fgets(buf, sizeof(buf), file) == buf);
	say_bytes(buf, strlen(buf));
	SAY(pclose(file));
	SAY(getenv("VMA_INHERITED") == NULL);
	pong(fd);
	close(fd);
}

static void shells_client(void)
{
	int fd = tcp_pair();
	char buf[20] = "";

	SAY(send(fd, "one\n", 4, 0));
	SAY(recv(fd, buf, 11, MSG_WAITALL));
	say_bytes(buf, 11);
	SAY(send(fd, "two\n", 4, 0));
	SAY(recv(fd, buf, 10, MSG_WAITALL));
	say_bytes(buf, 10);
	ping(fd, "bye");
	expect_end(fd);
	close(fd);
}

static void spawned_datagrams_server(void)
{
	char *const args[] = {(char *)"diff", (char *)"executed", (char *)"answer", NULL};
	int pid = 0, fd = udp_bound(0);

	SAY(posix_spawn(&pid, "/proc/self/exe", as_stdio(fd), NULL, args, environ));
	meet();
	join(pid);
	close(fd);
}

static void spawned_listener_server(void)
{
	char *const args[] = {(char *)"diff", (char *)"executed", (char *)"accept", NULL};
	int pid = 0, fd = tcp_listening(0);

	SAY(posix_spawn(&pid, "/proc/self/exe", as_stdio(fd), NULL, args, environ));
	meet();
	join(pid);
	close(fd);
}

/* ---- the owner itself executes a program ------------------------------------------- */

/* A child that creates the connection, and is the only process that has it. */
static void alone(int (*child)(void *arg))
{
	join(spawn(child, NULL));
}

/* Both sides meet when the child has executed a program. */
static void alone_until_executed(int (*child)(void *arg))
{
	int pid = spawn_until_executed(child, NULL);

	meet();
	join(pid);
}

static char **without_library(void)
{
	static char *env[] = {(char *)"A=1", NULL};

	return env;
}

static int execute_unread(void *arg)
{
	int fd = tcp_pair();

	await_bytes(fd, 6);
	become_stdio(fd);
	if (arg)
		execve(CAT, cat_args, without_library());
	by_execv();
	return 1;
}

static void owner_server(void)
{
	alone(execute_unread);
}

static void owner_plain_server(void)
{
	int plain = 1;

	join(spawn(execute_unread, &plain));
}

static void owner_client(void)
{
	int fd = tcp_pair();

	ping(fd, "unread");
	ping_and_end(fd);
}

#define LOTS 1000000
#define STEP 7919

static int execute_unsent(void *arg)
{
	static unsigned char data[LOTS];
	int fd = tcp_pair();
	long n;

	for (int i = 0; i < LOTS; i++)
		data[i] = (unsigned char)(i % STEP);
	n = send(fd, data, LOTS, MSG_DONTWAIT);
	tell(n);
	become_stdio(fd);
	by_execv();
	return 1;
}

static void owner_unsent_server(void)
{
	alone_until_executed(execute_unsent);
}

/* Everything that the server could send has arrived, unchanged. */
static void owner_unsent_client(void)
{
	static unsigned char data[LOTS];
	int fd = tcp_pair();
	long n = hear(), wrong = 0;

	SAY_IF(n > 10000);
	meet();
	SAY_IF(recv(fd, data, (size_t)n, MSG_WAITALL) == n);
	for (int i = 0; i < n; i++)
		wrong += data[i] != (unsigned char)(i % STEP);
	say("%ld wrong", wrong);
	ping_and_end(fd);
}

static int execute_ended(void *arg)
{
	int fd = tcp_pair();

	await(fd, POLLRDHUP);
	become_stdio(fd);
	by_execv();
	return 1;
}

static void owner_peer_ended_server(void)
{
	alone(execute_ended);
}

static void owner_peer_ended_client(void)
{
	int fd = tcp_pair();
	char buf[5];

	SAY(send(fd, "bytes", 5, 0));
	SAY(shutdown(fd, SHUT_WR));
	SAY(recv(fd, buf, 5, MSG_WAITALL));
	say_bytes(buf, 5);
	expect_end(fd);
	close(fd);
}

static int execute_half(void *arg)
{
	int fd = tcp_pair();

	send(fd, "all", 3, 0);
	shutdown(fd, SHUT_WR);
	meet();
	become_stdio(fd);
	execl("/proc/self/exe", "diff", "executed", "count", NULL);
	return 1;
}

static void owner_ended_server(void)
{
	alone_until_executed(execute_half);
}

static void owner_ended_client(void)
{
	int fd = tcp_pair();
	char buf[3];

	SAY(recv(fd, buf, 3, MSG_WAITALL));
	expect_end(fd);
	meet();
	meet();
	SAY(send(fd, "twelve bytes", 12, 0));
	SAY(shutdown(fd, SHUT_WR));
	close(fd);
}

static int execute_closing(void *arg)
{
	static char data[100000];
	int kept = tcp_pair(), closed = tcp_pair();

	fcntl(closed, F_SETFD, FD_CLOEXEC);
	send(kept, data, sizeof(data), 0);
	close(kept);
	send(closed, data, sizeof(data), 0);
	execl("/bin/true", "true", NULL);
	return 1;
}

static int execute_keeping(void *arg)
{
	static char data[100000];
	int closed = tcp_pair();

	send(closed, data, sizeof(data), 0);
	close(closed);
	become_stdio(*(int *)arg);
	by_execv();
	return 1;
}

/* What was closed before ends as it would without exec, also if a program inherits something. */
static void keeper_closes_server(void)
{
	int fd = tcp_pair();

	join(spawn(execute_keeping, &fd));
	close(fd);
}

static void keeper_closes_client(void)
{
	static char data[100000];
	int kept = tcp_pair(), closed = tcp_pair();

	SAY(recv(closed, data, sizeof(data), MSG_WAITALL));
	expect_end(closed);
	close(closed);
	ping(kept, "hello");
	SAY(shutdown(kept, SHUT_WR));
	expect_end(kept);
	close(kept);
}

/* Connections that exec closes, or that were closed before, end as they would without exec. */
static void owner_closes_server(void)
{
	alone(execute_closing);
}

static void owner_closes_client(void)
{
	static char data[100000];
	int first = tcp_pair(), second = tcp_pair();

	SAY(recv(first, data, sizeof(data), MSG_WAITALL));
	expect_end(first);
	SAY(recv(second, data, sizeof(data), MSG_WAITALL));
	expect_end(second);
	close(first);
	close(second);
}

static int execute_acceptor(void *arg)
{
	int fd = tcp_listening(0);

	become_stdio(fd);
	execl("/proc/self/exe", "diff", "executed", "accept", NULL);
	return 1;
}

static void owner_listener_server(void)
{
	alone_until_executed(execute_acceptor);
}

static int execute_answerer(void *arg)
{
	int fd = udp_bound(0);

	meet();
	arrive();
	become_stdio(fd);
	execl("/proc/self/exe", "diff", "executed", "answer", NULL);
	return 1;
}

/* Three unread datagrams are read in order. */
static void owner_datagrams_server(void)
{
	alone(execute_answerer);
}

static void owner_datagrams_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
	char buf[10];

	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	meet();
	SAY(send(fd, "one", 3, 0));
	SAY(send(fd, "two", 3, 0));
	SAY(send(fd, "three", 5, 0));
	arrive();
	for (int i = 0; i < 3; i++) {
		long n = SAY(recv(fd, buf, sizeof(buf), 0));

		say_bytes(buf, n > 0 ? (size_t)n : 0);
	}
	close(fd);
}

static int be_plain(void *arg)
{
	become_stdio(*(int *)arg);
	execve(CAT, cat_args, without_library());
	return 1;
}

/* The parent's connection, in a program without the library. */
static void plain_server(void)
{
	serve(be_plain);
}

static void plain_shared_server(void)
{
	int fd = tcp_pair();

	join(spawn(be_plain, &fd));
	SAY(send(fd, "bye", 3, 0));
	close(fd);
}

/* ... while the server goes on listening, as it has for a while. */
static void plain_served_server(void)
{
	int listener = tcp_listening(1), fd, pid;

	let_pass(1500, "the library asks the kernel for older connections, and forgets them");
	meet();
	fd = (int)MUST(accept(listener, NULL, NULL));
	pid = spawn(be_plain, &fd);
	close(fd);
	join(pid);
	close(listener);
}

static void plain_served_client(void)
{
	struct sockaddr_in to = server_addr(1);
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	meet();
	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	for (int i = 0; i < 3; i++)
		ping(fd, "hello");
	SAY(shutdown(fd, SHUT_WR));
	expect_end(fd);
	close(fd);
}

static int accept_and_execute(void *arg)
{
	int fd = accept(*(int *)arg, NULL, NULL);

	pong(fd);
	close(fd);
	become_stdio(*(int *)arg);
	execl("/proc/self/exe", "diff", "executed", "accept", NULL);
	return 1;
}

/* The child has used it, and the program that it executes continues. */
static void listener_used_server(void)
{
	int fd = tcp_listening(0), pid;

	meet();
	pid = spawn_until_executed(accept_and_execute, &fd);
	meet();
	join(pid);
	close(fd);
}

static void listener_used_client(void)
{
	struct sockaddr_in to = server_addr(0);

	meet();
	for (int i = 0; i < 4; i++) {
		int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));

		SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
		ping(fd, "a call");
		expect_end(fd);
		close(fd);
		if (i == 0)
			meet();
	}
}

static int fail_alone(void *arg)
{
	int fd = tcp_pair();

	SAY(execl("/nonexistent/program", "program", NULL));
	SAY(execl("/", "program", NULL));
	pong(fd);
	pong(fd);
	expect_end(fd);
	return 0;
}

static void owner_fails_server(void)
{
	alone(fail_alone);
}

const struct behaviour execs_behaviours[] = {
	{"calls", calls_server, calls_client, OURS},
	{"execution_fails", execution_fails_server, pings_client, OURS},
	{"parent_keeps_it", parent_keeps_it_server, parent_keeps_it_client, OURS},
	{"used_before", used_before_server, pings_client, OURS},
	{"environment", environment_server, environment_client, OURS},
	{"close_on_exec", close_on_exec_server, close_on_exec_client, OURS},
	{"made_up", made_up_server, pings_client, OURS},
	{"listener", listener_server, listener_client, OURS},
	{"datagrams", datagrams_server, datagrams_client, OURS},
	{"at_once", at_once_server, at_once_client, OURS},
	{"at_once_parent", at_once_parent_server, at_once_parent_client, OURS},
	{"vfork_waits", vfork_waits_server, vfork_waits_client, OURS},
	{"shells", shells_server, shells_client, OURS},
	{"spawned_listener", spawned_listener_server, listener_client, OURS},
	{"spawned_datagrams", spawned_datagrams_server, datagrams_client, OURS},
	{"owner", owner_server, owner_client, KERNEL},
	{"owner_plain", owner_plain_server, owner_client, KERNEL},
	{"owner_unsent", owner_unsent_server, owner_unsent_client, KERNEL},
	{"owner_peer_ended", owner_peer_ended_server, owner_peer_ended_client, KERNEL},
	{"owner_ended", owner_ended_server, owner_ended_client, KERNEL},
	{"owner_closes", owner_closes_server, owner_closes_client, KERNEL},
	{"keeper_closes", keeper_closes_server, keeper_closes_client, OURS},
	{"owner_listener", owner_listener_server, listener_client, KERNEL},
	{"owner_datagrams", owner_datagrams_server, owner_datagrams_client, KERNEL},
	{"owner_fails", owner_fails_server, pings_client, OURS},
	{"plain", plain_server, pings_client, KERNEL},
	{"plain_served", plain_served_server, plain_served_client, KERNEL},
	{"plain_shared", plain_shared_server, parent_keeps_it_client, KERNEL},
	{"listener_used", listener_used_server, listener_used_client, OURS},
	{NULL, NULL, NULL, OURS},
};
