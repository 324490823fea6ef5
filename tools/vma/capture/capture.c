/* SPDX-License-Identifier: BSD-2-Clause */
/* vma capture: the accelerated frames of a running process, as a pcapng file. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <pcap/pcap.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/version.h"
#include "tools/vma/capture/lanes.h"
#include "tools/vma/capture/pcapng.h"
#include "tools/vma/capture/whose.h"
#include "tools/vma/vma.h"
#include "tools/vma_stats/reader.h"

const char capture_help[] =
	"usage: vma capture PID -w FILE [OPTION...] [FILTER]\n"
	"Writes the accelerated frames of a running process to a pcapng file, received and sent ones,\n"
	"which tcpdump on its interface does not see. Each has as its comment what it went over, and\n"
	"the descriptor of its socket. FILTER is that of tcpdump, see pcap-filter(7).\n"
	"  --write, -w FILE       the file; - is standard output\n"
	"  --count, -c N          ends after N frames\n"
	"  --duration, -d SECONDS ends after this time\n"
	"  --snaplen, -s BYTES    of each frame only the first ones\n"
	"  --buffer, -B KB        memory of the process for each of its rings (4096); frames that come\n"
	"                         while it is full are not captured, and counted\n"
	"  --directory, -k DIR    where processes are found (VMA_STATS_SHMEM_DIR, /tmp/)\n"
	"It ends with the process, or by SIGINT or SIGTERM. Exit status: 0; 1 there is nothing to\n"
	"capture, or the file cannot be written; 3 wrong usage.\n";

enum { GOOD = 0, BAD = 1, USAGE = 3 };

#define BUFFER_SHIFT 22			       /* 4 MB */
#define ORDER_WINDOW (5 * NSEC_PER_MSEC)       /* a frame of another ring may be that late */
#define IDLE (2 * NSEC_PER_MSEC)	       /* between looks at rings that have nothing */
#define REFRESH_INTERVAL (500 * NSEC_PER_MSEC) /* between asks for the sockets of the process */
#define REFRESH_WAIT (20 * NSEC_PER_MSEC)      /* for an answer: frames wait meanwhile */
#define DRAIN_MAX (2 * NSEC_PER_SEC)	       /* at the end: a process may go on writing */
#define ALIVE_INTERVAL (100 * NSEC_PER_MSEC)
#define FILTER_TEXT 256

struct capture {
	/* options */
	uint32_t pid;
	const char *directory, *file;
	uint64_t count; /* 0: no limit */
	nsec_t duration;
	uint32_t snap;
	unsigned shift;
	char filter[FILTER_TEXT];

	FILE *out;
	struct bpf_program program;
	struct process process;
	struct lanes lanes;
	unsigned interfaces; /* written to the file */
	uint64_t began;	     /* nsec, CLOCK_REALTIME */
	uint64_t written;
	uint64_t accepted[CAPTURE_LANES];
	/* the sockets of the process */
	struct snapshot sockets; /* ->socks NULL: not known */
	uint64_t ask;
	bool asking;
	nsec_t asked;
};

static volatile sig_atomic_t stopped; /* by a signal */

static void on_signal(int sig)
{
	(void)sig;
	stopped = 1;
}

/* ---- the command line ----------------------------------------------------------------- */

static int usage(void)
{
	fputs(capture_help, stderr);
	return USAGE;
}

static bool number(const char *text, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return !errno && text[0] >= '0' && text[0] <= '9' && !*end && *out && *out <= max;
}

