/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/mlx5/mlx5_wqe.h"

#include "vma_test.h"

#define BLOCKS 16u
#define QPN 0xabcdef
#define LKEY 0x11223344
#define BF 256u

static _Alignas(64) uint8_t blocks[BLOCKS * MLX5_BLOCK];
static _Alignas(64) uint8_t bells[2 * BF];
static __be32 records[2];
static struct mlx5_sq sq;
static uint8_t frame[1024];

static int setup(void **state)
{
	memset(blocks, 0xee, sizeof(blocks));
	memset(bells, 0, sizeof(bells));
	memset(records, 0, sizeof(records));
	sq = (struct mlx5_sq){.buf = blocks,
			      .n = BLOCKS,
			      .qpn = QPN,
			      .record = &records[MLX5_SND_DBR],
			      .reg = bells,
			      .bf_size = BF,
			      .blue_flame = true};
	mlx5_sq_prepare(&sq, LKEY);
	for (unsigned i = 0; i < sizeof(frame); i++)
		frame[i] = (uint8_t)(i * 7 + 1);
	return 0;
}

static const struct mlx5_wqe_ctrl_seg *ctrl_at(uint32_t block)
{
	return (const void *)mlx5_sq_at(&sq, block);
}

static unsigned ds_at(uint32_t block)
{
	return be32toh(ctrl_at(block)->qpn_ds) & 0x3f;
}

/* What the card would send: the bytes in the request, then those it points to. */
static uint32_t sent(uint32_t block, uint8_t *to)
{
	uint8_t wqe[MLX5_DS_MAX * MLX5_DS];
	uint32_t at = MLX5_HEAD, len = MLX5_HEADERS;

	for (unsigned i = 0; i < ds_at(block) * MLX5_DS; i++)
		wqe[i] = mlx5_sq_at(&sq, block + i / MLX5_BLOCK)[i % MLX5_BLOCK];
	memcpy(to, wqe + 16 + offsetof(struct mlx5_wqe_eth_seg, inline_hdr_start), MLX5_HEADERS);
	while (at < ds_at(block) * MLX5_DS) {
		struct mlx5_wqe_data_seg seg;
		uint32_t count;

		memcpy(&seg, wqe + at, sizeof(seg));
		count = be32toh(seg.byte_count);
		if (count & MLX5_INLINE_SEG) {
			count &= ~MLX5_INLINE_SEG;
			memcpy(to + len, wqe + at + 4, count);
			at += (4 + count + 15) / 16 * 16;
		} else {
			assert_int_equal(be32toh(seg.lkey), LKEY);
			memcpy(to + len, (void *)(uintptr_t)be64toh(seg.addr), count);
			at += sizeof(seg);
		}
		len += count;
	}
	return len;
}

static void check_frame(uint32_t block, uint32_t len)
{
	uint8_t out[2048];

	assert_int_equal(be32toh(ctrl_at(block)->qpn_ds) >> 8, QPN);
	assert_int_equal(be32toh(ctrl_at(block)->opmod_idx_opcode),
			 (block & 0xffff) << 8 | MLX5_OPCODE_SEND);
	assert_int_equal(sent(block, out), len);
	assert_memory_equal(out, frame, len);
}

static void test_a_request_by_address_is_one_block(void **state)
{
	mlx5_sq_put(&sq, frame, 700);
	mlx5_sq_signal(&sq);
	assert_int_equal(sq.head, 1);
	check_frame(0, 700);
	assert_int_equal(ctrl_at(0)->fm_ce_se, MLX5_WQE_CTRL_CQ_UPDATE);
	mlx5_sq_put(&sq, frame, 60);
	check_frame(1, 60);
	assert_int_equal(ctrl_at(1)->fm_ce_se, 0);
}

static void test_frames_of_every_length_fit_in_their_request(void **state)
{
	for (uint32_t len = MLX5_HEADERS + 1; len <= MLX5_INLINE_MAX; len++) {
		uint32_t at = sq.head;

		mlx5_sq_put_inline(&sq, frame, len);
		assert_int_equal(sq.head - at, mlx5_inline_blocks(len));
		assert_true(sq.head - at <= BLOCKS);
		check_frame(at, len);
		assert_true(ds_at(at) <= MLX5_DS_MAX);
		sq.tail = sq.rung = sq.head;
	}
}

static void test_a_request_goes_over_the_end_of_the_queue(void **state)
{
	sq.head = sq.tail = sq.rung = 65536 + BLOCKS - 1;
	mlx5_sq_put_inline(&sq, frame, 200);
	mlx5_sq_signal(&sq);
	check_frame(65536 + BLOCKS - 1, 200);
	assert_int_equal(sq.head, 65536 + BLOCKS - 1 + mlx5_inline_blocks(200));
	/* Neither does it touch the block after it. */
	assert_int_equal(blocks[(mlx5_inline_blocks(200) - 1) * MLX5_BLOCK], 0xee);
}

