/* SPDX-License-Identifier: BSD-2-Clause */
/* Templates: what the frames to one destination have in common. */
#include <assert.h>
#include <errno.h>
#include <netinet/if_ether.h>

#include "net/frame_internal.h"

#define IP4_DF 0x4000

#define LABEL_STATELESS 0x80000u /* Linux: IPV6_FLOWLABEL_STATELESS_FLAG */
#define LABEL_MASK 0xfffffu

uint32_t frame_flow_label(const struct flow_key *key)
{
	return LABEL_STATELESS | (flow_key_hash(key) & (LABEL_STATELESS - 1));
}

static uint32_t label_of(const struct frame_params *params)
{
	struct flow_key key = {.local = params->src.addr,
			       .remote = params->dst.addr,
			       .local_port = params->src.port,
			       .remote_port = params->dst.port,
			       .proto = params->proto};

	if (params->label == FRAME_LABEL_AUTO)
		return frame_flow_label(&key);
	return params->label == FRAME_LABEL_NONE ? 0 : params->label & LABEL_MASK;
}

/* RFC 791 3.1.  Returns the offset of the next header. */
static uint8_t init_ip4(uint8_t *bytes, const struct frame_params *params)
{
	uint8_t *ip = bytes + ETH_HDR;

	store16(bytes + 12, htons(ETHERTYPE_IP));
	ip[0] = 4 << 4 | IP4_HDR / 4;
	ip[1] = params->tos;
	store16(ip + 6, htons(IP4_DF));
	ip[8] = params->ttl;
	ip[9] = params->proto;
	store32(ip + 12, addr_v4_of(&params->src.addr));
	store32(ip + 16, addr_v4_of(&params->dst.addr));
	store16(bytes + IP4_SUM, csum_fold(csum_add(0, ip, IP4_HDR)));
	return IP4_L4;
}

/* RFC 8200 3. */
static uint8_t init_ip6(uint8_t *bytes, const struct frame_params *params)
{
	uint8_t *ip = bytes + ETH_HDR;

	store16(bytes + 12, htons(ETHERTYPE_IPV6));
	store32(ip, htonl(6u << 28 | (uint32_t)params->tos << 20 | label_of(params)));
	ip[6] = params->proto;
	ip[7] = params->ttl;
	memcpy(ip + 8, &params->src.addr, 16);
	memcpy(ip + 24, &params->dst.addr, 16);
	return IP6_L4;
}

int frame_template_init(struct frame_template *t, const struct frame_params *params)
{
	const struct endpoint *src = &params->src, *dst = &params->dst;
	bool v4 = addr_is_v4(&src->addr);
	uint8_t *l4;
	uint64_t sum;

	if (v4 != addr_is_v4(&dst->addr))
		return -EAFNOSUPPORT;
	memset(t, 0, sizeof(*t));
	if (!v4)
		t->special = FRAME_IP6;
	else if (params->no_csum && params->proto == IPPROTO_UDP)
		t->special = FRAME_NO_CSUM;
	memcpy(t->bytes, params->dst_mac, 6);
	memcpy(t->bytes + 6, params->src_mac, 6);
	t->l4 = v4 ? init_ip4(t->bytes, params) : init_ip6(t->bytes, params);
	l4 = t->bytes + t->l4;
	store16(l4, src->port);
	store16(l4 + 2, dst->port);

	/* The addresses are before the ports. */
	sum = v4 ? csum_add(0, l4 - 8, 8 + 4) : csum_add(0, l4 - 32, 32 + 4);
	store16(t->bytes + PSEUDO_SUM, csum_fold(sum + htons(params->proto)));
	return 0;
}

void frame_template_set_mac(struct frame_template *t, const uint8_t *dst_mac)
{
	memcpy(t->bytes, dst_mac, 6);
}

struct inaddr frame_template_dst(const struct frame_template *t)
{
	struct inaddr v6;
	uint32_t v4;

	if (t->special & FRAME_IP6) {
		memcpy(&v6, t->bytes + ETH_HDR + 24, sizeof(v6));
		return v6;
	}
	assert(t->l4 == IP4_L4);
	memcpy(&v4, t->bytes + ETH_HDR + 16, sizeof(v4));
	return addr_v4(v4);
}
