/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libvma.conf: whatever a file has, rules are within bounds, notes point into the file, and
 * questions have an answer.
 *
 * Input	the file.
 */
#include <stdlib.h>
#include <string.h>

#include "base/conf/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(x)               \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

struct input {
	const char *text;
	size_t size;
	unsigned last_line;
};

/* The length of a line that is there, counted from 1. */
static size_t length_of(const struct input *in, unsigned line)
{
	const char *at = in->text, *end = at + in->size, *newline;

	for (; line > 1; line--) {
		at = memchr(at, '\n', (size_t)(end - at));
		REQUIRE(at);
		at++;
	}
	newline = memchr(at, '\n', (size_t)(end - at));
	return (size_t)((newline ? newline : end) - at);
}

static void check_note(void *arg, const struct conf_note *note)
{
	struct input *in = arg;

	REQUIRE(note->line >= 1 && note->line >= in->last_line);
	in->last_line = note->line;
	REQUIRE(note->column >= 1 && note->column <= length_of(in, note->line) + 1);
	for (const char *c = note->text; *c; c++)
		REQUIRE(*c >= ' ' && *c < 0x7f); /* it goes to a terminal */
}

static void check_side(const struct conf_side *side)
{
	REQUIRE(side->first <= side->last);
	REQUIRE(side->bits <= 128);
}

/* An address that the side matches. */
static struct conf_addr addr_in(const struct conf_side *side, uint16_t port)
{
	struct conf_addr addr = {.port = port};

	memcpy(addr.addr, side->addr, sizeof(addr.addr));
	return addr;
}

static void check_rule(const struct conf *conf, unsigned i, unsigned lines)
{
	const struct conf_rule *rule = &conf->rules[i];
	struct conf_addr first, second;
	const struct conf_rule *found;

	REQUIRE(rule->block < conf->n_blocks);
	REQUIRE(rule->line >= 1 && rule->line <= lines);
	REQUIRE(!i || rule[-1].line < rule->line);
	if (rule->role == CONF_INTERFACE) {
		(void)conf_find_interface(conf, (int)rule->block, rule->pattern);
		return;
	}
	check_side(&rule->side[0]);
	first = addr_in(&rule->side[0], rule->side[0].first);
	second = first;
	if (rule->two) {
		check_side(&rule->side[1]);
		second = addr_in(&rule->side[1], rule->side[1].last);
	}
	found = conf_find(conf, (int)rule->block, rule->role, first, &second);
	REQUIRE(found && found <= rule); /* it matches itself, or an earlier one does */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size ? size : 1); /* exact: a byte too far is seen */
	struct input in = {.text = text, .size = size};
	unsigned lines = 1;
	struct conf conf;

	REQUIRE(text);
	if (size)
		memcpy(text, data, size);
	for (size_t i = 0; i < size; i++)
		lines += text[i] == '\n';
	REQUIRE(!conf_parse(&conf, text, size, check_note, &in));
	for (unsigned i = 0; i < conf.n_rules; i++)
		check_rule(&conf, i, lines);
	for (unsigned i = 0; i < conf.n_blocks; i++) {
		int block = conf_block_of(&conf, conf.blocks[i].program, conf.blocks[i].id);

		REQUIRE(block >= -1 && block < (int)conf.n_blocks);
		REQUIRE(conf_has_id(&conf, conf.blocks[i].id));
	}
	conf_fini(&conf);
	free(text);
	return 0;
}
