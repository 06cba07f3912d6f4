// Notes when the kernels of a program run, in a step that is traced: the first kMaxNodes of them, for a loop
// may run them without end.
//
// Thread safety: all methods; the instruction that Begin and End name runs once at a time.
#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "graph/interchange/step_stats.h"
#include "session/executor/program.h"

namespace weir {

class ProgramTrace {
 public:
  static constexpr size_t kMaxNodes = size_t{1} << 18;

  explicit ProgramTrace(const Program& program)
      : program_(program), began_(program.instructions().size()), thread_(program.instructions().size()) {}

  // Around a kernel: Begin on the thread that runs or starts it, End where it has ended.
  void Begin(int32_t instruction) ABSL_LOCKS_EXCLUDED(mutex_);
  void End(int32_t instruction) ABSL_LOCKS_EXCLUDED(mutex_);

  // What was noted. Precondition: the program's part of the step is over.
  DeviceStats Take() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const Program& program_;
  absl::Mutex mutex_;
  std::vector<int64_t> began_ ABSL_GUARDED_BY(mutex_);  // by instruction
  std::vector<uint32_t> thread_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread::id> threads_ ABSL_GUARDED_BY(mutex_);  // by their number
  std::vector<NodeStats> nodes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
