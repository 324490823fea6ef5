/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/sim/sim.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "net/tcp/tcp_snapshot.h"
#include "tests/cut_large.h"
#include "tests/too_big.h"
#include "tests/vma_test.h"

#define START (1000 * SEC + 12345)
#define ROOM 2048
#define BURST 16
/* a program that reads a stream checks again after this time */
#define POLL_AGAIN (10 * NSEC_PER_USEC)

struct sim_flight {
	nsec_t at;
	uint64_t order; /* order of events at the same time */
	int to;
	struct pkt *pkt;
};

static const char *const state_name[] = {
	"CLOSED",     "LISTEN",	    "SYN_SENT", "SYN_RECEIVED", "ESTABLISHED", "FIN_WAIT_1",
	"FIN_WAIT_2", "CLOSE_WAIT", "CLOSING",	"LAST_ACK",	"TIME_WAIT",
};

static void trace(const struct sim *sim, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void trace(const struct sim *sim, const char *fmt, ...)
{
	va_list args;

	if (!sim->trace)
		return;
	printf("%12.6f ", (double)(sim->now - START) / 1e9);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
}

void sim_fail(const struct sim *sim, const char *text, const char *file, int line)
{
	for (int h = A; h <= B; h++) {
		const struct sim_host *host = &sim->host[h];
		const struct tcp_conn *c = &host->conn;

		print_error("%c: %s una %u nxt %u wnd %u snd.len %u pipe %u cwnd %u recovery %d | "
			    "rcv_nxt %u edge %u readable %u | sent %" PRIu64 " received %" PRIu64
			    " closed %u error %d flags %x\n",
			    'A' + h, state_name[c->state], c->snd_una - c->iss, c->snd_nxt - c->iss,
			    c->snd_wnd, c->snd.len, tcp_pipe(c), c->cc.cwnd, c->recovery,
			    c->rcv_nxt - c->irs, c->rcv_edge - c->irs, c->rcv.bytes, host->sent,
			    host->received, host->closed, host->error, c->flags);
	}
	print_error("seed %" PRIu64 " at %.6f: %s\n(SIM_SEED=%" PRIu64 " SIM_TRACE=1 replays it)\n",
		    sim->params.seed, (double)(sim->now - START) / 1e9, text, sim->params.seed);
	_fail(file, line);
	abort();
}

/* ---- chance ------------------------------------------------------------------------- */

/* splitmix64 */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint32_t sim_random(struct sim *sim, uint32_t below)
{
	return below ? (uint32_t)(next_random(&sim->random) % below) : 0;
}

bool sim_chance(struct sim *sim, unsigned per_mille)
{
	return per_mille && sim_random(sim, 1000) < per_mille;
}

uint8_t sim_byte(int host, uint64_t n)
{
	return (uint8_t)((n * 2654435761u + (n >> 8) * 40503u) >> 11) ^ (uint8_t)(host * 0x5a);
}

/* ---- memory ------------------------------------------------------------------------- */

/* The alloc function of the engine has no argument that leads to the simulation. */
static struct sim *current;

static void *op_alloc(size_t size)
{
	void *p = NULL;

	if (!sim_chance(current, current->params.alloc_fails))
		p = malloc(size);
	if (p)
		current->buffers++;
	return p;
}

static void op_free(void *p)
{
	SIM_CHECK(current, p != NULL && current->buffers > 0);
	current->buffers--;
	free(p);
}

static void pool_put(struct pkt_pool *pool, struct pkt *pkt)
{
	struct sim *sim = container_of(pool, struct sim, pool);

	SIM_CHECK(sim, sim->packets > 0);
	sim->packets--;
	free(pkt->frame);
	free(pkt);
}

static struct pkt *make_pkt(struct sim *sim)
{
	struct pkt *pkt = calloc(1, sizeof(*pkt));

	pkt->frame = malloc(ROOM);
	pkt->room = ROOM;
	pkt->pool = &sim->pool;
	sim->packets++;
	return pkt;
}

/* ---- the link ------------------------------------------------------------------------ */

static bool before(const struct sim_flight *x, const struct sim_flight *y)
{
	return x->at != y->at ? x->at < y->at : x->order < y->order;
}

static void flight_push(struct sim *sim, struct sim_flight f)
{
	unsigned i = sim->in_flight++;

	if (i == sim->flight_max) {
		sim->flight_max = sim->flight_max ? 2 * sim->flight_max : 64;
		sim->flight = realloc(sim->flight, sim->flight_max * sizeof(f));
	}
	for (; i && before(&f, &sim->flight[(i - 1) / 2]); i = (i - 1) / 2)
		sim->flight[i] = sim->flight[(i - 1) / 2];
	sim->flight[i] = f;
}

static struct sim_flight flight_pop(struct sim *sim)
{
	struct sim_flight top = sim->flight[0], last = sim->flight[--sim->in_flight];
	unsigned i = 0, child;

	while ((child = 2 * i + 1) < sim->in_flight) {
		if (child + 1 < sim->in_flight &&
		    before(&sim->flight[child + 1], &sim->flight[child]))
			child++;
		if (!before(&sim->flight[child], &last))
			break;
		sim->flight[i] = sim->flight[child];
		i = child;
	}
	sim->flight[i] = last;
	return top;
}

static bool in_burst(struct sim *sim, const struct sim_link *link, struct sim_host *host)
{
	if (!host->burst_left && sim_chance(sim, link->burst))
		host->burst_left = 1 + sim_random(sim, link->burst_len);
	if (!host->burst_left)
		return false;
	host->burst_left--;
	return true;
}

/* Too large for the path MTU. A router may report that later, not during the send. */
static bool too_large(struct sim *sim, int from, const struct tcp_segment *seg, uint32_t len)
{
	const struct sim_link *link = &sim->params.link[from];
	struct sim_host *host = &sim->host[from];

	if (!link->mtu || sim->now < START + link->mtu_from || len - ETH_HDR <= link->mtu)
		return false;
	if (link->icmp && host->icmp_at == NSEC_NEVER) {
		host->icmp_at = sim->now + 1 + link->delay;
		host->icmp_seq = seg->seq;
	}
	return true;
}

/* The reason why it does not arrive; NULL: it arrives. */
static const char *loss_reason(struct sim *sim, int from, const struct tcp_segment *seg,
			       uint32_t len)
{
	const struct sim_link *link = &sim->params.link[from];

	if (too_large(sim, from, seg, len))
		return "too large for the path";
	if (sim_chance(sim, link->loss) || (!seg->len && sim_chance(sim, link->ack_loss)))
		return "lost";
	return in_burst(sim, link, &sim->host[from]) ? "lost in a burst" : NULL;
}

/* Puts a copy of the frame on the link, or loses it. */
static void put_on_link(struct sim *sim, int from, const struct tcp_segment *seg,
			const uint8_t *frame, uint32_t len)
{
	const struct sim_link *link = &sim->params.link[from];
	struct sim_host *host = &sim->host[from];
	nsec_t at = sim->now;
	const char *why;
	struct pkt *pkt;
	uint32_t where;

	if (link->bytes_per_sec) {
		if (host->link_free < sim->now)
			host->link_free = sim->now;
		if (link->queue &&
		    (uint64_t)(host->link_free - sim->now) * link->bytes_per_sec / (uint64_t)SEC >
			    link->queue) {
			trace(sim, "  the queue is full");
			return;
		}
		host->link_free += (nsec_t)((uint64_t)len * (uint64_t)SEC / link->bytes_per_sec);
		at = host->link_free;
	}
	why = loss_reason(sim, from, seg, len);
	if (why) {
		trace(sim, "  %s", why);
		return;
	}
	at += link->delay;
	if (sim_chance(sim, link->overtake)) {
		trace(sim, "  late");
		at += sim_random(sim, (uint32_t)(link->delay / USEC) + 1) * USEC;
	}
	if (link->jitter)
		at += sim_random(sim, (uint32_t)(link->jitter / USEC) + 1) * USEC;
	pkt = make_pkt(sim);
	SIM_CHECK(sim, len <= ROOM);
	memcpy(pkt->frame, frame, len);
	pkt->frame_len = len;
	/* After the Ethernet header, which has its own checksum. */
	if (sim_chance(sim, link->corrupt)) {
		trace(sim, "  damaged");
		where = ETH_HDR + sim_random(sim, len - ETH_HDR);
		pkt->frame[where] ^= (uint8_t)(1 + sim_random(sim, 255));
	}
	flight_push(sim, (struct sim_flight){at, sim->order++, !from, pkt});
}

static const char *flags_text(uint8_t flags, char buf[9])
{
	char *p = buf;

	for (int i = 0; i < 8; i++) {
		if (flags >> i & 1)
			*p++ = "FSRPAUEW"[i];
	}
	*p = 0;
	return buf;
}

static unsigned count_sacks(const struct tcp_segment *seg)
{
	struct tcp_options opt;

	return tcp_options_parse(&opt, seg->opts, seg->opt_len) ? opt.sacks : 0;
}

static uint32_t peer_iss(const struct sim *sim, int from);

static const char *sacks_text(const struct sim *sim, int from, const struct tcp_segment *seg)
{
	static char text[128];
	struct tcp_options opt;
	int n = 0;

	text[0] = 0;
	if (!sim->trace || !tcp_options_parse(&opt, seg->opts, seg->opt_len))
		return text;
	for (unsigned i = 0; i < opt.sacks; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%u-%u", i ? "," : " sack ",
			      opt.sack[i].start - peer_iss(sim, from),
			      opt.sack[i].end - peer_iss(sim, from));
	return text;
}

static uint32_t peer_iss(const struct sim *sim, int from)
{
	const struct tcp_conn *peer = &sim->host[!from].conn;

	return sim->host[!from].exists ? peer->iss : sim->host[from].conn.irs;
}

/* A hostile peer: false window, acknowledgement or timestamp. */
static void lie(struct sim *sim, int from, struct tcp_segment *seg)
{
	const struct sim_link *link = &sim->params.link[from];

	if (seg->flags & (TCP_SYN | TCP_RST))
		return;
	if (sim_chance(sim, link->mark) && seg->ecn) {
		trace(sim, "  marked");
		seg->ecn = ECN_CE;
	}
	if (sim_chance(sim, link->shrink))
		seg->wnd = (uint16_t)sim_random(sim, seg->wnd + 1u);
	if (!sim_chance(sim, link->lie))
		return;
	trace(sim, "  a lie:");
	switch (sim_random(sim, 6)) {
	case 0:
		seg->ack += sim_random(sim, 20000) - 10000;
		break;
	case 1: /* any option: timestamps, SACK blocks */
		for (unsigned i = 0; i < seg->opt_len; i++)
			seg->opts[i] ^= (uint8_t)(sim_chance(sim, 200) ? sim_random(sim, 256) : 0);
		break;
	case 2:
		seg->flags |= (uint8_t)(TCP_ECE | (sim_chance(sim, 500) ? TCP_CWR : 0));
		break;
	case 3:
		seg->flags |= TCP_URG;
		seg->urg = (uint16_t)sim_random(sim, 3000);
		break;
	case 4: /* false data would be another stream */
		if (!seg->len)
			seg->seq += sim_random(sim, 2000) - 1000;
		break;
	default:
		seg->wnd = (uint16_t)sim_random(sim, UINT16_MAX);
	}
}

/* RFC 9293 section 3.8.6: an offered window stays, except for rounding by the scale. */
static void check_edge(struct sim *sim, int from, const struct tcp_segment *seg)
{
	struct sim_host *host = &sim->host[from];
	const struct tcp_conn *c = &host->conn;
	uint32_t edge = seg->ack + ((uint32_t)seg->wnd << c->rcv_wscale);

	if (!host->exists || (seg->flags & (TCP_SYN | TCP_RST)) || !tcp_synchronized(c))
		return;
	if (!host->edge_known || seq_gt(edge, host->edge))
		host->edge = edge;
	host->edge_known = true;
	SIM_CHECK(sim, host->edge - edge < 1u << c->rcv_wscale);
}

static int transmit(struct sim *sim, int from, uint32_t iss, const struct tcp_segment *sent)
{
	struct tcp_segment copy = *sent, *seg = &copy;
	struct sim_segment note = {
		.at = sim->now,
		.from = (uint8_t)from,
		.flags = seg->flags,
		.wnd = seg->wnd,
		.seq = seg->seq - iss,
		.ack = seg->flags & TCP_ACK ? seg->ack - peer_iss(sim, from) : 0,
		.len = seg->len,
		.sacks = count_sacks(seg),
	};
	uint8_t frame[ROOM];
	char text[9];
	size_t len;
	int rc = 0;

	check_edge(sim, from, sent);
	lie(sim, from, seg);
	sim->segments++;
	if (sim_chance(sim, sim->params.send_fails)) {
		rc = -ENOBUFS;
		note.lost = true;
	} else {
		note.lost = sim->filter && sim->filter(sim, &note);
	}
	trace(sim, "%c %s %s seq %u len %u ack %u wnd %u%s%s", 'A' + from, from == A ? "->" : "<-",
	      flags_text(seg->flags, text), note.seq, note.len, note.ack, note.wnd,
	      sacks_text(sim, from, seg),
	      rc	  ? " NOT SENT"
	      : note.lost ? " FILTERED"
			  : "");
	if (sim->logged < SIM_LOG)
		sim->log[sim->logged++] = note;
	len = frame_build_tcp(&sim->host[from].template, frame, seg);
	if (!note.lost)
		put_on_link(sim, from, seg, frame, (uint32_t)len);
	if (!note.lost && sim_chance(sim, sim->params.link[from].duplicate))
		put_on_link(sim, from, seg, frame, (uint32_t)len);
	return rc;
}

/* ---- what the engine calls ----------------------------------------------------------- */

static struct sim_host *host_of(struct tcp_conn *conn)
{
	return container_of(conn, struct sim_host, conn);
}

static int index_of(const struct sim_host *host)
{
	return (int)(host - host->sim->host);
}

static void op_closed(struct tcp_conn *conn, int error)
{
	struct sim_host *host = host_of(conn);

	trace(host->sim, "%c closed(%d)", 'A' + index_of(host), error);
	SIM_CHECK(host->sim, host->closed == 0);
	host->closed++;
	host->error = error;
}

static void op_established(struct tcp_conn *conn)
{
	struct sim_host *host = host_of(conn);

	trace(host->sim, "%c established", 'A' + index_of(host));
	SIM_CHECK(host->sim, host->established == 0 && host->closed == 0);
	host->established++;
}

static void op_readable(struct tcp_conn *conn)
{
	SIM_CHECK(host_of(conn)->sim, host_of(conn)->closed == 0);
	host_of(conn)->readable++;
}

static int op_send(struct tcp_conn *conn, const struct tcp_segment *seg)
{
	struct sim_host *host = host_of(conn);

	if (host->killed)
		return 0;
	SIM_CHECK(host->sim, host->closed == 0);
	if (seg->len && seq_gt(seg->seq + seg->len, conn->snd_una + conn->snd_wnd_max))
		sim_fail(host->sim, "sent beyond the largest window", __FILE__, __LINE__);
	SIM_CHECK(host->sim, seg->len + seg->opt_len <= conn->path_mss || seg->len == 0 ||
				     seg->len + seg->opt_len <= conn->hole_mss + 28u);
	return transmit(host->sim, index_of(host), conn->iss, seg);
}

/* The frames that a device makes of the train are those that the engine would have sent. */
static uint32_t op_send_train(struct tcp_conn *conn, const struct tcp_segment *seg, uint32_t mss)
{
	struct sim_host *host = host_of(conn);
	struct tcp_segment rest = *seg, piece;
	uint8_t cut[ROOM], want[ROOM];
	struct frame_large large;
	size_t len;

	if (!sim_chance(host->sim, host->sim->params.large))
		return tcp_send_train(conn, seg, mss);
	host->sim->large++;
	frame_build_large(&large, &host->template, seg, mss);
	for (uint32_t i = 0; rest.len; i++) {
		tcp_segment_cut(&rest, rest.len < mss ? rest.len : mss, &piece);
		len = frame_build_tcp(&host->template, want, &piece);
		SIM_CHECK(host->sim, cut_large(&large, i, cut) == len && !memcmp(cut, want, len));
		(void)op_send(conn, &piece); /* the device may lose it */
	}
	return seg->len;
}

static void op_urgent(struct tcp_conn *conn)
{
	SIM_CHECK(host_of(conn)->sim, host_of(conn)->closed == 0);
}

static void op_writable(struct tcp_conn *conn)
{
	host_of(conn)->writable++;
}

static void op_record(struct tcp_conn *conn, enum tcp_event event, uint32_t argument)
{
	struct sim_host *host = host_of(conn);

	host->events[event]++;
	if (event == TCP_EVENT_STATE)
		SIM_CHECK(host->sim, argument >> 8 == conn->state);
}

static const struct tcp_ops ops = {
	.alloc = op_alloc,
	.closed = op_closed,
	.established = op_established,
	.event = op_record,
	.free = op_free,
	.readable = op_readable,
	.send = op_send,
	.send_train = op_send_train,
	.urgent = op_urgent,
	.writable = op_writable,
};

static int listener_accept(struct tcp_listener *l, const struct tcp_synreq *req, struct pkt *pkt,
			   nsec_t now)
{
	struct sim_host *host = container_of(l, struct sim_host, listener);
	struct sim *sim = host->sim;
	enum drop why;

	if (host->accept_fails) {
		host->accept_fails--;
		return -ENOMEM;
	}
	if (host->exists && (!sim->params.again || !host->closed))
		return -ENOMEM;
	sim_kill(sim, index_of(host));
	tcp_init_passive(&host->conn, &ops, &sim->params.config[index_of(host)], req, now);
	host->exists = true;
	why = tcp_input(&host->conn, pkt, now);
	sim->drops[why]++;
	if (why != DROP_NONE)
		pkt_free(pkt);
	return 0;
}

/* As a host that keeps its secret: later connections of a pair begin with higher numbers. */
static struct tcp_start start_of(struct sim_host *host, nsec_t now)
{
	const struct sim_host *peer = &host->sim->host[!index_of(host)];
	struct tcp_start start = tcp_start_of(host->secret, &host->self, &peer->self, now);

	if (host->sim->params.wrap)
		start.iss = 0u - sim_random(host->sim, 20000);
	return start;
}

static struct tcp_start listener_start(struct tcp_listener *l, const struct endpoint *local,
				       const struct endpoint *remote, nsec_t now)
{
	return start_of(container_of(l, struct sim_host, listener), now);
}

static int listener_send(struct tcp_listener *l, const struct endpoint *local,
			 const struct endpoint *remote, const struct tcp_segment *seg)
{
	struct sim_host *host = container_of(l, struct sim_host, listener);

	SIM_CHECK(host->sim, endpoint_eq(local, &host->self));
	return transmit(host->sim, index_of(host), seg->seq, seg);
}

static const struct tcp_listener_ops listener_ops = {
	.accept = listener_accept,
	.alloc = op_alloc,
	.free = op_free,
	.send = listener_send,
	.start = listener_start,
};

/* ---- invariants ----------------------------------------------------------------------- */

static void check_queues(const struct sim *sim, const struct sim_host *host)
{
	const struct tcp_conn *c = &host->conn;
	uint32_t bytes = 0, room = 0, at = c->rcv_nxt, runs = 0;
	const struct pkt *last = NULL;

	for (const struct pkt *p = c->rcv.head; p; p = p->next) {
		bytes += p->len;
		room += p->room + (uint32_t)sizeof(*p);
		SIM_CHECK(sim, p->next || p == c->rcv.tail);
	}
	SIM_CHECK(sim, bytes == c->rcv.bytes);
	for (const struct pkt *p = c->rcv.ooo; p; p = p->next) {
		if (p == c->rcv.ooo || p->seq != at) {
			runs++;
			last = p->run_last;
			SIM_CHECK(sim, last->next || p == c->rcv.ooo_run);
		}
		SIM_CHECK(sim, !p->next || p->next->seq == p->seq + p->len || p == last);
		SIM_CHECK(sim, seq_geq(p->seq, at) && seq_gt(p->seq + p->len + 1, c->rcv_nxt));
		SIM_CHECK(sim, seq_leq(p->seq + p->len, c->rcv_edge));
		at = p->seq + p->len;
		room += p->room + (uint32_t)sizeof(*p);
	}
	SIM_CHECK(sim, runs == c->rcv.runs && runs <= TCP_RECVQ_RUNS_MAX);
	SIM_CHECK(sim, room == c->rcv.room);
	SIM_CHECK(sim, room <= host->limit + ROOM + sizeof(struct pkt));
}

static void check_flight(const struct sim *sim, const struct tcp_conn *c)
{
	const struct tcp_flight *f = c->flight;
	uint32_t at = c->snd_una, sacked = 0, lost = 0;

	if (!f)
		return;
	SIM_CHECK(sim, f->n <= f->max && f->start == at);
	for (unsigned i = 0; i < f->n; i++) {
		SIM_CHECK(sim, seq_lt(at, f->r[i].end));
		sacked += f->r[i].what & RUN_SACKED ? f->r[i].end - at : 0;
		lost += f->r[i].what & RUN_LOST ? f->r[i].end - at : 0;
		at = f->r[i].end;
	}
	SIM_CHECK(sim, at == c->snd_nxt);
	SIM_CHECK(sim, sacked == f->sacked && lost == f->lost);
	SIM_CHECK(sim, c->trouble || (!sacked && !lost && !c->recovery));
	SIM_CHECK(sim, !lost || c->recovery);
}

static void check(struct sim *sim, int h)
{
	struct sim_host *host = &sim->host[h];
	const struct tcp_conn *c = &host->conn;

	if (!host->exists)
		return;
	if (c->state == TCP_CLOSED) {
		SIM_CHECK(sim, tcp_deadline(c) == NSEC_NEVER);
		SIM_CHECK(sim, !c->snd.data && !c->rcv.ooo && !c->flight);
		SIM_CHECK(sim, host->closed == !host->small);
		return;
	}
	SIM_CHECK(sim, !host->small);
	host->rcvbuf = max_u32(host->rcvbuf, c->rcvbuf);
	host->limit = max_u32(host->limit, c->rcv.limit);
	SIM_CHECK(sim, seq_leq(c->snd_una, c->snd_nxt));
	SIM_CHECK(sim, seq_leq(c->rcv_nxt, c->rcv_edge) || c->state == TCP_SYN_SENT);
	SIM_CHECK(sim, seq_leq(c->rcv_acked, c->rcv_nxt));
	SIM_CHECK(sim, c->cc.cwnd >= c->cc.mss && c->cc.cwnd <= TCP_CC_MAX_WINDOW);
	SIM_CHECK(sim, c->cc.ssthresh >= 2 * c->cc.mss);
	SIM_CHECK(sim, c->snd.len <= c->snd.size && c->snd.len <= c->sndbuf);
	/* When a window opens, it is rounded up to a unit of the scale. */
	SIM_CHECK(sim, c->rcv.bytes < max_u32(host->rcvbuf, UINT16_MAX) + (1u << c->rcv_wscale));
	SIM_CHECK(sim, tcp_pipe(c) <= c->snd_nxt - c->snd_una);
	check_flight(sim, c);
	/* If the connection waits for the peer, a timer must run. */
	SIM_CHECK(sim, !tcp_in_flight(c) || c->rto_at != NSEC_NEVER);
	SIM_CHECK(sim, !tcp_unsent(c) || tcp_deadline(c) != NSEC_NEVER || !tcp_synchronized(c));
	check_queues(sim, host);
}

/* ---- small ----------------------------------------------------------------------------- */

static void small_over(struct sim *sim, struct sim_host *host)
{
	trace(sim, "%c is over", 'A' + index_of(host));
	host->small = false;
	host->closed++;
	host->error = 0;
}

/* The program has closed it, and none of its data is in flight: does what the owner does. */
static void settle(struct sim *sim, struct sim_host *host)
{
	struct tcp_conn *c = &host->conn;

	if (!host->exists || !tcp_timewait_due(c))
		return;
	tcp_timewait_begin(&host->tw, c);
	host->small = true;
	trace(sim, "%c becomes small", 'A' + index_of(host));
	/* It has nothing left that could be lost. */
	SIM_CHECK(sim, !c->rcv.head && !c->rcv.ooo && !c->rcv.room && !c->snd.data && !c->flight);
}

static enum drop small_input(struct sim *sim, struct sim_host *host, struct pkt *pkt)
{
	struct tcp_timewait_answer ans;
	uint32_t nxt = host->tw.snd_nxt, packets = sim->packets;
	enum drop why = tcp_timewait_input(&host->tw, pkt, &ans, sim->now);

	/* It sends no data, consumes nothing, and always sends the same. */
	SIM_CHECK(sim, sim->packets == packets && host->tw.snd_nxt == nxt);
	SIM_CHECK(sim, !ans.send || (ans.seg.len == 0 && ans.seg.seq == nxt));
	SIM_CHECK(sim, host->tw.until <= sim->now + 60 * SEC);
	if (ans.send)
		transmit(sim, index_of(host), host->conn.iss, &ans.seg);
	if (ans.over)
		small_over(sim, host);
	if (why == DROP_NONE)
		pkt_free(pkt);
	return why;
}

/* ---- events ---------------------------------------------------------------------------- */

static void deliver(struct sim *sim, int to, struct pkt *pkt)
{
	struct sim_host *host = &sim->host[to];
	struct tcp_segment rst;
	struct flow_key key;
	enum drop why = frame_parse(pkt, 0, &key);

	if (why == DROP_NONE) {
		if (host->small)
			why = small_input(sim, host, pkt);
		else if (host->exists && host->conn.state != TCP_CLOSED)
			why = tcp_input(&host->conn, pkt, sim->now);
		else
			why = DROP_NO_FLOW;
		if (why == DROP_NO_FLOW && host->listening)
			why = tcp_listener_input(&host->listener, pkt, sim->now);
		else if (why == DROP_NO_FLOW && tcp_reset_for(pkt, &rst))
			transmit(sim, to, host->conn.iss, &rst);
	}
	sim->drops[why]++;
	if (why == DROP_NONE)
		return;
	trace(sim, "%c drops it: %s", 'A' + to, drop_text(why));
	pkt_free(pkt);
}

nsec_t sim_next(const struct sim *sim)
{
	nsec_t next = sim->in_flight ? sim->flight[0].at : NSEC_NEVER, at;

	for (int h = A; h <= B; h++) {
		const struct sim_host *host = &sim->host[h];

		at = host->exists ? tcp_deadline(&host->conn) : NSEC_NEVER;
		at = host->small ? host->tw.until : at;
		next = at < next ? at : next;
		next = host->icmp_at < next ? host->icmp_at : next;
		next = host->poll_at < next ? host->poll_at : next;
		at = host->listening ? tcp_listener_deadline(&host->listener) : NSEC_NEVER;
		next = at < next ? at : next;
	}
	return next;
}

static void run_icmp(struct sim *sim, struct sim_host *host)
{
	const struct sim_link *link = &sim->params.link[index_of(host)];
	struct icmp_error error;

	if (sim->now < host->icmp_at)
		return;
	host->icmp_at = NSEC_NEVER;
	trace(sim, "%c hears that the path carries %u bytes", 'A' + index_of(host), link->mtu);
	SIM_CHECK(sim, too_big_heard(&host->template, host->icmp_seq, link->mtu, &error));
	if (host->exists && tcp_icmp_is_ours(&host->conn, error.seq))
		tcp_path_mtu(&host->conn, error.mtu, sim->now);
}

static void run_timers(struct sim *sim, struct sim_host *host)
{
	if (host->listening && sim->now >= tcp_listener_deadline(&host->listener))
		tcp_listener_timer(&host->listener, sim->now);
	if (host->exists && sim->now >= tcp_deadline(&host->conn)) {
		trace(sim, "%c timer", 'A' + index_of(host));
		tcp_timer(&host->conn, sim->now);
		SIM_CHECK(sim, tcp_deadline(&host->conn) > sim->now);
	}
}

/* Packets that may form a chain: valid, and for a connection. */
static bool chain(struct sim *sim, struct sim_host *host, struct pkt **pkts, unsigned n)
{
	struct flow_key key;

	if (n < 2 || host->small || !host->exists || host->conn.state == TCP_CLOSED)
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (frame_parse(pkts[i], 0, &key) != DROP_NONE)
			return false;
		pkts[i]->next = i + 1 < n ? pkts[i + 1] : NULL;
	}
	if (!tcp_input_chain(&host->conn, pkts[0], sim->now))
		return false;
	trace(sim, "%c takes %u at once", 'A' + index_of(host), n);
	sim->drops[DROP_NONE] += n;
	host->chains++;
	return true;
}

