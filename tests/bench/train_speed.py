#!/usr/bin/env python3
"""Steps per second of `shardwright train` beside the same gpt in plain PyTorch: one process each, the same threads, by turns.

  bazel build //tests/bench:train_speed
  tests/bench/train_speed.py [--python=PYTHON] [--threads=N] [--pairs=N] [--steps=N] [--clip=NORM] [SHAPE...]

PYTHON (also $PYTHON) is an interpreter that can import torch, the whole package; without one the bench says that it is
skipped. Ours is the command itself, with its loop and its data; theirs (plain_torch_gpt.py) is a bare loop over AdamW(fused).
The ratio is ours / theirs in steps per second, the median of pairs that ran next to each other, with the least and the most:
1.0 is as fast as plain PyTorch, above is faster.
"""

import argparse
import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = HERE.parents[1] / "bazel-bin/tests/bench/train_speed"

# name -> options of the model and samples of a step
SHAPES = {
    "default": {"n_layer": 4, "n_head": 4, "n_embd": 128, "context": 128, "batch_size": 32},
    "narrow": {"n_layer": 2, "n_head": 2, "n_embd": 32, "context": 32, "batch_size": 12},
    "wide": {"n_layer": 4, "n_head": 8, "n_embd": 512, "context": 256, "batch_size": 4},
}


class Worker:
    """A program that trains so many steps as it is told and answers with the time they took."""

    def __init__(self, words, environment):
        self.process = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)

    def seconds(self, steps):
        print(steps, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().split()
        if len(answer) != 2:
            raise RuntimeError(f"{self.process.args[0]} ended instead of training")
        self.loss = float(answer[1])
        return float(answer[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def ours(program, shape, clip, data, folder, environment):
    model = ",".join(f"{name}={value}" for name, value in shape.items() if name != "batch_size")
    return Worker([program, "train", "--callbacks=paced", f"--data={data}", f"--run_dir={folder}/run", "--max_steps=1000000000",
                   f"--model_options={model},schedule=constant", f"--batch_size={shape['batch_size']}",
                   f"--clip_gradient_norm={clip}", "--quiet"], environment)


def theirs(python, shape, clip, data, environment):
    return Worker([python, HERE / "plain_torch_gpt.py", f"--data={data}", f"--clip={clip}",
                   *(f"--{name}={value}" for name, value in shape.items())], environment)


def write_text(path):
    """Something to learn from, larger than any batch."""
    path.write_text("".join(f"{number} is {number * number}, and {number} more\n" for number in range(20000)))


def has_torch(python):
    probe = subprocess.run([python, "-c", "import torch"], capture_output=True, check=False)
    return probe.returncode == 0


def report(name, options, environment):
    shape = SHAPES[name]
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="train_speed."))
        data = pathlib.Path(folder) / "text"
        write_text(data)
        our, their = (stack.enter_context(worker) for worker in (
            ours(options.program, shape, options.clip, data, folder, environment),
            theirs(options.python, shape, options.clip, data, environment)))
        our.seconds(options.steps)
        their.seconds(options.steps)
        pairs = [(our.seconds(options.steps), their.seconds(options.steps)) for _ in range(options.pairs)]
        ratios = [their_time / our_time for our_time, their_time in pairs]
        ours_rate, theirs_rate = (options.steps / statistics.median(side) for side in zip(*pairs))
        print(f"{name:<9} {ours_rate:8.2f} steps/s  beside {theirs_rate:8.2f}  ratio {statistics.median(ratios):.3f} "
              f"({min(ratios):.3f}..{max(ratios):.3f})  loss {our.loss:.3f} beside {their.loss:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=list(SHAPES), metavar="SHAPE", help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--python", default=os.environ.get("PYTHON", sys.executable))
    parser.add_argument("--program", default=PROGRAM, help="the program of //tests/bench:train_speed")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--steps", type=int, default=10, help="of each side, in one turn")
    parser.add_argument("--clip", type=float, default=1.0, help="0: no clipping, on either side")
    options = parser.parse_args()
    if not has_torch(options.python):
        print(f"skipped: {options.python} cannot import torch; --python=... names one that can")
        return 0
    print(f"{options.threads} threads, {options.pairs} pairs of {options.steps} steps, clip {options.clip}, medians")
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
    for name in options.shapes:
        report(name, options, environment)
    return 0


if __name__ == "__main__":
    sys.exit(main())
