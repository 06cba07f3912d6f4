// The memory of a GPU: segments from CUDA, kept and cut into buffers in tens of nanoseconds.
//
// cudaMalloc and cudaFree take from microseconds to milliseconds and make the whole device wait. So freed
// memory is kept; what is freed may be given out again while the work that used it is still to come, which is
// safe for whoever uses it in the order of the compute stream. Memory that another stream uses is kept alive
// by that stream (CudaStream::Keep). The limit is exact: no more is ever taken from CUDA, and an allocation
// fails only when it fits neither into a free piece nor into what the limit leaves when everything unused has
// been given back.
//
// Thread safety: all methods. Buffers, and pools, may outlive the allocator, but not the CudaApi.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/types/allocator.h"
#include "kernels/cuda/cuda_api.h"

namespace weir {

class CachingAllocator final : public Allocator {
 public:
  // `limit`: bytes that may be taken from CUDA; 0 for as many as it gives.
  CachingAllocator(CudaApi& api, int device, int64_t limit = 0);
  // A pool, whose segments are buffers of this one: they count here, within the limit, and come back when
  // neither the pool nor a buffer of it is left. Meanwhile it gives back nothing: captured work finds at its
  // addresses what it has put there, or other work of the pool.
  std::unique_ptr<CachingAllocator> MakePool() const;
  ~CachingAllocator() override;

  // The memory is the device's: the host must not touch it. Null when there is none; Get says why.
  RefPtr<Buffer> Allocate(size_t num_bytes) override;
  // ResourceExhausted names what was asked for, the limit, and the sizes of the biggest buffers; CUDA's other
  // errors as they are.
  absl::StatusOr<RefPtr<Buffer>> Get(size_t num_bytes);

  // In buffers; each counts as a multiple of 512.
  int64_t num_bytes_in_use() const override;
  // Taken from CUDA; of a pool, from its parent.
  int64_t num_bytes_reserved() const;
  int64_t peak_bytes_in_use() const;

  // Gives segments without any buffer back to CUDA.
  absl::Status Trim();

 private:
  class Core;
  class CachedBuffer;
  explicit CachingAllocator(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  const std::shared_ptr<Core> core_;
};

}  // namespace weir