/* Delivers what has arrived at one host, as a ring does. */
static void deliver_burst(struct sim *sim, int to, struct pkt **pkts, unsigned n)
{
	if (chain(sim, &sim->host[to], pkts, n))
		return;
	for (unsigned i = 0; i < n; i++) {
		pkts[i]->next = NULL;
		deliver(sim, to, pkts[i]);
	}
}

static void arrive(struct sim *sim)
{
	struct pkt *pkts[2][BURST];
	unsigned n[2] = {0, 0};

	while (sim->in_flight && sim->flight[0].at <= sim->now) {
		struct sim_flight f = flight_pop(sim);

		pkts[f.to][n[f.to]++] = f.pkt;
		if (n[f.to] == BURST || !sim->params.poll_delay) {
			deliver_burst(sim, f.to, pkts[f.to], n[f.to]);
			n[f.to] = 0;
		}
	}
	for (int h = A; h <= B; h++)
		deliver_burst(sim, h, pkts[h], n[h]);
}

static void flush(struct sim *sim, struct sim_host *host)
{
	uint64_t before = sim->segments;
	bool due, held;

	host->poll_at = NSEC_NEVER;
	if (!host->exists)
		return;
	due = tcp_is_due(&host->conn);
	held = tcp_flush(&host->conn, sim->now);
	if (held)
		host->poll_at = sim->now + POLL_AGAIN;
	if (!due && (held || sim->segments != before))
		sim_fail(sim, "something was due", __FILE__, __LINE__);
}

