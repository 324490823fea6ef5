"""A bench of a shell script, and the test that each of its numbers is there."""

load("//tests:defs.bzl", "ALONE_TAGS")

def checked_bench(name, size, args, data, tags = []):
    """bench_NAME runs NAME.sh; NAME_test runs it with args and --check.

    Args:
      name: of the script.
      size: of the test.
      args: that make it short.
      data: of both.
      tags: further ones of the test.
    """
    native.sh_binary(
        name = "bench_" + name,
        testonly = 1,
        srcs = [name + ".sh"],
        data = data,
        visibility = ["//visibility:public"],
    )
    native.sh_test(
        name = name + "_test",
        size = size,
        srcs = [name + ".sh"],
        args = args + ["--check"],
        data = data,
        tags = ALONE_TAGS + ["bench"] + tags,
    )
