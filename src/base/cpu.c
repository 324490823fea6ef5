/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/cpu.h"

#if defined(__x86_64__)
#include <sys/platform/x86.h>

#include "base/image/sections.h"
#endif

bool cpu_has_avx2 EARLY_DATA;

#if defined(__x86_64__)
/* Before the other constructors: the loader has asked the processor already. */
EARLY_CODE __attribute__((constructor(101))) static void look(void)
{
	cpu_has_avx2 = CPU_FEATURE_ACTIVE(AVX2);
}
#endif
