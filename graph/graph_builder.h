// Builds a graph: op functions (ops/*.h) take a GraphBuilder first and add one node each.
//
//   GraphBuilder g(StandardOps());
//   Output x = Placeholder(g, DType::kFloat32, {-1, 784});
//   Output y = MatMul(g, x, w);
//   if (!g.ok()) return g.status();
//
// Errors are sticky: the first one is kept with op, shapes and source line. All calls after it do nothing and
// return null outputs, so a model is checked once, at its end. A scope ends when the object that it returned
// is destroyed; scopes nest. Thread safety: one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "graph/graph.h"

namespace weir {

// Chooses the device of a new node from what its author asked for by scopes; the result replaces that
// request. replica_device_setter and its like (placer/device_setter.h).
using DeviceSetter = std::function<absl::StatusOr<DeviceName>(const Node& node, const DeviceName& requested)>;

// What every op function takes last: the node's name below the current scope ("" = the op's name).
struct NodeOptions {
  absl::string_view name = "";
};

class GraphBuilder {
 public:
  explicit GraphBuilder(const OpRegistry& ops, DeviceSetter device_setter = nullptr);
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  // Keeps the first error. `where` is appended when it is not already part of it.
  void SetError(absl::Status status, SourceLocation where = SourceLocation::Current());

  Graph& graph() { return *graph_; }
  const Graph& graph() const { return *graph_; }
  // Hands the finished graph over, or the first error. The builder must not be used afterwards.
  absl::StatusOr<std::unique_ptr<Graph>> Finish();

  // Adds a node of any registered op. Null on error (also earlier ones). Attrs that inputs determine and
  // attrs with defaults may be left out. An empty name takes the op's.
  Node* AddNode(absl::string_view op, std::vector<InputArg> inputs, AttrMap attrs = {},
                absl::string_view name = "", SourceLocation where = SourceLocation::Current());
  // The same for an op with one output.
  Output AddOp(absl::string_view op, std::vector<InputArg> inputs, AttrMap attrs = {},
               absl::string_view name = "", SourceLocation where = SourceLocation::Current());

  // Ends its scope when destroyed; scopes end in the reverse order of their beginning.
  class [[nodiscard]] Scope {
   public:
    explicit Scope(std::function<void()> end) : end_(std::move(end)) {}
    Scope(Scope&& other) noexcept : end_(std::exchange(other.end_, nullptr)) {}
    Scope& operator=(Scope&&) = delete;
    ~Scope() {
      if (end_) end_();
    }

   private:
    std::function<void()> end_;
  };
  // New nodes are named "scope/...". The scope's name is made unique as TensorFlow does it; "" leaves all
  // name scopes.
  Scope NameScope(absl::string_view name);
  // New nodes ask for this device. Partial names are merged with the outer scope's, and the inner one wins;
  // "" clears it.
  Scope DeviceScope(absl::string_view device);
  // New nodes run after these, and after those of the outer scopes.
  Scope ControlScope(std::vector<Node*> before);
  // New nodes depend on none of the outer scopes' nodes.
  Scope ClearControlScope();
  // New nodes share this node's device.
  Scope ColocationScope(Node* with);

  // A node name that is free, below the current name scope: "dense/mm", "dense/mm_1"... As TensorFlow's, also
  // unlike all others when case does not count; nodes that an import added are counted too.
  std::string UniqueName(absl::string_view name);
  // Without the scope: "dense" or "dense_1".
  const std::string& name_scope() const { return name_scope_; }

  // TensorFlow's seed of the graph: with one, every random op draws the same numbers in every run of the
  // program.
  void set_random_seed(int64_t seed) { random_seed_ = seed; }
  // The attrs seed and seed2 of a new random op, as TensorFlow chooses them: (graph's seed, op's seed or the
  // number of such ops before), (a constant, op's seed) without a graph's seed, (0, 0) for "random" without
  // either.
  struct RandomSeeds {
    int64_t seed = 0;
    int64_t seed2 = 0;
  };
  RandomSeeds NextRandomSeeds(std::optional<int64_t> op_seed = std::nullopt);

 private:
  std::string UniqueFullName(const std::string& full);
  // Also of those that were not added through this builder.
  void NoteNamesOfNodes();

  std::unique_ptr<Graph> graph_;
  absl::Status status_;
  DeviceSetter device_setter_;
  std::string name_scope_;
  DeviceName device_;
  std::vector<Node*> control_;
  Node* colocate_with_ = nullptr;
  std::optional<int64_t> random_seed_;
  int64_t num_random_ops_ = 0;
  absl::flat_hash_map<std::string, int> name_counts_;  // how often each was asked for, in lower case
  int num_noted_ = 0;                                  // nodes whose names are counted
};

// The node as a control dependency or target; null stays null.
inline Node* NodeOf(const Output& output) { return output.node; }

}  // namespace weir
