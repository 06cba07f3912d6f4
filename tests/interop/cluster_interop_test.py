"""Jobs of unmodified TensorFlow programs on a cluster of `weir serve`: a parameter server and two workers, each worker's client its own process.

usage: cluster_interop_test.py WEIR EMPTY_DIRECTORY
"""
import json
import os
import subprocess
import sys
import time

import cases
from weir_server import WeirServers

TRAINER = '''
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)
master, task, folder, last_step, sync = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5] == "sync"
with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:%d" % task)):
    x = tf.placeholder(tf.float32, [None, 2], "x")
    y = tf.placeholder(tf.float32, [None], "y")
    w = tf.get_variable("w", [2, 1], initializer=tf.zeros_initializer())
    b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(tf.reshape(tf.matmul(x, w) + b, [-1]) - y))
    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    hooks = [tf.train.StopAtStepHook(last_step=last_step)]
    if sync:
        optimizer = tf.train.SyncReplicasOptimizer(optimizer, replicas_to_aggregate=2, total_num_replicas=2)
    train = optimizer.minimize(loss, global_step=step)
    if sync:
        hooks.append(optimizer.make_session_run_hook(task == 0))
random = np.random.RandomState(task)
losses = []
config = tf.ConfigProto(allow_soft_placement=True)
from tensorflow.python.training import session_manager
make = session_manager.SessionManager.__init__
session_manager.SessionManager.__init__ = lambda self, *a, **k: make(self, *a, **dict(k, recovery_wait_secs=1))
with tf.train.MonitoredTrainingSession(master, is_chief=task == 0, checkpoint_dir=folder if task == 0 else None, hooks=hooks, config=config,
                                       save_checkpoint_steps=50, save_checkpoint_secs=None, log_step_count_steps=None,
                                       stop_grace_period_secs=5) as session:
    while not session.should_stop():
        data = random.uniform(-1, 1, [32, 2]).astype(np.float32)
        losses.append(float(session.run([loss, train], {x: data, y: data @ [2, -3] + 0.5})[0]))
        if len(losses) == 20:
            print("RUNNING", flush=True)
print(json.dumps({"losses": losses}), flush=True)
os._exit(0)  # a thread of TensorFlow's that fills the queue of tokens may be printing that its session was closed
'''


def start(cluster, task, folder, last_step, mode="async"):
    command = [sys.executable, "-c", TRAINER, cluster.target("worker", task), str(task), folder, str(last_step), mode]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(client):
    out, err = client.communicate(timeout=240)
    assert client.returncode == 0, err[-3000:]
    return json.loads(out.splitlines()[-1])["losses"]


def test_a_job_trains_on_a_parameter_server(weir, directory):
    with WeirServers(weir, {"ps": 1, "worker": 2}) as cluster:
        clients = [start(cluster, task, directory, 400) for task in range(2)]
        losses = [finish(client) for client in clients]
        assert all(cluster.is_running("worker", task) for task in range(2)), cluster.output()
    # Whoever is first has the loss of the beginning: the chief need not be.
    assert max(each[0] for each in losses) > 1 and losses[0][-1] < 0.01, losses
    assert os.path.exists(directory + "/checkpoint")


def test_a_job_of_synchronous_replicas_trains(weir, directory):
    with WeirServers(weir, {"ps": 1, "worker": 2}) as cluster:
        clients = [start(cluster, task, directory, 60, "sync") for task in range(2)]
        losses = [finish(client) for client in clients]
    assert losses[0][-1] < losses[0][0] / 4, losses


def test_a_job_goes_on_when_its_parameter_server_was_killed(weir, directory):
    with WeirServers(weir, {"ps": 1, "worker": 1}) as cluster:
        client = start(cluster, 0, directory, 800)
        assert client.stdout.readline() == "RUNNING\n", client.stderr.read()[-3000:]
        while not os.path.exists(directory + "/checkpoint"):
            time.sleep(0.05)
        cluster.kill("ps", 0)
        cluster.start("ps", 0)
        losses = finish(client)
    assert losses[-1] < 0.01, losses


CLIENT = '''
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
with tf.device("/job:ps/task:0"):
    queue = tf.FIFOQueue(2, tf.float32, shapes=[[]], shared_name="meeting")
with tf.device("/job:worker/task:0"):
    taken = queue.dequeue() * 2.0
put, size = queue.enqueue(1.0), queue.size()
target = sys.argv[1]
'''


def run_client(program, *arguments):
    return subprocess.run([sys.executable, "-c", CLIENT + program, *arguments], capture_output=True, text=True, timeout=240)


def test_a_step_that_ends_is_over_on_every_task(weir, _):
    program = """
session = tf.Session(target)
try:
    session.run(taken, options=tf.RunOptions(timeout_in_ms=500))
    raise AssertionError("the queue was empty")
except tf.errors.DeadlineExceededError:
    pass
# A step that still waited on the parameter server would take it.
session.run(put)
assert session.run(size) == 1
assert session.run(taken) == 2
"""
    with WeirServers(weir, {"ps": 1, "worker": 1}) as cluster:
        result = run_client(program, cluster.target("worker"))
        assert result.returncode == 0, result.stderr[-3000:]


def test_a_session_waits_for_its_tasks(weir, _):
    cluster = WeirServers(weir, {"ps": 1, "worker": 2})
    try:
        cluster.start("worker", 0)
        program = "with tf.Session(target) as session: session.run(put); print(session.run(taken))"
        filtered = program.replace("target", "target, config=tf.ConfigProto(device_filters=['/job:ps', '/job:worker/task:0'])")
        command = [sys.executable, "-c", CLIENT + filtered, cluster.target("worker")]
        client = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(1)
        cluster.start("ps", 0)
        out, err = client.communicate(timeout=240)
        assert client.returncode == 0 and out.strip() == "2.0", err[-3000:]
        # Worker 1, which is not there, is of no account to it; without the filter it is.
        unfiltered = program.replace("target", "target, config=tf.ConfigProto(operation_timeout_in_ms=3000)")
        result = run_client(unfiltered, cluster.target("worker"))
        assert result.returncode != 0 and "DeadlineExceeded" in result.stderr, result.stderr[-3000:]
    finally:
        cluster.__exit__()


if __name__ == "__main__":

    def call(case, name):
        folder = os.path.join(sys.argv[2], name)
        os.mkdir(folder)
        case(sys.argv[1], folder)

    sys.exit(cases.run(globals(), call))
