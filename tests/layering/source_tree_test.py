#!/usr/bin/env python3
"""Checks the files of the checkout: folders, includes, header contracts, lengths, names."""

import os
import re
import subprocess
import sys

import house

# Rooms, and what may stand beside them.
TOP_LEVEL_FOLDERS = set(house.MAY_REACH) | {"third_party", "tools", "docs", ".ci"}

# A file that nobody can hold in the head is more than one thing.
MAX_LINES = 900

# Words that say nothing about what a thing does. ResourceManager is TensorFlow's word for a thing of its own.
EMPTY_WORDS = re.compile(r"(Manager|Helper|Util|Utils|Common|Info|Data|Base|Impl)$")
ALLOWED_NAMES = {"ResourceManager"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
TYPE = re.compile(r"^(?:class|struct|enum class)\s+(?:[A-Z_]+\s+)?(\w+)", re.MULTILINE)
LIBRARY_OF_INCLUDE = [
    (re.compile(r"^google/protobuf/|\.pb\.h$"), "protobuf"),
    (re.compile(r"^grpc(pp)?/|\.grpc\.pb\.h$"), "grpc"),
    (re.compile(r"^(oneapi/)?dnnl"), "onednn"),
    (re.compile(r"^png\.h$"), "libpng"),
    (re.compile(r"^j(peglib|error)\.h$"), "libjpeg"),
    (re.compile(r"^gif_lib\.h$"), "giflib"),
    (re.compile(r"^re2/"), "re2"),
    (re.compile(r"^farmhash"), "farmhash"),
    (re.compile(r"^(cuda|cub/|cublas|cudnn|nccl|nvrtc)"), "cudart"),
]


def checkout():
    """The checkout that WORKSPACE, an input of this test, is a link into."""
    runfiles = os.path.join(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
    return os.path.dirname(os.path.realpath(os.path.join(runfiles, "WORKSPACE")))


def source_files(root):
    """Paths below the rooms, tools and third_party, from the root of the checkout; without what Bazel links there."""
    paths = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith("bazel-") and f not in ("__pycache__", ".git", "testdata"))
        paths += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(paths)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def hunks(patch):
    """(file, text that a hunk takes away or leaves as it is) of each hunk of a patch in git's form."""
    result, target, before = [], None, None
    for line in patch.splitlines():
        if line.startswith("+++ b/"):
            target, before = line[len("+++ b/"):], None
        elif line.startswith("diff --git "):
            before = None
        elif line.startswith("@@ "):
            before = []
            result.append((target, before))
        elif before is not None and line[:1] in (" ", "-"):
            before.append(line[1:])
    return [(target, "\n".join(lines)) for target, lines in result]


def untracked_by_intent(root, name):
    """Whether git ignores this entry (a scratch folder of the developer's)."""
    try:
        return subprocess.run(["git", "-C", root, "check-ignore", "-q", name], check=False).returncode == 0
    except OSError:
        return False


def main():
    root = checkout()
    paths = source_files(root)
    code = [path for path in paths if path.endswith((".h", ".cc", ".cu", ".py", ".sh")) and house.room_of(path)]
    sources = {path: read(root, path) for path in code}
    cpp = {path: text for path, text in sources.items() if path.endswith((".h", ".cc", ".cu"))}
    headers = {path: text for path, text in cpp.items() if path.endswith(".h")}

    def top_level_folders_are_the_rooms():
        # A thing that fits in no room is a sign that the rooms are wrong, not that one more is missing.
        found = {name for name in os.listdir(root) if os.path.isdir(os.path.join(root, name))}
        found = {name for name in found if name != ".git" and not name.startswith("bazel-")}
        return ["%s/: no room of the house (ARCHITECTURE.md); put it into one of %s" % (name, ", ".join(sorted(TOP_LEVEL_FOLDERS)))
                for name in sorted(found - TOP_LEVEL_FOLDERS) if not untracked_by_intent(root, name)]

    def includes_go_down():
        # Bazel lets a file include what a dependency's dependency brings; the file itself must be honest as well.
        if len(headers) < 50:
            return ["only %d headers found in %s: the test no longer sees the checkout" % (len(headers), root)]
        complaints = []
        for path, text in cpp.items():
            for mark, included in INCLUDE.findall(text):
                why = house.broken_rule(path, included) if mark == '"' else None
                if why:
                    complaints.append("%s includes %s: %s" % (path, included, why))
        return complaints

    def libraries_are_included_in_their_folders():
        complaints = []
        for path, text in cpp.items():
            for _, included in INCLUDE.findall(text):
                for pattern, library in LIBRARY_OF_INCLUDE:
                    why = pattern.search(included) and house.broken_library_rule(path, library)
                    if why:
                        complaints.append("%s includes %s: %s" % (path, included, why))
        return complaints

    def shipped_code_knows_no_test_code():
        # Reference kernels are slow on purpose; a test double in a product hides what it stands for.
        wrong = re.compile(r"^kernels/reference/|_test\.h$|/test_\w+\.h$|^gtest/|^gmock/")
        allowed = re.compile(r"^tests/|^kernels/reference/|_test\.cc$|(^|/)test_\w+\.(h|cc)$|_test\.h$|_suite\.(h|cc)$")
        return ["%s includes %s: only tests may" % (path, included)
                for path, text in cpp.items() if not allowed.search(path)
                for _, included in INCLUDE.findall(text) if wrong.search(included)]

    def only_the_environment_knows_the_machine():
        # Tests, examples and what nobody simulates may; so may test doubles that stand beside what they are for.
        shipped = [path for path in cpp if house.room_of(path) in ("graph", "ops", "kernels", "placer", "session", "distributed")
                   and not re.search(r"_(test|benchmark)\.cc$|/test_\w+\.h$", path)]
        allowed = house.MAY_GO_PAST_THE_ENVIRONMENT
        users = {path: [match for match in map(house.PAST_THE_ENVIRONMENT.search, cpp[path].splitlines()) if match] for path in shipped}
        complaints = ["%s uses %s: ask the Environment (kernels/environment.h)" % (path, match.group())
                      for path, matches in users.items() for match in matches
                      if not any(path.startswith(prefix) for prefix in allowed)]
        # A reason that nobody needs hides the next user.
        return complaints + ["tests/layering/house.py: nobody in %s goes past the environment any more" % prefix for prefix in allowed
                             if not any(path.startswith(prefix) and matches for path, matches in users.items())]

    def headers_open_with_their_contract():
        # What it is, thread safety, ownership, units and errors: the header is where a reader looks first.
        complaints = []
        for path, text in headers.items():
            if not text.startswith("//"):
                complaints.append("%s: begin with a comment that states the contract" % path)
            elif "#pragma once" not in text and "textual" not in text.split("\n#", 1)[0]:
                complaints.append("%s: no #pragma once" % path)
        return complaints

    def files_are_short():
        return ["%s has %d lines (at most %d): it holds more than one thing" % (path, text.count("\n"), MAX_LINES)
                for path, text in sources.items() if text.count("\n") > MAX_LINES]

    def names_say_something():
        return ["%s: '%s' ends in a word that says nothing about what it does" % (path, name)
                for path, text in headers.items()
                for name in TYPE.findall(text) if EMPTY_WORDS.search(name) and name not in ALLOWED_NAMES]

    def no_machine_of_ours_is_named():
        # A path that exists on one machine only makes every other machine fail.
        pattern = re.compile(r"/root/|/home/\w")
        return ["%s:%d: %s" % (path, text[:match.start()].count("\n") + 1, match.group())
                for path, text in sources.items() if path != "tests/layering/source_tree_test.py"
                for match in pattern.finditer(text)]

    def planted_bugs_apply():
        # Each takes minutes to build and find, so nothing else notices that the code has moved away under one.
        patches = [path for path in paths if path.startswith("tests/simulation/planted/") and path.endswith(".patch")]
        if len(patches) < 25:
            return [f"tests/simulation/planted: {len(patches)} bugs, 25 are known"]
        return [f"{path}: does not apply any more, {target} has no such lines:\n{before}"
                for path in patches
                for target, before in hunks(read(root, path)) if before not in read(root, target)]

    return house.run([("source_tree." + check.__name__, check) for check in (
        top_level_folders_are_the_rooms,
        includes_go_down,
        libraries_are_included_in_their_folders,
        shipped_code_knows_no_test_code,
        only_the_environment_knows_the_machine,
        headers_open_with_their_contract,
        files_are_short,
        names_say_something,
        no_machine_of_ours_is_named,
        planted_bugs_apply,
    )])


if __name__ == "__main__":
    sys.exit(main())
