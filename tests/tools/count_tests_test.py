"""tools/count_tests.py counts what happened, not what a summary says."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import count_tests  # pylint: disable=wrong-import-position

GOOGLETEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="5" failures="1" disabled="1" errors="0" name="AllTests">
  <testsuite name="A" tests="5" failures="1" disabled="1" skipped="1" errors="0">
    <testcase name="One" status="run" result="completed" classname="A" />
    <testcase name="Two" status="run" result="completed" classname="A" />
    <testcase name="Bad" status="run" result="completed" classname="A"><failure message="want 1, got 2" type="" /></testcase>
    <testcase name="Skip" status="run" result="skipped" classname="A"><skipped message="no GPU" /></testcase>
    <testcase name="DISABLED_Old" status="notrun" result="suppressed" classname="A" />
  </testsuite>
</testsuites>"""
GOOD = '<testsuites><testsuite name="A"><testcase name="One" result="completed" classname="A" /></testsuite></testsuites>'
EMPTY = '<testsuites tests="0" name="AllTests"></testsuites>'
# What Bazel writes for a test that wrote nothing itself.
CRASHED = ('<testsuites><testsuite name="t" tests="1" errors="1"><testcase name="t" status="run">'
           '<error message="exited with error code 134"></error></testcase></testsuite></testsuites>')


class CountBazelTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.events = []

    def configured(self, label, kind="cc_test rule"):
        self.events.append({"id": {"targetConfigured": {"label": label}}, "configured": {"targetKind": kind}})

    def ran(self, label, xml, status="PASSED", shard=1):
        path = pathlib.Path(self.folder.name) / f"{len(self.events)} test.xml"
        if xml is not None:
            path.write_text(xml, encoding="utf-8")
        outputs = [{"name": "test.xml", "uri": path.as_uri()}]
        self.events.append({
            "id": {"testResult": {"label": label, "shard": shard}},
            "testResult": {"status": status, "testActionOutput": outputs}
        })

    def completed(self, label, success=True):
        completed = {"success": True} if success else {"failureDetail": {}}
        self.events.append({"id": {"targetCompleted": {"label": label}}, "completed": completed})

    def count(self, last=True, exit_code=None):
        events = self.events + [{"id": {"buildFinished": {}}, "finished": {"exitCode": exit_code or {"name": "SUCCESS"}}}]
        events += [{"id": {"buildMetrics": {}}, "lastMessage": True}] if last else []
        counts = count_tests.count_bazel(json.dumps(event) for event in events)
        return counts.passed, counts.failed, counts.skipped

    def test_googletest_cases(self):
        self.ran("//a:t", GOOGLETEST, "FAILED")
        self.assertEqual(self.count(), (2, ["//a:t A.Bad"], ["//a:t A.Skip", "//a:t A.DISABLED_Old"]))

    def test_shards_add_up(self):
        self.ran("//a:t", GOOD, shard=1)
        self.ran("//a:t", GOOD, shard=2)
        self.assertEqual(self.count(), (2, [], []))

    def test_crash(self):
        self.ran("//a:t", CRASHED, "FAILED")
        self.assertEqual(self.count(), (0, ["//a:t t"], []))

    def test_failure_after_the_last_case(self):
        self.ran("//a:t", GOOD, "FAILED")
        self.assertEqual(self.count(), (1, ["//a:t: FAILED"], []))

    def test_timeout_without_a_report(self):
        self.ran("//a:t", None, "TIMEOUT")
        passed, failed, _ = self.count()
        self.assertEqual((passed, len(failed)), (0, 1))

    def test_no_case_at_all(self):
        self.ran("//a:t", EMPTY)
        self.assertEqual(self.count(), (0, ["//a:t: has no test case"], []))

    def test_did_not_build(self):
        self.configured("//a:t")
        self.completed("//a:t", success=False)
        self.assertEqual(self.count(exit_code={"name": "BUILD_FAILURE", "code": 1}), (0, ["//a:t: did not build"], []))

    def test_analysis_failed(self):
        self.events.append({"id": {"targetConfigured": {"label": "//a:t"}}, "aborted": {"reason": "ANALYSIS_FAILURE"}})
        self.assertEqual(self.count(), (0, ["//a:t: did not build"], []))

    def test_configured_and_never_run(self):
        self.configured("//a:t")
        self.configured("//a:library", "cc_library rule")
        self.completed("//a:library")
        self.completed("//a:t")
        self.assertEqual(self.count(), (0, ["//a:t: did not run"], []))

    def test_build_file_that_cannot_be_read(self):
        self.ran("//a:t", GOOD)
        self.assertEqual(self.count(exit_code={"name": "BUILD_FAILURE", "code": 1}), (1, ["bazel: BUILD_FAILURE"], []))

    def test_bazel_killed(self):
        self.ran("//a:t", GOOD)
        self.assertEqual(self.count(last=False), (1, ["bazel: ended before its last event"], []))


class CountUnittestTest(unittest.TestCase):

    def count(self, *bodies):
        """What the script prints for one test class of these lines."""
        with tempfile.TemporaryDirectory() as folder:
            lines = ["import unittest", "class A(unittest.TestCase):", *("  " + body for body in bodies)] if bodies else []
            (pathlib.Path(folder) / "case_test.py").write_text("\n".join(lines), encoding="utf-8")
            return subprocess.run([sys.executable, count_tests.__file__, "unittest", folder], capture_output=True, text=True,
                                  check=False)

    def test_counts(self):
        result = self.count("def test_one(self): pass", "def test_bad(self): self.fail()",
                            "def test_error(self): raise ValueError", "@unittest.skip('no GPU')",
                            "def test_skipped(self): pass")
        self.assertEqual((result.stdout, result.returncode), ("1 2 1\n", 1))
        self.assertIn("FAILED  test_bad", result.stderr)
        self.assertIn("skipped test_skipped", result.stderr)

    def test_all_good(self):
        result = self.count("def test_one(self): pass")
        self.assertEqual((result.stdout, result.returncode), ("1 0 0\n", 0))

    def test_failed_subtests_are_one_failed_case(self):
        result = self.count("def test_many(self):", "  for i in range(3):", "    with self.subTest(i=i): self.fail()")
        self.assertEqual(result.stdout, "0 1 0\n")

    def test_interrupts_reach_the_tests_children(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "case_test.py").write_text(
                "import subprocess, unittest\n"
                "class A(unittest.TestCase):\n"
                "  def test_one(self): self.assertEqual(subprocess.run(['sh', '-c', 'kill -INT $$']).returncode, -2)\n",
                encoding="utf-8")
            result = subprocess.run(["sh", "-c", f"trap '' INT; {sys.executable} {count_tests.__file__} unittest {folder}"],
                                    capture_output=True, text=True, check=False)
        self.assertEqual(result.stdout, "1 0 0\n", result.stderr)

    def test_failed_class_setup(self):
        result = self.count("def test_one(self): pass", "@classmethod", "def setUpClass(cls): raise ValueError")
        self.assertEqual((result.stdout, result.returncode), ("0 1 0\n", 1))

    def test_folder_without_cases(self):
        self.assertEqual(self.count().stdout, "0 1 0\n")


if __name__ == "__main__":
    unittest.main()
