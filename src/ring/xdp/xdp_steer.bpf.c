/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The XDP program.  It redirects frames of registered flows to the AF_XDP socket of their ring,
 * and passes all other frames to the kernel: ARP, ICMP, fragments, IP options, impossible senders,
 * frames for other hosts, ports without a flow.  Linux 5.10 must be able to load it.
 *
 * A frame also goes to the kernel when its ring has just closed the socket, because
 * bpf_redirect_map() then finds none, and when the ring's process has died.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "ring/xdp/xdp_steer.h"

#define FRAGMENT bpf_htons(0x3fff) /* more fragments, or an offset */
#define VLAN_ID 0x0fff

struct vlan_tag {
	__be16 tci;
	__be16 proto;
};

struct ports {
	__be16 source;
	__be16 dest;
};

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, XDP_STEER_SLOTS *XDP_STEER_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} xsks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, XDP_STEER_FLOWS3);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct xdp_steer_key3);
	__type(value, __u32);
} flows3 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, XDP_STEER_FLOWS5);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct xdp_steer_key5);
	__type(value, __u32);
} flows5 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, XDP_STEER_PORTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct xdp_steer_conn);
} conns SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, XDP_STEER_SHARES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct xdp_steer_share);
} shares SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, XDP_STEER_SLOTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct xdp_steer_life);
} lives SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, XDP_STEER_KERNEL);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct xdp_steer_key3);
	__type(value, __u32);
} kernel SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, XDP_STEER_GONE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32);
} gone SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, XDP_STEER_SLOTS);
	__type(key, __u32);
	__type(value, __u32);
} fences SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, XDP_STEER_GRANTS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct xdp_steer_grant);
	__type(value, __u32);
} grants SEC(".maps");

volatile struct xdp_steer_conf conf;

/* A promiscuous interface also receives frames for other hosts. */
static __always_inline int is_for_us(const __u8 *dst)
{
	return (dst[0] & 1) ||
	       (*(const __u32 *)dst == conf.mac_lo && *(const __u16 *)(dst + 4) == conf.mac_hi);
}

/* A sender that the kernel drops or has rules for: in 0/8, 127/8, multicast, 240/4, broadcast. */
static __always_inline int is_odd_sender(const struct iphdr *ip)
{
	__u8 first = *(const __u8 *)&ip->saddr;

	return first == 0 || first == 127 || first >= 224;
}

/*
 * A frame to a multicast MAC address with a unicast IP address: the kernel's TCP drops it, and
 * UDP has a rule for it (drop_unicast_in_l2_multicast).
 */
static __always_inline int is_odd_group(const struct ethhdr *eth, const struct iphdr *ip)
{
	return (eth->h_dest[0] & 1) && (*(const __u8 *)&ip->daddr & 0xf0) != 0xe0;
}

/*
 * The slot of a connection plus one; 0: it is not in the table, or its place is being changed.
 * Pairs with xdp_conns.c: the other fields belong to owner if that is the same before and after.
 */
static __always_inline __u32 find_conn(const struct iphdr *ip, struct ports ports)
{
	__u64 at = ports.dest; /* the key is its lower half: see key_words() */
	__u32 owner;
	volatile struct xdp_steer_conn *conn = bpf_map_lookup_elem(&conns, &at);

	if (!conn)
		return 0;
	owner = conn->owner;
	if (!(owner & XDP_STEER_READY) || conn->local != ip->daddr || conn->remote != ip->saddr ||
	    conn->remote_port != ports.source || conn->owner != owner)
		return 0;
	return owner & XDP_STEER_OWNER;
}

/*
 * Keys are written to the stack eight bytes at a time: otherwise verifiers up to Linux 6.1
 * report a corrupted spilled register, unless the process has CAP_PERFMON.  The words are those
 * of struct xdp_steer_key3 and struct xdp_steer_key5, little-endian.
 */
static __always_inline __u64 key_words(__u32 first, __u32 second)
{
	return first | (__u64)second << 32;
}

