/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams through shared memory: what another process of the host says in messages and records.
 * Whatever that is, a datagram that a socket gets could have come from the kernel, and a sender writes
 * only into the memory that it got.  local_fuzz has the words of the rings.
 *
 * Input	a byte that says what the receiver is, then operations: a byte that selects one, and its
 *		operands.  Numbers, ports, and addresses of records are differences to those that are
 *		right, so zeros are a good peer; other addresses are chosen from `addrs`.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/mem.h"
#include "base/sys.h"
#include "fuzz/input.h"
#include "fuzz/local_host.h"
#include "net/netlink/netlink.h"
#include "ring/local/record_fan.h"
#include "ring/local/record_quick.h"
#include "sock/core/control.h"
#include "sock/local/local_group.h"
#include "sock/local/local_link_internal.h"
#include "sock/local/local_sock.h"
#include "sock/local/local_udp.h"
#include "sock/udp/udp_sock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PEER_PORT 5000
#define LINK_SEGMENT 1u /* kind of a link's segment; here of any other than a record ring's */
#define IFINDEX 3

/* Of the receiver. */
enum {
	IS_IPV6 = 1,
	IS_ANY = 2,
	IS_V6ONLY = 4,
	IS_CONNECTED = 16,
	IS_MEMBER = 32,
	IS_FILTERED = 64,
	IS_EXCLUDING = 128
};

static struct {
	struct inet_sock *so;
	struct local_udp *l;
	unsigned is;
	uint16_t lowest; /* port of a sender that it may hear */
	/* what a peer process has of it */
	struct local_link link;
	int peer;			  /* the other end of link.sock */
	uint32_t answered;		  /* the numbers of addresses of the last LOCAL_RECORDS */
	uint64_t last;			  /* the position of the last record */
	struct record_ring_writer writer; /* if shared is not NULL */
	/* so as a sender */
	struct local_target_ref to;
	int host; /* the end of the link to the process itself, whose answers are the input's */
} f;

/* ---- input --------------------------------------------------------------------------------- */

static struct inaddr take_addr(struct input *in)
{
	uint8_t which = take8(in);
	struct inaddr addr;

	if (which < ADDRS)
		return which || !(f.is & IS_IPV6) ? addrs[which] : addrs[1];
	take(in, &addr, sizeof(addr));
	return addr;
}

/* ---- the receiver -------------------------------------------------------------------------- */

static void join(void)
{
	size_t size = sizeof(struct local_groups) + sizeof(struct local_membership) +
		      sizeof(struct inaddr);
	struct local_groups *g = mem_zalloc(size);

	check(g != NULL);
	g->n = g->n_sources = 1;
	g->all = f.is & IS_EXCLUDING;
	g->m[0] = (struct local_membership){.group = addrs[3],
					    .ifindex = IFINDEX,
					    .filtered = f.is & IS_FILTERED,
					    .exclude = f.is & IS_EXCLUDING,
					    .n = 1};
	local_groups_sources(g)[0] = addrs[0];
	f.l->groups = g;
	f.l->grouped = true;
}

static struct inet_sock *open_receiver(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	struct sockaddr_in6 at6 = {.sin6_family = AF_INET6};
	bool ipv6 = f.is & IS_IPV6, any = f.is & IS_ANY;
	int fd = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;

	if (f.is & IS_V6ONLY)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (!any)
		at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (!any)
		at6.sin6_addr = in6addr_loopback;
	if (ipv6)
		return local_receiver_open(fd, (struct sockaddr *)&at6, sizeof(at6));
	return local_receiver_open(fd, (struct sockaddr *)&at, sizeof(at));
}

static void begin_link(void)
{
	int fds[2];

	check(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds));
	f.peer = fds[1];
	f.link = (struct local_link){.sock = fds[0], .open = true, .segment = SEGMENT_NONE};
	f.link.wake_fd = f.link.peer_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	list_init(&f.link.wanting);
	check(!segment_create(&f.link.segment, LINK_SEGMENT,
			      SEGMENT_HEADER + sizeof(struct link_shared)));
	f.link.shared = segment_at(&f.link.segment, SEGMENT_HEADER, sizeof(struct link_shared), 64);
	check(!notice_writer_open(&f.link.out, &f.link.shared->to_initiator, NOTICE_CONNS,
				  f.link.peer_fd));
}

