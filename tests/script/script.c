/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/script/script.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tests/script/script_world.h"

#define WORDS 48
#define LINE 512

struct script {
	struct world w;
	char name[128], path[256];
	unsigned line;
	bool named, failed, has_rfc;
	bool ip6;
	bool other; /* the script is for the other family */
	nsec_t at;  /* time of the line */
	char text[LINE], *word[WORDS + 1];
	unsigned words, next;
	struct script_result result;
	const char *only;
};

/* ---- complaints ---- */

__attribute__((format(printf, 2, 3))) static void fail(struct script *s, const char *fmt, ...)
{
	va_list args;

	if (s->failed)
		return;
	s->failed = true;
	printf("%s:%u: script %s at %.6f s: ", s->path, s->line, s->name,
	       (double)(s->w.now - s->w.start) / 1e9);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
}

static const char *flags_text(uint8_t flags)
{
	static char text[4][10];
	static unsigned turn;
	char *p = text[turn = (turn + 1) % 4], *at = p;

	for (int i = 0; i < 8; i++) {
		if (flags >> i & 1)
			*at++ = "FSRPAUEW"[i];
	}
	if (at == p)
		*at++ = '-';
	*at = 0;
	return p;
}

static void describe(const struct script *s, const struct world_segment *seg, char *text,
		     size_t size)
{
	int n = snprintf(text, size, "%s %u+%u ack %u win %u", flags_text(seg->flags),
			 seg->seq - s->w.iss, seg->len,
			 seg->flags & TCP_ACK ? seg->ack - WORLD_PEER_ISS : 0, seg->wnd);

	for (unsigned i = 0; i < seg->opt.sacks; i++)
		n += snprintf(text + n, size - (size_t)n, "%s%u-%u", i ? "," : " sack ",
			      seg->opt.sack[i].start - WORLD_PEER_ISS,
			      seg->opt.sack[i].end - WORLD_PEER_ISS);
	if (seg->opt.has_ts)
		n += snprintf(text + n, size - (size_t)n, " ts %u,%u",
			      seg->opt.tsval - s->w.iss - (uint32_t)(s->w.start / NSEC_PER_MSEC),
			      seg->opt.tsecr - WORLD_PEER_TS);
	snprintf(text + n, size - (size_t)n, " at %.6f s", (double)(seg->at - s->w.start) / 1e9);
}

/* Segments that were sent and not expected. */
static void nothing_left(struct script *s)
{
	char text[256];

	if (s->w.complaint[0])
		fail(s, "%s", s->w.complaint);
	if (s->w.out_head == s->w.out_tail)
		return;
	describe(s, &s->w.out[s->w.out_head % WORLD_SENT], text, sizeof(text));
	fail(s, "was sent and not expected: %s (and %u more)", text,
	     s->w.out_tail - s->w.out_head - 1);
}

/* ---- words ---- */

static const char *peek(const struct script *s)
{
	return s->next < s->words ? s->word[s->next] : NULL;
}

static const char *take(struct script *s)
{
	if (s->next < s->words)
		return s->word[s->next++];
	fail(s, "a word is missing");
	return "";
}

static bool take_if(struct script *s, const char *word)
{
	if (!peek(s) || strcmp(peek(s), word) != 0)
		return false;
	s->next++;
	return true;
}

static long long number(struct script *s, const char **text)
{
	char *end;
	long long n = strtoll(*text, &end, 0);

	if (end == *text)
		fail(s, "'%s' is no number", *text);
	*text = end;
	return n;
}

static long long take_number(struct script *s)
{
	const char *text = take(s);
	long long n = number(s, &text);

	if (*text)
		fail(s, "'%s' behind a number", text);
	return n;
}

static nsec_t take_time(struct script *s)
{
	static const struct {
		const char *unit;
		nsec_t nsec;
	} units[] = {{"us", NSEC_PER_USEC},
		     {"ms", NSEC_PER_MSEC},
		     {"s", NSEC_PER_SEC},
		     {"m", 60 * NSEC_PER_SEC},
		     {"h", 3600 * NSEC_PER_SEC},
		     {"d", 86400 * NSEC_PER_SEC},
		     {"ns", 1}};
	const char *text = take(s);
	char *end;
	double n = strtod(text, &end);

	for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (end != text && !strcmp(end, units[i].unit))
			return (nsec_t)(n * (double)units[i].nsec + 0.5);
	}
	fail(s, "'%s' is no time", text);
	return 0;
}