bool sim_step(struct sim *sim)
{
	nsec_t next = sim_next(sim);

	if (next == NSEC_NEVER)
		return false;
	if (next > sim->now)
		sim->now = next + sim->params.poll_delay;
	current = sim;
	arrive(sim);
	for (int h = A; h <= B; h++) {
		run_icmp(sim, &sim->host[h]);
		run_timers(sim, &sim->host[h]);
		flush(sim, &sim->host[h]);
		settle(sim, &sim->host[h]);
		if (sim->host[h].small && sim->now >= sim->host[h].tw.until)
			small_over(sim, &sim->host[h]);
		check(sim, h);
	}
	return true;
}

void sim_run(struct sim *sim, nsec_t time)
{
	nsec_t end = sim->now + time;

	while (sim_next(sim) <= end && sim_step(sim))
		;
	if (sim->now < end)
		sim->now = end;
}

/* ---- set-up ------------------------------------------------------------------------------ */

static bool is_ip6(void)
{
	const char *family = getenv("SIM_FAMILY");

	return family && !strcmp(family, "6");
}

uint16_t sim_mss(uint32_t mtu)
{
	return (uint16_t)(mtu - (is_ip6() ? IP6_HDR : IP4_HDR) - TCP_HDR);
}

struct sim_params sim_defaults(void)
{
	struct sim_params p = {.seed = 1, .backlog = 4, .ip6 = is_ip6()};

