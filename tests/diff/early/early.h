/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef DIFF_EARLY_H
#define DIFF_EARLY_H

#define SHARED __attribute__((visibility("default")))

/* A TCP socket that the constructor created. */
extern SHARED int early_fd;
/* If set, the destructor sends "late" through it. */
extern SHARED int late_fd;

#endif
