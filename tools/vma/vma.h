/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The subcommands of vma.  Each has its own file, its own usage, and its own exit status.
 */
#ifndef TOOLS_VMA_VMA_H
#define TOOLS_VMA_VMA_H

/* argv[0] is the name of the subcommand, argv[argc] is NULL. */
int cmd_capture(int argc, char **argv);
int cmd_check_conf(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_params(int argc, char **argv);
int cmd_run(int argc, char **argv);

extern const char capture_help[], check_conf_help[], doctor_help[], params_help[], run_help[];

/* getenv(3), as param_init() takes it. */
const char *vma_variable(const char *name);

#endif
