/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A bad link: forwards frames between two interfaces, and loses, delays, reorders,
 * duplicates, corrupts and throttles them, as the kernel's netem does.
 *
 *	wire IF0 IF1 [OPTION...]
 *
 *	loss=PERCENT	lost frames; burst=N: in bursts of N on average
 *	dup=PERCENT	duplicated frames
 *	corrupt=PERCENT	frames with one flipped bit, after the Ethernet header, that the receiver can see
 *	reorder=PERCENT	frames that arrive MSEC later than others: gap=MSEC, 1 by default
 *	mark=PERCENT	marked frames, out of those that allow it: congestion experienced (RFC 3168)
 *	delay=MSEC	in each direction; jitter=MSEC: up to this much more, in order
 *	rate=MBIT	in each direction; queue=FRAMES: the queue for it, 1000 by default
 *	seed=N		of all random numbers
 *
 * An option with the prefix "0:" applies only to frames that arrive at IF0, with "1:" at IF1.
 * Only IPv4 is affected.  Prints "ready"; at SIGTERM, what it did, and what it saw: TCP
 * segments that echo marks (ECE), segments that answer echoes (CWR), and bytes in TCP segments.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FRAME_MAX 9216
#define BATCH 64
#define HEAP_MAX 65536
#define NSEC 1000000000ull
#define MSEC 1000000.0
#define NEVER UINT64_MAX

struct frame {
	uint64_t when, number; /* number: frames of the same time stay in order */
	uint32_t len;
	uint8_t bytes[];
};

/* Frames from one interface to the other. */
struct direction {
	/* options */
	double loss, burst, dup, corrupt, mark, reorder, gap, delay, jitter, rate;
	unsigned queue;
	/* state */
	int in, out;
	uint64_t dice, next_number, busy_until, last;
	bool losing;
	struct frame *heap[HEAP_MAX];
	unsigned n;
	/* what the wire did */
	unsigned long frames, lost, repeated, damaged, late, overflown, marked;
	/* what the wire saw */
	unsigned long echoes, answers, bytes;
};

static struct direction direction[2];
static volatile sig_atomic_t stopped;

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "wire: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC + (uint64_t)ts.tv_nsec;
}

