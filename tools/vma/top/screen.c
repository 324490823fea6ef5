/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/vma/top/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* Control sequences of ECMA-48 and xterm. */
#define OTHER_PAGE "\033[?1049h"
#define OWN_PAGE "\033[?1049l"
#define HIDE_CURSOR "\033[?25l"
#define SHOW_CURSOR "\033[?25h"
#define HOME "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_REST "\033[J"

static struct {
	bool on;
	struct termios saved;
	struct sigaction old[NSIG];
	sigset_t mask; /* while it waits */
} screen;

static volatile sig_atomic_t caught[NSIG];

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH, SIGCONT};
#define SIGNALS (sizeof(signals) / sizeof(*signals))

static void on_signal(int sig)
{
	caught[sig] = 1;
}

static void enter(void)
{
	struct termios raw = screen.saved;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	fputs(OTHER_PAGE HIDE_CURSOR, stdout);
	fflush(stdout);
}

static void leave(void)
{
	fputs(SHOW_CURSOR OWN_PAGE, stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &screen.saved);
}

bool screen_begin(void)
{
	struct sigaction action = {.sa_handler = on_signal};
	sigset_t blocked;

	if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &screen.saved))
		return false;
	/* They arrive in screen_wait() alone, so none is overlooked. */
	sigemptyset(&blocked);
	for (size_t i = 0; i < SIGNALS; i++) {
		caught[signals[i]] = 0;
		sigaddset(&blocked, signals[i]);
		sigaction(signals[i], &action, &screen.old[signals[i]]);
	}
	sigprocmask(SIG_BLOCK, &blocked, &screen.mask);
	enter();
	screen.on = true;
	return true;
}

void screen_end(void)
{
	if (!screen.on)
		return;
	screen.on = false;
	leave();
	for (size_t i = 0; i < SIGNALS; i++)
		sigaction(signals[i], &screen.old[signals[i]], NULL);
	sigprocmask(SIG_SETMASK, &screen.mask, NULL);
}

void screen_size(unsigned *columns, unsigned *lines)
{
	struct winsize size;
	bool told = !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col && size.ws_row;

	*columns = told ? size.ws_col : 80;
	*lines = told ? size.ws_row : 24;
}

static bool take(int sig)
{
	bool was = caught[sig];

	caught[sig] = 0;
	return was;
}

/* Stops as the terminal wants, and comes back at SIGCONT. */
static void stop(void)
{
	leave();
	raise(SIGSTOP);
	enter();
}

static enum screen_event signalled(void)
{
	if (take(SIGINT) || take(SIGTERM) || take(SIGHUP) || take(SIGQUIT))
		return SCREEN_QUIT;
	if (take(SIGTSTP))
		stop();
	take(SIGWINCH);
	take(SIGCONT);
	return SCREEN_DRAW;
}

enum screen_event screen_wait(nsec_t until, char *key)
{
	struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
	nsec_t left = until - clock_now();
	struct timespec ts;
	int n;

	if (left < 0)
		left = 0;
	ts = (struct timespec){left / NSEC_PER_SEC, left % NSEC_PER_SEC};
	n = ppoll(&fd, 1, &ts, &screen.mask);
	if (n < 0)
		return errno == EINTR ? signalled() : SCREEN_QUIT;
	if (!n)
		return SCREEN_TIME;
	return read(STDIN_FILENO, key, 1) == 1 ? SCREEN_KEY : SCREEN_QUIT;
}

void screen_show(const char *text)
{
	unsigned columns, lines, column = 0, line = 0;

	screen_size(&columns, &lines);
	fputs(HOME, stdout);
	for (; *text && line < lines; text++) {
		if (*text == '\n') {
			column = 0;
			line++;
			/* A newline in the last line would scroll. */
			fputs(line < lines ? CLEAR_LINE "\r\n" : CLEAR_LINE, stdout);
		} else if (column < columns) {
			putchar(*text < ' ' || *text > '~' ? '?' : *text);
			column++;
		}
	}
	fputs(CLEAR_REST, stdout);
	fflush(stdout);
}
