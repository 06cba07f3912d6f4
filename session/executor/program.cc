#include "session/executor/program.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/fused_name.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"
#include "session/executor/execution_order.h"
#include "session/executor/memory_copies.h"
#include "session/executor/state_order.h"

namespace weir {

namespace {

// Pass their input's tensor on unchanged.
bool IsAlias(const std::string& op) {
  return op == "Identity" || op == "StopGradient" || op == "PlaceholderWithDefault" || op == "LoopCond";
}

// How a node without a kernel runs in a program in which it may be dead; nullopt for nodes that need a
// kernel.
std::optional<Instruction::Kind> FlowKind(const std::string& op) {
  using Kind = Instruction::Kind;
  if (op == "NoOp") return Kind::kKernel;
  if (IsAlias(op)) return Kind::kForward;
  if (op == "Switch") return Kind::kSwitch;
  if (op == "Merge") return Kind::kMerge;
  if (op == "Enter") return Kind::kEnter;
  if (op == "Exit") return Kind::kExit;
  if (op == "NextIteration") return Kind::kNextIteration;
  if (op == "ControlTrigger") return Kind::kTrigger;
  return std::nullopt;
}

// The last reader, or the number of readers, of a slot that is not emptied after its readers.
}  // namespace

bool NeedsNoKernel(const Node& node) {
  const std::string& op = node.op_name();
  return op == kArgOp || op == kRetvalOp || op == "Const" || FlowKind(op).has_value();
}

// Walks the nodes in order once, giving slots and emitting instructions, then finds last uses and successors.
//
// Where something decides what runs, no node vanishes (its deadness would vanish with it), and the slot of a
// NextIteration is given before its Merge is emitted.
class ProgramCompiler {
 public:
  ProgramCompiler(const Graph& graph, Device& device, const KernelRegistry& kernels, SessionState* session)
      : graph_(graph),
        device_(device),
        kernels_(kernels),
        session_(session),
        program_(new Program(device)),
        has_flow_(HasControlFlow(graph)),
        has_own_memory_(device.memory_kind() == MemoryKind::kDevice),
        slots_(graph.num_nodes()),
        comes_after_(graph.num_nodes()),
        num_users_(graph.num_nodes(), 0),
        made_(graph.num_nodes()) {}

  absl::StatusOr<std::unique_ptr<const Program>> Compile() {
    WEIR_ASSIGN_OR_RETURN(std::vector<const Node*> order, BuildOrder(graph_));
    if (has_flow_) WEIR_RETURN_IF_ERROR(PrepareFlow());
    for (const Node* node : order) {
      for (const Output& input : node->inputs()) ++num_users_[input.node->id()];
      for (const Node* before : node->control_inputs()) ++num_users_[before->id()];
    }
    WEIR_RETURN_IF_ERROR(MakeKernels(order));
    order = StartEarly(graph_, std::move(order), [this](const Node& node) { return StartsEarly(node); });
    for (const Node* node : order) WEIR_RETURN_IF_ERROR(Emit(*node));
    program_->num_slots_ = next_slot_;
    program_->slot_writer_.resize(next_slot_, -1);
    FindLastUses();
    if (!has_flow_) AddStateOrder();
    LinkSuccessors();
    FillLoops();
    if (program_->is_static_ && has_own_memory_) MakeRecordingPlan();
    return std::unique_ptr<const Program>(std::move(program_));
  }

 private:
  // What no slot or order replaces.
  bool NeedsKernel(const Node& node) const {
    if (node.op_name() == kArgOp) return IsAwaited(node);
    return node.op_name() == kRetvalOp ? IsLate(node) : !NeedsNoKernel(node);
  }

  // A late argument that nothing reads is not waited for.
  bool IsAwaited(const Node& argument) const { return IsLate(argument) && num_users_[argument.id()] > 0; }