	for (int h = A; h <= B; h++) {
		p.config[h] = (struct tcp_config){.mss = sim_mss(1500),
						  .rcvbuf = 65536,
						  .sndbuf = 65536,
						  .timestamps = true,
						  .ip6 = p.ip6};
		p.link[h].delay = 5 * MSEC;
	}
	return p;
}

static struct inaddr addr_of(const struct sim *sim, int h)
{
	struct inaddr addr = {.b = {0x20, 0x01, 0x0d, 0xb8, [15] = (uint8_t)(h + 1)}};

	return sim->params.ip6 ? addr : addr_v4(htonl(0x0a000001u + (uint32_t)h));
}

static void init_host(struct sim *sim, int h)
{
	static const uint8_t mac[2][6] = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}};
	struct sim_host *host = &sim->host[h];
	struct frame_params params = {
		.src_mac = mac[h], .dst_mac = mac[!h], .proto = IPPROTO_TCP, .ttl = 64};

	host->sim = sim;
	host->icmp_at = NSEC_NEVER;
	host->poll_at = NSEC_NEVER;
	host->self.addr = addr_of(sim, h);
	host->self.port = htons(h == A ? 40000 : 80);
	params.src = host->self;
	params.dst.addr = addr_of(sim, !h);
	params.dst.port = htons(h == A ? 80 : 40000);
	assert_int_equal(frame_template_init(&host->template, &params), 0);
	memcpy(host->secret, &sim->params.seed, sizeof(sim->params.seed));
	host->secret[8] = (uint8_t)h;
}

