/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/stats/recorder_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/stats/stats_text.h"

#define WHEN_BITS 56

static const struct {
	const char *name, *text;
	enum record_argument argument;
} events[] = {
#define X(name, text, argument) {#name, text, RECORD_ARG_##argument},
	RECORD_LIST(X)
#undef X
};

enum record_event record_event(const struct record *record)
{
	unsigned event = record->when & 0xff;

	return event < RECORD_COUNT ? (enum record_event)event : RECORD_NONE;
}

uint32_t record_sock(const struct record *record)
{
	return record_event(record) == RECORD_DROP ? 0 : (uint32_t)record->what;
}

uint32_t record_times(const struct record *record)
{
	return record_event(record) == RECORD_DROP ? (uint32_t)(record->what >> 40) : 1;
}

uint64_t record_since(const struct recorder *recorder, const struct record *record)
{
	uint64_t mask = (1ull << WHEN_BITS) - 1;
	uint64_t since = ((record->when >> 8) - recorder->made_at) & mask;

	/* Just before it was made: another processor's clock. */
	return since >> (WHEN_BITS - 1) ? 0 : since;
}

const char *record_word(enum record_event event, char word[RECORDER_NAME])
{
	size_t i;

	for (i = 0; i + 1 < RECORDER_NAME && events[event].name[i]; i++)
		word[i] = (char)tolower((unsigned char)events[event].name[i]);
	word[i] = '\0';
	return word;
}

void recorder_area_text(unsigned area, char text[RECORDER_NAME])
{
	if (area == RECORDER_CALLS)
		snprintf(text, RECORDER_NAME, "calls");
	else if (area == RECORDER_SLEEPS)
		snprintf(text, RECORDER_NAME, "sleeps");
	else
		snprintf(text, RECORDER_NAME, "ring %u", area);
}

static void load_addr(const uint64_t from[2], struct stats_addr *addr)
{
	uint64_t q[2] = {__atomic_load_n(&from[0], __ATOMIC_RELAXED),
			 __atomic_load_n(&from[1], __ATOMIC_RELAXED)};

	memcpy(addr, q, sizeof(*addr));
}

bool recorder_who(const struct recorder *recorder, uint32_t sock, struct recorder_who *who)
{
	const struct recorder_sock *of = &recorder->socks[sock % RECORDER_SOCKS];
	/* Acquire: pairs with recorder_name(). */
	uint64_t id = __atomic_load_n(&of->id, __ATOMIC_ACQUIRE);
	uint64_t local = __atomic_load_n(&of->local, __ATOMIC_RELAXED);
	uint64_t remote = __atomic_load_n(&of->remote, __ATOMIC_RELAXED);
	struct stats_addr addr[2];

	*who = (struct recorder_who){.fd = -1};
	if (!sock || id >> 32 != sock)
		return false;
	who->fd = (int)(uint32_t)id;
	snprintf(who->protocol, sizeof(who->protocol), "%s",
		 (local & 0xff) == IPPROTO_UDP ? "udp" : "tcp");
	load_addr(of->local_addr, &addr[0]);
	load_addr(of->remote_addr, &addr[1]);
	stats_endpoint_text(&addr[0], (uint16_t)(local >> 16), who->local);
	if (remote)
		stats_endpoint_text(&addr[1], (uint16_t)(remote >> 16), who->remote);
	return true;
}

void recorder_who_text(const struct recorder *recorder, uint32_t sock, char text[RECORDER_WHO])
{
	struct recorder_who who;
	char fd[16] = "";

	text[0] = '\0';
	if (!sock)
		return;
	if (!recorder_who(recorder, sock, &who)) {
		snprintf(text, RECORDER_WHO, "#%u", sock);
		return;
	}
	if (who.fd >= 0)
		snprintf(fd, sizeof(fd), "fd %d ", who.fd);
	snprintf(text, RECORDER_WHO, "%s%s %s%s%s #%u", fd, who.protocol, who.local,
		 who.remote[0] ? " " : "", who.remote, sock);
}

