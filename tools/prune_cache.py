#!/usr/bin/env python3
"""Takes away what Bazel itself never does.

  tools/prune_cache.py [--limit_gib=N]

The disk cache (~/.cache/shardwright-bazel) is kept under 8 GiB or N: what was used longest ago goes first. Outputs of clones
of this project that are gone (~/.cache/bazel/_bazel_USER/...) are deleted.
"""

import argparse
import getpass
import os
import pathlib
import shutil
import stat
import sys

DISK_CACHE = "~/.cache/shardwright-bazel"
WORKSPACE_NAME = "shardwright"


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


def orphaned(output_base):
    """An output base of ours whose clone no longer exists, and that no server uses."""
    try:
        workspace = (output_base / "DO_NOT_BUILD_HERE").read_text(encoding="utf-8").strip()
    except OSError:
        return False
    if not workspace or os.path.exists(workspace) or not (output_base / "execroot" / WORKSPACE_NAME).is_dir():
        return False
    try:
        server = (output_base / "server/server.pid.txt").read_text(encoding="utf-8").strip()
    except OSError:
        return True
    return not os.path.exists(f"/proc/{server}")


def remove_tree(folder):
    """Bazel makes its output folders read-only."""
    for parent, _, _ in os.walk(folder):
        os.chmod(parent, os.stat(parent).st_mode | stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)


def prune_orphans(user_root):
    """Returns the output bases that were deleted."""
    found = [base for base in sorted(user_root.iterdir()) if orphaned(base)] if user_root.is_dir() else []
    for base in found:
        remove_tree(base)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit_gib", type=float, default=8.0)
    arguments = parser.parse_args()
    disk_cache = pathlib.Path(os.path.expanduser(DISK_CACHE))
    before, after = prune(disk_cache, int(arguments.limit_gib * 2**30))
    if after < before:
        print(f"disk cache pruned from {before / 2**30:.1f} to {after / 2**30:.1f} GiB: {disk_cache}")
    for base in prune_orphans(pathlib.Path(os.path.expanduser(f"~/.cache/bazel/_bazel_{getpass.getuser()}"))):
        print(f"deleted the outputs of a clone that is gone: {base}")


if __name__ == "__main__":
    sys.exit(main())
