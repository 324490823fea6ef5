/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that share sockets, as a whole: thousands of families of up to six processes, each
 * from a seed that decides who forks, calls, closes, exits and is killed, how slow each channel
 * is, and which imports fail. All run the rules that the library runs (share_machine.h); sockets,
 * channels and time are simulated.
 *
 * Checked: at most one process has a connection, and programs read its bytes in order, each once;
 * the last close sends the FIN, once, and no earlier one does; a connection is reset only if a
 * process was killed; who waits for a socket gets it, or an error, in bounded time; each message
 * obeys the rule for its sender, none is illegal where it arrives, and what is sent back is an
 * answer to it; nothing is left.
 *
 * Half of the families have listeners, too, which several processes receive for. Checked: whoever
 * joins finds receivers that share; what arrived is accepted, each once, unless all have closed
 * the listener; it ends in each process when all have.
 *
 * No exec, no SCM_RIGHTS. A process with three neighbours exits only where processes are killed
 * as well: it cuts its neighbours off.
 *
 * SIM_SEEDS=n runs so many, SIM_SEED=n that one alone (with SIM_TRACE=1: readable).
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "sock/share/share_machine.h"
#include "tests/vma_test.h"

#ifdef NDEBUG
#define SEEDS 20000
#else
#define SEEDS 2000 /* with sanitizers each takes ten times as long */
#endif

#define PROCESSES 6
#define SOCKETS 8 /* of a process */
#define IDS 64
#define MSEC NSEC_PER_MSEC
#define BEGIN (1000 * NSEC_PER_SEC)
#define BUSY (300 * MSEC)	    /* programs act for so long */
#define PATIENCE (4 * NSEC_PER_SEC) /* who waits has it by then */
#define EXIT_MAX NSEC_PER_SEC
#define QUEUE_MAX 64 /* connections that wait at a listener */

/* What travels with a message: the state of a connection. */
struct bytes {
	uint64_t read;
	bool reset;
};

struct envelope {
	struct list link;
	struct message message;
	struct bytes bytes;
	nsec_t at;
};

/* One end of a channel. */
struct end {
	struct channel ch; /* first */
	struct process *process;
	struct end *peer;		      /* NULL: it is gone */
	struct list inbox;		      /* of struct envelope: from the peer */
	nsec_t delay;			      /* of what arrives here */
	uint64_t pending[SHARED_PENDING_MAX]; /* ch.pending numbers of listeners, oldest first */
};

struct socket {
	struct shared s; /* first */
	struct process *process;
	bool used, asks, waits;
	nsec_t waits_since;
	struct bytes bytes, kept;
	uint64_t seen; /* bytes.read when it arrived */
	/* a member */
	bool receives, stopped, looks, joined;
	unsigned queue, shaking; /* complete connections, and handshakes that end at shaken_at */
	nsec_t shaken_at;
};

struct process {
	struct share_sink sink; /* first */
	struct world *world;
	unsigned nr;
	bool alive;
	nsec_t exit_until;
	struct list channels;
	struct socket sockets[SOCKETS];
	struct channel *up;
	uint64_t last_id;
};

/* The truth about a connection, or about a listener. */
struct truth {
	bool used, kernel;
	uint64_t read;
	unsigned fins;
	bool member, spread;
	unsigned arrived, accepted;
};

struct world {
	uint64_t random, seed;
	nsec_t now;
	struct process processes[PROCESSES];
	unsigned n;
	struct truth truth[IDS];
	uint64_t serials, last_id;
	bool kills, may_fail, quiet, members, closing;
	/* the message that is being acted on */
	const struct message *acting;
	struct end *acting_at;
	struct bytes *acting_bytes;
	const char *failure;
	char text[200];
};

static bool trace;

__attribute__((format(printf, 2, 3))) static void tell(struct world *w, const char *format, ...)
{
	va_list args;

	if (!trace)
		return;
	fprintf(stderr, "%9.3f ", (double)(w->now - BEGIN) / MSEC);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

/* The first one counts. */
__attribute__((format(printf, 2, 3))) static void wrong(struct world *w, const char *format, ...)
{
	va_list args;

	if (w->failure)
		return;
	va_start(args, format);
	vsnprintf(w->text, sizeof(w->text), format, args);
	va_end(args);
	w->failure = w->text;
	tell(w, "WRONG: %s", w->text);
}

static uint64_t draw(struct world *w, uint64_t n)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (w->random >> 11) % n;
}

static bool chance(struct world *w, unsigned of_1000)
{
	return draw(w, 1000) < of_1000;
}

static struct end *end_of(struct channel *ch)
{
	return container_of(ch, struct end, ch);
}

static struct socket *socket_of(struct shared *s)
{
	return container_of(s, struct socket, s);
}

static struct process *process_of(struct share_sink *sink)
{
	return container_of(sink, struct process, sink);
}

static struct truth *truth_of(struct world *w, uint64_t id)
{
	return &w->truth[id];
}

static struct socket *find(struct process *p, uint64_t id)
{
	for (unsigned i = 0; i < SOCKETS; i++) {
		if (p->sockets[i].used && p->sockets[i].s.id == id)
			return &p->sockets[i];
	}
	return NULL;
}

