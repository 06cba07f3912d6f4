#include "session/executor/program_trace.h"

#include <algorithm>
#include <utility>

#include "graph/fused_name.h"

namespace weir {

void ProgramTrace::Begin(int32_t instruction) {
  absl::MutexLock lock(&mutex_);
  const auto known = std::find(threads_.begin(), threads_.end(), std::this_thread::get_id());
  thread_[instruction] = static_cast<uint32_t>(known - threads_.begin());
  if (known == threads_.end()) threads_.push_back(std::this_thread::get_id());
  began_[instruction] = absl::GetCurrentTimeNanos();
}

void ProgramTrace::End(int32_t instruction) {
  const int64_t now = absl::GetCurrentTimeNanos();
  absl::MutexLock lock(&mutex_);
  if (nodes_.size() >= kMaxNodes) return;
  const absl::string_view op = program_.op_name(instruction);
  nodes_.push_back({.node = std::string(NameBeforeFusion(op, program_.node_name(instruction))),
                    .op = std::string(op),
                    .inputs = program_.InputNodes(instruction),
                    .begin_nanos = began_[instruction],
                    .end_nanos = std::max(now, began_[instruction]),  // the clock may be set back
                    .thread = thread_[instruction]});
}

DeviceStats ProgramTrace::Take() {
  absl::MutexLock lock(&mutex_);
  return {program_.device().name().ToString(), std::exchange(nodes_, {})};
}

}  // namespace weir
