/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/process/inherited.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/image/sections.h"
#include "base/param.h"
#include "base/param/param_env.h"
#include "base/signals.h"
#include "base/sys.h"
#include "intercept/process/relay.h"
#include "intercept/wrap.h"
#include "sock/share/exec_inherit.h"
#include "sock/share/exec_local.h"

#define TEXT_MAX (100 * 1024) /* the kernel's limit is 128 KiB */
#define ITEM_MAX 64

/* ---- the text ---------------------------------------------------------------------- */

EARLY_CODE static bool read_number(const char **text, uint64_t max, uint64_t *number)
{
	const char *p = *text;
	uint64_t n = 0;

	while (*p >= '0' && *p <= '9') {
		unsigned digit = (unsigned)(*p++ - '0');

		if (n > (max - digit) / 10)
			return false;
		n = n * 10 + digit;
	}
	if (p == *text)
		return false;
	*text = p;
	*number = n;
	return true;
}

EARLY_CODE static bool read_comma(const char **text)
{
	return *(*text)++ == ',';
}

EARLY_CODE bool inherited_read_item(const char **text, struct inherited_item *item)
{
	const char *p = *text;
	uint64_t fd;

	if (!read_number(&p, INT_MAX, &fd) || !read_comma(&p) ||
	    !read_number(&p, UINT64_MAX, &item->inode) || !read_comma(&p) ||
	    !read_number(&p, EXEC_INHERIT_ID_MAX, &item->number) || (*p && *p != ';'))
		return false;
	item->fd = (int)fd;
	*text = *p ? p + 1 : p;
	return true;
}

EARLY_CODE const char *inherited_take_variable(char **env, const char *name)
{
	size_t len = strlen(name);
	const char *value = NULL;
	char **to = env;

	for (; env && *env; env++) {
		if (!strncmp(*env, name, len) && (*env)[len] == '=')
			value = *env + len + 1;
		else
			*to++ = *env;
	}
	if (value)
		*to = NULL;
	return value;
}

/* ---- what is inherited ------------------------------------------------------------- */

/* Is the descriptor still the socket that was listed? */
EARLY_CODE static bool is_same(const struct inherited_item *item, int protocol)
{
	socklen_t len = sizeof(int);
	struct stat st;
	int found;

	return !sys_fd_is_hidden(item->fd) && !fstat(item->fd, &st) && S_ISSOCK(st.st_mode) &&
	       st.st_ino == item->inode &&
	       !libc.getsockopt(item->fd, SOL_SOCKET, SO_PROTOCOL, &found, &len) &&
	       found == protocol;
}

EARLY_CODE static bool is_channel(const struct inherited_item *item)
{
	socklen_t len = sizeof(int);
	int domain, type;

	return is_same(item, 0) &&
	       !libc.getsockopt(item->fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) &&
	       domain == AF_UNIX && !libc.getsockopt(item->fd, SOL_SOCKET, SO_TYPE, &type, &len) &&
	       type == SOCK_SEQPACKET;
}

static void install(int fd, struct sock_ref ref)
{
	if (ref.sk && sock_twin(ref.sk) == fd)
		fd_install(fd, ref);
	else if (ref.sk)
		fd_install_dup(fd, sock_twin(ref.sk), ref);
}

static void inherit(const struct inherited_item *item)
{
	bool udp = is_same(item, IPPROTO_UDP);

	if (fd_get(item->fd).sk || !(udp || is_same(item, IPPROTO_TCP)))
		return;
	signal_watch_faults();
	install(item->fd, exec_inherit_add(item->fd, udp, item->number));
}

static void inherit_local(const struct inherited_item *item)
{
	if (fd_get(item->fd).sk || item->number > INT_MAX || !is_same(item, IPPROTO_TCP))
		return;
	signal_watch_faults();
	install(item->fd, exec_local_add(item->fd, (int)item->number));
}

static void inherit_all(const char *text)
{
	struct inherited_item item;

	while (inherited_read_item(&text, &item)) {
		if (item.fd != INHERITED_ANYWHERE)
			inherit(&item);
	}
}

/* Takes fd over if an item names its inode. */
static void inherit_by_inode(const char *text, int fd)
{
	struct inherited_item item;
	struct stat st;

	if (fstat(fd, &st) || !S_ISSOCK(st.st_mode))
		return;
	while (inherited_read_item(&text, &item)) {
		if (item.inode == st.st_ino && item.fd == INHERITED_ANYWHERE) {
			item.fd = fd;
			inherit(&item);
			return;
		}
	}
}

