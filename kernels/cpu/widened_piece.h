// A piece of a tensor of a 16-bit floating type in single precision, small enough for a core's cache: a
// kernel that goes through its tensors piece by piece needs no wide copy of the whole (widened.h). Pieces of
// float tensors are the elements themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "kernels/cpu/float16_rows.h"

namespace weir {

// To read. Borrows `elements`.
template <typename T>
class WidePiece {
 public:
  WidePiece(const T* elements, int64_t count) {
    if constexpr (std::is_same_v<T, float>) {
      values_ = elements;
    } else {
      copy_.reset(new float[count]);
      ToFloats(elements, copy_.get(), count);
      values_ = copy_.get();
    }
  }
  const float* values() const { return values_; }

 private:
  std::unique_ptr<float[]> copy_;
  const float* values_;
};

// To write: what values() holds is rounded into `elements` when the piece goes. Borrows `elements`.
template <typename T>
class WideResult {
 public:
  WideResult(T* elements, int64_t count) : elements_(elements), count_(count) {
    if constexpr (!std::is_same_v<T, float>) copy_.reset(new float[count]);
  }
  ~WideResult() {
    if constexpr (!std::is_same_v<T, float>) FromFloats(copy_.get(), elements_, count_);
  }
  WideResult(const WideResult&) = delete;
  WideResult& operator=(const WideResult&) = delete;

  float* values() {
    if constexpr (std::is_same_v<T, float>) {
      return elements_;
    } else {
      return copy_.get();
    }
  }

 private:
  T* const elements_;
  const int64_t count_;
  std::unique_ptr<float[]> copy_;
};

}  // namespace weir
