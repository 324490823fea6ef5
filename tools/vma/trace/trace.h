/* SPDX-License-Identifier: BSD-2-Clause */
/* `vma trace`: shows the flight recorder of a process. */
#ifndef TOOLS_VMA_TRACE_TRACE_H
#define TOOLS_VMA_TRACE_TRACE_H

#include "tools/vma/trace/events.h"

extern const char trace_help[];
int cmd_trace(int argc, char **argv);

/* Prints an event: a line for people, or an object of JSON. */
void trace_show(const struct recorder *recorder, const struct event *event, bool json);

#endif
