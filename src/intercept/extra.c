/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of the extra API. A function checks what the program gave it, calls the socket layer,
 * and converts the result as the wrappers of libc calls do.
 */
#include "intercept/extra.h"

#include <mellanox/vma_extra.h>
#include <pthread.h>
#include <string.h>
#include <vma/vma.h>

#include "base/log.h"
#include "base/user.h"
#include "intercept/io.h"
#include "intercept/wrap.h"
#include "sock/core/extra/sock_extra.h"
#include "sock/core/extra/xtreme.h"

struct sock_ref extra_served(int fd)
{
	struct sock_ref ref = sock_get(fd);
	enum verdict verdict = ref.sk ? sock_verdict(ref.sk) : VERDICT_FAMILY;

	if (verdict != VERDICT_ACCELERATED && verdict != VERDICT_LOCAL &&
	    verdict != VERDICT_UNDECIDED)
		ref.sk = NULL;
	return ref;
}

/* ---- receiving -------------------------------------------------------------------------- */

static int register_recv_callback(int fd, vma_recv_callback_t callback, void *context)
{
	struct sock_ref ref = extra_served(fd);
	int saved = errno, rc;

	if (!ref.sk)
		return extra_failed(EINVAL);
	rc = sock_set_callback(ref, fd, callback, context);
	if (rc == SOCK_KERNEL || rc == -EBADF)
		return extra_failed(EINVAL);
	return (int)to_libc(rc, saved);
}

/* As recvfrom(), which copies. */
static int recv_copy(int fd, void *buf, size_t len, int *flags, bool force, struct sockaddr *from,
		     socklen_t *from_len)
{
	ssize_t n;

	if (force)
		return extra_failed(EIO);
	n = recvfrom(fd, buf, len, *flags, from, from_len);
	return n > INT32_MAX ? INT32_MAX : (int)n;
}

static ssize_t recv_zcopy(struct sock_ref ref, void *buf, size_t len, int *flags, bool force,
			  struct sockaddr *from, socklen_t *from_len)
{
	struct iovec iov = iov_of(buf, len);
	struct sockaddr_storage name;
	struct sock_zcopy zcopy = {
		.msg = {.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_name = from ? &name : NULL,
			.msg_namelen = from ? sizeof(name) : 0},
		.force = force,
	};
	ssize_t n;
	int bad;

	if (!mem_is_users(buf))
		return -EFAULT;
	n = sock_recv_zcopy(ref, &zcopy, *flags & MSG_DONTWAIT);
	if (n < 0)
		return n;
	if (zcopy.done)
		*flags |= MSG_VMA_ZCOPY;
	bad = from ? user_write_address(from, from_len, (struct sockaddr *)&name,
					zcopy.msg.msg_namelen)
		   : 0;
	return bad ? bad : n;
}

static int recvfrom_zcopy(int fd, void *buf, size_t len, int *flags, struct sockaddr *from,
			  socklen_t *from_len)
{
	struct sock_ref ref = extra_served(fd);
	int saved = errno, ours;
	bool force;
	ssize_t n;

	if (!may_have_ours())
		ours = *flags;
	else if (user_read(&ours, flags, sizeof(ours)))
		return extra_failed(EFAULT);
	force = ours & MSG_VMA_ZCOPY_FORCE;
	ours &= ~(MSG_VMA_ZCOPY_FORCE | MSG_VMA_ZCOPY);
	*flags = ours;
	if (!ref.sk || (ours & ~MSG_DONTWAIT))
		return recv_copy(fd, buf, len, &ours, force, from, from_len);
	n = recv_zcopy(ref, buf, len, &ours, force, from, from_len);
	if (n == SOCK_KERNEL)
		return recv_copy(fd, buf, len, &ours, force, from, from_len);
	*flags = ours;
	return (int)to_libc(n, saved);
}

/* The variable-size struct vma_packet_t at *at: its id, and where the next one begins. */
static bool read_packet(struct vma_packet_t **at, void **id)
{
	struct vma_packet_t packet;
	size_t size;

	if (!user_copy(&packet, *at, sizeof(packet)))
		return false;
	if (__builtin_mul_overflow(packet.sz_iov, sizeof(struct iovec), &size))
		return false;
	*id = packet.packet_id;
	*at = (struct vma_packet_t *)((uintptr_t)*at + sizeof(packet) + size);
	return true;
}

