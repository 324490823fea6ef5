/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket options of all kinds of sockets; see sock_opt.h. */
#include "sock/options/sock_opt.h"

#include <linux/tcp.h>
#include <netinet/udp.h>

#include "base/log.h"
#include "base/param.h"
#include "base/sys.h"
#include "base/user.h"
#include "net/pace.h"
#include "sock/core/access.h"
#include "sock/core/extra/direct.h"
#include "sock/core/extra/filter.h"
#include "sock/core/extra/xtreme.h"
#include "sock/core/kind.h"
#include "sock/core/msg/family.h"
#include "sock/core/msg/stamps.h"
#include "sock/core/rules/strict.h"
#include "sock/core/sock_options.h"
#include "sock/options/opt_mirror.h"
#include "sock/options/ring_option.h"

/* option_list.h explains the values. */
enum care {
	CARE_KERNEL, /* 0, so that it is the value of options that are not listed */
	CARE_KERNEL6,
	CARE_DONE,
	CARE_GROUP,
	CARE_READ,
	CARE_REFUSED,
	CARE_TWIN,
} __attribute__((packed));

enum level { LEVEL_SOCKET, LEVEL_IP, LEVEL_IPV6, LEVEL_TCP, LEVEL_UDP, LEVELS };
#define OPTION_NUMBERS 128

/* What the original has in place of no tag: it cannot be set, nor can 0. */
#define NO_FLOW_TAG 0xfffffu

static const struct {
	enum care udp, tcp;
} cares[LEVELS][OPTION_NUMBERS] = {
#define OPTION(level, name, number, udp, tcp, remark) \
	[LEVEL_##level][number] = {CARE_##udp, CARE_##tcp},
#include "sock/core/option_list.h"
#undef OPTION
};

static enum level level_of(const struct inet_sock *so, int level)
{
	switch (level) {
	case SOL_SOCKET:
		return LEVEL_SOCKET;
	case IPPROTO_IP:
		return LEVEL_IP;
	case IPPROTO_IPV6:
		return so->family == AF_INET6 ? LEVEL_IPV6 : LEVELS;
	case IPPROTO_TCP:
		return LEVEL_TCP;
	case IPPROTO_UDP:
		return LEVEL_UDP;
	default:
		return LEVELS;
	}
}

static bool has_ipv4_peer(const struct inet_sock *so)
{
	return so->family == AF_INET || (so->remote.port && addr_is_v4(&so->remote.addr));
}

static enum care care_of(const struct inet_sock *so, int level, int name)
{
	enum level l = level_of(so, level);
	enum care care;

	if (l == LEVELS || name < 0 || name >= OPTION_NUMBERS)
		return udp_lingers(so) ? CARE_TWIN : CARE_KERNEL;
	care = so->inet == INET_UDP ? cares[l][name].udp : cares[l][name].tcp;
	if (care == CARE_KERNEL6)
		care = has_ipv4_peer(so) ? CARE_TWIN : CARE_KERNEL;
	/* Reading of datagrams may need an option of DONE; the kernel does the rest already. */
	return udp_lingers(so) && care != CARE_DONE ? CARE_TWIN : care;
}

/* ---- setting (control lock) ----------------------------------------------------------------- */

/* SO_REUSE* was set after bind(2): sockets that bind later may share the flows. */
static void share_later(struct inet_sock *so, int name)
{
	if (so->inet == INET_UDP && so->udp.local && so->bound)
		sock_upcalls.local_receive(so); /* the kernel chooses among them */
	if (so->inet == INET_LISTEN && so->listen.local)
		sock_upcalls.local_listen(so);
	if (!sock_life_is(so, LIFE_RECEIVING) || so->verdict != VERDICT_ACCELERATED ||
	    !(name == SO_REUSEPORT ? so->opt->reuseport : so->opt->reuseaddr))
		return;
	sock_port_claim(so);
	sock_flows_share(so);
}

/* Adapts the flows of a bound socket to an option that was set. */
static void follow_option(struct inet_sock *so, int level, int name)
{
	if (udp_lingers(so))
		return;
	if (level == SOL_SOCKET && (name == SO_REUSEADDR || name == SO_REUSEPORT))
		share_later(so, name);
	else if (level == SOL_SOCKET && (name == SO_BINDTODEVICE || name == SO_BINDTOIFINDEX))
		sock_device_changed(so);
	else if (sock_kind_of(so)->option_followed)
		sock_kind_of(so)->option_followed(so, level, name);
}

/* CARE_DONE: sets the option on the twin, and reads the result back into so->opt. */
static int set_mirrored(struct sock_ref ref, int level, int name, const void *val, socklen_t len)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct sock_options opt = *so->opt;
	int rc = sys_setsockopt(sock_twin(ref.sk), level, name, val, len);

	if (rc)
		return rc;
	if (level == SOL_SOCKET)
		opt_mirror_socket(so, name, &opt);
	else if (level == IPPROTO_IP)
		opt_mirror_ip(so, name, val, len, &opt);
	else if (level == IPPROTO_IPV6)
		opt_mirror_ipv6(so, name, val, len, &opt);
	else if (level == IPPROTO_UDP)
		opt_mirror_udp(so, name, &opt);
	else
		sock_kind_of(so)->mirror(so, name, val, &opt);
	rc = sock_options_apply(ref, &opt, level == IPPROTO_TCP && name == TCP_QUICKACK);
	if (!rc)
		follow_option(so, level, name);
	return rc;
}