static bool option(struct capture *c, int what)
{
	uint64_t n = 0;
	bool good = true;

	switch (what) {
	case 'w':
		c->file = optarg;
		break;
	case 'k':
		c->directory = optarg;
		break;
	case 'c':
		good = number(optarg, UINT64_MAX, &c->count);
		break;
	case 'd':
		good = number(optarg, INT_MAX, &n);
		c->duration = (nsec_t)n * NSEC_PER_SEC;
		break;
	case 's':
		good = number(optarg, CAPTURE_SNAP_MAX, &n);
		c->snap = (uint32_t)n;
		break;
	case 'B':
		good = number(optarg, 1u << (CAPTURE_SHIFT_MAX - 10), &n);
		for (c->shift = CAPTURE_SHIFT_MIN; 1ull << c->shift < n << 10; c->shift++)
			;
		break;
	default:
		return false;
	}
	if (!good)
		fprintf(stderr, "vma capture: -%c: %s is not a valid value\n", what, optarg);
	return good;
}

/* The words of the filter, with blanks between. */
static bool join(struct capture *c, char **words)
{
	size_t len = 0;

	for (; *words; words++) {
		int n = snprintf(c->filter + len, sizeof(c->filter) - len, "%s%s", len ? " " : "",
				 *words);

		len += (size_t)n;
		if (len >= sizeof(c->filter)) {
			fprintf(stderr, "vma capture: the filter is longer than %u characters\n",
				FILTER_TEXT - 1);
			return false;
		}
	}
	return true;
}

static bool parse(struct capture *c, int argc, char **argv)
{
	static const struct option longs[] = {
		{"write", required_argument, NULL, 'w'},
		{"count", required_argument, NULL, 'c'},
		{"duration", required_argument, NULL, 'd'},
		{"snaplen", required_argument, NULL, 's'},
		{"buffer", required_argument, NULL, 'B'},
		{"directory", required_argument, NULL, 'k'},
		{NULL, 0, NULL, 0},
	};
	const char *directory = getenv("VMA_STATS_SHMEM_DIR");
	uint64_t pid;
	int what;

	*c = (struct capture){.directory = directory && directory[0] ? directory : "/tmp/",
			      .snap = CAPTURE_SNAP_MAX,
			      .shift = BUFFER_SHIFT};
	optind = 1;
	while ((what = getopt_long(argc, argv, "w:c:d:s:B:k:", longs, NULL)) != -1)
		if (!option(c, what))
			return false;
	if (optind == argc || !c->file)
		return false;
	if (!number(argv[optind], INT_MAX, &pid)) {
		fprintf(stderr, "vma capture: %s is not a process id\n", argv[optind]);
		return false;
	}
	c->pid = (uint32_t)pid;
	return join(c, argv + optind + 1);
}

static bool compile(struct capture *c)
{
	pcap_t *pcap = pcap_open_dead(DLT_EN10MB, CAPTURE_SNAP_MAX);
	bool good = pcap && !pcap_compile(pcap, &c->program, c->filter, 1, PCAP_NETMASK_UNKNOWN);

	if (!good)
		fprintf(stderr, "vma capture: filter: %s\n",
			pcap ? pcap_geterr(pcap) : "out of memory");
	if (pcap)
		pcap_close(pcap);
	return good;
}

/* ---- the process ----------------------------------------------------------------------- */

static int complain(const struct capture *c, const char *why)
{
	fprintf(stderr, "vma capture: process %u: %s\n", c->pid, why);
	return BAD;
}

/* The process captures as long as this lock is there; the kernel releases it if we are killed. */
static int lock_page(const struct capture *c)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = CAPTURE_LOCK_BYTE, .l_len = 1};

	if (!c->process.writable)
		return complain(c, "it belongs to another user");
	if (fcntl(c->process.fd, F_OFD_SETLK, &lock))
		return complain(c, errno == EAGAIN || errno == EACCES
					   ? "another vma capture is running"
					   : strerror(errno));
	return GOOD;
}

static void read_sockets(struct capture *c)
{
	reader_free(&c->sockets);
	if (!reader_snapshot(&c->process, (uint64_t)clock_now(), &c->sockets))
		c->sockets.socks = NULL;
}

