/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the driver (run.c) and a side (worker.c): descriptors and marks. */
#ifndef DIFF_WORKER_H
#define DIFF_WORKER_H

#define CONTROL_FD 900	  /* to the other side, SOCK_SEQPACKET */
#define TRANSCRIPT_FD 901 /* to the driver: lines; those that begin with a MARK are its own */
#define MARK_BEGIN '\1'	  /* index */
#define MARK_END '\2'	  /* index, how far the kernel's counters moved */

#define PORTS_EACH 11u /* of a behaviour */
#define ARRIVE_PORT 10 /* the last of them is for arrive() */

/* worker SIDE SUITE FIRST PORT-BASE LIB? [BEHAVIOUR...]; the exit status. */
int worker_main(int argc, char **argv);

/* execs.c: the program that is executed there. */
int executed_main(const char *what);

#endif
