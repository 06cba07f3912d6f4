// What a device that computes late takes down once, and does again as one: the work that a program's kernels
// enqueue. CUDA calls it a graph. A device that can offers Recordable beside Device.
//
// While a thread records, what its kernels enqueue on the device does not happen, and the memory that they
// take comes from the recorder's pool. All recordings of a recorder share that pool: one is launched after
// another, and what a kernel has given back another recording may use. Variables must stay where they are,
// so updates that cannot be made in place are refused.
//
// A recording has the addresses of its recording: of variables, of constants, of what it reads and gives.
// Whoever launches it must know that they are still those.
//
// Thread safety: none; a recorder and its recordings are used by one thread at a time, and recording begins
// and ends on one thread. The device outlives the recorder, and it its recordings.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/types/tensor.h"
#include "kernels/pending_work.h"

namespace weir {

class Recording {
 public:
  virtual ~Recording() = default;

  // Kernels, copies and fills.
  virtual int num_pieces() const = 0;
  // What it gives, in the order of Recorder::End, in the device's memory: as the last launch leaves it.
  // Whoever holds a copy keeps the recorder's recordings from being launched.
  virtual absl::Span<const Tensor> given() const = 0;

  // Whether nobody looks any more at what earlier launches of the recorder's recordings have left: at what
  // they gave, or at what they found wrong with data.
  virtual bool is_free() = 0;
  // Ok, or what an earlier step, which nobody has waited for, has found wrong with data.
  virtual absl::Status EarlierError() = 0;
  // Puts the elements of `host` where `staging` is, for what is launched from now on. Both have one type, and
  // `host` may change as soon as this returns.
  virtual absl::Status Feed(const Tensor& host, const Tensor& staging) = 0;
  // Enqueues all of it for a step. Precondition: is_free.
  virtual absl::Status Launch(const PendingWork& step) = 0;
};

class Recorder {
 public:
  virtual ~Recorder() = default;

  // The calling thread records from now on. Gives what its kernels take for their step's pending work.
  virtual absl::StatusOr<PendingWork*> Begin() = 0;
  // The recording. `given`: tensors that are read after each launch. Does not record any more, also after an
  // error.
  virtual absl::StatusOr<std::unique_ptr<Recording>> End(const std::vector<Tensor>& given) = 0;
  // In the place of End: nothing comes of it.
  virtual void GiveUp() = 0;
};

class Recordable {
 public:
  virtual ~Recordable() = default;

  virtual std::unique_ptr<Recorder> NewRecorder() = 0;
  // Whether this thread's kernels are being recorded on the device. What they enqueue may happen never or
  // often: they must not give a variable other memory.
  virtual bool is_recording() const = 0;
};

// A kernel that is one, too, is never recorded: what it does depends on more than shapes and what is in the
// device's memory, or is more than to enqueue work.
class NotRecorded {
 protected:
  ~NotRecorded() = default;
};

}  // namespace weir
