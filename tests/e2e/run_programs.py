"""What the end-to-end tests share: where the programs are, how to run and stop them, what a run left."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SHARDWRIGHT = os.environ.get("SHARDWRIGHT_BIN", str(REPOSITORY / "bazel-bin/cli/shardwright"))

# Small enough that a step takes milliseconds.
TINY = ["--model_options=n_layer=2,n_head=2,n_embd=32,context=32", "--batch_size=12", "--log_every_steps=1"]


def write_text(path, words=4000):
    """Text that a tiny model learns something from: a few sentences, over and over, in a changing order."""
    subjects, verbs, objects = ["the rank", "a shard", "one node"], ["reads", "writes", "keeps"], ["a box.", "its turn.", "bytes."]
    sentences = [f"{subjects[i % 3]} {verbs[(i // 3) % 3]} {objects[(i * 7 // 5) % 3]}" for i in range(words // 4)]
    pathlib.Path(path).write_text("\n".join(sentences) + "\n")


class ProgramTest(unittest.TestCase):
    """Gives each test a folder with a text to train on."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="shardwright-e2e-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.text = self.folder / "text"
        write_text(self.text)
        self.environment = dict(os.environ, OMP_NUM_THREADS="1")
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            self.environment.pop(name, None)

    def run_program(self, *words, status=0, timeout=120, **options):
        """Runs `shardwright words...`; fails the test unless it exits with `status`."""
        done = subprocess.run([SHARDWRIGHT, *map(str, words)], capture_output=True, text=True, errors="replace",
                              timeout=timeout, env=self.environment, **options)
        self.assertEqual(done.returncode, status, f"{words}\nstdout: {done.stdout}\nstderr: {done.stderr}")
        return done

    def train_words(self, run, steps, *more):
        return ["train", f"--data={self.text}", f"--run_dir={run}", f"--max_steps={steps}", *TINY, *map(str, more)]

    def train(self, run, steps, *more, **options):
        return self.run_program(*self.train_words(run, steps, *more), **options)

    def start_training(self, run, steps, *more):
        """A run in the background, stderr in a file, in a process group of its own as a shell would start it."""
        log = open(self.folder / "log", "w+", errors="replace")
        # A shell that runs the tests in the background has them ignore SIGINT, and what is ignored is inherited.
        process = subprocess.Popen([SHARDWRIGHT, *self.train_words(run, steps, *more)], stdout=subprocess.DEVNULL, stderr=log,
                                   env=self.environment, start_new_session=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(log.close)
        self.addCleanup(kill_group, process)
        return process

    def log_text(self):
        return (self.folder / "log").read_text(errors="replace")

    def wait_for_step(self, process, step, timeout=60):
        """Until the log shows a finished step of at least that number."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            steps = [int(found) for found in re.findall(r"step\s+(\d+)/", self.log_text())]
            if steps and max(steps) >= step:
                return max(steps)
            if process.poll() is not None:
                break
            time.sleep(0.01)
        self.fail(f"step {step} was not reached:\n{self.log_text()}")

    def inspect(self, path):
        return json.loads(self.run_program("inspect", "--json", path).stdout)

    def assert_same_checkpoint(self, one, other):
        """Equal data files, byte for byte: parameters and optimizer state."""
        names = sorted(path.name for path in pathlib.Path(one).glob("*.safetensors"))
        self.assertTrue(names)
        self.assertEqual(names, sorted(path.name for path in pathlib.Path(other).glob("*.safetensors")))
        for name in names:
            self.assertEqual((pathlib.Path(one) / name).read_bytes(), (pathlib.Path(other) / name).read_bytes(), name)


def losses(text):
    """step -> loss as printed."""
    return dict(re.findall(r"step\s+(\d+)/\d+\s+loss\s+(\S+)", text))


def crc32c(content):
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def kill_group(process):
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


def processes_of(text):
    """Ids of living processes whose command line contains `text`."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes()
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if text.encode() in words and state != "Z":
            found.append(int(entry.name))
    return found


def variable(pid, name):
    """A variable of a process's environment, or None."""
    try:
        words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    return next((word.decode().split("=", 1)[1] for word in words if word.startswith(name.encode() + b"=")), None)


def wait_until(condition, timeout=30):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False
