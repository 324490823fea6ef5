/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs packet scripts, see script.h.
 *
 *	script [-6] FILE.pkt...		all of them; over IPv6
 *	SCRIPT=NAME script FILE.pkt	the one of that name
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/script/script.h"

int main(int argc, char **argv)
{
	const char *only = getenv("SCRIPT");
	unsigned passed = 0, failed = 0;
	bool ip6 = argc > 1 && !strcmp(argv[1], "-6");

	for (int i = 1 + ip6; i < argc; i++) {
		struct script_result r = script_run_file(argv[i], ip6, only);

		passed += r.passed;
		failed += r.failed;
	}
	printf("%u scripts passed, %u failed\n", passed, failed);
	return failed || !passed;
}
