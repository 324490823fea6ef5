/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The layout of the page in which a process keeps its statistics, for the process and for those
 * that read them (tools/vma_stats).
 *
 * The page is a memfd of the process, sealed against a change of its size.  A small file
 * vmastat.PID in VMA_STATS_SHMEM_DIR names the descriptor; see struct stats_place.
 *
 * Role		each field says who writes it.  "holder" is the holder of the ring that the slot
 *		belongs to, "any" a thread of the process; readers write ->ask only.
 * Lifetime	from the first accelerated socket to the end of the process.
 * Ordering	magic is stored last.  A slot is consistent while its seq is even and does not
 *		change; its counters change at any time, each by itself.
 * Trust	the process reads nothing here but ->ask; a reader believes nothing.
 */
#ifndef BASE_STATS_STATS_PAGE_H
#define BASE_STATS_STATS_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/stats/latency.h"

#define STATS_MAGIC 0x5354415453414d56ull /* "VMASTATS" */
#define STATS_VERSION 6u		  /* changes with the layout */
#define STATS_MEMFD "vmastat"
#define STATS_FILE "vmastat." /* and the process id */
#define STATS_SOCKS_MAX 1024u
#define STATS_RINGS 64u
#define STATS_EPOLLS 32u
#define STATS_GROUPS 16u
#define STATS_DROPS 48u
#define STATS_NAME 16u
#define STATS_VERDICT 168u

/* The contents of vmastat.PID: STATS_PLACE_FORMAT with these three. */
struct stats_place {
	uint32_t pid;
	uint64_t namespace; /* inode of /proc/PID/ns/pid */
	uint32_t fd;
};
#define STATS_PLACE_FORMAT "libvma-statistics pid=%u namespace=%lu fd=%u\n"
#define STATS_PLACE_SIZE 128u

/*
 * What a reader may ask for.  An ask is a number that differs from the answer, in the upper 32
 * bits, and an argument in the lower ones.  The internal thread reads it once per round, at most
 * a second later, does it, and stores the same in ->answer.
 */
enum stats_ask {
	STATS_REFRESH, /* store what is stored only when a reader asks */
	STATS_ZERO,    /* zero all counters */
	STATS_LEVEL,   /* argument: log level plus 1 */
	STATS_DETAILS, /* argument: log details */
	STATS_DUMP,    /* argument: descriptor (0: all) << 4 | log level plus 1 */
	STATS_CAPTURE, /* argument: see CAPTURE_ARGUMENT; the result is in ->capture_fd */
	STATS_ASKS
};

enum stats_state {
	STATS_FREE,
	STATS_OURS, /* the program has the socket */
	STATS_LEFT, /* the kernel serves it; the slot stays while the descriptor is the same file */
};

enum stats_type { STATS_UDP, STATS_TCP, STATS_TCP_LISTENER, STATS_TYPES };

/* In stats_sock.tcp_state, beside others. */
#define STATS_TCP_ESTABLISHED 1u
#define STATS_TCP_CLOSE 7u
#define STATS_TCP_LISTEN 10u

/* In stats_sock.flags. */
#define STATS_NONBLOCK 1u
#define STATS_MC_LOOP 2u
#define STATS_EXPORTED 4u /* another process owns the connection */
#define STATS_INET6 8u	  /* an AF_INET6 socket */

/* Of a connection, as in TCP_INFO; holder, when a reader asks. */
struct stats_tcp {
	uint32_t mss, advmss;
	uint32_t rto, rtt, rttvar; /* usec */
	uint32_t cwnd, ssthresh;   /* segments */
	uint32_t unacked;	   /* segments */
	uint32_t notsent;	   /* bytes */
	uint32_t snd_wnd, rcv_wnd;
	uint8_t snd_wscale, rcv_wscale;
	uint8_t options; /* TCPI_OPT_* */
	uint8_t unused;
};

/* An address in network byte order; one of IPv4 is mapped (RFC 4291 2.5.5.2). */
struct stats_addr {
	uint32_t w[4];
};

struct stats_sock {
	/* holder: counted by calls.  UDP; of a connection, the packets when a reader asks */
	uint64_t rx_packets, rx_bytes;
	uint64_t rx_reads; /* calls that returned data; UDP, local: when a reader asks */
	uint64_t rx_most_bytes, rx_most_packets; /* that were ever queued */
	uint64_t tx_packets, tx_bytes;
	uint64_t rx_misses; /* calls that blocked, or returned EAGAIN */
	uint64_t rx_eagains, rx_errors;
	uint64_t rx_drops, rx_drop_bytes; /* the receive buffer was full */
	uint64_t tx_eagains, tx_errors, tx_drops;
	uint64_t rx_migrations, tx_migrations;
	/* any, atomic */
	uint64_t os_rx_packets, os_rx_bytes, os_rx_eagains, os_rx_errors;
	uint64_t os_tx_packets, os_tx_bytes, os_tx_eagains, os_tx_errors;