static struct share_sink *sink_of(struct process *p)
{
	p->sink.now = p->world->now;
	p->sink.exiting = p->exit_until != 0;
	return &p->sink;
}

/* ---- channels -------------------------------------------------------------------------- */

static struct end *end_create(struct process *p, uint64_t last_id)
{
	struct end *end = calloc(1, sizeof(*end));

	list_init(&end->ch.link);
	list_init(&end->ch.wants);
	list_init(&end->ch.unsent);
	list_init(&end->inbox);
	end->ch.fd = -1;
	end->ch.serial = ++p->world->serials;
	end->ch.last_id = last_id;
	end->process = p;
	end->delay = draw(p->world, 4) ? draw(p->world, MSEC) : draw(p->world, 6 * MSEC);
	list_push_back(&p->channels, &end->ch.link);
	return end;
}

static void end_destroy(struct end *end)
{
	struct list *link;

	while ((link = list_pop_front(&end->inbox)))
		free(container_of(link, struct envelope, link));
	while ((link = list_pop_front(&end->ch.wants)))
		free(container_of(link, struct want, link));
	list_remove(&end->ch.link);
	if (end->peer)
		end->peer->peer = NULL;
	idset_fini(&end->ch.closed);
	idset_fini(&end->ch.all_closed);
	idset_fini(&end->ch.held);
	free(end);
}

/* Never before what was sent earlier. */
static void post(struct end *to, struct envelope *envelope)
{
	struct world *w = to->process->world;
	nsec_t at = w->now + to->delay + draw(w, MSEC / 4);

	if (!list_empty(&to->inbox)) {
		nsec_t last = container_of(to->inbox.prev, struct envelope, link)->at;

		at = at < last ? last : at;
	}
	envelope->at = at;
	list_init(&envelope->link);
	list_push_back(&to->inbox, &envelope->link);
}

static void sim_send_bytes(struct process *p, struct channel *ch, enum message_kind kind,
			   uint64_t id, uint64_t flags, struct bytes bytes)
{
	struct end *end = end_of(ch);
	struct world *w = p->world;
	struct socket *so = find(p, id);
	struct envelope *envelope;
	const struct message_rule *rule = &message_rules[kind];

	tell(w, "p%u -> p%d %s %llu%s", p->nr, end->peer ? (int)end->peer->process->nr : -1,
	     rule->name, (unsigned long long)id, flags ? " with flags" : "");
	if (!rule->of_channel && !(rule->senders & shared_place(so ? &so->s : NULL, ch)))
		wrong(w, "p%u must not send %s about %llu", p->nr, rule->name,
		      (unsigned long long)id);
	if (w->acting && w->acting_at == end && w->acting->id == id &&
	    !(message_rules[w->acting->kind].answers & 1u << kind))
		wrong(w, "%s is no answer to %s", rule->name, message_rules[w->acting->kind].name);
	if (!end->peer)
		return;
	envelope = calloc(1, sizeof(*envelope));
	envelope->message = (struct message){.kind = kind, .id = id, .flags = flags};
	envelope->bytes = bytes;
	post(end->peer, envelope);
}

/* ---- what the machine does ------------------------------------------------------------- */

static void end_of_member(struct socket *so);
static void lose_connections(struct world *w, uint64_t id, unsigned n);

static void sim_send(struct share_sink *sink, struct channel *ch, enum message_kind kind,
		     uint64_t id, uint64_t flags)
{
	struct process *p = process_of(sink);
	struct socket *so = find(p, id);

	sim_send_bytes(p, ch, kind, id, flags,
		       kind == MESSAGE_EXPORT ? so->kept : (struct bytes){0});
}

static struct channel *sim_passed(struct share_sink *sink, uint64_t id)
{
	return NULL;
}

static void sim_ask_later(struct share_sink *sink, struct shared *s)
{
	socket_of(s)->asks = true;
}

static void sim_arrived(struct share_sink *sink, struct shared *s)
{
	struct socket *so = socket_of(s);

	so->asks = false;
	if (s->failed) { /* a call fails */
		so->waits = false;
		s->failed = 0;
	}
}

/* The descriptor is the kernel's from here on. */
static void sim_leave(struct share_sink *sink, struct shared *s)
{
	struct socket *so = socket_of(s);

	tell(so->process->world, "p%u: the kernel serves %llu", so->process->nr,
	     (unsigned long long)s->id);
	if (s->member)
		truth_of(so->process->world, s->id)->kernel = true;
	shared_left(sink, s, true);
	so->used = so->receives = false;
	if (s->member)
		lose_connections(so->process->world, s->id, so->queue + so->shaking);
}

static void sim_keep(struct share_sink *sink, struct shared *s)
{
	socket_of(s)->asks = socket_of(s)->waits = false;
}

/* Does any program still have it open, or is about to get it? */
static bool is_open_anywhere(struct world *w, uint64_t id)
{
	for (unsigned i = 0; i < w->n; i++) {
		struct socket *so = w->processes[i].alive ? find(&w->processes[i], id) : NULL;

		if (so && !so->s.closed && !(so->s.state == SHARED_HERE && so->bytes.reset))
			return true;
	}
	return false;
}

