/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Instructions that access memory which the program named in a call.  Such an access may fault,
 * where the kernel would return EFAULT.  Each instruction has an entry in a table.  The
 * handler of SIGSEGV and SIGBUS looks up the faulting instruction and continues at the entry's
 * fix-up code, which sets a flag and returns to the instruction after the faulting one.
 *
 * Role		any thread, signal handlers included.  No cost unless an access faults.
 * Limits	a thread that blocks these signals is killed by the fault, as the kernel does.
 */
#ifndef BASE_GUARD_H
#define BASE_GUARD_H

#include <stdbool.h>
#include <stdint.h>

/* For functions that compute such addresses: NULL is an ordinary address there. */
#define GUARD_ANY_ADDRESS __attribute__((no_sanitize("pointer-overflow")))

/* Words of any type at any alignment. */
typedef uint8_t guard_u8 __attribute__((may_alias));
typedef uint16_t guard_u16 __attribute__((aligned(1), may_alias));
typedef uint32_t guard_u32 __attribute__((aligned(1), may_alias));
typedef uint64_t guard_u64 __attribute__((aligned(1), may_alias));
typedef uint8_t guard_v16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint8_t guard_v32 __attribute__((vector_size(32), aligned(1), may_alias));

/* A table entry: a fault at the label `at` continues at label 7. R: lld keeps the section. */
#define GUARD_ENTRY(at)                             \
	".pushsection guarded,\"aR\",@progbits\n\t" \
	".balign 4\n\t"                             \
	".long " at " - .\n\t"                      \
	".long 7b - .\n\t"                          \
	".popsection\n"

/* The fix-up code that sets the flag, in a cold section. */
#define GUARD_THEN(insn)                                 \
	".pushsection .text.unlikely,\"ax\",@progbits\n" \
	"7:\t" insn "\n\t"                               \
	"jmp 9b\n\t"                                     \
	".popsection\n"

/*
 * Loads a word of type from p into value with insn; the operands are %2 and %0. After a fault,
 * value is unchanged, and then was executed on flag, operand %1. where: the constraint of flag,
 * "+r", or "+m" in a loop, so that flag takes no register.
 */
#define GUARD_LOAD(insn, class, value, type, p, then, where, flag)                      \
	__asm__ volatile("8:\t" insn " %2, %0\n9:\n" GUARD_THEN(then) GUARD_ENTRY("8b") \
			 : class(value), where(flag)                                    \
			 : "m"(*(const type *)(const void *)(p)))

/* Copies a word of type from one address to another through the register tmp. */
#define GUARD_MOVE(insn, class, tmp, type, to, from, then, flag)                           \
	__asm__ volatile("8:\t" insn " %3, %0\n6:\t" insn " %0, %2\n9:\n" GUARD_THEN(then) \
				 GUARD_ENTRY("8b") GUARD_ENTRY("6b")                       \
			 : class(tmp), "+r"(flag), "=m"(*(type *)(void *)(to))             \
			 : "m"(*(const type *)(const void *)(from)))

/* Stores value as a word of type at p. In then, flag is operand %0. */
#define GUARD_STORE(insn, value, type, p, then, flag)                                   \
	__asm__ volatile("8:\t" insn " %2, %1\n9:\n" GUARD_THEN(then) GUARD_ENTRY("8b") \
			 : "+r"(flag), "=m"(*(type *)(void *)(p))                       \
			 : "r"(value))

/*
 * Call in the handler of a fault with its third argument. True if the table has the faulting
 * instruction; then the thread continues at the fix-up code.
 */
bool guard_fix(void *context);

#endif
