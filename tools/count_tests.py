#!/usr/bin/env python3
"""Counts test cases truly, for the last line of tools/test.sh.

  count_tests.py bazel EVENTS.json     of a `bazel test --build_event_json_file=EVENTS.json`
  count_tests.py unittest FOLDER       runs the python tests (*_test.py) of a folder

Names what failed or was skipped on stderr, and prints one line on stdout: "PASSED FAILED SKIPPED". A target that did not
build, and a binary that crashed, timed out, failed after its last case or had no case at all, counts as a failed case.
"""

import collections
import dataclasses
import json
import pathlib
import signal
import sys
import unittest
import urllib.parse
import xml.etree.ElementTree


@dataclasses.dataclass
class Counts:
    passed: int = 0
    failed: list = dataclasses.field(default_factory=list)  # names
    skipped: list = dataclasses.field(default_factory=list)

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


def count_xml(text, target):
    """Cases of one test.xml, as googletest writes it, or Bazel for a test that wrote none."""
    counts = Counts()
    for case in xml.etree.ElementTree.fromstring(text).iter("testcase"):
        name = f"{target} {case.get('classname', '')}.{case.get('name')}".replace(" .", " ")
        if case.find("failure") is not None or case.find("error") is not None:
            counts.failed.append(name)
        elif case.get("result") in ("skipped", "suppressed") or case.find("skipped") is not None:
            counts.skipped.append(name)
        else:
            counts.passed += 1
    return counts


def count_run(result, target):
    """One testResult event: one run of one shard."""
    status = result["status"]
    outputs = {o["name"]: o["uri"] for o in result.get("testActionOutput", [])}
    counts = Counts()
    if "test.xml" in outputs:
        path = pathlib.Path(urllib.parse.unquote(urllib.parse.urlparse(outputs["test.xml"]).path))
        try:
            counts = count_xml(path.read_text(encoding="utf-8", errors="replace"), target)
        except (OSError, xml.etree.ElementTree.ParseError) as error:
            counts.failed.append(f"{target}: its test.xml cannot be read: {error}")
    if status not in ("PASSED", "FLAKY") and not counts.failed:
        counts.failed.append(f"{target}: {status}")
    return counts


def count_bazel(lines):
    """Every test target among the build events, in the order of their labels."""
    kinds, runs, unbuilt = {}, collections.defaultdict(list), set()
    finished, exit_code = False, {}
    for line in lines:
        event = json.loads(line)
        for kind, event_id in event["id"].items():
            label = event_id.get("label") if isinstance(event_id, dict) else None
            if kind == "targetConfigured" and "configured" in event:
                kinds[label] = event["configured"].get("targetKind", "")
            elif kind == "testResult" and "testResult" in event:
                runs[label].append(event["testResult"])
            elif kind in ("targetCompleted", "targetConfigured") and "aborted" in event:
                unbuilt.add(label)
            elif kind == "targetCompleted" and not event.get("completed", {}).get("success"):
                unbuilt.add(label)
            elif kind == "pattern" and "aborted" in event:
                unbuilt.add(" ".join(event_id.get("pattern", ["a pattern"])))
            elif kind == "buildFinished":
                exit_code = event["finished"].get("exitCode", {})
            finished = finished or bool(event.get("lastMessage"))
    counts = Counts()
    for label in sorted(runs):
        counts.add(_count_target(runs[label], label))
    counts.failed += [f"{label}: did not build" for label in sorted(unbuilt - set(runs))]
    tests = {label for label, kind in kinds.items() if kind.endswith("_test rule")}
    counts.failed += [f"{label}: did not run" for label in sorted(tests - set(runs) - unbuilt)]
    # A BUILD file that cannot be read takes its targets along unnamed.
    if exit_code.get("code") and not unbuilt and exit_code.get("name") != "TESTS_FAILED":
        counts.failed.append(f"bazel: {exit_code.get('name')}")
    if not finished:
        counts.failed.append("bazel: ended before its last event")
    return counts


def _count_target(results, label):
    counts = Counts()
    for result in results:
        counts.add(count_run(result, label))
    if not counts.passed and not counts.failed and not counts.skipped:
        counts.failed.append(f"{label}: has no test case")
    return counts


class _CountingResult(unittest.TextTestResult):
    """Counts tests, where unittest lists each failed subtest and a failed setUpClass counts no test."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.passed += 1

    def failed_names(self):
        cases = [case for case, _ in self.failures + self.errors] + list(self.unexpectedSuccesses)
        return sorted({str(getattr(case, "test_case", case)) for case in cases})


def count_unittest(folder):
    # A shell's background job starts with SIGINT ignored, and children would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    suite = unittest.defaultTestLoader.discover(folder, pattern="*_test.py")
    runner = unittest.TextTestRunner(stream=sys.stderr, verbosity=2, buffer=True, resultclass=_CountingResult)
    result = runner.run(suite)
    counts = Counts(result.passed, result.failed_names(), [str(case) for case, _ in result.skipped])
    if not counts.passed and not counts.failed and not counts.skipped:
        counts.failed.append(f"{folder}: has no test case")
    return counts


def main():
    mode, argument = sys.argv[1:]
    if mode == "bazel":
        with open(argument, encoding="utf-8") as lines:
            counts = count_bazel(lines)
    else:
        counts = count_unittest(argument)
    for name in counts.failed:
        print(f"FAILED  {name}", file=sys.stderr)
    for name in counts.skipped:
        print(f"skipped {name}", file=sys.stderr)
    print(counts.passed, len(counts.failed), len(counts.skipped))
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
