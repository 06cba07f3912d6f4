#include "kernels/evaluate.h"

#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "graph/types/status_macros.h"
#include "kernels/kernel.h"
#include "kernels/memory_kind.h"

namespace weir {
namespace {

absl::Status WithNode(const Node& node, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(node.Describe(), ": ", status.message()));
}

absl::Status CheckInputs(const Node& node, absl::Span<const Tensor> inputs) {
  if (static_cast<int>(inputs.size()) != node.num_inputs()) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", node.num_inputs(), " inputs, was given ", inputs.size(), " tensors"));
  }
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (inputs[i].dtype() == node.input_type(i)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("input ", i, " must be ", DTypeName(node.input_type(i)), ", is ", inputs[i].ToString()));
  }
  return absl::OkStatus();
}

absl::Status RunKernel(Kernel& kernel, KernelContext& context) {
  AsyncKernel* async = kernel.AsAsync();
  if (async == nullptr) return kernel.Compute(context);
  absl::Notification done;
  absl::Status result;
  async->ComputeAsync(context, [&](absl::Status status) {
    result = std::move(status);
    done.Notify();
  });
  done.WaitForNotification();
  return result;
}

// `kinds`: where the kernel's arguments are; null on a device whose memory is the host's.
absl::StatusOr<std::vector<Tensor>> RunNode(const Node& node, absl::Span<const Tensor> inputs, Device& device,
                                            Kernel& kernel, const ArgumentKinds* kinds,
                                            Cancellation& cancellation) {
  WEIR_RETURN_IF_ERROR(CheckInputs(node, inputs));

  const int num_inputs = node.num_inputs();
  std::vector<Tensor> slots(inputs.begin(), inputs.end());
  slots.resize(num_inputs + node.num_outputs());
  std::vector<int32_t> input_slots(num_inputs);
  for (int i = 0; i < num_inputs; ++i) input_slots[i] = i;
  const auto last_use = std::make_unique<bool[]>(num_inputs + 1);  // all false: nothing runs in place

  StepContext step;
  step.cancellation = &cancellation;
  KernelContext context(step, device, slots.data(), input_slots.data(), last_use.get(), num_inputs,
                        num_inputs, node.output_types().data(), node.num_outputs(),
                        kinds != nullptr ? kinds->outputs.data() : nullptr,
                        kinds != nullptr ? kinds->own : MemoryKind::kDevice);
  WEIR_RETURN_IF_ERROR(RunKernel(kernel, context));
  return std::vector<Tensor>(std::make_move_iterator(slots.begin() + num_inputs),
                             std::make_move_iterator(slots.end()));
}

// The nodes that `outputs` need, inputs first.
class Order {
 public:
  explicit Order(const absl::flat_hash_map<Output, Tensor>& feeds) : feeds_(feeds) {}

  absl::Status Add(Node* root) {
    std::vector<std::pair<Node*, int>> path = {
        {root, 0}};  // a node and how many of its predecessors were visited
    if (!Enter(root)) return absl::OkStatus();
    while (!path.empty()) {
      Node* node = path.back().first;
      const std::vector<Node*> before = Predecessors(*node);
      if (path.back().second == static_cast<int>(before.size())) {
        state_[node] = State::kDone;
        nodes_.push_back(node);
        path.pop_back();
        continue;
      }
      Node* next = before[path.back().second++];
      if (Enter(next)) {
        path.push_back({next, 0});
      } else if (state_[next] == State::kOnPath) {
        return absl::InvalidArgumentError(absl::StrCat(next->Describe(), ": is part of a cycle"));
      }
    }
    return absl::OkStatus();
  }

  const std::vector<Node*>& nodes() const { return nodes_; }

 private:
  enum class State { kNew, kOnPath, kDone };

  bool Enter(Node* node) {
    State& state = state_[node];
    if (state != State::kNew) return false;
    state = State::kOnPath;
    return true;
  }

  std::vector<Node*> Predecessors(const Node& node) const {
    std::vector<Node*> result;
    for (const Output& input : node.inputs()) {
      if (!feeds_.contains(input)) result.push_back(input.node);
    }
    result.insert(result.end(), node.control_inputs().begin(), node.control_inputs().end());
    return result;
  }

  const absl::flat_hash_map<Output, Tensor>& feeds_;
  absl::flat_hash_map<Node*, State> state_;
  std::vector<Node*> nodes_;
};

}  // namespace

absl::StatusOr<std::vector<Tensor>> EvaluateNode(const Node& node, absl::Span<const Tensor> inputs,
                                                 Device& device, const KernelRegistry& kernels) {
  Cancellation never;
  return EvaluateNode(node, inputs, device, kernels, nullptr, never);
}

absl::StatusOr<std::vector<Tensor>> EvaluateNode(const Node& node, absl::Span<const Tensor> inputs,
                                                 Device& device, const KernelRegistry& kernels,
                                                 SessionState* session, Cancellation& cancellation) {
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel,
                        kernels.Create(node, device, session));  // errors name the node
  std::optional<ArgumentKinds> kinds;
  if (device.memory_kind() == MemoryKind::kDevice) kinds = kernels.KindsOf(node, device.type());
  absl::StatusOr<std::vector<Tensor>> outputs =
      RunNode(node, inputs, device, *kernel, kinds ? &*kinds : nullptr, cancellation);
  if (!outputs.ok()) return WithNode(node, outputs.status());
  return outputs;
}

absl::StatusOr<std::vector<Tensor>> EvaluateGraph(absl::Span<const Output> outputs,
                                                  absl::Span<const std::pair<Output, Tensor>> feeds,
                                                  Device& device, const KernelRegistry& kernels) {
  absl::flat_hash_map<Output, Tensor> values(feeds.begin(), feeds.end());
  const absl::flat_hash_map<Output, Tensor> fed = values;
  Order order(fed);
  for (const Output& output : outputs) {
    if (!fed.contains(output)) WEIR_RETURN_IF_ERROR(order.Add(output.node));
  }
  for (Node* node : order.nodes()) {
    std::vector<Tensor> inputs;
    for (const Output& input : node->inputs()) inputs.push_back(values.at(input));
    WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> results, EvaluateNode(*node, inputs, device, kernels));
    for (int i = 0; i < node->num_outputs(); ++i) values.try_emplace(node->output(i), std::move(results[i]));
  }
  std::vector<Tensor> fetched;
  for (const Output& output : outputs) fetched.push_back(values.at(output));
  return fetched;
}

}  // namespace weir
