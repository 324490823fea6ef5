/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The extra API as a program sees it: layout and numbers of the header, discovery, and what each
 * function does with bad arguments; over sockets that record how they are called.
 */
#include <errno.h>
#include <mellanox/vma_extra.h>
#include <string.h>
#include <sys/epoll.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/frame/frame_mem.h"
#include "base/param.h"
#include "base/sys.h"
#include "api.h"
#include "fake_sock.h"
#include "sock/core/extra/sock_extra.h"
#include "intercept/fdtable.h"
#include "tests/vma_test.h"

/* ---- layout: programs were compiled with it ------------------------------------------------ */

#define AT(type, member, offset) \
	_Static_assert(offsetof(type, member) == (offset), #type "." #member)
#define SIZE(type, size) _Static_assert(sizeof(type) == (size), #type)

AT(struct vma_packet_t, packet_id, 0);
AT(struct vma_packet_t, sz_iov, 8);
AT(struct vma_packet_t, iov, 16);
SIZE(struct vma_packet_t, 16);
AT(struct vma_packets_t, n_packet_num, 0);
AT(struct vma_packets_t, pkts, 8);
SIZE(struct vma_packets_t, 8);

AT(struct vma_info_t, struct_sz, 0);
AT(struct vma_info_t, packet_id, 8);
AT(struct vma_info_t, src, 16);
AT(struct vma_info_t, dst, 24);
AT(struct vma_info_t, payload_sz, 32);
AT(struct vma_info_t, socket_ready_queue_pkt_count, 40);
AT(struct vma_info_t, socket_ready_queue_byte_count, 44);
AT(struct vma_info_t, hw_timestamp, 48);
AT(struct vma_info_t, sw_timestamp, 64);
AT(struct vma_info_t, flow_tag, 80); /* not in the original, where struct_sz is 80 */
SIZE(struct vma_info_t, 84);

AT(struct vma_buff_t, next, 0);
AT(struct vma_buff_t, payload, 8);
AT(struct vma_buff_t, len, 16);
SIZE(struct vma_buff_t, 24);
AT(struct vma_packet_desc_t, num_bufs, 0);
AT(struct vma_packet_desc_t, total_len, 8);
AT(struct vma_packet_desc_t, buff_lst, 16);
AT(struct vma_packet_desc_t, hw_timestamp, 24);
SIZE(struct vma_packet_desc_t, 40);
AT(struct vma_completion_t, packet, 0);
AT(struct vma_completion_t, events, 40);
AT(struct vma_completion_t, user_data, 48);
AT(struct vma_completion_t, src, 56);
AT(struct vma_completion_t, listen_fd, 72);
AT(struct vma_completion_t, flow_tag, 76); /* the original has padding */
SIZE(struct vma_completion_t, 80);

AT(struct vma_rate_limit_t, rate, 0);
AT(struct vma_rate_limit_t, max_burst_sz, 4);
AT(struct vma_rate_limit_t, typical_pkt_sz, 8);
SIZE(struct vma_rate_limit_t, 12);
AT(struct vma_ring_alloc_logic_attr, comp_mask, 0);
AT(struct vma_ring_alloc_logic_attr, ring_alloc_logic, 4);
AT(struct vma_ring_alloc_logic_attr, ring_profile_key, 8);
AT(struct vma_ring_alloc_logic_attr, user_id, 12);
SIZE(struct vma_ring_alloc_logic_attr, 20);
AT(struct vma_ring_type_attr, ring_type, 0);
AT(struct vma_ring_type_attr, ring_pktq, 4);
AT(struct vma_ring_type_attr, ring_ext, 4);
SIZE(struct vma_ring_type_attr, 8);

AT(struct dev_data, vendor_id, 0);
AT(struct dev_data, vendor_part_id, 4);
AT(struct dev_data, device_cap, 8);
SIZE(struct dev_data, 12);
AT(struct hw_cq_data, buf, 0);
AT(struct hw_cq_data, dbrec, 8);
AT(struct hw_cq_data, cq_size, 16);
AT(struct hw_cq_data, cqe_size, 20);
AT(struct hw_cq_data, cqn, 24);
AT(struct hw_cq_data, uar, 32);
AT(struct hw_cq_data, cons_idx, 40);
SIZE(struct hw_cq_data, 48);
AT(struct hw_wq_data, buf, 0);
AT(struct hw_wq_data, wqe_cnt, 8);
AT(struct hw_wq_data, stride, 12);
AT(struct hw_wq_data, dbrec, 16);
AT(struct hw_wq_data, cq_data, 24);
SIZE(struct hw_wq_data, 72);
AT(struct hw_rq_data, wq_data, 0);
AT(struct hw_rq_data, head, 72);
AT(struct hw_rq_data, tail, 80);
SIZE(struct hw_rq_data, 88);
AT(struct hw_sq_data, wq_data, 0);
AT(struct hw_sq_data, sq_num, 72);
AT(struct hw_sq_data, bf.reg, 80);
AT(struct hw_sq_data, bf.size, 88);
AT(struct hw_sq_data, bf.offset, 92);
SIZE(struct hw_sq_data, 96);
AT(struct vma_mlx_hw_device_data, valid_mask, 0);
AT(struct vma_mlx_hw_device_data, dev_data, 4);
AT(struct vma_mlx_hw_device_data, sq_data, 16);
AT(struct vma_mlx_hw_device_data, rq_data, 112);
SIZE(struct vma_mlx_hw_device_data, 200);
AT(struct vma_cq_moderation_attr, cq_moderation_count, 0);
AT(struct vma_cq_moderation_attr, cq_moderation_period_usec, 4);
SIZE(struct vma_cq_moderation_attr, 8);
AT(struct vma_modify_ring_attr, comp_bit_mask, 0);
AT(struct vma_modify_ring_attr, ring_fd, 4);
AT(struct vma_modify_ring_attr, cq_moderation, 8);
SIZE(struct vma_modify_ring_attr, 16);
AT(struct vma_cmsg_ioctl_user_alloc_t, flags, 0);
AT(struct vma_cmsg_ioctl_user_alloc_t, memalloc, 1);
AT(struct vma_cmsg_ioctl_user_alloc_t, memfree, 9);
SIZE(struct vma_cmsg_ioctl_user_alloc_t, 17);

AT(struct vma_api_t, register_recv_callback, 0);
AT(struct vma_api_t, recvfrom_zcopy, 8);
AT(struct vma_api_t, free_packets, 16);
AT(struct vma_api_t, add_conf_rule, 24);
AT(struct vma_api_t, thread_offload, 32);
AT(struct vma_api_t, socketxtreme_poll, 40);
AT(struct vma_api_t, get_socket_rings_num, 48);
AT(struct vma_api_t, get_socket_rings_fds, 56);
AT(struct vma_api_t, get_socket_tx_ring_fd, 64);
AT(struct vma_api_t, socketxtreme_free_vma_packets, 72);
AT(struct vma_api_t, socketxtreme_ref_vma_buff, 80);
AT(struct vma_api_t, socketxtreme_free_vma_buff, 88);
AT(struct vma_api_t, dump_fd_stats, 96);
AT(struct vma_api_t, vma_add_ring_profile, 104);
AT(struct vma_api_t, get_socket_network_header, 112);
AT(struct vma_api_t, get_ring_direct_descriptors, 120);
AT(struct vma_api_t, register_memory_on_ring, 128);
AT(struct vma_api_t, deregister_memory_on_ring, 136);
AT(struct vma_api_t, vma_modify_ring, 144);
AT(struct vma_api_t, vma_extra_supported_mask, 152);
AT(struct vma_api_t, ioctl, 160);
SIZE(struct vma_api_t, 168);

_Static_assert(SO_VMA_GET_API == 2800 && SO_VMA_USER_DATA == 2801, "options");
_Static_assert(SO_VMA_RING_ALLOC_LOGIC == 2810 && SO_VMA_RING_USER_MEMORY == 2811, "options");
_Static_assert(SO_VMA_FLOW_TAG == 2820 && SO_VMA_SHUTDOWN_RX == 2821, "options");
_Static_assert(CMSG_VMA_IOCTL_USER_ALLOC == 2900, "ioctl");
_Static_assert(VMA_IOCTL_USER_ALLOC_FLAG_TX == 1 && VMA_IOCTL_USER_ALLOC_FLAG_RX == 2, "ioctl");
_Static_assert(VMA_MODIFY_RING_CQ_MODERATION == 1 && VMA_MODIFY_RING_CQ_ARM == 2, "modify");
_Static_assert(VMA_HW_PP_EN == 1 && VMA_HW_PP_BURST_EN == 8, "device_cap");
_Static_assert(DATA_VALID_DEV == 0 && DATA_VALID_SQ == 1 && DATA_VALID_RQ == 2, "valid_mask");
_Static_assert(MSG_VMA_ZCOPY_FORCE == 0x01000000 && MSG_VMA_ZCOPY == 0x00040000, "flags");
_Static_assert(VMA_SND_FLAGS_DUMMY == MSG_SYN, "flags");
_Static_assert(VMA_PACKET_DROP == 0 && VMA_PACKET_RECV == 1 && VMA_PACKET_HOLD == 2, "verdicts");
_Static_assert(VMA_SOCKETXTREME_PACKET == 1ull << 32, "events");
_Static_assert(VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED == 1ull << 33, "events");
_Static_assert(RING_LOGIC_PER_INTERFACE == 0 && RING_LOGIC_PER_IP == 1, "logics");
_Static_assert(RING_LOGIC_PER_SOCKET == 10 && RING_LOGIC_PER_USER_ID == 11, "logics");
_Static_assert(RING_LOGIC_PER_THREAD == 20 && RING_LOGIC_PER_CORE == 30, "logics");
_Static_assert(RING_LOGIC_PER_CORE_ATTACH_THREADS == 31, "logics");
_Static_assert(VMA_RING_ALLOC_MASK_RING_PROFILE_KEY == 1 && VMA_RING_ALLOC_MASK_RING_USER_ID == 2 &&
		       VMA_RING_ALLOC_MASK_RING_INGRESS == 4 &&
		       VMA_RING_ALLOC_MASK_RING_ENGRESS == 8,
	       "comp_mask");
_Static_assert(VMA_RING_PACKET == 0 && VMA_RING_EXTERNAL_MEM == 1, "ring types");
_Static_assert(VMA_EXTRA_API_GET_RING_DIRECT_DESCRIPTORS == 1 << 14 &&
		       VMA_EXTRA_API_ADD_RING_PROFILE == 1 << 16 &&
		       VMA_EXTRA_API_DEREGISTER_MEMORY_ON_RING == 1 << 18 &&
		       VMA_EXTRA_API_MODIFY_RING == 1 << 20 && VMA_EXTRA_API_IOCTL == 1 << 21,
	       "15 and 19 are not used");

/* ---- the process ----------------------------------------------------------------------- */

static struct vma_api_t *api;

static int reset(void **state)
{
	fake_reset();
	fake.verdict = VERDICT_ACCELERATED;
	errno = ENOTNAM;
	api = vma_get_api();
	assert_non_null(api);
	assert_int_equal(errno, ENOTNAM);
	return 0;
}

static int udp(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_true(fd >= 0 && fd_get(fd).sk);
	return fd;
}

/* ---- discovery ------------------------------------------------------------------------- */

static void test_discovery(void **state)
{
	struct vma_api_t *got;
	socklen_t len = sizeof(got);
	int fd = udp();

	assert_ptr_equal(vma_get_api(), api);
	FAILS(getsockopt(-1, SOL_SOCKET, SO_VMA_GET_API + 1, &got, &len), EBADF);
	FAILS(getsockopt(-1, SOL_IP, SO_VMA_GET_API, &got, &len), EBADF);
	FAILS(getsockopt(-2, SOL_SOCKET, SO_VMA_GET_API, &got, &len), EBADF);
	FAILS(getsockopt(-1, SOL_SOCKET, SO_VMA_GET_API, bad_page(), &len), EFAULT);
	FAILS(getsockopt(-1, SOL_SOCKET, SO_VMA_GET_API, &got, bad_page()), EFAULT);
	len = sizeof(got) - 1;
	FAILS(getsockopt(-1, SOL_SOCKET, SO_VMA_GET_API, &got, &len), EINVAL);
	close(fd);
}

/* Each function with a clear bit fails, and no other. */
static void test_mask(void **state)
{
	uint64_t mask = api->vma_extra_supported_mask;

	assert_false(mask & VMA_EXTRA_API_SOCKETXTREME_POLL);
	FAILS(api->socketxtreme_poll(0, NULL, 0, 0), EOPNOTSUPP);
	assert_false(mask & VMA_EXTRA_API_SOCKETXTREME_FREE_VMA_PACKETS);
	FAILS(api->socketxtreme_free_vma_packets(NULL, 0), EOPNOTSUPP);
	assert_false(mask & VMA_EXTRA_API_SOCKETXTREME_REF_VMA_BUFF);
	FAILS(api->socketxtreme_ref_vma_buff(NULL), EOPNOTSUPP);
	assert_false(mask & VMA_EXTRA_API_SOCKETXTREME_FREE_VMA_BUFF);
	FAILS(api->socketxtreme_free_vma_buff(NULL), EOPNOTSUPP);
	assert_false(mask & VMA_EXTRA_API_GET_RING_DIRECT_DESCRIPTORS);
	FAILS(api->get_ring_direct_descriptors(0, NULL), EOPNOTSUPP);
	assert_false(mask & VMA_EXTRA_API_REGISTER_MEMORY_ON_RING);
	FAILS(api->register_memory_on_ring(0, NULL, 0, NULL), EOPNOTSUPP);
	assert_false(mask & VMA_EXTRA_API_DEREGISTER_MEMORY_ON_RING);
	FAILS(api->deregister_memory_on_ring(0, NULL, 0), EOPNOTSUPP);
	assert_false(mask & VMA_EXTRA_API_MODIFY_RING);
	FAILS(api->vma_modify_ring(NULL), EOPNOTSUPP);
	assert_int_equal(mask, 0x213c3f);
}

/* ---- socketxtreme ------------------------------------------------------------------------ */

/* A poll that accepts: what waits there, if there is a descriptor for it. */
static void await_connection(int ring, struct vma_completion_t *c)
{
	static const int errors[] = {EMFILE, ENFILE};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	fake.listener = fd_get(fd).sk ? fd_get(fd) : (struct sock_ref){NULL, 0};
	for (unsigned i = 0; i < 2; i++) {
		fake.ops = 0;
		fake.rc_after = 1; /* accept(), behind the poll */
		fake.rc = -errors[i];
		FAILS(api->socketxtreme_poll(ring, c, 1, 0), errors[i]);
		assert_string_equal(fake.op, "xtreme_again"); /* it goes on waiting */
	}
	fake.rc_after = INT_MAX;
	fake.on_accept = true;
	assert_int_equal(api->socketxtreme_poll(ring, c, 1, 0), 1);
	assert_int_equal(c->events, VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED);
	assert_int_equal(c->listen_fd, 99);
	assert_int_equal(c->flow_tag, 0);
	assert_non_null(fd_get((int)c->user_data).sk);
	close((int)c->user_data);
	fake.listener.sk = NULL;
	close(fd);
}

static void test_xtreme(void **state)
{
	struct vma_completion_t c[2] = {0};
	struct vma_buff_t buff;
	int fd = udp(), ring;

	params.socketxtreme = true;
	assert_int_equal(vma_get_api()->vma_extra_supported_mask, 0x213c3f | 0x3c0);
	assert_ptr_equal(vma_get_api()->socketxtreme_poll, api->socketxtreme_poll);
	fake.n_rings = 1;
	assert_int_equal(api->get_socket_rings_fds(fd, &ring, 1), 1);
	errno = ENOTNAM;
	assert_int_equal(api->socketxtreme_poll(ring, c, 2, 0), 0);
	assert_int_equal(errno, ENOTNAM);
	assert_string_equal(fake.op, "xtreme_poll");
	assert_int_equal(fake.arg, 5);
	FAILS(api->socketxtreme_poll(fd, c, 2, 0), EBADFD);
	FAILS(api->socketxtreme_poll(-1, c, 2, 0), EBADFD);
	FAILS(api->socketxtreme_poll(ring, NULL, 1, 0), EFAULT);
	FAILS(api->socketxtreme_poll(ring, bad_page(), 1, 0), EFAULT);
	assert_int_equal(api->socketxtreme_poll(ring, NULL, 0, 0), 0);
	c[0].packet.buff_lst = &buff; /* none of ours */
	FAILS(api->socketxtreme_free_vma_packets(&c[0].packet, 1), EINVAL);
	FAILS(api->socketxtreme_free_vma_buff(&buff), EINVAL);
	FAILS(api->socketxtreme_free_vma_packets(NULL, 1), EINVAL);
	FAILS(api->socketxtreme_free_vma_packets(&c[0].packet, -1), EINVAL);
	FAILS(api->socketxtreme_free_vma_packets(bad_page(), 1), EFAULT);
	assert_int_equal(api->socketxtreme_ref_vma_buff(&buff), 2);
	fake.rc_after = 0;
	fake.rc = -EINVAL;
	FAILS(api->socketxtreme_ref_vma_buff(&buff), EINVAL);
	await_connection(ring, c);
	close(ring); /* a closed descriptor is none of a ring */
	FAILS(api->socketxtreme_poll(ring, c, 2, 0), EBADFD);
	params.socketxtreme = false;
	FAILS(api->socketxtreme_free_vma_buff(&buff), EOPNOTSUPP);
	close(fd);
}

/* ---- receiving ------------------------------------------------------------------------- */

static vma_recv_callback_retval_t callback(int fd, size_t n, struct iovec *iov,
					   struct vma_info_t *info, void *context)
{
	return VMA_PACKET_RECV;
}

static void test_callback(void **state)
{
	int fd = udp(), other = sys_socket(AF_INET, SOCK_DGRAM, 0);

	errno = ENOTNAM;
	assert_int_equal(api->register_recv_callback(fd, callback, &fd), 0);
	assert_int_equal(errno, ENOTNAM);
	assert_string_equal(fake.op, "set_callback");
	assert_int_equal(fake.arg, fd);
	assert_ptr_equal(fake.name, &fd);
	FAILS(api->register_recv_callback(other, callback, NULL), EINVAL);
	FAILS(api->register_recv_callback(-1, callback, NULL), EINVAL);
	fake.rc_after = 0;
	fake.rc = -EOPNOTSUPP;
	FAILS(api->register_recv_callback(fd, callback, NULL), EOPNOTSUPP);
	fake.rc = -ENOMEM;
	FAILS(api->register_recv_callback(fd, callback, NULL), ENOMEM);
	fake.rc = SOCK_KERNEL;
	FAILS(api->register_recv_callback(fd, callback, NULL), EINVAL);
	fake.verdict = VERDICT_RULE;
	FAILS(api->register_recv_callback(fd, callback, NULL), EINVAL);
	close(fd);
	close(other);
}

static void test_zcopy(void **state)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char buf[64];
	int fd = udp(), flags = MSG_DONTWAIT;

	assert_int_equal(api->recvfrom_zcopy(fd, buf, sizeof(buf), &flags, (struct sockaddr *)&from,
					     &len),
			 100);
	assert_int_equal(flags, MSG_DONTWAIT | MSG_VMA_ZCOPY);
	assert_int_equal(fake.flags, MSG_DONTWAIT);
	assert_int_equal(len, 16);
	assert_int_equal(from.sin_family, 0x5a5a);
	FAILS(api->recvfrom_zcopy(fd, buf, sizeof(buf), bad_page(), NULL, NULL), EFAULT);
	FAILS(api->recvfrom_zcopy(fd, buf, sizeof(buf), &flags, bad_page(), &len), EFAULT);
	fake.rc_after = 0;
	fake.rc = -ENOBUFS;
	flags = MSG_VMA_ZCOPY | MSG_VMA_ZCOPY_FORCE;
	FAILS(api->recvfrom_zcopy(fd, buf, 8, &flags, NULL, NULL), ENOBUFS);
	assert_int_equal(flags, 0);
	close(fd);
}

