// Ragged tensors as variants.
#include <vector>

#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using Tensors = std::vector<Tensor>;

const char kElsewhere[] = "variants: session/ragged_variants_test.cc";

// A variant that holds nothing.
Tensor NoValue() { return Tensor(DType::kVariant, Shape()); }

}  // namespace

void AddRaggedVariantsRecords(Suite& suite) {
  const AttrMap batched = {{"batched_input", true}}, floats = {{"Tvalues", DType::kFloat32}};
  suite.Op("RaggedTensorToVariant")
      .TestedElsewhere(kElsewhere)
      .Hostile({Tensors{Longs({0, 2, 9})}, Floats({3})}, "Final value of ragged splits", batched)
      .Hostile({Tensors{Longs({0, 2, 1, 3})}, Floats({3})}, "non decreasing", batched);
  suite.Op("RaggedTensorFromVariant")
      .TestedElsewhere(kElsewhere)
      .Hostile({NoValue()}, "doesn't hold a RaggedTensorVariant",
               {{"input_ragged_rank", 1}, {"output_ragged_rank", 1}, {"Tvalues", DType::kFloat32}});
  suite.Op("RaggedTensorToVariantGradient")
      .TestedElsewhere(kElsewhere)
      .Hostile({NoValue(), Longs({0, 2, 3}), Sizes({1})}, "row_splits do not say how many rows", floats)
      .Hostile({NoValue(), Longs({2, 1}), Sizes({1})}, "row_splits do not say how many rows", floats)
      .Hostile({NoValue(), Longs({0, 2}), Sizes({1})}, "more values than dense_values_shape", floats)
      .Hostile({NoValue(), Longs({0, int64_t{1} << 62}), Sizes({1, 4})}, "more values", floats)
      .Hostile({NoValue(), Longs({0, 1}), Sizes({2, 3})}, "fewer values than dense_values_shape", floats);
}

}  // namespace weir::conformance
