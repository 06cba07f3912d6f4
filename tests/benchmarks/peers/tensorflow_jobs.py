"""Two workers that train over one parameter server, on `weir serve` and on TensorFlow's own servers, in turns.

usage: tensorflow_jobs.py WEIR [ROUNDS] [METRIC...]   (default: 3 rounds of both)

The workers are TensorFlow programs of their own processes. job_ps_step is the time of one worker's step, each worker applying
its own gradients; job_sync_step that of a global step of SyncReplicasOptimizer, which takes a gradient of each worker. Both
train the same perceptron through MonitoredTrainingSession. What is measured begins when both workers have trained for a while.
"""
import subprocess
import sys
import time

import session_servers

NUM_WORKERS = 2
METRICS = {"job_ps_step": 400, "job_sync_step": 200}  # steps that are measured
NUM_FIRST_STEPS = 20


def train(metric, task, targets):
    """A worker's program. Prints "ready", waits for a line, prints the seconds of a step, and trains until it is killed."""
    import numpy as np
    import tensorflow as tf
    v1 = tf.compat.v1
    v1.disable_v2_behavior()
    v1.logging.set_verbosity(v1.logging.ERROR)
    with v1.device(v1.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:%d" % task)):
        x, y = v1.placeholder(tf.float32, [None, 784]), v1.placeholder(tf.int32, [None])
        w0, w1 = (v1.get_variable("w%d" % i, shape) for i, shape in enumerate(([784, 128], [128, 10])))
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=y, logits=tf.matmul(tf.nn.relu(tf.matmul(x, w0)), w1)))
        step = v1.train.get_or_create_global_step()
        optimizer, hooks = v1.train.GradientDescentOptimizer(0.01), []
        if metric == "job_sync_step":
            optimizer = v1.train.SyncReplicasOptimizer(optimizer, replicas_to_aggregate=NUM_WORKERS)
            hooks = [optimizer.make_session_run_hook(task == 0, num_tokens=0)]
        step_op = optimizer.minimize(loss, global_step=step)
    feeds = {x: np.ones([32, 784], np.float32), y: np.zeros([32], np.int32)}
    with v1.train.MonitoredTrainingSession(targets[task], is_chief=task == 0, hooks=hooks,
                                           log_step_count_steps=None, stop_grace_period_secs=1) as session:
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(NUM_FIRST_STEPS):
            session.run(step_op, feeds)
        begin = time.time()
        for _ in range(METRICS[metric]):
            session.run(step_op, feeds)
        print("%.6f" % ((time.time() - begin) / METRICS[metric]), flush=True)
        while True:  # the other one needs its gradients until it has measured, too
            session.run(step_op, feeds)


def seconds_of(metric, targets):
    """The mean of both workers."""
    workers = []
    try:
        for task in range(NUM_WORKERS):
            workers.append(subprocess.Popen([sys.executable, __file__, "--worker", metric, str(task), *targets], text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
            line = workers[-1].stdout.readline()
            assert line == "ready\n", "worker %d of %s did not start" % (task, metric)
        for worker in workers:
            worker.stdin.write("go\n")
            worker.stdin.flush()
        return sum(float(worker.stdout.readline()) for worker in workers) / NUM_WORKERS
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def measure_job(weir, metric, rounds):
    def seconds(peer):
        # A job of before would leave its queues, with their tokens, to the next one.
        with session_servers.SessionServers(weir, {"ps": 1, "worker": NUM_WORKERS}, [peer]) as servers:
            return seconds_of(metric, servers.targets(peer, "worker"))

    session_servers.emit(metric, session_servers.in_turns(rounds, seconds))


def main():
    if sys.argv[1] == "--worker":
        return train(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    for metric in sys.argv[3:] or METRICS:
        measure_job(sys.argv[1], metric, rounds)


if __name__ == "__main__":
    main()
