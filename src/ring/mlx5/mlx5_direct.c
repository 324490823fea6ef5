/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Direct rings: a raw packet queue pair with a completion queue, which belong to the program.  The
 * library makes them, and arms the completion queue.  The device is opened for each ring, so a doorbell
 * register and keys are its own, and the end of a port does not concern it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/sys.h"
#include "net/netlink/netlink.h"
#include "ring/mlx5/mlx5_internal.h"

#define BLOCKS 1024u
#define MMIO_CQ (MLX5_CQ_DOORBELL / sizeof(uint64_t))

struct mlx5_direct {
	struct direct base;
	struct mlx5_port device; /* name, context and pd; not opened as a port */
	struct ibv_device_attr attr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct mlx5dv_cq dv_cq;
	struct mlx5dv_qp dv_qp;
	bool paces;
	uint32_t consumed; /* written by the program */
	uint32_t arm_sn;
	uint32_t events; /* of the channel, not acknowledged yet */
};

static struct mlx5_direct *direct_of(struct direct *direct)
{
	return container_of(direct, struct mlx5_direct, base);
}

static int refuse(char why[PORT_WHY], const struct mlx5_direct *d, const char *what)
{
	int rc = errno ? -errno : -EIO;

	snprintf(why, PORT_WHY, "%s (%s): no direct ring: no %s: %s.%s\n", d->device.base.name,
		 d->device.name.device, what, strerrordesc_np(-rc),
		 rc == -EPERM ? "  Raw packets need CAP_NET_RAW." : "");
	return rc;
}

/* ---- opening and closing ---------------------------------------------------------------------- */

static void direct_free(struct mlx5_direct *d)
{
	if (d->qp)
		mlx5_verbs.destroy_qp(d->qp);
	while (!list_empty(&d->base.regions)) {
		struct direct_region *region =
			container_of(list_pop_front(&d->base.regions), struct direct_region, link);

		mlx5_verbs.dereg_mr(region->handle);
		mem_free(region);
	}
	if (d->channel)
		sys_fd_unhide(d->channel->fd);
	if (d->cq) {
		mlx5_verbs.ack_cq_events(d->cq, d->events);
		mlx5_verbs.destroy_cq(d->cq);
	}
	if (d->channel)
		mlx5_verbs.destroy_comp_channel(d->channel);
	if (d->device.context)
		mlx5_device_close(&d->device);
	mem_free(d);
}

static void direct_close(struct direct *direct)
{
	int saved = errno;

	direct_free(direct_of(direct));
	errno = saved;
}

static int make_queues(struct mlx5_direct *d, char why[PORT_WHY])
{
	struct ibv_context *context = d->device.context;
	uint32_t n = d->device.max_wr < BLOCKS ? d->device.max_wr : BLOCKS;
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.cap = {.max_send_wr = n, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct mlx5dv_obj obj;

	errno = 0;
	d->channel = mlx5_verbs.create_comp_channel(context);
	if (!d->channel)
		return refuse(why, d, "completion channel");
	d->cq = mlx5_verbs.create_cq(context, (int)n - 1, NULL, d->channel, 0);
	if (!d->cq)
		return refuse(why, d, "completion queue");
	d->channel->fd = sys_fd_hide(d->channel->fd);
	sys_fcntl(d->channel->fd, F_SETFL, sys_fcntl(d->channel->fd, F_GETFL, 0) | O_NONBLOCK);
	init.send_cq = init.recv_cq = d->cq;
	d->qp = mlx5_verbs.create_qp(d->device.pd, &init);
	if (!d->qp)
		return refuse(why, d, "raw packet queue pair");
	obj = (struct mlx5dv_obj){.qp = {d->qp, &d->dv_qp}, .cq = {d->cq, &d->dv_cq}};
	if (mlx5_verbs.init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ))
		return refuse(why, d, "view of the queues");
	return 0;
}

static int start(struct mlx5_direct *d, char why[PORT_WHY])
{
	int rc = mlx5_verbs_start(d->qp, d->device.name.port);

	return rc ? refuse(why, d, "state in which it works") : 0;
}

static bool paces(struct ibv_context *context)
{
	struct verbs_context *verbs = verbs_get_ctx_op(context, query_device_ex);
	struct ibv_device_attr_ex attr = {0};

	return verbs && !verbs->query_device_ex(context, NULL, &attr, sizeof(attr)) &&
	       attr.packet_pacing_caps.qp_rate_limit_max &&
	       attr.packet_pacing_caps.supported_qpts & 1u << IBV_QPT_RAW_PACKET;
}

static int make(struct mlx5_direct *d, const struct link *link, char why[PORT_WHY])
{
	int rc = mlx5_verbs_get(why);

	memcpy(d->device.base.name, link->name, sizeof(d->device.base.name));
	if (rc)
		return rc;
	rc = mlx5_device_open(&d->device, why);
	if (rc) {
		d->device.context = NULL;
		return rc;
	}
	d->paces = paces(d->device.context);
	errno = 0;
	if (mlx5_verbs.query_device(d->device.context, &d->attr))
		return refuse(why, d, "abilities");
	rc = make_queues(d, why);
	return rc ? rc : start(d, why);
}

static const struct direct_ops direct_ops;

