"""Compiler flags and rules shared by every C target of this tree."""

VMA_COPTS = [
    # Include paths start at src/ ("net/tcp/tcp.h"), generated headers included.
    "-iquote",
    "src",
    "-iquote",
    "$(GENDIR)/src",
    "-D_GNU_SOURCE",
    # Its wrappers would be replaced by the functions that libvma.so exports.
    "-U_FORTIFY_SOURCE",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wshadow",
    "-Wundef",
    "-Wvla",
    "-Wpointer-arith",
    "-Wcast-qual",
    "-Wwrite-strings",
    "-Wstrict-prototypes",
    "-Wmissing-prototypes",
    "-Wold-style-definition",
    "-Wformat=2",
    "-Wno-unused-parameter",
    "-fvisibility=hidden",
    "-fno-strict-aliasing",
]

def vma_library(name, **kwargs):
    """The product, a shared object that needs libc and nothing else: see third_party/pkg_config.bzl."""
    native.cc_binary(
        name = name,
        additional_linker_inputs = ["//:libvma.map"],
        linkopts = [
            "-Wl,--version-script=$(location //:libvma.map)",
            "-Wl,--exclude-libs,ALL",
            "-Wl,-soname,libvma.so",
            "-Wl,-z,now,-z,relro,-z,text",
            "-Wl,--gc-sections",
        ] + select({
            "//:clang_sanitizer": [],
            "//conditions:default": [
                "-Wl,-z,defs",
                "-Wl,--no-undefined",
            ],
        }),
        linkshared = 1,
        deps = ["//src/intercept"],
        **kwargs
    )

def version_script(name, calls, macros = ["CALL"]):
    """A version script <name> that exports what the X-macro list in `calls` names, and nothing else.

    The list is run through the preprocessor with each of `macros` standing for "the second
    argument is a function"; whatever does not come out as a plain name is an error.
    """
    defines = "".join(["#define %s(type, name, ...) name;\\n" % m for m in macros])
    native.genrule(
        name = name + "_gen",
        srcs = [calls],
        outs = [name],
        cmd = """
            names=$$(printf '%s#include "%%s"\\n' $(location %s) |
                $(CC) -E -P -DGENERATE_MAP -I. -x c - | tr ';' '\\n' | sed 's/[[:space:]]//g; /^$$/d' |
                LC_ALL=C sort -u)
            if [ -z "$$names" ] || printf '%%s\\n' "$$names" | grep -qvE '^[a-z_][a-zA-Z0-9_]*$$'; then
                echo '%s: not a list of names:' "$$names" >&2
                exit 1
            fi
            { echo '{'; echo 'global:'; printf '\\t%%s;\\n' $$names; echo 'local:'; echo '	*;'; echo '};'; } > $@
        """ % (defines, calls, calls),
        toolchains = ["@bazel_tools//tools/cpp:current_cc_toolchain"],
    )
