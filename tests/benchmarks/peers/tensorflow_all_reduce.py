"""All-reduces of two or four processes with TensorFlow's MultiWorkerMirroredStrategy, under weir_bench's names.

usage: tensorflow_all_reduce.py [RANKS...]   (default: 2 4)
"""
import json
import os
import socket
import subprocess
import sys
import time

SIZES = ((4096, 200), (1 << 20, 50), (1 << 22, 20), (1 << 27, 2))
ROUNDS = 5


def rank_main():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    config = json.loads(os.environ["TF_CONFIG"])
    ranks, rank = len(config["cluster"]["worker"]), config["task"]["index"]
    for num_bytes, calls in SIZES:
        data = tf.ones([num_bytes // 4])

        @tf.function
        def step():
            def reduce():
                return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, data)
            return strategy.run(reduce)

        step()
        seconds = []
        for _ in range(ROUNDS):
            step()
            begin = time.perf_counter()
            for _ in range(calls):
                result = step()
            result.numpy()
            seconds.append((time.perf_counter() - begin) / calls)
        median = sorted(seconds)[ROUNDS // 2]
        small = num_bytes <= 65536
        if rank == 0:
            print(json.dumps({"peer": "tensorflow", "metric": "all_reduce_w%d_%d" % (ranks, num_bytes),
                              "value": median * 1e6 if small else num_bytes / 1e9 / median,
                              "unit": "us" if small else "GB/s", "detail": {}}), flush=True)


def main():
    for ranks in [int(text) for text in sys.argv[1:]] or [2, 4]:
        sockets = [socket.socket() for _ in range(ranks)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        workers = ["127.0.0.1:%d" % one.getsockname()[1] for one in sockets]
        for one in sockets:
            one.close()
        processes = []
        for index in range(ranks):
            config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
            processes.append(subprocess.Popen([sys.executable, __file__, "--rank"],
                                              env=dict(os.environ, TF_CONFIG=json.dumps(config)),
                                              stderr=subprocess.DEVNULL))
        for process in processes:
            process.wait(timeout=300)


if __name__ == "__main__":
    if sys.argv[1:] == ["--rank"]:
        rank_main()
    else:
        main()
