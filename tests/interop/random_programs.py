"""Programs of TensorFlow's Python, drawn by a seed: functions, conditionals and loops in one another, with updates of variables in all of them.

usage: random_programs.py WEIR --seed=N [--programs=M] [--print]

Runs each program in TensorFlow's own session and on `weir serve`, and prints the seeds whose results differ. Exits with 1 if there
are any. --print shows what a program does.

A program is a graph of v1: its conditionals and loops are those of v1 or those of v2, as its seed says. Its updates follow one
another by control edges, so that it has one result, whatever order a session chooses. A loop or branch gives a value that waits for
the updates in it; what is fetched decides what runs. The values are small and the functions smooth, so that results compare.
"""
import argparse
import random
import sys

import two_sessions  # noqa: F401  (before TensorFlow: it sets its environment)

import numpy as np
import tensorflow as tf

from weir_server import WeirServers

v1 = tf.compat.v1

MAX_DEPTH = 4
NUM_VARIABLES = 3


class Program:
    """One graph. Attributes: `feeds` (a placeholder's values in each step), `steps` (what each step fetches), `variables`."""

    def __init__(self, seed, prints=False):
        self.random = random.Random(seed)
        self.prints = prints
        self.uses_v2 = self.random.random() < 0.5
        (v1.enable_control_flow_v2 if self.uses_v2 else v1.disable_control_flow_v2)()
        self.note(0, "control flow of version %d" % (2 if self.uses_v2 else 1))
        self.num_nodes = 0
        self.variables = [v1.get_variable("v%d" % i, initializer=0.1 * (i + 1), use_resource=True) for i in range(NUM_VARIABLES)]
        self.x = v1.placeholder(tf.float32, [], "x")
        self.n = v1.placeholder(tf.int32, [], "n")
        self.p = v1.placeholder(tf.bool, [], "p")
        values, self.after = [self.x], []
        for _ in range(self.random.randint(2, 5)):
            values.append(self.block(values, 0))
        results = values[1:]
        if self.random.random() < 0.4:
            result = self.random.choice(results)
            gradient = v1.gradients(result, self.x)[0]
            if gradient is not None:
                self.note(0, "its gradient is fetched too")
                results = results + [gradient]
        self.steps = [self.random.sample(results, self.random.randint(1, len(results))) for _ in range(4)]
        self.feeds = [{self.x: self.random.choice([-0.7, 0.3, 1.1]), self.n: self.random.choice([0, 1, 2, 3]), self.p: self.random.random() < 0.5}
                      for _ in self.steps]

    def note(self, depth, text):
        if self.prints:
            print("  " * depth + text)

    def scalar(self, values, depth):
        """A new value of one or two of those, by plain ops."""
        a, b = self.random.choice(values), self.random.choice(values)
        kind = self.random.randint(0, 5)
        self.note(depth, "op %d of %s, %s" % (kind, a.name, b.name))
        if kind == 0:
            return tf.tanh(a + 0.5 * b)
        if kind == 1:
            return 0.5 * a - 0.25 * b
        if kind == 2:
            return tf.minimum(a, b) * 0.5
        if kind == 3:
            return tf.split(tf.stack([a, b]), 2)[self.random.randint(0, 1)][0]
        if kind == 4:
            return tf.constant(self.random.choice([-0.5, 0.25])) + a
        return tf.sin(a)

    def update(self, values, depth):
        """Adds to a variable, or sets it; a value that waits for that."""
        variable = self.random.choice(self.variables)
        amount = self.random.choice(values + [tf.constant(0.125)])
        sets = self.random.random() < 0.2
        self.note(depth, "%s %s %s" % (variable.name, "=" if sets else "+=", amount.name))
        with tf.control_dependencies(self.after):
            done = variable.assign(tf.tanh(amount)) if sets else variable.assign_add(0.5 * tf.tanh(amount))
        self.after = [done if isinstance(done, tf.Operation) else done.op]
        with tf.control_dependencies(self.after):
            return tf.identity(self.random.choice(values))

    def read(self, depth):
        variable = self.random.choice(self.variables)
        self.note(depth, "reads " + variable.name)
        with tf.control_dependencies(self.after):
            value = tf.identity(variable.read_value())
        self.after = self.after + [value.op]
        return value

    def body(self, values, depth):
        """What a function, a branch or an iteration gives: a value that waits for what happens in it."""
        outer, self.after = self.after, []
        values = list(values)
        for _ in range(self.random.randint(1, 3)):
            values.append(self.block(values, depth))
        with tf.control_dependencies(self.after):
            result = tf.identity(values[-1])
        self.after = outer
        return result

    def some(self, values):
        return self.random.sample(values, self.random.randint(0, min(3, len(values))))

    def block(self, values, depth):
        """A new value: an op, an update, a conditional, a loop or a call."""
        self.num_nodes += 1
        kind = self.random.random()
        if depth >= MAX_DEPTH or self.num_nodes > 40 or kind < 0.2:
            return self.scalar(values, depth)
        if kind < 0.45:
            return self.update(values, depth)
        if kind < 0.55:
            return self.read(depth)
        make = self.random.choice([self.conditional, self.loop, self.call, self.call, self.switch])
        with tf.control_dependencies(self.after):
            value = make(values, depth)
        self.after = [value.op]
        return value

    def conditional(self, values, depth):
        by_value = self.random.random() < 0.5
        self.note(depth, "cond")
        condition = self.random.choice(values) > 0.0 if by_value or self.random.random() < 0.3 else tf.identity(self.p)
        kept = list(values)
        branches = []
        for _ in range(2):
            branches.append(lambda: self.body(kept, depth + 1))
        return tf.cond(condition, *branches)

    def switch(self, values, depth):
        self.note(depth, "switch_case")
        kept = list(values)
        index = tf.cast(self.random.choice(values) * 4.0, tf.int32) if self.random.random() < 0.5 else tf.identity(self.n)
        return tf.switch_case(index, [lambda: self.body(kept, depth + 1) for _ in range(self.random.randint(1, 3))])

    def loop(self, values, depth):
        count = tf.identity(self.n) if self.random.random() < 0.5 else tf.constant(self.random.randint(0, 3))
        kept = list(values)
        start = self.random.choice(values)
        hands_on = self.random.random() < 0.4
        self.note(depth, "while_loop%s" % (", hands a value on" if hands_on else ""))

        def body(i, a, b):
            with_i = kept + [a, b] + ([tf.cast(i, tf.float32) * 0.25] if self.random.random() < 0.3 else [])
            result = self.body(with_i, depth + 1)
            with tf.control_dependencies([result]):
                return tf.identity(i) + 1, result, b if hands_on else tf.tanh(b + 0.1)

        results = tf.while_loop(lambda i, a, b: i < count, body, [tf.constant(0), start, self.random.choice(values)])
        # What is handed on unchanged says nothing of the loop's updates: they come first.
        with tf.control_dependencies([results[1]] if not self.uses_v2 else []):
            return tf.identity(results[self.random.choice([1, 2])])

    def call(self, values, depth):
        """A tf.function of some of the values; others it captures."""
        given = self.some(values)
        captured = self.some(values)
        has_two = self.random.random() < 0.3
        self.note(depth, "call of %d, captures %d" % (len(given), len(captured)))

        @tf.function(autograph=False)
        def function(*arguments):
            inside = list(arguments) + captured + [tf.constant(0.375)]
            result = self.body(inside, depth + 1)
            return (result, self.random.choice(inside) * 0.5) if has_two else (result,)

        outputs = function(*given)
        return outputs[self.random.randint(0, len(outputs) - 1)]


