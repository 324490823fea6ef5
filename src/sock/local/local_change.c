/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Destinations on this host that the kernel serves, until an accelerated receiver is there: a sender
 * changes from the kernel to shared memory; see local_udp.h.
 *
 *	sendto()				changes of the directory
 *	no receiver: the twin sends <---------- a receiver registers
 *	looks again: finds it, asks for its ring
 *	waits for the calls that send by the twin, and until what they sent has arrived
 *	writes a mark, then records ----------> reads what its twin has, then goes on (local_turn.c)
 *
 * To a group, a sender may change often: whoever else joins and leaves makes it.  What the kernel has got
 * before and after records would be in the twin together, and the mark would not tell them apart.  So the
 * sender waits until each member has read what its twin had, before it writes records (await_members()); if
 * that takes too long, the kernel goes on.
 *
 * What the kernel sends on this host goes through a queue of the processor on which the sender runs.  A
 * datagram to a socket of our own comes behind all of it.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/sys.h"
#include "sock/local/local.h"
#include "sock/local/local_sock.h"
#include "sock/local/local_udp.h"

#define KERNEL_MAX 4096u		     /* destinations that a socket remembers */
#define LOOK_INTERVAL NSEC_PER_MSEC	     /* between two looks for a receiver, at least */
#define CALLS_PATIENCE NSEC_PER_MSEC	     /* with calls that send by the twin */
#define MEMBERS_PATIENCE (2 * NSEC_PER_MSEC) /* with members that read what their twins have */
#define ARRIVAL_MAX (10 * NSEC_PER_MSEC)     /* of a datagram to ourselves */
#define PAUSE_LEAST NSEC_PER_SEC	     /* after one that took longer */
#define PAUSE_MOST (64 * NSEC_PER_SEC)

/* control lock: no datagram to ourselves is sent before `until`; pause: 0: the last one was in time. */
static struct {
	nsec_t pause, until;
} arrival;

/* ---- what the kernel has got datagrams for (control lock) ------------------------------------- */

static struct local_kernels *find(const struct local_udp *l, const struct endpoint *to)
{
	for (uint32_t i = 0; i < l->n_kernel; i++) {
		if (endpoint_eq(&l->kernel[i].to, to))
			return &l->kernel[i];
	}
	return NULL;
}

bool local_is_kernels(const struct local_udp *l, const struct endpoint *to, uint32_t looked)
{
	const struct local_kernels *k = find(l, to);

	control_assert_held();
	return l->kernel_only || (k && k->looked == looked);
}

void local_note_kernels(struct local_udp *l, const struct endpoint *to, uint32_t looked)
{
	uint32_t room = l->kernel_room ? 2 * l->kernel_room : 16;
	struct local_kernels *k = find(l, to), *more;

	control_assert_held();
	if (!k && l->n_kernel == l->kernel_room) {
		more = room <= KERNEL_MAX ? mem_alloc(room * sizeof(*more)) : NULL;
		if (!more) {
			l->kernel_only = true;
			return;
		}
		for (uint32_t i = 0; i < l->n_kernel; i++)
			more[i] = l->kernel[i];
		mem_free(l->kernel);
		l->kernel = more;
		l->kernel_room = room;
	}
	if (!k)
		k = &l->kernel[l->n_kernel++];
	*k = (struct local_kernels){*to, looked};
}

void local_leave_to_kernel(struct local_udp *l, const struct endpoint *to, struct dst_found *found)
{
	nsec_t now = clock_now();

	local_note_kernels(l, to, found->local.looked);
	found->local.target = NULL;
	if (!l->kernel_only) /* before, no change succeeds */
		found->local.at = arrival.until > now ? arrival.until : now;
}

/* ---- sending by the twin ---------------------------------------------------------------------- */

int local_by_kernel(struct inet_sock *so, const struct dst *dst)
{
	struct local_udp *l = so->udp.local;

	ring_assert_held(sock_home(so));
	if (dst->verdict != VERDICT_LOOPBACK || !dst->local.at || !l || l->kernel_only)
		return SOCK_KERNEL;
	if (__builtin_expect(dst->local.looked != local_dir_generation(), 0) &&
	    clock_now() - dst->local.at > LOOK_INTERVAL)
		return -ESTALE;
	l->calls[l->phase]++;
	return l->phase;
}

struct twin_call {
	struct sock_ref ref;
	int phase;
};

static void call_ends(void *arg)
{
	const struct twin_call *call = arg;
	struct ring *ring;

	/* Not counted where it fails: the socket stays with the kernel. */
	if (sock_hold_cold(call->ref, &ring))
		return;
	if (inet_of(call->ref.sk)->udp.local)
		inet_of(call->ref.sk)->udp.local->calls[call->phase]--;
	ring_release_cold(ring);
}

ssize_t local_by_twin(struct sock_ref ref, const struct msghdr *msg, int flags, int phase)
{
	struct twin_call call = {ref, phase};
	struct cleanup undo;
	ssize_t n;

	cleanup_push(&undo, call_ends, &call);
	n = sys_sendmsg(sock_twin(ref.sk), msg, flags);
	cleanup_pop(&undo);
	call_ends(&call);
	return n;
}

/* ---- from the kernel to shared memory (control lock, no ring held) ----------------------------- */

/* Waits for the calls of a phase.  False: that takes too long. */
static bool await_phase(struct local_udp *l, unsigned phase, nsec_t until)
{
	struct ring *home;
	bool over;

	for (;;) {
		home = local_hold_home(l);
		if (!home)
			return false;
		over = !l->calls[phase];
		ring_release_cold(home);
		if (over || clock_now() > until)
			return over;
		sys_sched_yield();
	}
}

