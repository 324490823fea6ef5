/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links and local connections: what another process of the host says in HELLO, LOCAL_CONNECT,
 * LOCAL_MOVE, LOCAL_MOVED and others, with any descriptors; what it writes into the memory of a link
 * and of a connection; snapshots of connections; names in the directory.  Whatever that is, connections
 * stay in their memory, and nothing is left when they and the peers have ended.
 *
 * Input	a byte that says what the listener is, then operations: a byte that selects one, and
 *		its operands.  Messages and snapshots are right but for changes that follow, so zeros
 *		are a good peer.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/unix_socket.h"
#include "fuzz/descriptors.h"
#include "fuzz/input.h"
#include "fuzz/local_sockets.h"
#include "fuzz/snapshots.h"
#include "sock/local/local_dir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PEER UINT64_C(0x7065657270656572) /* the name of the process that the input is */
#define PEER_PORT 5000
#define TOKEN UINT64_C(0x746f6b656e746f6b)
#define ROUNDS 8 /* more than links take to end */

/* A peer has up to two links to this process, and this process one to it. */
enum { INITIATES, INITIATES_TOO, RESPONDS, PEERS };

static struct {
	int peers[PEERS];      /* its ends of the links; -1: none */
	int listens;	       /* where this process reaches it */
	struct segment lanes;  /* of a link that it initiates */
	struct segment memory; /* of its connections */
	int wake;	       /* an eventfd */
	struct local_target_ref target;
} f;

/* ---- messages ---------------------------------------------------------------------------------- */

static struct inet_sock *connection(struct input *in)
{
	const struct sock_ref *ref = &conns[take8(in) % CONNS];

	return ref->sk && inet_of(ref->sk)->inet == INET_LOCAL ? inet_of(ref->sk) : NULL;
}

/* The memory that has the connection; -1: none. */
static int memory_of(const struct inet_sock *so)
{
	const struct segment *chunk;
	int fd;

	if (!so || !so->shm.shared)
		return -1;
	if (so->shm.own.base)
		return so->shm.own.fd;
	local_lock();
	chunk = local_link_chunk(so->shm.end.link, so->shm.end.number);
	fd = chunk->fd;
	local_unlock();
	return fd;
}

static void fill_connect(struct input *in, struct local_message *m)
{
	const struct inet_sock *so = inet_of(listener.sk);

	m->number = take8(in);
	m->socket = listener_number;
	m->size = LOCAL_RING_MIN;
	m->from = addrs[0];
	m->to = addr_is_any(&so->local.addr) ? addrs[0] : so->local.addr;
	m->from_port = htons(PEER_PORT);
	m->to_port = so->local.port;
	m->value[0] = (uint32_t)TOKEN;
	m->value[1] = TOKEN >> 32;
}

static void fill_move(struct local_message *m, const struct inet_sock *so)
{
	if (!so)
		return;
	m->socket = !local_side_of(so);
	m->size = so->shm.in.capacity;
	m->value[0] = (uint32_t)so->shm.token;
	m->value[1] = (uint32_t)(so->shm.token >> 32);
	m->value[2] = so->shm.moves_seen + 1;
	m->value[3] = so->shm.slot;
}

/* Sets what the kind needs; the descriptor that comes first with it, or -1. */
static int fill(struct input *in, struct local_message *m)
{
	struct inet_sock *so;

	switch (m->kind) {
	case LOCAL_HELLO:
		m->number = LOCAL_PROTOCOL;
		m->value[0] = (uint32_t)PEER;
		m->value[1] = PEER >> 32;
		return f.lanes.fd;
	case LOCAL_CONNECT:
		fill_connect(in, m);
		return f.memory.fd;
	case LOCAL_MOVE:
		m->number = take8(in);
		so = connection(in);
		fill_move(m, so);
		return memory_of(so);
	default:
		m->number = take8(in);
		m->value[0] = 1;
		return -1;
	}
}

static void change_message(struct input *in, struct local_message *m)
{
	unsigned n = take8(in) % 4;

	while (n--) {
		uint8_t at = take8(in) % (sizeof(*m) / 4);
		uint32_t by = take32(in), word;

		memcpy(&word, (uint8_t *)m + at * 4, sizeof(word));
		word ^= by;
		memcpy((uint8_t *)m + at * 4, &word, sizeof(word));
	}
}

