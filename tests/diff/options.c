/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every option of src/sock/core/option_list.h, in every state of a socket, with valid and
 * invalid values and lengths: one behaviour for each.
 */
#include <errno.h>
#include <linux/net_tstamp.h>
#include <linux/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/diff/diff.h"

enum care { KERNEL_, KERNEL6_, READ, REFUSED, TWIN, DONE, GROUP };
enum { SOCKET_LEVEL = SOL_SOCKET, IP_LEVEL = 0, IPV6_LEVEL = 41, TCP_LEVEL = 6, UDP_LEVEL = 17 };

struct option {
	int level, number;
	enum care udp, tcp;
};

/* ---- what is said of a value ---------------------------------------------------------- */

/* Cookies, counters, values that depend on the network. */
static bool varies(const struct option *o)
{
	static const unsigned char of_socket[] = {28, 49, 55, 56, 57, 71}, of_tcp[] = {11, 12, 24};

	if (o->level == SOL_SOCKET)
		return memchr(of_socket, o->number, sizeof(of_socket)) != NULL;
	if (o->level == IP_LEVEL)
		return o->number == 52; /* the chosen port */
	return o->level == TCP_LEVEL && memchr(of_tcp, o->number, sizeof(of_tcp)) != NULL;
}

static void describe(char *text, size_t size, int rc, int error, const void *val, socklen_t len,
		     bool hidden)
{
	const unsigned char *bytes = val;
	size_t n = 0;

	if (rc) {
		snprintf(text, size, "%s", strerrorname_np(error));
		return;
	}
	n = (size_t)snprintf(text, size, "%u:", len);
	for (socklen_t i = 0; i < len && i < 24 && !hidden; i++)
		n += (size_t)snprintf(text + n, size - n, "%02x", bytes[i]);
}

static void get(int fd, const struct option *o, bool hidden, char *text, size_t size)
{
	char val[256] = "";
	socklen_t len = 64;
	int rc = getsockopt(fd, o->level, o->number, val, &len);

	describe(text, size, rc, errno, val, len, hidden || varies(o));
}

static void bad_gets(int fd, const char *state, const struct option *o)
{
	static const int lengths[] = {-1, 0, 1, 3};
	char val[256] = "", text[100];
	socklen_t len = 4;
	int rc;

	for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		len = (socklen_t)lengths[i];
		rc = getsockopt(fd, o->level, o->number, val, &len);
		describe(text, sizeof(text), rc, errno, val, len, true);
		say("%s get, length %d: %s", state, lengths[i], text);
	}
	len = 64;
	rc = getsockopt(fd, o->level, o->number, (void *)8, &len);
	say("%s get, bad pointer: %s", state, rc ? strerrorname_np(errno) : "fine");
	rc = getsockopt(fd, o->level, o->number, val, (void *)8);
	say("%s get, bad length pointer: %s", state, rc ? strerrorname_np(errno) : "fine");
}

/* ---- values to try -------------------------------------------------------------------- */

struct
try {
	const char *name;
	socklen_t len;
	union {
		int n[4];
		struct timeval tv;
		char text[16];
		struct ip_mreqn mreqn;
		struct in_addr addr[3];
	} val;
};

static const struct try tries[] = {
	{"1", 4, {.n = {1}}},
	{"0", 4, {.n = {0}}},
	{"-1", 4, {.n = {-1}}},
	{"5", 4, {.n = {5}}},
	{"100000", 4, {.n = {100000}}},
	{"least", 4, {.n = {-2147483647 - 1}}},
	{"byte", 1, {.text = {1}}},
	{"nothing", 0, {.n = {1}}},
	{"short", 3, {.n = {1}}},
	{"negative length", (socklen_t)-1, {.n = {1}}},
	{"1, 3", 8, {.n = {1, 3}}},
	{"time", 16, {.tv = {1, 5000}}},
	{"bad time", 16, {.tv = {1, 5000000}}},
	{"v0", 3, {.text = "v0"}},
	{"cubic", 5, {.text = "cubic"}},
	{"reno", 5, {.text = "reno"}},
	{"nonsense", 9, {.text = "nonsense"}},
};

#define TRIES (sizeof(tries) / sizeof(*tries))

