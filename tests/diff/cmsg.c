/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control messages that are received: which, in what order, with what contents; and those that
 * are sent.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "tests/diff/diff.h"

#ifndef TCP_INQ
#define TCP_INQ 36
#define TCP_CM_INQ TCP_INQ
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#define UDP_GRO 104
#endif

/* ---- saying what arrived ------------------------------------------------------------------ */

/* Within ten seconds of now: timestamps are from the system's clock. */
static bool is_now(long sec)
{
	return sec > time(NULL) - 10 && sec < time(NULL) + 10;
}

static void say_address(const char *what, struct in_addr addr)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr = addr};

	say_addr(what, &sin, sizeof(sin));
}

static void say_pktinfo(const void *data)
{
	struct in_pktinfo info;

	memcpy(&info, data, sizeof(info));
	say("IP_PKTINFO of the link: %s",
	    info.ipi_ifindex == (int)if_nametoindex("v0") ? "yes" : "no");
	say_address("  spec_dst", info.ipi_spec_dst);
	say_address("  addr", info.ipi_addr);
}

static void say_error(const void *data, size_t len)
{
	struct sock_extended_err err;
	struct sockaddr_in from;

	memcpy(&err, data, sizeof(err));
	say("IP_RECVERR errno %u origin %u type %u code %u info %u data %u", err.ee_errno,
	    err.ee_origin, err.ee_type, err.ee_code, err.ee_info, err.ee_data);
	if (len >= sizeof(err) + sizeof(from)) {
		memcpy(&from, (const char *)data + sizeof(err), sizeof(from));
		if (from.sin_family == AF_INET)
			say_address("  offender", from.sin_addr);
		else
			say("  offender of family %d", from.sin_family);
	}
}

static void say_long_stamp(const char *what, const void *data, size_t n)
{
	struct timespec ts[3] = {0};

	memcpy(ts, data, n < sizeof(ts) ? n : sizeof(ts));
	for (size_t i = 0; i < n / sizeof(*ts); i++)
		say("%s %s", what, is_now(ts[i].tv_sec) ? "now" : ts[i].tv_sec ? "?" : "none");
}

static void say_cmsg(struct cmsghdr *c)
{
	const void *data = CMSG_DATA(c);
	size_t n = c->cmsg_len - CMSG_LEN(0);
	struct sockaddr_in sin;
	int value = 0;

	memcpy(&value, data, n < sizeof(value) ? n : sizeof(value));
	say("control: level %d type %d, %zu bytes", c->cmsg_level, c->cmsg_type, n);
	if (c->cmsg_level == SOL_SOCKET &&
	    (c->cmsg_type == SO_TIMESTAMP || c->cmsg_type == SO_TIMESTAMPNS ||
	     c->cmsg_type == SO_TIMESTAMPING || (c->cmsg_type >= 63 && c->cmsg_type <= 65))) {
		say_long_stamp("  stamp", data, n);
	} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
		say_pktinfo(data);
	} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) {
		say_error(data, n);
	} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_ORIGDSTADDR) {
		memcpy(&sin, data, sizeof(sin));
		say_addr("  destination", &sin, sizeof(sin));
	} else {
		say("  value %d", n == 1 ? (unsigned char)value : value);
	}
}

/* One message with room bytes for control. */
static long receive(int fd, size_t room, int flags)
{
	char buf[5000], control[512];
	struct sockaddr_in from;
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_name = &from,
			     .msg_namelen = sizeof(from),
			     .msg_control = control,
			     .msg_controllen = room,
			     .msg_flags = -1};
	long n = SAY(recvmsg(fd, &msg, flags));

	if (n < 0)
		return n;
	say("%zu bytes of control, flags %#x", msg.msg_controllen, (unsigned)msg.msg_flags);
	if (msg.msg_namelen)
		say_addr("from", &from, msg.msg_namelen);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
		say_cmsg(c);
	return n;
}

/* ---- the sender ------------------------------------------------------------------------------ */

