#!/usr/bin/env python3
"""What a rank holds in memory under zero3, and under ddp beside it, on a model of more than 1 GiB of state.

  bazel build //tests/bench:strategy_memory
  tests/bench/strategy_memory.py [STRATEGY:RANKS...]     zero3:1 zero3:2 zero3:4 ddp:2 without any

zero3 promises that between steps a rank holds at most 1.1 x its share of the state and the largest unit, and that building
the model never takes more than that and one unit more. Sizes are MiB of anonymous memory above that of a process that has
torch loaded and its groups connected (strategy_memory.cc); of a world's ranks, the largest.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bazel-bin/tests/bench/strategy_memory"

# 94 M parameters, with the moments of AdamW 1.05 GiB, in units of 17 MiB. Few tokens: what counts is the state.
MODEL = ["--model=moe_gpt", "--model_options=n_layer=21,n_embd=256,n_expert=8,expert_hidden=1024,context=16"]
WORLDS = ["zero3:1", "zero3:2", "zero3:4", "ddp:2"]
COLUMNS = ("state", "of rank", "unit", "resident", "at most", "building", "at most", "step")


def measure(strategy, ranks, program=PROGRAM, environment=None):
    """One report per rank, as strategy_memory.cc prints them."""
    words = [program, f"--strategy={strategy}", f"--ranks={ranks}", *MODEL]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return [json.loads(line) for line in done.stdout.splitlines()]


def resident_bound(report):
    """What a rank of zero3 may hold between steps."""
    return 1.1 * report["global_state"] / report["ranks"] + report["largest_unit"]


def build_bound(report):
    """What it may hold while its model is built."""
    return resident_bound(report) + report["largest_unit"]


def row(reports):
    """A world's figures in the order of COLUMNS; no bound where a strategy promises none."""
    first, most = reports[0], {key: max(r[key] for r in reports) for key in ("state", "resident", "build_peak", "step_peak")}
    bounds = [resident_bound(first), build_bound(first)] if first["strategy"] == "zero3" else [None, None]
    return [first["global_state"], most["state"], first["largest_unit"], most["resident"], bounds[0], most["build_peak"],
            bounds[1], most["step_peak"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worlds", nargs="*", default=WORLDS, metavar="STRATEGY:RANKS")
    parser.add_argument("--program", default=PROGRAM, help="the program of //tests/bench:strategy_memory")
    arguments = parser.parse_args()
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    print(f"{'strategy':<10} {'ranks':>5}" + "".join(f" {column:>9}" for column in COLUMNS))
    for world in arguments.worlds:
        strategy, ranks = world.split(":")
        figures = row(measure(strategy, ranks, arguments.program, environment))
        cells = ("-" if figure is None else f"{figure / 2**20:.1f}" for figure in figures)
        print(f"{strategy:<10} {ranks:>5}" + "".join(f" {cell:>9}" for cell in cells), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
