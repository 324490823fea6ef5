/* SPDX-License-Identifier: BSD-2-Clause */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/sys.h"
#include "net/netlink/netlink.h"
#include "ring/xdp/xdp_check.h"
#include "ring/xdp/xdp_internal.h"

static const struct {
	unsigned bit;
	const char *name;
} needed_caps[] = {
	{CAP_NET_ADMIN, "CAP_NET_ADMIN"},
	{CAP_NET_RAW, "CAP_NET_RAW"},
	{CAP_BPF, "CAP_BPF"},
};

int xdp_why(char why[PORT_WHY], int error, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, PORT_WHY, fmt, args);
	va_end(args);
	return error;
}

/* Also true if the kernel does not tell. */
bool xdp_have_cap(unsigned cap)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	return sys_call(SYS_capget, &header, data, 0, 0, 0, 0) < 0 ||
	       data[cap / 32].effective & (1u << (cap % 32));
}

bool xdp_missing_caps(char missing[XDP_CAPS_TEXT])
{
	size_t len = 0;

	missing[0] = '\0';
	for (size_t i = 0; i < sizeof(needed_caps) / sizeof(*needed_caps); i++) {
		if (xdp_have_cap(needed_caps[i].bit))
			continue;
		/* CAP_SYS_ADMIN contains CAP_BPF. */
		if (needed_caps[i].bit == CAP_BPF && xdp_have_cap(CAP_SYS_ADMIN))
			continue;
		len += (size_t)snprintf(missing + len, XDP_CAPS_TEXT - len, "%s%s", len ? ", " : "",
					needed_caps[i].name);
	}
	return len != 0;
}

int xdp_why_missing_caps(char why[PORT_WHY], const char *ifname)
{
	char missing[XDP_CAPS_TEXT];

	if (!xdp_missing_caps(missing))
		return 0;
	return xdp_why(
		why, -EPERM,
		"Offloaded resources are restricted to root or user with CAP_NET_RAW privileges\n"
		"Interface %s is not accelerated: this process lacks %s.\n"
		"AF_XDP needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF.\n"
		"Run the program as root, or give it these capabilities as ambient ones\n"
		"(setpriv --ambient-caps, AmbientCapabilities= of systemd).\n",
		ifname, missing);
}

int xdp_why_refused(char why[PORT_WHY], const char *ifname, const char *what)
{
	return xdp_why(why, -EPERM,
		       "Interface %s is not accelerated: the kernel refuses to %s.\n"
		       "The capabilities of this process do not count outside its user namespace,\n"
		       "or a security policy (seccomp, kernel lockdown) forbids BPF or AF_XDP.\n"
		       "Run the program outside the container, or allow bpf(2) and AF_XDP in it.\n",
		       ifname, what);
}

/* The XDP program on the interface; false: there is none. */
static bool query_program(int ifindex, struct bpf_prog_info *info)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, opts);
	uint32_t len = sizeof(*info);
	int fd;

	*info = (struct bpf_prog_info){0};
	if (bpf_xdp_query(ifindex, 0, &opts) < 0)
		return false;
	info->id = opts.prog_id	      ? opts.prog_id
		   : opts.drv_prog_id ? opts.drv_prog_id
				      : opts.skb_prog_id;
	if (!info->id)
		return false;
	fd = bpf_prog_get_fd_by_id(info->id);
	if (fd < 0)
		return true;
	bpf_obj_get_info_by_fd(fd, info, &len);
	sys_close(fd);
	return true;
}

/*
 * Another user whose port group seems to have the interface, by its name (xdp_group_name.c);
 * false: none.  Any process can take such a name, so this is a guess.
 */
static bool group_of_other(int ifindex, unsigned *uid)
{
	unsigned self = sys_geteuid();
	FILE *list = fopen("/proc/thread-self/net/unix", "re");
	char line[256], *name;
	bool found = false;
	int index;

	while (list && !found && fgets(line, sizeof(line), list)) {
		name = strstr(line, "libvma");
		name = name ? strstr(name, "xdp-") : NULL;
		found = name && sscanf(name, "xdp-%d-%u", &index, uid) == 2 && index == ifindex &&
			*uid != self;
	}
	if (list)
		fclose(list);
	return found;
}

bool xdp_is_attached(int ifindex)
{
	struct bpf_prog_info info;

	return query_program(ifindex, &info);
}

struct upper {
	int ifindex;   /* of the device beneath */
	char name[16]; /* "": none was found */
};

static void find_upper(const struct link *link, void *arg)
{
	struct upper *upper = arg;

	/* Of a veth, `lower` is the peer. */
	if (link->lower == upper->ifindex && !link->lower_elsewhere &&
	    !strcmp(link->kind, "vlan") && xdp_is_attached(link->ifindex))
		memcpy(upper->name, link->name, sizeof(upper->name));
}

/* The kernel attaches no program beneath a device that has one; above it does. */
static int why_upper(char why[PORT_WHY], const struct xdp_device *dev, const char *upper)
{
	return xdp_why(
		why, -EBUSY,
		"Interface %s is not accelerated: %s on it has an XDP program, and the kernel\n"
		"then allows none beneath.  Both are accelerated if the first socket is on %s.\n",
		dev->name, upper, dev->name);
}

