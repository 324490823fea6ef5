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

/* False: the device is not the interface's, or none that libmlx5 could serve. */
static bool serves(const char *device, const char *interface)
{
	char path[PATH_MAX];

	if (!is_ours(device))
		return false;
	snprintf(path, sizeof(path), "%s/class/infiniband/%s/device/net/%s", sysfs(), device,
		 interface);
	return exists(path);
}

int mlx5_find(const char *interface, struct mlx5_name *name, char why[PORT_WHY])
{
	char path[PATH_MAX];
	struct dirent *entry;
	int rc = -ENODEV;
	DIR *dir;

	if (!is_plain(interface))
		return -ENODEV;
	snprintf(path, sizeof(path), "%s/class/infiniband", sysfs());
	/* Most hosts: no RDMA at all.  opendir(3) changes errno. */
	if (!exists(path))
		return -ENODEV;
	dir = opendir(path);
	while (dir && rc && (entry = readdir(dir))) {
		if (strlen(entry->d_name) >= sizeof(name->device) || !is_plain(entry->d_name) ||
		    !serves(entry->d_name, interface))
			continue;
		strcpy(name->device, entry->d_name);
		name->port = port_of(entry->d_name, interface);
		rc = name->port ? 0 : -EOPNOTSUPP;
	}
	if (dir)
		closedir(dir);
	if (rc == -EOPNOTSUPP)
		snprintf(why, PORT_WHY,
			 "%s is a representor, or another interface of %s than its port; only "
			 "the port's own interface is served.\n",
			 interface, name->device);
	return rc;
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
