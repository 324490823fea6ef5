/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that hand descriptors to io_uring, whose work we do not see: they keep the
 * kernel's sockets.  Known by io_uring_setup(2) made through syscall(), and by liburing,
 * which makes it without the C library, being there when the first socket is made.
 */
#ifndef INTERCEPT_URING_H
#define INTERCEPT_URING_H

#include <stdbool.h>

/*
 * Any: the program has a ring.  Sockets that are not connected go to the kernel, new
 * ones stay there; one warning says so, and names connections that cannot go.
 */
void uring_used(void);

/* Any: are new sockets left to the kernel? */
bool uring_is_used(void);

#endif
