/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * After a grace period no frame reaches a ring that a flow has left, with each of the ways to
 * ask the kernel for one.
 *
 * here: port_xdp with two rings -- v0 -------- v1 -- a thread that floods
 */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "ring/xdp/grace.h"
#include "xdp_veth.h"

#define MOVES 40
#define AT_ONCE 32

/* From here on this thread may not call membarrier(2); other threads may. */
static void refuse_membarrier(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
}

/* ---- which way ---------------------------------------------------------------- */

static void test_membarrier_is_preferred(void **state)
{
	struct grace grace;

	assert_int_equal(grace_init(&grace), 0);
	assert_int_equal(grace.outer, -1);
	assert_int_equal(grace_wait(&grace), 0);
	grace_fini(&grace);
}

/* The type of a map. */
static uint32_t type_of(int map)
{
	struct bpf_map_info info = {0};
	union bpf_attr attr = {
		.info = {.bpf_fd = (uint32_t)map,
			 .info_len = sizeof(info),
			 .info = (uintptr_t)&info},
	};

	assert_int_equal(syscall(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &attr, sizeof(attr)), 0);
	return info.type;
}

static void *wait_without_membarrier(void *arg)
{
	int before = dup(0), after;
	struct grace grace;

	refuse_membarrier();
	assert_int_equal(grace_init(&grace), 0);
	assert_true(grace.outer >= 0);
	/* An update of a map of maps waits for a grace period; how long that takes depends on the machine. */
	assert_int_equal(type_of(grace.outer), BPF_MAP_TYPE_ARRAY_OF_MAPS);
	assert_int_equal(grace_wait(&grace), 0);
	grace_fini(&grace);
	grace_fini(&grace); /* harmless */
	after = dup(0);
	assert_int_equal(after, before + 1);
	close(before);
	close(after);
	return NULL;
}

static void in_a_thread(void *(*fn)(void *))
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, fn, NULL), 0);
	pthread_join(thread, NULL);
}

static void test_where_it_is_refused_a_map_does_it(void **state)
{
	in_a_thread(wait_without_membarrier);
}

/* ---- what it is for ------------------------------------------------------------ */

static int flood_over; /* atomic */

static void *flood(void *arg)
{
	static const struct spec s = {.vlan = -1,
				      .proto = 17,
				      .saddr = "10.77.0.2",
				      .daddr = "10.77.0.1",
				      .sport = 5,
				      .dport = 7};
	struct mmsghdr msgs[AT_ONCE];
	uint8_t frame[256];
	struct iovec iov = {frame, make_frame(frame, &s, 1)};

	for (int i = 0; i < AT_ONCE; i++)
		msgs[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}};
	while (!__atomic_load_n(&flood_over, __ATOMIC_RELAXED))
		sendmmsg(*(int *)arg, msgs, AT_ONCE, 0);
	return NULL;
}

/* Reads all frames; or as many as a ring holds, because frames may arrive all the time. */
static unsigned drain(struct port_queue *q)
{
	struct pkt *pkts[64];
	unsigned frames = 0;
	int n;

	while ((n = q->ops->rx_burst(q, pkts, 64)) > 0 && frames < 8192) {
		for (int i = 0; i < n; i++)
			pkt_free(pkts[i]);
		frames += (unsigned)n;
	}
	return frames;
}

/* Returns how many frames arrived too late. */
static unsigned move_to_and_fro(struct port *port, struct port_queue **q,
				const struct flow_key *key)
{
	unsigned late = 0, moved = 0;

	for (int move = 0; move < MOVES; move++) {
		struct port_queue *from = q[move % 2], *to = q[!(move % 2)];
		nsec_t end;

		end = clock_now() + DEADLINE;
		while (!drain(from) && clock_now() < end)
			sched_yield();
		assert_int_equal(to->ops->move_flow(to, key), 0);
		port->ops->barrier(port);
		drain(from);
		end = clock_now() + 2 * NSEC_PER_MSEC;
		do {
			moved += drain(to);
			late += drain(from);
		} while (clock_now() < end);
	}
	assert_true(moved > 0);
	return late;
}

static void *move_under_a_flood(void *refuse)
{
	struct flow_key key = key3(17, "10.77.0.1", 7);
	int ifindex = (int)if_nametoindex("v0"), inject_fd;
	struct port_queue *q[2];
	char why[PORT_WHY];
	struct port *port;
	pthread_t thread;

	if (refuse)
		refuse_membarrier();
	setns(peer_fd, CLONE_NEWNET);
	inject_fd = packet_socket("v1");
	setns(here_fd, CLONE_NEWNET);
	if (port_xdp_open(ifindex, &port, why) || port->ops->open_queue(port, &q[0], why) ||
	    port->ops->open_queue(port, &q[1], why))
		fail_msg("%s", why);
	assert_int_equal(q[0]->ops->add_flow(q[0], &key), 0);
	__atomic_store_n(&flood_over, 0, __ATOMIC_RELAXED);
	assert_int_equal(pthread_create(&thread, NULL, flood, &inject_fd), 0);
	assert_int_equal(move_to_and_fro(port, q, &key), 0);
	__atomic_store_n(&flood_over, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	for (int i = 0; i < 2; i++)
		port->ops->close_queue(q[i]);
	port->ops->free_port(port);
	close(inject_fd);
	return NULL;
}

static void test_nothing_is_late_after_a_barrier(void **state)
{
	move_under_a_flood(NULL);
}

static void *move_without_membarrier(void *arg)
{
	return move_under_a_flood(&flood_over);
}

static void test_nor_without_membarrier(void **state)
{
	in_a_thread(move_without_membarrier);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_membarrier_is_preferred),
	cmocka_unit_test(test_where_it_is_refused_a_map_does_it),
	cmocka_unit_test(test_nothing_is_late_after_a_barrier),
	cmocka_unit_test(test_nor_without_membarrier),
};

VMA_TEST_MAIN("grace", tests, make_topology, NULL)