/* Six datagrams, each with its own TOS and TTL. */
static void sender(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = udp_bound(1);

	set_int(fd, IPPROTO_IP, IP_TOS, 0x28);
	set_int(fd, IPPROTO_IP, IP_TTL, 33);
	meet();
	for (int i = 0; i < 6; i++)
		MUST(sendto(fd, "abcdef", (size_t)i, 0, (struct sockaddr *)&to, sizeof(to)));
	meet();
	close(fd);
}

/* A socket with one option (an int), and three datagrams. */
static void with_option(int level, int name, int value)
{
	int fd = udp_bound(0);

	SAY(setsockopt(fd, level, name, &value, sizeof(value)));
	SAY(get_int(fd, level, name));
	let_pass(50, "the kernel begins to take the time from a work queue, and tells nobody");
	meet();
	meet();
	receive(fd, 512, 0);
	receive(fd, 512, MSG_PEEK);
	receive(fd, 0, 0);
	receive(fd, 8, 0);
	value = 0;
	SAY(setsockopt(fd, level, name, &value, sizeof(value)));
	receive(fd, 512, 0);
	close(fd);
}

static void none_server(void)
{
	with_option(SOL_SOCKET, SO_PRIORITY, 1);
}

static void pktinfo_server(void)
{
	with_option(IPPROTO_IP, IP_PKTINFO, 1);
}

static void ttl_server(void)
{
	with_option(IPPROTO_IP, IP_RECVTTL, 1);
}

static void tos_server(void)
{
	with_option(IPPROTO_IP, IP_RECVTOS, 1);
}

static void origdst_server(void)
{
	with_option(IPPROTO_IP, IP_RECVORIGDSTADDR, 1);
}

static void opts_server(void)
{
	with_option(IPPROTO_IP, IP_RECVOPTS, 1);
}

static void retopts_server(void)
{
	with_option(IPPROTO_IP, IP_RETOPTS, 1);
}

static void fragsize_server(void)
{
	with_option(IPPROTO_IP, IP_RECVFRAGSIZE, 1);
}

static void stamp_server(void)
{
	with_option(SOL_SOCKET, SO_TIMESTAMP, 1);
}

static void stampns_server(void)
{
	with_option(SOL_SOCKET, SO_TIMESTAMPNS, 1);
}

static void stamp_new_server(void)
{
	with_option(SOL_SOCKET, 63 /* SO_TIMESTAMP_NEW */, 1);
}

static void stampns_new_server(void)
{
	with_option(SOL_SOCKET, 64 /* SO_TIMESTAMPNS_NEW */, 1);
}

static void stamping_server(void)
{
	with_option(SOL_SOCKET, SO_TIMESTAMPING,
		    SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE);
}

#define RX_SOFTWARE (SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE)
#define RX_HARDWARE (SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE)

/* These links have no clock. */
static void stamping_hardware_server(void)
{
	with_option(SOL_SOCKET, SO_TIMESTAMPING, RX_HARDWARE);
}

static void stamping_both_server(void)
{
	with_option(SOL_SOCKET, SO_TIMESTAMPING, RX_SOFTWARE | RX_HARDWARE);
}

/* What is only about stamps of sent packets. */
static void stamping_more_server(void)
{
	with_option(SOL_SOCKET, SO_TIMESTAMPING,
		    RX_SOFTWARE | SOF_TIMESTAMPING_SYS_HARDWARE | SOF_TIMESTAMPING_OPT_ID |
			    SOF_TIMESTAMPING_OPT_CMSG | SOF_TIMESTAMPING_OPT_TSONLY);
}

static void stamping_half_server(void)
{
	with_option(SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_RX_SOFTWARE);
}

static void stamping_new_server(void)
{
	with_option(SOL_SOCKET, 65 /* SO_TIMESTAMPING_NEW */, RX_SOFTWARE | RX_HARDWARE);
}

