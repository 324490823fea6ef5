/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/mlx5/mlx5_verbs.h"

#include <errno.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define VERBS_LIBRARY "libibverbs.so.1"
#define DIRECT_LIBRARY "libmlx5.so.1"

struct symbol {
	const char *name;
	size_t at; /* in struct mlx5_verbs */
};

#define X(member, function) {#function, offsetof(struct mlx5_verbs, member)},
static const struct symbol verbs_symbols[] = {MLX5_VERBS(X)};
static const struct symbol direct_symbols[] = {MLX5_DIRECT(X)};
#undef X

struct mlx5_verbs mlx5_verbs;
static bool is_open; /* control lock */

static int load(const char *library, const struct symbol *symbols, size_t n, char why[PORT_WHY])
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		const char *text = dlerror();

		snprintf(why, PORT_WHY,
			 "%s cannot be opened (%.400s).  Install rdma-core's libraries "
			 "(Debian: libibverbs1, ibverbs-providers).\n",
			 library, text ? text : "no reason given");
		return -ENOENT;
	}
	for (size_t i = 0; i < n; i++) {
		void *function = dlsym(handle, symbols[i].name);

		if (!function) {
			snprintf(why, PORT_WHY,
				 "%s has no %s: it is too old.  Version 44 of rdma-core was "
				 "tried.\n",
				 library, symbols[i].name);
			dlclose(handle);
			return -ENOSYS;
		}
		memcpy((char *)&mlx5_verbs + symbols[i].at, &function, sizeof(function));
	}
	return 0;
}

int mlx5_verbs_get(char why[PORT_WHY])
{
	int rc;

	if (is_open)
		return 0;
	rc = load(VERBS_LIBRARY, verbs_symbols, sizeof(verbs_symbols) / sizeof(*verbs_symbols),
		  why);
	if (!rc)
		rc = load(DIRECT_LIBRARY, direct_symbols,
			  sizeof(direct_symbols) / sizeof(*direct_symbols), why);
	if (rc)
		return rc;
	/*
	 * Without ibv_fork_init(), which takes each page with registered memory from forked children,
	 * also those of the program (direct rings), which hold other things, too.  It is for kernels
	 * before Linux 5.9: later ones give the child copies of pages that a device uses.
	 */
	is_open = true;
	return 0;
}

static int set_state(struct ibv_qp *qp, uint8_t port, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = port};

	return mlx5_verbs.modify_qp(qp, &attr, IBV_QP_STATE | mask);
}

int mlx5_verbs_start(struct ibv_qp *qp, uint8_t port)
{
	int rc = set_state(qp, port, IBV_QPS_INIT, IBV_QP_PORT);

	if (!rc)
		rc = set_state(qp, port, IBV_QPS_RTR, 0);
	if (!rc)
		rc = set_state(qp, port, IBV_QPS_RTS, 0);
	errno = rc < 0 ? -rc : rc;
	return rc;
}
