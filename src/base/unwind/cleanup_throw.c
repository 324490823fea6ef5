/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/cleanup.h"

#include <stdbool.h>
#include <stdint.h>
#include <unwind.h>

/*
 * Of the unwinder, which a program has that throws; the library itself does not need one.  NULL: it is
 * not visible to the library, and no record is run.
 */
#pragma weak _Unwind_Backtrace
#pragma weak _Unwind_GetCFA
#pragma weak _Unwind_GetIP

/* Set by the linker: the library's code is between them. */
extern const char __ehdr_start __attribute__((visibility("hidden")));
extern const char etext __attribute__((visibility("hidden")));

/* What the unwinder calls: see cleanup_push(). */
_Unwind_Reason_Code cleanup_personality(int version, _Unwind_Action actions,
					_Unwind_Exception_Class class,
					struct _Unwind_Exception *exception,
					struct _Unwind_Context *context);

/*
 * A walk to the frame of the program that has called the library.  It begins at the throw: the frames
 * that were passed before are still there, and may be of the same functions.
 */
struct walk {
	uintptr_t from; /* the address of the frame that the exception passes */
	bool passed;	/* it was met */
	uintptr_t end;	/* the library's frames are below; 0: not found so far */
};

static _Unwind_Reason_Code next_frame(struct _Unwind_Context *context, void *arg)
{
	struct walk *walk = arg;
	uintptr_t ip = _Unwind_GetIP(context);

	if (_Unwind_GetCFA(context) == walk->from)
		walk->passed = true;
	if (!walk->passed || (ip >= (uintptr_t)&__ehdr_start && ip < (uintptr_t)&etext))
		return _URC_NO_REASON;
	walk->end = _Unwind_GetCFA(context);
	return _URC_NORMAL_STOP;
}

/* The innermost record of this thread. */
static struct _pthread_cleanup_buffer *innermost(void)
{
	struct _pthread_cleanup_buffer probe;

	_pthread_cleanup_push(&probe, NULL, NULL);
	_pthread_cleanup_pop(&probe, 0);
	return probe.__prev;
}

/*
 * An exception passes a frame of the library: runs all records of this call into the library, which is
 * left by it.  Those of another call that a signal interrupted are not below its frames, or on another
 * stack.  When a thread is cancelled, the C library runs them.
 */
_Unwind_Reason_Code cleanup_personality(int version, _Unwind_Action actions,
					_Unwind_Exception_Class class,
					struct _Unwind_Exception *exception,
					struct _Unwind_Context *context)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	struct _pthread_cleanup_buffer *record;
	struct walk walk = {0};

	if (!(actions & _UA_CLEANUP_PHASE) || (actions & _UA_FORCE_UNWIND) || !_Unwind_Backtrace ||
	    !_Unwind_GetCFA || !_Unwind_GetIP)
		return _URC_CONTINUE_UNWIND;
	walk.from = _Unwind_GetCFA(context);
	_Unwind_Backtrace(next_frame, &walk);
	while ((record = innermost()) && (uintptr_t)record > here && (uintptr_t)record < walk.end)
		_pthread_cleanup_pop(record, 1);
	return _URC_CONTINUE_UNWIND;
}
