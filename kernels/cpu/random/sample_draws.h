// What samplers of whole numbers are made of: uniform doubles of a stream, and results in any dtype.
#pragma once

#include <limits>
#include <type_traits>

#include "graph/types/dtype.h"
#include "kernels/cpu/random/philox.h"
#include "kernels/cpu/random/random_groups.h"

namespace weir {

// Uniform doubles of a stream, two a block, of which the second is given first (TensorFlow's order).
class UniformDraws {
 public:
  explicit UniformDraws(const Philox& bits) : bits_(bits) {}
  double Next() {
    if (left_ == 0) {
      const Philox::Block b = bits_.Next();
      pair_[0] = UniformDouble(b[0], b[1]);
      pair_[1] = UniformDouble(b[2], b[3]);
      left_ = 2;
    }
    return pair_[--left_];
  }

 private:
  Philox bits_;
  double pair_[2] = {};
  int left_ = 0;
};

template <typename T>
T NumberOf(double value) {
  if constexpr (std::is_same_v<T, Half>) {
    return Half(static_cast<float>(value));
  } else if constexpr (std::is_integral_v<T>) {
    // What has no integer is the least one, as x86 converts it; the language leaves it undefined.
    const bool fits = value >= static_cast<double>(std::numeric_limits<T>::min()) &&
                      value < -static_cast<double>(std::numeric_limits<T>::min());
    return fits ? static_cast<T>(value) : std::numeric_limits<T>::min();
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace weir
