"""Reads the project's BUILD files as plain values: which target owns which files, and what it depends on.

BUILD files are a subset of Python, so each is executed with recorders in place of its rules. Bazel is not started:
the checks that need only the shape of the build answer in a fraction of a second.
"""

import ast
import dataclasses
import pathlib

# What a BUILD file outside third_party may call: the project's macros and what only names things.
MACROS = ("sw_cc_library", "sw_cc_test", "sw_cc_binary", "sw_proto_library")
PLAIN_RULES = ("alias", "filegroup", "test_suite", "config_setting")
FOREIGN_RULES = ("cc_library", "cc_import", "cc_binary", "cc_test", "genrule", "sh_binary", "sh_test", "sh_library", "py_binary",
                 "py_library", "py_test", "proto_library", "cc_proto_library", "package_group")
SKIPPED_FOLDERS = {".git", ".venv", ".cache", "runs", "outside"}


@dataclasses.dataclass(frozen=True)
class Target:
    package: str
    name: str
    kind: str
    srcs: tuple = ()  # paths from the project's root
    hdrs: tuple = ()
    deps: tuple = ()  # absolute labels
    fence: bool = False
    tags: tuple = ()
    include_prefix: str = ""

    @property
    def label(self):
        return f"//{self.package}:{self.name}"

    @property
    def files(self):
        return self.srcs + self.hdrs

    def include_path(self, header):
        """How others include one of its headers."""
        return f"{self.include_prefix}/{pathlib.PurePosixPath(header).relative_to(self.package or '.')}"


def absolute_label(label, package):
    if label.startswith("@shardwright//"):
        label = label[len("@shardwright"):]
    if label.startswith(":"):
        return f"//{package}{label}"
    if not label.startswith(("//", "@")):
        return f"//{package}:{label}"
    if "//" not in label:
        return f"{label}//:{label[1:]}"
    if ":" not in label:
        return f"{label}:{label.rsplit('/', 1)[-1]}"
    return label


class _Select(list):
    """All branches of a select() together: a check holds for every configuration."""

    def __init__(self, branches):
        super().__init__(item for branch in branches.values() for item in branch)


class _BuildFile:
    """Executes one BUILD file and keeps what it declared."""

    def __init__(self, root, path):
        self.root = root
        self.folder = path.parent
        self.package = self.folder.relative_to(root).as_posix().removeprefix(".")
        self.text = path.read_text(encoding="utf-8")
        self.targets = []
        self.package_args = {}
        self._run(path)

    def _run(self, path):
        names = {kind: self._recorder(kind) for kind in MACROS + PLAIN_RULES + FOREIGN_RULES}
        names.update(
            load=lambda *args, **kwargs: None,
            package=self.package_args.update,
            exports_files=lambda *args, **kwargs: None,
            licenses=lambda *args, **kwargs: None,
            sw_level_groups=lambda: None,
            glob=self._glob,
            select=_Select,
        )
        exec(compile(self.text, str(path), "exec"), names)  # pylint: disable=exec-used

    def _glob(self, include, exclude=(), **_):
        found = {p for pattern in include for p in self.folder.glob(pattern)}
        found -= {p for pattern in exclude for p in self.folder.glob(pattern)}
        return sorted(p.relative_to(self.folder).as_posix() for p in found)

    def _path(self, label):
        name = label.lstrip(":")
        return f"{self.package}/{name}" if self.package else name

    def _recorder(self, kind):
        def record(name, srcs=(), hdrs=(), deps=(), fence=False, tags=(), include_prefix=None, src=None, **kwargs):
            deps = list(deps) + ([kwargs["actual"]] if kind == "alias" else [])
            if src:
                stem = src.removesuffix(".proto")
                hdrs = [stem + ".pb.h"]
            prefix = include_prefix or ("shardwright/" + self.package if self.package else "shardwright")
            self.targets.append(
                Target(
                    package=self.package,
                    name=name,
                    kind=kind,
                    srcs=tuple(self._path(s) for s in srcs if not s.startswith("//")),
                    hdrs=tuple(self._path(h) for h in hdrs if not h.startswith("//")),
                    deps=tuple(absolute_label(d, self.package) for d in deps),
                    fence=fence,
                    tags=tuple(tags),
                    include_prefix=prefix,
                ))

        return record


class BuildGraph:
    """All targets of the tree at `root`."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        self.build_files = [_BuildFile(self.root, path) for path in self._build_paths()]
        self.targets = {t.label: t for f in self.build_files for t in f.targets}

    def _build_paths(self):
        for path in sorted(self.root.rglob("BUILD")):
            folders = path.relative_to(self.root).parts[:-1]
            if not SKIPPED_FOLDERS.intersection(folders) and not any(f.startswith("bazel-") for f in folders):
                yield path

    def owned_headers(self):
        """Include path -> labels of the targets that own the header."""
        owners = {}
        for target in self.targets.values():
            if target.package.startswith("third_party"):
                continue
            for header in target.hdrs:
                owners.setdefault(target.include_path(header), []).append(target.label)
        return owners

    def resolve_alias(self, label):
        target = self.targets.get(label)
        return self.resolve_alias(target.deps[0]) if target and target.kind == "alias" else label

    def reachable(self, label):
        """The label and everything that it depends on."""
        seen, pending = set(), [label]
        while pending:
            current = pending.pop()
            if current in seen:
                continue
            seen.add(current)
            pending.extend(self.targets[current].deps if current in self.targets else ())
        return seen


def read_levels(root):
    """The LEVELS table of tools/sw_rules.bzl."""
    tree = ast.parse((pathlib.Path(root) / "tools/sw_rules.bzl").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "LEVELS":
            return ast.literal_eval(node.value)
    raise ValueError("tools/sw_rules.bzl has no LEVELS")
