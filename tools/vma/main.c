/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vma: the front command.  The first argument names the subcommand; as vma_stats it is the command
 * of that name.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/version.h"
#include "tools/vma/top/top.h"
#include "tools/vma/trace/trace.h"
#include "tools/vma_stats/vma_stats.h"
#include "vma.h"

static const char stat_help[] =
	"usage: vma stat [OPTION...]\n"
	"Shows the counters of running processes with the library: sockets, rings, why\n"
	"sockets are accelerated or not.  vma stat --help tells the options, which are\n"
	"those of vma_stats.\n";

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help, *line;
} commands[] = {
	{"capture", cmd_capture, capture_help, "the accelerated frames of a process, as pcapng"},
	{"check-conf", cmd_check_conf, check_conf_help, "which rules of a libvma.conf decide?"},
	{"doctor", cmd_doctor, doctor_help, "is this machine set up right?"},
	{"params", cmd_params, params_help, "the parameters and what the environment sets"},
	{"run", cmd_run, run_help, "run a program with the library"},
	{"stat", vma_stats_main, stat_help, "the statistics of running processes (vma_stats)"},
	{"top", cmd_top, top_help, "the busiest sockets and rings, live"},
	{"trace", cmd_trace, trace_help, "what happened lately to the sockets of a process?"},
};

#define N_COMMANDS (sizeof(commands) / sizeof(*commands))

static int usage(FILE *out)
{
	fputs("usage: vma COMMAND [ARGUMENT...]\n\n", out);
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].line);
	fputs("\nvma help COMMAND tells more.\n", out);
	return out == stdout ? 0 : 3;
}

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	fprintf(stderr, "vma: there is no command %s\n", name);
	return NULL;
}

static int help(const char *name)
{
	const struct command *command;

	if (!name)
		return usage(stdout);
	command = find(name);
	if (!command)
		return usage(stderr);
	fputs(command->help, stdout);
	return 0;
}

static bool is_called(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');

	return !strcmp(slash ? slash + 1 : path, name);
}

int main(int argc, char **argv)
{
	const struct command *command;

	if (argc && is_called(argv[0], "vma_stats"))
		return vma_stats_main(argc, argv);
	if (argc < 2)
		return usage(stderr);
	if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return help(argv[2]);
	if (!strcmp(argv[1], "--version"))
		return puts(VMA_VERSION) < 0;
	command = find(argv[1]);
	return command ? command->run(argc - 1, argv + 1) : usage(stderr);
}
