/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast and broadcast. Here the sides have two links, and the client has two addresses on
 * the first one:
 *
 * 10.9.0.1, 10.9.0.3 client  v0 ------------ v0  server 10.9.0.2
 * 10.9.1.1                   v1 ------------ v1         10.9.1.2
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/diff/diff.h"
#include "tests/diff/mcast_same.h"

#define GROUP "239.9.9.1"
#define OTHER_GROUP "239.9.9.2"
#define ANY "0.0.0.0"
#define HERE "10.9.0.2"
#define FIRST "10.9.0.1"
#define SECOND "10.9.0.3"

static struct in_addr ip(const char *text)
{
	struct in_addr addr;

	inet_pton(AF_INET, text, &addr);
	return addr;
}

static struct sockaddr_in at(const char *text, unsigned i)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET, .sin_port = htons(port(i)), .sin_addr = ip(text)};

	return sin;
}

static int receiver(const char *address, unsigned i)
{
	struct sockaddr_in sin = at(address, i);
	int fd = (int)MUST(socket(AF_INET, SOCK_DGRAM, 0));

	set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	MUST(bind(fd, (struct sockaddr *)&sin, sizeof(sin)));
	return fd;
}

static int join_on(int fd, const char *group, const char *interface)
{
	struct ip_mreqn req = {.imr_multiaddr = ip(group),
			       .imr_ifindex = interface ? (int)if_nametoindex(interface) : 0};

	return setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &req, sizeof(req));
}

static int leave_on(int fd, const char *group, const char *interface)
{
	struct ip_mreqn req = {.imr_multiaddr = ip(group),
			       .imr_ifindex = interface ? (int)if_nametoindex(interface) : 0};

	return setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &req, sizeof(req));
}

static int source_call(int fd, int name, const char *group, const char *source)
{
	struct ip_mreq_source req = {.imr_multiaddr = ip(group),
				     .imr_sourceaddr = ip(source),
				     .imr_interface = ip(is_server ? "10.9.0.2" : "10.9.0.1")};

	return setsockopt(fd, IPPROTO_IP, name, &req, sizeof(req));
}

static void post(int fd, const char *to, unsigned i, const char *text)
{
	struct sockaddr_in sin = at(to, i);

	say_result(text, sendto(fd, text, strlen(text), 0, (struct sockaddr *)&sin, sizeof(sin)));
}

/* A socket that sends through an interface, from an address. */
static int sender(const char *interface, const char *address)
{
	int fd = (int)MUST(socket(AF_INET, SOCK_DGRAM, 0));
	struct ip_mreqn req = {.imr_ifindex = (int)if_nametoindex(interface)};

	MUST(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &req, sizeof(req)));
	if (address) {
		struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr = ip(address)};

		MUST(bind(fd, (struct sockaddr *)&sin, sizeof(sin)));
	}
	return fd;
}

/* ---- as of the other family: mcast_same.h ------------------------------------------------------ */

static const struct mcast_way way = {
	.group = GROUP,
	.other_group = OTHER_GROUP,
	.any = ANY,
	.here = HERE,
	.first = FIRST,
	.second = SECOND,
	.receiver = receiver,
	.join_on = join_on,
	.leave_on = leave_on,
	.sender = sender,
	.post = post,
};

static void two_interfaces(void)
{
	mcast_two_interfaces(&way);
}

static void bound_to_group(void)
{
	mcast_bound_to_group(&way);
}

static void several(void)
{
	mcast_several(&way);
}

static void ours_client(void)
{
	mcast_ours_client(&way);
}

static void plain_receiver(void)
{
	mcast_plain_receiver(&way);
}

/* The client sends the same datagrams each time the server asks for them. */
static void round_of_sending(void)
{
	int v0 = sender("v0", "10.9.0.1"), second = sender("v0", "10.9.0.3"),
	    v1 = sender("v1", NULL);

	for (;;) {
		long more = hear();

		if (!more)
			break;
		post(v0, GROUP, 0, "first");
		post(second, GROUP, 0, "second");
		post(v1, GROUP, 0, "v1");
		post(v0, OTHER_GROUP, 0, "other");
		post(v0, GROUP, 1, "port");
		post(v0, "10.9.0.2", 0, "unicast");
		tell(0);
	}
	close(v0);
	close(second);
	close(v1);
}

/* ---- joining and leaving -------------------------------------------------------------- */

