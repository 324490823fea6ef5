/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow tags: what the card says of a frame that matches a rule.  A tag finds the flow by one load
 * (flow_find_tagged()); rings check the key, so a frame with an old tag is harmless.
 */
#include "base/param.h"
#include "base/siphash.h"
#include "ring/mlx5/mlx5_internal.h"

#define GROUP_TAGS 1023u

/*
 * The card has one rule for a group, whichever queues make it, and refuses it with two tags: so the
 * tag is a function of the key.
 */
static uint32_t tag_of_group(const struct flow_key *key)
{
	static const uint8_t same[SIPHASH_KEY] = "of every process";

	return 1 + (uint32_t)(siphash(same, key, sizeof(*key)) % GROUP_TAGS);
}

/* The frames of a listener are those of connections, too: a tag would say nothing. */
static bool is_worth_it(const struct flow_key *key)
{
	return key->proto == IPPROTO_UDP || (key->proto == IPPROTO_TCP && key->remote_port);
}

uint32_t mlx5_tag_get(struct mlx5_port *port, const struct flow_key *key)
{
	if (!is_worth_it(key))
		return 0;
	if (addr_is_multicast(&key->local))
		return params.mc_force_flowtag ? tag_of_group(key) : 0;
	port->tags[0] |= 1; /* no tag */
	for (unsigned i = port->first_tag; i < MLX5_TAGS / 64; i++) {
		unsigned bit;

		if (!~port->tags[i])
			continue;
		bit = (unsigned)__builtin_ctzll(~port->tags[i]);
		port->tags[i] |= 1ull << bit;
		port->first_tag = i;
		return i * 64 + bit;
	}
	port->first_tag = MLX5_TAGS / 64;
	return 0;
}

void mlx5_tag_put(struct mlx5_port *port, const struct flow_key *key, uint32_t tag)
{
	if (!tag || addr_is_multicast(&key->local))
		return;
	port->tags[tag / 64] &= ~(1ull << tag % 64);
	if (tag / 64 < port->first_tag)
		port->first_tag = tag / 64;
}