static void send_message(struct input *in)
{
	int peer = f.peers[take8(in) % PEERS], fds[LOCAL_FDS], right;
	struct local_message m = {.kind = take8(in)};
	struct iovec iov = {&m, sizeof(m)};
	unsigned n, what;

	right = fill(in, &m);
	change_message(in, &m);
	what = take8(in);
	n = what % 8 ? what % 8 - 1 : right < 0 ? 0 : m.kind == LOCAL_HELLO ? LOCAL_HELLO_FDS : 1;
	n = n < LOCAL_FDS ? n : LOCAL_FDS;
	if (what & 8)
		iov.iov_len -= take8(in) % sizeof(m);
	for (unsigned i = 0; i < n; i++)
		fds[i] = make_descriptor(take8(in), i || right < 0 ? f.wake : right, f.memory.fd);
	if (peer >= 0)
		(void)unix_socket_send(peer, &iov, 1, fds, n);
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
	local_links_readable();
}

static void begin_link(struct input *in)
{
	unsigned which = take8(in) % RESPONDS;
	struct sockaddr_un un;
	socklen_t len =
		unix_socket_name(&un, "libvma-local-%016llx", (unsigned long long)local_name());

	if (f.peers[which] >= 0)
		return;
	f.peers[which] = unix_socket_new();
	check(!connect(f.peers[which], (struct sockaddr *)&un, len));
	local_links_readable();
}

static void end_link(struct input *in)
{
	sys_close_fd(&f.peers[take8(in) % PEERS]);
	local_links_readable();
}

/* ---- shared memory -------------------------------------------------------------------------------- */

static struct local_link *link_at(unsigned number)
{
	list_for_each(at, &local.links) {
		if (!number--)
			return container_of(at, struct local_link, link);
	}
	return NULL;
}

/* What both processes of a link write: lanes, and how often numbers were left. */
static void change_link(struct input *in)
{
	struct local_link *link = link_at(take8(in) % 4);
	uint16_t at = take16(in);
	uint64_t value;

	take(in, &value, sizeof(value));
	if (link && link->open)
		memcpy((uint8_t *)link->shared + at * 8u % sizeof(*link->shared), &value,
		       sizeof(value));
}

/* The words of a connection, which has this number on a link, or is this socket's. */
static void change_connection(struct input *in)
{
	struct local_link *link = link_at(take8(in) % 4);
	uint8_t number = take8(in), at = take8(in);
	const struct segment *chunk = link ? link->chunks[number / LOCAL_CHUNK] : NULL;
	struct local_shared *shared = NULL;
	uint64_t value;

	take(in, &value, sizeof(value));
	if (at & 0x80 && conns[number % CONNS].sk &&
	    inet_of(conns[number % CONNS].sk)->inet == INET_LOCAL)
		shared = inet_of(conns[number % CONNS].sk)->shm.shared;
	else if (chunk && chunk->base)
		shared = (void *)local_slot(chunk, number);
	if (shared)
		memcpy((uint8_t *)shared + (at & 0x7f) * 8 % sizeof(*shared), &value,
		       sizeof(value));
}

/* ---- the program ------------------------------------------------------------------------------------ */

static void accept_one(struct input *in)
{
	struct sock_ref *place = free_place();
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);

	if (place && tcp_sock_accept(listener, (struct sockaddr *)&from, &len,
				     SOCK_CLOEXEC | SOCK_NONBLOCK | SOCK_ACCEPT_QUEUED, place) < 0)
		check(!place->sk);
}

