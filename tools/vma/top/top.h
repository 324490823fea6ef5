/* SPDX-License-Identifier: BSD-2-Clause */
/* `vma top`: a live view of the sockets and rings of processes with the library. */
#ifndef TOOLS_VMA_TOP_TOP_H
#define TOOLS_VMA_TOP_TOP_H

extern const char top_help[];
int cmd_top(int argc, char **argv);

#endif