/* Has the twin this value already, so that setting it changes nothing? */
static bool twin_has(const struct inet_sock *so, int level, int name, const void *val,
		     socklen_t len)
{
	int wanted = 0, is;
	socklen_t size = sizeof(is);
	bool null = !val && level == IPPROTO_IPV6; /* there it stands for 0 */

	return len == sizeof(wanted) && (null || !user_read(&wanted, val, sizeof(wanted))) &&
	       !sys_getsockopt(sock_twin(&so->sk), level, name, &is, &size) && size == sizeof(is) &&
	       is == wanted;
}

/* The result of setting the option on a new kernel socket of the same type. */
static int try_elsewhere(const struct inet_sock *so, int level, int name, const void *val,
			 socklen_t len)
{
	int fd = sys_socket(so->family, so->inet == INET_UDP ? SOCK_DGRAM : SOCK_STREAM, 0), rc;

	if (fd < 0)
		return fd;
	rc = sys_setsockopt(fd, level, name, val, len);
	sys_close(fd);
	return rc;
}

/* A filter distributes packets to all sockets of the port. */
static bool is_reuseport_filter(int level, int name)
{
	return level == SOL_SOCKET &&
	       (name == SO_ATTACH_REUSEPORT_CBPF || name == SO_ATTACH_REUSEPORT_EBPF);
}

/*
 * May the socket fall back to the kernel?  Not with a connection, or with unaccepted children:
 * the kernel does not know them.
 */
static bool may_leave(const struct inet_sock *so)
{
	if (so->inet == INET_LISTEN)
		return !__atomic_load_n(&so->listen.waiting, __ATOMIC_RELAXED);
	return so->inet == INET_UDP || !sock_is_connection(so);
}

int sock_option_to_kernel(struct inet_sock *so, int level, int name, const void *val, socklen_t len)
{
	bool possible = may_leave(so);
	int rc;

	control_assert_held();
	if (twin_has(so, level, name, val, len))
		return sys_setsockopt(sock_twin(&so->sk), level, name, val, len);
	rc = try_elsewhere(so, level, name, val, len);
	if (rc && !possible)
		return rc;
	if (!rc && !verdict_unsupported(sock_twin(&so->sk), possible, "option %d of level %d", name,
					level))
		return -ENOPROTOOPT;
	if (!rc && strict_forbids(so, VERDICT_OPTION))
		return strict_check(so, CONF_MUST, VERDICT_OPTION);
	/* The twin may answer differently from a new socket, because it is bound, for example. */
	rc = sys_setsockopt(sock_twin(&so->sk), level, name, val, len);
	if (rc)
		return rc;
	if (is_reuseport_filter(level, name) && params.local)
		sock_upcalls.local_filtered(so);
	rc = sock_leave(so, VERDICT_OPTION);
	if (is_reuseport_filter(level, name)) /* the others follow now */
		sock_ports_follow();
	return rc;
}