struct sim *sim_create(const struct sim_params *params)
{
	struct sim *sim = calloc(1, sizeof(*sim));

	sim->params = *params;
	sim->random = params->seed * 0x2545f4914f6cdd1du + 1;
	sim->now = START;
	sim->trace = getenv("SIM_TRACE") != NULL;
	sim->pool.put = pool_put;
	init_host(sim, A);
	init_host(sim, B);
	current = sim;
	return sim;
}

void sim_destroy(struct sim *sim)
{
	for (int h = A; h <= B; h++) {
		if (sim->host[h].listening)
			tcp_listener_fini(&sim->host[h].listener);
	}
	while (sim->in_flight)
		pkt_free(flight_pop(sim).pkt);
	SIM_CHECK(sim, sim->packets == 0); /* all packets returned */
	SIM_CHECK(sim, sim->buffers == 0);
	free(sim->flight);
	free(sim);
}

void sim_listen(struct sim *sim, int h)
{
	struct sim_host *host = &sim->host[h];

	host->listening = true;
	tcp_listener_init(&host->listener, &listener_ops, &sim->params.config[h],
			  sim->params.backlog);
}

void sim_open(struct sim *sim, int h)
{
	struct sim_host *host = &sim->host[h];

	tcp_init(&host->conn, &ops, &sim->params.config[h]);
	host->exists = true;
	if (sim->params.no_sack)
		host->conn.flags &= ~(uint32_t)CONN_SACK;
	assert_int_equal(tcp_connect(&host->conn, start_of(host, sim->now), sim->now), 0);
}