int xdp_why_taken(char why[PORT_WHY], const struct xdp_device *dev)
{
	struct upper upper = {.ifindex = dev->ifindex};
	struct bpf_prog_info info;
	bool there = query_program(dev->ifindex, &info);
	unsigned uid;

	if (!there && !link_each_now(find_upper, &upper) && upper.name[0])
		return why_upper(why, dev, upper.name);
	if (there && group_of_other(dev->ifindex, &uid))
		return xdp_why(
			why, -ENOTUNIQ,
			"Interface %s is not accelerated: another accelerated process has it, one of\n"
			"user %u.  Only processes of one user share an interface: run them as the\n"
			"same user.\n",
			dev->name, uid);
	if (there && info.name[0] && strncmp(info.name, "xdp_steer", BPF_OBJ_NAME_LEN) != 0)
		return xdp_why(
			why, -EBUSY,
			"Interface %s is not accelerated: XDP program %u (%s) is on it already.\n"
			"End the program that uses the interface (bpftool net, bpftool link),\n"
			"or remove what was left there: ip link set %s xdp off\n",
			dev->name, info.id, info.name, dev->name);
	/* It may be removed soon, or be that of this user's group, which does not answer yet. */
	return xdp_why(
		why, -EAGAIN,
		"Interface %s is not accelerated: XDP program %u (%s) is on it already, maybe\n"
		"that of another accelerated process, which does not answer.\n"
		"End the program that uses the interface (bpftool net, bpftool link),\n"
		"or remove what was left there: ip link set %s xdp off\n",
		dev->name, info.id, info.name, dev->name);
}

int xdp_why_memlock(char why[PORT_WHY], const char *ifname, uint32_t bytes)
{
	struct rlimit now = {0};

	sys_call(SYS_prlimit64, 0, RLIMIT_MEMLOCK, NULL, &now, 0, 0);
	return xdp_why(
		why, -ENOBUFS,
		"Your current max locked memory is: %lu. Please change it to unlimited.\n"
		"Set this user's default to `ulimit -l unlimited`.\n"
		"Interface %s is not accelerated: its %u MB of packet buffers cannot be locked.\n"
		"Or set LimitMEMLOCK=infinity of systemd, or give the program CAP_IPC_LOCK.\n",
		(unsigned long)now.rlim_cur, ifname, bytes >> 20);
}

int xdp_why_not_verified(char why[PORT_WHY], const char *ifname)
{
	if (xdp_have_cap(CAP_PERFMON) || xdp_have_cap(CAP_SYS_ADMIN))
		return xdp_why_refused(why, ifname, "load a BPF program");
	return xdp_why(why, -EPERM,
		       "Interface %s is not accelerated: the kernel refuses its XDP program, and\n"
		       "this process lacks CAP_PERFMON.  Before Linux 6.6 programs that look into\n"
		       "packets may need it.\n"
		       "Run the program as root, or give it CAP_PERFMON, too.\n",
		       ifname);
}

int xdp_why_jumbo(char why[PORT_WHY], const char *ifname, uint32_t mtu)
{
	return xdp_why(
		why, -EOPNOTSUPP,
		"Interface %s is not accelerated: with its MTU of %u frames come in pieces,\n"
		"which needs Linux 6.6 or later.\n"
		"Use a newer kernel, or lower the MTU: ip link set %s mtu %u\n",
		ifname, mtu, ifname, XDP_MTU_MAX);
}

int xdp_why_memlock_maps(char why[PORT_WHY], const char *ifname)
{
	return xdp_why(
		why, -EPERM,
		"Interface %s is not accelerated: its steering tables cannot be locked.\n"
		"Before Linux 5.11 they count against the limit of locked memory (RLIMIT_MEMLOCK,\n"
		"ulimit -l, in kB), which is too low for them and cannot be raised from here.\n"
		"Raise it: ulimit -l unlimited, LimitMEMLOCK=infinity of systemd, or give the\n"
		"program CAP_SYS_RESOURCE.\n",
		ifname);
}

int xdp_why_no_sock(char why[PORT_WHY], const struct xdp_port *port, unsigned rx_queue, int rc)
{
	const char *ifname = port->base.name;

	switch (rc) {
	case -EPERM:
	case -EACCES:
		return xdp_why_refused(why, ifname, "open an AF_XDP socket");
	case -EBUSY:
		return xdp_why(why, rc,
			       "Interface %s is not accelerated: RX queue %u is in use by another\n"
			       "AF_XDP socket.  End the program that has it (ss --xdp -p).\n",
			       ifname, rx_queue);
	case -ENOBUFS:
		return xdp_why_memlock(why, ifname, port->group.umem_size);
	case -ENETDOWN:
		return xdp_why(why, rc,
			       "Interface %s is not accelerated: it is down.\n"
			       "Bring it up before the program starts: ip link set %s up\n",
			       ifname, ifname);
	case -EPROTONOSUPPORT:
		if (port->jumbo)
			return xdp_why_jumbo(why, ifname, port->base.mtu);
		return xdp_why(
			why, -EOPNOTSUPP,
			"Interface %s is not accelerated: its driver has no native XDP, and generic\n"
			"XDP on a virtual interface needs Linux 6.6 or later.\n",
			ifname);
	case -EAFNOSUPPORT:
		return xdp_why(why, -EOPNOTSUPP,
			       "Interface %s is not accelerated: the kernel has no AF_XDP.\n"
			       "A kernel with CONFIG_XDP_SOCKETS is needed.\n",
			       ifname);
	default:
		return xdp_why(
			why, rc,
			"Interface %s is not accelerated: no AF_XDP socket on RX queue %u (%s).\n"
			"VMA_TRACELEVEL=debug tells more.\n",
			ifname, rx_queue, strerrordesc_np(-rc));
	}
}
