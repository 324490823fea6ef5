/* SPDX-License-Identifier: BSD-2-Clause */
/* A program without a dynamic loader. */
int main(void)
{
	return 0;
}
