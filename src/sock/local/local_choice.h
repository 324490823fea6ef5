/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that share a port: which of them receives.
 *
 * Role		control lock; the entries are those that local_dir_find() has returned.
 */
#ifndef SOCK_LOCAL_LOCAL_CHOICE_H
#define SOCK_LOCAL_LOCAL_CHOICE_H

#include "sock/local/local_dir.h"

enum local_sharing {
	LOCAL_UNSHARED, /* one socket, although several processes may have it */
	LOCAL_SHARED,	/* the kernel chooses, maybe a socket of another program */
	LOCAL_FILTERED, /* a BPF program chooses: the kernel gets everything */
};

enum local_sharing local_sharing(const struct local_entry *found, unsigned n);

/*
 * LOCAL_SHARED: an entry of the socket that the kernel chooses for a datagram, or a new connection
 * (LOCAL_TCP), from there to there; NULL: it has no entry, or that is not known.
 */
const struct local_entry *local_choice(enum local_proto proto, const struct endpoint *from,
				       const struct endpoint *to, const struct local_entry *found,
				       unsigned n);

#endif
