// The update rules of optimizers, one class each, for elements that are float or double.
//
// A rule is made from its node's attrs. It names the scalars that it takes (inputs of the op, by their
// schema's name), checks them once a call, and updates `count` elements of all its variables at a time:
//
//   Rule<T> rule(construction);
//   WEIR_RETURN_IF_ERROR(rule.Check(scalars));
//   rule.Update(count, arrays, grad, scalars);   // arrays: kVariables of them, the model's variable first
//
// Formulas are TensorFlow's (its training_ops); papers are named beside them. The rules that models train
// with most are vectorised in update_math.h. Thread safety: const functions may run at the same time.
#pragma once

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/training/update_math.h"
#include "kernels/kernel.h"

namespace weir::rules {

// No scalar is refused.
struct AnyScalars {
  template <typename T>
  static absl::Status Check(const T*) {
    return absl::OkStatus();
  }
};

template <typename T>
struct GradientDescent : AnyScalars {
  static constexpr int kVariables = 1;
  static constexpr const char* kScalars[] = {"alpha"};
  explicit GradientDescent(const KernelConstruction&) {}
  void Update(int64_t n, const UpdatedArray<T>* a, const T* g, const T* s) const {
    GradientDescentUpdate<T>(n, a[0], s[0], g);
  }
};

template <typename T, bool keras>
struct AnyMomentum : AnyScalars {
  static constexpr int kVariables = 2;  // var, accum
  static constexpr const char* kScalars[] = {"lr", "momentum"};
  explicit AnyMomentum(const KernelConstruction& c) : use_nesterov(c.attr<bool>("use_nesterov")) {}
  void Update(int64_t n, const UpdatedArray<T>* a, const T* g, const T* s) const {
    const MomentumCoefficients<T> coefficients = {s[0], s[1], use_nesterov};
    (keras ? KerasMomentumUpdate<T> : MomentumUpdate<T>)(n, a[0], a[1], g, coefficients);
  }
  const bool use_nesterov;
};
template <typename T>
using Momentum = AnyMomentum<T, false>;
template <typename T>
using KerasMomentum = AnyMomentum<T, true>;

template <typename T>
struct Adam : AnyScalars {
  static constexpr int kVariables = 3;  // var, m, v
  static constexpr const char* kScalars[] = {"beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"};
  explicit Adam(const KernelConstruction& c) : use_nesterov(c.attr<bool>("use_nesterov")) {}
  static T StepSize(const T* s) { return s[2] * std::sqrt(1 - s[1]) / (1 - s[0]); }
  void Update(int64_t n, const UpdatedArray<T>* a, const T* g, const T* s) const {
    AdamUpdate<T>(n, a[0], a[1], a[2], g, {StepSize(s), s[3], s[4], s[5], use_nesterov});
  }
  const bool use_nesterov;
};

// v is replaced by the largest one so far. Reddi, Kale and Kumar, "On the Convergence of Adam and Beyond".
template <typename T>
struct AdamWithAmsgrad : AnyScalars {
  static constexpr int kVariables = 4;  // var, m, v, vhat
  static constexpr const char* kScalars[] = {"beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"};
  explicit AdamWithAmsgrad(const KernelConstruction&) {}
  void Update(int64_t n, const UpdatedArray<T>* a, const T* g, const T* s) const {
    const T step_size = Adam<T>::StepSize(s), beta1 = s[3], beta2 = s[4], epsilon = s[5];
    for (int64_t i = 0; i < n; ++i) {
      const T m = a[1].before[i] + (g[i] - a[1].before[i]) * (1 - beta1);
      const T v = a[2].before[i] + (g[i] * g[i] - a[2].before[i]) * (1 - beta2);
      const T vhat = std::max(a[3].before[i], v);
      a[0].after[i] = a[0].before[i] - m * step_size / (std::sqrt(vhat) + epsilon);
      a[1].after[i] = m;
      a[2].after[i] = v;
      a[3].after[i] = vhat;
    }
  }
};

// Kingma and Ba, arXiv:1412.6980, section 7.1.
template <typename T>
struct AdaMax : AnyScalars {
  static constexpr int kVariables = 3;  // var, m, v
  static constexpr const char* kScalars[] = {"beta1_power", "lr", "beta1", "beta2", "epsilon"};
  explicit AdaMax(const KernelConstruction&) {}
  void Update(int64_t n, const UpdatedArray<T>* a, const T* g, const T* s) const {
    const T step_size = s[1] / (1 - s[0]), beta1 = s[2], beta2 = s[3], epsilon = s[4];
    for (int64_t i = 0; i < n; ++i) {
      const T m = a[1].before[i] + (g[i] - a[1].before[i]) * (1 - beta1);
      const T v = std::max(beta2 * a[2].before[i], std::abs(g[i]));
      a[0].after[i] = a[0].before[i] - step_size * (m / (v + epsilon));
      a[1].after[i] = m;
      a[2].after[i] = v;
    }
  }
};

// Duchi, Hazan and Singer, "Adaptive Subgradient Methods"; V2 adds an epsilon to the root.
template <typename T, bool has_epsilon>
struct AnyAdagrad : AnyScalars {
  static constexpr int kVariables = 2;  // var, accum
  static constexpr const char* kScalars[] = {"lr", has_epsilon ? "epsilon" : nullptr};
  explicit AnyAdagrad(const KernelConstruction& c) : update_slots(c.attr<bool>("update_slots")) {}
  void Update(int64_t n, const UpdatedArray<T>* a, const T* g, const T* s) const {
    AdagradUpdate<T>(n, a[0], a[1], g, {s[0], has_epsilon ? s[1] : T(0), update_slots});
  }
  const bool update_slots;
};
template <typename T>
using Adagrad = AnyAdagrad<T, false>;
template <typename T>
using AdagradV2 = AnyAdagrad<T, true>;

// Dual averaging: the step is taken from zero along the sum of all gradients. Duchi, Hazan and Singer,
// section 3, with the l1 and l2 penalties growing with the number of steps.
template <typename T>
struct AdagradDA : AnyScalars {
  static constexpr int kVariables = 3;  // var, gradient_accumulator, gradient_squared_accumulator
  static constexpr const char* kScalars[] = {"lr", "l1", "l2", "global_step"};
  explicit AdagradDA(const KernelConstruction&) {}
  void Update(int64_t n, const UpdatedArray<T>* a, const T* g, const T* s) const {
    const T lr = s[0], l1 = s[1] * s[3], l2 = s[2] * s[3];
    for (int64_t i = 0; i < n; ++i) {
      const T sum = a[1].before[i] + g[i];
      const T squares = a[2].before[i] + g[i] * g[i];
      const T shrunk = s[1] > 0 ? std::copysign(std::max(std::abs(sum) - l1, T(0)), sum) : sum;
      a[0].after[i] = -lr * shrunk / (l2 * lr + std::sqrt(squares));
      a[1].after[i] = sum;
      a[2].after[i] = squares;
    }
  }
};

// Tieleman and Hinton, lecture 6.5.
template <typename T>
struct RMSProp : AnyScalars {
  static constexpr int kVariables = 3;  // var, ms, mom
  static constexpr const char* kScalars[] = {"lr", "rho", "momentum", "epsilon"};
  explicit RMSProp(const KernelConstruction&) {}
  void Update(int64_t n, const UpdatedArray<T>* a, const T* g, const T* s) const {
    RMSPropUpdate<T>(n, a[0], a[1], a[2], g, {s[0], s[1], s[2], s[3]});
  }
};

// The variance in place of the mean square. Graves, arXiv:1308.0850, equations 38 to 45.
template <typename T>
struct CenteredRMSProp : AnyScalars {
  static constexpr int kVariables = 4;  // var, mg, ms, mom
  static constexpr const char* kScalars[] = {"lr", "rho", "momentum", "epsilon"};
  explicit CenteredRMSProp(const KernelConstruction&) {}
  void Update(int64_t n, const UpdatedArray<T>* a, const T* g, const T* s) const {
    const T lr = s[0], rho = s[1], momentum = s[2], epsilon = s[3];
    for (int64_t i = 0; i < n; ++i) {
      const T mg = a[1].before[i] + (g[i] - a[1].before[i]) * (1 - rho);
      const T ms = a[2].before[i] + (g[i] * g[i] - a[2].before[i]) * (1 - rho);
      const T mom = a[3].before[i] * momentum + lr * g[i] / std::sqrt(ms - mg * mg + epsilon);
      a[0].after[i] = a[0].before[i] - mom;
      a[1].after[i] = mg;
      a[2].after[i] = ms;
      a[3].after[i] = mom;
    }
  }
};

// Zeiler, arXiv:1212.5701, algorithm 1.
template <typename T>
struct Adadelta : AnyScalars {
  static constexpr int kVariables = 3;  // var, accum, accum_update
  static constexpr const char* kScalars[] = {"lr", "rho", "epsilon"};
  explicit Adadelta(const KernelConstruction&) {}
  void Update(int64_t n, const UpdatedArray<T>* a, const T* g, const T* s) const {
    const T lr = s[0], rho = s[1], epsilon = s[2];
    for (int64_t i = 0; i < n; ++i) {
      const T accum = a[1].before[i] * rho + g[i] * g[i] * (1 - rho);
      const T step = std::sqrt(a[2].before[i] + epsilon) / std::sqrt(accum + epsilon) * g[i];
      a[0].after[i] = a[0].before[i] - step * lr;
      a[1].after[i] = accum;
      a[2].after[i] = a[2].before[i] * rho + step * step * (1 - rho);
    }
  }
};

// FTRL-Proximal. McMahan et al., "Ad Click Prediction: a View from the Trenches", algorithm 1; V2 adds a
// shrinkage of the variable to its gradient.
template <typename T, bool has_shrinkage>
struct AnyFtrl {
  static constexpr int kVariables = 3;  // var, accum, linear
  static constexpr const char* kScalars[] = {"lr", "l1", "l2", "lr_power",
                                             has_shrinkage ? "l2_shrinkage" : nullptr};
  explicit AnyFtrl(const KernelConstruction& c)
      : multiply_linear_by_lr(c.attr<bool>("multiply_linear_by_lr")) {}