static bool take_switch(struct script *s)
{
	const char *text = take(s);

	if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
		fail(s, "'%s' is neither on nor off", text);
	return !strcmp(text, "on");
}

static int take_error(struct script *s)
{
	static const struct {
		const char *name;
		int error;
	} names[] = {{"0", 0},
		     {"EAGAIN", EAGAIN},
		     {"ECONNREFUSED", ECONNREFUSED},
		     {"ECONNRESET", ECONNRESET},
		     {"EHOSTUNREACH", EHOSTUNREACH},
		     {"EINVAL", EINVAL},
		     {"ENOTCONN", ENOTCONN},
		     {"EPIPE", EPIPE},
		     {"ETIMEDOUT", ETIMEDOUT}};
	const char *text = take(s);

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(text, names[i].name))
			return names[i].error;
	}
	fail(s, "'%s' is no error we know of", text);
	return -1;
}

/*
 * Compares "= 100" or "= EAGAIN" with the result of a call; without either, with the usual
 * result.
 */
static void compare_result(struct script *s, ssize_t rc, ssize_t usual)
{
	ssize_t want = usual;

	if (take_if(s, "=")) {
		if (peek(s) && isdigit((unsigned char)*peek(s)))
			want = (ssize_t)take_number(s);
		else
			want = -take_error(s);
	}
	if (rc != want)
		fail(s, "returned %zd (%s), not %zd", rc, rc < 0 ? strerror((int)-rc) : "bytes",
		     want);
}

/* ---- segments ---- */

/* The parts of an expected segment that the script gives. */
enum {
	HAS_ACK = 1,
	HAS_WIN = 2,
	HAS_TS = 4,
	HAS_SYN_OPTIONS = 8,
	HAS_NO_TS = 16,
	HAS_URG = 32,
	HAS_ECN = 64
};

static uint8_t take_flags(struct script *s)
{
	const char *text = take(s), *all = "FSRPAUEW", *at;
	uint8_t flags = 0;

	for (; *text && *text != '-'; text++) {
		at = strchr(all, *text);
		if (!at)
			fail(s, "'%c' is no flag", *text);
		else
			flags |= (uint8_t)(1u << (at - all));
	}
	return flags;
}

static void take_sacks(struct script *s, struct tcp_options *opt, uint32_t base)
{
	const char *text = take(s);

	while (*text && opt->sacks < TCP_SACK_BLOCKS) {
		struct tcp_range *r = &opt->sack[opt->sacks++];

		r->start = base + (uint32_t)number(s, &text);
		if (*text++ != '-') {
			fail(s, "a SACK block is START-END");
			return;
		}
		r->end = base + (uint32_t)number(s, &text);
		if (*text == ',')
			text++;
	}
}

static void take_timestamps(struct script *s, struct tcp_options *opt, bool ours)
{
	uint32_t base = s->w.iss + (uint32_t)(s->w.start / NSEC_PER_MSEC);
	const char *text = take(s);

	opt->has_ts = true;
	opt->tsval = (uint32_t)number(s, &text) + (ours ? base : WORLD_PEER_TS);
	if (*text == ',') {
		text++;
		opt->tsecr = (uint32_t)number(s, &text) + (ours ? WORLD_PEER_TS : base);
	}
}

static bool take_syn_option(struct script *s, struct tcp_options *opt)
{
	if (take_if(s, "mss"))
		opt->mss = (uint16_t)take_number(s);
	else if (take_if(s, "wscale"))
		opt->wscale = (int8_t)take_number(s);
	else if (take_if(s, "sackok"))
		opt->sack_permitted = true;
	else
		return false;
	return true;
}