/* What can only be copied: copies, or fails with FORCE. */
static void test_zcopy_copies(void **state)
{
	char buf[16];
	int fd = udp(), flags = MSG_PEEK, pair[2];

	assert_int_equal(api->recvfrom_zcopy(fd, buf, sizeof(buf), &flags, NULL, NULL), 16);
	assert_string_equal(fake.op, "recv");
	assert_int_equal(fake.flags, MSG_PEEK);
	assert_int_equal(flags, MSG_PEEK);
	flags = MSG_PEEK | MSG_VMA_ZCOPY_FORCE;
	FAILS(api->recvfrom_zcopy(fd, buf, sizeof(buf), &flags, NULL, NULL), EIO);
	close(fd);
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	assert_int_equal(write(pair[0], "hello", 5), 5);
	flags = MSG_VMA_ZCOPY_FORCE;
	FAILS(api->recvfrom_zcopy(pair[1], buf, sizeof(buf), &flags, NULL, NULL), EIO);
	flags = 0;
	assert_int_equal(api->recvfrom_zcopy(pair[1], buf, sizeof(buf), &flags, NULL, NULL), 5);
	assert_int_equal(flags, 0);
	close(pair[0]);
	close(pair[1]);
}

/* Two struct vma_packet_t, the first one with two pieces. */
struct __attribute__((packed)) two {
	void *first_id;
	size_t first_sz;
	struct iovec pieces[2];
	void *second_id;
	size_t second_sz;
	struct iovec piece;
};

