#!/usr/bin/env python3
"""Checks that the code keeps the layers that tools/sw_rules.bzl draws, and that BUILD files say what the code includes.

  tools/check_layers.py [ROOT]     prints every violation, then their count; exit status 1 if there is one

Rules: an include goes to a lower level or stays in its folder; siblings do not know each other; torch headers stay behind
`fence = True`; .pb.h stays in the codec; glog stays where logging is; a target's deps are exactly what it includes; every
source file belongs to a target; what must be free of torch is. Tests of a folder may share one list of deps.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import build_graph  # pylint: disable=wrong-import-position

# Folders whose subfolders are interchangeable implementations that do not know each other, with the parts that all of them
# share, from the lowest up: a shared part includes those before it, an implementation any.
SIBLING_FOLDERS = {
    "core/format": ("bytes", "pickle", "computed", "torch", "safetensors"),
    "strategies": (),
}
# The same for files.
SIBLING_FILES = {
    "callbacks": ("throughput",),
}

FENCED_FOLDERS = ("core/comm", "core/module", "core/models", "core/strategy", "strategies", "python_bindings", "tests")
GLOG_FOLDERS = ("cli", "core/trainer")
PROTOBUF_FILES = ("core/manifest/codec.cc",)
TORCH_FREE_TARGETS = ("//:checkpoint", "//cli:shardwright")

# First part of an include -> the target that gives it.
THIRD_PARTY = {
    "absl": "//third_party/absl:absl",
    "gflags": "//third_party/gflags:gflags",
    "glog": "//third_party/glog:glog",
    "google/protobuf": "//third_party/protobuf:protobuf",
    "gtest": "//third_party/googletest:googletest",
    "gmock": "//third_party/googletest:googletest",
    "benchmark": "//third_party/benchmark:benchmark",
    "isa-l": "//third_party/isal:isal",
    "isa-l.h": "//third_party/isal:isal",
    "xxhash.h": "//third_party/xxhash:xxhash",
    "nlohmann": "//third_party/nlohmann_json:nlohmann_json",
    "zlib.h": "//third_party/zlib:zlib",
    "cuda_runtime_api.h": "@cuda//:cudart",
    "nccl.h": "@cuda//:nccl",
    "c10/cuda": "@torch//:c10_cuda",
    "ATen": "@torch//:torch",
    "c10": "@torch//:torch",
    "caffe2": "@torch//:torch",
    "torch": "@torch//:torch",
    "pybind11": "@torch//:torch_python",
}
TORCH_INCLUDE = re.compile(r"(ATen|c10|caffe2|torch)/")
# Headers of c10d that include gloo's.
GLOO_INCLUDE = re.compile(r"torch/csrc/distributed/c10d/(ProcessGroupGloo|GlooDeviceFactory)")
# sw_cc_test adds these itself.
IMPLIED_BY_TESTS = {"//third_party/googletest:googletest", "//third_party/googletest:googletest_main"}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
SOURCE_FOLDERS = ("core", "strategies", "callbacks", "cli", "python_bindings", "tests")


def third_party_owner(include):
    for prefix, label in THIRD_PARTY.items():
        if include == prefix or include.startswith(prefix + "/"):
            return label
    return None


class LayerCheck:
    """One pass over a tree; `problems` has a line for each violation."""

    def __init__(self, root):
        self.graph = build_graph.BuildGraph(root)
        self.root = self.graph.root
        self.level_of_folder = {f: n for n, level in enumerate(build_graph.read_levels(root)) for f in level}
        self.owners = self.graph.owned_headers()
        self.header_files = {t.include_path(h): h for t in self.graph.targets.values() for h in t.hdrs}
        self.problems = []

    def run(self):
        self._check_build_files()
        self._check_ownership()
        for target in self.graph.targets.values():
            if target.package.startswith("third_party") or target.kind not in build_graph.MACROS:
                continue
            for path in target.files:
                self._check_file(target, path)
            self._check_deps(target)
            self._check_torch_tag(target)
        self._check_torch_free()
        return sorted(set(self.problems))

    def report(self, place, problem):
        self.problems.append(f"{place}: {problem}")

    def includes(self, path):
        file = self.root / path
        return INCLUDE.findall(file.read_text(encoding="utf-8")) if file.exists() else []

    def folder(self, path):
        """The folder of the level table that a file is in, or None (tests, the root)."""
        inside = [f for f in self.level_of_folder if path.startswith(f + "/")]
        return max(inside, key=len) if inside else None

    # -- BUILD files

    def _check_build_files(self):
        for build in self.graph.build_files:
            place = f"{build.package or '.'}/BUILD"
            folder = self.folder(build.package + "/x")
            if folder and build.targets:
                self._check_visibility(place, folder, build.package_args.get("default_visibility", []))
            if build.package.startswith("third_party"):
                continue
            if not build.text.startswith("# "):
                self.report(place, "does not open with a comment that says what the folder promises")
            for target in build.targets:
                if target.kind in build_graph.FOREIGN_RULES:
                    self.report(place, f"uses {target.kind} for {target.name}; want a macro of tools/sw_rules.bzl")

    def _check_visibility(self, place, folder, visibility):
        group = "//:above_" + folder.split("/")[-1]
        if visibility not in ([], [group]) and not folder.startswith(("cli", "python_bindings")):
            self.report(place, f"default_visibility is {visibility}, want [{group!r}]")

    def _check_ownership(self):
        for include, labels in self.owners.items():
            if len(labels) > 1:
                self.report(include, f"belongs to {' and '.join(sorted(labels))}; want one target per header")
        owned = {path: t for t in self.graph.targets.values() for path in t.files}
        for path, target in owned.items():
            if target.kind in build_graph.MACROS and not path.endswith(".pb.h") and not (self.root / path).exists():
                self.report(target.label, f"names {path}, which does not exist")
        for top in SOURCE_FOLDERS:
            for file in sorted((self.root / top).rglob("*")):
                path = file.relative_to(self.root).as_posix()
                if file.suffix in (".h", ".cc") and path not in owned and not path.startswith("tests/outside/"):
                    self.report(path, "belongs to no target")

    # -- files

    def _check_file(self, target, path):
        includes = self.includes(path)
        for include in includes:
            if include in self.header_files:
                self._check_arrow(path, self.header_files[include])
            elif include.startswith("shardwright/"):
                self.report(path, f"includes {include}, which no target owns")
        self._check_torch(target, path, includes)
        self._check_protobuf(path, includes)
        self._check_glog(target, path, includes)

    def _check_arrow(self, path, header):
        source, goal = self.folder(path), self.folder(header)
        if path.startswith("tests/"):
            return
        if header.startswith("tests/"):
            self.report(path, f"includes {header}, a test's")
        if source is None or goal is None:
            return
        if source != goal and self.level_of_folder[goal] >= self.level_of_folder[source]:
            self.report(path, f"includes {header}: {goal} is not below {source}")
        elif source == goal:
            self._check_siblings(source, path, header)

    def _check_siblings(self, folder, path, header):
        """`path` and `header` are in the same folder of the level table."""
        if folder in SIBLING_FOLDERS:
            mine, theirs = (p.rsplit("/", 1)[0].removeprefix(folder).lstrip("/") for p in (path, header))
            shared = SIBLING_FOLDERS[folder]
            table = mine == ""  # Above its rows: it sees them all.
        elif folder in SIBLING_FILES:
            mine, theirs = (p.rsplit(".", 1)[0].rsplit("/", 1)[1] for p in (path, header))
            shared = SIBLING_FILES[folder]
            table = mine == folder
        else:
            return
        visible = shared[:shared.index(mine)] if mine in shared else shared
        if not table and theirs not in ("", mine) and theirs not in visible:
            self.report(path, f"includes {header}: siblings do not know each other")

    def _check_torch(self, target, path, includes):
        torch = [i for i in includes if TORCH_INCLUDE.match(i)]
        if torch and not target.fence:
            self.report(path, f"includes {torch[0]}, and {target.label} has no fence = True")
        if target.fence and not target.package.startswith(FENCED_FOLDERS):
            self.report(path, f"is behind the torch fence, which {target.package} must not be")

    def _check_protobuf(self, path, includes):
        generated = [i for i in includes if i.endswith(".pb.h")]
        if generated and path not in PROTOBUF_FILES and not path.startswith("tests/"):
            self.report(path, f"includes {generated[0]}; only {', '.join(PROTOBUF_FILES)} may")

    def _check_glog(self, target, path, includes):
        if not any(i.startswith("glog/") for i in includes):
            return
        if not path.endswith(".cc") or not path.startswith(tuple(f + "/" for f in GLOG_FOLDERS)):
            self.report(path, f"includes glog; only .cc files of {' and '.join(GLOG_FOLDERS)} log")
        elif target.fence:
            self.report(path, "includes glog behind the torch fence: torch redefines its macros")

    # -- deps

    def _wanted_deps(self, target):
        """label -> an include that asks for it."""
        wanted = {}
        for path in target.files:
            for include in self.includes(path):
                labels = list(self.owners.get(include, []))
                labels += [l for l in [third_party_owner(include)] if l]
                labels += ["//third_party/gloo:gloo"] if GLOO_INCLUDE.match(include) else []
                wanted.update({label: include for label in labels})
        wanted.pop(target.label, None)
        return wanted

    def _check_deps(self, target):
        if target.kind == "sw_proto_library" or not target.files:
            return
        wanted = self._wanted_deps(target)
        have = {self.graph.resolve_alias(d): d for d in target.deps}
        for label, include in wanted.items():
            if label not in have and not (target.kind == "sw_cc_test" and label in IMPLIED_BY_TESTS):
                self.report(target.label, f"includes {include}, and {label} is not among its deps")
        for label, written in have.items():
            if written.startswith("//") and label not in self.graph.targets:
                self.report(target.label, f"depends on {written}, which does not exist")
            elif label not in wanted and target.kind != "sw_cc_test" and self._must_be_included(label):
                self.report(target.label, f"depends on {written}, and includes nothing of it")

    def _must_be_included(self, label):
        """False for what serves by being linked: libraries without headers of ours."""
        target = self.graph.targets.get(label)
        if target is None or target.package.startswith("third_party"):
            return label in THIRD_PARTY.values() and label != "@torch//:torch_python"
        return bool(target.hdrs)

    # -- torch

    def _reaches_torch(self, label):
        return any(l.startswith("@torch//") for l in self.graph.reachable(label))

    def _check_torch_tag(self, target):
        if target.kind == "sw_cc_test" and not target.fence and "torch" not in target.tags and self._reaches_torch(target.label):
            self.report(target.label, 'links torch; want fence = True or the tag "torch"')

    def _check_torch_free(self):
        for label in TORCH_FREE_TARGETS:
            if label in self.graph.targets and self._reaches_torch(label):
                self.report(label, "links torch and must not")


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1]
    problems = LayerCheck(root).run()
    for problem in problems:
        print(problem)
    print(f"{len(problems)} layer problems" if problems else "layers are kept")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
