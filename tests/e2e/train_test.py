"""Runs of `shardwright train` from outside: stopping, resuming, killing, and what is left behind."""

import os
import pathlib
import random
import signal
import subprocess
import time
import unittest

import run_programs
from run_programs import ProgramTest, crc32c, losses, processes_of, variable, wait_until

HEAD_CRC = slice(28, 32)  # of the manifest's head, docs/format.md


class ResumeTest(ProgramTest):

    def stop_and_resume(self, ranks, signal_number, *more):
        words = [f"--nproc_per_node={ranks}", "--save_every_steps=0", *more]
        whole = self.train(self.folder / "whole", 30, *words)
        run = self.folder / "run"
        process = self.start_training(run, 30, *words)
        self.wait_for_step(process, 8)
        os.kill(process.pid, signal_number)
        self.assertEqual(process.wait(timeout=60), 128 + signal_number, self.log_text())
        self.assertIn("--flagfile=", self.log_text())
        stopped = self.inspect(run)["progress"]["step"]
        self.assertLess(stopped, 30)
        resumed = self.run_program("train", f"--flagfile={run}/flags")
        self.assertIn(f"step-{stopped:08d}", resumed.stderr)
        self.assert_same_checkpoint(self.folder / "whole/step-00000030", run / "step-00000030")
        expected, got = losses(whole.stderr), losses(resumed.stderr)
        self.assertIn("30", got)
        self.assertEqual(got, {step: expected[step] for step in got})
        self.assertEqual(min(map(int, got)), stopped + 1)

    def test_sigterm_with_one_rank(self):
        self.stop_and_resume(1, signal.SIGTERM)

    def test_sigint_with_two_ranks(self):
        self.stop_and_resume(2, signal.SIGINT)

    def test_zero1_in_bf16(self):
        self.stop_and_resume(2, signal.SIGTERM, "--strategy=zero1", "--precision=bf16")

    def test_zero2_with_accumulation(self):
        self.stop_and_resume(2, signal.SIGTERM, "--strategy=zero2", "--accumulate_steps=2")

    def test_zero3_of_experts_with_recomputation(self):
        self.stop_and_resume(3, signal.SIGTERM, "--strategy=zero3", "--model=moe_gpt", "--recompute_activations")

    def test_strategies_and_world_sizes_change_on_the_way(self):
        run = self.folder / "run"
        ways = [("zero3", 3), ("ddp", 2), ("zero2", 3), ("single_device", 1), ("zero1", 2), ("fsdp", 4)]
        for i, (strategy, ranks) in enumerate(ways):
            more = [f"--strategy={strategy}", f"--nproc_per_node={ranks}",
                    "--save_layout=" + ("single_file" if i % 2 else "sharded")]
            done = self.train(run, 3 * (i + 1), *more)
            self.assertIn(f"step-{3 * i:08d}" if i else "starting fresh", done.stderr)
            self.assertEqual(self.inspect(run)["progress"]["samples_seen"], 3 * (i + 1) * 12)
        self.run_program("verify", run)

    def test_every_strategy_learns_alike(self):
        reference = losses(self.train(self.folder / "single", 10).stderr)
        for strategy in ("ddp", "zero1", "zero2", "zero3"):
            run = self.train(self.folder / strategy, 10, f"--strategy={strategy}", "--nproc_per_node=2")
            got = losses(run.stderr)
            self.assertEqual(got.keys(), reference.keys())
            for step, loss in got.items():
                self.assertAlmostEqual(float(loss), float(reference[step]), delta=0.011, msg=f"{strategy}, step {step}")

    def test_another_world_size_sees_the_samples_that_are_left(self):
        run = self.folder / "run"
        self.train(run, 6, "--nproc_per_node=2")
        resumed = self.train(run, 12, "--nproc_per_node=3")
        self.assertIn("step-00000006", resumed.stderr)
        seen = self.inspect(run)
        self.assertEqual(seen["progress"]["samples_seen"], 12 * 12)
        self.assertEqual(seen["topology"]["world_size"], 3)

    def test_ctrl_c_in_a_terminal_reaches_every_process_once(self):
        run = self.folder / "run"
        process = self.start_training(run, 100000, "--nproc_per_node=2", "--save_every_steps=0")
        self.wait_for_step(process, 3)
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(timeout=60), 130, self.log_text())
        self.assertEqual(len(list(run.glob("step-*"))), 1)
        self.run_program("verify", run)

    def test_a_second_signal_ends_at_once_and_leaves_no_orphan(self):
        run = self.folder / "run"
        process = self.start_training(run, 100000, "--nproc_per_node=2", "--save_every_steps=0")
        self.wait_for_step(process, 3)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        self.assertIn(process.wait(timeout=30), (143,), self.log_text())
        self.assertTrue(wait_until(lambda: not processes_of(str(run))))


