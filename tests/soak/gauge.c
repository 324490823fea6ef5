/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The resources that an accelerated interface uses, read from outside of its processes.
 *
 *	gauge INTERFACE		in the caller's network namespace, on one line:
 *		program=ID		its XDP program; 0: none
 *		maps=ID,...		the maps of that program
 *		flows3= flows5= conns=	entries of the steering maps
 *		held= tx=		frames in sockets, and frames in transmission
 *		spare=			frames that rings keep for themselves
 *		unseen=			frames that the kernel took for receiving and that were not
 *					read yet
 *		slots=			rings, including those that have just been closed
 *	gauge left [program] ID... [maps] ID...
 *		those that the kernel still has, one per line
 *
 * It counts frames and rings in the control segment of the port group.  Every member has a
 * descriptor of it; gauge searches all processes of the namespace in /proc.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/xdp/xdp_group.h"

#define MAPS_MAX 32
#define SEGMENTS_MAX 16

struct gauge {
	uint32_t program, maps[MAPS_MAX], n_maps;
	unsigned flows3, flows5, conns, held, tx, spare, unseen, slots;
	ino_t seen[SEGMENTS_MAX];
	unsigned n_seen;
};

/* ---- maps ------------------------------------------------------------------------------- */

static unsigned count_hash(int map)
{
	union {
		struct xdp_steer_key3 key3;
		struct xdp_steer_key5 key5;
	} key;
	unsigned n = 0;

	for (void *from = NULL; bpf_map_get_next_key(map, from, &key) == 0; from = &key)
		n++;
	return n;
}

static unsigned count_conns(int map)
{
	size_t size = sizeof(struct xdp_steer_conn) * XDP_STEER_PORTS;
	const struct xdp_steer_conn *conns = mmap(NULL, size, PROT_READ, MAP_SHARED, map, 0);
	unsigned n = 0;

	if (conns == MAP_FAILED)
		return 0;
	for (unsigned i = 0; i < XDP_STEER_PORTS; i++)
		n += __atomic_load_n(&conns[i].owner, __ATOMIC_RELAXED) != 0;
	munmap((void *)(uintptr_t)conns, size);
	return n;
}

static void count_map(struct gauge *g, uint32_t id)
{
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info);
	int map = bpf_map_get_fd_by_id(id);

	if (map < 0)
		return;
	if (bpf_obj_get_info_by_fd(map, &info, &len) == 0) {
		if (!strcmp(info.name, "flows3"))
			g->flows3 += count_hash(map);
		else if (!strcmp(info.name, "flows5"))
			g->flows5 += count_hash(map);
		else if (!strcmp(info.name, "conns"))
			g->conns += count_conns(map);
	}
	close(map);
}

static void count_maps(struct gauge *g, unsigned ifindex)
{
	struct bpf_prog_info info = {.nr_map_ids = MAPS_MAX, .map_ids = (uintptr_t)g->maps};
	uint32_t len = sizeof(info);
	int program;

	if (bpf_xdp_query_id((int)ifindex, 0, &g->program) || !g->program)
		return;
	program = bpf_prog_get_fd_by_id(g->program);
	if (program < 0)
		return;
	if (bpf_obj_get_info_by_fd(program, &info, &len) == 0)
		g->n_maps = info.nr_map_ids < MAPS_MAX ? info.nr_map_ids : MAPS_MAX;
	close(program);
	for (unsigned i = 0; i < g->n_maps; i++)
		count_map(g, g->maps[i]);
}

/* ---- frames ------------------------------------------------------------------------------ */

/* The frames on the free stack of the slot's ring; those of a dead member cannot be used yet. */
static unsigned spare_of(const struct group_slot *slot, unsigned held)
{
	unsigned spare = __atomic_load_n(&slot->spare, __ATOMIC_RELAXED);

	if (__atomic_load_n(&slot->state, __ATOMIC_RELAXED) != SLOT_USED)
		return 0;
	return spare < held ? spare : held;
}

