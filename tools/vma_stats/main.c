/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/vma_stats/vma_stats.h"

int main(int argc, char **argv)
{
	return vma_stats_main(argc, argv);
}