static void join_and_leave(void)
{
	int fd = receiver("0.0.0.0", 0);

	SAY(join_on(fd, GROUP, NULL));
	ask_for_round();
	got("joined", fd);
	SAY(leave_on(fd, GROUP, NULL));
	ask_for_round();
	got("left", fd);
	SAY(join_on(fd, OTHER_GROUP, "v0"));
	SAY(join_on(fd, GROUP, "v0"));
	ask_for_round();
	got("joined two", fd);
	SAY(leave_on(fd, OTHER_GROUP, "v0"));
	ask_for_round();
	got("left one", fd);
	close(fd);
	end_of_rounds();
}

static void join_before_bind(void)
{
	struct sockaddr_in any = at("0.0.0.0", 0);
	int fd = (int)MUST(socket(AF_INET, SOCK_DGRAM, 0));

	SAY(join_on(fd, GROUP, "v0"));
	SAY(bind(fd, (struct sockaddr *)&any, sizeof(any)));
	ask_for_round();
	got("joined", fd);
	close(fd);
	end_of_rounds();
}

static void join_by_address(void)
{
	struct ip_mreq req = {ip(GROUP), ip("10.9.1.2")};
	struct ip_mreqn both = {ip(GROUP), ip("10.9.0.2"), (int)if_nametoindex("v1")};
	int fd = receiver("0.0.0.0", 0);

	SAY(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &req, sizeof(req)));
	ask_for_round();
	got("by v1's address", fd);
	SAY(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &both, sizeof(both)));
	SAY(setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &req, sizeof(req)));
	SAY(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &both, sizeof(both)));
	ask_for_round();
	got("by v1's number", fd);
	both.imr_ifindex = 0;
	SAY(setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &both, sizeof(both)));
	both.imr_address = ip("0.0.0.0");
	SAY(setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &both, sizeof(both)));
	ask_for_round();
	got("left", fd);
	close(fd);
	end_of_rounds();
}

/*
 * A socket that has not joined gets the groups that others of the host joined, unless
 * IP_MULTICAST_ALL is off.
 */
