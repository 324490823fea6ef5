/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work requests and completions of a ConnectX card, in memory that the card reads and writes.
 *
 * Role		pure functions of memory; the holder of the queue's ring.
 * Ordering	the card accesses memory coherently and in the order of the barriers
 *		below.  x86: stores to ordinary memory are seen in program order, so the first two
 *		only restrain the compiler; stores to the doorbell register, which is mapped
 *		write-combining, need a fence.
 * Sources	ConnectX programmer's reference manual (PRM), chapters 7.4 and 8;
 *		the formats are those of <infiniband/mlx5dv.h>.
 */
#ifndef RING_MLX5_MLX5_WQE_H
#define RING_MLX5_MLX5_WQE_H

#include <ck_pr.h>
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if !defined(__x86_64__)
#error "mlx5: add the barriers of this architecture"
#endif

#define MLX5_BLOCK 64u /* bytes: the unit of the send queue, MLX5_SEND_WQE_BB */
/* Bytes of headers that lie in the work request: the inline mode "L2" that ConnectX-4 demands. */
#define MLX5_HEADERS 18u
#define MLX5_ARM_RECORD 1 /* word of the doorbell record of a completion queue */
#define MLX5_HEAD 48u	  /* bytes of a work request before its data: control, Ethernet, headers */
#define MLX5_DS 16u	  /* bytes: the unit of a work request's length */
#define MLX5_DS_MAX 63u
/* The longest frame that lies in its work request. */
#define MLX5_INLINE_MAX (MLX5_DS_MAX * MLX5_DS - MLX5_HEAD - 4 + MLX5_HEADERS)

/* ---- barriers ----------------------------------------------------------------------------- */

/* What was stored before is in memory before what is stored after: the card reads both. */
static inline void mlx5_before_card_reads(void)
{
	ck_pr_fence_store(); /* pairs with the card's order of reads */
}

/* What the card wrote before the word that was just read is read after it. */
static inline void mlx5_after_card_wrote(void)
{
	ck_pr_fence_load(); /* pairs with the card's order of writes */
}

/*
 * Between memory and a write-combining register, both ways: the doorbell record is in memory
 * before the register is written, and what is in the write-combining buffer leaves it now.
 */
static inline void mlx5_register_fence(void)
{
	__builtin_ia32_sfence();
}

/* A block to a register that is mapped write-combining. */
static inline void mlx5_register_copy(volatile uint64_t *reg, const uint8_t *block)
{
	typedef long long unit __attribute__((vector_size(16), may_alias));
	volatile unit *to = (volatile unit *)reg;
	const unit *from = (const unit *)(const void *)block;

	to[0] = from[0];
	to[1] = from[1];
	to[2] = from[2];
	to[3] = from[3];
}

/* ---- receive queue ------------------------------------------------------------------------ */

struct mlx5_rq {
	struct mlx5_wqe_data_seg *wqe; /* n of one segment each */
	volatile __be32 *record;       /* of the doorbell: posted, modulo 65536 */
	uint32_t n;		       /* a power of two */
	uint32_t head, tail;	       /* posted, completed */
};

/* All parts of a request but the address, which stay as they are. */
static inline void mlx5_rq_prepare(struct mlx5_rq *rq, uint32_t room, uint32_t lkey)
{
	for (uint32_t i = 0; i < rq->n; i++)
		rq->wqe[i] = (struct mlx5_wqe_data_seg){.byte_count = htobe32(room),
							.lkey = htobe32(lkey)};
}

/* Adds a buffer; the card knows of it after mlx5_rq_publish(). */
static inline void mlx5_rq_put(struct mlx5_rq *rq, const void *buffer)
{
	rq->wqe[rq->head++ & (rq->n - 1)].addr = htobe64((uintptr_t)buffer);
}

static inline void mlx5_rq_publish(struct mlx5_rq *rq)
{
	/* Else the card could take a request that has an old address. */
	mlx5_before_card_reads();
	*rq->record = htobe32(rq->head & 0xffff);
}

/* ---- send queue --------------------------------------------------------------------------- */

struct mlx5_sq {
	uint8_t *buf; /* n blocks */
	uint32_t n;   /* a power of two */
	uint32_t qpn;
	uint32_t head, tail; /* blocks: built, completed */
	uint32_t rung;	     /* head, as the card knows it */
	uint32_t last;	     /* first block of the last request */
	uint64_t ctrl, key;  /* as in every request: mlx5_sq_prepare() */
	volatile __be32 *record;
	uint8_t *reg; /* doorbell register, two halves of bf_size bytes that are written in turn */
	uint32_t bf_size; /* bytes that a half takes; 0: only the first eight */
	uint32_t bf_at;	  /* the half's offset */
	bool blue_flame;  /* short requests are written to the register whole */
};

