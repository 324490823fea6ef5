/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening the device: is it one that the port can use? */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/log.h"
#include "base/sys.h"
#include "ring/mlx5/mlx5_internal.h"

static int refuse(char why[PORT_WHY], int rc, const struct mlx5_port *port, const char *reason)
{
	snprintf(why, PORT_WHY, "%s (%s): %s\n", port->base.name, port->name.device, reason);
	return rc;
}

/* The device by its name; *listed: it is there, whether libmlx5 serves it or not. */
static struct ibv_context *open_by_name(const char *name, bool *listed, bool *ours)
{
	int n = 0;
	struct ibv_device **list = mlx5_verbs.get_device_list(&n);
	struct ibv_context *context = NULL;

	/* NULL without RDMA in the kernel (ENOSYS), or with no memory. */
	for (int i = 0; list && i < n && !*listed; i++) {
		if (strcmp(mlx5_verbs.get_device_name(list[i]), name) != 0)
			continue;
		*listed = true;
		*ours = mlx5_verbs.is_supported(list[i]);
		if (*ours)
			context = mlx5_verbs.open_device(list[i]);
	}
	if (list)
		mlx5_verbs.free_device_list(list);
	return context;
}

/* The descriptors are the library's own: see sys_fd_hide(). */
static void hide_descriptors(struct ibv_context *context)
{
	context->cmd_fd = sys_fd_hide(context->cmd_fd);
	context->async_fd = sys_fd_hide(context->async_fd);
	/* Else service() would wait for an event. */
	sys_fcntl(context->async_fd, F_SETFL,
		  sys_fcntl(context->async_fd, F_GETFL, 0) | O_NONBLOCK);
}

#define SEGMENT_MAX 65535u /* bytes of the longest IP packet */

/* Bytes of the longest TCP segment that the device cuts; 0: it does not. */
static uint32_t segment_max(struct ibv_context *context)
{
	struct verbs_context *verbs = verbs_get_ctx_op(context, query_device_ex);
	struct ibv_device_attr_ex attr = {0};

	if (!verbs || verbs->query_device_ex(context, NULL, &attr, sizeof(attr)) ||
	    !(attr.tso_caps.supported_qpts & 1u << IBV_QPT_RAW_PACKET) ||
	    attr.tso_caps.max_tso <= FRAME_HDR_MAX)
		return 0;
	return attr.tso_caps.max_tso < SEGMENT_MAX ? attr.tso_caps.max_tso : SEGMENT_MAX;
}

static int check_abilities(struct mlx5_port *port, char why[PORT_WHY])
{
	struct ibv_device_attr device = {0};
	struct ibv_port_attr attr = {0};

	if (mlx5_verbs.query_device(port->context, &device))
		return refuse(why, -EIO, port, "the device does not tell its abilities.");
	/* The compatible form has the first members of the structure. */
	if (port->name.port > device.phys_port_cnt ||
	    mlx5_verbs.query_port(port->context, port->name.port, (void *)&attr))
		return refuse(why, -EIO, port, "the device does not tell of its port.");
	if (attr.link_layer != IBV_LINK_LAYER_ETHERNET)
		return refuse(why, -EOPNOTSUPP, port, "the port is not Ethernet.");
	if (!(device.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING))
		return refuse(why, -EOPNOTSUPP, port,
			      "the device has no flow steering; see docs/mlx5.md, firmware.");
	port->max_wr = (uint32_t)device.max_qp_wr;
	port->max_cqe = (uint32_t)device.max_cqe;
	port->base.can.segment_max = segment_max(port->context);
	return 0;
}

int mlx5_device_open(struct mlx5_port *port, char why[PORT_WHY])
{
	bool listed = false, ours = false;
	int rc;

	errno = 0;
	port->context = open_by_name(port->name.device, &listed, &ours);
	if (!port->context) {
		rc = errno ? -errno : -ENODEV;
		if (!listed)
			return refuse(why, -ENODEV, port,
				      "libibverbs does not list the device; is its node in "
				      "/dev/infiniband (in a container: --device), is ib_uverbs "
				      "loaded, and libibverbs' provider installed?");
		if (!ours)
			return refuse(why, -EOPNOTSUPP, port, "libmlx5 does not serve it.");
		snprintf(why, PORT_WHY,
			 "%s (%s): the device cannot be opened: %s.  Its node in /dev/infiniband "
			 "must be there and writable.\n",
			 port->base.name, port->name.device, strerrordesc_np(-rc));
		return rc;
	}
	hide_descriptors(port->context);
	rc = check_abilities(port, why);
	if (!rc) {
		port->pd = mlx5_verbs.alloc_pd(port->context);
		if (!port->pd)
			rc = refuse(why, -ENOMEM, port, "no protection domain.");
	}
	if (rc)
		mlx5_device_close(port);
	return rc;
}

void mlx5_device_close(struct mlx5_port *port)
{
	struct ibv_context *context = port->context;

	/* In use if a queue could not be destroyed: then all of it stays. */
	if (port->pd && mlx5_verbs.dealloc_pd(port->pd)) {
		log_debug("%s: the device stays open", port->base.name);
		return;
	}
	/* libibverbs closes them with close(), which is intercepted. */
	sys_fd_unhide(context->cmd_fd);
	sys_fd_unhide(context->async_fd);
	mlx5_verbs.close_device(context);
}
