/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sender that writes the work requests of an mlx5 card itself.
 *
 *	direct IP PORT COUNT
 *
 * Sends COUNT datagrams from memory of its own, by a direct ring, and waits for their completions by the
 * ring's descriptor.  Prints how many the card has sent.  Without the library, or without a card, it says
 * so and exits with 3: there is nothing to fall back to.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <mellanox/vma_extra.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SLOTS 64u  /* frames in flight, at most */
#define SLOT 256u  /* bytes of a frame's memory */
#define PAYLOAD 64 /* bytes of a datagram */
#define HEADERS 42 /* Ethernet, IPv4, UDP */
#define INLINE 18  /* bytes of a frame that a work request has itself */

static struct vma_api_t *api;
static struct vma_mlx_hw_device_data hw;
static struct sockaddr_in to = {.sin_family = AF_INET};
static int sock, ring;
static uint8_t *frames;
static uint32_t key;		     /* of frames */
static uint32_t posted, half;	     /* requests; half of the doorbell register */
static uint32_t completed, consumed; /* requests; completions */

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* What was not sent for want of a neighbour's address is sent by the kernel's: one answer is enough. */
static void connect_to(void)
{
	char answer[8];

	sock = socket(AF_INET, SOCK_DGRAM, 0);
	if (sock < 0 || connect(sock, (struct sockaddr *)&to, sizeof(to)))
		die("connect");
	if (send(sock, "hello", 5, 0) != 5 || recv(sock, answer, sizeof(answer), 0) < 0)
		die("hello");
}

static void open_ring(void)
{
	struct vma_ring_type_attr type = {.ring_type = VMA_RING_EXTERNAL_MEM};
	struct vma_ring_alloc_logic_attr alloc = {.comp_mask =
							  VMA_RING_ALLOC_MASK_RING_PROFILE_KEY |
							  VMA_RING_ALLOC_MASK_RING_ENGRESS,
						  .ring_alloc_logic = RING_LOGIC_PER_SOCKET,
						  .engress = 1};
	struct iovec memory = {frames, SLOTS * SLOT};
	vma_ring_profile_key profile;

	if (api->vma_add_ring_profile(&type, &profile))
		die("vma_add_ring_profile");
	alloc.ring_profile_key = (uint32_t)profile;
	if (setsockopt(sock, SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC, &alloc, sizeof(alloc)) ||
	    setsockopt(sock, SOL_SOCKET, SO_VMA_RING_USER_MEMORY, &memory, sizeof(memory)))
		die("setsockopt");
	ring = api->get_socket_tx_ring_fd(sock, (struct sockaddr *)&to, sizeof(to));
	if (ring < 0)
		die("get_socket_tx_ring_fd");
	if (api->get_ring_direct_descriptors(ring, &hw))
		die("get_ring_direct_descriptors");
	if (api->register_memory_on_ring(ring, frames, SLOTS * SLOT,
					 &key)) /* again: the same key */
		die("register_memory_on_ring");
}

/* ---- frames ---------------------------------------------------------------------------------- */

static void put16(uint8_t *at, uint16_t value)
{
	value = htons(value);
	memcpy(at, &value, sizeof(value));
}

/* Headers are those that the socket has; the card computes the checksums. */
static void build_frames(void)
{
	uint16_t len = HEADERS;
	uint8_t *frame = frames;

	if (api->get_socket_network_header(sock, frame, &len) || len != HEADERS)
		die("get_socket_network_header");
	put16(frame + 14 + 2, 28 + PAYLOAD); /* the lengths of IP and UDP */
	put16(frame + 14 + 10, 0);
	put16(frame + 34 + 4, 8 + PAYLOAD);
	put16(frame + 34 + 6, 0);
	for (unsigned i = 1; i < SLOTS; i++)
		memcpy(frames + (size_t)i * SLOT, frame, HEADERS);
}

/* ---- work requests, PRM 7.4 ------------------------------------------------------------------ */

