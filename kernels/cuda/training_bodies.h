// Optimizers on many variables in one launch, for GPUs and for the host, where tests run it.
//
// The formulas are those of kernels/cpu/training (update_math.h, rules.h), with products fused where the
// CPU's vector code fuses them: on processors with FMA the numbers are the same bits. A variable's arrays are
// updated in place. Learning rates and the like are read from the device's memory: models compute them there,
// and the host need not wait for them.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/data_error.h"
#include "kernels/host_device.h"

namespace weir::cuda {

inline constexpr int kMostArrays = 4;    // the variable and its slots
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
  bool flag;  // the op's attr that changes the formula
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
    return {*scalars.at[0], *scalars.at[1], scalars.flag};
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
    return {step_size, *scalars.at[3], *scalars.at[4], *scalars.at[5], scalars.flag};
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

template <typename T>
struct KerasMomentumRule {
  using Number = T;
  static constexpr int kArrays = 2;   // var, accum
  static constexpr int kScalars = 2;  // the learning rate, momentum
  static WEIR_HOST_DEVICE KerasMomentumRule Of(const UpdateScalars<T>& scalars) {
    return {*scalars.at[0], *scalars.at[1], scalars.flag};
  }
  T learning_rate;
  T momentum;
  bool use_nesterov;
  WEIR_HOST_DEVICE void operator()(T* values, T g) const {
    const T step = learning_rate * g;
    const T accum = std::fma(values[1], momentum, -step);
    values[1] = accum;
    values[0] = values[0] + (use_nesterov ? std::fma(accum, momentum, -step) : accum);
  }
};

template <typename T>
struct AdaMaxRule {
  using Number = T;
  static constexpr int kArrays = 3;   // var, m, v
  static constexpr int kScalars = 5;  // beta1^t, the learning rate, beta1, beta2, epsilon
  static WEIR_HOST_DEVICE AdaMaxRule Of(const UpdateScalars<T>& scalars) {
    return {*scalars.at[1] / (1 - *scalars.at[0]), *scalars.at[2], *scalars.at[3], *scalars.at[4]};
  }
  T step_size;
  T beta1;
  T beta2;
  T epsilon;
  WEIR_HOST_DEVICE void operator()(T* values, T g) const {
    const T m = values[1] + (g - values[1]) * (1 - beta1);
    const T decayed = beta2 * values[2], size = std::fabs(g);
    const T v = decayed < size ? size : decayed;
    values[0] = values[0] - step_size * (m / (v + epsilon));
    values[1] = m;
    values[2] = v;
  }
};

// With the epsilon of the op's second version, which is 0 in the first one.
template <typename T, bool has_epsilon>
struct AnyAdagradRule {
  using Number = T;
  static constexpr int kArrays = 2;                     // var, accum
  static constexpr int kScalars = has_epsilon ? 2 : 1;  // the learning rate, epsilon
  static WEIR_HOST_DEVICE AnyAdagradRule Of(const UpdateScalars<T>& scalars) {
    return {*scalars.at[0], has_epsilon ? *scalars.at[kScalars - 1] : T(0), scalars.flag};
  }
  T learning_rate;
  T epsilon;
  bool update_slots;
  WEIR_HOST_DEVICE void operator()(T* values, T g) const {
    const T accum = update_slots ? std::fma(g, g, values[1]) : values[1];
    values[0] = values[0] - g * learning_rate / (std::sqrt(accum) + epsilon);
    values[1] = accum;
  }
};
template <typename T>
using AdagradRule = AnyAdagradRule<T, false>;
template <typename T>
using AdagradV2Rule = AnyAdagradRule<T, true>;

template <typename T>
struct RMSPropRule {
  using Number = T;
  static constexpr int kArrays = 3;   // var, ms, mom
  static constexpr int kScalars = 4;  // the learning rate, rho, momentum, epsilon
  static WEIR_HOST_DEVICE RMSPropRule Of(const UpdateScalars<T>& scalars) {
    return {*scalars.at[0], *scalars.at[1], *scalars.at[2], *scalars.at[3]};
  }
  T learning_rate;
  T rho;
  T momentum;
  T epsilon;
  WEIR_HOST_DEVICE void operator()(T* values, T g) const {
    const T ms = std::fma(std::fma(g, g, -values[1]), T(1) - rho, values[1]);
    const T step = g * learning_rate / std::sqrt(ms + epsilon);
    const T mom = std::fma(values[2], momentum, step);
    values[0] = values[0] - mom;
    values[1] = ms;
    values[2] = mom;
  }
};

template <typename T>
struct CenteredRMSPropRule {
  using Number = T;
  static constexpr int kArrays = 4;   // var, mg, ms, mom
  static constexpr int kScalars = 4;  // the learning rate, rho, momentum, epsilon
  static WEIR_HOST_DEVICE CenteredRMSPropRule Of(const UpdateScalars<T>& scalars) {
    return {*scalars.at[0], *scalars.at[1], *scalars.at[2], *scalars.at[3]};
  }
  T learning_rate;
  T rho;
  T momentum;
  T epsilon;
  WEIR_HOST_DEVICE void operator()(T* values, T g) const {
    const T mg = values[1] + (g - values[1]) * (1 - rho);
    const T ms = values[2] + (g * g - values[2]) * (1 - rho);
    const T mom = values[3] * momentum + learning_rate * g / std::sqrt(ms - mg * mg + epsilon);
    values[0] = values[0] - mom;
    values[1] = mg;
    values[2] = ms;
    values[3] = mom;
  }
};

// Scalars that the op refuses leave everything as it is, and a note.
template <typename T, bool has_shrinkage>
struct AnyFtrlRule {
  using Number = T;
  static constexpr int kArrays = 3;                       // var, accum, linear
  static constexpr int kScalars = has_shrinkage ? 5 : 4;  // the learning rate, l1, l2, its power, shrinkage
  static WEIR_HOST_DEVICE bool AreRefused(const UpdateScalars<T>& scalars) {
    const bool is_rate = *scalars.at[0] > 0 || (scalars.flag && *scalars.at[0] == 0);
    return !(is_rate && *scalars.at[1] >= 0 && *scalars.at[2] >= 0 && *scalars.at[3] <= 0 &&
             (!has_shrinkage || *scalars.at[kScalars - 1] >= 0));
  }
  static WEIR_HOST_DEVICE AnyFtrlRule Of(const UpdateScalars<T>& scalars) {
    const T rate = *scalars.at[0], scale = scalars.flag ? rate : T(1);
    return {scale,
            scalars.flag ? T(1) : rate,
            *scalars.at[1] * scale,
            *scalars.at[2],
            -*scalars.at[3],
            has_shrinkage ? *scalars.at[kScalars - 1] : T(0)};
  }
  T scale;    // of the linear term's parts
  T divisor;  // of the rate
  T limit;
  T l2;
  T power;
  T shrinkage;
  WEIR_HOST_DEVICE T RateOf(T accum) const {
    return (power == T(0.5) ? std::sqrt(accum) : std::pow(accum, power)) / divisor;
  }
  WEIR_HOST_DEVICE void operator()(T* values, T g) const {
    const T var = values[0], accum = values[1] + g * g, rate = RateOf(accum);
    const T gradient = g + 2 * shrinkage * var;
    const T linear = values[2] + gradient * scale - (rate - RateOf(values[1])) * var;
    const T bounded = linear < -limit ? -limit : limit < linear ? limit : linear;
    values[0] = (bounded - linear) / (rate + 2 * l2 * scale);
    values[1] = accum;
    values[2] = linear;
  }
};
template <typename T>
using FtrlRule = AnyFtrlRule<T, false>;
template <typename T>
using FtrlV2Rule = AnyFtrlRule<T, true>;

// Whether the rule does nothing with some scalars.
template <typename Rule>
inline constexpr bool kChecksScalars = requires(const UpdateScalars<typename Rule::Number>& scalars) {
  Rule::AreRefused(scalars);
};

// What one thread of a block does: the block takes every `num_blocks`th chunk of all variables. All threads
// see the same scalars, and none writes where they are refused. `place` may be a null one.
template <typename Rule, typename T>
WEIR_HOST_DEVICE void UpdateBody(const UpdatedArrays<T>& updated, const UpdateScalars<T>& scalars,
                                 const DataErrorPlace& place, int64_t block, int64_t num_blocks,
                                 int64_t thread, int64_t num_threads) {
  if (IsBad(place.here)) return;
  if constexpr (kChecksScalars<Rule>) {
    if (Rule::AreRefused(scalars)) return NoteDataError(place, 0);
  }
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
  const auto both = [&]<template <typename> class Rule>(const char* name) {
    visitor.template operator()<Rule<float>, float>(name);
    visitor.template operator()<Rule<double>, double>(name);
  };
  both.template operator()<GradientDescentRule>("GradientDescent");
  both.template operator()<MomentumRule>("Momentum");
  both.template operator()<KerasMomentumRule>("KerasMomentum");
  both.template operator()<AdamRule>("Adam");
  both.template operator()<AdaMaxRule>("AdaMax");
  both.template operator()<AdagradRule>("Adagrad");
  both.template operator()<AdagradV2Rule>("AdagradV2");
  both.template operator()<RMSPropRule>("RMSProp");
  both.template operator()<CenteredRMSPropRule>("CenteredRMSProp");
  both.template operator()<FtrlRule>("Ftrl");
  both.template operator()<FtrlV2Rule>("FtrlV2");
}

}  // namespace weir::cuda
