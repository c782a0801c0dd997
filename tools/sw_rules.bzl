"""The project's build macros: the only rules that its BUILD files use.

Every header is included as "shardwright/<package>/<header>", from inside the project and from outside workspaces alike.
"""

_COPTS = [
    "-std=c++20",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-Wno-missing-field-initializers",
    "-Wno-maybe-uninitialized",  # GCC 12 is wrong about std::variant
]

# Torch's headers warn too much to be held to our own level.
_FENCE_COPTS = ["-std=c++20", "-Wall", "-Wno-sign-compare", "-Wno-unused-variable", "-Wno-maybe-uninitialized", "-DUSE_C10D_GLOO"]

def _include_prefix():
    package = native.package_name()
    return "shardwright/" + package if package else "shardwright"

def sw_cc_library(name, include_prefix = None, copts = [], fence = False, **kwargs):
    """A library whose headers carry the shardwright/ prefix.

    Args:
      name: target name; by habit the header's name.
      include_prefix: replaces "shardwright/<package>"; public umbrella headers set "shardwright".
      copts: more compiler options.
      fence: True where torch headers are included.
      **kwargs: handed to cc_library.
    """
    native.cc_library(
        name = name,
        include_prefix = include_prefix or _include_prefix(),
        copts = (_FENCE_COPTS if fence else _COPTS) + copts,
        **kwargs
    )

def sw_cc_binary(name, copts = [], fence = False, **kwargs):
    native.cc_binary(name = name, copts = (_FENCE_COPTS if fence else _COPTS) + copts, **kwargs)

def sw_cc_test(name, deps = [], copts = [], fence = False, size = "small", tags = [], **kwargs):
    """A GoogleTest; `fence = True` marks it as one that links torch (not run under sanitizers)."""
    native.cc_test(
        name = name,
        size = size,
        copts = (_FENCE_COPTS if fence else _COPTS) + copts,
        tags = tags + (["torch"] if fence else []),
        deps = deps + ["@shardwright//third_party/googletest:googletest_main"],
        **kwargs
    )

def sw_proto_library(name, src, **kwargs):
    """C++ code of one .proto, made by the system's protoc, so that outside workspaces need no flags for it."""
    stem = src[:-len(".proto")]
    native.genrule(
        name = name + "_protoc",
        srcs = [src],
        outs = [stem + ".pb.h", stem + ".pb.cc"],
        # The proto's folder is its root: generated files then include each other without a folder.
        cmd = "protoc --proto_path=$$(dirname $<) --cpp_out=$(RULEDIR) $<",
        message = "Generating C++ of",
    )
    native.cc_library(
        name = name,
        srcs = [stem + ".pb.cc"],
        hdrs = [stem + ".pb.h"],
        include_prefix = _include_prefix(),
        includes = ["."],
        copts = ["-std=c++20"],
        deps = ["@shardwright//third_party/protobuf"],
        **kwargs
    )

# Folders by level; a folder sees itself and the levels below. tools/check_layers.py reads this table and checks includes.
LEVELS = [
    ["core/base"],
    ["core/manifest", "core/storage", "core/device"],
    ["core/tensor", "core/plan", "core/comm"],
    ["core/format"],
    ["core/checkpoint", "core/module"],
    ["core/strategy", "core/callback", "core/data", "core/models"],
    ["core/trainer", "strategies", "callbacks"],
    ["cli/app"],
    ["cli", "python_bindings"],
]

def sw_level_groups():
    """One package group per folder, "above_<last part of its name>": the folder's tests and every level above it."""
    for level in range(len(LEVELS)):
        above = ["//tests/...", "//"]
        for folders in LEVELS[level + 1:]:
            above += ["//%s/..." % folder for folder in folders]
        for folder in LEVELS[level]:
            native.package_group(
                name = "above_" + folder.split("/")[-1],
                packages = above + ["//%s/..." % folder],
            )
