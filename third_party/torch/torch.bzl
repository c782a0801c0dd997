"""Makes @torch of the LibTorch that find_torch.py finds: $SHARDWRIGHT_TORCH, the active python's torch, or the .venv's."""

# Only these of the wheel's include folder: it also ships headers of protobuf and pybind11.
_HEADERS = ["ATen", "c10", "torch", "caffe2"]
_LIBRARIES = [
    "libtorch.so",
    "libtorch_cpu.so",
    "libc10.so",
    "libgomp.so.1",
    "libtorch_cuda.so",
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

[cc_library(name = name, hdrs = [":not_found"]) for name in ["torch", "torch_cuda", "torch_python"]]
"""

def _find(ctx):
    """(key -> value as find_torch.py prints them, reason if there is no fitting torch)"""
    python = ctx.which("python3")
    if not python:
        return {}, "no python3 on PATH to look for LibTorch with\n"
    result = ctx.execute([python, ctx.path(Label("@shardwright//third_party/torch:find_torch.py"))])
    lines = [line.split("=", 1) for line in result.stdout.splitlines() if "=" in line]
    return {pair[0]: pair[1] for pair in lines}, result.stderr

def _torch_repository_impl(ctx):
    found, reason = _find(ctx)
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
        "%{runtime}": repr(["lib/" + library for library in found]),
        "%{origin}": "LibTorch %s of %s" % (version, root),
    })

torch_repository = repository_rule(
    implementation = _torch_repository_impl,
    environ = ["SHARDWRIGHT_TORCH", "VIRTUAL_ENV", "PATH"],
    configure = True,
    local = True,
)
