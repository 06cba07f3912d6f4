"""Moving averages, and training with a scaled loss, step by step."""

import numpy as np
import tensorflow as tf

from recorder import pattern

v1 = tf.compat.v1


def record_average(recorder, name, zero_debias=False, count=False):
    """The averages of a variable and of a tensor after each of four steps, in which both change."""
    with tf.Graph().as_default(), v1.Session() as session:
        fed = v1.placeholder(tf.float32, [2, 3])
        w = v1.get_variable("w", initializer=pattern([2, 3], 1))
        step = v1.train.get_or_create_global_step()
        with v1.name_scope("net"):
            tensor = tf.multiply(fed, 2.0, name="doubled")
        ema = v1.train.ExponentialMovingAverage(0.75, num_updates=step if count else None, zero_debias=zero_debias)
        with tf.control_dependencies([v1.assign(w, fed)]):
            of_variable = ema.apply([w])
        of_tensor = ema.apply([tensor])
        count_step = v1.assign_add(step, 3)
        session.run(v1.global_variables_initializer())
        recorder.put("average/%s/variables" % name, sorted(v.op.name for v in v1.global_variables()))
        recorder.put("average/%s/restored" % name, sorted(
            "%s into %s" % (saved, v.op.name) for saved, v in ema.variables_to_restore().items()))
        for i in range(4):
            session.run([of_variable, of_tensor], {fed: pattern([2, 3], 2 + i)})
            session.run(count_step)
            recorder.put("average/%s/%d/variable" % (name, i), session.run(ema.average(w)))
            recorder.put("average/%s/%d/tensor" % (name, i), session.run(ema.average(tensor)))


# What each step multiplies the loss with: some gradients are infinite, or become it when the loss is scaled.
FACTORS = [1.0, 2.0, np.inf, 1.0, 1.0, 1.0, 1e38, np.nan, np.inf, 0.5]


def record_loss_scale(recorder, name, scale):
    """A variable, its momentum, the counters and the scale after each step."""
    with tf.Graph().as_default(), v1.Session() as session:
        factor = v1.placeholder(tf.float32, [])
        w = v1.get_variable("w", initializer=pattern([2, 3], 1))
        step = v1.train.get_or_create_global_step()
        optimizer = v1.mixed_precision.MixedPrecisionLossScaleOptimizer(
            v1.train.MomentumOptimizer(0.125, 0.5), scale())
        train = optimizer.minimize(tf.reduce_sum(w * w * factor) / 8.0, step)
        session.run(v1.global_variables_initializer())
        variables = {v.op.name: v for v in v1.global_variables()}
        recorder.put("loss_scale/%s/variables" % name, sorted(variables))
        for i, number in enumerate(FACTORS):
            session.run(train, {factor: number})
            for variable, handle in variables.items():
                recorder.put("loss_scale/%s/%d/%s" % (name, i, variable), session.run(handle))


def record(recorder):
    record_average(recorder, "plain")
    record_average(recorder, "counted", count=True)
    record_average(recorder, "debiased", zero_debias=True)
    recorder.put("loss_scale/factors", np.array(FACTORS, np.float32))
    record_loss_scale(recorder, "dynamic", lambda: v1.mixed_precision.DynamicLossScale(4.0, 2, 4.0))
    record_loss_scale(recorder, "fixed", lambda: v1.mixed_precision.FixedLossScale(8.0))
