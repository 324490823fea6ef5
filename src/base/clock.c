/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Translates the time-stamp counter to CLOCK_MONOTONIC by a line through an anchor.  The
 * line is renewed from the kernel's clock as it ages, because NTP steers the kernel's rate
 * and the first rate is measured over a few microseconds only.
 */
#include "base/clock.h"

#include <cpuid.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "base/sys.h"

#define CLOCKSOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

#define CALIBRATE_NSEC (40 * NSEC_PER_USEC)
#define FIRST_NSEC NSEC_PER_MSEC /* age at which the first line is renewed */
#define SHORTEST_NSEC (FIRST_NSEC / 2)
#define LONGEST_NSEC NSEC_PER_SEC /* the age limit doubles with each line, up to this */
#define SAMPLE_TRIES 8
#define SAMPLE_GOOD (2 * NSEC_PER_USEC) /* between the counter readings of a good sample */
#define SLEW 16				/* a line that is ahead runs slower by 1/16 at most */

#define RATE_SHIFT 32

/* The two clocks, read at the same time. */
struct sample {
	uint64_t tsc;
	nsec_t time;
};

/* All fields are atomic, see clocks. */
struct line {
	uint64_t tsc;	   /* the anchor ... */
	nsec_t time;	   /* ... and its time */
	uint64_t rate;	   /* ns per cycle << RATE_SHIFT */
	uint64_t lifetime; /* cycles until renewal; 0: no line */
};

/*
 * Role		clock_now(): any thread, signal handlers included.  The thread that
 *		finds the line too old renews it, one thread at a time.
 * Lifetime	static.
 * Ordering	the current line is line[version & 1]; the writer fills the other
 *		one, then increments version.  A reader that sees the same
 *		version before and after has read one line, and has read the
 *		counter while that line was current.
 * Progress	readers never wait for a writer, not even for one that was
 *		interrupted or that fork(2) did not copy: the current line is
 *		never written to.
 */
static struct {
	uint64_t version;
	struct line line[2];
	int writer; /* process id of the thread that renews; 0: none */

	/* writer */
	struct sample sampled;
	uint64_t measured; /* rate between the last two samples */
	nsec_t age;	   /* lifetime of the next line */
} clocks;

static nsec_t read_clock(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

/*
 * get() pairs with set(): the loads of clock_now() and the stores of publish() stay in order, so
 * a reader that sees any field of a newer line also sees that the version changed. Plain moves
 * on x86.
 */
#define get(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)
#define set(field, value) __atomic_store_n(&(field), value, __ATOMIC_RELEASE)

static inline nsec_t nsec_of(uint64_t cycles, uint64_t rate)
{
	return (nsec_t)(((unsigned __int128)cycles * rate) >> RATE_SHIFT);
}

/*
 * The time that the line gives for a counter reading. A reading before the anchor (another CPU)
 * gives the anchor's time.
 */
static inline nsec_t line_time(uint64_t rate, nsec_t time, uint64_t tsc, uint64_t now)
{
	int64_t cycles = (int64_t)(now - tsc);

	if (cycles <= 0)
		return time;
	return time + nsec_of((uint64_t)cycles, rate);
}

static uint64_t cycles_of(nsec_t nsec, uint64_t rate)
{
	return (uint64_t)(((unsigned __int128)(uint64_t)nsec << RATE_SHIFT) / rate);
}

static uint64_t rate_between(const struct sample *from, const struct sample *to)
{
	return (uint64_t)(((unsigned __int128)(uint64_t)(to->time - from->time) << RATE_SHIFT) /
			  (to->tsc - from->tsc));
}

/* Keeps the reading that took the fewest cycles; returns that number. */
static uint64_t take_sample(struct sample *sample)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < SAMPLE_TRIES; i++) {
		uint64_t before = __rdtsc();
		nsec_t time = read_clock(CLOCK_MONOTONIC);
		uint64_t took = __rdtsc() - before;

		if (took < best) {
			best = took;
			sample->tsc = before + took / 2;
			sample->time = time;
		}
	}
	return best;
}

/* writer: makes this the current line. */
static void publish(uint64_t tsc, nsec_t time, uint64_t rate, nsec_t age)
{
	uint64_t version = get(clocks.version);
	struct line *line = &clocks.line[(version + 1) & 1];

	set(line->tsc, tsc);
	set(line->time, time);
	set(line->rate, rate);
	set(line->lifetime, cycles_of(age, rate));
	set(clocks.version, version + 1);
}