static void begin(unsigned is)
{
	static local_handler *const no_handlers[LOCAL_KINDS];
	static const struct netlink_events events;
	static bool begun;

	if (!begun) {
		host_begin(no_handlers);
		check(!netlink_open(&events));
		f.host = -1;
	}
	begun = true;
	f.is = is;
	f.so = open_receiver();
	check(f.so != NULL);
	f.l = f.so->udp.local;
	f.lowest = LOCAL_LOW_PORTS;
	if (is & IS_MEMBER)
		join();
	if (is & IS_CONNECTED) {
		f.so->remote = (struct endpoint){.addr = addrs[is & IS_IPV6 ? 1 : 0],
						 .port = htons(PEER_PORT)};
		f.so->udp.connected = true;
	}
	f.answered = 0;
	f.writer.shared = NULL;
	f.to.target = NULL;
	begin_link();
}

static void end_target(void)
{
	if (f.to.target && local_target_of(&f.to))
		local_target_end(f.to.target);
	f.to.target = NULL;
}

static void end(void)
{
	struct local_message m;
	int fds[LOCAL_FDS];
	unsigned n;

	check(ring_hold_cold(local_ring()));
	for (uint32_t i = 0; i < f.link.n_ends; i++) {
		if (f.link.ends[i])
			f.link.ends[i]->ops->died(f.link.ends[i]);
	}
	end_target();
	check(!f.link.used && list_empty(&f.link.wanting));
	ring_release_cold(local_ring());
	f.l->grouped = false; /* it has no entry */
	local_receiver_close(f.so);
	close(f.link.sock);
	close(f.link.wake_fd);
	close(f.peer);
	segment_close(&f.link.segment);
	mem_free(f.link.ends);
	mem_free(f.link.begun);
	mem_free(f.link.left);
	while (f.host >= 0 && local_wire_receive(f.host, &m, fds, &n) > 0)
		for (unsigned i = 0; i < n; i++)
			sys_close(fds[i]);
}

/* ---- a peer that sends --------------------------------------------------------------------- */

static bool is_hosts(const struct inaddr *addr)
{
	return addr_is_loopback(addr) || link_of_addr(addr);
}

static void check_addresses(void)
{
	check(f.l->n_addrs <= LOCAL_ADDRESSES);
	for (uint32_t i = 0; i < f.l->n_addrs; i++)
		check(is_hosts(&f.l->addrs[i]));
}

/* The answer to LOCAL_ASK from a port; with a ring, the peer writes there from now on. */
static void read_answer(uint16_t port)
{
	struct local_message m;
	int fds[LOCAL_FDS];
	unsigned n;

	check(local_wire_receive(f.peer, &m, fds, &n) == 1);
	check(m.kind == LOCAL_RECORDS && n <= 1);
	if (!n)
		return;
	sys_close(fds[0]);
	check(f.l->segment.base && m.size == f.l->reader.cells);
	check(m.value[0] < RECORD_WRITERS && (m.value[2] >> 16) <= LOCAL_NO_ADDRESS &&
	      (m.value[2] & 0xffff) <= LOCAL_NO_ADDRESS);
	f.answered = m.value[2];
	check(port != 0);
	if (ntohs(port) < f.lowest)
		f.lowest = ntohs(port);
	/* -EPROTO: it has spoilt the ring. */
	if (record_ring_writer_open(&f.writer, f.l->reader.shared, m.size, m.value[0]))
		f.writer.shared = NULL;
}

static void ask(struct input *in)
{
	struct local_message m = {.kind = LOCAL_ASK};
	bool good;

	m.socket = f.l->entry.socket + take8(in);
	m.number = take32(in);
	m.from = take_addr(in);
	m.to = take_addr(in);
	m.from_port = htons(PEER_PORT) ^ take16(in);
	m.to_port = f.so->local.port ^ take16(in);
	local_lock();
	good = local_take_ask(&f.link, &m, NULL, 0);
	local_unlock();
	if (good)
		read_answer(m.from_port);
	check_addresses();
}

enum { AS_RECORD, AS_FAN, AS_MARK, AS_WAYS };

static uint32_t take_record_addr(struct input *in, uint32_t right)
{
	uint8_t which = take8(in);

	if (which < ADDRS)
		return which ? addrs[which].w[3] : right;
	return take32(in);
}

static struct record_header take_header(struct input *in, unsigned way)
{
	struct record_header h = {.from_port = htons(PEER_PORT), .to_port = f.so->local.port};
	bool ipv6 = f.is & IS_IPV6, group = way == AS_FAN;

