#include "kernels/cpu/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/with_dtype.h"

namespace weir {
namespace {

// As WithElementType, and variants.
template <typename F>
void WithCopyableType(DType dtype, F&& f) {
  if (dtype == DType::kVariant) return f(TypeTag<ResourceHandle>());
  WithElementType(dtype, std::forward<F>(f));
}

// The loops after dimensions of size 1 are dropped and those that are one in both views are merged.
struct CopyLoops {
  Dims sizes;
  Dims source_strides;
  Dims target_strides;
};

CopyLoops MergeLoops(absl::Span<const int64_t> dims, const Dims& source, const Dims& target) {
  CopyLoops loops;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    if (!loops.sizes.empty() && loops.source_strides.back() == source[i] * dims[i] &&
        loops.target_strides.back() == target[i] * dims[i]) {
      loops.sizes.back() *= dims[i];
      loops.source_strides.back() = source[i];
      loops.target_strides.back() = target[i];
      continue;
    }
    loops.sizes.push_back(dims[i]);
    loops.source_strides.push_back(source[i]);
    loops.target_strides.push_back(target[i]);
  }
  // Two loops at least, so that there is always an inner plane.
  while (loops.sizes.size() < 2) {
    const bool empty = loops.sizes.empty();
    loops.sizes.insert(loops.sizes.begin(), 1);
    loops.source_strides.insert(loops.source_strides.begin(), empty ? 1 : 0);
    loops.target_strides.insert(loops.target_strides.begin(), empty ? 1 : 0);
  }
  return loops;
}

template <typename T>
void CopyRow(const T* source, int64_t source_stride, T* target, int64_t target_stride, int64_t n) {
  if (target_stride == 1 && source_stride == 1) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      if (n * sizeof(T) > 64) {
        std::memcpy(target, source, n * sizeof(T));
        return;
      }
    }
    for (int64_t i = 0; i < n; ++i) target[i] = source[i];
  } else if (target_stride == 1 && source_stride == 0) {
    std::fill_n(target, n, *source);
  } else {
    for (int64_t i = 0; i < n; ++i) target[i * target_stride] = source[i * source_stride];
  }
}

// Rows [begin, end) of `bytes` contiguous bytes each. A size known to the compiler makes a copy a few moves.
template <size_t bytes, typename T>
void CopyShortRows(const T* source, int64_t source_step, T* target, int64_t target_step, int64_t begin,
                   int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    std::memcpy(target + i * target_step, source + i * source_step, bytes);
}

// Rows [begin, end) of the two innermost loops. Where the source runs down columns, small squares keep both
// sides in the cache.
template <typename T>
void CopyPlane(const T* source, T* target, const CopyLoops& loops, int64_t begin, int64_t end) {
  const size_t inner = loops.sizes.size() - 1;
  const int64_t rows_source = loops.source_strides[inner - 1], rows_target = loops.target_strides[inner - 1];
  const int64_t source_stride = loops.source_strides[inner], target_stride = loops.target_strides[inner];
  const int64_t n = loops.sizes[inner];
  if constexpr (std::is_trivially_copyable_v<T>) {
    const bool is_contiguous = source_stride == 1 && target_stride == 1;
    const int64_t bytes = n * static_cast<int64_t>(sizeof(T));
    if (is_contiguous && bytes == 64) {
      return CopyShortRows<64>(source, rows_source, target, rows_target, begin, end);
    }
    if (is_contiguous && bytes == 32) {
      return CopyShortRows<32>(source, rows_source, target, rows_target, begin, end);
    }
  }
  const bool turned =
      std::abs(source_stride) > 8 && std::abs(rows_source) < std::abs(source_stride) && rows_source != 0;
  if (!turned) {
    for (int64_t i = begin; i < end; ++i) {
      CopyRow(source + i * rows_source, source_stride, target + i * rows_target, target_stride, n);
    }
    return;
  }
  constexpr int64_t kSquare = 16;
  for (int64_t i0 = begin; i0 < end; i0 += kSquare) {
    const int64_t i1 = std::min(i0 + kSquare, end);
    for (int64_t j0 = 0; j0 < n; j0 += kSquare) {
      const int64_t j1 = std::min(j0 + kSquare, n);
      for (int64_t i = i0; i < i1; ++i) {
        const T* from = source + i * rows_source;
        T* to = target + i * rows_target;
        for (int64_t j = j0; j < j1; ++j) to[j * target_stride] = from[j * source_stride];
      }
    }
  }
}

