// What an op's shape function works with: the inputs' shapes, constant inputs and attrs; it sets the
// outputs'.
//
// Lives during one call, on one thread. Shape functions return errors without naming the node: Graph::AddNode
// adds "OP 'NAME': " in front and the source line behind.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/attr_value.h"
#include "graph/node.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"

namespace weir {

class ShapeInference {
 public:
  static constexpr int64_t kUnknown = PartialShape::kUnknownDim;

  // All borrowed for the time of the call; one shape and resource type per output, initially unknown.
  ShapeInference(const Op& op, const AttrMap& attrs, absl::Span<const Output> inputs, int num_outputs);

  const Op& op() const { return op_; }
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  const PartialShape& input(int index) const { return inputs_[index].shape(); }
  DType input_type(int index) const { return inputs_[index].dtype(); }
  const std::string& input_op(int index) const { return inputs_[index].node->op_name(); }
  // The value of an input that is a constant (also through Identity); nullopt when only a step can tell.
  std::optional<Tensor> input_constant(int index) const;
  // The elements of a constant int32 or int64 input; nullopt when unknown.
  std::optional<std::vector<int64_t>> input_integers(int index) const;
  // The shape that the vector input `index` will hold, as far as it can be known: from a constant, a Shape of
  // a known tensor, or a Pack/ConcatV2/StridedSlice of such. Unknown rank when nothing is known.
  // InvalidArgument for constant dimensions below -1.
  absl::StatusOr<PartialShape> InputAsShape(int index) const;
  const std::optional<ResourceType>& input_resource(int index) const;

  // Precondition: the schema has an attr of that name and type.
  template <typename T>
  const T& attr(absl::string_view name) const {
    return attrs_.find(name)->second.get<T>();
  }
  const AttrMap& attrs() const { return attrs_; }

  void set_output(int index, PartialShape shape) { outputs_[index] = std::move(shape); }
  void set_output_resource(int index, ResourceType type) { resources_[index] = std::move(type); }

  // Building blocks. Errors name the argument by the schema's name and show the shape: "a must have rank 2,
  // is [32]".
  absl::StatusOr<PartialShape> WithRank(int input_index, int rank) const;
  absl::StatusOr<PartialShape> WithRankAtLeast(int input_index, int rank) const;
  absl::StatusOr<int64_t> MergeDims(int64_t a,
                                    int64_t b) const;  // InvalidArgument "dimensions 784 and 785 differ"
  // Numpy broadcasting of two shapes, unknown dims included.
  static absl::StatusOr<PartialShape> Broadcast(const PartialShape& a, const PartialShape& b);
  // The schema's name of the flat input ("a", "values[2]").
  std::string input_name(int index) const;

  // Results, for Graph::AddNode and tests.
  std::vector<PartialShape>& outputs() { return outputs_; }
  std::vector<std::optional<ResourceType>>& resources() { return resources_; }

 private:
  const Op& op_;
  const AttrMap& attrs_;
  absl::Span<const Output> inputs_;
  std::vector<PartialShape> outputs_;
  std::vector<std::optional<ResourceType>> resources_;
};

// Shape functions that many ops share.
absl::Status UnchangedShape(ShapeInference& inference);        // every output has input 0's shape
absl::Status BroadcastBinaryShape(ShapeInference& inference);  // output 0: inputs 0 and 1 broadcast
absl::Status MergedShape(ShapeInference& inference);           // output 0: the merged shape of all inputs
absl::Status ScalarShape(ShapeInference& inference);           // every output is a scalar
absl::Status UnknownShape(ShapeInference& inference);          // nothing can be said before a step
absl::Status NoOutputs(ShapeInference& inference);

// The merged shape of inputs [begin, end). InvalidArgument naming the two that differ.
absl::StatusOr<PartialShape> MergeInputs(ShapeInference& s, int begin, int end);

// Output size and leading padding of a window sliding over one dimension, as TensorFlow defines them
// (tensorflow.org/api_docs/python/tf/nn, "Notes on padding"). kUnknown size stays unknown. InvalidArgument
// when the window does not fit a VALID input or stride or dilation is below 1.
struct WindowExtent {
  int64_t size = 0;
  int64_t padding_before = 0;
  int64_t padding_after = 0;
};
absl::StatusOr<WindowExtent> SlideWindow(int64_t input, int64_t window, int64_t stride, int64_t dilation,
                                         absl::string_view padding, int64_t explicit_before = 0,
                                         int64_t explicit_after = 0);

}  // namespace weir