/* One block: what to do, the first bytes of the frame, and where the others are. */
static void post(uint32_t number)
{
	const struct hw_wq_data *wq = &hw.sq_data.wq_data;
	uint8_t *wqe = (uint8_t *)wq->buf + (size_t)(posted & (wq->wqe_cnt - 1)) * wq->stride;
	uint8_t *frame = frames + (size_t)(posted % SLOTS) * SLOT;
	struct mlx5_wqe_ctrl_seg ctrl = {.opmod_idx_opcode =
						 htobe32((posted & 0xffff) << 8 | MLX5_OPCODE_SEND),
					 .qpn_ds = htobe32(hw.sq_data.sq_num << 8 | 4),
					 .fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE};
	struct mlx5_wqe_eth_seg eth = {.cs_flags = MLX5_ETH_WQE_L3_CSUM | MLX5_ETH_WQE_L4_CSUM,
				       .inline_hdr_sz = htobe16(INLINE)};
	struct mlx5_wqe_data_seg data = {.byte_count = htobe32(HEADERS + PAYLOAD - INLINE),
					 .lkey = htobe32(key),
					 .addr = htobe64((uintptr_t)frame + INLINE)};

	number = htonl(number);
	memcpy(frame + HEADERS, &number, sizeof(number));
	memcpy(wqe, &ctrl, sizeof(ctrl));
	memcpy(wqe + 16, &eth, sizeof(eth));
	memcpy(wqe + 16 + offsetof(struct mlx5_wqe_eth_seg, inline_hdr_start), frame, INLINE);
	memcpy(wqe + 48, &data, sizeof(data));
	posted++;
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* the request before the record ... */
	*wq->dbrec = htobe32(posted & 0xffff);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* ... and that before the register */
	*(volatile uint64_t *)(void *)((uint8_t *)hw.sq_data.bf.reg + half) =
		*(uint64_t *)(void *)wqe;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	half ^= hw.sq_data.bf.size;
}

/* Takes the completions that are there.  False: the card reports an error. */
static bool take_completions(void)
{
	const struct hw_cq_data *cq = &hw.sq_data.wq_data.cq_data;

	for (;;) {
		volatile struct mlx5_cqe64 *cqe =
			(struct mlx5_cqe64 *)cq->buf + (consumed & (cq->cq_size - 1));
		uint8_t opcode = cqe->op_own >> 4, turn = !!(consumed & cq->cq_size);

		if ((cqe->op_own & 1) != turn || opcode == MLX5_CQE_INVALID)
			return true;
		__atomic_thread_fence(__ATOMIC_ACQUIRE); /* the owner before the rest */
		if (opcode != MLX5_CQE_REQ)
			return false;
		completed += (uint16_t)(be16toh(cqe->wqe_counter) + 1 - completed);
		*cq->cons_idx = ++consumed;
		*cq->dbrec = htobe32(consumed & 0xffffff);
	}
}

/* Sleeps until something completes. */
static void wait_for_ring(void)
{
	struct vma_modify_ring_attr arm = {.comp_bit_mask = VMA_MODIFY_RING_CQ_ARM,
					   .ring_fd = ring};
	struct pollfd pfd = {.fd = ring, .events = POLLIN};

	if (api->vma_modify_ring(&arm) || poll(&pfd, 1, 30000) != 1)
		die("completion");
}

int main(int argc, char **argv)
{
	uint32_t count = argc == 4 ? (uint32_t)atoi(argv[3]) : 0;

	api = vma_get_api();
	if (!api || !(api->vma_extra_supported_mask & VMA_EXTRA_API_GET_RING_DIRECT_DESCRIPTORS)) {
		puts("no direct rings");
		return 3;
	}
	frames = mmap(NULL, SLOTS * SLOT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	if (argc != 4 || frames == MAP_FAILED || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1)
		return 2;
	to.sin_port = htons((uint16_t)atoi(argv[2]));
	connect_to();
	open_ring();
	build_frames();
	while (completed < count) {
		while (posted < count && posted - completed < SLOTS)
			post(posted);
		wait_for_ring();
		if (!take_completions())
			return 1;
	}
	printf("sent %u\n", completed);
	return 0;
}