static int attach(struct capture *c)
{
	char why[READER_WHY], lanes_why[LANES_WHY];
	int rc = reader_open(c->directory, c->pid, &c->process, why), fd;
	bool writable;

	if (rc == -ENOENT)
		return complain(c, "it has no accelerated sockets, or has ended");
	if (rc)
		return complain(c, why);
	if (lock_page(c))
		return BAD;
	rc = reader_ask(&c->process, STATS_REFRESH, 0);
	if (!rc)
		rc = reader_ask(&c->process, STATS_CAPTURE, CAPTURE_ARGUMENT(c->snap, c->shift));
	if (rc) {
		reader_why_not(&c->process, rc, why);
		return complain(c, why);
	}
	read_sockets(c);
	fd = __atomic_load_n(&c->process.page->capture_fd, __ATOMIC_RELAXED);
	if (fd < 0) {
		snprintf(why, sizeof(why), "it cannot capture: %s", strerror(-fd));
		return complain(c, why);
	}
	fd = reader_open_memory(c->pid, (uint32_t)fd, CAPTURE_MEMFD, &writable, why);
	if (fd < 0)
		return complain(c, why);
	if (lanes_open(&c->lanes, fd, lanes_why))
		return complain(c, lanes_why);
	return GOOD;
}

/* Reads the sockets if an answer is there; asks again if wanted, but not too often. */
static void refresh(struct capture *c)
{
	const struct timespec pause = {.tv_nsec = IDLE / 10};
	nsec_t now = clock_now();

	if (!c->asking) {
		if (c->asked && now - c->asked < REFRESH_INTERVAL)
			return;
		c->ask = reader_begin_ask(&c->process, STATS_REFRESH, 0);
		c->asking = true;
		c->asked = now;
	}
	while (!reader_is_answered(&c->process, STATS_REFRESH, c->ask)) {
		if (clock_now() - c->asked > REFRESH_WAIT)
			return;
		nanosleep(&pause, NULL);
	}
	c->asking = false;
	read_sockets(c);
}

/* ---- frames ---------------------------------------------------------------------------- */

static void add_interfaces(struct capture *c)
{
	char text[64];

	for (unsigned n = lanes_look(&c->lanes); c->interfaces < n; c->interfaces++) {
		const struct lane *lane = &c->lanes.lane[c->interfaces];

		snprintf(text, sizeof(text), "ring %u of %s, process %u", lane->ring,
			 c->process.name, c->pid);
		pcapng_interface(c->out, lane->interface, text, c->snap, c->filter);
	}
}

static void write_frame(struct capture *c, const struct lanes_frame *frame)
{
	const struct lane *lane = &c->lanes.lane[frame->lane];
	const struct stats_sock *sock = NULL;
	char comment[WHOSE_TEXT];
	struct whose_key key;
	bool exact = false, known = whose_key_of(frame->data, frame->kept, frame->sent, &key);

	if (known && c->sockets.socks)
		sock = whose_find(&c->sockets, &key, &exact);
	if (known && !exact) {
		refresh(c);
		if (c->sockets.socks)
			sock = whose_find(&c->sockets, &key, &exact);
	}
	whose_text(lane->interface, lane->ring, known ? &key : NULL, sock, comment);
	pcapng_packet(c->out, &(struct pcapng_packet){.interface = frame->lane,
						      .sent = frame->sent,
						      .when = frame->when,
						      .data = frame->data,
						      .kept = frame->kept,
						      .len = frame->len,
						      .comment = comment});
	c->accepted[frame->lane]++;
	c->written++;
}

static bool passes(const struct capture *c, const struct lanes_frame *frame)
{
	const struct pcap_pkthdr header = {.caplen = frame->kept, .len = frame->len};

	return pcap_offline_filter(&c->program, &header, frame->data);
}

static bool is_full(const struct capture *c)
{
	return (c->count && c->written >= c->count) || ferror(c->out);
}

/* Writes what is there, at most until a time.  False: there was nothing. */
static bool write_some(struct capture *c, uint64_t until, nsec_t end)
{
	struct lanes_frame frame;
	bool some = false;

	while (!is_full(c) && clock_now() < end && lanes_take(&c->lanes, until, &frame)) {
		if (passes(c, &frame))
			write_frame(c, &frame);
		some = true;
	}
	return some;
}