static void end_of_life(struct socket *so)
{
	struct world *w = so->process->world;
	struct truth *truth = truth_of(w, so->s.id);

	so->used = false;
	tell(w, "p%u: end of %llu", so->process->nr, (unsigned long long)so->s.id);
	if (so->s.state != SHARED_HERE || so->bytes.reset)
		return;
	truth->fins++;
	if (truth->fins > 1)
		wrong(w, "a second FIN of %llu", (unsigned long long)so->s.id);
	if (!w->kills && is_open_anywhere(w, so->s.id))
		wrong(w, "the FIN of %llu is early", (unsigned long long)so->s.id);
}

static void sim_drop(struct share_sink *sink, struct shared *s)
{
	(s->member ? end_of_member : end_of_life)(socket_of(s));
}

static bool sim_used(struct share_sink *sink, struct shared *s, bool note)
{
	struct socket *so = socket_of(s);
	bool used = so->bytes.read != so->seen;

	if (note)
		so->seen = so->bytes.read;
	return used;
}

static int sim_export(struct share_sink *sink, struct shared *s, struct channel *ch)
{
	struct socket *so = socket_of(s);

	if (so->process->world->may_fail && chance(so->process->world, 20))
		return -EBUSY;
	so->kept = so->bytes;
	return 0;
}

static void is_only_one(struct socket *so)
{
	struct world *w = so->process->world;

	for (unsigned i = 0; i < w->n; i++) {
		struct process *p = &w->processes[i];
		struct socket *other = p->alive ? find(p, so->s.id) : NULL;

		if (other && other != so && other->s.state == SHARED_HERE && !other->bytes.reset &&
		    !so->bytes.reset)
			wrong(w, "p%u and p%u have %llu", so->process->nr, p->nr,
			      (unsigned long long)so->s.id);
	}
}

static int sim_import(struct share_sink *sink, struct shared *s)
{
	struct socket *so = socket_of(s);
	struct world *w = so->process->world;

	if (w->may_fail && chance(w, 30))
		return -ENETUNREACH;
	so->bytes = *w->acting_bytes;
	is_only_one(so);
	return 0;
}

static int sim_transit_over(struct share_sink *sink, struct shared *s, bool back)
{
	struct socket *so = socket_of(s);
	struct world *w = so->process->world;

	if (!back)
		return 0;
	if (w->may_fail && w->kills && chance(w, 30))
		return -ENETUNREACH;
	so->bytes = so->kept;
	is_only_one(so);
	return 0;
}

static void sim_prepare(struct share_sink *sink, struct shared *s)
{
}

static void sim_reset(struct share_sink *sink, struct shared *s)
{
	struct socket *so = socket_of(s);
	struct world *w = so->process->world;

	tell(w, "p%u: %llu is reset", so->process->nr, (unsigned long long)s->id);
	so->bytes.reset = true;
	if (!w->kills && !truth_of(w, s->id)->kernel)
		wrong(w, "%llu is reset, and nobody died", (unsigned long long)s->id);
}

static int sim_hand_over(struct share_sink *sink, struct shared *s)
{
	struct socket *so = socket_of(s);
	struct world *w = so->process->world;

	if (so->bytes.reset)
		return -ENOTCONN;
	if (chance(w, 500)) {
		w->kills = true; /* if its process exits, it ends */
		return -EPERM;
	}
	truth_of(w, s->id)->kernel = true;
	if (s->closed)
		so->bytes.reset = true; /* no FIN of ours */
	else
		sim_leave(sink, s);
	return 0;
}

/* ---- what it does to members ----------------------------------------------------------- */

static bool receives(const struct socket *so)
{
	return so->used && so->receives && !so->stopped;
}

static unsigned n_receivers(struct world *w, uint64_t id, const struct socket *but)
{
	unsigned n = 0;

	for (unsigned i = 0; i < w->n; i++) {
		struct socket *so = w->processes[i].alive ? find(&w->processes[i], id) : NULL;

		n += so && so != but && so->receives;
	}
	return n;
}

/* Nobody accepts these any more. */
static void lose_connections(struct world *w, uint64_t id, unsigned n)
{
	struct truth *truth = truth_of(w, id);

	if (n)
		tell(w, "%u connections of %llu are reset", n, (unsigned long long)id);
	truth->accepted += n;
	if (n && !w->kills && !truth->kernel && is_open_anywhere(w, id))
		wrong(w, "a connection of %llu is lost", (unsigned long long)id);
}

static void end_of_member(struct socket *so)
{
	struct world *w = so->process->world;

	tell(w, "p%u: end of listener %llu", so->process->nr, (unsigned long long)so->s.id);
	so->used = so->receives = false;
	lose_connections(w, so->s.id, so->queue + so->shaking);
}

static void send_pending(struct process *p, uint64_t id, struct channel *ch, uint64_t hops)
{
	struct end *end = end_of(ch);

	if (ch->pending == SHARED_PENDING_MAX) {
		wrong(p->world, "too much is pending");
		return;
	}
	end->pending[ch->pending++] = id;
	sim_send_bytes(p, ch, MESSAGE_PENDING, id, hops, (struct bytes){0});
}

