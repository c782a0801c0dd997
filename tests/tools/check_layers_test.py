"""Each rule of tools/check_layers.py: a small tree that keeps it, then one change that breaks it."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_layers  # pylint: disable=wrong-import-position

LEVELS = """
LEVELS = [
    ["core/base"],
    ["core/manifest"],
    ["core/format"],
    ["core/strategy"],
    ["strategies", "callbacks"],
    ["cli"],
]
"""


def build(folder, *rules):
    group = folder.split("/")[-1]
    return f'# {folder}: a promise.\npackage(default_visibility = ["//:above_{group}"])\n' + "\n".join(rules)


def library(name, deps=(), extra="", srcs=True):
    sources = f'srcs = ["{name}.cc"], ' if srcs else ""
    return f'sw_cc_library(name = "{name}", {sources}hdrs = ["{name}.h"], deps = {list(deps)!r}, {extra})'


def include(*paths):
    return "".join(f'#include "{path}"\n' for path in paths)


GOOD = {
    "tools/sw_rules.bzl": LEVELS,
    "BUILD": '# The public face.\nsw_level_groups()\nalias(name = "checkpoint", actual = "//core/manifest:codec")\n',
    "core/base/BUILD": build("core/base", library("bytes", ["//third_party/absl"])),
    "core/base/bytes.h": include("absl/status/status.h"),
    "core/base/bytes.cc": include("shardwright/core/base/bytes.h"),
    "core/manifest/BUILD": build("core/manifest", library("codec", ["//core/base:bytes", ":proto"]),
                                 'sw_proto_library(name = "proto", src = "m.proto")'),
    "core/manifest/codec.h": include("shardwright/core/base/bytes.h"),
    "core/manifest/codec.cc": include("shardwright/core/manifest/codec.h", "shardwright/core/manifest/m.pb.h"),
    "core/format/BUILD": build("core/format", library("format", srcs=False)),
    "core/format/format.h": "",
    "core/format/native/BUILD": build("core/format", library("native", ["//core/format:format"])),
    "core/format/native/native.h": include("shardwright/core/format/format.h"),
    "core/format/native/native.cc": include("shardwright/core/format/native/native.h"),
    "core/format/dcp/BUILD": build("core/format", library("dcp", ["//core/format:format"])),
    "core/format/dcp/dcp.h": include("shardwright/core/format/format.h"),
    "core/format/dcp/dcp.cc": include("shardwright/core/format/dcp/dcp.h"),
    "core/strategy/BUILD": build("core/strategy", library("strategy", ["@torch//:torch"], "fence = True")),
    "core/strategy/strategy.h": "",
    "core/strategy/strategy.cc": include("ATen/core/Tensor.h", "shardwright/core/strategy/strategy.h"),
    "callbacks/BUILD": build("callbacks", library("progress"), library("callbacks", [":progress"])),
    "callbacks/progress.h": "",
    "callbacks/progress.cc": include("shardwright/callbacks/progress.h"),
    "callbacks/callbacks.h": "",
    "callbacks/callbacks.cc": include("shardwright/callbacks/callbacks.h", "shardwright/callbacks/progress.h"),
    "cli/BUILD": build("cli", 'sw_cc_binary(name = "shardwright", srcs = ["main.cc"], deps = ["//core/manifest:codec", '
                       '"//third_party/glog"])'),
    "cli/main.cc": include("glog/logging.h", "shardwright/core/manifest/codec.h"),
    "tests/core/base/BUILD": '# tests/core/base\nsw_cc_test(name = "bytes_test", srcs = ["bytes_test.cc"], '
                             'deps = ["//core/base:bytes"])\n',
    "tests/core/base/bytes_test.cc": include("gtest/gtest.h", "shardwright/core/base/bytes.h"),
    "third_party/absl/BUILD": 'cc_library(name = "absl")\n',
    "third_party/glog/BUILD": 'cc_library(name = "glog")\n',
}


class CheckLayersTest(unittest.TestCase):

    def problems(self, **changes):
        """Problems of the good tree with files replaced; __ stands for / and _DOT_ for a dot in their names."""
        with tempfile.TemporaryDirectory() as root:
            files = dict(GOOD)
            files.update({name.replace("__", "/").replace("_DOT_", "."): text for name, text in changes.items()})
            for name, text in files.items():
                path = pathlib.Path(root) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return check_layers.LayerCheck(root).run()

    def assert_only_problem(self, problems, *parts):
        self.assertEqual(len(problems), 1, problems)
        for part in parts:
            self.assertIn(part, problems[0])

    def assert_a_problem(self, problems, *parts):
        self.assertTrue(any(all(part in problem for part in parts) for problem in problems), problems)

    def test_good_tree_has_no_problem(self):
        self.assertEqual(self.problems(), [])

    def test_include_of_a_higher_level(self):
        problems = self.problems(
            core__base__bytes_DOT_cc=include("shardwright/core/base/bytes.h", "shardwright/core/manifest/codec.h"))
        self.assert_a_problem(problems, "core/base/bytes.cc", "core/manifest is not below core/base")

    def test_include_of_the_same_level_in_another_folder(self):
        problems = self.problems(
            core__strategy__strategy_DOT_cc=include("ATen/core/Tensor.h", "shardwright/core/strategy/strategy.h"),
            callbacks__progress_DOT_cc=include("shardwright/callbacks/progress.h", "shardwright/strategies/ddp.h"),
            strategies__BUILD=build("strategies", library("ddp")),
            strategies__ddp_DOT_h="",
            strategies__ddp_DOT_cc=include("shardwright/strategies/ddp.h"))
        self.assert_a_problem(problems, "callbacks/progress.cc", "strategies is not below callbacks")

    def test_sibling_folders(self):
        problems = self.problems(
            core__format__dcp__dcp_DOT_cc=include("shardwright/core/format/dcp/dcp.h",
                                                  "shardwright/core/format/native/native.h"),
            core__format__dcp__BUILD=build("core/format",
                                           library("dcp", ["//core/format:format", "//core/format/native:native"])))
        self.assert_only_problem(problems, "core/format/dcp/dcp.cc", "siblings")

    def dcp_and_bytes(self, dcp, shared):
        return self.problems(
            core__format__bytes__BUILD=build("core/format", library("inflate", shared[1])),
            core__format__bytes__inflate_DOT_h="",
            core__format__bytes__inflate_DOT_cc=include("shardwright/core/format/bytes/inflate.h", *shared[0]),
            core__format__dcp__dcp_DOT_cc=include("shardwright/core/format/dcp/dcp.h", *dcp[0]),
            core__format__dcp__BUILD=build("core/format", library("dcp", ["//core/format:format", *dcp[1]])))

    def test_implementation_includes_a_shared_part(self):
        use = (["shardwright/core/format/bytes/inflate.h"], ["//core/format/bytes:inflate"])
        self.assertEqual(self.dcp_and_bytes(use, ([], [])), [])

    def test_shared_part_includes_an_implementation(self):
        use = (["shardwright/core/format/dcp/dcp.h"], ["//core/format/dcp:dcp"])
        self.assert_only_problem(self.dcp_and_bytes(([], []), use), "core/format/bytes/inflate.cc", "siblings")

    def test_sibling_files(self):
        problems = self.problems(
            callbacks__BUILD=build("callbacks", library("progress", [":other"]), library("callbacks", [":progress"]),
                                   library("other")),
            callbacks__other_DOT_h="",
            callbacks__other_DOT_cc=include("shardwright/callbacks/other.h"),
            callbacks__progress_DOT_cc=include("shardwright/callbacks/progress.h", "shardwright/callbacks/other.h"))
        self.assert_only_problem(problems, "callbacks/progress.cc", "siblings")

    def test_torch_without_fence(self):
        problems = self.problems(
            core__strategy__BUILD=build("core/strategy", library("strategy", ["@torch//:torch"])))
        self.assert_only_problem(problems, "core/strategy/strategy.cc", "has no fence = True")

    def test_fence_in_a_folder_that_must_be_free_of_torch(self):
        problems = self.problems(
            core__base__BUILD=build("core/base", library("bytes", ["//third_party/absl"], "fence = True")))
        self.assert_a_problem(problems, "core/base", "which core/base must not be")

    def test_generated_header_outside_the_codec(self):
        problems = self.problems(cli__main_DOT_cc=include("glog/logging.h", "shardwright/core/manifest/codec.h",
                                                          "shardwright/core/manifest/m.pb.h"))
        self.assert_a_problem(problems, "cli/main.cc", "m.pb.h; only core/manifest/codec.cc may")

    def test_logging_library(self):
        problems = self.problems(
            core__base__BUILD=build("core/base", library("bytes", ["//third_party/absl", "//third_party/glog"])),
            core__base__bytes_DOT_cc=include("glog/logging.h", "shardwright/core/base/bytes.h"))
        self.assert_only_problem(problems, "core/base/bytes.cc", "glog")

    def test_included_and_not_a_dep(self):
        problems = self.problems(core__manifest__BUILD=build(
            "core/manifest", library("codec", [":proto"]), 'sw_proto_library(name = "proto", src = "m.proto")'))
        self.assert_only_problem(problems, "//core/manifest:codec", "//core/base:bytes is not among its deps")

    def test_dep_and_not_included(self):
        problems = self.problems(callbacks__progress_DOT_cc="", callbacks__BUILD=build(
            "callbacks", library("progress", ["//core/base:bytes"]), library("callbacks", [":progress"])))
        self.assert_only_problem(problems, "//callbacks:progress", "includes nothing of it")

    def test_dep_that_does_not_exist(self):
        problems = self.problems(callbacks__BUILD=build(
            "callbacks", library("progress", ["//core/base:gone"]), library("callbacks", [":progress"])))
        self.assert_only_problem(problems, "//core/base:gone", "does not exist")

    def test_third_party_include_and_not_a_dep(self):
        problems = self.problems(core__base__BUILD=build("core/base", library("bytes")))
        self.assert_only_problem(problems, "absl/status/status.h", "//third_party/absl:absl is not among its deps")

    def test_select_counts_every_branch(self):
        problems = self.problems(core__base__BUILD=build("core/base", 'sw_cc_library(name = "bytes", srcs = ["bytes.cc"], '
            'hdrs = ["bytes.h"], deps = select({":a": ["//third_party/absl"], "//conditions:default": []}))'))
        self.assertEqual(problems, [])

    def test_source_without_a_target(self):
        self.assert_only_problem(self.problems(core__base__lost_DOT_cc=""), "core/base/lost.cc", "belongs to no target")

    def test_target_without_its_source(self):
        problems = self.problems(callbacks__BUILD=build(
            "callbacks", library("progress"), library("callbacks", [":progress"]), library("gone")))
        self.assert_a_problem(problems, "//callbacks:gone", "callbacks/gone.cc, which does not exist")

    def test_header_of_two_targets(self):
        problems = self.problems(callbacks__BUILD=build(
            "callbacks", library("progress"), library("callbacks", [":progress", ":twice"]),
            'sw_cc_library(name = "twice", hdrs = ["progress.h"])'))
        self.assert_a_problem(problems, "belongs to //callbacks:progress and //callbacks:twice")

    def test_visibility_of_another_folder(self):
        problems = self.problems(core__base__BUILD=build("core/manifest", library("bytes", ["//third_party/absl"])))
        self.assert_only_problem(problems, "core/base/BUILD", "want ['//:above_base']")

    def test_foreign_rule(self):
        problems = self.problems(tests__BUILD='# tests\ncc_test(name = "x")\n')
        self.assert_only_problem(problems, "tests/BUILD", "uses cc_test for x")

    def test_build_file_without_a_promise(self):
        self.assert_only_problem(self.problems(tests__BUILD='alias(name = "x", actual = "//core/base:bytes")\n'),
                                 "tests/BUILD", "does not open with a comment")

    def test_torch_free_binary_that_links_torch(self):
        problems = self.problems(
            core__base__BUILD=build("core/base", library("bytes", ["//third_party/absl", "@torch//:torch_python"])))
        self.assert_a_problem(problems, "//cli:shardwright", "links torch and must not")
        self.assert_a_problem(problems, "//:checkpoint", "links torch and must not")
        self.assert_a_problem(problems, "//tests/core/base:bytes_test", 'want fence = True or the tag "torch"')


if __name__ == "__main__":
    unittest.main()