class FailureTest(ProgramTest):

    def workers(self, run):
        return [pid for pid in processes_of(str(run)) if variable(pid, "RANK") is not None]

    def test_a_killed_rank_ends_the_run_and_is_named(self):
        run = self.folder / "run"
        process = self.start_training(run, 100000, "--nproc_per_node=3", "--save_every_steps=5")
        self.wait_for_step(process, 7)
        victim = self.workers(run)[1]
        rank = variable(victim, "RANK")
        os.kill(victim, signal.SIGKILL)
        self.assertEqual(process.wait(timeout=60), 137, self.log_text())
        self.assertIn(f"rank {rank} was killed by SIGKILL", self.log_text())
        self.assertTrue(wait_until(lambda: not processes_of(str(run))))
        self.train(run, 12, "--nproc_per_node=3")

    def test_no_orphan_outlives_a_killed_launcher(self):
        run = self.folder / "run"
        process = self.start_training(run, 100000, "--nproc_per_node=2")
        self.wait_for_step(process, 2)
        self.assertEqual(len(self.workers(run)), 2)
        process.kill()
        process.wait()
        self.assertTrue(wait_until(lambda: not processes_of(str(run))), "ranks outlived the launcher")

    def test_twenty_kills_at_random_moments_all_resume(self):
        run, seed = self.folder / "run", random.randrange(1 << 30)
        chance = random.Random(seed)
        reached = 0
        for attempt in range(20):
            process = self.start_training(run, 1000000, "--save_every_steps=1", "--save_layout=" +
                                          ("single_file" if attempt % 2 else "sharded"))
            step = self.wait_for_step(process, reached + 2)
            time.sleep(chance.random() * 0.05)
            process.kill()
            process.wait()
            self.assertGreater(step, reached, f"seed {seed}, attempt {attempt}")
            verdicts = subprocess.run([run_programs.SHARDWRIGHT, "verify", str(run)], capture_output=True, text=True).stdout
            self.assertNotIn("DAMAGED", verdicts, f"seed {seed}, attempt {attempt}")
            reached = self.inspect(run)["progress"]["step"]
        self.assertGreaterEqual(reached, 20)
        self.train(run, reached + 2)
        self.assertFalse(list(run.glob(".tmp-*")), "partial saves were not cleaned")

    def test_two_runs_on_one_folder_are_refused(self):
        run = self.folder / "run"
        process = self.start_training(run, 100000, "--save_every_steps=0")
        self.wait_for_step(process, 2)
        refused = self.train(run, 10, status=1)
        self.assertIn(str(process.pid), refused.stderr)