static void not_joined(void)
{
	int joined = receiver("0.0.0.0", 0), all = receiver("0.0.0.0", 0),
	    own = receiver("0.0.0.0", 0);

	SAY(get_int(own, IPPROTO_IP, IP_MULTICAST_ALL));
	set_int(own, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	SAY(join_on(joined, GROUP, "v0"));
	ask_for_round();
	got("joined", joined);
	got("all", all);
	got("own", own);
	SAY(join_on(own, OTHER_GROUP, "v0"));
	ask_for_round();
	got("joined", joined);
	got("all", all);
	got("own", own);
	set_int(own, IPPROTO_IP, IP_MULTICAST_ALL, 1);
	set_int(all, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	ask_for_round();
	got("all, not any more", all);
	got("own, and others'", own);
	set_int(all, IPPROTO_IP, IP_MULTICAST_ALL, 1);
	set_int(own, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	close(joined);
	ask_for_round();
	got("all", all);
	got("own", own);
	close(all);
	close(own);
	end_of_rounds();
}

static void multicast_all_alone(void)
{
	int joined = (int)MUST(socket(AF_INET, SOCK_DGRAM, 0)), all = receiver("0.0.0.0", 0);

	SAY(join_on(joined, GROUP, "v0")); /* a daemon that joins for others */
	ask_for_round();
	got("all", all);
	set_int(all, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	ask_for_round();
	got("not all", all);
	close(joined);
	close(all);
	end_of_rounds();
}

static void closing_leaves(void)
{
	int fd = receiver("0.0.0.0", 0);

	SAY(join_on(fd, GROUP, "v0"));
	ask_for_round();
	got("joined", fd);
	close(fd);
	fd = receiver("0.0.0.0", 0);
	ask_for_round();
	got("a new one", fd);
	close(fd);
	end_of_rounds();
}

static void connected_receiver(void)
{
	struct sockaddr_in sin = at("10.9.0.1", 5), none = {.sin_family = AF_UNSPEC};
	int fd = receiver("0.0.0.0", 0);

	SAY(join_on(fd, GROUP, "v0"));
	SAY(connect(fd, (struct sockaddr *)&sin, sizeof(sin)));
	ask_for_round();
	got("connected to somebody else", fd);
	SAY(connect(fd, (struct sockaddr *)&none, sizeof(none)));
	ask_for_round();
	got("dissolved", fd);
	close(fd);
	end_of_rounds();
}

/* ---- sources -------------------------------------------------------------------------- */

static void one_source(void)
{
	int fd = receiver("0.0.0.0", 0);

	SAY(source_call(fd, IP_ADD_SOURCE_MEMBERSHIP, GROUP, "10.9.0.3"));
	ask_for_round();
	got("from the second", fd);
	SAY(source_call(fd, IP_ADD_SOURCE_MEMBERSHIP, GROUP, "10.9.0.1"));
	ask_for_round();
	got("from both", fd);
	SAY(source_call(fd, IP_ADD_SOURCE_MEMBERSHIP, GROUP, "10.9.0.1"));
	SAY(source_call(fd, IP_DROP_SOURCE_MEMBERSHIP, GROUP, "10.9.0.3"));
	ask_for_round();
	got("from the first", fd);
	SAY(join_on(fd, GROUP, "v0"));
	SAY(source_call(fd, IP_DROP_SOURCE_MEMBERSHIP, GROUP, "10.9.0.1"));
	SAY(source_call(fd, IP_DROP_SOURCE_MEMBERSHIP, GROUP, "10.9.0.1"));
	ask_for_round();
	got("from nobody", fd);
	close(fd);
	end_of_rounds();
}

static void blocked_source(void)
{
	int fd = receiver("0.0.0.0", 0);

	SAY(source_call(fd, IP_BLOCK_SOURCE, GROUP, "10.9.0.1"));
	SAY(join_on(fd, GROUP, "v0"));
	SAY(source_call(fd, IP_BLOCK_SOURCE, GROUP, "10.9.0.1"));
	ask_for_round();
	got("the first is blocked", fd);
	SAY(source_call(fd, IP_BLOCK_SOURCE, GROUP, "10.9.0.1"));
	SAY(source_call(fd, IP_BLOCK_SOURCE, GROUP, "10.9.0.3"));
	ask_for_round();
	got("both are blocked", fd);
	SAY(source_call(fd, IP_UNBLOCK_SOURCE, GROUP, "10.9.0.1"));
	SAY(source_call(fd, IP_UNBLOCK_SOURCE, GROUP, "10.9.0.1"));
	ask_for_round();
	got("the second is blocked", fd);
	SAY(source_call(fd, IP_ADD_SOURCE_MEMBERSHIP, GROUP, "10.9.0.1"));
	SAY(leave_on(fd, GROUP, "v0"));
	ask_for_round();
	got("left", fd);
	close(fd);
	end_of_rounds();
}

static int set_filter(int fd, uint32_t mode, int n, const char *first, const char *second)
{
	char room[IP_MSFILTER_SIZE(2)];
	struct ip_msfilter *f = (struct ip_msfilter *)(void *)room;

	memset(room, 0, sizeof(room));
	f->imsf_multiaddr = ip(GROUP);
	f->imsf_interface = ip("10.9.0.2");
	f->imsf_fmode = mode;
	f->imsf_numsrc = (uint32_t)n;
	if (n > 0)
		f->imsf_slist[0] = ip(first);
	if (n > 1)
		memcpy(room + IP_MSFILTER_SIZE(1), &(struct in_addr){ip(second).s_addr}, 4);
	return setsockopt(fd, IPPROTO_IP, IP_MSFILTER, room,
			  (socklen_t)IP_MSFILTER_SIZE((unsigned)n));
}

static void say_filter(int fd)
{
	char room[IP_MSFILTER_SIZE(4)];
	struct ip_msfilter *f = (struct ip_msfilter *)(void *)room;
	socklen_t len = sizeof(room);

	memset(room, 0, sizeof(room));
	f->imsf_multiaddr = ip(GROUP);
	f->imsf_interface = ip("10.9.0.2");
	f->imsf_numsrc = 4;
	if (SAY(getsockopt(fd, IPPROTO_IP, IP_MSFILTER, room, &len)) == 0)
		say("mode %u, %u sources, length %u", f->imsf_fmode, f->imsf_numsrc, len);
}

static void filter(void)
{
	int fd = receiver("0.0.0.0", 0);

	SAY(set_filter(fd, MCAST_EXCLUDE, 1, "10.9.0.1", NULL));
	SAY(join_on(fd, GROUP, "v0"));
	say_filter(fd);
	SAY(set_filter(fd, MCAST_EXCLUDE, 1, "10.9.0.1", NULL));
	say_filter(fd);
	ask_for_round();
	got("without the first", fd);
	SAY(set_filter(fd, MCAST_INCLUDE, 1, "10.9.0.1", NULL));
	ask_for_round();
	got("the first alone", fd);
	SAY(set_filter(fd, MCAST_INCLUDE, 2, "10.9.0.1", "10.9.0.3"));
	ask_for_round();
	got("both", fd);
	SAY(set_filter(fd, MCAST_EXCLUDE, 0, NULL, NULL));
	ask_for_round();
	got("all", fd);
	SAY(set_filter(fd, MCAST_INCLUDE, 0, NULL, NULL));
	say_filter(fd);
	ask_for_round();
	got("none", fd);
	close(fd);
	end_of_rounds();
}

/* ---- the same by the calls that know no family ---------------------------------------- */

static int group_call(int fd, int name, const char *group, const char *interface)
{
	struct group_req req = {.gr_interface = interface ? if_nametoindex(interface) : 0};
	struct sockaddr_in sin = at(group, 0);

	memcpy(&req.gr_group, &sin, sizeof(sin));
	return setsockopt(fd, IPPROTO_IP, name, &req, sizeof(req));
}

static int group_source_call(int fd, int name, const char *group, const char *source)
{
	struct group_source_req req = {.gsr_interface = if_nametoindex("v0")};
	struct sockaddr_in sin = at(group, 0), from = at(source, 0);

	memcpy(&req.gsr_group, &sin, sizeof(sin));
	memcpy(&req.gsr_source, &from, sizeof(from));
	return setsockopt(fd, IPPROTO_IP, name, &req, sizeof(req));
}

static void any_family(void)
{
	int fd = receiver("0.0.0.0", 0);

	SAY(group_call(fd, MCAST_JOIN_GROUP, GROUP, NULL));
	SAY(group_call(fd, MCAST_JOIN_GROUP, GROUP, NULL));
	SAY(group_call(fd, MCAST_JOIN_GROUP, OTHER_GROUP, "v0"));
	ask_for_round();
	got("joined", fd);
	SAY(group_source_call(fd, MCAST_BLOCK_SOURCE, GROUP, "10.9.0.1"));
	SAY(group_call(fd, MCAST_LEAVE_GROUP, OTHER_GROUP, "v0"));
	ask_for_round();
	got("the first is blocked", fd);
	SAY(group_source_call(fd, MCAST_UNBLOCK_SOURCE, GROUP, "10.9.0.1"));
	SAY(group_call(fd, MCAST_LEAVE_GROUP, GROUP, NULL));
	SAY(group_call(fd, MCAST_LEAVE_GROUP, GROUP, NULL));
	ask_for_round();
	got("left", fd);
	SAY(group_source_call(fd, MCAST_JOIN_SOURCE_GROUP, GROUP, "10.9.0.3"));
	ask_for_round();
	got("from the second", fd);
	SAY(group_source_call(fd, MCAST_LEAVE_SOURCE_GROUP, GROUP, "10.9.0.3"));
	SAY(group_source_call(fd, MCAST_LEAVE_SOURCE_GROUP, GROUP, "10.9.0.3"));
	ask_for_round();
	got("left", fd);
	close(fd);
	end_of_rounds();
}

/* None of it passes the kernel. */
static void ours_server(void)
{
	int fd = receiver("0.0.0.0", 0), second = receiver("0.0.0.0", 0), all = receiver(GROUP, 0);

	SAY(group_call(fd, MCAST_JOIN_GROUP, GROUP, "v0"));
	SAY(group_source_call(fd, MCAST_BLOCK_SOURCE, GROUP, "10.9.0.1"));
	SAY(source_call(second, IP_ADD_SOURCE_MEMBERSHIP, GROUP, "10.9.0.1"));
	meet();
	meet();
	got("without the first", fd);
	got("the first alone", second);
	got("all", all);
	close(fd);
	close(second);
	close(all);
}

static void any_family_filter(void)
{
	char room[GROUP_FILTER_SIZE(2)];
	struct group_filter *f = (struct group_filter *)(void *)room;
	struct sockaddr_in sin = at(GROUP, 0), from = at("10.9.0.3", 0);
	socklen_t len = sizeof(room);
	int fd = receiver("0.0.0.0", 0);

	memset(room, 0, sizeof(room));
	f->gf_interface = if_nametoindex("v0");
	memcpy(&f->gf_group, &sin, sizeof(sin));
	f->gf_fmode = MCAST_INCLUDE;
	f->gf_numsrc = 1;
	memcpy(&f->gf_slist[0], &from, sizeof(from));
	SAY(join_on(fd, GROUP, "v0"));
	SAY(setsockopt(fd, IPPROTO_IP, MCAST_MSFILTER, room, GROUP_FILTER_SIZE(1)));
	ask_for_round();
	got("the second alone", fd);
	SAY(setsockopt(fd, IPPROTO_IP, MCAST_MSFILTER, room, GROUP_FILTER_SIZE(0)));
	f->gf_numsrc = 2;
	SAY(getsockopt(fd, IPPROTO_IP, MCAST_MSFILTER, room, &len));
	say("mode %u, %u sources", f->gf_fmode, f->gf_numsrc);
	close(fd);
	end_of_rounds();
}

/* The functions of libc for it. */
static void filter_calls(void)
{
	struct sockaddr_in group = at(GROUP, 0);
	struct sockaddr_storage sources[2] = {0};
	struct in_addr list[2] = {ip("10.9.0.1")};
	uint32_t mode = 7, n = 2;
	int fd = receiver("0.0.0.0", 0);
	unsigned v0 = if_nametoindex("v0");

	SAY(getipv4sourcefilter(fd, ip("10.9.0.2"), ip(GROUP), &mode, &n, list));
	SAY(join_on(fd, GROUP, "v0"));
	ask_for_round();
	got("all", fd);
	SAY(setipv4sourcefilter(fd, ip("10.9.0.2"), ip(GROUP), MCAST_EXCLUDE, 1, list));
	ask_for_round();
	got("without the first", fd);
	SAY(setipv4sourcefilter(fd, ip("10.9.0.2"), ip(GROUP), MCAST_INCLUDE, 1, list));
	SAY(getipv4sourcefilter(fd, ip("10.9.0.2"), ip(GROUP), &mode, &n, list));
	say("mode %u, %u sources, %x", mode, n, ntohl(list[0].s_addr));
	ask_for_round();
	got("the first alone", fd);
	memcpy(&sources[0],
	       &(struct sockaddr_in){.sin_family = AF_INET, .sin_addr = ip("10.9.0.3")},
	       sizeof(struct sockaddr_in));
	SAY(setsourcefilter(fd, v0, (struct sockaddr *)&group, sizeof(group), MCAST_INCLUDE, 1,
			    sources));
	ask_for_round();
	got("the second alone", fd);
	memset(sources, 0, sizeof(sources));
	n = 2;
	SAY(getsourcefilter(fd, v0, (struct sockaddr *)&group, sizeof(group), &mode, &n, sources));
	say("mode %u, %u sources", mode, n);
	say_addr("source", &sources[0], sizeof(struct sockaddr_in));
	n = 0;
	SAY(getsourcefilter(fd, v0, (struct sockaddr *)&group, sizeof(group), &mode, &n, sources));
	say("mode %u, %u sources", mode, n);
	SAY(setsourcefilter(fd, v0 + 1000, (struct sockaddr *)&group, sizeof(group), MCAST_INCLUDE,
			    1, sources));
	SAY(setsourcefilter(fd, v0, (struct sockaddr *)&group, sizeof(group), 7, 0, sources));
	SAY(setipv4sourcefilter(fd, ip("10.9.0.77"), ip(GROUP), MCAST_INCLUDE, 1, list));
	group.sin_family = AF_UNIX;
	SAY(setsourcefilter(fd, v0, (struct sockaddr *)&group, sizeof(group), MCAST_INCLUDE, 0,
			    sources));
	SAY(setsourcefilter(fd, v0, (struct sockaddr *)&group, 3, MCAST_INCLUDE, 0, sources));
	close(fd);
	end_of_rounds();
}

/* ---- errors and limits ---------------------------------------------------------------- */

static void errors(void)
{
	struct ip_mreqn req = {ip(GROUP), ip("10.9.0.77"), 0};
	struct ip_mreq_source source = {ip(GROUP), ip("10.9.0.77"), ip("10.9.0.1")};
	int fd = receiver("0.0.0.0", 0);

	SAY(join_on(fd, GROUP, "v0"));
	SAY(join_on(fd, GROUP, "v0"));
	SAY(join_on(fd, GROUP, NULL));
	SAY(leave_on(fd, OTHER_GROUP, "v0"));
	SAY(join_on(fd, "10.9.0.2", "v0"));
	SAY(join_on(fd, "0.0.0.0", NULL));
	SAY(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &req, sizeof(req)));
	req.imr_ifindex = 12345;
	SAY(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &req, sizeof(req)));
	SAY(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &req, 4));
	SAY(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &req, 8));
	SAY(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, (void *)8, 8));
	SAY(setsockopt(fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &source, 8));
	SAY(setsockopt(fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &source, sizeof(source)));
	SAY(source_call(fd, IP_ADD_SOURCE_MEMBERSHIP, GROUP, "10.9.0.1"));
	SAY(source_call(fd, IP_DROP_SOURCE_MEMBERSHIP, OTHER_GROUP, "10.9.0.1"));
	SAY(group_call(fd, MCAST_JOIN_GROUP, "10.9.0.2", "v0"));
	SAY(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &req, sizeof(req)));
	close(fd);
}