static inline uint32_t mlx5_sq_room(const struct mlx5_sq *sq)
{
	return sq->n - (sq->head - sq->tail);
}

static inline uint8_t *mlx5_sq_at(const struct mlx5_sq *sq, uint32_t block)
{
	return sq->buf + (size_t)(block & (sq->n - 1)) * MLX5_BLOCK;
}

/* What all requests of a queue have in common, once. */
static inline void mlx5_sq_prepare(struct mlx5_sq *sq, uint32_t lkey)
{
	sq->ctrl = (uint64_t)htobe32(sq->qpn << 8) << 32 | htobe32(MLX5_OPCODE_SEND);
	sq->key = (uint64_t)htobe32(lkey) << 32;
}

static inline void mlx5_store(uint8_t *to, uint64_t word)
{
	memcpy(to, &word, sizeof(word));
}

/*
 * Control and Ethernet segments, and the first bytes of the frame: MLX5_HEAD bytes, for the
 * request at this block.  In words of eight bytes, because this is done for every frame.  The
 * request does not complete, and has no checksum flags: frames are complete.
 */
static inline void mlx5_wqe_begin(uint64_t ctrl, uint8_t *wqe, uint32_t block, const uint8_t *frame,
				  uint32_t ds)
{
	uint16_t first;

	_Static_assert(sizeof(struct mlx5_wqe_ctrl_seg) == 16 &&
			       offsetof(struct mlx5_wqe_eth_seg, inline_hdr_sz) == 8 + 4 &&
			       offsetof(struct mlx5_wqe_eth_seg, inline_hdr_start) == 8 + 6,
		       "the words below");
	memcpy(&first, frame, sizeof(first));
	mlx5_store(wqe, ctrl | (uint64_t)ds << 56 | (uint32_t)htobe16((uint16_t)block) << 8);
	mlx5_store(wqe + 8, 0);
	mlx5_store(wqe + 16, 0);
	mlx5_store(wqe + 24, (uint64_t)first << 48 | (uint64_t)htobe16(MLX5_HEADERS) << 32);
	memcpy(wqe + 32, frame + sizeof(first), MLX5_HEADERS - sizeof(first));
}

/* A request of one block; the card fetches the rest of the frame.  len: above MLX5_HEADERS. */
static inline void mlx5_sq_put(struct mlx5_sq *sq, const uint8_t *frame, uint32_t len)
{
	uint32_t head = sq->head;
	uint8_t *wqe = mlx5_sq_at(sq, head);
	uint64_t ctrl = sq->ctrl, key = sq->key;

	_Static_assert(sizeof(struct mlx5_wqe_data_seg) == 16 &&
			       offsetof(struct mlx5_wqe_data_seg, lkey) == 4 &&
			       offsetof(struct mlx5_wqe_data_seg, addr) == 8,
		       "the words below");
	sq->last = head;
	sq->head = head + 1;
	mlx5_wqe_begin(ctrl, wqe, head, frame, MLX5_BLOCK / MLX5_DS);
	mlx5_store(wqe + MLX5_HEAD, key | htobe32(len - MLX5_HEADERS));
	mlx5_store(wqe + MLX5_HEAD + 8, htobe64((uintptr_t)frame + MLX5_HEADERS));
}

/* Blocks of a request that has the whole frame in it. */
static inline uint32_t mlx5_inline_blocks(uint32_t len)
{
	return (MLX5_HEAD + 4 + len - MLX5_HEADERS + MLX5_BLOCK - 1) / MLX5_BLOCK;
}

/* By units of 16 bytes: reads and writes up to 15 bytes more. */
static inline void mlx5_copy_units(uint8_t *to, const uint8_t *from, uint32_t len)
{
	const uint8_t *end = from + len;

	do {
		memcpy(to, from, MLX5_DS);
		to += MLX5_DS;
		from += MLX5_DS;
	} while (from < end);
}

