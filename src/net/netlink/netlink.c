/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests to the kernel and its events.  libnl parses the messages, but the sockets are our
 * own: libnl would open and close them through the functions that the library replaces, and
 * would map the kernel's errno to its own, fewer error numbers.
 */
#include "net/netlink/netlink.h"

#include <assert.h>
#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <pthread.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/sys.h"
#include "net/netlink/netlink_internal.h"

#define GROUP(name) (1u << (RTNLGRP_##name - 1))
#define GROUPS                                                                                    \
	(GROUP(LINK) | GROUP(NEIGH) | GROUP(IPV4_IFADDR) | GROUP(IPV4_ROUTE) | GROUP(IPV4_RULE) | \
	 GROUP(IPV6_IFADDR) | GROUP(IPV6_ROUTE) | GROUP(IPV6_RULE) | GROUP(IPV4_NETCONF))
#define EVENT_BYTES (1 << 20) /* receive buffer for bursts of some thousand events */
#define EVENTS_MAX 1024	      /* datagrams per netlink_process(); the rest stays readable */
#define DUMP_TRIES 5	      /* tries to read a table that keeps changing */
#define ANSWER_TIMEOUT 2      /* seconds; the kernel answers before send() returns */

/* The mutex guards all fields but the atomic ones. */
static struct {
	pthread_mutex_t mutex;
	int event_fd; /* any, atomic; written with the mutex */
	int request_fd;
	pid_t pid;	/* any, atomic: the process that opened it */
	uint64_t netns; /* any, atomic: cookie of its namespace (SO_NETNS_COOKIE); 0: unknown */
	/* any, atomic: the inode of the namespace with the cookie named; 0: unknown */
	uint64_t inode;
	uint64_t named; /* a forked process keeps both */
	uint32_t seq;
	bool ready;  /* the tables are initialised, perhaps empty */
	bool resync; /* events were lost: read the tables again */
	const struct netlink_events *events;
	uint8_t buffer[65536] __attribute__((aligned(NLMSG_ALIGNTO)));
} nl = {.mutex = PTHREAD_MUTEX_INITIALIZER, .event_fd = -1, .request_fd = -1};

uint32_t netlink_generation_now = 1;

void netlink_lock(void)
{
	mutex_lock(&nl.mutex);
	if (!nl.ready) {
		cache_init();
		nl.ready = true;
	}
}

void netlink_unlock(void)
{
	mutex_unlock(&nl.mutex);
}

/* ---- requests ---------------------------------------------------------------- */

void netlink_request_init(struct netlink_request *rq, uint16_t type, uint16_t flags,
			  const void *head, size_t len)
{
	memset(rq, 0, sizeof(*rq));
	rq->hdr.nlmsg_type = type;
	rq->hdr.nlmsg_flags = NLM_F_REQUEST | flags;
	rq->hdr.nlmsg_len = (uint32_t)(NLMSG_HDRLEN + NLMSG_ALIGN(len));
	memcpy(rq->bytes + NLMSG_HDRLEN, head, len);
}

void netlink_request_attr(struct netlink_request *rq, uint16_t type, const void *data, size_t len)
{
	struct nlattr attr = {.nla_len = (uint16_t)(NLA_HDRLEN + len), .nla_type = type};
	uint8_t *end = rq->bytes + rq->hdr.nlmsg_len;

	assert(rq->hdr.nlmsg_len + NLA_HDRLEN + NLA_ALIGN(len) <= sizeof(rq->bytes));
	memcpy(end, &attr, sizeof(attr));
	memcpy(end + NLA_HDRLEN, data, len);
	rq->hdr.nlmsg_len += (uint32_t)(NLA_HDRLEN + NLA_ALIGN(len));
}

void netlink_request_addr(struct netlink_request *rq, uint16_t type, const struct inaddr *addr)
{
	if (addr_is_v4(addr))
		netlink_request_attr(rq, type, &addr->w[3], 4);
	else
		netlink_request_attr(rq, type, addr, 16);
}