def without_rewrites():
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


def run(seed, target, prints=False, config=None):
    """The values of all steps, and of the variables after each."""
    found = []
    with tf.Graph().as_default():
        program = Program(seed, prints)
        with v1.Session(target, config=config) as session:
            session.run(v1.global_variables_initializer())
            for fetches, feeds in zip(program.steps, program.feeds):
                try:
                    found.append([float(value) for value in session.run(fetches, feeds)])
                except tf.errors.OpError as error:
                    found.append(type(error).__name__ + ": " + error.message.split("\n")[0])
                found.append([float(value) for value in session.run(program.variables)])
    return found


def difference(seed, target):
    """What differs between TensorFlow's own session and that server; None when nothing does.

    A step that TensorFlow itself does in two ways, as its rewrites leave out updates before a call that does not use what they gave, is
    not judged, nor is what follows it.
    """
    found = run(seed, target)
    for step, (e, plain, f) in enumerate(zip(run(seed, ""), run(seed, "", config=without_rewrites()), found)):
        if isinstance(e, str) or not same(plain, e):
            return None
        if not same(f, e):
            return "%s %d: TensorFlow %s, Weir %s" % ("variables after step" if step % 2 else "step", step // 2, e, f)
    return None


def same(found, expected):
    return not isinstance(found, str) and np.allclose(found, expected, rtol=2e-4, atol=2e-5, equal_nan=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weir")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--programs", type=int, default=1)
    parser.add_argument("--print", action="store_true")
    arguments = parser.parse_args()
    v1.disable_eager_execution()
    v1.enable_resource_variables()
    num_bad = 0
    with WeirServers(arguments.weir) as server:
        for seed in range(arguments.seed, arguments.seed + arguments.programs):
            if arguments.print:
                run(seed, "", prints=True)
            differs = difference(seed, server.target())
            if differs is not None:
                num_bad += 1
                print("seed %d: %s" % (seed, differs), flush=True)
    print("%d programs, %d of them differ" % (arguments.programs, num_bad))
    sys.exit(1 if num_bad else 0)


if __name__ == "__main__":
    main()
