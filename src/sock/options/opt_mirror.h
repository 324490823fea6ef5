/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies options that the twin has accepted into struct sock_options.
 *
 * Role		control lock.
 */
#ifndef SOCK_OPTIONS_OPT_MIRROR_H
#define SOCK_OPTIONS_OPT_MIRROR_H

#include "sock/core/inet_sock.h"

/* The twin accepted an option of SOL_SOCKET: reads its value back into *opt. */
void opt_mirror_socket(struct inet_sock *so, int name, struct sock_options *opt);
/* IPPROTO_IP.  val, len: the program's memory, which the kernel could read just before. */
void opt_mirror_ip(struct inet_sock *so, int name, const void *val, socklen_t len,
		   struct sock_options *opt);
/* IPPROTO_IPV6 */
void opt_mirror_ipv6(struct inet_sock *so, int name, const void *val, socklen_t len,
		     struct sock_options *opt);
/* opt->told: some of these options disable others in the kernel, so all of them are read. */
void opt_mirror_told(struct inet_sock *so, struct sock_options *opt);
void opt_mirror_udp(struct inet_sock *so, int name, struct sock_options *opt);

#endif
