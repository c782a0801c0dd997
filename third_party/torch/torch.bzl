"""Finds LibTorch: $SHARDWRIGHT_TORCH, else the active python's torch, else the workspace's .venv."""

_LIBRARIES = ["libtorch.so", "libtorch_cpu.so", "libc10.so", "libgomp.so.1"]
_CUDA_LIBRARIES = ["libtorch_cuda.so", "libc10_cuda.so"]

# libtorch_cpu.so of the PyPI wheel needs these two even where there is no GPU.
_CUDA_RUNTIME = ["libcudart.so.13", "libcupti.so.13"]
_CUDA_RUNTIME_FOLDERS = [
    "../nvidia/cu13/lib",
    "../nvidia/cuda_runtime/lib",
    "../nvidia/cuda_cupti/lib",
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/extras/CUPTI/lib64",
]

def _python_torch(ctx):
    """The torch folder of the active python, found without importing torch, or None."""
    python = ctx.which("python3")
    if not python:
        return None
    program = "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    result = ctx.execute([python, "-c", program])
    root = result.stdout.strip()
    return root if result.return_code == 0 and root else None

def _venv_torch(ctx):
    workspace = ctx.path(Label("@shardwright//:WORKSPACE")).dirname
    result = ctx.execute(["sh", "-c", "ls -d %s/.venv/lib/python3*/site-packages/torch 2>/dev/null | head -n 1" % workspace])
    return result.stdout.strip() or None

def _link_first(ctx, root, name):
    for folder in _CUDA_RUNTIME_FOLDERS:
        path = ctx.path(folder + "/" + name if folder.startswith("/") else root + "/" + folder + "/" + name)
        if path.exists:
            ctx.symlink(path, "lib/" + name)
            return True
    return False

def _torch_repository_impl(ctx):
    candidates = [ctx.os.environ.get("SHARDWRIGHT_TORCH"), _python_torch(ctx), _venv_torch(ctx)]
    roots = [r for r in candidates if r and ctx.path(r + "/include/c10/core/Device.h").exists]
    if not roots:
        # The failure waits until something needs torch: the torch-free targets build without it.
        ctx.file("BUILD", """
genrule(
    name = "torch",
    outs = ["torch_was_not_found.h"],
    cmd = "echo 'no LibTorch found: run tools/setup.sh, or set SHARDWRIGHT_TORCH to the torch folder of a python package' >&2; false",
    visibility = ["//visibility:public"],
)
alias(name = "torch_python", actual = ":torch", visibility = ["//visibility:public"])
alias(name = "torch_cuda", actual = ":torch", visibility = ["//visibility:public"])
""")
        return
    root = roots[0]
    for folder in ["ATen", "c10", "torch", "caffe2"]:
        ctx.symlink(root + "/include/" + folder, "include/" + folder)
    ctx.symlink(root + "/include/pybind11", "pybind/pybind11")
    for library in _LIBRARIES + _CUDA_LIBRARIES + ["libtorch_python.so"]:
        if ctx.path(root + "/lib/" + library).exists:
            ctx.symlink(root + "/lib/" + library, "lib/" + library)
    runtime = [name for name in _CUDA_RUNTIME if _link_first(ctx, root, name)]
    ctx.template("BUILD", Label("@shardwright//third_party/torch:torch.BUILD.tpl"), {
        "%{runtime}": repr(["lib/" + name for name in runtime]),
        "%{root}": root,
    })

torch_repository = repository_rule(
    implementation = _torch_repository_impl,
    environ = ["SHARDWRIGHT_TORCH", "VIRTUAL_ENV", "PATH"],
    configure = True,
    local = True,
)