static void test_room_counts_blocks(void **state)
{
	assert_int_equal(mlx5_sq_room(&sq), BLOCKS);
	mlx5_sq_put_inline(&sq, frame, 100);
	assert_int_equal(mlx5_sq_room(&sq), BLOCKS - 3);
	sq.tail = sq.head;
	assert_int_equal(mlx5_sq_room(&sq), BLOCKS);
}

static uint64_t word_of(const void *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

static void test_the_bell_has_the_last_request_and_the_record_their_number(void **state)
{
	mlx5_sq_put(&sq, frame, 700);
	mlx5_sq_put(&sq, frame, 800);
	mlx5_sq_signal(&sq);
	mlx5_sq_ring(&sq);
	assert_int_equal(be32toh(records[MLX5_SND_DBR]), 2);
	assert_int_equal(records[MLX5_RCV_DBR], 0);
	assert_int_equal(word_of(bells), word_of(blocks + MLX5_BLOCK));
	assert_int_equal(word_of(bells + 8), 0);
	/* The other half comes next. */
	mlx5_sq_put(&sq, frame, 900);
	mlx5_sq_signal(&sq);
	mlx5_sq_ring(&sq);
	assert_int_equal(word_of(bells + BF), word_of(blocks + 2 * MLX5_BLOCK));
	assert_int_equal(be32toh(records[MLX5_SND_DBR]), 3);
}

static void test_a_single_short_request_is_written_whole(void **state)
{
	mlx5_sq_put_inline(&sq, frame, 100);
	mlx5_sq_signal(&sq);
	mlx5_sq_ring(&sq);
	assert_memory_equal(bells, blocks, 3 * MLX5_BLOCK);
	assert_int_equal(word_of(bells + 3 * MLX5_BLOCK), 0);
}

static void test_what_is_longer_than_a_register_is_not(void **state)
{
	mlx5_sq_put_inline(&sq, frame, BF + 1);
	mlx5_sq_signal(&sq);
	mlx5_sq_ring(&sq);
	assert_int_equal(word_of(bells), word_of(blocks));
	assert_int_equal(word_of(bells + 8), 0);
}

static void test_what_goes_over_the_end_is_not(void **state)
{
	sq.head = sq.tail = sq.rung = BLOCKS - 1;
	mlx5_sq_put_inline(&sq, frame, 100);
	mlx5_sq_signal(&sq);
	mlx5_sq_ring(&sq);
	assert_int_equal(word_of(bells), word_of(blocks + (BLOCKS - 1) * MLX5_BLOCK));
	assert_int_equal(word_of(bells + 8), 0);
}

static void test_without_blue_flame_only_the_first_word_is_written(void **state)
{
	sq.blue_flame = false;
	mlx5_sq_put(&sq, frame, 100);
	mlx5_sq_signal(&sq);
	mlx5_sq_ring(&sq);
	assert_int_equal(word_of(bells), word_of(blocks));
	assert_int_equal(word_of(bells + 8), 0);
}

static void test_a_nop_completes_and_has_no_data(void **state)
{
	mlx5_sq_put_nop(&sq);
	mlx5_sq_signal(&sq);
	assert_int_equal(be32toh(ctrl_at(0)->opmod_idx_opcode), MLX5_OPCODE_NOP);
	assert_int_equal(ctrl_at(0)->fm_ce_se, MLX5_WQE_CTRL_CQ_UPDATE);
	assert_int_equal(sq.head, 1);
}

static void test_receive_requests_wrap_around(void **state)
{
	struct mlx5_wqe_data_seg wqe[4];
	__be32 record[2] = {0};
	struct mlx5_rq rq = {.wqe = wqe, .record = record, .n = 4, .head = 65534, .tail = 65534};

	mlx5_rq_prepare(&rq, 2048, LKEY);
	for (unsigned i = 0; i < 3; i++)
		mlx5_rq_put(&rq, frame + i);
	assert_int_equal(record[0], 0);
	mlx5_rq_publish(&rq);
	assert_int_equal(be32toh(record[0]), 1);
	assert_int_equal(be64toh(wqe[2].addr), (uintptr_t)frame);
	assert_int_equal(be64toh(wqe[3].addr), (uintptr_t)frame + 1);
	assert_int_equal(be64toh(wqe[0].addr), (uintptr_t)frame + 2);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(be32toh(wqe[i].byte_count), 2048);
		assert_int_equal(be32toh(wqe[i].lkey), LKEY);
	}
}

static void test_a_completion_has_the_owner_bit_of_its_round(void **state)
{
	struct mlx5_cqe64 entries[4];
	__be32 record[2] = {0};
	struct mlx5_cq cq = {.cqe = entries, .record = record, .n = 4};

	memset(entries, 0, sizeof(entries));
	for (unsigned i = 0; i < 4; i++)
		entries[i].op_own = MLX5_CQE_INVALID << 4;
	assert_null(mlx5_cq_next(&cq));
	entries[0].op_own = MLX5_CQE_RESP_SEND << 4;
	assert_ptr_equal(mlx5_cq_next(&cq), &entries[0]);
	assert_int_equal(mlx5_cqe_opcode(mlx5_cq_next(&cq)), MLX5_CQE_RESP_SEND);
	entries[0].op_own |= MLX5_CQE_OWNER_MASK;
	assert_null(mlx5_cq_next(&cq));
	/* The second round. */
	cq.at = 4;
	assert_ptr_equal(mlx5_cq_next(&cq), &entries[0]);
	entries[0].op_own &= (uint8_t)~MLX5_CQE_OWNER_MASK;
	assert_null(mlx5_cq_next(&cq));
	cq.at = 0x1000005;
	mlx5_cq_publish(&cq);
	assert_int_equal(be32toh(record[0]), 5);
}