/* A segment as written; ours: the side that sends it. */
static unsigned take_segment(struct script *s, struct world_segment *seg, bool ours)
{
	uint32_t mine = ours ? s->w.iss : WORLD_PEER_ISS, yours = ours ? WORLD_PEER_ISS : s->w.iss;
	unsigned said = 0;
	const char *text;

	*seg = (struct world_segment){.flags = take_flags(s), .wnd = 60000, .at = s->at};
	seg->opt.wscale = -1;
	text = take(s);
	seg->seq = (uint32_t)number(s, &text) + mine;
	if (*text == '+') {
		text++;
		seg->len = (uint32_t)number(s, &text);
	}
	if (*text)
		fail(s, "'%s' behind the sequence number", text);
	while (peek(s) && !s->failed) {
		if (take_if(s, "ack")) {
			seg->ack = (uint32_t)take_number(s) + yours;
			said |= HAS_ACK;
		} else if (take_if(s, "win")) {
			seg->wnd = (uint16_t)take_number(s);
			said |= HAS_WIN;
		} else if (take_if(s, "sack")) {
			take_sacks(s, &seg->opt, yours);
		} else if (take_if(s, "ect")) {
			seg->ecn = ECN_ECT0;
			said |= HAS_ECN;
		} else if (take_if(s, "not-ect")) {
			said |= HAS_ECN;
		} else if (take_if(s, "ce")) {
			seg->ecn = ECN_CE;
		} else if (take_if(s, "urg")) {
			seg->urg = (uint16_t)take_number(s);
			said |= HAS_URG;
		} else if (take_if(s, "ts")) {
			take_timestamps(s, &seg->opt, ours);
			said |= HAS_TS;
		} else if (take_if(s, "no-ts")) {
			said |= HAS_NO_TS;
		} else if (take_syn_option(s, &seg->opt)) {
			said |= HAS_SYN_OPTIONS;
		} else {
			fail(s, "'%s' is no part of a segment", peek(s));
		}
	}
	return said;
}

static bool same_sacks(const struct tcp_options *a, const struct tcp_options *b)
{
	for (unsigned i = 0; a->sacks == b->sacks && i < a->sacks; i++) {
		if (a->sack[i].start != b->sack[i].start || a->sack[i].end != b->sack[i].end)
			return false;
	}
	return a->sacks == b->sacks;
}

static const char *difference(const struct world_segment *want, const struct world_segment *have,
			      unsigned said)
{
	const struct tcp_options *w = &want->opt, *h = &have->opt;

	if (want->flags != have->flags)
		return "flags";
	if (want->seq != have->seq || want->len != have->len)
		return "sequence number or length";
	if ((said & HAS_ACK) && want->ack != have->ack)
		return "acknowledgement";
	if ((said & HAS_WIN) && want->wnd != have->wnd)
		return "window";
	if ((said & HAS_ECN) && want->ecn != have->ecn)
		return "ECN codepoint";
	if ((said & HAS_URG) && want->urg != have->urg)
		return "urgent pointer";
	if (!same_sacks(w, h))
		return "SACK blocks";
	if ((said & HAS_TS) && (!h->has_ts || w->tsval != h->tsval || w->tsecr != h->tsecr))
		return "timestamps";
	if ((said & HAS_NO_TS) && h->has_ts)
		return "timestamps";
	if ((said & HAS_SYN_OPTIONS) &&
	    (w->mss != h->mss || w->wscale != h->wscale || w->sack_permitted != h->sack_permitted))
		return "options of the SYN";
	if (want->at != have->at)
		return "time";
	return NULL;
}

static void do_out(struct script *s)
{
	struct world_segment want, *have = &s->w.out[s->w.out_head % WORLD_SENT];
	char wanted[256], got[256];
	const char *what;
	unsigned said;

	if (s->w.out_head == s->w.out_tail) {
		fail(s, "nothing was sent");
		return;
	}
	said = take_segment(s, &want, true);
	if (!(said & HAS_ACK))
		want.ack = have->ack;
	if (!(said & HAS_WIN))
		want.wnd = have->wnd;
	what = difference(&want, have, said);
	if (what) {
		describe(s, &want, wanted, sizeof(wanted));
		describe(s, have, got, sizeof(got));
		fail(s, "another %s\n  expected %s\n  sent     %s", what, wanted, got);
	}
	s->w.out_head++;
}

static void do_in(struct script *s)
{
	struct world_segment seg;

	take_segment(s, &seg, false);
	if (!s->failed)
		world_input(&s->w, &seg);
}

/* ---- configuration and handshake ---- */

static void set_cc(struct script *s)
{
	static const char *const names[] = {"reno", "cubic", "none"};
	const char *want = take(s);

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(want, names[i])) {
			s->w.config.cc_algo = (uint8_t)i;
			return;
		}
	}
	fail(s, "'%s' controls no congestion", want);
}

static void set_ecn(struct script *s)
{
	static const char *const names[] = {"none", "ask", "answer"};
	const char *want = take(s);

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(want, names[i])) {
			s->w.config.ecn = (uint8_t)i;
			return;
		}
	}
	fail(s, "'%s' is no way to deal with ECN", want);
}

