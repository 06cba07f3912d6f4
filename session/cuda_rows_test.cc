// Slices and rows that indices choose, on recorded GPUs: what gathers and updates give there is what the CPU
// gives, and an index that is out of range is the CPU's error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "session/test_cuda_session.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr char kGpu[] = "device:GPU:0";

using Build = std::function<Output(GraphBuilder& g, Output x, Output indices)>;

class CudaRowsTest : public CudaSessionTest {
 protected:
  // The result of op(x, indices), both of them fed, on the CPU or on a GPU alone.
  absl::StatusOr<Tensor> Compute(bool on_gpu, const Tensor& x, const Tensor& indices, const Build& build) {
    Place place(on_gpu ? Gpus(1) : RuntimeOptions{.num_threads = 1});
    auto scope = place.g.DeviceScope(on_gpu ? "/gpu:0" : "/cpu:0");
    const Output fed = Placeholder(place.g, x.dtype(), PartialShape(x.shape()));
    const Output fed_indices = Placeholder(place.g, indices.dtype(), PartialShape(indices.shape()));
    const Output y = build(place.g, fed, fed_indices);
    api_.ClearLog();
    absl::StatusOr<std::vector<Tensor>> result = place.session().Run({{fed, x}, {fed_indices, indices}}, {y});
    if (!result.ok()) return result.status();
    return std::move((*result)[0]);
  }

  // `kernel`: what must have been launched; it begins with that.
  void Compare(const std::string& kernel, const Tensor& x, const Tensor& indices, const Build& build) {
    const auto expected = Compute(false, x, indices, build);
    const auto found = Compute(true, x, indices, build);
    ASSERT_TRUE(expected.ok() && found.ok()) << expected.status() << found.status();
    EXPECT_EQ(found->shape(), expected->shape());
    EXPECT_EQ(found->ToString(1000), expected->ToString(1000));
    if (!kernel.empty()) EXPECT_THAT(Launches(), Contains(::testing::StartsWith(kernel)));
  }

  void ExpectSameError(const Tensor& x, const Tensor& indices, const Build& build, const std::string& text) {
    for (const bool on_gpu : {false, true}) {
      const absl::Status status = Compute(on_gpu, x, indices, build).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_THAT(status.message(), HasSubstr(text));
      if (on_gpu) EXPECT_THAT(status.message(), HasSubstr(kGpu));
    }
  }

  template <typename T = float>
  static Tensor Counted(const Shape& shape) {
    Tensor tensor(DTypeOf<T>, shape);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.flat<T>()[i] = static_cast<T>(i + 1);
    return tensor;
  }
  // Of [0, limit), each several times where there are enough.
  template <typename T>
  static Tensor Indices(const Shape& shape, int64_t limit) {
    Tensor tensor(DTypeOf<T>, shape);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      tensor.flat<T>()[i] = static_cast<T>((i * 7 + i / 3) % limit);
    }
    return tensor;
  }
};

Build Gather(int axis, int64_t batch_dims = 0) {
  return [=](GraphBuilder& g, Output x, Output indices) {
    return g.AddOp("GatherV2", {x, indices, Const(g, axis)}, {{"batch_dims", batch_dims}});
  };
}

TEST_F(CudaRowsTest, SlicesAlongAnyAxis) {
  const Tensor x = Counted(Shape({4, 3, 5}));
  for (int axis = -3; axis < 3; ++axis) {
    const int64_t limit = x.shape().dim((axis + 3) % 3);
    Compare("Gather_", x, Indices<int32_t>(Shape({7}), limit), Gather(axis));
    Compare("Gather_", x, Indices<int64_t>(Shape({2, 3}), limit), Gather(axis));
    Compare("Gather_", x, Indices<int64_t>(Shape(), limit), Gather(axis));
  }
}

