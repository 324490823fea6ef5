/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The extra API of libvma: what a program can ask of the library beyond the socket calls.
 *
 *	#include <mellanox/vma_extra.h>
 *
 *	struct vma_api_t *api = vma_get_api();
 *
 *	if (api && api->vma_extra_supported_mask & VMA_EXTRA_API_RECVFROM_ZCOPY)
 *		...
 *
 * The program links with nothing: vma_get_api() asks the library that is preloaded, and returns
 * NULL without one.  Names, numbers and layouts are those of the original VMA 9.8, so programs
 * that were compiled with its header run unchanged.
 *
 * Every function returns -1 and sets errno when it fails, unless its comment says otherwise.  A
 * function that this process cannot use, because it needs a card, say, has a clear bit in
 * vma_extra_supported_mask; a call of it fails with EOPNOTSUPP, and the first such call is logged.
 *
 * All functions may be called by any thread, and from within a receive callback.
 */
#ifndef MELLANOX_VMA_EXTRA_H
#define MELLANOX_VMA_EXTRA_H

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- options and flags ---------------------------------------------------------------- */

/* Options of level SOL_SOCKET. */
#define SO_VMA_GET_API 2800	     /* getsockopt() of descriptor -1: see vma_get_api() */
#define SO_VMA_USER_DATA 2801	     /* socketxtreme: 64 bits, user_data of completions */
#define SO_VMA_RING_ALLOC_LOGIC 2810 /* struct vma_ring_alloc_logic_attr */
#define SO_VMA_RING_USER_MEMORY 2811 /* struct iovec: what a direct ring registers; or EINVAL */
#define SO_VMA_FLOW_TAG 2820	     /* uint32_t, told with each packet; not 0, 0xfffff: EINVAL */
#define SO_VMA_SHUTDOWN_RX 2821	     /* no value: a datagram socket receives no more; EOPNOTSUPP */

/* Flags of recvfrom_zcopy(). */
#define MSG_VMA_ZCOPY_FORCE 0x01000000 /* in: fail rather than copy */
#define MSG_VMA_ZCOPY 0x00040000       /* out: the buffer has a struct vma_packets_t */

/*
 * Flag of send calls: everything is done as for a real send up to the port, but nothing leaves and
 * nothing changes.  At most one frame.  EAGAIN: data of the connection is not acknowledged yet.
 * EMSGSIZE.  EINVAL: the kernel serves the socket, or it has no port, or the call has other flags.
 * Without the library the kernel ignores the flag, and sends: ask vma_get_api() first.
 */
#define VMA_SND_FLAGS_DUMMY 0x400 /* MSG_SYN */

/* The cmsg_type of ioctl() below. */
enum { CMSG_VMA_IOCTL_USER_ALLOC = 2900 };

/* ---- receiving ------------------------------------------------------------------------ */

/* One received packet: an opaque id for free_packets(), and where its bytes are. */
struct __attribute__((packed)) vma_packet_t {
	void *packet_id;
	size_t sz_iov;
	struct iovec iov[];
};

/* What recvfrom_zcopy() stores: packets one behind another, each with sz_iov iovecs. */
struct __attribute__((packed)) vma_packets_t {
	size_t n_packet_num;
	struct vma_packet_t pkts[];
};

/* What a receive callback is told about a packet; valid until it returns. */
struct __attribute__((packed)) vma_info_t {
	size_t struct_sz;	 /* of this struct, in bytes */
	void *packet_id;	 /* for free_packets(), if the callback returns VMA_PACKET_HOLD */
	struct sockaddr_in *src; /* a struct sockaddr_in6, if sin_family is AF_INET6 */
	struct sockaddr_in *dst;
	size_t payload_sz;			/* bytes in all iovecs */
	uint32_t socket_ready_queue_pkt_count;	/* packets that a recv() call would find */
	uint32_t socket_ready_queue_byte_count; /* their bytes */
	struct timespec hw_timestamp;		/* by the card; zero: not known */
	struct timespec sw_timestamp;		/* by the library, CLOCK_REALTIME */
	/* SO_VMA_FLOW_TAG; 0: none.  Not in the original, where struct_sz ends before it. */
	uint32_t flow_tag;
};

/* What becomes of the packet that a callback has seen. */
typedef enum {
	VMA_PACKET_DROP, /* it is freed, and recv() does not return it */
	VMA_PACKET_RECV, /* it is queued for recv(), as without a callback */
	VMA_PACKET_HOLD, /* it belongs to the program until free_packets() */
} vma_recv_callback_retval_t;

