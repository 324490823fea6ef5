/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/image/sections.h"
#include "base/sys.h"

#define LINE_MAX_BYTES 1024 /* on the stack, which is small in some signal handlers */
#define BOX_WIDTH 61	    /* as in the original; wider if the text is */
#define BOX_TEXT_MAX 768
#define COLOUR_OFF "\033[0m"

enum log_level log_level EARLY_DATA = LOG_WARNING;

static const struct {
	const char *name;
	const char *colour; /* red for errors, purple for warnings, dim for debugging */
} levels[] = {
	[LOG_PANIC] = {"PANIC", "\033[0;31m"},	   [LOG_ERROR] = {"ERROR", "\033[0;31m"},
	[LOG_WARNING] = {"WARNING", "\033[0;35m"}, [LOG_INFO] = {"INFO", ""},
	[LOG_DETAILS] = {"DETAILS", ""},	   [LOG_DEBUG] = {"DEBUG", ""},
	[LOG_FINE] = {"FINE", "\033[2m"},	   [LOG_FINER] = {"FINER", "\033[2m"},
};

/* The file behind a descriptor; the program may reuse the number for another file. */
struct file_id {
	dev_t dev;
	ino_t ino;
	mode_t mode;
};

/*
 * Role		log_init() writes; any thread reads.  The thread that sets reopening
 *		replaces fd, dev and ino after the program closed our fd.
 * Lifetime	static.
 * Ordering	none needed: fd is used only if it refers to dev and ino.
 * Progress	no thread waits: one that finds reopening set opens the file for itself.
 */
static struct {
	nsec_t start;
	int details; /* atomic */
	bool colours;
	dev_t dev;     /* atomic, as ino; of fd, or of stderr at the start */
	ino_t ino;     /* 0: no file */
	int fd;	       /* atomic */
	int reopening; /* atomic */
} output EARLY_DATA = {.fd = STDERR_FILENO};
static char output_path[PATH_MAX]; /* as output.fd; absolute; "" for stderr */

EARLY_CODE static bool identify(int fd, struct file_id *id)
{
	struct stat st;

	if (sys_call(SYS_fstat, fd, &st, 0, 0, 0, 0) < 0)
		return false;
	id->dev = st.st_dev;
	id->ino = st.st_ino;
	id->mode = st.st_mode;
	return true;
}

/* The fields are read separately: a mixture of two files matches no file and causes a reopen. */
static bool is_ours(const struct file_id *id)
{
	return id->dev == __atomic_load_n(&output.dev, __ATOMIC_RELAXED) &&
	       id->ino == __atomic_load_n(&output.ino, __ATOMIC_RELAXED);
}

EARLY_CODE static void remember(int fd)
{
	struct file_id id = {0};

	identify(fd, &id);
	__atomic_store_n(&output.dev, id.dev, __ATOMIC_RELAXED);
	__atomic_store_n(&output.ino, id.ino, __ATOMIC_RELAXED);
}

static void write_all(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = sys_write(fd, text, len);

		if (n == -EINTR)
			continue;
		if (n <= 0)
			return; /* a full pipe or disk: the error cannot be logged */
		text += n;
		len -= (size_t)n;
	}
}

/*
 * stderr follows the program's redirections. But if the program closes stderr and a socket gets
 * its number, nothing is written, since the text would go to the peer.
 */
static void write_stderr(const char *text, size_t len)
{
	struct file_id now;

	if (!identify(STDERR_FILENO, &now))
		return;
	if (S_ISSOCK(now.mode) && !output_path[0] && !is_ours(&now))
		return;
	write_all(STDERR_FILENO, text, len);
}

static int open_file(void)
{
	return sys_open(output_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644);
}

/*
 * Our descriptor was closed. The number may belong to the program now, so it is not closed
 * again.
 */
static void write_reopened(const char *text, size_t len)
{
	int fd = open_file();

	if (fd < 0) {
		write_stderr(text, len);
		return;
	}
	/*
	 * Pairs with the release below, in another thread: orders their updates of dev, ino and fd.
	 */
	if (__atomic_exchange_n(&output.reopening, 1, __ATOMIC_ACQUIRE)) {
		write_all(fd, text, len);
		sys_close(fd);
		return;
	}
	fd = sys_fd_hide(fd);
	write_all(fd, text, len);
	remember(fd);
	__atomic_store_n(&output.fd, fd, __ATOMIC_RELAXED);
	/* Pairs with the exchange above. */
	__atomic_store_n(&output.reopening, 0, __ATOMIC_RELEASE);
}

static void write_out(const char *text, size_t len)
{
	int fd = __atomic_load_n(&output.fd, __ATOMIC_RELAXED);
	struct file_id now;

	if (!output_path[0])
		write_stderr(text, len);
	else if (identify(fd, &now) && is_ours(&now))
		write_all(fd, text, len);
	else
		write_reopened(text, len);
}

