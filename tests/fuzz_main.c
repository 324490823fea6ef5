/* SPDX-License-Identifier: BSD-2-Clause */
/* Replays files given on the command line through LLVMFuzzerTestOneInput(). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
	int i, n = 0;

	for (i = 1; i < argc; i++) {
		static uint8_t buf[1 << 20];
		FILE *f;
		size_t len;

		if (argv[i][0] == '-')
			continue;
		f = fopen(argv[i], "rb");
		if (f == NULL)
			return perror(argv[i]), 1;
		len = fread(buf, 1, sizeof(buf), f);
		fclose(f);
		LLVMFuzzerTestOneInput(buf, len);
		n++;
	}
	printf("replayed %d inputs\n", n);
	return n == 0;
}