typedef vma_recv_callback_retval_t (*vma_recv_callback_t)(int fd, size_t sz_iov, struct iovec iov[],
							  struct vma_info_t *vma_info,
							  void *context);

/* ---- socketxtreme --------------------------------------------------------------------- */

/*
 * Socketxtreme, with VMA_SOCKETXTREME=1: a thread polls a ring, and gets the packets and events of all
 * its sockets.  Other calls work as well: they find what no poll has taken.
 *
 * Bits of vma_completion_t.events, beside EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLERR, EPOLLHUP, EPOLLRDHUP.
 * The latter are reported when they happen, as with EPOLLET.  EPOLLIN: recv() has something that is no
 * packet: the end of the stream, an error, urgent data.
 */
typedef enum {
	VMA_SOCKETXTREME_PACKET = (1ULL << 32),
	VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED = (1ULL << 33),
} vma_socketxtreme_events_t;

/* A buffer, and its bytes, which the program only reads while it has a reference to the buffer. */
struct vma_buff_t {
	struct vma_buff_t *next; /* of the packet; NULL: the last one */
	void *payload;
	uint16_t len;
};

/* A packet: a datagram, or some bytes of a connection, in their order. */
struct vma_packet_desc_t {
	size_t num_bufs; /* 1 */
	uint16_t total_len;
	struct vma_buff_t *buff_lst;
	struct timespec hw_timestamp; /* by the card; zero: not known */
};

struct vma_completion_t {
	struct vma_packet_desc_t packet; /* with VMA_SOCKETXTREME_PACKET; else zero */
	uint64_t events;
	/* SO_VMA_USER_DATA, else the descriptor of the socket; of a new connection its descriptor */
	uint64_t user_data;
	/* Of a packet, or of a new connection: the sender; of AF_INET6 only family and port. */
	struct sockaddr_in src;
	int listen_fd; /* of a new connection: the listener */
	/* Of a packet: SO_VMA_FLOW_TAG; 0: none.  The original has unused bytes here. */
	uint32_t flow_tag;
};

/* ---- rings ---------------------------------------------------------------------------- */

/* The value of SO_MAX_PACING_RATE, if the option has this length. */
struct vma_rate_limit_t {
	uint32_t rate;	       /* kbit/s; 0: no limit */
	uint32_t max_burst_sz; /* bytes that may leave at once; 0: what is sent in 9 ms */
	uint16_t typical_pkt_sz; /* bytes: a burst has one such packet at least; 0: it may be shorter */
};

typedef enum {
	RING_LOGIC_PER_INTERFACE = 0,
	RING_LOGIC_PER_IP = 1,
	RING_LOGIC_PER_SOCKET = 10,
	RING_LOGIC_PER_USER_ID = 11,
	RING_LOGIC_PER_THREAD = 20,
	RING_LOGIC_PER_CORE = 30,
	RING_LOGIC_PER_CORE_ATTACH_THREADS = 31,
	RING_LOGIC_LAST
} ring_logic_t;

/* Which members of vma_ring_alloc_logic_attr are set. */
typedef enum {
	VMA_RING_ALLOC_MASK_RING_PROFILE_KEY = (1 << 0),
	VMA_RING_ALLOC_MASK_RING_USER_ID = (1 << 1),
	VMA_RING_ALLOC_MASK_RING_INGRESS = (1 << 2),
	VMA_RING_ALLOC_MASK_RING_ENGRESS = (1 << 3),
} vma_ring_alloc_logic_attr_comp_mask;

/* Which ring a socket uses.  ingress, engress: for receiving, for sending, or for both. */
struct vma_ring_alloc_logic_attr {
	uint32_t comp_mask;
	ring_logic_t ring_alloc_logic;
	uint32_t ring_profile_key;
	uint32_t user_id;
	uint32_t ingress : 1;
	uint32_t engress : 1;
	uint32_t reserved : 30;
};

/*
 * Kinds of rings.  Those of earlier VMA versions with "cyclic buffers" (multi-packet receive queues) do
 * not exist: other numbers, and a descriptor with bits in comp_mask, fail with EINVAL.
 */
typedef enum {
	VMA_RING_PACKET, /* the library sends and receives by it; the kind without a profile */
	VMA_RING_EXTERNAL_MEM, /* a direct ring: the program posts work requests; to send only */
} vma_ring_type;