void sim_establish(struct sim *sim)
{
	sim_listen(sim, B);
	sim_open(sim, A);
	for (int i = 0; i < 1000 && !(sim->host[A].established && sim->host[B].established); i++)
		sim_step(sim);
	SIM_CHECK(sim, sim->host[A].established == 1 && sim->host[B].established == 1);
	sim_log_clear(sim);
}

struct tcp_segment sim_forge(struct sim *sim, int to, uint8_t flags)
{
	const struct tcp_conn *peer = &sim->host[!to].conn;
	struct tcp_segment seg = {
		.seq = peer->snd_nxt, .ack = peer->rcv_nxt, .wnd = 1000, .flags = flags};

	if (peer->flags & CONN_TIMESTAMPS)
		seg.opt_len = (uint8_t)tcp_options_write_timestamps(
			seg.opts, tcp_ts_now(peer, sim->now), peer->ts_recent);
	return seg;
}

void sim_inject(struct sim *sim, int h, const struct tcp_segment *seg)
{
	struct pkt *pkt = make_pkt(sim);
	char text[9];

	current = sim;
	trace(sim, "%c injected %s seq %u len %u", 'A' + h, flags_text(seg->flags, text),
	      seg->seq - sim->host[h].conn.irs, seg->len);
	pkt->frame_len = (uint32_t)frame_build_tcp(&sim->host[!h].template, pkt->frame, seg);
	deliver(sim, h, pkt);
	flush(sim, &sim->host[h]);
	settle(sim, &sim->host[h]);
	check(sim, h);
}

