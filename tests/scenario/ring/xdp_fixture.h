/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port with one queue; functions to inject frames at the other end of the link, and to
 * receive them.
 */
#ifndef TESTS_SCENARIO_RING_XDP_FIXTURE_H
#define TESTS_SCENARIO_RING_XDP_FIXTURE_H

#include <poll.h>

#include "xdp_veth.h"

struct fixture {
	struct port *port;
	struct port_queue *q;
	int inject_fd; /* at the peer's end */
	int sniff_fd;  /* at our end: frames that the program passed to the kernel */
	int ifindex;
	uint64_t number;
	char why[PORT_WHY];
};

static inline int setup_on(void **state, const char *pair)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char name[8];
	int rc;

	snprintf(name, sizeof(name), "%s0", pair);
	f->ifindex = (int)if_nametoindex(name);
	f->sniff_fd = packet_socket(name);
	snprintf(name, sizeof(name), "%s1", pair);
	setns(peer_fd, CLONE_NEWNET);
	f->inject_fd = packet_socket(name);
	setns(here_fd, CLONE_NEWNET);
	rc = port_xdp_open(f->ifindex, &f->port, f->why);
	if (rc)
		fail_msg("port_xdp_open: %d: %s", rc, f->why);
	rc = f->port->ops->open_queue(f->port, &f->q, f->why);
	if (rc)
		fail_msg("open_queue: %d: %s", rc, f->why);
	*state = f;
	return 0;
}

static inline int setup(void **state)
{
	return setup_on(state, "v");
}

static inline int setup_queues(void **state)
{
	return setup_on(state, "q");
}

static inline int setup_few_tx(void **state)
{
	return setup_on(state, "t");
}

static inline int setup_generic(void **state)
{
	return setup_on(state, "g");
}

static inline int setup_jumbo(void **state)
{
	return setup_on(state, "j");
}

static inline int setup_jumbo_generic(void **state)
{
	return setup_on(state, "h");
}

static inline void close_port(struct fixture *f)
{
	if (f->q)
		f->port->ops->close_queue(f->q);
	if (f->port)
		f->port->ops->free_port(f->port);
	f->q = NULL;
	f->port = NULL;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	close_port(f);
	close(f->inject_fd);
	close(f->sniff_fd);
	free(f);
	return 0;
}

static inline void add_flow(struct fixture *f, struct flow_key key)
{
	assert_int_equal(f->port->ops->add_flow(f->q, &key), 0);
}

static inline void del_flow(struct fixture *f, struct flow_key key)
{
	assert_int_equal(f->port->ops->del_flow(f->q, &key), 0);
}

static inline uint64_t inject(struct fixture *f, const struct spec *s)
{
	uint8_t frame[256];
	size_t len = make_frame(frame, s, ++f->number);

	assert_int_equal(send(f->inject_fd, frame, len, 0), len);
	return f->number;
}

/* The number of the next frame at the port; 0: none before the deadline. */
static inline uint64_t next_steered(struct fixture *f, nsec_t wait)
{
	nsec_t deadline = clock_now() + wait;
	struct pkt *pkt;
	uint64_t number;

	while (f->port->ops->rx_burst(f->q, &pkt, 1) == 0)
		if (clock_now() > deadline)
			return 0;
	assert_ptr_equal(pkt->pool, &f->q->pool);
	assert_true(pkt->frame_len <= pkt->room);
	assert_int_equal(pkt->stamp, 0);
	number = number_of(pkt->frame, pkt->frame_len);
	pkt_free(pkt);
	return number;
}

static inline uint64_t next_sniffed(int fd, nsec_t wait)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	uint8_t frame[4096];
	ssize_t len;

	if (poll(&pfd, 1, (int)(wait / NSEC_PER_MSEC)) <= 0)
		return 0;
	len = recv(fd, frame, sizeof(frame), MSG_DONTWAIT);
	return len < 0 ? 0 : number_of(frame, (size_t)len);
}

static inline void expect_steered(struct fixture *f, const struct spec *s)
{
	uint64_t number = inject(f, s);

	if (next_steered(f, DEADLINE) != number)
		fail_msg("not steered: %s", s->what);
	if (next_sniffed(f->sniff_fd, 0))
		fail_msg("steered, and passed as well: %s", s->what);
}

static inline void expect_passed(struct fixture *f, const struct spec *s)
{
	uint64_t number = inject(f, s);

	if (next_sniffed(f->sniff_fd, DEADLINE) != number)
		fail_msg("not passed: %s", s->what);
	if (next_steered(f, 0))
		fail_msg("passed, and steered as well: %s", s->what);
}

#endif
