/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Preloaded into a program: gives libibverbs a device node that is an emulated card (card.h).
 *
 * The descriptor of the node is /dev/null, so that it is a character device with the number that
 * sysfs names; ioctl(2) fails there with ENOTTY, and libibverbs uses write(2).  Both, and mmap(2)
 * of doorbell pages, go to the card.  The open file is marked by a signal that it never sends
 * (F_SETSIG), so that copies of the descriptor are known as well.
 *
 * Role		any thread; an open file belongs to the process that opened it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/mlx5/protocol.h"

#define EXPORT __attribute__((visibility("default")))
#define FDS 65536
#define MARKS 64 /* signals */
#define HIGH 900 /* descriptors from here on are the library's */
/* The function that this one stands before: the C library's, or that of another library. */
#define NEXT(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int card_of[MARKS];	 /* any, atomic: 1 + the socket to the card, 0: no device */
static uint32_t channel_of[FDS]; /* any, atomic: the card's number of this completion channel */

/* System calls, because the functions of the same names may be another library's. */
#define KERNEL(...) syscall(__VA_ARGS__)

static bool is_node(const char *path)
{
	return !strcmp(path, CARD_NODE);
}

static int connect_card(void)
{
	struct sockaddr_un to;
	const char *path = getenv(CARD_SOCKET);
	socklen_t len = path ? card_address(&to, path) : 0;
	int fd, high;

	if (!len) {
		errno = ENODEV;
		return -1;
	}
	fd = (int)KERNEL(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd >= 0 && !KERNEL(SYS_connect, fd, &to, len)) {
		/* Out of the way of a program that looks at its numbers. */
		high = (int)KERNEL(SYS_fcntl, fd, F_DUPFD_CLOEXEC, HIGH);
		if (high < 0)
			return fd;
		KERNEL(SYS_close, fd);
		return high;
	}
	if (fd >= 0)
		KERNEL(SYS_close, fd);
	errno = ENODEV;
	return -1;
}

/* The mark that no other open file has; 0: all are in use. */
static int take_mark(int card)
{
	for (int mark = 1; mark < MARKS; mark++) {
		int none = 0;

		/* Pairs with card(). */
		if (mark != SIGKILL && mark != SIGSTOP &&
		    __atomic_compare_exchange_n(&card_of[mark], &none, card + 1, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return mark;
	}
	return 0;
}

static int open_node(void)
{
	int card = connect_card(), fd, mark;

	if (card < 0)
		return -1;
	fd = (int)KERNEL(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0);
	mark = fd < 0 ? 0 : take_mark(card);
	if (mark && !KERNEL(SYS_fcntl, fd, F_SETSIG, mark))
		return fd;
	KERNEL(SYS_close, card);
	return -1;
}

/* The mark of an open file; 0: not a device. */
static int mark_of(int fd)
{
	int saved = errno;
	long mark = fd < 0 ? 0 : KERNEL(SYS_fcntl, fd, F_GETSIG);

	errno = saved;
	return mark > 0 && mark < MARKS ? (int)mark : 0;
}

/* -1: not a device. */
static int card(int fd)
{
	/* acquire: pairs with take_mark() */
	return __atomic_load_n(&card_of[mark_of(fd)], __ATOMIC_ACQUIRE) - 1;
}

/* ---- requests ----------------------------------------------------------------------------- */

static void fork_begins(void)
{
	pthread_mutex_lock(&lock);
}

static void fork_is_over(void)
{
	pthread_mutex_unlock(&lock);
}

/* Of the driver, no thread of the parent holds a lock in the child; so it is here. */
__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(fork_begins, fork_is_over, fork_is_over);
}

/* One exchange; *fd: a descriptor that came with the answer, or -1.  0 or -1 with errno. */
static int ask(int to, const struct card_request *request, const void *body, void *answer,
	       size_t room, struct card_reply *reply, int *fd)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec out[2] = {{(void *)(uintptr_t)request, sizeof(*request)},
			       {(void *)(uintptr_t)body, body ? request->len : 0}},
		     in[2] = {{reply, sizeof(*reply)}, {answer, room}};
	struct msghdr ask_msg = {.msg_iov = out, .msg_iovlen = 2},
		      answer_msg = {.msg_iov = in,
				    .msg_iovlen = 2,
				    .msg_control = control,
				    .msg_controllen = sizeof(control)};
	const struct cmsghdr *cmsg;
	long n;

	*fd = -1;
	pthread_mutex_lock(&lock);
	n = KERNEL(SYS_sendmsg, to, &ask_msg, MSG_NOSIGNAL);
	while (n > 0 && (n = KERNEL(SYS_recvmsg, to, &answer_msg, MSG_CMSG_CLOEXEC)) < 0 &&
	       errno == EINTR)
		n = 1;
	pthread_mutex_unlock(&lock);
	if (n < (long)sizeof(*reply)) {
		errno = EIO; /* the card is gone */
		return -1;
	}
	cmsg = CMSG_FIRSTHDR(&answer_msg);
	if (cmsg && cmsg->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(cmsg), sizeof(*fd));
	if (reply->rc < 0) {
		errno = -reply->rc;
		return -1;
	}
	return 0;
}