static void test_free_packets(void **state)
{
	struct two two = {.first_id = (void *)1, .first_sz = 2, .second_id = (void *)2};
	struct vma_packet_t *first = (struct vma_packet_t *)(void *)&two;
	int fd = udp(), ops;

	assert_int_equal(api->free_packets(fd, first, 2), 0);
	assert_int_equal(fake.ops, 2);
	assert_ptr_equal(fake.name, (void *)2);
	assert_int_equal(api->free_packets(fd, NULL, 0), 0);
	FAILS(api->free_packets(-1, NULL, 0), EINVAL);
	FAILS(api->free_packets(fd, bad_page(), 1), EFAULT);
	ops = fake.ops;
	two.first_sz = SIZE_MAX / 4; /* no number of pieces leads out of the address space */
	FAILS(api->free_packets(fd, first, 2), EFAULT);
	two.first_sz = 1ul << 50;
	FAILS(api->free_packets(fd, first, 2), EFAULT);
	assert_int_equal(fake.ops, ops + 1);
	two.first_sz = 2;
	fake.rc_after = 0;
	fake.rc = -ENOENT;
	ops = fake.ops;
	FAILS(api->free_packets(fd, first, 2), ENOENT);
	assert_int_equal(fake.ops, ops + 2); /* the second one is freed, too */
	FAILS(api->free_packets(-1, first, 2), EINVAL);
	close(fd);
}

