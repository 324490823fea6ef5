"""Compile a BPF program and wrap its object in a bpftool skeleton header."""

def bpf_skeleton(name, src, hdrs = [], copts = [], **kwargs):
    """`#include "ring/<name>.h"` for one in src/ring; functions are <name>__open() and so on."""
    obj = name + ".bpf.o"
    native.genrule(
        name = name + "_obj",
        srcs = [src] + hdrs,
        outs = [obj],
        cmd = "clang-14 -target bpf -mcpu=v3 -O2 -g -Wall -Werror " +
              "-I/usr/include/x86_64-linux-gnu -ffile-prefix-map=$$PWD=. " +
              "%s -c $(location %s) -o $@ && llvm-strip-14 -g $@" % (" ".join(copts), src),
    )
    native.genrule(
        name = name + "_hdr",
        srcs = [obj],
        outs = [name + ".h"],
        # bpftool generates code with warnings.
        cmd = "{ echo '#pragma GCC system_header' && " +
              "/usr/sbin/bpftool gen skeleton $(location %s) name %s; } > $@" % (obj, name),
    )
    native.cc_library(
        name = name,
        hdrs = [name + ".h"],
        deps = ["@bpf"],
        **kwargs
    )