/* Stores the absolute path, because the program may change its directory. */
static bool set_path(const char *file)
{
	size_t len = 0;

	if (file[0] != '/') {
		/* Not getcwd(3), which allocates. The system call counts the terminating zero. */
		long n = sys_call(SYS_getcwd, output_path, sizeof(output_path), 0, 0, 0, 0);

		if (n <= 0)
			return false;
		len = (size_t)n;
		output_path[len - 1] = '/';
	}
	if (len + strlen(file) + 1 > sizeof(output_path))
		return false;
	strcpy(output_path + len, file);
	return true;
}

static bool is_terminal(int fd)
{
	struct termios termios;

	return !sys_ioctl(fd, TCGETS, &termios);
}

EARLY_CODE void log_init(enum log_level level, int details, bool colours, const char *file)
{
	bool failed = false;

	log_level = level;
	output.start = clock_now();
	output.details = details;
	output.fd = STDERR_FILENO;
	if (output_path[0])
		output_path[0] = '\0';
	if (file[0]) {
		int fd = set_path(file) ? open_file() : -ENAMETOOLONG;

		failed = fd < 0;
		if (failed)
			output_path[0] = '\0';
		else
			output.fd = sys_fd_hide(fd);
	}
	remember(output.fd);
	output.colours = colours && is_terminal(output.fd);
	if (failed)
		log_warn("cannot open the log file %s (VMA_LOG_FILE): logging to stderr", file);
}

EARLY_CODE void log_descend(void)
{
	if (!output_path[0] && log_level > LOG_WARNING && log_level < LOG_DEBUG)
		log_level = LOG_WARNING;
}

bool log_level_of_name(const char *name, enum log_level *level)
{
	for (size_t i = 0; i < sizeof(levels) / sizeof(*levels); i++) {
		if (!strcasecmp(name, levels[i].name)) {
			*level = (enum log_level)i;
			return true;
		}
	}
	return false;
}

void log_set_level(enum log_level level)
{
	__atomic_store_n(&log_level, level, __ATOMIC_RELAXED);
}

void log_set_details(int details)
{
	__atomic_store_n(&output.details, details, __ATOMIC_RELAXED);
}

int log_details_level(void)
{
	return __atomic_load_n(&output.details, __ATOMIC_RELAXED);
}

/* As snprintf() at an offset; the text may be truncated. */
static size_t append(char *line, size_t used, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static size_t append(char *line, size_t used, size_t size, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(line + used, size - used, fmt, args);
	va_end(args);
	return n < 0 ? used : used + (size_t)n;
}

static size_t append_details(char *line, size_t used, size_t size)
{
	nsec_t elapsed = clock_now() - output.start;
	int details = log_details_level();

	if (details >= 3)
		used = append(line, used, size, " Time: %9.3f", (double)elapsed / 1e6);
	if (details >= 2)
		used = append(line, used, size, " Pid: %5u", (unsigned)sys_getpid());
	if (details >= 1)
		used = append(line, used, size, " Tid: %5u", (unsigned)sys_gettid());
	return used;
}

void log_write(enum log_level level, const char *fmt, ...)
{
	int saved = errno;
	/* The end has room for what is never truncated: colour off and newline. */
	char line[LINE_MAX_BYTES + sizeof(COLOUR_OFF) + 1];
	size_t used = 0;
	va_list args;
	int n;

	if (level < LOG_PANIC || level > LOG_FINER)
		level = LOG_FINER;
	if (output.colours)
		used = append(line, used, LINE_MAX_BYTES, "%s", levels[level].colour);
	if (log_details_level())
		used = append_details(line, used, LINE_MAX_BYTES);
	used = append(line, used, LINE_MAX_BYTES, " VMA %s: ", levels[level].name);

	errno = saved; /* for %m */
	va_start(args, fmt);
	n = vsnprintf(line + used, LINE_MAX_BYTES - used, fmt, args);
	va_end(args);
	if (n > 0)
		used += (size_t)n;
	if (used >= LINE_MAX_BYTES) {
		used = LINE_MAX_BYTES;
		memcpy(line + used - 3, "...", 3);
	}
	if (output.colours && levels[level].colour[0]) {
		memcpy(line + used, COLOUR_OFF, sizeof(COLOUR_OFF) - 1);
		used += sizeof(COLOUR_OFF) - 1;
	}
	line[used++] = '\n';
	write_out(line, used);
	errno = saved;
}

void log_box(enum log_level level, const char *fmt, ...)
{
	int saved = errno, width = BOX_WIDTH - 4, n;
	char text[BOX_TEXT_MAX], rule[BOX_TEXT_MAX + 5];
	va_list args;

	if (!log_is_on(level))
		return;
	va_start(args, fmt);
	n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (n < 0)
		return;
	for (char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
		int len = (int)strcspn(line, "\n");

		if (len > width)
			width = len;
	}
	memset(rule, '*', sizeof(rule));
	log_write(level, "%.*s", width + 4, rule);
	for (char *line = text; *line;) {
		int len = (int)strcspn(line, "\n");

		log_write(level, "* %-*.*s *", width, len, line);
		line += len + (line[len] == '\n');
	}
	log_write(level, "%.*s", width + 4, rule);
	errno = saved;
}
