#include "kernels/cpu/data/function_parts.h"

#include "gtest/gtest.h"

namespace weir {
namespace {

// The function of `result_type` that is one node of this op.
FunctionParts OneNode(const char* op, DType result_type) {
  FunctionParts parts;
  parts.nodes = {{"node", op, {"x"}, {{"T", DType::kInt64}}}};
  parts.arguments = {"x"};
  parts.argument_types = {DType::kInt64};
  parts.results = {"node"};
  parts.result_types = {result_type};
  return parts;
}

constexpr size_t kMostBytesOfFunction = 700;

// Every name had a prefix for each function behind it: a chain took the square of its length.
TEST(FunctionPartsTest, AChainIsAsLongAsItsParts) {
  const FunctionParts neg = OneNode("Neg", DType::kInt64), is_positive = OneNode("Sign", DType::kBool);
  FunctionParts chain = neg, verdicts = is_positive;
  for (int i = 1; i < 200; ++i) {
    chain = Composed(std::move(chain), neg).value();
    verdicts = Both(std::move(verdicts), is_positive).value();
  }
  EXPECT_EQ(chain.nodes.size(), 200);
  EXPECT_EQ(chain.nodes[199].inputs[0], chain.nodes[198].name);
  EXPECT_LT(chain.Body()->size(), 200 * kMostBytesOfFunction);
  EXPECT_LT(verdicts.Body()->size(), 200 * kMostBytesOfFunction);
  EXPECT_EQ(Followed(std::move(chain), is_positive)->nodes.size(), 201);
}

}  // namespace
}  // namespace weir