/* set host NAME VALUE: a setting of net.ipv4.tcp_*, for this script. */
static void set_host(struct script *s)
{
	struct tcp_settings *host = &tcp_settings;

	if (take_if(s, "retries2"))
		host->retries2 = (uint8_t)take_number(s);
	else if (take_if(s, "orphan-retries"))
		host->orphan_retries = (uint8_t)take_number(s);
	else if (take_if(s, "syn-retries"))
		host->syn_retries = (uint8_t)take_number(s);
	else if (take_if(s, "synack-retries"))
		host->syn_ack_retries = (uint8_t)take_number(s);
	else if (take_if(s, "syn-linear"))
		host->syn_linear = (uint8_t)take_number(s);
	else if (take_if(s, "sack"))
		host->sack = take_switch(s);
	else if (take_if(s, "window-scaling"))
		host->window_scaling = take_switch(s);
	else if (take_if(s, "restart-after-idle"))
		host->restart_after_idle = take_switch(s);
	else if (take_if(s, "min-rto"))
		host->min_rto = take_time(s);
	else
		fail(s, "no setting is called '%s'", take(s));
}

/* What a route says: names as in ip-route(8). */
static struct route_metrics take_metrics(struct script *s)
{
	struct route_metrics metrics = {.quickack = false};

	while (peek(s) && !s->failed) {
		if (take_if(s, "initcwnd"))
			metrics.initcwnd = (uint16_t)take_number(s);
		else if (take_if(s, "rto-min"))
			metrics.rto_min = (uint32_t)(take_time(s) / NSEC_PER_MSEC);
		else if (take_if(s, "quickack"))
			metrics.quickack = true;
		else if (take_if(s, "window"))
			metrics.window = (uint32_t)take_number(s);
		else if (take_if(s, "initrwnd"))
			metrics.initrwnd = (uint16_t)take_number(s);
		else if (take_if(s, "congctl-lock"))
			metrics.cc_locked = true;
		else
			fail(s, "'%s' is no metric", peek(s));
	}
	return metrics;
}

static void do_set(struct script *s)
{
	struct tcp_config *config = &s->w.config;

	if (take_if(s, "mss"))
		config->mss = (uint16_t)take_number(s);
	else if (take_if(s, "advmss"))
		config->advmss = (uint16_t)take_number(s);
	else if (take_if(s, "route-mss"))
		config->route_mss = (uint16_t)take_number(s);
	else if (take_if(s, "route"))
		config->route = take_metrics(s);
	else if (take_if(s, "rcvbuf"))
		config->rcvbuf = (uint32_t)take_number(s);
	else if (take_if(s, "rcvbuf-max"))
		config->rcvbuf_max = (uint32_t)take_number(s);
	else if (take_if(s, "sndbuf-max"))
		config->sndbuf_max = (uint32_t)take_number(s);
	else if (take_if(s, "sndbuf"))
		config->sndbuf = (uint32_t)take_number(s);
	else if (take_if(s, "window-clamp"))
		config->window_clamp = (uint32_t)take_number(s);
	else if (take_if(s, "timestamps"))
		config->timestamps = take_switch(s);
	else if (take_if(s, "nodelay"))
		config->nodelay = take_switch(s);
	else if (take_if(s, "quickack"))
		config->quickack = take_switch(s);
	else if (take_if(s, "ecn"))
		set_ecn(s);
	else if (take_if(s, "cc"))
		set_cc(s);
	else if (take_if(s, "host"))
		set_host(s);
	else if (take_if(s, "accept-fails"))
		s->w.accept_fails = (unsigned)take_number(s);
	else
		fail(s, "nothing is called '%s'", take(s));
}

struct opening {
	struct tcp_options opt;
	uint16_t wnd;
	nsec_t rtt;
};

static struct opening take_opening(struct script *s)
{
	struct opening o = {.wnd = 60000, .rtt = 10 * NSEC_PER_MSEC};

