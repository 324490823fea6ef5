/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loading and attaching the XDP program.  libbpf is used only here, while a port is opened.
 * Afterwards there are plain descriptors, hidden from the application, and mapped settings.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/sys.h"
#include "ring/xdp/xdp_internal.h"
#include "ring/xdp_steer_skel.h"

__attribute__((format(printf, 2, 0))) static int print_to_log(enum libbpf_print_level level,
							      const char *fmt, va_list args)
{
	char text[4096], *rest = text, *line;

	if (log_level < LOG_DEBUG)
		return 0;
	vsnprintf(text, sizeof(text), fmt, args);
	while ((line = strsep(&rest, "\n")))
		if (*line)
			log_debug("%s", line);
	return 0;
}

/* A hidden copy of a descriptor, which stays open when libbpf's skeleton is destroyed. */
static int keep_fd(int fd)
{
	return sys_fd_copy(fd);
}

int xdp_map_conf(struct xdp_port *port)
{
	struct xdp_map map = {0};
	int rc;

	port->conf_len = 4096;
	rc = xdp_map(&map, port->conf_len, port->conf_fd, 0);
	port->conf = map.addr;
	if (!rc)
		rc = xdp_map_conns(port);
	if (!rc)
		rc = xdp_map_shares(port);
	return rc ? rc : deathmarks_map(&port->lives, port->lives_fd);
}

void xdp_conf_mac(struct xdp_port *port, const uint8_t mac[6])
{
	memcpy(&port->conf->mac_lo, mac, 4);
	memcpy(&port->conf->mac_hi, mac + 4, 2);
}

static int keep(struct xdp_port *port, const struct xdp_steer_skel *skel)
{
	port->xsks_fd = keep_fd(bpf_map__fd(skel->maps.xsks));
	port->flows3_fd = keep_fd(bpf_map__fd(skel->maps.flows3));
	port->flows5_fd = keep_fd(bpf_map__fd(skel->maps.flows5));
	port->local_ports_fd = keep_fd(bpf_map__fd(skel->maps.conns));
	port->shares_fd = keep_fd(bpf_map__fd(skel->maps.shares));
	port->gone_fd = keep_fd(bpf_map__fd(skel->maps.gone));
	port->fences_fd = keep_fd(bpf_map__fd(skel->maps.fences));
	port->grants_fd = keep_fd(bpf_map__fd(skel->maps.grants));
	port->lives_fd = keep_fd(bpf_map__fd(skel->maps.lives));
	port->kernel_fd = keep_fd(bpf_map__fd(skel->maps.kernel));
	port->exact_fd = keep_fd(bpf_map__fd(skel->maps.exact));
	port->conf_fd = keep_fd(bpf_map__fd(skel->maps.bss));
	if (port->xsks_fd < 0 || port->flows3_fd < 0 || port->flows5_fd < 0 ||
	    port->local_ports_fd < 0 || port->shares_fd < 0 || port->gone_fd < 0 ||
	    port->fences_fd < 0 || port->grants_fd < 0 || port->lives_fd < 0 ||
	    port->kernel_fd < 0 || port->exact_fd < 0 || port->conf_fd < 0)
		return -EMFILE;
	return xdp_map_conf(port);
}

static int link_to(struct xdp_port *port, int prog, unsigned flags)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = flags);
	int fd = bpf_link_create(prog, port->base.ifindex, BPF_XDP, &opts);

	if (fd < 0)
		return fd;
	port->link_fd = sys_fd_hide(fd);
	return 0;
}

/* ---- a program that stays while its port is opened anew ----------------------------- */

#define KEPT_MAX 8

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	int ifindex; /* 0: free */
	int link_fd;
	bool native, grew;
} kept[KEPT_MAX];

void xdp_link_keep(struct xdp_port *port)
{
	mutex_lock(&kept_lock);
	for (int i = 0; i < KEPT_MAX && port->link_fd >= 0; i++) {
		if (kept[i].ifindex)
			continue;
		kept[i].link_fd = port->link_fd;
		kept[i].native = port->native;
		kept[i].grew = port->grew;
		kept[i].ifindex = port->base.ifindex;
		port->link_fd = -1;
	}
	mutex_unlock(&kept_lock);
}

/* -1: none was kept. */
static int take_kept(int ifindex, bool *native, bool *grew)
{
	int fd = -1;

	mutex_lock(&kept_lock);
	for (int i = 0; i < KEPT_MAX && fd < 0; i++) {
		if (kept[i].ifindex != ifindex)
			continue;
		fd = kept[i].link_fd;
		*native = kept[i].native;
		*grew = kept[i].grew;
		kept[i].ifindex = 0;
	}
	mutex_unlock(&kept_lock);
	return fd;
}

void xdp_link_let_go(int ifindex)
{
	bool native, grew;
	int fd = take_kept(ifindex, &native, &grew);

	sys_close_fd(&fd);
}

/* Replaces the XDP program that xdp_link_keep() left attached.  False: there is none. */
static bool replace_kept(struct xdp_port *port, int prog)
{
	int fd = take_kept(port->base.ifindex, &port->native, &port->grew);

	if (fd < 0)
		return false;
	port->conf->hold = (uint64_t)(group_now() + XDP_HOLD);
	if (!bpf_link_update(fd, prog, NULL)) {
		port->link_fd = fd;
		return true;
	}
	port->conf->hold = 0;
	port->grew = false;
	sys_close_fd(&fd);
	return false;
}

