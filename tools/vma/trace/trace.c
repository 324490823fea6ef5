/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/vma/trace/trace.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "tools/vma/trace/segment.h"

#define LOOK_EVERY (100 * NSEC_PER_MSEC)
#define USAGE_ERROR 3

const char trace_help[] =
	"usage: vma trace [OPTION...] [PID]\n"
	"Shows what happened lately to the sockets and rings of a process: changes of their\n"
	"states, retransmissions, drops, moves, resets.  Each ring keeps its last 4096 events,\n"
	"also when the process was killed.  Without PID: the processes that can be shown.\n"
	"  --follow         go on until the process ends\n"
	"  --ring NUMBER    this ring only\n"
	"  --fd NUMBER      the sockets with this descriptor\n"
	"  --socket NUMBER  the socket that is shown with this number\n"
	"  --sleeps         also where threads sleep and wake up\n"
	"  --json           an object a line\n";

struct trace_options {
	struct events_filter filter;
	bool follow, json;
	uint32_t pid; /* 0: not given */
};

static const struct option longs[] = {
	{"follow", no_argument, NULL, 'f'},   {"ring", required_argument, NULL, 'r'},
	{"fd", required_argument, NULL, 'd'}, {"socket", required_argument, NULL, 's'},
	{"sleeps", no_argument, NULL, 'w'},   {"json", no_argument, NULL, 'j'},
	{"help", no_argument, NULL, 'h'},     {NULL, 0, NULL, 0},
};

static bool number(const char *text, long min, long max, long *out)
{
	char *end;

	errno = 0;
	*out = strtol(text, &end, 10);
	return !errno && end != text && !*end && *out >= min && *out <= max;
}

static bool value_option(int option, struct trace_options *o)
{
	long n;

	if (!number(optarg, option == 's' ? 1 : 0,
		    option == 'r'   ? (long)RECORDER_RINGS - 1
		    : option == 'd' ? INT_MAX
				    : (long)UINT32_MAX,
		    &n))
		return false;
	if (option == 'r')
		o->filter.ring = (int)n;
	else if (option == 'd')
		o->filter.fd = (int)n;
	else
		o->filter.socket = (uint32_t)n;
	return true;
}

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, struct trace_options *o)
{
	int option;
	long pid;

	*o = (struct trace_options){.filter = {.ring = -1, .fd = -1}};
	optind = 1;
	while ((option = getopt_long(argc, argv, "fh", longs, NULL)) != -1) {
		if (option == 'f') {
			o->follow = true;
		} else if (option == 'w') {
			o->filter.sleeps = true;
		} else if (option == 'j') {
			o->json = true;
		} else if (option == 'h') {
			return fputs(trace_help, stdout), 0;
		} else if (option == '?') {
			return fputs(trace_help, stderr), USAGE_ERROR;
		} else if (!value_option(option, o)) {
			fprintf(stderr, "vma trace: %s is not a valid value\n", optarg);
			return USAGE_ERROR;
		}
	}
	if (optind == argc)
		return -1;
	if (optind + 1 < argc || !number(argv[optind], 1, INT_MAX, &pid)) {
		fprintf(stderr, "vma trace: %s: one process id is expected\n", argv[argc - 1]);
		return USAGE_ERROR;
	}
	o->pid = (uint32_t)pid;
	return -1;
}

/* ---- showing ------------------------------------------------------------------------ */

/* The wall-clock time of an event; any number may stand in the recorder. */
static uint64_t real_time(const struct recorder *recorder, const struct event *event)
{
	return recorder->made_at_real + event->since;
}

static void show_json(const struct recorder *recorder, const struct event *event, const char *place,
		      const char *text)
{
	uint64_t at = real_time(recorder, event);
	const struct record *record = &event->record;
	uint32_t sock = record_sock(record);
	struct recorder_who who;
	char word[RECORDER_NAME];

	printf("{\"time\":%" PRIu64 ".%09" PRIu64 ",\"place\":\"%s\",\"event\":\"%s\","
	       "\"times\":%u,\"argument\":%u,\"text\":\"%s\"",
	       at / NSEC_PER_SEC, at % NSEC_PER_SEC, place, record_word(record_event(record), word),
	       event->times, (unsigned)(record->what >> 32), text);
	if (sock)
		printf(",\"socket\":%u", sock);
	if (recorder_who(recorder, sock, &who))
		printf(",\"fd\":%d,\"protocol\":\"%s\",\"local\":\"%s\",\"remote\":\"%s\"", who.fd,
		       who.protocol, who.local, who.remote);
	puts("}");
}