	o.opt.wscale = -1;
	o.opt.mss = 1000;
	while (peek(s) && !s->failed) {
		if (take_if(s, "mss"))
			o.opt.mss = (uint16_t)take_number(s);
		else if (take_if(s, "win"))
			o.wnd = (uint16_t)take_number(s);
		else if (take_if(s, "sack"))
			o.opt.sack_permitted = true;
		else if (take_if(s, "ts"))
			o.opt.has_ts = true;
		else if (take_if(s, "wscale"))
			o.opt.wscale = (int8_t)take_number(s);
		else if (take_if(s, "rtt"))
			o.rtt = take_time(s);
		else
			fail(s, "'%s' is no part of a handshake", peek(s));
	}
	o.opt.tsval = WORLD_PEER_TS;
	return o;
}

static uint32_t last_tsval(const struct world *w)
{
	return w->out[(w->out_tail - 1) % WORLD_SENT].opt.tsval;
}

/* Without SYN the window is scaled: the script gives the value of the field. */
static void open_passive(struct script *s, struct opening *o)
{
	struct world *w = &s->w;
	struct world_segment seg = {
		.flags = TCP_SYN, .seq = WORLD_PEER_ISS, .wnd = o->wnd, .opt = o->opt};

	world_listen(w);
	world_input(w, &seg);
	world_pass(w, w->now + o->rtt);
	seg.flags = TCP_ACK;
	seg.seq++;
	seg.ack = w->iss + 1;
	seg.opt.has_ts = o->opt.has_ts && w->config.timestamps;
	seg.opt.tsecr = last_tsval(w);
	world_input(w, &seg);
	world_flush(w);
}

static void open_active(struct script *s, struct opening *o)
{
	struct world *w = &s->w;
	struct world_segment seg = {
		.flags = TCP_SYN | TCP_ACK, .seq = WORLD_PEER_ISS, .wnd = o->wnd, .opt = o->opt};

	world_connect(w);
	world_pass(w, w->now + o->rtt);
	seg.ack = w->iss + 1;
	seg.opt.has_ts = o->opt.has_ts && w->config.timestamps;
	seg.opt.tsecr = last_tsval(w);
	world_input(w, &seg);
	world_flush(w);
}

static void do_open(struct script *s)
{
	bool passive = take_if(s, "passive");
	struct opening o;

	if (!passive && !take_if(s, "active"))
		fail(s, "open passive or open active");
	o = take_opening(s);
	if (passive)
		open_passive(s, &o);
	else
		open_active(s, &o);
	if (!s->w.exists || s->w.conn.state != TCP_ESTABLISHED)
		fail(s, "the handshake failed");
	s->w.out_head = s->w.out_tail;
	s->w.start = s->w.now;
	s->at = s->w.now;
}

/* ---- what is looked at ---- */

static const char *const state_names[] = {
	"CLOSED",     "LISTEN",	    "SYN_SENT", "SYN_RECEIVED", "ESTABLISHED", "FIN_WAIT_1",
	"FIN_WAIT_2", "CLOSE_WAIT", "CLOSING",	"LAST_ACK",	"TIME_WAIT",
};

static void do_state(struct script *s)
{
	const char *want = take(s), *have = "none";

	if (s->w.exists)
		have = state_names[s->w.conn.state];
	else if (s->w.small)
		have = state_names[tcp_timewait_half(&s->w.tw) ? TCP_FIN_WAIT_2 : TCP_TIME_WAIT];
	if (strcmp(want, have) != 0)
		fail(s, "state is %s, not %s", have, want);
}

static void do_closed(struct script *s)
{
	int error = take_error(s);

	if (!s->w.closed)
		fail(s, "CLOSED was not reported");
	else if (s->w.error != error)
		fail(s, "closed with %s, not %s", strerror(s->w.error), strerror(error));
}

static void do_drop(struct script *s)
{
	static const char *const names[] = {
#define X(name, text) #name,
		DROP_LIST(X)
#undef X
	};
	const char *want = take(s);

	if (strcmp(want, names[s->w.drop]) != 0)
		fail(s, "dropped because of %s, not %s", names[s->w.drop], want);
}

