/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/mlx5/card_call.h"

#define SGE_MAX 30
#define MAX_SEGMENTED (1u << 16)

/* ---- the device --------------------------------------------------------------------------- */

int call_get_context(struct call *call)
{
	struct ib_uverbs_get_context_resp core = {.num_comp_vectors = 1};
	struct mlx5_ib_alloc_ucontext_resp driver = {
		.qp_tab_size = 1 << 17,
		.bf_reg_size = BFREG_SIZE,
		.tot_bfregs = BFREGS_STATIC,
		.cache_line_size = 64,
		.max_sq_desc_sz = 1024,
		.max_rq_desc_sz = 512,
		.max_send_wqebb = WR_MAX,
		.max_recv_wr = WR_MAX,
		.max_srq_recv_wr = WR_MAX - 1,
		.num_ports = 1,
		.response_length = sizeof(driver),
		.cqe_version = 1,
		.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE,
		.eth_min_inline = MLX5_USER_INLINE_MODE_L2,
		.log_uar_size = 12,
		.num_uars_per_page = 1,
		.num_dyn_bfregs = (UAR_PAGES - UAR_STATIC) * BFREGS_PER_UAR,
	};

	if (clock_khz()) {
		driver.comp_mask = MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET;
		driver.hca_core_clock_offset = CLOCK_OFFSET;
		driver.clock_info_versions = 1 << MLX5_IB_CLOCK_INFO_V1;
	}
	call->fd = call->context->async_peer;
	return call_answer(call, &core, sizeof(core), &driver, sizeof(driver));
}

int call_query_device(struct call *call)
{
	struct ib_uverbs_query_device_resp core = {
		.max_mr_size = UINT64_MAX,
		.page_size_cap = 0xfffff000,
		.vendor_id = 0x15b3,
		.vendor_part_id = 0x1017, /* ConnectX-5 */
		.max_qp = 1024,
		.max_qp_wr = WR_MAX,
		.device_cap_flags = IBV_DEVICE_RAW_IP_CSUM | IBV_DEVICE_MANAGED_FLOW_STEERING,
		.max_sge = SGE_MAX,
		.max_cq = 1024,
		.max_cqe = CQE_MAX - 1,
		.max_mr = 1 << 20,
		.max_pd = 1024,
		.phys_port_cnt = 1,
	};
	struct ib_uverbs_ex_query_device_resp ex = {
		.base = core,
		.response_length = sizeof(ex),
		.timestamp_mask = clock_khz() ? UINT64_MAX : 0,
		.hca_core_clock = clock_khz(),
		.raw_packet_caps = IBV_RAW_PACKET_CAP_IP_CSUM,
	};
	struct mlx5_ib_query_device_resp driver = {
		.response_length = sizeof(driver),
		.tso_caps = {.max_tso = MAX_SEGMENTED, .supported_qpts = 1 << IBV_QPT_RAW_PACKET},
	};

	return call->extended ? call_answer(call, &ex, sizeof(ex), &driver, sizeof(driver))
			      : call_answer(call, &core, sizeof(core), NULL, 0);
}

int call_query_port(struct call *call)
{
	struct ib_uverbs_query_port_resp core = {
		.max_msg_sz = 1u << 30,
		.gid_tbl_len = 1,
		.pkey_tbl_len = 1,
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_1024,
		.active_width = 2,
		.active_speed = 32,
		.phys_state = 5,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};

	return call_answer(call, &core, sizeof(core), NULL, 0);
}

/* ---- protection domains, memory, channels ------------------------------------------------- */

int call_alloc_pd(struct call *call)
{
	struct pd *pd = calloc(1, sizeof(*pd));
	struct ib_uverbs_alloc_pd_resp core;
	struct mlx5_ib_alloc_pd_resp driver;

	if (!pd)
		return -ENOMEM;
	object_add(&pd->object, call->context, &call->context->pds);
	core.pd_handle = driver.pdn = pd->object.handle;
	return call_answer(call, &core, sizeof(core), &driver, sizeof(driver));
}

int call_reg_mr(struct call *call)
{
	struct ib_uverbs_reg_mr_resp core;
	struct ib_uverbs_reg_mr arg;
	struct region *region;
	struct pd *pd;
	char first, last;

	CORE(call, arg);
	pd = FIND(pd, call->context->pds, arg.pd_handle);
	/* Pages are pinned: all of them must be there. */
	if (!pd || !arg.length || !memory_read(call->context, arg.start, &first, 1) ||
	    !memory_read(call->context, arg.start + arg.length - 1, &last, 1))
		return pd ? -EFAULT : -EINVAL;
	region = calloc(1, sizeof(*region));
	if (!region)
		return -ENOMEM;
	region->pd = pd;
	region->key = call_next_number() << 8;
	region->start = arg.hca_va;
	region->length = arg.length;
	region->local_write = arg.access_flags & IBV_ACCESS_LOCAL_WRITE;
	if (arg.hca_va != arg.start) {
		free(region);
		return -EOPNOTSUPP; /* nobody asks for it here */
	}
	pd->object.users++;
	object_add(&region->object, call->context, &call->context->regions);
	core = (struct ib_uverbs_reg_mr_resp){
		.mr_handle = region->object.handle, .lkey = region->key, .rkey = region->key};
	return call_answer(call, &core, sizeof(core), NULL, 0);
}

int call_create_channel(struct call *call)
{
	struct ib_uverbs_create_comp_channel_resp core;
	struct channel *channel = calloc(1, sizeof(*channel));
	int fds[2];

	if (!channel || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds)) {
		free(channel);
		return -ENOMEM;
	}
	channel->fd = fds[0];
	channel->peer = dup(fds[1]);
	object_add(&channel->object, call->context, &call->context->channels);
	core.fd = channel->object.handle; /* the shim has the descriptor beside it */
	call->fd = fds[1];
	return call_answer(call, &core, sizeof(core), NULL, 0);
}
