/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libvma.conf says about the sockets of this process (docs/man/libvma.conf.5).  The file is
 * read once, when the first socket is decided; what is wrong with it is logged then.
 *
 * Role		control lock.
 */
#ifndef SOCK_CORE_RULES_RULES_H
#define SOCK_CORE_RULES_RULES_H

#include <stdbool.h>

#include "base/conf/conf.h"
#include "net/addr.h"
#include "sock/core/verdict.h"

struct inet_sock;

/*
 * A socket is about to be used in this role.  CONF_OS: the kernel serves this use, with
 * VERDICT_RULE.  CONF_MUST, of a rule or because of VMA_STRICT: it fails if it cannot be
 * accelerated (strict.h); of a rule, so->must is set, too.
 *
 * first: the peer's address of a client, sender or connected socket, otherwise the local one.
 * second: the local address of a client or connected socket, otherwise NULL.
 */
enum conf_says rules_ask(struct inet_sock *so, enum conf_role role, const struct endpoint *first,
			 const struct endpoint *second);

/* The same for a socket that receives by its local address: a listener or a datagram socket. */
enum conf_says rules_ask_receiver(struct inet_sock *so);

/* A rule of the file that decided something; line 0: none did. */
struct rules_decision {
	unsigned line;
	enum conf_says says;
};

/* What decided about so, if that was the last thing that was decided; otherwise line 0. */
struct rules_decision rules_last(const struct inet_sock *so);

#define RULES_TEXT 144 /* room for rules_verdict_text() */

/*
 * A verdict in words, with FILE:LINE of the rule that decided.  VERDICT_ACCELERATED: empty, unless
 * a rule says so.  VERDICT_DENIED: the interface was denied a moment ago.
 */
void rules_verdict_text(enum verdict verdict, struct rules_decision rule, char text[RULES_TEXT]);

/* May the interface be opened?  No: *line of the file denies it. */
bool rules_allow_interface(const char *name, unsigned *line);

/*
 * Control lock: a line that comes before all rules of the file, and before those that were added
 * earlier, for every program and application id.  line is memory of the program.  0; -EINVAL: not
 * a rule for sockets (the log says why), or too many were added; -EFAULT; -ENOMEM.
 */
int rules_add(const char *line);

/* The file's name, for messages. */
const char *rules_file(void);

#endif
