// Which part of a static program a device records (kernels/recorder.h), and what is done anew in each step.
//
// A recording is repeated with what the host knew when it was made. So the host may know nothing but what
// follows from the shapes of the arguments and from constants: no kernel may need what is fed in the host's
// memory, and none may keep something there from step to step, as the counters of random numbers. A copy to
// the host that a node waits for makes a program that is not static.
//
// Pure functions. Thread safety: none needed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/node.h"
#include "kernels/kernel.h"
#include "kernels/memory_kind.h"

namespace weir {

struct RecordingPlan {
  enum class Part : uint8_t {
    kFeed,      // copies an argument to the device
    kRecorded,  // enqueues work, or computes what every step with these shapes computes
    kFetch,     // copies a result to the host
  };
  std::string why_not;      // empty: the program can be recorded
  std::vector<Part> parts;  // by instruction
};

// An instruction, as the compiler of programs knows it.
struct PlannedInstruction {
  const Node* node = nullptr;
  const Kernel* kernel = nullptr;  // null where order is all that is left of the node
  ArgumentKinds kinds;
  absl::Span<const int32_t> inputs;  // slots
};

// `arguments`: slots of the program's num_slots.
RecordingPlan PlanRecording(absl::Span<const PlannedInstruction> instructions,
                            absl::Span<const int32_t> arguments, int num_slots);

}  // namespace weir
