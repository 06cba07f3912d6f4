// The arithmetic of optimizer updates on plain arrays, vectorised with run-time dispatch. T is float or
// double.
//
// Every function computes `count` elements in one pass: it reads the old state and writes the new one, and a
// new array may be the old one (in place) but must not overlap it otherwise. No alignment is asked for.
// Formulas are TensorFlow's (training_ops). Thread safety: pure functions.
#pragma once

#include <cstdint>

namespace weir {

// The state before and after an update.
template <typename T>
struct UpdatedArray {
  const T* before;
  T* after;
};

// var -= alpha * delta
template <typename T>
void GradientDescentUpdate(int64_t count, UpdatedArray<T> var, T alpha, const T* delta);

template <typename T>
struct MomentumCoefficients {
  T learning_rate;
  T momentum;
  bool use_nesterov;
};

// accum = momentum * accum + grad;  var -= lr * accum  (Nesterov: var -= lr * (grad + momentum * accum))
template <typename T>
void MomentumUpdate(int64_t count, UpdatedArray<T> var, UpdatedArray<T> accum, const T* grad,
                    MomentumCoefficients<T> coefficients);

// accum = momentum * accum - lr * grad;  var += accum  (Nesterov: var += momentum * accum - lr * grad)
template <typename T>
void KerasMomentumUpdate(int64_t count, UpdatedArray<T> var, UpdatedArray<T> accum, const T* grad,
                         MomentumCoefficients<T> coefficients);

template <typename T>
struct AdamCoefficients {
  T step_size;  // lr * sqrt(1 - beta2^t) / (1 - beta1^t)
  T beta1;
  T beta2;
  T epsilon;
  bool use_nesterov;
};

// m += (grad - m) * (1 - beta1);  v += (grad^2 - v) * (1 - beta2);  var -= step_size * m / (sqrt(v) +
// epsilon) (Nesterov: beta1 * m + (1 - beta1) * grad in place of m). After Kingma and Ba, arXiv:1412.6980,
// section 2.
template <typename T>
void AdamUpdate(int64_t count, UpdatedArray<T> var, UpdatedArray<T> m, UpdatedArray<T> v, const T* grad,
                AdamCoefficients<T> coefficients);

template <typename T>
struct AdagradCoefficients {
  T learning_rate;
  T epsilon;  // 0 in the first version of the op
  bool update_slots;
};

// accum += grad^2 (with update_slots);  var -= lr * grad / (sqrt(accum) + epsilon)
template <typename T>
void AdagradUpdate(int64_t count, UpdatedArray<T> var, UpdatedArray<T> accum, const T* grad,
                   AdagradCoefficients<T> coefficients);

template <typename T>
struct RMSPropCoefficients {
  T learning_rate;
  T rho;
  T momentum;
  T epsilon;
};

// ms += (grad^2 - ms) * (1 - rho);  mom = momentum * mom + lr * grad / sqrt(ms + epsilon);  var -= mom
template <typename T>
void RMSPropUpdate(int64_t count, UpdatedArray<T> var, UpdatedArray<T> ms, UpdatedArray<T> mom, const T* grad,
                   RMSPropCoefficients<T> coefficients);

}  // namespace weir
