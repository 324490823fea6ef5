/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <string.h>

#include "tests/mlx5/card.h"

#define BLOCK 64 /* bytes: MLX5_SEND_WQE_BB */
#define WQE_MAX 1024
#define SEGMENT_MAX 65536 /* bytes that the card cuts into frames, without headers */
#define MSS_MAX 0x3fff	  /* 14 bits */
#define MIN_INLINE 18 /* bytes of headers that must lie in the work request, as eth_min_inline */
#define INVALID_KEY 0x100
#define DS_MASK 0x3f

/* ---- errors ------------------------------------------------------------------------------- */

static void flush_sends(struct qp *qp, uint16_t head)
{
	for (unsigned i = 0; qp->sq_taken != head && i < qp->sq_n; i++) {
		struct completion_info info = {.type = COMPLETION_SEND_ERROR,
					       .qp = qp,
					       .wqe = qp->sq_taken++,
					       .syndrome = MLX5_CQE_SYNDROME_WR_FLUSH_ERR};

		cq_complete(qp->send_cq, &info);
	}
}

static void flush_receives(struct qp *qp, uint16_t head)
{
	for (unsigned i = 0; qp->rq_taken != head && i < qp->rq_n; i++) {
		struct completion_info info = {.type = COMPLETION_RECV_ERROR,
					       .qp = qp,
					       .wqe = qp->rq_taken++,
					       .syndrome = MLX5_CQE_SYNDROME_WR_FLUSH_ERR};

		cq_complete(qp->recv_cq, &info);
	}
}

static bool read_records(const struct qp *qp, uint16_t *recv_head, uint16_t *send_head)
{
	__be32 record[2];

	if (!memory_read(qp->object.context, qp->record, record, sizeof(record)))
		return false;
	*recv_head = (uint16_t)be32toh(record[MLX5_RCV_DBR]);
	*send_head = (uint16_t)be32toh(record[MLX5_SND_DBR]);
	return true;
}

void queue_fail(struct qp *qp)
{
	uint16_t recv_head, send_head;

	qp->state = QP_ERROR;
	if (!read_records(qp, &recv_head, &send_head))
		return;
	flush_sends(qp, send_head);
	flush_receives(qp, recv_head);
}

static void refuse(struct qp *qp, uint8_t opcode, uint8_t syndrome)
{
	struct completion_info info = {.type = COMPLETION_SEND_ERROR,
				       .qp = qp,
				       .wqe = qp->sq_taken,
				       .opcode = opcode,
				       .syndrome = syndrome};

	qp->sq_taken++;
	cq_complete(qp->send_cq, &info);
	queue_fail(qp);
}

/* ---- sending ------------------------------------------------------------------------------ */

/* A work request, as it was read, and the frame that is made of it. */
struct work {
	uint8_t bytes[WQE_MAX];
	size_t len; /* of all its segments */
	unsigned blocks;
	uint8_t frame[SEGMENT_MAX + WQE_MAX];
	size_t frame_len, headers;
	uint8_t opcode, syndrome;
	bool signaled, l3, l4;
	bool by_address; /* some of the frame */
	unsigned mss;
};

/* Reads n blocks, which may wrap around the end of the queue. */
static bool read_blocks(const struct qp *qp, uint16_t from, unsigned n, uint8_t *to)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t at = qp->sq + (uint64_t)((from + i) & (qp->sq_n - 1)) * BLOCK;

		if (!memory_read(qp->object.context, at, to + (size_t)i * BLOCK, BLOCK))
			return false;
	}
	return true;
}

static uint8_t fetch(const struct qp *qp, uint16_t head, struct work *work)
{
	const struct mlx5_wqe_ctrl_seg *ctrl = (const void *)work->bytes;
	uint32_t opcode, number;

	work->blocks = 1;
	if (!read_blocks(qp, qp->sq_taken, 1, work->bytes))
		return MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
	opcode = be32toh(ctrl->opmod_idx_opcode);
	number = be32toh(ctrl->qpn_ds);
	work->opcode = (uint8_t)opcode;
	work->signaled = qp->signal_all || (ctrl->fm_ce_se & MLX5_WQE_CTRL_CQ_UPDATE);
	work->len = (number & DS_MASK) * 16;
	work->blocks = (unsigned)((work->len + BLOCK - 1) / BLOCK);
	if (number >> 8 != qp->number || (uint16_t)(opcode >> 8) != qp->sq_taken) {
		violation("qp %#x: the work request at %u says qp %#x and index %u", qp->number,
			  qp->sq_taken, number >> 8, opcode >> 8 & 0xffff);
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	}
	if (work->len < 32 || work->len > WQE_MAX ||
	    work->blocks > (uint16_t)(head - qp->sq_taken)) {
		violation("qp %#x: the work request at %u has %zu bytes, %u blocks were posted",
			  qp->number, qp->sq_taken, work->len, (uint16_t)(head - qp->sq_taken));
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	}
	return read_blocks(qp, qp->sq_taken, work->blocks, work->bytes)
		       ? 0
		       : MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
}