static void limits(void)
{
	int fd = receiver("0.0.0.0", 0), n = 0, sources = 0;
	char group[32];

	for (int i = 1; i < 40; i++) {
		snprintf(group, sizeof(group), "239.9.8.%d", i);
		if (join_on(fd, group, "v0"))
			break;
		n++;
	}
	say_result("one more", -1);
	say("%d memberships", n);
	SAY(leave_on(fd, "239.9.8.1", "v0"));
	for (int i = 1; i < 40; i++) {
		snprintf(group, sizeof(group), "10.9.0.%d", i);
		if (source_call(fd, IP_ADD_SOURCE_MEMBERSHIP, GROUP, group))
			break;
		sources++;
	}
	say_result("one more", -1);
	say("%d sources", sources);
	close(fd);
}

/* ---- sending -------------------------------------------------------------------------- */

static void loop_client(void)
{
	int own = receiver("0.0.0.0", 0), fd = sender("v0", NULL);

	MUST(join_on(own, GROUP, "v0"));
	meet();
	SAY(get_int(fd, IPPROTO_IP, IP_MULTICAST_LOOP));
	post(fd, GROUP, 0, "loop");
	set_int(fd, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
	post(fd, GROUP, 0, "no-loop");
	set_int(own, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
	set_int(fd, IPPROTO_IP, IP_MULTICAST_LOOP, 1);
	post(fd, GROUP, 0, "again");
	got("own", own);
	/* A socket receives its own datagram. */
	set_int(own, IPPROTO_IP, IP_MULTICAST_LOOP, 1);
	post(own, GROUP, 0, "myself");
	got("own", own);
	meet();
	close(own);
	close(fd);
}

static void ttl_client(void)
{
	int own = receiver("0.0.0.0", 0), fd = sender("v0", NULL);

	MUST(join_on(own, GROUP, "v0"));
	meet();
	SAY(get_int(fd, IPPROTO_IP, IP_MULTICAST_TTL));
	set_int(fd, IPPROTO_IP, IP_MULTICAST_TTL, 0);
	post(fd, GROUP, 0, "zero");
	set_int(fd, IPPROTO_IP, IP_MULTICAST_TTL, 1);
	post(fd, GROUP, 0, "one");
	set_int(fd, IPPROTO_IP, IP_MULTICAST_TTL, -1);
	post(fd, GROUP, 0, "default");
	got("own", own);
	meet();
	close(own);
	close(fd);
}

static void say_source(int fd)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char buf[32] = "";

	while (arrives(fd, QUIET_MS)) {
		long n = recvfrom(fd, buf, sizeof(buf) - 1, MSG_DONTWAIT, (struct sockaddr *)&from,
				  &len);

		if (n < 0)
			break;
		buf[n] = 0;
		say_addr(buf, &from, len);
	}
}

static void interface_server(void)
{
	int fd = receiver("0.0.0.0", 0);

	int second = receiver("0.0.0.0", 0);

	set_int(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	set_int(second, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	MUST(join_on(fd, GROUP, "v0"));
	MUST(join_on(second, GROUP, "v1"));
	meet();
	meet();
	say_source(fd);
	say_source(second);
	close(fd);
	close(second);
}

static void say_interface(int fd)
{
	struct in_addr is = {0};
	socklen_t len = sizeof(is);

	SAY(getsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &is, &len));
	say("interface %08x", ntohl(is.s_addr));
}

static void interface_client(void)
{
	struct in_addr addr = ip("10.9.1.1");
	struct ip_mreqn req = {.imr_ifindex = (int)if_nametoindex("v0")};
	int fd = (int)MUST(socket(AF_INET, SOCK_DGRAM, 0));

	meet();
	say_interface(fd);
	post(fd, GROUP, 0, "by route");
	SAY(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &addr, sizeof(addr)));
	say_interface(fd);
	post(fd, GROUP, 0, "by v1's address");
	SAY(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &req, sizeof(req)));
	say_interface(fd);
	post(fd, GROUP, 0, "by v0's number");
	req.imr_address = ip("10.9.0.3");
	SAY(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &req, sizeof(req)));
	say_interface(fd);
	post(fd, GROUP, 0, "by number, from");
	addr = ip("10.9.0.3");
	SAY(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &addr, sizeof(addr)));
	post(fd, GROUP, 0, "by an address");
	addr = ip("10.9.0.77");
	SAY(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &addr, sizeof(addr)));
	req.imr_ifindex = 12345;
	SAY(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &req, sizeof(req)));
	SAY(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &req, 3));
	addr = ip("0.0.0.0");
	SAY(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &addr, sizeof(addr)));
	say_interface(fd);
	post(fd, GROUP, 0, "by route again");
	meet();
	close(fd);
}

