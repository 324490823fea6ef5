/* SPDX-License-Identifier: BSD-2-Clause */
/* Ways to the processes of peers, beyond a change of the user; see local_link.h. */
#include <fcntl.h>

#include "base/mem.h"
#include "base/sys.h"
#include "sock/core/control.h"
#include "sock/local/local_link_internal.h"

static const struct local_way none = {.fd = -1, .memory = -1};

void local_way_close(struct local_way *way)
{
	sys_close_fd(&way->fd);
	sys_close_fd(&way->memory);
}

struct local_way local_way_copy(const struct local_way *way)
{
	struct local_way copy = {.process = way->process,
				 .fd = sys_fcntl(way->fd, F_DUPFD_CLOEXEC, 0),
				 .memory = sys_fcntl(way->memory, F_DUPFD_CLOEXEC, 0)};

	if (copy.fd < 0 || copy.memory < 0) {
		local_way_close(&copy);
		return none;
	}
	return copy;
}

/* ---- before the change (lock) ---------------------------------------------------------------- */

void local_ways_close(struct local_link *link)
{
	for (unsigned i = 0; i < LOCAL_WAYS; i++)
		local_way_close(&link->way[i]);
}

static const struct local_link *find_kept(uint64_t process)
{
	list_for_each(at, &local.links) {
		const struct local_link *link = container_of(at, struct local_link, link);

		if (link->process == process && link->way[0].fd >= 0)
			return link;
	}
	return NULL;
}

static bool make_way(struct local_way *way, uint64_t process)
{
	struct segment memory;

	if (segment_create(&memory, LOCAL_LINK_SEGMENT, LINK_SIZE))
		return false;
	*way = (struct local_way){.process = process,
				  .fd = local_wire_connect(process),
				  .memory = sys_fd_copy(memory.fd)};
	segment_close(&memory);
	return way->fd >= 0 && way->memory >= 0;
}

static void keep_ways(struct local_link *link)
{
	bool good = true;

	if (link->sock < 0 || !link->open || find_kept(link->process))
		return;
	for (unsigned i = 0; good && i < LOCAL_WAYS; i++)
		good = make_way(&link->way[i], link->process);
	if (!good)
		local_ways_close(link);
}

void local_links_keep_ways(void)
{
	control_assert_held();
	if (!local.started)
		return;
	local_lock();
	list_for_each(at, &local.links)
		keep_ways(container_of(at, struct local_link, link));
	local_unlock();
}

void local_links_close_ways(void)
{
	control_assert_held();
	if (!local.started)
		return;
	local_lock();
	list_for_each(at, &local.links)
		local_ways_close(container_of(at, struct local_link, link));
	local_unlock();
}

struct local_way local_link_way(const struct local_link *link, unsigned which)
{
	const struct local_link *kept = link->sock >= 0 ? find_kept(link->process) : NULL;

	return kept ? kept->way[which] : none;
}

/* ---- in the other process (control lock) ------------------------------------------------------ */

bool local_links_use_way(const struct local_way *way)
{
	struct local_way *ways, own = *way;

	control_assert_held();
	for (unsigned i = 0; i < local.n_ways; i++) {
		if (local.ways[i].process == way->process) {
			local_way_close(&own); /* a copy of that one */
			return true;
		}
	}
	ways = mem_realloc(local.ways, (local.n_ways + 1) * sizeof(*ways));
	if (!ways) {
		local_way_close(&own);
		return false;
	}
	own.fd = sys_fd_hide(own.fd);
	own.memory = sys_fd_hide(own.memory);
	ways[local.n_ways++] = own;
	local.ways = ways;
	return true;
}

struct local_way local_way_take(uint64_t process)
{
	control_assert_held();
	for (unsigned i = 0; i < local.n_ways; i++) {
		struct local_way way = local.ways[i];

		if (way.process != process)
			continue;
		local.ways[i] = local.ways[--local.n_ways];
		return way;
	}
	return none;
}