static void count_frames(struct gauge *g, const struct group_ctl *ctl)
{
	unsigned frames = ctl->frames < XDP_FRAMES_MAX ? ctl->frames : XDP_FRAMES_MAX;
	unsigned held[XDP_STEER_SLOTS] = {0}, fill = 0, target = ctl->queues * ctl->fill_target;

	if (ctl->magic != GROUP_MAGIC || ctl->version != GROUP_VERSION)
		return;
	for (unsigned i = 0; i < frames; i++) {
		uint64_t word = __atomic_load_n(&ctl->owner[i], __ATOMIC_RELAXED);

		if (owner_kind(word) == OWNER_HELD && owner_slot(word) < XDP_STEER_SLOTS)
			held[owner_slot(word)]++;
		g->tx += owner_kind(word) == OWNER_TX;
		fill += owner_kind(word) == OWNER_FILL;
	}
	for (unsigned i = 0; i < XDP_STEER_SLOTS; i++) {
		unsigned spare = spare_of(&ctl->slots[i], held[i]);

		g->spare += spare;
		g->held += held[i] - spare;
		g->slots += __atomic_load_n(&ctl->slots[i].state, __ATOMIC_RELAXED) != SLOT_FREE;
	}
	/* Fill rings are full, except for a batch. */
	g->unseen += fill > target ? fill - target : 0;
}

static void count_segment(struct gauge *g, const char *path)
{
	const struct group_ctl *ctl;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && (size_t)st.st_size >= sizeof(*ctl) && g->n_seen < SEGMENTS_MAX) {
		for (unsigned i = 0; i < g->n_seen; i++) {
			if (g->seen[i] == st.st_ino)
				goto out;
		}
		g->seen[g->n_seen++] = st.st_ino;
		ctl = mmap(NULL, sizeof(*ctl), PROT_READ, MAP_SHARED, fd, 0);
		if (ctl != MAP_FAILED) {
			count_frames(g, ctl);
			munmap((void *)(uintptr_t)ctl, sizeof(*ctl));
		}
	}
out:
	close(fd);
}

static void count_process(struct gauge *g, const char *pid)
{
	char path[sizeof("/proc//fd/") + 2 * NAME_MAX], link[300];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%s/fd/%s", pid, entry->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		if (n <= 0)
			continue;
		link[n] = 0;
		if (!strncmp(link, "/memfd:vma-group", 16))
			count_segment(g, path);
	}
	if (dir)
		closedir(dir);
}

static bool same_network(const char *pid)
{
	struct stat own, other;
	char path[300];

	snprintf(path, sizeof(path), "/proc/%s/ns/net", pid);
	return stat("/proc/self/ns/net", &own) == 0 && stat(path, &other) == 0 &&
	       own.st_ino == other.st_ino;
}

static void count_processes(struct gauge *g)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (strspn(entry->d_name, "0123456789") == strlen(entry->d_name) &&
		    same_network(entry->d_name))
			count_process(g, entry->d_name);
	}
	if (dir)
		closedir(dir);
}

/* ---- what is left ------------------------------------------------------------------------- */

static int say_left(int argc, char **argv)
{
	bool map = false;

	for (int i = 0; i < argc; i++) {
		uint32_t id = (uint32_t)strtoul(argv[i], NULL, 10);
		int fd;

		if (!id) {
			map = !strcmp(argv[i], "maps");
			continue;
		}
		fd = map ? bpf_map_get_fd_by_id(id) : bpf_prog_get_fd_by_id(id);
		if (fd < 0)
			continue;
		printf("%s %u\n", map ? "map" : "program", id);
		close(fd);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct gauge g = {0};
	unsigned ifindex;

	if (argc > 1 && !strcmp(argv[1], "left"))
		return say_left(argc - 2, argv + 2);
	ifindex = argc == 2 ? if_nametoindex(argv[1]) : 0;
	if (!ifindex) {
		fputs("usage: gauge INTERFACE | left [program] ID... [maps] ID...\n", stderr);
		return 2;
	}
	count_maps(&g, ifindex);
	count_processes(&g);
	printf("program=%u maps=", g.program);
	for (unsigned i = 0; i < g.n_maps; i++)
		printf("%s%u", i ? "," : "", g.maps[i]);
	printf(" flows3=%u flows5=%u conns=%u held=%u tx=%u spare=%u unseen=%u slots=%u\n",
	       g.flows3, g.flows5, g.conns, g.held, g.tx, g.spare, g.unseen, g.slots);
	return 0;
}