static void attempt(int fd, const char *state, const struct option *o, const struct try *t,
		    bool hidden)
{
	char wide[64] = "", text[100];
	int rc;

	memcpy(wide, &t->val, sizeof(t->val));
	rc = setsockopt(fd, o->level, o->number, wide, t->len);
	if (rc) {
		say("%s set %s: %s", state, t->name, strerrorname_np(errno));
	} else {
		get(fd, o, hidden, text, sizeof(text));
		say("%s set %s: fine, then %s", state, t->name, text);
	}
}

static void bad_sets(int fd, const char *state, const struct option *o)
{
	int rc = setsockopt(fd, o->level, o->number, NULL, 4);

	say("%s set NULL: %s", state, rc ? strerrorname_np(errno) : "fine");
	rc = setsockopt(fd, o->level, o->number, (void *)8, 16);
	say("%s set bad pointer: %s", state, rc ? strerrorname_np(errno) : "fine");
}

/* Buffers of a connection grow and shrink. */
static bool grows(const struct option *o)
{
	if (o->level == TCP_LEVEL)
		return o->number == TCP_WINDOW_CLAMP;
	return o->level == SOL_SOCKET && (o->number == SO_SNDBUF || o->number == SO_RCVBUF);
}

static bool stamps(const struct option *o)
{
	return o->level == SOL_SOCKET && (o->number == SO_TIMESTAMPING || o->number == 65);
}

/* Can only the kernel serve a connection with it? */
static bool is_kernels(const struct option *o)
{
	return o->tcp == KERNEL_ || (o->tcp == KERNEL6_ && is_native());
}

/* Are there values that only the kernel can serve?  SO_TIMESTAMPING: stamps of sent packets. */
static bool is_partly_kernels(const struct option *o)
{
	return is_kernels(o) || stamps(o);
}

static void probe(int fd, const char *state, const struct option *o, bool live)
{
	char text[100];

	get(fd, o, live && grows(o), text, sizeof(text));
	say("%s: %s", state, text);
	bad_gets(fd, state, o);
	/* On a connection, options that only the kernel can serve are refused: see "live". */
	if (live && is_kernels(o))
		return;
	bad_sets(fd, state, o);
	for (unsigned i = 0; i < TRIES && !(live && is_partly_kernels(o)); i++)
		attempt(fd, state, o, &tries[i], false);
}

/* ---- states --------------------------------------------------------------------------- */

static void probe_udp(const struct option *o)
{
	int fd = (int)MUST(socket(AF_INET, SOCK_DGRAM, 0));

	probe(fd, "udp", o, false);
	close(fd);
	fd = udp_bound(1);
	probe(fd, "udp bound", o, false);
	close(fd);
	fd = udp_pair();
	probe(fd, "udp connected", o, false);
	meet();
	close(fd);
}

static int connecting(void)
{
	struct sockaddr_in to = nobody_addr();
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));

	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 || errno != EINPROGRESS)
		say("set-up: connecting %d", errno);
	return fd;
}

static void probe_tcp(const struct option *o)
{
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	probe(fd, "tcp", o, false);
	close(fd);
	fd = bound(SOCK_STREAM, 2);
	probe(fd, "bound", o, false);
	close(fd);
	fd = tcp_listening(3);
	probe(fd, "listening", o, false);
	close(fd);
	fd = connecting();
	probe(fd, "connecting", o, true);
	close(fd);
}

/* Both sides; then the options that remain when the peer has closed. */
static void probe_connection(const struct option *o)
{
	int fd = tcp_pair();

	probe(fd, "connected", o, true);
	meet();
	close(fd);
	meet();
	fd = tcp_pair();
	if (is_server) {
		close(fd);
		meet();
		return;
	}
	await(fd, POLLIN);
	probe(fd, "closed by peer", o, true);
	close(fd);
	meet();
}

static void probe_all(const struct option *o)
{
	probe_udp(o);
	probe_tcp(o);
	meet();
	probe_connection(o);
}

/* ---- what accepted sockets inherit ---------------------------------------------------- */

#define CARE_KERNEL KERNEL_
#define CARE_KERNEL6 KERNEL6_
#define CARE_READ READ
#define CARE_REFUSED REFUSED
#define CARE_TWIN TWIN
#define CARE_DONE DONE
#define CARE_GROUP GROUP

