/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that drops its privileges with an open port: it gets only the frames that were
 * granted before, whatever it writes into the maps that it still has.  (Topology: see
 * xdp_port_test.c.)
 */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ring/xdp/xdp_entry.h"
#include "ring/xdp/xdp_internal.h"
#include "xdp_fixture.h"

#define NOBODY 65534u
#define UDP IPPROTO_UDP
#define TCP IPPROTO_TCP

static const struct spec granted[] = {
	{"UDP", .vlan = -1, .proto = UDP, .dport = 7000},
	{"TCP to any address", .vlan = -1, .proto = TCP, .dport = 7001, .daddr = "10.77.0.1"},
	{"TCP of one connection", .vlan = -1, .proto = TCP, .dport = 7002, .sport = 4000},
};

static const struct spec others[] = {
	{"another port", .vlan = -1, .proto = UDP, .dport = 7009},
	{"TCP to the port of UDP", .vlan = -1, .proto = TCP, .dport = 7000},
	{"another address", .vlan = -1, .proto = UDP, .dport = 7000, .daddr = "10.77.0.9"},
	{"another connection", .vlan = -1, .proto = TCP, .dport = 7002, .sport = 4001},
	{"the same of another host", .vlan = -1, .proto = TCP, .dport = 7002, .sport = 4000,
	 .saddr = "10.77.0.3"},
};

static struct flow_key wide_of(const struct spec *s)
{
	return key3(s->proto, s->daddr ? s->daddr : "10.77.0.1", s->dport);
}

static struct flow_key exact_of(const struct spec *s)
{
	return key5(s->proto, s->daddr ? s->daddr : "10.77.0.1", s->dport,
		    s->saddr ? s->saddr : "10.77.0.2", s->sport ? s->sport : 5000);
}

static struct xdp_port *port_of(const struct fixture *f)
{
	return (struct xdp_port *)f->port;
}

static unsigned slot_of(const struct fixture *f)
{
	return ((struct xdp_queue *)f->q)->slot;
}

static void fence(struct fixture *f)
{
	struct flow_key keys[] = {wide_of(&granted[0]), key3(TCP, "0.0.0.0", 7001),
				  exact_of(&granted[2])};

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		assert_int_equal(f->port->ops->grant(f->port, &keys[i]), 0);
	f->port->ops->fence(f->port);
	assert_int_equal(seteuid(NOBODY), 0);
}

static int setup6(void **state)
{
	over6 = true;
	return setup(state);
}

static int teardown_as_root(void **state)
{
	over6 = false;
	assert_int_equal(seteuid(0), 0);
	return teardown(state);
}

/* ---- what it asks for --------------------------------------------------------------------- */