  absl::Status MakeKernels(absl::Span<const Node* const> order) {
    for (const Node* node : order) {
      if (!NeedsKernel(*node)) continue;
      absl::StatusOr<std::unique_ptr<Kernel>> kernel =
          kernels_.CreateOf(IsOnHost(*node) ? "CPU" : device_.type(), *node, device_, session_);
      if (!kernel.ok()) {
        const bool is_named = absl::StrContains(kernel.status().message(), node->name());
        return is_named ? kernel.status()
                        : absl::Status(kernel.status().code(),
                                       absl::StrCat(node->Describe(), ": ", kernel.status().message()));
      }
      made_[node->id()] = *std::move(kernel);
    }
    return absl::OkStatus();
  }

  // It waits, or others wait for it.
  bool StartsEarly(const Node& node) const {
    Kernel* const kernel = made_[node.id()].get();
    if (kernel == nullptr) return false;
    const bool is_awaited = node.op_name() == kSendOp || node.op_name() == kRetvalOp;
    return is_awaited || kernel->AsAsync() != nullptr || kernel->may_block();
  }

  absl::Status PrepareFlow() {
    program_->is_static_ = false;
    WEIR_ASSIGN_OR_RETURN(loops_, FindLoops(graph_));
    for (const auto& node : graph_.nodes()) {
      if (node->op_name() == "NextIteration") NewSlots(*node);
    }
    return absl::OkStatus();
  }

  absl::Status Emit(const Node& node) {
    const std::string& op = node.op_name();
    if ((op == kArgOp || op == kRetvalOp) && IsLate(node)) return EmitLate(node);
    if (op == kArgOp) {
      program_->args_.push_back({NewSlots(node), static_cast<int32_t>(node.attr<int64_t>("index"))});
    } else if (op == kRetvalOp) {
      WEIR_RETURN_IF_ERROR(EmitResult(node));
    } else if (op == "Const") {
      WEIR_RETURN_IF_ERROR(EmitConstant(node));
      if (has_flow_ && !node.control_inputs().empty()) return absl::OkStatus();
    } else if (const auto kind = FlowKind(op); kind && (has_flow_ || *kind == Instruction::Kind::kTrigger)) {
      EmitFlow(node, *kind);
      return absl::OkStatus();
    } else if (IsAlias(op)) {
      slots_[node.id()] = SlotOf(node.input(0));
    } else if (op != "NoOp") {
      EmitKernel(node);
      return absl::OkStatus();
    }
    comes_after_[node.id()] = Predecessors(node);
    JoinIfWide(node);
    return absl::OkStatus();
  }

  absl::Status EmitLate(const Node& node) {
    if (node.op_name() == kRetvalOp) WEIR_RETURN_IF_ERROR(CheckFetch(loops_, node));
    if (NeedsKernel(node)) EmitKernel(node);
    return absl::OkStatus();
  }

  absl::Status EmitResult(const Node& node) {
    const Output& source = node.input(0);
    WEIR_RETURN_IF_ERROR(CheckFetch(loops_, node));
    program_->results_.push_back({SlotOf(source), static_cast<int32_t>(node.attr<int64_t>("index"))});
    program_->result_names_.push_back(UncopiedOutput(source).name());
    program_->before_results_.push_back(has_flow_ ? std::vector<int32_t>() : Predecessors(node));
    return absl::OkStatus();
  }

  absl::Status EmitConstant(const Node& node) {
    Tensor value = node.attr<Tensor>("value");
    if (!IsOnHost(node)) {
      WEIR_ASSIGN_OR_RETURN(value, device_.FromHost(value));
    }
    if (has_flow_ && !node.control_inputs().empty()) {
      const int32_t slot = next_slot_++;
      program_->constants_.emplace_back(slot, std::move(value));
      EmitForward(slot, node);
    } else {
      program_->constants_.emplace_back(NewSlots(node), std::move(value));
    }
    return absl::OkStatus();
  }

  // Output 0 of `node` is what is in `slot`.
  void EmitForward(int32_t slot, const Node& node) {
    Instruction instruction;
    instruction.kind = Instruction::Kind::kForward;
    instruction.first_input = program_->input_slots_.size();
    instruction.num_inputs = 1;
    program_->input_slots_.push_back(slot);
    AddOutputs(&instruction, node);
    Append(instruction, node);
  }

