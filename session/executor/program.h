// One device's part of a step, compiled: dense arrays that an executor walks without names, hashing or
// allocation.
//
// Made once per plan, then shared read-only by all its steps. Tensors of a step live in the slots of a
// ProgramFrame: every output of a kept node has a slot, every argument and constant too. Nodes that compute
// nothing vanish: a NoOp leaves only its order, an Identity's output is its input's slot, a Const is a tensor
// in its slot before the step begins.
//
// A program with conditionals or loops (v1 control flow) keeps those nodes, as instructions of their own
// kinds. A loop is a set of instructions that runs again: its iterations follow one another, in the same
// slots.
//
// Memory kinds: arguments come in the host's memory and results go there, whatever the device's is. On a
// device with memory of its own copies are instructions like others.
//
// Memory plan: a slot is emptied right after its last reader, so its buffer is free for that reader's output
// (in place) or, through the caching allocator, for the next kernel of that size. A slot that the reader has
// twice among its inputs is emptied too, but the reader may not overwrite its buffer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/graph.h"
#include "graph/loops.h"
#include "kernels/device.h"
#include "kernels/kernel_registry.h"
#include "kernels/memory_kind.h"
#include "kernels/node_error.h"
#include "session/executor/recording_plan.h"
#include "session/executor/update_ledger.h"

namespace weir {

struct Instruction {
  enum class Kind : uint8_t {
    kKernel,   // or, without one, joins control edges
    kForward,  // Identity, or a Const that runs after something: input 0 becomes output 0
    kSwitch,
    kMerge,
    kEnter,
    kExit,           // its successors run when the loop is over
    kNextIteration,  // its successors run in the loop's next iteration
    kTrigger,        // runs, alive, also when what it runs after is dead
  };
  Kind kind = Kind::kKernel;
  bool runs_when_dead = false;  // the kernel wants to
  int32_t loop = kNoLoop;       // of Program::loops
  Kernel* kernel = nullptr;
  AsyncKernel* async = nullptr;
  bool may_block = false;                     // the kernel needs a thread that may wait
  MemoryKind own_kind = MemoryKind::kDevice;  // of what the kernel allocates beside its outputs
  uint64_t update = 0;      // UpdateKey of what a step that is tried again must not do twice
  int32_t first_input = 0;  // into Program::input_slots and last_use
  int32_t num_inputs = 0;
  int32_t first_output = 0;  // slot
  int32_t num_outputs = 0;
  int32_t first_type = 0;   // into Program::output_types
  int32_t first_clear = 0;  // into Program::clears: slots to empty after this instruction (static order)
  int32_t num_clears = 0;
  int32_t first_successor = 0;  // into Program::successors (dataflow order)
  int32_t num_successors = 0;
  // Predecessors; of a Merge, those of control edges only.
  int32_t num_pending = 0;
  int32_t num_pending_later = 0;  // the same in iterations after the first: Enters do not run again
  // Of a Merge: inputs that come, alive or dead, in the first iteration and in later ones.
  int32_t num_arrivals = 0;
  int32_t num_arrivals_later = 0;

  bool may_wait() const { return async != nullptr || may_block; }
};

struct Successor {
  int32_t instruction = 0;
  bool is_control = false;      // told apart for Merge only
  bool is_state_order = false;  // not an edge of the graph (state_order.h): hands on no deadness
};

// A loop of the program (graph/loops.h). Its own instructions and slots only, not those of loops inside.
struct ProgramLoop {
  static constexpr int32_t kNone = -1;

  std::string name;
  int32_t parent = kNoLoop;
  std::vector<int32_t> instructions;
  std::vector<int32_t> exits;            // among them
  std::vector<int32_t> next_iterations;  // among them
  int32_t end = kNone;                   // the one that the partitioner added; kNone in most loops
  int32_t only_once = kNone;             // a Merge to which nothing leads in later iterations; kNone in most
  std::vector<int32_t> passing_slots;    // emptied after each iteration
  std::vector<int32_t> lasting_slots;    // of constant Enters and NextIterations
  int32_t num_parts = 0;  // what must be over before an iteration is: instructions, and loops directly inside
};

class Program {
 public:
  // `graph`: every node on `device`, arguments and results numbered within the worker's part. It gets copies
  // where the device has memory of its own (memory_copies.h). Instructions
  // stand in an order in which they may run one after another; receives first and sends as early as possible.
  // `session` is what kernels share with those of other plans; borrowed for this call.
  // Possible errors: NotFound (no kernel), whatever a kernel's constructor finds wrong, InvalidArgument (a
  // cycle, a loop that FindLoops refuses, a fetch from inside of one).
  static absl::StatusOr<std::unique_ptr<const Program>> Compile(Graph& graph, Device& device,
                                                                const KernelRegistry& kernels,
                                                                SessionState* session = nullptr);

  // True when all kernels are synchronous and nothing decides what runs: then a StaticSchedule runs it.
  bool is_static() const { return is_static_; }

  // Whether kernels may run beside one another, as far as the order of state goes: the edges that keep it are
  // among the successors. Not so for programs with conditionals or loops.
  bool may_overlap() const { return may_overlap_; }