static void test_what_was_granted_comes(void **state)
{
	struct fixture *f = *state;

	fence(f);
	add_flow(f, wide_of(&granted[0]));
	add_flow(f, wide_of(&granted[1]));
	add_flow(f, exact_of(&granted[2]));
	for (size_t i = 0; i < sizeof(granted) / sizeof(*granted); i++)
		expect_steered(f, &granted[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		expect_passed(f, &others[i]);
	del_flow(f, wide_of(&granted[0]));
	expect_passed(f, &granted[0]);
}

static void test_what_was_not_granted_is_refused(void **state)
{
	struct fixture *f = *state;
	const struct port_ops *ops = f->port->ops;
	struct port_queue *q;

	fence(f);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		struct flow_key wide = wide_of(&others[i]), exact = exact_of(&others[i]);
		struct flow_share share = {.spread = true};

		assert_int_equal(ops->grant(f->port, &wide), -EPERM);
		assert_int_equal(ops->add_flow(f->q, &wide), -ENOSPC);
		assert_int_equal(ops->add_flow(f->q, &exact), -ENOSPC);
		assert_int_equal(ops->take_flow(f->q, &exact), -ENOSPC);
		assert_int_equal(ops->reuseport_join(f->q, &wide, &share), -ENOSPC);
		expect_passed(f, &others[i]);
	}
	assert_int_equal(ops->open_queue(f->port, &q, f->why), -EPERM);
}

/* ---- what it takes ------------------------------------------------------------------------ */

static void steer3(struct fixture *f, const struct spec *s, uint32_t entry)
{
	struct flow_key key = wide_of(s);
	struct xdp_steer_key3 key3 = {.local = xdp_key_addr(port_of(f), &key.local),
				      .local_port = key.local_port,
				      .proto = key.proto};

	assert_int_equal(map_update(port_of(f)->flows3_fd, &key3, entry, BPF_ANY), 0);
}

static void steer5(struct fixture *f, const struct spec *s, uint32_t slot)
{
	struct flow_key key = exact_of(s);
	struct xdp_steer_key5 key5 = {.local = xdp_key_addr(port_of(f), &key.local),
				      .remote = xdp_key_addr(port_of(f), &key.remote),
				      .local_port = key.local_port,
				      .remote_port = key.remote_port,
				      .proto = key.proto};

	assert_int_equal(map_update(port_of(f)->flows5_fd, &key5, slot, BPF_ANY), 0);
	port_of(f)->conf->flows5 = 1;
}

static void steer_conn(struct fixture *f, const struct spec *s, uint32_t owner)
{
	struct flow_key key = exact_of(s);

	port_of(f)->local_ports[key.local_port] = (struct xdp_steer_conn){
		.owner = owner | XDP_STEER_READY,
		.local = xdp_key_addr(port_of(f), &key.local),
		.remote = xdp_key_addr(port_of(f), &key.remote),
		.remote_port = key.remote_port,
	};
}

static void steer_share(struct fixture *f, const struct spec *s, unsigned slot)
{
	struct xdp_steer_share *share = &port_of(f)->shares[7];

	memset(share, 0, sizeof(*share));
	share->slot[0] = (uint16_t)(slot + 1);
	steer3(f, s, 7 | XDP_STEER_SHARED);
}

/* Each of these steers the frames to the process, if there is no fence. */
static void steer_by_all_means(struct fixture *f, const struct spec *s, unsigned means)
{
	unsigned slot = slot_of(f);
	struct flow_key wide = wide_of(s), narrow = exact_of(s);
	struct xdp_steer_exact exact[2] = {xdp_exact_of(&wide), xdp_exact_of(&narrow)};
	bool added;

	for (int i = 0; i < 2; i++)
		assert_int_equal(xdp_exact_set(port_of(f), &exact[i], slot, &added), 0);
	if (means == 0)
		steer3(f, s, slot);
	else if (means == 1)
		steer_share(f, s, slot);
	else if (means == 2)
		steer5(f, s, slot);
	else if (means == 3)
		steer_conn(f, s, slot + 1);
	else if (means == 4) /* the same index of the map of sockets, in 32 bits */
		steer3(f, s, slot + UINT32_MAX / XDP_STEER_QUEUES + 1);
	else
		steer5(f, s, slot + UINT32_MAX / XDP_STEER_QUEUES + 1);
}

static void test_what_was_not_granted_cannot_be_taken(void **state)
{
	struct fixture *f = *state;

	for (unsigned means = 0; means < 4; means++) {
		steer_by_all_means(f, &others[0], means);
		expect_steered(f, &others[0]);
	}
	fence(f);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		for (unsigned means = 0; means < 6; means++) {
			steer_by_all_means(f, &others[i], means);
			expect_passed(f, &others[i]);
		}
	}
}