/* splitmix64 */
static uint64_t roll(struct direction *d)
{
	uint64_t z = (d->dice += 0x9e3779b97f4a7c15ull);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static double fraction(struct direction *d)
{
	return (double)(roll(d) >> 11) / 9007199254740992.0;
}

static bool chance(struct direction *d, double percent)
{
	return percent > 0 && fraction(d) * 100 < percent;
}

/* ---- what waits: a heap by time ---------------------------------------------------- */

static bool is_before(const struct frame *a, const struct frame *b)
{
	return a->when != b->when ? a->when < b->when : a->number < b->number;
}

static void heap_push(struct direction *d, struct frame *frame)
{
	unsigned i = d->n++;

	for (; i && is_before(frame, d->heap[(i - 1) / 2]); i = (i - 1) / 2)
		d->heap[i] = d->heap[(i - 1) / 2];
	d->heap[i] = frame;
}

static struct frame *heap_pop(struct direction *d)
{
	struct frame *first = d->heap[0], *last = d->heap[--d->n];
	unsigned i = 0, child;

	while ((child = 2 * i + 1) < d->n) {
		if (child + 1 < d->n && is_before(d->heap[child + 1], d->heap[child]))
			child++;
		if (!is_before(d->heap[child], last))
			break;
		d->heap[i] = d->heap[child];
		i = child;
	}
	d->heap[i] = last;
	return first;
}

/* ---- maltreatment -------------------------------------------------------------------- */

/* Gilbert's model: all frames of a burst are lost; both parameters are averages. */
static bool is_lost(struct direction *d)
{
	if (d->burst <= 1)
		return chance(d, d->loss);
	if (d->losing)
		d->losing = !chance(d, 100 / d->burst);
	else
		d->losing = chance(d, 100 * d->loss / (d->burst * (100 - d->loss)));
	return d->losing;
}

static bool is_ipv4(const uint8_t *bytes)
{
	return bytes[12] == 0x08 && bytes[13] == 0x00;
}

/* Fields at the beginning of a frame: IPv4 without options, at least this long. */
#define IP (ETH_HLEN)
#define IP_HDR 20
#define TCP_HDR 20
#define TCP_SYN 0x02
#define TCP_ECE 0x40
#define TCP_CWR 0x80
#define ECN_CE 3

static void watch_tcp(struct direction *d, const uint8_t *bytes, uint32_t len)
{
	const uint8_t *ip = bytes + IP, *tcp = ip + IP_HDR;
	unsigned total = (unsigned)(ip[2] << 8 | ip[3]);

	if (len < IP + IP_HDR + TCP_HDR || ip[0] != 0x45 || ip[9] != IPPROTO_TCP ||
	    tcp[13] & TCP_SYN)
		return;
	d->echoes += (tcp[13] & TCP_ECE) != 0;
	d->answers += (tcp[13] & TCP_CWR) != 0;
	d->bytes += total - IP_HDR - (tcp[12] >> 4) * 4u;
}

/* RFC 3168 section 5; RFC 1624: adapts the checksum. */
static void mark(struct direction *d, uint8_t *bytes, uint32_t len)
{
	uint8_t *ip = bytes + IP;
	uint32_t added = ECN_CE - (ip[1] & ECN_CE), sum;

	if (len < IP + IP_HDR || added == 0 || added == ECN_CE || !chance(d, d->mark))
		return;
	sum = (uint32_t)(ip[10] << 8 | ip[11]) + 0xffff - added;
	sum = (sum & 0xffff) + (sum >> 16);
	ip[1] |= ECN_CE;
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
	d->marked++;
}

static void keep(struct direction *d, const uint8_t *bytes, uint32_t len, uint64_t when)
{
	struct frame *frame;

	if (d->n == HEAP_MAX) {
		d->overflown++;
		return;
	}
	frame = malloc(sizeof(*frame) + len);
	if (!frame)
		die("memory");
	frame->when = when;
	frame->number = d->next_number++;
	frame->len = len;
	memcpy(frame->bytes, bytes, len);
	heap_push(d, frame);
}

/* The time when the last bit has left; 0: the queue is full. */
static uint64_t throttle(struct direction *d, uint32_t len, uint64_t now)
{
	uint64_t nsec;

	if (d->rate <= 0)
		return now;
	nsec = (uint64_t)(len * 8000.0 / d->rate);
	if (d->busy_until < now)
		d->busy_until = now;
	if (d->busy_until - now > nsec * d->queue)
		return 0;
	d->busy_until += nsec;
	return d->busy_until;
}

/*
 * Is the TCP checksum by chance (1 in 65,536) that of the pseudo-header alone?  A receiver on a virtual device
 * takes it for one that the sender left to its card, and could not see the damage.
 */
static bool seems_partial(const uint8_t *bytes, uint32_t len)
{
	const uint8_t *ip = bytes + ETH_HLEN, *tcp = ip + (ip[0] & 15) * 4;
	uint32_t sum;

	if (ip[9] != IPPROTO_TCP || tcp + 20 > bytes + len)
		return false;
	sum = IPPROTO_TCP + (uint32_t)(bytes + len - tcp);
	for (int i = 12; i < 20; i += 2)
		sum += (uint32_t)(ip[i] << 8 | ip[i + 1]);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint32_t)(tcp[16] << 8 | tcp[17]) == sum;
}

static void arrive(struct direction *d, uint8_t *bytes, uint32_t len, uint64_t now)
{
	uint64_t when;
	bool twice;

	d->frames++;
	if (!is_ipv4(bytes)) {
		keep(d, bytes, len, now);
		return;
	}
	watch_tcp(d, bytes, len);
	when = throttle(d, len, now);
	if (!when) {
		d->overflown++;
		return;
	}
	if (is_lost(d)) {
		d->lost++;
		return;
	}
	mark(d, bytes, len);
	when += (uint64_t)(d->delay * MSEC + fraction(d) * d->jitter * MSEC);
	if (chance(d, d->reorder)) {
		when += (uint64_t)(d->gap * MSEC);
		d->late++;
	} else if (when < d->last) {
		when = d->last;
	} else {
		d->last = when;
	}
	twice = chance(d, d->dup);
	if (twice) {
		keep(d, bytes, len, when);
		d->repeated++;
	}
	if (len > ETH_HLEN && chance(d, d->corrupt) && !seems_partial(bytes, len)) {
		bytes[ETH_HLEN + roll(d) % (len - ETH_HLEN)] ^= (uint8_t)(1u << roll(d) % 8);
		d->damaged++;
	}
	keep(d, bytes, len, when);
}

/* ---- the two ends ----------------------------------------------------------------------- */

static void receive(struct direction *d)
{
	static uint8_t bytes[BATCH][FRAME_MAX];
	struct mmsghdr msgs[BATCH];
	struct iovec iov[BATCH];
	uint64_t now;
	int n;

	memset(msgs, 0, sizeof(msgs));
	for (int i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){bytes[i], FRAME_MAX};
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
	}
	n = recvmmsg(d->in, msgs, BATCH, MSG_DONTWAIT, NULL);
	if (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENETDOWN)
		die("receive");
	now = now_nsec();
	for (int i = 0; i < n; i++) {
		if (msgs[i].msg_len >= ETH_HLEN)
			arrive(d, bytes[i], msgs[i].msg_len, now);
	}
}