  void EmitFlow(const Node& node, Instruction::Kind kind) {
    // A Merge is told that an input has come by the instruction that wrote it: what is there from the
    // beginning gets one.
    if (kind == Instruction::Kind::kMerge) {
      for (const Output& input : node.inputs()) {
        if (input.node->op_name() != "NextIteration" && comes_after_[input.node->id()].empty()) {
          EmitForward(SlotOf(input), *input.node);
        }
      }
    }
    Instruction instruction;
    instruction.kind = kind;
    AddInputs(&instruction, node);
    AddOutputs(&instruction, node);
    Append(instruction, node);
  }

  void EmitKernel(const Node& node) {
    std::unique_ptr<Kernel> kernel = std::move(made_[node.id()]);
    Instruction instruction;
    instruction.kernel = kernel.get();
    instruction.async = kernel->AsAsync();
    instruction.runs_when_dead = kernel->runs_when_dead();
    instruction.may_block = kernel->may_block();
    if (instruction.may_wait()) program_->is_static_ = false;
    if (!instruction.may_wait()) instruction.update = UpdateKey(node);
    program_->has_updates_ |= instruction.update != 0;
    const ArgumentKinds kinds = KindsOf(node);
    instruction.own_kind = kinds.own;
    AddInputs(&instruction, node);
    AddOutputs(&instruction, node);
    if (has_own_memory_) {
      program_->output_kinds_.resize(program_->output_types_.size(), MemoryKind::kHost);
      std::copy(kinds.outputs.begin(), kinds.outputs.end(),
                program_->output_kinds_.begin() + instruction.first_type);
      for (size_t i = 0; i < kinds.inputs.size(); ++i) {
        if (kinds.inputs[i] != kinds.own)
          lies_elsewhere_.insert(instruction.first_input + static_cast<int>(i));
      }
    }
    program_->kernels_.push_back(std::move(kernel));
    Append(instruction, node);
  }

  bool IsOnHost(const Node& node) const {
    const AttrValue* const attr = has_own_memory_ ? node.FindAttr(kOnHostAttr) : nullptr;
    return attr != nullptr && attr->get<bool>();
  }

  ArgumentKinds KindsOf(const Node& node) const {
    if (!has_own_memory_) return {};
    return IsOnHost(node) ? AllOnHost(node) : kernels_.KindsOf(node, device_.type());
  }

  void AddInputs(Instruction* instruction, const Node& node) {
    instruction->first_input = program_->input_slots_.size();
    instruction->num_inputs = node.num_inputs();
    for (const Output& input : node.inputs()) program_->input_slots_.push_back(SlotOf(input));
  }

  void AddOutputs(Instruction* instruction, const Node& node) {
    instruction->first_type = program_->output_types_.size();
    instruction->num_outputs = node.num_outputs();
    program_->output_types_.insert(program_->output_types_.end(), node.output_types().begin(),
                                   node.output_types().end());
    const bool has_slots = instruction->kind == Instruction::Kind::kNextIteration;
    instruction->first_output = has_slots ? slots_[node.id()] : NewSlots(node);
  }

  void Append(Instruction instruction, const Node& node) {
    const auto index = static_cast<int32_t>(program_->instructions_.size());
    if (has_flow_) instruction.loop = loops_.runs_in[node.id()];
    predecessors_.push_back(Predecessors(node));
    comes_after_[node.id()] = {index};
    if (instruction.num_outputs > 0) {
      program_->slot_writer_.resize(next_slot_, -1);
      std::fill_n(program_->slot_writer_.begin() + instruction.first_output, instruction.num_outputs, index);
    }
    program_->instructions_.push_back(instruction);
    program_->names_.emplace_back(node.op_name(), node.name());
    emitted_.push_back(&node);
  }