static void run(struct capture *c)
{
	const struct timespec pause = {.tv_nsec = IDLE};
	nsec_t end = c->duration ? clock_now() + c->duration : NSEC_NEVER, look = 0;

	while (!stopped && !is_full(c) && !lanes_are_broken(&c->lanes)) {
		nsec_t now = clock_now();

		if (now >= end)
			return;
		if (now >= look) {
			if (!reader_is_alive(&c->process))
				return;
			look = now + ALIVE_INTERVAL;
		}
		add_interfaces(c);
		if (write_some(c, (uint64_t)(clock_real() - ORDER_WINDOW), look < end ? look : end))
			continue;
		fflush(c->out);
		nanosleep(&pause, NULL);
	}
}

/* The rest, and the counts. */
static void finish(struct capture *c)
{
	uint64_t frames = 0, drops = 0, now;

	/* Whatever it answers: the capture ends with the lock, too. */
	if (reader_is_alive(&c->process))
		(void)reader_ask(&c->process, STATS_CAPTURE, CAPTURE_ARGUMENT(0, 0));
	add_interfaces(c);
	write_some(c, UINT64_MAX, clock_now() + DRAIN_MAX);
	now = (uint64_t)clock_real();
	for (unsigned i = 0; i < c->interfaces; i++) {
		struct pcapng_counts counts = {.interface = i,
					       .from = c->began,
					       .to = now,
					       .accepted = c->accepted[i],
					       .delivered = c->accepted[i]};

		lanes_counts(&c->lanes, i, &counts.received, &counts.dropped);
		pcapng_statistics(c->out, &counts);
		frames += counts.received;
		drops += counts.dropped;
	}
	/* A file without an interface is none for tcpdump. */
	if (!c->interfaces)
		pcapng_interface(c->out, "none", "no ring was open", c->snap, c->filter);
	fflush(c->out);
	fprintf(stderr,
		"vma capture: %lu frames written; the process had %lu, of which %lu came while the "
		"buffer was full\n",
		c->written, frames, drops);
	if (lanes_without(&c->lanes))
		fprintf(stderr, "vma capture: %u rings were not captured\n",
			lanes_without(&c->lanes));
}

/* ---- the command ------------------------------------------------------------------------ */

static void catch_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal}; /* calls end with EINTR */

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* What was sent may be secret: nobody else may read the file. */
static int open_file(struct capture *c)
{
	int fd = strcmp(c->file, "-") != 0
			 ? open(c->file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)
			 : dup(STDOUT_FILENO);

	c->out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!c->out)
		fprintf(stderr, "vma capture: %s: %s\n", c->file, strerror(errno));
	return c->out ? GOOD : BAD;
}

static int capture(struct capture *c)
{
	int rc = attach(c);

	if (!rc)
		rc = open_file(c);
	if (rc)
		return rc;
	c->began = (uint64_t)clock_real();
	pcapng_begin(c->out, "vma capture " VMA_VERSION);
	fflush(c->out); /* who waits for the capture to begin waits for the file */
	run(c);
	finish(c);
	if (lanes_are_broken(&c->lanes))
		rc = complain(c, "what it writes is no capture any more");
	if (ferror(c->out) | fclose(c->out)) {
		fprintf(stderr, "vma capture: %s: cannot be written\n", c->file);
		rc = BAD;
	}
	return rc;
}

int cmd_capture(int argc, char **argv)
{
	static struct capture c;
	int rc;

	if (!parse(&c, argc, argv))
		return usage();
	if (!compile(&c))
		return USAGE;
	catch_signals();
	clock_init();
	rc = capture(&c);
	reader_free(&c.sockets);
	if (c.lanes.header)
		lanes_close(&c.lanes);
	reader_close(&c.process);
	pcap_freecode(&c.program);
	return rc;
}