/* ---- rings --------------------------------------------------------------------------------- */

static void test_rings(void **state)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	int fd = udp(), fds[3] = {-1, -1, -1}, again, other;

	assert_int_equal(api->get_socket_rings_num(fd), 0);
	assert_int_equal(api->get_socket_rings_fds(fd, fds, 3), 0);
	fake.n_rings = 2;
	errno = ENOTNAM;
	assert_int_equal(api->get_socket_rings_num(fd), 2);
	assert_int_equal(api->get_socket_rings_num(-1), 0);
	assert_int_equal(api->get_socket_rings_fds(fd, fds, 3), 2);
	assert_int_equal(errno, ENOTNAM);
	assert_string_equal(fake.op, "epoll_ctl");
	assert_int_equal(fake.ops, 2);
	assert_int_equal(fd_get(fds[0]).sk->type, SOCK_TYPE_EPOLL);
	assert_int_not_equal(fds[0], fds[1]);
	assert_int_equal(fds[2], -1);
	assert_int_equal(fcntl(fds[0], F_GETFD), FD_CLOEXEC);

	/* The same ring has the same descriptor, until the program closes it. */
	assert_int_equal(api->get_socket_rings_fds(fd, &again, 1), 1);
	assert_int_equal(again, fds[0]);
	assert_int_equal(api->get_socket_tx_ring_fd(fd, (struct sockaddr *)&to, sizeof(to)), again);
	assert_int_equal(close(again), 0);
	other = epoll_create1(0); /* another set has its number */
	assert_int_equal(other, fds[0]);
	assert_int_equal(api->get_socket_rings_fds(fd, &again, 1), 1);
	assert_int_not_equal(again, other);
	close(other);
	close(again);
	close(fds[1]);
	close(fd);
}