static void inherit_moved(const char *text)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		int fd = atoi(entry->d_name);

		if (*entry->d_name != '.' && fd != dirfd(dir))
			inherit_by_inode(text, fd);
	}
	if (dir)
		closedir(dir);
}

/* ---- a program that waits for its first call ---------------------------------------- */

#define WAITING_MAX 16384 /* longer lists are taken over at once */

static char waiting[WAITING_MAX]; /* a copy: programs overwrite their environment */
static bool waits EARLY_DATA;	  /* any, atomic; written at start and by the thread that begins */

/* Whoever leaves a connection to this program does not wait long for an answer. */
EARLY_CODE static bool is_connection(int fd)
{
	int listens, type;
	socklen_t len = sizeof(int);

	return !sys_getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) && !listens &&
	       !sys_getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_STREAM;
}

/*
 * Can the descriptors of all items be in the part of the table that is wiped, and is none of them a
 * connection?
 */
EARLY_CODE static bool may_wait(const char *text)
{
	struct inherited_item item;
	struct rlimit limit;

	while (inherited_read_item(&text, &item)) {
		if (is_connection(item.fd))
			return false;
		if (item.fd < FD_LEAF_SIZE)
			continue;
		if (item.fd != INHERITED_ANYWHERE || getrlimit(RLIMIT_NOFILE, &limit) ||
		    limit.rlim_cur > FD_LEAF_SIZE)
			return false;
	}
	return true;
}

/* The channel is hidden at once, so that the program cannot close it. */
EARLY_CODE void inherited_start(const char *text, const char *local)
{
	const char *rest = text;
	struct inherited_item channel;

	if (local) {
		inherited_take(text); /* first: it says which numbers of sockets are taken */
		inherited_take_local(local);
		return;
	}
	if (!text || strlen(text) >= WAITING_MAX - ITEM_MAX || !may_wait(text) ||
	    !inherited_read_item(&rest, &channel) || !is_channel(&channel) || !fd_wipe()) {
		inherited_take(text);
		return;
	}
	channel.fd = sys_fd_hide(channel.fd);
	snprintf(waiting, sizeof(waiting), "%d,%llu,%llu;%s", channel.fd,
		 (unsigned long long)channel.inode, (unsigned long long)channel.number, rest);
	__atomic_store_n(&waits, true, __ATOMIC_RELAXED); /* the only thread */
}

EARLY_CODE bool inherited_waits(void)
{
	return __atomic_load_n(&waits, __ATOMIC_RELAXED);
}

void inherited_begin(void)
{
	struct inherited_item channel;
	const char *text = waiting;

	__atomic_store_n(&waits, false, __ATOMIC_RELAXED);
	if (inherited_read_item(&text, &channel))
		sys_fd_unhide(channel.fd);
	inherited_take(waiting);
}

EARLY_CODE void inherited_take(const char *text)
{
	struct inherited_item item;
	struct exec_channel ch;
	const char *next;

	if (!text || !inherited_read_item(&text, &item) || !is_channel(&item))
		return;
	ch = (struct exec_channel){.fd = item.fd, .last_id = item.number};
	if (!exec_inherit_open(&ch))
		return;
	inherit_all(text);
	next = text;
	if (inherited_read_item(&next, &item) && item.fd == INHERITED_ANYWHERE)
		inherit_moved(text);
	exec_inherit_done();
}

EARLY_CODE void inherited_take_local(const char *text)
{
	struct inherited_item item;

	while (inherited_read_item(&text, &item))
		inherit_local(&item);
	exec_local_done();
}

/* ---- what a program inherits ------------------------------------------------------- */

EARLY_CODE static char *write_item(char *at, int fd, int as, uint64_t number, char end)
{
	struct stat st;

	if (fstat(fd, &st))
		return at;
	return at + snprintf(at, ITEM_MAX, "%d,%llu,%llu%c", as, (unsigned long long)st.st_ino,
			     (unsigned long long)number, end);
}

typedef uint64_t (*id_fn)(struct sock_ref ref);

/*
 * Writes the items of sockets that exec closes (closing), or of all others. A child of
 * posix_spawn() may get the former, too, because file actions may copy descriptors before.
 */
