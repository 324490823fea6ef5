/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interrupts of zero-copy queues that a thread busy polls.
 *
 * While a thread busy polls a queue, the queue's NAPI instance keeps interrupts masked
 * (defer-hard-irqs), and a timer (gro-flush-timeout) polls it when no thread does.  These settings
 * are per instance, by generic netlink, family "netdev" (Documentation/netlink/specs/netdev.yaml;
 * Linux 6.13).  If the kernel or the driver does not have them, or an administrator chose other
 * values, nothing is changed, and each message costs an interrupt.
 *
 * The settings outlive the process.  They are restored soon after the last busy poll by any
 * process of the group, when a process ends, and when a group is made anew.
 */
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <netlink/attr.h>
#include <string.h>

#include "base/log.h"
#include "base/sys.h"
#include "ring/xdp/xdp_internal.h"

/* linux/netdev.h of Linux 6.13 */
enum { NAPI_GET = 11, NAPI_SET = 14 };
enum { NAPI_ID = 2, NAPI_DEFER = 5, NAPI_TIMEOUT = 6 };

/*
 * The timer polls after TIMEOUT without a busy poll; after DEFER polls that found nothing,
 * interrupts are unmasked.  The odd number distinguishes our settings from an administrator's.
 */
#define TIMEOUT 200021u /* ns */
#define DEFER 100u

#define BUSY_FOR (100 * NSEC_PER_MSEC) /* interrupts stay masked after the last busy poll */

struct request {
	struct nlmsghdr head;
	struct genlmsghdr genl;
	uint8_t attrs[64];
};

struct napi_settings {
	uint32_t defer;
	uint64_t timeout;
};

static void put(struct request *rq, uint16_t type, const void *data, uint16_t len)
{
	struct nlattr attr = {.nla_len = (uint16_t)(NLA_HDRLEN + len), .nla_type = type};
	uint8_t *at = (uint8_t *)rq + rq->head.nlmsg_len;

	memcpy(at, &attr, sizeof(attr));
	memcpy(at + NLA_HDRLEN, data, len);
	rq->head.nlmsg_len += NLMSG_ALIGN(attr.nla_len);
}

static void put_u32(struct request *rq, uint16_t type, uint32_t value)
{
	put(rq, type, &value, sizeof(value));
}

