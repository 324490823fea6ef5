/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of processes that have connections in common share: see family.h. */
#ifndef SOCK_FAMILY_INTERNAL_H
#define SOCK_FAMILY_INTERNAL_H

#include "sock/family.h"

struct channel;

/*
 * What other processes have to do with a socket; control lock.  Made when it is first
 * needed: a forked child has thousands of sockets that it never uses.
 */
struct kin {
	struct inet_sock *so;
	struct list asking;	/* it is to be asked for at ask_at */
	struct channel *toward; /* there its owner is; NULL: it is here */
	nsec_t arrived;
	nsec_t ask_at, pause;
	uint32_t read_to, written_to; /* of the streams, when it arrived */
	int failed;		      /* why it could not come; told once */
	bool asked;		      /* the letter has gone */
	bool leaving;		      /* it was given, and has not arrived yet */
	bool kept;		      /* the program closed it */
	bool offered;		      /* at exit */
};

#endif
