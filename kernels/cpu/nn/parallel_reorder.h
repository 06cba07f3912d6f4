// Changes the layout (and dtype) of a tensor by oneDNN, in slices along its first dimension that run on
// different threads.
//
// Immutable after construction; any number of threads may Run it.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "kernels/cpu/onednn.h"
#include "kernels/thread_pool.h"

namespace weir {

class ParallelReorder {
 public:
  // Throws dnnl::error. A tensor that is small, or whose layout cannot be cut, is one slice.
  ParallelReorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

  // Possible errors: those of CatchOneDnnErrors.
  absl::Status Run(ThreadPool& threads, const void* from, void* to) const;

 private:
  struct Slice {
    dnnl::memory::desc from;
    dnnl::memory::desc to;
    dnnl::reorder reorder;
  };
  bool Cut(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

  std::vector<Slice> slices_;
  double nanoseconds_per_slice_ = 0;
};

}  // namespace weir
