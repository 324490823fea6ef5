/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory and sockets that the members of a port group share: control segment, UMEM, and the
 * anchors.  An anchor is an AF_XDP socket with the fill and the completion ring of an RX queue; no
 * frames are redirected to it.
 */
#include <errno.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/param.h"
#include "base/sealed.h"
#include "base/mem.h"
#include "base/sys.h"
#include "ring/xdp/xdp_internal.h"

#define QUEUES_UNTOLD 16	/* most RX queues of a device whose number is not known */
#define PAGE 4096		/* the smallest page size */
#define MEM_ALLOC_HUGE 2	/* of VMA_MEM_ALLOC_TYPE */
#define TOUCH_STACK (64 * 1024) /* bytes */

static void warn_no_huge_pages(void)
{
	log_box(LOG_WARNING, "NO IMMEDIATE ACTION NEEDED!\n"
			     "Not enough hugepage resources for VMA memory allocation.\n"
			     "VMA will continue working with regular memory allocation.\n"
			     "Optional: 1. Switch to a different memory allocation type\n"
			     "             (VMA_MEM_ALLOC_TYPE= 0 or 1)\n"
			     "          2. Restart process after increasing the number of\n"
			     "             hugepages resources in the system:\n"
			     "\"cat /proc/meminfo |  grep -i HugePage\"\n"
			     "\"echo 800 > /proc/sys/vm/nr_hugepages\"");
}

/* The NUMA node of the interface's device, SEALED_ANY_NODE: it has none. */
static int node_of(const struct xdp_port *port)
{
	char path[64 + IF_NAMESIZE], text[16];
	int node;

	snprintf(path, sizeof(path), "/sys/class/net/%s/device/numa_node", port->base.name);
	if (sys_read_text(path, text, sizeof(text)) <= 0 || sscanf(text, "%d", &node) != 1)
		return SEALED_ANY_NODE;
	return node;
}

#define PRIVATE_SIZE PAGE /* of the file that stands for memory that is the program's */

static int umem_file(const struct xdp_port *port)
{
	bool huge = params.mem_alloc_type == MEM_ALLOC_HUGE;
	int node = node_of(port);
	int fd;

	if (frame_mem_is_users())
		return sealed_create("vma-umem-private", PRIVATE_SIZE);
	fd = sealed_create_pages("vma-umem", port->group.umem_size, huge, node);

	if (fd >= 0 || !huge)
		return fd;
	warn_no_huge_pages();
	return sealed_create_pages("vma-umem", port->group.umem_size, false, node);
}

static int map_umem(struct xdp_port *port)
{
	int rc;

	if (frame_mem_is_users()) {
		rc = frame_mem_get(&port->own, port->group.umem_size);
		port->group.umem = port->own.addr;
		return rc;
	}
	rc = xdp_map(&port->umem_map, port->group.umem_size, port->umem_fd, 0);

	port->group.umem = port->umem_map.addr;
	return rc;
}

static int map_memory(struct xdp_port *port)
{
	int rc = xdp_map(&port->ctl_map, sizeof(struct group_ctl), port->group.ctl_fd, 0);

	port->group.ctl = port->ctl_map.addr;
	return rc ? rc : map_umem(port);
}

/* Maps the fill and the completion ring of an anchor. */
static int map_rings(struct xdp_port *port, unsigned i)
{
	struct xdp_group *g = &port->group;
	struct xdp_mmap_offsets off;
	struct xsk_ring_prod fill;
	struct xsk_ring_cons comp;
	int fd = port->anchors[i];
	int rc = xdp_ring_offsets(fd, &off);

	if (!rc)
		rc = xdp_map(&port->fill_maps[i], off.fr.desc + XDP_FILL_ENTRIES * sizeof(uint64_t),
			     fd, XDP_UMEM_PGOFF_FILL_RING);
	if (!rc)
		rc = xdp_map(&port->comp_maps[i], off.cr.desc + XDP_COMP_ENTRIES * sizeof(uint64_t),
			     fd, XDP_UMEM_PGOFF_COMPLETION_RING);
	if (rc)
		return rc;
	xdp_ring_set(&fill, &port->fill_maps[i], &off.fr, XDP_FILL_ENTRIES);
	xdp_ring_set(&comp, &port->comp_maps[i], &off.cr, XDP_COMP_ENTRIES);
	g->fill[i] =
		(struct group_ring){fill.producer, fill.consumer, fill.flags, fill.ring, fill.size};
	g->comp[i] =
		(struct group_ring){comp.producer, comp.consumer, comp.flags, comp.ring, comp.size};
	return 0;
}