TEST_F(CudaRowsTest, BatchesOfIndicesChooseInBatches) {
  const Tensor x = Counted(Shape({2, 3, 4, 5}));
  Compare("Gather_", x, Indices<int32_t>(Shape({2, 7}), 3), Gather(1, 1));
  Compare("Gather_", x, Indices<int32_t>(Shape({2, 7}), 4), Gather(2, 1));
  Compare("Gather_", x, Indices<int64_t>(Shape({2, 3, 2, 2}), 4), Gather(2, 2));
  Compare("Gather_", x, Indices<int64_t>(Shape({2, 3}), 5), Gather(3, -1));
}

// A word is as large as slices and addresses allow.
TEST_F(CudaRowsTest, ElementsOfAnySizeAreCopied) {
  const Tensor indices = Indices<int32_t>(Shape({6}), 4);
  Compare("Gather_uint64_int32", Counted<int64_t>(Shape({4, 3})), indices, Gather(0));
  Compare("Gather_uint64_int32", Counted<float>(Shape({4, 2})), indices, Gather(0));
  Compare("Gather_uint32_int32", Counted<float>(Shape({4, 3})), indices, Gather(0));
  Compare("Gather_uint16_int32", Counted<int16_t>(Shape({4, 3})), indices, Gather(0));
  Compare("Gather_uint8_int32", Counted<uint8_t>(Shape({4, 3})), indices, Gather(0));
}

TEST_F(CudaRowsTest, NothingMayBeChosen) {
  Compare("", Counted(Shape({4, 3})), Indices<int32_t>(Shape({0}), 1), Gather(0));
  Compare("", Counted(Shape({4, 0})), Indices<int32_t>(Shape({3}), 4), Gather(0));
  Compare("", Counted(Shape({0, 3})), Indices<int32_t>(Shape({0, 2}), 1), Gather(0));
}

TEST_F(CudaRowsTest, AnIndexOutOfRangeIsTheCpusError) {
  const Tensor x = Counted(Shape({2, 3}));
  ExpectSameError(x, Tensor::Vector<int32_t>({0, 1, 2, -1}), Gather(0), "indices[2] = 2 is not in [0, 2)");
  ExpectSameError(x, Tensor::Vector<int64_t>({0, -5}), Gather(1), "indices[1] = -5 is not in [0, 3)");
  ExpectSameError(x, Tensor::Vector<int64_t>({int64_t{1} << 32}), Gather(0),
                  "indices[0] = 4294967296 is not in [0, 2)");
  ExpectSameError(Counted(Shape({0, 2})), Tensor::Vector<int32_t>({0}), Gather(0),
                  "indices[0] = 0 is not in [0, 0)");
}

// Rows of a variable.
Build GatherFromVariable(int64_t batch_dims = 0) {
  return [=](GraphBuilder& g, Output x, Output indices) {
    const Output handle = g.AddOp("VarHandleOp", {}, {{"dtype", x.dtype()}, {"shape", x.shape()}});
    Node* const assign = g.AddNode("AssignVariableOp", {handle, x});
    const auto after = g.ControlScope({assign});
    return g.AddOp("ResourceGather", {handle, indices}, {{"dtype", x.dtype()}, {"batch_dims", batch_dims}});
  };
}

TEST_F(CudaRowsTest, RowsOfAVariable) {
  const Tensor x = Counted(Shape({4, 3, 5}));
  Compare("Gather_", x, Indices<int32_t>(Shape({7}), 4), GatherFromVariable());
  Compare("Gather_", x, Indices<int64_t>(Shape({2, 3}), 4), GatherFromVariable());
  Compare("Gather_", x, Indices<int64_t>(Shape({4, 6}), 3), GatherFromVariable(1));
  Compare("Gather_", Counted(Shape({4})), Indices<int32_t>(Shape({7}), 4), GatherFromVariable());
  ExpectSameError(x, Tensor::Vector<int32_t>({3, 4}), GatherFromVariable(),
                  "indices[1] = 4 is not in [0, 4)");
}

}  // namespace
}  // namespace weir
