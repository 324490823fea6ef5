/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/port/port_table.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/sys.h"
#include "net/netlink/sock_diag.h"
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

struct v6only {
	unsigned long inode;
	bool is;
};

static int find_inode(const struct diag_socket *socket, void *arg)
{
	struct v6only *v6only = arg;

	if (socket->inode == v6only->inode)
		v6only->is = socket->v6only;
	return 0;
}

bool port_row_has_ipv4(bool udp, const struct port_row *row)
{
	struct diag_query query = {.family = AF_INET6,
				   .protocol = udp ? IPPROTO_UDP : IPPROTO_TCP,
				   .states = 1u << (udp ? STATE_CLOSE : STATE_LISTEN),
				   .port = htons((uint16_t)row->port)};
	struct v6only v6only = {.inode = row->inode};

	control_assert_held();
	if (addr_is_v4(&row->addr))
		return true;
	if (!addr_is_any(&row->addr))
		return false;
	(void)diag_each(&query, find_inode, &v6only); /* if it does not tell, the row has IPv4 */
	return !v6only.is;
}