/* And it has no descriptor by which it could. */
static void test_the_fence_is_out_of_reach(void **state)
{
	struct fixture *f = *state;
	uint32_t slot = slot_of(f), index = slot * XDP_STEER_QUEUES;
	int fences = dup(port_of(f)->fences_fd), i;
	struct bpf_map_info info = {0};
	union bpf_attr attr = {.info = {.bpf_fd = (uint32_t)fences,
					.info_len = sizeof(info),
					.info = (uintptr_t)&info}};

	assert_int_equal(sys_bpf(BPF_OBJ_GET_INFO_BY_FD, &attr, sizeof(attr)), 0);
	close(fences);
	fence(f);
	attr = (union bpf_attr){.map_id = info.id};
	assert_int_equal(sys_bpf(BPF_MAP_GET_FD_BY_ID, &attr, sizeof(attr)), -EPERM);
	for (i = sys_fd_next_hidden(0); i >= 0; i = sys_fd_next_hidden(i + 1)) {
		struct bpf_map_info other = {0};

		attr = (union bpf_attr){.info = {.bpf_fd = (uint32_t)i,
						 .info_len = sizeof(other),
						 .info = (uintptr_t)&other}};
		if (sys_bpf(BPF_OBJ_GET_INFO_BY_FD, &attr, sizeof(attr)))
			continue;
		assert_string_not_equal(other.name, "fences");
		assert_string_not_equal(other.name, "grants");
		assert_string_not_equal(other.name, "xsks");
	}
	assert_int_equal(xdp_flow_set_socket(port_of(f), index, 0, -1), -EBADF);
}

/* ---- who comes next ----------------------------------------------------------------------- */

/* A process that stays in the group when the fixture leaves. */
static pid_t start_member(int ifindex)
{
	struct port *port;
	char why[PORT_WHY];
	int ready[2], fds[PORT_FDS_MAX];
	char c;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (port_xdp_open(ifindex, &port, why))
			_exit(1);
		(void)!write(ready[1], "", 1);
		for (;;) {
			port->ops->service(port, fds);
			usleep(1000);
		}
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void open_again(struct fixture *f)
{
	close_port(f);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(port_xdp_open(f->ifindex, &f->port, f->why), 0);
	assert_int_equal(f->port->ops->open_queue(f->port, &f->q, f->why), 0);
}

static void test_the_next_one_of_the_slot_is_not_fenced(void **state)
{
	struct fixture *f = *state;
	unsigned slot;
	pid_t pid;

	close_port(f);
	pid = start_member(f->ifindex);
	open_again(f);
	slot = slot_of(f);
	fence(f);
	add_flow(f, wide_of(&granted[0]));
	for (nsec_t until = clock_now() + DEADLINE;;) {
		open_again(f);
		if (slot_of(f) == slot || clock_now() > until)
			break;
		usleep(50000); /* the frames are in quarantine */
	}
	assert_int_equal(slot_of(f), slot);
	add_flow(f, wide_of(&others[0]));
	expect_steered(f, &others[0]);
	expect_passed(f, &granted[0]);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

#define OVER6(test)                                                   \
	{                                                             \
#test " (IPv6)", test, setup6, teardown_as_root, NULL \
	}

static const struct CMUnitTest tests[] = {
	OVER6(test_what_was_granted_comes),
	OVER6(test_what_was_not_granted_is_refused),
	OVER6(test_what_was_not_granted_cannot_be_taken),
	OVER6(test_the_next_one_of_the_slot_is_not_fenced),
	cmocka_unit_test_setup_teardown(test_what_was_granted_comes, setup, teardown_as_root),
	cmocka_unit_test_setup_teardown(test_what_was_not_granted_is_refused, setup,
					teardown_as_root),
	cmocka_unit_test_setup_teardown(test_what_was_not_granted_cannot_be_taken, setup,
					teardown_as_root),
	cmocka_unit_test_setup_teardown(test_the_fence_is_out_of_reach, setup, teardown_as_root),
	cmocka_unit_test_setup_teardown(test_the_next_one_of_the_slot_is_not_fenced, setup,
					teardown_as_root),
};

VMA_TEST_MAIN("xdp_fence", tests, make_topology, NULL)