/* ---- another process ----------------------------------------------------------------------- */

static struct pkt *make_room(uint32_t room)
{
	struct pkt *pkt = calloc(1, sizeof(*pkt));

	pkt->frame = malloc(room ? room : 1);
	pkt->room = room;
	pkt->pool = &current->pool;
	current->packets++;
	return pkt;
}

void sim_restore(struct sim *sim, int h)
{
	struct sim_host *host = &sim->host[h];
	struct tcp_conn *c = &host->conn;
	unsigned buffers, packets;
	uint8_t *bytes;
	size_t size;
	int rc;

	if (!host->exists || host->small || (c->flags & CONN_DETACHED))
		return;
	current = sim;
	trace(sim, "%c moves", 'A' + h);
	size = tcp_snapshot_size(c);
	bytes = malloc(size);
	tcp_snapshot_write(c, bytes, sim->now);
	tcp_snapshot_release(c);
	SIM_CHECK(sim, !c->snd.data && !c->flight && !c->rare && !c->rcv.head && !c->rcv.ooo);
	buffers = sim->buffers;
	packets = sim->packets;
	do {
		SIM_CHECK(sim, sim->buffers == buffers && sim->packets == packets);
		memset(c, 0xa5, sizeof(*c));
		rc = tcp_snapshot_read(c, &ops, bytes, size, make_room, sim->now);
	} while (rc == -ENOMEM && sim->params.alloc_fails);
	SIM_CHECK(sim, rc == 0);
	free(bytes);
	flush(sim, host);
	check(sim, h);
}

