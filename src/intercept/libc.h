/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The real functions of the C library, behind those that we replace.
 *
 * Role		any thread, from the first instruction of the process on: other
 *		libraries' constructors run before ours.
 * Lifetime	a member is callable at any time; it looks the real functions up
 *		if nobody did yet.
 * Ordering	none: each member is one pointer, and every value it ever has
 *		does the call.
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

/* Looks up all of them. */
void libc_resolve(void);

#endif
