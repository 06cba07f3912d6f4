// Maps of tensors: what their ops refuse without one. session/tensor_maps_test.cc has the rest.
#include <string>
#include <vector>

#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {

void AddTensorMapsRecords(Suite& suite) {
  const char* const elsewhere = "variants: session/tensor_maps_test.cc";
  const Tensor none(DType::kVariant, Shape()), two(DType::kVariant, Shape({2}));
  const AttrMap floats = {{"value_dtype", DType::kFloat32}};
  suite.Op("EmptyTensorMap").TestedElsewhere(elsewhere).CannotFail();
  const auto refuses = [&](const char* op, const std::vector<CaseInput>& others, const AttrMap& attrs = {}) {
    for (const Tensor& map : {none, two}) {
      std::vector<CaseInput> inputs = {map};
      inputs.insert(inputs.end(), others.begin(), others.end());
      suite.Op(op).TestedElsewhere(elsewhere).Hostile(inputs, "must be one TensorMap, is", attrs);
    }
  };
  refuses("TensorMapSize", {});
  refuses("TensorMapInsert", {Int(1), Floats({2})});
  refuses("TensorMapLookup", {Int(1)}, floats);
  refuses("TensorMapErase", {Int(1)}, floats);
  refuses("TensorMapHasKey", {Int(1)});
  refuses("TensorMapStackKeys", {}, {{"key_dtype", DType::kInt32}});
}

}  // namespace weir::conformance
