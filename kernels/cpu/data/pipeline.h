// A pipeline of datasets as a graph: its nodes, and the tensors that they are made of. It is read from a
// dataset, rewritten, and made into a dataset again, by the kernels that made the first one.
//
// A dataset without a node (dataset.h) is a tensor among others. Values; safe from any thread. Errors:
// InvalidArgument for graphs that cannot be made into a dataset, and those of the kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/interchange/plain_graph.h"
#include "kernels/cpu/data/dataset.h"

namespace weir {

struct Pipeline {
  // A node's only output, or a tensor.
  struct Input {
    int node = -1;
    int tensor = -1;  // where node is -1
  };
  struct Node {
    std::string op;
    AttrMap attrs;
    std::vector<Input> inputs;
  };

  // Precondition: the dataset has a node.
  static Pipeline Of(const Dataset& dataset);

  Input Add(Tensor tensor) {
    tensors.push_back(std::move(tensor));
    return {-1, static_cast<int>(tensors.size()) - 1};
  }
  Input Add(Node node) {
    nodes.push_back(std::move(node));
    return {static_cast<int>(nodes.size()) - 1, -1};
  }

  // The graph of a function whose arguments are the tensors and whose result is the dataset.
  absl::StatusOr<std::string> Body() const;
  // The graph with the tensors as its constants, which a variant or a handle cannot be: FailedPrecondition.
  // By name, a handle is a node that only says what it is called. ResourceExhausted when they take more than
  // FunctionCaller::kMaxConstantBytes.
  enum class Handles { kRefused, kByName };
  absl::StatusOr<std::vector<PlainNode>> WithConstants(Handles handles = Handles::kRefused) const;

  // `files`: of the session.
  absl::StatusOr<DatasetPtr> Make(IteratorContext& context, const std::shared_ptr<FileSystem>& files) const;

  std::vector<Node> nodes;  // Of gives those before that others are made of
  std::vector<Tensor> tensors;
  Input root;
};

// That of a dataset. FailedPrecondition for one that no node made.
absl::StatusOr<Pipeline> PipelineOf(const DatasetPtr& dataset);
// A number for what the dataset computes (graph_fingerprint.h). Errors: those of PipelineOf and
// Pipeline::WithConstants.
absl::StatusOr<uint64_t> FingerprintOf(const DatasetPtr& dataset,
                                       Pipeline::Handles handles = Pipeline::Handles::kRefused);

// The variant of the dataset that a body makes of the arguments.
absl::StatusOr<Tensor> DatasetOfBody(const std::string& body, std::vector<Tensor> arguments,
                                     IteratorContext& context, const std::shared_ptr<FileSystem>& files);

// What an iterator of the dataset runs: the pipeline with the rewrites that its options ask for
// (pipeline_rewrites.h). One that cannot be rewritten (its attrs or tensors fit in no message) is run as it
// is, as in TensorFlow. InvalidArgument for options that cannot be read, and when an assertion does not hold
// (pipeline_checks.h).
absl::StatusOr<DatasetPtr> Finalized(DatasetPtr dataset, IteratorContext& context,
                                     const std::shared_ptr<FileSystem>& files);

}  // namespace weir
