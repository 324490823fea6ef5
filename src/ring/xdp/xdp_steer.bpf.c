/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The XDP program.  It redirects frames of registered flows to the AF_XDP socket of their ring,
 * and passes all other frames to the kernel: ARP, ICMP, fragments, IP options and IPv6 extension
 * headers (but see ports_behind()), impossible senders, frames for other hosts, ports without a flow.
 * Linux 5.10 must be able to load it.
 *
 * A frame also goes to the kernel when its ring has just closed the socket, because
 * bpf_redirect_map() then finds none, and when the ring's process has died.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "ring/xdp/xdp_steer.h"

#define FRAGMENT bpf_htons(0x3fff)  /* more fragments, or an offset */
#define FRAGMENT6 bpf_htons(0xfff9) /* likewise, of IPv6 */
#define OPTION_ACTION 0xc0	    /* RFC 8200 4.2: what to do if it is unknown; 0: nothing */
#define HEADER_UNITS 8 /* most extension headers in front of a segment, in units of eight bytes */
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

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, XDP_STEER_EXACT);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct xdp_steer_exact);
	__type(value, __u32);
} exact SEC(".maps");

volatile struct xdp_steer_conf conf;

/* What a frame says about its flow. */
struct tuple {
	__u32 local; /* IPv6: the alias, here and in remote */
	__u32 remote;
	struct ports ports;
	__u8 proto;
	__u8 is_behind;		   /* ... extension headers: TCP, and no SYN */
	const struct tcphdr *tcp;  /* of TCP that is not; its bytes may be cut off */
	const void *end;	   /* of the frame */
	const struct ipv6hdr *ip6; /* NULL: IPv4 */
};

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
static __always_inline __u32 find_conn(const struct tuple *t)
{
	__u64 at = t->ports.dest; /* the key is its lower half: see key_words() */
	__u32 owner;
	volatile struct xdp_steer_conn *conn = bpf_map_lookup_elem(&conns, &at);

	if (!conn)
		return 0;
	owner = conn->owner;
	if (!(owner & XDP_STEER_READY) || conn->local != t->local || conn->remote != t->remote ||
	    conn->remote_port != t->ports.source || conn->owner != owner)
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
_Static_assert(sizeof(struct xdp_steer_exact) == 40, "words");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words");

static __always_inline struct bpf_sock *lookup_tcp(struct xdp_md *ctx, const __u64 *tuple,
						   __u32 size)
{
	return bpf_skc_lookup_tcp(ctx, (struct bpf_sock_tuple *)tuple, size, BPF_F_CURRENT_NETNS,
				  0);
}

/* The words of struct bpf_sock_tuple are addresses, then ports. */
static __always_inline struct bpf_sock *find_sock(struct xdp_md *ctx, const struct tuple *t)
{
	__u32 ports = t->ports.source | (__u32)t->ports.dest << 16;
	const __be32 *src, *dst;

	if (t->ip6) {
		src = t->ip6->saddr.s6_addr32;
		dst = t->ip6->daddr.s6_addr32;
		__u64 tuple6[5] = {
			key_words(src[0], src[1]), key_words(src[2], src[3]),
			key_words(dst[0], dst[1]), key_words(dst[2], dst[3]),
			key_words(ports, 0),
		};

		return lookup_tcp(ctx, tuple6, sizeof(((struct bpf_sock_tuple *)0)->ipv6));
	}
	__u64 tuple4[2] = {key_words(t->remote, t->local), key_words(ports, 0)};

	return lookup_tcp(ctx, tuple4, sizeof(((struct bpf_sock_tuple *)0)->ipv4));
}

/* Does it open a connection?  Also if that cannot be seen. */
static __always_inline int is_syn(const struct tuple *t)
{
	return !t->is_behind &&
	       ((const void *)(t->tcp + 1) > t->end || (t->tcp->syn && !t->tcp->ack));
}

/*
 * Does the frame belong to a connection or handshake of the kernel, that is older than the
 * listener, or has gone there since?  Such a handshake may get its SYN again.  Not in TIME_WAIT:
 * there a SYN begins a new connection of the listener.
 */
static __always_inline int is_kernels(struct xdp_md *ctx, const struct tuple *t, const __u64 *key3)
{
	struct bpf_sock *sk;
	int found;

	if (t->proto != IPPROTO_TCP ||
	    (is_syn(t) && !(conf.kernel && bpf_map_lookup_elem(&kernel, key3))))
		return 0;
	sk = find_sock(ctx, t);
	if (!sk)
		return 0;
	found = sk->state != BPF_TCP_LISTEN && sk->state != BPF_TCP_TIME_WAIT;
	bpf_sk_release(sk);
	return found;
}

/* Is it a flow with these whole addresses?  source: the sender's port; 0: of any sender. */
static __always_inline int is_exact(const struct tuple *t, __u16 source)
{
	const __be32 *src, *dst;

	if (!t->ip6)
		return 1;
	src = t->ip6->saddr.s6_addr32;
	dst = t->ip6->daddr.s6_addr32;
	__u64 key[5] = {
		key_words(dst[0], dst[1]),
		key_words(dst[2], dst[3]),
		source ? key_words(src[0], src[1]) : 0,
		source ? key_words(src[2], src[3]) : 0,
		key_words(t->ports.dest | (__u32)source << 16, t->proto),
	};

	return bpf_map_lookup_elem(&exact, key) != 0;
}

static __always_inline __u32 *find_entry(struct xdp_md *ctx, const struct tuple *t)
{
	__u64 key3 = key_words(t->local, t->ports.dest | (__u32)t->proto << 16);
	__u32 *entry;

	if (conf.flows5) {
		__u64 key5[2] = {
			key_words(t->local, t->remote),
			key_words(t->ports.dest | (__u32)t->ports.source << 16, t->proto),
		};

		entry = bpf_map_lookup_elem(&flows5, key5);
		if (entry && is_exact(t, t->ports.source))
			return entry;
	}
	entry = bpf_map_lookup_elem(&flows3, &key3);
	if (!entry || !is_exact(t, 0))
		return 0;
	if (is_kernels(ctx, t, &key3))
		return 0;
	return entry;
}

/* The slot plus one of the bucket's member; 0: it has left. */
static __always_inline __u32 read_member(const volatile struct xdp_steer_share *share, __u32 bucket)
{
	__u32 at = share->bucket[bucket];

	return share->slot[at % REUSEPORT_MEMBERS];
}

/*
 * The slot of the member that gets the frame; XDP_STEER_SLOTS, which has no sockets: none.  A member
 * that leaves first gives its buckets to others (leave_share()): who finds its slot empty has read the
 * bucket before that, and reads it again, also if as many leave one after the other.  Not a loop:
 * verifiers up to Linux 6.1 take it for an endless one, unless the process has CAP_PERFMON.
 */
static __always_inline __u32 find_member(const struct tuple *t, __u32 entry)
{
	__u64 at = entry & ~XDP_STEER_SHARED; /* see key_words() */
	const volatile struct xdp_steer_share *share = bpf_map_lookup_elem(&shares, &at);
	__u32 bucket, slot;

	if (!share)
		return XDP_STEER_SLOTS;
	bucket = reuseport_bucket(t->remote, t->ports.source, conf.seed);
	slot = read_member(share, bucket) ?: read_member(share, bucket);
	slot = slot ?: read_member(share, bucket) ?: read_member(share, bucket);
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

/* Any address, as grants have it. */
static __always_inline __u32 any_address(const struct tuple *t)
{
	const __u32 any[4] = {0};

	return t->ip6 ? xdp_steer_alias(any, conf.seed) : 0;
}

/* May the slot get the frame?  Unprivileged members may have written any map but fences, grants. */
static __always_inline int may_have(const struct tuple *t, __u32 slot)
{
	__u64 at = slot; /* see key_words() */
	const __u32 *fenced = bpf_map_lookup_elem(&fences, &at);
	struct ports wide = {.dest = t->ports.dest};

	if (!fenced)
		return 0; /* there is no such slot */
	return !*fenced || is_granted(t->local, 0, wide, t->proto, slot) ||
	       is_granted(any_address(t), 0, wide, t->proto, slot) ||
	       is_granted(t->local, t->remote, t->ports, t->proto, slot);
}

/* Its process was killed: the socket stays open for a while, but no process reads it. */
static __always_inline int is_dead(__u32 slot)
{
	__u64 at = slot; /* see key_words() */
	const volatile struct xdp_steer_life *life = bpf_map_lookup_elem(&lives, &at);

	return life && (life->word & XDP_STEER_DIED);
}

/*
 * Writes the time in front of the frame, for rings that receive from several RX queues, or want to
 * know it: see rx_ordered() and stamp_pkts() in xdp_burst.c.  Pointers into the frame are invalid
 * afterwards.
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
static __always_inline int redirect(struct xdp_md *ctx, const struct tuple *t, __u32 slot)
{
	__u32 local = t->local;

	if (!may_have(t, slot))
		return XDP_PASS;
	if (conf.gone && bpf_map_lookup_elem(&gone, &local))
		return XDP_DROP;
	if (ctx->rx_queue_index >= conf.queues || ctx->rx_queue_index >= XDP_STEER_QUEUES) {
		conf.outgrown = 1;
		return XDP_DROP;
	}
	if (is_dead(slot))
		return XDP_PASS;
	if ((conf.queues > 1 || conf.stamped) && !conf.unstamped)
		stamp(ctx);
	return bpf_redirect_map(&xsks, slot * XDP_STEER_QUEUES + ctx->rx_queue_index,
				conf.outgrown ? XDP_DROP : XDP_PASS);
}

/* To the kernel.  But TCP is dropped while the port is opened anew and flows are added again. */
static __always_inline int pass(__u8 proto)
{
	if (conf.hold && proto == IPPROTO_TCP && bpf_ktime_get_ns() < conf.hold)
		return XDP_DROP;
	return XDP_PASS;
}

/* To the ring of the flow; to the kernel if there is none. */
static __always_inline int steer(struct xdp_md *ctx, const struct tuple *t)
{
	__u32 *entry, slot, conn = 0;

	if (t->proto == IPPROTO_TCP)
		conn = find_conn(t);
	if (conn && is_exact(t, t->ports.source))
		return redirect(ctx, t, conn - 1);
	entry = find_entry(ctx, t);
	if (!entry)
		return pass(t->proto);
	slot = *entry;
	if (slot & XDP_STEER_SHARED)
		slot = find_member(t, slot);
	return redirect(ctx, t, slot);
}

/*
 * Datagrams that a sender of this host has joined (UDP_SEGMENT), and the kernel has not split yet,
 * as generic XDP gets them: the kernel splits them.
 */
static __always_inline int is_joined(__u8 proto, __u32 len)
{
	return proto == IPPROTO_UDP && len > conf.udp_max;
}

static __always_inline int steer4(struct xdp_md *ctx, const struct ethhdr *eth,
				  const struct iphdr *ip, const void *end)
{
	const struct ports *behind = (const void *)(ip + 1);

	/* The kernel has rules for IP options. */
	if ((ip->protocol != IPPROTO_UDP && ip->protocol != IPPROTO_TCP) || ip->version != 4 ||
	    ip->ihl != 5 || (ip->frag_off & FRAGMENT))
		return XDP_PASS;
	/* The kernel also has rules for these, and counts them. */
	if (is_odd_sender(ip) || is_odd_group(eth, ip))
		return XDP_PASS;
	if ((const void *)(behind + 1) > end || is_joined(ip->protocol, bpf_ntohs(ip->tot_len)))
		return XDP_PASS;

	struct tuple t = {
		.local = ip->daddr,
		.remote = ip->saddr,
		.ports = *behind,
		.proto = ip->protocol,
		.tcp = (const void *)behind,
		.end = end,
	};

	return steer(ctx, &t);
}

/*
 * Senders and destinations that the kernel drops or has rules for: those in ::/64, as the
 * unspecified address, loopback and IPv4-mapped addresses are; multicast senders; groups of the
 * scopes 0 and 1; a multicast MAC address with a unicast address.
 */
static __always_inline int is_odd6(const struct ethhdr *eth, const struct ipv6hdr *ip)
{
	const __u8 *daddr = ip->daddr.s6_addr;
	int group = daddr[0] == 0xff;

	return ip->saddr.s6_addr[0] == 0xff || !(ip->saddr.s6_addr32[0] | ip->saddr.s6_addr32[1]) ||
	       (group && (daddr[1] & 0xf) <= 1) || (!group && (eth->h_dest[0] & 1));
}

/*
 * The ports of a segment behind extension headers; 0: the kernel gets the packet.  The library gets
 * segments of connections, because the kernel may not know these, and would reset them.  SYNs and
 * datagrams are the kernel's, and what it answers: routes, parts of fragments, headers that are not
 * listed here, and a first option that it has to know.  The library looks at all options.  All offsets
 * are constants: verifiers up to Linux 6.5 refuse others unless the process has CAP_PERFMON.
 */
static __always_inline int ports_behind(const struct ipv6hdr *ip, const void *end,
					struct ports *ports)
{
	const __u8 *at = (const void *)(ip + 1);
	__u8 next = ip->nexthdr, more = 0; /* more: units of the header that at is in */

#pragma unroll
	for (int i = 0; i <= HEADER_UNITS; i++, at += 8) {
		const struct tcphdr *tcp = (const void *)at;

		if (at + 8 > (const __u8 *)end)
			return 0;
		if (more) {
			more--;
			continue;
		}
		if (next == IPPROTO_TCP) {
			if ((const void *)(tcp + 1) > end || (tcp->syn && !tcp->ack))
				return 0;
			ports->source = tcp->source;
			ports->dest = tcp->dest;
			return 1;
		}
		if (next == IPPROTO_FRAGMENT) {
			if (*(const __be16 *)(at + 2) & FRAGMENT6)
				return 0;
		} else if (next == IPPROTO_ROUTING) {
			if (at[3]) /* segments left */
				return 0;
			more = at[1];
		} else if (next == IPPROTO_DSTOPTS || (next == IPPROTO_HOPOPTS && i == 0)) {
			if (at[2] & OPTION_ACTION)
				return 0;
			more = at[1];
		} else {
			return 0;
		}
		next = at[0];
	}
	return 0;
}

static __always_inline int steer6(struct xdp_md *ctx, const struct ethhdr *eth,
				  const struct ipv6hdr *ip, const void *end)
{
	const struct ports *behind = (const void *)(ip + 1);
	int is_behind = ip->nexthdr != IPPROTO_UDP && ip->nexthdr != IPPROTO_TCP;

	if ((const void *)(behind + 1) > end || ip->version != 6 || is_odd6(eth, ip))
		return XDP_PASS;
	if (is_joined(ip->nexthdr, bpf_ntohs(ip->payload_len) + sizeof(*ip)))
		return XDP_PASS;
	if (!conf.flows6)
		return pass(ip->nexthdr);

	struct tuple t = {
		.local = xdp_steer_alias(ip->daddr.s6_addr32, conf.seed),
		.remote = xdp_steer_alias(ip->saddr.s6_addr32, conf.seed),
		.ports = *behind,
		.proto = is_behind ? IPPROTO_TCP : ip->nexthdr,
		.is_behind = (__u8)is_behind,
		.tcp = (const void *)behind,
		.end = end,
		.ip6 = ip,
	};

	if (is_behind && !ports_behind(ip, end, &t.ports))
		return XDP_PASS;

	return steer(ctx, &t);
}

SEC("xdp")
int xdp_steer(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const struct ethhdr *eth = data;
	const struct iphdr *ip = (const void *)(eth + 1);
	__be16 proto;
	__u16 vlan = 0;

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
	if ((proto != bpf_htons(ETH_P_IP) && proto != bpf_htons(ETH_P_IPV6)) || vlan != conf.vlan ||
	    !is_for_us(eth->h_dest))
		return XDP_PASS;
	if (__builtin_expect(proto == bpf_htons(ETH_P_IP), 1))
		return steer4(ctx, eth, ip, end);
	return steer6(ctx, eth, (const void *)ip, end);
}

char xdp_license[] SEC("license") = "Dual BSD/GPL";
