/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/vma/top/top.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/vma/top/rows.h"
#include "tools/vma/top/screen.h"
#include "tools/vma_stats/vma_stats.h"

#define USAGE_ERROR 3
#define INTERVAL_MIN 0.2 /* seconds */
#define INTERVAL_MAX 3600.0
#define DIRECTORY "/tmp/"

const char top_help[] =
	"usage: vma top [OPTION...] [PID...]\n"
	"Shows the sockets with most packets, the rings and the processes with the library,\n"
	"again and again; rates are per second.  Without PID: all processes.\n"
	"  -d SECONDS    between two looks (1)\n"
	"  -k DIRECTORY  VMA_STATS_SHMEM_DIR of the processes (the environment, or /tmp/)\n"
	"  -o ORDER      packets, bytes, drops, retransmissions, latency\n"
	"  --once        one look, as text without a limit; also if this is no terminal\n"
	"Keys: p b d r l choose the order, space pauses, q quits.  Latencies (of 99 % of the\n"
	"reads) are there with VMA_STATS_LATENCY=1.\n";

static const char *const order_names[ROWS_ORDERS] = {"packets", "bytes", "drops", "retransmissions",
						     "latency"};
static const char order_keys[] = "pbdrl"; /* of enum rows_order */

/* A process that is watched, and its last snapshot. */
struct watched {
	struct process process;
	struct snapshot last; /* socks NULL: none yet */
	bool listed;	      /* its file is still there */
};

struct top {
	const char *directory;
	double interval;
	enum rows_order order;
	bool once, paused;
	bool opened;	/* those in pids, once */
	uint32_t *pids; /* given; NULL: all */
	unsigned n_pids;
	struct watched *watched;
	unsigned n_watched;
	uint32_t *found; /* READER_PROCESSES */
};

/* ---- options ---------------------------------------------------------------------------- */

static bool parse_order(const char *name, enum rows_order *order)
{
	for (unsigned i = 0; i < ROWS_ORDERS; i++) {
		if (!strcmp(name, order_names[i])) {
			*order = (enum rows_order)i;
			return true;
		}
	}
	return false;
}

static bool value_option(int option, struct top *top)
{
	char *end;

	if (option == 'k') {
		top->directory = optarg;
		return true;
	}
	if (option == 'o')
		return parse_order(optarg, &top->order);
	top->interval = strtod(optarg, &end);
	/* Also false for NaN. */
	return end != optarg && !*end && top->interval >= INTERVAL_MIN &&
	       top->interval <= INTERVAL_MAX;
}

static bool parse_pids(char **argv, unsigned n, struct top *top)
{
	top->n_pids = n;
	if (!n)
		return true;
	top->pids = calloc(n, sizeof(*top->pids));
	for (unsigned i = 0; top->pids && i < n; i++) {
		char *end;
		long pid;

		errno = 0;
		pid = strtol(argv[i], &end, 10);
		if (errno || end == argv[i] || *end || pid < 1 || pid > INT_MAX) {
			fprintf(stderr, "vma top: %s is no process id\n", argv[i]);
			return false;
		}
		top->pids[i] = (uint32_t)pid;
	}
	return top->pids;
}

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, struct top *top)
{
	static const struct option longs[] = {{"once", no_argument, NULL, '1'},
					      {"help", no_argument, NULL, 'h'},
					      {NULL, 0, NULL, 0}};
	int option;

	optind = 1;
	while ((option = getopt_long(argc, argv, "d:k:o:h", longs, NULL)) != -1) {
		if (option == '1') {
			top->once = true;
		} else if (option == 'h') {
			return fputs(top_help, stdout), 0;
		} else if (option == '?') {
			return fputs(top_help, stderr), USAGE_ERROR;
		} else if (!value_option(option, top)) {
			fprintf(stderr, "vma top: %s is not a valid value\n", optarg);
			return USAGE_ERROR;
		}
	}
	return parse_pids(argv + optind, (unsigned)(argc - optind), top) ? -1 : USAGE_ERROR;
}

/* ---- processes -------------------------------------------------------------------------- */

static struct watched *find_watched(struct top *top, uint32_t pid)
{
	for (unsigned i = 0; i < top->n_watched; i++) {
		if (top->watched[i].process.pid == pid)
			return &top->watched[i];
	}
	return NULL;
}

static void forget(struct top *top, struct watched *w)
{
	if (w->last.socks)
		reader_free(&w->last);
	reader_close(&w->process);
	*w = top->watched[--top->n_watched];
}

/* Processes of other users, of other versions, and those that just end are not shown. */
static void watch(struct top *top, uint32_t pid)
{
	char why[READER_WHY];
	struct watched *w = find_watched(top, pid), *more;

	if (!w) {
		more = realloc(top->watched, (top->n_watched + 1) * sizeof(*more));
		if (!more)
			return;
		top->watched = more;
		w = &more[top->n_watched];
		memset(w, 0, sizeof(*w));
		if (reader_open(top->directory, pid, &w->process, why)) {
			if (top->pids)
				fprintf(stderr, "vma top: process %u: %s\n", pid, why);
			return;
		}
		top->n_watched++;
	}
	w->listed = true;
}

