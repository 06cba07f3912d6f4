"""TensorFlow's client on `weir serve` and on TensorFlow's own server, in turns, under weir_bench's names.

usage: tensorflow_sessions.py WEIR [ROUNDS]   (default: 5)
"""
import json
import os
import socket
import subprocess
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

SERVER = """
import sys
import tensorflow as tf
server = tf.compat.v1.train.Server({"local": [sys.argv[1]]}, job_name="local", task_index=0)
print("serving", flush=True)
server.join()
"""


def start(command):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    while not process.stdout.readline().startswith("serving"):
        assert process.poll() is None, "the server did not start"
    return process


def address():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % one.getsockname()[1]


def cases(np, tf):
    """(name, count of calls, bytes or None, build): build() gives fetches and feeds of one call."""
    v1 = tf.compat.v1

    def feed(num_bytes):
        def build():
            x = v1.placeholder(tf.float32, [None])
            return tf.identity(x).op, {x: np.ones([num_bytes // 4], np.float32)}
        return build

    def fetch(num_bytes):
        return lambda: (v1.placeholder_with_default(np.ones([1], np.float32), [1]) * tf.ones([num_bytes // 4]), {})

    def mlp():
        x, y = v1.placeholder(tf.float32, [None, 784]), v1.placeholder(tf.int32, [None])
        w0, w1 = (v1.get_variable("w%d" % i, shape) for i, shape in enumerate(([784, 128], [128, 10])))
        logits = tf.matmul(tf.nn.relu(tf.matmul(x, w0)), w1)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        return [train, loss], {x: np.ones([64, 784], np.float32), y: np.zeros([64], np.int32)}

    def empty():
        return tf.constant(1.0).op, {}

    return (("run", 300, None, empty), ("feed_4", 300, None, feed(4)), ("fetch_4", 300, None, fetch(4)),
            ("feed_4194304", 20, 4 << 20, feed(4 << 20)), ("fetch_4194304", 20, 4 << 20, fetch(4 << 20)),
            ("feed_134217728", 2, 128 << 20, feed(128 << 20)), ("fetch_134217728", 2, 128 << 20, fetch(128 << 20)),
            ("mlp_step", 100, None, mlp))


def measure(target, case):
    import numpy as np
    import tensorflow as tf
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    _, calls, _, build = case
    with tf.Graph().as_default():
        fetches, feeds = build()
        with v1.Session(target) as session:
            session.run(v1.global_variables_initializer())
            for _ in range(3):
                session.run(fetches, feeds)
            begin = time.perf_counter()
            for _ in range(calls):
                session.run(fetches, feeds)
            return (time.perf_counter() - begin) / calls


def main():
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    import numpy as np
    import tensorflow as tf
    places = {"weir": address(), "tensorflow": address()}
    servers = [start([sys.argv[1], "serve", "--cluster_spec=local|" + places["weir"], "--job_name=local"]),
               start([sys.executable, "-c", SERVER, places["tensorflow"]])]
    try:
        for case in cases(np, tf):
            seconds = {peer: [] for peer in places}
            for _ in range(rounds):
                for peer, place in places.items():
                    seconds[peer].append(measure("grpc://" + place, case))
            for peer, each in seconds.items():
                median = sorted(each)[len(each) // 2]
                value, unit = (median * 1e6, "us") if case[2] is None else (case[2] / 1e9 / median, "GB/s")
                print(json.dumps({"peer": peer, "metric": "session_" + case[0], "value": value, "unit": unit, "detail": {}}), flush=True)
    finally:
        for server in servers:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