/*
 * The calls that send by the twin, and began before, have ended.  Those to this destination do not begin
 * meanwhile, because the caller has found that it has to be found again.
 */
static bool await_calls(struct local_udp *l)
{
	nsec_t until = clock_now() + CALLS_PATIENCE;
	unsigned old = l->phase;
	struct ring *home;

	if (!await_phase(l, !old, until)) /* of a change that did not wait so long */
		return false;
	home = local_hold_home(l);
	if (!home)
		return false;
	l->phase = !old;
	ring_release_cold(home);
	return await_phase(l, old, until);
}

static bool send_to_self(int fd)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timespec most = {.tv_nsec = ARRIVAL_MAX};
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	socklen_t len = sizeof(at);

	return !sys_bind(fd, (struct sockaddr *)&at, len) &&
	       !sys_getsockname(fd, (struct sockaddr *)&at, &len) &&
	       !sys_connect(fd, (struct sockaddr *)&at, len) &&
	       !sys_sendto(fd, NULL, 0, MSG_DONTWAIT, NULL, 0) &&
	       sys_ppoll(&pfd, 1, &most, NULL) == 1 && pfd.revents == POLLIN;
}

bool local_have_arrived(nsec_t now)
{
	bool arrives;
	int fd;

	control_assert_no_ring();
	control_assert_held();
	if (now < arrival.until)
		return false;
	fd = sys_fd_hide(sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	arrives = fd >= 0 && send_to_self(fd);
	sys_close_fd(&fd);
	arrival.pause = arrives ? 0 : local_longer(arrival.pause, PAUSE_LEAST, PAUSE_MOST);
	arrival.until = arrives ? 0 : now + arrival.pause;
	return arrives;
}

/* holder of local_ring() */
static int put_mark(struct local_target *t, const struct endpoint *to,
		    const struct dst_found *found)
{
	/* With RECORD_GROUP it would be a datagram. */
	struct record_header header = {.from = found->record.from,
				       .to = found->record.to,
				       .flags = found->record.flags & ~RECORD_GROUP,
				       .to_port = to->port};
	int rc = record_ring_mark(&t->writer, &header);

	if (!rc)
		local_end_post(&t->end);
	return rc;
}

static int write_mark(const struct endpoint *to, const struct dst_found *found)
{
	struct local_target *t;
	int rc = -ESTALE;

	if (!ring_hold_cold(local_ring()))
		return -EAGAIN;
	t = local_target_of(&found->local);
	if (t)
		rc = put_mark(t, to, found);
	ring_release_cold(local_ring());
	return rc;
}

int local_change(struct inet_sock *so, const struct endpoint *to, struct dst_found *found)
{
	struct local_udp *l = so->udp.local;
	struct local_kernels *k = find(l, to);
	int rc;

	control_assert_held();
	control_assert_no_ring();
	if (!k)
		return 0;
	rc = await_calls(l) && local_have_arrived(clock_now()) ? write_mark(to, found) : -EAGAIN;
	if (!rc)
		*k = l->kernel[--l->n_kernel];
	else
		found->local.looked--; /* again, also if the directory stays as it is */
	return rc;
}

/* Has the member read its ring to the position?  -ESTALE: it has no ring any more. */
static int has_read(const struct local_target_ref *ref, uint64_t position)
{
	struct local_target *t;
	int rc = -ESTALE;

	if (!ring_hold_cold(local_ring()))
		return rc;
	t = local_target_of(ref);
	if (t && !record_ring_is_closed(&t->writer))
		rc = record_ring_has_read(&t->writer, position);
	ring_release_cold(local_ring());
	return rc;
}

/* holder of local_ring(): does a mark of an earlier attempt wait?  Then the member is slow, and gets no other. */
static bool is_slow(struct local_target *t)
{
	return t->marked && !record_ring_has_read(&t->writer, t->marked);
}

/*
 * Two marks for the member: it does not read the second one before what its twin had at the first.
 * *position: after both.
 */
static int write_marks(const struct endpoint *to, const struct dst_found *found,
		       const struct local_target_ref *ref, uint64_t *position)
{
	struct local_target *t;
	int rc = -ESTALE;

	if (!ring_hold_cold(local_ring()))
		return -EAGAIN;
	t = local_target_of(ref);
	if (t)
		rc = is_slow(t) ? -EAGAIN : put_mark(t, to, found);
	if (!rc)
		rc = put_mark(t, to, found);
	if (!rc)
		*position = t->marked = record_ring_written(&t->writer);
	ring_release_cold(local_ring());
	return rc;
}

static int await_members(const struct endpoint *to, const struct dst_found *found,
			 const struct local_target_ref *members, unsigned n)
{
	nsec_t until = clock_now() + MEMBERS_PATIENCE;
	uint64_t position[LOCAL_MEMBERS];
	int rc = 0, read;

	for (unsigned i = 0; !rc && i < n; i++)
		rc = write_marks(to, found, &members[i], &position[i]);
	for (unsigned i = 0; !rc && i < n;) {
		read = has_read(&members[i], position[i]);
		if (read < 0)
			rc = read;
		else if (read)
			i++;
		else if (clock_now() > until)
			rc = -EAGAIN;
		else
			sys_sched_yield();
	}
	return rc;
}

int local_change_group(struct inet_sock *so, const struct endpoint *to,
		       const struct dst_found *found, const struct local_target_ref *members,
		       unsigned n)
{
	struct local_udp *l = so->udp.local;
	struct local_kernels *k = find(l, to);
	int rc;

	if (!k)
		return 0;
	rc = await_calls(l) && local_have_arrived(clock_now())
		     ? await_members(to, found, members, n)
		     : -EAGAIN;
	if (!rc)
		*k = l->kernel[--l->n_kernel];
	return rc;
}
