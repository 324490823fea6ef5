/* SPDX-License-Identifier: BSD-2-Clause */
/* vma params: every parameter, and what the environment sets it to. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/param.h"
#include "vma.h"

#define USAGE_ERROR 3

const char params_help[] =
	"usage: vma params [OPTION]\n"
	"Shows each parameter with its class, its default, what the environment sets and what it\n"
	"does. Warns of what the library would warn of.\n"
	"  --changed    only those that are not at their default\n"
	"  --markdown   the page docs/parameters.md\n"
	"  --man        the parameters of the page libvma(7), as mdoc(7)\n"
	"Exit status: 0; 1 something in the environment is malformed, unknown or has no effect.\n";

static const char *const class_names[] = {
	[PARAM_ACTS] = "acts",
	[PARAM_ALWAYS] = "always so",
	[PARAM_CARD] = "needs a card or fabric",
};

const char *vma_variable(const char *name)
{
	return getenv(name);
}

static const char *get_nothing(const char *name)
{
	return NULL;
}

/* ---- the page -------------------------------------------------------------------------- */

static const char head[] =
	"# Parameters\n"
	"\n"
	"Environment variables of the program that loads `libvma.so`. `vma params` shows this table "
	"with the values that an\n"
	"environment sets. Intended differences from the documented behaviour are in "
	"[`differences.md`](differences.md).\n"
	"\n"
	"There are three classes:\n"
	"\n"
	"| class | |\n"
	"|---|---|\n"
	"| acts | the library does what the value says |\n"
	"| always so | the library is as the default says. Another value gets one warning that says "
	"what holds instead |\n"
	"| needs a card or fabric | acts on ports that have it. AF_XDP does not: another value gets "
	"one line of level `details` |\n"
	"\n"
	"A value that is malformed or out of range gets a warning, and the default holds. Numbers are "
	"decimal, without units. A\n"
	"switch takes 0 or 1, also `disable`, `disabled`, `false`, `off` and `enable`, `enabled`, "
	"`true`, `on`. In a text, the first\n"
	"`%d` becomes the process id. A `VMA_*` variable that is not a parameter gets a warning with "
	"the nearest name.\n"
	"\n"
	"| variable | class | default | values | what it does |\n"
	"|---|---|---|---|---|\n";

/* In a table cell, '|' and line feeds have another meaning. No text of the list has them. */
static void page_row(const struct param_info *info)
{
	printf("| `%s` | %s | %s | %s | %s", info->variable, class_names[info->class], info->def,
	       info->range, info->sentence);
	if (info->different)
		printf(" *Here:* %s.", info->different);
	printf(" |\n");
}

static void page_profile(unsigned profile)
{
	const char *name, *variable, *value;
	int number = param_profile(profile, &name);

	printf("| `%s` | ", name);
	if (number >= 0)
		printf("%d", number);
	printf(" |");
	for (unsigned i = 0; param_profile_setting(profile, i, &variable, &value); i++)
		printf("%s `%s=%s`", i ? "," : "", variable, value);
	printf(" |\n");
}

static void print_page(void)
{
	const char *old, *variable, *name;
	struct param_info info;

	param_init(get_nothing);
	printf("%s", head);
	for (unsigned i = 0; i < param_count(); i++) {
		param_describe(i, &info);
		page_row(&info);
	}
	printf("\n## Profiles\n"
	       "\n"
	       "`VMA_SPEC` names a profile, which has other defaults. A variable that is set "
	       "overrides its profile; the banner shows\n"
	       "what is not a default. With `VMA_THREAD_MODE=0` (`latency`, `ultra-latency`) rings "
	       "have no lock, for a program that\n"
	       "uses sockets in one thread. When a second thread uses one, the process goes over "
	       "to mode 1, with a warning; set\n"
	       "`VMA_THREAD_MODE=1` for a program with several threads.\n"
	       "\n"
	       "| profile | number | sets |\n"
	       "|---|---|---|\n");
	for (unsigned i = 1; param_profile(i, &name), name; i++)
		page_profile(i);
	printf("\n## Earlier names\n"
	       "\n"
	       "They set the parameter of today, with a warning.\n"
	       "\n"
	       "| earlier | today |\n"
	       "|---|---|\n");
	for (unsigned i = 0; param_old_name(i, &old, &variable); i++)
		printf("| `%s` | `%s` |\n", old, variable);
}