  // A vanished node with many predecessors and several users would multiply edges: it stays, as a join.
  void JoinIfWide(const Node& node) {
    if (comes_after_[node.id()].size() > 4 && num_users_[node.id()] > 1) Append(Instruction(), node);
  }

  // The instructions that must have run before the node, through vanished ones. A Merge waits for its control
  // inputs only, and chooses among the others.
  std::vector<int32_t> Predecessors(const Node& node) const {
    std::vector<int32_t> result;
    const auto add = [&](const Node* before) {
      const std::vector<int32_t>& more = comes_after_[before->id()];
      result.insert(result.end(), more.begin(), more.end());
    };
    if (node.op_name() != "Merge") {
      for (const Output& input : node.inputs()) add(input.node);
    }
    for (const Node* before : node.control_inputs()) add(before);
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
  }

  int32_t NewSlots(const Node& node) {
    const int32_t first = next_slot_;
    next_slot_ += node.num_outputs();
    slots_[node.id()] = first;
    return first;
  }

  int32_t SlotOf(const Output& output) const { return slots_[output.node->id()] + output.index; }

  void FindLastUses() {
    Program& program = *program_;
    constexpr int kNever = -1;
    std::vector<int> last_reader(next_slot_, kNever);
    program.slot_readers_.assign(next_slot_, 0);
    for (size_t i = 0; i < program.instructions_.size(); ++i) {
      const Instruction& instruction = program.instructions_[i];
      for (int slot : InputsOf(instruction)) {
        if (last_reader[slot] != static_cast<int>(i)) ++program.slot_readers_[slot];
        last_reader[slot] = i;
      }
    }
    for (Program::Binding& result : program.results_) {
      result.is_constant =
          std::any_of(program.constants_.begin(), program.constants_.end(),
                      [&result](const auto& constant) { return constant.first == result.slot; });
    }
    for (const Program::Binding& result : program.results_) last_reader[result.slot] = Program::kKeptSlot;
    for (const auto& [slot, tensor] : program.constants_) last_reader[slot] = Program::kKeptSlot;
    for (size_t i = 0; i < program.instructions_.size(); ++i) {
      if (IsConstantEnter(*emitted_[i]))
        last_reader[program.instructions_[i].first_output] = Program::kKeptSlot;
    }
    for (int slot = 0; slot < next_slot_; ++slot) {
      if (last_reader[slot] == Program::kKeptSlot) program.slot_readers_[slot] = Program::kKeptSlot;
    }
    program.last_use_ = std::make_unique<bool[]>(program.input_slots_.size());
    program.is_repeated_ = std::make_unique<bool[]>(program.input_slots_.size());
    std::vector<int32_t> times_read(next_slot_, 0);
    for (size_t i = 0; i < program.instructions_.size(); ++i) {
      Instruction& instruction = program.instructions_[i];
      instruction.first_clear = program.clears_.size();
      const absl::Span<const int32_t> inputs = InputsOf(instruction);
      for (const int32_t slot : inputs) ++times_read[slot];
      for (int k = 0; k < instruction.num_inputs; ++k) {
        const int32_t slot = inputs[k];
        // Nor may the buffer become an output where it is in the other memory.
        const bool is_repeated =
            times_read[slot] > 1 || lies_elsewhere_.contains(instruction.first_input + k);
        program.is_repeated_[instruction.first_input + k] = is_repeated;
        if (last_reader[slot] != static_cast<int>(i)) continue;
        program.last_use_[instruction.first_input + k] = !is_repeated;
        program.clears_.push_back(slot);
      }
      for (const int32_t slot : inputs) times_read[slot] = 0;
      for (int slot = instruction.first_output; slot < instruction.first_output + instruction.num_outputs;
           ++slot) {
        if (last_reader[slot] == kNever) program.clears_.push_back(slot);
      }
      instruction.num_clears = program.clears_.size() - instruction.first_clear;
    }
  }

  absl::Span<const int32_t> InputsOf(const Instruction& instruction) const {
    return absl::MakeConstSpan(program_->input_slots_)
        .subspan(instruction.first_input, instruction.num_inputs);
  }