static bool is_pending_at(const struct end *end, uint64_t id)
{
	for (unsigned i = 0; i < end->ch.pending; i++) {
		if (end->pending[i] == id)
			return true;
	}
	return false;
}

static void pending_received(struct end *end, uint64_t id)
{
	unsigned i = 0;

	while (end->pending[i] != id)
		i++;
	end->ch.pending--;
	memmove(&end->pending[i], &end->pending[i + 1],
		(end->ch.pending - i) * sizeof(end->pending[0]));
}

static int sim_join(struct share_sink *sink, struct shared *s)
{
	struct socket *so = socket_of(s);
	struct world *w = so->process->world;
	struct truth *truth = truth_of(w, s->id);

	if (w->may_fail && chance(w, 20)) {
		truth->kernel = true; /* what waits is reset: the kernel does not know it */
		return SHARE_UNABLE;
	}
	tell(w, "p%u joins %llu", so->process->nr, (unsigned long long)s->id);
	if (!w->kills && !truth->spread && n_receivers(w, s->id, so))
		wrong(w, "p%u joins, but another one receives alone", so->process->nr);
	so->receives = so->joined = truth->spread = true;
	so->stopped = false;
	return 0;
}

static int sim_spread(struct share_sink *sink, struct shared *s)
{
	struct socket *so = socket_of(s);

	struct world *w = so->process->world;

	/* A listener that is closed then takes what waits with it. */
	if (w->may_fail && !w->closing && chance(w, 50))
		return -EAGAIN;
	so->joined = truth_of(w, s->id)->spread = true;
	return 0;
}

static void sim_stop(struct share_sink *sink, struct shared *s)
{
	socket_of(s)->stopped = true;
}

static bool sim_start(struct share_sink *sink, struct shared *s)
{
	struct world *w = socket_of(s)->process->world;

	if (w->may_fail && chance(w, 50))
		return false;
	socket_of(s)->stopped = false;
	return true;
}

static void sim_send_waiting(struct share_sink *sink, struct shared *s, struct channel *ch)
{
	struct socket *so = socket_of(s);

	for (; so->queue; so->queue--)
		send_pending(so->process, s->id, ch, 0);
}

static void sim_withdraw(struct share_sink *sink, struct shared *s, struct channel *ch, bool stays)
{
	struct socket *so = socket_of(s);

	tell(so->process->world, "p%u withdraws from %llu", so->process->nr,
	     (unsigned long long)s->id);
	so->receives = so->stopped = false;
	sim_send_waiting(sink, s, ch);
}

static void sim_part(struct share_sink *sink, struct shared *s)
{
	socket_of(s)->receives = false;
}

static bool sim_has_handshakes(struct share_sink *sink, struct shared *s)
{
	return socket_of(s)->shaking;
}

static bool sim_is_idle(struct share_sink *sink, struct shared *s)
{
	return !socket_of(s)->waits;
}

static bool sim_has_waiting(struct share_sink *sink, struct shared *s)
{
	return socket_of(s)->queue;
}

static void sim_look(struct share_sink *sink, struct shared *s, bool at_it)
{
	socket_of(s)->looks = at_it;
}

static int sim_take_pending(struct share_sink *sink, struct shared *s, struct channel *ch)
{
	socket_of(s)->queue++;
	return 0;
}

static void sim_forward(struct share_sink *sink, uint64_t id, struct channel *to, uint64_t hops)
{
	send_pending(process_of(sink), id, to, hops);
}

static const struct share_sink_ops sim_ops = {
	.send = sim_send,
	.passed = sim_passed,
	.ask_later = sim_ask_later,
	.arrived = sim_arrived,
	.leave = sim_leave,
	.keep = sim_keep,
	.drop = sim_drop,
	.used = sim_used,
	.export = sim_export,
	.import = sim_import,
	.transit_over = sim_transit_over,
	.prepare = sim_prepare,
	.reset = sim_reset,
	.hand_over = sim_hand_over,
	.join = sim_join,
	.spread = sim_spread,
	.stop = sim_stop,
	.start = sim_start,
	.withdraw = sim_withdraw,
	.send_waiting = sim_send_waiting,
	.part = sim_part,
	.has_handshakes = sim_has_handshakes,
	.is_idle = sim_is_idle,
	.has_waiting = sim_has_waiting,
	.look = sim_look,
	.take_pending = sim_take_pending,
	.forward = sim_forward,
};

/* ---- processes ------------------------------------------------------------------------- */

static struct process *process_create(struct world *w)
{
	struct process *p = &w->processes[w->n];

	*p = (struct process){.world = w, .nr = w->n++, .alive = true};
	list_init(&p->channels);
	p->sink.ops = &sim_ops;
	p->sink.channels = &p->channels;
	return p;
}

/* A new connection. */
static void open_socket(struct process *p)
{
	struct world *w = p->world;

	for (unsigned i = 0; i < SOCKETS; i++) {
		struct socket *so = &p->sockets[i];

		if (so->used || w->last_id + 1 >= IDS)
			continue;
		*so = (struct socket){.process = p, .used = true};
		/* Numbers of two processes differ here; in the library they may be equal. */
		so->s.id = p->last_id = ++w->last_id;
		so->s.state = SHARED_HERE;
		so->s.member = so->s.listens = so->receives = w->members && chance(w, 500);
		w->truth[so->s.id] = (struct truth){.used = true, .member = so->s.member};
		return;
	}
}

