/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IPv6 multicast.  The sides have two links, and the client has two addresses on the first one, besides
 * the link-local ones (diff_test.sh):
 *
 * fd00:9::1, fd00:9::3, fe80::1 client  v0 ------------ v0  server fe80::2, fd00:9::2
 * fd00:9:1::1, fe80::1                  v1 ------------ v1         fe80::2, fd00:9:1::2
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/diff/in6.h"
#include "tests/diff/mcast_same.h"

#define GROUP "ff05::9:1"
#define OTHER_GROUP "ff05::9:2"
#define LINK_GROUP "ff02::9:3"
#define FIRST "fd00:9::1"
#define SECOND "fd00:9::3"
#define ANY "::"
#define HERE "fd00:9::2"

static int receiver(const char *address, unsigned i)
{
	struct sockaddr_in6 sin6 = at(address, i, NULL);
	int fd = (int)MUST(socket(AF_INET6, SOCK_DGRAM, 0));

	set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	MUST(bind(fd, SA(sin6), sizeof(sin6)));
	return fd;
}

static int mreq_call(int fd, int name, const char *group, const char *link)
{
	struct ipv6_mreq req = {.ipv6mr_interface = index_of(link)};

	inet_pton(AF_INET6, group, &req.ipv6mr_multiaddr);
	return setsockopt(fd, IPPROTO_IPV6, name, &req, sizeof(req));
}

static int join_on(int fd, const char *group, const char *link)
{
	return mreq_call(fd, IPV6_ADD_MEMBERSHIP, group, link);
}

static int leave_on(int fd, const char *group, const char *link)
{
	return mreq_call(fd, IPV6_DROP_MEMBERSHIP, group, link);
}

static int group_call(int fd, int name, const char *group, const char *link)
{
	struct group_req req = {.gr_interface = index_of(link)};
	struct sockaddr_in6 sin6 = at(group, 0, NULL);

	memcpy(&req.gr_group, &sin6, sizeof(sin6));
	return setsockopt(fd, IPPROTO_IPV6, name, &req, sizeof(req));
}

static int source_call(int fd, int name, const char *group, const char *source)
{
	struct group_source_req req = {.gsr_interface = index_of("v0")};
	struct sockaddr_in6 sin6 = at(group, 0, NULL), from = at(source, 0, NULL);

	memcpy(&req.gsr_group, &sin6, sizeof(sin6));
	memcpy(&req.gsr_source, &from, sizeof(from));
	return setsockopt(fd, IPPROTO_IPV6, name, &req, sizeof(req));
}

static void post_by(int fd, const char *to, unsigned i, const char *link, const char *text)
{
	struct sockaddr_in6 sin6 = at(to, i, link);

	say_result(text, sendto(fd, text, strlen(text), 0, SA(sin6), sizeof(sin6)));
}

static void post(int fd, const char *to, unsigned i, const char *text)
{
	post_by(fd, to, i, NULL, text);
}

/* A socket that sends to groups through an interface, from an address. */
static int sender(const char *link, const char *address)
{
	int fd = (int)MUST(socket(AF_INET6, SOCK_DGRAM, 0));
	struct sockaddr_in6 sin6 = at(address ? address : "::", 0, NULL);

	set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)index_of(link));
	sin6.sin6_port = 0;
	MUST(bind(fd, SA(sin6), sizeof(sin6)));
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
	int v0 = sender("v0", FIRST), second = sender("v0", SECOND), v1 = sender("v1", NULL);

	while (hear()) {
		post(v0, GROUP, 0, "first");
		post(second, GROUP, 0, "second");
		post(v1, GROUP, 0, "v1");
		post(v0, OTHER_GROUP, 0, "other");
		post(v0, GROUP, 1, "port");
		post(v0, "fd00:9::2", 0, "unicast");
		tell(0);
	}
	close(v0);
	close(second);
	close(v1);
}

/* ---- joining and leaving -------------------------------------------------------------- */

static void join_and_leave(void)
{
	int fd = receiver("::", 0);

	SAY(join_on(fd, GROUP, NULL));
	ask_for_round();
	got("joined", fd);
	SAY(leave_on(fd, GROUP, NULL));
	ask_for_round();
	got("left", fd);
	SAY(group_call(fd, MCAST_JOIN_GROUP, OTHER_GROUP, "v0"));
	SAY(join_on(fd, GROUP, "v0"));
	ask_for_round();
	got("joined two", fd);
	SAY(group_call(fd, MCAST_LEAVE_GROUP, OTHER_GROUP, "v0"));
	ask_for_round();
	got("left one", fd);
	close(fd);
	fd = receiver("::", 0);
	ask_for_round();
	got("a new one", fd);
	close(fd);
	end_of_rounds();
}