class BadInputTest(ProgramTest):

    def trained(self, *more):
        run = self.folder / "run"
        self.train(run, 4, "--save_every_steps=2", *more)
        return run

    def test_missing_and_empty_data(self):
        run = self.folder / "run"
        gone = self.run_program("train", "--data=/nowhere/text", f"--run_dir={run}", status=3)
        self.assertIn("/nowhere/text", gone.stderr)
        empty = self.folder / "empty"
        empty.touch()
        self.assertIn("empty", self.run_program("train", f"--data={empty}", f"--run_dir={run}", status=2).stderr)
        self.assertIn("--data", self.run_program("train", f"--run_dir={run}", status=2).stderr)
        self.assertFalse(run.exists())

    def test_wrong_words(self):
        wrong = {"--nproc_per_nod=2": "--nproc_per_node", "--strategy=dpp": "ddp", "--model=gtp": "gpt",
                 "--model_options=n_layers=2": "n_layer", "--max_steps=many": "whole number", "--resume=yesterday": "yesterday",
                 "--device=gpu": "cuda:0", "--save_layout=one_file": "single_file", "--timeout=soon": "--timeout", "--host_memory_budget=lots": "lots"}
        for word, hint in wrong.items():
            with self.subTest(word=word):
                done = subprocess.run([run_programs.SHARDWRIGHT, *self.train_words(self.folder / "x", 2, word)],
                                      capture_output=True, text=True, env=self.environment, timeout=60)
                self.assertIn(done.returncode, (2, 3), done.stderr)
                self.assertIn(hint, done.stderr)
                self.assertLess(len(done.stderr.strip().splitlines()), 5, done.stderr)

    def test_a_world_size_that_does_not_fit(self):
        done = self.train(self.folder / "run", 2, "--nproc_per_node=5", status=2)
        self.assertIn("--batch_size=12", done.stderr)
        self.assertEqual(done.stderr.count("--batch_size=12"), 1)

    def test_a_damaged_newest_checkpoint_is_passed_over_and_named(self):
        run = self.trained()
        victim = run / "step-00000004/model-00000-of-00001.safetensors"
        content = bytearray(victim.read_bytes())
        content[-100] ^= 1
        victim.write_bytes(content)
        self.assertIn("DAMAGED", self.run_program("verify", run, status=1).stdout)
        resumed = self.train(run, 6)
        self.assertIn("step-00000004", resumed.stderr)
        self.assertIn("step-00000002", resumed.stderr)
        self.run_program("verify", run / "last")

    def test_damage_everywhere_is_an_error_and_not_a_fresh_start(self):
        run = self.trained()
        for manifest in run.glob("step-*/manifest.pb"):
            manifest.write_bytes(manifest.read_bytes()[:-1])
        before = sorted(path.name for path in run.iterdir())
        done = self.train(run, 6, status=1)
        self.assertIn("step-00000004", done.stderr)
        self.assertIn("another directory", done.stderr)
        self.assertEqual(before, sorted(path.name for path in run.iterdir()))

    def test_a_manifest_of_a_newer_version_is_refused_by_number(self):
        run = self.trained()
        for manifest in run.glob("step-*/manifest.pb"):
            content = bytearray(manifest.read_bytes())
            content[8:16] = (99).to_bytes(4, "little") * 2
            content[HEAD_CRC] = crc32c(content[:HEAD_CRC.start]).to_bytes(4, "little")
            manifest.write_bytes(content)
        self.assertIn("99", self.run_program("inspect", run / "step-00000004", status=1).stderr)

    def test_changed_model_options_in_one_run_are_refused(self):
        run = self.trained()
        done = self.train(run, 6, "--model_options=n_layer=3,n_head=2,n_embd=32,context=32", status=2)
        self.assertIn("n_layer", done.stderr)

    def test_a_full_disk_leaves_what_was_there(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", str(disk)], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("no right to mount a small disk")
        self.addCleanup(subprocess.run, ["umount", "-l", str(disk)])
        run = disk / "run"
        done = self.train(run, 100, "--save_every_steps=1", status=1)
        self.assertRegex(done.stderr, "(?i)no space")
        self.assertFalse(list(run.glob(".tmp-*")), "a partial save was left on a full disk")
        self.run_program("verify", run)
        self.assertGreater(self.inspect(run)["progress"]["step"], 0)

    def test_a_folder_that_is_not_writable(self):
        run = self.folder / "ro"
        run.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(run)], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("no right to mount a read-only folder")
        self.addCleanup(subprocess.run, ["umount", "-l", str(run)])
        started = time.monotonic()
        done = self.train(run / "deep", 2, "--nproc_per_node=2", status=3)
        self.assertEqual(done.stderr.count("Read-only file system"), 1, done.stderr)
        self.assertIn(str(run / "deep"), done.stderr)
        self.assertLess(time.monotonic() - started, 60)


if __name__ == "__main__":
    unittest.main()