/* Sends due frames; returns the time of the next one. */
static uint64_t release(struct direction *d)
{
	uint64_t now = now_nsec();

	while (d->n && d->heap[0]->when <= now) {
		struct frame *frame = heap_pop(d);

		/* The queue is full only for a moment: the reader runs on another processor. */
		while (send(d->out, frame->bytes, frame->len, 0) < 0 && !stopped) {
			if (errno != ENOBUFS && errno != EAGAIN && errno != EINTR) {
				if (errno == ENETDOWN)
					break;
				die("send");
			}
		}
		free(frame);
	}
	return d->n ? d->heap[0]->when : NEVER;
}

static int open_interface(const char *name)
{
	struct sockaddr_ll addr = {.sll_family = AF_PACKET,
				   .sll_protocol = htons(ETH_P_ALL),
				   .sll_ifindex = (int)if_nametoindex(name)};
	int one = 1, size = 64 << 20;
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd < 0 || !addr.sll_ifindex)
		die(name);
	if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) ||
	    bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
		die(name);
	return fd;
}

static void wire(void)
{
	struct pollfd fds[2] = {{.fd = direction[0].in, .events = POLLIN},
				{.fd = direction[1].in, .events = POLLIN}};
	sigset_t none;

	sigemptyset(&none);

	while (!stopped) {
		uint64_t next = NEVER, now;
		struct timespec ts, *timeout = NULL;

		for (int i = 0; i < 2; i++) {
			uint64_t due = release(&direction[i]);

			if (due < next)
				next = due;
		}
		if (next != NEVER) {
			now = now_nsec();
			next = next > now ? next - now : 0;
			ts = (struct timespec){(time_t)(next / NSEC), (long)(next % NSEC)};
			timeout = &ts;
		}
		if (ppoll(fds, 2, timeout, &none) < 0 && errno != EINTR)
			die("poll");
		for (int i = 0; i < 2; i++) {
			if (fds[i].revents)
				receive(&direction[i]);
		}
	}
}

/* ---- options ------------------------------------------------------------------------------- */

static bool set(struct direction *d, const char *name, double value)
{
	const struct {
		const char *name;
		double *value;
	} options[] = {
		{"loss", &d->loss},	  {"burst", &d->burst},	    {"dup", &d->dup},
		{"corrupt", &d->corrupt}, {"reorder", &d->reorder}, {"gap", &d->gap},
		{"delay", &d->delay},	  {"jitter", &d->jitter},   {"rate", &d->rate},
		{"mark", &d->mark},
	};

	for (unsigned i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (strcmp(name, options[i].name) == 0) {
			*options[i].value = value;
			return true;
		}
	}
	if (strcmp(name, "queue") == 0)
		d->queue = (unsigned)value;
	else if (strcmp(name, "seed") == 0)
		d->dice += (uint64_t)value * 0x2545f4914f6cdd1dull;
	else
		return false;
	return true;
}

static void parse(char *option)
{
	int only = -1;
	char *value, *end;
	double number;

	if ((option[0] == '0' || option[0] == '1') && option[1] == ':') {
		only = option[0] - '0';
		option += 2;
	}
	value = strchr(option, '=');
	errno = EINVAL;
	if (!value)
		die(option);
	*value++ = '\0';
	number = strtod(value, &end);
	if (end == value || *end || number < 0)
		die(value);
	for (int i = 0; i < 2; i++) {
		if ((only < 0 || only == i) && !set(&direction[i], option, number))
			die(option);
	}
}

static void on_signal(int sig)
{
	(void)sig;
	stopped = 1;
}

int main(int argc, char **argv)
{
	sigset_t ends;
	int fd[2];

	if (argc < 3) {
		fprintf(stderr, "usage: wire IF0 IF1 [OPTION=VALUE...]\n");
		return 2;
	}
	for (int i = 0; i < 2; i++) {
		fd[i] = open_interface(argv[1 + i]);
		direction[i].dice = (uint64_t)i;
		direction[i].gap = 1;
		direction[i].queue = 1000;
	}
	for (int i = 0; i < 2; i++) {
		direction[i].in = fd[i];
		direction[i].out = fd[1 - i];
	}
	for (int i = 3; i < argc; i++)
		parse(argv[i]);
	/* Signals are delivered only while it waits, never between a check and a wait. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	prctl(PR_SET_TIMERSLACK, 1);
	printf("ready\n");
	fflush(stdout);
	wire();
	for (int i = 0; i < 2; i++) {
		const struct direction *d = &direction[i];

		printf("%s: %lu frames, %lu lost, %lu repeated, %lu damaged, %lu late, "
		       "%lu overflown, %lu marked; %lu echoes, %lu answers, %lu bytes\n",
		       argv[1 + i], d->frames, d->lost, d->repeated, d->damaged, d->late,
		       d->overflown, d->marked, d->echoes, d->answers, d->bytes);
	}
	return 0;
}
