/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <rdma/ib_user_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mlx5/card.h"

/* enum ibv_flow_spec_type */
#define SPEC_ETH 0x20
#define SPEC_IPV4 0x30
#define SPEC_IPV6 0x31
#define SPEC_TCP 0x40
#define SPEC_UDP 0x41
#define SPEC_TAG 0x1000
#define TAG_MAX 0xffffff
#define QUEUES 64 /* that have a rule for one frame */

static void parse_eth(struct rule *rule, const struct ib_uverbs_flow_spec_eth *spec)
{
	memcpy(rule->value.dst_mac, spec->val.dst_mac, 6);
	memcpy(rule->mask.dst_mac, spec->mask.dst_mac, 6);
	memcpy(rule->value.src_mac, spec->val.src_mac, 6);
	memcpy(rule->mask.src_mac, spec->mask.src_mac, 6);
	rule->value.ether_type = spec->val.ether_type;
	rule->mask.ether_type = spec->mask.ether_type;
	rule->value.vlan = spec->val.vlan_tag;
	rule->mask.vlan = spec->mask.vlan_tag;
	rule->depth |= 1;
}

/* What IBV_FLOW_SPEC_IPV4 is for the kernel: the structure of the header is that of _IPV4_EXT. */
struct spec_ipv4 {
	struct ib_uverbs_flow_spec_hdr head;
	uint32_t src, dst, src_mask, dst_mask;
};

static void parse_ipv4(struct rule *rule, const struct spec_ipv4 *spec)
{
	memcpy(rule->value.src, &spec->src, sizeof(spec->src));
	memcpy(rule->mask.src, &spec->src_mask, sizeof(spec->src_mask));
	memcpy(rule->value.dst, &spec->dst, sizeof(spec->dst));
	memcpy(rule->mask.dst, &spec->dst_mask, sizeof(spec->dst_mask));
	rule->value.ether_type = htons(ETHERTYPE_IP);
	rule->mask.ether_type = 0xffff;
	rule->depth |= 2;
}

static void parse_ipv6(struct rule *rule, const struct ib_uverbs_flow_spec_ipv6 *spec)
{
	memcpy(rule->value.src, spec->val.src_ip, sizeof(rule->value.src));
	memcpy(rule->mask.src, spec->mask.src_ip, sizeof(rule->mask.src));
	memcpy(rule->value.dst, spec->val.dst_ip, sizeof(rule->value.dst));
	memcpy(rule->mask.dst, spec->mask.dst_ip, sizeof(rule->mask.dst));
	rule->value.ether_type = htons(ETHERTYPE_IPV6);
	rule->mask.ether_type = 0xffff;
	rule->depth |= 2;
}

static void parse_ports(struct rule *rule, const struct ib_uverbs_flow_spec_tcp_udp *spec)
{
	rule->value.src_port = spec->val.src_port;
	rule->mask.src_port = spec->mask.src_port;
	rule->value.dst_port = spec->val.dst_port;
	rule->mask.dst_port = spec->mask.dst_port;
	rule->value.protocol = spec->type == SPEC_TCP ? IPPROTO_TCP : IPPROTO_UDP;
	rule->mask.protocol = 0xff;
	rule->depth |= 4;
}

