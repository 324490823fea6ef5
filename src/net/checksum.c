/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The Internet checksum, RFC 1071.  Ones' complement addition does not depend on the width of
 * its words (RFC 1071 section 2 C), so 64-bit words are added in memory order and folded at
 * the end.
 *
 * Two versions, chosen by length: scalar with a carry through each pair of words, and AVX2
 * where the CPU has it.  Measured on Zen 5, ns, a copy: 100 bytes scalar 6, AVX2 10; 1448 bytes
 * scalar 51, SSE2 30, AVX2 25; they cross near 200 bytes.
 */
#include "net/frame.h"

#include "base/cpu.h"
#include "base/guard.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "load_short() puts the first byte lowest");

#define VECTOR_MIN 256 /* below this the scalar code is faster */

/*
 * Loads value from p. If the memory is the program's (users, a constant), bit 63 of fault is set
 * after a fault.
 */
#define LOAD(value, type, p, insn, users, fault)                                             \
	do {                                                                                 \
		if (users)                                                                   \
			GUARD_LOAD(insn, "=r", value, type, p, "btsq $63, %1", "+m", fault); \
		else                                                                         \
			(value) = *(const type *)(const void *)(p);                          \
	} while (0)

_Static_assert(CSUM_FAULT == 1ull << 63, "LOAD() sets that bit");

static inline __attribute__((always_inline)) GUARD_ANY_ADDRESS uint64_t load64(bool users,
									       uint64_t *fault,
									       const uint8_t *p)
{
	uint64_t w;

	LOAD(w, guard_u64, p, "movq", users, *fault);
	return w;
}

/* 64-bit ones' complement addition: adds the carry to the result. */
static inline uint64_t add_carry(uint64_t sum, uint64_t w)
{
	sum += w;
	return sum + (sum < w);
}

/* Adds two words, the same way: one carry goes through both, which compilers do not find. */
static inline void add_two(uint64_t *sum, uint64_t w, uint64_t x)
{
#if defined(__x86_64__)
	__asm__("addq %1, %0\n\tadcq %2, %0\n\tadcq $0, %0" : "+&r"(*sum) : "r"(w), "r"(x) : "cc");
#else
	*sum = add_carry(add_carry(*sum, w), x);
#endif
}

/* The result is below 2^33, so callers can add such sums without overflow. */
static inline uint64_t narrow(uint64_t sum)
{
	return (sum >> 32) + (uint32_t)sum;
}

/* Loads fewer than eight bytes as one word. */
static inline __attribute__((always_inline)) GUARD_ANY_ADDRESS uint64_t load_short(bool users,
										   uint64_t *fault,
										   const uint8_t *p,
										   size_t len)
{
	uint32_t first, last;
	uint64_t w = 0;

	if (len >= 4) {
		LOAD(first, guard_u32, p, "movl", users, *fault);
		LOAD(last, guard_u32, p + len - 4, "movl", users, *fault);
		/* The two words overlap: shifts the overlap out. */
		return first | (uint64_t)last >> (8 * (8 - len)) << 32;
	}
	if (len & 2) {
		LOAD(first, guard_u16, p, "movzwl", users, *fault);
		w = first;
	}
	if (len & 1) {
		LOAD(last, guard_u8, p + len - 1, "movzbl", users, *fault);
		w |= (uint64_t)last << (8 * (len - 1));
	}
	return w;
}

static inline void store_short(uint8_t *to, uint64_t w, size_t len)
{
	uint32_t last;

	if (len >= 4) {
		last = (uint32_t)(w >> (8 * (len - 4)));
		memcpy(to + len - 4, &last, sizeof(last));
		memcpy(to, &w, 4);
		return;
	}
	if (len & 2)
		memcpy(to, &w, 2);
	if (len & 1)
		to[len - 1] = (uint8_t)(w >> (8 * (len - 1)));
}

/* 16 bytes of sum_scalar(), which see. */
static inline __attribute__((always_inline)) GUARD_ANY_ADDRESS void
sum_pair(bool copy, uint64_t *sum, uint64_t *fault, uint8_t *to, const uint8_t *from)
{
	uint64_t w = load64(copy, fault, from), x = load64(copy, fault, from + 8);

	if (copy) {
		memcpy(to, &w, 8);
		memcpy(to + 8, &x, 8);
	}
	add_two(sum, w, x);
}

/*
 * The common body of csum_add() and csum_copy(); copy is a constant. With copy, from may be memory
 * of the program.
 */
