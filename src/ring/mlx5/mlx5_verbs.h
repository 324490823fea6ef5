/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libibverbs and libmlx5, opened at run time: the functions that are exported symbols.  Others are
 * inline functions of the headers, which call through the device's tables.
 *
 * Role		mlx5_verbs_get(): one thread at a time (the control lock).
 * Lifetime	once opened, the libraries stay: libibverbs cannot be unloaded.
 */
#ifndef RING_MLX5_MLX5_VERBS_H
#define RING_MLX5_MLX5_VERBS_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "ring/port.h"

/* X(member, function) */
#define MLX5_VERBS(X)                                     \
	X(ack_async_event, ibv_ack_async_event)           \
	X(ack_cq_events, ibv_ack_cq_events)               \
	X(alloc_pd, ibv_alloc_pd)                         \
	X(close_device, ibv_close_device)                 \
	X(create_comp_channel, ibv_create_comp_channel)   \
	X(create_cq, ibv_create_cq)                       \
	X(create_qp, ibv_create_qp)                       \
	X(dealloc_pd, ibv_dealloc_pd)                     \
	X(dereg_mr, ibv_dereg_mr)                         \
	X(destroy_comp_channel, ibv_destroy_comp_channel) \
	X(destroy_cq, ibv_destroy_cq)                     \
	X(destroy_qp, ibv_destroy_qp)                     \
	X(free_device_list, ibv_free_device_list)         \
	X(get_async_event, ibv_get_async_event)           \
	X(get_device_list, ibv_get_device_list)           \
	X(get_device_name, ibv_get_device_name)           \
	X(modify_qp, ibv_modify_qp)                       \
	X(open_device, ibv_open_device)                   \
	X(query_device, ibv_query_device)                 \
	X(query_port, ibv_query_port)                     \
	X(reg_mr, ibv_reg_mr)

#define MLX5_DIRECT(X)                           \
	X(get_clock_info, mlx5dv_get_clock_info) \
	X(init_obj, mlx5dv_init_obj)             \
	X(is_supported, mlx5dv_is_supported)

struct mlx5_verbs {
#define X(member, function) __typeof__(function) *member;
	MLX5_VERBS(X)
	MLX5_DIRECT(X)
#undef X
};

/* The functions, after mlx5_verbs_get() has returned 0. */
extern struct mlx5_verbs mlx5_verbs;

/* Opens the libraries.  -ENOENT: one is missing; -ENOSYS: too old.  why: a sentence, with \n. */
int mlx5_verbs_get(char why[PORT_WHY]);

/* Brings a new raw packet queue pair to the state in which it works. Not 0: it failed; errno says why. */
int mlx5_verbs_start(struct ibv_qp *qp, uint8_t port);

#endif
