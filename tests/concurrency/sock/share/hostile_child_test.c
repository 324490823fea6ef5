/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A forked child that is taken over: it sends anything on its channel, with any descriptors, in any
 * order, and ends as it likes. Its parent goes on with what the child does not share: connections
 * that echo, and calls that need the control lock. Nothing of a child is left when it has ended.
 * The child itself sees that a message which no state makes legal ends its channel, and that nothing
 * comes about sockets that it does not share.
 *
 *	HOSTILE_CHILDREN=20000 hostile_child_test	children, each with a seed (150)
 *	HOSTILE_SEED=n					that one alone
 */
#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/concurrency/sock/duo.h"
#include "vma_test.h"

#include "base/log.h"
#include "sock/share/exec_inherit.h"
#include "sock/share/share_internal.h"

#define CHILDREN 150
#define MESSAGES 120	     /* of a child, at most */
#define KEPT 8		     /* descriptors that a child keeps, to send them again */
#define FLOODERS 3	     /* processes */
#define FLOODED NSEC_PER_SEC /* how long */
#define MAGIC 0x766d616cu
#define SHARED 4      /* sockets that a child shares: the last ones, see open_shared() */
#define BEYOND 4      /* numbers of sockets that it does not share: the parent's echo */
#define END_MAX 10000 /* msec until a channel has ended */

/* How a child ends that has seen what must not be. */
enum {
	CHILD_ENDURES = 20, /* its channel outlives an illegal message */
	CHILD_STEALS = 21,  /* it got something of a socket that it does not share */
};

/* ---- the child: system calls only, it has nothing of the library -------------------------- */

struct child {
	uint64_t random;
	int channel;
	uint64_t last_id;
	int kept[KEPT];
	bool careful;	 /* it sends what may be legal, most of the time */
	bool reroutes;	 /* ... MESSAGE_REROUTE, often */
	unsigned closed; /* bit i: it has closed last_id - i */
	bool rerouted;	 /* what is illegal does not end its channel any more */
	bool pending;	 /* a MESSAGE_PENDING came, which it may answer */
};