/*
 * Replaces the line by one through the kernel's current time. Time never decreases: if the old
 * line is ahead, the new one starts at the old line's time and runs slower until they meet.
 */
static void renew(const struct line *old)
{
	struct sample now;
	uint64_t took = take_sample(&now), rate;
	nsec_t old_time;

	if (took > cycles_of(SAMPLE_GOOD, old->rate))
		return; /* preempted in each try: the old line is more accurate */
	if (now.tsc > clocks.sampled.tsc && now.time < clocks.sampled.time + SHORTEST_NSEC)
		return; /* this CPU's counter is slightly behind, and the line is fresh */
	if (now.tsc > clocks.sampled.tsc)
		clocks.measured = rate_between(&clocks.sampled, &now);
	clocks.sampled = now;
	if (clocks.age < LONGEST_NSEC)
		clocks.age *= 2;

	rate = clocks.measured;
	old_time = line_time(old->rate, old->time, old->tsc, now.tsc);
	if (old_time > now.time) {
		nsec_t ahead = old_time - now.time;

		if (ahead > clocks.age / SLEW)
			ahead = clocks.age / SLEW;
		rate -= (uint64_t)((unsigned __int128)rate * (uint64_t)ahead /
				   (uint64_t)clocks.age);
		now.time = old_time;
	}
	publish(now.tsc, now.time, rate, clocks.age);
}

static __attribute__((noinline, cold)) void renew_if_alone(const struct line *old, uint64_t version)
{
	int self = sys_getpid(), writer = get(clocks.writer);

	/*
	 * A writer of another process was copied by fork(2) in the middle of a renewal: replace it.
	 * The acquire pairs with the release of clocks.writer below.
	 */
	if (writer == self || !__atomic_compare_exchange_n(&clocks.writer, &writer, self, false,
							   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	if (get(clocks.version) == version)
		renew(old);
	set(clocks.writer, 0);
}

/* Reads the current line and the counter.  False: another line is the current one by now. */
static inline bool read_line(struct line *line, uint64_t *version, uint64_t *tsc)
{
	const struct line *shared;

	*version = get(clocks.version);
	shared = &clocks.line[*version & 1];
	line->tsc = get(shared->tsc);
	line->time = get(shared->time);
	line->rate = get(shared->rate);
	line->lifetime = get(shared->lifetime);
	*tsc = __rdtsc();
	return get(clocks.version) == *version;
}

/* The line has changed meanwhile, is too old, or does not exist; or the counter is behind it. */
static __attribute__((noinline)) nsec_t now_slowly(void)
{
	for (int renewed = 0;;) {
		uint64_t version, tsc;
		struct line line;

		if (!read_line(&line, &version, &tsc))
			continue;
		if (tsc - line.tsc < line.lifetime || renewed)
			return line_time(line.rate, line.time, line.tsc, tsc);
		if (!line.lifetime)
			return read_clock(CLOCK_MONOTONIC);
		renew_if_alone(&line, version);
		renewed = 1;
	}
}

nsec_t clock_now(void)
{
	uint64_t version, tsc;
	struct line line;

	if (__builtin_expect(read_line(&line, &version, &tsc) && tsc - line.tsc < line.lifetime, 1))
		return line.time + nsec_of(tsc - line.tsc, line.rate);
	return now_slowly();
}

nsec_t clock_real(void)
{
	return read_clock(CLOCK_REALTIME);
}

/* The kernel compares the counters of all CPUs, so its choice is trusted. */
static bool counter_is_trusted(void)
{
	unsigned eax, ebx, ecx, edx;
	char name[32];

	if (!__get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) || !(edx & (1u << 8)))
		return false; /* not invariant */
	return sys_read_text(CLOCKSOURCE, name, sizeof(name)) > 0 && !strcmp(name, "tsc\n");
}

void clock_init(void)
{
	struct sample first, second;

	if (get(clocks.version) || !counter_is_trusted())
		return;
	take_sample(&first);
	do {
		take_sample(&second);
	} while (second.time - first.time < CALIBRATE_NSEC);
	if (second.tsc <= first.tsc)
		return;
	clocks.sampled = second;
	clocks.measured = rate_between(&first, &second);
	clocks.age = FIRST_NSEC;
	publish(second.tsc, second.time, clocks.measured, clocks.age);
}