static bool value_of(const struct world *w, const char *name, long long *value)
{
	const struct tcp_conn *c = &w->conn;
	const struct {
		const char *name;
		long long value;
	} table[] = {
		{"cwnd", c->cc.cwnd},
		{"ssthresh", c->cc.ssthresh},
		{"pipe", tcp_pipe(c)},
		{"srtt-us", c->rtt.srtt / NSEC_PER_USEC},
		{"rto-ms", c->rtt.rto / NSEC_PER_MSEC},
		{"recovery", c->recovery},
		{"undone", c->undone},
		{"sacked", c->flight ? c->flight->sacked : 0},
		{"lost", c->flight ? c->flight->lost : 0},
		{"retransmits", c->retransmits},
		{"rcvbuf", c->rcvbuf},
		{"sndbuf", c->sndbuf},
		{"rcv-rtt-us", c->rcv_rtt},
		{"mss", c->mss},
		{"maxseg", tcp_maxseg(c)},
		{"window-max", tcp_window_max(c)},
		{"cc-locked", tcp_congestion_is_locked(c)},
		{"can-write", tcp_is_writable(c)},
		{"snd-wnd", c->snd_wnd},
		{"rcv-wscale", c->rcv_wscale},
		{"snd-wscale", c->snd_wscale},
		{"readable", tcp_readable_bytes(c)},
		{"writable", tcp_writable_bytes(c)},
		{"unacked", tcp_unacked_bytes(c)},
		{"pending", w->listening ? w->listener.pending : 0},
		{"established", w->established},
		{"told-readable", w->readable},
		{"told-writable", w->writable},
		{"told-urgent", w->urgent},
		{"at-mark", tcp_at_mark(c)},
		{"urgent", tcp_urgent_here(c)},
		{"out-of-order", c->rcv.ooo != NULL},
		{"timers", (w->exists && tcp_deadline(c) != NSEC_NEVER) || w->small},
		{"small", w->small},
	};

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (!strcmp(name, table[i].name)) {
			*value = table[i].value;
			return true;
		}
	}
	return false;
}

static void do_check(struct script *s)
{
	const char *name = take(s), *op = take(s);
	long long want = take_number(s), have = 0;
	bool ok;

	if (!value_of(&s->w, name, &have)) {
		fail(s, "nothing is called '%s'", name);
		return;
	}
	ok = !strcmp(op, "=")	 ? have == want
	     : !strcmp(op, "<=") ? have <= want
	     : !strcmp(op, ">=") ? have >= want
				 : false;
	if (!ok)
		fail(s, "%s is %lld, not %s %lld", name, have, op, want);
}

/* ---- the program ---- */

static void do_send(struct script *s)
{
	uint32_t n = (uint32_t)take_number(s);
	unsigned flags = 0;

	if (take_if(s, "more"))
		flags |= TCP_SEND_MORE;
	if (take_if(s, "eor"))
		flags |= TCP_SEND_EOR;
	if (take_if(s, "oob"))
		flags |= TCP_SEND_OOB;

	compare_result(s, world_send(&s->w, n, flags), n);
}

static void do_recv(struct script *s)
{
	uint32_t n = (uint32_t)take_number(s);

	compare_result(s, world_recv(&s->w, n), n);
}

/* recv-oob AT: the urgent byte, which is at AT of the peer's stream. */
static void do_recv_oob(struct script *s)
{
	uint64_t at = peek(s) && isdigit((unsigned char)*peek(s)) ? (uint64_t)take_number(s) : 0;
	uint8_t byte = 0;
	int rc = tcp_recv_urgent(&s->w.conn, &byte, false);

	compare_result(s, rc, 1);
	if (rc == 1 && byte != world_peer_byte(at - 1))
		fail(s, "another byte is urgent");
	if (rc == 1)
		s->w.hole = at;
}

/* icmp SEQ MTU: fragmentation needed, for a segment of ours. */
static void do_icmp(struct script *s)
{
	uint32_t seq = (uint32_t)take_number(s) + s->w.iss, mtu = (uint32_t)take_number(s);

	if (world_icmp(&s->w, seq, mtu) == take_if(s, "ignored"))
		fail(s, "the router's message is not understood, or not ignored");
}

static void do_mtu(struct script *s)
{
	tcp_path_mtu(&s->w.conn, (uint32_t)take_number(s), s->w.now);
}

static void do_route(struct script *s)
{
	struct route_metrics metrics = take_metrics(s);

	if (tcp_set_route(&s->w.conn, &metrics))
		fail(s, "the route is refused");
}

static void do_pace(struct script *s)
{
	uint64_t rate = (uint64_t)take_number(s);
	uint32_t burst = take_if(s, "burst") ? (uint32_t)take_number(s) : 0;

	tcp_set_pacing(&s->w.conn, rate, burst, s->w.now);
}

static void do_oobinline(struct script *s)
{
	tcp_set_oobinline(&s->w.conn, take_switch(s));
}