static void end_child(int status)
{
	sys_call(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

static unsigned any(struct child *c, unsigned n)
{
	c->random = c->random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(c->random >> 33) % n;
}

static void keep(struct child *c, int fd)
{
	int *place = &c->kept[any(c, KEPT)];

	if (*place >= 0)
		sys_close(*place);
	*place = fd;
}

/* Of its own, for one message. */
static int make_descriptor(struct child *c)
{
	uint64_t bytes[64];
	int fds[2], fd;

	switch (any(c, 4)) {
	case 0:
		if (sys_call(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET, 0, fds, 0, 0))
			return -1;
		keep(c, fds[0]);
		return fds[1];
	case 1:
		return sys_socket(AF_INET, any(c, 2) ? SOCK_STREAM : SOCK_DGRAM, 0);
	default:
		for (unsigned i = 0; i < 64; i++)
			bytes[i] = any(c, 2) ? c->random : 0;
		fd = (int)sys_call(SYS_memfd_create, "child", 0, 0, 0, 0, 0);
		sys_call(SYS_write, fd, bytes, any(c, sizeof(bytes)), 0, 0, 0);
		return fd;
	}
}

/* Has it been sent? */
static bool say(const struct child *c, const void *bytes, size_t size, const int *fds, unsigned n)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control = {0};
	struct iovec iov = {(void *)(uintptr_t)bytes, size};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_LEN(n * sizeof(int));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&control.head), fds, n * sizeof(int));
	}
	return sys_sendmsg(c->channel, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

static unsigned any_kind(struct child *c)
{
	static const enum message_kind usual[] = {MESSAGE_REQUEST, MESSAGE_ACK,
						  MESSAGE_NACK,	   MESSAGE_JOIN,
						  MESSAGE_PENDING, MESSAGE_RECEIVED};
	/* Legal for most of the sockets. */
	static const enum message_kind careful[] = {MESSAGE_REQUEST,   MESSAGE_REQUEST,
						    MESSAGE_INVENTORY, MESSAGE_LATE,
						    MESSAGE_CLOSED,    MESSAGE_LOST};

	if (c->reroutes && !any(c, 4))
		return MESSAGE_REROUTE;
	if (c->careful && any(c, 8))
		return careful[any(c, 6)];
	if (any(c, 4))
		return usual[any(c, 6)];
	return any(c, 8) ? any(c, MESSAGE_KINDS + 2) : (unsigned)c->random;
}

static uint64_t any_id(struct child *c)
{
	if (!any(c, 16))
		return any(c, 2) ? c->random : 1 + any(c, (unsigned)c->last_id);
	return any(c, 12) ? c->last_id - any(c, SHARED) : c->last_id + 1 + any(c, BEYOND);
}

static bool has_closed(const struct child *c, uint64_t id)
{
	return c->last_id - id < SHARED && c->closed >> (c->last_id - id) & 1;
}

/* Whatever the parent does with its sockets at this moment. */
static bool is_illegal(const struct child *c, const struct message *m)
{
	const struct message_rule *rule;

	if (m->kind >= MESSAGE_KINDS)
		return true;
	rule = &message_rules[m->kind];
	if (!rule->name || m->kind == MESSAGE_CLAIM)
		return true;
	if (rule->of_channel)
		return false;
	return m->id > c->last_id || (has_closed(c, m->id) && !rule->closed) ||
	       (m->kind == MESSAGE_PENDING && m->flags > MESSAGE_HOPS_MAX) ||
	       (m->kind == MESSAGE_RECEIVED && !c->pending);
}

static void note(struct child *c, const struct message *m)
{
	if ((m->kind == MESSAGE_CLOSED || m->kind == MESSAGE_LOST) && c->last_id - m->id < SHARED)
		c->closed |= 1u << (c->last_id - m->id);
	c->rerouted |= m->kind == MESSAGE_REROUTE;
}

/* Answers correctly now and then, or its channel would soon end.  False: it has ended. */
static bool listen_once(struct child *c)
{
	char control[CMSG_SPACE(4 * sizeof(int))] __attribute__((aligned(8)));
	struct message m;
	struct iovec iov = {&m, sizeof(m)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	const struct cmsghdr *cmsg;
	struct message answer;
	ssize_t n;
	int fd;

	n = sys_recvmsg(c->channel, &msg, MSG_DONTWAIT);
	if (n != sizeof(m))
		return n == -EAGAIN;
	cmsg = CMSG_FIRSTHDR(&msg);
	if (cmsg && cmsg->cmsg_type == SCM_RIGHTS) {
		memcpy(&fd, CMSG_DATA(cmsg), sizeof(fd));
		keep(c, fd);
	}
	if (m.id > c->last_id)
		end_child(CHILD_STEALS);
	c->pending |= m.kind == MESSAGE_PENDING;
	answer = (struct message){MAGIC, MESSAGE_ACK, m.id, 0};
	if (m.kind == MESSAGE_EXPORT && any(c, 3))
		say(c, &answer, sizeof(answer), NULL, 0);
	return true;
}

static void expect_end(struct child *c)
{
	struct pollfd pfd = {.fd = c->channel, .events = POLLIN};

	while (listen_once(c)) {
		if (sys_call(SYS_poll, &pfd, 1, END_MAX, 0, 0, 0) <= 0)
			end_child(CHILD_ENDURES);
	}
}

static void say_anything(struct child *c)
{
	struct message m = {.magic = MAGIC};
	int fds[4], made = -1;
	unsigned n = 0;
	bool whole = any(c, 20);

	m.kind = any_kind(c);
	m.id = any_id(c);
	m.flags = any(c, 4) ? any(c, 4) : c->random;
	if (!any(c, 20))
		m.magic = (uint32_t)c->random;
	if (!any(c, 3))
		fds[n++] = made = make_descriptor(c);
	while (n < 4 && !any(c, 3))
		fds[n++] = any(c, 6) ? c->kept[any(c, KEPT)] : c->channel;
	for (unsigned i = 0; i < n; i++) {
		if (fds[i] < 0)
			n = i;
	}
	if (say(c, &m, whole ? sizeof(m) : any(c, sizeof(m)), fds, n) && whole &&
	    m.magic == MAGIC && m.id) {
		note(c, &m);
		if (is_illegal(c, &m) && !c->rerouted)
			expect_end(c);
	}
	if (made >= 0)
		sys_close(made);
}

static void child_main(struct child *c)
{
	unsigned n = any(c, MESSAGES);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Also the parent's end of the channel, which would hide that the parent closes it. */
	sys_call(SYS_close_range, 3, c->channel - 1, 0, 0, 0, 0);
	sys_call(SYS_close_range, c->channel + 1, ~0u, 0, 0, 0, 0);
	memset(c->kept, -1, sizeof(c->kept));
	c->careful = any(c, 2);
	c->reroutes = !any(c, 4);
	while (n--) {
		say_anything(c);
		if (any(c, 2))
			listen_once(c);
		if (!any(c, 16))
			sys_sched_yield();
	}
	if (any(c, 2))
		sys_call(SYS_kill, sys_getpid(), SIGKILL, 0, 0, 0, 0);
	end_child(0);
}

/* ---- the parent --------------------------------------------------------------------------- */

static void left(struct sock *sk)
{
}

static bool is_idle(void)
{
	return !__atomic_load_n(&share_process.busy, __ATOMIC_ACQUIRE);
}

static bool channels_have_ended(void)
{
	bool ended;

	NET_CHECK(control_lock());
	ended = list_empty(&share_process.channels);
	control_unlock();
	return ended;
}

/* Without eventfds: rings, which come and go by themselves, have some. */
static unsigned open_descriptors(void)
{
	char path[32], what[32];
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++) {
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		len = readlink(path, what, sizeof(what) - 1);
		what[len > 0 ? len : 0] = 0;
		n += len > 0 && strcmp(what, "anon_inode:[eventfd]") != 0;
	}
	return n;
}

/* What the child shares; it may take any of these. */
struct shared_sockets {
	struct tsock listener, udp;
	struct duo duo;
};

static void open_shared(struct shared_sockets *s)
{
	s->listener = duo_listener(0);
	s->udp = tsock_udp();
	NET_CHECK_EQ(tsock_bind(&s->udp, fake_link_addr(0), 0), 0);
	duo_open(&s->duo, DUO_TCP, &s->listener);
}

static void use_shared(struct shared_sockets *s, unsigned i)
{
	struct tsock *ts = i & 4 ? &s->udp : &s->duo.end[i & 1];

	if (!sock_ref_valid(ts->ref))
		return;
	if (sock_is_exported(ts->ref.sk))
		share_request(ts->ref);
	else if (!(i & 4))
		tsock_send(ts, "hello", 5, MSG_DONTWAIT);
}

static void close_hard(struct tsock *ts)
{
	tsock_linger_none(ts);
	tsock_close(ts);
}

static void close_shared(struct shared_sockets *s)
{
	close_hard(&s->duo.end[0]);
	close_hard(&s->duo.end[1]);
	tsock_close(&s->udp);
	tsock_close(&s->listener);
}

/* Makes the channel of a child; the caller closes the end that it returns when the child has it. */
static int lend(struct child *c, uint64_t seed)
{
	struct exec_channel ch;

	NET_CHECK(exec_inherit_lend(&ch));
	*c = (struct child){
		.random = seed * 0x9e3779b97f4a7c15u, .channel = ch.fd, .last_id = ch.last_id};
	return ch.fd;
}

static pid_t start_child(uint64_t seed)
{
	struct child c;
	int end = lend(&c, seed);
	pid_t pid = fork();

	NET_CHECK(pid >= 0);
	if (!pid)
		child_main(&c);
	sys_close(end);
	return pid;
}

/* The echo runs all the time; it began after the fork, so the child does not share it. */
static void live_beside_child(uint64_t seed)
{
	struct shared_sockets shared;
	struct tsock listener;
	struct duo echo;
	unsigned i = 0;
	int status;
	pid_t pid;

	open_shared(&shared);
	pid = start_child(seed);
	listener = duo_listener(0);
	duo_open(&echo, DUO_TCP, &listener);
	do {
		duo_talk(&echo, 1);
		use_shared(&shared, i++);
	} while (waitpid(pid, &status, WNOHANG) == 0);
	if (status && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) {
		fprintf(stderr, "seed %llu: the child ended with %#x\n", (unsigned long long)seed,
			status);
		abort();
	}
	duo_talk(&echo, 3);
	close_shared(&shared);
	duo_close(&echo);
	tsock_close(&listener);
	NET_CHECK(NET_WAIT(is_idle() && channels_have_ended(), NET_PATIENCE));
}

static void begin_quietly(void)
{
	duo_begin();
	sock_hooks.left = left;
	log_level = LOG_NONE;
}

static void survive_children(void *arg)
{
	const uint64_t *range = arg;
	unsigned before;

	begin_quietly();
	live_beside_child(range[0]); /* what stays open for good */
	loop_net_settle();
	before = open_descriptors();
	for (uint64_t seed = range[0]; seed < range[1]; seed++) {
		live_beside_child(seed);
		if (NET_WAIT(open_descriptors() <= before, NET_PATIENCE))
			continue; /* the internal thread may open one for a moment */
		fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
		NET_CHECK_EQ(open_descriptors(), before);
	}
	duo_end(NULL);
}

static void run(const char *name, void (*fn)(void *arg), void *arg)
{
	assert_int_equal(loop_net_run(name, fn, arg, 600), 0);
}

static void test_a_parent_outlives_hostile_children(void **state)
{
	const char *seed = getenv("HOSTILE_SEED"), *children = getenv("HOSTILE_CHILDREN");
	uint64_t range[2] = {1, 1 + (children ? strtoull(children, NULL, 0) : CHILDREN)};

	if (seed) {
		range[0] = strtoull(seed, NULL, 0);
		range[1] = range[0] + 1;
	}
	run("children", survive_children, range);
}

/* ---- a flood ------------------------------------------------------------------------------ */

static void flood(const struct child *c, bool messages)
{
	struct message m = {messages ? MAGIC : 0, MESSAGE_REQUEST, c->last_id, 0};
	struct iovec iov = {&m, sizeof(m)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		(void)sys_sendmsg(c->channel, &msg, MSG_NOSIGNAL);
}

/* Several processes send on one channel without a pause, and the parent's calls go on. */
static void survive_flood(void *arg)
{
	const bool *messages = arg;
	pid_t pids[FLOODERS];
	struct tsock ts;
	struct child c;
	nsec_t until;
	int end;

	begin_quietly();
	ts = duo_listener(0);
	end = lend(&c, 1);
	sys_fcntl(end, F_SETFL, 0);
	for (unsigned i = 0; i < FLOODERS; i++) {
		pids[i] = fork();
		NET_CHECK(pids[i] >= 0);
		if (!pids[i])
			flood(&c, *messages);
	}
	sys_close(end);
	for (until = clock_now() + FLOODED; clock_now() < until;) {
		struct tsock other = duo_listener(0);

		tsock_close(&other);
	}
	for (unsigned i = 0; i < FLOODERS; i++) {
		kill(pids[i], SIGKILL);
		NET_CHECK_EQ(waitpid(pids[i], NULL, 0), pids[i]);
	}
	NET_CHECK(NET_WAIT(channels_have_ended(), NET_PATIENCE));
	duo_end(&ts);
}

static void test_messages_without_end_starve_no_call(void **state)
{
	run("messages", survive_flood, &(bool){true});
}

static void test_what_is_no_message_without_end_starves_no_call(void **state)
{
	run("no messages", survive_flood, &(bool){false});
}

static int enter(void **state)
{
	loop_net_enter();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_messages_without_end_starve_no_call),
	cmocka_unit_test(test_what_is_no_message_without_end_starves_no_call),
	cmocka_unit_test(test_a_parent_outlives_hostile_children),
};

VMA_TEST_MAIN("hostile child", tests, enter, NULL)
