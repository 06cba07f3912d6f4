"""Checkpoints of our savers, in shards, renamed, partial, asynchronous, are read by tf.train.Saver, and its by ours.

usage: saver_interop_test.py SAVER_TOOL DIRECTORY
Each test prints one line in the form of googletest; the exit code is 1 when one fails.
"""
import os
import subprocess
import sys
from unittest import mock

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", TF_ENABLE_ONEDNN_OPTS="0")
import tensorflow as tf  # noqa: E402
from tensorflow.python.training import saver as saver_module  # noqa: E402

import cases  # noqa: E402

TOOL, DIRECTORY = sys.argv[1:3]
tf1 = tf.compat.v1
TWO_CPUS = tf1.ConfigProto(device_count={"CPU": 2})
OURS, BEFORE = [1, 2, 11, 12], [-1, 0, 9, 10]


def tool(*args):
    return subprocess.run([TOOL, *args], check=True, stdout=subprocess.PIPE, text=True).stdout


def prefix(name):
    path = os.path.join(DIRECTORY, name)
    os.makedirs(path, exist_ok=True)
    return os.path.join(path, "model")


def values_of(text):
    return [float(word) for word in text.split()]


def tensors_of(path):
    reader = tf.train.load_checkpoint(path)
    return {name: reader.get_tensor(name).tolist() for name in reader.get_variable_to_shape_map()}


def theirs(begin):
    """A graph with the variables of saver_tool."""
    variables = []
    for name, device, first in (("a", "/cpu:0", begin), ("b", "/cpu:1", begin + 10)):
        with tf1.device(device):
            variables.append(tf1.get_variable(name, initializer=[float(first), first + 1.0], use_resource=True))
    return variables


def options_of(kind, a, b):
    return {
        "sharded": {"sharded": True},
        "renamed": {"var_list": {"old/x": a, "old/y": b}},
        "partial": {"var_list": [b]},
        "asynchronous": {},
    }[kind]


def restored_by_them(kind, path):
    with tf.Graph().as_default(), tf1.Session(config=TWO_CPUS) as session:
        a, b = theirs(-1)
        saver = tf1.train.Saver(**options_of(kind, a, b))
        session.run(tf1.global_variables_initializer())
        saver.restore(session, path)
        return [float(x) for variable in (a, b) for x in session.run(variable)]


def expected(kind):
    return BEFORE[:2] + OURS[2:] if kind == "partial" else OURS


def test_tensorflow_restores_what_we_save():
    for kind in ("sharded", "renamed", "partial", "asynchronous"):
        path = prefix("ours_" + kind)
        tool("save", kind, path)
        assert tf.train.latest_checkpoint(os.path.dirname(path)) == path, kind
        found = restored_by_them(kind, path)
        assert found == expected(kind), (kind, found)
    assert tensors_of(prefix("ours_renamed")) == {"old/x": [1, 2], "old/y": [11, 12]}
    assert tensors_of(prefix("ours_partial")) == {"b": [11, 12]}
    shards = [name for name in os.listdir(os.path.join(DIRECTORY, "ours_sharded")) if ".data-" in name]
    assert sorted(shards) == ["model.data-00000-of-00002", "model.data-00001-of-00002"], shards


def test_tensorflow_runs_our_sharded_savers_graph():
    path, again = prefix("meta"), prefix("meta_again")
    tool("save", "sharded", path)
    with tf.Graph().as_default(), tf1.Session(config=TWO_CPUS) as session:
        saver = tf1.train.import_meta_graph(path + ".meta")
        assert saver.as_saver_def().sharded
        saver.restore(session, path)
        assert session.run(tf1.global_variables()[0]).tolist() == [1, 2]
        saver.save(session, again, write_meta_graph=False)
    assert values_of(tool("restore", "sharded", again)) == OURS
    left = [name for name in os.listdir(os.path.dirname(again)) if "index" in name]
    assert left == ["model.index"], left


def test_we_restore_what_tensorflow_saves():
    for kind in ("sharded", "renamed", "partial", "asynchronous"):
        path = prefix("theirs_" + kind)
        with tf.Graph().as_default(), tf1.Session(config=TWO_CPUS) as session:
            a, b = theirs(1)
            saver = tf1.train.Saver(**options_of(kind, a, b))
            session.run(tf1.global_variables_initializer())
            saver.save(session, path, write_meta_graph=False)
        found = values_of(tool("restore", kind, path))
        assert found == expected(kind), (kind, found)


def test_the_same_checkpoints_are_kept():
    for minutes in ([45 * i for i in range(12)], [10, 130, 140, 500, 510, 520, 530], [200, 201, 202, 203]):
        ours, them = prefix(f"kept_ours_{len(minutes)}"), prefix(f"kept_theirs_{len(minutes)}")
        tool("keep", ours, *[str(minute) for minute in minutes])
        now = [3.6e6]
        with mock.patch.object(saver_module.time, "time", lambda: now[0]):
            with tf.Graph().as_default(), tf1.Session(config=TWO_CPUS) as session:
                theirs(1)
                saver = tf1.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=2)
                session.run(tf1.global_variables_initializer())
                for minute in minutes:
                    now[0] = 3.6e6 + 60 * minute
                    saver.save(session, them, minute, write_meta_graph=False)
        found, wanted = ([name for name in sorted(os.listdir(os.path.dirname(path))) if name.endswith(".index")]
                         for path in (ours, them))
        assert found == wanted, (found, wanted)


if __name__ == "__main__":
    sys.exit(cases.run(globals()))
