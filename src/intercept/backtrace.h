/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The backtrace of VMA_HANDLE_SIGSEGV: logged at level panic, when a SIGSEGV ends the program, with
 * the last events of the flight recorder.  A program with a handler of its own gets the signal, and nothing is logged.
 */
#ifndef INTERCEPT_BACKTRACE_H
#define INTERCEPT_BACKTRACE_H

#include <signal.h>

/* Once at start. */
void backtrace_init(void);
/* In the handler of a signal that ends the process next. */
void backtrace_fatal(int sig, const siginfo_t *info);

#endif