static void fork_process(struct process *parent)
{
	struct world *w = parent->world;
	struct process *child;
	struct end *down, *up;

	if (w->n == PROCESSES)
		return;
	child = process_create(w);
	child->last_id = parent->last_id;
	down = end_create(parent, parent->last_id);
	up = end_create(child, parent->last_id);
	down->peer = up;
	up->peer = down;
	child->up = &up->ch;
	for (unsigned i = 0; i < SOCKETS; i++) {
		struct socket *so = &parent->sockets[i], *copy = &child->sockets[i];

		if (!so->used)
			continue;
		if (so->s.closed) {
			idset_add(&down->ch.closed, so->s.id);
			continue;
		}
		*copy = (struct socket){.process = child, .used = true};
		copy->s.id = so->s.id;
		copy->s.state = SHARED_EXPORTED;
		copy->s.toward = &up->ch;
		up->ch.toward++;
		copy->s.member = so->s.member;
		copy->s.listens = so->s.listens;
		copy->s.joins = copy->joined = so->joined;
	}
	tell(w, "p%u forks p%u", parent->nr, child->nr);
}

/* As close(2) does. */
static void close_socket(struct socket *so)
{
	struct process *p = so->process;
	struct share_sink *sink = sink_of(p);
	bool kept;

	tell(p->world, "p%u closes %llu", p->nr, (unsigned long long)so->s.id);
	so->waits = false;
	so->asks = false;
	if (so->s.member) {
		so->looks = false;
		p->world->closing = true;
		kept = shared_close_member(sink, &so->s);
		p->world->closing = false;
		if (kept)
			return;
		shared_set_toward(&so->s, NULL);
		so->s.closed = true;
		end_of_member(so);
		return;
	}
	if (!shared_is_away(&so->s) && !shared_other_holder(sink, so->s.id, NULL)) {
		so->s.closed = true;
		end_of_life(so);
		return;
	}
	shared_close(sink, &so->s);
}

static void end_channel(struct end *end)
{
	struct process *p = end->process;

	tell(p->world, "p%u: a channel ends", p->nr);
	list_remove(&end->ch.link);
	for (unsigned i = 0; i < SOCKETS; i++) {
		struct socket *so = &p->sockets[i];

		if (so->used && !so->s.closed && shared_is_away(&so->s) && so->s.toward == &end->ch)
			shared_channel_ended(sink_of(p), &so->s, &end->ch);
	}
	for (unsigned i = 0; i < end->ch.pending; i++) {
		struct socket *so = find(p, end->pending[i]);

		if (!shared_pending(sink_of(p), so ? &so->s : NULL, end->pending[i], NULL, 0))
			lose_connections(p->world, end->pending[i], 1);
	}
	for (unsigned i = 0; i < SOCKETS; i++) {
		struct socket *so = &p->sockets[i];

		if (so->used && so->s.closed)
			shared_channel_ended(sink_of(p), &so->s, &end->ch);
	}
	if (p->up == &end->ch)
		p->up = NULL;
	for (unsigned i = 0; i < SOCKETS; i++) {
		if (p->sockets[i].used && p->sockets[i].s.toward == &end->ch)
			wrong(p->world, "p%u keeps a channel that has ended", p->nr);
	}
	end_destroy(end);
}

/* The process is gone, with all that it has. */
static void process_end(struct process *p)
{
	tell(p->world, "p%u is gone", p->nr);
	p->alive = false;
	while (!list_empty(&p->channels))
		end_destroy(end_of(container_of(p->channels.next, struct channel, link)));
	for (unsigned i = 0; i < SOCKETS; i++)
		p->sockets[i].used = false;
}

static unsigned n_channels(struct process *p)
{
	unsigned n = 0;

	list_for_each(link, &p->channels)
		n++;
	return n;
}

static bool have_common(struct process *p, const struct channel *one, const struct channel *other)
{
	for (unsigned i = 0; i < SOCKETS; i++) {
		uint64_t id = p->sockets[i].s.id;

		if (p->sockets[i].used && channel_holds(one, id) && channel_holds(other, id))
			return true;
	}
	return false;
}

static bool is_answer(const struct message *message)
{
	return message->kind == MESSAGE_ACK || message->kind == MESSAGE_NACK ||
	       message->kind == MESSAGE_RECEIVED || message->kind == MESSAGE_STAYS;
}

static void forward_requests(const struct channel *from, struct channel *to)
{
	struct end *peer = end_of(to)->peer;

	list_for_each(link, &from->wants) {
		struct envelope *envelope = calloc(1, sizeof(*envelope));

		envelope->message = (struct message){
			.kind = MESSAGE_REQUEST, .id = container_of(link, struct want, link)->id};
		post(peer, envelope);
	}
}