struct vma_packet_queue_ring_attr {
	uint32_t comp_mask; /* 0 */
};

struct vma_external_mem_attr {
	uint32_t comp_mask; /* 0 */
};

struct vma_ring_type_attr {
	vma_ring_type ring_type;
	union {
		struct vma_packet_queue_ring_attr ring_pktq;
		struct vma_external_mem_attr ring_ext;
	};
};

typedef int vma_ring_profile_key; /* from 1; 0: no profile */

/* ---- direct rings ----------------------------------------------------------------------- */

/*
 * A direct ring is a queue pair of an mlx5 card that belongs to the program, which builds frames in
 * memory of its own, and writes the card's work requests and reads its completions itself:
 *
 *	vma_add_ring_profile() with VMA_RING_EXTERNAL_MEM	a key
 *	setsockopt(SO_VMA_RING_ALLOC_LOGIC), engress, the key	for a UDP socket
 *	get_socket_tx_ring_fd()					opens the ring
 *	get_ring_direct_descriptors(), register_memory_on_ring()
 *	get_socket_network_header()				the headers of a frame
 *
 * The formats are those of <infiniband/mlx5dv.h>.  The socket itself sends and receives by another
 * ring, as before.  Sockets for which the allocation logic makes the same key share a direct ring; it
 * ends when the last socket that it was asked for is closed, within two seconds, and its queues must
 * not be touched any more.  Nobody synchronises threads that post.  A forked child has no direct rings.
 */

/* Bits of device_cap. */
typedef enum {
	VMA_HW_PP_EN = (1 << 0),       /* the card paces queue pairs */
	VMA_HW_PP_BURST_EN = (1 << 3), /* ... with bursts; not known by libibverbs: never set */
} mlx_hw_device_cap;

struct dev_data {
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t device_cap; /* of mlx_hw_device_cap */
};

struct hw_cq_data {
	void *buf;		  /* entries: struct mlx5_cqe64 */
	volatile uint32_t *dbrec; /* two words: consumer index; arming, which the library writes */
	uint32_t cq_size;	  /* entries, a power of two */
	uint32_t cqe_size;	  /* bytes */
	uint32_t cqn;
	void *uar;	    /* page of doorbell registers */
	uint32_t *cons_idx; /* the program's consumer index, for VMA_MODIFY_RING_CQ_ARM */
};

struct hw_wq_data {
	void *buf;
	uint32_t wqe_cnt;	  /* blocks, a power of two */
	uint32_t stride;	  /* bytes of a block */
	volatile uint32_t *dbrec; /* the word with the number of blocks that were posted */
	struct hw_cq_data cq_data;
};

/* Not used: no frame is steered to a direct ring. */
struct hw_rq_data {
	struct hw_wq_data wq_data;
	uint32_t *head;
	uint32_t *tail;
};

struct hw_sq_data {
	struct hw_wq_data wq_data;
	uint32_t sq_num; /* of the queue pair, for work requests */
	struct {
		void *reg;	 /* doorbell register, of this ring alone */
		uint32_t size;	 /* bytes of each of its two halves; 0: not for BlueFlame */
		uint32_t offset; /* of the half to begin with */
	} bf;
};

/* Numbers of bits of valid_mask. */
typedef enum {
	DATA_VALID_DEV,
	DATA_VALID_SQ,
	DATA_VALID_RQ, /* never */
} vma_mlx_hw_valid_data_mask;

struct vma_mlx_hw_device_data {
	uint32_t valid_mask;
	struct dev_data dev_data;
	struct hw_sq_data sq_data;
	struct hw_rq_data rq_data;
};

/* ---- settings of a ring ----------------------------------------------------------------- */

typedef enum {
	VMA_MODIFY_RING_CQ_MODERATION = (1 << 0),
	VMA_MODIFY_RING_CQ_ARM = (1 << 1),
} vma_modify_ring_mask;

/* An event is made for so many completions, or so long after the first; one is 0: for each. */
struct vma_cq_moderation_attr {
	uint32_t cq_moderation_count;	    /* 65535 at most */
	uint32_t cq_moderation_period_usec; /* likewise */
};

struct vma_modify_ring_attr {
	uint32_t comp_bit_mask; /* of vma_modify_ring_mask: what to do */
	int ring_fd;
	union {
		struct vma_cq_moderation_attr cq_moderation;
	};
};

/* ---- memory ----------------------------------------------------------------------------- */