/* With a card. */
static void test_direct(void **state)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct vma_ring_type_attr type = {.ring_type = VMA_RING_EXTERNAL_MEM};
	struct vma_mlx_hw_device_data hw = {0};
	struct vma_modify_ring_attr attr = {.comp_bit_mask = 1};
	int fd = udp(), ring, again, ends[2], key = 0;
	struct vma_completion_t c;
	uint32_t lkey = 0;

	assert_int_equal(pipe(ends), 0);
	fake.card = true;
	fake.card_fd = ends[0];
	fake.life = 4;
	assert_int_equal(api->vma_add_ring_profile(&type, &key), 0);
	assert_int_equal(key, 3);
	assert_int_equal(fake.arg, VMA_RING_EXTERNAL_MEM);
	FAILS(api->vma_add_ring_profile(bad_page(), &key), EFAULT);
	FAILS(api->vma_add_ring_profile(&type, bad_page()), EFAULT);
	fake.n_rings = 1;
	fake.number = SOCK_RING_NUMBERS + 2;
	ring = api->get_socket_tx_ring_fd(fd, (struct sockaddr *)&to, sizeof(to));
	assert_true(ring >= 0);
	assert_int_equal(api->get_socket_tx_ring_fd(fd, (struct sockaddr *)&to, sizeof(to)), ring);
	assert_int_equal(api->get_ring_direct_descriptors(ring, &hw), 0);
	assert_int_equal(hw.valid_mask, 3);
	assert_int_equal(fake.arg, fake.number);
	FAILS(api->get_ring_direct_descriptors(ring, bad_page()), EFAULT);
	assert_int_equal(api->register_memory_on_ring(ring, &hw, 9, &lkey), 0);
	assert_int_equal(lkey, 77);
	assert_int_equal(fake.bytes, 9);
	FAILS(api->register_memory_on_ring(ring, &hw, 8, bad_page()), EFAULT);
	assert_string_equal(fake.op, "deregister"); /* what the program does not know of */
	assert_int_equal(api->deregister_memory_on_ring(ring, &hw, 9), 0);
	attr.ring_fd = ring;
	attr.cq_moderation.cq_moderation_count = 12;
	assert_int_equal(api->vma_modify_ring(&attr), 0);
	assert_int_equal(fake.bytes, 12);
	FAILS(api->vma_modify_ring(bad_page()), EFAULT);
	attr.ring_fd = fd;
	FAILS(api->vma_modify_ring(&attr), EBADFD);
	params.socketxtreme = true;
	FAILS(api->socketxtreme_poll(ring, &c, 1, 0), EBADFD);
	params.socketxtreme = false;
	/* The number has another life: the old descriptor does not name it. */
	fake.life = 5;
	again = api->get_socket_tx_ring_fd(fd, (struct sockaddr *)&to, sizeof(to));
	assert_true(again >= 0 && again != ring);
	FAILS(api->register_memory_on_ring(ring, &hw, 9, &lkey), EBADFD);
	assert_int_equal(api->register_memory_on_ring(again, &hw, 9, &lkey), 0);
	/* It has ended. */
	fake.life = 0;
	FAILS(api->get_socket_tx_ring_fd(fd, (struct sockaddr *)&to, sizeof(to)), ENODEV);
	/* Another ring is none that the program may post to. */
	assert_int_equal(api->get_socket_rings_fds(fd, &key, 1), 1);
	FAILS(api->get_ring_direct_descriptors(key, &hw), EOPNOTSUPP);
	FAILS(api->register_memory_on_ring(key, &hw, 9, &lkey), EOPNOTSUPP);
	FAILS(api->deregister_memory_on_ring(key, &hw, 9), EOPNOTSUPP);
	attr.ring_fd = key;
	assert_int_equal(api->vma_modify_ring(&attr), 0);
	close(ring);
	close(again);
	close(key);
	close(fd);
	close(ends[0]);
	close(ends[1]);
}