static void stamping_sent_server(void)
{
	with_option(SOL_SOCKET, SO_TIMESTAMPING, RX_SOFTWARE | SOF_TIMESTAMPING_TX_SOFTWARE);
}

static void rxq_ovfl_server(void)
{
	with_option(SOL_SOCKET, SO_RXQ_OVFL, 1);
}

static void recverr_server(void)
{
	with_option(IPPROTO_IP, IP_RECVERR, 1);
}

static void gro_server(void)
{
	with_option(IPPROTO_UDP, UDP_GRO, 1);
}

/* ---- all of them, too little room --------------------------------------------------------------- */

static void all_server(void)
{
	int fd = udp_bound(0);

	set_int(fd, IPPROTO_IP, IP_RECVORIGDSTADDR, 1);
	set_int(fd, IPPROTO_IP, IP_RECVTOS, 1);
	set_int(fd, IPPROTO_IP, IP_PKTINFO, 1);
	set_int(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
	set_int(fd, SOL_SOCKET, SO_TIMESTAMP, 1);
	set_int(fd, IPPROTO_IP, IP_RECVTTL, 1);
	meet();
	meet();
	receive(fd, 512, 0);
	receive(fd, 80, 0);
	receive(fd, 36, 0);
	receive(fd, 1, 0);
	set_int(fd, IPPROTO_IP, IP_RECVTOS, 0);
	set_int(fd, SOL_SOCKET, SO_TIMESTAMPNS, 1);
	SAY(get_int(fd, SOL_SOCKET, SO_TIMESTAMP));
	SAY(get_int(fd, SOL_SOCKET, SO_TIMESTAMPNS));
	receive(fd, 512, 0);
	close(fd);
}

/* An option that is set after the datagrams arrived. */
static void late_server(void)
{
	int fd = udp_bound(0);

	meet();
	meet();
	await(fd, POLLIN);
	receive(fd, 512, 0);
	set_int(fd, IPPROTO_IP, IP_RECVTTL, 1);
	set_int(fd, IPPROTO_IP, IP_RECVTOS, 1);
	receive(fd, 512, 0);
	set_int(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
	receive(fd, 512, 0);
	close(fd);
}

/* ---- sending them ---------------------------------------------------------------------------------- */

struct control {
	char bytes[128];
	size_t n;
};

static void add(struct control *c, int level, int type, const void *data, size_t n)
{
	struct cmsghdr head = {.cmsg_len = CMSG_LEN(n), .cmsg_level = level, .cmsg_type = type};

	memcpy(c->bytes + c->n, &head, sizeof(head));
	memcpy(c->bytes + c->n + CMSG_LEN(0), data, n);
	c->n += CMSG_SPACE(n);
}

static void send_with(const char *what, int fd, const char *text, struct control *c)
{
	struct sockaddr_in to = server_addr(0);
	struct iovec iov = {(char *)text, strlen(text)};
	struct msghdr msg = {.msg_name = &to,
			     .msg_namelen = sizeof(to),
			     .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = c->bytes,
			     .msg_controllen = c->n};

	say_result(what, sendmsg(fd, &msg, 0));
	*c = (struct control){.n = 0};
}

/* Until a datagram says "end". */
static void lists_control(void)
{
	int fd = udp_bound(0);

	set_int(fd, IPPROTO_IP, IP_RECVTOS, 1);
	set_int(fd, IPPROTO_IP, IP_RECVTTL, 1);
	meet();
	while (receive(fd, 512, 0) != 3)
		;
	close(fd);
}

static void send_client(void)
{
	struct in_pktinfo info = {.ipi_ifindex = (int)if_nametoindex("v0")};
	int fd = udp_bound(1), tos = 0x10, ttl = 7, bad = 1000;
	unsigned char tos1 = 0x20;
	struct control c = {.n = 0};

	meet();
	add(&c, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
	send_with("IP_TOS", fd, "a", &c);
	add(&c, IPPROTO_IP, IP_TOS, &tos1, 1);
	send_with("IP_TOS of a byte", fd, "b", &c);
	add(&c, IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl));
	send_with("IP_TTL", fd, "c", &c);
	add(&c, IPPROTO_IP, IP_TTL, &bad, sizeof(bad));
	send_with("IP_TTL of 1000", fd, "d", &c);
	add(&c, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	send_with("IP_PKTINFO of the link", fd, "e", &c);
	info.ipi_spec_dst.s_addr = client_addr(0).sin_addr.s_addr;
	add(&c, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	add(&c, IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl));
	add(&c, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
	send_with("three", fd, "f", &c);
	info.ipi_spec_dst.s_addr = htonl(0x01020304);
	add(&c, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	send_with("IP_PKTINFO with an address that is not ours", fd, "g", &c);
	info.ipi_ifindex = 9999;
	add(&c, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	send_with("IP_PKTINFO of no link", fd, "h", &c);
	add(&c, IPPROTO_IP, IP_PKTINFO, &info, 4);
	send_with("a short IP_PKTINFO", fd, "i", &c);
	send_with("none", fd, "end", &c);
	close(fd);
}

static void malformed_client(void)
{
	int fd = udp_bound(1), tos = 0x10;
	struct control c = {.n = 0};
	struct cmsghdr head = {.cmsg_len = 5, .cmsg_level = IPPROTO_IP, .cmsg_type = IP_TOS};

	meet();
	memcpy(c.bytes, &head, sizeof(head));
	c.n = sizeof(head);
	send_with("too short", fd, "a", &c);
	head.cmsg_len = 100;
	memcpy(c.bytes, &head, sizeof(head));
	c.n = sizeof(head);
	send_with("longer than the buffer", fd, "b", &c);
	c.n = 8;
	send_with("not even a head", fd, "c", &c);
	add(&c, IPPROTO_IP, 77, &tos, sizeof(tos));
	send_with("unknown at IPPROTO_IP", fd, "d", &c);
	add(&c, SOL_SOCKET, 77, &tos, sizeof(tos));
	send_with("unknown at SOL_SOCKET", fd, "e", &c);
	add(&c, 77, IP_TOS, &tos, sizeof(tos));
	send_with("of an unknown level", fd, "f", &c);
	tos = dup(fd);
	add(&c, SOL_SOCKET, SCM_RIGHTS, &tos, sizeof(tos));
	send_with("SCM_RIGHTS", fd, "g", &c);
	close(tos);
	add(&c, IPPROTO_UDP, 77, &tos, sizeof(tos));
	send_with("unknown at IPPROTO_UDP", fd, "h", &c);
	send_with("none", fd, "end", &c);
	close(fd);
}

static void gso_client(void)
{
	int fd = udp_bound(1);
	uint16_t size = 2;
	uint32_t wide = 2;
	struct control c = {.n = 0};

	meet();
	add(&c, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size));
	send_with("UDP_SEGMENT", fd, "aabbc", &c);
	add(&c, IPPROTO_UDP, UDP_SEGMENT, &wide, sizeof(wide));
	send_with("UDP_SEGMENT of four bytes", fd, "ddee", &c);
	size = 0;
	add(&c, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size));
	send_with("UDP_SEGMENT of 0", fd, "fff", &c);
	send_with("none", fd, "end", &c);
	close(fd);
}

/* ---- TCP -------------------------------------------------------------------------------------------- */

static void tcp_sends_late(void)
{
	int fd = tcp_pair();

	meet();
	MUST(send(fd, "0123456789", 10, 0));
	meet();
	close(fd);
}

/* Each datagram comes back, or its number, with the time at which it was sent. */
static void take_sent(int fd, int n)
{
	while (n--) {
		await(fd, POLLERR);
		receive(fd, 512, MSG_ERRQUEUE);
	}
	receive(fd, 512, MSG_ERRQUEUE | MSG_DONTWAIT);
}

/* last: what the socket sends in the end, or NULL. */
static void sent_stamps(int flags, int records, const char *last)
{
	struct control c = {.n = 0};
	int fd = udp_bound(1);

	SAY(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags)));
	send_with("first", fd, "first", &c);
	take_sent(fd, records);
	send_with("second", fd, "second", &c);
	take_sent(fd, records);
	flags = RX_SOFTWARE;
	SAY(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags)));
	send_with("third", fd, "third", &c);
	receive(fd, 512, MSG_ERRQUEUE | MSG_DONTWAIT);
	if (last)
		send_with(last, fd, last, &c);
	close(fd);
}