/* ---- the manual page ------------------------------------------------------------------- */

enum { MAN_COLUMNS = 80 };

/* What mdoc(7) takes for something else: a hyphen, and a backslash. */
static unsigned man_escape(const char *word, int len, char out[PARAM_TEXT])
{
	unsigned n = 0;

	for (int i = 0; i < len && n + 2 < PARAM_TEXT; i++) {
		if (word[i] == '\\' || (word[i] == '-' && i == 0))
			out[n++] = '\\';
		if (word[i] == '\\')
			out[n++] = 'e';
		else
			out[n++] = word[i];
	}
	out[n] = 0;
	return n;
}

/* Lines of at most MAN_COLUMNS, and a new one for each sentence. */
static void man_text(const char *text)
{
	unsigned column = 0;
	char word[PARAM_TEXT];

	for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
		int len = strcspn(text, " ");
		unsigned width = man_escape(text, len, word);

		if (column && column + 1 + width > MAN_COLUMNS) {
			printf("\n");
			column = 0;
		}
		column += printf("%s%s", column ? " " : "", word);
		if (word[width - 1] == '.') {
			printf("\n");
			column = 0;
		}
		text += len;
	}
	if (column)
		printf("\n");
}

static void man_entry(const struct param_info *info)
{
	char line[4 * PARAM_TEXT];

	printf(".It Ev %s\n", info->variable);
	man_text(info->sentence);
	if (info->different) {
		snprintf(line, sizeof(line), "Here: %s.", info->different);
		man_text(line);
		return;
	}
	snprintf(line, sizeof(line), "Values: %s; by default %s.", info->range,
		 *info->def ? info->def : "empty");
	man_text(line);
}

static void print_man(void)
{
	static const char *const heads[] = {
		[PARAM_ACTS] = "Parameters that act",
		[PARAM_ALWAYS] = "Parameters that ask for what is always so",
		[PARAM_CARD] = "Parameters that need a card or fabric",
	};
	struct param_info info;

	param_init(get_nothing);
	for (unsigned class = 0; class < sizeof(heads) / sizeof(*heads); class ++) {
		printf(".Ss %s\n.Bl -tag -width Ev\n", heads[class]);
		for (unsigned i = 0; i < param_count(); i++) {
			param_describe(i, &info);
			if (info.class == class)
				man_entry(&info);
		}
		printf(".El\n");
	}
}

/* ---- the table ------------------------------------------------------------------------- */

static void print_table(bool changed_only)
{
	struct param_info info;

	printf("%-38s %-22s %-26s %-26s %s\n", "variable", "class", "default", "now",
	       "what it does");
	for (unsigned i = 0; i < param_count(); i++) {
		param_describe(i, &info);
		if (!info.changed && changed_only)
			continue;
		printf("%-38s %-22s %-26s %-26s %s", info.variable, class_names[info.class],
		       info.def, info.now, info.sentence);
		if (info.different)
			printf(" Here: %s.", info.different);
		printf("\n");
	}
}

int cmd_params(int argc, char **argv)
{
	static const struct option options[] = {
		{"changed", no_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'},
		{"man", no_argument, NULL, 'M'},
		{"markdown", no_argument, NULL, 'm'},
		{0},
	};
	void (*page)(void) = NULL;
	bool changed = false;
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'c')
			changed = true;
		else if (option == 'm')
			page = print_page;
		else if (option == 'M')
			page = print_man;
		else if (option == 'h')
			return fputs(params_help, stdout), 0;
		else
			return fputs(params_help, stderr), USAGE_ERROR;
	}
	if (argv[optind])
		return fputs(params_help, stderr), USAGE_ERROR;
	if (page)
		return page(), 0;
	param_init(vma_variable);
	log_init(LOG_WARNING, 0, false, "");
	print_table(changed);
	fflush(stdout);
	return param_warn(environ) ? 1 : 0;
}
