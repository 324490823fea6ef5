/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The addresses at which receivers connect to the sender of a connection, and what other users
 * can do to them: a connection is sent and received as without these users, and a thread that
 * waits for one of them delays no other.
 */
#include "tests/concurrency/sock/duo.h"
#include "vma_test.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/log.h"
#include "sock/share/pass.h"
#include "sock/share/share_internal.h"

#define ROUNDS 20
#define NOBODY 65534
#define NAMES_MAX 64
#define SOON 20 /* sleeps, of which a receiver that waits makes one in each millisecond */
#define OFTEN 5 /* that another thread takes the control lock while a receiver waits a second */

static void run(const char *name, void (*fn)(void *arg), void *arg)
{
	assert_int_equal(loop_net_run(name, fn, arg, 60), 0);
}

/* ---- another user ----------------------------------------------------------------------------- */

/* What the other user does with an address. */
enum squat { SQUAT_BOUND, SQUAT_FULL, SQUAT_LISTENS, SQUATS };

struct names {
	unsigned n;
	char name[NAMES_MAX][64];
};

static void add(struct names *names, const char *name)
{
	for (unsigned i = 0; i < names->n; i++) {
		if (!strcmp(names->name[i], name))
			return;
	}
	NET_CHECK(names->n < NAMES_MAX);
	snprintf(names->name[names->n++], sizeof(names->name[0]), "%s", name);
}

static void see(struct names *names)
{
	FILE *list = fopen("/proc/self/net/unix", "re");
	char line[256], *name;

	while (fgets(line, sizeof(line), list)) {
		name = strstr(line, "@libvma-pass-");
		if (!name)
			continue;
		name[strcspn(name, "\n")] = 0;
		add(names, name + 1);
	}
	fclose(list);
}

static int connect_abstract(const struct sockaddr_un *addr, socklen_t len)
{
	return connect(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0),
		       (const struct sockaddr *)addr, len);
}

static void squat(const char *name, enum squat how)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	memcpy(addr.sun_path + 1, name, strlen(name));
	if (bind(fd, (struct sockaddr *)&addr, len) || how == SQUAT_BOUND)
		return;
	listen(fd, how == SQUAT_FULL ? 0 : 64);
	while (how == SQUAT_FULL && !connect_abstract(&addr, len))
		;
}