  struct Binding {
    int32_t slot;
    int32_t index;             // of the argument or result
    bool is_constant = false;  // a result that is a constant: its slot stays filled
  };
  Device& device() const { return device_; }
  absl::Span<const Instruction> instructions() const { return instructions_; }
  const int32_t* input_slots() const { return input_slots_.data(); }
  const bool* last_use() const { return last_use_.get(); }  // in the static order
  // By position, as input_slots: whether the slot stands there more than once among the instruction's inputs.
  const bool* is_repeated() const { return is_repeated_.get(); }
  const DType* output_types() const { return output_types_.data(); }
  // By position, as output_types. Null on a device whose memory is the host's.
  const MemoryKind* output_kinds(const Instruction& at) const {
    return output_kinds_.empty() ? nullptr : output_kinds_.data() + at.first_type;
  }
  const int32_t* clears() const { return clears_.data(); }
  const Successor* successors() const { return successors_.data(); }
  absl::Span<const ProgramLoop> loops() const { return loops_; }
  bool has_updates() const { return has_updates_; }
  // Null for a program that cannot be recorded, and on devices whose memory is the host's.
  const RecordingPlan* recording_plan() const {
    return recording_plan_.parts.empty() || !recording_plan_.why_not.empty() ? nullptr : &recording_plan_;
  }
  // Instructions and loops outside of all loops.
  int num_parts() const { return num_parts_; }
  // The Merge's inputs that the instruction gives it.
  bool Gives(int32_t instruction, int32_t slot) const { return slot_writer_[slot] == instruction; }
  absl::Span<const Binding> args() const { return args_; }
  absl::Span<const Binding> results() const { return results_; }
  absl::Span<const std::pair<int32_t, Tensor>> constants() const { return constants_; }
  // How many instructions read each slot. kKeptSlot of a constant, which loops read any number of times, and
  // of a result.
  static constexpr int32_t kKeptSlot = 1 << 30;
  absl::Span<const int32_t> slot_readers() const { return slot_readers_; }
  int num_slots() const { return num_slots_; }

  // "MatMul 'dense/mm' on /job:...: " in front of a kernel's error; the node's name also as payload
  // kNodePayload.
  absl::Status Annotate(int instruction, const absl::Status& status) const;
  const std::string& node_name(int instruction) const { return names_[instruction].second; }
  const std::string& op_name(int instruction) const { return names_[instruction].first; }
  // Names of the nodes whose outputs it reads, without arguments and constants.
  std::vector<std::string> InputNodes(int instruction) const;
  // "dense/mm:0": what was fetched as the i-th of results().
  const std::string& result_name(int i) const { return result_names_[i]; }
  // The instructions without which a result is dead although its slot is not: its node has vanished, and what
  // another device has sent it is dead. Empty in a program with control flow of its own, where no node
  // vanishes.
  absl::Span<const int32_t> before_result(int i) const { return before_results_[i]; }

 private:
  friend class ProgramCompiler;
  explicit Program(Device& device) : device_(device) {}

  Device& device_;
  bool is_static_ = true;
  bool may_overlap_ = false;
  bool has_updates_ = false;
  int32_t num_slots_ = 0;
  std::vector<Instruction> instructions_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<std::pair<std::string, std::string>> names_;  // op and node
  std::vector<int32_t> input_slots_;
  std::unique_ptr<bool[]> last_use_;
  std::unique_ptr<bool[]> is_repeated_;
  std::vector<DType> output_types_;
  std::vector<MemoryKind> output_kinds_;
  std::vector<int32_t> clears_;
  std::vector<Successor> successors_;
  std::vector<ProgramLoop> loops_;
  int32_t num_parts_ = 0;
  std::vector<int32_t> slot_writer_;  // by slot; -1 for arguments and constants
  std::vector<Binding> args_;
  std::vector<Binding> results_;
  std::vector<std::string> result_names_;
  std::vector<std::vector<int32_t>> before_results_;
  std::vector<std::pair<int32_t, Tensor>> constants_;
  std::vector<int32_t> slot_readers_;
  RecordingPlan recording_plan_;
};

// True for the nodes that a program turns into slots and order, or runs itself (_Arg, _Retval, Const,
// Identity, NoOp, Switch...): every kind of device can run them.
bool NeedsNoKernel(const Node& node);

// What one step of one program has: its tensors, and which updates were applied before if it may be tried
// again. Reused by later steps. Not thread safe.
class ProgramFrame {
 public:
  explicit ProgramFrame(const Program& program) : slots(program.num_slots()) {
    for (const auto& [slot, tensor] : program.constants()) slots[slot] = tensor;
  }
  std::vector<Tensor> slots;
  UpdateLedger::Attempt* updates = nullptr;  // of a step that may be tried again
};

// Runs the instruction's synchronous kernel; an update that an earlier attempt of the step has applied does
// nothing.
inline absl::Status ComputeOnce(const Instruction& at, KernelContext& context,
                                UpdateLedger::Attempt* updates) {
  if (at.update == 0 || updates == nullptr) return at.kernel->Compute(context);
  return updates->Apply(at.update, /*repeats=*/at.loop != kNoLoop,
                        [&] { return at.kernel->Compute(context); });
}

}  // namespace weir
