/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/stats/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/types.h>

#include "base/log.h"
#include "base/stats/recorder_text.h"
#include "base/sys.h"
#include "base/version.h"

#define DEAD_MAX 64 /* segments that one sweep looks at */

struct recorder *the_recorder;

/* control lock */
static struct {
	struct recorder *page; /* set before the_recorder */
	int id;		       /* of the segment */
	pid_t pid;	       /* of the process that made it: a vfork() child leaves it alone */
	bool tried;	       /* to make it */
	uint32_t netns; /* the inode of its network namespace; 0: that of the calling thread */
	pid_t swept;	/* the process that has removed old segments; 0: none */
} own;

/* ---- segments of processes that were killed ------------------------------------------ */

static long segment_control(int id, int cmd, struct shmid_ds *ds)
{
	return sys_call(SYS_shmctl, id, cmd, ds, 0, 0, 0);
}

/* The segment, attached; NULL: it cannot be. */
static struct recorder *attach(int id)
{
	long at = sys_call(SYS_shmat, id, NULL, 0, 0, 0, 0);

	return at < 0 && at >= -4095 ? NULL : (struct recorder *)at;
}

static void detach(struct recorder *page)
{
	sys_call(SYS_shmdt, page, 0, 0, 0, 0, 0);
}

/* A segment that its process left behind. */
struct left {
	int id;
	uint64_t at, made_at; /* struct recorder */
	bool told;
};

/*
 * Is it a recorder, and no new one whose process has not attached to it yet?  The kernel's time of the last
 * detachment changes with each look, so the first one keeps it.
 */
