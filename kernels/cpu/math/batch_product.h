// Products of many matrices of one shape.
#pragma once

#include <cstdint>
#include <type_traits>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "kernels/cpu/math/matrix_product.h"
#include "kernels/cpu/timely_loop.h"
#include "kernels/thread_pool.h"

namespace weir {

template <typename T>
absl::Status MultiplyMatrices(const TimelyThreads& threads, const ProductShape& shape, const T* a, const T* b,
                              T* c) {
  if constexpr (std::is_same_v<T, float>) {
    return MultiplyFloat(threads, shape, a, b, c);
  } else if constexpr (std::is_same_v<T, double>) {
    return MultiplyDouble(threads, shape, a, b, c);
  } else {
    return MultiplyPlain(threads, shape, a, b, c);
  }
}

// Which matrix of an operand belongs to a product.
using MatrixOf = absl::FunctionRef<int64_t(int64_t product)>;

// Product i is of the matrices a_of(i) and b_of(i), and goes to matrix i of c; matrices lie one behind
// another. Threads share one product if there are few of them or they are large, else each takes some.
template <typename T>
absl::Status MultiplyBatches(const TimelyThreads& threads, const ProductShape& shape, int64_t products,
                             MatrixOf a_of, MatrixOf b_of, const T* a, const T* b, T* c) {
  const int64_t a_size = shape.m * shape.k, b_size = shape.k * shape.n, c_size = shape.m * shape.n;
  const auto multiply = [&](const TimelyThreads& pool, int64_t i) {
    return MultiplyMatrices<T>(pool, shape, a + a_of(i) * a_size, b + b_of(i) * b_size, c + i * c_size);
  };
  const double operations =
      2.0 * static_cast<double>(c_size) * static_cast<double>(shape.k < 1 ? 1 : shape.k);
  constexpr double kLarge = 1e7, kOperationsPerNanosecond = 10;
  if (products < threads.threads().num_threads() || operations > kLarge) {
    for (int64_t i = 0; i < products; ++i) {
      const absl::Status status = multiply(threads, i);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::Mutex mutex;
  absl::Status first_error;
  threads.threads().ParallelFor(products, operations / kOperationsPerNanosecond,
                                [&](int64_t begin, int64_t end) {
                                  ThreadPool one(1);
                                  const TimelyThreads alone(one, threads.cancellation());
                                  for (int64_t i = begin; i < end; ++i) {
                                    const absl::Status status = multiply(alone, i);
                                    if (status.ok()) continue;
                                    absl::MutexLock lock(&mutex);
                                    first_error.Update(status);
                                    return;
                                  }
                                });
  return first_error;
}

}  // namespace weir
