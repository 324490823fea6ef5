/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/stats/recorder.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stats/recorder_text.h"
#include "tests/vma_test.h"

static int set_up(void **state)
{
	assert_true(recorder_open());
	recorder_set_text(RECORDER_LIFE, 2, "OPEN");
	recorder_set_text(RECORDER_LIFE, 3, "RECEIVING");
	recorder_set_text(RECORDER_DROP, 5, "IPv4 header checksum is wrong");
	recorder_ready();
	return 0;
}

static int tear_down(void **state)
{
	void *page = recorder();

	recorder_close();
	recorder_fork_child(); /* forgets it */
	if (page)
		shmdt(page);
	return 0;
}

/* The segments of recorders that processes with this id made; *last: one of them. */
static unsigned segments_of(pid_t pid, int *last)
{
	struct shm_info info;
	struct shmid_ds ds;
	unsigned n = 0;
	int max = shmctl(0, SHM_INFO, (struct shmid_ds *)(void *)&info);

	for (int i = 0; i <= max; i++) {
		int id = shmctl(i, SHM_STAT, &ds);

		if (id >= 0 && ds.shm_cpid == pid && ds.shm_segsz == sizeof(struct recorder)) {
			*last = id;
			n++;
		}
	}
	return n;
}

static const char *text_of(const struct record *record)
{
	static char text[RECORDER_EVENT];

	record_text(recorder(), record, text);
	return text;
}

static void test_records_are_read_in_order(void **state)
{
	static struct record got[RECORDER_RECORDS];
	struct recorder_area *area = recorder_area(3, "v0");
	uint64_t from = 0;

	assert_non_null(area);
	assert_int_equal(recorder_read(area, &from, got), 0);
	recorder_write(area, clock_now(), RECORD_LIFE, 7, 2 << 8 | 3);
	recorder_write(area, clock_now(), RECORD_RETRANSMIT, 7, 1448);
	recorder_write(NULL, 0, RECORD_RETRANSMIT, 7, 1); /* a ring without an area */
	assert_int_equal(recorder_read(area, &from, got), 2);
	assert_int_equal(from, 0);
	assert_int_equal(record_event(&got[0]), RECORD_LIFE);
	assert_int_equal(record_sock(&got[0]), 7);
	assert_string_equal(text_of(&got[0]), "socket OPEN -> RECEIVING");
	assert_string_equal(text_of(&got[1]), "retransmission 1448 bytes");
	assert_true(record_since(recorder(), &got[1]) >= record_since(recorder(), &got[0]));
	assert_true(record_since(recorder(), &got[1]) < 10 * NSEC_PER_SEC);
	from = 1;
	assert_int_equal(recorder_read(area, &from, got), 1);
	assert_int_equal(record_event(&got[0]), RECORD_RETRANSMIT);
	assert_string_equal(area->interface, "v0");
}

static void test_the_last_records_stay(void **state)
{
	static struct record got[RECORDER_RECORDS];
	struct recorder_area *area = recorder_area(0, "v0");
	uint64_t from = 0;
	unsigned n;

	for (uint32_t i = 0; i < RECORDER_RECORDS + 100; i++)
		recorder_write(area, clock_now(), RECORD_TIMEOUT, 1, i);
	n = recorder_read(area, &from, got);
	assert_int_equal(n, RECORDER_RECORDS);
	assert_int_equal(from, 100);
	/* The oldest may be the one that is replaced at this moment. */
	assert_int_equal(record_event(&got[0]), RECORD_NONE);
	for (unsigned i = 1; i < n; i++)
		assert_int_equal(got[i].what >> 32, 100 + i);
}

static void test_equal_drops_are_one_record(void **state)
{
	static struct record got[RECORDER_RECORDS];
	struct recorder_area *area = recorder_area(1, "v0");
	uint64_t from = 0;

	recorder_drop(NULL, 0, 5, 1, 2);
	for (int i = 0; i < 1000; i++)
		recorder_drop(area, clock_now(), 5, 80, 4000);
	recorder_drop(area, clock_now(), 5, 81, 4000);
	recorder_write(area, clock_now(), RECORD_RESET, 1, 0);
	recorder_drop(area, clock_now(), 5, 81, 4000);
	recorder_drop(area, clock_now(), 6, 0, 0);
	assert_int_equal(recorder_read(area, &from, got), 5);
	assert_int_equal(record_times(&got[0]), 1000);
	assert_int_equal(record_sock(&got[0]), 0);
	assert_string_equal(text_of(&got[0]),
			    "dropped: IPv4 header checksum is wrong, port 4000 to 80, 1000 times");
	assert_string_equal(text_of(&got[1]),
			    "dropped: IPv4 header checksum is wrong, port 4000 to 81");
	assert_string_equal(text_of(&got[4]), "dropped: 6");
}

