// What kernels that take matrices one by one share: batches of them, worked on in double by several threads.
//
// Thread safety: functions; ForEachMatrix splits its work among the context's threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/math/broadcast_batch.h"
#include "kernels/kernel_context.h"
#include "kernels/thread_pool.h"

namespace weir {

inline constexpr double kMatrixCost = 0.5;  // nanoseconds of a multiplication and an addition on one core

// double, or a complex number of two.
template <typename T>
using WideOf =
    std::conditional_t<std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>,
                       std::complex<double>, double>;

template <typename T>
T NarrowedTo(double x) {
  return static_cast<T>(x);
}
template <typename T>
T NarrowedTo(std::complex<double> x) {
  using Part = decltype(T().real());
  return T(static_cast<Part>(x.real()), static_cast<Part>(x.imag()));
}
inline double Conjugate(double x) { return x; }
inline std::complex<double> Conjugate(std::complex<double> x) { return std::conj(x); }
inline bool IsFinite(double x) { return std::isfinite(x); }
inline bool IsFinite(std::complex<double> x) { return std::isfinite(x.real()) && std::isfinite(x.imag()); }

inline absl::Status CheckRank(const Tensor& tensor, int index) {
  if (tensor.shape().rank() >= 2) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Input tensor ", index, " must have rank >= 2, got ", tensor.shape().rank()));
}

inline int64_t RowsOf(const Shape& shape) { return shape.dim(shape.rank() - 2); }
inline int64_t ColumnsOf(const Shape& shape) { return shape.dim(shape.rank() - 1); }

// Output `index`, of the batch of `shape` and these last dimensions.
inline absl::StatusOr<Tensor*> AllocateBatch(KernelContext& context, int index, const Shape& shape,
                                             std::initializer_list<int64_t> inner) {
  Dims dims(shape.dims().begin(), shape.dims().end() - 2);
  dims.insert(dims.end(), inner);
  WEIR_ASSIGN_OR_RETURN(const Shape output, Shape::FromDims(dims));
  return context.AllocateOutput(index, output);
}

// Outputs that were not asked for are there, and 0.
inline absl::Status AllocateUnwanted(KernelContext& context, int index) {
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(index, Shape({})));
  std::fill_n(static_cast<char*>(output->data()), DTypeSize(output->dtype()), 0);
  return absl::OkStatus();
}

// Calls compute(i, room) for each matrix of a batch, on several threads, each with `room` numbers of its own.
// The error of the first matrix that has one; Cancelled when the step is.
template <typename Wide>
absl::Status ForEachMatrix(KernelContext& context, int64_t count, double cost, int64_t room,
                           absl::FunctionRef<absl::Status(int64_t, Wide*)> compute) {
  const int64_t parts = std::min<int64_t>(count, context.threads().num_threads());
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({parts, room}));
  WEIR_ASSIGN_OR_RETURN(Tensor rooms, context.AllocateTemporary(DTypeOf<Wide>, shape));
  absl::Mutex mutex;
  int64_t first = count;
  absl::Status failure;
  const double part_cost =
      cost * static_cast<double>(count) / static_cast<double>(std::max<int64_t>(parts, 1));
  context.threads().ParallelFor(parts, part_cost, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      for (int64_t i = part; i < count && !context.cancellation().is_cancelled(); i += parts) {
        absl::Status status = compute(i, rooms.flat<Wide>().data() + part * room);
        if (status.ok()) continue;
        const absl::MutexLock lock(&mutex);
        if (i >= first) continue;
        first = i;
        failure = std::move(status);
      }
    }
  });
  if (context.cancellation().is_cancelled()) return absl::CancelledError("the step was cancelled");
  return failure;
}

inline double CostOf(int64_t a, int64_t b, int64_t c) {
  return kMatrixCost * static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

// The sum of the numbers of elements of what a matrix needs; ResourceExhausted when there are no such
// numbers.
inline absl::StatusOr<int64_t> RoomOf(std::initializer_list<std::pair<int64_t, int64_t>> parts) {
  __int128 sum = 0;
  for (const auto& [rows, columns] : parts) sum += static_cast<__int128>(rows) * columns;
  if (sum > std::numeric_limits<int64_t>::max() / 64)
    return absl::ResourceExhaustedError("the matrices are too large");
  return static_cast<int64_t>(sum);
}

// The rows of square matrices. InvalidArgument where input 0 is none.
inline absl::StatusOr<int64_t> SquareRows(const KernelContext& context) {
  WEIR_RETURN_IF_ERROR(CheckRank(context.input(0), 0));
  const Shape& shape = context.input(0).shape();
  if (RowsOf(shape) == ColumnsOf(shape)) return RowsOf(shape);
  return absl::InvalidArgumentError(absl::StrCat("Input matrix must be square. It is ", shape.ToString()));
}

}  // namespace weir
