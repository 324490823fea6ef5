/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program inherits that is executed: VMA_INHERITED and VMA_INHERITED_LOCAL, with any
 * descriptors, and what the former image has left there: a channel with messages, connections as
 * snapshots and memory.  Anybody can have set the variables.  Whatever they are, a descriptor that was
 * not named right stays what it is, and nothing is left when the program has closed its sockets.
 *
 * Input	operations: a byte that selects one, and its operands.  An item is right but for what
 *		its operands change, so zeros are a good former image; but any text may follow it.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/param.h"
#include "fuzz/local_sockets.h"
#include "fuzz/snapshots.h"
#include "intercept/fdtable.h"
#include "intercept/process/inherited.h"
#include "sock/share/share_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define THINGS 24u /* descriptors that the program is executed with */
#define TEXT 4096u
#define MESSAGES 64u
#define EXECUTE 0xc0u /* as an operation: the rest is what comes after exec */

enum what {
	NEW_TCP,
	LISTENER,
	BOUND_UDP,
	NEW_UDP,
	NEW_TCP6,
	BOUND_UDP6,
	CHANNEL,
	STREAM_PAIR,
	BYTES, /* a memfd of the input's bytes */
	PACKED,
	PIPE,
	EVENTS,
	WHATS
};

struct thing {
	int fd;
	ino_t inode;
	int other; /* its other end, or -1 */
};

static struct {
	struct thing things[THINGS];
	unsigned n;
	struct text {
		char bytes[TEXT];
		size_t len;
		bool set;
	} sockets, local;
	int wake;
} f;

/* ---- descriptors -------------------------------------------------------------------------------- */

static ino_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

/* As the kernel makes it: the library does not know it, as after exec. */
static int kernel_socket(int domain, int type, bool bound)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 at6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
	int fd = sys_socket(domain, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	check(fd >= 0);
	if (bound && domain == AF_INET6)
		(void)sys_bind(fd, (struct sockaddr *)&at6, sizeof(at6));
	else if (bound)
		(void)sys_bind(fd, (struct sockaddr *)&at, sizeof(at));
	if (bound && type == SOCK_STREAM)
		(void)sys_listen(fd, 4);
	return fd;
}

static int pair_of(int type, int *other)
{
	int fds[2];

	check(!socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds));
	*other = fds[1];
	return fds[0];
}