/* SO_VMA_RING_ALLOC_LOGIC, an option of the library, which the twin does not have. */
static int set_ring_alloc(struct inet_sock *so, const void *val, socklen_t len)
{
	struct sock_options values = *so->opt;
	bool set_rx, set_tx;
	struct ring *ring;
	int rc = ring_option_read(val, len, &values.alloc_rx, &values.alloc_tx, &set_rx, &set_tx);

	if (rc)
		return rc;
	rc = sock_options_hold(sock_ref_of(so), &values, &ring);
	if (rc)
		return rc;
	sock_alloc_changed(so, set_rx, set_tx);
	ring_release_cold(ring);
	if (sock_kind_of(so)->options_applied)
		sock_kind_of(so)->options_applied(so);
	return 0;
}

/* SO_VMA_RING_USER_MEMORY, likewise. */
static int set_ring_memory(struct inet_sock *so, const void *val, socklen_t len)
{
	struct iovec memory;

	if (len != sizeof(memory))
		return -EINVAL;
	return user_read(&memory, val, sizeof(memory)) ? -EFAULT : direct_set_memory(so, &memory);
}

/* SO_VMA_USER_DATA, which the twin does not have either. */
static int set_user_data(struct sock_ref ref, const void *val, socklen_t len)
{
	uint64_t data;

	if (len != sizeof(data))
		return -EINVAL;
	return user_read(&data, val, sizeof(data)) ? -EFAULT : xtreme_set_user_data(ref, data);
}

/* The value of an option that the twin does not have, with this size. */
static int put_value(void *val, socklen_t *len, const void *value, socklen_t size)
{
	socklen_t room;

	if (user_read(&room, len, sizeof(room)))
		return -EFAULT;
	if (room < size)
		return -EINVAL;
	return user_write(val, value, size) || user_write(len, &size, sizeof(size)) ? -EFAULT : 0;
}

static int get_user_data(struct sock_ref ref, void *val, socklen_t *len)
{
	uint64_t data;
	int rc = xtreme_get_user_data(ref, &data);

	return rc ? rc : put_value(val, len, &data, sizeof(data));
}

/*
 * SO_VMA_FLOW_TAG, likewise.  The tags of a card's rules are the library's, which finds flows by them;
 * the program's is told to it with each packet, whatever the port.
 */
static int set_flow_tag(struct sock_ref ref, const void *val, socklen_t len)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct sock_options values = *so->opt;
	struct ring *ring;
	int rc;

	if (len != sizeof(values.flow_tag))
		return -EINVAL;
	if (user_read(&values.flow_tag, val, sizeof(values.flow_tag)))
		return -EFAULT;
	if (!values.flow_tag || values.flow_tag == NO_FLOW_TAG)
		return -EINVAL;
	rc = sock_options_hold(ref, &values, &ring);
	if (rc)
		return rc;
	xtreme_set_flow_tag(so, values.flow_tag);
	filter_set_flow_tag(so, values.flow_tag);
	ring_release_cold(ring);
	return 0;
}

/* The options that the socket has now. */
static int get_options(struct sock_ref ref, struct sock_options *opt)
{
	int rc = -EBADF;

	if (!control_lock())
		return -EAGAIN;
	if (sock_ref_valid(ref)) {
		*opt = *inet_of(ref.sk)->opt;
		rc = 0;
	}
	control_unlock();
	return rc;
}

