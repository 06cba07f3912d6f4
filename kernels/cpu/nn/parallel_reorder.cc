#include "kernels/cpu/nn/parallel_reorder.h"

#include <algorithm>

#include "absl/synchronization/mutex.h"

namespace weir {
namespace {

// Blocked layouts have at most this many channels in a block.
constexpr int64_t kSlice = 64;
constexpr size_t kBytesWorthCutting = size_t{1} << 18;
constexpr double kBytesPerNanosecond = 4;

}  // namespace

ParallelReorder::ParallelReorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  if (from.get_size() < kBytesWorthCutting || !Cut(from, to)) slices_ = {{from, to, MakeReorder(from, to)}};
  nanoseconds_per_slice_ =
      static_cast<double>(from.get_size()) / kBytesPerNanosecond / static_cast<double>(slices_.size());
}

bool ParallelReorder::Cut(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  const dnnl::memory::dims whole = from.dims();
  try {
    for (int64_t begin = 0; begin < whole[0]; begin += kSlice) {
      dnnl::memory::dims size = whole, offset(whole.size(), 0);
      size[0] = std::min(kSlice, whole[0] - begin);
      offset[0] = begin;
      Slice slice = {from.submemory_desc(size, offset), to.submemory_desc(size, offset), {}};
      slice.reorder = MakeReorder(slice.from, slice.to);
      slices_.push_back(std::move(slice));
    }
  } catch (const dnnl::error&) {
    slices_.clear();
    return false;
  }
  return true;
}

absl::Status ParallelReorder::Run(ThreadPool& threads, const void* from, void* to) const {
  absl::Mutex mutex;
  absl::Status status;
  threads.ParallelFor(static_cast<int64_t>(slices_.size()), nanoseconds_per_slice_,
                      [&](int64_t begin, int64_t end) {
                        absl::Status of_slices = CatchOneDnnErrors([&] {
                          const SingleThreadedOneDnn single_threaded;
                          for (int64_t i = begin; i < end; ++i) {
                            const Slice& slice = slices_[i];
                            dnnl::memory source(slice.from, HostEngine(), const_cast<void*>(from));
                            dnnl::memory target(slice.to, HostEngine(), to);
                            slice.reorder.execute(ThreadStream(), source, target);
                          }
                          return absl::OkStatus();
                        });
                        if (of_slices.ok()) return;
                        absl::MutexLock lock(&mutex);
                        status.Update(std::move(of_slices));
                      });
  return status;
}

}  // namespace weir
