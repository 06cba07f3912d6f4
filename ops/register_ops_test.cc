// What holds for every registered op.
#include "ops/register_ops.h"

#include "gtest/gtest.h"
#include "ops/schemas/schema_table.h"

namespace weir {
namespace {

TEST(RegisterOpsTest, EveryOpIsTensorFlowsOrSaysThatItIsOurs) {
  ASSERT_GT(StandardOps().ops().size(), 100);
  for (const Op* op : StandardOps().ops()) {
    if (op->name()[0] == '_') continue;  // those that the runtime puts into steps (graph/runtime_ops.h)
    const bool is_ours = op->name().rfind("Weir", 0) == 0;
    EXPECT_NE(SchemaTable::TensorFlow().Contains(op->name()), is_ours) << op->name();
  }
}

TEST(RegisterOpsTest, SchemasComeFromTheTable) {
  const Op* const mat_mul = StandardOps().Find("MatMul");
  ASSERT_NE(mat_mul, nullptr);
  EXPECT_EQ(mat_mul->inputs().size(), 2);
  EXPECT_NE(mat_mul->FindAttr("transpose_b"), nullptr);
  EXPECT_TRUE(StandardOps().Find("Mul")->def().is_commutative);
  EXPECT_TRUE(StandardOps().Find("VarHandleOp")->is_stateful());
}

TEST(RegisterOpsTest, EverySummaryIsASentence) {
  for (const Op* op : StandardOps().ops()) {
    const std::string& summary = op->def().summary;
    EXPECT_TRUE(!summary.empty() && summary.back() == '.') << op->name() << ": " << summary;
  }
}

}  // namespace
}  // namespace weir
