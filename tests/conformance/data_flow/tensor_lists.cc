// Lists of tensors and optionals: what their ops refuse without one. session/tensor_lists_test.cc has the
// rest.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using D = DType;
const char kElsewhere[] = "variants: session/tensor_lists_test.cc, tests/interop";

Tensor NoValue() { return Tensor(D::kVariant, Shape()); }

struct ListOp {
  std::string op;
  std::vector<CaseInput> others;  // behind the list
  bool has_type = true;
};

void AddListOps(Suite& suite) {
  const Tensor shape = Sizes({2});
  const std::vector<ListOp> ops = {
      {"TensorListPushBack", {Floats({2})}},
      {"TensorListPopBack", {shape}},
      {"TensorListSetItem", {Int(0), Floats({2})}},
      {"TensorListGetItem", {Int(0), shape}},
      {"TensorListStack", {shape}},
      {"TensorListGather", {Sizes({0}), shape}},
      {"TensorListLength", {}, false},
      {"TensorListResize", {Int(2)}, false},
      {"TensorListScatterIntoExistingList", {Floats({1, 2}), Sizes({0})}},
      {"TensorListConcatV2", {shape, Tensor::Vector<int64_t>({1})}},
  };
  for (const ListOp& each : ops) {
    std::vector<CaseInput> inputs = {NoValue()};
    inputs.insert(inputs.end(), each.others.begin(), each.others.end());
    AttrMap attrs;
    if (each.has_type) attrs["element_dtype"] = D::kFloat32;
    suite.Op(each.op).TestedElsewhere(kElsewhere).Hostile(inputs, "must be one TensorList, is", attrs);
  }
  const AttrMap floats = {{"element_dtype", D::kFloat32}};
  const Tensor lists(D::kVariant, Shape({2}));
  suite.Op("TensorListPushBackBatch")
      .TestedElsewhere(kElsewhere)
      .Hostile({lists, Floats({2, 3})}, "Input handle at index 0 is not a list", floats)
      .Hostile({lists, Floats({})}, "Expected tensor to be at least a vector, but saw shape: []", floats)
      .Hostile({NoValue(), Floats({1})}, "Expected input_handles to be a vector, but saw shape: []", floats)
      .Hostile({lists, Floats({1, 3})}, "Expected tensor.shape[0] == input_handles.size, but saw 1 vs. 2",
               floats);
  suite.Op("TensorListConcatLists")
      .TestedElsewhere(kElsewhere)
      .Hostile({NoValue(), NoValue()}, "Input handle at index 0 is not a list", floats)
      .Hostile({lists, NoValue()}, "Incompatible input TensorList tensor shapes: [2] vs. []", floats);
  suite.Op("TensorListElementShape")
      .TestedElsewhere(kElsewhere)
      .Hostile({NoValue()}, "must be one TensorList, is", {{"shape_type", D::kInt64}});
}

void AddMakers(Suite& suite) {
  const AttrMap floats = {{"element_dtype", D::kFloat32}};
  const Tensor shape = Sizes({2});
  for (const char* op : {"EmptyTensorList", "TensorListReserve"}) {
    suite.Op(op)
        .TestedElsewhere(kElsewhere)
        .Hostile({Sizes({-2}), Int(1)}, "-2", floats)
        .Hostile({Int(3), Int(1)}, "The only valid scalar shape", floats)
        .Hostile({Make(D::kInt32, {1, 1}, {2}), Int(1)}, "element_shape must be a vector", floats)
        .Hostile({shape, Sizes({1, 2})}, "elements", floats);
  }
  suite.Op("TensorListReserve")
      .Hostile({shape, Int(-1)}, "a length of at least 0", floats)
      .Hostile({shape, Int(kHuge)}, "a list of 2147483647 elements", floats,
               absl::StatusCode::kResourceExhausted);
  suite.Op("TensorListFromTensor")
      .TestedElsewhere(kElsewhere)
      .Hostile({Floats({}), shape}, "at least a vector", floats)
      .Hostile({Floats({2, 3}), shape}, "incompatible shape", floats);
  suite.Op("TensorListScatter")
      .TestedElsewhere(kElsewhere)
      .Hostile({Floats({1, 2}), Sizes({-1}), shape}, "must all be non-negative", floats)
      .Hostile({Floats({1, 2}), Sizes({1, 2}), shape}, "Specified 2 indices", floats)
      .Hostile({Floats({1, 2}), Sizes({kHuge}), shape}, "a list of 2147483648 elements", floats,
               absl::StatusCode::kResourceExhausted);
  suite.Op("TensorListScatterV2")
      .TestedElsewhere(kElsewhere)
      .Hostile({Floats({1, 2}), Sizes({3}), shape, Int(2)}, "index 3 in a list of num_elements 2", floats)
      .Hostile({Floats({1, 2}), Sizes({0}), shape, Int(-2)}, "num_elements -2", floats);
  suite.Op("TensorListSplit")
      .TestedElsewhere(kElsewhere)
      .Hostile({Floats({3, 2}), Sizes({-1, 2}), Tensor::Vector<int64_t>({1, 3})}, "Attempting to slice",
               floats)
      .Hostile({Floats({3, 2}), Sizes({-1, 2}), Tensor::Vector<int64_t>({1, kLongest})},
               "Attempting to slice", floats)
      .Hostile({Floats({3, 2}), Sizes({-1, 2}), Tensor::Vector<int64_t>({1})}, "Unused values", floats)
      .Hostile({Floats({}), Sizes({-1, 2}), Tensor::Vector<int64_t>({1})}, "at least a vector", floats);
}

void AddOptionals(Suite& suite) {
  suite.Op("OptionalFromValue").TestedElsewhere(kElsewhere).CannotFail();
  suite.Op("OptionalNone").TestedElsewhere(kElsewhere).CannotFail();
  suite.Op("OptionalHasValue").TestedElsewhere(kElsewhere).Hostile({NoValue()}, "must be one Optional, is");
  suite.Op("OptionalGetValue")
      .TestedElsewhere(kElsewhere)
      .Hostile({NoValue()}, "must be one Optional, is",
               {{"output_types", std::vector<DType>{D::kFloat32}},
                {"output_shapes", std::vector<PartialShape>{PartialShape()}}})
      .Hostile({NoValue()}, "output_shapes has 2 shapes for 1",
               {{"output_types", std::vector<DType>{D::kFloat32}},
                {"output_shapes", std::vector<PartialShape>{PartialShape(), PartialShape()}}});
}

}  // namespace

void AddTensorListsRecords(Suite& suite) {
  AddListOps(suite);
  AddMakers(suite);
  AddOptionals(suite);
}

}  // namespace weir::conformance