/* Writes it, and up to 15 bytes more. */
static inline void mlx5_wqe_inline(uint64_t ctrl, uint8_t *wqe, uint32_t block,
				   const uint8_t *frame, uint32_t len)
{
	uint32_t rest = len - MLX5_HEADERS;
	__be32 count = htobe32(rest | MLX5_INLINE_SEG);

	mlx5_wqe_begin(ctrl, wqe, block, frame, (MLX5_HEAD + 4 + rest + MLX5_DS - 1) / MLX5_DS);
	memcpy(wqe + MLX5_HEAD, &count, sizeof(count));
	mlx5_copy_units(wqe + MLX5_HEAD + sizeof(count), frame + MLX5_HEADERS, rest);
}

/* Does not fit before the end of the queue: built aside, and stored in two parts. */
static __attribute__((noinline, unused)) void
mlx5_wqe_inline_aside(const struct mlx5_sq *sq, uint32_t block, const uint8_t *frame, uint32_t len)
{
	uint8_t aside[(MLX5_DS_MAX + 2) * MLX5_DS] = {0};
	uint32_t total = mlx5_inline_blocks(len) * MLX5_BLOCK;
	uint32_t first = (sq->n - (block & (sq->n - 1))) * MLX5_BLOCK;

	mlx5_wqe_inline(sq->ctrl, aside, block, frame, len);
	memcpy(mlx5_sq_at(sq, block), aside, first);
	memcpy(sq->buf, aside + first, total - first);
}

/*
 * len: above MLX5_HEADERS, MLX5_INLINE_MAX at most.  The block after the request is free, and the
 * frame's memory has 15 bytes more.
 */
static inline void mlx5_sq_put_inline(struct mlx5_sq *sq, const uint8_t *frame, uint32_t len)
{
	uint32_t blocks = mlx5_inline_blocks(len), head = sq->head;
	uint32_t to_end = sq->n - (head & (sq->n - 1));
	uint8_t *wqe = mlx5_sq_at(sq, head);

	sq->last = head;
	sq->head = head + blocks;
	if (__builtin_expect(blocks < to_end, 1))
		mlx5_wqe_inline(sq->ctrl, wqe, head, frame, len);
	else
		mlx5_wqe_inline_aside(sq, head, frame, len);
}

/* Units of a large request before its data: control, and a segment with all headers. */
static inline uint32_t mlx5_large_head(uint32_t headers)
{
	return 1 +
	       ((uint32_t)offsetof(struct mlx5_wqe_eth_seg, inline_hdr_start) + headers + MLX5_DS -
		1) / MLX5_DS;
}

/*
 * The head of a request whose frame the card cuts into segments of mss bytes, each with these
 * headers, which it completes: lengths, sequence numbers, flags, checksums.
 */
static inline void mlx5_wqe_large(uint8_t *wqe, const uint8_t *headers, uint32_t len, uint32_t mss)
{
	struct mlx5_wqe_eth_seg *eth = (void *)(wqe + MLX5_DS);

	memset(wqe, 0, mlx5_large_head(len) * MLX5_DS);
	eth->cs_flags = MLX5_ETH_WQE_L3_CSUM | MLX5_ETH_WQE_L4_CSUM;
	eth->mss = htobe16((uint16_t)mss);
	eth->inline_hdr_sz = htobe16((uint16_t)len);
	memcpy(wqe + MLX5_DS + offsetof(struct mlx5_wqe_eth_seg, inline_hdr_start), headers, len);
}

/* Its n-th unit: more data. */
static inline void mlx5_wqe_data(const struct mlx5_sq *sq, uint8_t *wqe, uint32_t n,
				 const uint8_t *data, uint32_t len)
{
	mlx5_store(wqe + n * MLX5_DS, sq->key | htobe32(len));
	mlx5_store(wqe + n * MLX5_DS + 8, htobe64((uintptr_t)data));
}

/* Adds a large request of ds units, built elsewhere. */
static inline void mlx5_sq_put_large(struct mlx5_sq *sq, uint8_t *wqe, uint32_t ds)
{
	uint32_t head = sq->head, total = (ds * MLX5_DS + MLX5_BLOCK - 1) / MLX5_BLOCK * MLX5_BLOCK;
	uint32_t to_end = (sq->n - (head & (sq->n - 1))) * MLX5_BLOCK;
	uint32_t first = total < to_end ? total : to_end;
	struct mlx5_wqe_ctrl_seg ctrl = {.opmod_idx_opcode =
						 htobe32((head & 0xffff) << 8 | MLX5_OPCODE_TSO),
					 .qpn_ds = htobe32(sq->qpn << 8 | ds)};

	memcpy(wqe, &ctrl, sizeof(ctrl));
	sq->last = head;
	sq->head = head + total / MLX5_BLOCK;
	memcpy(mlx5_sq_at(sq, head), wqe, first);
	memcpy(sq->buf, wqe + first, total - first);
}