static void join_before_bind(void)
{
	struct sockaddr_in6 any = at("::", 0, NULL);
	int fd = (int)MUST(socket(AF_INET6, SOCK_DGRAM, 0));

	SAY(join_on(fd, GROUP, "v0"));
	SAY(bind(fd, SA(any), sizeof(any)));
	ask_for_round();
	got("joined", fd);
	close(fd);
	end_of_rounds();
}

/* A membership is one on every interface that somebody has joined on; a device limits it. */
static void others_interface(void)
{
	int a = receiver("::", 0), b = receiver("::", 0), bound = receiver("::", 0);

	set_int(bound, SOL_SOCKET, SO_BINDTOIFINDEX, (int)index_of("v1"));
	SAY(join_on(a, GROUP, "v0"));
	SAY(join_on(b, GROUP, "v1"));
	SAY(join_on(bound, GROUP, "v1"));
	ask_for_round();
	got("joined on v0", a);
	got("joined on v1", b);
	got("bound to v1", bound);
	SAY(source_call(a, MCAST_BLOCK_SOURCE, GROUP, FIRST));
	ask_for_round();
	got("joined on v0, without the first", a);
	got("joined on v1", b);
	SAY(leave_on(a, GROUP, "v0"));
	set_int(a, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
	ask_for_round();
	got("left", a);
	got("joined on v1", b);
	close(a);
	close(b);
	close(bound);
	end_of_rounds();
}

static void not_joined(void)
{
	int joined = receiver("::", 0), all = receiver("::", 0), own = receiver("::", 0);

	SAY(get_int(own, IPPROTO_IPV6, IPV6_MULTICAST_ALL));
	set_int(own, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
	SAY(join_on(joined, GROUP, "v0"));
	ask_for_round();
	got("joined", joined);
	got("all", all);
	got("own", own);
	SAY(source_call(joined, MCAST_BLOCK_SOURCE, GROUP, FIRST));
	ask_for_round();
	got("without the first", joined);
	got("all", all);
	SAY(source_call(joined, MCAST_UNBLOCK_SOURCE, GROUP, FIRST));
	set_int(own, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 1);
	set_int(all, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
	ask_for_round();
	got("all, not any more", all);
	got("own, and others'", own);
	close(joined);
	ask_for_round();
	got("all", all);
	got("own", own);
	close(all);
	close(own);
	end_of_rounds();
}

static void connected_receiver(void)
{
	struct sockaddr_in6 sin6 = at(FIRST, 5, NULL);
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	int fd = receiver("::", 0);

	SAY(join_on(fd, GROUP, "v0"));
	SAY(connect(fd, SA(sin6), sizeof(sin6)));
	ask_for_round();
	got("connected to somebody else", fd);
	SAY(connect(fd, &none, sizeof(none)));
	ask_for_round();
	got("dissolved", fd);
	close(fd);
	end_of_rounds();
}

/* ---- sources -------------------------------------------------------------------------- */

static void sources(void)
{
	int fd = receiver("::", 0);

	SAY(source_call(fd, MCAST_JOIN_SOURCE_GROUP, GROUP, SECOND));
	ask_for_round();
	got("from the second", fd);
	SAY(source_call(fd, MCAST_JOIN_SOURCE_GROUP, GROUP, FIRST));
	ask_for_round();
	got("from both", fd);
	SAY(source_call(fd, MCAST_LEAVE_SOURCE_GROUP, GROUP, SECOND));
	SAY(source_call(fd, MCAST_LEAVE_SOURCE_GROUP, GROUP, SECOND));
	ask_for_round();
	got("from the first", fd);
	SAY(leave_on(fd, GROUP, "v0"));
	SAY(join_on(fd, GROUP, "v0"));
	SAY(source_call(fd, MCAST_BLOCK_SOURCE, GROUP, FIRST));
	ask_for_round();
	got("the first is blocked", fd);
	SAY(source_call(fd, MCAST_UNBLOCK_SOURCE, GROUP, FIRST));
	ask_for_round();
	got("nobody is blocked", fd);
	close(fd);
	end_of_rounds();
}

static void filter(void)
{
	char room[GROUP_FILTER_SIZE(2)];
	struct group_filter *f = (struct group_filter *)(void *)room;
	struct sockaddr_in6 sin6 = at(GROUP, 0, NULL), from = at(SECOND, 0, NULL);
	socklen_t len = sizeof(room);
	int fd = receiver("::", 0);

	memset(room, 0, sizeof(room));
	f->gf_interface = index_of("v0");
	memcpy(&f->gf_group, &sin6, sizeof(sin6));
	f->gf_fmode = MCAST_INCLUDE;
	f->gf_numsrc = 1;
	memcpy(&f->gf_slist[0], &from, sizeof(from));
	SAY(setsockopt(fd, IPPROTO_IPV6, MCAST_MSFILTER, room, GROUP_FILTER_SIZE(1)));
	SAY(join_on(fd, GROUP, "v0"));
	SAY(setsockopt(fd, IPPROTO_IPV6, MCAST_MSFILTER, room, GROUP_FILTER_SIZE(1)));
	ask_for_round();
	got("the second alone", fd);
	f->gf_fmode = MCAST_EXCLUDE;
	SAY(setsockopt(fd, IPPROTO_IPV6, MCAST_MSFILTER, room, GROUP_FILTER_SIZE(1)));
	ask_for_round();
	got("without the second", fd);
	f->gf_numsrc = 2;
	SAY(getsockopt(fd, IPPROTO_IPV6, MCAST_MSFILTER, room, &len));
	say("mode %u, %u sources", f->gf_fmode, f->gf_numsrc);
	close(fd);
	end_of_rounds();
}

static void errors(void)
{
	struct ipv6_mreq req = {.ipv6mr_interface = 12345};
	int fd = receiver("::", 0);

	inet_pton(AF_INET6, GROUP, &req.ipv6mr_multiaddr);
	SAY(join_on(fd, GROUP, "v0"));
	SAY(join_on(fd, GROUP, "v0"));
	SAY(leave_on(fd, OTHER_GROUP, "v0"));
	SAY(join_on(fd, "fd00:9::2", "v0"));
	SAY(join_on(fd, "::", NULL));
	SAY(setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &req, sizeof(req)));
	SAY(setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &req, 4));
	SAY(setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, (void *)8, sizeof(req)));
	SAY(source_call(fd, MCAST_LEAVE_SOURCE_GROUP, OTHER_GROUP, FIRST));
	SAY(setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &(int){12345}, sizeof(int)));
	SAY(setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, &(int){256}, sizeof(int)));
	SAY(setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &(int){2}, sizeof(int)));
	set_int(fd, SOL_SOCKET, SO_BINDTOIFINDEX, (int)index_of("v0"));
	SAY(setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &(int){(int)index_of("v1")},
		       sizeof(int)));
	close(fd);
}