/* ---- memory for frames --------------------------------------------------------------------- */

static int user_alloc(size_t len, int level, int type, size_t cmsg_len, unsigned flags,
		      void *(*get)(size_t), void (*put)(void *))
{
	struct vma_cmsg_ioctl_user_alloc_t data = {
		.flags = (uint8_t)flags, .memalloc = get, .memfree = put};
	struct cmsghdr head = {.cmsg_len = cmsg_len, .cmsg_level = level, .cmsg_type = type};
	_Alignas(struct cmsghdr) char ask[CMSG_SPACE(sizeof(data))] = {0};

	memcpy(ask, &head, sizeof(head));
	memcpy(ask + CMSG_LEN(0), &data, sizeof(data));
	return api->ioctl(ask, len);
}

static void test_user_alloc(void **state)
{
	const size_t len = CMSG_LEN(sizeof(struct vma_cmsg_ioctl_user_alloc_t));
	const int type = CMSG_VMA_IOCTL_USER_ALLOC;

	FAILS(user_alloc(len - 1, SOL_SOCKET, type, len, 1, malloc, free), EINVAL);
	FAILS(user_alloc(len, SOL_SOCKET, type, len - 1, 1, malloc, free), EINVAL);
	FAILS(user_alloc(len, SOL_SOCKET, type, len + 1, 1, malloc, free), EINVAL);
	FAILS(user_alloc(len, SOL_IP, type, len, 1, malloc, free), EINVAL);
	FAILS(user_alloc(len, SOL_SOCKET, type + 1, len, 1, malloc, free), EINVAL);
	FAILS(user_alloc(len, SOL_SOCKET, type, len, 0, malloc, free), EINVAL);
	FAILS(user_alloc(len, SOL_SOCKET, type, len, 4, malloc, free), EINVAL);
	FAILS(user_alloc(len, SOL_SOCKET, type, len, 1, NULL, free), EINVAL);
	FAILS(user_alloc(len, SOL_SOCKET, type, len, 2, malloc, NULL), EINVAL);
	FAILS(api->ioctl(bad_page(), len), EFAULT);
	FAILS(api->ioctl(NULL, 0), EINVAL);
	errno = ENOTNAM;
	assert_int_equal(user_alloc(len, SOL_SOCKET, type, len, 3, malloc, free), 0);
	assert_int_equal(user_alloc(len + 7, SOL_SOCKET, type, len, 1, malloc, free), 0);
	assert_int_equal(errno, ENOTNAM);
	assert_true(frame_mem_is_users());
	FAILS(user_alloc(len, SOL_SOCKET, type, len, 1, malloc, free), EINVAL); /* too late */
}

