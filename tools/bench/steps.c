/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counts the instructions of single calls of a program by single-stepping through them: exact,
 * on any machine, without performance counters.
 *
 *	steps COMMAND [ARG]...
 *
 * The program selects the calls: see steps.h.  At its end steps prints a line for each name,
 *
 *	call=udp_send instructions=390 locked=2 syscalls=1 fewest=390 most=402 fewest_syscalls=1 calls=9
 *
 * and one for each locked instruction that most of those calls executed:
 *
 *	call=udp_send locked_at=libvma.so+0x1f2d0
 *
 * The first three are medians, because a call may interfere with another thread.  A call
 * counts from the first instruction of the function to its return.  Instructions of the kernel
 * do not count, a repeated string instruction counts once.  No time passes in a call but a cycle for
 * each instruction, and none before it since the time that its mark says: no timer is due because a
 * step takes long, or because the answer that the call takes was late.  steps traces only the first thread
 * of the program; the others run.  Locked: a lock prefix, xchg with memory, mfence.
 * The exit status is that of the program.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench/steps.h"

#define NAMES_MAX 48
#define CALLS_MAX 64  /* per name */
#define LOCKED_MAX 64 /* per call; addresses per name */
#define APPROACH 1000 /* instructions from the mark to the function */
#define CALL_MAX 1000000
#define INSN_MAX 15 /* bytes */
#define PAGE 4096u  /* bytes */
#define CODE_PAGES 64

struct call {
	unsigned instructions, locked, syscalls;
};

/* The calls of a name, and the addresses of their locked instructions. */
struct tally {
	char name[32];
	unsigned n;
	struct call calls[CALLS_MAX];
	unsigned n_sites;
	struct {
		uintptr_t ip;
		unsigned hits;
		char text[256];
	} sites[LOCKED_MAX];
};

static pid_t pid;
static struct tally tallies[NAMES_MAX];
static unsigned n_tallies;

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "steps: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* ---- the program's memory --------------------------------------------------- */

/* Reads up to size bytes; returns the number. */
static size_t peek(uintptr_t from, void *to, size_t size)
{
	struct iovec local = {to, size}, remote = {(void *)from, size};
	ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	if (n < 0 && size > 1) { /* the mapping ends at a page */
		remote.iov_len = local.iov_len = PAGE - from % PAGE < size ? PAGE - from % PAGE
									   : size;
		n = process_vm_readv(pid, &local, 1, &remote, 1, 0);
	}
	return n < 0 ? 0 : (size_t)n;
}

/* Pages of code, read once for each call that counts. */
static struct code_page {
	uintptr_t at; /* 0: none */
	uint8_t bytes[PAGE];
} code_pages[CODE_PAGES];

/* Reads the instruction there, with zeroes after the end; code has INSN_MAX + 1 bytes. */
static void peek_code(uintptr_t ip, uint8_t *code)
{
	struct code_page *p = &code_pages[ip / PAGE % CODE_PAGES];
	uintptr_t at = ip & ~(uintptr_t)(PAGE - 1);

	memset(code, 0, INSN_MAX + 1);
	if (p->at != at)
		p->at = peek(at, p->bytes, PAGE) == PAGE ? at : 0;
	if (p->at && ip - at <= PAGE - INSN_MAX)
		memcpy(code, p->bytes + (ip - at), INSN_MAX);
	else
		peek(ip, code, INSN_MAX);
}

/* Writes IMAGE+0xOFFSET, with the offset that addr2line(1) expects. */
static void name_address(uintptr_t ip, char *text, size_t size)
{
	char path[64], line[512], base_image[256] = "";
	uintptr_t base = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	snprintf(text, size, "%#lx", (unsigned long)ip);
	maps = fopen(path, "r");
	if (!maps)
		return;
	while (fgets(line, sizeof(line), maps)) {
		unsigned long from, to, offset;
		char image[256] = "";

		if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %255s", &from, &to, &offset, image) < 3)
			continue;
		if (offset == 0 && strcmp(image, base_image) != 0) {
			base = from;
			memcpy(base_image, image, sizeof(image));
		}
		if (ip < from || ip >= to)
			continue;
		if (image[0] && !strcmp(image, base_image))
			snprintf(text, size, "%.200s+%#lx",
				 strrchr(image, '/') ? strrchr(image, '/') + 1 : image,
				 (unsigned long)(ip - base));
		break;
	}
	fclose(maps);
}