bool netlink_attr_addr(const struct nlattr *attr, int family, struct inaddr *addr)
{
	uint32_t v4;

	if (family == AF_INET && nla_len(attr) == 4) {
		memcpy(&v4, nla_data(attr), 4);
		*addr = addr_v4(v4);
		return true;
	}
	if (family == AF_INET6 && nla_len(attr) == 16) {
		memcpy(addr, nla_data(attr), 16);
		return true;
	}
	return false;
}

/* Receives one datagram of the kernel into nl.buffer. Returns its length, or -errno. */
static ssize_t receive_datagram(int fd)
{
	struct sockaddr_nl from;
	struct iovec iov = {nl.buffer, sizeof(nl.buffer)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	do {
		msg.msg_name = &from;
		msg.msg_namelen = sizeof(from);
		n = sys_recvmsg(fd, &msg, 0);
	} while (n == -EINTR || (n >= 0 && from.nl_pid != 0)); /* not from the kernel */
	if (n >= 0 && (msg.msg_flags & MSG_TRUNC))
		return -ENOBUFS;
	return n;
}

/* The error in the message that ends an answer; 0 for an acknowledgement. */
static int final_error(struct nlmsghdr *msg)
{
	int error = 0; /* both message types begin with it */

	if (nlmsg_datalen(msg) >= (int)sizeof(error))
		memcpy(&error, nlmsg_data(msg), sizeof(error));
	return error;
}

/* Reads the answers to request nl.seq until the last message. */
static int read_answer(bool dump, netlink_reply_fn fn, void *arg)
{
	bool interrupted = false;

	for (;;) {
		ssize_t n = receive_datagram(nl.request_fd);
		struct nlmsghdr *msg = (struct nlmsghdr *)(void *)nl.buffer;
		int len = (int)n;

		if (n <= 0)
			return n < 0 ? (int)n : -EIO;
		for (; nlmsg_ok(msg, len); msg = nlmsg_next(msg, &len)) {
			if (msg->nlmsg_seq != nl.seq)
				continue; /* an answer to an abandoned request */
			interrupted |= msg->nlmsg_flags & NLM_F_DUMP_INTR;
			if (msg->nlmsg_type == NLMSG_ERROR)
				return final_error(msg);
			if (msg->nlmsg_type == NLMSG_DONE) {
				int error = final_error(msg);

				return error ? error : interrupted ? -EINTR : 0;
			}
			if (fn)
				fn(msg, arg);
			if (!dump)
				return 0;
		}
	}
}

int netlink_ask(struct netlink_request *rq, netlink_reply_fn fn, void *arg)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	ssize_t n;

	if (nl.request_fd < 0)
		return -ENOTCONN;
	rq->hdr.nlmsg_seq = ++nl.seq;
	do
		n = sys_sendto(nl.request_fd, rq, rq->hdr.nlmsg_len, 0,
			       (struct sockaddr *)(void *)&kernel, sizeof(kernel));
	while (n == -EINTR);
	if (n < 0)
		return (int)n;
	return read_answer((rq->hdr.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP, fn, arg);
}

int netlink_dump(uint16_t type, size_t head_len, netlink_reply_fn fn, void *arg)
{
	static const uint8_t head[32]; /* zero: any family, any interface */
	struct netlink_request rq;
	int rc = -EINTR;

	for (int i = 0; i < DUMP_TRIES && rc == -EINTR; i++) {
		netlink_request_init(&rq, type, NLM_F_DUMP, head, head_len);
		rc = netlink_ask(&rq, fn, arg);
	}
	return rc;
}

/* ---- open and close ---------------------------------------------------------- */

static int open_socket(uint32_t groups, int flags)
{
	struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = groups};
	struct timeval timeout = {.tv_sec = ANSWER_TIMEOUT};
	int bytes = EVENT_BYTES;
	int fd, rc;

	fd = sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | flags, NETLINK_ROUTE);
	if (fd < 0)
		return fd;
	fd = sys_fd_hide(fd);
	/* Best effort: these options are rarely needed. */
	sys_setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	if (groups && sys_setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		sys_setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	rc = sys_bind(fd, (struct sockaddr *)(void *)&addr, sizeof(addr));
	if (rc) {
		sys_close(fd);
		return rc;
	}
	return fd;
}