/* Appends what a segment of pointers or of data says; *at moves past it. */
static uint8_t gather(const struct qp *qp, struct work *work, size_t *at)
{
	struct mlx5_wqe_data_seg seg;
	uint32_t count;
	bool in_place;

	memcpy(&seg, work->bytes + *at, sizeof(seg));
	count = be32toh(seg.byte_count);
	in_place = count & MLX5_INLINE_SEG;
	count &= ~MLX5_INLINE_SEG;
	if (count > sizeof(work->frame) - work->frame_len ||
	    (in_place && count + 4 > work->len - *at)) {
		violation("qp %#x: a segment of %u bytes does not fit", qp->number, count);
		return MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR;
	}
	if (in_place) {
		memcpy(work->frame + work->frame_len, work->bytes + *at + 4, count);
		*at += (4 + count + 15) / 16 * 16;
	} else if (!region_of(qp->object.context, qp->pd, be32toh(seg.lkey), be64toh(seg.addr),
			      count) ||
		   (!memory_read(qp->object.context, be64toh(seg.addr),
				 work->frame + work->frame_len, count) &&
		    !memory_has_gone(qp->object.context))) {
		violation("qp %#x: key %#x does not cover %u bytes at %#llx", qp->number,
			  be32toh(seg.lkey), count, (unsigned long long)be64toh(seg.addr));
		return MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
	} else {
		strict_data(qp, be64toh(seg.addr));
		work->by_address = true;
		*at += sizeof(seg);
	}
	work->frame_len += count;
	return 0;
}

/*
 * PRM, large send offload: all headers lie in the work request and nothing else does, the card is
 * asked for both checksums, and the segments fit.
 */
static bool may_segment(const struct qp *qp, const struct work *work)
{
	size_t headers = packet_headers(work->frame, work->headers);

	if (headers && headers == work->headers && work->l3 && work->l4 && work->mss &&
	    work->mss <= MSS_MAX && headers + work->mss <= FRAME_MAX && work->frame_len > headers &&
	    work->frame_len - headers <= SEGMENT_MAX)
		return true;
	violation("qp %#x: segmentation of %zu bytes at %u, %zu of %zu bytes of headers%s",
		  qp->number, work->frame_len - work->headers, work->mss, work->headers, headers,
		  work->l3 && work->l4 ? "" : ", without checksums");
	return false;
}

static uint8_t build(const struct qp *qp, struct work *work)
{
	const struct mlx5_wqe_eth_seg *eth = (const void *)(work->bytes + 16);
	size_t in_place = be16toh(eth->inline_hdr_sz), at;
	uint8_t syndrome = 0;

	work->frame_len = 0;
	work->by_address = false;
	if (work->opcode == MLX5_OPCODE_NOP)
		return 0;
	if (work->opcode != MLX5_OPCODE_SEND && work->opcode != MLX5_OPCODE_TSO) {
		violation("qp %#x: opcode %#x", qp->number, work->opcode);
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	}
	at = 16 + (offsetof(struct mlx5_wqe_eth_seg, inline_hdr_start) +
		   (in_place > 2 ? in_place : 2) + 15) /
			  16 * 16;
	if (in_place < MIN_INLINE || at > work->len) {
		violation("qp %#x: %zu bytes of headers in the work request, %u are needed",
			  qp->number, in_place, MIN_INLINE);
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	}
	memcpy(work->frame, eth->inline_hdr_start, in_place);
	work->frame_len = work->headers = in_place;
	work->l3 = eth->cs_flags & MLX5_ETH_WQE_L3_CSUM;
	work->l4 = eth->cs_flags & MLX5_ETH_WQE_L4_CSUM;
	work->mss = be16toh(eth->mss);
	while (!syndrome && at < work->len)
		syndrome = gather(qp, work, &at);
	if (!syndrome && work->opcode == MLX5_OPCODE_TSO && !may_segment(qp, work))
		syndrome = MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	return syndrome;
}

