/* SPDX-License-Identifier: BSD-2-Clause */
/* occupant INTERFACE: has an XDP program on it that passes every frame, until it is killed. */
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static const struct bpf_insn pass[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int program, link;

	if (argc != 2)
		return 2;
	program = bpf_prog_load(BPF_PROG_TYPE_XDP, "occupant", "BSD", pass,
				sizeof(pass) / sizeof(*pass), NULL);
	if (program < 0)
		return fprintf(stderr, "no program: %s\n", strerror(-program)), 1;
	link = bpf_link_create(program, (int)if_nametoindex(argv[1]), BPF_XDP, NULL);
	if (link < 0)
		return fprintf(stderr, "not attached: %s\n", strerror(-link)), 1;
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