int netlink_dump_alone(uint16_t type, size_t head_len, netlink_reply_fn fn, void *arg)
{
	int rc;

	if (nl.request_fd >= 0)
		return netlink_dump(type, head_len, fn, arg);
	rc = nl.request_fd = open_socket(0, 0);
	if (rc < 0)
		return rc;
	rc = netlink_dump(type, head_len, fn, arg);
	sys_close_fd(&nl.request_fd);
	return rc;
}

static void apply_reply(struct nlmsghdr *msg, void *arg)
{
	cache_apply(msg);
}

static int dump_all(void)
{
	int rc = netlink_dump(RTM_GETLINK, sizeof(struct ifinfomsg), apply_reply, NULL);

	if (!rc)
		rc = netlink_dump(RTM_GETADDR, sizeof(struct ifaddrmsg), apply_reply, NULL);
	if (!rc)
		rc = netlink_dump(RTM_GETNEIGH, sizeof(struct ndmsg), apply_reply, NULL);
	return rc;
}

/* prefix: see changes_note(). */
static void next_generation(const struct route_prefix *prefix)
{
	uint32_t next = netlink_generation_now + 1;

	if (!next)
		next = 1;
	changes_note(next, prefix);
	/* Pairs with netlink_generation(): a reader of the new value sees the new tables. */
	__atomic_store_n(&netlink_generation_now, next, __ATOMIC_RELEASE);
}

/* Mutex. */
static void set_event_fd(int fd)
{
	/* Read by netlink_fd(); nothing is ordered by it. */
	__atomic_store_n(&nl.event_fd, fd, __ATOMIC_RELAXED);
}

static void close_all(bool abandon)
{
	int fd = nl.event_fd;

	set_event_fd(-1); /* first: no thread gets the number of a closed descriptor from now on */
	sys_close_fd(&fd);
	sys_close_fd(&nl.request_fd);
	nl.events = NULL;
	nl.resync = false;
	cache_fini(abandon);
	route_cache_fini(abandon);
	next_generation(NULL);
}

static uint64_t netns_of(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	return sys_getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) ? 0 : cookie;
}

bool netlink_is_of(int fd)
{
	uint64_t ours = __atomic_load_n(&nl.netns, __ATOMIC_RELAXED), its;

	if (!ours)
		return true;
	its = netns_of(fd);
	return !its || its == ours;
}

/*
 * Mutex, by the thread whose namespace it is. A forked process knows the inode from its parent, and does
 * not look below /proc/thread-self: if another thread than the first one has, the kernel may spin for
 * milliseconds in the wait(2) of the parent (Linux 6.18).
 */
static void find_inode(uint64_t cookie)
{
	uint64_t inode;

	if (cookie && cookie == nl.named)
		return;
	inode = sys_network_namespace();
	nl.named = inode ? cookie : 0;
	/* Read by netlink_namespace(); nothing is ordered by it. */
	__atomic_store_n(&nl.inode, inode, __ATOMIC_RELAXED);
}

uint64_t netlink_namespace(void)
{
	return __atomic_load_n(&nl.inode, __ATOMIC_RELAXED);
}

int netlink_open(const struct netlink_events *events)
{
	struct cache_event *ignored;
	int rc;

	netlink_lock();
	if (nl.event_fd >= 0) {
		netlink_unlock();
		return -EALREADY;
	}
	__atomic_store_n(&nl.pid, sys_getpid(), __ATOMIC_RELAXED);
	/* Events first: a change while the tables are read follows as an event. */
	rc = open_socket(GROUPS, SOCK_NONBLOCK);
	set_event_fd(rc < 0 ? -1 : rc);
	__atomic_store_n(&nl.netns, rc < 0 ? 0 : netns_of(rc), __ATOMIC_RELAXED);
	find_inode(nl.netns);
	if (rc >= 0)
		rc = nl.request_fd = open_socket(0, 0);
	if (rc >= 0)
		rc = dump_all();
	if (rc < 0) {
		close_all(false);
	} else {
		cache_take_events(&ignored);
		mem_free(ignored);
		nl.events = events;
	}
	netlink_unlock();
	return rc < 0 ? rc : 0;
}