static inline __attribute__((always_inline)) GUARD_ANY_ADDRESS uint64_t
sum_scalar(bool copy, uint64_t sum, uint8_t *to, const uint8_t *from, size_t len)
{
	uint64_t a = 0, last, w, fault = 0;
	size_t i;

	if (len < 8) {
		w = load_short(copy, &fault, from, len);
		if (copy)
			store_short(to, w, len);
		return sum + narrow(w) + fault;
	}
	/* The remaining bytes come from the last eight, without those already counted. */
	last = load64(copy, &fault, from + len - 8);
	if (copy)
		memcpy(to + len - 8, &last, 8);
	for (i = 0; i < (len & ~(size_t)31); i += 32) {
		sum_pair(copy, &a, &fault, to + i, from + i);
		sum_pair(copy, &a, &fault, to + i + 16, from + i + 16);
	}
	if (len & 16) {
		sum_pair(copy, &a, &fault, to + i, from + i);
		i += 16;
	}
	if (len & 8) {
		w = load64(copy, &fault, from + i);
		if (copy)
			memcpy(to + i, &w, 8);
		a = add_carry(a, w);
	}
	if (len & 7)
		a = add_carry(a, last >> (64 - 8 * (len & 7)));
	return sum + narrow(a) + fault;
}

#if defined(__x86_64__)
/*
 * 64-bit lanes have no carry, so two sums are kept: of the words modulo 2^64, and of their upper
 * halves. The first less the second << 32 is the sum of the lower halves. Three operations for 32
 * bytes.
 */
static inline __attribute__((always_inline, target("avx2"))) GUARD_ANY_ADDRESS uint64_t
sum_vector(bool copy, uint64_t sum, uint8_t *to, const uint8_t *from, size_t len)
{
	__m256i words = _mm256_setzero_si256(), upper = words, words2 = words, upper2 = words;
	__m256i v, w;
	__m128i half;
	uint64_t fault = 0;
	size_t i;

	for (i = 0; i + 64 <= len; i += 64) {
		if (copy) {
			GUARD_LOAD("vmovdqu", "=x", v, guard_v32, from + i, "btsq $63, %1", "+m",
				   fault);
			GUARD_LOAD("vmovdqu", "=x", w, guard_v32, from + i + 32, "btsq $63, %1",
				   "+m", fault);
			_mm256_storeu_si256((__m256i *)(void *)(to + i), v);
			_mm256_storeu_si256((__m256i *)(void *)(to + i + 32), w);
		} else {
			v = _mm256_loadu_si256((const __m256i *)(const void *)(from + i));
			w = _mm256_loadu_si256((const __m256i *)(const void *)(from + i + 32));
		}
		words = _mm256_add_epi64(words, v);
		upper = _mm256_add_epi64(upper, _mm256_srli_epi64(v, 32));
		words2 = _mm256_add_epi64(words2, w);
		upper2 = _mm256_add_epi64(upper2, _mm256_srli_epi64(w, 32));
	}
	words = _mm256_add_epi64(words, words2);
	upper = _mm256_add_epi64(upper, upper2);
	words = _mm256_sub_epi64(words, _mm256_slli_epi64(upper, 32));
	words = _mm256_add_epi64(words, upper);
	half = _mm_add_epi64(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
	half = _mm_add_epi64(half, _mm_unpackhi_epi64(half, half));
	sum += (uint64_t)_mm_cvtsi128_si64(half);
	sum = sum_scalar(copy, sum, copy ? to + i : NULL, from + i, len - i);
	return fault ? fault : sum;
}

static __attribute__((target("avx2"), noinline)) GUARD_ANY_ADDRESS uint64_t
add_vector(uint64_t sum, const uint8_t *from, size_t len)
{
	return sum_vector(false, sum, NULL, from, len);
}

static __attribute__((target("avx2"), noinline)) GUARD_ANY_ADDRESS uint64_t
copy_vector(uint64_t sum, uint8_t *to, const uint8_t *from, size_t len)
{
	return sum_vector(true, sum, to, from, len);
}

/* A load and a test. False until the constructor of base/cpu.c has run, which is safe. */
static inline bool have_vector(void)
{
	return cpu_has_avx2;
}
#else
#define have_vector() false
#define add_vector(sum, from, len) (sum)
#define copy_vector(sum, to, from, len) (sum)
#endif

GUARD_ANY_ADDRESS uint64_t csum_add(uint64_t sum, const void *data, size_t len)
{
	if (len >= VECTOR_MIN && have_vector())
		return add_vector(sum, data, len);
	return sum_scalar(false, sum, NULL, data, len);
}

GUARD_ANY_ADDRESS uint64_t csum_copy(uint64_t sum, void *to, const void *from, size_t len)
{
	if (len >= VECTOR_MIN && have_vector())
		return copy_vector(sum, to, from, len);
	return sum_scalar(true, sum, to, from, len);
}

uint64_t csum_combine(uint64_t sum, uint64_t part, bool odd)
{
	return sum + (odd ? __builtin_bswap16(csum_fold(part)) : part);
}
