/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that make a child which executes a program at once. The C library makes it without
 * fork(), so the child shares our memory and runs none of our code before the program: the
 * program learns from its environment what it inherits, see inherited.h.
 */
#include <fcntl.h>
#include <paths.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mutex.h"
#include "intercept/process/inherited.h"
#include "intercept/wrap.h"

/* A child is being made. */
struct making {
	struct inherited h;
	bool in_environment; /* the process's has the variable */
};

/* After any of it. */
static void give_back(void *arg)
{
	struct making *m = arg;

	signals_block();
	if (m->in_environment)
		unsetenv(INHERITED_NAME);
	m->in_environment = false;
	inherited_lent(&m->h);
	signals_unblock();
}

/*
 * A handler may leave a call with siglongjmp() as soon as it has signals again, and gives back what the
 * child was lent then. longjmp() compares the address of undo with the stack: AddressSanitizer must
 * leave it there.
 */
#define MAKES_CHILD __attribute__((no_sanitize_address)) EXPORT

MAKES_CHILD int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
			    const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
	struct making m = {.in_environment = false};
	struct cleanup undo;
	int rc;

	if (!inherited_any())
		return libc.posix_spawn(pid, path, actions, attr, argv, env);
	cleanup_push(&undo, give_back, &m);
	signals_block();
	inherited_lend(&m.h, image_at(AT_FDCWD, path, 0, env), env);
	signals_unblock();
	rc = m.h.refused ? EAGAIN : libc.posix_spawn(pid, path, actions, attr, argv, m.h.env);
	give_back(&m);
	cleanup_pop(&undo);
	return rc;
}

MAKES_CHILD int posix_spawnp(pid_t *pid, const char *file,
			     const posix_spawn_file_actions_t *actions,
			     const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
	struct making m = {.in_environment = false};
	struct cleanup undo;
	int rc;

	if (!inherited_any())
		return libc.posix_spawnp(pid, file, actions, attr, argv, env);
	cleanup_push(&undo, give_back, &m);
	signals_block();
	inherited_lend(&m.h, image_search(file, env), env);
	signals_unblock();
	rc = m.h.refused ? EAGAIN : libc.posix_spawnp(pid, file, actions, attr, argv, m.h.env);
	give_back(&m);
	cleanup_pop(&undo);
	return rc;
}

/* popen() uses the process's environment, so the variable is put there meanwhile. */
MAKES_CHILD FILE *popen(const char *command, const char *type)
{
	struct making m = {.in_environment = false};
	struct cleanup undo;
	FILE *file = NULL;
	int saved = errno;

	if (!inherited_any())
		return libc.popen(command, type);
	cleanup_push(&undo, give_back, &m);
	signals_block();
	inherited_lend(&m.h, image_at(AT_FDCWD, _PATH_BSHELL, 0, environ), environ);
	m.in_environment = m.h.map && !putenv(m.h.text);
	signals_unblock();
	errno = m.h.refused ? EAGAIN : saved;
	if (!m.h.refused)
		file = libc.popen(command, type);
	saved = errno;
	give_back(&m);
	cleanup_pop(&undo);
	errno = saved;
	return file;
}

/* ---- system(3) --------------------------------------------------------------------- */

/* SIGINT and SIGQUIT are ignored while any thread is in system(); their actions before that. */
static struct {
	pthread_mutex_t lock;
	unsigned callers;
	struct sigaction interrupt, quit;
} ignored = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* One call of system(). */
struct shell {
	pid_t pid; /* 0: none yet */
	sigset_t mask;
	int status;
};

static void begin_ignoring(void)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};

	mutex_lock(&ignored.lock);
	if (!ignored.callers++) {
		sigaction(SIGINT, &ignore, &ignored.interrupt);
		sigaction(SIGQUIT, &ignore, &ignored.quit);
	}
	mutex_unlock(&ignored.lock);
}

static void end_ignoring(void)
{
	mutex_lock(&ignored.lock);
	if (!--ignored.callers) {
		sigaction(SIGINT, &ignored.interrupt, NULL);
		sigaction(SIGQUIT, &ignored.quit, NULL);
	}
	mutex_unlock(&ignored.lock);
}

/* Ends the call. If the thread was cancelled, kills the shell and waits for its end. */
static void end_shell(void *arg)
{
	struct shell *shell = arg;
	int saved = errno;

	if (shell->pid > 0) {
		kill(shell->pid, SIGKILL);
		while (waitpid(shell->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	end_ignoring();
	pthread_sigmask(SIG_SETMASK, &shell->mask, NULL);
	errno = saved;
}

/* Starts the shell, in which signals that the program ignores stay ignored. 0 or errno. */
static int spawn_shell(struct shell *shell, const char *command)
{
	const char *args[] = {"sh", "-c", command, NULL};
	posix_spawnattr_t attr;
	sigset_t defaults;
	int rc;

	sigemptyset(&defaults);
	if (ignored.interrupt.sa_handler != SIG_IGN)
		sigaddset(&defaults, SIGINT);
	if (ignored.quit.sa_handler != SIG_IGN)
		sigaddset(&defaults, SIGQUIT);
	rc = posix_spawnattr_init(&attr);
	if (rc)
		return rc;
	posix_spawnattr_setsigmask(&attr, &shell->mask);
	posix_spawnattr_setsigdefault(&attr, &defaults);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	rc = posix_spawn(&shell->pid, _PATH_BSHELL, NULL, &attr, (char **)(uintptr_t)args, environ);
	posix_spawnattr_destroy(&attr);
	return rc;
}

/* Waits until the shell has ended. Leaves errno unchanged, or sets it if there is no status. */
static void wait_for(struct shell *shell)
{
	int saved = errno;

	while (waitpid(shell->pid, &shell->status, 0) < 0) {
		if (errno != EINTR) {
			shell->status = -1;
			return;
		}
	}
	errno = saved;
}

/* As system() of the C library, but with our posix_spawn(). */
static int run_shell(const char *command)
{
	struct shell shell = {.status = W_EXITCODE(127, 0)};
	sigset_t child;
	int rc;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	begin_ignoring();
	pthread_sigmask(SIG_BLOCK, &child, &shell.mask);
	pthread_cleanup_push(end_shell, &shell);
	rc = spawn_shell(&shell, command);
	if (rc)
		errno = rc;
	else
		wait_for(&shell);
	shell.pid = 0;
	pthread_cleanup_pop(1);
	return shell.status;
}

EXPORT int system(const char *command)
{
	return command && inherited_any() ? run_shell(command) : libc.system(command);
}