EARLY_CODE static char *write_some(char *at, const char *end, id_fn id_of, bool lent, bool closing)
{
	for (int fd = fd_next(0); fd >= 0 && end - at > ITEM_MAX; fd = fd_next(fd + 1)) {
		struct sock_ref ref = fd_get_wiped(fd);
		uint64_t id;

		if (!ref.sk || ref.sk->type == SOCK_TYPE_EPOLL || closing != exec_closes(fd))
			continue;
		id = id_of(ref);
		if (id)
			at = write_item(at, fd, lent ? INHERITED_ANYWHERE : fd, id, ';');
	}
	return at;
}

/* Writes all items. False: there is none. */
EARLY_CODE static bool write_sockets(char *at, const char *end, id_fn id_of, bool lent)
{
	const char *begin = at;

	at = write_some(at, end, id_of, lent, false);
	if (lent)
		at = write_some(at, end, id_of, lent, true);
	if (at == begin)
		return false;
	at[-1] = 0;
	return true;
}

/* A copy of the environment, without our variables. map NULL: no memory. */
EARLY_CODE static struct inherited environment_make(char *const *env)
{
	struct inherited h = {.env = env, .channel = -1};
	size_t n = 0;

	while (env && env[n])
		n++;
	h.size = (n + 3) * sizeof(*env) + 2 * TEXT_MAX;
	h.map = mem_map(h.size);
	if (!h.map)
		return h;
	h.end = h.map;
	h.text = (char *)(h.end + n + 3);
	if (n)
		memcpy(h.end, env, n * sizeof(*env));
	(void)inherited_take_variable(h.end, INHERITED_NAME);
	(void)inherited_take_variable(h.end, INHERITED_LOCAL_NAME);
	while (*h.end)
		h.end++;
	return h;
}

static void environment_free(struct inherited *h)
{
	mem_unmap(h->map, h->size);
	h->map = NULL;
}

EARLY_CODE static void environment_add(struct inherited *h, char *variable)
{
	*h->end++ = variable;
	h->env = h->map;
}

/* Adds the variable. False: no socket is inherited, and the channel must not be. */
EARLY_CODE static bool environment_fill(struct inherited *h, const struct exec_channel *ch,
					id_fn id_of, bool lent)
{
	char *at = stpcpy(h->text, INHERITED_NAME "=");

	at = write_item(at, ch->fd, ch->fd, ch->last_id, ';');
	if (!write_sockets(at, h->text + TEXT_MAX, id_of, lent))
		return false;
	environment_add(h, h->text);
	return true;
}

static uint64_t pack_local(struct sock_ref ref)
{
	int fd = exec_local_pack(ref);

	return fd < 0 ? 0 : (uint64_t)fd;
}

/* Can the program go on with local connections? */
EARLY_CODE static bool has_local(enum image image, char *const *env)
{
	return image == IMAGE_OURS && param_switch_in("VMA_LOCAL", env);
}

/* Adds the variable of local connections, if there is any. */
static void environment_add_local(struct inherited *h)
{
	char *text = h->text + TEXT_MAX;
	char *at = stpcpy(text, INHERITED_LOCAL_NAME "=");

	if (write_sockets(at, text + TEXT_MAX, pack_local, false))
		environment_add(h, text);
}

/*
 * A program without the library can use what the kernel serves; with it (local), all but local
 * connections. Of the connections that other processes hold, too, only those at descriptors 0 to 2
 * are fetched, which are surely meant for it: kernel handover takes them from the other processes.
 */
static void fetch_stdio(bool local)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		struct sock_ref ref = sock_get(fd);

		if (ref.sk && (!local || exec_local_is_one(ref)))
			exec_inherit_fetch(ref);
	}
}

EARLY_CODE bool inherited_any(void)
{
	if (inherited_waits())
		fork_adopt();
	/* A vfork() child is never one that waits: fork_choose() begins before it. */
	return (fd_next(0) >= 0 || sock_is_active()) && (fork_waits() || !fork_is_vfork_child());
}

/* Is one of descriptors 0 to 2 a socket? */
EARLY_CODE static bool has_stdio(void)
{
	return fd_get_wiped(STDIN_FILENO).sk || fd_get_wiped(STDOUT_FILENO).sk ||
	       fd_get_wiped(STDERR_FILENO).sk;
}

/*
 * A forked child that has not begun leaves without: the channel to its parent becomes the
 * program's. False: it must begin.
 */