static void connected_sender(void)
{
	struct sockaddr_in to = at(GROUP, 0), sin;
	socklen_t len = sizeof(sin);
	int fd = sender("v1", NULL);

	meet();
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(getsockname(fd, (struct sockaddr *)&sin, &len));
	say_addr("name", &sin, len);
	SAY(send(fd, "connected", 9, 0));
	SAY(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_TTL, &(int){3}, 4));
	SAY(send(fd, "and again", 9, 0));
	meet();
	close(fd);
}

static void bound_sender(void)
{
	struct sockaddr_in from = at("10.9.0.3", 4);
	int fd = (int)MUST(socket(AF_INET, SOCK_DGRAM, 0));

	MUST(bind(fd, (struct sockaddr *)&from, sizeof(from)));
	meet();
	post(fd, GROUP, 0, "bound");
	SAY(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "v1", 2));
	post(fd, GROUP, 0, "to v1");
	meet();
	close(fd);
}

/* Unicast through an interface that the route would not choose: no host answers there. */
static void unicast_interface(void)
{
	uint32_t v1 = htonl(if_nametoindex("v1")), v0 = htonl(if_nametoindex("v0"));
	struct sockaddr_in to = at("10.9.0.2", 0);
	int fd = (int)MUST(socket(AF_INET, SOCK_DGRAM, 0));

	meet();
	SAY(setsockopt(fd, IPPROTO_IP, IP_UNICAST_IF, &v1, sizeof(v1)));
	post(fd, "10.9.0.2", 0, "astray");
	SAY(setsockopt(fd, IPPROTO_IP, IP_UNICAST_IF, &v0, sizeof(v0)));
	post(fd, "10.9.0.2", 0, "on its way");
	SAY(setsockopt(fd, IPPROTO_IP, IP_UNICAST_IF, &v1, sizeof(v1)));
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "v0", 2));
	post(fd, "10.9.0.2", 0, "bound");
	meet();
	close(fd);
}

