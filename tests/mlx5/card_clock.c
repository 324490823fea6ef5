/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The card's clock: a counter that completions carry, and two pages that processes map.  One is the
 * counter as a register (PRM, internal timer); the other is what the kernel's driver makes of it, the
 * time of its PTP clock.
 */
#include <endian.h>
#include <errno.h>
#include <rdma/mlx5-abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/mlx5/card.h"

#define KHZ 1000000u /* at first */
#define PHC_SHIFT 20
#define PHC_STEP (1ull << 32) /* ticks; the product with the multiplier still fits */

static struct {
	int fd;
	uint8_t *pages; /* the register's, then the driver's */
	uint32_t khz;	/* 0: the device has no clock */
	bool stands;
	uint64_t ticks, since; /* ticks when it was set, and card_clock() then */
} clock_now;

static volatile struct mlx5_ib_clock_info *info(void)
{
	return (volatile void *)(clock_now.pages + UAR_SIZE);
}

/* The driver's page: PTP time goes on from where it was, in ticks of now. */
static void set_phc(uint64_t nsec, uint64_t frac, uint64_t ticks)
{
	volatile struct mlx5_ib_clock_info *page = info();
	uint32_t sign = page->sign;

	/* Odd: the page is being changed.  Pairs with mlx5dv_get_clock_info(). */
	__atomic_store_n(&page->sign, sign | MLX5_IB_CLOCK_INFO_KERNEL_UPDATING, __ATOMIC_SEQ_CST);
	page->nsec = nsec;
	page->frac = frac;
	page->cycles = ticks;
	page->shift = PHC_SHIFT;
	page->mult = clock_now.khz ? (uint32_t)((1000000ull << PHC_SHIFT) / clock_now.khz) : 0;
	page->mask = UINT64_MAX;
	page->overflow_period = 1000000000;
	/* release: pairs with the same, which reads again if this changes meanwhile. */
	__atomic_store_n(&page->sign, (sign | 1) + 1, __ATOMIC_RELEASE);
}

static void advance_phc(uint64_t ticks)
{
	const volatile struct mlx5_ib_clock_info *page = info();
	unsigned __int128 sum = (unsigned __int128)(ticks - page->cycles) * page->mult + page->frac;

	set_phc(page->nsec + (uint64_t)(sum >> PHC_SHIFT), (uint64_t)sum & ((1u << PHC_SHIFT) - 1),
		ticks);
}

/* Both pages show the counter as it is. */
static void show(uint64_t ticks)
{
	uint64_t word = htobe64(ticks);

	/* One store: whoever reads the halves sees the higher one again. */
	__atomic_store_n((uint64_t *)(void *)(clock_now.pages + CLOCK_OFFSET), word,
			 __ATOMIC_RELEASE);
	if (ticks - info()->cycles >= PHC_STEP)
		advance_phc(ticks);
}

bool clock_start(void)
{
	clock_now.fd = memfd_create("clock", MFD_CLOEXEC);
	if (clock_now.fd < 0 || ftruncate(clock_now.fd, CLOCK_PAGES * UAR_SIZE))
		return false;
	clock_now.pages = mmap(NULL, CLOCK_PAGES * UAR_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			       clock_now.fd, 0);
	if (clock_now.pages == MAP_FAILED)
		return false;
	clock_now.khz = KHZ;
	clock_now.ticks = clock_now.since = card_clock();
	set_phc(clock_now.ticks, 0, clock_now.ticks);
	show(clock_now.ticks);
	return true;
}

int clock_fd(void)
{
	return clock_now.fd;
}

uint32_t clock_khz(void)
{
	return clock_now.khz;
}

uint64_t clock_ticks(void)
{
	uint64_t ticks = clock_now.ticks;

	if (!clock_now.stands && clock_now.khz)
		ticks += (uint64_t)((unsigned __int128)(card_clock() - clock_now.since) *
				    clock_now.khz / 1000000);
	show(ticks);
	return ticks;
}

bool clock_command(const char *line)
{
	unsigned long long value;
	char what[8];

	if (sscanf(line, "%7s %llu", what, &value) != 2)
		return false;
	if (!strcmp(what, "clock")) {
		clock_now.ticks = value;
		clock_now.stands = true;
		show(value);
		advance_phc(value);
	} else if (!strcmp(what, "khz")) {
		clock_now.ticks = clock_ticks();
		clock_now.since = card_clock();
		advance_phc(clock_now.ticks);
		clock_now.khz = (uint32_t)value;
		set_phc(info()->nsec, 0, clock_now.ticks);
	} else if (!strcmp(what, "ptp")) {
		set_phc(value, 0, clock_ticks());
	} else {
		return false;
	}
	return true;
}