/* A request that sends nothing. */
static inline void mlx5_sq_put_nop(struct mlx5_sq *sq)
{
	struct mlx5_wqe_ctrl_seg *ctrl = (void *)mlx5_sq_at(sq, sq->head);

	memset(ctrl, 0, MLX5_BLOCK);
	ctrl->opmod_idx_opcode = htobe32((sq->head & 0xffff) << 8 | MLX5_OPCODE_NOP);
	ctrl->qpn_ds = htobe32(sq->qpn << 8 | MLX5_BLOCK / MLX5_DS);
	sq->last = sq->head++;
}

/* The last request completes, and so do all before it. */
static inline void mlx5_sq_signal(struct mlx5_sq *sq)
{
	struct mlx5_wqe_ctrl_seg *ctrl = (void *)mlx5_sq_at(sq, sq->last);

	ctrl->fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE;
}

/* Tells the card of all requests so far. */
static inline void mlx5_sq_ring(struct mlx5_sq *sq)
{
	const uint8_t *wqe = mlx5_sq_at(sq, sq->last);
	uint32_t len = (sq->head - sq->last) * MLX5_BLOCK;
	volatile uint64_t *reg = (volatile void *)(sq->reg + sq->bf_at);
	uint64_t word;

	/* PRM 7.4: the requests are in memory before the record, */
	mlx5_before_card_reads();
	*sq->record = htobe32(sq->head & 0xffff);
	/* and the record before the register. */
	mlx5_register_fence();
	/* The whole request only if it is the only news, and does not wrap. */
	if (sq->blue_flame && sq->rung == sq->last && len <= sq->bf_size &&
	    wqe + len <= sq->buf + (size_t)sq->n * MLX5_BLOCK) {
		const uint8_t *end = wqe + len;

		do {
			mlx5_register_copy(reg, wqe);
			wqe += MLX5_BLOCK;
			reg += MLX5_BLOCK / sizeof(*reg);
		} while (wqe < end);
	} else {
		memcpy(&word, wqe, sizeof(word));
		*reg = word;
	}
	/* Else it stays in the processor's write-combining buffer for some time. */
	mlx5_register_fence();
	sq->bf_at ^= sq->bf_size;
	sq->rung = sq->head;
}

/* ---- completion queue --------------------------------------------------------------------- */

struct mlx5_cq {
	const struct mlx5_cqe64 *cqe; /* n */
	volatile __be32 *record;      /* consumer index; then what it was armed with */
	uint32_t n;		      /* a power of two */
	uint32_t at;		      /* entries consumed */
};

/* The next completion, or NULL; it stays until mlx5_cq_done(). */
static inline const struct mlx5_cqe64 *mlx5_cq_next(const struct mlx5_cq *cq)
{
	const struct mlx5_cqe64 *cqe = &cq->cqe[cq->at & (cq->n - 1)];
	uint8_t op_own = *(const volatile uint8_t *)&cqe->op_own;

	/* PRM 8.19: the owner bit changes each time the queue wraps around. */
	if ((op_own & MLX5_CQE_OWNER_MASK) != !!(cq->at & cq->n) || op_own >> 4 == MLX5_CQE_INVALID)
		return NULL;
	mlx5_after_card_wrote();
	return cqe;
}

/* The card may use all entries consumed so far again. */
static inline void mlx5_cq_publish(struct mlx5_cq *cq)
{
	*cq->record = htobe32(cq->at & 0xffffff);
}

static inline unsigned mlx5_cqe_opcode(const struct mlx5_cqe64 *cqe)
{
	return cqe->op_own >> 4;
}

/* Has the card found the checksums of IP and of UDP or TCP right? */
static inline bool mlx5_cqe_csum_ok(const struct mlx5_cqe64 *cqe)
{
	const uint8_t both = MLX5_CQE_L3_OK | MLX5_CQE_L4_OK;

	return (cqe->hds_ip_ext & both) == both;
}

/* The tag of the rule that the frame matched; 0: it has none. */
static inline uint32_t mlx5_cqe_tag(const struct mlx5_cqe64 *cqe)
{
	return be32toh(cqe->sop_drop_qpn) & 0xffffff;
}

/* The words of the doorbell that asks for an event; sn: events so far, PRM 8.20. */
static inline uint32_t mlx5_cq_arm_word(const struct mlx5_cq *cq, uint32_t sn)
{
	return (sn & 3) << 28 | (cq->at & 0xffffff);
}

#endif