static void transmit(const struct qp *qp, struct work *work)
{
	if (work->opcode == MLX5_OPCODE_TSO) {
		counters.segmented++;
		counters.parts += packet_segment(work->frame, work->frame_len, work->headers,
						 work->mss, wire_send);
		return;
	}
	packet_checksum(work->frame, work->frame_len, work->l3, work->l4);
	strict_sent(qp, work->frame, work->frame_len);
	wire_send(work->frame, work->frame_len);
}

/* One work request.  False: the queue failed. */
static bool send_one(struct qp *qp, uint16_t head)
{
	static struct work work;
	uint8_t syndrome = fetch(qp, head, &work);

	if (!syndrome)
		syndrome = build(qp, &work);
	if (!syndrome && work.opcode == MLX5_OPCODE_SEND && work.frame_len > FRAME_MAX) {
		violation("qp %#x: a frame of %zu bytes", qp->number, work.frame_len);
		syndrome = MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR;
	}
	if (syndrome) {
		refuse(qp, work.opcode, syndrome);
		return false;
	}
	if (work.frame_len) {
		transmit(qp, &work);
		counters.in_place += !work.by_address;
		counters.signals += work.signaled;
	}
	if (work.signaled)
		cq_complete(qp->send_cq, &(struct completion_info){.type = COMPLETION_SENT,
								   .qp = qp,
								   .wqe = qp->sq_taken,
								   .opcode = work.opcode});
	qp->sq_taken = (uint16_t)(qp->sq_taken + work.blocks);
	return true;
}

static struct qp *find_qp(const struct context *context, uint32_t number)
{
	list_for_each(link, &context->qps) {
		struct qp *qp = container_of(link, struct qp, object.link);

		if (qp->number == number)
			return qp;
	}
	return NULL;
}

/* A doorbell: the first eight bytes of the work request that was posted last. */
static void ring_bell(struct context *context, unsigned bfreg, uint64_t bell, unsigned half,
		      bool alone)
{
	struct mlx5_wqe_ctrl_seg ctrl;
	uint16_t recv_head, send_head, index;
	struct qp *qp;

	memcpy(&ctrl, &bell, sizeof(bell));
	index = (uint16_t)(be32toh(ctrl.opmod_idx_opcode) >> 8);
	qp = find_qp(context, be32toh(ctrl.qpn_ds) >> 8);
	if (!qp || qp->bfreg != bfreg) {
		violation("doorbell register %u rang for qp %#x", bfreg, be32toh(ctrl.qpn_ds) >> 8);
		return;
	}
	strict_half(qp, half, alone);
	counters.bells++;
	if (!read_records(qp, &recv_head, &send_head) || qp->state == QP_ERROR)
		return;
	if (qp->state != QP_RTS) {
		violation("qp %#x: a work request before the state RTS", qp->number);
		return;
	}
	/* The record must be written before the register: else the card works on old news. */
	if ((int16_t)(uint16_t)(send_head - index) <= 0) {
		violation("qp %#x: the doorbell rang for %u before its record (%u)", qp->number,
			  index, send_head);
		return;
	}
	if ((uint16_t)(send_head - qp->sq_taken) > qp->sq_n) {
		violation("qp %#x: %u blocks are posted, there is room for %u", qp->number,
			  (uint16_t)(send_head - qp->sq_taken), qp->sq_n);
		queue_fail(qp);
		return;
	}
	qp->notes->sources = 0;
	while (qp->sq_taken != send_head && send_one(qp, send_head))
		;
}

/* acquire: what the program wrote before its doorbell is read after it. */
static uint64_t take_bell(uint64_t *reg)
{
	return __atomic_load_n(reg, __ATOMIC_RELAXED)
		       ? __atomic_exchange_n(reg, 0, __ATOMIC_ACQUIRE)
		       : 0;
}

/*
 * Was more than the bell written?  The word that is looked at is not zero in a request that sends.
 * It is written after the bell, so it may be found when the bell was taken before.
 */
static bool take_blue_flame(uint64_t *half)
{
	const size_t word = (16 + offsetof(struct mlx5_wqe_eth_seg, inline_hdr_sz)) / sizeof(*half);

	return __atomic_load_n(&half[word], __ATOMIC_RELAXED) &&
	       __atomic_exchange_n(&half[word], 0, __ATOMIC_RELAXED);
}

static uint8_t *register_at(const struct context *context, unsigned bfreg)
{
	return context->uar + (size_t)(bfreg / BFREGS_PER_UAR) * UAR_SIZE + BFREG_OFFSET +
	       (size_t)(bfreg % BFREGS_PER_UAR) * BFREG_SIZE;
}

void queue_drop_bells(const struct qp *qp)
{
	uint8_t *at = register_at(qp->object.context, qp->bfreg);

	take_bell((void *)at);
	take_bell((void *)(at + BFREG_SIZE / 2));
}