/* 0 or errno.  The specification lies at `spec`, and len bytes are left. */
static int parse_one(struct rule *rule, const uint8_t *spec, size_t len, size_t *size)
{
	struct ib_uverbs_flow_spec_hdr head;
	union {
		struct ib_uverbs_flow_spec_eth eth;
		struct spec_ipv4 ipv4;
		struct ib_uverbs_flow_spec_ipv6 ipv6;
		struct ib_uverbs_flow_spec_tcp_udp ports;
		struct ib_uverbs_flow_spec_action_tag tag;
	} u;

	if (len < sizeof(head))
		return EINVAL;
	memcpy(&head, spec, sizeof(head));
	*size = head.size;
	if (head.size < sizeof(head) || head.size > len || head.size > sizeof(u))
		return EINVAL;
	memset(&u, 0, sizeof(u));
	memcpy(&u, spec, head.size);
	if (head.type == SPEC_ETH && head.size == sizeof(u.eth))
		parse_eth(rule, &u.eth);
	else if (head.type == SPEC_IPV4 && head.size == sizeof(u.ipv4))
		parse_ipv4(rule, &u.ipv4);
	else if (head.type == SPEC_IPV6 && head.size == sizeof(u.ipv6))
		parse_ipv6(rule, &u.ipv6);
	else if ((head.type == SPEC_TCP || head.type == SPEC_UDP) && head.size == sizeof(u.ports))
		parse_ports(rule, &u.ports);
	else if (head.type == SPEC_TAG && head.size == sizeof(u.tag) && u.tag.tag_id <= TAG_MAX)
		rule->tag = u.tag.tag_id;
	else if (head.type == SPEC_TAG)
		return EINVAL;
	else
		return EOPNOTSUPP;
	return 0;
}

struct rule *rule_parse(const void *specs, size_t len, unsigned count)
{
	struct rule *rule = calloc(1, sizeof(*rule));
	size_t at = 0, size = 0;

	if (!rule)
		return NULL;
	for (unsigned i = 0; i < count; i++, at += size) {
		int error = parse_one(rule, (const uint8_t *)specs + at, len - at, &size);

		if (!error)
			continue;
		free(rule);
		errno = error;
		return NULL;
	}
	return rule;
}

/* The kernel has one entry of the card for all rules of one match, and an entry has one tag. */
bool rule_conflicts(const struct rule *rule)
{
	list_for_each(c, &contexts) {
		list_for_each(link, &container_of(c, struct context, link)->flows) {
			const struct rule *other = container_of(link, struct rule, object.link);

			if (other->priority == rule->priority && other->tag != rule->tag &&
			    !memcmp(&other->value, &rule->value, sizeof(rule->value)) &&
			    !memcmp(&other->mask, &rule->mask, sizeof(rule->mask)))
				return true;
		}
	}
	return false;
}

/* ---- the look-up -------------------------------------------------------------------------- */

/* Where the ports lie; 0: the card looks at none, as of a fragment, the first one included. */
static size_t describe_ipv4(const uint8_t *frame, size_t len, size_t l3, struct match *packet)
{
	struct iphdr ip;

	if (len < l3 + sizeof(ip))
		return 0;
	memcpy(&ip, frame + l3, sizeof(ip));
	memcpy(packet->src, &ip.saddr, sizeof(ip.saddr));
	memcpy(packet->dst, &ip.daddr, sizeof(ip.daddr));
	packet->protocol = ip.protocol;
	return ip.frag_off & htons(IP_OFFMASK | IP_MF) ? 0 : l3 + (size_t)ip.ihl * 4;
}

/* A packet with extension headers has their protocol, and no ports. */
static size_t describe_ipv6(const uint8_t *frame, size_t len, size_t l3, struct match *packet)
{
	struct ip6_hdr ip;

	if (len < l3 + sizeof(ip))
		return 0;
	memcpy(&ip, frame + l3, sizeof(ip));
	memcpy(packet->src, &ip.ip6_src, sizeof(packet->src));
	memcpy(packet->dst, &ip.ip6_dst, sizeof(packet->dst));
	packet->protocol = ip.ip6_nxt;
	return l3 + sizeof(ip);
}

static void describe(const uint8_t *frame, size_t len, struct match *packet)
{
	size_t l3 = ETH_HLEN, l4 = 0;

	memset(packet, 0, sizeof(*packet));
	memcpy(packet->dst_mac, frame, 6);
	memcpy(packet->src_mac, frame + 6, 6);
	memcpy(&packet->ether_type, frame + 12, 2);
	if (packet->ether_type == htons(ETHERTYPE_VLAN) && len >= ETH_HLEN + 4) {
		memcpy(&packet->vlan, frame + 14, 2);
		memcpy(&packet->ether_type, frame + 16, 2);
		l3 += 4;
	}
	if (packet->ether_type == htons(ETHERTYPE_IP))
		l4 = describe_ipv4(frame, len, l3, packet);
	else if (packet->ether_type == htons(ETHERTYPE_IPV6))
		l4 = describe_ipv6(frame, len, l3, packet);
	if (!l4 || len < l4 + 4 ||
	    (packet->protocol != IPPROTO_TCP && packet->protocol != IPPROTO_UDP))
		return;
	memcpy(&packet->src_port, frame + l4, 2);
	memcpy(&packet->dst_port, frame + l4 + 2, 2);
}

