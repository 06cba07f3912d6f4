"""Programs that start their own tf.train.Server, unchanged, with Weir's servers: what tools/python/weir_tf promises.

usage: shim_interop_test.py WEIR EMPTY_DIRECTORY
"""
import json
import os
import signal
import socket
import subprocess
import sys
import time

import cases
from weir_server import free_ports

# A job as TensorFlow's documentation of its time writes it. Nothing in it knows of Weir.
PROGRAM = '''
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)
job, task, cluster, folder, last_step = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4], int(sys.argv[5])

def main(_):
    server = tf.train.Server(tf.train.ClusterSpec(cluster), job_name=job, task_index=task)
    if job == "ps":
        server.join()
        print("JOINED", flush=True)  # TensorFlow's never returns, and many programs go on here without a word
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:%d" % task)):
        x = tf.placeholder(tf.float32, [None, 2])
        w = tf.get_variable("w", [2, 1], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - tf.reduce_sum(x, 1, keepdims=True)))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=tf.train.get_or_create_global_step())
    random = np.random.RandomState(task)
    losses = []
    with tf.train.MonitoredTrainingSession(server.target, is_chief=task == 0, checkpoint_dir=folder if task == 0 else None,
                                           hooks=[tf.train.StopAtStepHook(last_step=last_step)]) as session:
        while not session.should_stop():
            losses.append(float(session.run([loss, train], {x: random.uniform(-1, 1, [32, 2])})[0]))
            if len(losses) == 5:
                print("RUNNING", flush=True)
            if os.path.exists(os.path.join(folder, "fail")) and task == 1:
                raise ValueError("as it was told")
    print(json.dumps(losses), flush=True)

tf.app.run(main)
'''


class Job:
    """A parameter server and two workers, each `python -m weir_tf program.py`."""

    def __init__(self, weir, directory, last_step=200, environment=()):
        self.weir, self.directory, self.last_step = weir, directory, last_step
        self.environment = dict(os.environ, WEIR_COMMAND=weir, PYTHONPATH=package_folder(), **dict(environment))
        ports = free_ports(3)
        self.cluster = {"ps": ["127.0.0.1:%d" % ports[0]], "worker": ["127.0.0.1:%d" % port for port in ports[1:]]}
        self.path = os.path.join(directory, "program.py")
        with open(self.path, "w") as program:
            program.write(PROGRAM)
        self.processes = []

    def start(self, job, task=0):
        return self.run([self.path, job, str(task), json.dumps(self.cluster), self.directory, str(self.last_step)])

    def run(self, arguments):
        """`python -m weir_tf ...` as the leader of a group of processes."""
        process = subprocess.Popen([sys.executable, "-m", "weir_tf"] + arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=self.environment, start_new_session=True)
        self.processes.append(process)
        return process

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # those that it has started hold its pipes
            process.communicate()


def package_folder():
    return os.path.abspath("tools/python")