_Static_assert(sizeof(struct xdp_steer_key3) == 8 && sizeof(struct xdp_steer_key5) == 16, "words");
_Static_assert(sizeof(struct xdp_steer_grant) == 16, "words");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words");

/*
 * Does the frame belong to a connection or handshake of the kernel that is older than the
 * listener?  Not in TIME_WAIT: there a SYN begins a new connection of the listener.
 */
static __always_inline int is_kernels(struct xdp_md *ctx, const struct iphdr *ip,
				      struct ports ports, const __u64 *key3)
{
	/* As in struct bpf_sock_tuple: addresses, then ports. */
	__u64 tuple[2] = {
		key_words(ip->saddr, ip->daddr),
		key_words(ports.source | (__u32)ports.dest << 16, 0),
	};
	struct bpf_sock *sk;
	int found;

	if (ip->protocol != IPPROTO_TCP || !bpf_map_lookup_elem(&kernel, key3))
		return 0;
	sk = bpf_skc_lookup_tcp(ctx, (struct bpf_sock_tuple *)tuple,
				sizeof(((struct bpf_sock_tuple *)0)->ipv4), BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return 0;
	found = sk->state != BPF_TCP_LISTEN && sk->state != BPF_TCP_TIME_WAIT;
	bpf_sk_release(sk);
	return found;
}

static __always_inline __u32 *find_entry(struct xdp_md *ctx, const struct iphdr *ip,
					 struct ports ports)
{
	__u64 key3 = key_words(ip->daddr, ports.dest | (__u32)ip->protocol << 16);
	__u32 *entry;

	if (conf.flows5) {
		__u64 key5[2] = {
			key_words(ip->daddr, ip->saddr),
			key_words(ports.dest | (__u32)ports.source << 16, ip->protocol),
		};

		entry = bpf_map_lookup_elem(&flows5, key5);
		if (entry)
			return entry;
	}
	entry = bpf_map_lookup_elem(&flows3, &key3);
	if (entry && conf.kernel && is_kernels(ctx, ip, ports, &key3))
		return 0;
	return entry;
}

/* The slot of the member that gets the frame; XDP_STEER_SLOTS, which has no sockets: none. */
static __always_inline __u32 find_member(const struct iphdr *ip, struct ports ports, __u32 entry)
{
	__u64 at = entry & ~XDP_STEER_SHARED; /* see key_words() */
	__u32 slot;
	const struct xdp_steer_share *share = bpf_map_lookup_elem(&shares, &at);

	if (!share)
		return XDP_STEER_SLOTS;
	at = share->bucket[reuseport_bucket(ip->saddr, ports.source, conf.seed)];
	slot = share->slot[at % REUSEPORT_MEMBERS];
	return slot ? slot - 1 : XDP_STEER_SLOTS;
}

static __always_inline int is_granted(__u32 local, __u32 remote, struct ports ports, __u8 proto,
				      __u32 slot)
{
	__u64 key[2] = {
		key_words(local, remote),
		key_words(ports.dest | (__u32)ports.source << 16, slot | (__u32)proto << 16),
	};

	return bpf_map_lookup_elem(&grants, key) != 0;
}

/* May the slot get the frame?  Unprivileged members may have written any map but fences, grants. */
static __always_inline int may_have(const struct iphdr *ip, struct ports ports, __u32 slot)
{
	__u64 at = slot; /* see key_words() */
	const __u32 *fenced = bpf_map_lookup_elem(&fences, &at);
	struct ports wide = {.dest = ports.dest};

	if (!fenced)
		return 0; /* there is no such slot */
	return !*fenced || is_granted(ip->daddr, 0, wide, ip->protocol, slot) ||
	       is_granted(0, 0, wide, ip->protocol, slot) ||
	       is_granted(ip->daddr, ip->saddr, ports, ip->protocol, slot);
}

/* Its process was killed: the socket stays open for a while, but no process reads it. */
static __always_inline int is_dead(__u32 slot)
{
	__u64 at = slot; /* see key_words() */
	const volatile struct xdp_steer_life *life = bpf_map_lookup_elem(&lives, &at);

	return life && (life->word & XDP_STEER_DIED);
}

/*
 * Writes the time in front of the frame, for rings that receive from several RX queues: see
 * rx_ordered() in xdp_burst.c.  Pointers into the frame are invalid afterwards.
 */
static __always_inline void stamp(struct xdp_md *ctx)
{
	__u64 *at;

	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*at))) {
		conf.unstamped = 1;
		return;
	}
	at = (void *)(long)ctx->data_meta;
	if ((void *)(at + 1) <= (void *)(long)ctx->data)
		*at = bpf_ktime_get_ns();
}

