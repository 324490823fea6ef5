/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/ports.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

static const struct port_kind *const no_kinds[] = {&port_null_kind, NULL};
static const struct port_kind *const *kinds = no_kinds;

void ports_init(const struct port_kind *const *list)
{
	kinds = list && *list ? list : no_kinds;
}

/* Adds "name: reason" as a line to why; the reason of a single kind stays as it is. */
static void add_reason(char why[PORT_WHY], const struct port_kind *kind, char reason[PORT_WHY])
{
	size_t len = strlen(why), end = strlen(reason);

	if (!kinds[1]) {
		memcpy(why, reason, end + 1);
		return;
	}
	while (end && reason[end - 1] == '\n')
		reason[--end] = '\0';
	for (char *at; (at = strchr(reason, '\n'));)
		*at = ' ';
	len += (size_t)snprintf(why + len, PORT_WHY - len, "%s: %s\n", kind->name, reason);
	if (len >= PORT_WHY)
		why[PORT_WHY - 2] = '\n';
}

bool ports_take(const struct link *link, char why[PORT_WHY])
{
	why[0] = '\0';
	for (const struct port_kind *const *kind = kinds; *kind; kind++) {
		char reason[PORT_WHY] = "";

		if ((*kind)->takes(link, reason))
			return true;
		add_reason(why, *kind, reason);
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
		snprintf(segments, sizeof(segments), "segmentation of %u bytes", can->segment_max);
	log_details("%s: %s port: frames of up to %u bytes, %s, checksums %s%s, %s, timestamps "
		    "by %s, steering of %s",
		    port->name, kind->name, can->frame_max, can->zero_copy ? "zero-copy" : "copied",
		    can->tx_csum ? "by the device" : "by the processor",
		    can->partial_csum ? " (partial ones accepted)" : "", segments,
		    can->timestamps ? "the device" : "the processor",
		    can->shared_steering ? "several processes" : "this process");
}

int ports_open(int ifindex, struct port **port, char why[PORT_WHY])
{
	int error = -PORT_UNTRIED;

	why[0] = '\0';
	for (const struct port_kind *const *kind = kinds; *kind; kind++) {
		char reason[PORT_WHY] = "";
		int rc = (*kind)->open(ifindex, port, reason);

		if (!rc) {
			tell_abilities(*kind, *port);
			return 0;
		}
		add_reason(why, *kind, reason);
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
