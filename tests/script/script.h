/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packet scripts: one engine, a peer that behaves as the script says, virtual time.
 *
 * A file has several scripts; each begins with its name and the section that it
 * tests, and ends where the next one begins.  A line is one event:
 *
 *	script NAME (no blanks)
 *	rfc 9293 3.10.7.4	which section; every script has at least one,
 *	man tcp(7) TCP_CORK	or this: the behaviour of Linux for an option
 *	only ip4 | only ip6	the script is about something that the other family lacks
 *	set mss 1000		configuration, before "open"; see do_set()
 *	set host retries2 3	the host's setting, net.ipv4.tcp_retries2; see set_host()
 *	route initcwnd 20 rto-min 50ms quickack
 *				what the present route says, all of it; or nothing
 *	set route initrwnd 3 window 20000 congctl-lock
 *				what the first route says, before "open"
 *	open passive mss 1000 win 60000 sack ts wscale 7 ecn rtt 10ms
 *				a handshake as in figure 6 of RFC 9293, not checked;
 *				the script's clock begins after it
 *	listen | connect	the script does the handshake
 *	in A 1+1000 ack 1 win 60000 sack 1-1001,2001-3001 ts 5,10
 *				a segment of the peer: flags (FSRPAUEW, "-" for none),
 *				sequence number + length of data, acknowledgement
 *	burst ...		as in, but without the call of tcp_flush() after it
 *	flush			calls tcp_flush() now
 *	out PA 1+1000 ack 1 ...	our next segment, now; flags, numbers and SACK blocks
 *				are always compared, other fields if they are given
 *	recv-oob 11 [= EAGAIN]	the urgent byte, the peer's 11th byte; oobinline on|off
 *	send 3000 [more|oob|eor] [= 2000 | = EAGAIN], recv 100 [= 50 | = EAGAIN]
 *	shutdown | close | abort | shutdown-read | unreachable EHOSTUNREACH
 *	nodelay on|off, cork, quickack; keepalive 10s 5s 3; user-timeout 30s
 *	icmp 1 600		a router: the segment at 1 is too large for an MTU of 600; mtu 1500: from a route
 *	pace 1000000 burst 3000	SO_MAX_PACING_RATE; or without burst
 *	rcvbuf 4000 | sndbuf 4000, which do not change automatically any more
 *	linger2 -1 | notsent-lowat 3000 | window-clamp 2000
 *	sink on|off		can segments be sent?
 *	state ESTABLISHED	compares the state
 *	closed 0|ECONNRESET	CLOSED was reported, with this error; 0: or the small object ended
 *	check small = 1		the connection is closed by its program and has become small
 *	drop TCP_SEQ		the reason of tcp_input() for the last segment
 *	check cwnd >= 2000	see value_of()
 *	wait			only time passes
 *
 * Scripts run over IPv4 and over IPv6.  A line that begins with ip4 or ip6 is for that
 * family only: sizes of packets include a header of 20 or 40 bytes.
 *
 * A line may then begin with +10ms (after the previous line) or @2.5s (since the
 * beginning).  Time passes event by event.  A segment that was sent and not expected is
 * a failure, as is one that was expected and not sent, or sent at another time.  Our
 * numbers count from our initial sequence number, the peer's from its own; our
 * timestamps from the beginning of the script, the peer's from a constant.
 * '#' begins a comment.
 */
#ifndef TESTS_SCRIPT_SCRIPT_H
#define TESTS_SCRIPT_SCRIPT_H

#include <stdbool.h>

/* Runs the scripts of a file for one family, or only the one with this name; prints failures. */
struct script_result {
	unsigned passed, failed;
};

struct script_result script_run_file(const char *path, bool ip6, const char *only);

#endif
