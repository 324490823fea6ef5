/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that each send to and receive from themselves, on their own rings, over one
 * loop-back port: do they slow each other down?
 *
 *	traffic_bench CPU,CPU OTHERS
 *	traffic_bench CPU,CPU control
 *
 * The first thread has the first processor, the others share the second one.  Prints the cost
 * of one datagram of 14 bytes for the first thread, sent and received, in ns of its processor
 * time, while the others sleep (alone) and while they run (busy), in alternating slices, and
 * the median of the quotients (slower).  rate: the throughput of all threads together, compared
 * with that of the first one alone.
 *
 * control: one other thread, and no rings: each thread builds and parses frames in its own
 * memory, which shows the limit of the machine.
 */
#include <arpa/inet.h>
#include <string.h>

#include "base/mem.h"
#include "ring/loop/port_loop.h"
#include "ring/ring.h"
#include "tools/bench/crew.h"

#define SLICES 25
#define BATCH 32
#define MTU 1500
#define SIZE 14

struct lane {
	struct ring ring;
	struct flow flow;
	struct frame_template tmpl;
	uint64_t received;
	uint8_t frame[256]; /* control */
} __attribute__((aligned(64)));

static struct lane *lanes[CREW_MAX];
static const char payload[SIZE] = "thirteen char";

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "traffic_bench: %s\n", what);
	exit(1);
}

static enum drop deliver(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	container_of(flow, struct lane, flow)->received++;
	pkt_free(pkt);
	return DROP_NONE;
}

static struct lane *open_lane(struct port *port, unsigned number)
{
	struct lane *lane = mem_aligned(64, sizeof(*lane));
	struct endpoint at = {.addr = addr_v4(htonl(0x0a090001 + number)), .port = htons(7)};
	struct endpoint from = {.addr = addr_v4(htonl(0x0a090101 + number)), .port = htons(9)};
	struct frame_params params = {.src_mac = port->mac,
				      .dst_mac = port->mac,
				      .src = from,
				      .dst = at,
				      .proto = IPPROTO_UDP,
				      .ttl = 64};
	struct port_queue *q;
	char why[PORT_WHY];

	if (!lane || port->ops->open_queue(port, &q, why))
		die("no ring");
	memset(lane, 0, sizeof(*lane));
	ring_init(&lane->ring, q, number);
	lane->flow.key = (struct flow_key){.local = at.addr,
					   .remote = from.addr,
					   .local_port = at.port,
					   .remote_port = from.port,
					   .proto = IPPROTO_UDP};
	lane->flow.deliver = deliver;
	if (!ring_hold(&lane->ring, HOLD_SPIN) || ring_flow_add(&lane->ring, &lane->flow))
		die("no flow");
	ring_release(&lane->ring, HOLD_SPIN);
	frame_template_init(&lane->tmpl, &params);
	return lane;
}

static inline size_t build(const struct lane *lane, uint8_t *frame)
{
	struct iovec iov = {(void *)(uintptr_t)payload, SIZE};

	return frame_build_udp(&lane->tmpl, frame, &iov, 1, SIZE);
}

/* As a socket does: one hold to send, one to receive. */
static unsigned exchange(struct worker *worker)
{
	struct lane *lane = lanes[worker->number];
	struct ring *ring = &lane->ring;
	uint64_t before = lane->received;

	for (unsigned i = 0; i < BATCH; i++) {
		struct pkt *pkt;

		ring_hold(ring, HOLD_SPIN);
		pkt = ring_tx_get(ring);
		if (!pkt)
			die("no frame");
		pkt->frame_len = (uint32_t)build(lane, pkt->frame);
		ring_tx_put(ring, pkt);
		ring_release(ring, HOLD_SPIN);
		ring_hold(ring, HOLD_SPIN);
		ring_poll(ring);
		ring_release(ring, HOLD_SPIN);
	}
	if (lane->received != before + BATCH)
		die("a frame was lost");
	return BATCH;
}

static unsigned control(struct worker *worker)
{
	struct lane *lane = lanes[worker->number];

	for (unsigned i = 0; i < BATCH; i++) {
		struct pkt pkt = {.frame = lane->frame, .room = sizeof(lane->frame)};
		struct flow_key key;

		pkt.frame_len = (uint32_t)build(lane, pkt.frame);
		if (frame_parse(&pkt, 0, &key) != DROP_NONE)
			die("no frame of ours");
		lane->received++;
	}
	return BATCH;
}

static void measure(struct crew *crew)
{
	double alone[SLICES], busy[SLICES], slower[SLICES], rate[SLICES];

	crew_slice(crew, crew->size);
	for (unsigned i = 0; i < SLICES; i++) {
		crew_slice(crew, 1);
		alone[i] = crew_cost(crew);
		rate[i] = crew_rate(crew, 1);
		crew_slice(crew, crew->size);
		busy[i] = crew_cost(crew);
		slower[i] = busy[i] / alone[i];
		rate[i] = crew_rate(crew, crew->size) / rate[i];
	}
	printf("alone=%.1f busy=%.1f slower=%.3f rate=%.3f\n", crew_median(alone, SLICES),
	       crew_median(busy, SLICES), crew_median(slower, SLICES), crew_median(rate, SLICES));
}

int main(int argc, char **argv)
{
	struct crew crew = {.work = exchange};
	struct port *port;
	int cpus[2], others = 1;

	if (argc != 3)
		return 2;
	crew_parse_cpus(argv[1], cpus);
	if (!strcmp(argv[2], "control"))
		crew.work = control;
	else
		others = atoi(argv[2]);
	if (others < 0 || others >= CREW_MAX)
		return 2;
	clock_init();
	ring_mode = HOLD_SPIN;
	if (port_loop_open(MTU, &port))
		die("no port");
	crew.size = (unsigned)others + 1;
	for (unsigned i = 0; i < crew.size; i++)
		lanes[i] = open_lane(port, i);
	crew_start(&crew, cpus, true);
	measure(&crew);
	crew_end(&crew);
	return 0;
}