static void test_rings_refused(void **state)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct sockaddr *name = (struct sockaddr *)&to;
	int fd = udp(), value = -1;
	struct rlimit limit, none;

	fake.n_rings = 1;
	FAILS(api->get_socket_rings_fds(fd, NULL, 1), EINVAL);
	FAILS(api->get_socket_rings_fds(fd, &value, 0), EINVAL);
	FAILS(api->get_socket_rings_fds(fd, &value, -1), EINVAL);
	FAILS(api->get_socket_rings_fds(fd, bad_page(), 1), EFAULT);
	FAILS(api->get_socket_tx_ring_fd(fd, NULL, sizeof(to)), EINVAL);
	FAILS(api->get_socket_tx_ring_fd(fd, name, 1000), EINVAL);
	FAILS(api->get_socket_tx_ring_fd(fd, bad_page(), sizeof(to)), EFAULT);
	FAILS(api->get_socket_tx_ring_fd(-1, name, sizeof(to)), EINVAL);
	assert_int_equal(api->get_socket_rings_fds(fd, &value, 1), 1);
	fake.rc_after = 0;
	fake.rc = -ENOSYS;
	FAILS(api->get_socket_tx_ring_fd(fd, name, sizeof(to)), ENOSYS);
	fake.rc = -ENOMEM; /* of epoll_control() */
	FAILS(api->get_socket_rings_fds(fd, &value, 1), ENOMEM);
	fake.rc = -EEXIST;
	assert_int_equal(api->get_socket_rings_fds(fd, &value, 1), 1);
	close(value);
	getrlimit(RLIMIT_NOFILE, &limit);
	none = (struct rlimit){0, limit.rlim_max};
	setrlimit(RLIMIT_NOFILE, &none);
	FAILS(api->get_socket_rings_fds(fd, &value, 1), EMFILE);
	setrlimit(RLIMIT_NOFILE, &limit);
	assert_int_equal(api->get_socket_rings_fds(fd, &value, 1), 1);
	close(value);
	fake.verdict = VERDICT_RULE;
	assert_int_equal(api->get_socket_rings_num(fd), 0);
	assert_int_equal(api->get_socket_rings_fds(fd, &value, 1), 0);
	FAILS(api->get_socket_tx_ring_fd(fd, name, sizeof(to)), EINVAL);
	close(fd);
}

