"""What fine_tune_check.cc looks for, with TensorFlow's own readers.

usage: fine_tune_check.py PRETRAINED MODEL_DIR
"""

import glob
import os
import sys

import tensorflow.compat.v1 as tf


def scalars(folder):
    """Steps by tag, whether there is a graph, and the kinds of entries in the session log."""
    steps, has_graph, log = {}, False, set()
    # In no order: a job that was started again has written a second file.
    for path in glob.glob(os.path.join(folder, "events.out.tfevents.*")):
        for event in tf.train.summary_iterator(path):
            has_graph |= bool(event.graph_def) and bool(tf.GraphDef.FromString(event.graph_def).node)
            if event.HasField("session_log"):
                log.add(event.session_log.status)
            for value in event.summary.value:
                steps.setdefault(value.tag, []).append(event.step)
    return steps, has_graph, log


def main(pretrained, model_dir):
    before, after = tf.train.load_checkpoint(pretrained), tf.train.load_checkpoint(model_dir)
    for old, new in (("dense", "hidden"), ("dense_1", "logits")):
        for part in ("kernel", "bias"):
            a, b = before.get_tensor("classifier/%s/%s" % (old, part)), after.get_tensor("%s/%s" % (new, part))
            assert a.shape == b.shape and (a.tobytes() == b.tobytes()) == (new == "hidden"), "%s/%s" % (new, part)
    assert after.get_tensor("early_stopping/stop")
    last_step = after.get_tensor("global_step")
    assert 0 < last_step < 20000, last_step

    steps, has_graph, log = scalars(model_dir)
    assert {"loss", "learning_rate", "global_step/sec"} <= set(steps), steps.keys()
    assert has_graph
    assert {tf.SessionLog.START, tf.SessionLog.CHECKPOINT} <= log, log
    steps, _, _ = scalars(os.path.join(model_dir, "eval"))
    assert max(steps["accuracy"]) == last_step, (steps["accuracy"], last_step)


if __name__ == "__main__":
    main(*sys.argv[1:])