static void init(struct request *rq, uint16_t family, uint8_t cmd)
{
	*rq = (struct request){
		.head = {.nlmsg_len = NLMSG_HDRLEN + GENL_HDRLEN,
			 .nlmsg_type = family,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
		.genl = {.cmd = cmd, .version = 1},
	};
}

#define HEADERS ((ssize_t)(NLMSG_HDRLEN + GENL_HDRLEN))

/* The value of a number attribute (2, 4 or 8 bytes) in an answer of n bytes; 0: not there. */
static uint64_t find(uint8_t *reply, ssize_t n, int type)
{
	struct nlattr *attr;
	uint64_t value = 0;

	if (n <= HEADERS)
		return 0;
	attr = nla_find((struct nlattr *)(void *)(reply + HEADERS), (int)(n - HEADERS), type);
	if (attr && nla_len(attr) <= (int)sizeof(value))
		memcpy(&value, nla_data(attr), (size_t)nla_len(attr));
	return value;
}

/* Sends a request; the kernel answers within the call.  The length of the answer, 0, or -errno. */
static ssize_t ask(int fd, const struct request *rq, uint8_t *reply, size_t room)
{
	struct nlmsghdr head;
	struct nlmsgerr err;
	ssize_t n = sys_sendto(fd, rq, rq->head.nlmsg_len, MSG_DONTWAIT, NULL, 0);

	if (n >= 0)
		n = sys_recvfrom(fd, reply, room, MSG_DONTWAIT, NULL, NULL);
	if (n < 0)
		return n;
	if ((size_t)n < sizeof(head))
		return -EPROTO;
	memcpy(&head, reply, sizeof(head));
	if (head.nlmsg_type != NLMSG_ERROR) {
		uint8_t ack[256];

		sys_recvfrom(fd, ack, sizeof(ack), MSG_DONTWAIT, NULL, NULL);
		return n;
	}
	if ((size_t)n < NLMSG_HDRLEN + sizeof(err))
		return -EPROTO;
	memcpy(&err, reply + NLMSG_HDRLEN, sizeof(err));
	return err.error;
}

/* The number of the netlink family "netdev"; 0: there is none. */
static uint16_t find_family(int fd)
{
	static const char name[] = "netdev";
	uint8_t reply[8192];
	struct request rq;
	ssize_t n;

	init(&rq, GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
	put(&rq, CTRL_ATTR_FAMILY_NAME, name, sizeof(name));
	n = ask(fd, &rq, reply, sizeof(reply));
	return (uint16_t)find(reply, n, CTRL_ATTR_FAMILY_ID);
}

static int get(const struct xdp_napi *napi, uint32_t id, struct napi_settings *settings)
{
	uint8_t reply[1024];
	struct request rq;
	ssize_t n;

	init(&rq, napi->family, NAPI_GET);
	put_u32(&rq, NAPI_ID, id);
	n = ask(napi->fd, &rq, reply, sizeof(reply));
	if (n < 0)
		return (int)n;
	settings->defer = (uint32_t)find(reply, n, NAPI_DEFER);
	settings->timeout = find(reply, n, NAPI_TIMEOUT);
	return 0;
}

static int set(const struct xdp_napi *napi, uint32_t id, const struct napi_settings *settings)
{
	uint8_t reply[1024];
	struct request rq;

	init(&rq, napi->family, NAPI_SET);
	put_u32(&rq, NAPI_ID, id);
	put_u32(&rq, NAPI_DEFER, settings->defer);
	put_u32(&rq, NAPI_TIMEOUT, (uint32_t)settings->timeout);
	return (int)ask(napi->fd, &rq, reply, sizeof(reply));
}

/* The NAPI instance of the anchor's queue; 0: not known. */
static uint32_t id_of(int anchor)
{
	uint32_t id = 0;
	socklen_t len = sizeof(id);

	return sys_getsockopt(anchor, SOL_SOCKET, SO_INCOMING_NAPI_ID, &id, &len) ? 0 : id;
}

/* Masks or unmasks the interrupts of a queue.  True: they are as wanted. */
static bool mask(struct xdp_port *port, unsigned queue, bool on)
{
	static const struct napi_settings ours = {.defer = DEFER, .timeout = TIMEOUT}, none;
	struct napi_settings now;
	uint32_t id = id_of(port->anchors[queue]);
	int rc = id ? get(&port->napi, id, &now) : -ENOENT;

	if (!rc && (on ? now.defer || now.timeout : now.timeout != TIMEOUT))
		return on ? now.timeout == TIMEOUT : true; /* an administrator's values stay */
	if (!rc)
		rc = set(&port->napi, id, on ? &ours : &none);
	log_debug("%s: queue %u: interrupts %s busy polling: %s", port->base.name, queue,
		  on ? "are masked during" : "are restored after",
		  rc ? strerrordesc_np(-rc) : "done");
	return !rc;
}

/* ---- under the port's lock, or while the port is opened or freed ------------------------- */

void xdp_napi_init(struct xdp_port *port)
{
	struct xdp_napi *napi = &port->napi;

	if (!port->group.zerocopy)
		return;
	napi->fd = sys_fd_hide(sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC));
	if (napi->fd >= 0)
		napi->family = find_family(napi->fd);
	if (!napi->family)
		sys_close_fd(&napi->fd);
}

void xdp_napi_unmask(struct xdp_port *port)
{
	if (port->napi.fd < 0)
		return;
	for (unsigned i = 0; i < port->group.queues; i++) {
		mask(port, i, false);
		__atomic_store_n(&port->group.ctl->masked[i], 0, __ATOMIC_RELAXED);
	}
}

void xdp_napi_fini(struct xdp_port *port)
{
	xdp_napi_unmask(port);
	sys_close_fd(&port->napi.fd);
}

/* Did a thread of this process busy poll the queue since the last round? */
static bool is_polled(struct xdp_port *port, unsigned queue)
{
	bool polled = false;

	list_for_each(link, &port->queues) {
		struct xdp_queue *q = container_of(link, struct xdp_queue, link);
		struct xdp_drive *d = &q->socks[queue].drive;
		uint32_t calls;

		if (queue >= q->nsocks)
			continue;
		calls = __atomic_load_n(&d->calls, __ATOMIC_RELAXED);
		polled |= calls != d->calls_seen;
		d->calls_seen = calls;
	}
	return polled;
}

bool xdp_napi_service(struct xdp_port *port)
{
	struct group_ctl *ctl = port->group.ctl;
	nsec_t now = group_now();
	bool any = false;

	if (port->napi.fd < 0)
		return false;
	for (unsigned i = 0; i < port->group.queues; i++) {
		uint32_t masked = __atomic_load_n(&ctl->masked[i], __ATOMIC_RELAXED);

		if (is_polled(port, i)) {
			__atomic_store_n(&ctl->polled[i], now, __ATOMIC_RELAXED);
			if (!masked && mask(port, i, true))
				__atomic_store_n(&ctl->masked[i], masked = 1, __ATOMIC_RELAXED);
		} else if (masked &&
			   now - __atomic_load_n(&ctl->polled[i], __ATOMIC_RELAXED) > BUSY_FOR) {
			mask(port, i, false);
			__atomic_store_n(&ctl->masked[i], masked = 0, __ATOMIC_RELAXED);
		}
		any |= masked;
	}
	return any;
}
