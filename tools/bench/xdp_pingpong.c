/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The raw limit: the time in which two AF_XDP sockets on the ends of a veth pair exchange
 * a frame without reading it.
 *
 *	xdp_pingpong [options] IFNAME_A NETNS_A IFNAME_B NETNS_B
 *	xdp_pingpong [options] --probe
 *
 *	--count N	measured round trips (300000)
 *	--cpus A,B	processors of the two ends (0,1)
 *	--size N	bytes of a frame (56: 14 of payload in UDP over IPv4)
 *	--generic	generic XDP instead of native
 *	--probe		only a cache line, no network
 *
 * A NETNS is a name of ip-netns(8) or a path.  The result is one line of
 * key=value; times are one-way, half a round trip.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <getopt.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xdp/xsk.h>

#include "base/clock.h"
#include "tools/bench/place.h"

#define FRAME_SIZE 2048u
#define FRAMES 2048u
#define RING 1024u
#define FILL 64u  /* frames in a fill ring: few, so that they stay in the cache */
#define BATCH 32u /* frames sent between two checks of the completion ring */
#define WARM_UP 20000u
#define BUSY_RETRIES 100
#define LOST (1 * NSEC_PER_SEC)	   /* a frame that takes longer is lost */
#define PAUSE (10 * NSEC_PER_MSEC) /* polling is never that slow */

static struct {
	uint32_t count;
	int cpus[2];
	uint32_t size;
	bool generic;
	bool probe;
} opt = {.count = 300000, .cpus = {0, 1}, .size = 56};

/* One end of the link; used by one thread. */
struct end {
	const char *ifname, *netns;
	uint8_t *umem;
	struct xsk_umem *xumem;
	struct xsk_socket *xsk;
	struct xsk_ring_prod fill, tx;
	struct xsk_ring_cons comp, rx;
	uint32_t sent; /* since the last recycle() */
	int fd, link_fd;
	bool native;
};

static struct end ends[2];
static bool stop; /* atomic */

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "xdp_pingpong: ");
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static inline void relax(void)
{
	__builtin_ia32_pause();
}

/* ---- one end ---------------------------------------------------------------- */

/* return bpf_redirect_map(&xsks, ctx->rx_queue_index, XDP_PASS); */
static int load_program(int xsks)
{
	const struct bpf_insn code[] = {
		{.code = BPF_LDX | BPF_MEM | BPF_W,
		 .dst_reg = 2,
		 .src_reg = 1,
		 .off = offsetof(struct xdp_md, rx_queue_index)},
		{.code = BPF_LD | BPF_DW | BPF_IMM,
		 .dst_reg = 1,
		 .src_reg = BPF_PSEUDO_MAP_FD,
		 .imm = xsks},
		{0},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .imm = XDP_PASS},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map},
		{.code = BPF_JMP | BPF_EXIT},
	};

	return bpf_prog_load(BPF_PROG_TYPE_XDP, "xdp_pingpong", "GPL", code,
			     sizeof(code) / sizeof(*code), NULL);
}

static void attach(struct end *e, int prog)
{
	unsigned ifindex = if_nametoindex(e->ifname);
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = XDP_FLAGS_DRV_MODE);

	if (!ifindex)
		die("no interface %s in %s", e->ifname, e->netns);
	e->link_fd = opt.generic ? -1 : bpf_link_create(prog, (int)ifindex, BPF_XDP, &opts);
	e->native = e->link_fd >= 0;
	if (!e->native) {
		opts.flags = XDP_FLAGS_SKB_MODE;
		e->link_fd = bpf_link_create(prog, (int)ifindex, BPF_XDP, &opts);
	}
	if (e->link_fd < 0)
		die("attach to %s: %s", e->ifname, strerror(errno));
}

static void put_fill(struct end *e, uint64_t addr)
{
	uint32_t idx;

	if (!xsk_ring_prod__reserve(&e->fill, 1, &idx))
		die("fill ring is full");
	*xsk_ring_prod__fill_addr(&e->fill, idx) = addr & ~(uint64_t)(FRAME_SIZE - 1);
	xsk_ring_prod__submit(&e->fill, 1);
}