/*
 * Redirects the frame to the ring's socket, or passes it to the kernel when the process has died.
 * If the host has lost the address, the frame is dropped, as the kernel would do.  The kernel does
 * not get it: if the address is back by then, the kernel would reset our connections, which it
 * does not know.  Frames by an RX queue that the interface did not have when the sockets were
 * opened are dropped for the same reason, until the port has been opened anew.
 */
static __always_inline int redirect(struct xdp_md *ctx, const struct iphdr *ip, struct ports ports,
				    __u32 slot)
{
	__u32 local = ip->daddr;

	if (!may_have(ip, ports, slot))
		return XDP_PASS;
	if (conf.gone && bpf_map_lookup_elem(&gone, &local))
		return XDP_DROP;
	if (ctx->rx_queue_index >= conf.queues || ctx->rx_queue_index >= XDP_STEER_QUEUES) {
		conf.outgrown = 1;
		return XDP_DROP;
	}
	if (is_dead(slot))
		return XDP_PASS;
	if (conf.queues > 1 && !conf.unstamped)
		stamp(ctx);
	return bpf_redirect_map(&xsks, slot * XDP_STEER_QUEUES + ctx->rx_queue_index,
				conf.outgrown ? XDP_DROP : XDP_PASS);
}

/* To the kernel.  But TCP is dropped while the port is opened anew and flows are added again. */
static __always_inline int pass(const struct iphdr *ip)
{
	if (conf.hold && ip->protocol == IPPROTO_TCP && bpf_ktime_get_ns() < conf.hold)
		return XDP_DROP;
	return XDP_PASS;
}

SEC("xdp")
int xdp_steer(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const struct ethhdr *eth = data;
	const struct iphdr *ip = (const void *)(eth + 1);
	struct ports ports;
	__be16 proto;
	__u16 vlan = 0;
	__u32 *entry, slot, conn = 0;
	const struct ports *behind;

	if ((const void *)(ip + 1) > end)
		return XDP_PASS;
	proto = eth->h_proto;
	if (proto == bpf_htons(ETH_P_8021Q)) {
		const struct vlan_tag *tag = (const void *)(eth + 1);

		vlan = bpf_ntohs(tag->tci) & VLAN_ID;
		proto = tag->proto;
		ip = (const void *)(tag + 1);
		if ((const void *)(ip + 1) > end)
			return XDP_PASS;
	}
	if (proto != bpf_htons(ETH_P_IP) || vlan != conf.vlan || !is_for_us(eth->h_dest))
		return XDP_PASS;
	/* The kernel has rules for IP options. */
	if ((ip->protocol != IPPROTO_UDP && ip->protocol != IPPROTO_TCP) || ip->version != 4 ||
	    ip->ihl != 5 || (ip->frag_off & FRAGMENT))
		return XDP_PASS;
	/* The kernel also has rules for these, and counts them. */
	if (is_odd_sender(ip) || is_odd_group(eth, ip))
		return XDP_PASS;

	behind = (const void *)(ip + 1);
	if ((const void *)(behind + 1) > end)
		return XDP_PASS;
	ports = *behind;
	if (ip->protocol == IPPROTO_TCP)
		conn = find_conn(ip, ports);
	if (conn)
		return redirect(ctx, ip, ports, conn - 1);
	entry = find_entry(ctx, ip, ports);
	if (!entry)
		return pass(ip);
	slot = *entry;
	if (slot & XDP_STEER_SHARED)
		slot = find_member(ip, ports, slot);
	return redirect(ctx, ip, ports, slot);
}

char xdp_license[] SEC("license") = "Dual BSD/GPL";