/* ---- instructions ------------------------------------------------------------- */

static bool is_prefix(uint8_t byte)
{
	return (byte >= 0x64 && byte <= 0x67) || byte == 0x26 || byte == 0x2e || byte == 0x36 ||
	       byte == 0x3e || byte == 0xf2 || byte == 0xf3;
}

/* code has at least INSN_MAX bytes, with zeroes after the end. */
static bool is_locked(const uint8_t *code)
{
	while (is_prefix(*code))
		code++;
	if (*code == 0xf0)
		return true;
	if ((*code & 0xf0) == 0x40) /* REX */
		code++;
	if ((code[0] & 0xfe) == 0x86 && code[1] < 0xc0) /* xchg with memory */
		return true;
	return code[0] == 0x0f && code[1] == 0xae && code[2] == 0xf0; /* mfence */
}

static bool is_syscall(const uint8_t *code)
{
	return code[0] == 0x0f && code[1] == 0x05;
}

/* rdtsc or rdtscp: by them the library and the vDSO read their clocks. */
static bool reads_tsc(const uint8_t *code)
{
	return code[0] == 0x0f && (code[1] == 0x31 || (code[1] == 0x01 && code[2] == 0xf9));
}

/* ---- stepping --------------------------------------------------------------------- */

static void get_regs(struct user_regs_struct *regs)
{
	if (ptrace(PTRACE_GETREGS, pid, NULL, regs))
		die("registers");
}

/* Executes one instruction; a signal that arrives meanwhile is handled, uncounted, at the next. */
static void step(struct user_regs_struct *regs)
{
	int status, sig = 0;

	do {
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, sig) || waitpid(pid, &status, 0) != pid)
			die("step");
		if (!WIFSTOPPED(status)) {
			fprintf(stderr, "steps: the program ended in a call that counts\n");
			exit(2);
		}
		sig = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
	} while (sig);
	get_regs(regs);
}

/*
 * A clock was read: it was the time of the first reading in this call, or that of its mark, and a
 * cycle for each instruction since.
 */
static void set_tsc(struct user_regs_struct *regs, uint64_t *first, unsigned instructions)
{
	uint64_t tsc = regs->rdx << 32 | (uint32_t)regs->rax;

	if (!*first)
		*first = tsc - instructions;
	tsc = *first + instructions;
	regs->rax = (uint32_t)tsc;
	regs->rdx = tsc >> 32;
	if (ptrace(PTRACE_SETREGS, pid, NULL, regs))
		die("registers");
}

static struct tally *tally_of(uintptr_t name_at)
{
	char name[32] = "";
	struct tally *t;

	peek(name_at, name, sizeof(name) - 1);
	for (t = tallies; t < tallies + n_tallies; t++) {
		if (!strcmp(t->name, name))
			return t;
	}
	if (n_tallies == NAMES_MAX) {
		fprintf(stderr, "steps: more than %d names\n", NAMES_MAX);
		exit(2);
	}
	n_tallies++;
	memcpy(t->name, name, sizeof(name));
	return t;
}

static void locked_at(struct tally *t, uintptr_t ip)
{
	unsigned i;

	for (i = 0; i < t->n_sites; i++) {
		if (t->sites[i].ip == ip) {
			t->sites[i].hits++;
			return;
		}
	}
	if (i == LOCKED_MAX)
		return;
	t->n_sites++;
	t->sites[i].ip = ip;
	t->sites[i].hits = 1;
	name_address(ip, t->sites[i].text, sizeof(t->sites[i].text));
}

/*
 * Gives both processes a higher priority than others, if allowed: a call that takes seconds
 * because the processors are busy would run timers that belong to no call.
 */
static void go_first(bool first)
{
	struct sched_param param = {.sched_priority = first};

	(void)sched_setscheduler(0, first ? SCHED_FIFO : SCHED_OTHER, &param);
	(void)sched_setscheduler(pid, first ? SCHED_FIFO : SCHED_OTHER, &param);
}

/*
 * Keeps this process and the program's first thread on one processor, if both may use this one:
 * a step is two switches between them, which take five times as long between processors.
 */
