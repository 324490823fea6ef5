/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/version.h"
#include "tools/vma_stats/vma_stats.h"

#define DIRECTORY "/tmp/"

enum { OPT_JSON = 256, OPT_OPENMETRICS };

static const struct option longs[] = {
	{"pid", required_argument, NULL, 'p'},
	{"directory", required_argument, NULL, 'k'},
	{"name", required_argument, NULL, 'n'},
	{"find_pid", no_argument, NULL, 'f'},
	{"forbid_clean", no_argument, NULL, 'F'},
	{"interval", required_argument, NULL, 'i'},
	{"cycles", required_argument, NULL, 'c'},
	{"view", required_argument, NULL, 'v'},
	{"details", required_argument, NULL, 'd'},
	{"zero", no_argument, NULL, 'z'},
	{"log_level", required_argument, NULL, 'l'},
	{"fd_dump", required_argument, NULL, 'S'},
	{"details_level", required_argument, NULL, 'D'},
	{"sockets", required_argument, NULL, 's'},
	{"json", no_argument, NULL, OPT_JSON},
	{"openmetrics", no_argument, NULL, OPT_OPENMETRICS},
	{"version", no_argument, NULL, 'V'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static void usage(FILE *to)
{
	fputs("Usage:\n"
	      "\tvma_stats [-p pid] [-k directory] [-v view] [-d details] [-i interval]\n\n"
	      "Defaults:\n"
	      "\tfind_pid, directory=\"/tmp/\", view=1, details=1, interval=1\n\n"
	      "Options:\n"
	      "  -p, --pid=<pid>               The process to show\n"
	      "  -k, --directory=<directory>   Where processes are found (default: the\n"
	      "                                environment's VMA_STATS_SHMEM_DIR, or /tmp/)\n"
	      "  -n, --name=<application>      The process with this name\n"
	      "  -f, --find_pid                The only process that there is (default)\n"
	      "  -F, --forbid_clean            Do not remove files of processes that have ended\n"
	      "  -i, --interval=<n>            Seconds between two reports\n"
	      "  -c, --cycles=<n>              Number of reports, 0: without end (default)\n"
	      "  -v, --view=<1|2|3|4|5|6|7>    1 basic, 2 with queues, 3 full, 4 multicast groups,\n"
	      "                                5 like 'netstat -tunaep', 6 why sockets are accelerated "
	      "or not\n"
	      "                                7 how long received data waits (VMA_STATS_LATENCY)\n"
	      "  -d, --details=<1|2>           1 totals, 2 changes per second\n"
	      "  -z, --zero                    Zero the counters\n"
	      "  -l, --log_level=<level>       Set the log level of the process, 1 to 7 or a name\n"
	      "  -S, --fd_dump=<fd> [<level>]  Let the process log the state of a descriptor, 0: all\n"
	      "  -D, --details_level=<level>   Set the log details of the process, 0 to 3\n"
	      "  -s, --sockets=<list|range>    Show these descriptors only: 4-16 or 1,9 or both\n"
	      "      --json                    Everything, as JSON\n"
	      "      --openmetrics             The counters, in OpenMetrics format\n"
	      "  -V, --version                 Show the version\n"
	      "  -h, --help                    Show this\n",
	      to);
}

static bool number(const char *text, long min, long max, long *out)
{
	char *end;

	errno = 0;
	*out = strtol(text, &end, 10);
	return !errno && end != text && !*end && *out >= min && *out <= max;
}

/* A level by number, 1 to 7, or name. */
static bool level(const char *text, int *out)
{
	enum log_level found;
	long n;

	if (log_level_of_name(text, &found)) {
		*out = found;
		return true;
	}
	if (!number(text, 1, 7, &n))
		return false;
	*out = (int)n;
	return true;
}

/* Marks the descriptors of a list of numbers and ranges. */
static bool choose_fds(struct options *options, const char *text)
{
	options->chosen = true;
	for (;;) {
		char *end;
		unsigned long first, last;

		if (*text < '0' || *text > '9')
			return false;
		first = last = strtoul(text, &end, 10);
		if (*end == '-') {
			text = end + 1;
			if (*text < '0' || *text > '9')
				return false;
			last = strtoul(text, &end, 10);
		}
		if (first > last || last >= FD_MAX)
			return false;
		for (unsigned long fd = first; fd <= last; fd++)
			options->fds[fd / 8] |= (uint8_t)(1u << (fd % 8));
		if (!*end)
			return true;
		if (*end != ',')
			return false;
		text = end + 1;
	}
}

bool options_show_fd(const struct options *options, int fd)
{
	return !options->chosen ||
	       (fd >= 0 && fd < FD_MAX && (options->fds[fd / 8] >> (fd % 8) & 1));
}

/* -S fd [level] */
static bool dump_option(struct options *options, int argc, char **argv)
{
	long n;

	if (!number(optarg, 0, INT_MAX >> 4, &n))
		return false;
	options->dump_fd = (int)n;
	if (optind < argc && argv[optind][0] != '-')
		return level(argv[optind++], &options->dump_level);
	return true;
}

/* An option with a value.  False: the value is wrong. */
static bool value_option(int c, struct options *o, int argc, char **argv)
{
	long n = 0;
	bool good;

	switch (c) {
	case 'p':
		good = number(optarg, 1, INT_MAX, &n);
		o->pid = (uint32_t)n;
		return good;
	case 'k':
		o->directory = optarg;
		return optarg[0];
	case 'n':
		o->name = optarg;
		return optarg[0];
	case 'i':
		good = number(optarg, 1, INT_MAX / 1000, &n);
		o->interval = (unsigned)n;
		return good;
	case 'c':
		good = number(optarg, 0, INT_MAX, &n);
		o->cycles = (unsigned)n;
		return good;
	case 'v':
		good = number(optarg, VIEW_BASIC, VIEW_LATENCIES, &n);
		o->view = (enum view)n;
		return good;
	case 'd':
		good = number(optarg, 1, 2, &n);
		o->deltas = n == 2;
		return good;
	case 'l':
		return level(optarg, &o->level);
	case 'D':
		good = number(optarg, 0, 3, &n);
		o->details = (int)n;
		return good;
	case 's':
		return choose_fds(o, optarg);
	default:
		return dump_option(o, argc, argv);
	}
}

/* An option without a value.  -1: go on; else the exit status. */
static int plain_option(int c, struct options *o)
{
	switch (c) {
	case 'f':
		return -1;
	case 'F':
		o->forbid_clean = true;
		return -1;
	case 'z':
		o->zero = true;
		return -1;
	case OPT_JSON:
		o->view = VIEW_JSON;
		return -1;
	case OPT_OPENMETRICS:
		o->view = VIEW_OPENMETRICS;
		return -1;
	case 'V':
		printf("vma_stats, version %s\n", VMA_VERSION);
		return 0;
	case 'h':
		usage(stdout);
		return 0;
	default:
		usage(stderr);
		return 2;
	}
}

int options_parse(int argc, char **argv, struct options *options)
{
	const char *directory = getenv("VMA_STATS_SHMEM_DIR");
	int c, rc = -1;

	*options = (struct options){.directory = directory && *directory ? directory : DIRECTORY,
				    .interval = 1,
				    .view = VIEW_BASIC,
				    .level = LOG_NONE - 1,
				    .details = -1,
				    .dump_fd = -1,
				    .dump_level = LOG_INFO};
	optind = 1;
	while (rc < 0 &&
	       (c = getopt_long(argc, argv, "p:k:n:fFi:c:v:d:zl:S:D:s:Vh", longs, NULL)) != -1) {
		if (c >= 'A' && c <= 'z' && strchr("pknicvdlSDs", c)) {
			if (!value_option(c, options, argc, argv)) {
				fprintf(stderr, "vmastat: -%c: %s is not a valid value\n", c,
					optarg);
				return 2;
			}
		} else {
			rc = plain_option(c, options);
		}
	}
	if (rc < 0 && optind < argc) {
		fprintf(stderr, "vmastat: %s: what is this?\n", argv[optind]);
		return 2;
	}
	return rc;
}
