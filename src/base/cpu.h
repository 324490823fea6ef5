/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the processor can do.  Not by __builtin_cpu_supports(): its constructor executes some
 * dozens of CPUID instructions, and each of them takes a virtual machine microseconds.
 */
#ifndef BASE_CPU_H
#define BASE_CPU_H

#include <stdbool.h>

/* any; written at load.  Can the processor, and may this process, use AVX2? */
extern bool cpu_has_avx2;

#endif
