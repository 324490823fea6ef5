/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A datagram echo on a raw queue pair of mlx5_0, by the stock libibverbs and libmlx5:
 *
 *	verbs echo ADDRESS PORT COUNT	answers COUNT datagrams, and sleeps between them
 *	verbs segment ADDRESS PORT COUNT	answers the first one with a TCP segment of 4,000
 *					bytes that the card cuts at 1,000
 *	verbs KIND ADDRESS PORT COUNT	the same, but its second answer breaks a rule of the
 *					manual; it ends well if the card reports it as it should
 *
 * Prints "ready" when the card gives it the frames for PORT.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/mlx5/stock.h"

#define DEPTH 64
#define SLOT 2048
#define WAIT_MSEC 30000
#define LONG 4000
#define PART 1000

struct headers {
	struct ether_header eth;
	struct iphdr ip;
	struct udphdr udp;
} __attribute__((packed));

static struct stock stock;
/* The second half is for what is longer than a slot. */
static uint8_t memory[2 * DEPTH * SLOT] __attribute__((aligned(4096)));

static uint8_t *slot_at(size_t slot)
{
	return memory + slot * SLOT;
}

static void post_receive(unsigned slot)
{
	struct ibv_sge sge = {(uintptr_t)slot_at(slot), SLOT, stock.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	stock_check(!ibv_post_recv(stock.qp, &wr, &bad), "post_recv");
}

/* ---- one datagram ------------------------------------------------------------------------- */

/* Turns the frame around; the checksums are the card's to compute. */
static void turn(struct headers *h)
{
	uint8_t mac[6];
	uint32_t address = h->ip.saddr;
	uint16_t port = h->udp.source;

	memcpy(mac, h->eth.ether_shost, 6);
	memcpy(h->eth.ether_shost, h->eth.ether_dhost, 6);
	memcpy(h->eth.ether_dhost, mac, 6);
	h->ip.saddr = h->ip.daddr;
	h->ip.daddr = address;
	h->udp.source = h->udp.dest;
	h->udp.dest = port;
	h->ip.check = 0xdead;
	h->udp.check = 0;
}

/* Arms the queue that has a stock.channel, and sleeps unless something came meanwhile. */
static int sleep_for(struct ibv_wc *wc)
{
	struct pollfd pfd = {.fd = stock.channel->fd, .events = POLLIN};
	struct ibv_cq *of;
	void *context;
	int n;

	stock_check(!ibv_req_notify_cq(stock.recv_cq, 0), "req_notify_cq");
	n = ibv_poll_cq(stock.recv_cq, 1, wc);
	if (n)
		return n;
	stock_check(poll(&pfd, 1, WAIT_MSEC) == 1, "no event came");
	stock_check(!ibv_get_cq_event(stock.channel, &of, &context) && of == stock.recv_cq,
		    "get_cq_event");
	ibv_ack_cq_events(stock.recv_cq, 1);
	return 0;
}

/* The next completion. */
static struct ibv_wc complete(struct ibv_cq *cq)
{
	time_t until = time(NULL) + WAIT_MSEC / 1000;
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0) {
		stock_check(time(NULL) <= until, "no completion came");
		if (cq == stock.recv_cq && (n = sleep_for(&wc)))
			break;
	}
	stock_check(n == 1, "poll_cq");
	return wc;
}

static void send_slot(unsigned slot, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)slot_at(slot), len, stock.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = slot,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM},
			   *bad;
	struct ibv_wc wc;

	stock_check(!ibv_post_send(stock.qp, &wr, &bad), "post_send");
	wc = complete(stock.send_cq);
	stock_check(wc.status == IBV_WC_SUCCESS && wc.wr_id == slot, "the answer was not sent");
}

/* ---- work requests by hand ------------------------------------------------------------------ */

struct wqe {
	struct mlx5_wqe_ctrl_seg ctrl;
	struct mlx5_wqe_eth_seg eth;
	struct mlx5_wqe_data_seg data;
} __attribute__((packed, aligned(64)));

static struct mlx5dv_qp queue;

static void look_at_queue(void)
{
	struct mlx5dv_obj obj = {.qp = {.in = stock.qp, .out = &queue}};

	stock_check(!mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), "init_obj");
}

