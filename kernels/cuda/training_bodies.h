// Optimizers on many variables in one launch, for GPUs and for the host, where tests run it.
//
// The formulas are those of kernels/cpu/training/update_math.h, with products fused where the CPU's vector
// code fuses them: on processors with FMA the numbers are the same bits. A variable's arrays are updated in
// place. Learning rates and the like are read from the device's memory: models compute them there, and the
// host need not wait for them.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/host_device.h"

namespace weir::cuda {

inline constexpr int kMostArrays = 3;    // the variable and its slots
inline constexpr int kMostUpdated = 48;  // variables of one launch: its arguments must stay below 4 KiB
// What a block takes at a time.
inline constexpr int64_t kUpdateChunk = 4096;

// The arguments of one launch. first_chunk[i] is the number of chunks of the variables before i.
template <typename T>
struct UpdatedArrays {
  T* arrays[kMostArrays][kMostUpdated];
  const T* gradients[kMostUpdated];
  int64_t sizes[kMostUpdated];
  int64_t first_chunk[kMostUpdated + 1];
  int32_t count;
};

inline constexpr int kMostScalars = 6;

// Where the scalars of a rule are, in its order.
template <typename T>
struct UpdateScalars {
  const T* at[kMostScalars];
  bool use_nesterov;
};

// values[0] is the variable's element, then its slots'; g the gradient's.
template <typename T>
struct GradientDescentRule {
  using Number = T;
  static constexpr int kArrays = 1;
  static constexpr int kScalars = 1;  // the learning rate
  static WEIR_HOST_DEVICE GradientDescentRule Of(const UpdateScalars<T>& scalars) { return {*scalars.at[0]}; }
  T learning_rate;
  WEIR_HOST_DEVICE void operator()(T* values, T g) const {
    values[0] = std::fma(-learning_rate, g, values[0]);
  }
};

template <typename T>
struct MomentumRule {
  using Number = T;
  static constexpr int kArrays = 2;   // var, accum
  static constexpr int kScalars = 2;  // the learning rate, momentum
  static WEIR_HOST_DEVICE MomentumRule Of(const UpdateScalars<T>& scalars) {
    return {*scalars.at[0], *scalars.at[1], scalars.use_nesterov};
  }
  T learning_rate;
  T momentum;
  bool use_nesterov;
  WEIR_HOST_DEVICE void operator()(T* values, T g) const {
    const T accum = std::fma(values[1], momentum, g);
    const T direction = use_nesterov ? std::fma(accum, momentum, g) : accum;
    values[1] = accum;
    values[0] = std::fma(-learning_rate, direction, values[0]);
  }
};

template <typename T>
struct AdamRule {
  using Number = T;
  static constexpr int kArrays = 3;   // var, m, v
  static constexpr int kScalars = 6;  // beta1^t, beta2^t, the learning rate, beta1, beta2, epsilon
  static WEIR_HOST_DEVICE AdamRule Of(const UpdateScalars<T>& scalars) {
    const T step_size = *scalars.at[2] * std::sqrt(1 - *scalars.at[1]) / (1 - *scalars.at[0]);
    return {step_size, *scalars.at[3], *scalars.at[4], *scalars.at[5], scalars.use_nesterov};
  }
  T step_size;  // lr * sqrt(1 - beta2^t) / (1 - beta1^t)
  T beta1;
  T beta2;
  T epsilon;
  bool use_nesterov;
  WEIR_HOST_DEVICE void operator()(T* values, T g) const {
    const T one_minus_beta1 = T(1) - beta1;
    const T m = std::fma(g - values[1], one_minus_beta1, values[1]);
    const T v = std::fma(std::fma(g, g, -values[2]), T(1) - beta2, values[2]);
    const T direction = use_nesterov ? std::fma(g, one_minus_beta1, beta1 * m) : m;
    values[1] = m;
    values[2] = v;
    values[0] = values[0] - direction * step_size / (std::sqrt(v) + epsilon);
  }
};

// What one thread of a block does: the block takes every `num_blocks`th chunk of all variables.
template <typename Rule, typename T>
WEIR_HOST_DEVICE void UpdateBody(const UpdatedArrays<T>& updated, const UpdateScalars<T>& scalars,
                                 int64_t block, int64_t num_blocks, int64_t thread, int64_t num_threads) {
  const Rule rule = Rule::Of(scalars);
  int variable = 0;
  for (int64_t chunk = block; chunk < updated.first_chunk[updated.count]; chunk += num_blocks) {
    while (chunk >= updated.first_chunk[variable + 1]) ++variable;
    const int64_t begin = (chunk - updated.first_chunk[variable]) * kUpdateChunk;
    const int64_t left = updated.sizes[variable] - begin;
    const int64_t end = begin + (left < kUpdateChunk ? left : kUpdateChunk);
    for (int64_t i = begin + thread; i < end; i += num_threads) {
      T values[Rule::kArrays];
      for (int a = 0; a < Rule::kArrays; ++a) values[a] = updated.arrays[a][variable][i];
      rule(values, updated.gradients[variable][i]);
      for (int a = 0; a < Rule::kArrays; ++a) updated.arrays[a][variable][i] = values[a];
    }
  }
}

// visitor.template operator()<Rule, T>(name)
template <typename Visitor>
void VisitRules(const Visitor& visitor) {
  visitor.template operator()<GradientDescentRule<float>, float>("GradientDescent");
  visitor.template operator()<GradientDescentRule<double>, double>("GradientDescent");
  visitor.template operator()<MomentumRule<float>, float>("Momentum");
  visitor.template operator()<MomentumRule<double>, double>("Momentum");
  visitor.template operator()<AdamRule<float>, float>("Adam");
  visitor.template operator()<AdamRule<double>, double>("Adam");
}

}  // namespace weir::cuda
