"""The kinds of test of this tree.

    unit_tests(deps)            one cmocka test per *_test.c of the package, tag as given
    netns_test(name, data)      shell test that makes network namespaces
    scenario_tests(data)        one such test per *_test.sh of the package
    test_program(name)          what tests run: <name>.c
    fuzz_test(name, corpus, deps)

Tests in C that make namespaces, call unshare(CLONE_NEWNET) themselves and have NETNS_TAGS.

Tags select: //tests/... under --config=tsan runs what is not tagged netns, lint or notsan.
"""

load("//:vma.bzl", "VMA_COPTS")

TEST_COPTS = VMA_COPTS + [
    "-iquote",
    "tests",
    # cmocka's macros cast pointers to integers and strings as they like.
    "-Wno-cast-qual",
]

# Bazel's sandbox is a user namespace, where BPF is refused: such a test runs outside.
NETNS_TAGS = [
    "local",
    "netns",
    "no-sandbox",
]

# Of a test that judges time, or keeps a processor busy on its own.
ALONE_TAGS = NETNS_TAGS + ["exclusive"]

def unit_tests(deps, size = "small", srcs = [], tags = [], linkopts = [], exclude = [], **kwargs):
    """Every *_test.c of the package is a test, ended by VMA_TEST_MAIN() of vma_test.h.

    Args:
      deps: the layers under test.
      size: as for any test.
      srcs: what they share, besides the package's headers.
      tags: as for any test.
      linkopts: as for any test; threads and dlsym() need none.
      exclude: files that are not such tests.
      **kwargs: for cc_test.
    """
    for src in native.glob(["*_test.c"], exclude = exclude):
        native.cc_test(
            name = src[:-len(".c")],
            size = size,
            srcs = [src] + srcs + native.glob(["*.h"]),
            copts = TEST_COPTS,
            linkopts = linkopts,
            tags = tags,
            deps = deps + ["//tests:vma_test"],
            **kwargs
        )

def netns_test(name, data = [], size = "medium", tags = [], srcs = None, alone = False, **kwargs):
    """Shell test in <name>.sh that makes network namespaces or loads BPF, as root.

    The test calls `unshare --net --mount` for itself first, so that nothing of it outlives it.

    Args:
      name: of the test.
      data: as for any test.
      size: as for any test.
      tags: as for any test, besides those of such tests.
      srcs: the script, if it has another name.
      alone: it judges time, or needs the whole machine: other tests do not run at the same time.
      **kwargs: for sh_test.
    """
    native.sh_test(
        name = name,
        size = size,
        srcs = srcs or [name + ".sh"],
        data = data,
        tags = tags + (ALONE_TAGS if alone else NETNS_TAGS),
        **kwargs
    )

def scenario_tests(data = [], exclude = [], alone = [], tags = []):
    """Every *_test.sh of the package, by hand: LIB=path/to/libvma.so <package>/<name>.sh

    Args:
      data: what they need besides the library, the probe and tools/lib/netns.sh.
      exclude: files that are not such tests.
      alone: those that judge time, without ".sh".
      tags: as for any test, of each of them.
    """
    for src in native.glob(["*_test.sh"], exclude = exclude):
        name = src[:-len(".sh")]
        netns_test(
            name = name,
            data = data + [
                "//:libvma.so",
                "//tests/scenario:probe",
                "//tools:netns",
            ],
            alone = name in alone,
            tags = tags,
        )

def test_program(name, **kwargs):
    """What tests run: <name>.c."""
    native.cc_binary(
        name = name,
        testonly = 1,
        srcs = [name + ".c"],
        copts = TEST_COPTS,
        **kwargs
    )

def fuzz_test(name, deps, srcs = []):
    """libFuzzer target in <what>_fuzz.c with --config=fuzz; else a replay of corpus/<what>/*."""
    corpus = name + "_corpus"
    native.filegroup(
        name = corpus,
        srcs = native.glob(["corpus/%s/*" % name[:-len("_fuzz")]], allow_empty = False),
    )
    corpus = ":" + corpus
    native.cc_test(
        name = name,
        size = "small",
        srcs = [name + ".c"] + srcs + select({
            "//:fuzzing": [],
            "//conditions:default": ["//tests:fuzz_main.c"],
        }),
        args = ["-runs=0", "$(locations %s)" % corpus],
        copts = TEST_COPTS,
        data = [corpus],
        linkopts = select({
            "//:fuzzing": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        tags = ["fuzz"],
        deps = deps,
    )
