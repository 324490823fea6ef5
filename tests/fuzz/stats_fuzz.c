/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Page of statistics: whatever is in it, each view of vma_stats ends, and reads nothing beside it.
 *
 * Input	changes (changes.h) to a page.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/changes.h"
#include "tools/vma_stats/vma_stats.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SLOTS 3u
#define PAGE (sizeof(struct stats_page) + SLOTS * sizeof(struct stats_sock))

static struct stats_page *make_page(void)
{
	struct stats_page *page = aligned_alloc(64, PAGE); /* exact: a byte too far is seen */
	struct stats_sock *slots;

	if (!page)
		abort();
	memset(page, 0, PAGE);
	page->magic = STATS_MAGIC;
	page->version = STATS_VERSION;
	page->page_size = PAGE;
	page->sock_size = sizeof(struct stats_sock);
	page->ring_size = sizeof(struct stats_ring);
	page->socks_at = sizeof(*page);
	page->n_socks = SLOTS;
	page->n_rings = 2;
	page->rings[0].open = 1;
	page->epolls[0].taken = 1;
	slots = (struct stats_sock *)(void *)(page + 1);
	for (unsigned i = 0; i < SLOTS; i++) {
		slots[i].state = STATS_OURS;
		slots[i].fd = (int)i;
		slots[i].type = (uint8_t)i;
	}
	return page;
}

static void show(struct options *o, const struct process *p, const struct snapshot *s,
		 const struct snapshot *d)
{
	unsigned lines = 0;

	for (unsigned deltas = 0; deltas < 2; deltas++) {
		const struct snapshot *shown = deltas ? d : s;

		o->deltas = deltas;
		o->view = VIEW_BASIC;
		view_table(o, shown, &lines);
		o->view = VIEW_MEDIUM;
		view_table(o, shown, &lines);
		view_full(o, shown);
	}
	view_groups(o, s);
	view_netstat(o, p, s);
	view_verdicts(o, p, s);
	json_process(o, p, s, true);
	openmetrics(o, p, s, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct options options;
	struct stats_page *page = make_page();
	struct process process = {.pid = 1, .page = page, .size = PAGE, .name = "fuzz"};
	struct snapshot before, now, difference;
	static bool silent;
	char why[READER_WHY];

	if (!silent && !freopen("/dev/null", "w", stdout))
		abort();
	silent = true;
	if (!reader_snapshot(&process, 1, &before))
		abort();
	changes_apply(page, PAGE, data, size);
	(void)reader_check(page, PAGE, why);
	/* A page may change after it was checked. */
	if (!reader_snapshot(&process, 1000000001, &now) || !delta(&now, &before, &difference))
		abort();
	show(&options, &process, &now, &difference);
	reader_free(&before);
	reader_free(&now);
	reader_free(&difference);
	free(page);
	return 0;
}
