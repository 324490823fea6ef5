/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finding the flows of frames, of a thousand connections in turn: by the table, and by the tag that
 * a card gives frames; steps counts the instructions.
 *
 *	look COUNT
 */
#include <arpa/inet.h>
#include <stdlib.h>

#include "ring/flow.h"
#include "tests/check.h"
#include "tools/bench/steps.h"

#define FLOWS 1000

static struct flow_table table;
static struct flow flows[FLOWS];

/* As ring_poll() looks, for one frame. */
__attribute__((noinline)) static struct flow *look(const struct flow_key *key,
						   const struct pkt *pkt)
{
	return flow_find(&table, key, pkt);
}

static struct flow_key key_of(unsigned i)
{
	return (struct flow_key){.local = addr_v4(htonl(0x0a000001)),
				 .remote = addr_v4(htonl(0x0a000002)),
				 .local_port = htons(80),
				 .remote_port = htons((uint16_t)(1000 + i)),
				 .proto = IPPROTO_TCP};
}

static void measure(const char *name, unsigned flags, int count)
{
	for (int n = 0; n < count + FLOWS; n++) {
		unsigned i = (unsigned)n % FLOWS;
		struct flow_key key = key_of(i);
		struct pkt pkt = {.flags = (uint8_t)flags, .tag = i + 1};
		struct flow *found;

		if (n >= FLOWS)
			steps_count((const void *)look, name);
		found = look(&key, &pkt);
		TEST_CHECK(found == &flows[i]);
	}
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	flow_table_init(&table);
	for (unsigned i = 0; i < FLOWS; i++) {
		flows[i].key = key_of(i);
		TEST_CHECK(!flow_insert(&table, &flows[i]));
	}
	measure("table", 0, atoi(argv[1]));
	measure("tag", PKT_TAGGED, atoi(argv[1]));
	flow_table_fini(&table);
	return 0;
}
