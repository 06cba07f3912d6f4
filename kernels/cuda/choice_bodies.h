// Comparisons, choices between tensors, and tensors one behind the other, for GPUs and for the host, where
// tests run it.
#pragma once

#include <cstdint>

#include "kernels/cuda/element_bodies.h"
#include "kernels/host_device.h"

namespace weir::cuda {

struct Equal {
  template <typename T>
  WEIR_HOST_DEVICE bool operator()(T x, T y) const {
    return x == y;
  }
};
struct NotEqual {
  template <typename T>
  WEIR_HOST_DEVICE bool operator()(T x, T y) const {
    return x != y;
  }
};
struct Less {
  template <typename T>
  WEIR_HOST_DEVICE bool operator()(T x, T y) const {
    return x < y;
  }
};
struct LessEqual {
  template <typename T>
  WEIR_HOST_DEVICE bool operator()(T x, T y) const {
    return x <= y;
  }
};
struct Greater {
  template <typename T>
  WEIR_HOST_DEVICE bool operator()(T x, T y) const {
    return x > y;
  }
};
struct GreaterEqual {
  template <typename T>
  WEIR_HOST_DEVICE bool operator()(T x, T y) const {
    return x >= y;
  }
};
struct LogicalAnd {
  WEIR_HOST_DEVICE bool operator()(bool x, bool y) const { return x && y; }
};
struct LogicalOr {
  WEIR_HOST_DEVICE bool operator()(bool x, bool y) const { return x || y; }
};

// A step is 1, or 0 for an operand that is one element.
template <typename F, typename T>
WEIR_HOST_DEVICE void CompareBody(ThreadPosition thread, const T* x, int64_t x_step, const T* y,
                                  int64_t y_step, bool* z, int64_t n) {
  for (int64_t i = thread.index; i < n; i += thread.count) {
    z[i] = F()(Load(x[i * x_step]), Load(y[i * y_step]));
  }
}

WEIR_HOST_DEVICE inline void LogicalNotBody(ThreadPosition thread, const bool* x, bool* y, int64_t n) {
  for (int64_t i = thread.index; i < n; i += thread.count) y[i] = !x[i];
}

// Steps as above; `per_choice` elements in a row have one condition.
struct ChoiceSteps {
  int64_t condition, yes, no;
  int64_t per_choice;
};

template <typename Word>
WEIR_HOST_DEVICE void SelectBody(ThreadPosition thread, const bool* condition, const Word* yes,
                                 const Word* no, Word* to, int64_t n, const ChoiceSteps& steps) {
  for (int64_t i = thread.index; i < n; i += thread.count) {
    to[i] = condition[i / steps.per_choice * steps.condition] ? yes[i * steps.yes] : no[i * steps.no];
  }
}

inline constexpr int kMostJoined = 64;  // tensors of one launch

// Matrices of as many rows each that lie side by side in one, from its column `first` on. Matrix k has the
// columns from ends[k - 1] to ends[k] of all of theirs.
template <typename Word>
struct JoinedMatrices {
  const Word* from[kMostJoined];
  int64_t ends[kMostJoined];
  int64_t first;
  int64_t width;  // of the whole
  int32_t count;
};

template <typename Word>
WEIR_HOST_DEVICE void JoinBody(ThreadPosition thread, const JoinedMatrices<Word>& joined, Word* to,
                               int64_t n) {
  const int64_t span = joined.ends[joined.count - 1];
  for (int64_t i = thread.index; i < n; i += thread.count) {
    const int64_t row = i / span, column = i % span;
    int32_t k = 0;
    for (int32_t end = joined.count - 1; k < end;) {
      const int32_t middle = (k + end) / 2;
      if (joined.ends[middle] > column) {
        end = middle;
      } else {
        k = middle + 1;
      }
    }
    const int64_t begin = k == 0 ? 0 : joined.ends[k - 1];
    to[row * joined.width + joined.first + column] =
        joined.from[k][row * (joined.ends[k] - begin) + column - begin];
  }
}

// visitor.template operator()<F, T>(name)
template <typename Visitor>
void VisitComparisons(const Visitor& visitor) {
  const auto numbers = [&]<typename F>(const char* name, F) {
    visitor.template operator()<F, float>(name);
    visitor.template operator()<F, double>(name);
    visitor.template operator()<F, Half>(name);
    visitor.template operator()<F, Bfloat16>(name);
    visitor.template operator()<F, int32_t>(name);
    visitor.template operator()<F, int64_t>(name);
  };
  numbers("Equal", Equal());
  numbers("NotEqual", NotEqual());
  numbers("Less", Less());
  numbers("LessEqual", LessEqual());
  numbers("Greater", Greater());
  numbers("GreaterEqual", GreaterEqual());
  visitor.template operator()<Equal, bool>("Equal");
  visitor.template operator()<NotEqual, bool>("NotEqual");
  visitor.template operator()<LogicalAnd, bool>("LogicalAnd");
  visitor.template operator()<LogicalOr, bool>("LogicalOr");
}

}  // namespace weir::cuda