static void large_client(void)
{
	static char data[8000];
	struct sockaddr_in to = at(GROUP, 0);
	int fd = sender("v0", NULL);

	memset(data, 'x', sizeof(data));
	meet();
	SAY(sendto(fd, data, sizeof(data), 0, (struct sockaddr *)&to, sizeof(to)));
	meet();
	close(fd);
}

static void large_server(void)
{
	static char data[9000];
	int fd = receiver("0.0.0.0", 0);

	MUST(join_on(fd, GROUP, "v0"));
	meet();
	meet();
	await(fd, POLLIN);
	say_bytes(data, (size_t)SAY(recv(fd, data, sizeof(data), MSG_DONTWAIT)));
	close(fd);
}

/* ---- SO_BINDTODEVICE ------------------------------------------------------------------- */

static void device_server(void)
{
	int fd = receiver("0.0.0.0", 0), group = receiver("0.0.0.0", 1);

	MUST(join_on(group, GROUP, "v0"));
	MUST(join_on(group, GROUP, "v1"));
	for (int i = 0; i < 4; i++) {
		meet();
		meet();
		got("unicast", fd);
		got("group", group);
		if (i == 3)
			break;
		SAY(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, i == 1 ? "" : "v1",
			       i == 1 ? 0 : 2));
		SAY(setsockopt(group, SOL_SOCKET, SO_BINDTODEVICE, i == 1 ? "" : "v1",
			       i == 1 ? 0 : 2));
	}
	close(fd);
	close(group);
}