/* The first of two neighbours gets our channel to the other. */
static void reroute(struct process *p)
{
	struct end *mine[2], *one, *other;
	struct list *link;
	struct envelope *envelope;

	if (n_channels(p) != 2)
		return;
	mine[0] = end_of(container_of(p->channels.next, struct channel, link));
	mine[1] = end_of(container_of(p->channels.prev, struct channel, link));
	if (!have_common(p, &mine[0]->ch, &mine[1]->ch))
		return;
	one = mine[0]->peer;
	other = mine[1]->peer;
	if (!one || !other)
		return;
	forward_requests(&mine[0]->ch, &mine[1]->ch);
	forward_requests(&mine[1]->ch, &mine[0]->ch);
	tell(p->world, "p%u: p%u and p%u are neighbours now", p->nr, one->process->nr,
	     other->process->nr);
	sim_send_bytes(p, &mine[1]->ch, MESSAGE_REROUTE, 1, 0, (struct bytes){0});
	while ((link = list_pop_front(&mine[0]->inbox))) {
		envelope = container_of(link, struct envelope, link);
		if (is_answer(&envelope->message))
			free(envelope);
		else
			post(other, envelope);
	}
	sim_send_bytes(p, &mine[0]->ch, MESSAGE_REROUTE, 1, 0, (struct bytes){0});
	while ((link = list_pop_front(&mine[1]->inbox)))
		post(one, container_of(link, struct envelope, link));
	one->peer = other;
	other->peer = one;
	mine[0]->peer = mine[1]->peer = NULL;
}

static void begin_exit(struct process *p)
{
	tell(p->world, "p%u exits", p->nr);
	p->exit_until = p->world->now + EXIT_MAX;
	for (unsigned i = 0; i < SOCKETS; i++) {
		struct socket *so = &p->sockets[i];

		if (so->used && !so->s.closed)
			close_socket(so);
	}
}

static void go_on_exiting(struct process *p)
{
	unsigned left = 0;

	for (unsigned i = 0; i < SOCKETS; i++) {
		struct socket *so = &p->sockets[i];

		if (so->used)
			left += shared_exit(sink_of(p), &so->s, n_channels(p) != 2);
	}
	list_for_each(link, &p->channels)
		left += container_of(link, struct channel, link)->pending;
	if (left && p->world->now < p->exit_until)
		return;
	if (left && !p->world->kills && !p->world->may_fail)
		wrong(p->world, "p%u exits, and others did not take what they hold", p->nr);
	reroute(p);
	for (unsigned i = 0; i < SOCKETS; i++) {
		if (p->sockets[i].used)
			shared_drop(sink_of(p), &p->sockets[i].s);
	}
	process_end(p);
}

static void kill_process(struct process *p)
{
	p->world->kills = true;
	process_end(p);
}

/* ---- messages -------------------------------------------------------------------------- */

static void note_request(struct channel *ch, uint64_t id)
{
	struct want *want;

	list_for_each(link, &ch->wants) {
		if (container_of(link, struct want, link)->id == id)
			return;
	}
	want = calloc(1, sizeof(*want));
	want->id = id;
	list_push_back(&ch->wants, &want->link);
}

static void act(struct end *end, struct envelope *envelope)
{
	struct process *p = end->process;
	struct world *w = p->world;
	const struct message *message = &envelope->message;
	struct socket *so = find(p, message->id);
	struct share_sink *sink = sink_of(p);

	tell(w, "p%u: %s %llu", p->nr, message_rules[message->kind].name,
	     (unsigned long long)message->id);
	w->acting = message;
	w->acting_at = end;
	w->acting_bytes = &envelope->bytes;
	if (!shared_is_legal(so ? &so->s : NULL, &end->ch, message) ||
	    (message->kind == MESSAGE_RECEIVED && !is_pending_at(end, message->id))) {
		if (!shared_for_another(sink, &end->ch, message))
			wrong(w, "%s about %llu is illegal at p%u",
			      message_rules[message->kind].name, (unsigned long long)message->id,
			      p->nr);
		else if (message->kind == MESSAGE_PENDING)
			sim_send_bytes(p, &end->ch, MESSAGE_RECEIVED, message->id, 0,
				       (struct bytes){0});
		if (message->kind == MESSAGE_PENDING && message->flags >= MESSAGE_HOPS_MAX)
			lose_connections(w, message->id, 1);
		w->acting = NULL;
		return;
	}
	switch (message->kind) {
	case MESSAGE_PENDING:
		if (!shared_pending(sink, so ? &so->s : NULL, message->id, &end->ch,
				    message->flags))
			lose_connections(w, message->id, 1);
		sim_send_bytes(p, &end->ch, MESSAGE_RECEIVED, message->id, 0, (struct bytes){0});
		break;
	case MESSAGE_RECEIVED:
		pending_received(end, message->id);
		break;
	case MESSAGE_REQUEST:
		note_request(&end->ch, message->id);
		break;
	case MESSAGE_REROUTE:
		end->ch.rerouted = true;
		break;
	default:
		shared_receive(sink, so ? &so->s : NULL, &end->ch, message);
		break;
	}
	w->acting = NULL;
}

/* ---- time ------------------------------------------------------------------------------ */

static void read_channel(struct end *end)
{
	struct world *w = end->process->world;

	while (!list_empty(&end->inbox)) {
		struct envelope *envelope = container_of(end->inbox.next, struct envelope, link);

		if (envelope->at > w->now)
			return;
		list_remove(&envelope->link);
		act(end, envelope);
		free(envelope);
	}
	if (!end->peer)
		end_channel(end);
}

