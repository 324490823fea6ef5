/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The real functions of the C library, which our wrappers call.
 *
 * Role		any thread, from the first instruction of the process on, because other
 *		libraries' constructors run before ours.
 * Lifetime	every member is callable at any time; the first call looks the real
 *		functions up, if that has not been done.
 * Ordering	none: each member is one pointer, atomic, and a call by any value it ever
 *		has works.
 */
#ifndef INTERCEPT_LIBC_H
#define INTERCEPT_LIBC_H

#include <aio.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <termios.h>
#include <time.h>

struct libc_calls {
#define CALL(type, name, params, ...) type(*name) params;
#include "intercept/calls.h"
#undef CALL
};

extern struct libc_calls libc;

/* Looks up all real functions. */
void libc_resolve(void);

#endif