void netlink_close(void)
{
	/* Before the mutex, which nobody may be able to release in a child. */
	bool child = __atomic_load_n(&nl.pid, __ATOMIC_RELAXED) != sys_getpid();

	if (child) /* the thread that may hold it exists in the parent only */
		nl.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	netlink_lock();
	if (nl.event_fd >= 0)
		close_all(child);
	netlink_unlock();
}

/* ---- events ------------------------------------------------------------------ */

int netlink_fd(void)
{
	return __atomic_load_n(&nl.event_fd, __ATOMIC_RELAXED);
}

void netlink_expire(void)
{
	netlink_lock();
	next_generation(NULL);
	netlink_unlock();
}

bool netlink_pending(void)
{
	struct pollfd pfd = {.fd = nl.event_fd, .events = POLLIN};
	struct timespec now = {0};

	return nl.event_fd >= 0 && sys_ppoll(&pfd, 1, &now, NULL) > 0;
}

/* Reads the tables again and removes entries that no longer exist. */
static void read_tables_again(void)
{
	int rc;

	nl.resync = false;
	cache_sweep_begin();
	rc = dump_all();
	if (rc)
		log_warn(
			"netlink: events were lost and the tables cannot be read again (error %d); "
			"links and addresses may be out of date",
			rc);
	else
		cache_sweep_end();
	next_generation(NULL);
}

/* Processes one datagram. False if there is none. */
static bool process_one(void)
{
	struct nlmsghdr *msg = (struct nlmsghdr *)(void *)nl.buffer;
	ssize_t n = receive_datagram(nl.event_fd);
	struct route_prefix prefix;
	int len = (int)n;

	if (n == -ENOBUFS) {
		/*
		 * Events were lost, and older ones may still be queued. The tables are read after
		 * the queue is empty, because older events would undo newer state.
		 */
		nl.resync = true;
		return true;
	}
	if (n <= 0) {
		if (!nl.resync)
			return false;
		read_tables_again();
		return true;
	}
	for (; nlmsg_ok(msg, len); msg = nlmsg_next(msg, &len)) {
		if (cache_apply(msg))
			next_generation(route_parse_prefix(msg, &prefix) ? &prefix : NULL);
	}
	return true;
}

static void deliver_events(const struct netlink_events *to, const struct cache_event *events,
			   size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct cache_event *e = &events[i];
		struct endpoint ep = {.addr = e->addr};

		if (e->kind == CACHE_LINK)
			to->link(e->ifindex);
		else if (e->kind == CACHE_NEIGH)
			to->neigh(e->ifindex, &e->addr, e->state, e->mac);
		if (e->kind != CACHE_ADDR || !to->addr)
			continue;
		ep.scope = addr_needs_scope(&ep.addr) ? (uint32_t)e->ifindex : 0;
		to->addr(&ep, e->present);
	}
}

void netlink_process(void)
{
	const struct netlink_events *to;
	struct cache_event *events;
	bool more = true;
	size_t n;

	for (int i = 0; i < EVENTS_MAX && more; i++) {
		netlink_lock();
		more = nl.event_fd >= 0 && process_one();
		n = cache_take_events(&events);
		to = nl.events;
		netlink_unlock();
		if (to)
			deliver_events(to, events, n);
		mem_free(events);
	}
}

/* ---- questions --------------------------------------------------------------- */

int route_get(const struct route_query *query, struct route *route)
{
	int rc;

	netlink_lock();
	rc = route_lookup(query, netlink_generation_now, route);
	netlink_unlock();
	return rc;
}

int route_accepts(int ifindex, const struct inaddr *local, const struct inaddr *remote)
{
	int rc;

	netlink_lock();
	rc = route_ask_input(ifindex, local, remote);
	netlink_unlock();
	return rc;
}
