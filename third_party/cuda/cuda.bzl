"""Makes @cuda of the CUDA toolkit: the folder $SHARDWRIGHT_CUDA, else /usr/local/cuda.

The libraries are those that LibTorch's wheel came with, where it did: LibTorch needs at least their versions, and a process
has but one of each. Otherwise they are the toolkit's. (A newer library serves an older header.)
"""

load("@shardwright//third_party/torch:find.bzl", "CUDART", "find_torch")

_DEFAULT_TOOLKIT = "/usr/local/cuda"
_NCCL = "libnccl.so.2"

# The failure waits until something needs the toolkit: builds without --config=cuda do not.
_NOT_FOUND = """
package(default_visibility = ["//visibility:public"])

genrule(
    name = "not_found",
    outs = ["no_cuda.h"],
    cmd = "cat $(location reason.txt) >&2; false",
    srcs = ["reason.txt"],
    message = "Looking for the CUDA toolkit",
)

[cc_library(name = name, hdrs = [":not_found"]) for name in ["cudart", "nccl"]]
"""

def _library_folder(ctx, root, library):
    for folder in ["lib64", "lib"]:
        if ctx.path("%s/%s/%s" % (root, folder, library)).exists:
            return "%s/%s" % (root, folder)
    return None

def _find_nccl(ctx, torch, toolkit):
    """The folder whose include and lib have it, or None."""
    for root in ([torch["root"] + "/../nvidia/nccl"] if torch else []) + [toolkit]:
        if ctx.path(root + "/include/nccl.h").exists and _library_folder(ctx, root, _NCCL):
            return root
    return None

def _missing(ctx, toolkit, nccl):
    if not ctx.path(toolkit + "/include/cuda_runtime_api.h").exists:
        return "%s/include/cuda_runtime_api.h is missing" % toolkit
    if not _library_folder(ctx, toolkit, CUDART):
        return "%s has no %s in lib64 or lib" % (toolkit, CUDART)
    if not nccl:
        return "NCCL (include/nccl.h, %s) is neither beside LibTorch nor in %s" % (_NCCL, toolkit)
    return None

def _cuda_repository_impl(ctx):
    toolkit = ctx.os.environ.get("SHARDWRIGHT_CUDA") or _DEFAULT_TOOLKIT
    torch = find_torch(ctx)[0]
    nccl = _find_nccl(ctx, torch, toolkit)
    problem = _missing(ctx, toolkit, nccl)
    if problem:
        advice = "--config=cuda needs the CUDA toolkit 13 and NCCL in /usr/local/cuda or where SHARDWRIGHT_CUDA says: "
        ctx.file("reason.txt", advice + problem + "\n")
        ctx.file("BUILD", _NOT_FOUND)
        return
    ctx.symlink(toolkit + "/include", "include")
    if CUDART not in torch:
        ctx.symlink("%s/%s" % (_library_folder(ctx, toolkit, CUDART), CUDART), "lib/" + CUDART)
    for header in ctx.path(nccl + "/include").readdir():
        if header.basename.startswith("nccl"):
            ctx.symlink(header, "nccl/" + header.basename)
    ctx.symlink("%s/%s" % (_library_folder(ctx, nccl, _NCCL), _NCCL), "lib/" + _NCCL)
    ctx.template("BUILD", Label("@shardwright//third_party/cuda:cuda.BUILD.tpl"), {
        "%{origin}": "CUDA of %s, NCCL of %s" % (toolkit, nccl),
        "%{cudart_srcs}": repr([] if CUDART in torch else ["lib/" + CUDART]),
        "%{cudart_deps}": repr(["@torch//:cudart"] if CUDART in torch else []),
    })

cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    environ = ["SHARDWRIGHT_CUDA", "SHARDWRIGHT_TORCH", "VIRTUAL_ENV", "PATH"],
    configure = True,
    local = True,
)