  static bool IsConstantEnter(const Node& node) {
    return node.op_name() == "Enter" && node.attr<bool>("is_constant");
  }

  // After the last uses: a slot's readers are known by then.
  void AddStateOrder() {
    std::vector<StateAccess> accesses;
    for (size_t i = 0; i < program_->instructions_.size(); ++i) {
      const Instruction& at = program_->instructions_[i];
      accesses.push_back({emitted_[i], InputsOf(at), predecessors_[i], at.may_wait()});
    }
    std::optional<std::vector<std::vector<int32_t>>> order = FindStateOrder(accesses, program_->slot_writer_);
    program_->may_overlap_ = order.has_value();
    if (order) state_order_ = *std::move(order);
  }

  void MakeRecordingPlan() {
    std::vector<PlannedInstruction> planned;
    for (size_t i = 0; i < program_->instructions_.size(); ++i) {
      const Instruction& at = program_->instructions_[i];
      const Node& node = *emitted_[i];
      planned.push_back({.node = &node,
                         .kernel = at.kernel,
                         .kinds = at.kernel != nullptr ? KindsOf(node) : ArgumentKinds(),
                         .inputs = InputsOf(at)});
    }
    std::vector<int32_t> arguments;
    for (const Program::Binding& argument : program_->args_) arguments.push_back(argument.slot);
    program_->recording_plan_ = PlanRecording(planned, arguments, next_slot_);
  }

  void LinkSuccessors() {
    Program& program = *program_;
    std::vector<std::vector<Successor>> successors(program.instructions_.size());
    for (int32_t i = 0; i < static_cast<int32_t>(state_order_.size()); ++i) {
      for (const int32_t before : state_order_[i]) {
        if (std::binary_search(predecessors_[i].begin(), predecessors_[i].end(), before)) continue;
        successors[before].push_back({i, /*is_control=*/false, /*is_state_order=*/true});
        ++program.instructions_[i].num_pending;
      }
    }
    for (int32_t i = 0; i < static_cast<int32_t>(predecessors_.size()); ++i) {
      Instruction& instruction = program.instructions_[i];
      const bool is_merge = instruction.kind == Instruction::Kind::kMerge;
      for (int32_t before : predecessors_[i]) {
        successors[before].push_back({i, is_merge, false});
        ++instruction.num_pending;
        instruction.num_pending_later += program.instructions_[before].kind != Instruction::Kind::kEnter;
      }
      if (is_merge) LinkMerge(i, &successors);
    }
    for (size_t i = 0; i < successors.size(); ++i) {
      program.instructions_[i].first_successor = program.successors_.size();
      program.instructions_[i].num_successors = successors[i].size();
      program.successors_.insert(program.successors_.end(), successors[i].begin(), successors[i].end());
    }
  }

  void LinkMerge(int32_t merge, std::vector<std::vector<Successor>>* successors) {
    Instruction& instruction = program_->instructions_[merge];
    for (const int32_t slot : InputsOf(instruction)) {
      const int32_t writer = program_->slot_writer_[slot];
      const Instruction::Kind kind = program_->instructions_[writer].kind;
      instruction.num_arrivals += kind != Instruction::Kind::kNextIteration;
      instruction.num_arrivals_later += kind != Instruction::Kind::kEnter;
      if (kind == Instruction::Kind::kNextIteration) LetReadFirst(merge, writer, successors);
      std::vector<Successor>& of_writer = (*successors)[writer];
      const bool is_known = std::any_of(of_writer.begin(), of_writer.end(), [merge](const Successor& known) {
        return known.instruction == merge && !known.is_control;
      });
      if (!is_known) of_writer.push_back({merge, false, false});
    }
  }

  // What a NextIteration writes is for the next iteration: the Merge must have run in this one. Nothing else
  // says so where the value does not depend on what the Merge gives.
  void LetReadFirst(int32_t merge, int32_t next_iteration, std::vector<std::vector<Successor>>* successors) {
    Instruction& instruction = program_->instructions_[next_iteration];
    (*successors)[merge].push_back({next_iteration, true, false});
    ++instruction.num_pending;
    ++instruction.num_pending_later;
  }