static void copy_settings(struct xdp_group *g)
{
	const struct group_ctl *ctl = g->ctl;

	g->frames = ctl->frames;
	g->frame_shift = ctl->frame_shift;
	g->queues = ctl->queues;
	g->fill_target = ctl->fill_target;
	g->native = ctl->native;
	g->zerocopy = ctl->zerocopy;
	g->jumbo = ctl->jumbo;
}

/* ---- anchors ------------------------------------------------------------------------ */

static int register_umem(struct xdp_port *port, int fd)
{
	struct xdp_umem_reg reg = {
		.addr = (uintptr_t)port->group.umem,
		.len = port->group.umem_size,
		.chunk_size = 1u << port->group.frame_shift,
	};
	int rc = xdp_set_option(fd, XDP_UMEM_REG, &reg, sizeof(reg));
	struct xdp_memlock memlock;

	if (rc == -ENOBUFS && xdp_memlock_raise(&memlock)) {
		rc = xdp_set_option(fd, XDP_UMEM_REG, &reg, sizeof(reg));
		xdp_memlock_restore(&memlock);
	}
	return rc;
}

static int set_ring_sizes(int fd)
{
	uint32_t fill = XDP_FILL_ENTRIES, comp = XDP_COMP_ENTRIES, rx = 2;
	int rc = xdp_set_option(fd, XDP_UMEM_FILL_RING, &fill, sizeof(fill));

	if (!rc)
		rc = xdp_set_option(fd, XDP_UMEM_COMPLETION_RING, &comp, sizeof(comp));
	if (!rc)
		rc = xdp_set_option(fd, XDP_RX_RING, &rx, sizeof(rx)); /* bind() needs an RX ring */
	return rc;
}

/*
 * Not if the interface has some queues only while a program is attached: the kernel removes these
 * before zero-copy sockets release them, in whatever order they are closed, then warns and soon
 * crashes (virtio_net, Linux 7.3).
 */
static bool may_zero_copy(const struct xdp_port *port)
{
	return port->native && params.xdp_zerocopy && !port->grew;
}

static int bind_first(const struct xdp_port *port, int fd, struct sockaddr_xdp *addr)
{
	int rc;

	addr->sxdp_flags = XDP_USE_NEED_WAKEUP;
	if (!may_zero_copy(port))
		addr->sxdp_flags |= XDP_COPY;
	/* The kernel tries zero-copy, and copies if the driver cannot do it. */
	if (port->native && !port->jumbo)
		return xdp_bind(fd, addr);
	addr->sxdp_flags |= XDP_USE_SG;
	rc = xdp_bind(fd, addr);
	if (rc != -EINVAL)
		return rc;
	/* Before Linux 6.6.  On virtual devices, generic XDP gets segments that were not split. */
	if (port->jumbo || port->base.can.partial_csum)
		return -EPROTONOSUPPORT;
	addr->sxdp_flags &= (uint16_t)~XDP_USE_SG;
	return xdp_bind(fd, addr);
}

static int bind_anchor(const struct xdp_port *port, unsigned i)
{
	struct sockaddr_xdp addr = {
		.sxdp_family = AF_XDP,
		.sxdp_ifindex = (uint32_t)port->base.ifindex,
		.sxdp_queue_id = i,
	};

	if (!i)
		return bind_first(port, port->anchors[0], &addr);
	addr.sxdp_flags = XDP_SHARED_UMEM;
	addr.sxdp_shared_umem_fd = (uint32_t)port->anchors[0];
	return xdp_bind(port->anchors[i], &addr);
}

static bool is_zerocopy(int fd)
{
	struct xdp_options options = {0};
	socklen_t len = sizeof(options);

	return !sys_getsockopt(fd, SOL_XDP, XDP_OPTIONS, &options, &len) &&
	       (options.flags & XDP_OPTIONS_ZEROCOPY);
}