static void open_end(struct end *e)
{
	const struct xsk_umem_config umem = {
		.fill_size = RING,
		.comp_size = RING,
		.frame_size = FRAME_SIZE,
	};
	const struct xsk_socket_config sock = {
		.rx_size = RING,
		.tx_size = RING,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = XDP_USE_NEED_WAKEUP,
	};
	uint32_t key = 0;
	int xsks, prog, rc;

	place_enter_netns(e->netns);
	e->umem = mmap(NULL, FRAMES * FRAME_SIZE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (e->umem == MAP_FAILED)
		die("out of memory");
	rc = xsk_umem__create(&e->xumem, e->umem, FRAMES * FRAME_SIZE, &e->fill, &e->comp, &umem);
	/* The kernel releases a queue a little after its last user. */
	for (int i = 0; !rc || rc == -EBUSY; i++) {
		rc = xsk_socket__create(&e->xsk, e->ifname, 0, e->xumem, &e->rx, &e->tx, &sock);
		if (!rc || i == BUSY_RETRIES)
			break;
		usleep(2000);
	}
	if (rc)
		die("AF_XDP on %s: %s", e->ifname, strerror(-rc));
	e->fd = xsk_socket__fd(e->xsk);
	xsks = bpf_map_create(BPF_MAP_TYPE_XSKMAP, "xsks", sizeof(int), sizeof(int), 1, NULL);
	if (xsks < 0 || bpf_map_update_elem(xsks, &key, &e->fd, 0))
		die("XSKMAP: %s", strerror(errno));
	prog = load_program(xsks);
	if (prog < 0)
		die("XDP program: %s", strerror(errno));
	attach(e, prog);
	close(prog);
	close(xsks);
	for (uint32_t i = 0; i < FILL; i++)
		put_fill(e, i * FRAME_SIZE);
}

/* ---- bouncing --------------------------------------------------------------- */

static bool is_ours(const uint8_t *frame, uint32_t len)
{
	return len == opt.size && !memcmp(frame + 12, "\x08\x00\x45\x00", 4) && frame[23] == 17;
}

static void make_frame(uint8_t *frame)
{
	static const uint8_t head[42] = {
		2,    0,    0,	  0,	0, 2,  2,    0, 0,  0,	0, 1, 0x08, 0x00, /* Ethernet */
		0x45, 0,    0,	  42,	0, 0,  0x40, 0, 64, 17, 0, 0, 10,   0,
		0,    1,    10,	  0,	0, 2,		/* IPv4 */
		0x1b, 0x58, 0x1b, 0x58, 0, 22, 0,    0, /* UDP, no checksum */
	};

	memset(frame, 0, opt.size);
	memcpy(frame, head, sizeof(head));
}

static inline void send_frame(struct end *e, uint64_t addr)
{
	struct xdp_desc *desc;
	uint32_t idx;

	if (!xsk_ring_prod__reserve(&e->tx, 1, &idx))
		die("TX ring is full");
	desc = xsk_ring_prod__tx_desc(&e->tx, idx);
	desc->addr = addr;
	desc->len = opt.size;
	desc->options = 0;
	xsk_ring_prod__submit(&e->tx, 1);
	while (sendto(e->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0)
		if (errno != EAGAIN && errno != EBUSY && errno != ENOBUFS)
			die("send on %s: %s", e->ifname, strerror(errno));
}

/* Gives sent frames to the fill ring; in batches, because the rings are shared. */
static inline void recycle(struct end *e)
{
	uint32_t from, to, n;

	if (++e->sent < BATCH)
		return;
	n = xsk_ring_cons__peek(&e->comp, RING, &from);
	if (!n || !xsk_ring_prod__reserve(&e->fill, n, &to))
		return;
	for (uint32_t i = 0; i < n; i++)
		*xsk_ring_prod__fill_addr(&e->fill, to + i) =
			*xsk_ring_cons__comp_addr(&e->comp, from + i) & ~(uint64_t)(FRAME_SIZE - 1);
	xsk_ring_prod__submit(&e->fill, n);
	xsk_ring_cons__release(&e->comp, n);
	e->sent = 0;
}

/* Time without a frame, without pauses of the whole machine. */
struct patience {
	uint64_t polls;
	nsec_t last, waited;
};

static inline bool is_over(struct patience *p)
{
	nsec_t now;

	if (++p->polls % 16384)
		return false;
	now = clock_now();
	if (p->last)
		p->waited += now - p->last < PAUSE ? now - p->last : PAUSE;
	p->last = now;
	return p->waited > LOST;
}

/* Receives the next of our frames; false when stopped, or after too long a time without one. */
static inline bool receive_frame(struct end *e, uint64_t *addr)
{
	struct patience patience = {0};

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED) && !is_over(&patience)) {
		const struct xdp_desc *desc;
		uint32_t idx;
		bool ours;

		if (!xsk_ring_cons__peek(&e->rx, 1, &idx)) {
			relax();
			continue;
		}
		desc = xsk_ring_cons__rx_desc(&e->rx, idx);
		*addr = desc->addr;
		ours = is_ours(e->umem + desc->addr, desc->len);
		xsk_ring_cons__release(&e->rx, 1);
		if (ours)
			return true;
		put_fill(e, *addr);
	}
	return false;
}

static void *reflect(void *arg)
{
	struct end *e = &ends[1];
	uint64_t addr;

	place_pin(opt.cpus[1]);
	open_end(e);
	pthread_barrier_wait(arg);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		if (!receive_frame(e, &addr))
			continue;
		send_frame(e, addr);
		recycle(e);
	}
	return NULL;
}

static int compare(const void *a, const void *b)
{
	nsec_t x = *(const nsec_t *)a, y = *(const nsec_t *)b;

	return x < y ? -1 : x > y;
}

