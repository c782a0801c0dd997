"""third_party/torch/find_torch.py takes a whole, recent LibTorch and says why it takes no other."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

FIND_TORCH = pathlib.Path(__file__).resolve().parents[2] / "third_party/torch/find_torch.py"


class FindTorchTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.site = pathlib.Path(folder.name) / "site-packages"
        self.torch = self.site / "torch"

    def make_torch(self, version="2.15.0", record=True, cuda=True, runtime=True):
        files = ["torch/include/c10/core/Device.h", "torch/lib/libc10.so", "torch/lib/libtorch_cpu.so", "torch/__init__.py"]
        files += ["torch/lib/libtorch_cuda.so"] if cuda else []
        files += [f"torch-{version}.dist-info/RECORD"] if record else []
        files += ["nvidia/cu13/lib/libcudart.so.13", "nvidia/cu13/lib/libcupti.so.13"] if runtime else []
        for name in files:
            (self.site / name).parent.mkdir(parents=True, exist_ok=True)
            (self.site / name).touch()
        metadata = self.site / f"torch-{version}.dist-info/METADATA"
        metadata.parent.mkdir(parents=True, exist_ok=True)
        metadata.write_text(f"Name: torch\nVersion: {version}\n", encoding="utf-8")

    def find(self, **environment):
        variables = {k: v for k, v in os.environ.items() if k != "SHARDWRIGHT_TORCH"}
        return subprocess.run([sys.executable, FIND_TORCH], capture_output=True, text=True, check=False,
                              env={**variables, **environment})

    def assert_refused(self, *parts):
        result = self.find(SHARDWRIGHT_TORCH=str(self.torch))
        self.assertEqual(result.returncode, 1, result.stdout)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_named_by_the_environment(self):
        self.make_torch()
        result = self.find(SHARDWRIGHT_TORCH=str(self.torch))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"root={self.torch}\nversion=2.15.0\n", result.stdout)
        self.assertIn("libcupti.so.13=", result.stdout)

    def test_of_the_active_python(self):
        self.make_torch(version="2.16.1+cu130")
        result = self.find(PYTHONPATH=str(self.site))
        self.assertIn(f"root={self.torch}\nversion=2.16.1+cu130\n", result.stdout)

    def test_torch_is_not_imported(self):
        self.make_torch()
        (self.torch / "__init__.py").write_text("raise SystemExit('imported')", encoding="utf-8")
        self.assertEqual(self.find(PYTHONPATH=str(self.site)).returncode, 0)

    def test_without_cuda_no_runtime_is_needed(self):
        self.make_torch(version="2.15.0+cpu", cuda=False, runtime=False)
        result = self.find(SHARDWRIGHT_TORCH=str(self.torch))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("libcudart", result.stdout)

    def test_too_old(self):
        self.make_torch(version="2.9.1")
        self.assert_refused("is torch 2.9.1, need 2.15 or newer")

    def test_interrupted_installation(self):
        self.make_torch(record=False)
        self.assert_refused("only half installed")

    def test_missing_library(self):
        self.make_torch()
        (self.torch / "lib/libtorch_cpu.so").unlink()
        self.assert_refused("lib/libtorch_cpu.so is missing")

    def test_absent(self):
        self.assert_refused("$SHARDWRIGHT_TORCH: no torch there")

    def test_explicit_choice_is_not_replaced(self):
        self.make_torch(version="2.9.1")
        result = self.find(SHARDWRIGHT_TORCH=str(self.torch), PYTHONPATH=str(self.site))
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)


if __name__ == "__main__":
    unittest.main()
