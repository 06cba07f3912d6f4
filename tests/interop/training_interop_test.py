"""Weir trains models that TensorFlow has written, each goes on where the other stopped, and both leave the same files.

usage: training_interop_test.py TRAINING_TOOL EMPTY_DIRECTORY
"""
import glob
import os
import subprocess
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import numpy as np
import tensorflow as tf

import cases

v1 = tf.compat.v1


def build(finalized=False, references=False):
    """A regression with a decaying learning rate, Adam, and a summary; no input, so every run gives the same numbers.

    With `references` its variables are TensorFlow 1's default ones."""
    if references:
        v1.disable_resource_variables()
    else:
        v1.enable_resource_variables()
    x = tf.constant(np.linspace(-1, 1, 12).reshape(6, 2).astype(np.float32))
    y = tf.constant(np.linspace(0, 1, 6).reshape(6, 1).astype(np.float32))
    with v1.variable_scope("dense"):
        kernel = v1.get_variable("kernel", initializer=np.full((2, 1), 0.1, np.float32))
        bias = v1.get_variable("bias", initializer=np.zeros(1, np.float32))
    loss = tf.reduce_mean(tf.square(tf.matmul(x, kernel) + bias - y), name="loss")
    v1.summary.scalar("mean_loss", loss)
    step = v1.train.get_or_create_global_step()
    rate = v1.train.exponential_decay(0.1, step, 5, 0.9)
    train = v1.train.AdamOptimizer(rate).minimize(loss, global_step=step)
    if finalized:
        v1.train.Scaffold().finalize()
    return train


def train_in_tensorflow(directory, last_step, references=False):
    with tf.Graph().as_default():
        train = build(references=references)
        hooks = [v1.train.StopAtStepHook(last_step=last_step)]
        with v1.train.MonitoredTrainingSession(
            checkpoint_dir=directory, hooks=hooks, save_checkpoint_steps=5, save_summaries_steps=2
        ) as session:
            while not session.should_stop():
                session.run(train)
    v1.summary.FileWriterCache.clear()


def write_meta_graph(path, finalized, references=False):
    with tf.Graph().as_default():
        build(finalized, references)
        v1.train.export_meta_graph(path)


def train_in_weir(tool, meta_graph, directory, last_step):
    result = subprocess.run([tool, meta_graph, directory, str(last_step)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def variables(directory):
    reader = tf.train.load_checkpoint(directory)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def expect_equal(ours, theirs):
    assert ours.keys() == theirs.keys(), (sorted(ours), sorted(theirs))
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-5, atol=1e-6, err_msg=name)


def events(directory):
    """What the event files say, as (step, kind) in order; the time is left out, and graphs, whose number may differ."""
    found = []
    for path in sorted(glob.glob(directory + "/events.out.tfevents.*")):
        for event in v1.train.summary_iterator(path):
            if event.HasField("session_log"):
                log = event.session_log
                # The folder differs; the name in it does not.
                found.append((event.step, log.status, os.path.basename(log.checkpoint_path)))
            elif event.HasField("summary"):
                found += [(event.step, value.tag) for value in event.summary.value if not value.tag.endswith("/sec")]
    return found


def test_a_model_of_tensorflow_trains_alike(tool, directory):
    for finalized in (False, True):
        meta_graph = "%s/model_%d.meta" % (directory, finalized)
        write_meta_graph(meta_graph, finalized)
        ours, theirs = "%s/ours_%d" % (directory, finalized), "%s/theirs_%d" % (directory, finalized)
        train_in_weir(tool, meta_graph, ours, 12)
        train_in_tensorflow(theirs, 12)
        assert variables(ours)["global_step"] == 12
        expect_equal(variables(ours), variables(theirs))


def test_reference_variables_train_alike(tool, directory):
    for finalized in (False, True):
        meta_graph = "%s/model_%d.meta" % (directory, finalized)
        write_meta_graph(meta_graph, finalized, references=True)
        ours, theirs = "%s/ours_%d" % (directory, finalized), "%s/theirs_%d" % (directory, finalized)
        skipped = train_in_weir(tool, meta_graph, ours, 12)
        train_in_tensorflow(theirs, 12, references=True)
        assert variables(ours)["global_step"] == 12
        expect_equal(variables(ours), variables(theirs))
        assert not skipped, skipped


def test_each_goes_on_where_the_other_stopped(tool, directory):
    meta_graph = directory + "/handed.meta"
    write_meta_graph(meta_graph, False)
    whole, ours_first, theirs_first = (directory + name for name in ("/whole", "/ours_first", "/theirs_first"))
    train_in_tensorflow(whole, 20)
    train_in_weir(tool, meta_graph, ours_first, 8)
    train_in_tensorflow(ours_first, 20)
    train_in_tensorflow(theirs_first, 8)
    train_in_weir(tool, meta_graph, theirs_first, 20)
    expect_equal(variables(ours_first), variables(whole))
    expect_equal(variables(theirs_first), variables(whole))


def test_a_checkpoints_meta_graph_goes_round(tool, directory):
    """Weir's own .meta has all that TensorFlow's Python needs to train on, the global step included."""
    first, again = directory + "/first", directory + "/again"
    write_meta_graph(directory + "/model.meta", False)
    train_in_weir(tool, directory + "/model.meta", first, 5)
    checkpoint = tf.train.latest_checkpoint(first)
    with tf.Graph().as_default():
        saver = v1.train.import_meta_graph(checkpoint + ".meta")
        step = v1.train.get_global_step()
        assert step is not None and step.dtype == tf.int64
        with v1.Session() as session:
            saver.restore(session, checkpoint)
            session.run(tf.compat.v1.get_collection("train_op")[0])
            assert session.run(step) == 6
    train_in_weir(tool, checkpoint + ".meta", again, 5)
    expect_equal(variables(again), variables(first))


def test_event_files_tell_the_same(tool, directory):
    meta_graph = directory + "/model.meta"
    write_meta_graph(meta_graph, False)
    ours, theirs = directory + "/ours", directory + "/theirs"
    train_in_weir(tool, meta_graph, ours, 11)
    train_in_tensorflow(theirs, 11)
    assert events(ours) == events(theirs), "Weir %s\nTensorFlow %s" % (events(ours), events(theirs))
    START, CHECKPOINT = 1, 3
    assert (1, START, "") in events(ours) and (10, CHECKPOINT, "model.ckpt") in events(ours), events(ours)
    assert (1, "mean_loss") in events(ours) and (3, "mean_loss") in events(ours), events(ours)
    for name in ("graph.pbtxt", "checkpoint", "model.ckpt-11.meta"):
        assert os.path.exists(ours + "/" + name) and os.path.exists(theirs + "/" + name), name


if __name__ == "__main__":
    v1.disable_eager_execution()
    sys.exit(cases.run_in_folders(globals()))