static const struct option all[] = {
#define OPTION(level, name, number, udp, tcp, remark) \
	{level##_LEVEL, number, CARE_##udp, CARE_##tcp},
#include "src/sock/core/option_list.h"
#undef OPTION
};

#define OPTIONS (sizeof(all) / sizeof(*all))

static bool is_a_time(const struct option *o)
{
	return o->level == SOL_SOCKET && (o->number == SO_RCVTIMEO || o->number == SO_SNDTIMEO);
}

/* 1 is the loopback interface: connections would fail. */
static bool is_a_device(const struct option *o)
{
	return o->level == SOL_SOCKET && o->number == SO_BINDTOIFINDEX;
}

/* A value that is not the default, and has no bad effect. */
static void change(int fd, const struct option *o)
{
	static const int numbers[] = {1, 5, 100000};
	struct timeval tv = {30, 0};
	struct linger linger = {1, 3};

	/* Time stamps of what is sent would leave the listener to the kernel. */
	if ((o->tcp != TWIN && o->tcp != DONE) || is_a_device(o) || stamps(o))
		return;
	if (is_a_time(o))
		MUST(setsockopt(fd, o->level, o->number, &tv, sizeof(tv)));
	else if (o->level == SOL_SOCKET && o->number == SO_LINGER)
		MUST(setsockopt(fd, o->level, o->number, &linger, sizeof(linger)));
	else
		for (unsigned i = 0; i < 3; i++)
			setsockopt(fd, o->level, o->number, &numbers[i], sizeof(numbers[i]));
}

/* Exceptions: IP_MULTICAST_TTL and others, see intended.txt; addresses that only kernel sockets have. */
static bool is_another_story(const struct option *o)
{
	if (o->level == IPV6_LEVEL)
		return o->number == IPV6_MULTICAST_IF || o->number == IPV6_MULTICAST_HOPS;
	return o->level == IP_LEVEL &&
	       (o->number == IP_MULTICAST_TTL || o->number == IP_PKTOPTIONS);
}

static void say_all(int fd, const char *what)
{
	char text[100];

	for (unsigned i = 0; i < OPTIONS; i++) {
		if (is_another_story(&all[i]))
			continue;
		get(fd, &all[i], grows(&all[i]), text, sizeof(text));
		say("%s %d/%d: %s", what, all[i].level, all[i].number, text);
	}
}

/* The option is set on the listener before or after listen(), or on its connection. */
static void inherit_server(bool before)
{
	int listener = bound(SOCK_STREAM, 0), fd;

	if (!before)
		MUST(listen(listener, 16));
	for (unsigned i = 0; i < OPTIONS; i++)
		change(listener, &all[i]);
	if (before)
		MUST(listen(listener, 16));
	meet();
	fd = (int)MUST(accept(listener, NULL, NULL));
	close(listener);
	/* Set first, so that the test sees that other options are inherited, too. */
	set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, 7);
	say_all(fd, "child");
	meet();
	close(fd);
}

static void inherit_before_server(void)
{
	inherit_server(true);
}

static void inherit_after_server(void)
{
	inherit_server(false);
}

static bool is_a_stamp(const struct option *o)
{
	return o->level == SOL_SOCKET &&
	       (o->number == SO_TIMESTAMP || o->number == SO_TIMESTAMPNS ||
		o->number == SO_TIMESTAMP_NEW || o->number == SO_TIMESTAMPNS_NEW);
}