/* Before bind(2), since some drivers take frames in it. */
static void first_fill(struct xdp_port *port, unsigned i, uint32_t first)
{
	struct xdp_group *g = &port->group;
	struct group_ring *r = &g->fill[i];

	for (uint32_t n = 0; n < g->fill_target; n++) {
		group_set_owner(g, first + n, owner_fill(0, i, n));
		r->addrs[n] = (uint64_t)(first + n) << g->frame_shift;
	}
	/* release: pairs with the kernel's load of the fill ring's producer */
	__atomic_store_n(r->producer, g->fill_target, __ATOMIC_RELEASE);
}

static int open_anchor(struct xdp_port *port, unsigned i)
{
	int rc, fd = xdp_socket();

	if (fd < 0)
		return fd;
	port->anchors[i] = fd;
	rc = i ? 0 : register_umem(port, fd);
	if (!rc)
		rc = set_ring_sizes(fd);
	if (!rc)
		rc = map_rings(port, i);
	if (rc)
		return rc;
	first_fill(port, i, i * port->group.fill_target);
	return bind_anchor(port, i);
}

static void close_anchor(struct xdp_port *port, unsigned i)
{
	xdp_unmap(&port->fill_maps[i]);
	xdp_unmap(&port->comp_maps[i]);
	sys_close_fd(&port->anchors[i]);
}

static int open_anchors(struct xdp_port *port, char why[PORT_WHY])
{
	unsigned want = port->rx_queues ? port->rx_queues : QUEUES_UNTOLD, i;

	for (i = 0; i < want; i++) {
		int rc = open_anchor(port, i);

		/* The number of queues is not known: use as many as can be bound. */
		if (rc == -EINVAL && !port->rx_queues && i) {
			close_anchor(port, i);
			break;
		}
		if (rc)
			return xdp_why_no_sock(why, port, i, rc);
	}
	port->group.ctl->queues = i;
	return 0;
}

/* ---- making and joining ----------------------------------------------------------------- */

/*
 * In zero-copy mode, cards round the size of a receive buffer down to steps of 1 KB
 * (SRRCTL.BSIZEPKT of igb): they would use half of a frame of 2 KB and truncate longer packets.
 */
static uint32_t frame_shift_of(const struct xdp_port *port)
{
	bool card = port->native && params.xdp_zerocopy && !(port->base.can.partial_csum);

	return card || port->base.mtu > XDP_MTU_OF(2048) ? 12 : 11;
}

/* The free frames that wait in each RX queue, as this process would have it. */
static uint32_t fill_target_of(const struct xdp_port *port)
{
	const struct group_ctl *ctl = port->group.ctl;
	uint32_t target = ctl->frames / 2 / (port->rx_queues ? port->rx_queues : QUEUES_UNTOLD);

	if (target > XDP_FILL_ENTRIES)
		target = XDP_FILL_ENTRIES;
	return target > (uint32_t)params.rx_wre ? (uint32_t)params.rx_wre : target;
}

static void init_ctl(struct xdp_port *port)
{
	struct group_ctl *ctl = port->group.ctl;

	ctl->magic = GROUP_MAGIC;
	ctl->version = GROUP_VERSION;
	ctl->size = sizeof(*ctl);
	ctl->frame_shift = frame_shift_of(port);
	ctl->umem_size = port->group.umem_size;
	ctl->frames = ctl->umem_size >> ctl->frame_shift;
	ctl->fill_target = fill_target_of(port);
	ctl->native = port->native;
	ctl->jumbo = port->jumbo;
	ctl->made = group_now();
}

/* All frames that are not in fill rings go to the pool. */
static void init_frames(struct xdp_port *port)
{
	struct group_ctl *ctl = port->group.ctl;
	uint32_t filled = ctl->queues * ctl->fill_target;

	/* Some may have been put into the fill ring of a queue that could not be bound. */
	for (uint32_t f = filled; f < ctl->frames; f++)
		group_set_owner(&port->group, f, OWNER_POOL);
	group_frames_init(ctl, filled);
}

static int enter(struct xdp_port *port, char why[PORT_WHY])
{
	int rc = group_member_enter(&port->group);

	if (rc)
		return xdp_why(why, rc,
			       "Interface %s is not accelerated: %u processes share it already.\n",
			       port->base.name, GROUP_MEMBERS);
	return 0;
}

static int why_no_memory(const struct xdp_port *port, int rc, char why[PORT_WHY])
{
	return xdp_why(why, rc, "Interface %s is not accelerated: %s.\n", port->base.name,
		       strerrordesc_np(-rc));
}