/* To a listener of the peer, or to that of this process. */
static void connect_one(struct input *in)
{
	struct endpoint to = {.addr = addrs[0], .port = htons(PEER_PORT)};
	struct sock_ref *place = free_place();
	bool ours = take8(in) & 1;
	int rc, fd;

	if (!place)
		return;
	if (ours)
		to.port = inet_of(listener.sk)->local.port;
	*place = new_socket();
	check(control_lock());
	rc = local_connect(inet_of(place->sk), &to);
	control_unlock();
	if (rc)
		close_socket(place);
	fd = accept4(f.listens, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	sys_close_fd(&f.peers[RESPONDS]);
	f.peers[RESPONDS] = fd;
}

/* A datagram socket's sender, whose end is of another kind. */
static void ask_for_datagrams(struct input *in)
{
	struct local_entry entry = {.process = PEER, .socket = take8(in)};
	struct endpoint to = {.addr = addrs[0], .port = htons(PEER_PORT)};

	if (f.target.target)
		return;
	check(control_lock());
	local_lock();
	if (local_target_get(inet_of(listener.sk), &entry, &addrs[0], &to, &f.target) !=
	    -EINPROGRESS)
		f.target.target = NULL;
	local_unlock();
	control_unlock();
	if (f.peers[RESPONDS] < 0)
		f.peers[RESPONDS] = accept4(f.listens, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static void move_bytes(struct input *in)
{
	static const int flags[] = {0,	       MSG_PEEK,	   MSG_OOB,
				    MSG_TRUNC, MSG_OOB | MSG_PEEK, MSG_WAITALL};
	static uint8_t bytes[LOCAL_RING_MAX];
	struct sock_ref ref = conns[take8(in) % CONNS];
	uint8_t way = take8(in);
	struct iovec iov = {bytes, take16(in)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	int how = MSG_DONTWAIT | flags[(way >> 1) % 6];
	ssize_t n;

	if (!ref.sk || sock_is_exported(ref.sk))
		return;
	if (way & 1)
		n = sock_ops_of(ref.sk)->send(ref, &msg, how & (MSG_DONTWAIT | MSG_OOB));
	else
		n = sock_ops_of(ref.sk)->recv(ref, &msg, how);
	check(n <= (ssize_t)iov.iov_len);
}

static void end_connection(struct input *in)
{
	struct sock_ref *ref = &conns[take8(in) % CONNS];
	uint8_t how = take8(in) % 4;

	if (!ref->sk)
		return;
	if (how == 3 || sock_is_exported(ref->sk))
		close_socket(ref);
	else
		(void)sock_ops_of(ref->sk)->shutdown(*ref, how);
}

/* As a thread that is about to sleep, and as the internal one. */
static void run(struct input *in)
{
	if (take8(in) & 1)
		ring_arm_fds_now(local_ring());
	check(ring_hold_cold(local_ring()));
	ring_poll(local_ring());
	ring_release_cold(local_ring());
	local_links_run(clock_now());
	local_moves_run();
	local_links_readable();
}

/* ---- snapshots ----------------------------------------------------------------------------------- */

/* It leaves, and comes back with changes; or as it was; or its owner has ended. */
static void move_away_and_back(struct input *in)
{
	struct inet_sock *so = connection(in);
	int fd, changed;

	if (!so)
		return;
	check(control_lock());
	if (transfer_export(so, 0, 0, &fd)) {
		control_unlock();
		return;
	}
	changed = change_snapshot(in, fd, f.wake);
	if (transfer_import(so, changed)) {
		check(sock_is_exported(&so->sk));
		(void)transfer_import(so, fd);
	}
	if (sock_is_exported(&so->sk))
		transfer_lost(so);
	sys_close(fd);
	close(changed);
	control_unlock();
}

/* ---- the directory ------------------------------------------------------------------------------- */

static bool is_hex(const char *text, size_t n)
{
	return strspn(text, "0123456789abcdef") >= n;
}

/* PROCESS-SOCKET or PROCESS-SOCKET-COOKIE. */
static bool is_entry(const char *name)
{
	size_t n = strlen(name);

	return n >= 25 && is_hex(name, 16) && strncmp(name, "0000000000000000", 16) != 0 &&
	       name[16] == '-' && is_hex(name + 17, 8) &&
	       (n == 25 || (n > 26 && n <= 42 && name[25] == '-' && name[26] != '0' &&
			    is_hex(name + 26, n - 26)));
}

static void make_file(const char *path, unsigned how)
{
	if (how == 1)
		check(!mkdir(path, 0700));
	else if (how == 2)
		check(!symlink("/dev/null", path));
	else
		close(open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, how == 3 ? 0644 : 0600));
}

/* A file beside the entry of the peer's listener. */
static void name_file(struct input *in)
{
	struct local_place place = {.proto = LOCAL_TCP,
				    .at = {.addr = addrs[0], .port = htons(PEER_PORT)}},
			   at;
	struct local_entry found[LOCAL_MEMBERS];
	char name[64] = "", path[256];
	unsigned how = take8(in) % 4, size = take8(in) % (sizeof(name) - 1);
	struct stat st;

	take(in, name, size);
	if (!*name || *name == '.' || strchr(name, '/'))
		return;
	check(!stat("/proc/thread-self/ns/net", &st));
	snprintf(path, sizeof(path), "/run/libvma/local3-%lu/t7f000001-%04x/%s",
		 (unsigned long)st.st_ino, PEER_PORT, name);
	if (!access(path, F_OK))
		return; /* it is the peer's */
	make_file(path, how);
	check(control_lock());
	check(local_dir_find(&place, &at, found) == (is_entry(name) && how == 0 ? 2 : 1));
	control_unlock();
	check(!remove(path));
}

/* ---- begin and end ------------------------------------------------------------------------------- */

static void on_signal(int number)
{
	abort();
}

static void begin_process(void)
{
	struct local_place place = {.proto = LOCAL_TCP,
				    .at = {.addr = addr_v4(htonl(INADDR_LOOPBACK)),
					   .port = htons(PEER_PORT)}};
	struct local_entry entry = {.process = PEER, .socket = 1};
	struct sockaddr_un un;
	socklen_t len = unix_socket_name(&un, "libvma-local-%016llx", (unsigned long long)PEER);

	signal(SIGPIPE, on_signal);
	process_begin();
	f.listens = unix_socket_new();
	check(!bind(f.listens, (struct sockaddr *)&un, len) && !listen(f.listens, 16));
	check(control_lock());
	check(!local_dir_add(&place, &entry));
	control_unlock();
}

static void begin(unsigned is)
{
	f.peers[0] = f.peers[1] = f.peers[2] = -1;
	f.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	check(!segment_create(&f.lanes, LOCAL_LINK_SEGMENT,
			      SEGMENT_HEADER + sizeof(struct link_shared)));
	check(!segment_create(&f.memory, LOCAL_SEGMENT, LOCAL_SEGMENT_SIZE));
	open_listener(is & 3, is & 4);
}

static void end_target(void)
{
	check(ring_hold_cold(local_ring()));
	if (f.target.target && local_target_of(&f.target))
		local_target_end(f.target.target);
	ring_release_cold(local_ring());
	f.target.target = NULL;
}

static void end(void)
{
	struct input none = {(const uint8_t *)"", 0};

	for (unsigned i = 0; i < CONNS; i++) {
		if (conns[i].sk)
			close_socket(&conns[i]);
	}
	close_socket(&listener);
	end_target();
	for (unsigned i = 0; i < PEERS; i++)
		sys_close_fd(&f.peers[i]);
	list_for_each(at, &local.links) /* to itself */
		shutdown(container_of(at, struct local_link, link)->sock, SHUT_RDWR);
	/* One that begins or ends others while it is read needs another round for each. */
	for (unsigned i = 0; i < ROUNDS && !list_empty(&local.links); i++)
		run(&none);
	check(list_empty(&local.links));
	segment_close(&f.lanes);
	segment_close(&f.memory);
	close(f.wake);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const ops[])(struct input *) = {
		begin_link,	   send_message,       run,	   change_connection, change_link,
		accept_one,	   connect_one,	       move_bytes, end_connection,    end_link,
		ask_for_datagrams, move_away_and_back, name_file,
	};
	struct input in = {data, size};
	static bool begun;
	unsigned fds, segments;

	if (!begun)
		begin_process();
	begun = true;
	fds = count_descriptors();
	segments = count_segments();
	begin(take8(&in));
	while (in.size) {
		ops[take8(&in) % (sizeof(ops) / sizeof(ops[0]))](&in);
		check_all();
	}
	end();
	check(count_descriptors() == fds && count_segments() == segments);
	check(local_memory_take((uint64_t)params.local_mem << 20)); /* all of it is free */
	local_memory_give((uint64_t)params.local_mem << 20);
	return 0;
}
