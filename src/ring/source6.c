/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/source6.h"

#define BUCKETS 256 /* a power of two */
#define WAYS 4
#define WORDS 9

/* A sender: all words are atomic; used as in struct source_bucket. */
struct way {
	/* remote and local address, next hop, ifindex and state, generation and path, metrics */
	uint64_t word[WORDS];
	bool used;
};

struct bucket {
	struct way way[WAYS];
	uint32_t version; /* odd while source6_enter() changes the bucket */
} __attribute__((aligned(64)));

static struct bucket table[BUCKETS];

static struct bucket *bucket_of(const struct flow_key *key)
{
	/* Of the addresses only. */
	struct flow_key pair = {.local = key->local, .remote = key->remote};

	return &table[flow_key_hash(&pair) % BUCKETS];
}

/* acquire: pairs with the release in source6_enter(), and orders the second look at the version */
static uint64_t load_word(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static bool is_of(const struct way *w, int ifindex, const struct flow_key *key)
{
	return load_word(&w->word[0]) == key->remote.q[0] &&
	       load_word(&w->word[1]) == key->remote.q[1] &&
	       load_word(&w->word[2]) == key->local.q[0] &&
	       load_word(&w->word[3]) == key->local.q[1] &&
	       (int)(load_word(&w->word[6]) >> 32) == ifindex;
}

bool source6_look_up(int ifindex, const struct flow_key *key, struct source_entry *e)
{
	struct bucket *b = bucket_of(key);
	/* acquire: pairs with the last store in source6_enter() */
	uint32_t version = __atomic_load_n(&b->version, __ATOMIC_ACQUIRE);

	for (unsigned i = 0; i < WAYS; i++) {
		struct way *w = &b->way[i];
		uint64_t last, metrics;

		if (!is_of(w, ifindex, key))
			continue;
		e->path.nexthop.q[0] = load_word(&w->word[4]);
		e->path.nexthop.q[1] = load_word(&w->word[5]);
		e->state = (uint32_t)load_word(&w->word[6]);
		last = load_word(&w->word[7]);
		metrics = load_word(&w->word[8]);
		if (version & 1 || __atomic_load_n(&b->version, __ATOMIC_RELAXED) != version)
			return false;
		if (!__atomic_load_n(&w->used, __ATOMIC_RELAXED))
			__atomic_store_n(&w->used, true, __ATOMIC_RELAXED);
		e->generation = (uint32_t)(last >> 32);
		source_unpack_path(&e->path, (uint32_t)last, metrics);
		source_read_state(e);
		return true;
	}
	return false;
}

/* The sender's own place, an empty one, or that of a sender that has not come back. */
static struct way *place_in(struct bucket *b, int ifindex, const struct flow_key *key)
{
	static unsigned turn;

	for (unsigned i = 0; i < WAYS; i++) {
		if (is_of(&b->way[i], ifindex, key))
			return &b->way[i];
	}
	for (unsigned i = 0; i < WAYS; i++) {
		if (!b->way[i].word[6] || !__atomic_load_n(&b->way[i].used, __ATOMIC_RELAXED))
			return &b->way[i];
	}
	for (unsigned i = 0; i < WAYS; i++)
		__atomic_store_n(&b->way[i].used, false, __ATOMIC_RELAXED);
	return &b->way[turn++ % WAYS];
}

void source6_enter(int ifindex, const struct flow_key *key, const struct source_entry *e)
{
	struct bucket *b = bucket_of(key);
	struct way *w = place_in(b, ifindex, key);
	const uint64_t word[WORDS] = {
		key->remote.q[0],
		key->remote.q[1],
		key->local.q[0],
		key->local.q[1],
		e->path.nexthop.q[0],
		e->path.nexthop.q[1],
		(uint64_t)(uint32_t)ifindex << 32 | e->state,
		(uint64_t)e->generation << 32 | source_pack_path(&e->path),
		source_pack_metrics(&e->path.metrics),
	};
	uint32_t version = b->version;

	/* The releases below order it first. */
	__atomic_store_n(&b->version, version + 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < WORDS; i++)
		/* release: pairs with load_word() */
		__atomic_store_n(&w->word[i], word[i], __ATOMIC_RELEASE);
	__atomic_store_n(&w->used, false, __ATOMIC_RELAXED);
	/* release: pairs with source6_look_up() */
	__atomic_store_n(&b->version, version + 2, __ATOMIC_RELEASE);
}
