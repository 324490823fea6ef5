/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/accept_options.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/list.h"
#include "base/mem.h"
#include "base/sys.h"
#include "sock/core/control.h"

#define VALUE_MAX 16 /* a struct timeval */

struct value {
	int level, name;
	socklen_t len;
	char bytes[VALUE_MAX];
};

struct accept_options {
	unsigned refs; /* any, atomic */
	unsigned n;
	struct value values[];
};

/* How option_list.h classifies an option of TCP; children inherit those from TREAT_TWIN on. */
enum treatment {
	TREAT_KERNEL,
	TREAT_KERNEL6,
	TREAT_READ,
	TREAT_REFUSED,
	TREAT_GROUP,
	TREAT_TWIN,
	TREAT_DONE
};
enum {
	LEVEL_SOCKET = SOL_SOCKET,
	LEVEL_IP = IPPROTO_IP,
	LEVEL_IPV6 = IPPROTO_IPV6,
	LEVEL_TCP = IPPROTO_TCP,
	LEVEL_UDP = IPPROTO_UDP
};

static const struct {
	int level;
	uint8_t name;
	uint8_t treatment;
} options[] = {
#define OPTION(level, name, number, udp, tcp, remark) {LEVEL_##level, number, TREAT_##tcp},
#include "sock/core/option_list.h"
#undef OPTION
};

#define OPTIONS (sizeof(options) / sizeof(*options))

/* Is the option not inherited, or does another option have the same effect? */
static bool is_left_out(int level, int name)
{
	static const uint8_t of_socket[] = {
		25 /* SO_BINDTODEVICE */, 32, 33 /* SO_*BUFFORCE */, 49 /* SO_INCOMING_CPU */, 66,
		67 /* SO_*TIMEO_NEW */,	  73 /* SO_RESERVE_MEM */};
	static const uint8_t of_tcp[] = {9 /* TCP_DEFER_ACCEPT */, 12 /* TCP_QUICKACK */,
					 13 /* TCP_CONGESTION */, 23, 33 /* TCP_FASTOPEN* */};

	if (level == SOL_SOCKET)
		return memchr(of_socket, name, sizeof(of_socket)) != NULL;
	return level == IPPROTO_TCP && memchr(of_tcp, name, sizeof(of_tcp)) != NULL;
}

/*
 * Does a connection have it from its listener? SO_TIMESTAMPING_NEW makes SO_TIMESTAMP and
 * SO_TIMESTAMPNS those of the new kind, which only the kernel would set for a program.
 */
static bool is_inherited(unsigned i, int family)
{
	const int level = options[i].level, name = options[i].name;

	if (level == SOL_SOCKET && (name == SO_TIMESTAMP_NEW || name == SO_TIMESTAMPNS_NEW))
		return true;
	return options[i].treatment >= TREAT_TWIN &&
	       (level != IPPROTO_IPV6 || family == AF_INET6) && !is_left_out(level, name);
}

static bool read_value(int fd, unsigned i, struct value *value)
{
	memset(value, 0, sizeof(*value));
	value->level = options[i].level;
	value->name = options[i].name;
	value->len = VALUE_MAX;
	return !sys_getsockopt(fd, value->level, value->name, value->bytes, &value->len);
}

/* The kernel reports twice the size that a buffer was set to. */
static void as_given(struct value *value)
{
	int n;

	if (value->level != SOL_SOCKET || (value->name != SO_SNDBUF && value->name != SO_RCVBUF))
		return;
	memcpy(&n, value->bytes, sizeof(n));
	n /= 2;
	memcpy(value->bytes, &n, sizeof(n));
}

/* The options in which fd differs from a new socket, in the order in which to set them. */
static unsigned collect(int fd, int fresh, int family, struct value *values)
{
	struct value other;
	unsigned n = 0;

	/* SOL_SOCKET last, because IP_TOS changes SO_PRIORITY. */
	for (int socket = 0; socket < 2; socket++) {
		for (unsigned i = 0; i < OPTIONS; i++) {
			if ((options[i].level == SOL_SOCKET) != socket || !is_inherited(i, family))
				continue;
			if (!read_value(fd, i, &values[n]) || !read_value(fresh, i, &other) ||
			    !memcmp(&values[n], &other, sizeof(other)))
				continue;
			as_given(&values[n++]);
		}
	}
	return n;
}

const struct accept_options *accept_options_look(int fd, int family)
{
	struct value values[OPTIONS];
	int fresh = sys_socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct accept_options *accept_options;
	unsigned n;

	control_assert_held();
	control_assert_no_ring();
	if (fresh < 0)
		return NULL;
	n = collect(fd, fresh, family, values);
	sys_close(fresh);
	accept_options = n ? mem_alloc(sizeof(*accept_options) + n * sizeof(*values)) : NULL;
	if (!accept_options)
		return NULL;
	accept_options->refs = 1;
	accept_options->n = n;
	memcpy(accept_options->values, values, n * sizeof(*values));
	return accept_options;
}

const struct accept_options *accept_options_get(const struct accept_options *accept_options)
{
	if (accept_options)
		__atomic_add_fetch(&((struct accept_options *)(uintptr_t)accept_options)->refs, 1,
				   __ATOMIC_RELAXED);
	return accept_options;
}

void accept_options_put(const struct accept_options *accept_options)
{
	struct accept_options *mine = (struct accept_options *)(uintptr_t)accept_options;

	/* Orders the last use of every other holder before the memory is freed. */
	if (mine && !__atomic_sub_fetch(&mine->refs, 1, __ATOMIC_ACQ_REL))
		mem_free(mine);
}

void accept_options_apply(const struct accept_options *accept_options, int fd)
{
	control_assert_held();
	control_assert_no_ring();
	for (unsigned i = 0; accept_options && i < accept_options->n; i++) {
		const struct value *v = &accept_options->values[i];

		sys_setsockopt(fd, v->level, v->name, v->bytes, v->len);
	}
}
