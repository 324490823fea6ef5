/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/param.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/param_internal.h"
#include "base/sys.h"
#include "base/version.h"

#define DEBUG_DETAILS 2 /* a debug log needs thread ids */
#define SHOWN_VALUE 64	/* bytes of a malformed value that a warning shows */

#define RULE "---------------------------------------------------------------------------"

enum kind { KIND_INT, KIND_BOOL, KIND_STR, KIND_LEVEL, KIND_ENUM, KIND_RATIO, KIND_CPUS };

struct name {
	int value;
	const char *text;
};

/* One entry of param_list.h. */
struct param {
	enum kind kind;
	void *value; /* member of params */
	const char *variable;
	const char *label;
	int def, min, max;	  /* int, bool, level, enum, ratio */
	const char *def_text;	  /* string, CPUs */
	const struct name *names; /* of an enum, or of an int with named values */
	int n_names;
};

#define NAMES(...)                                   \
	.names = (const struct name[]){__VA_ARGS__}, \
	.n_names = sizeof((struct name[]){__VA_ARGS__}) / sizeof(struct name)

static const struct param param_table[] = {
#define PARAM_INT(m, var, d, lo, hi, text, sentence) \
	{.kind = KIND_INT,                           \
	 .value = &params.m,                         \
	 .variable = #var,                           \
	 .label = text,                              \
	 .def = d,                                   \
	 .min = lo,                                  \
	 .max = hi},
#define PARAM_BOOL(m, var, d, text, sentence) \
	{.kind = KIND_BOOL, .value = &params.m, .variable = #var, .label = text, .def = d},
#define PARAM_STR(m, var, d, text, sentence) \
	{.kind = KIND_STR, .value = &params.m, .variable = #var, .label = text, .def_text = d},
#define PARAM_LEVEL(m, var, d, text, sentence) \
	{.kind = KIND_LEVEL, .value = &params.m, .variable = #var, .label = text, .def = d},
#define PARAM_ENUM(m, var, d, n, text, sentence) \
	{.kind = KIND_ENUM, .value = &params.m, .variable = #var, .label = text, .def = d, NAMES n},
#define PARAM_NAMED(m, var, d, lo, hi, n, text, sentence) \
	{.kind = KIND_INT,                                \
	 .value = &params.m,                              \
	 .variable = #var,                                \
	 .label = text,                                   \
	 .def = d,                                        \
	 .min = lo,                                       \
	 .max = hi,                                       \
	 NAMES n},
#define PARAM_RATIO(m, var, d, hi, text, sentence) \
	{.kind = KIND_RATIO,                       \
	 .value = &params.m,                       \
	 .variable = #var,                         \
	 .label = text,                            \
	 .def = d,                                 \
	 .min = -1,                                \
	 .max = hi},
#define PARAM_CPUS(m, var, d, text, sentence) \
	{.kind = KIND_CPUS, .value = &params.m, .variable = #var, .label = text, .def_text = d},
#include "base/param_list.h"
#undef PARAM_INT
#undef PARAM_BOOL
#undef PARAM_STR
#undef PARAM_LEVEL
#undef PARAM_ENUM
#undef PARAM_NAMED
#undef PARAM_RATIO
#undef PARAM_CPUS
};

#define COUNT (sizeof(param_table) / sizeof(param_table[0]))

struct params params = {
#define PARAM_INT(m, var, d, ...) .m = d,
#define PARAM_BOOL(m, var, d, ...) .m = d,
#define PARAM_STR(m, var, d, ...) .m = d,
#define PARAM_LEVEL(m, var, d, ...) .m = d,
#define PARAM_ENUM(m, var, d, ...) .m = d,
#define PARAM_NAMED(m, var, d, ...) .m = d,
#define PARAM_RATIO(m, var, d, ...) .m = d,
#define PARAM_CPUS(m, var, d, ...) .m = {.count = 0}, /* "-1"; param_init() reads other defaults */
#include "base/param_list.h"
#undef PARAM_INT
#undef PARAM_BOOL
#undef PARAM_STR
#undef PARAM_LEVEL
#undef PARAM_ENUM
#undef PARAM_NAMED
#undef PARAM_RATIO
#undef PARAM_CPUS
};

/* State of each parameter, written by param_init(), read by param_warn() and param_banner(). */
static struct {
	char *text;		 /* copy of the string or list; NULL: the default */
	bool malformed;		 /* a warning is pending ... */
	char shown[SHOWN_VALUE]; /* ... for this value */
} param_notes[COUNT];

/* Copies text and replaces the first %d by the process id; NULL without memory. */
static char *expand_pid(const char *text)
{
	const char *place = strstr(text, "%d");
	size_t size = strlen(text) + 16;
	char *copy;

	if (!place)
		return mem_strdup(text);
	copy = mem_alloc(size);
	if (copy)
		snprintf(copy, size, "%.*s%d%s", (int)(place - text), text, sys_getpid(),
			 place + 2);
	return copy;
}

/* The name of a value, or NULL. */
static const char *name_of(const struct param *param, int value)
{
	for (int i = 0; i < param->n_names; i++) {
		if (param->names[i].value == value)
			return param->names[i].text;
	}
	return NULL;
}

static bool parse_enum(const struct param *param, const char *text)
{
	int n;

	if (!param_parse_int(text, INT_MIN, INT_MAX, &n) || !name_of(param, n))
		return false;
	*(int *)param->value = n;
	return true;
}

static bool parse_ratio(const struct param *param, const char *text)
{
	int n;

	if (!param_parse_int(text, param->min, param->max, &n) || n == 0)
		return false;
	*(int *)param->value = n;
	return true;
}

static bool parse_value(const struct param *param, const char *text)
{
	switch (param->kind) {
	case KIND_INT:
		return param_parse_int(text, param->min, param->max, param->value);
	case KIND_BOOL:
		return param_parse_bool(text, param->value);
	case KIND_LEVEL:
		return param_parse_level(text, param->value);
	case KIND_ENUM:
		return parse_enum(param, text);
	case KIND_RATIO:
		return parse_ratio(param, text);
	case KIND_CPUS:
		return param_parse_cpus(text, param->value);
	case KIND_STR:
		break;
	}
	return true;
}

static void set_default(const struct param *param)
{
	switch (param->kind) {
	case KIND_INT:
	case KIND_ENUM:
	case KIND_RATIO:
		*(int *)param->value = param->def;
		break;
	case KIND_BOOL:
		*(bool *)param->value = param->def;
		break;
	case KIND_LEVEL:
		*(enum log_level *)param->value = (enum log_level)param->def;
		break;
	case KIND_CPUS:
		param_parse_cpus(param->def_text, param->value);
		break;
	case KIND_STR:
		*(const char **)param->value = param->def_text;
		break;
	}
}

static void read_one(const struct param *param, const char *text)
{
	size_t i = (size_t)(param - param_table);

	mem_free(param_notes[i].text);
	param_notes[i].text = NULL;
	param_notes[i].malformed = false;
	set_default(param);
	if (!text)
		return;
	if (!parse_value(param, text)) {
		param_notes[i].malformed = true;
		snprintf(param_notes[i].shown, SHOWN_VALUE, "%s", text);
		return;
	}
	if (param->kind == KIND_STR || param->kind == KIND_CPUS)
		param_notes[i].text = expand_pid(text);
	if (param->kind == KIND_STR && param_notes[i].text)
		*(const char **)param->value = param_notes[i].text;
}

void param_init(const char *(*getenv_fn)(const char *name))
{
	for (size_t i = 0; i < COUNT; i++)
		read_one(&param_table[i], getenv_fn(param_table[i].variable));
	if (params.log_level >= LOG_DEBUG && params.log_details < DEBUG_DETAILS)
		params.log_details = DEBUG_DETAILS;
}

/* Describes the values of an enum: "a number in 0..3" or "one of 0, 1, 10". */
static const char *describe_choices(const struct param *param, char *buf, size_t size)
{
	int first = param->names[0].value, last = param->names[param->n_names - 1].value;
	size_t len;

	if (last - first == param->n_names - 1) {
		snprintf(buf, size, "a number in %d..%d", first, last);
		return buf;
	}
	len = (size_t)snprintf(buf, size, "one of %d", first);
	for (int i = 1; i < param->n_names && len < size; i++)
		len += (size_t)snprintf(buf + len, size - len, ", %d", param->names[i].value);
	return buf;
}

static void warn_malformed(const struct param *param, const char *text)
{
	const char *variable = param->variable;
	char numbers[128];

	switch (param->kind) {
	case KIND_INT:
		log_warn("%s=%s is not a number in %d..%d; using the default %d", variable, text,
			 param->min, param->max, param->def);
		break;
	case KIND_ENUM:
		log_warn("%s=%s is not %s; using the default %d", variable, text,
			 describe_choices(param, numbers, sizeof(numbers)), param->def);
		break;
	case KIND_RATIO:
		log_warn("%s=%s is not -1 or a number in 1..%d; using the default %d", variable,
			 text, param->max, param->def);
		break;
	case KIND_BOOL:
		log_warn("%s=%s is not 0 or 1; using the default %d", variable, text, param->def);
		break;
	case KIND_LEVEL:
		log_warn("%s=%s is not a log level (none, panic, error, warn, info, details, "
			 "debug, fine, finer, all); using the default %s",
			 variable, text, param_level_name(param->def));
		break;
	case KIND_CPUS:
		log_warn("%s=%s is not -1, a mask 0x3 or a list 1,3-5; using the default %s",
			 variable, text, param->def_text);
		break;
	case KIND_STR:
		break;
	}
}

static bool is_known(const char *variable, size_t len)
{
	for (size_t i = 0; i < COUNT; i++) {
		if (strlen(param_table[i].variable) == len &&
		    !memcmp(param_table[i].variable, variable, len))
			return true;
	}
	return false;
}

void param_warn(char *const *environ_vars)
{
	for (size_t i = 0; i < COUNT; i++) {
		if (param_notes[i].malformed)
			warn_malformed(&param_table[i], param_notes[i].shown);
		param_notes[i].malformed = false;
	}
	for (; environ_vars && *environ_vars; environ_vars++) {
		size_t len = strcspn(*environ_vars, "=");

		if (!strncmp(*environ_vars, "VMA_", 4) && !is_known(*environ_vars, len))
			log_warn("%.*s is not a parameter of this version; it has no effect",
				 (int)len, *environ_vars);
	}
	if (params.log_level >= LOG_DEBUG)
		log_box(LOG_WARNING, "VMA is currently configured with high log level\n"
				     "Application performance will decrease in this log level!\n"
				     "This log level is recommended for debugging purposes only");
}

static bool is_default(const struct param *param, size_t i)
{
	const char *text = param_notes[i].text;

	switch (param->kind) {
	case KIND_INT:
	case KIND_ENUM:
	case KIND_RATIO:
		return *(int *)param->value == param->def;
	case KIND_BOOL:
		return *(bool *)param->value == param->def;
	case KIND_LEVEL:
		return false; /* always shown, because users look for it */
	case KIND_STR:
	case KIND_CPUS:
		return !text || !strcmp(text, param->def_text);
	}
	return false;
}

static void banner_number(enum log_level at, const struct param *param, int value)
{
	const char *name = name_of(param, value);
	char shown[SHOWN_VALUE];

	if (!name) {
		log_at(at, "%-30s %-26d [%s]", param->label, value, param->variable);
		return;
	}
	snprintf(shown, sizeof(shown), "(%s)", name);
	log_at(at, "%-30s %-2d%-24s [%s]", param->label, value, shown, param->variable);
}

static void banner_line(enum log_level at, const struct param *param, size_t i)
{
	const char *text = param_notes[i].text ? param_notes[i].text : param->def_text;

	switch (param->kind) {
	case KIND_INT:
	case KIND_ENUM:
	case KIND_RATIO:
		banner_number(at, param, *(int *)param->value);
		return;
	case KIND_BOOL:
		text = *(bool *)param->value ? "Enabled" : "Disabled";
		break;
	case KIND_LEVEL:
		text = param_level_name(*(enum log_level *)param->value);
		break;
	case KIND_STR:
	case KIND_CPUS:
		break;
	}
	log_at(at, "%-30s %-26s [%s]", param->label, text, param->variable);
}

static void banner_command(void)
{
	char line[512];
	int fd = sys_open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
	ssize_t len;

	if (fd < 0)
		return;
	len = sys_read(fd, line, sizeof(line) - 1);
	sys_close(fd);
	if (len <= 0)
		return;
	line[len] = '\0';
	/* Each argument ends with a zero byte and may contain newlines. */
	for (ssize_t i = 0; i < len - 1; i++) {
		if (iscntrl((unsigned char)line[i]))
			line[i] = ' ';
	}
	log_info("Cmd Line: %s", line);
}

void param_banner(void)
{
	struct utsname host;

	if (log_level < LOG_INFO)
		return;
	log_info(RULE);
	log_info("VMA_VERSION: " VMA_VERSION " " VMA_VERSION_KIND);
	banner_command();
	log_info("Pid: %5d", sys_getpid());
	if (!uname(&host)) {
		log_info("Architecture: %s", host.machine);
		log_info("Node: %s", host.nodename);
	}
	log_info(RULE);
	for (size_t i = 0; i < COUNT; i++)
		banner_line(is_default(&param_table[i], i) ? LOG_DETAILS : LOG_INFO,
			    &param_table[i], i);
	log_info(RULE);
}
