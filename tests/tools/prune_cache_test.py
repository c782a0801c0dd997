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


class PruneOrphansTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def make_base(self, name, workspace, project="shardwright", server="0"):
        base = self.root / name
        (base / "execroot" / project / "bin").mkdir(parents=True)
        (base / "server").mkdir()
        (base / "DO_NOT_BUILD_HERE").write_text(str(workspace), encoding="utf-8")
        (base / "server/server.pid.txt").write_text(server, encoding="utf-8")
        (base / "execroot" / project / "bin").chmod(0o555)

    def test_only_outputs_of_clones_that_are_gone(self):
        self.make_base("gone", self.root / "no such clone")
        self.make_base("there", self.root)
        self.make_base("of another project", self.root / "no such clone", project="other")
        self.make_base("in use", self.root / "no such clone", server=str(os.getpid()))
        (self.root / "install").mkdir()
        self.assertEqual([base.name for base in prune_cache.prune_orphans(self.root)], ["gone"])
        self.assertEqual(sorted(p.name for p in self.root.iterdir()), ["in use", "install", "of another project", "there"])

    def test_absent_folder(self):
        self.assertEqual(prune_cache.prune_orphans(self.root / "absent"), [])


if __name__ == "__main__":
    unittest.main()
