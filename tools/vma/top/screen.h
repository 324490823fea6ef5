/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The terminal of a full-screen view.  Between screen_begin() and screen_end() it shows another
 * page without a cursor, and keys arrive at once and are not echoed.  Also a signal that ends the
 * command, or stops it for a while, leaves the terminal as it was.
 *
 * Role		one thread; one screen in a process.
 */
#ifndef TOOLS_VMA_TOP_SCREEN_H
#define TOOLS_VMA_TOP_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"

/* False: standard input or output is no terminal. */
bool screen_begin(void);
/* Does nothing if there is no screen. */
void screen_end(void);

/* The size now.  Terminals that do not tell have 80 columns and 24 lines. */
void screen_size(unsigned *columns, unsigned *lines);

enum screen_event {
	SCREEN_TIME, /* the time has come */
	SCREEN_KEY,  /* *key was pressed */
	SCREEN_DRAW, /* the size has changed, or the command goes on after a stop */
	SCREEN_QUIT  /* a signal, or the terminal is gone */
};

/* Waits until one of these happens. */
enum screen_event screen_wait(nsec_t until, char *key);

/*
 * Shows text, lines that end in \n: as many columns and lines of it as there is room for.  Bytes that
 * are not printable are shown as '?'.
 */
void screen_show(const char *text);

#endif