/* Before Linux 6.4 the rings of a socket cannot be mapped after bind(2). */
static int why_not_shared(const struct xdp_port *port, char why[PORT_WHY])
{
	return xdp_why(why, -EOPNOTSUPP,
		       "Interface %s is not accelerated: another process has it already, and\n"
		       "processes can share an interface from Linux 6.4 on.\n"
		       "Use a newer kernel, or one accelerated process per interface.\n",
		       port->base.name);
}

/* Frames that are shared lie in memory that all processes have mapped. */
static int why_private(const struct xdp_port *port, char why[PORT_WHY])
{
	return xdp_why(
		why, -EBUSY,
		"Interface %s is not accelerated: another process has it already, and\n"
		"frames in memory of a program's own (CMSG_VMA_IOCTL_USER_ALLOC), here or there,\n"
		"cannot be shared.\n",
		port->base.name);
}

/* Writes to each page, because the kernel allocates its memory at the first write. */
static void *touch_pages(void *arg)
{
	const struct xdp_map *umem = arg;

	for (size_t at = 0; at < umem->len; at += PAGE)
		*((volatile uint8_t *)umem->addr + at) = 0;
	return NULL;
}

/*
 * The program's handlers run on its own threads. The stack is ours: the C library would keep it, and
 * each child of fork(2) would get it.
 */
static int start_touching(struct xdp_port *port)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int rc;

	port->touch_stack = mem_map(TOUCH_STACK);
	if (!port->touch_stack)
		return -ENOMEM;
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, port->touch_stack, TOUCH_STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&port->toucher, &attr, touch_pages, &port->umem_map);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (rc)
		mem_unmap(port->touch_stack, TOUCH_STACK);
	return -rc;
}

/* VMA_UMEM_MB, as far as it goes; what the RX queues need is the least. */
static uint32_t umem_size_of(unsigned queues)
{
	uint32_t size = queues * XDP_UMEM_SIZE_QUEUE, wanted = (uint32_t)params.umem_mb << 20;

	if (size < XDP_UMEM_SIZE_MIN)
		size = XDP_UMEM_SIZE_MIN;
	if (size < wanted)
		size = wanted & ~(XDP_UMEM_SIZE_QUEUE - 1); /* whole huge pages */
	return size;
}

int xdp_group_memory(struct xdp_port *port, char why[PORT_WHY])
{
	int rc = 0;

	port->group.umem_size = umem_size_of(port->rx_queues);
	port->group.ctl_fd = sealed_create("vma-group", sizeof(struct group_ctl));
	port->umem_fd = umem_file(port);
	port->wake_fd = sys_fd_hide(sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (port->group.ctl_fd < 0 || port->umem_fd < 0 || port->wake_fd < 0)
		rc = -EMFILE;
	if (!rc)
		rc = map_memory(port);
	if (rc)
		return why_no_memory(port, rc, why);
	/* If there is no thread, the kernel allocates the pages when the UMEM is registered. */
	port->touching = !frame_mem_is_users() && !start_touching(port);
	return 0;
}

void xdp_group_memory_wait(struct xdp_port *port)
{
	if (port->touching) {
		pthread_join(port->toucher, NULL);
		mem_unmap(port->touch_stack, TOUCH_STACK);
	}
	port->touching = false;
}

int xdp_group_memory_fit(struct xdp_port *port, char why[PORT_WHY])
{
	uint32_t size = umem_size_of(port->rx_queues);
	int rc;

	if (size <= port->group.umem_size)
		return 0;
	xdp_unmap(&port->umem_map);
	frame_mem_put(&port->own);
	sys_close_fd(&port->umem_fd);
	port->group.umem_size = size;
	port->umem_fd = umem_file(port);
	if (port->umem_fd < 0)
		return why_no_memory(port, port->umem_fd, why);
	rc = map_umem(port);
	return rc ? why_no_memory(port, rc, why) : 0;
}

int xdp_group_create(struct xdp_port *port, char why[PORT_WHY])
{
	int rc;

	init_ctl(port);
	copy_settings(&port->group);
	rc = open_anchors(port, why);
	if (rc)
		return rc;
	port->group.ctl->zerocopy = is_zerocopy(port->anchors[0]);
	for (unsigned i = 0; port->group.ctl->zerocopy && i < port->group.ctl->queues; i++)
		xdp_drive_allow(port->anchors[i]);
	init_frames(port);
	copy_settings(&port->group);
	port->conf->queues = port->group.queues;
	/* Tried with drivers that copy only. */
	port->conf->unstamped = port->group.zerocopy;
	log_debug("%s: port group made, %u RX queues, %s XDP, %s", port->base.name,
		  port->group.queues, port->native ? "native" : "generic",
		  port->group.zerocopy ? "zero-copy" : "copy");
	return enter(port, why);
}

static bool is_sane(const struct group_ctl *ctl)
{
	return (ctl->frame_shift == 12 || (ctl->frame_shift == 11 && !ctl->jumbo)) &&
	       ctl->frames == ctl->umem_size >> ctl->frame_shift && ctl->queues &&
	       ctl->queues <= XDP_STEER_QUEUES && ctl->fill_target <= XDP_FILL_ENTRIES;
}

/* What the process that made the group decided otherwise than this one asks for. */
static void tell_decided(const struct xdp_port *port)
{
	uint32_t want = fill_target_of(port), is = port->group.fill_target;
	bool want_huge = params.mem_alloc_type == MEM_ALLOC_HUGE,
	     huge = sealed_is_huge(port->umem_fd);
	bool copies = !params.xdp_zerocopy && port->group.zerocopy;
	uint32_t want_size = umem_size_of(port->group.queues), size = port->group.umem_size;
	char text[PORT_WHY] = "";
	size_t len = 0;

	if (want != is)
		len = (size_t)snprintf(text, sizeof(text),
				       "; %u frames wait in each RX queue, not %u (VMA_RX_WRE)", is,
				       want);
	if (want_huge != huge)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"; frames are in %s pages (VMA_MEM_ALLOC_TYPE)",
					huge ? "huge" : "ordinary");
	if (params.umem_mb && want_size != size)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"; %u MB of frames, not %u (VMA_UMEM_MB)", size >> 20,
					want_size >> 20);
	if (copies)
		snprintf(text + len, sizeof(text) - len, "; zero-copy (VMA_XDP_ZEROCOPY)");
	if (text[0])
		log_info("%s: shared, as the process that attached first decided%s",
			 port->base.name, text);
}