/* ---- what a datagram says of itself ---------------------------------------------------- */

static const char *link_text(unsigned index)
{
	static char name[IF_NAMESIZE];

	return !index ? "none" : if_indextoname(index, name) ? name : "?";
}

static void show(int fd)
{
	union {
		struct cmsghdr head;
		char bytes[200];
	} control;
	struct sockaddr_in6 from = {.sin6_family = AF_INET6};
	char buf[100] = "", ip[INET6_ADDRSTRLEN], to[INET6_ADDRSTRLEN];
	struct iovec iov = {buf, sizeof(buf) - 1};
	struct msghdr msg = {.msg_name = &from,
			     .msg_namelen = sizeof(from),
			     .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	struct in6_pktinfo info = {.ipi6_ifindex = 0};
	int hops = -1;

	await(fd, POLLIN);
	MUST(recvmsg(fd, &msg, MSG_DONTWAIT));
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO)
			memcpy(&info, CMSG_DATA(c), sizeof(info));
		else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT)
			memcpy(&hops, CMSG_DATA(c), sizeof(hops));
	}
	say("%s: from %s%%%s to %s of %s, hop limit %d", buf,
	    inet_ntop(AF_INET6, &from.sin6_addr, ip, sizeof(ip)), link_text(from.sin6_scope_id),
	    inet_ntop(AF_INET6, &info.ipi6_addr, to, sizeof(to)), link_text(info.ipi6_ifindex),
	    hops);
}

/* None of it passes the kernel; each datagram is waited for, so that they have an order. */
static void sent_server(void)
{
	int fd = receiver("::", 0);

	set_int(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	set_int(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
	for (unsigned i = 0; i < 2; i++) {
		SAY(join_on(fd, GROUP, i ? "v1" : "v0"));
		SAY(join_on(fd, LINK_GROUP, i ? "v1" : "v0"));
	}
	meet();
	while (hear()) {
		show(fd);
		tell(0);
	}
	close(fd);
}

static void shown(void)
{
	tell(1);
	hear();
}

static void sent_client(void)
{
	int fd = sender(NULL, NULL);

	meet();
	set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)index_of("v1"));
	SAY_IF(get_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF) == (int)index_of("v1"));
	SAY(get_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS));
	post(fd, GROUP, 0, "by IPV6_MULTICAST_IF");
	shown();
	post(fd, LINK_GROUP, 0, "link scope by it");
	shown();
	post_by(fd, LINK_GROUP, 0, "v0", "the scope counts more");
	shown();
	set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 7);
	post(fd, GROUP, 0, "7 hops");
	shown();
	set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, -1);
	post(fd, GROUP, 0, "default");
	shown();
	set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, 0);
	set_int(fd, SOL_SOCKET, SO_BINDTOIFINDEX, (int)index_of("v1"));
	post(fd, LINK_GROUP, 0, "by the device");
	shown();
	tell(0);
	close(fd);
}