static void test_both_checksums_must_be_right(void **state)
{
	struct mlx5_cqe64 cqe = {0};

	for (unsigned bits = 0; bits < 8; bits++) {
		cqe.hds_ip_ext = (uint8_t)bits;
		assert_int_equal(mlx5_cqe_csum_ok(&cqe),
				 (bits & MLX5_CQE_L3_OK) && (bits & MLX5_CQE_L4_OK));
	}
}

static void test_the_arm_word_has_two_bits_of_the_number_of_events(void **state)
{
	struct mlx5_cq cq = {.at = 0x1234567};

	assert_int_equal(mlx5_cq_arm_word(&cq, 0), 0x234567);
	assert_int_equal(mlx5_cq_arm_word(&cq, 5), 0x10234567);
	assert_int_equal(mlx5_cq_arm_word(&cq, 3), 0x30234567);
}

static void check_large(uint32_t headers, uint32_t units)
{
	uint32_t head = mlx5_large_head(headers), ds = head + units, block = sq.head;
	_Alignas(16) uint8_t wqe[(MLX5_DS_MAX + 1) * MLX5_DS], out[sizeof(wqe)];
	const struct mlx5_wqe_eth_seg *eth = (const void *)(out + 16);

	mlx5_wqe_large(wqe, frame, headers, 1448);
	for (uint32_t i = 0; i < units; i++)
		mlx5_wqe_data(&sq, wqe, head + i, frame + 100 * i, 100 + i);
	mlx5_sq_put_large(&sq, wqe, ds);
	assert_int_equal(sq.last, block);
	assert_int_equal(sq.head - block, (ds + 3) / 4);
	for (uint32_t i = 0; i < ds * MLX5_DS; i++)
		out[i] = mlx5_sq_at(&sq, block + i / MLX5_BLOCK)[i % MLX5_BLOCK];
	assert_int_equal(be32toh(ctrl_at(block)->qpn_ds), (uint32_t)QPN << 8 | ds);
	assert_int_equal(be32toh(ctrl_at(block)->opmod_idx_opcode),
			 (block & 0xffff) << 8 | MLX5_OPCODE_TSO);
	assert_int_equal(ctrl_at(block)->fm_ce_se, 0);
	assert_int_equal(eth->cs_flags, MLX5_ETH_WQE_L3_CSUM | MLX5_ETH_WQE_L4_CSUM);
	assert_int_equal(be16toh(eth->mss), 1448);
	assert_int_equal(be16toh(eth->inline_hdr_sz), headers);
	assert_memory_equal(out + 16 + offsetof(struct mlx5_wqe_eth_seg, inline_hdr_start), frame,
			    headers);
	for (uint32_t i = 0; i < units; i++) {
		struct mlx5_wqe_data_seg seg;

		memcpy(&seg, out + (head + i) * MLX5_DS, sizeof(seg));
		assert_int_equal(be32toh(seg.byte_count), 100 + i);
		assert_int_equal(be32toh(seg.lkey), LKEY);
		assert_ptr_equal((void *)(uintptr_t)be64toh(seg.addr), frame + 100 * i);
	}
}

/* Of all lengths, at all places: over the end of the queue, too. */
static void test_a_large_request_has_all_headers_and_then_the_data(void **state)
{
	static const uint32_t headers[] = {54, 58, 66, 94};

	for (uint32_t n = 0; n < 400; n++) {
		sq.tail = sq.head;
		check_large(headers[n % 4], 1 + n % 8);
	}
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

static const struct CMUnitTest tests[] = {
	TEST(test_a_request_by_address_is_one_block),
	TEST(test_frames_of_every_length_fit_in_their_request),
	TEST(test_a_request_goes_over_the_end_of_the_queue),
	TEST(test_room_counts_blocks),
	TEST(test_the_bell_has_the_last_request_and_the_record_their_number),
	TEST(test_a_single_short_request_is_written_whole),
	TEST(test_what_is_longer_than_a_register_is_not),
	TEST(test_what_goes_over_the_end_is_not),
	TEST(test_without_blue_flame_only_the_first_word_is_written),
	TEST(test_a_nop_completes_and_has_no_data),
	TEST(test_receive_requests_wrap_around),
	TEST(test_a_completion_has_the_owner_bit_of_its_round),
	TEST(test_both_checksums_must_be_right),
	TEST(test_the_arm_word_has_two_bits_of_the_number_of_events),
	TEST(test_a_large_request_has_all_headers_and_then_the_data),
};

VMA_TEST_MAIN("mlx5_wqe", tests, NULL, NULL)