/* Stamps of either kind, and those that SO_TIMESTAMPING_NEW makes new ones. */
static void inherit_stamps_server(void)
{
	static const struct {
		int stamp, stamping;
	} rows[] = {{SO_TIMESTAMP, 0},
		    {SO_TIMESTAMP, SO_TIMESTAMPING},
		    {SO_TIMESTAMP, SO_TIMESTAMPING_NEW},
		    {SO_TIMESTAMPNS, SO_TIMESTAMPING_NEW},
		    {0, SO_TIMESTAMPING_NEW}};
	int listener = bound(SOCK_STREAM, 0), fd;
	char text[100];

	MUST(listen(listener, 16));
	for (unsigned row = 0; row < sizeof(rows) / sizeof(*rows); row++) {
		set_int(listener, SOL_SOCKET, SO_TIMESTAMP, 0);
		set_int(listener, SOL_SOCKET, SO_TIMESTAMPING, 0);
		if (rows[row].stamp)
			set_int(listener, SOL_SOCKET, rows[row].stamp, 1);
		if (rows[row].stamping)
			set_int(listener, SOL_SOCKET, rows[row].stamping,
				SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE);
		meet();
		fd = (int)MUST(accept(listener, NULL, NULL));
		for (unsigned i = 0; i < OPTIONS; i++) {
			if (!stamps(&all[i]) && !is_a_stamp(&all[i]))
				continue;
			get(fd, &all[i], false, text, sizeof(text));
			say("row %u: %d of the child: %s", row, all[i].number, text);
		}
		meet();
		close(fd);
	}
	close(listener);
}

static void inherit_stamps_client(void)
{
	struct sockaddr_in to = server_addr(0);

	for (int row = 0; row < 5; row++) {
		int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

		meet();
		MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
		meet();
		close(fd);
	}
}

static void inherit_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	meet();
	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	MUST(send(fd, "x", 1, 0)); /* TCP_DEFER_ACCEPT */
	meet();
	close(fd);
}

/* ---- SO_BUF_LOCK ---------------------------------------------------------------------- */

#define LOCK_BYTES (8 << 20)

static void buf_lock_server(void)
{
	int fd = tcp_pair(), before;
	static char buf[65536];
	long done = 0, n;

	set_int(fd, SOL_SOCKET, SO_BUF_LOCK, 2 /* SOCK_RCVBUF_LOCK */);
	before = get_int(fd, SOL_SOCKET, SO_RCVBUF);
	meet();
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		done += n;
	say("%ld bytes", done);
	SAY_IF(get_int(fd, SOL_SOCKET, SO_RCVBUF) == before);
	close(fd);
}

static void buf_lock_client(void)
{
	int fd = tcp_pair(), before;
	static char buf[65536];

	set_int(fd, SOL_SOCKET, SO_BUF_LOCK, 1 /* SOCK_SNDBUF_LOCK */);
	before = get_int(fd, SOL_SOCKET, SO_SNDBUF);
	meet();
	for (long done = 0; done < LOCK_BYTES; done += (long)sizeof(buf))
		MUST(send(fd, buf, sizeof(buf), 0));
	SAY_IF(get_int(fd, SOL_SOCKET, SO_SNDBUF) == before);
	close(fd);
}

/* ---- what only the kernel can do, asked of a connection ------------------------------- */

static void live_server(void)
{
	int fd = tcp_pair();

	meet();
	close(fd);
}

static void live_client(void)
{
	int fd = tcp_pair(), one = 1;

	for (unsigned i = 0; i < OPTIONS; i++) {
		if (is_partly_kernels(&all[i]) &&
		    setsockopt(fd, all[i].level, all[i].number, &one, sizeof(one)))
			say("%d/%d: %s", all[i].level, all[i].number, strerrorname_np(errno));
	}
	meet();
	close(fd);
}

#define OPTION(level, name, number, udp, tcp, remark)                                           \
	static void probe_##level##_##number(void)                                              \
	{                                                                                       \
		static const struct option o = {level##_LEVEL, number, CARE_##udp, CARE_##tcp}; \
                                                                                                \
		probe_all(&o);                                                                  \
	}
#include "src/sock/core/option_list.h"
#undef OPTION

const struct behaviour options_behaviours[] = {
/* The kernel may serve fallen-back sockets here, and send answers itself. */
#define OPTION(level, name, number, udp, tcp, remark) \
	{#name, probe_##level##_##number, probe_##level##_##number, KERNEL},
#include "src/sock/core/option_list.h"
#undef OPTION
	{"inherit_before", inherit_before_server, inherit_client, KERNEL},
	{"inherit_after", inherit_after_server, inherit_client, KERNEL},
	{"inherit_stamps", inherit_stamps_server, inherit_stamps_client, KERNEL},
	{"buf_lock", buf_lock_server, buf_lock_client, KERNEL},
	{"live", live_server, live_client, KERNEL},
	{0},
};
