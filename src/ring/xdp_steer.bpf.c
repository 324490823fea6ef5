/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends the frames of registered flows to the AF_XDP socket of their ring, and
 * everything else on to the kernel: ARP, ICMP, fragments, other people's
 * frames, ports nobody registered.
 *
 * The kernel is also where a frame goes when its ring has just closed the
 * socket: bpf_redirect_map() finds none and passes.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "ring/xdp_steer.h"

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

volatile struct xdp_steer_conf conf;

/* A promiscuous interface shows frames that are none of our business. */
static __always_inline int is_for_us(const __u8 *dst)
{
	return (dst[0] & 1) ||
	       (*(const __u32 *)dst == conf.mac_lo && *(const __u16 *)(dst + 4) == conf.mac_hi);
}

/* The slot of a connection and one; 0: none at its place, or it is changed just now. */
static __always_inline __u32 find_conn(const struct iphdr *ip, struct ports ports)
{
	__u32 at = ports.dest, owner;
	volatile struct xdp_steer_conn *conn = bpf_map_lookup_elem(&conns, &at);

	if (!conn)
		return 0;
	owner = conn->owner;
	if (!(owner & XDP_STEER_READY) || conn->local != ip->daddr || conn->remote != ip->saddr ||
	    conn->remote_port != ports.source || conn->owner != owner)
		return 0;
	return owner & XDP_STEER_OWNER;
}

static __always_inline __u32 *find_entry(const struct iphdr *ip, struct ports ports)
{
	struct xdp_steer_key3 key3 = {
		.local = ip->daddr,
		.local_port = ports.dest,
		.proto = ip->protocol,
	};

	if (conf.flows5) {
		struct xdp_steer_key5 key5 = {
			.local = ip->daddr,
			.remote = ip->saddr,
			.local_port = ports.dest,
			.remote_port = ports.source,
			.proto = ip->protocol,
		};
		__u32 *entry = bpf_map_lookup_elem(&flows5, &key5);

		if (entry)
			return entry;
	}
	return bpf_map_lookup_elem(&flows3, &key3);
}

/* The slot of who gets it; XDP_STEER_SLOTS, which has no sockets: nobody. */
static __always_inline __u32 find_member(const struct iphdr *ip, struct ports ports, __u32 entry)
{
	__u32 at = entry & ~XDP_STEER_SHARED, slot;
	const struct xdp_steer_share *share = bpf_map_lookup_elem(&shares, &at);

	if (!share)
		return XDP_STEER_SLOTS;
	at = share->bucket[share_bucket(ip->saddr, ports.source, conf.seed)];
	slot = share->slot[at % SHARE_MEMBERS];
	return slot ? slot - 1 : XDP_STEER_SLOTS;
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
	__u32 l3 = sizeof(*eth), *entry, slot, conn = 0;

	if ((const void *)(ip + 1) > end)
		return XDP_PASS;
	proto = eth->h_proto;
	if (proto == bpf_htons(ETH_P_8021Q)) {
		const struct vlan_tag *tag = (const void *)(eth + 1);

		vlan = bpf_ntohs(tag->tci) & VLAN_ID;
		proto = tag->proto;
		ip = (const void *)(tag + 1);
		l3 += sizeof(*tag);
		if ((const void *)(ip + 1) > end)
			return XDP_PASS;
	}
	if (proto != bpf_htons(ETH_P_IP) || vlan != conf.vlan || !is_for_us(eth->h_dest))
		return XDP_PASS;
	if ((ip->protocol != IPPROTO_UDP && ip->protocol != IPPROTO_TCP) || ip->version != 4 ||
	    ip->ihl < 5 || (ip->frag_off & FRAGMENT))
		return XDP_PASS;

	if (ip->ihl == 5) {
		const struct ports *behind = (const void *)(ip + 1);

		if ((const void *)(behind + 1) > end)
			return XDP_PASS;
		ports = *behind;
	} else if (bpf_xdp_load_bytes(ctx, l3 + ip->ihl * 4, &ports, sizeof(ports))) {
		/* A helper, since without CAP_PERFMON no pointer moves by a variable. */
		return XDP_PASS;
	}
	if (ctx->rx_queue_index >= XDP_STEER_QUEUES)
		return XDP_PASS;
	if (ip->protocol == IPPROTO_TCP)
		conn = find_conn(ip, ports);
	if (conn)
		return bpf_redirect_map(&xsks, (conn - 1) * XDP_STEER_QUEUES + ctx->rx_queue_index,
					XDP_PASS);
	entry = find_entry(ip, ports);
	if (!entry)
		return XDP_PASS;
	slot = *entry;
	if (slot & XDP_STEER_SHARED)
		slot = find_member(ip, ports, slot);
	return bpf_redirect_map(&xsks, slot * XDP_STEER_QUEUES + ctx->rx_queue_index, XDP_PASS);
}

char xdp_license[] SEC("license") = "Dual BSD/GPL";
