/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the driver (run.c) and a side (worker.c): descriptors and markers. */
#ifndef DIFF_WORKER_H
#define DIFF_WORKER_H

#define CONTROL_FD 900	  /* to the other side, SOCK_SEQPACKET */
#define TRANSCRIPT_FD 901 /* to the driver: lines; lines that begin with a MARK are control lines */
#define MARK_BEGIN '\1'	  /* index */
#define MARK_END '\2'	  /* index, difference of the kernel's counters */

#define PORTS_EACH 11u /* per behaviour */
#define ARRIVE_PORT 10 /* the last one is for arrive() */

/* worker SIDE SUITE FIRST PORT-BASE LIB? [BEHAVIOUR...]; the exit status. */
int worker_main(int argc, char **argv);

/* execs.c: the program that a behaviour executes. */
int executed_main(const char *what);

#endif