static int free_packets(int fd, struct vma_packet_t *packets, size_t count)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno, rc = 0;
	void *id;

	if (!may_have_ours())
		return extra_failed(EINVAL);
	for (size_t i = 0; i < count; i++) {
		if (!read_packet(&packets, &id))
			return extra_failed(EFAULT);
		if (sock_free_packet(id, ref))
			rc = ref.sk ? -ENOENT : -EINVAL;
	}
	if (!count && !ref.sk)
		rc = -EINVAL;
	return (int)to_libc(rc, saved);
}

/* ---- socketxtreme ------------------------------------------------------------------------- */

/* Without VMA_SOCKETXTREME. */
#define NEEDS_XTREME(name)                                 \
	do {                                               \
		static int told;                           \
		if (!params.socketxtreme)                  \
			return refuse_xtreme(name, &told); \
	} while (0)

static int refuse_xtreme(const char *name, int *told)
{
	if (!__atomic_exchange_n(told, 1, __ATOMIC_RELAXED))
		log_warn("%s() of the extra API needs VMA_SOCKETXTREME=1; it fails with EOPNOTSUPP",
			 name);
	return extra_failed(EOPNOTSUPP);
}

static int socketxtreme_poll(int fd, struct vma_completion_t *completions, unsigned int n,
			     int flags)
{
	int saved = errno;

	(void)flags; /* there are none */
	NEEDS_XTREME("socketxtreme_poll");
	return (int)to_libc(extra_xtreme_poll(fd, completions, n), saved);
}

static int socketxtreme_free_vma_packets(struct vma_packet_desc_t *packets, int num)
{
	NEEDS_XTREME("socketxtreme_free_vma_packets");
	return extra_xtreme_free_packets(packets, num);
}

static int socketxtreme_ref_vma_buff(struct vma_buff_t *buff)
{
	int saved = errno;

	NEEDS_XTREME("socketxtreme_ref_vma_buff");
	return (int)to_libc(buff_get(buff), saved);
}

static int socketxtreme_free_vma_buff(struct vma_buff_t *buff)
{
	int saved = errno;

	NEEDS_XTREME("socketxtreme_free_vma_buff");
	return (int)to_libc(buff_put(buff), saved);
}

/* ---- rings ------------------------------------------------------------------------------ */

static int get_socket_rings_num(int fd)
{
	struct sock_ref ref = extra_served(fd);
	unsigned numbers[EXTRA_RINGS_MAX];

	return ref.sk ? (int)sock_ring_numbers(ref.sk, numbers, EXTRA_RINGS_MAX) : 0;
}

static int get_socket_rings_fds(int fd, int *ring_fds, int ring_fds_sz)
{
	struct sock_ref ref = extra_served(fd);
	int saved = errno, fds[EXTRA_RINGS_MAX], n;

	if (!ring_fds || ring_fds_sz <= 0)
		return extra_failed(EINVAL);
	if (!ref.sk)
		return 0;
	n = extra_rings_fds(ref, fd, fds, (unsigned)ring_fds_sz);
	if (n > 0 && user_write(ring_fds, fds, (size_t)n * sizeof(*fds)))
		n = -EFAULT;
	return (int)to_libc(n, saved);
}

static int get_socket_tx_ring_fd(int fd, struct sockaddr *to, socklen_t len)
{
	struct sock_ref ref = extra_served(fd);
	struct sockaddr_storage name;
	int saved = errno, rc;

	if (!ref.sk)
		return extra_failed(EINVAL);
	if (!to || len > sizeof(name))
		return extra_failed(EINVAL);
	if (user_read(&name, to, len))
		return extra_failed(EFAULT);
	rc = sock_tx_ring_number(ref, (struct sockaddr *)&name, len);
	if (rc >= 0)
		rc = extra_ring_fd((unsigned)rc);
	return (int)to_libc(rc, saved);
}

/* ---- rules, threads, what is known ------------------------------------------------------ */

static int add_conf_rule(char *line)
{
	int rc;

	start();
	rc = sock_add_rule(line);
	if (rc)
		errno = -rc;
	return -rc;
}

static int thread_offload(int offload, pthread_t tid)
{
	int rc;

	start();
	rc = extra_set_offload(offload, tid);
	if (rc)
		errno = -rc;
	return -rc;
}

static int dump_fd_stats(int fd, int level)
{
	int saved = errno, rc;

	if (fd < 0 || level < LOG_NONE || level > LOG_ALL)
		return extra_failed(EINVAL);
	if (fd && !extra_served(fd).sk)
		return extra_failed(EINVAL);
	rc = sock_dump(fd, level);
	return (int)to_libc(rc, saved);
}

