#!/usr/bin/env python3
"""Finds the LibTorch to build with, without importing torch.

Candidates, first to last: $SHARDWRIGHT_TORCH (the folder of a torch package), the torch of the python that runs this
file, the torch in the project's .venv. The first that is complete and recent enough is printed as key=value lines:

  root=/.../site-packages/torch
  version=2.15.0
  libcudart.so.13=/.../libcudart.so.13      libraries that libtorch_cpu.so needs from elsewhere

Exit status 1, with the reason for each candidate on stderr, if none fits. tools/setup.sh and torch.bzl both ask here, so
what one installs the other finds.
"""

import glob
import importlib.util
import os
import pathlib
import re
import sys

MINIMUM_VERSION = (2, 15)
NEEDED_FILES = ("include/c10/core/Device.h", "lib/libc10.so", "lib/libtorch_cpu.so")
# libtorch_cpu.so of a CUDA wheel links these even where there is no GPU.
RUNTIME_LIBRARIES = ("libcudart.so.13", "libcupti.so.13")
RUNTIME_FOLDERS = (
    "../nvidia/cu13/lib",
    "../nvidia/cuda_runtime/lib",
    "../nvidia/cuda_cupti/lib",
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/extras/CUPTI/lib64",
)
PROJECT = pathlib.Path(__file__).resolve().parents[2]


def candidates():
    """Yields (where it comes from, folder or None)."""
    chosen = os.environ.get("SHARDWRIGHT_TORCH")
    if chosen:
        yield "$SHARDWRIGHT_TORCH", pathlib.Path(chosen)
        return  # An explicit choice is not replaced silently by another.
    spec = importlib.util.find_spec("torch")
    locations = list(spec.submodule_search_locations or []) if spec else []
    yield "the active python", pathlib.Path(locations[0]) if locations else None
    venvs = sorted(glob.glob(str(PROJECT / ".venv/lib/python3*/site-packages/torch")))
    yield str(PROJECT / ".venv"), pathlib.Path(venvs[0]) if venvs else None


def version_of(root):
    """The version in the package's metadata, else in torch/version.py; "" if neither says one."""
    for metadata in sorted(root.parent.glob("torch-*.dist-info/METADATA")):
        match = re.search(r"^Version: (\S+)", metadata.read_text(encoding="utf-8"), re.MULTILINE)
        if match:
            return match.group(1)
    source = root / "version.py"
    match = re.search(r"__version__ = '([^']+)'", source.read_text(encoding="utf-8")) if source.exists() else None
    return match.group(1) if match else ""


def half_installed(root):
    """pip writes RECORD last: a torch-*.dist-info without it is what an interrupted installation left."""
    infos = list(root.parent.glob("torch-*.dist-info"))
    return any(not (info / "RECORD").exists() for info in infos)


def needs_cuda_runtime(root):
    return (root / "lib/libtorch_cuda.so").exists()


def find_runtime(root):
    """Library name -> path, of those that were found."""
    found = {}
    for library in RUNTIME_LIBRARIES:
        paths = [root / folder / library for folder in RUNTIME_FOLDERS]
        existing = [path for path in paths if path.exists()]
        if existing:
            found[library] = existing[0].resolve()
    return found


def problem_with(root):
    """Why this torch does not serve, or None."""
    if root is None or not root.is_dir():
        return "no torch there"
    missing = [name for name in NEEDED_FILES if not (root / name).exists()]
    if missing or half_installed(root):
        return f"{root} is not a whole LibTorch" + (f": {missing[0]} is missing" if missing else ", only half installed")
    version = version_of(root)
    numbers = tuple(int(n) for n in re.findall(r"\d+", version.split("+")[0])[:2])
    if numbers < MINIMUM_VERSION:
        return f"{root} is torch {version or 'of unknown version'}, need {'.'.join(map(str, MINIMUM_VERSION))} or newer"
    if needs_cuda_runtime(root):
        absent = [name for name in RUNTIME_LIBRARIES if name not in find_runtime(root)]
        if absent:
            return f"{root} needs {' and '.join(absent)}, neither beside it nor in /usr/local/cuda"
    return None


def main():
    for place, root in candidates():
        problem = problem_with(root)
        if problem:
            print(f"{place}: {problem}", file=sys.stderr)
            continue
        print(f"root={root}")
        print(f"version={version_of(root)}")
        for library, path in find_runtime(root).items() if needs_cuda_runtime(root) else ():
            print(f"{library}={path}")
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
