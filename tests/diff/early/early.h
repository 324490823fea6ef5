/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef DIFF_EARLY_H
#define DIFF_EARLY_H

#define SHARED __attribute__((visibility("default")))

/* A TCP socket of the constructor. */
extern SHARED int early_fd;
/* If set, the destructor sends "late" by it. */
extern SHARED int late_fd;

#endif