/* Takes these addresses; 0: this process cannot become another user. */
static pid_t start_squatter(const struct names *names, enum squat how)
{
	int ready[2];
	char c = 0;
	pid_t pid;

	NET_CHECK_EQ(pipe(ready), 0);
	pid = fork();
	NET_CHECK(pid >= 0);
	if (!pid) {
		bool other = !sys_call(SYS_setresuid, NOBODY, NOBODY, NOBODY, 0, 0, 0);

		for (unsigned i = 0; i < names->n; i++)
			squat(names->name[i], how);
		c = other || how != SQUAT_LISTENS;
		if (write(ready[1], &c, 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	NET_CHECK_EQ(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	if (c)
		return pid;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return 0;
}

static void end_squatter(pid_t pid)
{
	kill(pid, SIGKILL);
	NET_CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

/* ---- sending and receiving -------------------------------------------------------------------- */

struct sent {
	int way[2];
	uint64_t ticket;
};

/* As sendmsg() does. */
static int begin_send(struct duo *duo, struct sent *sent)
{
	struct inet_sock *so = tsock_inet(&duo->end[1]);
	int rc;

	sent->ticket = pass_ticket(1);
	NET_CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sent->way), 0);
	NET_CHECK_EQ(write(sent->way[0], "x", 1), 1);
	NET_CHECK(control_lock());
	share_init();
	NET_CHECK(share_of(so));
	so->sharing->cookie = sys_socket_cookie(duo->end[1].fd);
	rc = pass_send(so, sent->way[0], sent->ticket);
	control_unlock();
	return rc;
}

/* The message was not sent: no receiver will connect. */
static void end_send(const struct sent *sent)
{
	pass_done(sent->ticket, false);
	close(sent->way[0]);
	close(sent->way[1]);
}

/* As the receiver does. */
static int call_sender(const struct duo *duo)
{
	struct pass_mark mark;

	NET_CHECK(pass_mark_get(duo->end[1].fd, &mark));
	return pass_connect(&mark);
}

/* How often this thread has slept. */
static long sleeps(void)
{
	struct rusage usage;

	NET_CHECK_EQ(getrusage(RUSAGE_THREAD, &usage), 0);
	return usage.ru_nvcsw;
}

static void is_called_at_once(struct duo *duo)
{
	long before = sleeps();
	int fd = call_sender(duo);

	NET_CHECK(fd >= 0);
	NET_CHECK(sleeps() - before < SOON);
	sys_close(fd);
}

static void send_and_call(struct duo *duo, struct names *names)
{
	struct sent sent;

	NET_CHECK_EQ(begin_send(duo, &sent), 0);
	if (names)
		see(names);
	is_called_at_once(duo);
	end_send(&sent);
}

struct world {
	struct tsock listener;
	struct duo duo;
};

static void open_world(struct world *w)
{
	duo_begin();
	w->listener = duo_listener(7000);
	duo_open(&w->duo, DUO_TCP, &w->listener);
}

static void close_world(struct world *w)
{
	duo_close(&w->duo);
	duo_end(&w->listener);
}

/* ---- cases ------------------------------------------------------------------------------------ */

/* The cookie and the user are not secret. */
static void guess(void *arg)
{
	enum squat how = *(const enum squat *)arg;
	struct names names = {0};
	struct world w;
	pid_t pid;

	open_world(&w);
	for (unsigned i = 0; i < 16; i++) {
		snprintf(names.name[i], sizeof(names.name[i]), "libvma-pass-%u-%llu-%u", geteuid(),
			 (unsigned long long)sys_socket_cookie(w.duo.end[1].fd), i);
		names.n++;
	}
	pid = start_squatter(&names, how);
	if (pid) {
		send_and_call(&w.duo, NULL);
		end_squatter(pid);
	}
	close_world(&w);
}

static void test_guessed_addresses_block_no_connection(void **state)
{
	for (enum squat how = 0; how < SQUATS; how++)
		run("guess", guess, &how);
}

/* Each time the connection is sent again, the other user has all addresses that existed before. */
static void watch(void *arg)
{
	enum squat how = *(const enum squat *)arg;
	struct names names = {0};
	pid_t pid = 0;
	struct world w;

	open_world(&w);
	for (unsigned i = 0; i < ROUNDS; i++) {
		send_and_call(&w.duo, &names);
		NET_CHECK_EQ(names.n, i + 1);
		if (pid)
			end_squatter(pid);
		pid = start_squatter(&names, how);
		if (!pid)
			break;
	}
	if (pid)
		end_squatter(pid);
	close_world(&w);
}

static void test_observed_addresses_block_no_connection(void **state)
{
	for (enum squat how = 0; how < SQUATS; how++)
		run("watch", watch, &how);
}

static int receives; /* any, atomic: 1: it is in pass_take() or about to be, 2: it was */

static void *receive(void *arg)
{
	struct duo *duo = arg;
	int fd = dup(duo->end[1].fd);

	__atomic_store_n(&receives, 1, __ATOMIC_SEQ_CST);
	NET_CHECK(pass_take(fd, false).sk == duo->end[1].ref.sk);
	__atomic_store_n(&receives, 2, __ATOMIC_SEQ_CST);
	close(fd);
	return NULL;
}

/* How often this thread has the control lock while the other one receives. */
static unsigned locks_meanwhile(void)
{
	unsigned n = 0;
	int is;

	while ((is = __atomic_load_n(&receives, __ATOMIC_SEQ_CST)) != 2) {
		NET_CHECK(control_lock());
		control_unlock();
		n += is == 1 && __atomic_load_n(&receives, __ATOMIC_SEQ_CST) == 1;
		usleep(1000);
	}
	return n;
}

/* The sender has ended, and the process that has its address does not accept. */
static void wait_without_answer(void *arg)
{
	struct names names = {0};
	struct sent sent;
	struct world w;
	pthread_t thread;
	pid_t pid;

	(void)arg;
	open_world(&w);
	NET_CHECK_EQ(begin_send(&w.duo, &sent), 0);
	see(&names);
	end_send(&sent);
	pid = start_squatter(&names, SQUAT_FULL);
	receives = 0;
	NET_CHECK_EQ(pthread_create(&thread, NULL, receive, &w.duo), 0);
	NET_CHECK(locks_meanwhile() >= OFTEN);
	NET_CHECK_EQ(pthread_join(thread, NULL), 0); /* it does not wait for ever */
	end_squatter(pid);
	close_world(&w);
}

static void test_a_receiver_that_waits_delays_no_other(void **state)
{
	run("wait in vain", wait_without_answer, NULL);
}

static int enter(void **state)
{
	loop_net_enter();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_guessed_addresses_block_no_connection),
	cmocka_unit_test(test_observed_addresses_block_no_connection),
	cmocka_unit_test(test_a_receiver_that_waits_delays_no_other),
};

VMA_TEST_MAIN("names of senders", tests, enter, NULL)