static void test_a_series_of_drops_does_not_wrap(void **state)
{
	static struct record got[RECORDER_RECORDS];
	struct recorder_area *area = recorder_area(2, "v0");
	uint64_t from = 0;

	recorder_drop(area, clock_now(), 5, 80, 4000);
	area->records[0].what |= 0xffffffull << 40;
	recorder_drop(area, clock_now(), 5, 80, 4000);
	assert_int_equal(recorder_read(area, &from, got), 2);
	assert_int_equal(record_times(&got[0]), 0xffffff);
	assert_int_equal(record_times(&got[1]), 1);
}

/* text: NULL: 0.0.0.0 */
static struct stats_addr addr4(const char *text)
{
	return (struct stats_addr){{0, 0, htonl(0xffff), text ? inet_addr(text) : 0}};
}

static struct recorder_conn conn4(const char *local, uint16_t local_port, const char *remote,
				  uint16_t remote_port)
{
	return (struct recorder_conn){addr4(local), addr4(remote), htons(local_port),
				      htons(remote_port)};
}

static void name4(uint32_t sock, int fd, uint8_t protocol, const char *local, uint16_t local_port,
		  const char *remote, uint16_t remote_port, bool open)
{
	struct recorder_conn conn = conn4(local, local_port, remote, remote_port);

	recorder_name(sock, fd, protocol, &conn, open);
}

static void test_threads_without_a_ring_record_too(void **state)
{
	static struct record got[RECORDER_RECORDS];
	uint64_t from = 0;
	char line[RECORDER_LINE];

	name4(9, 4, IPPROTO_TCP, "10.0.0.1", 80, NULL, 0, false);
	recorder_write_any(RECORDER_CALLS, RECORD_LIFE, 9, 2 << 8 | 3);
	assert_int_equal(recorder_read(&recorder()->areas[RECORDER_CALLS], &from, got), 1);
	assert_true(recorder_line(recorder(), RECORDER_CALLS, &got[0], line));
	assert_non_null(strstr(line, " calls fd 4 tcp 10.0.0.1:80 #9: socket OPEN -> RECEIVING"));
	got[0].when = 0;
	assert_false(recorder_line(recorder(), RECORDER_CALLS, &got[0], line));
}

static void test_a_name_belongs_to_one_socket(void **state)
{
	const struct recorder_conn six = {
		.local_addr = {{htonl(0x20010db8), 0, 0, htonl(1)}},
		.remote_addr = {{htonl(0x20010db8), 0, 0, htonl(2)}},
		.local_port = htons(80),
		.remote_port = htons(4000),
	};
	struct recorder_who who;
	char text[RECORDER_WHO];

	name4(5, 3, IPPROTO_UDP, "10.0.0.1", 53, "10.0.0.2", 4000, false);
	assert_true(recorder_who(recorder(), 5, &who));
	assert_int_equal(who.fd, 3);
	recorder_who_text(recorder(), 5, text);
	assert_string_equal(text, "fd 3 udp 10.0.0.1:53 10.0.0.2:4000 #5");
	name4(5 + RECORDER_SOCKS, -1, IPPROTO_TCP, "10.0.0.1", 80, NULL, 0, false);
	assert_false(recorder_who(recorder(), 5, &who));
	recorder_who_text(recorder(), 5, text);
	assert_string_equal(text, "#5");
	recorder_who_text(recorder(), 5 + RECORDER_SOCKS, text);
	assert_string_equal(text, "tcp 10.0.0.1:80 #4101");
	assert_false(recorder_who(recorder(), 0, &who));
	recorder_name(6, 7, IPPROTO_TCP, &six, true);
	recorder_who_text(recorder(), 6, text);
	assert_string_equal(text, "fd 7 tcp [2001:db8::1]:80 [2001:db8::2]:4000 #6");
}

static void test_every_event_has_words(void **state)
{
	for (unsigned event = 1; event < 256; event++) {
		struct record record = {event, ~0ull};
		char word[RECORDER_NAME], text[RECORDER_EVENT];

		if (record_event(&record) == RECORD_NONE)
			continue;
		assert_true(event < RECORD_COUNT);
		record_text(recorder(), &record, text);
		assert_true(strlen(text) > 5);
		assert_true(strlen(record_word((enum record_event)event, word)) > 3);
	}
}

