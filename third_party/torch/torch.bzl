"""Makes @torch of the LibTorch that find_torch.py finds: $SHARDWRIGHT_TORCH, the active python's torch, or the .venv's."""

load("@shardwright//third_party/torch:find.bzl", "CUDART", "find_torch")

# Only these of the wheel's include folder: it also ships headers of protobuf and pybind11.
_HEADERS = ["ATen", "c10", "torch", "caffe2"]
_LIBRARIES = [
    "libtorch.so",
    "libtorch_cpu.so",
    "libc10.so",
    "libgomp.so.1",
    "libc10_cuda.so",
    "libtorch_python.so",
]

# The failure waits until something needs torch: torch-free targets build without one.
_NOT_FOUND = """
package(default_visibility = ["//visibility:public"])

genrule(
    name = "not_found",
    outs = ["no_libtorch.h"],
    cmd = "cat $(location reason.txt) >&2; false",
    srcs = ["reason.txt"],
    message = "Looking for LibTorch",
)

[cc_library(name = name, hdrs = [":not_found"]) for name in ["torch", "c10_cuda", "torch_cuda", "torch_python"]]
"""

# libtorch_cuda.so is linked where it lies: it looks for its many libraries from there, and to link one need not have them.
_CUDA_RULES = """
# Devices and streams.
cc_library(
    name = "c10_cuda",
    srcs = ["lib/libc10_cuda.so"],
    deps = [
        ":torch",
        "@cuda//:cudart",
    ],
)

# Tensors on devices.
cc_library(
    name = "torch_cuda",
    linkopts = [
        "-L%{folder}",
        "-Wl,-rpath,%{folder}",
        "-ltorch_cuda",
        "-Wl,--allow-shlib-undefined",
    ],
    deps = [":c10_cuda"],
)
"""

_NO_CUDA_RULES = """
genrule(
    name = "no_cuda",
    outs = ["no_libtorch_cuda.h"],
    cmd = "echo '%{root} is a LibTorch for CPUs: --config=cuda needs the wheel for CUDA 13' >&2; false",
    message = "Looking for LibTorch's CUDA libraries",
)

[cc_library(name = name, hdrs = [":no_cuda"]) for name in ["c10_cuda", "torch_cuda"]]
"""

def _cuda_rules(ctx, root):
    if ctx.path(root + "/lib/libtorch_cuda.so").exists:
        return _CUDA_RULES.replace("%{folder}", root + "/lib")
    return _NO_CUDA_RULES.replace("%{root}", root)

def _torch_repository_impl(ctx):
    found, reason = find_torch(ctx)
    root = found.pop("root", None)
    if not root:
        advice = "no fitting LibTorch: run tools/setup.sh, or set SHARDWRIGHT_TORCH to the torch folder of a python package\n"
        ctx.file("reason.txt", advice + reason)
        ctx.file("BUILD", _NOT_FOUND)
        return
    version = found.pop("version")
    for folder in _HEADERS:
        ctx.symlink(root + "/include/" + folder, "include/" + folder)
    if ctx.path(root + "/include/pybind11").exists:
        ctx.symlink(root + "/include/pybind11", "pybind/pybind11")
    for library in _LIBRARIES:
        if ctx.path(root + "/lib/" + library).exists:
            ctx.symlink(root + "/lib/" + library, "lib/" + library)
    for library, path in found.items():
        ctx.symlink(path, "lib/" + library)
    ctx.template("BUILD", Label("@shardwright//third_party/torch:torch.BUILD.tpl"), {
        "%{runtime}": repr(["lib/" + library for library in found if library != CUDART]),
        "%{cudart}": repr(["lib/" + library for library in found if library == CUDART]),
        "%{cuda_rules}": _cuda_rules(ctx, root),
        "%{origin}": "LibTorch %s of %s" % (version, root),
    })

torch_repository = repository_rule(
    implementation = _torch_repository_impl,
    environ = ["SHARDWRIGHT_TORCH", "VIRTUAL_ENV", "PATH"],
    configure = True,
    local = True,
)
