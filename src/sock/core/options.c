/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/options.h"

#include <ck_spinlock.h>
#include <stddef.h>

#include "base/list.h"
#include "base/mem.h"
#include "sock/core/control.h"

#define BUCKETS 64u /* a power of two */
#define LOOK_AT 8   /* objects of a bucket that are compared: the newest ones */

struct shared {
	struct list link; /* in its bucket */
	unsigned refs;
	struct sock_options opt;
};

/* Protects the buckets, and the links and counts of their objects. */
static ck_spinlock_fas_t lock = CK_SPINLOCK_FAS_INITIALIZER;
static struct list buckets[BUCKETS]; /* all zero: not initialised yet, see find_shared() */

static struct shared *shared_of(const struct sock_options *opt)
{
	return container_of((uintptr_t)opt, struct shared, opt);
}

/* FNV-1a over words. */
static struct list *bucket_of(const struct sock_options *opt)
{
	const char *bytes = (const char *)opt;
	uint64_t hash = 0xcbf29ce484222325u, word;

	for (size_t at = 0; at < sizeof(*opt); at += sizeof(word)) {
		memcpy(&word, bytes + at, sizeof(word));
		hash = (hash ^ word) * 0x100000001b3u;
	}
	return &buckets[(hash >> 40) % BUCKETS];
}

_Static_assert(sizeof(struct sock_options) % sizeof(uint64_t) == 0, "hashed by words");

/* ---- of another process ------------------------------------------------------------------------ */

#define FLAG(name) offsetof(struct sock_options, name)

static const uint16_t flags[] = {
	FLAG(alloc_rx.direct), FLAG(alloc_tx.direct), FLAG(keepalive.on), FLAG(mc_loop),
	FLAG(mc_all),	       FLAG(mc_all6),	      FLAG(no_check),	  FLAG(reuseaddr),
	FLAG(reuseport),       FLAG(nodelay),	      FLAG(cork),	  FLAG(quickack),
	FLAG(oobinline),       FLAG(linger_on),	      FLAG(rcvbuf_set),	  FLAG(sndbuf_set),
	FLAG(dontroute),       FLAG(tx_stamps),	      FLAG(no_label6),	  FLAG(ttl_set),
	FLAG(hops6_set),       FLAG(zerocopy),
};

/* As bytes: a bool with another value must not be read as one. */
static bool are_flags(const struct sock_options *opt)
{
	const uint8_t *bytes = (const uint8_t *)opt;

	for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (bytes[flags[i]] > 1)
			return false;
	}
	return true;
}

static bool is_logic(const struct ring_alloc *alloc)
{
	return ring_logic_valid(alloc->logic) && alloc->profile <= RING_PROFILES_MAX;
}

static bool is_port_range(uint32_t range)
{
	uint32_t first = range & 0xffff, last = range >> 16;

	return !last || first <= last;
}

bool options_are_sane(const struct sock_options *opt)
{
	return are_flags(opt) && is_logic(&opt->alloc_rx) && is_logic(&opt->alloc_tx) &&
	       is_port_range(opt->port_range) && opt->rcvbuf <= INT32_MAX &&
	       opt->sndbuf <= INT32_MAX && opt->rcvlowat && opt->rcvlowat <= INT32_MAX &&
	       opt->keepalive.idle && opt->keepalive.interval;
}

/* ---- objects -------------------------------------------------------------------------------------- */

/* Under the lock. */
static struct shared *find_shared(struct list *bucket, const struct sock_options *opt)
{
	int left = LOOK_AT;

	if (!bucket->next)
		list_init(bucket);
	list_for_each(link, bucket) {
		struct shared *shared = container_of(link, struct shared, link);

		if (!memcmp(&shared->opt, opt, sizeof(*opt)))
			return shared;
		if (--left == 0)
			break;
	}
	return NULL;
}

const struct sock_options *options_share(const struct sock_options *opt)
{
	struct list *bucket = bucket_of(opt);
	struct shared *shared;

	control_assert_held();
	ck_spinlock_fas_lock(&lock);
	shared = find_shared(bucket, opt);
	if (shared)
		shared->refs++;
	ck_spinlock_fas_unlock(&lock);
	if (shared)
		return &shared->opt;
	shared = mem_alloc(sizeof(*shared));
	if (!shared)
		return NULL;
	shared->refs = 1;
	memcpy(&shared->opt, opt, sizeof(*opt));
	accept_options_get(opt->accept_options);
	/* No other thread added an equal one meanwhile, because this one has the control lock. */
	ck_spinlock_fas_lock(&lock);
	list_push_front(bucket, &shared->link);
	ck_spinlock_fas_unlock(&lock);
	return &shared->opt;
}

const struct sock_options *options_get(const struct sock_options *opt)
{
	ck_spinlock_fas_lock(&lock);
	shared_of(opt)->refs++;
	ck_spinlock_fas_unlock(&lock);
	return opt;
}

void options_put(const struct sock_options *opt)
{
	struct shared *shared;
	bool last;

	if (!opt)
		return;
	shared = shared_of(opt);
	ck_spinlock_fas_lock(&lock);
	last = --shared->refs == 0;
	if (last)
		list_remove(&shared->link);
	ck_spinlock_fas_unlock(&lock);
	if (!last)
		return;
	accept_options_put(shared->opt.accept_options);
	mem_free(shared);
}

void options_fork_child(void)
{
	ck_spinlock_fas_init(&lock);
	memset(buckets, 0, sizeof(buckets));
}
