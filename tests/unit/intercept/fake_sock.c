/* SPDX-License-Identifier: BSD-2-Clause */
#include "fake_sock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>

#include "base/mem.h"
#include "base/sys.h"
#include "sock/core/extra/direct.h"
#include "sock/core/extra/profile.h"
#include "sock/core/extra/room.h"
#include "sock/core/extra/sock_extra.h"
#include "sock/core/extra/xtreme.h"
#include "sock/local/local.h"
#include "sock/share/exec_inherit.h"
#include "sock/share/exec_local.h"
#include "sock/share/pass_local.h"
#include "sock/share/pass.h"
#include "sock/wait/epoll.h"

struct fake fake;
__thread struct sock_signals sock_signals __attribute__((tls_model("initial-exec")));

void sock_signal_enters(void)
{
}

void sock_signals_wait(void)
{
}

void sock_signal_fix(siginfo_t *info)
{
}

static struct sock sockets[FAKE_SOCKETS];
static struct sock_hooks hooks;

void fake_reset(void)
{
	memset(&fake, 0, sizeof(fake));
	fake.rc_after = INT_MAX;
	fake.plain = true;
}

bool fake_is_open(struct sock_ref ref)
{
	return ref.sk && sock_ref_valid(ref);
}

void fake_leave(struct sock *sk)
{
	hooks.left(sk);
	sk->gen++;
}

/* The result of an operation that succeeds with `good`, unless the test wants another one. */
static ssize_t answer(const char *op, ssize_t good)
{
	fake.op = op;
	fake.ops++;
	errno = EXDEV; /* code below intercept may change errno */
	return fake.ops > fake.rc_after ? fake.rc : good;
}

static ssize_t fake_recv(struct sock_ref ref, struct msghdr *msg, int flags)
{
	size_t n = 0;

	fake.flags = flags;
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		memcpy(msg->msg_iov[i].iov_base, fake.data + n, msg->msg_iov[i].iov_len);
		n += msg->msg_iov[i].iov_len;
	}
	fake.bytes = n;
	fake.name = msg->msg_name;
	if (msg->msg_name) {
		memset(msg->msg_name, 0x5a, msg->msg_namelen < 16 ? msg->msg_namelen : 16);
		msg->msg_namelen = 16;
	}
	return answer("recv", (ssize_t)n);
}

static ssize_t fake_send(struct sock_ref ref, const struct msghdr *msg, int flags)
{
	size_t n = 0;

	fake.flags = flags;
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		memcpy(fake.data + n, msg->msg_iov[i].iov_base, msg->msg_iov[i].iov_len);
		n += msg->msg_iov[i].iov_len;
	}
	fake.bytes = n;
	fake.name = msg->msg_name;
	fake.namelen = msg->msg_namelen;
	return answer("send", (ssize_t)n);
}

static struct sock_ref make(int fd, enum sock_type kind, bool nonblock);

static int fake_accept(struct sock_ref ref, struct sockaddr *addr, socklen_t *len, int flags,
		       struct sock_ref *child)
{
	int rc = (int)answer("accept", 0);

	fake.flags = flags;
	if (rc)
		return rc;
	rc = sys_socket(AF_INET, SOCK_STREAM, 0);
	if (fake.on_accept)
		*child = make(rc, SOCK_TYPE_TCP, flags & SOCK_NONBLOCK);
	return rc;
}

static int fake_bind(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	return (int)answer("bind", 0);
}

static int fake_connect(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	return (int)answer("connect", 0);
}

static int fake_getpeername(struct sock_ref ref, struct sockaddr *addr, socklen_t *len)
{
	return (int)answer("getpeername", 0);
}

static int fake_getsockname(struct sock_ref ref, struct sockaddr *addr, socklen_t *len)
{
	return (int)answer("getsockname", 0);
}

static int fake_getsockopt(struct sock_ref ref, int level, int name, void *val, socklen_t *len)
{
	return (int)answer("getsockopt", 0);
}

static int fake_ioctl(struct sock_ref ref, unsigned long cmd, void *arg)
{
	return (int)answer("ioctl", 0);
}

