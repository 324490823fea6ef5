/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A raw packet queue pair by the stock libibverbs and libmlx5.  Whatever fails ends the
 * program with a message.
 */
#ifndef TESTS_MLX5_STOCK_H
#define TESTS_MLX5_STOCK_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>

struct stock {
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel; /* of recv_cq */
	struct ibv_cq *recv_cq, *send_cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr; /* of all the memory */
	struct ibv_flow *flow;
};

/* Not good: prints what and errno, and ends the program. */
void stock_check(bool good, const char *what);
/*
 * Queues of depth requests, ready to send; receive requests may be posted.  name: of the device, as
 * "mlx5_0".
 */
void stock_open(struct stock *stock, const char *name, void *memory, size_t size, unsigned depth,
		unsigned max_inline);
/* Gives it the datagrams for this address and port, with a tag. */
void stock_add_rule(struct stock *stock, const char *address, unsigned port);
void stock_close(struct stock *stock);

#endif