static bool is_taken(int rc)
{
	return rc == -EBUSY || rc == -EEXIST;
}

static int attach(struct xdp_port *port, struct xdp_device *dev, int prog, char why[PORT_WHY])
{
	int native, generic;

	if (replace_kept(port, prog))
		return 0;
	/* Counts the queues without a program: see may_zero_copy(). */
	if (xdp_is_attached(dev->ifindex))
		return xdp_why_taken(why, dev);
	xdp_device_recount(dev);
	native = link_to(port, prog, XDP_FLAGS_DRV_MODE);
	port->native = native == 0;
	if (!native)
		return 0;
	if (is_taken(native))
		return xdp_why_taken(why, dev);
	log_debug("%s: no native XDP (%s), trying generic", dev->name, strerrordesc_np(-native));
	generic = link_to(port, prog, XDP_FLAGS_SKB_MODE);
	if (!generic)
		return 0;
	if (is_taken(generic))
		return xdp_why_taken(why, dev);
	if (generic == -EPERM || generic == -EACCES)
		return xdp_why_refused(why, dev->name, "attach an XDP program");
	return xdp_why(why, -EOPNOTSUPP,
		       "Interface %s is not accelerated: it takes no XDP program\n"
		       "(native: %s; generic: %s).\n"
		       "Linux 5.10 or later and an Ethernet interface are needed.\n",
		       dev->name, strerrordesc_np(-native), strerrordesc_np(-generic));
}

static int why_not_loaded(char why[PORT_WHY], const struct xdp_device *dev, int rc)
{
	if (rc == -EINVAL && dev->mtu > XDP_MTU_MAX) /* BPF_F_XDP_HAS_FRAGS: Linux 5.18 */
		return xdp_why_jumbo(why, dev->name, dev->mtu);
	if (rc == -EPERM && xdp_memlock_is_cause())
		return xdp_why_memlock_maps(why, dev->name);
	if (rc == -EACCES)
		return xdp_why_not_verified(why, dev->name);
	if (rc == -EPERM)
		return xdp_why_refused(why, dev->name, "load a BPF program");
	return xdp_why(why, rc,
		       "Interface %s is not accelerated: its XDP program cannot be loaded (%s).\n"
		       "Linux 5.10 or later with BPF and AF_XDP is needed; VMA_TRACELEVEL=debug\n"
		       "shows what the kernel said.\n",
		       dev->name, strerrordesc_np(-rc));
}

/* Raises the limit before the first attempt: libbpf remembers what failed in it. */
static int load(struct xdp_steer_skel *skel, const struct xdp_device *dev, char why[PORT_WHY])
{
	struct xdp_memlock memlock = {0};
	int rc;

	if (xdp_memlock_needed())
		xdp_memlock_raise(&memlock);
	rc = xdp_steer_skel__load(skel);
	if (rc)
		rc = why_not_loaded(why, dev, rc);
	xdp_memlock_restore(&memlock);
	return rc;
}

int xdp_load(struct xdp_port *port, struct xdp_device *dev, char why[PORT_WHY])
{
	struct xdp_steer_skel *skel;
	uint32_t seed;
	int rc;

	libbpf_set_print(print_to_log);
	libbpf_set_memlock_rlim(0); /* leave the process's limits alone */
	skel = xdp_steer_skel__open();
	if (!skel)
		return xdp_why(why, -ENOMEM, "Interface %s is not accelerated: out of memory.\n",
			       dev->name);
	if (port->jumbo)
		bpf_program__set_flags(skel->progs.xdp_steer, BPF_F_XDP_HAS_FRAGS);
	rc = load(skel, dev, why);
	if (rc)
		goto destroy;
	rc = keep(port, skel);
	if (rc) {
		rc = xdp_why(why, rc, "Interface %s is not accelerated: %s.\n", dev->name,
			     strerrordesc_np(-rc));
		goto unload;
	}
	xdp_conf_mac(port, dev->mac);
	port->conf->udp_max = dev->mtu;
	if (random_bytes(&seed, sizeof(seed)))
		port->conf->seed = seed;
	rc = attach(port, dev, bpf_program__fd(skel->progs.xdp_steer), why);
	if (rc)
		goto unload;
	goto destroy;

unload:
	xdp_unload(port);
destroy:
	xdp_steer_skel__destroy(skel);
	return rc;
}

void xdp_unload(struct xdp_port *port)
{
	sys_close_fd(&port->link_fd);
	sys_close_fd(&port->xsks_fd);
	sys_close_fd(&port->flows3_fd);
	sys_close_fd(&port->flows5_fd);
	sys_close_fd(&port->local_ports_fd);
	sys_close_fd(&port->shares_fd);
	sys_close_fd(&port->gone_fd);
	sys_close_fd(&port->fences_fd);
	sys_close_fd(&port->grants_fd);
	sys_close_fd(&port->lives_fd);
	sys_close_fd(&port->kernel_fd);
	sys_close_fd(&port->exact_fd);
	sys_close_fd(&port->conf_fd);
	xdp_unmap_conns(port);
	xdp_unmap_shares(port);
	deathmarks_unmap(&port->lives);
	if (port->conf)
		munmap(port->conf, port->conf_len);
	port->conf = NULL;
}
