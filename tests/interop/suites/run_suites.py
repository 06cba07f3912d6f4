"""Runs TensorFlow's own tests on TensorFlow's server and on `weir serve`, and writes a line of JSON for each method. See README.md.

usage: run_suites.py --tests=DIR --results=DIR --weir=PATH [--sample=N] [--seed=N] [--not_in=DIR] [--only=tensorflow|weir]
                      [--again=FILE] [PATH...]
"""
import argparse
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time

from suite_servers import TensorFlowServer, WeirServer

PAGE = os.sysconf("SC_PAGE_SIZE")
FOLDERS = ["client", "training", "kernel_tests", "ops", "framework", "data", "saved_model", "checkpoint", "summary", "eager",
           "feature_column", "module", "util", "lib", "trackable", "autograph"]


def resident(pid):
    try:
        with open("/proc/%d/statm" % pid) as statm:
            return int(statm.read().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


class Results:
    """The lines of one server; a method that has one is not run again."""

    def __init__(self, path):
        self.path, self.of = path, {}
        if os.path.exists(path):
            with open(path) as lines:
                for line in lines:
                    self.keep(json.loads(line))

    def keep(self, entry):
        self.of[entry["file"], entry.get("method")] = entry

    def add(self, entry):
        self.keep(entry)
        with open(self.path, "a") as out:
            out.write(json.dumps(entry) + "\n")

    def counts(self, file):
        """The methods that passed and ran a step on the server."""
        return [m for (f, m), e in self.of.items() if f == file and m and e["outcome"] == "passed" and e["steps"] > 0]


class SuiteRun:
    def __init__(self, arguments):
        self.arguments = arguments

    def run_file(self, file, server, results, choose):
        """Forks until each chosen method has a result: one that hangs, or ends the process, costs only itself."""
        end = time.monotonic() + self.arguments.seconds_per_file

        def left(names):
            return [n for n in choose(names) if (file, n) not in results.of]

        while time.monotonic() < end:
            server.start()
            begun, over = self.run_process(file, server, results, left, end)
            if begun:
                outcome = "no answer" if over else "process ended"
                if not server.is_running():
                    outcome = "server ended"
                elif over:
                    server.stop()
                results.add({"file": file, "method": begun, "outcome": outcome, "steps": 1, "error": outcome})
            else:
                return

    def run_process(self, file, server, results, left, end):
        """The method that had begun and has no result, or None; whether its time or memory was over."""
        scratch = tempfile.mkdtemp(prefix="suite")
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                self.be_child(file, server, scratch, left, reader, writer)
            finally:
                os._exit(0)
        os.close(writer)
        begun, buffer, over = None, b"", False
        deadline = time.monotonic() + self.arguments.seconds_per_method * 2
        while True:
            ready, _, _ = select.select([reader], [], [], 0.5)
            if ready:
                data = os.read(reader, 65536)
                if not data:
                    break
                buffer += data
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    entry = json.loads(line)
                    deadline = time.monotonic() + self.arguments.seconds_per_method
                    if "begun" in entry:
                        begun = entry["method"]
                    else:
                        results.add(entry)
                        begun = None
                if begun is None and lines and (time.monotonic() > end or not server.is_running()):
                    break
            memory = max(resident(child), resident(server.pid()))
            if time.monotonic() > deadline or memory > self.arguments.gigabytes * 2**30:
                over = True
                break
            if not server.is_running():
                break
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        shutil.rmtree(scratch, ignore_errors=True)
        return begun, over

    def be_child(self, file, server, scratch, left, reader, writer):
        import suite_process
        os.close(reader)
        os.setsid()
        with open(self.arguments.results + "/log.%s" % server.name, "w") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        os.chdir(scratch)
        sys.argv = ["suite"]
        suite_process.run(file, "grpc://127.0.0.1:%d" % server.port, scratch, left,
                          lambda entry: os.write(writer, json.dumps(entry).encode() + b"\n"))


def files_of(arguments):
    roots = arguments.paths or ["tensorflow/python/" + each for each in FOLDERS]
    found = []
    for root in roots:
        full = os.path.join(arguments.tests, root)
        if os.path.isfile(full):
            found.append(root)
        for folder, folders, names in os.walk(full):
            folders.sort()
            found += [os.path.relpath(os.path.join(folder, n), arguments.tests) for n in sorted(names) if n.endswith("_test.py")]
    found = list(dict.fromkeys(found))
    if arguments.seed is not None:
        random.Random(arguments.seed).shuffle(found)  # a run that is ended early is a sample of all areas
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tests", required=True, help="folder with tensorflow/python/..._test.py")
    parser.add_argument("--results", required=True, help="folder for tensorflow.jsonl and weir.jsonl")
    parser.add_argument("--weir", required=True, help="the command weir")
    parser.add_argument("--sample", type=int, default=0, help="methods of a file, chosen by its name and the seed; 0: all")
    parser.add_argument("--seed", type=int, help="draws another sample, and runs the files in random order")
    parser.add_argument("--not_in", help="results folder of an earlier run: its methods are left out")
    parser.add_argument("--only", choices=["tensorflow", "weir"])
    parser.add_argument("--again", help="file with lines 'FILE METHOD': run these on weir once more")
    parser.add_argument("--seconds_per_method", type=float, default=60)
    parser.add_argument("--seconds_per_file", type=float, default=600)
    parser.add_argument("--gigabytes", type=float, default=5)
    parser.add_argument("paths", nargs="*", help="files or folders below --tests")
    arguments = parser.parse_args()
    arguments.results = os.path.abspath(arguments.results)
    arguments.tests = os.path.abspath(arguments.tests)
    os.makedirs(arguments.results, exist_ok=True)

    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
    import suite_process
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    from tensorflow.python.framework import test_util  # noqa: F401  (imported once, for all forks)
    from tensorflow.python.platform import test  # noqa: F401
    sys.meta_path.append(suite_process.TestsFinder(arguments.tests))

    run = SuiteRun(arguments)
    baseline = Results(arguments.results + "/tensorflow.jsonl")
    ours = Results(arguments.results + "/weir.jsonl")
    servers = [TensorFlowServer(arguments.results + "/server.tensorflow"),
               WeirServer(arguments.weir, arguments.results + "/server.weir")]
    earlier = Results(arguments.not_in + "/tensorflow.jsonl" if arguments.not_in else "")
    again = {}
    if arguments.again:
        with open(arguments.again) as lines:
            for line in lines:
                again.setdefault(line.split()[0], []).append(line.split()[1])
        for file, names in again.items():
            for name in names:
                ours.of.pop((file, name), None)

    def sample(file):
        def choose(names):
            names = [n for n in names if "mode_eager" not in n and "tfapiversion_2" not in n and (file, n) not in earlier.of]
            if arguments.sample and len(names) > arguments.sample:
                seed = file if arguments.seed is None else "%d %s" % (arguments.seed, file)
                chosen = random.Random(seed).sample(sorted(names), arguments.sample)
                names = [n for n in names if n in chosen]
            return names
        return choose

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the servers end too
    try:
        for file in sorted(again) if again else files_of(arguments):
            start = time.monotonic()
            if arguments.only != "weir" and not again and (file, None) not in baseline.of:
                run.run_file(file, servers[0], baseline, sample(file))
            counted = set(again.get(file) or baseline.counts(file))
            if arguments.only != "tensorflow" and counted:
                run.run_file(file, servers[1], ours, lambda names: [n for n in names if n in counted])
            passed = [n for n in counted if ours.of.get((file, n), {}).get("outcome") == "passed"]
            print("%s: %d of %d, %.1f s" % (file, len(passed), len(counted), time.monotonic() - start), flush=True)
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
