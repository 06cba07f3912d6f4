// Layers as in tf.layers: each makes its variables, named below the layer ("dense/kernel", "dense/bias"), and
// its nodes.
//
//   Output hidden = layers::Dense(g, layers::Flatten(g, images), 300, Relu);
//   Output logits = layers::Dense(g, hidden, 10);
//
// A second layer of the same name becomes "dense_1". Errors are the builder's, and begin with the layer.
#pragma once

#include "ops/layers/batch_norm.h"
#include "ops/layers/conv1d.h"
#include "ops/layers/conv2d.h"
#include "ops/layers/conv2d_transpose.h"
#include "ops/layers/conv3d.h"
#include "ops/layers/conv3d_transpose.h"
#include "ops/layers/convolution_options.h"
#include "ops/layers/dense.h"
#include "ops/layers/dropout.h"
#include "ops/layers/flatten.h"
#include "ops/layers/pooling.h"
#include "ops/layers/separable_conv2d.h"