EARLY_CODE static bool leave_waiting(struct inherited *h, enum image image)
{
	struct exec_channel ch;
	bool left;

	if (image == IMAGE_OURS && params.local && !has_local(image, h->env))
		return false; /* it has what may be local connections */
	if (!fork_stay())
		return false;
	if (image == IMAGE_PLAIN) {
		left = !has_stdio();
	} else {
		*h = environment_make(h->env);
		left = h->map && exec_inherit_begin_waiting(&ch);
		if (left && !environment_fill(h, &ch, exec_inherit_waiting_id, false))
			exec_inherit_undo_waiting();
		h->shares = left;
		if (h->map && h->env != h->map) {
			environment_free(h);
			h->shares = false;
		}
	}
	fork_stay_end();
	return left;
}

/* Which local connections has the program descriptors of? True: there is any local connection. */
static bool mark_local(void)
{
	bool any = exec_local_begin();

	for (int fd = fd_next(0); any && fd >= 0; fd = fd_next(fd + 1)) {
		struct sock_ref ref = fd_get(fd);

		if (ref.sk && ref.sk->type != SOCK_TYPE_EPOLL && !exec_closes(fd))
			exec_local_stays(ref);
	}
	return any;
}

/*
 * False: the program inherits nothing, and no local connection has to be open until exec.  local: it can
 * go on with those that are here.
 */
static bool leave_to_program(struct inherited *h, bool local)
{
	struct exec_channel ch;

	h->shares = exec_inherit_begin(&ch);
	if (h->shares && !environment_fill(h, &ch, exec_inherit_id, false)) {
		exec_inherit_undo();
		h->shares = false;
	}
	if (local)
		environment_add_local(h);
	return h->shares || local;
}

EARLY_CODE struct inherited inherited_leave(enum image image, char *const *env)
{
	struct inherited h = {.env = env, .channel = -1};
	int saved = errno;
	bool local, goes_on, any;

	if (image == IMAGE_NONE)
		return h; /* exec fails, and must leave everything unchanged */
	if (leave_waiting(&h, image)) {
		errno = saved;
		return h;
	}
	fork_adopt();
	goes_on = has_local(image, env) && !exec_local_is_over();
	if (image == IMAGE_OURS)
		h = environment_make(env);
	any = exec_local_any();
	if (any) {
		relay_shared();
		relay_waiting();
	}
	if (!goes_on)
		fetch_stdio(image == IMAGE_OURS);
	if (!goes_on && any)
		relay_start();
	h.left = true;
	local = mark_local() && goes_on;
	if (h.map && !leave_to_program(&h, local))
		environment_free(&h);
	exec_inherit_leave(h.map);
	errno = saved;
	return h;
}

int inherited_keep(const struct inherited *h)
{
	int saved = errno;

	if (h->shares && fork_stay()) {
		exec_inherit_undo_waiting();
		fork_stay_end();
	} else if (h->shares) {
		exec_inherit_undo();
	}
	if (h->left)
		exec_local_undo();
	if (h->map)
		mem_unmap(h->map, h->size);
	errno = saved;
	return -1;
}

/* ---- what a child is lent ---------------------------------------------------------- */

static pthread_mutex_t lend_lock = PTHREAD_MUTEX_INITIALIZER;
/* This thread has lend_lock: a handler that interrupts it must not wait for that. */
static __thread bool lends __attribute__((tls_model("initial-exec")));

void inherited_fork_child(void)
{
	lends = false;
	pthread_mutex_init(&lend_lock, NULL);
}

void inherited_lend(struct inherited *h, enum image image, char *const *env)
{
	struct exec_channel ch;
	int saved = errno;

	assert(signals_are_blocked());
	*h = (struct inherited){.env = env, .channel = -1};
	fork_adopt();
	if (!exec_inherit_any() || image == IMAGE_PLAIN)
		return;
	h->refused = lends;
	if (lends)
		return;
	lends = true;
	pthread_mutex_lock(&lend_lock);
	*h = environment_make(env);
	if (!h->map || !exec_inherit_lend(&ch)) {
		inherited_lent(h);
		errno = saved;
		return;
	}
	h->channel = ch.fd;
	if (environment_fill(h, &ch, exec_inherit_lent_id, true))
		sys_fcntl(ch.fd, F_SETFD, 0);
	else
		inherited_lent(h);
	errno = saved;
}

void inherited_lent(struct inherited *h)
{
	int saved = errno;

	assert(signals_are_blocked());
	if (h->size) {
		sys_close_fd(&h->channel);
		if (h->map)
			environment_free(h);
		h->size = 0;
		pthread_mutex_unlock(&lend_lock);
		lends = false;
	}
	errno = saved;
}
