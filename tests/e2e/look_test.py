"""The verbs that look at checkpoints, from outside."""

import json
import os
import shutil
import subprocess
import unittest

import run_programs
from run_programs import ProgramTest


class LookTest(ProgramTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        fixture = cls("test_help")
        fixture.setUp()
        cls.kept = fixture
        cls.run_folder = fixture.folder / "run"
        fixture.train(cls.run_folder, 4, "--nproc_per_node=2", "--save_every_steps=2")

    @classmethod
    def tearDownClass(cls):
        cls.kept.doCleanups()
        super().tearDownClass()

    def test_help(self):
        self.assertIn("verify", self.run_program("--help").stdout)
        for verb in ("train", "sample", "inspect", "verify"):
            self.assertIn(f"usage: shardwright {verb}", self.run_program(verb, "--help").stdout)

    def test_the_front_program_links_no_torch(self):
        linked = subprocess.run(["ldd", run_programs.SHARDWRIGHT], capture_output=True, text=True, check=True).stdout
        self.assertIn("libprotobuf", linked)
        self.assertNotRegex(linked, r"libtorch|libc10")

    def test_inspect_tells_what_is_there(self):
        text = self.run_program("inspect", self.run_folder).stdout
        for part in ("step-00000004", "ddp", "2 ranks", "weights", "optimizer", "adamw", "tied", "step 4"):
            self.assertIn(part, text)
        seen = self.inspect(self.run_folder / "last")
        self.assertEqual(seen["schema"], "shardwright.inspect.v1")
        self.assertEqual(seen["progress"]["step"], 4)
        parameters = [tensor for tensor in seen["tensors"] if tensor["role"] == "parameter" and "alias_of" not in tensor]
        moments = [tensor for tensor in seen["tensors"] if tensor["role"] == "optimizer"]
        self.assertEqual({m["optimizer"]["parameter"] for m in moments}, {p["name"] for p in parameters})

    def test_inspect_lists_tensors_and_files(self):
        text = self.run_program("inspect", "--tensors", "--files", self.run_folder).stdout
        self.assertIn("model-00001-of-00002.safetensors", text)
        self.assertIn("F32 [32]", text)

    def test_a_reader_that_leaves_early_is_no_error_message(self):
        done = subprocess.run(f"{run_programs.SHARDWRIGHT} inspect --tensors {self.run_folder} 2>/dev/null | head -n 1", shell=True,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(len(done.stdout.splitlines()), 1)

    def test_verify_of_many(self):
        text = self.run_program("verify", self.run_folder).stdout
        self.assertIn("2 checked: 2 ok", text)
        good = self.run_folder / "step-00000002"
        self.assertIn("ok", self.run_program("verify", "--check=quick", good).stdout)
        absent = self.run_program("verify", good, self.folder / "nothing", status=3)
        self.assertIn("unreadable", absent.stdout)
        result = json.loads(self.run_program("verify", "--json", good).stdout)
        self.assertEqual((result["verdict"], result["problems"]), ("ok", []))

    def test_verify_finds_every_kind_of_damage(self):
        names = ["manifest.pb", "model-00000-of-00002.safetensors", "optimizer-00001-of-00002.safetensors"]
        for name in names:
            for damage in ("flip", "cut", "gone"):
                with self.subTest(name=name, damage=damage):
                    copy = self.folder / f"{name}-{damage}"
                    shutil.copytree(self.run_folder / "step-00000004", copy)
                    victim = copy / name
                    content = bytearray(victim.read_bytes())
                    content[len(content) // 2] ^= 4
                    if damage == "flip":
                        victim.write_bytes(content)
                    elif damage == "cut":
                        os.truncate(victim, len(content) - 1)
                    else:
                        victim.unlink()
                    done = self.run_program("verify", copy, status=1)
                    partial = name == "manifest.pb" and damage == "gone"
                    self.assertIn("partial" if partial else "DAMAGED", done.stdout)
                    if name != "manifest.pb":
                        self.assertIn(name, done.stdout)

    def test_absent_and_wrong_paths(self):
        self.assertIn("nowhere", self.run_program("inspect", "/nowhere", status=3).stderr)
        self.run_program("inspect", self.text, status=2)
        self.run_program("inspect", status=2)
        self.assertIn("--json", self.run_program("inspect", "--jsn", "/nowhere", status=2).stderr)

    def test_sample_continues_a_text(self):
        one = self.run_program("sample", "--tokens=20", "--prompt=the rank", self.run_folder).stdout
        again = self.run_program("sample", "--tokens=20", "--prompt=the rank", self.run_folder).stdout
        self.assertTrue(one.startswith("the rank"))
        self.assertGreater(len(one), len("the rank\n"))
        self.assertEqual(one, again)

    def test_init_from_starts_a_new_run_with_old_weights(self):
        run = self.folder / "tuned"
        done = self.train(run, 2, f"--init_from={self.run_folder}/step-00000004")
        self.assertIn("step-00000004", done.stderr)
        self.assertEqual(self.inspect(run)["progress"]["step"], 2)


if __name__ == "__main__":
    unittest.main()