/* connect(2) to groups. */
static void connected_client(void)
{
	struct sockaddr_in6 to = at(GROUP, 0, NULL), link = at(LINK_GROUP, 0, "v1"),
			    bare = at(LINK_GROUP, 0, NULL), name;
	socklen_t len = sizeof(name);
	int fd = sender("v0", NULL);

	meet();
	SAY(connect(fd, SA(to), sizeof(to)));
	SAY(send(fd, "connected", 9, 0));
	shown();
	close(fd);
	fd = (int)MUST(socket(AF_INET6, SOCK_DGRAM, 0));
	SAY(connect(fd, SA(bare), sizeof(bare)));
	SAY(connect(fd, SA(link), sizeof(link)));
	SAY(getpeername(fd, SA(name), &len));
	say("scope %s, device %s", link_text(name.sin6_scope_id),
	    link_text((unsigned)get_int(fd, SOL_SOCKET, SO_BINDTOIFINDEX)));
	SAY(send(fd, "connected by scope", 18, 0));
	shown();
	tell(0);
	close(fd);
}

/* None of it passes the kernel. */
static void ours_server(void)
{
	int fd = receiver("::", 0), second = receiver("::", 0), all = receiver(GROUP, 0);

	SAY(join_on(fd, GROUP, "v0"));
	SAY(source_call(fd, MCAST_BLOCK_SOURCE, GROUP, FIRST));
	SAY(source_call(second, MCAST_JOIN_SOURCE_GROUP, GROUP, FIRST));
	meet();
	meet();
	got("without the first", fd);
	got("the first alone", second);
	got("all", all);
	close(fd);
	close(second);
	close(all);
}

/* ---- members on the sender's host ------------------------------------------------------ */

static void loop_client(void)
{
	int own = receiver("::", 0), fd = sender("v0", NULL);

	MUST(join_on(own, GROUP, "v0"));
	meet();
	SAY(get_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP));
	post(fd, GROUP, 0, "loop");
	set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0);
	post(fd, GROUP, 0, "no-loop");
	set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 1);
	set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 0);
	post(fd, GROUP, 0, "no-hops");
	got("own", own);
	set_int(own, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)index_of("v0"));
	post(own, GROUP, 0, "myself");
	got("own", own);
	meet();
	close(own);
	close(fd);
}

/* Large ones are sent in fragments, which the kernel receives. */
static void large_client(void)
{
	static char large[4000];
	struct sockaddr_in6 to = at(GROUP, 0, NULL);
	int fd = sender("v0", NULL);

	meet();
	SAY(sendto(fd, large, sizeof(large), 0, SA(to), sizeof(to)));
	hear();
	close(fd);
}

static void large_server(void)
{
	static char large[5000];
	int fd = receiver("::", 0);

	MUST(join_on(fd, GROUP, "v0"));
	meet();
	await(fd, POLLIN);
	SAY(recv(fd, large, sizeof(large), 0));
	tell(0);
	close(fd);
}

const struct behaviour mcast6_behaviours[] = {
	{"join_and_leave", join_and_leave, round_of_sending, KERNEL},
	{"join_before_bind", join_before_bind, round_of_sending, KERNEL},
	{"two_interfaces", two_interfaces, round_of_sending, KERNEL},
	{"others_interface", others_interface, round_of_sending, KERNEL},
	{"bound_to_group", bound_to_group, round_of_sending, KERNEL},
	{"several", several, round_of_sending, KERNEL},
	{"not_joined", not_joined, round_of_sending, KERNEL},
	{"connected_receiver", connected_receiver, round_of_sending, KERNEL},
	{"sources", sources, round_of_sending, KERNEL},
	{"filter", filter, round_of_sending, KERNEL},
	{"errors", errors, NULL, KERNEL},
	{"sent", sent_server, sent_client, OURS},
	{"connected", sent_server, connected_client, OURS},
	{"ours", ours_server, ours_client, OURS},
	{"loop", plain_receiver, loop_client, KERNEL},
	{"large", large_server, large_client, KERNEL},
	{0},
};