// Rows [begin, end) counted over all loops but the innermost.
template <typename T>
void CopyRows(const T* source, T* target, const CopyLoops& loops, int64_t begin, int64_t end) {
  const int outer = static_cast<int>(loops.sizes.size()) - 2;
  const int64_t plane_rows = loops.sizes[outer];
  for (int64_t row = begin; row < end;) {
    const int64_t first = row % plane_rows;
    const int64_t last = std::min(plane_rows, first + end - row);
    const T* from = source;
    T* to = target;
    int64_t plane = row / plane_rows;
    for (int i = outer - 1; i >= 0; --i) {
      const int64_t index = plane % loops.sizes[i];
      plane /= loops.sizes[i];
      from += index * loops.source_strides[i];
      to += index * loops.target_strides[i];
    }
    CopyPlane(from, to, loops, first, last);
    row += last - first;
  }
}

}  // namespace

Dims RowMajorStrides(absl::Span<const int64_t> dims) {
  Dims strides(dims.size(), 1);
  for (int i = static_cast<int>(dims.size()) - 2; i >= 0; --i) strides[i] = strides[i + 1] * dims[i + 1];
  return strides;
}

void StridedCopy(absl::Span<const int64_t> dims, const Tensor& source, const StridedView& source_view,
                 Tensor& target, const StridedView& target_view, ThreadPool& threads) {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end())
    return;  // first: the others' product may overflow then
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  const CopyLoops loops = MergeLoops(dims, source_view.strides, target_view.strides);
  const int64_t row_size = loops.sizes.back();
  WithCopyableType(source.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* from = static_cast<const T*>(source.data()) + source_view.offset;
    T* to = static_cast<T*>(target.data()) + target_view.offset;
    const double cost = std::is_trivially_copyable_v<T> ? 0.1 * sizeof(T) : 20;
    if (count * cost < 5000) return CopyRows(from, to, loops, 0, count / row_size);
    threads.ParallelFor(count / row_size, cost * row_size,
                        [&](int64_t begin, int64_t end) { CopyRows(from, to, loops, begin, end); });
  });
}

void FillElements(const Tensor& value, Tensor& target, int64_t offset, int64_t count) {
  WithCopyableType(value.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    std::fill_n(static_cast<T*>(target.data()) + offset, count, *static_cast<const T*>(value.data()));
  });
}

void ClearElements(Tensor& target, int64_t offset, int64_t count) {
  WithCopyableType(target.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* begin = static_cast<T*>(target.data()) + offset;
    if constexpr (std::is_trivially_copyable_v<T>) {
      if (count > 0) std::memset(static_cast<void*>(begin), 0, count * sizeof(T));
    } else {
      std::fill_n(begin, count, T());
    }
  });
}

void CopyElements(const Tensor& source, int64_t source_offset, Tensor& target, int64_t target_offset,
                  int64_t count) {
  if (count == 0) return;
  WithCopyableType(source.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* from = static_cast<const T*>(source.data()) + source_offset;
    T* to = static_cast<T*>(target.data()) + target_offset;
    if constexpr (std::is_trivially_copyable_v<T>) {
      std::memcpy(static_cast<void*>(to), from, count * sizeof(T));
    } else {
      std::copy_n(from, count, to);
    }
  });
}

}  // namespace weir
