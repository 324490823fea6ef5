/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What hardware would not notice, or would answer by chance: the port must not rely on either.
 *
 * Role		looks at what the program does; changes nothing but its own notes.
 */
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <string.h>

#include "tests/mlx5/card.h"

#define FRAME_MIN 60u /* bytes of a padded frame */

/* ---- receive requests --------------------------------------------------------------------- */

static unsigned slot_of(uint64_t addr)
{
	return (unsigned)((addr * 0x9e3779b97f4a7c15u) >> 48) % POSTED_SLOTS;
}

static bool is_posted(const struct qp *qp, uint16_t end, uint64_t addr)
{
	for (uint16_t i = qp->rq_taken; i != end; i++)
		if (qp->notes->posted[i & (qp->rq_n - 1)] == addr)
			return true;
	return false;
}

void strict_posted(const struct qp *qp, uint16_t head)
{
	while (qp->notes->seen != head) {
		unsigned at = qp->notes->seen & (qp->rq_n - 1);
		struct mlx5_wqe_data_seg seg;
		uint64_t addr;

		if (!memory_read(qp->object.context, qp->rq + (uint64_t)at * qp->rq_stride, &seg,
				 sizeof(seg)))
			return;
		addr = be64toh(seg.addr);
		if (qp->notes->slots[slot_of(addr)]++ && is_posted(qp, qp->notes->seen, addr))
			violation("qp %#x: the buffer of work request %u is posted twice",
				  qp->number, qp->notes->seen);
		qp->notes->posted[at] = addr;
		qp->notes->seen++;
	}
}

void strict_taken(const struct qp *qp, uint64_t addr)
{
	uint64_t posted = qp->notes->posted[qp->rq_taken & (qp->rq_n - 1)];

	qp->notes->slots[slot_of(posted)]--;
	if (posted != addr)
		violation("qp %#x: work request %u has changed after it was posted", qp->number,
			  qp->rq_taken);
}

/* ---- frames that are sent ----------------------------------------------------------------- */

void strict_sent(const struct qp *qp, const uint8_t *frame, size_t len)
{
	size_t end = packet_end(frame, len);
	uint8_t checksum, headers;

	packet_judge(frame, len, &checksum, &headers);
	if (headers && !(checksum & MLX5_CQE_L3_OK))
		violation("qp %#x: a frame with a wrong IP checksum", qp->number);
	else if (headers >> 4 && !(checksum & MLX5_CQE_L4_OK))
		violation("qp %#x: a frame with a wrong checksum", qp->number);
	if (end && len > end && len > FRAME_MIN)
		violation("qp %#x: a frame of %zu bytes, and a packet that ends at %zu", qp->number,
			  len, end);
	if (len < FRAME_MIN / 2)
		violation("qp %#x: a frame of %zu bytes", qp->number, len);
}

void strict_data(const struct qp *qp, uint64_t addr)
{
	for (unsigned i = 0; i < qp->notes->sources; i++)
		if (qp->notes->source[i] == addr)
			violation("qp %#x: two work requests send the bytes at %#llx", qp->number,
				  (unsigned long long)addr);
	if (qp->notes->sources < SOURCES)
		qp->notes->source[qp->notes->sources++] = addr;
}

/* ---- doorbells ---------------------------------------------------------------------------- */

void strict_half(const struct qp *qp, unsigned half, bool alone)
{
	struct notes *notes = qp->notes;

	if (!alone) {
		notes->doubts = 2;
	} else if (notes->doubts) {
		notes->doubts--;
	} else {
		if (notes->rang && notes->half == half)
			violation("qp %#x: the same half of its register rang twice", qp->number);
		notes->rang = true;
		notes->half = half;
		return;
	}
	notes->rang = false;
}

void strict_armed(struct cq *cq, bool rang)
{
	if (cq->unrung && !rang)
		violation("cq %#x: armed in its record, and not in the register", cq->number);
	cq->unrung = !rang;
}

void strict_register(struct context *context)
{
	list_for_each(link, &context->cqs)
		container_of(link, struct cq, object.link)->unrung = false;
}
