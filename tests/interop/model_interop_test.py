"""TensorFlow goes on with a model that Weir trained: graph, variables, summaries.

usage: model_interop_test.py FASHION_MNIST_PROGRAM EMPTY_DIRECTORY
"""
import gzip
import os
import re
import subprocess
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
DATA = "/usr/share/datasets/fashion-mnist"


def test_images():
    with gzip.open(DATA + "/t10k-images-idx3-ubyte.gz") as f:
        images = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 784) / np.float32(255)
    with gzip.open(DATA + "/t10k-labels-idx1-ubyte.gz") as f:
        labels = np.frombuffer(f.read(), np.uint8, offset=8).astype(np.int32)
    return images, labels


def accuracy_in_tensorflow(checkpoint):
    """Rebuilds graph and variables from Weir's files alone, and runs them with TensorFlow's kernels."""
    v1.disable_eager_execution()
    saver = v1.train.import_meta_graph(checkpoint + ".meta")
    images, labels = test_images()
    with v1.Session() as session:
        saver.restore(session, checkpoint)
        correct = session.run("num_correct:0", {"images:0": images, "labels:0": labels})
    return correct / len(labels)


def main():
    program, directory = sys.argv[1:]
    out = subprocess.run([program, "--epochs=1", "--model_dir=" + directory], capture_output=True, text=True, check=True).stdout
    printed = float(re.search(r"test accuracy: (0\.\d+)", out).group(1))
    checkpoint = tf.train.latest_checkpoint(directory)
    reader = tf.train.load_checkpoint(directory)
    assert reader.get_tensor("global_step") == 600, reader.get_tensor("global_step")
    assert reader.get_variable_to_shape_map()["dense/kernel"] == [784, 300]
    accuracy = accuracy_in_tensorflow(checkpoint)
    assert abs(accuracy - printed) < 0.002, "Weir says %g, TensorFlow %g" % (printed, accuracy)
    print("accuracy: Weir %g, TensorFlow %g" % (printed, accuracy))
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        print("[  SKIPPED ] tests/interop:tensorboard_reads_a_run there is no TensorBoard")
        return
    events = EventAccumulator(directory)
    events.Reload()
    tags = events.Tags()
    assert {"loss", "accuracy", "global_step/sec"} <= set(tags["scalars"]), tags
    assert tags["histograms"] == ["logits"], tags
    losses = [event.value for event in events.Scalars("loss")]
    assert len(losses) >= 5 and losses[-1] < losses[0] / 2, losses
    devices = {node.device for node in events.Graph().node}
    assert devices == {"/job:localhost/replica:0/task:0/device:CPU:0"}, devices
    names = {name for name, _ in tf.train.list_variables(directory)}
    assert "dense/kernel/Adam" in names and "beta1_power" in names, names


if __name__ == "__main__":
    main()
