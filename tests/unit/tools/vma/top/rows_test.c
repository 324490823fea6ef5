/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/vma/top/rows.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tools/vma_stats/vma_stats.h"
#include "vma_test.h"

#define SOCKS 3

/* Two snapshots of a process, half a second apart. */
static struct snapshot *new_snapshot(uint64_t at)
{
	struct snapshot *s = aligned_alloc(64, (sizeof(*s) + 63) & ~63ul);

	memset(s, 0, sizeof(*s));
	s->socks = aligned_alloc(64, SOCKS * sizeof(*s->socks));
	memset(s->socks, 0, SOCKS * sizeof(*s->socks));
	s->n_socks = SOCKS;
	s->at = at;
	for (int i = 0; i < SOCKS; i++) {
		struct stats_sock *sock = &s->socks[i];

		sock->fd = 10 + i;
		sock->type = STATS_UDP;
		sock->accelerated = i != 2;
		sock->local_addr = (struct stats_addr){{0, 0, htonl(0xffff), htonl(0x0a090001)}};
		sock->local_port = htons((uint16_t)(7000 + i));
		strcpy(sock->interface, "v0");
		strcpy(sock->verdict, "a rule");
	}
	s->page.n_rings = 2;
	for (unsigned i = 0; i < 2; i++) {
		s->page.rings[i].open = 1;
		s->page.rings[i].id = i;
	}
	return s;
}

static void free_snapshot(struct snapshot *s)
{
	free(s->socks);
	free(s);
}

static const struct process process = {.pid = 4711, .name = "feed"};

static void add(struct rows *rows, const struct snapshot *now, const struct snapshot *before)
{
	struct snapshot *rates = aligned_alloc(64, (sizeof(*rates) + 63) & ~63ul);

	assert_true(delta(now, before, rates));
	rows_add(rows, &process, rates);
	free(rates->socks);
	free(rates);
}

/* The text of the rows; the caller frees it. */
static char *written(const struct rows *rows, unsigned rings, unsigned sockets)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	rows_write(rows, rings, sockets, out);
	fclose(out);
	return text;
}

struct fixture {
	struct snapshot *before, *now;
	struct rows rows;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->before = new_snapshot(NSEC_PER_SEC);
	f->now = new_snapshot(NSEC_PER_SEC + NSEC_PER_SEC / 2);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	rows_free(&f->rows);
	free_snapshot(f->before);
	free_snapshot(f->now);
	free(f);
	return 0;
}

static void test_rates_are_per_second(void **state)
{
	struct fixture *f = *state;
	char *text;

	f->now->socks[0].rx_packets = 100;
	f->now->socks[0].rx_bytes = 1000000;
	f->now->socks[0].tx_packets = 7;
	f->now->socks[0].retransmits = 2;
	f->now->socks[0].rx_drops = 3;
	f->now->socks[0].os_rx_packets = 1;
	f->now->page.poll.now.hits = 20;
	f->now->page.epolls[3].now.hits = 10;
	f->now->page.select.now.misses = 2;
	add(&f->rows, f->now, f->before);
	rows_sort(&f->rows, ROWS_PACKETS);
	text = written(&f->rows, 0, 0);
	assert_non_null(strstr(text, "   4711 feed               3 sockets, 2 accelerated; waits: "
				     "60/s at once, 4/s slept\n"));
	assert_non_null(strstr(text,
			       "   4711 feed               10 udp  10.9.0.1:7000         -   "
			       "                      202      14   2.00M       0      6      4"
			       "        - accelerated over v0 on ring 0, a rule\n"));
	assert_non_null(strstr(text, " - kernel: a rule\n"));
	free(text);
}

static void test_the_order_is_as_asked(void **state)
{
	static const struct {
		enum rows_order order;
		int fds[SOCKS];
	} rows[] = {
		{ROWS_PACKETS, {11, 12, 10}}, {ROWS_BYTES, {12, 10, 11}},
		{ROWS_DROPS, {10, 11, 12}},   {ROWS_RETRANSMITS, {12, 11, 10}},
		{ROWS_LATENCY, {11, 12, 10}}, /* none is known: by packets */
	};
	struct fixture *f = *state;

	f->now->socks[1].tx_packets = 900;
	f->now->socks[2].os_rx_packets = 100;
	f->now->socks[2].os_rx_bytes = 5000;
	f->now->socks[0].rx_bytes = 500;
	f->now->socks[0].rx_drops = 5;
	f->now->socks[2].retransmits = 1;
	add(&f->rows, f->now, f->before);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		rows_sort(&f->rows, rows[i].order);
		for (int k = 0; k < SOCKS; k++)
			if (f->rows.sockets[k].sock.fd != rows[i].fds[k])
				fail_msg("order %zu: place %d has %d", i, k,
					 f->rows.sockets[k].sock.fd);
	}
}

static unsigned lines_of(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* Several processes, so that the rows are moved. */
static void test_as_many_as_there_is_room_for(void **state)
{
	struct fixture *f = *state;
	char *text;

	for (int i = 0; i < 5; i++)
		add(&f->rows, f->now, f->before);
	assert_int_equal(f->rows.n_sockets, 5 * SOCKS);
	assert_int_equal(f->rows.n_rings, 10);
	assert_int_equal(f->rows.n_processes, 5);
	for (unsigned i = 0; i < f->rows.n_sockets; i++)
		assert_int_equal(f->rows.sockets[i].sock.fd, 10 + i % SOCKS);
	rows_sort(&f->rows, ROWS_PACKETS);
	text = written(&f->rows, 0, 0);
	assert_int_equal(lines_of(text), 5 + 2 + 10 + 2 + 15);
	free(text);
	text = written(&f->rows, 1, 2);
	assert_int_equal(lines_of(text), 5 + 2 + 1 + 2 + 2);
	free(text);
}

static void test_rings_that_are_closed_are_left_out(void **state)
{
	struct fixture *f = *state;

	f->now->page.rings[0].open = 0;
	f->now->page.rings[1].drops[3] = 4;
	add(&f->rows, f->now, f->before);
	assert_int_equal(f->rows.n_rings, 1);
	assert_int_equal(f->rows.rings[0].ring.id, 1);
	assert_int_equal(f->rows.rings[0].drops, 8);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_rates_are_per_second),
	TEST(test_the_order_is_as_asked),
	TEST(test_as_many_as_there_is_room_for),
	TEST(test_rings_that_are_closed_are_left_out),
};

VMA_TEST_MAIN("rows", tests, NULL, NULL)
