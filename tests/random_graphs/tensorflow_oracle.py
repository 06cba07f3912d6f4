"""Runs graphs on TensorFlow: the second oracle of the campaigns.

usage: tensorflow_oracle.py    then on standard input a line "CASES RESULTS" for each batch; answers "done"
CASES is a TFRecord file with two GraphDefs a case: the graph itself, and Consts that say how to run it: `plan`, lines
of "init NODE", "feed TENSOR", "fetch TENSOR", "target NODE", "steps N", "gradient Y GRAD_Y X X..." (GRAD_Y may be -),
and feed0, feed1..., the values of the feeds in their order. RESULTS gets one GraphDef a case, of Consts: s0_f1 is
fetch 1 of step 0, g0_x1 the gradient 0 with respect to its x 1 (none where none flows), `error` and `gradient_error`
what TensorFlow says instead. With the environment variable WEIR_ORACLE_TARGET, "grpc://HOST:PORT", TensorFlow only builds the
graphs and their gradients, and is the client of that server, which runs them.
"""
import os
import sys

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", TF_ENABLE_ONEDNN_OPTS="0")
import tensorflow as tf  # noqa: E402

tf1 = tf.compat.v1
tf1.disable_control_flow_v2()


def make_config():
    """As the graph says: no rewrites."""
    config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.optimizer_options.opt_level = tf1.OptimizerOptions.L0
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.isolate_session_state = True  # names of variables come again in the next case
    return config


CONFIG = make_config()
TARGET = os.environ.get("WEIR_ORACLE_TARGET", "")


class Plan:
    def __init__(self, graph_def):
        values = {node.name: tf.make_ndarray(node.attr["value"].tensor) for node in graph_def.node}
        self.init, self.feeds, self.fetches, self.targets, self.steps, self.gradients = None, {}, [], [], 1, []
        for line in values["plan"].item().decode().splitlines():
            word, *rest = line.split(" ")
            if word == "init":
                self.init = rest[0]
            elif word == "feed":
                self.feeds[rest[0]] = values["feed%d" % len(self.feeds)]
            elif word == "fetch":
                self.fetches.append(rest[0])
            elif word == "target":
                self.targets.append(rest[0])
            elif word == "steps":
                self.steps = int(rest[0])
            elif word == "gradient":
                self.gradients.append((rest[0], rest[1], rest[2:]))


def initialize(session, plan):
    if plan.init:
        session.run(session.graph.get_operation_by_name(plan.init), plan.feeds)


def run_steps(graph, plan, results):
    with tf1.Session(TARGET, graph=graph, config=CONFIG) as session:
        initialize(session, plan)
        targets = [graph.get_operation_by_name(name) for name in plan.targets]
        for step in range(plan.steps):
            fetched, _ = session.run([plan.fetches, targets], plan.feeds)
            results.update(("s%d_f%d" % (step, i), value) for i, value in enumerate(fetched))


def run_gradients(graph, plan, results):
    wanted = {}
    for i, (y, grad_y, xs) in enumerate(plan.gradients):
        grad_ys = None if grad_y == "-" else [graph.get_tensor_by_name(grad_y)]
        found = tf1.gradients([graph.get_tensor_by_name(y)], [graph.get_tensor_by_name(x) for x in xs], grad_ys)
        for k, gradient in enumerate(found):
            if gradient is not None:
                wanted["g%d_x%d" % (i, k)] = tf.convert_to_tensor(gradient)
    wanted = {key: tensor for key, tensor in wanted.items() if tensor.name not in plan.feeds}
    with tf1.Session(TARGET, graph=graph, config=CONFIG) as session:
        initialize(session, plan)
        results.update(session.run(wanted, plan.feeds))


def with_round_of_integers(graph_def):
    """TensorFlow's kernel makes zeros of whole numbers; tf.round never asks it for them, and gives them back."""
    for node in graph_def.node:
        if node.op == "Round" and tf.as_dtype(node.attr["T"].type).is_integer:
            node.op = "Identity"
    return graph_def


def answer(graph_bytes, plan_bytes):
    results = {}
    plan = Plan(tf1.GraphDef.FromString(plan_bytes))
    with tf.Graph().as_default() as graph:
        try:
            tf.import_graph_def(with_round_of_integers(tf1.GraphDef.FromString(graph_bytes)), name="")
            run_steps(graph, plan, results)
        except Exception as error:  # whatever it is, the case is judged by whoever reads this
            results["error"] = ("%s: %s" % (type(error).__name__, error)).encode()
            return results
        try:
            run_gradients(graph, plan, results)
        except Exception as error:
            results["gradient_error"] = ("%s: %s" % (type(error).__name__, error)).encode()
    return results


def to_record(results):
    graph_def = tf1.GraphDef()
    for name, value in results.items():
        node = graph_def.node.add(name=name, op="Const")
        tensor = tf.make_tensor_proto(value)
        node.attr["value"].tensor.CopyFrom(tensor)
        node.attr["dtype"].type = tensor.dtype
    return graph_def.SerializeToString()


def main():
    for line in sys.stdin:
        cases, results = line.split()
        records = [record.numpy() for record in tf.data.TFRecordDataset(cases)]
        with tf.io.TFRecordWriter(results) as writer:
            for graph_bytes, plan_bytes in zip(records[::2], records[1::2]):
                writer.write(to_record(answer(graph_bytes, plan_bytes)))
        print("done", flush=True)


if __name__ == "__main__":
    main()