/* A child has rings of its own: the descriptors that it inherits are not theirs. */
static void test_rings_after_fork(void **state)
{
	int fd = udp(), value, status;
	pid_t pid;

	fake.n_rings = 1;
	assert_int_equal(api->get_socket_rings_fds(fd, &value, 1), 1);
	pid = fork();
	if (!pid) {
		int ours = udp(), mine = -1;

		_exit(api->get_socket_rings_fds(ours, &mine, 1) != 1 || mine == value);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(value);
	close(fd);
}

/* ---- the rest ------------------------------------------------------------------------------ */

static void test_rule(void **state)
{
	char line[] = "use os udp_sender *:*";

	assert_int_equal(api->add_conf_rule(line), 0);
	assert_ptr_equal(fake.name, line);
	fake.rc_after = 0;
	fake.rc = -EINVAL;
	assert_int_equal(api->add_conf_rule(line), EINVAL);
	assert_int_equal(errno, EINVAL);
}

static void test_dump(void **state)
{
	int fd = udp();

	assert_int_equal(api->dump_fd_stats(fd, 3), 0);
	assert_int_equal(fake.arg, fd << 8 | 3);
	assert_int_equal(api->dump_fd_stats(0, 5), 0);
	FAILS(api->dump_fd_stats(-1, 3), EINVAL);
	FAILS(api->dump_fd_stats(fd, 9), EINVAL);
	FAILS(api->dump_fd_stats(fd, -2), EINVAL);
	FAILS(api->dump_fd_stats(fd + 1, 3), EINVAL);
	close(fd);
}

static void test_headers(void **state)
{
	uint8_t header[64] = {0};
	uint16_t len = 0;
	int fd = udp();

	assert_int_equal(api->get_socket_network_header(fd, NULL, &len), 0);
	assert_int_equal(len, 42);
	assert_int_equal(api->get_socket_network_header(fd, header, &len), 0);
	assert_int_equal(header[41], 0x11);
	assert_int_equal(header[42], 0);
	len = 41;
	FAILS(api->get_socket_network_header(fd, header, &len), ENOBUFS);
	FAILS(api->get_socket_network_header(fd, header, bad_page()), EFAULT);
	len = 64;
	FAILS(api->get_socket_network_header(fd, bad_page(), &len), EFAULT);
	FAILS(api->get_socket_network_header(-1, header, &len), EINVAL);
	fake.rc_after = 0;
	fake.rc = -ENOTCONN;
	FAILS(api->get_socket_network_header(fd, header, &len), ENOTCONN);
	fake.rc = SOCK_KERNEL;
	FAILS(api->get_socket_network_header(fd, header, &len), EINVAL);
	close(fd);
}

/* ---- thread_offload() ------------------------------------------------------------------- */

static bool makes_ours(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), epfd = epoll_create1(0);
	bool is = fd_get(fd).sk != NULL;

	assert_int_equal(fd_get(epfd).sk != NULL, is);
	close(fd);
	close(epfd);
	return is;
}

static pthread_barrier_t barrier;

static void *other_thread(void *arg)
{
	bool *ours = arg;

	pthread_barrier_wait(&barrier); /* it exists */
	pthread_barrier_wait(&barrier); /* the setting was made */
	ours[0] = makes_ours();
	ours[1] = makes_ours();
	pthread_barrier_wait(&barrier); /* another setting may be made */
	pthread_barrier_wait(&barrier);
	ours[2] = makes_ours();
	return NULL;
}

static void test_offload_by_thread(void **state)
{
	bool ours[3];
	pthread_t tid;

	assert_true(makes_ours());
	assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
	assert_int_equal(pthread_create(&tid, NULL, other_thread, ours), 0);
	pthread_barrier_wait(&barrier);
	assert_int_equal(api->thread_offload(1, tid), 0);
	assert_int_equal(api->thread_offload(0, tid), 0); /* the last one counts */
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	assert_true(makes_ours()); /* this thread is not concerned */
	assert_int_equal(api->thread_offload(1, tid), 0);
	pthread_barrier_wait(&barrier);
	assert_int_equal(pthread_join(tid, NULL), 0);
	assert_false(ours[0]);
	assert_false(ours[1]);
	assert_true(ours[2]);
}

static void test_offload_against_the_parameter(void **state)
{
	params.offloaded_sockets = false;
	assert_false(makes_ours());
	assert_int_equal(api->thread_offload(1, pthread_self()), 0);
	assert_true(makes_ours());
	params.offloaded_sockets = true;
	assert_int_equal(api->thread_offload(0, pthread_self()), 0);
	assert_false(makes_ours());
	assert_int_equal(api->thread_offload(1, pthread_self()), 0);
}

/* The child's thread is as its parent's; the API is at the same place. */
static void test_offload_after_fork(void **state)
{
	int status;
	pid_t pid;

	assert_int_equal(api->thread_offload(0, pthread_self()), 0);
	pid = fork();
	if (!pid)
		_exit(vma_get_api() == api && !makes_ours() ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(api->thread_offload(1, pthread_self()), 0);
	assert_true(makes_ours());
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_discovery, reset),
	cmocka_unit_test_setup(test_mask, reset),
	cmocka_unit_test_setup(test_xtreme, reset),
	cmocka_unit_test_setup(test_callback, reset),
	cmocka_unit_test_setup(test_zcopy, reset),
	cmocka_unit_test_setup(test_zcopy_copies, reset),
	cmocka_unit_test_setup(test_free_packets, reset),
	cmocka_unit_test_setup(test_rings, reset),
	cmocka_unit_test_setup(test_direct, reset),
	cmocka_unit_test_setup(test_user_alloc, reset),
	cmocka_unit_test_setup(test_rings_refused, reset),
	cmocka_unit_test_setup(test_rings_after_fork, reset),
	cmocka_unit_test_setup(test_rule, reset),
	cmocka_unit_test_setup(test_dump, reset),
	cmocka_unit_test_setup(test_headers, reset),
	cmocka_unit_test_setup(test_offload_by_thread, reset),
	cmocka_unit_test_setup(test_offload_against_the_parameter, reset),
	cmocka_unit_test_setup(test_offload_after_fork, reset),
};

VMA_TEST_MAIN("extra", tests, NULL, NULL)