static void test_rings_without_an_area(void **state)
{
	assert_null(recorder_area(RECORDER_RINGS, "v0"));
	assert_null(recorder_area(UINT32_MAX, "v0"));
}

static void test_unused_areas_need_no_memory(void **state)
{
	unsigned char resident;
	struct recorder_area *area = &recorder()->areas[40];
	void *middle = (void *)(((uintptr_t)area + sizeof(*area) / 2) & ~4095ul);

	assert_int_equal(mincore(middle, 4096, &resident), 0);
	assert_int_equal(resident & 1, 0);
	recorder_area(40, "v0");
	assert_int_equal(mincore(middle, 4096, &resident), 0);
	assert_int_equal(resident & 1, 1);
}

static void test_it_ends_with_an_orderly_process_and_outlives_a_killed_one(void **state)
{
	pid_t killed, ended;
	int status, id = -1;
	struct recorder *left;

	killed = fork();
	if (!killed) {
		recorder_fork_child();
		if (!recorder_open())
			_exit(1);
		recorder_ready();
		recorder_write_any(RECORDER_CALLS, RECORD_RESET, 77, 0);
		kill(getpid(), SIGKILL);
	}
	ended = fork();
	if (!ended) {
		recorder_fork_child();
		if (!recorder_open())
			_exit(1);
		recorder_ready();
		recorder_close();
		_exit(0);
	}
	assert_int_equal(waitpid(killed, &status, 0), killed);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(waitpid(ended, &status, 0), ended);
	assert_int_equal(status, 0);
	assert_int_equal(segments_of(ended, &id), 0);
	assert_int_equal(segments_of(killed, &id), 1);
	left = shmat(id, NULL, SHM_RDONLY);
	assert_ptr_not_equal(left, (void *)-1);
	assert_true(left->magic == RECORDER_MAGIC);
	assert_int_equal(left->pid, killed);
	assert_int_equal(record_sock(&left->areas[RECORDER_CALLS].records[0]), 77);
	shmdt(left);
	assert_int_equal(shmctl(id, IPC_RMID, NULL), 0);
	assert_int_equal(segments_of(getpid(), &id), 1); /* ours is not concerned */
}

