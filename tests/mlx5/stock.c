/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/mlx5/stock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG 0x1234

void stock_check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "verbs: %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **device = list;
	struct ibv_context *context;

	stock_check(list != NULL, "get_device_list");
	while (*device && strcmp(ibv_get_device_name(*device), name) != 0)
		device++;
	stock_check(*device != NULL, "the device is not there");
	stock_check(mlx5dv_is_supported(*device), "not served by libmlx5");
	context = ibv_open_device(*device);
	stock_check(context != NULL, "open_device");
	ibv_free_device_list(list);
	return context;
}

void stock_open(struct stock *stock, const char *name, void *memory, size_t size, unsigned depth,
		unsigned max_inline)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RAW_PACKET,
					.cap = {.max_send_wr = depth,
						.max_recv_wr = depth,
						.max_send_sge = 1,
						.max_recv_sge = 1,
						.max_inline_data = max_inline}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	stock->device = open_device(name);
	stock->pd = ibv_alloc_pd(stock->device);
	stock->channel = ibv_create_comp_channel(stock->device);
	stock_check(stock->pd && stock->channel, "pd, channel");
	stock->recv_cq = ibv_create_cq(stock->device, (int)depth, NULL, stock->channel, 0);
	stock->send_cq = ibv_create_cq(stock->device, (int)depth, NULL, NULL, 0);
	stock_check(stock->recv_cq && stock->send_cq, "create_cq");
	stock->mr = ibv_reg_mr(stock->pd, memory, size, IBV_ACCESS_LOCAL_WRITE);
	stock_check(stock->mr, "reg_mr");
	init.send_cq = stock->send_cq;
	init.recv_cq = stock->recv_cq;
	stock->qp = ibv_create_qp(stock->pd, &init);
	stock_check(stock->qp, "create_qp");
	stock_check(!ibv_modify_qp(stock->qp, &attr, IBV_QP_STATE | IBV_QP_PORT), "INIT");
	attr.qp_state = IBV_QPS_RTR;
	stock_check(!ibv_modify_qp(stock->qp, &attr, IBV_QP_STATE), "RTR");
	attr.qp_state = IBV_QPS_RTS;
	stock_check(!ibv_modify_qp(stock->qp, &attr, IBV_QP_STATE), "RTS");
}

/* Appends a specification. */
static void append(struct ibv_flow_attr *attr, const void *spec, size_t size)
{
	memcpy((uint8_t *)attr + attr->size, spec, size);
	attr->size = (uint16_t)(attr->size + size);
	attr->num_of_specs++;
}

void stock_add_rule(struct stock *stock, const char *address, unsigned port)
{
	static uint64_t room[64];
	struct ibv_flow_attr *attr = (void *)room;
	struct ibv_flow_spec_eth eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(eth)};
	struct ibv_flow_spec_ipv4 ip = {.type = IBV_FLOW_SPEC_IPV4,
					.size = sizeof(ip),
					.val.dst_ip = inet_addr(address),
					.mask.dst_ip = 0xffffffff};
	struct ibv_flow_spec_tcp_udp udp = {.type = IBV_FLOW_SPEC_UDP,
					    .size = sizeof(udp),
					    .val.dst_port = htons((uint16_t)port),
					    .mask.dst_port = 0xffff};
	struct ibv_flow_spec_action_tag tag = {
		.type = IBV_FLOW_SPEC_ACTION_TAG, .size = sizeof(tag), .tag_id = TAG};

	*attr = (struct ibv_flow_attr){
		.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(*attr), .port = 1};
	append(attr, &eth, sizeof(eth));
	append(attr, &ip, sizeof(ip));
	append(attr, &udp, sizeof(udp));
	append(attr, &tag, sizeof(tag));
	stock->flow = ibv_create_flow(stock->qp, attr);
	stock_check(stock->flow, "create_flow");
}

void stock_close(struct stock *stock)
{
	stock_check(ibv_destroy_cq(stock->recv_cq) == EBUSY, "a queue in use was destroyed");
	stock_check(!ibv_destroy_flow(stock->flow) && !ibv_destroy_qp(stock->qp) &&
			    !ibv_destroy_cq(stock->recv_cq) && !ibv_destroy_cq(stock->send_cq) &&
			    !ibv_destroy_comp_channel(stock->channel) && !ibv_dereg_mr(stock->mr) &&
			    !ibv_dealloc_pd(stock->pd) && !ibv_close_device(stock->device),
		    "the end");
}
