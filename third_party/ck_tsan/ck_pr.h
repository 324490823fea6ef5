/*
 * Found before Debian's <ck_pr.h> in ThreadSanitizer builds only.
 *
 * CK's x86 port is inline assembly, which ThreadSanitizer cannot see, and its
 * compiler port (CK_USE_CC_BUILTINS=1) does loads and stores through plain
 * volatile accesses, which ThreadSanitizer reports.  This port gives the same
 * functions with __atomic builtins: acquire loads and release stores, that is
 * what every x86 load and store is.
 */
#ifndef VMA_CK_PR_TSAN_H
#define VMA_CK_PR_TSAN_H

#define CK_USE_CC_BUILTINS 1 /* no gcc/x86_64/ck_pr.h */
#define CK_PR_GCC_H          /* no gcc/ck_pr.h: what follows stands for it */
#define CK_F_PR

#include <ck_cc.h>
#include <ck_limits.h>
#include <ck_md.h>
#include <ck_stdbool.h>
#include <ck_stdint.h>
#include <gcc/ck_f_pr.h>

#define VMA_PR_TYPES(X)                                                        \
	X(char, char, char)                                                    \
	X(int, int, int)                                                       \
	X(uint, unsigned int, unsigned int)                                    \
	X(64, uint64_t, uint64_t)                                              \
	X(32, uint32_t, uint32_t)                                              \
	X(16, uint16_t, uint16_t)                                              \
	X(8, uint8_t, uint8_t)

CK_CC_INLINE static void ck_pr_barrier(void)
{
	__asm__ __volatile__("" ::: "memory");
}

CK_CC_INLINE static void ck_pr_stall(void)
{
	__asm__ __volatile__("pause" ::: "memory");
}

#define X(T)                                                                   \
	CK_CC_INLINE static void ck_pr_fence_strict_##T(void)                  \
	{                                                                      \
		__asm__ __volatile__("mfence" ::: "memory");                   \
	}
X(atomic) X(atomic_atomic) X(atomic_load) X(atomic_store) X(store_atomic)
X(load_atomic) X(load) X(load_load) X(load_store) X(store) X(store_store)
X(store_load) X(memory) X(acquire) X(release) X(acqrel) X(lock) X(unlock)
#undef X

