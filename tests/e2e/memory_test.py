"""What zero3 promises of memory, on real processes and a model of more than 1 GiB of state."""

import pathlib
import sys
import unittest

import run_programs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
import strategy_memory  # pylint: disable=wrong-import-position

# Beside the programs that people run.
PROGRAM = pathlib.Path(run_programs.SHARDWRIGHT).parents[1] / "tests/bench/strategy_memory"
RANKS = 4


class Zero3MemoryTest(run_programs.ProgramTest):

    def test_a_rank_holds_its_share_and_builds_in_little_more(self):
        reports = strategy_memory.measure("zero3", RANKS, PROGRAM, self.environment)
        self.assertEqual(sorted(report["rank"] for report in reports), list(range(RANKS)))
        for report in reports:
            self.assertGreaterEqual(report["global_state"], 2**30)
            self.assertLess(report["largest_unit"], report["global_state"] / 50)
            # Less than the state itself would mean that it was not measured.
            self.assertGreaterEqual(report["resident"], report["state"])
            self.assertLessEqual(report["resident"], strategy_memory.resident_bound(report), report)
            self.assertGreaterEqual(report["build_peak"], report["state"])
            self.assertLessEqual(report["build_peak"], strategy_memory.build_bound(report), report)


if __name__ == "__main__":
    unittest.main()