enum {
	VMA_IOCTL_USER_ALLOC_FLAG_TX = (1 << 0),
	VMA_IOCTL_USER_ALLOC_FLAG_RX = (1 << 1),
};

/*
 * The data of CMSG_VMA_IOCTL_USER_ALLOC.  Frames of network interfaces lie in memory of memalloc(), for
 * sending and receiving in one piece, so either flag means both.  memfree() gets it back when the
 * interface is no longer used.  Both are called while the library opens or closes an interface, in any
 * of its threads, with signals blocked: they must return, and must not call socket functions.
 * Processes share the frames of an AF_XDP interface, but not a program's own memory: such a program has
 * the interface alone, or not at all.  If memalloc() fails, or returns what is not mapped or cannot be
 * written, the kernel serves the interface.
 */
struct __attribute__((packed)) vma_cmsg_ioctl_user_alloc_t {
	uint8_t flags;
	void *(*memalloc)(size_t);
	void (*memfree)(void *);
};

/* ---- the functions -------------------------------------------------------------------- */

/* Bits of vma_extra_supported_mask.  15 and 19 are not used. */
enum {
	VMA_EXTRA_API_REGISTER_RECV_CALLBACK = (1 << 0),
	VMA_EXTRA_API_RECVFROM_ZCOPY = (1 << 1),
	VMA_EXTRA_API_FREE_PACKETS = (1 << 2),
	VMA_EXTRA_API_ADD_CONF_RULE = (1 << 3),
	VMA_EXTRA_API_THREAD_OFFLOAD = (1 << 4),
	VMA_EXTRA_API_DUMP_FD_STATS = (1 << 5),
	VMA_EXTRA_API_SOCKETXTREME_POLL = (1 << 6),
	VMA_EXTRA_API_SOCKETXTREME_FREE_VMA_PACKETS = (1 << 7),
	VMA_EXTRA_API_SOCKETXTREME_REF_VMA_BUFF = (1 << 8),
	VMA_EXTRA_API_SOCKETXTREME_FREE_VMA_BUFF = (1 << 9),
	VMA_EXTRA_API_GET_SOCKET_RINGS_NUM = (1 << 10),
	VMA_EXTRA_API_GET_SOCKET_RINGS_FDS = (1 << 11),
	VMA_EXTRA_API_GET_SOCKET_TX_RING_FD = (1 << 12),
	VMA_EXTRA_API_GET_SOCKET_NETWORK_HEADER = (1 << 13),
	VMA_EXTRA_API_GET_RING_DIRECT_DESCRIPTORS = (1 << 14),
	VMA_EXTRA_API_ADD_RING_PROFILE = (1 << 16),
	VMA_EXTRA_API_REGISTER_MEMORY_ON_RING = (1 << 17),
	VMA_EXTRA_API_DEREGISTER_MEMORY_ON_RING = (1 << 18),
	VMA_EXTRA_API_MODIFY_RING = (1 << 20),
	VMA_EXTRA_API_IOCTL = (1 << 21),
};

