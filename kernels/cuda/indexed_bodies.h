// Kernels that indices lead to slices and rows, for GPUs and for the host, where tests run them.
//
// Indices are looked at here: of one that is out of range note is taken (data_error.h), and nothing is read
// or written at it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/data_error.h"
#include "kernels/cuda/element_bodies.h"
#include "kernels/cuda/training_bodies.h"
#include "kernels/host_device.h"

namespace weir::cuda {

// The kinds of what is found wrong.
inline constexpr int kFoundBadIndex = 0;
inline constexpr int kFoundBadScalar = 1;  // of an optimizer

WEIR_HOST_DEVICE inline bool IsIn(int64_t index, int64_t limit) {
  return static_cast<uint64_t>(index) < static_cast<uint64_t>(limit);
}

// The output is [batches, outer, count, inner], the params [batches, outer, limit, inner], the indices
// [batches, count]. Elements are words, of which a slice has a whole number.
struct GatherDims {
  int64_t outer, limit, count, inner;
};

template <typename Word, typename Index>
WEIR_HOST_DEVICE void GatherBody(ThreadPosition thread, const Word* params, const Index* indices,
                                 Word* output, int64_t n, const GatherDims& dims,
                                 const DataErrorPlace& place) {
  for (int64_t i = thread.index; i < n; i += thread.count) {
    const int64_t slice = i / dims.inner, plane = slice / dims.count;
    const int64_t index = indices[plane / dims.outer * dims.count + slice % dims.count];
    if (IsIn(index, dims.limit)) {
      output[i] = params[(plane * dims.limit + index) * dims.inner + i % dims.inner];
    } else {
      output[i] = 0;
      NoteDataError(place, kFoundBadIndex);
    }
  }
}

template <typename Index>
WEIR_HOST_DEVICE void CheckIndicesBody(ThreadPosition thread, const Index* indices, int64_t n, int64_t limit,
                                       const DataErrorPlace& place) {
  for (int64_t i = thread.index; i < n; i += thread.count) {
    if (!IsIn(indices[i], limit)) NoteDataError(place, kFoundBadIndex);
  }
}

// What a sort by rows is made of: keys[i] is the row that index i names, or `limit` for one that is out of
// range; positions[i] is i. Note is taken of those out of range, but for negative ones that are dropped.
template <typename Index, typename Key>
WEIR_HOST_DEVICE void RowKeysBody(ThreadPosition thread, const Index* indices, Key* keys, Key* positions,
                                  int64_t n, int64_t limit, bool drops_negative,
                                  const DataErrorPlace& place) {
  for (int64_t i = thread.index; i < n; i += thread.count) {
    const int64_t index = indices[i];
    const bool is_in = IsIn(index, limit);
    if (!is_in && !(drops_negative && index < 0)) NoteDataError(place, kFoundBadIndex);
    keys[i] = static_cast<Key>(is_in ? index : limit);
    positions[i] = static_cast<Key>(i);
  }
}

// Sorted by rows, and among those of one row by positions. Rows from `limit` on are none.
template <typename Key>
struct SortedRows {
  const Key* rows;
  const Key* positions;
  int64_t count;
  int64_t limit;
};

// Calls use(row, column, begin, end) for every element of every row that is named: its positions are those
// from `begin` to `end`. One thread has an element, and takes its positions in order, so that the result is
// the same every time. Rows have `inner` elements.
template <typename Key, typename Use>
WEIR_HOST_DEVICE void ForEachNamedElement(ThreadPosition thread, const SortedRows<Key>& sorted, int64_t inner,
                                          const Use& use) {
  for (int64_t i = thread.index; i < sorted.count * inner; i += thread.count) {
    const int64_t begin = i / inner;
    const Key row = sorted.rows[begin];
    const bool is_first = begin == 0 || sorted.rows[begin - 1] != row;
    if (!is_first || !IsIn(static_cast<int64_t>(row), sorted.limit)) continue;
    int64_t end = begin + 1;
    while (end < sorted.count && sorted.rows[end] == row) ++end;
    use(static_cast<int64_t>(row), i % inner, begin, end);
  }
}

// The second operand takes the place of the first.
struct Replace {
  template <typename T>
  WEIR_HOST_DEVICE T operator()(T, T y) const {
    return y;
  }
};

// Combines rows of `values` with those of `updates` that are theirs, one after the other. `step` is 1, or 0
// for updates that are one element. Nothing is done where something was found.
template <typename F, typename T, typename Key>
WEIR_HOST_DEVICE void ScatterRowsBody(ThreadPosition thread, const SortedRows<Key>& sorted, int64_t inner,
                                      const T* updates, int64_t step, T* values,
                                      const volatile DataError* errors) {
  if (IsBad(errors)) return;
  ForEachNamedElement(thread, sorted, inner, [&](int64_t row, int64_t column, int64_t begin, int64_t end) {
    T value = values[row * inner + column];
    for (int64_t k = begin; k < end; ++k) {
      const int64_t at = (static_cast<int64_t>(sorted.positions[k]) * inner + column) * step;
      Store(value, F()(Load(value), Load(updates[at])));
    }
    values[row * inner + column] = value;
  });
}

// The rows of a variable and of its slots, in an optimizer's order, and those of the gradient.
template <typename T>
struct UpdatedRows {
  T* arrays[kMostArrays];
  const T* gradients;
  int64_t inner;
};

// An optimizer's step for the rows that are named; a row that is named twice makes two. All threads see the
// same scalars, and none writes where they are refused.
template <typename Rule, typename T, typename Key>
WEIR_HOST_DEVICE void UpdateRowsBody(ThreadPosition thread, const SortedRows<Key>& sorted,
                                     const UpdatedRows<T>& updated, const UpdateScalars<T>& scalars,
                                     const DataErrorPlace& place) {
  if (IsBad(place.here)) return;
  if constexpr (kChecksScalars<Rule>) {
    if (Rule::AreRefused(scalars)) return NoteDataError(place, kFoundBadScalar);
  }
  const Rule rule = Rule::Of(scalars);
  ForEachNamedElement(
      thread, sorted, updated.inner, [&](int64_t row, int64_t column, int64_t begin, int64_t end) {
        const int64_t at = row * updated.inner + column;
        T values[Rule::kArrays];
        for (int a = 0; a < Rule::kArrays; ++a) values[a] = updated.arrays[a][at];
        for (int64_t k = begin; k < end; ++k) {
          rule(values, updated.gradients[static_cast<int64_t>(sorted.positions[k]) * updated.inner + column]);
        }
        for (int a = 0; a < Rule::kArrays; ++a) updated.arrays[a][at] = values[a];
      });
}

// Calls visitor.template operator()<F, T>(name) for every way to combine rows.
template <typename Visitor>
void VisitScatters(const Visitor& visitor) {
  const auto floats = [&]<typename F>(const char* name, F) {
    visitor.template operator()<F, float>(name);
    visitor.template operator()<F, double>(name);
    visitor.template operator()<F, Half>(name);
    visitor.template operator()<F, Bfloat16>(name);
  };
  const auto numbers = [&]<typename F>(const char* name, F f) {
    floats(name, f);
    visitor.template operator()<F, int32_t>(name);
    visitor.template operator()<F, int64_t>(name);
  };
  numbers("ScatterAdd", elementwise::Add());
  numbers("ScatterSub", elementwise::Sub());
  numbers("ScatterMul", elementwise::Mul());
  numbers("ScatterMin", elementwise::Minimum());
  numbers("ScatterMax", elementwise::Maximum());
  floats("ScatterDiv", elementwise::Div());
  VisitSizes([&]<typename T>() { visitor.template operator()<Replace, T>("ScatterUpdate"); });
}

// The optimizers that have an op for rows: visitor.template operator()<Rule, T>(name)
template <typename Visitor>
void VisitRowRules(const Visitor& visitor) {
  VisitRules([&]<typename Rule, typename T>(const char* name) {
    constexpr bool kHasRows = !std::is_same_v<Rule, GradientDescentRule<T>> &&
                              !std::is_same_v<Rule, AdamRule<T>> && !std::is_same_v<Rule, AdaMaxRule<T>>;
    if constexpr (kHasRows) visitor.template operator()<Rule, T>(name);
  });
}

// visitor.template operator()<Key>()
template <typename Visitor>
void VisitKeys(const Visitor& visitor) {
  visitor.template operator()<uint32_t>();
  visitor.template operator()<uint64_t>();
}

// visitor.template operator()<Index>()
template <typename Visitor>
void VisitIndices(const Visitor& visitor) {
  visitor.template operator()<int32_t>();
  visitor.template operator()<int64_t>();
}

}  // namespace weir::cuda
