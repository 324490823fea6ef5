/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs the behaviours with AF_INET6 sockets: with IPv4-mapped addresses if $DIFF_FAMILY is 6, with
 * addresses of IPv6 if it is "native". The linker puts these functions between the behaviours and the
 * calls (--wrap, see BUILD.bazel): addresses that go to a call are mapped, and those that come from
 * it are mapped back, after a look at what the program really got. An address that does not have the
 * size of a sockaddr_in passes as it is. For the program's 0.0.0.0, bind() gets ::.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/diff/diff.h"

#define WRAP(type, name, args)   \
	type __real_##name args; \
	type __wrap_##name args; \
	type __wrap_##name args

union any {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

bool is_native(void)
{
	const char *family = getenv("DIFF_FAMILY");

	return family && !strcmp(family, "native");
}

static bool enabled(void)
{
	const char *family = getenv("DIFF_FAMILY");

	return is_native() || (family && !strcmp(family, "6"));
}

/*
 * 10.9.C.D is fd00:9:C::D, 127.x.x.x is ::1, and 0.0.0.0 is ::. False: addresses of the test that
 * have no counterpart, as those of broadcast and multicast.
 */
static bool to_native(const struct in_addr *from, struct in6_addr *to)
{
	const uint8_t *b = (const uint8_t *)&from->s_addr;

	memset(to, 0, sizeof(*to));
	if (!from->s_addr)
		return true;
	if (b[0] == 127) {
		to->s6_addr[15] = 1;
		return true;
	}
	if (b[0] != 10 || b[1] != 9 || b[3] == 255)
		return false;
	to->s6_addr[0] = 0xfd;
	to->s6_addr[3] = b[1];
	to->s6_addr[5] = b[2];
	to->s6_addr[15] = b[3];
	return true;
}

static bool from_native(const struct in6_addr *from, struct in_addr *to)
{
	uint8_t b[4] = {10, from->s6_addr[3], from->s6_addr[5], from->s6_addr[15]};
	struct in6_addr again;

	if (!from->s6_addr32[0] && !from->s6_addr32[1] && !from->s6_addr32[2])
		memcpy(b, from->s6_addr[15] ? (uint8_t[]){127, 0, 0, 1} : (uint8_t[]){0, 0, 0, 0},
		       4);
	memcpy(to, b, sizeof(b));
	return to_native(to, &again) && !memcmp(&again, from, sizeof(again));
}

/* By the kernel, so that the library does not see it. */
static bool is_v6(int fd)
{
	int saved = errno, domain = 0;
	socklen_t len = sizeof(domain);

	if (enabled() && syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &domain, &len))
		domain = 0;
	errno = saved;
	return domain == AF_INET6;
}

/* Copies if both can be accessed: behaviours pass bad pointers, too. */
static bool copy(void *to, const void *from, size_t n)
{
	struct iovec local = {to, n}, remote = {(void *)(uintptr_t)from, n};
	int saved = errno;
	bool good = process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)n;

	errno = saved;
	return good;
}

/* ---- to a call ------------------------------------------------------------------------ */

/* False: the address goes to the call as it is. */
static bool map(int fd, union any *to, const void *sa, socklen_t len, bool binds)
{
	struct sockaddr_in in;

	if (!sa || len != sizeof(in) || !is_v6(fd) || !copy(&in, sa, sizeof(in)) ||
	    in.sin_family != AF_INET)
		return false;
	memset(to, 0, sizeof(*to));
	to->in6.sin6_family = AF_INET6;
	to->in6.sin6_port = in.sin_port;
	if (is_native() && to_native(&in.sin_addr, &to->in6.sin6_addr))
		return true;
	to->in6.sin6_addr.s6_addr32[3] = in.sin_addr.s_addr;
	if (in.sin_addr.s_addr || !binds)
		to->in6.sin6_addr.s6_addr32[2] = htonl(0xffff);
	return true;
}

WRAP(int, socket, (int domain, int type, int protocol))
{
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (domain == AF_INET && (kind == SOCK_STREAM || kind == SOCK_DGRAM) && enabled())
		domain = AF_INET6;
	return __real_socket(domain, type, protocol);
}

WRAP(int, bind, (int fd, const struct sockaddr *sa, socklen_t len))
{
	union any to;

	if (map(fd, &to, sa, len, true))
		return __real_bind(fd, &to.sa, sizeof(to.in6));
	return __real_bind(fd, sa, len);
}

