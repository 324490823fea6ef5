/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that has inherited a connection, calls nothing for two seconds, and answers.
 *
 *	late_answer FD
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct timespec pause = {.tv_sec = 2};

	if (argc < 2)
		return 2;
	nanosleep(&pause, NULL);
	return write(atoi(argv[1]), "answer", 6) != 6;
}
