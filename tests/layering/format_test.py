#!/usr/bin/env python3
"""Checks that every C++ source is laid out as clang-format does it; .clang-format has the style."""

import os
import subprocess
import sys

import house

ROOT = os.path.dirname(os.path.realpath(os.path.join(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"], "WORKSPACE")))
FILES_PER_CALL = 50


def sources():
    found = []
    for room in house.MAY_REACH:
        for folder, folders, names in os.walk(os.path.join(ROOT, room)):
            folders[:] = [name for name in folders if name != "testdata"]
            found += [os.path.join(folder, name) for name in names if name.endswith((".h", ".cc", ".cu"))]
    return sorted(found)


def sources_are_formatted():
    """One complaint for each file, with the first line that clang-format would change."""
    files = sources()
    if len(files) < 200:
        return ["only %d sources found in %s: the test no longer sees the checkout" % (len(files), ROOT)]
    complaints = {}
    for begin in range(0, len(files), FILES_PER_CALL):
        call = ["clang-format", "--dry-run", "--style=file"] + files[begin:begin + FILES_PER_CALL]
        output = subprocess.run(call, cwd=ROOT, stderr=subprocess.PIPE, universal_newlines=True, check=True).stderr
        for line in output.splitlines():
            path, _, rest = line.partition(":")
            if "code should be clang-formatted" in rest:
                complaints.setdefault(path, "%s: run clang-format -i" % line.split(": ")[0])
    return list(complaints.values())


if __name__ == "__main__":
    sys.exit(house.run([("format.sources_are_formatted", sources_are_formatted)]))
