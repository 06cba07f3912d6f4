#!/usr/bin/env python3
"""Checks that the documents agree with the checkout: quoted code is in its file, links, targets and files exist, packages are listed."""

import glob
import os
import re
import sys

import pages

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
ANY_CODE = re.compile(r"```.*?```", re.DOTALL)
# A target in a document, as in `bazel test //ops:register_ops_test`; //ops/... and //examples have no name to check.
TARGET = re.compile(r"(?<![\w/])//(\w[\w/]*):([\w.]+)")
# A file or folder of a room in backticks; a name without its extension, or with a star, stands for several.
PATH = re.compile(r"`((?:distributed|docs|examples|graph|kernels|library|ops|placer|session|tests|third_party|tools)/[\w./*-]*)`")
# Files that stand for those that a reader is about to write, or that the build writes.
IMAGINED = re.compile(r"/xyz/|/F/")

ROOT = os.path.dirname(os.path.realpath(os.path.join(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"], "WORKSPACE")))


def documents():
    """All of them, from the root of the checkout; without what Bazel links there."""
    return pages.markdown_files(ROOT)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def all_blocks():
    return [block for page in documents() for block in pages.blocks(page, read(page))]


def squeezed(text):
    return " ".join(text.split())


def code_is_compiled_or_quoted():
    # Code that nobody compiles goes stale first where most people look.
    complaints = []
    for block in all_blocks():
        if block.kind == "from" and squeezed(block.code) not in squeezed(read(block.name)):
            complaints.append("%s: this is not in %s:\n%s" % (block.where(), block.name, block.code))
        if block.language == "cpp" and block.kind not in ("program", "snippet", "declarations", "from"):
            complaints.append("%s: no comment says where this code is compiled (CONTRIBUTING.md)" % block.where())
    return complaints


def links_lead_somewhere():
    return ["%s: no %s" % (document, target)
            for document in documents()
            for target in LINK.findall(ANY_CODE.sub("", read(document))) if "://" not in target
            if not os.path.exists(os.path.join(ROOT, os.path.dirname(document), target))]


def every_package_has_its_reason():
    listed = re.search(r"PACKAGES=\((.*?)\n\)", read("tools/install_dependencies"), re.DOTALL).group(1)
    packages = re.sub(r"#.*", "", listed).split()
    explained = read("docs/dependencies.md")
    return ["docs/dependencies.md does not say why %s is needed" % package for package in packages
            if not re.search(r"^\|.*\b%s(?![\w-])" % re.escape(package), explained, re.MULTILINE)]


def is_target(package, name):
    build = os.path.join(ROOT, package, "BUILD")
    if not os.path.exists(build):
        return False
    with open(build, encoding="utf-8") as file:
        return '"%s"' % name in file.read()


def targets_named_in_documents_exist():
    return ["%s: no target //%s:%s" % (document, package, name)
            for document in documents() + ["tools/quickstart"]
            for package, name in TARGET.findall(read(document)) if not is_target(package, name)]


def paths_named_in_documents_exist():
    return ["%s: no %s" % (document, path)
            for document in documents()
            for path in PATH.findall(ANY_CODE.sub("", read(document))) if not IMAGINED.search(path)
            if not glob.glob(os.path.join(ROOT, path)) and not glob.glob(os.path.join(ROOT, path + ".*"))]


def headers_of_rooms():
    """The lines of ARCHITECTURE.md's list that are right: a folder, and the names of its headers."""
    lines = {}
    for room in ("distributed", "graph", "kernels", "library", "ops", "placer", "session"):
        for folder, _, names in os.walk(os.path.join(ROOT, room)):
            headers = sorted(name[:-len(".h")] for name in names if name.endswith(".h"))
            if headers:
                lines[os.path.relpath(folder, ROOT)] = ", ".join(headers)
    return lines


def architecture_lists_every_header():
    section = read("ARCHITECTURE.md").partition("## Every header\n")[2].partition("\n## ")[0]
    listed = dict(re.findall(r"^\* `([\w/]+)`: (.*)$", section.replace("\n  ", " "), re.MULTILINE))
    wanted = headers_of_rooms()
    return (["ARCHITECTURE.md, Every header: the line of %s must be\n* `%s`: %s" % (folder, folder, names)
             for folder, names in sorted(wanted.items()) if listed.get(folder) != names] +
            ["ARCHITECTURE.md, Every header: %s has no headers" % folder for folder in sorted(set(listed) - set(wanted))])


# Rooms whose headers are for programs, but for those that only other headers of the room need.
PROGRAM_ROOMS = ("ops/layers", "ops/losses", "ops/training", "session/monitored", "session/monitored/hooks")
OF_THE_ROOM_ALONE = {"ops/layers/layer_ends.h", "ops/layers/transposed_convolution.h", "ops/layers/weight.h",
                     "ops/losses/operands.h", "ops/training/decay.h",
                     "session/monitored/checkpoint_step.h", "session/monitored/ended_job.h",
                     "session/monitored/global_step_output.h",
                     "session/monitored/hooked_step.h",
                     "session/monitored/hooks/collective_fetches.h", "session/monitored/hooks/step_timer.h",
                     "session/monitored/held_disk.h", "session/monitored/left_out_step.h",
                     "session/monitored/test_hook.h", "session/monitored/test_program.h"}


def included_from(path, found):
    for included in re.findall(r'^#include "([^"]+)"', read(path), re.MULTILINE):
        if included not in found and os.path.exists(os.path.join(ROOT, included)):
            found.add(included)
            included_from(included, found)
    return found


def library_has_what_programs_use():
    found = included_from("library/weir.h", set())
    headers = [os.path.join(room, name) for room in PROGRAM_ROOMS for name in sorted(os.listdir(os.path.join(ROOT, room)))
               if name.endswith(".h")]
    return (["no header of library/ includes %s" % path for path in headers if path not in found | OF_THE_ROOM_ALONE] +
            ["%s is not there" % path for path in sorted(OF_THE_ROOM_ALONE) if path not in headers])


def main():
    failed = 0
    for check in (code_is_compiled_or_quoted, links_lead_somewhere, every_package_has_its_reason,
                  targets_named_in_documents_exist, paths_named_in_documents_exist, architecture_lists_every_header,
                  library_has_what_programs_use):
        complaints = check()
        failed += bool(complaints)
        print("\n".join(complaints + ["[%s] docs.%s" % ("  FAILED  " if complaints else "       OK ", check.__name__)]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
