/* SPDX-License-Identifier: BSD-2-Clause */
/* Which rule decides. */
#include "base/conf/conf.h"

#include <string.h>

#include "base/mem.h"

static const char *const role_names[CONF_ROLES] = {
	[CONF_TCP_SERVER] = "tcp_server",   [CONF_TCP_CLIENT] = "tcp_client",
	[CONF_UDP_SENDER] = "udp_sender",   [CONF_UDP_RECEIVER] = "udp_receiver",
	[CONF_UDP_CONNECT] = "udp_connect",
};

const char *conf_role_name(enum conf_role role)
{
	return role == CONF_INTERFACE ? "interface" : role_names[role];
}

enum conf_role conf_role_of(const char *name, size_t len)
{
	int role = 0;

	while (role < CONF_ROLES &&
	       (strlen(role_names[role]) != len || memcmp(role_names[role], name, len) != 0))
		role++;
	return (enum conf_role)role;
}

/* ---- patterns ------------------------------------------------------------------------- */

/*
 * A set [...] at pattern: the text after it, or NULL if it has no end and stands for itself.
 * *in: is c in it?
 */
static const char *match_set(const char *pattern, unsigned char c, bool *in)
{
	const char *p = pattern + 1, *first;
	bool no = *p == '!' || *p == '^';

	p += no;
	*in = false;
	for (first = p; *p && (*p != ']' || p == first); p++) {
		unsigned char from = (unsigned char)*p, to = from;

		if (p[1] == '-' && p[2] && p[2] != ']') {
			to = (unsigned char)p[2];
			p += 2;
		}
		*in |= from <= c && c <= to;
	}
	*in ^= no;
	return *p ? p + 1 : NULL;
}

/* One element of pattern, no *, against c: the rest of the pattern; NULL: it does not match. */
static const char *match_one(const char *pattern, char c)
{
	const char *rest;
	bool in;

	if (*pattern == '?')
		return pattern + 1;
	if (*pattern == '[') {
		rest = match_set(pattern, (unsigned char)c, &in);
		if (rest)
			return in ? rest : NULL;
	}
	return *pattern && *pattern == c ? pattern + 1 : NULL;
}

bool conf_matches(const char *pattern, const char *text)
{
	const char *star = NULL, *retry = NULL, *rest;

	while (*text) {
		if (*pattern == '*') {
			star = ++pattern;
			retry = text;
			continue;
		}
		rest = match_one(pattern, *text);
		if (rest) {
			pattern = rest;
			text++;
		} else if (star) { /* the last * takes one byte more */
			pattern = star;
			text = ++retry;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

/* ---- blocks and rules ------------------------------------------------------------------ */

int conf_block_of(const struct conf *conf, const char *program, const char *id)
{
	for (unsigned i = 0; i < conf->n_blocks; i++) {
		const struct conf_block *block = &conf->blocks[i];

		if (conf_matches(block->program, program) &&
		    (!strcmp(id, "*") || !strcmp(block->id, "*") || !strcmp(block->id, id)))
			return (int)i;
	}
	return -1;
}

bool conf_has_id(const struct conf *conf, const char *id)
{
	for (unsigned i = 0; i < conf->n_blocks; i++)
		if (!strcmp(conf->blocks[i].id, id))
			return true;
	return false;
}

static const uint8_t v4_prefix[12] = {[10] = 0xff, 0xff};

void conf_addr_v4(uint8_t addr[16], uint32_t v4)
{
	memcpy(addr, v4_prefix, sizeof(v4_prefix));
	for (int i = 0; i < 4; i++)
		addr[12 + i] = (uint8_t)(v4 >> (24 - 8 * i));
}

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned bytes = bits / 8, rest = bits % 8;

	return !memcmp(a, b, bytes) && (!rest || !((a[bytes] ^ b[bytes]) >> (8 - rest)));
}

static bool addr_matches(const struct conf_side *side, const uint8_t addr[16])
{
	if (side->ip6 && !memcmp(addr, v4_prefix, sizeof(v4_prefix)))
		return false;
	return same_bits(side->addr, addr, side->bits);
}

static bool side_matches(const struct conf_side *side, struct conf_addr addr)
{
	uint8_t any[2][16] = {{0}};
	bool there = addr_matches(side, addr.addr);

	conf_addr_v4(any[1], 0);
	if (!memcmp(addr.addr, any[0], 16) || !memcmp(addr.addr, any[1], 16))
		there = addr_matches(side, any[0]) || addr_matches(side, any[1]);
	return there && side->first <= addr.port && addr.port <= side->last;
}

const struct conf_rule *conf_find(const struct conf *conf, int block, enum conf_role role,
				  struct conf_addr first, const struct conf_addr *second)
{
	for (unsigned i = 0; i < conf->n_rules; i++) {
		const struct conf_rule *rule = &conf->rules[i];

		if ((int)rule->block == block && rule->role == role &&
		    side_matches(&rule->side[0], first) &&
		    (!rule->two || !second || side_matches(&rule->side[1], *second)))
			return rule;
	}
	return NULL;
}

const struct conf_rule *conf_find_interface(const struct conf *conf, int block, const char *name)
{
	for (unsigned i = 0; i < conf->n_rules; i++) {
		const struct conf_rule *rule = &conf->rules[i];

		if ((int)rule->block == block && rule->role == CONF_INTERFACE &&
		    conf_matches(rule->pattern, name))
			return rule;
	}
	return NULL;
}

void conf_fini(struct conf *conf)
{
	for (unsigned i = 0; i < conf->n_rules; i++)
		if (conf->rules[i].role == CONF_INTERFACE)
			mem_free(conf->rules[i].pattern);
	for (unsigned i = 0; i < conf->n_blocks; i++) {
		mem_free(conf->blocks[i].program);
		mem_free(conf->blocks[i].id);
	}
	mem_free(conf->rules);
	mem_free(conf->blocks);
	memset(conf, 0, sizeof(*conf));
}