  void FillLoops() {
    Program& program = *program_;
    for (const Loop& loop : loops_.loops) {
      program.loops_.push_back({.name = loop.name, .parent = loop.parent});
      ++NumParts(loop.parent);
    }
    for (size_t i = 0; i < program.instructions_.size(); ++i) {
      const Instruction& instruction = program.instructions_[i];
      ++NumParts(instruction.loop);
      const bool lasts =
          instruction.kind == Instruction::Kind::kNextIteration || IsConstantEnter(*emitted_[i]);
      const int to = has_flow_ ? loops_.gives_to[emitted_[i]->id()] : kNoLoop;
      if (to != kNoLoop) {
        std::vector<int32_t>& slots =
            lasts ? program.loops_[to].lasting_slots : program.loops_[to].passing_slots;
        for (int k = 0; k < instruction.num_outputs; ++k) slots.push_back(instruction.first_output + k);
      }
      if (instruction.loop == kNoLoop) continue;
      ProgramLoop& loop = program.loops_[instruction.loop];
      loop.instructions.push_back(i);
      if (instruction.kind == Instruction::Kind::kExit) loop.exits.push_back(i);
      if (instruction.kind == Instruction::Kind::kMerge && instruction.num_arrivals_later == 0) {
        loop.only_once = i;
      }
      if (instruction.kind != Instruction::Kind::kNextIteration) continue;
      loop.next_iterations.push_back(i);
      if (emitted_[i]->FindAttr(kInLoopAttr) != nullptr) loop.end = i;
    }
  }

  int32_t& NumParts(int loop) {
    return loop == kNoLoop ? program_->num_parts_ : program_->loops_[loop].num_parts;
  }

  const Graph& graph_;
  Device& device_;
  const KernelRegistry& kernels_;
  SessionState* const session_;
  std::unique_ptr<Program> program_;
  const bool has_flow_;
  const bool has_own_memory_;
  Loops loops_;
  std::vector<const Node*> emitted_;               // by instruction
  std::vector<int32_t> slots_;                     // first slot by node id
  std::vector<std::vector<int32_t>> comes_after_;  // instructions that a user of the node must follow
  std::vector<int> num_users_;
  std::vector<std::unique_ptr<Kernel>> made_;       // by node id, until it is emitted
  std::vector<std::vector<int32_t>> predecessors_;  // by instruction
  std::vector<std::vector<int32_t>> state_order_;   // likewise; empty where nothing may overlap
  absl::flat_hash_set<int32_t> lies_elsewhere_;  // of input_slots_: not where the kernel's other tensors are
  int32_t next_slot_ = 0;
};

absl::StatusOr<std::unique_ptr<const Program>> Program::Compile(Graph& graph, Device& device,
                                                                const KernelRegistry& kernels,
                                                                SessionState* session) {
  if (device.memory_kind() == MemoryKind::kDevice) {
    WEIR_RETURN_IF_ERROR(InsertCopies(graph, device.type(), kernels));
  }
  return ProgramCompiler(graph, device, kernels, session).Compile();
}

std::vector<std::string> Program::InputNodes(int instruction) const {
  const Instruction& at = instructions_[instruction];
  std::vector<std::string> names;
  for (int i = 0; i < at.num_inputs; ++i) {
    const int32_t slot = input_slots_[at.first_input + i];
    const int32_t writer = slot < static_cast<int32_t>(slot_writer_.size()) ? slot_writer_[slot] : -1;
    if (writer >= 0) names.emplace_back(NameBeforeFusion(op_name(writer), node_name(writer)));
  }
  return names;
}

absl::Status Program::Annotate(int instruction, const absl::Status& status) const {
  const auto& [op, name] = names_[instruction];
  return ErrorOfNode(op, name, device_.name(), status);
}

}  // namespace weir