/*
 * The end comes from the socket that has sent stamped datagrams, not from one of its own: on one host
 * that one's datagram could go through shared memory and arrive before those of the others.
 */
static void sent_stamps_client(void)
{
	const int software = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;

	meet();
	sent_stamps(software, 1, NULL);
	sent_stamps(software | SOF_TIMESTAMPING_OPT_TSONLY | SOF_TIMESTAMPING_OPT_ID, 1, NULL);
	sent_stamps(software | SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_OPT_ID, 2, "end");
}

/* One call asks for them. */
static void sent_stamp_of_one_client(void)
{
	const uint32_t wanted = SOF_TIMESTAMPING_TX_SOFTWARE;
	int fd, flags = SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_ID;
	struct control c = {.n = 0};

	meet();
	fd = udp_bound(1);
	SAY(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags)));
	send_with("first", fd, "first", &c);
	receive(fd, 512, MSG_ERRQUEUE | MSG_DONTWAIT);
	add(&c, SOL_SOCKET, SO_TIMESTAMPING, &wanted, sizeof(wanted));
	send_with("second", fd, "second", &c);
	take_sent(fd, 1);
	send_with("end", fd, "end", &c);
	close(fd);
}

static void tcp_stamped(int name, int value)
{
	int fd = tcp_pair();

	SAY(setsockopt(fd, SOL_SOCKET, name, &value, sizeof(value)));
	let_pass(50, "as in with_option()");
	meet();
	await_bytes(fd, 10);
	receive(fd, 0, MSG_PEEK);
	receive(fd, 512, MSG_PEEK);
	receive(fd, 20, 0);
	meet();
	close(fd);
}

