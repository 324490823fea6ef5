/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port for ConnectX cards: raw packet queue pairs and flow rules, by libibverbs and libmlx5.
 * Both are opened when an interface belongs to an RDMA device; without such an interface they are
 * not needed.  docs/mlx5.md is the page for users.
 */
#ifndef RING_MLX5_PORT_MLX5_H
#define RING_MLX5_PORT_MLX5_H

#include "ring/direct.h"
#include "ring/ports.h"

extern const struct port_kind port_mlx5_kind;
extern const struct direct_kind mlx5_direct_kind;

/*
 * Any thread, one at a time: is it the interface of a card, and can the libraries be opened?  0;
 * -ENODEV: of no card, why is empty; other -errno, and why.
 */
int mlx5_check(const char *interface, char why[PORT_WHY]);

#endif