/* The one-way time in µs that this share of the round trips did not exceed. */
static double percentile(const nsec_t *sorted, double share)
{
	return (double)sorted[(size_t)((opt.count - 1) * share)] / 2 / NSEC_PER_USEC;
}

static double probe(void);

static int ping(void)
{
	struct end *e = &ends[0];
	nsec_t *samples = calloc(opt.count, sizeof(*samples));
	uint64_t addr = (FRAMES - 1) * FRAME_SIZE;
	pthread_barrier_t ready;
	pthread_t thread;
	double line;

	if (!samples)
		die("out of memory");
	line = probe();
	pthread_barrier_init(&ready, NULL, 2);
	if (pthread_create(&thread, NULL, reflect, &ready))
		die("no thread");
	place_pin(opt.cpus[0]);
	open_end(e);
	pthread_barrier_wait(&ready);
	make_frame(e->umem + addr);
	for (uint32_t i = 0; i < WARM_UP + opt.count; i++) {
		nsec_t start = clock_now();

		send_frame(e, addr);
		recycle(e);
		if (!receive_frame(e, &addr))
			die("a frame was lost after %u round trips", i);
		if (i >= WARM_UP)
			samples[i - WARM_UP] = clock_now() - start;
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	qsort(samples, opt.count, sizeof(*samples), compare);
	printf("raw_p50_us=%.3f raw_p99_us=%.3f raw_p999_us=%.3f raw_min_us=%.3f round_trips=%u "
	       "frame_bytes=%u xdp=%s cache_line_ns=%.0f\n",
	       percentile(samples, 0.50), percentile(samples, 0.99), percentile(samples, 0.999),
	       percentile(samples, 0), opt.count, opt.size, e->native ? "native" : "generic", line);
	return 0;
}

/* ---- the cache line --------------------------------------------------------- */

#define PROBE_ROUNDS 20000u
#define PROBE_BATCHES 9

static _Alignas(128) uint32_t line; /* atomic: odd is for the other thread */

static void *probe_reflect(void *arg)
{
	place_pin(opt.cpus[1]);
	for (uint32_t n = 1; n < 2 * PROBE_ROUNDS * PROBE_BATCHES; n += 2) {
		while (__atomic_load_n(&line, __ATOMIC_ACQUIRE) != n)
			relax();
		__atomic_store_n(&line, n + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* One way, in ns; the best batch, because interference only adds time. */
static double probe(void)
{
	nsec_t best = NSEC_NEVER;
	pthread_t thread;
	uint32_t n = 1;

	place_pin(opt.cpus[0]);
	if (pthread_create(&thread, NULL, probe_reflect, NULL))
		die("no thread");
	for (int batch = 0; batch < PROBE_BATCHES; batch++) {
		nsec_t start = clock_now(), took;

		for (uint32_t i = 0; i < PROBE_ROUNDS; i++, n += 2) {
			__atomic_store_n(&line, n, __ATOMIC_RELEASE);
			while (__atomic_load_n(&line, __ATOMIC_ACQUIRE) != n + 1)
				relax();
		}
		took = clock_now() - start;
		if (took < best)
			best = took;
	}
	pthread_join(thread, NULL);
	return (double)best / PROBE_ROUNDS / 2;
}

/* ---- options ---------------------------------------------------------------- */

static uint32_t number(const char *text, uint32_t min, uint32_t max)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*end || value < min || value > max)
		die("%s: a number from %u to %u is wanted", text, min, max);
	return (uint32_t)value;
}

static void parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{"count", required_argument, NULL, 'n'}, {"cpus", required_argument, NULL, 'c'},
		{"size", required_argument, NULL, 's'},	 {"generic", no_argument, NULL, 'g'},
		{"probe", no_argument, NULL, 'p'},	 {0},
	};
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (o) {
		case 'n':
			opt.count = number(optarg, 1, 100000000);
			break;
		case 'c':
			if (sscanf(optarg, "%d,%d", &opt.cpus[0], &opt.cpus[1]) != 2)
				die("--cpus A,B");
			break;
		case 's':
			opt.size = number(optarg, 42, 1514);
			break;
		case 'g':
			opt.generic = true;
			break;
		case 'p':
			opt.probe = true;
			break;
		default:
			exit(2);
		}
	}
	if (argc - optind != (opt.probe ? 0 : 4))
		die("usage: xdp_pingpong [options] IFNAME_A NETNS_A IFNAME_B NETNS_B | --probe");
}

static int no_print(enum libbpf_print_level level, const char *fmt, va_list args)
{
	return 0;
}

int main(int argc, char **argv)
{
	parse_options(argc, argv);
	clock_init();
	if (opt.probe) {
		printf("cache_line_ns=%.0f\n", probe());
		return 0;
	}
	libbpf_set_print(no_print);
	for (int i = 0; i < 2; i++) {
		ends[i].ifname = argv[optind + 2 * i];
		ends[i].netns = argv[optind + 2 * i + 1];
	}
	return ping();
}
