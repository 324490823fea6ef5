/* SPDX-License-Identifier: BSD-2-Clause */
/* What the suites of IPv4 and IPv6 multicast have alike. */
#ifndef TESTS_DIFF_MCAST_SAME_H
#define TESTS_DIFF_MCAST_SAME_H

#define QUIET_MS 40 /* after this time without a datagram, no more will arrive */

/* How a suite does it. */
struct mcast_way {
	const char *group, *other_group;
	const char *any, *here;	    /* the server's addresses: any; on v0 */
	const char *first, *second; /* the client's on v0 */
	int (*receiver)(const char *address, unsigned i);
	int (*join_on)(int fd, const char *group, const char *interface);
	int (*leave_on)(int fd, const char *group, const char *interface);
	int (*sender)(const char *interface, const char *address);
	void (*post)(int fd, const char *to, unsigned i, const char *text);
};

/* Says everything that has arrived, or arrives within QUIET_MS, sorted. */
void got(const char *who, int fd);
/* The client sends once more, and then no more. */
void ask_for_round(void);
void end_of_rounds(void);

/* Behaviours. */
void mcast_two_interfaces(const struct mcast_way *w);
void mcast_bound_to_group(const struct mcast_way *w);
void mcast_several(const struct mcast_way *w);
void mcast_ours_client(const struct mcast_way *w);
void mcast_plain_receiver(const struct mcast_way *w);

#endif
