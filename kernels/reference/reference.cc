#include "kernels/reference/reference.h"

namespace weir::reference {

std::vector<Tensor> Evaluate(const Reference& reference, const Node& node, absl::Span<const Tensor> inputs) {
  Call call{node, {}, std::vector<Array>(node.num_outputs())};
  for (const Tensor& input : inputs) call.inputs.push_back(Array::FromTensor(input));
  reference(call);
  std::vector<Tensor> outputs;
  for (int i = 0; i < node.num_outputs(); ++i) {
    outputs.push_back(call.outputs[i].ToTensor(node.output_type(i)));
  }
  return outputs;
}

}  // namespace weir::reference