static int direct_open(int ifindex, struct direct **out, char why[PORT_WHY])
{
	int saved = errno, rc;
	struct mlx5_direct *d;
	struct mlx5_name name;
	struct link link;

	rc = link_get(ifindex, &link);
	if (!rc)
		rc = mlx5_find(link.name, &name, why);
	d = rc ? NULL : mem_zalloc(sizeof(*d));
	if (!rc && !d)
		rc = -ENOMEM;
	if (rc) {
		errno = saved;
		return rc;
	}
	d->base.ops = &direct_ops;
	d->device.name = name;
	list_init(&d->base.regions);
	rc = make(d, &link, why);
	if (rc) {
		direct_free(d);
	} else {
		d->base.fd = d->channel->fd;
		*out = &d->base;
		log_debug("%s: direct ring, queue pair %#x", link.name, d->qp->qp_num);
	}
	errno = saved;
	return rc;
}

/* ---- using it --------------------------------------------------------------------------------- */

static void direct_view(struct direct *direct, struct direct_view *view)
{
	struct mlx5_direct *d = direct_of(direct);

	*view = (struct direct_view){
		.vendor = d->attr.vendor_id,
		.part = d->attr.vendor_part_id,
		.paces = d->paces,
		.cq = {.buf = d->dv_cq.buf,
		       .record = (volatile uint32_t *)d->dv_cq.dbrec,
		       .n = d->dv_cq.cqe_cnt,
		       .size = d->dv_cq.cqe_size,
		       .number = d->dv_cq.cqn,
		       .page = d->dv_cq.cq_uar,
		       .consumed = &d->consumed},
		.sq = {.buf = d->dv_qp.sq.buf,
		       .record = (volatile uint32_t *)&d->dv_qp.dbrec[MLX5_SND_DBR],
		       .n = d->dv_qp.sq.wqe_cnt,
		       .stride = d->dv_qp.sq.stride,
		       .number = d->qp->qp_num,
		       .reg = d->dv_qp.bf.reg,
		       .half = d->dv_qp.bf.size},
	};
}

/* Takes the events that came, so that the descriptor is readable for the next one. */
static void take_events(struct mlx5_direct *d)
{
	struct ib_uverbs_comp_event_desc event;

	while (sys_read(d->channel->fd, &event, sizeof(event)) == sizeof(event)) {
		d->events++;
		d->arm_sn++;
	}
}

static int direct_arm(struct direct *direct)
{
	struct mlx5_direct *d = direct_of(direct);
	/* A program that writes it meanwhile arms behind one of both values. */
	uint32_t consumed = __atomic_load_n(&d->consumed, __ATOMIC_RELAXED);
	const struct mlx5_cq cq = {.at = consumed};
	volatile uint64_t *reg = (volatile uint64_t *)d->dv_cq.cq_uar + MMIO_CQ;
	uint32_t word;

	take_events(d);
	word = mlx5_cq_arm_word(&cq, d->arm_sn);
	/* As mlx5_arm(). */
	d->dv_cq.dbrec[MLX5_ARM_RECORD] = htobe32(word);
	mlx5_register_fence();
	*reg = htobe64((uint64_t)word << 32 | d->dv_cq.cqn);
	mlx5_register_fence();
	return 0;
}

/* libibverbs returns an error number, or -1 and errno. */
static int result(int rc, int saved)
{
	int error = rc < 0 ? errno : rc;

	errno = saved;
	return -error;
}

static int direct_moderate(struct direct *direct, uint16_t completions, uint16_t usec)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					  .moderate = {completions, usec}};
	int saved = errno;

	return result(ibv_modify_cq(direct_of(direct)->cq, &attr), saved);
}

/*
 * A forked child has the bytes, as any other memory of the program: they are not taken from it
 * (MADV_DONTFORK), because its pages also hold what lies beside it, and the child may use both.  The card
 * and the parent go on with the same pages, of which fork() gives the child copies (Linux 5.9; huge pages:
 * 5.12).
 */
static int region_add(struct direct *direct, struct direct_region *region)
{
	struct mlx5_direct *d = direct_of(direct);
	int saved = errno, rc;
	struct ibv_mr *mr;

	errno = ENOMEM;
	mr = mlx5_verbs.reg_mr(d->device.pd, region->addr, region->len, IBV_ACCESS_LOCAL_WRITE);
	rc = -errno;
	errno = saved;
	if (!mr)
		return rc;
	region->key = mr->lkey;
	region->handle = mr;
	return 0;
}

static int region_del(struct direct *direct, const struct direct_region *region)
{
	int saved = errno;

	(void)direct;
	return result(mlx5_verbs.dereg_mr(region->handle), saved);
}

static const struct direct_ops direct_ops = {
	.arm = direct_arm,
	.close = direct_close,
	.moderate = direct_moderate,
	.region_add = region_add,
	.region_del = region_del,
	.view = direct_view,
};

static bool direct_available(void)
{
	char why[PORT_WHY] = "";
	int saved = errno;
	bool is = mlx5_find_any() && !mlx5_verbs_get(why);

	errno = saved;
	return is;
}

const struct direct_kind mlx5_direct_kind = {
	.available = direct_available,
	.open = direct_open,
};
