#!/usr/bin/env python3
"""Runs clang-tidy over the torch-free sources, with a memory of what was already found clean.

  tools/clang_tidy.py [FILE...]      all sources of the project that need neither torch nor CUDA without FILE

A file is checked again when it, a header of ours that it includes (however deep), .clang-tidy or clang-tidy changed.
"""

import concurrent.futures
import hashlib
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import build_graph  # pylint: disable=wrong-import-position
import check_layers  # pylint: disable=wrong-import-position

ROOT = pathlib.Path(__file__).resolve().parents[1]
INCLUDE_ROOT = ROOT / ".cache/include"
CLEAN = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "shardwright-tidy"
CLEAN_KEPT = 5000
SOURCE_FOLDERS = ("core/", "strategies/", "callbacks/", "cli/")


def make_include_root(graph):
    """A folder where every header lies under the name by which it is included; those of .proto files are generated."""
    headers = {}
    for target in graph.targets.values():
        if target.package.startswith("third_party"):
            continue
        if target.kind == "sw_proto_library":
            generate_proto(target)
        headers.update({target.include_path(h): ROOT / h for h in target.hdrs if (ROOT / h).exists()})
    for include, path in headers.items():
        link = INCLUDE_ROOT / include
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink() or os.readlink(link) != str(path):
            link.unlink(missing_ok=True)
            link.symlink_to(path)
    return headers


def generate_proto(target):
    source = (ROOT / target.hdrs[0]).with_suffix("").with_suffix(".proto")
    out = INCLUDE_ROOT / "shardwright" / target.package
    out.mkdir(parents=True, exist_ok=True)
    subprocess.run(["protoc", f"--proto_path={source.parent}", f"--cpp_out={out}", source], check=True)


def torch_free_sources(graph):
    for target in graph.targets.values():
        if not target.fence and target.kind in build_graph.MACROS:
            yield from (s for s in target.srcs if s.endswith(".cc") and s.startswith(SOURCE_FOLDERS) and (ROOT / s).exists())


def texts(path, headers):
    """(file, text) of the file and of all its headers of ours."""
    seen, pending = set(), [ROOT / path]
    while pending:
        file = pending.pop()
        if file in seen:
            continue
        seen.add(file)
        text = file.read_text(encoding="utf-8")
        yield file, text
        pending.extend(sorted(headers[i] for i in check_layers.INCLUDE.findall(text) if i in headers))


def needs_cuda(path, headers):
    """True for what only builds with --config=cuda: the toolkit may be absent."""
    includes = (i for _, text in texts(path, headers) for i in check_layers.INCLUDE.findall(text))
    return any((check_layers.third_party_owner(i) or "").startswith("@cuda//") for i in includes)


def content_key(path, headers, salt):
    digest = hashlib.sha256(salt)
    for file, text in texts(path, headers):
        digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + text.encode() + b"\0")
    return digest.hexdigest()


def check(path, key):
    """(path, "" if clean, else what clang-tidy said)"""
    command = ["clang-tidy", "--quiet", str(ROOT / path), "--", "-std=c++20", "-xc++", f"-I{INCLUDE_ROOT}", f"-I{ROOT}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if result.returncode == 0:
        (CLEAN / key).touch()
        return path, ""
    return path, result.stdout + result.stderr


def forget_old():
    entries = sorted(CLEAN.iterdir(), key=lambda e: e.stat().st_mtime)
    for entry in entries[:-CLEAN_KEPT]:
        entry.unlink(missing_ok=True)


def main():
    graph = build_graph.BuildGraph(ROOT)
    headers = make_include_root(graph)
    paths = sys.argv[1:] or sorted({s for s in torch_free_sources(graph) if not needs_cuda(s, headers)})
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    salt = version + (ROOT / ".clang-tidy").read_bytes()
    CLEAN.mkdir(parents=True, exist_ok=True)
    keys = {path: content_key(path, headers, salt) for path in paths}
    pending = [path for path in paths if not (CLEAN / keys[path]).exists()]
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        results = list(pool.map(lambda path: check(path, keys[path]), pending))
    forget_old()
    bad = [(path, output) for path, output in results if output]
    for path, output in bad:
        print(f"{path}\n{output}")
    print(f"clang-tidy: {len(paths)} files, {len(pending)} of them checked now, {len(bad)} with warnings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
