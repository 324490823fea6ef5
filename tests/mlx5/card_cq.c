/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/mlx5/card.h"

#define CONSUMER_MASK 0xffffff
/* The second word of the doorbell record: sequence number, command, consumer index. */
#define ARM_SOLICITED (1u << 24)

/* The last 12 bytes of both formats of an error; mlx5dv.h has the second one only in part. */
struct error_entry {
	uint8_t reserved0[32];
	__be32 srqn;
	uint8_t reserved1[18];
	uint8_t vendor_syndrome;
	uint8_t syndrome;
	__be32 opcode_qpn;
	__be16 wqe_counter;
	uint8_t signature;
	uint8_t op_own;
};

_Static_assert(sizeof(struct error_entry) == sizeof(struct mlx5_cqe64), "both are an entry");
_Static_assert(offsetof(struct error_entry, op_own) == offsetof(struct mlx5_cqe64, op_own),
	       "the owner bit has one place");

uint64_t card_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static uint8_t opcode_of(enum completion type)
{
	switch (type) {
	case COMPLETION_SENT:
		return MLX5_CQE_REQ;
	case COMPLETION_RECEIVED:
		return MLX5_CQE_RESP_SEND;
	case COMPLETION_SEND_ERROR:
		return MLX5_CQE_REQ_ERR;
	default:
		return MLX5_CQE_RESP_ERR;
	}
}

static void fill(struct mlx5_cqe64 *entry, const struct completion_info *info)
{
	struct error_entry *error = (struct error_entry *)(void *)entry;
	uint32_t number = info->type == COMPLETION_RECEIVED
				  ? info->tag
				  : (uint32_t)info->opcode << 24 | info->qp->number;

	memset(entry, 0, sizeof(*entry));
	entry->srqn_uidx = htobe32(info->qp->uidx);
	entry->wqe_counter = htobe16(info->wqe);
	if (info->syndrome) {
		error->syndrome = info->syndrome;
		error->opcode_qpn = htobe32((uint32_t)info->opcode << 24 | info->qp->number);
		return;
	}
	entry->sop_drop_qpn = htobe32(number);
	entry->byte_cnt = htobe32(info->bytes);
	entry->hds_ip_ext = info->checksum;
	entry->l4_hdr_type_etc = info->headers;
	entry->timestamp = htobe64(clock_khz() ? clock_ticks() : 0);
}

/* Entries that the program has not consumed; false: its memory has gone, as when it is killed. */
static bool count_used(const struct cq *cq, uint32_t *used)
{
	__be32 consumer;

	if (!memory_read(cq->object.context, cq->record, &consumer, sizeof(consumer)))
		return false;
	*used = (cq->produced - be32toh(consumer)) & CONSUMER_MASK;
	return true;
}

/*
 * The entry after the next one says nothing before its owner bit does: whoever reads it earlier
 * reads this.  The program cannot look for it yet.
 */
static void poison(const struct cq *cq)
{
	uint64_t at =
		cq->buf + (uint64_t)((cq->produced + 1) & (cq->n - 1)) * sizeof(struct mlx5_cqe64);
	uint8_t bytes[offsetof(struct mlx5_cqe64, op_own)];

	memset(bytes, 0xa5, sizeof(bytes));
	memory_write(cq->object.context, at, bytes, sizeof(bytes));
}

void cq_complete(struct cq *cq, const struct completion_info *info)
{
	struct context *context = cq->object.context;
	struct mlx5_cqe64 entry;
	uint64_t at = cq->buf + (uint64_t)(cq->produced & (cq->n - 1)) * sizeof(entry);
	uint8_t owner = cq->produced & cq->n ? MLX5_CQE_OWNER_MASK : 0;
	uint32_t used;

	if (cq->overrun || !count_used(cq, &used))
		return;
	if (used >= cq->n) {
		if (used > cq->n)
			violation("cq %#x: more entries are consumed than the card wrote",
				  cq->number);
		else
			violation("cq %#x: overrun: %u entries are not consumed", cq->number,
				  cq->n);
		cq->overrun = true;
		return;
	}
	if (used + 1 < cq->n)
		poison(cq);
	fill(&entry, info);
	/* The owner bit is written last: the program reads the rest after it has seen it. */
	if (!memory_write(context, at, &entry, offsetof(struct mlx5_cqe64, op_own)))
		return;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	entry.op_own = (uint8_t)(opcode_of(info->type) << 4 | owner);
	memory_write(context, at + offsetof(struct mlx5_cqe64, op_own), &entry.op_own, 1);
	cq->produced++;
}