static void tcp_stamp_client(void)
{
	tcp_stamped(SO_TIMESTAMP, 1);
}

static void tcp_stamping_client(void)
{
	tcp_stamped(SO_TIMESTAMPING, RX_SOFTWARE | RX_HARDWARE);
}

static void tcp_stamping_hardware_client(void)
{
	tcp_stamped(SO_TIMESTAMPING, RX_HARDWARE);
}

static void tcp_stamping_new_client(void)
{
	tcp_stamped(65 /* SO_TIMESTAMPING_NEW */, RX_SOFTWARE);
}

/* How many bytes are unread after a read. */
static void tcp_inq_client(void)
{
	int fd = tcp_pair();
	char buf[4];

	SAY(setsockopt(fd, IPPROTO_TCP, TCP_INQ, &(int){2}, sizeof(int)));
	SAY(setsockopt(fd, IPPROTO_TCP, TCP_INQ, &(int){1}, sizeof(int)));
	SAY(get_int(fd, IPPROTO_TCP, TCP_INQ));
	meet();
	await_bytes(fd, 10);
	receive(fd, 512, MSG_PEEK);
	for (int i = 0; i < 2; i++) {
		char control[64];
		struct iovec iov = {buf, sizeof(buf)};
		struct msghdr msg = {.msg_iov = &iov,
				     .msg_iovlen = 1,
				     .msg_control = control,
				     .msg_controllen = sizeof(control)};

		SAY(recvmsg(fd, &msg, 0));
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
			say_cmsg(c);
	}
	receive(fd, 512, 0);
	meet();
	await(fd, POLLIN);
	receive(fd, 512, 0);
	receive(fd, 512, MSG_PEEK);
	receive(fd, 4, 0);
	SAY(setsockopt(fd, IPPROTO_TCP, TCP_INQ, &(int){0}, sizeof(int)));
	receive(fd, 512, 0);
	close(fd);
}