def end_of(process):
    """Its exit code and what it wrote."""
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def servers_of(process_id):
    """The ids of the servers that a process has started."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % entry) as stat, open("/proc/%s/cmdline" % entry) as command:
                parent, words = int(stat.read().rpartition(")")[2].split()[1]), command.read().split("\0")
        except OSError:
            continue  # it has ended meanwhile
        if parent == process_id and "serve" in words:
            found.append(int(entry))
    return found


def await_end(process_id):
    """Waits until there is no such process."""
    deadline = time.monotonic() + 60
    while os.path.exists("/proc/%d" % process_id):
        with open("/proc/%d/stat" % process_id) as stat:
            if stat.read().rpartition(")")[2].split()[0] == "Z":
                return  # it has ended, and nobody has asked how
        assert time.monotonic() < deadline, "process %d goes on" % process_id
        time.sleep(0.05)


def test_a_job_with_its_own_servers_trains_and_ends(weir, directory):
    with Job(weir, directory) as job:
        ps, workers = job.start("ps"), [job.start("worker", task) for task in range(2)]
        for worker in workers:
            code, out, err = end_of(worker)
            assert code == 0, err[-3000:]
            losses = json.loads(out.splitlines()[-1])
            assert losses[-1] < 0.01, losses[-1]
        code, out, err = end_of(ps)  # TensorFlow's would wait for ever
        assert (code, out) == (0, ""), err[-3000:]


def test_a_job_with_a_token(weir, directory):
    with Job(weir, directory, environment={"WEIR_JOB_TOKEN": "a-token-that-is-long-enough"}) as job:
        processes = [job.start("ps")] + [job.start("worker", task) for task in range(2)]
        for process in processes:
            code, _, err = end_of(process)
            assert code == 0, err[-3000:]


def test_a_worker_that_failed_comes_again(weir, directory):
    with Job(weir, directory, last_step=100000) as job:
        ps, chief, worker = job.start("ps"), job.start("worker", 0), job.start("worker", 1)
        assert "RUNNING" in worker.stdout.readline()
        failing = os.path.join(directory, "fail")
        open(failing, "w").close()
        code, _, err = end_of(worker)
        assert code == 1 and "as it was told" in err, err[-3000:]
        os.remove(failing)
        again = job.start("worker", 1)
        assert "RUNNING" in again.stdout.readline()
        assert ps.poll() is None and chief.poll() is None
        for worker in (chief, again):
            worker.terminate()  # as a scheduler does: not the end of the training
            end_of(worker)
        time.sleep(2)
        assert ps.poll() is None, end_of(ps)


# Runs PROGRAM once for each task, in processes of its own.
LAUNCHER = '''
import json, multiprocessing, runpy, sys
path, cluster, folder = sys.argv[1:]

def task(job, index):
    sys.argv = [path, job, str(index), cluster, folder, "200"]
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:  # of tf.app.run
        assert not end.code, end.code

if __name__ == "__main__":
    processes = [multiprocessing.Process(target=task, args=each) for each in (("worker", 0), ("worker", 1), ("ps", 0))]
    for process in processes:
        process.start()
    for process in processes:
        process.join(200)
    print([process.exitcode for process in processes], flush=True)
    for process in processes:
        process.kill()
'''


# Several tasks in one program, each in a process of multiprocessing, as many an example has them.
PROCESSES = '''
import multiprocessing, os, sys
folder, start_method = sys.argv[1:]
sys.path.insert(0, folder)
import program_end

def task(connection, how):
    program_end.call_at_end(connection.send)
    if how == "raises":
        raise ValueError("as it was told")
    if how == "raises SystemExit":
        raise SystemExit(how)
    if how.startswith("exits"):
        sys.exit(int(how.split()[1]))

if __name__ == "__main__":
    context = multiprocessing.get_context(start_method)
    program_end.call_at_end(lambda is_done: print("the program", is_done, flush=True))
    for how in ("returns", "raises", "raises SystemExit", "exits 0", "exits 3"):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=task, args=(sender, how))
        process.start()
        sender.close()
        try:
            print(how, receiver.recv(), flush=True)
        except EOFError:
            print(how, "nothing", flush=True)
        process.join()
'''


def test_a_process_of_multiprocessing_says_how_it_ended(_, directory):
    path = os.path.join(directory, "processes.py")
    with open(path, "w") as program:
        program.write(PROCESSES)
    for start_method in ("fork", "spawn"):
        program = subprocess.run([sys.executable, path, os.path.join(package_folder(), "weir_tf"), start_method], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240)
        assert program.stdout.splitlines() == ["returns True", "raises False", "raises SystemExit False", "exits 0 True", "exits 3 False",
                                               "the program True"], program.stdout + program.stderr[-3000:]


def test_a_job_in_processes_of_one_program_ends(weir, directory):
    """The program above, a process for each of its tasks."""
    with Job(weir, directory) as job:
        launcher = os.path.join(directory, "launcher.py")
        with open(launcher, "w") as program:
            program.write(LAUNCHER)
        code, out, err = end_of(job.run([launcher, job.path, json.dumps(job.cluster), directory]))
        assert (code, out.splitlines()[-1]) == (0, "[0, 0, 0]"), out[-1000:] + err[-3000:]


def test_servers_end_with_a_program_that_is_killed(weir, directory):
    with Job(weir, directory) as job:
        ps = job.start("ps")
        deadline = time.monotonic() + 120
        while not servers_of(ps.pid):
            assert ps.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        servers = servers_of(ps.pid)
        ps.send_signal(signal.SIGKILL)
        for server in servers:
            await_end(server)


def test_a_program_ends_with_its_server(weir, directory):
    with Job(weir, directory, last_step=100000) as job:
        _, chief, _ = job.start("ps"), job.start("worker", 0), job.start("worker", 1)
        assert "RUNNING" in chief.stdout.readline()
        [server] = servers_of(chief.pid)
        os.kill(server, signal.SIGKILL)
        code, _, err = end_of(chief)
        assert code == 128 + signal.SIGKILL, err[-3000:]
        assert "the server worker:0 has ended with signal 9, and so does this program" in err, err[-3000:]


def test_ctrl_c_ends_a_program_and_then_its_server(weir, directory):
    with Job(weir, directory, last_step=100000) as job:
        _, chief, _ = job.start("ps"), job.start("worker", 0), job.start("worker", 1)
        assert "RUNNING" in chief.stdout.readline()
        [server] = servers_of(chief.pid)
        os.killpg(chief.pid, signal.SIGINT)  # as a terminal does
        code, _, err = end_of(chief)
        assert code != 0 and "KeyboardInterrupt" in err, err[-3000:]
        await_end(server)


def test_a_program_goes_on_when_nothing_can_be_written_to_stderr(weir, directory):
    program = """
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import tensorflow.compat.v1 as tf
tf.logging.set_verbosity(tf.logging.ERROR)  # a warning of its own that is not written ends any program with code 120
tf.disable_v2_behavior()
server = tf.train.Server.create_local_server()
with tf.Session(server.target) as session:
    print(session.run(tf.constant(2.0) * 3))