/* The order of members is part of the ABI. */
struct __attribute__((packed)) vma_api_t {
	/*
	 * From now on callback sees each packet of s before recv() does; NULL: no callback any
	 * more, and packets that it has not seen are queued.  It runs in a thread of the
	 * program that is in a socket call, never in a thread of the library, and for one
	 * packet of a socket at a time, in the order of arrival.  It may call all socket
	 * functions; inside it, a receive call on a socket with a callback does not block.  A
	 * callback that is left by longjmp(), or by a C++ exception, which passes the socket call,
	 * has returned VMA_PACKET_DROP.
	 * Of a connection, it sees what arrives while no byte waits for recv(): what was queued
	 * before, and what comes behind a packet that it returned VMA_PACKET_RECV for, recv()
	 * reads first.
	 * Of a TCP socket that is not connected, each connection that it begins has the callback, from
	 * its first byte on.  A listener receives nothing, and the sockets that it accepts have no
	 * callback.
	 * EINVAL: s is not accelerated.  ENOTCONN: its connection has ended.  EAGAIN: in a handler of a
	 * signal that has interrupted a socket call, for a TCP socket.  ENOMEM.
	 */
	int (*register_recv_callback)(int s, vma_recv_callback_t callback, void *context);
	/*
	 * As recvfrom(), but without a copy where possible: then *flags has MSG_VMA_ZCOPY, and
	 * buf a struct vma_packets_t.  The bytes belong to the program, which only reads them,
	 * until free_packets().  Otherwise buf has the data.  The result is the number of bytes
	 * received in either case: of one datagram, or of a connection's packets that fit into
	 * buf.  0: an empty datagram, or the end of the stream, and then without MSG_VMA_ZCOPY.
	 * Datagrams that a program holds count as unread: beyond SO_RCVBUF, further ones for this
	 * socket are dropped.
	 * Within this host (VMA_LOCAL) the bytes are in memory that the peer can write: a hostile
	 * one may change them.  Its room comes back in the order of arrival, as packets are freed.
	 * ENOBUFS: buf is too small for one packet, or too many are held.  EIO: the data can only
	 * be copied, and *flags has MSG_VMA_ZCOPY_FORCE.  Otherwise as recvfrom().
	 */
	int (*recvfrom_zcopy)(int s, void *buf, size_t len, int *flags, struct sockaddr *from,
			      socklen_t *fromlen);
	/*
	 * Gives packets back, from recvfrom_zcopy() or held by a callback: count of them, one
	 * behind another.  All that can be freed are freed.  Packets of a socket that has been
	 * closed are freed with any s.
	 * EINVAL: s is not accelerated.  ENOENT: not a packet of s, or freed before.  EFAULT.
	 */
	int (*free_packets)(int s, struct vma_packet_t *pkts, size_t count);
	/*
	 * Adds one line of libvma.conf, which comes before all rules of the file.  It counts for
	 * decisions from now on.  Returns 0, or EINVAL: not a rule; ENOMEM; EAGAIN: called in a
	 * signal handler; also in errno then, and -1 is never returned.
	 */
	int (*add_conf_rule)(char *config_line);
	/*
	 * Sockets that thread tid makes from now on are accelerated (offload 1), or the kernel
	 * serves them (0), whatever VMA_OFFLOADED_SOCKETS says.  Accepted sockets are as their
	 * listener.  Returns 0, or ENOMEM, also in errno then.
	 */
	int (*thread_offload)(int offload, pthread_t tid);
	/*
	 * Takes up to ncompletions packets and events of the ring's sockets; fd is one of
	 * get_socket_rings_fds().  Accepts what waits at listeners of the ring.  Returns the number
	 * of completions; it does not wait.  flags is ignored.
	 * The array stays mapped and writable until the call returns: where another thread unmaps it,
	 * the call faults, and a handler that jumps out of that leaves the ring held.
	 * EBADFD: fd is not of a ring.  EFAULT: nothing was taken.  EMFILE, ENFILE: a connection
	 * waits, and has no descriptor.  EOPNOTSUPP: not VMA_SOCKETXTREME=1.
	 */
	int (*socketxtreme_poll)(int fd, struct vma_completion_t *completions,
				 unsigned int ncompletions, int flags);
	/* The number of rings that s receives by.  0: none, s is not accelerated. */
	int (*get_socket_rings_num)(int fd);
	/*
	 * Their descriptors, at most ring_fds_sz; returns how many were stored; 0 as above.  A ring
	 * has one descriptor, which poll(), select() and epoll accept: readable while a socket of
	 * the ring that this function was called for is readable, or has an error.  It goes on
	 * reporting such a socket if that moves to another ring.  The program may close it; then
	 * the next call makes another one.  In a forked child it reports nothing.
	 * EINVAL: no room.  EFAULT.  EMFILE, ENOMEM.  EBADF: one was closed meanwhile.
	 */
	int (*get_socket_rings_fds)(int fd, int *ring_fds, int ring_fds_sz);
	/*
	 * The descriptor of the ring by which a UDP socket sends to an address.  EINVAL: not
	 * accelerated, or no address.  ENOSYS: not UDP.  ENODATA: the kernel sends there.
	 * Of a direct ring, if the socket has asked for one: opens it at need.  EOPNOTSUPP: the
	 * interface is not one of a card's.  EPERM: without CAP_NET_RAW.  ENOSPC: there are 64
	 * already.  Those of register_memory_on_ring(), for SO_VMA_RING_USER_MEMORY.
	 */
	int (*get_socket_tx_ring_fd)(int sock_fd, struct sockaddr *to, socklen_t tolen);
	/*
	 * Gives up a reference to the buffer of each packet; any thread may do so, also when the
	 * socket is closed.  All that can be freed are freed.  Returns 0.
	 * EINVAL: a buffer is free already, or is none; num is negative.  EFAULT.  EOPNOTSUPP.
	 */
	int (*socketxtreme_free_vma_packets)(struct vma_packet_desc_t *packets, int num);
	/* Another reference to a buffer; returns their number.  EINVAL, EOPNOTSUPP: as above. */
	int (*socketxtreme_ref_vma_buff)(struct vma_buff_t *buff);
	/* Gives a reference up; returns how many are left.  EINVAL, EOPNOTSUPP: as above. */
	int (*socketxtreme_free_vma_buff)(struct vma_buff_t *buff);
	/*
	 * Writes what the library knows about s to its log, at level log_level (VMA_TRACELEVEL
	 * as a number; 3 is info).  fd 0: about all descriptors.
	 * EINVAL: fd is not accelerated, or there is no such level.
	 */
	int (*dump_fd_stats)(int fd, int log_level);
	/*
	 * Describes a kind of ring; *key names it for SO_VMA_RING_ALLOC_LOGIC.  Equal descriptions
	 * have one key, as long as the process lives.
	 * EINVAL: there is no such kind, or comp_mask is not 0.  EOPNOTSUPP: VMA_RING_EXTERNAL_MEM,
	 * without a card.  EFAULT.
	 */
	int (*vma_add_ring_profile)(struct vma_ring_type_attr *profile, int *key);
	/*
	 * Of a connected socket: the Ethernet, IP and UDP or TCP headers of what it sends.  ptr
	 * NULL: only stores their length in *len.
	 * EINVAL: not accelerated.  ENOTCONN.  ENOBUFS: *len is too small.  EFAULT.
	 */
	int (*get_socket_network_header)(int fd, void *ptr, uint16_t *len);
	/*
	 * The queues of a direct ring, by its descriptor; see above.
	 * EBADFD: fd is not of a ring.  EOPNOTSUPP: of one that is no direct ring; or there is no
	 * card.  ENODEV: the ring has ended.  EFAULT.  Those below have the same errors.
	 */
	int (*get_ring_direct_descriptors)(int fd, struct vma_mlx_hw_device_data *data);
	/*
	 * Memory that the card may access; *key names it in work requests.  The same range again has
	 * the same key, and is counted.  It must stay mapped until it is deregistered.
	 * EFAULT: not all of it is mapped, or cannot be written.  EINVAL: length is 0, or too long.
	 * ENOMEM: also if more must not be locked (ulimit -l).
	 */
	int (*register_memory_on_ring)(int fd, void *addr, size_t length, uint32_t *key);
	/* As often as it was registered; work requests must not name it any more.  ENOENT. */
	int (*deregister_memory_on_ring)(int fd, void *addr, size_t length);
	/*
	 * VMA_MODIFY_RING_CQ_MODERATION: when completions of the ring make events, from now on; of
	 * receiving, or, of a direct ring, of sending.  VMA_MODIFY_RING_CQ_ARM: the next completion
	 * behind *cons_idx of a direct ring makes its descriptor readable, until it is armed again;
	 * others are armed whenever a thread waits for them.
	 * EBADFD: ring_fd is not of a ring.  ENODEV: the ring has ended.  EINVAL: comp_bit_mask, or a
	 * number above 65535.  EOPNOTSUPP: the ring's port does not moderate events; or this host
	 * has no card.  EFAULT.  EAGAIN: in a signal handler.
	 */
	int (*vma_modify_ring)(struct vma_modify_ring_attr *mr_data);
	/* Not a function: VMA_EXTRA_API_* that this process can use. */
	uint64_t vma_extra_supported_mask;
	/*
	 * A setting, in a struct cmsghdr of level SOL_SOCKET; the only one is
	 * CMSG_VMA_IOCTL_USER_ALLOC.
	 * EINVAL: another one, or another length; no function; no flag, or an unknown one; memory
	 * for frames exists, or was asked for, already.  EFAULT.
	 */
	int (*ioctl)(void *cmsg_hdr, size_t cmsg_len);
};

/*
 * The functions of the library; NULL: the process runs without it.  The pointer is valid while the
 * process lives, also in a forked child.  errno is unchanged.
 */
static inline struct vma_api_t *vma_get_api(void)
{
	struct vma_api_t *api = NULL;
	socklen_t len = sizeof(api);
	int saved = errno;

	if (getsockopt(-1, SOL_SOCKET, SO_VMA_GET_API, &api, &len) < 0)
		api = NULL;
	errno = saved;
	return api;
}

#ifdef __cplusplus
}
#endif

#endif