int xdp_group_adopt(struct xdp_port *port, char why[PORT_WHY])
{
	size_t umem_size = sealed_size(port->umem_fd);
	const struct group_ctl *ctl;
	int rc = -EPROTO;

	if (frame_mem_is_users() || umem_size == PRIVATE_SIZE)
		return why_private(port, why);
	if (sealed_size(port->group.ctl_fd) != sizeof(*ctl) || umem_size < XDP_UMEM_SIZE_MIN ||
	    umem_size > XDP_UMEM_SIZE_MAX)
		return why_no_memory(port, rc, why);
	port->group.umem_size = (uint32_t)umem_size;
	rc = map_memory(port);
	if (rc)
		return why_no_memory(port, rc, why);
	ctl = port->group.ctl;
	if (ctl->magic != GROUP_MAGIC || ctl->version != GROUP_VERSION ||
	    ctl->umem_size != umem_size || !is_sane(ctl))
		return why_no_memory(port, -EPROTO, why);
	copy_settings(&port->group);
	port->native = port->group.native;
	port->jumbo = port->group.jumbo;
	if (!port->jumbo && port->base.mtu > XDP_MTU_OF(1u << port->group.frame_shift))
		port->base.mtu = XDP_MTU_OF(1u << port->group.frame_shift);
	for (unsigned i = 0; i < port->group.queues && !rc; i++)
		rc = map_rings(port, i);
	if (rc == -EBUSY)
		return why_not_shared(port, why);
	if (!rc)
		rc = xdp_map_conf(port);
	if (rc)
		return why_no_memory(port, rc, why);
	tell_decided(port);
	return enter(port, why);
}

void xdp_group_drop(struct xdp_port *port)
{
	/* The first anchor last: the others share its UMEM. */
	for (unsigned i = XDP_STEER_QUEUES; i-- > 0;)
		close_anchor(port, i);
	xdp_unmap(&port->ctl_map);
	xdp_unmap(&port->umem_map);
	frame_mem_put(&port->own);
	port->group.ctl = NULL;
	/* This close() drops the record lock: from here on the process is no member. */
	sys_close_fd(&port->group.ctl_fd);
	sys_close_fd(&port->umem_fd);
	sys_close_fd(&port->wake_fd);
}
