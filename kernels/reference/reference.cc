#include "kernels/reference/reference.h"

#include "absl/strings/str_cat.h"
#include "kernels/reference/array.h"

namespace weir::reference {
namespace {

const References& AllReferences() {
  static const References* const all = [] {
    auto* references = new References;
    AddArrayReferences(*references);
    AddMathReferences(*references);
    AddNnReferences(*references);
    return references;
  }();
  return *all;
}

}  // namespace

bool HasReference(absl::string_view op) { return AllReferences().find(op) != AllReferences().end(); }

absl::StatusOr<std::vector<Tensor>> Evaluate(const Node& node, absl::Span<const Tensor> inputs) {
  auto found = AllReferences().find(node.op_name());
  if (found == AllReferences().end())
    return absl::NotFoundError(absl::StrCat("no reference for ", node.op_name()));
  Call call{node, {}, std::vector<Array>(node.num_outputs())};
  for (const Tensor& input : inputs) call.inputs.push_back(Array::FromTensor(input));
  found->second(call);
  std::vector<Tensor> outputs;
  for (int i = 0; i < node.num_outputs(); ++i)
    outputs.push_back(call.outputs[i].ToTensor(node.output_type(i)));
  return outputs;
}

}  // namespace weir::reference
