/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A command of libibverbs while the card serves it.  Functions return 0 or -errno, which write(2)
 * returns to the program.
 */
#ifndef TESTS_MLX5_CARD_CALL_H
#define TESTS_MLX5_CARD_CALL_H

#include "tests/mlx5/card.h"
#include "tests/mlx5/protocol.h"

#define WR_MAX 32768
#define CQE_MAX (1u << 22)
#define BFREGS_STATIC (UAR_STATIC * BFREGS_PER_UAR)

/* A command while it is served. */
struct call {
	struct context *context;
	unsigned number;
	bool extended;
	const uint8_t *core, *driver; /* what the library and the driver pass */
	size_t core_len, driver_len;
	size_t room; /* extended: bytes of the library's part of the answer */
	uint8_t answer[CARD_MESSAGE / 2];
	size_t len;
	int fd; /* goes along with the answer; -1 */
};

/* Numbers of queues, and keys. */
uint32_t call_next_number(void);
/* Gives it a handle, and the context. */
void object_add(struct object *object, struct context *context, struct list *to);
struct object *object_find(struct list *in, uint32_t handle);
#define FIND(type, in, handle) ((struct type *)(void *)object_find(&(in), handle))
/* An object's head is its first member, so that NULL stays NULL. */
_Static_assert(!offsetof(struct qp, object) && !offsetof(struct cq, object) &&
		       !offsetof(struct region, object) && !offsetof(struct rule, object),
	       "first");

/* Stores the library's part, then the driver's. */
int call_answer(struct call *call, const void *core, size_t core_len, const void *driver,
		size_t driver_len);
/* Legacy commands: what follows the library's structure of this size is the driver's. */
void call_split(struct call *call, size_t core_size);
/* Copies the argument; a shorter one is filled up with zeros. */
void call_argument(void *to, size_t size, const uint8_t *from, size_t len);
#define CORE(call, arg) call_argument(&(arg), sizeof(arg), (call)->core, (call)->core_len)
#define DRIVER(call, arg) call_argument(&(arg), sizeof(arg), (call)->driver, (call)->driver_len)

/* ---- card_device.c ---- */

int call_get_context(struct call *call);
int call_query_device(struct call *call);
int call_query_port(struct call *call);
int call_alloc_pd(struct call *call);
int call_reg_mr(struct call *call);
int call_create_channel(struct call *call);

/* ---- card_create.c ---- */

int call_create_cq(struct call *call);
int call_modify_cq(struct call *call);
int call_create_qp(struct call *call);
int call_modify_qp(struct call *call);
int call_create_flow(struct call *call);

#endif
