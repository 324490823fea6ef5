/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/guard.h"

#include <ucontext.h>

struct entry {
	int32_t at, then; /* each relative to its own address */
};

/* The linker defines the bounds of the table. */
extern const struct entry __start_guarded[] __attribute__((visibility("hidden")));
extern const struct entry __stop_guarded[] __attribute__((visibility("hidden")));

static uintptr_t resolve_offset(const int32_t *offset)
{
	return (uintptr_t)offset + (uintptr_t)(intptr_t)*offset;
}

bool guard_fix(void *context)
{
	greg_t *ip = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	for (const struct entry *e = __start_guarded; e < __stop_guarded; e++) {
		if (resolve_offset(&e->at) == (uintptr_t)*ip) {
			*ip = (greg_t)resolve_offset(&e->then);
			return true;
		}
	}
	return false;
}
