/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of options share.
 *
 * Role		control lock.
 */
#ifndef SOCK_OPTIONS_OPT_MIRROR_H
#define SOCK_OPTIONS_OPT_MIRROR_H

#include "sock/core/inet_sock.h"

/* The twin took the value: *opt says what we make of it. */
void opt_mirror_socket(struct inet_sock *so, int name, struct sock_options *opt);
/* val, len: the program's, which the twin could read. */
void opt_mirror_ip(struct inet_sock *so, int name, const void *val, socklen_t len,
		   struct sock_options *opt);
/* What recvmsg() adds: the kernel's options exclude each other, so all are read. */
void opt_mirror_told(struct inet_sock *so, struct sock_options *opt);
void opt_mirror_udp(struct inet_sock *so, int name, struct sock_options *opt);

#endif