void sim_kill(struct sim *sim, int h)
{
	struct sim_host *host = &sim->host[h];

	current = sim;
	trace(sim, "%c begins anew", 'A' + h);
	if (host->exists) {
		host->killed = true;
		tcp_abort(&host->conn, 0, sim->now);
	}
	host->exists = host->small = host->killed = host->eof = host->edge_known = false;
	host->established = host->closed = host->readable = host->writable = 0;
	host->sent = host->received = 0;
	host->poll_at = host->icmp_at = NSEC_NEVER;
	host->error = 0;
}

/* ---- programs ----------------------------------------------------------------------------- */

/* The size of the second part of a buffer; 0: it has one. */
static uint32_t cut_at(const struct sim *sim, uint32_t n)
{
	return sim->params.parts || n % 5 == 0 ? n - n / 3 : 0;
}

ssize_t sim_send(struct sim *sim, int h, uint32_t n, unsigned flags)
{
	struct sim_host *host = &sim->host[h];
	uint8_t *data = malloc(n + 1);
	uint32_t cut = cut_at(sim, n);
	struct iovec iov[2] = {{data, n - cut}, {data + n - cut, cut}};
	ssize_t rc;

	current = sim;
	for (uint32_t i = 0; i < n; i++)
		data[i] = sim_byte(h, host->sent + i);
	rc = tcp_send(&host->conn, iov, cut ? 2 : 1, flags, sim->now);
	trace(sim, "%c send(%u) = %zd", 'A' + h, n, rc);
	if (rc > 0)
		host->sent += (uint64_t)rc;
	free(data);
	check(sim, h);
	return rc;
}

ssize_t sim_recv(struct sim *sim, int h, uint32_t n)
{
	struct sim_host *host = &sim->host[h];
	uint8_t *data = malloc(n + 1);
	uint32_t cut = cut_at(sim, n);
	struct iovec iov[2] = {{data, n - cut}, {data + n - cut, cut}};
	ssize_t rc;

	current = sim;
	rc = tcp_recv(&host->conn, iov, cut ? 2 : 1, false, sim->now);
	trace(sim, "%c recv(%u) = %zd", 'A' + h, n, rc);
	for (ssize_t i = 0; i < rc; i++) {
		if (data[i] != sim_byte(!h, host->received + (uint64_t)i))
			sim_fail(sim, "a wrong byte arrived", __FILE__, __LINE__);
	}
	if (rc > 0)
		host->received += (uint64_t)rc;
	if (rc == 0 && n)
		host->eof = true;
	free(data);
	check(sim, h);
	return rc;
}

uint64_t sim_drain(struct sim *sim, int h)
{
	uint64_t before_it = sim->host[h].received;

	while (sim_recv(sim, h, 65536) > 0)
		;
	return sim->host[h].received - before_it;
}

uint64_t sim_pump(struct sim *sim, nsec_t time)
{
	nsec_t end = sim->now + time;
	uint64_t before = sim->host[B].received;

	while (sim->now < end) {
		sim_send(sim, A, 500000, 0);
		sim_run(sim, 10 * MSEC);
		sim_drain(sim, B);
	}
	return sim->host[B].received - before;
}

void sim_shutdown(struct sim *sim, int h)
{
	current = sim;
	trace(sim, "%c shutdown", 'A' + h);
	tcp_shutdown(&sim->host[h].conn, sim->now);
	check(sim, h);
}

void sim_close(struct sim *sim, int h)
{
	current = sim;
	trace(sim, "%c close", 'A' + h);
	tcp_close(&sim->host[h].conn, sim->now);
	settle(sim, &sim->host[h]);
	check(sim, h);
}

void sim_end(struct sim *sim)
{
	for (int h = A; h <= B; h++) {
		if (!sim->host[h].exists)
			continue;
		sim_drain(sim, h);
		sim_close(sim, h);
	}
	sim_run(sim, 4000 * SEC);
	for (int h = A; h <= B; h++)
		SIM_CHECK(sim, !sim->host[h].exists || sim->host[h].closed == 1);
	SIM_CHECK(sim, sim_next(sim) == NSEC_NEVER);
	sim_destroy(sim);
}

/* ---- the log -------------------------------------------------------------------------------- */

void sim_log_clear(struct sim *sim)
{
	sim->logged = 0;
}

unsigned sim_count_data(const struct sim *sim, int from)
{
	unsigned n = 0;

	for (unsigned i = 0; i < sim->logged; i++)
		n += sim->log[i].from == from && sim->log[i].len > 0;
	return n;
}

unsigned sim_count(const struct sim *sim, int from, uint8_t flags)
{
	unsigned n = 0;

	for (unsigned i = 0; i < sim->logged; i++)
		n += sim->log[i].from == from && (sim->log[i].flags & flags) == flags;
	return n;
}

unsigned sim_count_pure_acks(const struct sim *sim, int from)
{
	unsigned n = 0;

	for (unsigned i = 0; i < sim->logged; i++)
		n += sim->log[i].from == from && sim->log[i].len == 0 &&
		     sim->log[i].flags == TCP_ACK;
	return n;
}

const struct sim_segment *sim_last(const struct sim *sim, int from)
{
	for (unsigned i = sim->logged; i-- > 0;) {
		if (sim->log[i].from == from)
			return &sim->log[i];
	}
	return NULL;
}
