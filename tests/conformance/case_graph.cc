#include "tests/conformance/case_graph.h"

#include <utility>

namespace weir::conformance {

std::vector<Tensor> FlatInputs(const OpCase& test) {
  std::vector<Tensor> flat;
  for (const CaseInput& input : test.inputs)
    flat.insert(flat.end(), input.tensors.begin(), input.tensors.end());
  return flat;
}

Node* AddCase(GraphBuilder& g, const OpCase& test, const MakeInput& make) {
  std::vector<InputArg> args;
  int i = 0;
  for (const CaseInput& input : test.inputs) {
    std::vector<Output> outputs;
    for (const Tensor& tensor : input.tensors) outputs.push_back(make(i++, tensor));
    if (input.is_list)
      args.push_back(InputArg(outputs));
    else
      args.push_back(InputArg(outputs[0]));
  }
  return g.AddNode(test.op, std::move(args), test.attrs, "tested");
}

}  // namespace weir::conformance