WRAP(int, connect, (int fd, const struct sockaddr *sa, socklen_t len))
{
	union any to;

	if (map(fd, &to, sa, len, false))
		return __real_connect(fd, &to.sa, sizeof(to.in6));
	return __real_connect(fd, sa, len);
}

WRAP(int, __connect, (int fd, const struct sockaddr *sa, socklen_t len))
{
	union any to;

	if (map(fd, &to, sa, len, false))
		return __real___connect(fd, &to.sa, sizeof(to.in6));
	return __real___connect(fd, sa, len);
}

WRAP(ssize_t, sendto,
     (int fd, const void *buf, size_t n, int flags, const struct sockaddr *sa, socklen_t len))
{
	union any to;

	if (map(fd, &to, sa, len, false))
		return __real_sendto(fd, buf, n, flags, &to.sa, sizeof(to.in6));
	return __real_sendto(fd, buf, n, flags, sa, len);
}

/* The same message with a mapped name, or NULL. */
static struct msghdr *map_message(int fd, struct msghdr *to, union any *name,
				  const struct msghdr *msg)
{
	if (!copy(to, msg, sizeof(*to)) || !map(fd, name, to->msg_name, to->msg_namelen, false))
		return NULL;
	to->msg_name = name;
	to->msg_namelen = sizeof(name->in6);
	return to;
}

WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *msg, int flags))
{
	struct msghdr to;
	union any name;

	return __real_sendmsg(fd, map_message(fd, &to, &name, msg) ? &to : msg, flags);
}

WRAP(int, sendmmsg, (int fd, struct mmsghdr *msgs, unsigned n, int flags))
{
	enum { MOST = 64 };
	struct mmsghdr to[MOST];
	union any names[MOST];
	unsigned i = 0;
	int rc;

	while (i < n && i < MOST && map_message(fd, &to[i].msg_hdr, &names[i], &msgs[i].msg_hdr))
		i++;
	if (!n || i < n)
		return __real_sendmmsg(fd, msgs, n, flags);
	rc = __real_sendmmsg(fd, to, n, flags);
	for (int sent = 0; sent < rc; sent++)
		msgs[sent].msg_len = to[sent].msg_len;
	return rc;
}

/* ---- from a call ---------------------------------------------------------------------- */

/* Does the program expect a sockaddr_in, which it can get? */
static bool expects(int fd, void *sa, const socklen_t *len)
{
	struct sockaddr_in in;
	socklen_t room;

	return sa && len && is_v6(fd) && copy(&room, len, sizeof(room)) && room == sizeof(in) &&
	       copy(&in, sa, sizeof(in)) && copy(sa, &in, sizeof(in));
}

/* What the call has told is a mapped address, or :: for an unbound socket. */
static void unmap(const char *call, void *sa, socklen_t *len, const union any *got, socklen_t size)
{
	const uint32_t *w = got->in6.sin6_addr.s6_addr32;
	struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_port = got->in6.sin6_port, .sin_addr.s_addr = w[3]};

	if (!size) {
		*len = 0;
		return;
	}
	if (is_native() && size == sizeof(got->in6) && got->sa.sa_family == AF_INET6 &&
	    !got->in6.sin6_flowinfo && !got->in6.sin6_scope_id &&
	    from_native(&got->in6.sin6_addr, &in.sin_addr)) {
		memcpy(sa, &in, sizeof(in));
		*len = sizeof(in);
		return;
	}
	if (size != sizeof(got->in6) || got->sa.sa_family != AF_INET6 || w[0] || w[1] ||
	    (w[2] != htonl(0xffff) && (w[2] || w[3])) || got->in6.sin6_flowinfo ||
	    got->in6.sin6_scope_id)
		say("%s: not a mapped address: family %d, length %u, %08x %08x %08x %08x", call,
		    got->sa.sa_family, size, ntohl(w[0]), ntohl(w[1]), ntohl(w[2]), ntohl(w[3]));
	else if (!w[2] && !got->in6.sin6_port)
		say("%s: ::", call);
	memcpy(sa, &in, sizeof(in));
	*len = sizeof(in);
}

