#!/usr/bin/env python3
"""Keeps Bazel's disk cache, which Bazel itself never empties, under a size: what was used longest ago goes first.

  tools/prune_cache.py [--limit_gib=N] [FOLDER]      by default 8 GiB of ~/.cache/shardwright-bazel
"""

import argparse
import os
import pathlib
import sys


def entries(folder):
    """(last use, size, path) of every file; those that vanish meanwhile are passed over."""
    for path in folder.rglob("*"):
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        if path.is_file():
            # Access times may be kept loosely (relatime) or not at all (noatime); writing counts as a use, too.
            yield max(status.st_atime, status.st_mtime), status.st_size, path


def prune(folder, limit_bytes):
    """Deletes down to three quarters of the limit if it is exceeded. Returns (bytes before, bytes after)."""
    found = sorted(entries(folder))
    before = after = sum(size for _, size, _ in found)
    if before <= limit_bytes:
        return before, after
    for _, size, path in found:
        if after <= limit_bytes * 3 // 4:
            break
        path.unlink(missing_ok=True)
        after -= size
    return before, after


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default=os.path.expanduser("~/.cache/shardwright-bazel"))
    parser.add_argument("--limit_gib", type=float, default=8.0)
    arguments = parser.parse_args()
    before, after = prune(pathlib.Path(arguments.folder), int(arguments.limit_gib * 2**30))
    if after < before:
        print(f"disk cache pruned from {before / 2**30:.1f} to {after / 2**30:.1f} GiB: {arguments.folder}")


if __name__ == "__main__":
    sys.exit(main())