#define X(S, M, T)                                                             \
	CK_CC_INLINE static T ck_pr_md_load_##S(const M *p)                    \
	{                                                                      \
		return __atomic_load_n((const T *)p, __ATOMIC_ACQUIRE);        \
	}                                                                      \
	CK_CC_INLINE static void ck_pr_md_store_##S(M *p, T v)                 \
	{                                                                      \
		__atomic_store_n((T *)p, v, __ATOMIC_RELEASE);                 \
	}                                                                      \
	CK_CC_INLINE static T ck_pr_fas_##S(M *p, T v)                         \
	{                                                                      \
		return __atomic_exchange_n((T *)p, v, __ATOMIC_SEQ_CST);       \
	}                                                                      \
	CK_CC_INLINE static bool ck_pr_cas_##S##_value(M *p, T old, T set, T *v) \
	{                                                                      \
		bool ok = __atomic_compare_exchange_n((T *)p, &old, set, false, \
			__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                   \
		*v = old;                                                      \
		return ok;                                                     \
	}                                                                      \
	CK_CC_INLINE static bool ck_pr_cas_##S(M *p, T old, T set)             \
	{                                                                      \
		return ck_pr_cas_##S##_value(p, old, set, &old);               \
	}                                                                      \
	CK_CC_INLINE static T ck_pr_faa_##S(M *p, T d)                         \
	{                                                                      \
		return __atomic_fetch_add((T *)p, d, __ATOMIC_SEQ_CST);        \
	}                                                                      \
	CK_CC_INLINE static void ck_pr_add_##S(M *p, T d)                      \
	{                                                                      \
		__atomic_fetch_add((T *)p, d, __ATOMIC_SEQ_CST);               \
	}                                                                      \
	CK_CC_INLINE static void ck_pr_sub_##S(M *p, T d)                      \
	{                                                                      \
		__atomic_fetch_sub((T *)p, d, __ATOMIC_SEQ_CST);               \
	}                                                                      \
	CK_CC_INLINE static void ck_pr_and_##S(M *p, T d)                      \
	{                                                                      \
		__atomic_fetch_and((T *)p, d, __ATOMIC_SEQ_CST);               \
	}                                                                      \
	CK_CC_INLINE static void ck_pr_or_##S(M *p, T d)                       \
	{                                                                      \
		__atomic_fetch_or((T *)p, d, __ATOMIC_SEQ_CST);                \
	}                                                                      \
	CK_CC_INLINE static void ck_pr_xor_##S(M *p, T d)                      \
	{                                                                      \
		__atomic_fetch_xor((T *)p, d, __ATOMIC_SEQ_CST);               \
	}                                                                      \
	CK_CC_INLINE static void ck_pr_inc_##S(M *p)                           \
	{                                                                      \
		__atomic_fetch_add((T *)p, 1, __ATOMIC_SEQ_CST);               \
	}                                                                      \
	CK_CC_INLINE static void ck_pr_dec_##S(M *p)                           \
	{                                                                      \
		__atomic_fetch_sub((T *)p, 1, __ATOMIC_SEQ_CST);               \
	}
VMA_PR_TYPES(X)
#undef X
#undef VMA_PR_TYPES
#define CK_F_PR_FAS_CHAR
#define CK_F_PR_FAS_INT
#define CK_F_PR_FAS_UINT
#define CK_F_PR_FAS_64
#define CK_F_PR_FAS_32
#define CK_F_PR_FAS_16
#define CK_F_PR_FAS_8
#define CK_F_PR_FAS_PTR

/* Pointers: the operand is a void * that stands for a pointer to a pointer. */
CK_CC_INLINE static void *ck_pr_md_load_ptr(const void *p)
{
	return __atomic_load_n((void *const *)p, __ATOMIC_ACQUIRE);
}

CK_CC_INLINE static void ck_pr_md_store_ptr(void *p, const void *v)
{
	__atomic_store_n((void **)p, CK_CC_DECONST_PTR(v), __ATOMIC_RELEASE);
}

CK_CC_INLINE static void *ck_pr_fas_ptr(void *p, void *v)
{
	return __atomic_exchange_n((void **)p, v, __ATOMIC_SEQ_CST);
}

CK_CC_INLINE static bool ck_pr_cas_ptr_value(void *p, void *old, void *set, void *v)
{
	bool ok = __atomic_compare_exchange_n((void **)p, &old, set, false,
					      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	*(void **)v = old;
	return ok;
}

CK_CC_INLINE static bool ck_pr_cas_ptr(void *p, void *old, void *set)
{
	return ck_pr_cas_ptr_value(p, old, set, &old);
}

CK_CC_INLINE static void *ck_pr_faa_ptr(void *p, void *d)
{
	return (void *)__atomic_fetch_add((uintptr_t *)p, (uintptr_t)d, __ATOMIC_SEQ_CST);
}

#define X(K)                                                                   \
	CK_CC_INLINE static void ck_pr_##K##_ptr(void *p, void *d)             \
	{                                                                      \
		__atomic_fetch_##K((uintptr_t *)p, (uintptr_t)d, __ATOMIC_SEQ_CST); \
	}
X(add) X(sub) X(and) X(or) X(xor)
#undef X

CK_CC_INLINE static void ck_pr_inc_ptr(void *p)
{
	__atomic_fetch_add((uintptr_t *)p, 1, __ATOMIC_SEQ_CST);
}

CK_CC_INLINE static void ck_pr_dec_ptr(void *p)
{
	__atomic_fetch_sub((uintptr_t *)p, 1, __ATOMIC_SEQ_CST);
}

/* Two words at once: needed by ck_stack_pop_mpmc, ck_fifo_mpmc and libck users. */
CK_CC_INLINE static bool
ck_pr_cas_64_2_value(uint64_t p[2], uint64_t old[2], uint64_t set[2], uint64_t v[2])
{
	unsigned __int128 o = (unsigned __int128)old[1] << 64 | old[0];
	unsigned __int128 s = (unsigned __int128)set[1] << 64 | set[0];
	bool ok = __atomic_compare_exchange_n((unsigned __int128 *)(void *)p, &o, s, false,
					      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);

	v[0] = (uint64_t)o;
	v[1] = (uint64_t)(o >> 64);
	return ok;
}

CK_CC_INLINE static bool
ck_pr_cas_64_2(uint64_t p[2], uint64_t old[2], uint64_t set[2])
{
	uint64_t v[2];

	return ck_pr_cas_64_2_value(p, old, set, v);
}

CK_CC_INLINE static void
ck_pr_load_64_2(const uint64_t p[2], uint64_t v[2])
{
	unsigned __int128 o = __atomic_load_n((const unsigned __int128 *)(const void *)p,
					      __ATOMIC_ACQUIRE);

	v[0] = (uint64_t)o;
	v[1] = (uint64_t)(o >> 64);
}

CK_CC_INLINE static bool
ck_pr_cas_ptr_2_value(void *p, void *old, void *set, void *v)
{
	return ck_pr_cas_64_2_value(p, old, set, v);
}

CK_CC_INLINE static bool ck_pr_cas_ptr_2(void *p, void *old, void *set)
{
	return ck_pr_cas_64_2(p, old, set);
}

CK_CC_INLINE static void ck_pr_load_ptr_2(const void *p, void *v)
{
	ck_pr_load_64_2(p, v);
}
#define CK_F_PR_CAS_64_2
#define CK_F_PR_CAS_64_2_VALUE
#define CK_F_PR_CAS_PTR_2
#define CK_F_PR_CAS_PTR_2_VALUE
#define CK_F_PR_LOAD_64_2
#define CK_F_PR_LOAD_PTR_2

#ifndef CK_PR_DISABLE_DOUBLE
CK_CC_INLINE static double ck_pr_md_load_double(const double *p)
{
	double v;

	__atomic_load(p, &v, __ATOMIC_ACQUIRE);
	return v;
}

CK_CC_INLINE static void ck_pr_md_store_double(double *p, double v)
{
	__atomic_store(p, &v, __ATOMIC_RELEASE);
}
#endif

#include_next <ck_pr.h>

#endif
