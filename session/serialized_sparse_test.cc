// Sparse tensors in strings and variants, where steps show what one op alone does not.
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "session/test_op_session.h"

namespace weir {
namespace {

using D = DType;
using ::testing::HasSubstr;

class SerializedSparseTest : public TestOpSession {};

TEST_F(SerializedSparseTest, TooManyDimensionsAreRefused) {
  for (const D kind : {D::kString, D::kVariant}) {
    for (const int64_t rank : {253, 254}) {
      const Output serialized =
          g_.AddOp("SerializeSparse",
                   {Const(Tensor(D::kInt64, Shape({0, rank}))), Const(Tensor(D::kFloat32, Shape({0}))),
                    Const(Tensor(D::kInt64, Shape({rank})))},
                   {{"out_type", kind}});
      const Output rows = g_.AddOp("ExpandDims", {serialized, Const(Tensor::Scalar<int32_t>(0))});
      Node* const sparse = g_.AddNode("DeserializeSparse", {rows}, {{"dtype", D::kFloat32}});
      ASSERT_NE(sparse, nullptr) << g_.status();
      const auto result = RunAnew({sparse->output(0)});
      if (rank == 253) {
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_EQ((*result)[0].shape(), Shape({0, 254}));
      } else {
        EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
        EXPECT_THAT(std::string(result.status().message()), HasSubstr("1 + 254 dimensions; at most 254"));
      }
    }
  }
}

}  // namespace
}  // namespace weir