static void do_keepalive(struct script *s)
{
	struct tcp_keepalive k = {.on = true};

	k.idle = (uint16_t)(take_time(s) / NSEC_PER_SEC);
	k.interval = (uint16_t)(take_time(s) / NSEC_PER_SEC);
	k.probes = (uint8_t)take_number(s);
	tcp_set_keepalive(&s->w.conn, &k, s->w.now);
}

static void do_connect(struct script *s)
{
	compare_result(s, world_connect(&s->w), 0);
}

static void do_shutdown(struct script *s)
{
	compare_result(s, tcp_shutdown(&s->w.conn, s->w.now), 0);
}

static void do_close(struct script *s)
{
	tcp_close(&s->w.conn, s->w.now);
}

static void do_abort(struct script *s)
{
	tcp_abort(&s->w.conn, 0, s->w.now);
}

static void do_shutdown_read(struct script *s)
{
	tcp_shutdown_read(&s->w.conn);
}

static void do_unreachable(struct script *s)
{
	tcp_unreachable(&s->w.conn, take_error(s), s->w.now);
}

static void do_nodelay(struct script *s)
{
	tcp_set_nodelay(&s->w.conn, take_switch(s), s->w.now);
}

static void do_cork(struct script *s)
{
	tcp_set_cork(&s->w.conn, take_switch(s), s->w.now);
}

static void do_quickack(struct script *s)
{
	tcp_set_quickack(&s->w.conn, take_switch(s), s->w.now);
}

static void do_user_timeout(struct script *s)
{
	tcp_set_user_timeout(&s->w.conn, take_time(s));
}

static void do_linger2(struct script *s)
{
	tcp_set_linger2(&s->w.conn, (int)take_number(s));
}

static void do_rcvbuf(struct script *s)
{
	tcp_set_rcvbuf(&s->w.conn, (uint32_t)take_number(s));
}

static void do_sndbuf(struct script *s)
{
	tcp_set_sndbuf(&s->w.conn, (uint32_t)take_number(s));
}

static void do_notsent_lowat(struct script *s)
{
	tcp_set_notsent_lowat(&s->w.conn, (uint32_t)take_number(s));
}

static void do_window_clamp(struct script *s)
{
	tcp_set_window_clamp(&s->w.conn, (uint32_t)take_number(s));
}

static void do_sink(struct script *s)
{
	s->w.sink_full = !take_switch(s);
}

static void do_listen(struct script *s)
{
	world_listen(&s->w);
}

static void do_flush(struct script *s)
{
	world_flush(&s->w);
}

static bool take_family(struct script *s)
{
	const char *name = take(s);

	if (strcmp(name, "ip4") != 0 && strcmp(name, "ip6") != 0)
		fail(s, "'%s' is neither ip4 nor ip6", name);
	return !strcmp(name, "ip6");
}

static void do_only(struct script *s)
{
	s->other = take_family(s) != s->ip6;
}

static void do_rfc(struct script *s)
{
	s->has_rfc = true;
	take_number(s);
	take(s);
}

static void do_man(struct script *s)
{
	s->has_rfc = true;
	take(s);
	take(s);
}

static void do_wait(struct script *s)
{
}

/* ---- lines ---- */

/*
 * OUT may follow segments that were sent; QUIET does nothing; all others require that no
 * segment is left.
 */
enum { ACTS, QUIET, FLUSHES };

static const struct verb {
	const char *name;
	void (*run)(struct script *s);
	int kind;
} verbs[] = {
	{"abort", do_abort, ACTS},
	{"burst", do_in, ACTS},
	{"check", do_check, QUIET},
	{"close", do_close, ACTS},
	{"closed", do_closed, QUIET},
	{"connect", do_connect, ACTS},
	{"cork", do_cork, ACTS},
	{"drop", do_drop, QUIET},
	{"flush", do_flush, QUIET},
	{"icmp", do_icmp, ACTS},
	{"in", do_in, FLUSHES},
	{"keepalive", do_keepalive, ACTS},
	{"linger2", do_linger2, ACTS},
	{"listen", do_listen, ACTS},
	{"man", do_man, QUIET},
	{"mtu", do_mtu, ACTS},
	{"nodelay", do_nodelay, ACTS},
	{"notsent-lowat", do_notsent_lowat, ACTS},
	{"oobinline", do_oobinline, ACTS},
	{"only", do_only, QUIET},
	{"open", do_open, ACTS},
	{"out", do_out, QUIET},
	{"pace", do_pace, ACTS},
	{"quickack", do_quickack, ACTS},
	{"rcvbuf", do_rcvbuf, ACTS},
	{"recv", do_recv, ACTS},
	{"recv-oob", do_recv_oob, ACTS},
	{"rfc", do_rfc, QUIET},
	{"route", do_route, ACTS},
	{"send", do_send, ACTS},
	{"set", do_set, ACTS},
	{"shutdown", do_shutdown, ACTS},
	{"shutdown-read", do_shutdown_read, ACTS},
	{"sink", do_sink, ACTS},
	{"sndbuf", do_sndbuf, ACTS},
	{"state", do_state, QUIET},
	{"unreachable", do_unreachable, ACTS},
	{"user-timeout", do_user_timeout, ACTS},
	{"wait", do_wait, ACTS},
	{"window-clamp", do_window_clamp, ACTS},
};

