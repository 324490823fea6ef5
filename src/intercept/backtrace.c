/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/backtrace.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdint.h>

#include "base/log.h"
#include "base/param.h"
#include "base/stats/recorder.h"

#define FRAMES_MAX 64
#define RECORDS_OF_FAULT 16 /* the last events of each ring */

void backtrace_init(void)
{
	void *frame;

	/* The first call loads the unwinder, which is impossible in a handler. */
	if (params.handle_sigsegv)
		backtrace(&frame, 1);
}

static void log_frame(int n, void *address)
{
	Dl_info info = {0};

	if (!dladdr(address, &info) || !info.dli_fname)
		log_panic("#%-2d %p", n, address);
	else if (info.dli_sname)
		log_panic("#%-2d %p %s+%#lx (%s)", n, address, info.dli_sname,
			  (uintptr_t)address - (uintptr_t)info.dli_saddr, info.dli_fname);
	else
		log_panic("#%-2d %p +%#lx (%s)", n, address,
			  (uintptr_t)address - (uintptr_t)info.dli_fbase, info.dli_fname);
}

void backtrace_fatal(int sig, const siginfo_t *info)
{
	void *frames[FRAMES_MAX];
	int n;

	if (sig != SIGSEGV || !params.handle_sigsegv)
		return;
	n = backtrace(frames, FRAMES_MAX);
	if (info->si_code > 0)
		log_panic("Segmentation fault at address %p", info->si_addr);
	else
		log_panic("Segmentation fault: SIGSEGV from process %d", info->si_pid);
	for (int i = 0; i < n; i++)
		log_frame(i, frames[i]);
	recorder_log_all(RECORDS_OF_FAULT, LOG_PANIC);
}
