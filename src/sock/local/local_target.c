/* SPDX-License-Identifier: BSD-2-Clause */
/* Senders of datagrams through shared memory, and the receivers that they know; see local_udp.h. */
#include <errno.h>
#include <linux/futex.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/unix_socket.h"
#include "net/netlink/netlink.h"
#include "ring/capture.h"
#include "sock/local/local.h"
#include "sock/local/capture/local_capture.h"
#include "sock/local/local_choice.h"
#include "sock/local/local_sock.h"
#include "sock/local/local_udp.h"
#include "sock/udp/udp_sock.h"

#define ANSWER_MAX NSEC_PER_SEC /* a process that is stopped does not answer */
/*
 * In the reference of a destination: the home of its socket is not local_ring(), so no call writes
 * there at once (local_udp_quick.c).
 */
#define BESIDE 0x80000000u
/* Likewise: which of several sockets receives may change with the directory, or each second. */
#define SHARED 0x40000000u
/* Likewise: what is sent there is captured. */
#define CAPTURED 0x20000000u

static struct list targets; /* lock */

/* ---- targets ---------------------------------------------------------------------------------- */

/* holder: stores the state; tells those that wait for it. */
static void set_state(struct local_target *t, enum local_target_state state)
{
	/* release: pairs with local_await() */
	__atomic_store_n(&t->state, state, __ATOMIC_RELEASE);
	sys_call(SYS_futex, &t->state, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* holder: the receiver is not reached by it any more. */
static void end_target(struct local_target *t, enum local_target_state state)
{
	__atomic_store_n(&t->gen, t->gen + 1, __ATOMIC_RELAXED);
	local_end_leave(&t->end);
	segment_close(&t->segment);
	set_state(t, state);
}

void local_target_end(struct local_target *t)
{
	end_target(t, TARGET_UNUSED);
}

static struct local_target *target_of(struct local_end *end)
{
	return container_of(end, struct local_target, end);
}

/* The receiver closed its ring, or the number's last user left. */
static void on_notice(struct local_end *end)
{
	struct local_target *t = target_of(end);

	if (t->state == TARGET_OPEN && record_ring_is_closed(&t->writer))
		end_target(t, TARGET_UNUSED);
}

static void on_death(struct local_end *end)
{
	end_target(target_of(end), TARGET_UNUSED);
}

static const struct local_end_ops target_ops = {.notice = on_notice, .died = on_death};

/* A receiver believes what it was asked for, and all that is not low. */
static bool serves(const struct local_target *t, uint16_t port)
{
	return t->asked_port == port || (!t->port && !local_is_low(port));
}

/* lock: a target that is open, or was asked. */
static struct local_target *find_target(const struct local_target *like)
{
	list_for_each(at, &targets) {
		struct local_target *t = container_of(at, struct local_target, link);
		uint32_t state = __atomic_load_n(&t->state, __ATOMIC_RELAXED);

		if (t->process == like->process && t->socket == like->socket &&
		    addr_eq(&t->from, &like->from) && addr_eq(&t->to, &like->to) &&
		    ((state == TARGET_OPEN && serves(t, like->asked_port)) ||
		     (state == TARGET_ASKED && t->asked_port == like->asked_port)))
			return t;
	}
	return NULL;
}

/*
 * lock: an object that is not in use; NULL: no memory.  One that was refused is in use by nobody, although
 * somebody may wait for it: local_await() sees by the generation that it has ended.
 */
static struct local_target *unused_target(void)
{
	struct local_target *t;

	list_for_each(at, &targets) {
		uint32_t state;

		t = container_of(at, struct local_target, link);
		state = __atomic_load_n(&t->state, __ATOMIC_RELAXED);
		if (state == TARGET_UNUSED || state == TARGET_REFUSED)
			return t;
	}
	t = mem_zalloc(sizeof(*t));
	if (!t)
		return NULL;
	t->segment = SEGMENT_NONE;
	t->end.ops = &target_ops;
	list_push_back(&targets, &t->link);
	return t;
}

static int ask(struct local_link *link, const struct local_target *t, const struct endpoint *to)
{
	struct local_message message = {.kind = LOCAL_ASK,
					.number = t->end.number,
					.socket = t->socket,
					.from = t->from,
					.from_port = t->asked_port,
					.to = t->to,
					.to_port = to->port};

	return local_link_send(link, &message, -1);
}

/* lock: asks the receiver for its ring.  0 or -errno. */
static int begin_target(const struct local_target *like, const struct endpoint *to,
			struct local_target **out)
{
	struct local_target *t = unused_target();
	struct local_link *link;
	int rc;

	if (!t)
		return -ENOMEM;
	rc = local_link_to(like->process, &link);
	if (rc)
		return rc;
	if (!ring_hold_cold(local_ring()))
		return -EAGAIN;
	rc = local_end_begin(link, &t->end);
	if (!rc) {
		t->process = like->process;
		t->socket = like->socket;
		t->from = like->from;
		t->to = like->to;
		t->asked_port = like->asked_port;
		t->port = 0;
		__atomic_store_n(&t->gen, t->gen + 1, __ATOMIC_RELAXED);
		/* release: pairs with local_await() of an earlier life, which sees that this is another */
		__atomic_store_n(&t->state, TARGET_ASKED, __ATOMIC_RELEASE);
		rc = ask(link, t, to);
		if (rc)
			end_target(t, TARGET_UNUSED);
	}
	ring_release_cold(local_ring());
	*out = t;
	return rc;
}

/* The addresses of IPv6 have the numbers that the receiver has given them, which it checks. */
static struct record_addrs addrs_of(const struct local_target *t, uint32_t numbers)
{
	if (addr_is_v4(&t->to))
		return (struct record_addrs){addr_v4_of(&t->from), addr_v4_of(&t->to), 0};
	return (struct record_addrs){numbers >> 16, numbers & 0xffff, RECORD_IPV6};
}

/* holder: the ring of LOCAL_RECORDS; consumes fd.  0 or -errno. */
static int open_target(struct local_target *t, const struct local_message *m, int fd)
{
	struct record_ring_shared *shared;
	size_t size;
	int rc;

	if (m->size < RECORD_CELLS_MIN || m->size > RECORD_CELLS_MAX) {
		sys_close_fd(&fd);
		return -EPROTO;
	}
	size = local_records_size(m->size);
	rc = segment_open(&t->segment, fd, LOCAL_RECORDS_SEGMENT, size, size + SEGMENT_PAGE);
	if (rc)
		return rc;
	sys_close_fd(&t->segment.fd);
	shared = local_records(&t->segment, m->size);
	t->marked = 0;
	return shared ? record_ring_writer_open(&t->writer, shared, m->size, m->value[0]) : -EPROTO;
}

bool local_take_records(struct local_link *link, const struct local_message *m, int *fds,
			unsigned n)
{
	struct local_target *t;
	struct local_end *end;
	int fd = n ? fds[0] : -1;

	if (n > 1)
		unix_socket_close_fds(fds + 1, n - 1);
	if (!ring_hold_cold(local_ring())) {
		sys_close_fd(&fd);
		return true;
	}
	end = local_end_at(link, m->number);
	t = end && end->ops == &target_ops ? target_of(end) : NULL;
	if (!t || t->state != TARGET_ASKED) {
		sys_close_fd(&fd); /* nobody waits for it any more */
	} else if (fd < 0 || open_target(t, m, fd)) {
		end_target(t, TARGET_REFUSED);
	} else {
		local_link_answered(link);
		t->port = m->value[1] ? t->asked_port : 0;
		t->record = addrs_of(t, m->value[2]);
		set_state(t, TARGET_OPEN);
	}
	ring_release_cold(local_ring());
	return true;
}

/* ---- finding them (control lock) -------------------------------------------------------------- */

static bool is_plain(const struct inet_sock *so, const struct endpoint *to)
{
	return !so->opt->bind_ifindex && !so->opt->dontroute && !so->opt->uc_ifindex &&
	       !addr_is_any(&to->addr) && !addr_is_multicast(&to->addr) &&
	       !addr_is_broadcast(&to->addr) && !addr_needs_scope(&to->addr);
}

struct receivers {
	struct local_place at;
	struct local_entry found[LOCAL_MEMBERS];
	unsigned n;
	enum local_sharing sharing;
};

static bool find_receivers(const struct endpoint *to, struct receivers *all)
{
	struct local_place place = {.proto = LOCAL_UDP, .at = *to};

	all->n = local_dir_find(&place, &all->at, all->found);
	all->sharing = local_sharing(all->found, all->n);
	return all->n > 0 && all->sharing != LOCAL_FILTERED &&
	       (all->n == 1 || all->sharing == LOCAL_SHARED);
}

int local_target_get(const struct inet_sock *so, const struct local_entry *entry,
		     const struct inaddr *from, const struct endpoint *to,
		     struct local_target_ref *ref)
{
	struct local_target like = {.asked_port = so->local.port,
				    .process = entry->process,
				    .socket = entry->socket,
				    .from = *from,
				    .to = to->addr};
	struct local_target *t;
	int rc = 0;

	control_assert_held();
	if (!targets.next)
		list_init(&targets);
	t = find_target(&like);
	if (!t)
		rc = begin_target(&like, to, &t);
	if (rc)
		return rc;
	*ref = (struct local_target_ref){.target = t, .gen = t->gen};
	return __atomic_load_n(&t->state, __ATOMIC_RELAXED) == TARGET_OPEN ? 0 : -EINPROGRESS;
}

/* 0, -EINPROGRESS, or another error: the kernel sends. */
static int find_open(struct inet_sock *so, const struct endpoint *to, const struct receivers *all,
		     struct dst_found *found)
{
	const struct local_entry *entry = &all->found[0];
	struct endpoint from = so->local;
	int rc;

	if (!local_may_come_from(from.port) || !local_find_source(so, to, &from.addr))
		return -ENOENT;
	if (all->sharing == LOCAL_SHARED)
		entry = local_choice(LOCAL_UDP, &from, to, all->found, all->n);
	if (!entry)
		return -ENOENT;
	local_lock();
	rc = local_target_get(so, entry, &from.addr, to, &found->local);
	if (rc == -ECONNREFUSED) /* its process has ended */
		local_dir_remove(&all->at, entry);
	if (!rc || rc == -EINPROGRESS) {
		found->src = from.addr;
		found->record = found->local.target->record;
	}
	local_unlock();
	return rc;
}

/* A socket that sends has a port, where local senders reach it, too. */
static bool has_port(struct inet_sock *so)
{
	return sock_life_is(so, LIFE_RECEIVING) || !udp_begin_local(so);
}

/* Sockets of programs without the library come and go, too: the kernel is asked once a second. */
static void look_often(struct local_udp *l, const struct endpoint *to, struct dst_found *found)
{
	dst_watch_host();
	found->by_host = true;
	if (found->verdict == VERDICT_LOCAL)
		found->local.gen |= SHARED;
	else
		local_note_kernels(l, to, found->local.looked - 1);
}

int local_find(struct inet_sock *so, const struct udp_way *way, struct dst_found *found)
{
	struct local_udp *l = local_udp_part(so);
	uint32_t looked = local_dir_generation(); /* before the search */
	struct receivers all = {.n = 0};
	int rc = -ENOENT;

	control_assert_held();
	if (!l)
		return 0;
	if (way->plain && is_plain(so, &way->to) && !local_is_kernels(l, &way->to, looked) &&
	    find_receivers(&way->to, &all) && has_port(so) && sock_home(so) != rings_nowhere())
		rc = find_open(so, &way->to, &all, found);
	found->local.looked = looked;
	if (rc == -EINPROGRESS)
		return rc;
	if (!rc)
		rc = local_change(so, &way->to, found);
	if (rc)
		local_leave_to_kernel(l, &way->to, found);
	else
		found->verdict = VERDICT_LOCAL;
	if (sock_home(so) != local_ring())
		found->local.gen |= BESIDE;
	if (ring_capture_runs())
		found->local.gen |= CAPTURED;
	if (all.sharing == LOCAL_SHARED)
		look_often(l, &way->to, found);
	return 0;
}

bool local_may_connect(struct inet_sock *so, const struct endpoint *to)
{
	struct local_udp *l;

	if (!is_plain(so, to) || !local_available())
		return false;
	l = local_udp_part(so);
	return l && !l->stopped && !l->kernel_only;
}

bool local_is_there(const struct endpoint *to)
{
	struct receivers all;

	return find_receivers(to, &all);
}

void local_await(struct sock_ref ref, const struct endpoint *to,
		 const struct local_target_ref *target)
{
	struct local_target *t = target->target;
	nsec_t until = clock_now() + ANSWER_MAX, now;
	struct local_udp *l;

	/* acquire: pairs with set_state(), and with begin_target() */
	while (__atomic_load_n(&t->state, __ATOMIC_ACQUIRE) == TARGET_ASKED &&
	       __atomic_load_n(&t->gen, __ATOMIC_RELAXED) == target->gen &&
	       (now = clock_now()) < until) {
		struct timespec ts = {.tv_nsec = (long)(until - now)};

		sys_call(SYS_futex, &t->state, FUTEX_WAIT_PRIVATE, TARGET_ASKED, &ts, NULL, 0);
	}
	if (!control_lock())
		return;
	local_lock();
	if (ring_hold_cold(local_ring())) {
		bool lives = t->gen == target->gen; /* it did not end since it was asked */

		l = sock_ref_valid(ref) ? inet_of(ref.sk)->udp.local : NULL;
		if (l && (!lives || t->state != TARGET_OPEN))
			local_note_kernels(l, to, target->looked);
		if (lives && t->state == TARGET_ASKED)
			end_target(t, TARGET_UNUSED);
		else if (t->gen == target->gen + 1 && t->state == TARGET_REFUSED)
			set_state(t, TARGET_UNUSED);
		ring_release_cold(local_ring());
	}
	local_unlock();
	control_unlock();
}

/* ---- sending (holder) ------------------------------------------------------------------------- */

/* holder of local_ring(): bytes, -EFAULT, or -ESTALE. */
static ssize_t write_record(const struct local_target_ref *from, const struct record_header *header,
			    const struct msghdr *msg, size_t len)
{
	struct local_target_ref ref = {.target = from->target,
				       .gen = from->gen & ~(BESIDE | SHARED | CAPTURED)};
	struct local_target *t = local_target_of(&ref);
	int rc;

	if (!t)
		return -ESTALE;
	rc = record_ring_write(&t->writer, header, msg->msg_iov, (int)msg->msg_iovlen, len);
	if (rc == -EFAULT)
		return rc;
	if (rc && rc != -ENOBUFS) { /* it has closed the ring, or spoilt it */
		end_target(t, TARGET_UNUSED);
		return -ESTALE;
	}
	local_end_post(&t->end); /* also if it was full and dropped, as at a full socket */
	if (__builtin_expect(from->gen & CAPTURED, 0))
		local_capture_datagram(t, header, msg, len);
	return (ssize_t)len;
}

/* The same of a socket with another home, which is let go meanwhile. */
static ssize_t write_beside(struct inet_sock *so, struct dst *dst, const struct msghdr *msg,
			    size_t len)
{
	struct local_target_ref ref = dst->local;
	struct record_header header = *dst_local_header(dst);
	struct ring *home = sock_home(so);
	ssize_t n = -ESTALE;

	ring_release_cold(home);
	if (ring_hold_cold(local_ring())) {
		n = write_record(&ref, &header, msg, len);
		ring_release_cold(local_ring());
	}
	/* No ring was held, so this cannot fail.  The socket may have another home by now. */
	while (!ring_hold_cold(home))
		;
	return n;
}

ssize_t local_udp_send(struct inet_sock *so, struct dst *dst, const struct msghdr *msg, size_t len,
		       bool lossy)
{
	struct sock_ref ref = sock_ref_of(so);
	struct ring *home = sock_home(so);
	ssize_t n;

	if (dst->fans)
		return local_fan_send(so, dst, msg, len, lossy);
	if (len > RECORD_MAX)
		return SOCK_KERNEL; /* EMSGSIZE */
	if ((dst->local.gen & SHARED) && dst->local.looked != local_dir_generation())
		return -ESTALE;
	if (dst->local.gen & BESIDE)
		n = write_beside(so, dst, msg, len);
	else
		n = home == local_ring()
			    ? write_record(&dst->local, dst_local_header(dst), msg, len)
			    : -ESTALE;
	if (n >= 0 && sock_at_home(ref, home))
		udp_count_sent(so, len);
	return n;
}

void local_send_stop(struct inet_sock *so)
{
	so->udp.local->kernel_only = true;
	udp_retarget(so);
}

void local_targets_forget(void)
{
	targets = (struct list){0};
}
