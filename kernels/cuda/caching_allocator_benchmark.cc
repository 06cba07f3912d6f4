// What a buffer costs: nanoseconds of a processor for an allocation and its end, on the recording CUDA. The
// best of several rounds, for other programs take the caches.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <random>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "kernels/cuda/caching_allocator.h"
#include "kernels/cuda/recording_cuda_api.h"

namespace weir {
namespace {

constexpr int kRounds = 10;
constexpr int kPairs = 200000;

double ProcessorNanoseconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

template <typename Body>
void Measure(const char* name, const Body& body) {
  double best = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = ProcessorNanoseconds();
    for (int i = 0; i < kPairs; ++i) body(i);
    best = std::min(best, ProcessorNanoseconds() - begin);
  }
  std::printf("%-60s %6.1f ns\n", name, best / kPairs);
}

void Run() {
  // As every Runtime does.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  RecordingCudaApi api({.memory = int64_t{64} << 30});
  CachingAllocator allocator(api, 0);
  Measure("one size, given back at once", [&](int) { allocator.Allocate(4096); });

  std::mt19937 random(1);
  std::vector<size_t> sizes(4096);
  for (size_t& size : sizes) size = random() % (size_t{1} << (9 + random() % 15)) + 1;
  std::vector<RefPtr<Buffer>> live(1000);
  Measure("random sizes below 16 MiB, 1,000 alive, the oldest goes", [&](int i) {
    RefPtr<Buffer>& place = live[i % live.size()];
    place = nullptr;
    place = allocator.Allocate(sizes[i % sizes.size()]);
  });
  Measure("random sizes below 16 MiB, 1,000 alive, any goes", [&](int i) {
    RefPtr<Buffer>& place = live[sizes[(i * 7) % sizes.size()] % live.size()];
    place = nullptr;
    place = allocator.Allocate(sizes[i % sizes.size()]);
  });
  std::printf("calls of cudaMalloc: %d\n", static_cast<int>(api.num_calls("cudaMalloc")));
}

}  // namespace
}  // namespace weir

int main() { weir::Run(); }
