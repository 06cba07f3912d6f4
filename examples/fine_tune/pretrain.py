"""Trains in TensorFlow the model that fine_tune starts with, and saves it. The folder pretrained/ is what it wrote.

usage: pretrain.py FOLDER       with a Python that has TensorFlow
"""

import gzip
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

DATA = "/usr/share/datasets/fashion-mnist/"


def read(part):
    with gzip.open(DATA + part + "-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(DATA + part + "-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return images.astype(np.float32) / 255, labels.astype(np.int32)


def dense(x, units, name):
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [x.shape[1], units], initializer=tf.glorot_uniform_initializer())
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
    return tf.matmul(x, kernel) + bias


def main(folder, steps=2000):
    tf.disable_v2_behavior()
    tf.set_random_seed(1)
    images = tf.placeholder(tf.float32, [None, 784], name="images")
    labels = tf.placeholder(tf.int32, [None], name="labels")
    with tf.variable_scope("classifier"):
        logits = dense(tf.nn.relu(dense(images, 32, "dense")), 10, "dense_1")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    # Of the variables so far: the model without the optimizer's. The folder can be moved.
    saver = tf.train.Saver(save_relative_paths=True)
    train = tf.train.AdamOptimizer(0.001).minimize(loss)

    train_images, train_labels = read("train")
    random = np.random.RandomState(0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(steps):
            batch = random.randint(0, len(train_images), 100)
            session.run(train, {images: train_images[batch], labels: train_labels[batch]})
        saver.save(session, os.path.join(folder, "model.ckpt"), global_step=steps, write_meta_graph=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