static void device_client(void)
{
	int v0 = sender("v0", "10.9.0.1"), v1 = sender("v1", "10.9.1.1");

	for (int i = 0; i < 4; i++) {
		meet();
		post(v0, "10.9.0.2", 0, "v0");
		post(v1, "10.9.1.2", 0, "v1");
		post(v0, GROUP, 1, "v0");
		post(v1, GROUP, 1, "v1");
		meet();
	}
	close(v0);
	close(v1);
}

static int listener_on(unsigned i)
{
	struct sockaddr_in any = at("0.0.0.0", i);
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	MUST(bind(fd, (struct sockaddr *)&any, sizeof(any)));
	MUST(listen(fd, 5));
	return fd;
}

static void device_listener_server(void)
{
	int fd = listener_on(0);

	meet();
	meet();
	SAY(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "v1", 2));
	meet();
	meet();
	SAY(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "", 0));
	meet();
	meet();
	close(fd);
}

static void try_to_connect(const char *what, const char *to)
{
	struct sockaddr_in sin = at(to, 0);
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	say_result(what, connect(fd, (struct sockaddr *)&sin, sizeof(sin)));
	close(fd);
}

static void device_listener_client(void)
{
	for (int i = 0; i < 3; i++) {
		meet();
		try_to_connect("by v0", "10.9.0.2");
		try_to_connect("by v1", "10.9.1.2");
		meet();
	}
}