	h.from = take_record_addr(in, ipv6 ? f.answered >> 16 : addr_v4_of(&addrs[0]));
	h.to = take_record_addr(in, ipv6    ? f.answered & 0xffff
				    : group ? addr_v4_of(&addrs[3])
					    : addr_v4_of(&addrs[0]));
	h.from_port ^= take16(in);
	h.to_port ^= take16(in);
	h.ifindex = (group ? IFINDEX : 0) ^ take32(in);
	h.flags = (group ? RECORD_GROUP : ipv6 ? RECORD_IPV6 : 0) ^ take8(in);
	h.ttl = take8(in);
	h.tos = take8(in);
	return h;
}

/* The place of the last record's header, in the ring. */
static struct record_header *last_header(void)
{
	return record_at(f.writer.data, (uint32_t)f.last & (f.writer.cells - 1));
}

static void write_record(struct input *in)
{
	static uint8_t bytes[RECORD_MAX];
	unsigned way = take8(in) % AS_WAYS, failed;
	struct record_header h = take_header(in, way);
	struct iovec iov = {bytes, take16(in)};
	struct record_part part = {.writer = &f.writer};
	uint16_t more = take16(in);
	int rc;

	if (!f.writer.shared || iov.iov_len > RECORD_MAX)
		return;
	f.last = record_ring_written(&f.writer);
	if (way == AS_RECORD)
		rc = record_ring_write(&f.writer, &h, &iov, 1, iov.iov_len);
	else if (way == AS_FAN)
		rc = record_fan_write(&part, 1, &h, &iov, &failed);
	else
		rc = record_ring_mark(&f.writer, &h);
	if (!rc)
		last_header()->len = (uint16_t)(last_header()->len + more);
}

/* A word of the ring, or of the last header. */
static void change_word(struct input *in)
{
	uint8_t at = take8(in);
	uint64_t value;

	take(in, &value, sizeof(value));
	if (!f.writer.shared)
		return;
	if (at & 1)
		memcpy((uint8_t *)last_header() + (at >> 1) % 4 * 8, &value, sizeof(value));
	else
		memcpy((uint8_t *)f.writer.shared + (at >> 1) % 32 * 8, &value, sizeof(value));
}

/* ---- the socket receives ------------------------------------------------------------------- */

/* As the kernel: a socket hears nothing else. */
static void check_datagram(const struct pkt *pkt)
{
	struct endpoint from = frame_source(pkt), to = frame_destination(pkt);
	bool group = pkt->flags & PKT_LOOPED;

	check(pkt->off + pkt->len == pkt->frame_len && pkt->len <= RECORD_MAX);
	check(is_hosts(&from.addr) && ntohs(from.port) >= f.lowest);
	check(to.port == f.so->local.port && !addr_is_any(&to.addr));
	check(addr_is_v4(&from.addr) == addr_is_v4(&to.addr));
	check(!addr_is_v4(&to.addr) || !(f.is & IS_IPV6) ||
	      ((f.is & IS_ANY) && !(f.is & IS_V6ONLY)));
	check(addr_is_v4(&to.addr) || f.is & IS_IPV6);
	check(group ? (f.is & IS_MEMBER) && addr_is_multicast(&to.addr) && pkt->ifindex > 0
		    : is_hosts(&to.addr));
	if (f.is & IS_CONNECTED)
		check(from.port == f.so->remote.port && addr_eq(&from.addr, &f.so->remote.addr));
}

static void check_queue(void)
{
	for (const struct pkt *pkt = f.so->udp.head; pkt; pkt = pkt->next)
		check_datagram(pkt);
}

static void read_quickly(bool named, size_t size)
{
	static uint8_t bytes[256];
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	struct inaddr addr;
	ssize_t n;

	n = sock_ops_of(&f.so->sk)->quick_recvfrom(-1, bytes, size, 0,
						   named ? (struct sockaddr *)&from : NULL,
						   named ? &len : NULL, sock_ref_of(f.so));
	check(n <= (ssize_t)size);
	if (n < 0 || !named)
		return;
	addr = addr_v4(from.sin_addr.s_addr);
	check(is_hosts(&addr) && ntohs(from.sin_port) >= f.lowest);
}

static void read_datagram(size_t size)
{
	static uint8_t bytes[256];
	struct sockaddr_storage from;
	struct iovec iov = {bytes, size};
	struct msghdr msg = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1};

	check(ring_hold_cold(local_ring()));
	if (f.so->udp.head)
		check(udp_take(f.so, &msg, 0) <= (ssize_t)size);
	ring_release_cold(local_ring());
}

static struct local_end *end_at(uint16_t number)
{
	return number < f.link.n_ends ? f.link.ends[number] : NULL;
}

