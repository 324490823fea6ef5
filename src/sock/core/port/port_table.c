/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/port/port_table.h"

#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/sys.h"
#include "sock/core/control.h"

#define TABLE_MAX (4u << 20) /* bytes of a table that are read */

/* States of the kernel; that of an unconnected datagram socket is CLOSE. */
enum { STATE_CLOSE = 7, STATE_LISTEN = 10 };

/* ---- /proc/net ------------------------------------------------------------------------- */

/* The file as a string, which the caller frees.  NULL: it cannot be read. */
static char *read_table(const char *path)
{
	size_t room = 64 * 1024, have = 0;
	char *buf = mem_alloc(room);
	int fd = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	ssize_t n = -1;

	while (fd >= 0 && buf && (n = sys_read(fd, buf + have, room - have - 1)) > 0) {
		have += (size_t)n;
		if (room - have < 4096 && room < TABLE_MAX) {
			char *more = mem_realloc(buf, room *= 2);

			if (!more)
				break;
			buf = more;
		}
	}
	if (fd >= 0)
		sys_close(fd);
	if (buf && (fd < 0 || n < 0)) {
		mem_free(buf);
		return NULL;
	}
	if (buf)
		buf[have] = '\0';
	return buf;
}

/* An address is one word of 32 bits, or four: as they lie in memory. */
static bool parse_address(const char *text, struct port_row *row)
{
	uint32_t w[4];

	switch (strlen(text)) {
	case 8:
		if (sscanf(text, "%8x", &w[0]) != 1)
			return false;
		row->addr = addr_v4(w[0]);
		return true;
	case 32:
		if (sscanf(text, "%8x%8x%8x%8x", &w[0], &w[1], &w[2], &w[3]) != 4)
			return false;
		memcpy(row->addr.w, w, sizeof(w));
		return true;
	default:
		return false;
	}
}

/* False: no socket. */
static bool parse_row(const char *line, unsigned *state, struct port_row *row)
{
	char local[33], remote[33];

	memset(row, 0, sizeof(*row));
	return sscanf(line,
		      " %*d: %32[0-9A-F]:%x %32[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu",
		      local, &row->port, remote, state, &row->inode) == 5 &&
	       parse_address(local, row);
}

static void each_in(const char *path, bool udp, void (*fn)(const struct port_row *row, void *arg),
		    void *arg)
{
	char *table = read_table(path), *line, *save = NULL;
	struct port_row row;
	unsigned state;

	for (line = table ? strtok_r(table, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save)) {
		if (parse_row(line, &state, &row) && (udp || state == STATE_LISTEN))
			fn(&row, arg);
	}
	mem_free(table);
}

void port_table_each(bool udp, void (*fn)(const struct port_row *row, void *arg), void *arg)
{
	control_assert_held();
	each_in(udp ? "/proc/net/udp" : "/proc/net/tcp", udp, fn, arg);
	each_in(udp ? "/proc/net/udp6" : "/proc/net/tcp6", udp, fn, arg);
}

/* ---- IPV6_V6ONLY ----------------------------------------------------------------------- */

/* The attribute of a socket; -1: it has none. */
static int v6only_of(const char *at, size_t len)
{
	struct rtattr attr;

	for (; len >= sizeof(attr); at += RTA_ALIGN(attr.rta_len), len -= RTA_ALIGN(attr.rta_len)) {
		memcpy(&attr, at, sizeof(attr));
		if (attr.rta_len < sizeof(attr) || attr.rta_len > len)
			break;
		if (attr.rta_type == INET_DIAG_SKV6ONLY && attr.rta_len > RTA_LENGTH(0))
			return at[RTA_LENGTH(0)] != 0;
		if (RTA_ALIGN(attr.rta_len) > len)
			break;
	}
	return -1;
}

/* Looks for the inode in one message from the kernel.  False: it was the last one. */
static bool look_in(const char *answer, size_t len, unsigned long inode, int *v6only)
{
	const size_t fixed = NLMSG_LENGTH(sizeof(struct inet_diag_msg));
	struct nlmsghdr head;
	struct inet_diag_msg msg;

	for (size_t at = 0; at + sizeof(head) <= len; at += NLMSG_ALIGN(head.nlmsg_len)) {
		memcpy(&head, answer + at, sizeof(head));
		if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY || head.nlmsg_len > len - at ||
		    head.nlmsg_len < fixed)
			return false;
		memcpy(&msg, answer + at + NLMSG_HDRLEN, sizeof(msg));
		if (msg.idiag_inode == inode)
			*v6only = v6only_of(answer + at + fixed, head.nlmsg_len - fixed);
	}
	return true;
}

/* 1 or 0; -1: the kernel does not say. */
static int ask_v6only(int fd, bool udp, const struct port_row *row)
{
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 req;
	} question = {
		.head = {.nlmsg_len = sizeof(question),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.req = {.sdiag_family = AF_INET6,
			.sdiag_protocol = udp ? IPPROTO_UDP : IPPROTO_TCP,
			.idiag_states = 1u << (udp ? STATE_CLOSE : STATE_LISTEN),
			.id = {.idiag_sport = htons((uint16_t)row->port)}},
	};
	char answer[16384] __attribute__((aligned(8)));
	ssize_t n = sys_write(fd, &question, sizeof(question));
	int v6only = -1;

	if (n < 0)
		return v6only;
	do {
		n = sys_read(fd, answer, sizeof(answer)); /* does not block */
	} while (n > 0 && look_in(answer, (size_t)n, row->inode, &v6only));
	return v6only;
}

bool port_row_has_ipv4(bool udp, const struct port_row *row)
{
	int fd, v6only;

	control_assert_held();
	if (addr_is_v4(&row->addr))
		return true;
	if (!addr_is_any(&row->addr))
		return false;
	fd = sys_fd_hide(sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
	if (fd < 0)
		return true;
	v6only = ask_v6only(fd, udp, row);
	sys_close(fd);
	return v6only != 1;
}
