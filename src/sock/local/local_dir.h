/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory of local endpoints: which processes of this user, in this network namespace,
 * receive at an address and port, and can be reached through shared memory.
 *
 *	HOST-DIR/local3-NETNS/			base/host_dir.h; NETNS: inode of the namespace
 *		t7f000001-1f90/			TCP, 127.0.0.1, port 8080 (hexadecimal)
 *		u0000...0001-0035/		UDP, ::1, port 53: 32 digits
 *			PROCESS-SOCKET		one empty file for each receiver, or
 *			PROCESS-SOCKET-COOKIE	if others may be bound there, too
 *		m00000000-1f90/			port 8080, members of multicast groups: always with COOKIE
 *
 * A process has a random name, which is also that of its Unix socket (local_meet.h); the kernel
 * frees that with the process, so an entry whose process has ended is known by it.  The files are
 * empty: all that is known of a receiver is in its name.
 *
 * Role		control lock, except where a function says otherwise.
 * Lifetime	entries stay when their process is killed.  Who meets one removes it, and
 *		local_dir_open() removes all of them.  Namespaces end, and their numbers are used
 *		again: local_dir_open() removes the directories of others that no process has open.
 * Trust	each directory and file must belong to the effective user, and nobody else may
 *		access it.  Links are not followed.  A name that is no entry is ignored.
 * Errors	-errno.
 */
#ifndef SOCK_LOCAL_LOCAL_DIR_H
#define SOCK_LOCAL_LOCAL_DIR_H

#include <stdbool.h>
#include <stdint.h>

#include "net/addr.h"

enum local_proto { LOCAL_TCP, LOCAL_UDP, LOCAL_GROUP };

/* A receiver: a socket of a process. */
struct local_entry {
	uint64_t process; /* its name, not 0 */
	uint32_t socket;  /* a number that the process has given it */
	uint64_t cookie; /* SO_COOKIE: LOCAL_GROUP; or the kernel chooses among the sockets of the port; else 0 */
};

#define LOCAL_COOKIE_FILTER UINT64_MAX /* no receiver: a BPF program chooses among those there */

/*
 * Where a receiver is registered.  at: port in network order, not 0.  0.0.0.0: at all addresses of IPv4;
 * ::: at all of IPv6, and with ipv4, at those of IPv4, too, where it has a second entry.
 */
struct local_place {
	enum local_proto proto;
	struct endpoint at;
	bool ipv4;
};

/* pure: does a receiver that is registered there receive what is sent to this address, if that is the host's? */
static inline bool local_place_has(const struct local_place *place, const struct inaddr *to)
{
	const struct inaddr *at = &place->at.addr;

	if (addr_is_any(to))
		return false;
	if (!addr_is_any(at))
		return addr_eq(at, to);
	return addr_is_v4(to) ? addr_is_v4(at) || place->ipv4 : !addr_is_v4(at);
}

#define LOCAL_MEMBERS 64 /* most receivers that local_dir_find() returns */

/*
 * Opens the directory of this user and of the network namespace of netlink.h, made if necessary, and
 * removes the entries of dead processes, and directories that nobody uses: once in a process and those that it
 * forks.  Before netlink_open() the namespace is the calling thread's.
 * base: a directory for it, which exists (tests); NULL: the host's.
 * dead: has the process with this name ended?
 * -ENOENT: no place for it; -EPERM: it is not the user's alone.
 */
int local_dir_open(const char *base, bool (*dead)(uint64_t process));
/* Entries of this process stay. */
void local_dir_close(void);
/* any, in a forked child: its descriptors are closed already. */
void local_dir_forget(void);
bool local_dir_is_open(void);

/*
 * A socket of this process receives at the place from now on.  Several may, in one process or
 * several (SO_REUSEPORT); the caller knows whether the kernel accepts that.  0 or -errno.
 */
int local_dir_add(const struct local_place *place, const struct local_entry *entry);
/*
 * It does not receive any more; or, of another process: that has ended (it cannot be reached by its
 * name).  Does nothing if it is not there.
 */
void local_dir_remove(const struct local_place *place, const struct local_entry *entry);

/*
 * The receivers of what is sent to the place, which names an address: those that are bound to it,
 * or, if there are none, those that are bound to any address of its family.  Returns their number, at
 * most LOCAL_MEMBERS, in ascending order, so that all senders see the same one; *at: where they are
 * registered, one entry of each.  0: the kernel gets it.
 */
unsigned local_dir_find(const struct local_place *to, struct local_place *at,
			struct local_entry found[LOCAL_MEMBERS]);

/*
 * any: changes after an entry was added or removed by any process, soon: a sender that caches
 * what local_dir_find() returned compares it.  It may change without a cause.
 */
uint32_t local_dir_generation(void);
/*
 * any: is the directory as it was when it had this generation?  A receiver that was added before this
 * call is noticed by it, in whatever process.
 */
bool local_dir_is_still(uint32_t generation);
/* Control lock: takes in all changes, so that local_dir_is_still() is true.  False: that cannot be. */
bool local_dir_catch_up(void);
/* Readable when the generation is to change; -1: none. */
int local_dir_fd(void);
/* The internal thread: local_dir_fd() is readable. */
void local_dir_changed(void);

#endif