static void go_together(bool together)
{
	static cpu_set_t ours, theirs;
	cpu_set_t one;
	int cpu = sched_getcpu();

	if (!together) {
		(void)sched_setaffinity(pid, sizeof(theirs), &theirs);
		(void)sched_setaffinity(0, sizeof(ours), &ours);
		return;
	}
	if (cpu < 0 || sched_getaffinity(0, sizeof(ours), &ours) ||
	    sched_getaffinity(pid, sizeof(theirs), &theirs))
		die("affinity");
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (CPU_ISSET(cpu, &theirs)) {
		(void)sched_setaffinity(0, sizeof(one), &one);
		(void)sched_setaffinity(pid, sizeof(one), &one);
	}
}

/* The program has stopped at a mark. */
static void count_call(const struct user_regs_struct *mark)
{
	struct tally *t = tally_of(mark->rsi);
	struct user_regs_struct regs;
	struct call call = {0};
	uintptr_t back, sp, last = 0;
	uint64_t first_tsc = mark->rdx;
	int n = 0;

	memset(code_pages, 0, sizeof(code_pages));
	go_together(true);
	go_first(true);
	do {
		step(&regs);
		if (++n > APPROACH) {
			fprintf(stderr, "steps: %s: not called\n", t->name);
			exit(2);
		}
	} while (regs.rip != mark->rdi);
	sp = regs.rsp;
	if (peek(sp, &back, sizeof(back)) != sizeof(back))
		die("stack");
	do {
		uint8_t code[INSN_MAX + 1];

		peek_code(regs.rip, code);
		if (regs.rip != last) {
			call.instructions++;
			call.syscalls += is_syscall(code);
			if (is_locked(code)) {
				call.locked++;
				locked_at(t, regs.rip);
			}
		}
		last = regs.rip;
		step(&regs);
		if (reads_tsc(code))
			set_tsc(&regs, &first_tsc, call.instructions);
	} while ((regs.rip != back || regs.rsp <= sp) && call.instructions < CALL_MAX);
	go_first(false);
	go_together(false);
	if (t->n < CALLS_MAX)
		t->calls[t->n++] = call;
}

/* ---- the report ------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return x < y ? -1 : x > y;
}

/* The values at this offset of each call, in order. */
static void sorted(const struct tally *t, size_t offset, unsigned values[CALLS_MAX])
{
	for (unsigned i = 0; i < t->n; i++)
		memcpy(&values[i], (const char *)&t->calls[i] + offset, sizeof(values[i]));
	qsort(values, t->n, sizeof(values[0]), compare);
}

static void report(const struct tally *t)
{
	unsigned instructions[CALLS_MAX], locked[CALLS_MAX], syscalls[CALLS_MAX];
	unsigned middle = (t->n - 1) / 2;

	sorted(t, offsetof(struct call, instructions), instructions);
	sorted(t, offsetof(struct call, locked), locked);
	sorted(t, offsetof(struct call, syscalls), syscalls);
	printf("call=%s instructions=%u locked=%u syscalls=%u fewest=%u most=%u "
	       "fewest_syscalls=%u calls=%u\n",
	       t->name, instructions[middle], locked[middle], syscalls[middle], instructions[0],
	       instructions[t->n - 1], syscalls[0], t->n);
	for (unsigned i = 0; i < t->n_sites; i++) {
		if (t->sites[i].hits > t->n / 2)
			printf("call=%s locked_at=%s\n", t->name, t->sites[i].text);
	}
}

/* ---- the program --------------------------------------------------------------------- */

static void start(char **argv)
{
	int status;

	pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		execvp(argv[0], argv);
		die(argv[0]);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		die("start");
	if (ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL))
		die("options");
}

/* Runs the program to its end; returns its wait status. */
static int run(void)
{
	struct user_regs_struct regs;
	int status, sig = 0;

	for (;;) {
		if (ptrace(PTRACE_CONT, pid, NULL, sig) || waitpid(pid, &status, 0) != pid)
			die("continue");
		if (!WIFSTOPPED(status))
			return status;
		sig = WSTOPSIG(status);
		if (status >> 8 == (SIGTRAP | (PTRACE_EVENT_EXEC << 8))) {
			sig = 0;
		} else if (sig == SIGTRAP) {
			get_regs(&regs);
			if (regs.rax == STEPS_MAGIC) {
				count_call(&regs);
				sig = 0;
			}
		}
	}
}

int main(int argc, char **argv)
{
	int status;

	if (argc < 2) {
		fprintf(stderr, "usage: steps COMMAND [ARG]...\n");
		return 2;
	}
	start(argv + 1);
	status = run();
	for (unsigned i = 0; i < n_tallies; i++) {
		if (tallies[i].n)
			report(&tallies[i]);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
