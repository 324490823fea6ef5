/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/loop_pair.h"

#include <errno.h>

#include "ring/loop/port_loop.h"
#include "ring/logic.h"
#include "tests/lib/loop_net.h"

#define PORT 7000
#define TCP_NODELAY 1 /* the names of states in netinet/tcp.h conflict with ours */

static const struct port_kind *const kinds[] = {&port_loop_kind, NULL};

static const char *variable(const char *name)
{
	return getenv(name);
}

void loop_pair_start(void)
{
	static const struct sock_hooks hooks;

	clock_init();
	param_init(variable);
	loop_net_enter();
	sock_init(&hooks);
	rings_init(kinds);
}

static struct tsock make(unsigned user)
{
	struct tsock ts = tsock_tcp();

	NET_CHECK(ts.fd >= 0);
	NET_CHECK_EQ(tsock_set_logic(&ts, RING_LOGIC_USER_ID, user, true, true), 0);
	return ts;
}

void loop_pair_open(struct loop_pair *pair, bool nodelay)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons(PORT),
				 .sin_addr.s_addr = fake_link_addr(0)};
	struct tsock listener = make(2);
	int rc;

	pair->from = make(1);
	NET_CHECK_EQ(tsock_set_int(&pair->from, IPPROTO_TCP, TCP_NODELAY, nodelay), 0);
	NET_CHECK_EQ(tsock_bind(&listener, at.sin_addr.s_addr, PORT), 0);
	NET_CHECK_EQ(tsock_listen(&listener, 1), 0);
	rc = tsock_connect(&pair->from, &at);
	NET_CHECK(!rc || rc == -EINPROGRESS);
	/* No other thread polls them. */
	while (!(sock_events(pair->from.ref.sk) & EPOLLOUT)) {
		sock_poll_ring(tsock_home(&listener));
		sock_poll_ring(tsock_home(&pair->from));
	}
	sock_poll_ring(tsock_home(&listener));
	NET_CHECK(tsock_accept(&listener, &pair->to, NULL) >= 0);
	tsock_close(&listener);
	tsock_block(&pair->from, true);
	tsock_block(&pair->to, true);
	NET_CHECK(tsock_home(&pair->from) != tsock_home(&pair->to));
}

void loop_pair_close(struct loop_pair *pair)
{
	tsock_close(&pair->to);
	tsock_close(&pair->from);
}
