// Sums of products by an equation.
#include <map>
#include <string>
#include <vector>

#include "graph/einsum_equation.h"
#include "tests/conformance/dtypes.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using List = std::vector<int64_t>;

// The definition: for all values of all labels, the product of the inputs' elements there is added to the
// output's element there.
void Einsum(reference::Call& call) {
  const EinsumEquation equation = EinsumEquation::Parse(call.text("equation")).value();
  std::vector<AxisLabels> labels;
  std::map<int, int64_t> sizes;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    labels.push_back(
        EinsumEquation::LabelsOf(equation.inputs()[i], call.in(static_cast<int>(i)).rank()).value());
    for (size_t axis = 0; axis < labels[i].size(); ++axis) {
      int64_t& size = sizes.try_emplace(labels[i][axis], 1).first->second;
      if (call.inputs[i].dims()[axis] != 1) size = call.inputs[i].dims()[axis];
    }
  }
  const AxisLabels output = equation.OutputLabels(labels).value();
  Index dims, all;
  for (const int label : output) dims.push_back(sizes.at(label));
  for (const auto& [label, size] : sizes) all.push_back(size);
  call.outputs[0] = Array(dims);
  const Array space(all);
  for (int64_t point = 0; point < space.size(); ++point) {
    std::map<int, int64_t> values;
    const Index index = space.IndexOf(point);
    size_t k = 0;
    for (const auto& [label, size] : sizes) values[label] = index[k++];
    const auto place = [&](const AxisLabels& own, const Index& own_dims) {
      Index at;
      for (size_t axis = 0; axis < own.size(); ++axis)
        at.push_back(own_dims[axis] == 1 ? 0 : values.at(own[axis]));
      return at;
    };
    Number product = 1;
    for (size_t i = 0; i < labels.size(); ++i) {
      product *= call.inputs[i].at(place(labels[i], call.inputs[i].dims())).number;
    }
    Value& sum = call.outputs[0].at(place(output, dims));
    sum = sum.number + product;
  }
}

}  // namespace

void AddEinsumRecords(Suite& suite) {
  OpRecord& record = suite.Op("Einsum").Reference(Einsum).Tolerance(1e-5);
  const auto f = [](List dims, int seed = 1) {
    return Sample(DType::kFloat32, std::move(dims), -1, 1, seed);
  };
  const auto add = [&](const char* equation, std::vector<List> shapes) {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < shapes.size(); ++i) inputs.push_back(f(shapes[i], static_cast<int>(i) + 1));
    record.Call({inputs}, {{"equation", equation}});
  };
  add("ij,jk->ik", {{2, 3}, {3, 4}});
  add("ji,kj->ki", {{2, 3}, {4, 2}});
  add("ij,kj->ik", {{2, 3}, {4, 3}});
  add("bij,bjk->bik", {{2, 3, 4}, {2, 4, 2}});
  add("bqhd,bkhd->bhqk", {{2, 3, 2, 4}, {2, 5, 2, 4}});  // attention
  add("bhqk,bkhd->bqhd", {{2, 2, 3, 5}, {2, 5, 2, 4}});
  add("i,j->ij", {{2}, {3}});
  add("i,i->", {{4}, {4}});
  add("ij,ij->", {{2, 3}, {2, 3}});
  add("ij,kl->ijkl", {{2, 3}, {2, 2}});
  add("ijk,jl->il", {{2, 3, 2}, {3, 4}});  // k is summed in its own input
  add(",ij->ij", {{}, {2, 3}});
  add("ij->ji", {{2, 3}});
  add("ij->i", {{2, 3}});
  add("ij->", {{2, 3}});
  add("->", {{}});
  add("ii->i", {{3, 3}});
  add("ii->", {{3, 3}});
  add("i->ii", {{3}});
  add("iij,jk->ki", {{2, 2, 3}, {3, 4}});
  add("ij,jk->iik", {{2, 3}, {3, 2}});
  add("...ij,...jk->...ik", {{2, 2, 3}, {2, 3, 2}});
  add("...ij,...jk->...ik", {{3, 1, 2, 3}, {2, 3, 2}});
  add("...ij,jk->...ik", {{2, 2, 3}, {3, 2}});
  add("ij,...j->...i", {{2, 3}, {2, 2, 3}});
  add("i...,...j->ij...", {{2, 3}, {3, 4}});
  add("...,...->...", {{2, 3}, {3}});
  add("...,->...", {{2, 3}, {}});
  add("i...->...i", {{2, 3, 4}});
  add("...ii->...i", {{2, 3, 3}});
  add("...i->...", {{2, 3}});
  add("ij,jk->ik", {{2, 0}, {0, 4}});
  add("ij,jk->ik", {{0, 3}, {3, 4}});
  add("bij,bjk->bik", {{1, 1, 1}, {1, 1, 1}});
  for (DType d : {DType::kFloat64, DType::kHalf, DType::kBfloat16, DType::kInt32, DType::kInt64,
                  DType::kComplex64, DType::kComplex128}) {
    const double tolerance = d == DType::kHalf ? 5e-3 : d == DType::kBfloat16 ? 4e-2 : 1e-5;
    record.Tolerance(tolerance).Call(
        {std::vector<Tensor>{Sample(d, {2, 3}, -2, 2), Sample(d, {3, 4}, -2, 2, 2)}},
        {{"equation", "ij,jk->ki"}});
    record.Call({std::vector<Tensor>{Sample(d, {2, 3}, -2, 2)}}, {{"equation", "ij->j"}});
  }
  using Tensors = std::vector<Tensor>;
  const auto hostile = [&](const char* equation, Tensors inputs, const char* error) {
    record.Hostile({std::move(inputs)}, error, {{"equation", equation}});
  };
  hostile("ij,jk->ik", {f({2, 3}), f({4, 4})}, "dimension");
  hostile("ij->ji", {f({2, 3, 4})}, "does not fit a tensor of rank 3");
  hostile("ijk->ji", {f({2, 3})}, "does not fit a tensor of rank 2");
  hostile("ii->i", {f({2, 3})}, "dimension");
  hostile("...ij,...jk->...ik", {f({2, 2, 3}), f({3, 3, 2})}, "dimension");
  hostile("...i->i", {f({2, 3})}, "the output 'i' has none");
  const int64_t wide = int64_t{1} << 40;
  hostile("ij,jk->ik", {Tensor(DType::kFloat32, Shape({wide, 0})), Tensor(DType::kFloat32, Shape({0, wide}))},
          "no shape has the dimensions");
  record.NoKernelFor("T",
                     {DType::kInt8, DType::kInt16, DType::kUint8, DType::kUint16, DType::kUint32,
                      DType::kUint64, DType::kBool, DType::kString},
                     "TensorFlow has none either");
}

}  // namespace weir::conformance