/* A command in a buffer of its own. */
union command {
	struct {
		struct ib_uverbs_cmd_hdr head;
		union {
			struct {
				struct ib_uverbs_ex_cmd_hdr head;
				struct ib_uverbs_ex_create_cq create_cq;
			} ex;
			uint64_t response;
			struct ib_uverbs_create_cq create_cq;
		};
	};
	uint8_t bytes[CARD_MESSAGE / 2];
};

static bool is_extended(const union command *c)
{
	return c->head.command & IB_USER_VERBS_CMD_FLAG_EXTENDED;
}

static unsigned number_of(const union command *c)
{
	return c->head.command & IB_USER_VERBS_CMD_COMMAND_MASK;
}

/* The response buffer, *len bytes; NULL: none. */
static char *response_of(const union command *c, size_t *len)
{
	*len = is_extended(c) ? (size_t)(c->head.out_words + c->ex.head.provider_out_words) * 8
			      : (size_t)c->head.out_words * 4;
	return *len ? (char *)(uintptr_t)(is_extended(c) ? c->ex.head.response : c->response)
		    : NULL;
}

/* The program names a channel by its descriptor, the card by a number. */
static void translate_channel(union command *c)
{
	__s32 *channel = is_extended(c) ? &c->ex.create_cq.comp_channel
					: &c->create_cq.comp_channel;

	if (number_of(c) == IB_USER_VERBS_CMD_CREATE_CQ && *channel >= 0)
		*channel = *channel < FDS
				   ? (__s32)__atomic_load_n(&channel_of[*channel], __ATOMIC_RELAXED)
				   : 0;
}

/* The first word of an answer that comes with a descriptor is to be the descriptor. */
static void put_descriptor(const union command *c, char *answer, int fd)
{
	uint32_t number;

	memcpy(&number, answer, sizeof(number));
	if (number_of(c) == IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL && fd < FDS)
		__atomic_store_n(&channel_of[fd], number, __ATOMIC_RELAXED);
	memcpy(answer, &fd, sizeof(fd));
}

_Static_assert(!offsetof(struct ib_uverbs_get_context_resp, async_fd) &&
		       !offsetof(struct ib_uverbs_create_comp_channel_resp, fd),
	       "the descriptor stands first");

static ssize_t command(int to, const void *buf, size_t len)
{
	struct card_request request = {.call = CARD_WRITE, .len = (uint32_t)len};
	union command c = {.bytes = {0}};
	char answer[CARD_MESSAGE], *response;
	struct card_reply reply;
	size_t room;
	int fd;

	if (len < sizeof(c.head) || len > sizeof(c)) {
		errno = EINVAL;
		return -1;
	}
	memcpy(&c, buf, len);
	translate_channel(&c);
	if (ask(to, &request, &c, answer, sizeof(answer), &reply, &fd))
		return -1;
	if (fd >= 0)
		put_descriptor(&c, answer, fd);
	response = response_of(&c, &room);
	if (response && reply.len)
		memcpy(response, answer, reply.len < room ? reply.len : room);
	return (ssize_t)len;
}

/* ---- calls of libibverbs ------------------------------------------------------------------ */

EXPORT int stat(const char *path, struct stat *st)
{
	return NEXT(stat)(is_node(path) ? "/dev/null" : path, st);
}

EXPORT int open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = va_arg(args, mode_t);
	va_end(args);
	return is_node(path) ? open_node() : NEXT(open)(path, flags, mode);
}

EXPORT ssize_t write(int fd, const void *buf, size_t len)
{
	int to = card(fd);

	return to >= 0 ? command(to, buf, len) : NEXT(write)(fd, buf, len);
}

EXPORT void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	struct card_request request = {
		.call = CARD_MAP, .len = (uint32_t)len, .offset = (uint64_t)offset};
	struct card_reply reply;
	int to = card(fd), page_fd;
	void *at;

	if (to < 0)
		return NEXT(mmap)(addr, len, prot, flags, fd, offset);
	if (ask(to, &request, NULL, NULL, 0, &reply, &page_fd))
		return MAP_FAILED;
	/* The register may be mapped without PROT_READ; the memory behind it cannot be. */
	at = NEXT(mmap)(addr, len, prot | PROT_READ, flags, page_fd, (off_t)reply.offset);
	KERNEL(SYS_close, page_fd);
	return at;
}

/* What the kernel's driver does not need: a program that closes all numbers must not find it. */
static bool is_to_card(int fd)
{
	for (int mark = 1; mark < MARKS && fd >= 0; mark++) {
		/* relaxed: a number that was closed meanwhile is none of the program's either */
		if (__atomic_load_n(&card_of[mark], __ATOMIC_RELAXED) == fd + 1)
			return true;
	}
	return false;
}

EXPORT int close(int fd)
{
	int mark = mark_of(fd), to = card(fd);

	if (is_to_card(fd)) {
		errno = EBADF;
		return -1;
	}
	if (to >= 0) {
		__atomic_store_n(&card_of[mark], 0, __ATOMIC_RELEASE); /* pairs with card() */
		KERNEL(SYS_close, to);
	}
	return NEXT(close)(fd);
}

/* There is one device, whatever the host has. */
EXPORT int socket(int domain, int type, int protocol)
{
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	return NEXT(socket)(domain, type, protocol);
}
