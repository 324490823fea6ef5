/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/diff/mcast_same.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/diff/diff.h"

#define WORDS 15

/* ---- what has arrived ------------------------------------------------------------------------ */

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Sorted: datagrams through different interfaces have no order. */
static void say_words(const char *who, char words[][32], unsigned n)
{
	char text[512] = "";

	qsort(words, n, sizeof(*words), by_text);
	for (unsigned i = 0; i < n; i++) {
		strcat(text, " ");
		strcat(text, words[i]);
	}
	say("%s:%s", who, n ? text : " nothing");
}

/* Everything that has arrived, or arrives within QUIET_MS: arrives(). */
void got(const char *who, int fd)
{
	char words[WORDS][32];
	unsigned count = 0;
	long n;

	while (count < WORDS && arrives(fd, QUIET_MS)) {
		n = recv(fd, words[count], sizeof(*words) - 1, MSG_DONTWAIT);
		if (n < 0) {
			say_result(who, n);
			break;
		}
		words[count++][n] = 0;
	}
	say_words(who, words, count);
}

/* ---- rounds of sending ----------------------------------------------------------------------- */

void ask_for_round(void)
{
	tell(1);
	hear();
}

void end_of_rounds(void)
{
	tell(0);
}

/* ---- behaviours ------------------------------------------------------------------------------ */

void mcast_two_interfaces(const struct mcast_way *w)
{
	int fd = w->receiver(w->any, 0);

	SAY(w->join_on(fd, w->group, "v1"));
	ask_for_round();
	got("on v1", fd);
	SAY(w->join_on(fd, w->group, "v0"));
	ask_for_round();
	got("on both", fd);
	SAY(w->leave_on(fd, w->group, "v1"));
	ask_for_round();
	got("on v0", fd);
	close(fd);
	end_of_rounds();
}

void mcast_bound_to_group(const struct mcast_way *w)
{
	int fd = w->receiver(w->group, 0), own = w->receiver(w->here, 0);

	SAY(w->join_on(fd, w->group, "v0"));
	SAY(w->join_on(fd, w->other_group, "v0"));
	SAY(w->join_on(own, w->group, "v0"));
	ask_for_round();
	got("bound to the group", fd);
	got("bound to its address", own);
	close(fd);
	close(own);
	end_of_rounds();
}

void mcast_several(const struct mcast_way *w)
{
	int a = w->receiver(w->any, 0), b = w->receiver(w->any, 0), c = w->receiver(w->group, 0);

	SAY(w->join_on(a, w->group, "v0"));
	SAY(w->join_on(b, w->group, "v0"));
	SAY(w->join_on(c, w->group, "v0"));
	ask_for_round();
	got("a", a);
	got("b", b);
	got("c", c);
	close(a);
	SAY(w->leave_on(c, w->group, "v0"));
	ask_for_round();
	got("b", b);
	got("c", c);
	close(b);
	close(c);
	end_of_rounds();
}

void mcast_ours_client(const struct mcast_way *w)
{
	int v0 = w->sender("v0", w->first), second = w->sender("v0", w->second);

	meet();
	w->post(v0, w->group, 0, "first");
	w->post(second, w->group, 0, "second");
	meet();
	close(v0);
	close(second);
}

void mcast_plain_receiver(const struct mcast_way *w)
{
	int fd = w->receiver(w->any, 0);

	MUST(w->join_on(fd, w->group, "v0"));
	MUST(w->join_on(fd, w->group, "v1"));
	meet();
	meet();
	got("server", fd);
	close(fd);
}