static int get_socket_network_header(int fd, void *ptr, uint16_t *len)
{
	struct sock_ref ref = extra_served(fd);
	uint8_t header[SOCK_HEADERS_MAX];
	int saved = errno, n;
	uint16_t room;

	if (!ref.sk)
		return extra_failed(EINVAL);
	if (user_read(&room, len, sizeof(room)))
		return extra_failed(EFAULT);
	n = sock_headers(ref, header);
	if (n == SOCK_KERNEL || n == -EBADF)
		return extra_failed(EINVAL);
	if (n < 0)
		return extra_failed(-n);
	if (ptr && room < n)
		return extra_failed(ENOBUFS);
	room = (uint16_t)n;
	if ((ptr && user_write(ptr, header, room)) || user_write(len, &room, sizeof(room)))
		return extra_failed(EFAULT);
	errno = saved;
	return 0;
}

/* ---- the table -------------------------------------------------------------------------- */

#define XTREME_MASK                                                                      \
	(VMA_EXTRA_API_SOCKETXTREME_POLL | VMA_EXTRA_API_SOCKETXTREME_FREE_VMA_PACKETS | \
	 VMA_EXTRA_API_SOCKETXTREME_REF_VMA_BUFF | VMA_EXTRA_API_SOCKETXTREME_FREE_VMA_BUFF)

static struct vma_api_t api = {
	.register_recv_callback = register_recv_callback,
	.recvfrom_zcopy = recvfrom_zcopy,
	.free_packets = free_packets,
	.add_conf_rule = add_conf_rule,
	.thread_offload = thread_offload,
	.socketxtreme_poll = socketxtreme_poll,
	.get_socket_rings_num = get_socket_rings_num,
	.get_socket_rings_fds = get_socket_rings_fds,
	.get_socket_tx_ring_fd = get_socket_tx_ring_fd,
	.socketxtreme_free_vma_packets = socketxtreme_free_vma_packets,
	.socketxtreme_ref_vma_buff = socketxtreme_ref_vma_buff,
	.socketxtreme_free_vma_buff = socketxtreme_free_vma_buff,
	.dump_fd_stats = dump_fd_stats,
	.vma_add_ring_profile = extra_add_ring_profile,
	.get_socket_network_header = get_socket_network_header,
	.get_ring_direct_descriptors = extra_direct_descriptors,
	.register_memory_on_ring = extra_register_memory,
	.deregister_memory_on_ring = extra_deregister_memory,
	.vma_modify_ring = extra_modify_ring,
	.vma_extra_supported_mask =
		VMA_EXTRA_API_REGISTER_RECV_CALLBACK | VMA_EXTRA_API_RECVFROM_ZCOPY |
		VMA_EXTRA_API_FREE_PACKETS | VMA_EXTRA_API_ADD_CONF_RULE |
		VMA_EXTRA_API_THREAD_OFFLOAD | VMA_EXTRA_API_DUMP_FD_STATS |
		VMA_EXTRA_API_GET_SOCKET_RINGS_NUM | VMA_EXTRA_API_GET_SOCKET_RINGS_FDS |
		VMA_EXTRA_API_GET_SOCKET_TX_RING_FD | VMA_EXTRA_API_GET_SOCKET_NETWORK_HEADER |
		VMA_EXTRA_API_ADD_RING_PROFILE | VMA_EXTRA_API_IOCTL,
	.ioctl = extra_ioctl,
};

static struct vma_api_t xtreme_api; /* with VMA_SOCKETXTREME=1 */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* What the mask says of cards holds for the life of the process. */
static void make_tables(void)
{
	api.vma_extra_supported_mask |= extra_direct_mask();
	xtreme_api = api;
	xtreme_api.vma_extra_supported_mask |= XTREME_MASK;
}

bool extra_get_api(int level, int name, void *val, socklen_t *len, int *rc)
{
	struct vma_api_t *table = &api;
	socklen_t room;

	if (level == SOL_SOCKET && name == SO_VMA_GET_EXT) {
		*rc = ext_get(val, len);
		return true;
	}
	if (level != SOL_SOCKET || name != SO_VMA_GET_API)
		return false;
	start(); /* the mask depends on parameters */
	pthread_once(&once, make_tables);
	if (params.socketxtreme)
		table = &xtreme_api;
	if (user_read(&room, len, sizeof(room)))
		*rc = -EFAULT;
	else if (room < sizeof(table))
		*rc = -EINVAL;
	else
		*rc = user_write(val, &table, sizeof(table));
	return true;
}
