#!/usr/bin/env python3
"""weir_bench's restore, by TensorFlow in v1 graph mode: 1 GiB in 16 variables, from the page cache and from the disk.

    python tensorflow_restore.py        # $BENCH_DIR: where the checkpoint is written, else /var/tmp

Needs tensorflow-cpu. One JSON line a metric.
"""
import json
import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow

tf = tensorflow.compat.v1
tf.disable_eager_execution()

BYTES = 1 << 30
VARIABLES = 16


def set_cached(directory, cached):
    for name in os.listdir(directory):
        with open(os.path.join(directory, name), "rb", buffering=0) as file:
            if not cached:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while cached and file.read(1 << 20):
                pass


def main():
    for i in range(VARIABLES):
        tf.get_variable("v%d" % i, initializer=tf.random_uniform([BYTES // 4 // VARIABLES]))
    saver = tf.train.Saver()
    with tf.Session() as session, tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR", "/var/tmp")) as directory:
        session.run(tf.global_variables_initializer())
        path = saver.save(session, directory + "/m", write_meta_graph=False)
        os.sync()
        saver.restore(session, path)
        for cached in (True, False):
            seconds = []
            for _ in range(5):
                set_cached(directory, cached)
                begin = time.perf_counter()
                saver.restore(session, path)
                seconds.append(time.perf_counter() - begin)
            print(json.dumps({
                "peer": "tensorflow " + tensorflow.__version__,
                "metric": "restore_cached" if cached else "restore_from_disk",
                "value": round(BYTES / 1e9 / sorted(seconds)[2], 3),
                "unit": "GB/s",
                "detail": {}
            }), flush=True)


if __name__ == "__main__":
    main()