	/* holder, when a reader asks */
	uint64_t retransmits;
	uint64_t rx_queued_packets, rx_queued_bytes, rx_limit;
	uint64_t tx_queued_bytes;
	struct stats_addr local_addr, remote_addr;
	uint16_t local_port, remote_port; /* network byte order */
	uint32_t mc_addr;		  /* IP_MULTICAST_IF, as an address */
	uint32_t ring;
	uint8_t tcp_state; /* as in TCP_INFO: 1 established ... */
	uint8_t type;	   /* enum stats_type */
	uint16_t flags;
	uint32_t n_groups; /* at most STATS_GROUPS are listed */
	uint32_t place;	   /* of readers: the number of the slot, from 0 on */
	uint32_t groups[STATS_GROUPS];
	char interface[STATS_NAME];
	struct stats_tcp tcp;

	/* control lock */
	uint32_t seq; /* odd while one of these changes */
	uint32_t state;
	int32_t fd;
	uint32_t accelerated;	     /* STATS_OURS: 0: the kernel receives or sends */
	uint64_t inode;		     /* of the descriptor */
	char verdict[STATS_VERDICT]; /* why not; if accelerated: the rule that says so, or empty */
} __attribute__((aligned(64)));

/* Calls of poll, select, or epoll_wait. */
struct stats_iomux_counts {
	uint64_t os_ready, our_ready; /* descriptors */
	uint64_t hits, misses;	      /* calls that returned without sleep; that slept */
	uint64_t timeouts, errors;
	uint64_t polling; /* nsec; with VMA_CPU_USAGE_STATS */
};

struct stats_iomux {
	/* any, atomic; epoll: the set's mutex */
	struct stats_iomux_counts now;
	/* internal thread: the counts when they were last zeroed */
	struct stats_iomux_counts zero;
	int32_t fd;	/* of an epoll set; any, atomic */
	uint32_t taken; /* the entry is in use; any, atomic */
	uint64_t unused[1];
} __attribute__((aligned(64)));

/* holder, when a reader asks */
struct stats_ring {
	uint32_t open;
	uint32_t id;
	uint64_t key;
	uint64_t sockets; /* references, see ring.h */
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
	uint64_t copied, forwarded, retransmits;
	uint64_t interrupt_requests, interrupts; /* sleeps on its descriptors; ended by them */
	uint64_t queue_len;   /* packets that wait for a check of their senders */
	uint64_t most;	      /* frames that one poll brought */
	uint64_t frames_free; /* of the queue; free ones */
	uint64_t drops[STATS_DROPS];
	char interface[STATS_NAME];
};

/* internal thread, when a reader asks */
struct stats_pool {
	uint64_t size; /* free buffers */
	uint64_t errors;
};
enum { STATS_POOL_RX, STATS_POOL_TX, STATS_POOLS };

struct stats_page {
	/* set when made */
	uint64_t magic;
	uint32_t version;
	uint32_t page_size, sock_size, ring_size;
	uint32_t socks_at; /* bytes from the beginning */
	uint32_t n_socks;
	uint32_t pid;
	uint32_t latency_at; /* bytes from the beginning; 0: there are no histograms */
	uint64_t made_at;    /* nsec, CLOCK_MONOTONIC */
	char name[STATS_NAME];
	char version_text[32];
	char drop_names[STATS_DROPS][STATS_NAME];

	/* readers, atomic */
	uint64_t ask[STATS_ASKS] __attribute__((aligned(64)));

	/* internal thread, atomic */
	uint64_t answer[STATS_ASKS] __attribute__((aligned(64)));
	uint64_t refreshed_at, zeroed_at; /* nsec, CLOCK_MONOTONIC */
	int32_t log_level, log_details;
	int32_t capture_fd; /* of the memory of a capture (capture.h); -errno: there is none */
	uint32_t n_rings;
	uint32_t without_slot; /* control lock: sockets that got none */
	struct stats_pool pools[STATS_POOLS];

	struct stats_iomux poll, select;
	struct stats_iomux epolls[STATS_EPOLLS];
	struct stats_ring rings[STATS_RINGS];
	/* struct stats_sock [n_socks] at socks_at */
	/* holder: struct stats_latency [n_socks] at latency_at */
};

/* Where the histograms of a page with n slots begin. */
static inline uint32_t stats_latency_at(uint32_t n)
{
	return (uint32_t)(sizeof(struct stats_page) + n * sizeof(struct stats_sock));
}

/* The size of a page with n slots. */
static inline uint32_t stats_page_size(uint32_t n, bool latency)
{
	return (uint32_t)((stats_latency_at(n) + (latency ? n * sizeof(struct stats_latency) : 0) +
			   4095) &
			  ~4095ul);
}

#endif