WRAP(int, getsockname, (int fd, struct sockaddr *sa, socklen_t *len))
{
	union any got;
	socklen_t size = sizeof(got);
	int rc;

	if (!expects(fd, sa, len))
		return __real_getsockname(fd, sa, len);
	rc = __real_getsockname(fd, &got.sa, &size);
	if (!rc)
		unmap("getsockname", sa, len, &got, size);
	return rc;
}

WRAP(int, getpeername, (int fd, struct sockaddr *sa, socklen_t *len))
{
	union any got;
	socklen_t size = sizeof(got);
	int rc;

	if (!expects(fd, sa, len))
		return __real_getpeername(fd, sa, len);
	rc = __real_getpeername(fd, &got.sa, &size);
	if (!rc)
		unmap("getpeername", sa, len, &got, size);
	return rc;
}

WRAP(int, accept, (int fd, struct sockaddr *sa, socklen_t *len))
{
	union any got;
	socklen_t size = sizeof(got);
	int rc;

	if (!expects(fd, sa, len))
		return __real_accept(fd, sa, len);
	rc = __real_accept(fd, &got.sa, &size);
	if (rc >= 0)
		unmap("accept", sa, len, &got, size);
	return rc;
}

WRAP(int, accept4, (int fd, struct sockaddr *sa, socklen_t *len, int flags))
{
	union any got;
	socklen_t size = sizeof(got);
	int rc;

	if (!expects(fd, sa, len))
		return __real_accept4(fd, sa, len, flags);
	rc = __real_accept4(fd, &got.sa, &size, flags);
	if (rc >= 0)
		unmap("accept4", sa, len, &got, size);
	return rc;
}

WRAP(ssize_t, recvfrom,
     (int fd, void *buf, size_t n, int flags, struct sockaddr *sa, socklen_t *len))
{
	union any got;
	socklen_t size = sizeof(got);
	ssize_t rc;

	if (!expects(fd, sa, len))
		return __real_recvfrom(fd, buf, n, flags, sa, len);
	rc = __real_recvfrom(fd, buf, n, flags, &got.sa, &size);
	if (rc >= 0 && size != sizeof(got)) /* of a connection: the kernel sets nothing, or 0 */
		unmap("recvfrom", sa, len, &got, size);
	else if (rc >= 0 && got.sa.sa_family == AF_INET6)
		unmap("recvfrom", sa, len, &got, size);
	return rc;
}

WRAP(ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags))
{
	struct msghdr ours;
	union any got;
	ssize_t rc;

	if (!copy(&ours, msg, sizeof(ours)) || !expects(fd, ours.msg_name, &ours.msg_namelen))
		return __real_recvmsg(fd, msg, flags);
	msg->msg_name = &got;
	msg->msg_namelen = sizeof(got);
	rc = __real_recvmsg(fd, msg, flags);
	msg->msg_name = ours.msg_name;
	if (rc >= 0)
		unmap("recvmsg", msg->msg_name, &msg->msg_namelen, &got, msg->msg_namelen);
	else
		msg->msg_namelen = ours.msg_namelen;
	return rc;
}

WRAP(int, recvmmsg, (int fd, struct mmsghdr *msgs, unsigned n, int flags, struct timespec *timeout))
{
	enum { MOST = 64 };
	union any got[MOST];
	void *names[MOST];
	unsigned i = 0;
	struct mmsghdr one;
	int rc;

	while (i < n && i < MOST && copy(&one, &msgs[i], sizeof(one)) &&
	       expects(fd, one.msg_hdr.msg_name, &one.msg_hdr.msg_namelen))
		i++;
	if (!n || i < n)
		return __real_recvmmsg(fd, msgs, n, flags, timeout);
	for (i = 0; i < n; i++) {
		names[i] = msgs[i].msg_hdr.msg_name;
		msgs[i].msg_hdr.msg_name = &got[i];
		msgs[i].msg_hdr.msg_namelen = sizeof(got[i]);
	}
	rc = __real_recvmmsg(fd, msgs, n, flags, timeout);
	for (i = 0; i < n; i++) {
		struct msghdr *msg = &msgs[i].msg_hdr;

		msg->msg_name = names[i];
		if ((int)i < rc)
			unmap("recvmmsg", names[i], &msg->msg_namelen, &got[i], msg->msg_namelen);
		else
			msg->msg_namelen = sizeof(struct sockaddr_in);
	}
	return rc;
}