static void pass_time(struct script *s)
{
	const char *text = peek(s);

	if (!text || (*text != '+' && *text != '@'))
		return;
	s->word[s->next]++;
	if (*text == '+')
		s->at += take_time(s);
	else
		s->at = s->w.start + take_time(s);
	if (s->at < s->w.now)
		fail(s, "time does not go back");
	nothing_left(s);
	world_pass(&s->w, s->at);
}

/* True: the line begins with the other family. */
static bool is_for_other(struct script *s)
{
	if (!peek(s) || strncmp(peek(s), "ip", 2) != 0)
		return false;
	return take_family(s) != s->ip6;
}

static void run_line(struct script *s)
{
	const char *name;

	if (is_for_other(s))
		return;
	pass_time(s);
	name = take(s);
	for (unsigned i = 0; i < sizeof(verbs) / sizeof(verbs[0]) && !s->failed; i++) {
		if (strcmp(name, verbs[i].name) != 0)
			continue;
		if (verbs[i].kind != QUIET)
			nothing_left(s);
		if (!s->failed)
			verbs[i].run(s);
		if (verbs[i].kind == FLUSHES)
			world_flush(&s->w);
		world_settle(&s->w);
		if (!s->failed && peek(s))
			fail(s, "'%s' is one word too many", peek(s));
		return;
	}
	fail(s, "'%s' is no event", name);
}

static void end_script(struct script *s)
{
	const char *complaint;

	if (!s->named)
		return;
	if (!s->failed)
		nothing_left(s);
	if (!s->has_rfc && !s->other)
		fail(s, "names no RFC");
	complaint = world_fini(&s->w);
	if (*complaint)
		fail(s, "%s", complaint);
	if (s->other || (s->only && strcmp(s->only, s->name) != 0))
		return;
	if (s->failed)
		s->result.failed++;
	else
		s->result.passed++;
}

static void begin_script(struct script *s)
{
	end_script(s);
	s->named = true;
	s->failed = false;
	s->has_rfc = false;
	s->other = false;
	snprintf(s->name, sizeof(s->name), "%s", s->words > 1 ? s->word[1] : "");
	world_init(&s->w, s->ip6);
	s->at = s->w.now;
	if (s->words != 2)
		fail(s, "a script has a name of one word");
}

static void split(struct script *s)
{
	char *save, *word = strchr(s->text, '#');

	if (word)
		*word = 0;
	s->words = 0;
	s->next = 0;
	for (word = strtok_r(s->text, " \t\n", &save); word && s->words < WORDS;
	     word = strtok_r(NULL, " \t\n", &save))
		s->word[s->words++] = word;
}

struct script_result script_run_file(const char *path, bool ip6, const char *only)
{
	struct script *s = calloc(1, sizeof(*s));
	struct script_result result;
	FILE *f = fopen(path, "r");

	snprintf(s->path, sizeof(s->path), "%s", path);
	s->only = only;
	s->ip6 = ip6;
	if (!f) {
		printf("%s: cannot be opened\n", path);
		s->result.failed++;
	}
	while (f && fgets(s->text, sizeof(s->text), f)) {
		s->line++;
		split(s);
		if (s->words == 0)
			continue;
		if (!strcmp(s->word[0], "script"))
			begin_script(s);
		else if (s->named && !s->failed && !s->other && (!only || !strcmp(only, s->name)))
			run_line(s);
	}
	end_script(s);
	if (f)
		fclose(f);
	result = s->result;
	free(s);
	return result;
}
