/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls by which a process of root permanently becomes another user's, or leaves behind the
 * files that the library needs. Before them, the library opens what it could not open
 * afterwards (sock/share/privilege.c).
 */
#include <unistd.h>

#include "intercept/wrap.h"

#define SAME ((uid_t)-1)

static uid_t new_id(uid_t asked, uid_t now)
{
	return asked == SAME ? now : asked;
}

/* Before a call that sets the three user ids to these. */
static void before_setuid(uid_t real, uid_t effective, uid_t set)
{
	uid_t now[3];
	int saved = errno;

	if (!getresuid(&now[0], &now[1], &now[2]) && !now[1] && new_id(real, now[0]) &&
	    new_id(effective, now[1]) && new_id(set, now[2]) && may_have_ours() &&
	    !fork_is_vfork_child())
		sock_unprivileged();
	errno = saved;
}

EXPORT int setresuid(uid_t real, uid_t effective, uid_t set)
{
	before_setuid(real, effective, set);
	return libc.setresuid(real, effective, set);
}

EXPORT int setreuid(uid_t real, uid_t effective)
{
	/* The saved id is set if the real one is set or the effective one changes. */
	before_setuid(real, effective, effective);
	return libc.setreuid(real, effective);
}

EXPORT int setuid(uid_t id)
{
	before_setuid(id, id, id);
	return libc.setuid(id);
}

EXPORT int chroot(const char *path)
{
	int saved = errno;

	if (!geteuid() && may_have_ours() && !fork_is_vfork_child())
		sock_changes_root();
	errno = saved;
	return libc.chroot(path);
}