static int bytes_of(struct input *in)
{
	static uint8_t bytes[256];
	int fd = (int)sys_call(SYS_memfd_create, "bytes", MFD_CLOEXEC, 0, 0, 0, 0);
	size_t size = take8(in);

	take(in, bytes, size);
	check(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	return fd;
}

/*
 * A local connection as the former image leaves it, with changes: what is returned is the snapshot,
 * *fd its kernel socket.
 */
static int packed(struct input *in, int *fd)
{
	int snapshot, changed;
	struct inet_sock *so;

	*fd = kernel_socket(AF_INET, SOCK_STREAM, false);
	so = inet_of(sock_create(*fd, AF_INET, SOCK_STREAM, 0, true).sk);
	check(so && control_lock());
	so->local = (struct endpoint){.addr = addrs[0], .port = htons(1)};
	so->remote = (struct endpoint){.addr = addrs[0], .port = htons(2)};
	check(ring_hold_cold(rings_nowhere()));
	sock_set_home(so, local_ring());
	ring_release_cold(rings_nowhere());
	check(ring_hold_cold(local_ring()));
	local_conn_begin(so, true);
	check(!segment_create(&so->shm.own, LOCAL_SEGMENT, LOCAL_SEGMENT_SIZE));
	check(!local_conn_open(so, local_slot(&so->shm.own, 0), LOCAL_RING_MIN));
	so->shm.established = so->shm.died = true;
	local_move_begin(so, 0);
	ring_release_cold(local_ring());
	check(!transfer_export(so, 0, 0, &snapshot));
	changed = change_snapshot(in, snapshot, f.wake);
	sys_close(snapshot);
	sock_close_locked(sock_ref_of(so));
	control_unlock();
	return changed;
}

static void add(int fd, int other)
{
	f.things[f.n++] = (struct thing){fd, inode_of(fd), other};
}

static void add_thing(struct input *in)
{
	enum what what = take8(in) % WHATS;
	int fd = -1, other = -1, fds[2];

	if (f.n + 2 > THINGS)
		return;
	switch (what) {
	case CHANNEL:
		fd = pair_of(SOCK_SEQPACKET, &other);
		break;
	case STREAM_PAIR:
		fd = pair_of(SOCK_STREAM, &other);
		break;
	case BYTES:
		fd = bytes_of(in);
		break;
	case PACKED:
		other = packed(in, &fd);
		add(fd, -1);
		fd = other;
		other = -1;
		break;
	case PIPE:
		check(!pipe2(fds, O_CLOEXEC));
		fd = fds[0];
		other = fds[1];
		break;
	case EVENTS:
		fd = eventfd(0, EFD_CLOEXEC);
		break;
	default:
		fd = kernel_socket(what == NEW_TCP6 || what == BOUND_UDP6 ? AF_INET6 : AF_INET,
				   what == NEW_UDP || what == BOUND_UDP || what == BOUND_UDP6
					   ? SOCK_DGRAM
					   : SOCK_STREAM,
				   what == LISTENER || what == BOUND_UDP || what == BOUND_UDP6);
	}
	add(fd, other);
}

/* ---- the variables ------------------------------------------------------------------------------- */

static void append(struct text *text, const char *bytes, size_t n)
{
	if (n > TEXT - 1 - text->len)
		n = TEXT - 1 - text->len;
	memcpy(text->bytes + text->len, bytes, n);
	text->len += n;
	text->set = true;
}

static struct text *which_text(struct input *in)
{
	return take8(in) & 1 ? &f.local : &f.sockets;
}

enum {
	AS_MOVED = 1, /* INHERITED_ANYWHERE */
	OTHER_INODE = 2,
	LONG_NUMBER = 4,
	OF_A_THING = 8, /* the number is the descriptor of one: PACKED */
};

static void add_item(struct input *in)
{
	struct text *text = which_text(in);
	uint8_t at = take8(in), how = take8(in), end;
	const struct thing *thing = f.n ? &f.things[at % f.n] : NULL;
	uint64_t inode = thing ? thing->inode : 0, number = 0;
	int fd = how & AS_MOVED ? INHERITED_ANYWHERE : thing ? thing->fd : at;
	char item[64];

	if (how & OTHER_INODE)
		inode += take16(in);
	take(in, &number, how & LONG_NUMBER ? sizeof(number) : 1);
	if (how & OF_A_THING && f.n)
		number = (unsigned)f.things[number % f.n].fd;
	end = take8(in);
	append(text, item,
	       (size_t)snprintf(item, sizeof(item), "%d,%llu,%llu%c", fd, (unsigned long long)inode,
				(unsigned long long)number, end ? end : ';'));
}

static void add_bytes(struct input *in)
{
	struct text *text = which_text(in);
	char bytes[32];
	size_t n = take8(in) % sizeof(bytes);

	take(in, bytes, n);
	append(text, bytes, n);
}

/* ---- the parent ---------------------------------------------------------------------------------- */

static void send_message(struct input *in)
{
	struct message m = {0x766d616cu, take8(in), take8(in), take8(in)};
	uint8_t at = take8(in), what = take8(in);
	const struct thing *thing = f.n ? &f.things[at % f.n] : NULL;
	struct iovec iov = {&m, sizeof(m)};
	int fd = -1;

	if (what & 1)
		m.magic ^= take32(in);
	if (what & 2)
		take(in, &m.id, sizeof(m.id));
	if (what & 4)
		fd = bytes_of(in);
	else if (what & 8)
		fd = make_descriptor(take8(in), f.wake, f.wake);
	if (what & 16)
		iov.iov_len -= take8(in) % sizeof(m);
	if (thing && thing->other >= 0)
		(void)unix_socket_send(thing->other, &iov, 1, &fd, fd >= 0);
	if (fd >= 0)
		close(fd);
}

/* ---- the program --------------------------------------------------------------------------------- */

static bool is_there(const struct thing *thing)
{
	return inode_of(thing->fd) == thing->inode;
}

/* The library has no thread here: it is called instead. */
static void run_library(void)
{
	struct ring *ring = local_ring();

	progress_stop();
	for (int i = 0; i < 3; i++) {
		check(control_lock());
		share_process.readable = true;
		share_busy();
		control_unlock();
		(void)share_run();
		check(ring_hold_cold(ring));
		ring_poll(ring);
		ring_release_cold(ring);
		local_links_run(clock_now());
		local_moves_run();
		local_links_readable();
	}
}

static void close_thing(struct thing *thing)
{
	if (thing->fd >= 0 && is_there(thing))
		close(thing->fd);
	thing->fd = -1;
}

static void use_thing(struct input *in)
{
	static uint8_t bytes[64];
	uint8_t at = take8(in), how = take8(in);
	struct thing *thing = f.n ? &f.things[at % f.n] : NULL;
	struct sockaddr_storage name;
	socklen_t len = sizeof(name);
	struct sock_ref ref;

	if (!thing || thing->fd < 0 || !is_there(thing))
		return;
	ref = fd_get(thing->fd);
	if (how & 1 || !ref.sk)
		close_thing(thing);
	else if (sock_is_exported(ref.sk))
		share_request(ref); /* a call would wait for it */
	else if (how & 2)
		(void)getsockname(thing->fd, (struct sockaddr *)&name, &len);
	else
		(void)recv(thing->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
}

/* ---- what is true --------------------------------------------------------------------------------- */

/* A descriptor with a socket of ours is a socket of the kernel, and the twin is one of its own. */
static void check_table(void)
{
	for (int fd = fd_next(0); fd >= 0; fd = fd_next(fd + 1)) {
		struct sock_ref ref = fd_get(fd);
		int protocol = 0;
		socklen_t len = sizeof(protocol);

		check(ref.sk && sock_ref_valid(ref) && !sys_fd_is_hidden(fd));
		check(!sys_getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len));
		check(protocol == IPPROTO_TCP || protocol == IPPROTO_UDP);
	}
}

static unsigned count_socks(void)
{
	unsigned n = 0;

	check(control_lock());
	list_for_each(link, sock_list()) {
		(void)link;
		n++;
	}
	control_unlock();
	return n;
}

/* ---- begin and end -------------------------------------------------------------------------------- */

static void begin(void)
{
	f.n = 0;
	f.sockets.len = f.local.len = 0;
	f.sockets.set = f.local.set = false;
	f.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static void execute(void)
{
	f.sockets.bytes[f.sockets.len] = f.local.bytes[f.local.len] = 0;
	if (f.sockets.set)
		inherited_take(f.sockets.bytes);
	progress_stop();
	if (f.local.set)
		inherited_take_local(f.local.bytes);
	progress_stop();
	check_table();
}

static void end(void)
{
	for (unsigned i = 0; i < f.n; i++)
		close_thing(&f.things[i]);
	for (unsigned i = 0; i < f.n; i++)
		sys_close_fd(&f.things[i].other);
	close(f.wake);
	run_library();
	check(fd_next(0) < 0);
	check(list_empty(&share_process.channels) && list_empty(&share_process.kept));
	check(!share_process.up && !count_socks());
}

static void run_input(struct input in)
{
	static void (*const before[])(struct input *) = {add_thing, add_item, add_bytes};
	static void (*const after[])(struct input *) = {send_message, use_thing};
	unsigned n = 0;
	uint8_t op;

	begin();
	while (in.size && (op = take8(&in)) < EXECUTE)
		before[op % 3](&in);
	execute();
	while (in.size && n++ < MESSAGES) {
		op = take8(&in);
		after[op & 1](&in);
		if (op & 2)
			run_library();
		check_table();
	}
	end();
}

/* As sock_init() has begun it; it has no internal thread: the target calls what that would. */
static void begin_process(void)
{
	static const uint8_t first[] = {0, PACKED, 0, 0, 1, 1, 0, OF_A_THING, 1, 0, EXECUTE};
	int some = eventfd(0, EFD_CLOEXEC);

	/* Then fewer of the addresses are the host's. */
	if (!host_make())
		fprintf(stderr, "the namespace stays as it is\n");
	host_choose_addresses();
	log_set_level(LOG_NONE);
	params.local = 1;
	params.local_mem = 64;
	check(control_lock());
	share_init();
	check(sock_start() && local_available() && share_watch(some));
	control_unlock();
	progress_stop();
	close(some);
	run_input((struct input){first, sizeof(first)}); /* what stays open for good */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool begun;
	unsigned fds, segments;

	if (!begun)
		begin_process();
	begun = true;
	fds = count_descriptors();
	segments = count_segments();
	run_input((struct input){data, size});
	check(count_descriptors() == fds && count_segments() == segments);
	return 0;
}