static int fake_listen(struct sock_ref ref, int backlog)
{
	fake.arg = backlog;
	return (int)answer("listen", 0);
}

static int fake_setsockopt(struct sock_ref ref, int level, int name, const void *val, socklen_t len)
{
	return (int)answer("setsockopt", 0);
}

static int fake_shutdown(struct sock_ref ref, int how)
{
	return (int)answer("shutdown", 0);
}

static const struct sock_ops ops = {
	.accept = fake_accept,
	.bind = fake_bind,
	.connect = fake_connect,
	.getpeername = fake_getpeername,
	.getsockname = fake_getsockname,
	.getsockopt = fake_getsockopt,
	.ioctl = fake_ioctl,
	.listen = fake_listen,
	.recv = fake_recv,
	.send = fake_send,
	.setsockopt = fake_setsockopt,
	.shutdown = fake_shutdown,
};

static struct sock_ref make(int fd, enum sock_type kind, bool nonblock)
{
	for (int i = 0; i < FAKE_SOCKETS; i++) {
		struct sock *sk = &sockets[i];

		if (sk->gen & 1)
			continue;
		sk->gen++;
		sk->ops = kind == SOCK_TYPE_EPOLL ? NULL : &ops;
		sk->type = kind;
		sk->twin = fd;
		sk->nonblock = nonblock;
		return (struct sock_ref){sk, sk->gen};
	}
	return (struct sock_ref){NULL, 0};
}

void sock_init(const struct sock_hooks *h)
{
	hooks = *h;
	fake_reset();
}

void sock_exit(void)
{
}

bool sock_exit_by(int arg, void (*then)(int arg))
{
	return false;
}

bool exec_inherit_begin(struct exec_channel *ch)
{
	return false;
}

uint64_t exec_inherit_id(struct sock_ref ref)
{
	return 0;
}

void exec_inherit_undo(void)
{
}

bool exec_inherit_begin_waiting(struct exec_channel *ch)
{
	return false;
}

uint64_t exec_inherit_waiting_id(struct sock_ref ref)
{
	return 0;
}

void exec_inherit_undo_waiting(void)
{
}

bool exec_inherit_open(const struct exec_channel *ch)
{
	fake.n_opened++;
	return false;
}

struct sock_ref exec_inherit_add(int fd, bool udp, uint64_t id)
{
	return (struct sock_ref){NULL, 0};
}

void exec_inherit_done(void)
{
}

bool exec_local_needs_relay(struct sock_ref ref, bool shared)
{
	return false;
}

bool exec_local_is_shared(struct sock_ref ref, bool stays)
{
	return false;
}

bool exec_local_take_waiting(struct sock_ref listener, struct local_waiting *w)
{
	return false;
}

bool local_lingers(struct sock_ref ref)
{
	return false;
}

void local_linger(struct sock_ref ref)
{
}

bool exec_local_any(void)
{
	return true;
}

bool exec_local_is_over(void)
{
	return false;
}

bool exec_local_is_one(struct sock_ref ref)
{
	return fake.is_local;
}

struct local_way exec_local_way(struct sock_ref ref, unsigned which)
{
	return (struct local_way){.fd = -1, .memory = -1};
}

void exec_local_take_way(const struct local_way *way)
{
}

void exec_local_close_ways(void)
{
}

void local_way_close(struct local_way *way)
{
}

void exec_local_copy_options(struct sock_ref ref, int fd)
{
}

bool exec_local_begin(void)
{
	return false;
}

void exec_local_stays(struct sock_ref ref)
{
}

int exec_local_pack(struct sock_ref ref)
{
	return -1;
}

void exec_local_undo(void)
{
}

struct sock_ref exec_local_add(int fd, int packed)
{
	fake.n_local++;
	return (struct sock_ref){NULL, 0};
}

void exec_local_done(void)
{
}

