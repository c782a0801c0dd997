"""tools/prune_cache.py deletes what was used longest ago, and only if there is too much."""

import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import prune_cache  # pylint: disable=wrong-import-position


class PruneCacheTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for used in (3, 1, 4, 2):  # in seconds of 1970
            path = self.folder / f"cas/0{used}/{used}"
            path.parent.mkdir(parents=True)
            path.write_bytes(bytes(100))
            os.utime(path, (used, used))

    def left(self):
        return sorted(p.name for p in self.folder.rglob("*") if p.is_file())

    def test_under_the_limit_nothing_goes(self):
        self.assertEqual(prune_cache.prune(self.folder, 400), (400, 400))
        self.assertEqual(self.left(), ["1", "2", "3", "4"])

    def test_oldest_go_first(self):
        self.assertEqual(prune_cache.prune(self.folder, 300), (400, 200))
        self.assertEqual(self.left(), ["3", "4"])

    def test_absent_folder(self):
        self.assertEqual(prune_cache.prune(self.folder / "absent", 1), (0, 0))


if __name__ == "__main__":
    unittest.main()
