/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which RDMA device belongs to an interface.  sysfs tells: /sys/class/infiniband/DEVICE/device/net
 * has a directory of the interface's name.  The files may be missing or say anything.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "ring/mlx5/mlx5_internal.h"

#define VENDOR "0x15b3" /* Mellanox, of PCI */
#define PORTS_MAX 8	/* of one device */

/* The root that libibverbs reads, too. */
static const char *sysfs(void)
{
	const char *root = secure_getenv("SYSFS_PATH");

	return root && root[0] == '/' ? root : "/sys";
}

static bool exists(const char *path)
{
	int fd = sys_open(path, O_PATH | O_CLOEXEC, 0);

	if (fd < 0)
		return false;
	sys_close(fd);
	return true;
}

/* The first word of a small file; "" if it cannot be read. */
static void read_word(const char *path, char *word, size_t size)
{
	ssize_t n = sys_read_text(path, word, size);

	if (n < 0)
		word[0] = '\0';
	word[strcspn(word, " \t\n")] = '\0';
}

static bool is_plain(const char *name)
{
	if (!isalpha((unsigned char)name[0]))
		return false;
	for (const char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '_' && *c != '-' && *c != '.')
			return false;
	return true;
}

/*
 * The port of the device, or 0.  Several interfaces of one function, such as the representors of
 * its virtual functions, share the directory: the table of GIDs names the one that the port has.
 */
static uint8_t port_of(const char *device, const char *interface)
{
	char path[PATH_MAX], word[32];
	long port;

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/device/net/%s/dev_port", sysfs(),
		 device, interface);
	read_word(path, word, sizeof(word));
	port = isdigit((unsigned char)word[0]) ? strtol(word, NULL, 10) + 1 : 1;
	if (port < 1 || port > PORTS_MAX)
		return 0;
	snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports/%ld/gid_attrs/ndevs/0", sysfs(),
		 device, port);
	read_word(path, word, sizeof(word));
	return word[0] && strcmp(word, interface) != 0 ? 0 : (uint8_t)port;
}

static bool is_ours(const char *device)
{
	char path[PATH_MAX], vendor[32];

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/device/vendor", sysfs(), device);
	read_word(path, vendor, sizeof(vendor));
	return strcmp(vendor, VENDOR) == 0;
}

/* Is there such a file of the device, or one of that name below it? */
static bool device_has(const char *device, const char *file, const char *below)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/%s%s", sysfs(), device, file, below);
	return exists(path);
}

/* Is the device on the interface?  One that software emulates names it, and has no directory. */
static bool is_on(const char *device, const char *interface)
{
	char path[PATH_MAX], parent[NAME_MAX];

	if (device_has(device, "device/net/", interface))
		return true;
	snprintf(path, sizeof(path), "%s/class/infiniband/%s/parent", sysfs(), device);
	read_word(path, parent, sizeof(parent));
	return strcmp(parent, interface) == 0;
}

enum rank {
	NOTHING, /* not on the interface */
	NO_CARD, /* of others: rdma_rxe, irdma */
	NOT_ITS, /* a card, whose port has another interface */
	LIKE_A_CARD,
	CARD,
};

/*
 * Before Linux 5.12 an emulated device (rdma_rxe, siw) on the interface of a card has the card's
 * directory, too, and so its vendor.  But the drivers of cards tell their type.
 */
static enum rank rank_of(const char *device, const char *interface)
{
	if (!is_plain(device) || !is_on(device, interface))
		return NOTHING;
	if (!is_ours(device))
		return NO_CARD;
	if (!port_of(device, interface))
		return NOT_ITS;
	return device_has(device, "hca_type", "") ? CARD : LIKE_A_CARD;
}

/* The best of those in the directory, in whatever order they come. */
static enum rank find_best(DIR *dir, const char *interface, struct mlx5_name *name)
{
	enum rank best = NOTHING;
	struct dirent *entry;

	while ((entry = readdir(dir))) {
		enum rank rank = NOTHING;

		if (strlen(entry->d_name) < sizeof(name->device))
			rank = rank_of(entry->d_name, interface);
		if (rank <= best)
			continue;
		strcpy(name->device, entry->d_name);
		best = rank;
	}
	return best;
}

int mlx5_find(const char *interface, struct mlx5_name *name, char why[PORT_WHY])
{
	enum rank rank = NOTHING;
	char path[PATH_MAX];
	DIR *dir = NULL;

	name->device[0] = '\0';
	if (!is_plain(interface))
		return -ENODEV;
	snprintf(path, sizeof(path), "%s/class/infiniband", sysfs());
	/* Most hosts: no RDMA at all.  opendir(3) changes errno. */
	if (exists(path))
		dir = opendir(path);
	if (dir) {
		rank = find_best(dir, interface, name);
		closedir(dir);
	}
	if (rank <= NO_CARD)
		return -ENODEV;
	name->port = port_of(name->device, interface);
	if (rank > NOT_ITS && name->port)
		return 0;
	snprintf(why, PORT_WHY,
		 "%s is a representor, or another interface of %s than its port; only the port's "
		 "own interface is served.\n",
		 interface, name->device);
	return -EOPNOTSUPP;
}

bool mlx5_find_any(void)
{
	char path[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/class/infiniband", sysfs());
	if (!exists(path))
		return false;
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir)))
		found = is_plain(entry->d_name) && is_ours(entry->d_name);
	if (dir)
		closedir(dir);
	return found;
}
