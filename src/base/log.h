/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Logger.  A line is ` VMA LEVEL: text`, preceded by the details that VMA_LOG_DETAILS selects:
 * ` Time: %9.3f` ` Pid: %5u` ` Tid: %5u`.
 *
 * Role		any thread; one line is one write(2), so lines never mix.
 *		Never call it on a hot path.  errno is preserved.
 * Lifetime	log_init() once at start; before it, warnings and worse go to
 *		stderr.  log_descend() after it, and in a forked child.
 *		If the program closes the log file's descriptor, the file is
 *		reopened for append.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

/* Values as in the original, so that numbers in VMA_TRACELEVEL keep their meaning. */
enum log_level {
	LOG_NONE = -1,
	LOG_PANIC = 0,
	LOG_ERROR = 1,
	LOG_WARNING = 2,
	LOG_INFO = 3,
	LOG_DETAILS = 4,
	LOG_DEBUG = 5,
	LOG_FINE = 6,
	LOG_FINER = 7,
	LOG_ALL = 8,
};

extern enum log_level log_level; /* any, atomic; written by the functions below only */

/*
 * level: lines above it are dropped. details: 0..3. colours: only if the output is a terminal.
 * file: "" for stderr; `%d` is already replaced. If the file cannot be opened, logs one warning
 * and uses stderr.
 */
void log_init(enum log_level level, int details, bool colours, const char *file);

/*
 * For a process whose ancestor has the library and has logged the start-up messages. INFO and
 * DETAILS go to a file only and not to stderr, which a program may read. DEBUG and above are
 * unaffected.
 */
void log_descend(void);

/* A level by its name as it is logged, in upper or lower case.  False: there is no such level. */
bool log_level_of_name(const char *name, enum log_level *level);

/* any: from now on, as vma_stats asked. */
void log_set_level(enum log_level level);
void log_set_details(int details);
int log_details_level(void);

void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static inline bool log_is_on(enum log_level level)
{
	return __builtin_expect(level <= __atomic_load_n(&log_level, __ATOMIC_RELAXED), 0);
}

#define log_at(level, ...)                             \
	do {                                           \
		if (log_is_on(level))                  \
			log_write(level, __VA_ARGS__); \
	} while (0)

#define log_panic(...) log_at(LOG_PANIC, __VA_ARGS__)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_WARNING, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_details(...) log_at(LOG_DETAILS, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)
#define log_fine(...) log_at(LOG_FINE, __VA_ARGS__)
#define log_finer(...) log_at(LOG_FINER, __VA_ARGS__)

/* Each place logs it once in the life of the process. */
#define log_warn_once(...)                                               \
	do {                                                             \
		static bool told;                                        \
		if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED)) \
			log_warn(__VA_ARGS__);                           \
	} while (0)

/*
 * A framed warning: a line of asterisks, one `* text` line per line of the message, a line of
 * asterisks. Say what happened, to what, what to do.
 */
void log_box(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