/* Follows processes that begin and end. */
static void find_processes(struct top *top)
{
	const uint32_t *pids = top->pids ? top->pids : top->found;
	int n = top->pids ? (int)top->n_pids : reader_list(top->directory, top->found);

	for (unsigned i = 0; i < top->n_watched; i++)
		top->watched[i].listed = false;
	for (int i = 0; i < n; i++) {
		if (!top->pids || !top->opened || find_watched(top, pids[i]))
			watch(top, pids[i]);
	}
	top->opened = true;
	for (unsigned i = top->n_watched; i-- > 0;) {
		if (!top->watched[i].listed || !reader_is_alive(&top->watched[i].process))
			forget(top, &top->watched[i]);
	}
}

/* The answers are there at the next look. */
static void ask_all(struct top *top)
{
	for (unsigned i = 0; i < top->n_watched; i++) {
		if (top->watched[i].process.writable)
			reader_begin_ask(&top->watched[i].process, STATS_REFRESH, 0);
	}
}

/* Takes a snapshot of each process; those that had one before give rows. */
static void look(struct top *top, struct rows *rows)
{
	for (unsigned i = 0; i < top->n_watched; i++) {
		struct watched *w = &top->watched[i];
		struct snapshot now, rates;

		if (!reader_snapshot(&w->process, (uint64_t)clock_now(), &now))
			continue;
		if (w->last.socks) {
			if (delta(&now, &w->last, &rates)) {
				rows_add(rows, &w->process, &rates);
				reader_free(&rates);
			}
			reader_free(&w->last);
		}
		w->last = now;
	}
	rows_sort(rows, top->order);
}

/* ---- showing ---------------------------------------------------------------------------- */

static void write_head(const struct top *top, const struct rows *rows, FILE *out)
{
	time_t now = time(NULL);
	char text[16] = "";
	struct tm tm;

	if (localtime_r(&now, &tm))
		strftime(text, sizeof(text), "%H:%M:%S", &tm);
	fprintf(out, "vma top - %s, %u processes, %u sockets, by %s, every %g s%s\n", text,
		rows->n_processes, rows->n_sockets, order_names[top->order], top->interval,
		top->paused ? ", PAUSED" : "");
	if (!rows->n_processes)
		fprintf(out, "no process with the library has sockets (%s, %s)\n", top->directory,
			"other users' processes are not shown");
	if (rows->no_memory)
		fputs("out of memory: rows are missing\n", out);
}

/* Rings get a third of the screen at most; sockets get the rest. */
static void draw(const struct top *top, const struct rows *rows)
{
	unsigned columns, lines, rings, used;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return;
	screen_size(&columns, &lines);
	rings = rows->n_rings < lines / 3 ? rows->n_rings : lines / 3;
	used = 6 + rows->n_processes + rings;
	write_head(top, rows, out);
	rows_write(rows, rings ? rings : 1, used < lines ? lines - used : 1, out);
	if (!fclose(out))
		screen_show(text);
	free(text);
}

/* False: quit. */
static bool press(struct top *top, struct rows *rows, char key)
{
	const char *at = key ? strchr(order_keys, key) : NULL;

	if (key == 'q')
		return false;
	if (key == ' ')
		top->paused = !top->paused;
	if (at) {
		top->order = (enum rows_order)(at - order_keys);
		rows_sort(rows, top->order);
	}
	return true;
}

static nsec_t interval_of(const struct top *top)
{
	return (nsec_t)(top->interval * (double)NSEC_PER_SEC);
}

static void run(struct top *top)
{
	struct rows rows = {0};
	nsec_t next = clock_now();
	bool go_on = true;
	char key;

	while (go_on) {
		enum screen_event event = screen_wait(next, &key);

		if (event == SCREEN_QUIT)
			break;
		if (event == SCREEN_KEY)
			go_on = press(top, &rows, key);
		if (event == SCREEN_TIME && !top->paused) {
			rows_free(&rows);
			find_processes(top);
			look(top, &rows);
			ask_all(top);
		}
		if (event == SCREEN_TIME)
			next = clock_now() + interval_of(top);
		draw(top, &rows);
	}
	rows_free(&rows);
}

static void sleep_for(nsec_t nsec)
{
	struct timespec ts = {nsec / NSEC_PER_SEC, nsec % NSEC_PER_SEC};

	nanosleep(&ts, NULL);
}

/* Two snapshots, each after an answer. */
static void look_once(struct top *top)
{
	struct rows rows = {0};

	find_processes(top);
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned k = 0; k < top->n_watched; k++) {
			if (top->watched[k].process.writable)
				reader_ask(&top->watched[k].process, STATS_REFRESH, 0);
		}
		look(top, &rows);
		if (!i)
			sleep_for(interval_of(top));
	}
	write_head(top, &rows, stdout);
	rows_write(&rows, 0, 0, stdout);
	rows_free(&rows);
}

int cmd_top(int argc, char **argv)
{
	const char *directory = getenv("VMA_STATS_SHMEM_DIR");
	struct top top = {.directory = directory && *directory ? directory : DIRECTORY,
			  .interval = 1};
	int rc = parse(argc, argv, &top);

	if (rc < 0) {
		rc = 1;
		clock_init();
		top.found = calloc(READER_PROCESSES, sizeof(*top.found));
		if (top.found && !top.once && screen_begin()) {
			run(&top);
			screen_end();
			rc = 0;
		} else if (top.found) {
			look_once(&top);
			rc = top.pids && !top.n_watched;
		}
	}
	while (top.n_watched)
		forget(&top, &top.watched[0]);
	free(top.watched);
	free(top.found);
	free(top.pids);
	return rc;
}
