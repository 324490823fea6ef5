/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Profiles, settings of rings, and direct rings: what each call refuses, and how rings end.
 *
 *	direct_errors card|none|moderate IP PORT	with an echo server of the kernel there
 *
 * Prints what was wrong, and the number of such things.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <mellanox/vma_extra.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/scenario/extra/program.h"

#define PAGE 4096
#define PATIENCE 30000 /* ms */

static struct vma_api_t *api;
static struct sockaddr_in to = {.sin_family = AF_INET};
static struct sockaddr *const name = (struct sockaddr *)&to;
static uint8_t *memory; /* two pages, and one that cannot be accessed */

/* The call fails with this error. */
#define FAILS(call, error)                                                                  \
	do {                                                                                \
		int rc_;                                                                    \
		errno = 0;                                                                  \
		rc_ = (call);                                                               \
		if (rc_ != -1 || errno != (error))                                          \
			printf("line %d: %d, %s\n", __LINE__, rc_, strerrorname_np(errno)); \
		expect(rc_ == -1 && errno == (error), #call);                               \
	} while (0)

#define WORKS(call)                                                                         \
	do {                                                                                \
		int rc_ = (call);                                                           \
		if (rc_)                                                                    \
			printf("line %d: %d, %s\n", __LINE__, rc_, strerrorname_np(errno)); \
		expect(!rc_, #call);                                                        \
	} while (0)

static int add_profile(unsigned type, unsigned mask, int *key)
{
	struct vma_ring_type_attr attr = {.ring_type = (vma_ring_type)type, .ring_ext = {mask}};

	return api->vma_add_ring_profile(&attr, key);
}

static int set_alloc(int fd, unsigned logic, int key, unsigned user, bool in, bool out)
{
	struct vma_ring_alloc_logic_attr attr = {
		.comp_mask = VMA_RING_ALLOC_MASK_RING_PROFILE_KEY |
			     VMA_RING_ALLOC_MASK_RING_USER_ID | VMA_RING_ALLOC_MASK_RING_INGRESS |
			     VMA_RING_ALLOC_MASK_RING_ENGRESS,
		.ring_alloc_logic = (ring_logic_t)logic,
		.ring_profile_key = (uint32_t)key,
		.user_id = user,
		.ingress = in,
		.engress = out,
	};

	return setsockopt(fd, SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC, &attr, sizeof(attr));
}

static int set_memory(int fd, void *base, size_t len, size_t size)
{
	struct iovec iov = {base, len};

	return setsockopt(fd, SOL_SOCKET, SO_VMA_RING_USER_MEMORY, &iov, (socklen_t)size);
}

static int modify(int fd, unsigned mask, unsigned count, unsigned usec)
{
	struct vma_modify_ring_attr attr = {.comp_bit_mask = mask, .ring_fd = fd};

	attr.cq_moderation.cq_moderation_count = count;
	attr.cq_moderation.cq_moderation_period_usec = usec;
	return api->vma_modify_ring(&attr);
}

/* A socket that has exchanged a datagram, so that its rings are open. */
static int open_socket(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	char answer[8];

	if (fd < 0 || connect(fd, name, sizeof(to)) || send(fd, "hello", 5, 0) != 5 ||
	    recv(fd, answer, sizeof(answer), 0) != 5)
		die("hello");
	return fd;
}

static int rx_ring(int fd)
{
	int ring = -1;

	if (api->get_socket_rings_fds(fd, &ring, 1) != 1)
		die("get_socket_rings_fds");
	return ring;
}

static int tx_ring(int fd)
{
	return api->get_socket_tx_ring_fd(fd, name, sizeof(to));
}

/* ---- profiles ------------------------------------------------------------------------------- */

static void profiles(bool card)
{
	int key = -1, again = -1, fd = open_socket(), other = open_socket();

	FAILS(set_alloc(fd, RING_LOGIC_PER_INTERFACE, 1, 0, true, true), EINVAL);
	FAILS(set_alloc(fd, RING_LOGIC_PER_INTERFACE, 2, 0, false, true), EINVAL);
	FAILS(api->vma_add_ring_profile(NULL, &key), EFAULT);
	FAILS(add_profile(VMA_RING_PACKET, 0, NULL), EFAULT);
	FAILS(add_profile(VMA_RING_PACKET, 1, &key), EINVAL);
	FAILS(add_profile(2, 0, &key), EINVAL);
	FAILS(add_profile(UINT32_MAX, 0, &key), EINVAL);
	expect(key == -1, "a key that was not made");
	WORKS(add_profile(VMA_RING_PACKET, 0, &key));
	WORKS(add_profile(VMA_RING_PACKET, 0, &again));
	expect(key > 0 && again == key, "two keys of one profile");
	if (card) {
		WORKS(add_profile(VMA_RING_EXTERNAL_MEM, 0, &again));
		expect(again > 0 && again != key, "the other profile has another key");
		FAILS(set_alloc(fd, RING_LOGIC_PER_INTERFACE, again, 0, true, true), EOPNOTSUPP);
		FAILS(set_alloc(fd, RING_LOGIC_PER_INTERFACE, again, 0, true, false), EOPNOTSUPP);
	} else {
		FAILS(add_profile(VMA_RING_EXTERNAL_MEM, 0, &again), EOPNOTSUPP);
	}
	FAILS(set_alloc(fd, RING_LOGIC_PER_INTERFACE, 99, 0, true, true), EINVAL);
	/* Before it has a ring, a socket is put on the one of its profile. */
	expect(rx_ring(fd) == rx_ring(other), "two rings without a profile");
	close(fd);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	WORKS(set_alloc(fd, RING_LOGIC_PER_INTERFACE, key, 0, true, true));
	WORKS(connect(fd, name, sizeof(to)));
	expect(rx_ring(fd) != rx_ring(other), "the ring of a profile is another one");
	close(other);
	other = socket(AF_INET, SOCK_DGRAM, 0);
	WORKS(set_alloc(other, RING_LOGIC_PER_INTERFACE, key, 0, true, true));
	WORKS(connect(other, name, sizeof(to)));
	expect(rx_ring(fd) == rx_ring(other), "two rings of one profile");
	close(fd);
	close(other);
}

/* ---- settings --------------------------------------------------------------------------------- */

static void settings(bool card)
{
	int fd = open_socket(), ring = rx_ring(fd), none = eventfd(0, 0);
	struct pollfd pfd = {.fd = ring, .events = POLLIN};
	char answer[8];

	if (!card) {
		FAILS(modify(ring, VMA_MODIFY_RING_CQ_MODERATION, 4, 50), EOPNOTSUPP);
		FAILS(modify(ring, VMA_MODIFY_RING_CQ_ARM, 0, 0), EOPNOTSUPP);
		FAILS(api->vma_modify_ring(NULL), EOPNOTSUPP);
		close(fd);
		return;
	}
	FAILS(api->vma_modify_ring(NULL), EFAULT);
	FAILS(modify(ring, 0, 4, 50), EINVAL);
	FAILS(modify(ring, 4, 4, 50), EINVAL);
	FAILS(modify(ring, VMA_MODIFY_RING_CQ_MODERATION, 65536, 50), EINVAL);
	FAILS(modify(ring, VMA_MODIFY_RING_CQ_MODERATION, 4, 65536), EINVAL);
	FAILS(modify(fd, VMA_MODIFY_RING_CQ_ARM, 0, 0), EBADFD);
	FAILS(modify(none, VMA_MODIFY_RING_CQ_ARM, 0, 0), EBADFD);
	FAILS(modify(-1, VMA_MODIFY_RING_CQ_ARM, 0, 0), EBADFD);
	WORKS(modify(ring, VMA_MODIFY_RING_CQ_MODERATION, 3, 77));
	WORKS(modify(ring, VMA_MODIFY_RING_CQ_MODERATION | VMA_MODIFY_RING_CQ_ARM, 3, 77));
	if (send(fd, "again", 5, 0) != 5)
		die("send");
	expect(poll(&pfd, 1, PATIENCE) == 1 && pfd.revents == POLLIN, "the ring wakes");
	expect(recv(fd, answer, sizeof(answer), MSG_DONTWAIT) == 5, "the answer");
	FAILS(api->get_ring_direct_descriptors(ring, NULL), EOPNOTSUPP);
	FAILS(api->register_memory_on_ring(ring, memory, PAGE, NULL), EOPNOTSUPP);
	FAILS(api->deregister_memory_on_ring(ring, memory, PAGE), EOPNOTSUPP);
	close(ring);
	FAILS(modify(ring, VMA_MODIFY_RING_CQ_ARM, 0, 0), EBADFD);
	close(none);
	close(fd);
}

/* ---- direct rings ------------------------------------------------------------------------------- */

static int direct_key;

static int direct_socket(unsigned logic, unsigned user)
{
	int fd = open_socket();

	WORKS(set_alloc(fd, logic, direct_key, user, false, true));
	return fd;
}

static void regions(int ring)
{
	uint32_t key = 0, again = 0, part = 0;

	FAILS(api->register_memory_on_ring(ring, memory, 0, &key), EINVAL);
	FAILS(api->register_memory_on_ring(ring, memory, SIZE_MAX, &key), EINVAL);
	FAILS(api->register_memory_on_ring(ring, memory + 2 * PAGE, PAGE, &key), EFAULT);
	FAILS(api->register_memory_on_ring(ring, memory, 3 * PAGE, &key), EFAULT);
	FAILS(api->register_memory_on_ring(ring, memory, PAGE, NULL), EFAULT);
	FAILS(api->deregister_memory_on_ring(ring, memory, PAGE), ENOENT);
	WORKS(api->register_memory_on_ring(ring, memory, PAGE, &key));
	WORKS(api->register_memory_on_ring(ring, memory, PAGE, &again));
	expect(key && key == again, "a range that was registered twice has one key");
	WORKS(api->register_memory_on_ring(ring, memory, 2 * PAGE, &part));
	expect(part && part != key, "another range has another key");
	FAILS(api->deregister_memory_on_ring(ring, memory + 1, PAGE), ENOENT);
	WORKS(api->deregister_memory_on_ring(ring, memory, PAGE));
	WORKS(api->deregister_memory_on_ring(ring, memory, PAGE));
	FAILS(api->deregister_memory_on_ring(ring, memory, PAGE), ENOENT);
	WORKS(api->deregister_memory_on_ring(ring, memory, 2 * PAGE));
}

static void describes(int ring)
{
	struct vma_mlx_hw_device_data hw = {0};

	FAILS(api->get_ring_direct_descriptors(ring, NULL), EFAULT);
	WORKS(api->get_ring_direct_descriptors(ring, &hw));
	expect(hw.valid_mask == (1 << DATA_VALID_DEV | 1 << DATA_VALID_SQ), "valid_mask");
	expect(hw.dev_data.vendor_id == 0x15b3 && hw.dev_data.vendor_part_id == 0x1017, "device");
	expect(hw.sq_data.wq_data.stride == 64 && hw.sq_data.wq_data.wqe_cnt >= 256, "blocks");
	expect(hw.sq_data.wq_data.cq_data.cqe_size == 64, "completions");
	expect(hw.sq_data.wq_data.cq_data.cq_size >= 256, "their number");
	expect(hw.sq_data.wq_data.buf && hw.sq_data.wq_data.dbrec && hw.sq_data.bf.reg &&
		       hw.sq_data.wq_data.cq_data.buf && hw.sq_data.wq_data.cq_data.uar &&
		       hw.sq_data.wq_data.cq_data.cons_idx && hw.sq_data.sq_num,
	       "all is there");
	expect(!hw.rq_data.wq_data.buf, "nothing to receive by");
}

/* Request number n, which sends nothing and completes. */
static void post_nop(const struct vma_mlx_hw_device_data *hw, uint32_t n)
{
	const struct hw_wq_data *wq = &hw->sq_data.wq_data;
	uint8_t *wqe = (uint8_t *)wq->buf + (size_t)(n & (wq->wqe_cnt - 1)) * wq->stride;
	struct mlx5_wqe_ctrl_seg ctrl = {.opmod_idx_opcode = htobe32(n << 8 | MLX5_OPCODE_NOP),
					 .qpn_ds = htobe32(hw->sq_data.sq_num << 8 | 4),
					 .fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE};
	uint64_t word;

	memset(wqe, 0, wq->stride);
	memcpy(wqe, &ctrl, sizeof(ctrl));
	memcpy(&word, &ctrl, sizeof(word));
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* orders the request, the record, the register */
	*wq->dbrec = htobe32(n + 1);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* orders them, too */
	*(volatile uint64_t *)(void *)((uint8_t *)hw->sq_data.bf.reg +
				       (n % 2) * hw->sq_data.bf.size) = word;
}

/* After it is armed, the descriptor is readable as soon as something completes, and until then. */
static void wakes(int ring)
{
	struct pollfd pfd = {.fd = ring, .events = POLLIN};
	struct vma_mlx_hw_device_data hw;

	WORKS(api->get_ring_direct_descriptors(ring, &hw));
	WORKS(modify(ring, VMA_MODIFY_RING_CQ_MODERATION, 0, 0));
	for (uint32_t n = 0; n < 4; n++) {
		WORKS(modify(ring, VMA_MODIFY_RING_CQ_ARM, 0, 0));
		expect(poll(&pfd, 1, 0) == 0, "it is readable before");
		post_nop(&hw, n);
		expect(poll(&pfd, 1, PATIENCE) == 1, "a completion makes it readable");
		expect(poll(&pfd, 1, 0) == 1, "it stays so");
		*hw.sq_data.wq_data.cq_data.cons_idx = n + 1;
		*hw.sq_data.wq_data.cq_data.dbrec = htobe32(n + 1);
	}
	/* What completed before is told at once. */
	post_nop(&hw, 4);
	WORKS(modify(ring, VMA_MODIFY_RING_CQ_ARM, 0, 0));
	expect(poll(&pfd, 1, PATIENCE) == 1, "a completion before it was armed");
}

/*
 * What a child does with the descriptors that it inherits harms nobody.  It has registered memory as any
 * other, and what it writes there, and beside it, is its own.
 */
static void in_child(int ring)
{
	uint32_t key;
	int status;
	pid_t pid;

	memory[0] = memory[PAGE] = 5;
	WORKS(api->register_memory_on_ring(ring, memory, PAGE / 2, &key));
	pid = fork();
	if (!pid) {
		unsigned old = bad;

		expect(memory[0] == 5 && memory[PAGE] == 5, "the bytes in the child");
		memory[0] = memory[PAGE - 1] = memory[PAGE] = 6;

		FAILS(api->register_memory_on_ring(ring, memory, PAGE, &key), EBADFD);
		FAILS(modify(ring, VMA_MODIFY_RING_CQ_ARM, 0, 0), EBADFD);
		fflush(stdout);
		_exit(bad != old);
	}
	expect(waitpid(pid, &status, 0) == pid && status == 0, "the child");
	expect(memory[0] == 5 && memory[PAGE - 1] == 0 && memory[PAGE] == 5, "the parent's bytes");
	WORKS(api->deregister_memory_on_ring(ring, memory, PAGE / 2));
}

/* The ring ends when its last socket is closed; its descriptor then names nothing. */
static void ends(int ring)
{
	uint32_t key;

	for (int i = 0; i < PATIENCE / 50; i++) {
		if (api->register_memory_on_ring(ring, memory, PAGE, &key))
			break;
		WORKS(api->deregister_memory_on_ring(ring, memory, PAGE));
		poll(NULL, 0, 50);
	}
	FAILS(api->register_memory_on_ring(ring, memory, PAGE, &key), ENODEV);
	FAILS(api->deregister_memory_on_ring(ring, memory, PAGE), ENODEV);
	FAILS(modify(ring, VMA_MODIFY_RING_CQ_ARM, 0, 0), ENODEV);
	FAILS(modify(ring, VMA_MODIFY_RING_CQ_MODERATION, 1, 1), ENODEV);
	FAILS(api->get_ring_direct_descriptors(ring, &(struct vma_mlx_hw_device_data){0}), ENODEV);
}

static void direct(void)
{
	struct vma_completion_t completion;
	int one, two, other, ring, old;

	WORKS(add_profile(VMA_RING_EXTERNAL_MEM, 0, &direct_key));
	one = direct_socket(RING_LOGIC_PER_USER_ID, 7);
	two = direct_socket(RING_LOGIC_PER_USER_ID, 7);
	other = direct_socket(RING_LOGIC_PER_USER_ID, 8);
	ring = tx_ring(one);
	if (ring < 0)
		die("get_socket_tx_ring_fd");
	expect(ring != rx_ring(one), "the socket receives by the direct ring");
	expect(tx_ring(two) == ring && tx_ring(other) != ring, "sockets of one user id");
	FAILS(api->socketxtreme_poll(ring, &completion, 1, 0), EOPNOTSUPP);
	describes(ring);
	wakes(ring);
	regions(ring);
	WORKS(modify(ring, VMA_MODIFY_RING_CQ_MODERATION, 5, 99));
	WORKS(modify(ring, VMA_MODIFY_RING_CQ_ARM, 0, 0));
	FAILS(modify(ring, VMA_MODIFY_RING_CQ_MODERATION, 70000, 1), EINVAL);
	in_child(ring);
	/* The program closes the descriptor: the ring stays, and has another one. */
	old = ring;
	close(ring);
	FAILS(modify(old, VMA_MODIFY_RING_CQ_ARM, 0, 0), EBADFD);
	ring = tx_ring(two);
	WORKS(modify(ring, VMA_MODIFY_RING_CQ_ARM, 0, 0));
	/* Memory of the socket. */
	FAILS(set_memory(one, NULL, PAGE, sizeof(struct iovec)), EINVAL);
	FAILS(set_memory(one, memory, 0, sizeof(struct iovec)), EINVAL);
	FAILS(set_memory(one, memory, SIZE_MAX, sizeof(struct iovec)), EINVAL);
	FAILS(set_memory(one, memory, PAGE, 8), EINVAL);
	FAILS(setsockopt(one, SOL_SOCKET, SO_VMA_RING_USER_MEMORY, memory + 2 * PAGE,
			 sizeof(struct iovec)),
	      EFAULT);
	WORKS(set_memory(one, memory + 2 * PAGE, PAGE, sizeof(struct iovec)));
	FAILS(tx_ring(one), EFAULT);
	WORKS(set_memory(one, memory, PAGE, sizeof(struct iovec)));
	expect(tx_ring(one) == ring, "with memory, the same ring");
	WORKS(api->deregister_memory_on_ring(ring, memory, PAGE));
	close(one);
	WORKS(modify(ring, VMA_MODIFY_RING_CQ_ARM, 0, 0));
	close(two);
	ends(ring);
	/* A later ring may have its number, but not its descriptor. */
	one = direct_socket(RING_LOGIC_PER_USER_ID, 7);
	two = tx_ring(one);
	expect(two >= 0 && two != ring, "a new ring has a new descriptor");
	FAILS(modify(ring, VMA_MODIFY_RING_CQ_ARM, 0, 0), EBADFD);
	close(ring);
	close(one);
	close(other);
}

/* ---- threads ------------------------------------------------------------------------------------- */

static void *races(void *arg)
{
	unsigned self = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < 60; i++) {
		int fd = socket(AF_INET, SOCK_DGRAM, 0), ring;
		uint32_t key;

		if (fd < 0 || connect(fd, name, sizeof(to)) ||
		    set_alloc(fd, RING_LOGIC_PER_USER_ID, direct_key, (self + i) % 3, false, true))
			die("socket");
		ring = tx_ring(fd);
		expect(ring >= 0, "a ring");
		/* Another thread may have closed its descriptor. */
		if (!api->register_memory_on_ring(ring, memory, PAGE, &key))
			api->deregister_memory_on_ring(ring, memory, PAGE);
		else
			expect(errno == EBADFD || errno == ENODEV || errno == EOPNOTSUPP, "errno");
		modify(ring, VMA_MODIFY_RING_CQ_ARM | VMA_MODIFY_RING_CQ_MODERATION, i, 1);
		modify(rx_ring(fd), VMA_MODIFY_RING_CQ_MODERATION, i, self + 1);
		set_alloc(fd, RING_LOGIC_PER_USER_ID, 0, i % 2, true, true);
		if (i % 7 == 0)
			close(ring);
		close(fd);
	}
	return NULL;
}

static void race(void)
{
	pthread_t tids[3];

	for (uintptr_t i = 0; i < 3; i++) {
		if (pthread_create(&tids[i], NULL, races, (void *)i))
			die("pthread_create");
	}
	for (int i = 0; i < 3; i++)
		pthread_join(tids[i], NULL);
}

int main(int argc, char **argv)
{
	const uint64_t bits = VMA_EXTRA_API_GET_RING_DIRECT_DESCRIPTORS |
			      VMA_EXTRA_API_REGISTER_MEMORY_ON_RING |
			      VMA_EXTRA_API_DEREGISTER_MEMORY_ON_RING | VMA_EXTRA_API_MODIFY_RING;
	uint32_t key;
	bool card;

	if (argc != 4)
		return 2;
	card = strcmp(argv[1], "none") != 0;
	inet_pton(AF_INET, argv[2], &to.sin_addr);
	to.sin_port = htons((uint16_t)atoi(argv[3]));
	api = vma_get_api();
	if (!api)
		die("no library");
	expect((api->vma_extra_supported_mask & bits) == (card ? bits : 0), "the mask");
	memory = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || mprotect(memory + 2 * PAGE, PAGE, PROT_NONE))
		die("mmap");
	if (!strcmp(argv[1], "moderate"))
		return modify(rx_ring(open_socket()), VMA_MODIFY_RING_CQ_MODERATION, 3, 77);
	profiles(card);
	settings(card);
	if (card) {
		direct();
		race();
	} else {
		int fd = open_socket();

		FAILS(api->get_ring_direct_descriptors(fd, NULL), EOPNOTSUPP);
		FAILS(api->register_memory_on_ring(fd, memory, PAGE, &key), EOPNOTSUPP);
		FAILS(api->deregister_memory_on_ring(fd, memory, PAGE), EOPNOTSUPP);
		FAILS(set_memory(fd, memory, PAGE, sizeof(struct iovec)), EOPNOTSUPP);
		close(fd);
	}
	printf("bad %u\n", bad);
	return 0;
}