uint64_t queues_waiting(void)
{
	uint16_t recv_head, send_head, waiting, most = 0;

	list_for_each(c, &contexts) {
		list_for_each(link, &container_of(c, struct context, link)->qps) {
			const struct qp *qp = container_of(link, struct qp, object.link);

			if (qp->state != QP_RTS || !read_records(qp, &recv_head, &send_head))
				continue;
			waiting = (uint16_t)(send_head - qp->sq_taken);
			most = waiting > most ? waiting : most;
		}
	}
	return most;
}

/* One register: its halves ring in turn. */
static bool serve_register(struct context *context, unsigned bfreg)
{
	uint8_t *at = register_at(context, bfreg);
	uint64_t *halves[2] = {(void *)at, (void *)(at + BFREG_SIZE / 2)};
	uint64_t bells[2] = {take_bell(halves[0]), take_bell(halves[1])};

	counters.blue_flames += take_blue_flame(halves[0]);
	counters.blue_flames += take_blue_flame(halves[1]);
	if (!bells[0] && !bells[1])
		return false;
	for (unsigned half = 0; half < 2; half++) {
		bool alone = !bells[!half] && !__atomic_load_n(halves[!half], __ATOMIC_RELAXED);

		if (bells[half])
			ring_bell(context, bfreg, bells[half], half, alone);
	}
	return true;
}

bool queues_serve(struct context *context)
{
	bool rang = false;

	for (unsigned page = 0; page < UAR_PAGES; page++)
		for (unsigned i = 0; context->uar_used[page] && i < BFREGS_PER_UAR; i++)
			rang |= serve_register(context, page * BFREGS_PER_UAR + i);
	return rang;
}

/* ---- receiving ---------------------------------------------------------------------------- */

/* Puts the frame into the buffers of one work request.  0 or a syndrome. */
static uint8_t scatter(const struct qp *qp, const uint8_t *frame, size_t len)
{
	struct mlx5_wqe_data_seg segs[BLOCK * 16 / sizeof(struct mlx5_wqe_data_seg)];
	uint64_t at = qp->rq + (uint64_t)(qp->rq_taken & (qp->rq_n - 1)) * qp->rq_stride;
	size_t n = qp->rq_stride / sizeof(*segs);

	if (qp->rq_stride > sizeof(segs) ||
	    !memory_read(qp->object.context, at, segs, qp->rq_stride))
		return MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
	for (size_t i = 0; i < n && len && be32toh(segs[i].lkey) != INVALID_KEY; i++) {
		size_t part = be32toh(segs[i].byte_count);
		const struct region *region = region_of(qp->object.context, qp->pd,
							be32toh(segs[i].lkey),
							be64toh(segs[i].addr), part);

		if (!region || !region->local_write) {
			violation("qp %#x: the buffer of work request %u is in no region that may "
				  "be written",
				  qp->number, qp->rq_taken);
			return MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
		}
		if (!i)
			strict_taken(qp, be64toh(segs[i].addr));
		part = part < len ? part : len;
		if (!memory_write(qp->object.context, be64toh(segs[i].addr), frame, part))
			return MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
		frame += part;
		len -= part;
	}
	return len ? MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR : 0;
}

void queue_receive(struct qp *qp, const void *frame, size_t len, uint32_t tag)
{
	struct completion_info info = {
		.type = COMPLETION_RECEIVED, .qp = qp, .bytes = (uint32_t)len, .tag = tag};
	uint16_t recv_head, send_head;

	if (qp->state != QP_RTR && qp->state != QP_RTS)
		return;
	if (!read_records(qp, &recv_head, &send_head))
		return;
	if ((uint16_t)(recv_head - qp->rq_taken) > qp->rq_n) {
		violation("qp %#x: %u receives are posted, there is room for %u", qp->number,
			  (uint16_t)(recv_head - qp->rq_taken), qp->rq_n);
		queue_fail(qp);
		return;
	}
	if (recv_head == qp->rq_taken) {
		counters.no_buffer++;
		return;
	}
	counters.posts += recv_head != qp->rq_head;
	qp->rq_head = recv_head;
	strict_posted(qp, recv_head);
	info.wqe = qp->rq_taken;
	info.syndrome = scatter(qp, frame, len);
	qp->rq_taken++;
	if (info.syndrome)
		info.type = COMPLETION_RECV_ERROR;
	else
		packet_judge(frame, len, &info.checksum, &info.headers);
	cq_complete(qp->recv_cq, &info);
	if (info.syndrome)
		queue_fail(qp);
}
