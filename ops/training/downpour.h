// Workers that train on copies of their own, push accumulated gradients to the parameter servers, and fetch
// their values, every few steps.
//
//   Node* train = Downpour(std::make_unique<GradientDescent>(0.1), {.learning_rate = 0.1, .n_push = 5,
//                                                                    .n_fetch = 5})
//                     ->Minimize(g, loss, GlobalStep(g)).value();
//
// DOWNPOUR (Dean et al., "Large Scale Distributed Deep Networks", 2012, DOWNPOURSGDCLIENT of its appendix):
// in its step t, from 0 on, a worker
//   fetches the center w~ into its copy w                 if t mod n_fetch = 0
//   computes the gradient g at w, sums it up: a += g, and moves its copy: w -= learning_rate g
//   pushes a, which the wrapped optimizer applies to w~, and sets a = 0    if t mod n_push = 0
//
// AGN, accumulated gradient normalization, first called ADAG (Hermans, Spanakis and Moeckel, "Accumulated
// Gradient Normalization", 2017): every `steps` steps it pushes the sum divided by `steps`, after the last of
// them, and fetches before the next one.
//
// The global step counts pushes of all workers. Each process and session counts its own t; one that begins
// anew fetches first, and what it had not pushed is lost. Only what has been pushed is in checkpoints
// (ops/training/local_copies.h). Variables whose rows are looked up are refused. Thread safety: none.
#pragma once

#include <cstdint>
#include <memory>

#include "ops/training/optimizer.h"

namespace weir {

struct DownpourOptions {
  Hyperparameter learning_rate = 0.01;  // of the copies
  int64_t n_push = 5;                   // at least 1
  int64_t n_fetch = 5;                  // at least 1
};

// `optimizer` is the center's. InvalidArgument, when it is used, for options out of range, a null
// optimizer, or DynSgd with n_push or n_fetch above 1: what is pushed then has no one staleness.
std::unique_ptr<Optimizer> Downpour(std::unique_ptr<Optimizer> optimizer, const DownpourOptions& options);

struct AccumulatedGradientOptions {
  Hyperparameter learning_rate = 0.01;  // of the copies
  int64_t steps = 5;                    // between two exchanges; at least 1
};

std::unique_ptr<Optimizer> AccumulatedGradientNormalization(std::unique_ptr<Optimizer> optimizer,
                                                            const AccumulatedGradientOptions& options);

}  // namespace weir