static void receive(struct input *in)
{
	uint8_t way = take8(in);
	uint16_t number = take16(in);
	struct local_end *at;

	if (way % 4 == 0)
		read_quickly(way & 4, number & 0xff);
	else if (way % 4 == 1)
		read_datagram(number & 0xff);
	check(ring_hold_cold(local_ring()));
	at = end_at(number);
	if (way % 4 == 2 && at)
		(way & 4 ? at->ops->look : at->ops->notice)(at);
	else if (way % 4 == 3)
		local_pull(f.l, LOCAL_PULL_MAX);
	check_queue();
	ring_release_cold(local_ring());
}

static void peer_dies(struct input *in)
{
	struct local_end *at = end_at(take16(in));

	check(ring_hold_cold(local_ring()));
	if (at)
		at->ops->died(at);
	ring_release_cold(local_ring());
}

/* ---- the socket sends, and the peer answers ------------------------------------------------- */

static void begin_sending(struct input *in)
{
	struct local_entry entry = {.process = local_name(), .socket = take8(in)};
	struct inaddr from = take_addr(in);
	struct endpoint to = {.addr = take_addr(in), .port = htons(PEER_PORT)};

	check(control_lock());
	local_lock();
	check(ring_hold_cold(local_ring()));
	end_target();
	ring_release_cold(local_ring());
	if (local_target_get(f.so, &entry, &from, &to, &f.to) != -EINPROGRESS)
		f.to.target = NULL;
	local_unlock();
	control_unlock();
	/* Its own end of the link, once. */
	if (f.host < 0)
		f.host = sys_accept4(local.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* Memory of another kind, of another size, or with words that cannot be, is refused. */
static int make_segment(struct input *in, uint32_t cells)
{
	uint8_t what = take8(in);
	struct record_ring_reader reader;
	struct segment segment;
	uint64_t tail;
	int fd;

	take(in, &tail, what & 8 ? sizeof(tail) : 0);
	if (what & 1)
		return -1;
	if (cells < RECORD_CELLS_MIN || cells > 4 * RECORD_CELLS_MIN || what & 2)
		cells = RECORD_CELLS_MIN;
	if (segment_create(&segment, what & 4 ? LINK_SEGMENT : LOCAL_RECORDS_SEGMENT,
			   local_records_size(cells)))
		return -1;
	if (!record_ring_init(&reader, local_records(&segment, cells), cells, cells) && what & 8)
		reader.shared->tail ^= tail;
	fd = sys_fd_copy(segment.fd);
	segment_close(&segment);
	return fd;
}

static void answer(struct input *in)
{
	struct local_target *t = f.to.target ? local_target_of(&f.to) : NULL;
	struct local_message m = {.kind = LOCAL_RECORDS};
	int fd;

	m.number = (t ? t->end.number : 0) ^ take16(in);
	m.size = RECORD_CELLS_MIN ^ take32(in);
	take(in, m.value, 3 * sizeof(m.value[0]));
	fd = make_segment(in, m.size);
	if (!t) {
		sys_close_fd(&fd);
		return;
	}
	local_lock();
	local_take_records(t->end.link, &m, &fd, fd >= 0);
	local_unlock();
}

/* Whatever was answered, it writes into the memory of its own mapping. */
static void send_record(struct input *in)
{
	static uint8_t bytes[RECORD_MAX];
	struct local_target *t = f.to.target ? local_target_of(&f.to) : NULL;
	struct iovec iov = {bytes, take16(in)};
	struct record_header h;
	int rc;

	if (!t || t->state != TARGET_OPEN)
		return;
	h = (struct record_header){.from = t->record.from, .to = t->record.to};
	check(t->writer.number <= RECORD_WRITERS);
	check((uint8_t *)t->writer.shared >= t->segment.base &&
	      t->writer.data + (size_t)t->writer.cells * RECORD_CELL <=
		      t->segment.base + t->segment.size);
	check(ring_hold_cold(local_ring()));
	rc = record_ring_write(&t->writer, &h, &iov, 1, iov.iov_len);
	check(!rc || rc == -ENOBUFS || rc == -EPROTO || rc == -EPIPE || rc == -EMSGSIZE);
	ring_release_cold(local_ring());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const ops[])(struct input *) = {
		ask,	   write_record,  receive, change_word,
		peer_dies, begin_sending, answer,  send_record,
	};
	struct input in = {data, size};

	begin(take8(&in));
	while (in.size)
		ops[take8(&in) % (sizeof(ops) / sizeof(ops[0]))](&in);
	end();
	return 0;
}