  absl::Status Check(const T* s) const { return Check(s, multiply_linear_by_lr); }
  static absl::Status Check(const T* s, bool multiply_linear_by_lr) {
    // Nothing is divided by lr when the linear term has it as a factor.
    if (!(s[0] > 0 || (multiply_linear_by_lr && s[0] == 0))) {
      return absl::InvalidArgumentError(absl::StrCat("lr must be positive, is ", s[0]));
    }
    if (!(s[1] >= 0)) return absl::InvalidArgumentError(absl::StrCat("l1 must not be negative, is ", s[1]));
    if (!(s[2] >= 0)) return absl::InvalidArgumentError(absl::StrCat("l2 must not be negative, is ", s[2]));
    if (!(s[3] <= 0)) {
      return absl::InvalidArgumentError(absl::StrCat("lr_power must not be positive, is ", s[3]));
    }
    if (has_shrinkage && !(s[4] >= 0)) {
      return absl::InvalidArgumentError(absl::StrCat("l2_shrinkage must not be negative, is ", s[4]));
    }
    return absl::OkStatus();
  }

  void Update(int64_t n, const UpdatedArray<T>* a, const T* g, const T* s) const {
    const T lr = s[0], l1 = s[1], l2 = s[2], power = -s[3], shrinkage = has_shrinkage ? s[4] : 0;
    // With the other scaling every part of the linear term, and what it is compared with, has a factor lr.
    const T scale = multiply_linear_by_lr ? lr : 1, limit = l1 * scale;
    const auto rate = [&](T accum) {
      return (power == T(0.5) ? std::sqrt(accum) : std::pow(accum, power)) / (multiply_linear_by_lr ? 1 : lr);
    };
    for (int64_t i = 0; i < n; ++i) {
      const T var = a[0].before[i], accum = a[1].before[i] + g[i] * g[i], new_rate = rate(accum);
      const T gradient = g[i] + 2 * shrinkage * var;
      const T linear = a[2].before[i] + gradient * scale - (new_rate - rate(a[1].before[i])) * var;
      const T bounded = std::clamp(linear, -limit, limit);
      a[0].after[i] = (bounded - linear) / (new_rate + 2 * l2 * scale);
      a[1].after[i] = accum;
      a[2].after[i] = linear;
    }
  }
  const bool multiply_linear_by_lr;
};
template <typename T>
using Ftrl = AnyFtrl<T, false>;
template <typename T>
using FtrlV2 = AnyFtrl<T, true>;

// A step without regularisation, then what l1 and l2 pull it towards zero. Duchi and Singer, "Efficient
// Online and Batch Learning Using Forward Backward Splitting".
template <typename T>
T Proximal(T stepped, T rate, T l1, T l2) {
  const T shrunk = l1 > 0 ? std::copysign(std::max(std::abs(stepped) - rate * l1, T(0)), stepped) : stepped;
  return shrunk / (1 + rate * l2);
}

template <typename T>
struct ProximalGradientDescent : AnyScalars {
  static constexpr int kVariables = 1;
  static constexpr const char* kScalars[] = {"alpha", "l1", "l2"};
  explicit ProximalGradientDescent(const KernelConstruction&) {}
  void Update(int64_t n, const UpdatedArray<T>* a, const T* g, const T* s) const {
    for (int64_t i = 0; i < n; ++i) {
      a[0].after[i] = Proximal(a[0].before[i] - s[0] * g[i], s[0], s[1], s[2]);
    }
  }
};

template <typename T>
struct ProximalAdagrad : AnyScalars {
  static constexpr int kVariables = 2;  // var, accum
  static constexpr const char* kScalars[] = {"lr", "l1", "l2"};
  explicit ProximalAdagrad(const KernelConstruction&) {}
  void Update(int64_t n, const UpdatedArray<T>* a, const T* g, const T* s) const {
    for (int64_t i = 0; i < n; ++i) {
      const T accum = a[1].before[i] + g[i] * g[i], rate = s[0] / std::sqrt(accum);
      a[0].after[i] = Proximal(a[0].before[i] - rate * g[i], rate, s[1], s[2]);
      a[1].after[i] = accum;
    }
  }
};

// -1, 0 or 1.
template <typename T>
T SignOf(T x) {
  return static_cast<T>((x > 0) - (x < 0));
}

// A larger step where gradient and momentum agree. Bello et al., arXiv:1709.07417.
template <typename T>
struct AddSign : AnyScalars {
  static constexpr int kVariables = 2;  // var, m
  static constexpr const char* kScalars[] = {"lr", "alpha", "sign_decay", "beta"};
  explicit AddSign(const KernelConstruction&) {}
  void Update(int64_t n, const UpdatedArray<T>* a, const T* g, const T* s) const {
    for (int64_t i = 0; i < n; ++i) {
      const T m = a[1].before[i] * s[3] + g[i] * (1 - s[3]);
      a[0].after[i] = a[0].before[i] - s[0] * (s[1] + s[2] * SignOf(g[i]) * SignOf(m)) * g[i];
      a[1].after[i] = m;
    }
  }
};

template <typename T>
struct PowerSign : AnyScalars {
  static constexpr int kVariables = 2;  // var, m
  static constexpr const char* kScalars[] = {"lr", "logbase", "sign_decay", "beta"};
  explicit PowerSign(const KernelConstruction&) {}
  void Update(int64_t n, const UpdatedArray<T>* a, const T* g, const T* s) const {
    for (int64_t i = 0; i < n; ++i) {
      const T m = a[1].before[i] * s[3] + g[i] * (1 - s[3]);
      a[0].after[i] = a[0].before[i] - s[0] * std::exp(s[1] * s[2] * SignOf(g[i]) * SignOf(m)) * g[i];
      a[1].after[i] = m;
    }
  }
};

}  // namespace weir::rules