/* Tells the card of a work request, which begins with ctrl; 0 posted: does not write the record. */
static void ring_bell(const struct mlx5_wqe_ctrl_seg *ctrl, unsigned index, unsigned posted)
{
	volatile uint64_t *reg = queue.bf.reg;
	uint64_t bell;

	memcpy(&bell, ctrl, sizeof(bell));
	/* release: the card sees the work request before the record, and that before the bell */
	if (posted)
		__atomic_store_n(&queue.dbrec[MLX5_SND_DBR], htobe32(posted), __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	reg[index ? queue.bf.size / 8 : 0] = bell;
}

/* Makes a right work request wrong. */
static void spoil(struct wqe *wqe, const char *kind)
{
	if (!strcmp(kind, "wrong-index"))
		wqe->ctrl.opmod_idx_opcode = htobe32(7 << 8 | MLX5_OPCODE_SEND);
	else if (!strcmp(kind, "wrong-qp"))
		wqe->ctrl.qpn_ds = htobe32((stock.qp->qp_num + 1) << 8 | 4);
	else if (!strcmp(kind, "wrong-opcode"))
		wqe->ctrl.opmod_idx_opcode = htobe32(1 << 8 | MLX5_OPCODE_RDMA_WRITE);
	else if (!strcmp(kind, "wrong-key"))
		wqe->data.lkey = htobe32(stock.mr->lkey + 0x100);
	else if (!strcmp(kind, "out-of-bounds"))
		wqe->data.addr = htobe64((uintptr_t)memory + sizeof(memory) - 10);
	else if (!strcmp(kind, "no-headers"))
		wqe->eth.inline_hdr_sz = htobe16(2);
	else if (!strcmp(kind, "too-long"))
		wqe->ctrl.qpn_ds = htobe32(stock.qp->qp_num << 8 | 9);
}

/* Posts the second work request: the first one is libmlx5's. */
static void post_by_hand(const char *kind, unsigned slot, uint32_t len)
{
	unsigned posted = 2, inline_len = sizeof(struct ether_header) + 4;
	struct wqe wqe = {.ctrl.fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE};
	struct mlx5_wqe_ctrl_seg right;

	look_at_queue();
	wqe.ctrl.opmod_idx_opcode = htobe32(1 << 8 | MLX5_OPCODE_SEND);
	wqe.ctrl.qpn_ds = htobe32(stock.qp->qp_num << 8 | 4);
	wqe.eth.cs_flags = MLX5_ETH_WQE_L3_CSUM | MLX5_ETH_WQE_L4_CSUM;
	wqe.eth.inline_hdr_sz = htobe16((uint16_t)inline_len);
	memcpy(wqe.eth.inline_hdr_start, slot_at(slot), inline_len);
	mlx5dv_set_data_seg(&wqe.data, len - inline_len, stock.mr->lkey,
			    (uintptr_t)slot_at(slot) + inline_len);
	right = wqe.ctrl; /* the doorbell is right, whatever is wrong with the work request */
	spoil(&wqe, kind);
	memcpy((char *)queue.sq.buf + queue.sq.stride, &wqe, sizeof(wqe));
	if (!strcmp(kind, "too-many"))
		posted = queue.sq.wqe_cnt + 2;
	ring_bell(&right, 1, strcmp(kind, "bell-first") ? posted : 0);
}

/* The status with which the card completes it. */
static enum ibv_wc_status expected(const char *kind)
{
	if (!strcmp(kind, "none"))
		return IBV_WC_SUCCESS;
	if (!strcmp(kind, "wrong-key") || !strcmp(kind, "out-of-bounds"))
		return IBV_WC_LOC_PROT_ERR;
	if (!strcmp(kind, "too-many"))
		return IBV_WC_WR_FLUSH_ERR;
	return IBV_WC_LOC_QP_OP_ERR;
}

/* Makes a TCP segment of what lies in the slot, longer than a frame. */
static uint32_t lengthen(unsigned slot)
{
	struct headers *h = (void *)slot_at(slot);
	struct tcphdr tcp = {.source = h->udp.source,
			     .dest = h->udp.dest,
			     .doff = 5,
			     .ack = 1,
			     .psh = 1,
			     .seq = htonl(5000),
			     .window = htons(1000)};

	h->ip.protocol = IPPROTO_TCP;
	memcpy((uint8_t *)h + sizeof(h->eth) + sizeof(h->ip), &tcp, sizeof(tcp));
	return (uint32_t)(sizeof(h->eth) + sizeof(h->ip) + sizeof(tcp));
}

/*
 * The work request of this index, of two blocks: all headers in place, then 4,000 bytes from the
 * region.  The kind says what is wrong.  Returns how it completes.
 */
static enum ibv_wc_status send_segmented(const char *kind, unsigned index, unsigned slot)
{
	uint32_t headers = lengthen(slot);
	uint8_t wqe[128] __attribute__((aligned(64))) = {0};
	struct mlx5_wqe_ctrl_seg ctrl = {.opmod_idx_opcode = htobe32(index << 8 | MLX5_OPCODE_TSO),
					 .fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE};
	struct mlx5_wqe_eth_seg eth = {.cs_flags = MLX5_ETH_WQE_L3_CSUM | MLX5_ETH_WQE_L4_CSUM,
				       .mss = htobe16(PART),
				       .inline_hdr_sz = htobe16((uint16_t)headers)};
	struct mlx5_wqe_data_seg data;
	bool short_headers = !strcmp(kind, "segment-headers");
	/* 16 bytes of control, 14 of eth up to the headers, in units of 16 */
	size_t at = 16 + (14 + headers + 15) / 16 * 16;

	look_at_queue();
	for (unsigned i = 0; i < LONG; i++)
		slot_at(DEPTH)[i] = (uint8_t)(i / PART + 'a');
	ctrl.qpn_ds = htobe32(stock.qp->qp_num << 8 | (uint32_t)(at / 16 + 1));
	mlx5dv_set_data_seg(&data, LONG, stock.mr->lkey, (uintptr_t)slot_at(DEPTH));
	if (!strcmp(kind, "segment-checksums"))
		eth.cs_flags = MLX5_ETH_WQE_L3_CSUM;
	if (!strcmp(kind, "segment-mss"))
		eth.mss = 0;
	if (short_headers) /* as long a request, but the card takes the last ones for data */
		eth.inline_hdr_sz = htobe16((uint16_t)(headers - 2));
	memcpy(wqe, &ctrl, sizeof(ctrl));
	memcpy(wqe + 16, &eth, 14);
	memcpy(wqe + 30, slot_at(slot), headers);
	memcpy(wqe + at, &data, sizeof(data));
	memcpy((char *)queue.sq.buf + (size_t)index * queue.sq.stride, wqe, sizeof(wqe));
	ring_bell(&ctrl, index, index + 2);
	return complete(stock.send_cq).status;
}

static void break_rule(const char *kind, unsigned slot, uint32_t len)
{
	enum ibv_wc_status status;

	if (!strncmp(kind, "segment-", 8)) {
		status = send_segmented(kind, 1, slot);
		stock_check(status == expected(kind), ibv_wc_status_str(status));
		return;
	}
	post_by_hand(kind, slot, len);
	if (!strcmp(kind, "bell-first"))
		return; /* real hardware does anything; the card says that it saw it */
	status = complete(stock.send_cq).status;
	stock_check(status == expected(kind), ibv_wc_status_str(status));
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void answer(const char *kind, unsigned i)
{
	struct ibv_wc wc = complete(stock.recv_cq);
	struct headers *h = (void *)slot_at(wc.wr_id);

	stock_check(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
	stock_check(wc.wc_flags & IBV_WC_IP_CSUM_OK, "a checksum is wrong");
	stock_check(wc.byte_len >= sizeof(*h), "the frame is too short");
	turn(h);
	if (!strcmp(kind, "segment"))
		stock_check(send_segmented(kind, 0, (unsigned)wc.wr_id) == IBV_WC_SUCCESS,
			    "the segment was not sent");
	else if (i == 1 && strcmp(kind, "echo") != 0)
		break_rule(kind, (unsigned)wc.wr_id, wc.byte_len);
	else
		send_slot((unsigned)wc.wr_id, wc.byte_len);
	if (!strcmp(kind, "echo"))
		post_receive((unsigned)wc.wr_id);
}

int main(int argc, char **argv)
{
	unsigned count;

	if (argc != 5) {
		fprintf(stderr, "usage: verbs KIND ADDRESS PORT COUNT\n");
		return 2;
	}
	count = (unsigned)atoi(argv[4]);
	stock_open(&stock, "mlx5_0", memory, sizeof(memory), DEPTH, 0);
	for (unsigned i = 0; i < DEPTH; i++)
		post_receive(i);
	stock_add_rule(&stock, argv[2], (unsigned)atoi(argv[3]));
	printf("ready\n");
	fflush(stdout);
	for (unsigned i = 0; i < count; i++)
		answer(argv[1], i);
	stock_close(&stock);
	return 0;
}
