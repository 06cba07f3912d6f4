"""A process of the command `weir serve`. It ends when its standard input does: with this process, however that ends.

A server of TensorFlow is a part of its program, and ends with it only. So does this one: when it ends by itself, with an
error or killed, the program ends too, for its sessions would wait for ever. It hears no Ctrl-C, which is for the program.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import threading

import tensorflow as tf

from weir_tf import own_command, program_end

# What `weir serve` prints when it serves.
_SERVING = re.compile(r"serving \S+ at (\S+)(?:, TensorFlow's clients at (\S+))?$")
_LAST_LINES = 20
_SECONDS_TO_END = 10

_command = None
_flags = []


def configure(weir, flags):
    """What start() runs from now on. FileNotFoundError when there is no such command."""
    global _command, _flags
    _command, _flags = _find(weir), list(flags)


def _find(weir):
    weir = weir or os.environ.get("WEIR_COMMAND")  # a wrong one is not an older one of the machine
    places = [weir] if weir else [own_command.COMMAND, shutil.which("weir")]
    places = [os.path.abspath(place) for place in places if place]
    for place in places:
        if os.path.isfile(place) and os.access(place, os.X_OK):
            return place
    raise FileNotFoundError("no command weir: looked for %s%s. Say install(weir=PATH), or set WEIR_COMMAND" %
                            (", ".join(places), "" if weir else " and in $PATH"))


def _cluster_flag(cluster):
    jobs = []
    for job in cluster.job:
        if sorted(job.tasks) != list(range(len(job.tasks))):
            raise ValueError("job %r has the tasks %s: clusters of Weir have no gaps" % (job.name, sorted(job.tasks)))
        jobs.append("%s|%s" % (job.name, ";".join(job.tasks[index] for index in range(len(job.tasks)))))
    return ",".join(jobs)


def _arguments(server_def):
    if server_def.protocol != "grpc":
        raise ValueError("protocol %r: servers of Weir speak 'grpc'" % server_def.protocol)
    config = server_def.default_session_config
    arguments = ["--cluster_spec=" + _cluster_flag(server_def.cluster), "--job_name=" + server_def.job_name,
                 "--task_index=%d" % server_def.task_index, "--ends_with_stdin"]
    if config.device_count.get("CPU", 0) > 0:
        arguments.append("--num_cpus=%d" % config.device_count["CPU"])
    if config.intra_op_parallelism_threads > 0:
        arguments.append("--num_threads=%d" % config.intra_op_parallelism_threads)
    # Clients cannot show what such a task demands.
    demands = ("WEIR_JOB_TOKEN", "WEIR_TLS_CERT")
    if any(os.environ.get(name) for name in demands) and not os.environ.get("WEIR_TENSORFLOW_CLIENTS"):
        arguments.append("--tensorflow_clients=127.0.0.1:0")
    return arguments + _flags


def _say(line):
    try:
        if sys.stderr is sys.__stderr__:
            # Past the buffer: what cannot be written would stay there, and end a program that did its work with code 120.
            os.write(sys.stderr.fileno(), (line + "\n").encode(errors="replace"))
        else:
            print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        pass  # stderr is on a full disk, closed, or not there: the program goes on without the line


class WeirProcess:
    """Not started by its constructor. Its lines go to stderr. Thread-safe but for start()."""

    def __init__(self, server_def):
        self._arguments = _arguments(server_def)
        self._task = "%s:%d" % (server_def.job_name, server_def.task_index)
        self._process, self._target = None, None
        self._lines = collections.deque(maxlen=_LAST_LINES)
        self._serves = threading.Event()
        self._end_lock = threading.Lock()
        self._is_expected_to_end = False
        self.is_alone = sum(len(job.tasks) for job in server_def.cluster.job) == 1

    def start(self):
        if self._process is not None:
            return
        if _command is None:
            configure(None, [])
        self._process = subprocess.Popen([_command, "serve"] + self._arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, text=True, errors="replace",
                                         env=own_command.environment(_command), start_new_session=True)
        self._reader = threading.Thread(target=self._read, daemon=True, name="weir_tf " + self._task)
        self._reader.start()
        self._serves.wait()
        if self._target is None:
            # The error; what stands before, as warnings, was printed.
            error = self._lines[-1] if self._lines else "it printed nothing"
            raise tf.errors.UnknownError(None, None, "the server %s did not start (exit code %d): %s" %
                                         (self._task, self._process.wait(), error))
        if not self.is_alone:
            program_end.call_at_end(self.end)

    def target(self):
        if self._target is None:
            raise tf.errors.FailedPreconditionError(None, None, "the server %s has not been started" % self._task)
        return self._target

    def join(self):
        self.target()
        self._is_expected_to_end = True
        code = self._process.wait()
        self._reader.join()
        if code != 0:
            if threading.current_thread() is not threading.main_thread():
                self._is_expected_to_end = False
                self._end_program_with(code)
            raise tf.errors.AbortedError(None, None, "the server %s has ended with code %d: %s" % (self._task, code, "\n".join(self._lines)))

    def end(self, is_done):
        """Ends it, and waits for that."""
        with self._end_lock:
            if self._process is None or self._process.stdin.closed:
                return
            self._is_expected_to_end = True
            try:
                if is_done:
                    self._process.stdin.write("done\n")
                self._process.stdin.close()
            except BrokenPipeError:
                pass  # it has ended
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self):
        for line in self._process.stdout:
            line = line.rstrip("\n")
            serving = _SERVING.match(line)
            if serving and self._target is None:
                self._target = serving.group(2) or serving.group(1)
                if "://" not in self._target:
                    self._target = "grpc://" + self._target
                self._serves.set()
                continue
            self._lines.append(line)
            _say(line)
        self._serves.set()
        if self._target is not None:
            self._end_program_with(self._process.wait())

    def _end_program_with(self, code):
        if code == 0 or self._is_expected_to_end:
            return
        how = "signal %d" % -code if code < 0 else "code %d" % code
        _say("weir_tf: the server %s has ended with %s, and so does this program" % (self._task, how))
        os._exit(code if code > 0 else 128 - code)