/* The event is told once, until the program arms the queue again. */
static bool tell(struct cq *cq)
{
	struct ib_uverbs_comp_event_desc event = {.cq_handle = cq->user_handle};

	cq->is_armed = false;
	cq->since = 0;
	cq->events++;
	counters.events++;
	return write(cq->channel->fd, &event, sizeof(event)) == sizeof(event);
}

uint32_t cq_events_read(struct cq *cq)
{
	struct ib_uverbs_comp_event_desc kept[64], event;
	const struct channel *channel = cq->channel;
	unsigned n = 0;

	while (channel && n < 64 &&
	       recv(channel->peer, &event, sizeof(event), MSG_DONTWAIT) == sizeof(event)) {
		if (event.cq_handle == cq->user_handle)
			cq->events--;
		else
			kept[n++] = event;
	}
	for (unsigned i = 0; i < n; i++)
		if (write(channel->fd, &kept[i], sizeof(event)) < 0)
			break; /* the program has gone */
	return cq->events;
}

static struct cq *find_cq(const struct context *context, uint32_t number)
{
	list_for_each(link, &context->cqs) {
		struct cq *cq = container_of(link, struct cq, object.link);

		if (cq->number == number)
			return cq;
	}
	return NULL;
}

bool cqs_read_registers(struct context *context)
{
	bool any = false;

	for (unsigned page = 0; page < UAR_PAGES; page++) {
		uint64_t *reg = (void *)(context->uar + page * UAR_SIZE + MLX5_CQ_DOORBELL);
		__be32 bell[2];
		uint64_t value;
		struct cq *cq;

		if (!context->uar_used[page] || !__atomic_load_n(reg, __ATOMIC_RELAXED))
			continue;
		/* acquire: the record was written before the register */
		value = __atomic_exchange_n(reg, 0, __ATOMIC_ACQUIRE);
		memcpy(bell, &value, sizeof(bell));
		cq = find_cq(context, be32toh(bell[1]));
		if (!cq || !cq->channel) {
			violation("cq %#x: armed, but it has no channel", be32toh(bell[1]));
			continue;
		}
		cq->is_armed = true;
		strict_register(context);
		any = true;
	}
	return any;
}

/* So many entries are news. */
static bool is_due(struct cq *cq, uint32_t news)
{
	if (!cq->frames || !cq->usec || news >= cq->frames)
		return true;
	if (!cq->since)
		cq->since = card_clock();
	return !timeless && card_clock() - cq->since >= cq->usec * 1000u;
}

bool cqs_serve(struct context *context)
{
	bool told = false, rang = cqs_read_registers(context);

	list_for_each(link, &context->cqs) {
		struct cq *cq = container_of(link, struct cq, object.link);
		__be32 record[2];
		uint32_t arm, news;

		if (!cq->channel || !memory_read(context, cq->record, record, sizeof(record)))
			continue;
		arm = be32toh(record[1]);
		/* The register keeps the last of several writes: here the record tells of the others. */
		if (arm != cq->armed) {
			cq->is_armed = true;
			cq->since = 0;
			counters.arms++;
			/* The register was written before the record was written again. */
			if (cq->unrung && !rang)
				rang = cqs_read_registers(context);
			strict_armed(cq, rang);
		}
		cq->armed = arm;
		/* An entry beyond the consumer index that it was armed with is news. */
		news = (cq->produced - arm) & CONSUMER_MASK;
		if (cq->is_armed && !(arm & ARM_SOLICITED) && news && is_due(cq, news))
			told |= tell(cq);
	}
	return told;
}
