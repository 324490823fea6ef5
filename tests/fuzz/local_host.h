/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process of a target that has local datagrams, and the addresses that its input chooses from: in a
 * network namespace of its own, so that input means the same on each machine.
 */
#ifndef TESTS_FUZZ_LOCAL_HOST_H
#define TESTS_FUZZ_LOCAL_HOST_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "sock/core/control.h"
#include "sock/local/local_group.h"
#include "tests/lib/local_receiver.h"

#define HOST_V4 20u /* 10.9.0.1 and following */
#define HOST_V6 4u  /* fd09::1 and following */
#define ADDRS (HOST_V4 + HOST_V6 + 11)

static struct inaddr addrs[ADDRS];

static inline void check_at(bool so, int line)
{
	if (so)
		return;
	fprintf(stderr, "line %d: this cannot be\n", line);
	abort();
}

#define check(so) check_at(so, __LINE__)

/* ---- the namespace --------------------------------------------------------------------------- */

/*
 * A process without privileges gets them in a user namespace, where it is who it was.  The number of a
 * namespace is used again: the directories of others stay out of sight.
 */
static inline bool host_unshare(void)
{
	const int flags = CLONE_NEWNET | CLONE_NEWNS;
	unsigned uid = geteuid();
	char map[64];
	int fd, n;

	if (!unshare(flags))
		return true;
	if (unshare(CLONE_NEWUSER | flags))
		return false;
	n = snprintf(map, sizeof(map), "%u %u 1\n", uid, uid);
	fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n -= (int)write(fd, map, (size_t)n);
	close(fd);
	return !n;
}

static inline bool host_add_v4(int fd, unsigned i)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a090001 + i)};
	struct ifreq ifr;

	memset(&ifr, 0, sizeof(ifr));
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "lo:%u", i + 1);
	memcpy(&ifr.ifr_addr, &at, sizeof(at));
	return !ioctl(fd, SIOCSIFADDR, &ifr);
}

static inline bool host_add_v6(int fd, unsigned i)
{
	struct in6_ifreq ifr = {.ifr6_prefixlen = 128, .ifr6_ifindex = 1};

	ifr.ifr6_addr.s6_addr[0] = 0xfd;
	ifr.ifr6_addr.s6_addr[1] = 0x09;
	ifr.ifr6_addr.s6_addr[15] = (uint8_t)(i + 1);
	return !ioctl(fd, SIOCSIFADDR, &ifr);
}

/* False: the machine does not allow it. */
static inline bool host_make(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK};
	bool good = host_unshare() && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
		    !mount("none", "/run", "tmpfs", 0, NULL);
	int v4 = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int v6 = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	good = good && !ioctl(v4, SIOCSIFFLAGS, &lo);
	for (unsigned i = 0; good && i < HOST_V4; i++)
		good = host_add_v4(v4, i);
	for (unsigned i = 0; good && i < HOST_V6; i++)
		good = host_add_v6(v6, i);
	close(v4);
	close(v6);
	return good;
}

/* ---- the process ----------------------------------------------------------------------------- */

/* What the quick ways leave to the others. */
static ssize_t host_recv(int fd, void *buf, size_t len, int flags)
{
	return -1;
}

static ssize_t host_recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *from,
			     socklen_t *from_len)
{
	return -1;
}

static inline struct inaddr host_v6(uint16_t first, uint16_t last)
{
	struct inaddr addr = {.q = {0, 0}};

	addr.w[0] = htonl((uint32_t)first << 16);
	addr.w[3] = htonl(last);
	return addr;
}

static inline void host_choose_addresses(void)
{
	unsigned n = 0;

	addrs[n++] = addr_v4(htonl(INADDR_LOOPBACK)); /* these two are first */
	addrs[n++] = host_v6(0, 1);
	addrs[n++] = local_all_groups();
	addrs[n++] = addr_v4(htonl(0xefff0707)); /* the group */
	addrs[n++] = addr_v4(htonl(0xefff0708));
	addrs[n++] = addr_v4_any();
	addrs[n++] = host_v6(0, 0);
	addrs[n++] = addr_v4(htonl(0x7f000002));
	addrs[n++] = addr_v4(htonl(0x0a0a0001)); /* another host */
	addrs[n++] = host_v6(0xfd0a, 1);
	addrs[n++] = host_v6(0xfe80, 1);
	for (unsigned i = 0; i < HOST_V4; i++)
		addrs[n++] = addr_v4(htonl(0x0a090001 + i));
	for (unsigned i = 0; i < HOST_V6; i++)
		addrs[n++] = host_v6(0xfd09, (uint16_t)(i + 1));
	check(n == ADDRS);
}

static inline void host_begin(local_handler *const *handlers)
{
	/* Then fewer of the addresses are the host's. */
	if (!host_make())
		fprintf(stderr, "the namespace stays as it is\n");
	sock_hooks.recv = host_recv;
	sock_hooks.recvfrom = host_recvfrom;
	local_receiver_start(handlers);
	host_choose_addresses();
}

#endif
