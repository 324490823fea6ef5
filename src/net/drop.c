/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/drop.h"

static const char *const texts[DROP_COUNT] = {
#define X(name, text) [DROP_##name] = (text),
	DROP_LIST(X)
#undef X
};

static const char *const names[DROP_COUNT] = {
#define X(name, text) [DROP_##name] = #name,
	DROP_LIST(X)
#undef X
};

const char *drop_text(enum drop reason)
{
	return (unsigned)reason < DROP_COUNT ? texts[reason] : "unknown reason";
}

const char *drop_name(enum drop reason)
{
	return names[reason];
}