/* ---- broadcast ------------------------------------------------------------------------ */

static void broadcast_server(void)
{
	int any = receiver("0.0.0.0", 0), own = receiver("10.9.0.2", 0),
	    net = receiver("10.9.0.255", 0), all = receiver("255.255.255.255", 0),
	    second = receiver("0.0.0.0", 0);

	meet();
	meet();
	got("any", any);
	got("own", own);
	got("net", net);
	got("all", all);
	got("second", second);
	close(any);
	close(own);
	close(net);
	close(all);
	close(second);
}

static void broadcast_client(void)
{
	int fd = (int)MUST(socket(AF_INET, SOCK_DGRAM, 0)), own = receiver("0.0.0.0", 0);

	meet();
	post(fd, "10.9.0.255", 0, "refused");
	set_int(fd, SOL_SOCKET, SO_BROADCAST, 1);
	post(fd, "10.9.0.255", 0, "net");
	MUST(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "v0", 2));
	post(fd, "255.255.255.255", 0, "all");
	post(fd, "10.9.0.2", 0, "unicast");
	set_int(fd, SOL_SOCKET, SO_BROADCAST, 0);
	post(fd, "10.9.0.255", 0, "refused");
	got("own", own);
	meet();
	close(fd);
	close(own);
}

/*
 * KERNEL: the kernel receives groups that no accelerated socket joined, and frames for several
 * sockets.
 */
const struct behaviour mcast_behaviours[] = {
	/* First: these senders have not been checked before. */
	{"filter", filter, round_of_sending, KERNEL},
	{"blocked_source", blocked_source, round_of_sending, KERNEL},
	{"join_and_leave", join_and_leave, round_of_sending, KERNEL},
	{"join_before_bind", join_before_bind, round_of_sending, KERNEL},
	{"two_interfaces", two_interfaces, round_of_sending, KERNEL},
	{"join_by_address", join_by_address, round_of_sending, KERNEL},
	{"bound_to_group", bound_to_group, round_of_sending, KERNEL},
	{"several", several, round_of_sending, KERNEL},
	{"not_joined", not_joined, round_of_sending, KERNEL},
	{"multicast_all_alone", multicast_all_alone, round_of_sending, KERNEL},
	{"closing_leaves", closing_leaves, round_of_sending, KERNEL},
	{"connected_receiver", connected_receiver, round_of_sending, KERNEL},
	{"one_source", one_source, round_of_sending, KERNEL},
	{"any_family", any_family, round_of_sending, KERNEL},
	{"any_family_filter", any_family_filter, round_of_sending, KERNEL},
	{"filter_calls", filter_calls, round_of_sending, KERNEL},
	{"ours", ours_server, ours_client, OURS},
	{"errors", NULL, errors, OURS},
	{"limits", limits, NULL, OURS},
	{"loop", plain_receiver, loop_client, KERNEL},
	{"ttl", plain_receiver, ttl_client, KERNEL},
	{"interface", interface_server, interface_client, OURS},
	{"connected_sender", interface_server, connected_sender, OURS},
	{"bound_sender", interface_server, bound_sender, OURS},
	{"unicast_interface", plain_receiver, unicast_interface, KERNEL},
	{"large", large_server, large_client, KERNEL},
	{"device", device_server, device_client, KERNEL},
	{"device_listener", device_listener_server, device_listener_client, KERNEL},
	{"broadcast", broadcast_server, broadcast_client, KERNEL},
	{0},
};
