#!/usr/bin/env python3
"""Keeps the folder of build results that tools/run_bazel uses within a size: what was not used for longest goes first.

usage: trim_cache.py FOLDER LIMIT
  FOLDER   what Bazel was given as --disk_cache; nothing happens where there is none
  LIMIT    gigabytes (10^9 bytes), as in 20 or 0.5

Bazel itself never removes anything from such a folder, and each change adds hundreds of test programs. Any file may go
at any time: Bazel makes what it misses again. Programs go before the rest: they are most of the bytes, and are linked in a
second, while objects take minutes to compile and look old (many file systems note the first use of a file, not its last).
Precompiled headers count as objects that were used a day later: an object is found again only beside the very header that it
was made with, and a header that is made anew is another one, byte by byte.
Half-written files that a killed build left go after a day.
A trim leaves a tenth of LIMIT free, so that not every build trims. Exit code: 0, or 2 for wrong arguments.
"""

import os
import pathlib
import sys
import time

HALF_WRITTEN_S = 24 * 3600
KEPT = 0.9
PROGRAM_BYTES = 8e6  # and more
PRECOMPILED_HEADER = b"gpch"  # what GCC begins them with
PRECOMPILED_HEADER_S = 24 * 3600


def files_below(folder):
    """Yields (path, stat) of each regular file; what other builds remove meanwhile is passed over."""
    for root, _, names in os.walk(folder):
        for name in names:
            path = pathlib.Path(root, name)
            try:
                yield path, path.stat()
            except OSError:  # another build has removed it, or it is somebody else's
                pass


def remove(path):
    """Whether it is gone now."""
    try:
        path.unlink(missing_ok=True)
        return True
    except OSError:
        return False


def last_use(stat):
    # Many file systems write the time of access once a day only, so that of the writing counts as well.
    return max(stat.st_atime, stat.st_mtime)


def is_precompiled_header(path):
    try:
        with open(path, "rb") as file:
            return file.read(len(PRECOMPILED_HEADER)) == PRECOMPILED_HEADER
    except OSError:
        return False


def rank(path, stat):
    """The smallest goes first."""
    if stat.st_size < PROGRAM_BYTES:
        return (1, last_use(stat))
    if is_precompiled_header(path):
        return (1, last_use(stat) + PRECOMPILED_HEADER_S)
    return (0, last_use(stat))


def trim(folder, limit_bytes, now):
    """Removes files until `folder` is within the limit. Returns the bytes removed."""
    results, removed = [], 0
    for path, stat in files_below(folder):
        # Results lie in ac/ and cas/; the folder's own files are those being written.
        if path.parent == folder and now - last_use(stat) > HALF_WRITTEN_S:
            removed += stat.st_size if remove(path) else 0
        else:
            results.append((path, stat))
    total = sum(stat.st_size for _, stat in results)
    if total <= limit_bytes:
        return removed
    for path, stat in sorted(results, key=lambda result: rank(*result)):
        if remove(path):
            total -= stat.st_size
            removed += stat.st_size
        if total <= limit_bytes * KEPT:
            break
    return removed


def main(arguments):
    try:
        folder, limit = pathlib.Path(arguments[0]), float(arguments[1])
        if len(arguments) != 2 or not limit > 0:
            raise ValueError
    except (IndexError, ValueError):
        print(__doc__, file=sys.stderr)
        return 2
    removed = trim(folder, limit * 1e9, time.time())
    if removed:
        print(f"Removed {removed / 1e9:.1f} GB of the oldest build results from {folder}, which may hold {limit:g} GB.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