static bool matches(const struct rule *rule, const struct match *packet)
{
	const uint8_t *value = (const void *)&rule->value, *mask = (const void *)&rule->mask,
		      *bytes = (const void *)packet;

	for (size_t i = 0; i < sizeof(*packet); i++)
		if ((value[i] ^ bytes[i]) & mask[i])
			return false;
	return true;
}

/* Below 0: a is looked at before b.  0: if both match, both are served. */
static int compare(const struct rule *a, const struct rule *b)
{
	if (a->priority != b->priority)
		return a->priority < b->priority ? -1 : 1;
	return a->depth == b->depth ? 0 : a->depth > b->depth ? -1 : 1;
}

static void each_match(const struct match *packet, void (*visit)(struct rule *, void *), void *arg)
{
	list_for_each(c, &contexts) {
		struct context *context = container_of(c, struct context, link);

		if (context->gone)
			continue;
		list_for_each(link, &context->flows) {
			struct rule *rule = container_of(link, struct rule, object.link);

			if (matches(rule, packet))
				visit(rule, arg);
		}
	}
}

static void keep_best(struct rule *rule, void *arg)
{
	struct rule **best = arg;

	if (!*best || compare(rule, *best) < 0)
		*best = rule;
}

struct delivery {
	const struct rule *best;
	const void *frame;
	size_t len;
	unsigned n;
	const struct qp *served[QUEUES];
};

/* A queue pair gets a frame once, however many rules it has for it. */
static void deliver(struct rule *rule, void *arg)
{
	struct delivery *d = arg;

	if (compare(rule, d->best))
		return;
	for (unsigned i = 0; i < d->n; i++)
		if (d->served[i] == rule->qp)
			return;
	if (d->n < QUEUES)
		d->served[d->n++] = rule->qp;
	queue_receive(rule->qp, d->frame, d->len, rule->tag);
}

bool rules_deliver(const void *frame, size_t len)
{
	struct match packet;
	struct rule *best = NULL;

	if (len < ETH_HLEN)
		return false;
	describe(frame, len, &packet);
	each_match(&packet, keep_best, &best);
	if (!best)
		return false;
	counters.received++;
	each_match(&packet, deliver, &(struct delivery){.best = best, .frame = frame, .len = len});
	return true;
}

static void print_side(const char *name, bool ipv6, const uint8_t *address, const uint8_t *mask,
		       uint16_t port)
{
	char text[INET6_ADDRSTRLEN] = "*";

	if (mask[0])
		inet_ntop(ipv6 ? AF_INET6 : AF_INET, address, text, sizeof(text));
	printf(" %s %s:%u", name, text, ntohs(port));
}

void rules_print(void)
{
	list_for_each(c, &contexts) {
		list_for_each(link, &container_of(c, struct context, link)->flows) {
			const struct rule *rule = container_of(link, struct rule, object.link);
			const uint8_t *mac = rule->value.dst_mac;
			bool ipv6 = rule->value.ether_type == htons(ETHERTYPE_IPV6);

			printf("rule of %#x proto %u", rule->qp->number, rule->value.protocol);
			print_side("to", ipv6, rule->value.dst, rule->mask.dst,
				   rule->value.dst_port);
			print_side("from", ipv6, rule->value.src, rule->mask.src,
				   rule->value.src_port);
			printf(" mac %02x:%02x:%02x:%02x:%02x:%02x priority %u tag %u\n", mac[0],
			       mac[1], mac[2], mac[3], mac[4], mac[5], rule->priority, rule->tag);
		}
	}
}