static void serve(struct process *p)
{
	list_for_each_safe(link, &p->channels) {
		struct channel *ch = container_of(link, struct channel, link);

		list_for_each_safe(at, &ch->wants) {
			struct want *want = container_of(at, struct want, link);
			struct socket *so = find(p, want->id);

			if (!shared_serve(sink_of(p), so ? &so->s : NULL, ch, want->id))
				continue;
			list_remove(at);
			free(want);
		}
	}
	for (unsigned i = 0; i < SOCKETS; i++) {
		struct socket *so = &p->sockets[i];

		if (so->used && so->asks && shared_may_request(sink_of(p), &so->s)) {
			so->asks = false;
			shared_request(sink_of(p), &so->s);
		}
	}
}

/* accept(2) */
static void accept_one(struct socket *so)
{
	so->waits_since = so->process->world->now;
	if (!so->queue)
		return;
	so->queue--;
	truth_of(so->process->world, so->s.id)->accepted++;
	so->waits = so->process->world->quiet;
}

static void use(struct socket *so)
{
	struct world *w = so->process->world;
	struct truth *truth = truth_of(w, so->s.id);

	so->waits = false;
	if (so->bytes.reset)
		return;
	if (so->bytes.read != truth->read)
		wrong(w, "byte %llu of %llu was read after byte %llu",
		      (unsigned long long)so->bytes.read, (unsigned long long)so->s.id,
		      (unsigned long long)truth->read);
	if (chance(w, 700))
		truth->read = ++so->bytes.read;
}

/* A call that blocks; it looks again whenever time goes on. */
static void go_on_waiting(struct socket *so)
{
	struct world *w = so->process->world;

	if (so->s.state == SHARED_HERE || so->s.state == SHARED_WITHDRAWING) {
		(so->s.member ? accept_one : use)(so);
	} else {
		shared_request(sink_of(so->process), &so->s);
		if (so->used && so->waits && w->now - so->waits_since > PATIENCE)
			wrong(w, "p%u waits for %llu in vain", so->process->nr,
			      (unsigned long long)so->s.id);
	}
}

static void act_as_program(struct process *p)
{
	struct world *w = p->world;
	struct socket *so = &p->sockets[draw(w, SOCKETS)];
	unsigned what = (unsigned)draw(w, 1000);
	bool is_cutting = w->seed % 3 == 0;

	if (what < 15) {
		fork_process(p);
	} else if (what < 30) {
		open_socket(p);
	} else if (what < 36 && w->n > 2 && n_channels(p) < (is_cutting ? PROCESSES : 3)) {
		w->kills |= n_channels(p) > 2; /* one side keeps a connection, the others lose it */
		begin_exit(p);
	} else if (what < 39 && is_cutting) {
		kill_process(p);
	} else if (so->used && !so->s.closed && what < 70) {
		close_socket(so);
	} else if (so->used && !so->s.closed && !so->waits && what < 400) {
		so->waits = true;
		so->waits_since = w->now;
	}
}

/* Handshakes end, and the internal thread looks at its members. */
static void look_at_members(struct process *p)
{
	for (unsigned i = 0; i < SOCKETS; i++) {
		struct socket *so = &p->sockets[i];

		if (so->used && so->shaking && p->world->now >= so->shaken_at) {
			so->queue += so->shaking;
			so->shaking = 0;
		}
		if (so->used && so->looks)
			(void)shared_look(sink_of(p), &so->s);
	}
}

/* A client connects to a listener that somebody has open. */
static void connect_client(struct world *w)
{
	uint64_t id = 1 + draw(w, w->last_id);
	struct truth *truth = truth_of(w, id);
	struct socket *chosen = NULL;
	unsigned n = 0;

	if (!truth->member || truth->kernel || !is_open_anywhere(w, id))
		return;
	for (unsigned i = 0; i < w->n; i++) {
		struct socket *so = w->processes[i].alive ? find(&w->processes[i], id) : NULL;

		if (so && receives(so) && draw(w, ++n) == 0)
			chosen = so;
	}
	/* The kernel would receive. After failures that may be, until one uses it. */
	if (!chosen && !w->kills && !w->may_fail)
		wrong(w, "nobody receives for %llu", (unsigned long long)id);
	if (!chosen || chosen->queue + chosen->shaking == QUEUE_MAX)
		return;
	truth->arrived++;
	tell(w, "a client of %llu at p%u", (unsigned long long)id, chosen->process->nr);
	if (chance(w, 500)) {
		chosen->queue++;
	} else {
		chosen->shaking++;
		chosen->shaken_at = w->now + draw(w, 5 * MSEC);
	}
}

static void run_process(struct process *p)
{
	list_for_each_safe(link, &p->channels)
		read_channel(end_of(container_of(link, struct channel, link)));
	serve(p);
	look_at_members(p);
	if (p->exit_until) {
		go_on_exiting(p);
		return;
	}
	for (unsigned i = 0; i < SOCKETS; i++) {
		if (p->sockets[i].used && p->sockets[i].waits)
			go_on_waiting(&p->sockets[i]);
	}
	if (!p->world->quiet)
		act_as_program(p);
}

