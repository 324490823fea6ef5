/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/uring.h"

#include <link.h>
#include <string.h>

#include "base/log.h"
#include "intercept/wrap.h"

static int uring_seen; /* any, atomic; never taken back */

/*
 * Sockets fall back to the kernel where possible; it does not know our connections. Returns
 * how many remain.
 */
static unsigned give_sockets_back(void)
{
	unsigned left = 0;

	for (int fd = fd_next(0); fd >= 0; fd = fd_next(fd + 1)) {
		struct sock_ref ref = sock_get(fd);

		if (ref.sk && sock_to_kernel(ref, VERDICT_CALL))
			left++;
	}
	return left;
}

void uring_used(void)
{
	int saved = errno;
	unsigned left;

	/* Orders nothing that others read: it only picks one caller. */
	if (fork_is_vfork_child() || __atomic_exchange_n(&uring_seen, 1, __ATOMIC_SEQ_CST))
		return;
	left = give_sockets_back();
	log_warn("the program uses io_uring, which this library does not see: from now on the "
		 "kernel serves its sockets");
	if (left)
		log_warn("%u descriptors of existing connections must not be used with io_uring, "
			 "which would find them not connected",
			 left);
	errno = saved;
}

static int is_liburing(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *name = strrchr(info->dlpi_name, '/');

	return name && !strncmp(name, "/liburing.so", 12);
}

bool uring_is_used(void)
{
	static int looked; /* atomic */

	if (!__atomic_load_n(&looked, __ATOMIC_RELAXED)) {
		__atomic_store_n(&looked, 1, __ATOMIC_RELAXED);
		if (dl_iterate_phdr(is_liburing, NULL))
			uring_used();
	}
	return __atomic_load_n(&uring_seen, __ATOMIC_RELAXED);
}
