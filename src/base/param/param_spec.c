/* SPDX-License-Identifier: BSD-2-Clause */
/* The profiles of VMA_SPEC: defaults of other parameters, for a kind of program. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/param/param_internal.h"

#define NO_NUMBER (-1)

struct setting {
	const char *variable, *value;
};

/* What 29west and wombat_fh have in common. */
#define MESSAGING                                                                     \
	{"VMA_SPEC_PARAM1", "5000"}, {"VMA_SPEC_PARAM2", "50"}, {"VMA_RX_POLL", "0"}, \
		{"VMA_RX_UDP_POLL_OS_RATIO", "100"},                                  \
	{                                                                             \
		"VMA_SELECT_POLL_OS_RATIO", "100"                                     \
	}

/* What latency and ultra-latency have in common. */
#define LATENCY                                                                             \
	{"VMA_TX_WRE", "256"}, {"VMA_TX_WRE_BATCHING", "4"}, {"VMA_RX_WRE", "256"},         \
		{"VMA_RX_WRE_BATCHING", "4"}, {"VMA_RX_POLL", "-1"},                        \
		{"VMA_RX_PREFETCH_BYTES_BEFORE_POLL", "256"}, {"VMA_GRO_STREAMS_MAX", "0"}, \
		{"VMA_SELECT_POLL", "-1"}, {"VMA_CQ_MODERATION_ENABLE", "0"},               \
		{"VMA_CQ_KEEP_QP_FULL", "0"}, {"VMA_TCP_NODELAY", "1"},                     \
		{"VMA_AVOID_SYS_CALLS_ON_TCP_FD", "1"}, {"VMA_RING_DEV_MEM_TX", "16384"},   \
		{"VMA_INTERNAL_THREAD_AFFINITY", "0"}, {"VMA_THREAD_MODE", "0"},            \
	{                                                                                   \
		"VMA_MEM_ALLOC_TYPE", "2"                                                   \
	}

static const struct setting ultra_latency[] = {
	LATENCY,
	{"VMA_TX_SEGS_TCP", "512"},
	{"VMA_TX_BUFS", "512"},
	{"VMA_RX_BUFS", "1024"},
	{"VMA_RX_UDP_POLL_OS_RATIO", "0"},
	{"VMA_SELECT_POLL_OS_RATIO", "0"},
	{"VMA_SELECT_SKIP_OS", "0"},
	{"VMA_PROGRESS_ENGINE_INTERVAL", "0"},
	{NULL, NULL},
};

static const struct setting latency[] = {
	LATENCY,
	{"VMA_SELECT_POLL_OS_RATIO", "1"},
	{"VMA_SELECT_SKIP_OS", "1"},
	{"VMA_PROGRESS_ENGINE_INTERVAL", "100"},
	{NULL, NULL},
};

static const struct setting west29[] = {
	MESSAGING,
	{"VMA_SELECT_POLL", "100000"},
	{"VMA_SELECT_SKIP_OS", "50"},
	{NULL, NULL},
};

static const struct setting wombat_fh[] = {
	MESSAGING,
	{"VMA_SELECT_POLL", "0"},
	{"VMA_SELECT_SKIP_OS", "20"},
	{NULL, NULL},
};

static const struct setting mcd[] = {
	{"VMA_RING_ALLOCATION_LOGIC_TX", "31"},
	{"VMA_RING_ALLOCATION_LOGIC_RX", "31"},
	{NULL, NULL},
};

static const struct setting mcd_irq[] = {
	{"VMA_RING_ALLOCATION_LOGIC_TX", "31"},
	{"VMA_RING_ALLOCATION_LOGIC_RX", "31"},
	{"VMA_SELECT_POLL", "0"},
	{"VMA_RX_POLL", "0"},
	{"VMA_CQ_MODERATION_ENABLE", "0"},
	{NULL, NULL},
};

static const struct setting rti[] = {
	{"VMA_RX_POLL", "-1"},
	{NULL, NULL},
};

static const struct setting p7750[] = {
	{"VMA_TRACELEVEL", "warn"},
	{"VMA_STATS_FD_NUM", "1024"},
	{"VMA_TX_BUFS", "8192"},
	{"VMA_RX_BUFS", "204800"},
	{"VMA_RX_POLL", "-1"},
	{"VMA_TCP_3T_RULES", "1"},
	{"VMA_SELECT_POLL", "-1"},
	{"VMA_SELECT_POLL_OS_RATIO", "0"},
	{"VMA_TCP_CTL_THREAD", "2"},
	{"VMA_AVOID_SYS_CALLS_ON_TCP_FD", "1"},
	{"VMA_INTERNAL_THREAD_AFFINITY", "0x3"},
	{"VMA_BUFFER_BATCHING_MODE", "0"},
	{NULL, NULL},
};

static const struct setting multi_ring_latency[] = {
	{"VMA_RING_ALLOCATION_LOGIC_TX", "20"},
	{"VMA_RING_ALLOCATION_LOGIC_RX", "20"},
	{"VMA_RX_POLL", "-1"},
	{"VMA_SELECT_POLL", "-1"},
	{"VMA_SELECT_POLL_OS_RATIO", "0"},
	{"VMA_SELECT_SKIP_OS", "0"},
	{"VMA_MEM_ALLOC_TYPE", "2"},
	{"VMA_RX_POLL_ON_TX_TCP", "1"},
	{"VMA_TRIGGER_DUMMY_SEND_GETSOCKNAME", "1"},
	{NULL, NULL},
};

static const struct setting none[] = {{NULL, NULL}};

static const struct {
	const char *name;
	int number;
	const struct setting *settings;
} specs[] = {
	{"none", 0, none},
	{"ultra-latency", 10, ultra_latency},
	{"latency", 15, latency},
	{"29west", 29, west29},
	{"wombat_fh", 554, wombat_fh},
	{"mcd", 623, mcd},
	{"mcd-irq", 624, mcd_irq},
	{"rti", 784, rti},
	{"7750", 7750, p7750},
	{"multi_ring_latency", NO_NUMBER, multi_ring_latency},
};

#define SPECS ((int)(sizeof(specs) / sizeof(specs[0])))

int param_spec_find(const char *text)
{
	int number = NO_NUMBER;

	param_parse_int(text, 0, INT_MAX, &number);
	for (int i = 0; i < SPECS; i++) {
		if (!strcasecmp(text, specs[i].name) ||
		    (number != NO_NUMBER && number == specs[i].number))
			return i;
	}
	return -1;
}

const char *param_spec_name(int spec)
{
	return spec >= 0 && spec < SPECS ? specs[spec].name : NULL;
}

const char *param_spec_value(int spec, const char *variable)
{
	for (const struct setting *s = specs[spec].settings; s->variable; s++) {
		if (!strcmp(s->variable, variable))
			return s->value;
	}
	return NULL;
}

int param_profile(unsigned i, const char **name)
{
	*name = param_spec_name((int)i);
	return *name ? specs[i].number : NO_NUMBER;
}

bool param_profile_setting(unsigned profile, unsigned i, const char **variable, const char **value)
{
	const struct setting *s = &specs[profile].settings[i];

	*variable = s->variable;
	*value = s->value;
	return s->variable;
}