static void run_until(struct world *w, nsec_t end, bool (*done)(struct world *w))
{
	while (w->now < end && !w->failure && !(done && done(w))) {
		w->now += MSEC / 10 + draw(w, w->quiet ? 2 * MSEC : MSEC);
		if (w->members && !w->quiet && chance(w, 100))
			connect_client(w);
		for (unsigned i = 0; i < w->n; i++) {
			if (w->processes[i].alive && chance(w, 800))
				run_process(&w->processes[i]);
		}
	}
}

static bool nobody_waits(struct world *w)
{
	for (unsigned i = 0; i < w->n; i++) {
		struct process *p = &w->processes[i];

		if (p->alive && p->exit_until)
			return false;
		for (unsigned k = 0; p->alive && k < SOCKETS; k++) {
			struct socket *so = &p->sockets[k];

			/* A thread that accepts waits for the next client. */
			if (so->used && (so->s.member ? so->queue + so->shaking > 0 : so->waits))
				return false;
		}
		list_for_each(link, &p->channels) {
			if (container_of(link, struct channel, link)->pending)
				return false;
		}
	}
	return true;
}

/* From now on each process accepts at each listener that it has open. */
static void accept_everywhere(struct world *w)
{
	for (unsigned i = 0; i < w->n; i++) {
		for (unsigned k = 0; k < SOCKETS; k++) {
			struct socket *so = &w->processes[i].sockets[k];

			if (!so->used || !so->s.member || so->s.closed || so->waits)
				continue;
			so->waits = true;
			so->waits_since = w->now;
		}
	}
}

static bool nothing_is_left(struct world *w)
{
	for (unsigned i = 0; i < w->n; i++) {
		struct process *p = &w->processes[i];

		if (p->alive && p->exit_until)
			return false;
		for (unsigned k = 0; p->alive && k < SOCKETS; k++) {
			if (p->sockets[k].used)
				return false;
		}
		list_for_each(link, &p->channels) {
			struct end *end = end_of(container_of(link, struct channel, link));

			if (!list_empty(&end->inbox) || !list_empty(&end->ch.wants) ||
			    end->ch.pending)
				return false;
		}
	}
	return true;
}

static void close_all(struct world *w)
{
	for (unsigned i = 0; i < w->n; i++) {
		for (unsigned k = 0; k < SOCKETS; k++) {
			struct socket *so = &w->processes[i].sockets[k];

			if (w->processes[i].alive && so->used && !so->s.closed)
				close_socket(so);
		}
	}
}

static void check_end(struct world *w)
{
	for (unsigned id = 1; id < IDS && w->truth[id].used; id++) {
		const struct truth *truth = &w->truth[id];

		if (w->kills || truth->kernel)
			continue;
		if (truth->member && truth->accepted != truth->arrived)
			wrong(w, "%u of %u connections of %u were accepted", truth->accepted,
			      truth->arrived, id);
		if (!truth->member && truth->fins != 1)
			wrong(w, "%u FINs of %u", truth->fins, id);
	}
}

/* NULL: all was right. */
static const char *run_seed(struct world *w, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->seed = seed;
	w->random = (seed + 1) * 0x9e3779b97f4a7c15ull;
	w->now = BEGIN;
	w->may_fail = seed % 4 == 1;
	w->members = seed / 4 % 2;
	(void)process_create(w);
	for (unsigned i = 0; i < 2 + seed % 3; i++)
		open_socket(&w->processes[0]);
	run_until(w, BEGIN + BUSY, NULL);
	w->quiet = true;
	accept_everywhere(w);
	run_until(w, w->now + 2 * PATIENCE, nobody_waits);
	if (!w->failure && !nobody_waits(w))
		wrong(w, "somebody waits for ever");
	close_all(w);
	run_until(w, w->now + PATIENCE, nothing_is_left);
	if (!w->failure && !nothing_is_left(w))
		wrong(w, "something is left");
	if (!w->failure)
		check_end(w);
	for (unsigned i = 0; i < w->n; i++) {
		if (w->processes[i].alive)
			process_end(&w->processes[i]);
	}
	return w->failure;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static void test_families_of_processes(void **state)
{
	uint64_t seeds = number("SIM_SEEDS", SEEDS), one = number("SIM_SEED", UINT64_MAX);
	struct world *w = calloc(1, sizeof(*w));
	unsigned failed = 0;

	trace = getenv("SIM_TRACE") != NULL;
	for (uint64_t seed = 0; seed < seeds && !failed; seed++) {
		if (one != UINT64_MAX && seed != one)
			continue;
		if (run_seed(w, seed)) {
			failed++;
#ifndef FAULT
			print_error("seed %llu: %s\n", (unsigned long long)seed, w->text);
#else
			print_message("found by seed %llu: %s\n", (unsigned long long)seed,
				      w->text);
#endif
		}
	}
	free(w);
#ifdef FAULT
	assert_int_equal(failed, 1);
#else
	assert_int_equal(failed, 0);
#endif
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_families_of_processes),
};

VMA_TEST_MAIN("processes that share sockets", tests, NULL, NULL)
