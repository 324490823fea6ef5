"""A system library found with pkg-config, as @name//:name (no download, no build).

By default it is linked the usual way, dynamically.  With `archive` it becomes part of
whatever is linked against it: libvma.so carries such libraries inside, hidden, so that
preloading it loads nothing else and the program keeps its own version.

Debian compiles these archives for executables (-fPIE), not for shared objects.  Two things
in them do not fit into one, and are mended here: C's standard streams are addressed as if
they were ours (they become ours, see stdio.c), and one object of libelf has a
thread-local variable in the model of executables (it is left out, see elf_error.c).
Everything else is addressed relative to the code, and the linker is told to insist
(-z text, -z defs).
"""

_BUILD = """
cc_library(
    name = "{name}",
    srcs = {srcs},
    hdrs = glob([i + "/**/*.h" for i in {includes}]),
    includes = {includes},
    linkopts = {linkopts},
    linkstatic = 1,
    visibility = ["//visibility:public"],
    deps = {deps},
)

# For who opens the library at run time.
cc_library(
    name = "headers",
    hdrs = glob([i + "/**/*.h" for i in {includes}]),
    includes = {includes},
    visibility = ["//visibility:public"],
)
"""

_ARCHIVE = """
genrule(
    name = "archive",
    srcs = ["original.a"],
    outs = ["lib{name}.pic.a"],
    cmd = "objcopy {renames} $< $@{drop}",
)
"""

def _pkg_config(ctx, *args):
    found = ctx.execute(["pkg-config"] + list(args) + [ctx.attr.pkg])
    if found.return_code:
        fail("%s: pkg-config %s: %s" % (ctx.name, " ".join(args), found.stderr))
    return [word for word in found.stdout.strip().split(" ") if word]

def _pkg_config_library_impl(ctx):
    spec = "%s >= %s" % (ctx.attr.pkg, ctx.attr.version)
    found = ctx.execute(["pkg-config", "--exists", "--print-errors", spec])
    if found.return_code:
        fail("%s: needs %s (Debian: apt-get install %s)\n%s" %
             (ctx.name, spec, ctx.attr.deb, found.stderr))
    includes = []
    for flag in _pkg_config(ctx, "--cflags-only-I"):
        # /usr/include itself is always searched; linking it here would let
        # every header of the system shadow ours.
        if flag[2:] != "/usr/include":
            include = "include%d" % len(includes)
            ctx.symlink(flag[2:], include)
            includes.append(include)
    build = ""
    srcs = []
    linkopts = []
    if ctx.attr.archive:
        path = ctx.path(_pkg_config(ctx, "--variable=libdir")[0] + "/" + ctx.attr.archive)
        if not path.exists:
            fail("%s: no %s (Debian: apt-get install %s)" % (ctx.name, path, ctx.attr.deb))
        ctx.symlink(path, "original.a")
        build = _ARCHIVE.format(
            name = ctx.name,
            renames = " ".join(["--redefine-sym %s=libvma_%s" % (s, s) for s in ["stdin", "stdout", "stderr"]]),
            drop = " && chmod u+w $@ && ar d $@ " + " ".join(ctx.attr.drop) if ctx.attr.drop else "",
        )
        srcs = [":archive"]
    else:
        linkopts = ["-Wl,--as-needed"] + _pkg_config(ctx, "--libs-only-l")
    ctx.file("BUILD.bazel", build + _BUILD.format(
        name = ctx.name,
        srcs = srcs,
        includes = includes,
        linkopts = linkopts,
        deps = [str(d) for d in ctx.attr.deps],
    ))

pkg_config_library = repository_rule(
    implementation = _pkg_config_library_impl,
    attrs = {
        "archive": attr.string(doc = "link this file of the library's directory, not the shared object"),
        "deb": attr.string(mandatory = True),
        "deps": attr.string_list(doc = "what the archive needs"),
        "drop": attr.string_list(doc = "members of the archive to leave out"),
        "pkg": attr.string(mandatory = True),
        "version": attr.string(default = "0"),
    },
    configure = True,
    local = True,
)