int pass_local_begin(struct sock_ref ref, struct local_pass *pass)
{
	const struct sock_addr at = {.in = {.sin_family = AF_INET,
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
				     .len = sizeof(at.in)};

	if (!fake.is_local)
		return -EREMOTE;
	*pass = (struct local_pass){
		.packed = sys_open("/dev/null", O_RDWR | O_CLOEXEC, 0),
		.twin = sys_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
		.how = -1,
		.name = at,
		.peer = at,
	};
	return 0;
}

void pass_local_end(const struct local_pass *pass, bool relayed)
{
	fake.n_back += !relayed;
}

struct sock_ref pass_local_take(int fd, int packed)
{
	return (struct sock_ref){NULL, 0};
}

void sock_fork_prepare(bool detached)
{
	fake.detached += detached;
	fake.preparing = true;
}

void sock_fork_parent(bool detached)
{
	fake.preparing = false;
}

bool sock_fork_child_may_wait(void)
{
	return true;
}

void sock_fork_child_waits(void)
{
}

void sock_fork_child(void)
{
	for (int i = 0; i < fake.slow_fork; i++)
		sys_sched_yield();
	fake.forked++;
	sys_fd_forget_all();
}

struct sock_ref sock_create(int fd, int domain, int type, int protocol, bool nonblock)
{
	if (fake.refuse)
		return (struct sock_ref){NULL, 0};
	return make(fd, type == SOCK_DGRAM ? SOCK_TYPE_UDP : SOCK_TYPE_TCP, nonblock);
}

struct sock_ref sock_create_epoll(int fd, struct epoll *epoll)
{
	struct sock_ref ref = make(fd, SOCK_TYPE_EPOLL, false);

	if (ref.sk)
		ref.sk->epoll = epoll;
	return ref;
}

void sock_close(struct sock_ref ref)
{
	fake.closed = ref.sk;
	fake.n_closed++;
	ref.sk->gen++;
	errno = EXDEV;
}

enum verdict sock_verdict(const struct sock *sk)
{
	return fake.verdict;
}

int sock_set_callback(struct sock_ref ref, int fd, vma_recv_callback_t callback, void *context)
{
	fake.arg = fd;
	fake.name = context;
	return (int)answer("set_callback", 0);
}

ssize_t sock_recv_zcopy(struct sock_ref ref, struct sock_zcopy *zcopy, int flags)
{
	fake.flags = flags;
	fake.bytes = zcopy->msg.msg_iov->iov_len;
	zcopy->done = true;
	if (zcopy->msg.msg_name) {
		memset(zcopy->msg.msg_name, 0x5a, 16);
		zcopy->msg.msg_namelen = 16;
	}
	return answer("recv_zcopy", 100);
}

int sock_free_packet(void *id, struct sock_ref ref)
{
	fake.name = id;
	return (int)answer("free_packet", 0);
}

int sock_recv_batch(struct sock_ref ref, struct vma_message_t *messages, unsigned count, int flags,
		    unsigned *done)
{
	fake.flags = flags;
	fake.arg = (int)count;
	*done = fake.batch_done < count ? fake.batch_done : count;
	for (unsigned i = 0; i < *done; i++) {
		messages[i].done = 7;
		messages[i].addr_len = 16;
	}
	return (int)answer("recv_batch", 0);
}

int sock_send_batch(struct sock_ref ref, struct vma_message_t *messages, unsigned count, int flags,
		    unsigned *done)
{
	fake.flags = flags;
	fake.arg = (int)count;
	*done = fake.batch_done < count ? fake.batch_done : count;
	for (unsigned i = 0; i < *done; i++)
		messages[i].done = messages[i].size;
	return (int)answer("send_batch", 0);
}

void sock_tell_verdict(struct sock_ref ref, int fd, struct vma_verdict_t *verdict)
{
	*verdict = (struct vma_verdict_t){.served = 1, .ring = fd, .reason = "because"};
}

int sock_last_events(struct sock_ref ref, struct vma_event_t **events, unsigned count)
{
	*events = mem_zalloc(sizeof(**events));
	(*events)->argument = count;
	return (int)answer("last_events", 1);
}

static uint8_t room_bytes[256];
static struct pkt room_pkt = {.frame = room_bytes};
static struct room room = {.pkt = &room_pkt, .at = 8, .size = 100};

int room_reserve(struct sock_ref ref, size_t size, struct vma_room_t *out, size_t *max)
{
	*out = (struct vma_room_t){.data = room_bytes + 8, .size = 100, .id = 77};
	*max = 100;
	fake.bytes = size;
	return (int)answer("room_reserve", 0);
}

struct room *room_claim(uint64_t id, struct sock_ref ref, bool ended)
{
	return id == 77 && (ref.sk || ended) ? &room : NULL;
}

ssize_t room_commit(struct room *r, struct sock_ref ref, size_t len, const struct sockaddr *addr,
		    socklen_t addr_len)
{
	fake.name = addr;
	fake.namelen = addr_len;
	return fake.room_copies ? SOCK_KERNEL : answer("room_commit", (ssize_t)len);
}

void room_done(struct room *r, size_t len, size_t asked)
{
	fake.bytes = len;
}

void room_keep(struct room *r)
{
	fake.kept++;
}

void room_free(struct room *r)
{
	fake.n_freed++;
}

int sock_add_rule(const char *line)
{
	fake.name = line;
	return (int)answer("add_rule", 0);
}

int sock_dump(int fd, int level)
{
	fake.arg = fd << 8 | level;
	return (int)answer("dump", 0);
}

int sock_headers(struct sock_ref ref, uint8_t header[SOCK_HEADERS_MAX])
{
	memset(header, 0x11, 42);
	return (int)answer("headers", 42);
}

int xtreme_begin(struct sock_ref ref, int fd)
{
	return (int)answer("xtreme_begin", 0);
}

void xtreme_poll(unsigned ring, struct xtreme_batch *b)
{
	b->n = 0;
	b->n_listeners = fake.listener.sk != NULL;
	b->listeners[0] = (struct xtreme_listener){fake.listener, 99};
	fake.arg = (int)ring;
	answer("xtreme_poll", 0);
}

void xtreme_set_sender(struct vma_completion_t *c, const struct endpoint *from)
{
	answer("xtreme_set_sender", 0);
}

void xtreme_again(struct sock_ref ref)
{
	answer("xtreme_again", 0);
}

int buff_get(const struct vma_buff_t *pub)
{
	fake.name = pub;
	return (int)answer("buff_get", 2);
}

struct buff *buff_all;
uint32_t buff_given_out;

int buff_put_one_of_many(struct buff *buff)
{
	return (int)answer("buff_put", 1);
}

void buff_store_post(struct buff_store *store)
{
}

unsigned sock_ring_numbers(const struct sock *sk, unsigned *numbers, unsigned max)
{
	unsigned n = 0;

	for (; n < fake.n_rings && n < max; n++)
		numbers[n] = 5 + n;
	return n;
}

int sock_tx_ring_number(struct sock_ref ref, const struct sockaddr *to, socklen_t len)
{
	fake.namelen = len;
	return (int)answer("tx_ring", fake.number ? fake.number : 5);
}

bool direct_available(void)
{
	return fake.card;
}

uint32_t direct_life(unsigned number)
{
	return number >= SOCK_RING_NUMBERS ? fake.life : 0;
}

int direct_fd(struct direct_id id)
{
	return fake.life == id.life ? fake.card_fd : -ENODEV;
}

int direct_describe(struct direct_id id, struct vma_mlx_hw_device_data *data)
{
	data->valid_mask = 3;
	fake.arg = (int)id.number;
	return (int)answer("describe", 0);
}

int direct_register(struct direct_id id, void *addr, size_t len, uint32_t *key)
{
	fake.name = addr;
	fake.bytes = len;
	*key = 77;
	return (int)answer("register", 0);
}

int direct_deregister(struct direct_id id, void *addr, size_t len)
{
	fake.name = addr;
	fake.bytes = len;
	return (int)answer("deregister", 0);
}

int direct_modify(struct direct_id id, const struct vma_modify_ring_attr *attr)
{
	fake.arg = (int)id.number;
	fake.bytes = attr->cq_moderation.cq_moderation_count;
	return (int)answer("modify", 0);
}

int profile_add(const struct vma_ring_type_attr *attr)
{
	fake.arg = (int)attr->ring_type;
	return (int)answer("profile", 3);
}

void sock_keep_error(struct sock_ref ref, int error)
{
	(void)ref;
	(void)error;
}

size_t sock_room(struct sock_ref ref)
{
	(void)ref;
	return 0;
}

void sock_set_twin(struct sock_ref ref, int fd)
{
	ref.sk->twin = fd;
}

void sock_set_nonblock(struct sock_ref ref, bool nonblock)
{
	ref.sk->nonblock = nonblock;
}

int sock_set_async(struct sock_ref ref, int fd, bool on)
{
	fake.n_async++;
	fake.async = on ? fd : -fd;
	return 0;
}

void sock_namespaces_differ(void)
{
}

void sock_changes_root(void)
{
	fake.changed_root++;
}

void sock_unprivileged(void)
{
	fake.unprivileged++;
}

int sock_to_kernel(struct sock_ref ref, enum verdict reason)
{
	errno = EXDEV;
	fake.verdict = reason;
	if (ref.sk == fake.stays)
		return -EISCONN;
	fake.to_kernel++;
	fake_leave(ref.sk);
	return 0;
}

int sock_pass(struct sock_ref ref, int way, uint64_t ticket)
{
	fake.way = way;
	if (fake.is_local)
		return -EREMOTE;
	if (fake.sock_pass_fails ||
	    (fake.sock_pass_fails_after && fake.passed == fake.sock_pass_fails_after))
		return -EBUSY;
	fake.passed++;
	if (fake.in_transit)
		return 1;
	fake_leave(ref.sk);
	return 0;
}

uint64_t pass_ticket(unsigned n)
{
	fake.tickets += n;
	return fake.tickets - n + 1;
}

void pass_done(uint64_t ticket, bool sent)
{
	*(sent ? &fake.sent : &fake.unsent) = ticket;
	*(sent ? &fake.n_sent : &fake.n_unsent) += 1;
}

struct sock_ref pass_take(int fd, bool peek)
{
	fake.peek = peek;
	return fake.arrives;
}

struct epoll *epoll_create_set(int epfd)
{
	static int sets[FAKE_SOCKETS], n;

	return (struct epoll *)&sets[n++ % FAKE_SOCKETS];
}

void epoll_destroy_set(struct epoll *ep)
{
}

bool epoll_is_plain(const struct epoll *ep)
{
	return fake.plain;
}

void epoll_note_kernel_fd(struct epoll *ep, int delta)
{
	fake.kernel_fds += delta;
}

void epoll_settle(struct epoll *ep)
{
	(void)ep;
}

int epoll_control(struct epoll *ep, int op, int fd, struct sock_ref ref, struct epoll_event *event)
{
	fake.plain = op == EPOLL_CTL_DEL;
	return (int)answer("epoll_ctl", 0);
}

int epoll_wait_set(struct epoll *ep, struct epoll_event *events, int max, nsec_t timeout,
		   const sigset_t *mask)
{
	fake.timeout = timeout;
	return (int)answer("epoll_wait", 1);
}

int poll_sockets(struct pollfd *fds, nfds_t n, nsec_t timeout, const sigset_t *mask,
		 fd_lookup_fn lookup)
{
	fake.timeout = timeout;
	return (int)answer("poll", (ssize_t)n);
}

int select_sockets(int n, fd_set *r, fd_set *w, fd_set *e, nsec_t timeout, const sigset_t *mask,
		   fd_lookup_fn lookup)
{
	fake.timeout = timeout;
	return (int)answer("select", n);
}

bool exec_inherit_any(void)
{
	return fake.lends;
}

bool exec_inherit_lend(struct exec_channel *ch)
{
	*ch = (struct exec_channel){.fd = fake.lends ? sys_fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
						     : -1};
	return ch->fd >= 0;
}

uint64_t exec_inherit_lent_id(struct sock_ref ref)
{
	(void)ref;
	return fake.lends ? 1 : 0;
}

void exec_inherit_leave(bool n_opened)
{
	(void)n_opened;
}

void exec_inherit_fetch(struct sock_ref ref)
{
	(void)ref;
}

bool sock_is_active(void)
{
	return false;
}