void trace_show(const struct recorder *recorder, const struct event *event, bool json)
{
	char place[RECORDER_NAME], who[RECORDER_WHO], text[RECORDER_EVENT], clock[16] = "?";
	uint64_t at = real_time(recorder, event);
	time_t seconds = (time_t)(at / NSEC_PER_SEC);
	struct tm tm;

	recorder_area_text(event->area, place);
	record_text(recorder, &event->record, text);
	if (json) {
		show_json(recorder, event, place, text);
		return;
	}
	if (localtime_r(&seconds, &tm))
		strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	recorder_who_text(recorder, record_sock(&event->record), who);
	printf("%s.%06u  %-7s %s%s%s", clock, (unsigned)(at % NSEC_PER_SEC / NSEC_PER_USEC), place,
	       who, who[0] ? "  " : "", text);
	if (event->times != record_times(&event->record))
		printf(", %u of them now", event->times);
	putchar('\n');
}

static const char *state_text(enum segment_state state)
{
	return state == SEGMENT_RUNS	  ? "runs"
	       : state == SEGMENT_STOPPED ? "is stopped"
					  : "was killed";
}

static void show_process(const struct segment *segment, enum segment_state state)
{
	printf("process %u (%s) %s, libvma %s\n", segment->pid, segment->name, state_text(state),
	       segment->version);
}

static void show_all(const struct events *events, const struct recorder *recorder, bool json)
{
	if (events->lost && !json)
		printf("(%" PRIu64 " events were replaced before they could be shown)\n",
		       events->lost);
	for (unsigned i = 0; i < events->n; i++)
		trace_show(recorder, &events->list[i], json);
	fflush(stdout);
}

/* ---- the command -------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
	(void)sig;
	interrupted = 1;
}

/* Shows what is added, until the process ends or the user has seen enough. */
static void follow(const struct trace_options *o, const struct segment *segment,
		   enum segment_state state, struct events *events)
{
	const struct sigaction action = {.sa_handler = on_interrupt};
	const struct timespec pause = {.tv_nsec = LOOK_EVERY};
	enum segment_state before = state;

	sigaction(SIGINT, &action, NULL);
	while (state != SEGMENT_ENDED && !interrupted && !ferror(stdout)) {
		nanosleep(&pause, NULL);
		/* First: what was recorded before the end is shown. */
		state = segment_state(segment);
		events_read(events, segment->recorder);
		show_all(events, segment->recorder, o->json);
		if (state == SEGMENT_STOPPED && before != state)
			fprintf(stderr, "vma trace: process %u is stopped\n", segment->pid);
		before = state;
	}
	if (state == SEGMENT_ENDED)
		fprintf(stderr, "vma trace: process %u has ended\n", segment->pid);
}

static int list_processes(void)
{
	if (!segment_each(show_process))
		puts("no process has a flight recorder that you may read");
	return 0;
}

int cmd_trace(int argc, char **argv)
{
	struct trace_options o;
	struct segment segment;
	struct events events;
	enum segment_state state;
	char why[SEGMENT_WHY];
	int rc = parse(argc, argv, &o);

	if (rc >= 0)
		return rc;
	if (!o.pid)
		return list_processes();
	if (segment_open(o.pid, &segment, why)) {
		fprintf(stderr, "vma trace: process %u: %s\n", o.pid, why);
		return 1;
	}
	if (!events_init(&events, &o.filter)) {
		segment_close(&segment);
		return 1;
	}
	state = segment_state(&segment);
	if (!o.json)
		show_process(&segment, state);
	events_read(&events, segment.recorder);
	show_all(&events, segment.recorder, o.json);
	if (o.follow)
		follow(&o, &segment, state, &events);
	events_fini(&events);
	segment_close(&segment);
	return 0;
}