static int get_flow_tag(struct sock_ref ref, void *val, socklen_t *len)
{
	struct sock_options opt;
	int rc = get_options(ref, &opt);

	return rc ? rc : put_value(val, len, &opt.flow_tag, sizeof(opt.flow_tag));
}

/* SO_MAX_PACING_RATE.  SOCK_KERNEL: the room is not that of the struct. */
static int get_rate_limit(struct sock_ref ref, void *val, socklen_t *len)
{
	struct vma_rate_limit_t limit;
	struct sock_options opt;
	socklen_t room;
	uint64_t rate;
	int rc;

	if (user_read(&room, len, sizeof(room)))
		return -EFAULT;
	if (room != sizeof(limit))
		return SOCK_KERNEL;
	rc = get_options(ref, &opt);
	if (rc)
		return rc;
	rate = opt.pacing / 125; /* kbit/s */
	limit = (struct vma_rate_limit_t){
		.rate = rate < UINT32_MAX ? (uint32_t)rate : UINT32_MAX,
		.max_burst_sz = opt.pacing_max,
		.typical_pkt_sz = opt.pacing_packet,
	};
	return put_value(val, len, &limit, sizeof(limit));
}

/* Does SO_TIMESTAMPING ask for stamps of sent packets, or for hardware stamps? */
static bool stamps_by_kernel(const struct inet_sock *so, const void *val, socklen_t len)
{
	const unsigned kernels = SOF_TIMESTAMPING_OPT_PKTINFO | SOF_TIMESTAMPING_BIND_PHC;
	unsigned flags;

	if (len < sizeof(flags) || user_read(&flags, val, sizeof(flags)))
		return false;
	if (flags & (kernels | ~STAMPING_KNOWN))
		return true;
	/* Datagrams are sent by the twin then, and its error queue has the stamps. */
	if ((flags & SOF_TIMESTAMPING_TX_RECORD_MASK) &&
	    (so->inet != INET_UDP || strict_forbids(so, VERDICT_OPTION)))
		return true;
	return (flags & SOF_TIMESTAMPING_RAW_HARDWARE) && sock_stamps_lost(so);
}

