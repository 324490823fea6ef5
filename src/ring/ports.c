/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/ports.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/image/sections.h"

static const struct port_kind *const no_kinds[] = {&port_null_kind, NULL};
static const struct port_kind *const *kinds EARLY_DATA = no_kinds;

uint32_t ports_deaths;

EARLY_CODE void ports_init(const struct port_kind *const *list)
{
	kinds = list && *list ? list : no_kinds;
}

/* What kinds said, so far: the reason of a single one, or "name: reason" lines of several. */
struct reasons {
	const struct port_kind *only;
	unsigned n;
	size_t len;
};

static void add_line(char *why, size_t *len, const char *name, char *reason)
{
	size_t end = strlen(reason);

	while (end && reason[end - 1] == '\n')
		reason[--end] = '\0';
	for (char *at; (at = strchr(reason, '\n'));)
		*at = ' ';
	*len += (size_t)snprintf(why + *len, PORT_WHY - *len, "%s: %s\n", name, reason);
	if (*len >= PORT_WHY) {
		*len = PORT_WHY - 1;
		why[PORT_WHY - 2] = '\n';
	}
}

/* A kind that the interface does not concern gives no reason. */
static void add_reason(char why[PORT_WHY], struct reasons *said, const struct port_kind *kind,
		       char reason[PORT_WHY])
{
	if (!reason[0])
		return;
	if (!said->n++) {
		strcpy(why, reason);
		said->only = kind;
		return;
	}
	if (said->n == 2) {
		char first[PORT_WHY];

		strcpy(first, why);
		add_line(why, &said->len, said->only->name, first);
	}
	add_line(why, &said->len, kind->name, reason);
}

bool ports_take(const struct link *link, char why[PORT_WHY])
{
	struct reasons said = {0};

	why[0] = '\0';
	for (const struct port_kind *const *kind = kinds; *kind; kind++) {
		char reason[PORT_WHY] = "";

		if ((*kind)->own_ifindex)
			continue;
		if ((*kind)->takes(link, reason))
			return true;
		add_reason(why, &said, *kind, reason);
	}
	/* One line. */
	for (char *end; (end = strchr(why, '\n'));)
		*end = end[1] ? ';' : '\0';
	return false;
}

/* What the port can do, for whoever wonders about speed. */
static void tell_abilities(const struct port_kind *kind, const struct port *port)
{
	const struct port_abilities *can = &port->can;
	char segments[48] = "no segmentation";

	if (can->segment_max)
		snprintf(segments, sizeof(segments), "segmentation of %u bytes%s", can->segment_max,
			 can->large_udp ? " (UDP, too)" : "");
	log_details("%s: %s port: frames of up to %u bytes, %s, checksums %s%s, %s, timestamps "
		    "by %s, steering of %s",
		    port->name, kind->name, can->frame_max, can->zero_copy ? "zero-copy" : "copied",
		    can->tx_csum ? "by the device" : "by the processor",
		    can->partial_csum ? " (partial ones accepted)" : "", segments,
		    can->timestamps ? "the device" : "the processor",
		    can->shared_steering ? "several processes" : "this process");
}

/* Does the number stand for the only port of a kind? */
static bool is_own(int ifindex)
{
	for (const struct port_kind *const *kind = kinds; *kind; kind++) {
		if ((*kind)->own_ifindex && (*kind)->own_ifindex == ifindex)
			return true;
	}
	return false;
}

int ports_open(int ifindex, struct port **port, char why[PORT_WHY])
{
	int error = -PORT_UNTRIED;
	struct reasons said = {0};

	why[0] = '\0';
	for (const struct port_kind *const *kind = kinds; *kind; kind++) {
		int own = (*kind)->own_ifindex, rc;
		char reason[PORT_WHY] = "";

		if (own != (is_own(ifindex) ? ifindex : 0))
			continue;
		rc = (*kind)->open(ifindex, port, reason);
		if (!rc) {
			if (why[0])
				log_warn("interface %d: the %s port serves it, a better one does "
					 "not: %.*s",
					 ifindex, (*kind)->name, (int)strcspn(why, "\n"), why);
			tell_abilities(*kind, *port);
			return 0;
		}
		add_reason(why, &said, *kind, reason);
		if (error == -PORT_UNTRIED)
			error = rc;
	}
	return error;
}

void ports_thread_begins(void)
{
	for (const struct port_kind *const *kind = kinds; *kind; kind++)
		(*kind)->thread_begins();
}

void ports_thread_ends(void)
{
	for (const struct port_kind *const *kind = kinds; *kind; kind++)
		(*kind)->thread_ends();
}

void ports_forget(void)
{
	for (const struct port_kind *const *kind = kinds; *kind; kind++)
		(*kind)->forget();
}

bool port_takes_all(const struct link *link, char why[PORT_WHY])
{
	(void)link;
	(void)why;
	return true;
}

void port_kind_ignores(void)
{
}

void ports_tell_gone(struct port *port, const struct endpoint *gone, unsigned n)
{
	static struct inaddr here[PORTS_GONE_MAX]; /* rings_addrs_gone() */
	unsigned of_port = 0;

	for (unsigned i = 0; i < n; i++) {
		if (!gone[i].scope || gone[i].scope == (uint32_t)port->ifindex)
			here[of_port++] = gone[i].addr;
	}
	port->ops->addrs_gone(port, here, of_port);
}
