#!/usr/bin/env python3
"""Runs the shell blocks of the pages, in a folder that has the pages' programs, and compares what they print.

usage: runs_test.py WEIR PROGRAM...
"""

import os
import re
import socket
import subprocess
import sys

import pages

ROOT = os.path.dirname(os.path.realpath(os.path.join(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"], "WORKSPACE")))
WORK = os.path.join(os.environ["TEST_TMPDIR"], "pages")
NUMBER = re.compile(r"\d[\d.,]*(?:e[-+]?\d+)?")


def scripts():
    """By page and name: shell text, the output that the page shows, Python that is run afterwards."""
    found = {}
    for page in pages.markdown_files(ROOT):
        with open(os.path.join(ROOT, page), encoding="utf-8") as file:
            for block in pages.blocks(page, file.read()):
                if block.kind in ("run", "output", "run after"):
                    script = found.setdefault((page, block.name), {"run": "", "output": "", "run after": ""})
                    script[block.kind] += block.code
    return found


def pattern_of(line):
    """Numbers and amounts of white space may differ from run to run, and so may what stands for dots."""
    parts = [re.escape(part) for part in NUMBER.split(" ".join(line.split()))]
    return r"\d[\d.,]*(?:e[-+]?\d+)?".join(parts).replace(re.escape("..."), ".*")


def lines_that_are_missing(shown, printed):
    printed = [" ".join(line.split()) for line in printed.splitlines()]
    return [line for line in shown.splitlines()
            if line.strip() and not any(re.search(pattern_of(line), other) for other in printed)]


def link_programs(weir, programs):
    os.makedirs(os.path.join(WORK, "bin"))
    os.symlink(weir, os.path.join(WORK, "bin", "weir"))
    for program in programs:
        os.symlink(program, os.path.join(WORK, os.path.basename(program)))


def with_free_ports(text):
    """The pages' localhost:2222 and so on, each at a port that is free now."""
    sockets = {name: socket.socket() for name in set(re.findall(r"localhost:\d+", text))}
    for one in sockets.values():
        one.bind(("127.0.0.1", 0))
    ports = {name: "localhost:%d" % one.getsockname()[1] for name, one in sockets.items()}
    for one in sockets.values():
        one.close()
    return re.sub(r"localhost:\d+", lambda match: ports[match[0]], text)


def run(text, program=("bash", "-eux", "-c")):
    # The pages write to /tmp, a test to its own folder.
    text = with_free_ports(text)
    environment = dict(os.environ, PATH=os.path.join(WORK, "bin") + ":" + os.environ["PATH"], TF_CPP_MIN_LOG_LEVEL="3")
    done = subprocess.run(list(program) + [text.replace("/tmp/", WORK + "/tmp/")], cwd=WORK, env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
    return done.returncode, done.stdout.replace(WORK + "/tmp/", "/tmp/")


def complaints_of(script):
    code, printed = run(script["run"])
    complaints = ["exit code %d" % code] if code else []
    complaints += ["it did not print: " + line for line in lines_that_are_missing(script["output"], printed)]
    return complaints + [printed] if complaints else []


def report(case, complaints):
    print("\n".join(complaints + ["[%s] %s" % ("  FAILED  " if complaints else "       OK ", case)]))
    return bool(complaints)


def main(weir, *programs):
    link_programs(os.path.abspath(weir), [os.path.abspath(program) for program in programs])
    failed = 0
    for (page, name), script in sorted(scripts().items()):
        case = "%s.%s" % (re.sub(r"\W", "_", os.path.splitext(page)[0]), name)
        failed += report(case, complaints_of(script))
        python = os.environ.get("WEIR_TF_PYTHON")
        if script["run after"] and python:
            code, printed = run(script["run after"], program=(python, "-c"))
            failed += report(case + "_then_python", [printed, "exit code %d" % code] if code else [])
        elif script["run after"]:
            print("[  SKIPPED ] %s_then_python WEIR_TF_PYTHON names no Python with TensorFlow" % case)
    if not scripts():
        failed += report("pages_have_scripts", ["no page has a block to run"])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
