/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Instructions that may fault: they reach into memory that the program named in a call,
 * and the kernel answers EFAULT where nothing is.  Each has an entry in a table.  The
 * handler of SIGSEGV and SIGBUS looks the instruction up there, and has the thread go on
 * where the entry says: there a flag is set, and what follows the instruction is next.
 *
 * Role		any thread, signal handlers included.  Costs nothing where nothing faults.
 * Limits	who blocks the signals dies of the fault, as the kernel has it.
 */
#ifndef BASE_GUARD_H
#define BASE_GUARD_H

#include <stdbool.h>
#include <stdint.h>

/* For functions that compute such addresses: NULL is one like any other. */
#define GUARD_ANY_ADDRESS __attribute__((no_sanitize("pointer-overflow")))

/* Memory as it comes: any type, any alignment. */
typedef uint8_t guard_u8 __attribute__((may_alias));
typedef uint16_t guard_u16 __attribute__((aligned(1), may_alias));
typedef uint32_t guard_u32 __attribute__((aligned(1), may_alias));
typedef uint64_t guard_u64 __attribute__((aligned(1), may_alias));
typedef uint8_t guard_v16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint8_t guard_v32 __attribute__((vector_size(32), aligned(1), may_alias));

/* The instruction at label at; after a fault, the thread goes on at 7.  R: lld keeps it. */
#define GUARD_ENTRY(at)                             \
	".pushsection guarded,\"aR\",@progbits\n\t" \
	".balign 4\n\t"                             \
	".long " at " - .\n\t"                      \
	".long 7b - .\n\t"                          \
	".popsection\n"

/* What sets the flag, out of the way. */
#define GUARD_THEN(insn)                                 \
	".pushsection .text.unlikely,\"ax\",@progbits\n" \
	"7:\t" insn "\n\t"                               \
	"jmp 9b\n\t"                                     \
	".popsection\n"

/*
 * The word of type at p, to value: by insn, which names them %2 and %0. After a fault value
 * is whatever it was before, and then was done with flag, which it names %1.  where: "+r",
 * or "+m" in a loop, which shall not carry it around.
 */
#define GUARD_LOAD(insn, class, value, type, p, then, where, flag)                      \
	__asm__ volatile("8:\t" insn " %2, %0\n9:\n" GUARD_THEN(then) GUARD_ENTRY("8b") \
			 : class(value), where(flag)                                    \
			 : "m"(*(const type *)(const void *)(p)))

/* A word of type from one place to another, by way of the register tmp. */
#define GUARD_MOVE(insn, class, tmp, type, to, from, then, flag)                           \
	__asm__ volatile("8:\t" insn " %3, %0\n6:\t" insn " %0, %2\n9:\n" GUARD_THEN(then) \
				 GUARD_ENTRY("8b") GUARD_ENTRY("6b")                       \
			 : class(tmp), "+r"(flag), "=m"(*(type *)(void *)(to))             \
			 : "m"(*(const type *)(const void *)(from)))

/* value, as a word of type, to p. */
/* Here then names flag %0. */
#define GUARD_STORE(insn, value, type, p, then, flag)                                   \
	__asm__ volatile("8:\t" insn " %2, %1\n9:\n" GUARD_THEN(then) GUARD_ENTRY("8b") \
			 : "+r"(flag), "=m"(*(type *)(void *)(p))                       \
			 : "r"(value))

/*
 * In a handler of the fault, with its third argument: true if it was one of these, and the
 * thread will go on.
 */
bool guard_fix(void *context);

#endif