/* A process that has a connection, one that it closed, and a socket without; it is killed. */
static void be_killed_with_connections(uint16_t port)
{
	const char *one = "10.0.0.1", *two = "10.0.0.2";
	pid_t pid = fork();
	int status;

	if (!pid) {
		recorder_fork_child();
		if (!recorder_open())
			_exit(1);
		recorder_ready();
		name4(1, 3, IPPROTO_TCP, one, port, two, 4001, true);
		name4(2, 4, IPPROTO_TCP, one, port, two, 4002, true);
		recorder_name_closed(2);
		name4(3, 5, IPPROTO_UDP, one, port, two, 4003, false);
		/* Another socket with the place of the first one, which ends: it is not that one. */
		recorder_name_closed(1 + RECORDER_SOCKS);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

/* How many connections with this local port were left; done: they are done with. */
static unsigned find_connections(uint16_t port, bool done)
{
	static struct recorder_conn conns[RECORDER_SOCKS];
	struct recorder_conn wanted;
	unsigned found = 0;
	int from = 0, id, got;

	while ((got = recorder_left(&from, conns, &id)) >= 0) {
		for (int i = 0; i < got; i++) {
			if (conns[i].local_port != htons(port))
				continue;
			wanted = conn4("10.0.0.1", port, "10.0.0.2", 4001);
			assert_memory_equal(&conns[i], &wanted, sizeof(wanted));
			found++;
			if (done)
				recorder_left_done(id);
		}
	}
	return found;
}

static void test_connections_of_killed_processes_are_left(void **state)
{
	/* Ours is alive, so it keeps what it has. */
	name4(1, 3, IPPROTO_TCP, "10.0.0.1", 81, "10.0.0.2", 4001, true);
	be_killed_with_connections(80);
	be_killed_with_connections(80);
	assert_int_equal(find_connections(80, false), 2);
	assert_int_equal(find_connections(80, true), 2);
	assert_int_equal(find_connections(80, false), 0);
	be_killed_with_connections(81);
	assert_int_equal(find_connections(81, false), 1);
}

static void test_connections_of_another_network_are_left_alone(void **state)
{
	be_killed_with_connections(82);
	if (unshare(CLONE_NEWNET))
		return; /* only root may; the others have one network */
	assert_int_equal(find_connections(82, false), 0);
}

/* Somebody looks at the segment, so it is attached; and nobody has waited for its process yet. */
static void test_a_look_does_not_hide_what_was_left(void **state)
{
	siginfo_t info;
	int id = -1, status;
	pid_t pid = fork();
	void *look;

	if (!pid) {
		recorder_fork_child();
		if (recorder_open()) {
			recorder_ready();
			name4(1, 3, IPPROTO_TCP, "10.0.0.1", 83, "10.0.0.2", 4001, true);
		}
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(segments_of(pid, &id), 1);
	look = shmat(id, NULL, SHM_RDONLY);
	assert_ptr_not_equal(look, (void *)-1);
	assert_int_equal(find_connections(83, false), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(find_connections(83, true), 1);
	shmdt(look);
	shmctl(id, IPC_RMID, NULL);
}

/* Processes that are killed one after the other; told: the peers of each have been told then. */
static void be_killed(pid_t pids[], unsigned n, bool told)
{
	static struct recorder_conn conns[RECORDER_SOCKS];

	for (unsigned i = 0; i < n; i++) {
		int status, from = 0, id;

		pids[i] = fork();
		if (!pids[i]) {
			recorder_fork_child();
			if (recorder_open())
				recorder_ready();
			_exit(0); /* without recorder_close() */
		}
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		while (told && recorder_left(&from, conns, &id) >= 0)
			recorder_left_done(id);
	}
}

/* Those of the last ones stay, although each that is looked at was attached to last. */
static void test_few_segments_of_killed_processes_stay(void **state)
{
	pid_t pids[RECORDER_KEPT + 4];
	unsigned n = sizeof(pids) / sizeof(*pids);
	int id = -1;

	be_killed(pids, n, true);
	for (unsigned i = 0; i < n; i++) {
		/* Each makes room for itself before it adds its own. */
		assert_int_equal(segments_of(pids[i], &id), i + RECORDER_KEPT >= n);
		if (i + RECORDER_KEPT >= n)
			shmctl(id, IPC_RMID, NULL);
	}
	assert_int_equal(segments_of(getpid(), &id), 1);
}

static void test_segments_stay_until_the_peers_are_told(void **state)
{
	pid_t pids[2 * RECORDER_KEPT], last;
	unsigned n = sizeof(pids) / sizeof(*pids), left = 0;
	int id = -1;

	be_killed(pids, n, false);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(segments_of(pids[i], &id), 1);
	be_killed(&last, 1, true); /* which tells the peers of all */
	be_killed(&last, 1, false);
	for (unsigned i = 0; i < n; i++) {
		if (segments_of(pids[i], &id)) {
			left++;
			shmctl(id, IPC_RMID, NULL);
		}
	}
	/* And of the two last ones. */
	assert_int_equal(left, RECORDER_KEPT - 2);
	assert_int_equal(segments_of(last, &id), 1);
}

static void test_a_forked_child_does_not_record_for_its_parent(void **state)
{
	struct shmid_ds ds;
	int status, id = -1;
	pid_t pid;

	assert_int_equal(segments_of(getpid(), &id), 1);
	pid = fork();
	if (!pid) {
		/* Whether the address is mapped says nothing: others may have taken it by now. */
		bool alone = !shmctl(id, IPC_STAT, &ds) && ds.shm_nattch == 1;

		recorder_fork_child();
		_exit(alone && !recorder() ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	TEST(test_records_are_read_in_order),
	TEST(test_the_last_records_stay),
	TEST(test_equal_drops_are_one_record),
	TEST(test_a_series_of_drops_does_not_wrap),
	TEST(test_threads_without_a_ring_record_too),
	TEST(test_a_name_belongs_to_one_socket),
	TEST(test_every_event_has_words),
	TEST(test_rings_without_an_area),
	TEST(test_unused_areas_need_no_memory),
	TEST(test_it_ends_with_an_orderly_process_and_outlives_a_killed_one),
	TEST(test_connections_of_killed_processes_are_left),
	TEST(test_a_look_does_not_hide_what_was_left),
	TEST(test_few_segments_of_killed_processes_stay),
	TEST(test_segments_stay_until_the_peers_are_told),
	TEST(test_a_forked_child_does_not_record_for_its_parent),
	TEST(test_connections_of_another_network_are_left_alone), /* last: it leaves the network */
};

/* Where that is possible, other tests neither see the segments nor remove them. */
static int alone(void **state)
{
	unshare(CLONE_NEWIPC);
	return 0;
}

VMA_TEST_MAIN("recorder", tests, alone, NULL)