/* The kernel would take the first 8 bytes for bytes per second. */
static int set_rate_limit(struct sock_ref ref, const void *val)
{
	struct sock_options opt = *inet_of(ref.sk)->opt;
	struct vma_rate_limit_t limit;
	uint64_t rate;
	int rc;

	if (user_read(&limit, val, sizeof(limit)))
		return -EFAULT;
	opt.pacing = limit.rate * UINT64_C(1000) / 8;
	opt.pacing_burst = pace_burst(opt.pacing, limit.max_burst_sz, limit.typical_pkt_sz);
	opt.pacing_max = limit.max_burst_sz;
	opt.pacing_packet = limit.typical_pkt_sz;
	rate = opt.pacing ? opt.pacing : UINT64_MAX;
	rc = sys_setsockopt(sock_twin(ref.sk), SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
	return rc ? rc : sock_options_apply(ref, &opt, false);
}

static int set_option(struct sock_ref ref, int level, int name, const void *val, socklen_t len)
{
	struct inet_sock *so = inet_of(ref.sk);
	const struct sock_kind *kind = sock_kind_of(so);
	int rc;

	if (level == SOL_SOCKET && name == SO_VMA_RING_ALLOC_LOGIC)
		return set_ring_alloc(so, val, len);
	if (level == SOL_SOCKET && name == SO_VMA_RING_USER_MEMORY)
		return set_ring_memory(so, val, len);
	if (level == SOL_SOCKET && name == SO_VMA_USER_DATA && params.socketxtreme)
		return set_user_data(ref, val, len);
	if (level == SOL_SOCKET && name == SO_VMA_FLOW_TAG)
		return set_flow_tag(ref, val, len);
	if (level == SOL_SOCKET && name == SO_MAX_PACING_RATE &&
	    len == sizeof(struct vma_rate_limit_t))
		return set_rate_limit(ref, val);
	if (level == SOL_SOCKET && (name == SO_TIMESTAMPING || name == SO_TIMESTAMPING_NEW) &&
	    stamps_by_kernel(so, val, len))
		return sock_option_to_kernel(so, level, name, val, len);
	rc = kind->set_option ? kind->set_option(ref, level, name, val, len) : SOCK_KERNEL;
	if (rc != SOCK_KERNEL)
		return rc;
	switch (care_of(so, level, name)) {
	case CARE_DONE:
		return set_mirrored(ref, level, name, val, len);
	case CARE_GROUP:
		return kind->set_group(so, level, name, val, len);
	case CARE_READ:
	case CARE_REFUSED:
	case CARE_TWIN:
		return sys_setsockopt(sock_twin(ref.sk), level, name, val, len);
	case CARE_KERNEL:
	default:
		return sock_option_to_kernel(so, level, name, val, len);
	}
}

int sock_setsockopt(struct sock_ref ref, int level, int name, const void *val, socklen_t len)
{
	const struct sock_kind *kind = sock_kind_made(ref.sk);
	struct inet_sock *so = inet_of(ref.sk);
	int rc = -EBADF;

	if (!control_lock())
		return -EAGAIN;
	if (sock_ref_valid(ref)) {
		sock_twin_prepare(so);
		rc = set_option(ref, level, name, val, len);
		if (!rc && so->inet == INET_LISTEN && sock_ref_valid(ref))
			rc = sock_options_for_children(so);
	}
	control_unlock();
	if (!rc && kind->option_set)
		kind->option_set(ref, level, name);
	return rc;
}

/* ---- reading ------------------------------------------------------------------------------ */

static void prepare_twin(struct sock_ref ref)
{
	if (!control_lock())
		return;
	if (sock_ref_valid(ref))
		sock_twin_prepare(inet_of(ref.sk));
	control_unlock();
}

int sock_getsockopt(struct sock_ref ref, int level, int name, void *val, socklen_t *len)
{
	const struct sock_kind *kind = sock_kind_made(ref.sk);
	int rc = SOCK_KERNEL;

	if (level == SOL_SOCKET && name == SO_VMA_USER_DATA && params.socketxtreme)
		return get_user_data(ref, val, len);
	if (level == SOL_SOCKET && name == SO_VMA_FLOW_TAG)
		return get_flow_tag(ref, val, len);
	if (level == SOL_SOCKET && name == SO_MAX_PACING_RATE)
		rc = get_rate_limit(ref, val, len);
	if (rc == SOCK_KERNEL && kind->get_option)
		rc = kind->get_option(ref, level, name, val, len);
	if (rc == SOCK_KERNEL && __atomic_load_n(&inet_of(ref.sk)->raw_twin, __ATOMIC_RELAXED))
		prepare_twin(ref);
	return rc;
}

int sock_peer_name(struct sock_ref ref, bool (*has_peer)(struct inet_sock *so),
		   struct sockaddr *addr, socklen_t *len)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct endpoint remote;
	struct ring *ring;
	bool connected;
	int rc = sock_hold_here(ref, &ring);

	if (rc)
		return rc;
	ring_poll(ring);
	connected = has_peer(so);
	remote = sock_addr_shown(so, &so->remote);
	ring_release_cold(ring);
	if (!connected)
		return -ENOTCONN;
	sock_addr_write(so, &remote, addr, len);
	return 0;
}

int sock_getsockname(struct sock_ref ref, struct sockaddr *addr, socklen_t *len)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct endpoint local;
	struct ring *ring;
	bool ours;
	int rc;

	rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	/* An address that connect() chose ends with the connection, but the twin keeps it. */
	ours = (so->inet == INET_TCP &&
		(sock_has_connection(so) || (so->bound && !so->bound_addr))) ||
	       sock_is_exported(ref.sk);
	local = sock_addr_shown(so, &so->local);
	ring_release_cold(ring);
	if (!ours)
		return SOCK_KERNEL;
	sock_addr_write(so, &local, addr, len);
	return 0;
}
