#include "kernels/cpu/timely_loop.h"

#include <algorithm>

namespace weir {
namespace {

constexpr double kLongNanoseconds = 20e6;
constexpr double kPieceNanoseconds = 5e6;

}  // namespace

int64_t ItemsBetweenLooks(double cost_per_item) {
  const double most = int64_t{1} << 62;
  return static_cast<int64_t>(std::clamp(kPieceNanoseconds / std::max(cost_per_item, 1e-9), 1.0, most));
}

absl::Status ParallelForInTime(const TimelyThreads& threads, int64_t count, double cost_per_item,
                               absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (static_cast<double>(count) * cost_per_item < kLongNanoseconds) {
    threads.threads().ParallelFor(count, cost_per_item, body);
    return threads.status();
  }
  const int64_t piece = ItemsBetweenLooks(cost_per_item);
  threads.threads().ParallelFor(count, cost_per_item, [&](int64_t begin, int64_t end) {
    while (begin < end && !threads.is_over()) {
      const int64_t size = std::min(piece, end - begin);
      body(begin, begin + size);
      begin += size;
    }
  });
  return threads.status();
}

}  // namespace weir