/* A text that the recorder brings along. */
static void brought(const struct recorder *recorder, enum recorder_text kind, unsigned i,
		    char text[RECORDER_TEXT])
{
	const char *from = i < RECORDER_TEXTS ? recorder->texts[kind][i] : "";
	size_t n;

	for (n = 0; n + 1 < RECORDER_TEXT && from[n]; n++)
		text[n] = isprint((unsigned char)from[n]) && from[n] != '"' && from[n] != '\\'
				  ? from[n]
				  : '?';
	text[n] = '\0';
	if (!n)
		snprintf(text, RECORDER_TEXT, "%u", i);
}

static void change_text(const struct recorder *recorder, enum recorder_text kind, uint32_t argument,
			const char *what, char text[RECORDER_EVENT])
{
	char from[RECORDER_TEXT], to[RECORDER_TEXT];

	brought(recorder, kind, argument >> 8 & 0xff, from);
	brought(recorder, kind, argument & 0xff, to);
	snprintf(text, RECORDER_EVENT, "%s %s -> %s", what, from, to);
}

static void drop_text_of(const struct recorder *recorder, const struct record *record,
			 char text[RECORDER_EVENT])
{
	unsigned remote = record->what >> 16 & 0xffff, local = record->what & 0xffff;
	char reason[RECORDER_TEXT], ports[32] = "", times[24] = "";

	brought(recorder, RECORDER_DROP, record->what >> 32 & 0xff, reason);
	if (local || remote)
		snprintf(ports, sizeof(ports), ", port %u to %u", remote, local);
	if (record_times(record) != 1)
		snprintf(times, sizeof(times), ", %u times", record_times(record));
	snprintf(text, RECORDER_EVENT, "dropped: %s%s%s", reason, ports, times);
}

static void ended_text(uint32_t error, char text[RECORDER_EVENT])
{
	const char *reason = strerrordesc_np((int)(error & 0xffff));

	if (error)
		snprintf(text, RECORDER_EVENT, "connection ends: %s",
			 reason ? reason : "unknown error");
	else
		snprintf(text, RECORDER_EVENT, "connection ends in order");
}

void record_text(const struct recorder *recorder, const struct record *record,
		 char text[RECORDER_EVENT])
{
	enum record_event event = record_event(record);
	uint32_t argument = (uint32_t)(record->what >> 32);
	const char *what = events[event].text;
	char name[RECORDER_TEXT];

	switch (events[event].argument) {
	case RECORD_ARG_BYTES:
		snprintf(text, RECORDER_EVENT, "%s %u bytes", what, argument);
		break;
	case RECORD_ARG_MSEC:
		snprintf(text, RECORDER_EVENT, "%s %u ms", what, argument);
		break;
	case RECORD_ARG_NUMBER:
		snprintf(text, RECORDER_EVENT, "%s: %u", what, argument);
		break;
	case RECORD_ARG_ERRNO:
		ended_text(argument, text);
		break;
	case RECORD_ARG_RING:
		if (argument == RECORDER_NO_RING)
			snprintf(text, RECORDER_EVENT, "%s several rings, or none", what);
		else
			snprintf(text, RECORDER_EVENT, "%s ring %u", what, argument);
		break;
	case RECORD_ARG_DROP:
		drop_text_of(recorder, record, text);
		break;
	case RECORD_ARG_LIFE:
		change_text(recorder, RECORDER_LIFE, argument, what, text);
		break;
	case RECORD_ARG_STATE:
		change_text(recorder, RECORDER_STATE, argument, what, text);
		break;
	case RECORD_ARG_VERDICT:
		brought(recorder, RECORDER_VERDICT, argument, name);
		snprintf(text, RECORDER_EVENT, "%s: %s", what, name);
		break;
	case RECORD_ARG_NONE:
	default:
		snprintf(text, RECORDER_EVENT, "%s", what);
	}
}

bool recorder_line(const struct recorder *recorder, unsigned area, const struct record *record,
		   char text[RECORDER_LINE])
{
	char place[RECORDER_NAME], who[RECORDER_WHO], event[RECORDER_EVENT];
	uint64_t usec;

	if (record_event(record) == RECORD_NONE)
		return false;
	usec = record_since(recorder, record) / 1000;
	recorder_area_text(area, place);
	recorder_who_text(recorder, record_sock(record), who);
	record_text(recorder, record, event);
	snprintf(text, RECORDER_LINE, "%" PRIu64 ".%06" PRIu64 " %s %s%s%s", usec / 1000000,
		 usec % 1000000, place, who, who[0] ? ": " : "", event);
	return true;
}