"""
    path = os.path.join(directory, "simple.py")
    with open(path, "w") as file:
        file.write(program)
    environment = dict(os.environ, WEIR_COMMAND=weir, PYTHONPATH=package_folder())
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "weir_tf", path], env=environment, stdout=subprocess.PIPE, stderr=full, text=True, timeout=120,
                              check=True)
    assert done.stdout.split() == ["6.0"], done.stdout


def test_a_wheel_carries_the_command(weir, directory):
    # The command lies where a build leaves it.
    built = os.path.abspath(weir)[:-len("/distributed/command/weir")]
    out = subprocess.run([sys.executable, "tools/make_wheel", "--out=" + directory, "--built=" + built], stdout=subprocess.PIPE, text=True,
                         check=True).stdout
    wheel, site = out.splitlines()[-1], os.path.join(directory, "site")
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", "--target", site, wheel],
                   check=True)
    program = """
import os, sys
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import tensorflow.compat.v1 as tf
import weir_tf
weir_tf.install()
tf.disable_v2_behavior()
server = tf.train.Server.create_local_server()
with tf.Session(server.target) as session:
    print(weir_tf.__file__, session.run(tf.constant(2.0) * 3))
"""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "WEIR_COMMAND")}
    done = subprocess.run([sys.executable, "-c", program], env=dict(environment, PYTHONPATH=site, PATH="/usr/bin:/bin"), stdout=subprocess.PIPE, text=True,
                          check=True)
    assert done.stdout.split() == [os.path.join(site, "weir_tf", "__init__.py"), "6.0"], done.stdout
    command = os.path.join(site, "bin", "weir")
    assert os.access(command, os.X_OK), os.listdir(site)
    shown = subprocess.run([command, "serve", "--help"], env=dict(environment, PYTHONPATH=site, PATH="/usr/bin:/bin"), stdout=subprocess.PIPE, text=True,
                           check=True)
    assert "weir serve" in shown.stdout, shown.stdout
    # Its libraries are its own: a program that it starts has others of these names.
    launched = subprocess.run([command, "launch", "--workers=1", "--", "sh", "-c", 'echo "[$LD_LIBRARY_PATH]"'],
                              env=dict(environment, PYTHONPATH=site, PATH="/usr/bin:/bin", LD_LIBRARY_PATH="/mine"), stdout=subprocess.PIPE, text=True,
                              check=True)
    assert "[/mine]" in launched.stdout, launched.stdout


def in_process(weir):
    """weir_tf installed in this process, and TensorFlow."""
    if package_folder() not in sys.path:
        sys.path.insert(0, package_folder())
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    import tensorflow as tf
    import weir_tf
    weir_tf.install(weir=weir)
    tf.compat.v1.disable_eager_execution()
    return tf, weir_tf


def error_of(call, kind):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("no error")


def test_a_local_server(weir, _):
    tf, _ = in_process(weir)
    server = tf.compat.v1.train.Server.create_local_server(config=tf.compat.v1.ConfigProto(device_count={"CPU": 2}))
    assert isinstance(server, tf.compat.v1.train.Server) and server.server_def.job_name
    with tf.compat.v1.Session(server.target) as session:
        assert session.run(tf.constant(3.0) * 2) == 6.0
        assert sum(device.device_type == "CPU" for device in session.list_devices()) == 2
    [process] = servers_of(os.getpid())
    del server
    await_end(process)


def test_a_server_starts_when_it_is_told(weir, _):
    tf, _ = in_process(weir)
    server = tf.distribute.Server({"lone": ["127.0.0.1:0"]}, start=False)
    assert "has not been started" in error_of(lambda: server.target, tf.errors.FailedPreconditionError)
    server.start()
    target = server.target
    server.start()
    assert server.target == target


def test_a_server_that_cannot_start_says_why(weir, _):
    tf, _ = in_process(weir)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        error = error_of(lambda: tf.distribute.Server({"worker": [address]}), tf.errors.UnknownError)
    assert "worker:0 did not start" in error and address in error, error


def test_a_command_that_is_not_there_is_not_replaced_by_another(weir, directory):
    _, weir_tf = in_process(weir)
    path, command = os.environ["PATH"], os.path.join(directory, "weir")
    os.symlink(os.path.abspath(weir), command)
    os.environ.update(PATH=directory, WEIR_COMMAND="/nowhere/weir")
    try:
        error = error_of(weir_tf.install, FileNotFoundError)
    finally:
        os.environ["PATH"] = path
        del os.environ["WEIR_COMMAND"]
        weir_tf.install(weir=weir)
    assert "/nowhere/weir" in error and directory not in error, error


def test_arguments_that_make_no_sense(weir, _):
    tf, weir_tf = in_process(weir)
    server = tf.distribute.Server
    two = {"ps": ["127.0.0.1:1"], "worker": ["127.0.0.1:2", "127.0.0.1:3"]}
    for arguments, text in (((two,), "job_name is missing"), ((two, "worker"), "task_index is missing"),
                            ((two, "ps", 0, "grpc+verbs"), "speak 'grpc'"),
                            (({"worker": {0: "127.0.0.1:1", 2: "127.0.0.1:2"}}, "worker", 0), "no gaps")):
        error = error_of(lambda: server(*arguments), ValueError)  # pylint: disable=cell-var-from-loop
        assert text in error, error
    assert error_of(lambda: server(two, "worker", 7), tf.errors.InternalError) == 'Task 7 was not defined in job "worker"'
    assert error_of(lambda: server(two, "nobody", 0), tf.errors.InternalError) == 'Job "nobody" was not defined in cluster'
    assert "/nowhere" in error_of(lambda: weir_tf.install(weir="/nowhere/weir"), FileNotFoundError)


def test_the_servers_are_tensorflows_again(weir, _):
    tf, weir_tf = in_process(weir)
    weir_tf.uninstall()
    server = tf.distribute.Server({"lone": ["127.0.0.1:%d" % free_ports(1)[0]]})
    assert not servers_of(os.getpid()), "a process was started"
    with tf.compat.v1.Session(server.target) as session:
        assert session.run(tf.constant(1.0)) == 1.0


if __name__ == "__main__":
    sys.exit(cases.run_in_folders(globals()))