static bool look_at(int id, const struct shmid_ds *ds, struct left *out)
{
	struct recorder *page = attach(id);
	uint64_t none = 0;
	bool yes;

	if (!page)
		return false;
	/* Acquire: pairs with recorder_ready() of that process. */
	yes = __atomic_load_n(&page->magic, __ATOMIC_ACQUIRE) == RECORDER_MAGIC;
	*out = (struct left){.id = id, .made_at = page->made_at, .told = true};
	if (yes && page->version == RECORDER_VERSION) {
		/* Relaxed, both: alone each says all, and a look at the same time has about the same. */
		__atomic_compare_exchange_n(&page->left_at, &none, (uint64_t)ds->shm_dtime, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
		out->at = __atomic_load_n(&page->left_at, __ATOMIC_RELAXED);
		out->told = __atomic_load_n(&page->told, __ATOMIC_RELAXED);
	}
	detach(page);
	return yes;
}

/* Has the process ended?  False also if that is not known: it may be of another PID namespace. */
static bool has_ended(pid_t pid)
{
	struct pollfd end = {.events = POLLIN};
	long fd = pid > 0 ? sys_call(SYS_pidfd_open, pid, 0, 0, 0, 0, 0) : -EINVAL;
	bool yes = fd == -ESRCH;

	if (fd < 0)
		return yes;
	end.fd = (int)fd;
	yes = sys_ppoll(&end, 1, &(struct timespec){0}, NULL) == 1;
	sys_close(end.fd);
	return yes;
}

/* The highest index of a segment, or negative. */
static long last_segment(void)
{
	struct shm_info info;

	return segment_control(0, SHM_INFO, (struct shmid_ds *)(void *)&info);
}

/*
 * Has a process of this user left the segment with this index behind?  Whoever looks at it has attached it,
 * too, for a moment.  quick: what is attached has not been.
 */
static bool left_behind(int i, struct left *out, bool quick)
{
	struct shmid_ds ds;
	long id = segment_control(i, SHM_STAT, &ds);

	return id >= 0 && ds.shm_segsz == sizeof(struct recorder) &&
	       (!ds.shm_nattch || (!quick && has_ended(ds.shm_cpid))) &&
	       ds.shm_perm.cuid == sys_geteuid() && look_at((int)id, &ds, out);
}

/* Would it rather be removed than the other one? */
static bool matters_less(const struct left *a, const struct left *b)
{
	if (a->told != b->told)
		return a->told;
	return a->at != b->at ? a->at < b->at : a->made_at < b->made_at;
}

/* The number of those that remain. */
static unsigned remove_one(struct left all[DEAD_MAX], unsigned n)
{
	struct left *least = &all[0];

	for (unsigned i = 1; i < n; i++) {
		if (matters_less(&all[i], least))
			least = &all[i];
	}
	segment_control(least->id, IPC_RMID, NULL);
	*least = all[n - 1];
	return n - 1;
}

/*
 * Those whose peers are still to be told stay, within DEAD_MAX.  A forked process whose parent has done it is
 * quick, or servers that fork for each connection would do little else.
 */
static void sweep(void)
{
	struct left all[DEAD_MAX];
	unsigned n = 0, told = 0; /* of those that remain */
	bool quick = !sys_is_first(&own.swept);
	long last = last_segment();

	for (int i = 0; i <= last; i++) {
		if (left_behind(i, &all[n], quick) && ++n == DEAD_MAX)
			n = remove_one(all, n);
	}
	for (unsigned i = 0; i < n; i++)
		told += all[i].told;
	for (; told >= RECORDER_KEPT; told--)
		n = remove_one(all, n);
}

void recorder_in_namespace(uint64_t inode)
{
	own.netns = (uint32_t)inode;
}

static uint32_t network_namespace(void)
{
	return own.netns ?: (uint32_t)sys_network_namespace();
}

/*
 * Must the peers of its connections be told, by this process?  Relaxed: who misses that another one
 * has done so tells them once more.
 */
static bool is_untold(const struct recorder *page)
{
	return page->version == RECORDER_VERSION &&
	       !__atomic_load_n(&page->told, __ATOMIC_RELAXED) && page->netns &&
	       page->netns == network_namespace();
}

/* The segment of an ended process, attached; NULL: is_untold() says no. */
static struct recorder *attach_untold(int id)
{
	struct recorder *page = attach(id);

	if (!page || is_untold(page))
		return page;
	detach(page);
	return NULL;
}

static unsigned open_conns(const struct recorder *page, struct recorder_conn *conns)
{
	unsigned n = 0;

	for (unsigned i = 0; i < RECORDER_SOCKS; i++) {
		const struct recorder_sock *from = &page->socks[i];

		if (!from->open)
			continue;
		conns[n] = (struct recorder_conn){
			.local_port = (uint16_t)(from->local >> 16),
			.remote_port = (uint16_t)(from->remote >> 16),
		};
		memcpy(&conns[n].local_addr, from->local_addr, sizeof(conns->local_addr));
		memcpy(&conns[n++].remote_addr, from->remote_addr, sizeof(conns->remote_addr));
	}
	return n;
}

int recorder_left(int *from, struct recorder_conn conns[RECORDER_SOCKS], int *id)
{
	long last = last_segment();
	struct left left;
	int n = -1;

	while (*from <= last && n < 0) {
		struct recorder *page = NULL;

		if (left_behind((*from)++, &left, false))
			page = attach_untold(left.id);
		if (!page)
			continue;
		*id = left.id;
		n = (int)open_conns(page, conns);
		detach(page);
	}
	return n;
}

void recorder_left_done(int id)
{
	struct recorder *page = attach_untold(id);

	if (!page)
		return;
	__atomic_store_n(&page->told, 1, __ATOMIC_RELAXED);
	detach(page);
}

/* ---- its life ------------------------------------------------------------------------- */

static void touch(struct recorder_area *area)
{
	/* Resident from now on: to record causes no page fault. */
	for (size_t at = 0; at < sizeof(*area); at += 4096)
		__atomic_fetch_or((char *)area + at, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&area->used, 1, __ATOMIC_RELAXED);
}

static void fill_header(struct recorder *page)
{
	char comm[2 * RECORDER_NAME];

	page->version = RECORDER_VERSION;
	page->size = sizeof(*page);
	page->pid = (uint32_t)own.pid;
	page->netns = network_namespace();
	page->made_at = (uint64_t)clock_now();
	page->made_at_real = (uint64_t)clock_real();
	if (sys_read_text("/proc/self/comm", comm, sizeof(comm)) > 0)
		memcpy(page->name, comm, strnlen(comm, sizeof(page->name) - 1));
	page->name[strcspn(page->name, "\n")] = '\0';
	snprintf(page->version_text, sizeof(page->version_text), "%s", VMA_VERSION);
}

bool recorder_open(void)
{
	long id, at;

	if (own.page || own.tried)
		return own.page;
	own.tried = true;
	own.pid = sys_getpid();
	sweep();
	id = sys_call(SYS_shmget, IPC_PRIVATE, sizeof(struct recorder), IPC_CREAT | 0600, 0, 0, 0);
	if (id < 0) {
		log_details("vma trace does not see this process: %s", strerror((int)-id));
		return false;
	}
	at = sys_call(SYS_shmat, id, NULL, 0, 0, 0, 0);
	if (at < 0 && at >= -4095) {
		segment_control((int)id, IPC_RMID, NULL);
		log_details("vma trace does not see this process: %s", strerror((int)-at));
		return false;
	}
	/* A child that recorded here by mistake would do it for its parent. */
	sys_call(SYS_madvise, at, sizeof(struct recorder), MADV_DONTFORK, 0, 0, 0);
	own.id = (int)id;
	own.page = (struct recorder *)at;
	fill_header(own.page);
	touch(&own.page->areas[RECORDER_CALLS]);
	touch(&own.page->areas[RECORDER_SLEEPS]);
	return true;
}

void recorder_set_text(enum recorder_text kind, unsigned i, const char *text)
{
	if (i < RECORDER_TEXTS)
		snprintf(own.page->texts[kind][i], RECORDER_TEXT, "%s", text);
}

void recorder_ready(void)
{
	/* Release: pairs with a reader in another process, which then finds the rest. */
	__atomic_store_n(&own.page->magic, RECORDER_MAGIC, __ATOMIC_RELEASE);
	/* Pairs with recorder(). */
	__atomic_store_n(&the_recorder, own.page, __ATOMIC_RELEASE);
}

void recorder_close(void)
{
	/* Other threads may still record: the memory goes when the process does. */
	if (own.page && own.pid == sys_getpid())
		segment_control(own.id, IPC_RMID, NULL);
}

void recorder_fork_child(void)
{
	own.page = NULL;
	own.tried = false;
	/* Relaxed: there is no other thread. */
	__atomic_store_n(&the_recorder, NULL, __ATOMIC_RELAXED);
}

struct recorder_area *recorder_area(unsigned ring, const char *interface)
{
	struct recorder *page = recorder();
	struct recorder_area *area;

	if (!page || ring >= RECORDER_RINGS)
		return NULL;
	area = &page->areas[ring];
	touch(area);
	snprintf(area->interface, sizeof(area->interface), "%s", interface);
	return area;
}

/* ---- recording ------------------------------------------------------------------------ */

#define ONE_DROP (1ull << 40)

void recorder_drop(struct recorder_area *area, nsec_t now, uint8_t reason, uint16_t local_port,
		   uint16_t remote_port)
{
	uint64_t what = (uint64_t)reason << 32 | (uint32_t)remote_port << 16 | local_port;
	struct record *last;

	if (!area)
		return;
	last = &area->records[(area->head - 1) % RECORDER_RECORDS];
	if ((last->when & 0xff) == RECORD_DROP && (last->what & (ONE_DROP - 1)) == what &&
	    last->what + ONE_DROP > last->what)
		/* A reader sees the old number or the new one. */
		__atomic_store_n(&last->what, last->what + ONE_DROP, __ATOMIC_RELAXED);
	else
		recorder_put(area, record_when(now, RECORD_DROP), what + ONE_DROP);
}

void recorder_write_any(unsigned area, enum record_event event, uint32_t sock, uint32_t argument)
{
	struct recorder *page = recorder();
	struct recorder_area *to;
	struct record *r;
	uint64_t n;

	if (!page)
		return;
	to = &page->areas[area];
	n = __atomic_fetch_add(&to->head, 1, __ATOMIC_RELAXED);
	r = &to->records[n % RECORDER_RECORDS];
	__atomic_store_n(&r->when, 0, __ATOMIC_RELAXED);
	/* Keeps the 0 before what follows: pairs with recorder_read(), which leaves it out then. */
	ck_pr_fence_store();
	__atomic_store_n(&r->what, record_what(sock, argument), __ATOMIC_RELAXED);
	/* Release: pairs with recorder_read(). */
	__atomic_store_n(&r->when, record_when(clock_now(), event), __ATOMIC_RELEASE);
}

static void name_end(uint64_t to_addr[2], uint64_t *to, const struct stats_addr *addr,
		     uint16_t port, uint8_t protocol)
{
	uint64_t q[2];

	memcpy(q, addr, sizeof(q));
	__atomic_store_n(&to_addr[0], q[0], __ATOMIC_RELAXED);
	__atomic_store_n(&to_addr[1], q[1], __ATOMIC_RELAXED);
	__atomic_store_n(to, (uint64_t)port << 16 | protocol, __ATOMIC_RELAXED);
}

void recorder_name(uint32_t sock, int fd, uint8_t protocol, const struct recorder_conn *conn,
		   bool open)
{
	struct recorder *page = recorder();
	struct recorder_sock *to;

	if (!page)
		return;
	to = &page->socks[sock % RECORDER_SOCKS];
	name_end(to->local_addr, &to->local, &conn->local_addr, conn->local_port, protocol);
	name_end(to->remote_addr, &to->remote, &conn->remote_addr, conn->remote_port, 0);
	__atomic_store_n(&to->open, open, __ATOMIC_RELAXED);
	/* Release: pairs with readers.  Two sockets with one place: a wrong name at worst. */
	__atomic_store_n(&to->id, (uint64_t)sock << 32 | (uint32_t)fd, __ATOMIC_RELEASE);
}

void recorder_name_closed(uint32_t sock)
{
	struct recorder *page = recorder();
	struct recorder_sock *to;

	if (!page)
		return;
	to = &page->socks[sock % RECORDER_SOCKS];
	/* Another socket may have the place by now. */
	if (__atomic_load_n(&to->id, __ATOMIC_RELAXED) >> 32 == sock)
		__atomic_store_n(&to->open, 0, __ATOMIC_RELAXED);
}

/* ---- reading -------------------------------------------------------------------------- */

unsigned recorder_read(const struct recorder_area *area, uint64_t *from, struct record *records)
{
	/* Acquire: pairs with recorder_put(). */
	uint64_t head = __atomic_load_n(&area->head, __ATOMIC_ACQUIRE), after, first = *from;
	unsigned n = 0;

	if (head - first > RECORDER_RECORDS)
		first = head > RECORDER_RECORDS ? head - RECORDER_RECORDS : 0;
	*from = first;
	for (uint64_t i = first; i != head && n < RECORDER_RECORDS; i++, n++) {
		const struct record *r = &area->records[i % RECORDER_RECORDS];

		/* Acquire: pairs with recorder_write_any(), as the second load does. */
		records[n].when = __atomic_load_n(&r->when, __ATOMIC_ACQUIRE);
		records[n].what = __atomic_load_n(&r->what, __ATOMIC_RELAXED);
		/* Orders it after the load of what; else a record that changes looks whole. */
		ck_pr_fence_load();
		if (__atomic_load_n(&r->when, __ATOMIC_RELAXED) != records[n].when)
			records[n].when = 0;
	}
	/* Keeps the records before head; pairs with the fence in recorder_put(). */
	ck_pr_fence_load();
	after = __atomic_load_n(&area->head, __ATOMIC_RELAXED);
	/* The record with number `after` may be written now, in the place of one that we read. */
	for (unsigned i = 0; i < n && after - (first + i) >= RECORDER_RECORDS; i++)
		records[i].when = 0;
	return n;
}

void recorder_log(unsigned which, unsigned n, int level)
{
	const struct recorder *page = recorder();
	const struct recorder_area *area;
	char text[RECORDER_LINE];
	uint64_t head;

	if (!page || which >= RECORDER_AREAS || level > log_level)
		return;
	area = &page->areas[which];
	/* Acquire: pairs with recorder_put(). */
	head = __atomic_load_n(&area->head, __ATOMIC_ACQUIRE);
	for (uint64_t i = head > n ? head - n : 0; i < head; i++) {
		const struct record *r = &area->records[i % RECORDER_RECORDS];
		struct record copy = {__atomic_load_n(&r->when, __ATOMIC_RELAXED),
				      __atomic_load_n(&r->what, __ATOMIC_RELAXED)};

		if (recorder_line(page, which, &copy, text))
			log_at((enum log_level)level, "trace: %s", text);
	}
}

void recorder_log_all(unsigned n, int level)
{
	for (unsigned i = 0; i < RECORDER_AREAS; i++)
		recorder_log(i, n, level);
}
