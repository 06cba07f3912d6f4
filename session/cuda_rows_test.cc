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
    cuda_.ClearLog();
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
    if (kernel.empty()) return;
    EXPECT_THAT(Launches(), Contains(::testing::StartsWith(kernel)));
  }

  void ExpectSameError(const Tensor& x, const Tensor& indices, const Build& build, const std::string& text) {
    for (const bool on_gpu : {false, true}) {
      const absl::Status status = Compute(on_gpu, x, indices, build).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_THAT(status.message(), HasSubstr(text));
      EXPECT_THAT(status.message(), HasSubstr(on_gpu ? "device:GPU:0" : "device:CPU:0"));
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

// A variable after one update of rows that the indices name; the updates are rows of x.
Build Scattered(const std::string& op, DType dtype, bool of_one = false) {
  return [=](GraphBuilder& g, Output x, Output indices) {
    const auto as = [&](Output value) { return g.AddOp("Cast", {value}, {{"DstT", dtype}}); };
    const Shape shape({5, 3});
    const Output handle = g.AddOp("VarHandleOp", {}, {{"dtype", dtype}, {"shape", shape}});
    Tensor values(DType::kFloat32, shape);
    std::iota(values.flat<float>().begin(), values.flat<float>().end(), 2.0f);
    Node* const assign = g.AddNode("AssignVariableOp", {handle, as(Const(g, values))});
    const auto after = g.ControlScope({assign});
    const Output updates = of_one ? as(Const(g, 3.0f)) : as(x);
    Node* const update = g.AddNode(op, {handle, indices, updates});
    const auto later = g.ControlScope({update});
    const Output result = g.AddOp("ReadVariableOp", {handle}, {{"dtype", dtype}});
    return g.AddOp("Cast", {result}, {{"DstT", DType::kFloat32}});
  };
}

// Rows that are named again and again are changed again and again, in order: rounding to 16 bits shows it.
TEST_F(CudaRowsTest, UpdatesOfRowsAreTheCpus) {
  Tensor x = Counted(Shape({11, 3}));
  for (int64_t i = 0; i < x.num_elements(); ++i) x.flat<float>()[i] = static_cast<float>(i % 7) / 8 + 1;
  for (const char* const name : {"Add", "Sub", "Mul", "Div", "Min", "Max", "Update"}) {
    const std::string op = absl::StrCat("ResourceScatter", name);
    SCOPED_TRACE(op);
    for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16}) {
      Compare(absl::StrCat("Scatter", name), x, Indices<int32_t>(Shape({11}), 5), Scattered(op, dtype));
    }
    Compare(absl::StrCat("Scatter", name), x, Indices<int64_t>(Shape({11}), 4),
            Scattered(op, DType::kFloat32, true));
    if (op == "ResourceScatterDiv") continue;
    Compare(absl::StrCat("Scatter", name), x, Indices<int64_t>(Shape({11}), 5), Scattered(op, DType::kInt32));
  }
}

TEST_F(CudaRowsTest, AnUpdateOfABadRowChangesNothing) {
  const Tensor x = Counted(Shape({2, 3})), bad = Tensor::Vector<int32_t>({1, 5});
  ExpectSameError(x, bad, Scattered("ResourceScatterAdd", DType::kFloat32),
                  "indices[1] = 5 is not in [0, 5)");
  Place gpu(Gpus(1));
  GraphBuilder& g = gpu.g;
  const ModelVariable v = MakeVariable(g, "v", Counted(Shape({5, 3})));
  const Output indices = Placeholder(g, DType::kInt32, {2});
  Node* const update = g.AddNode("ResourceScatterSub", {v.handle, indices, Const(g, x)});
  const Output later = [&] {
    const auto after = g.ControlScope({update});
    return g.AddOp("ReadVariableOp", {v.handle}, {{"dtype", DType::kFloat32}});
  }();
  Session& session = gpu.session();
  ASSERT_TRUE(session.Run({}, {}, {v.initializer}).ok());
  EXPECT_FALSE(session.Run({{indices, bad}}, {later}, {update}).ok());
  const auto values = session.Run({}, {v.value});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].ToString(100), Counted(Shape({5, 3})).ToString(100));
  ASSERT_TRUE(session.Run({{indices, Tensor::Vector<int32_t>({1, 1})}}, {later}, {update}).ok());
  const auto changed = session.Run({}, {v.value});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ((*changed)[0].flat<float>()[3], 4 - 1 - 4);
}

Build SumOfSegments(DType dtype, int num_segments) {
  return [=](GraphBuilder& g, Output x, Output ids) {
    const Output sums =
        g.AddOp("UnsortedSegmentSum", {g.AddOp("Cast", {x}, {{"DstT", dtype}}), ids, Const(g, num_segments)});
    return g.AddOp("Cast", {sums}, {{"DstT", DType::kFloat32}});
  };
}

TEST_F(CudaRowsTest, SumsOfSegmentsAreTheCpus) {
  Tensor x = Counted(Shape({3, 5, 2}));
  for (float& element : x.flat<float>()) element /= 3;
  Tensor ids = Indices<int32_t>(Shape({3, 5}), 6);
  ids.flat<int32_t>()[4] = -1;  // is dropped
  for (const DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16, DType::kInt64}) {
    Compare("ScatterAdd_", x, ids, SumOfSegments(dtype, 7));
  }
  Compare("ScatterAdd_", x, Indices<int64_t>(Shape({3}), 2), SumOfSegments(DType::kFloat32, 2));
  Compare("", Counted(Shape({0, 2})), Indices<int64_t>(Shape({0}), 1), SumOfSegments(DType::kFloat32, 2));
  ids.flat<int32_t>()[7] = 7;
  ExpectSameError(x, ids, SumOfSegments(DType::kFloat32, 7), "segment_ids[1,2] = 7 is not in [0, 7)");
}

}  // namespace
}  // namespace weir