static void tcp_cmsg_client(void)
{
	int fd = tcp_pair(), value = 5, copy;
	struct control c = {.n = 0};

	add(&c, IPPROTO_IP, IP_TOS, &value, sizeof(value));
	send_with("IP_TOS", fd, "a", &c);
	add(&c, IPPROTO_IP, IP_TTL, &value, sizeof(value));
	send_with("IP_TTL", fd, "b", &c);
	copy = dup(fd);
	add(&c, SOL_SOCKET, SCM_RIGHTS, &copy, sizeof(copy));
	send_with("SCM_RIGHTS", fd, "c", &c);
	close(copy);
	add(&c, SOL_SOCKET, 77, &value, sizeof(value));
	send_with("unknown at SOL_SOCKET", fd, "d", &c);
	c.n = 8;
	send_with("not even a head", fd, "e", &c);
	memset(c.bytes, 0, sizeof(c.bytes));
	c.n = sizeof(struct cmsghdr);
	send_with("of no length", fd, "f", &c);
	meet();
	close(fd);
}

static void tcp_takes(void)
{
	int fd = tcp_pair();
	char buf[100];
	size_t sum = 0;
	long n;

	meet();
	while ((n = recv(fd, buf + sum, sizeof(buf) - sum, 0)) > 0)
		sum += (size_t)n;
	say_bytes(buf, sum);
	say("then %ld", n);
	close(fd);
}

const struct behaviour cmsg_behaviours[] = {
	{"none", none_server, sender, OURS},
	{"pktinfo", pktinfo_server, sender, OURS},
	{"ttl", ttl_server, sender, OURS},
	{"tos", tos_server, sender, OURS},
	{"origdst", origdst_server, sender, OURS},
	{"opts", opts_server, sender, OURS},
	{"retopts", retopts_server, sender, KERNEL},
	{"fragsize", fragsize_server, sender, OURS},
	{"stamp", stamp_server, sender, OURS},
	{"stampns", stampns_server, sender, OURS},
	{"stamp_new", stamp_new_server, sender, OURS},
	{"stampns_new", stampns_new_server, sender, OURS},
	{"stamping", stamping_server, sender, OURS},
	{"stamping_hardware", stamping_hardware_server, sender, OURS},
	{"stamping_both", stamping_both_server, sender, OURS},
	{"stamping_more", stamping_more_server, sender, OURS},
	{"stamping_half", stamping_half_server, sender, OURS},
	{"stamping_new", stamping_new_server, sender, OURS},
	{"stamping_sent", stamping_sent_server, sender, OURS},
	{"sent_stamps", lists_control, sent_stamps_client, KERNEL},
	{"sent_stamp_of_one", lists_control, sent_stamp_of_one_client, KERNEL},
	{"rxq_ovfl", rxq_ovfl_server, sender, OURS},
	{"recverr", recverr_server, sender, OURS},
	{"gro", gro_server, sender, OURS},
	{"all", all_server, sender, OURS},
	{"late", late_server, sender, OURS},
	{"send", lists_control, send_client, OURS},
	{"malformed", lists_control, malformed_client, OURS},
	{"gso", lists_control, gso_client, OURS},
	{"tcp_stamp", tcp_sends_late, tcp_stamp_client, OURS},
	{"tcp_stamping", tcp_sends_late, tcp_stamping_client, OURS},
	{"tcp_stamping_hw", tcp_sends_late, tcp_stamping_hardware_client, OURS},
	{"tcp_stamping_new", tcp_sends_late, tcp_stamping_new_client, OURS},
	{"tcp_inq", tcp_sends_late, tcp_inq_client, OURS},
	{"tcp_cmsg", tcp_takes, tcp_cmsg_client, OURS},
	{0},
};
