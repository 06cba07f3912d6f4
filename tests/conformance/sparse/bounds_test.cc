// What crosses of features, sets and products may take of memory and of time.
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/evaluate.h"
#include "ops/register_ops.h"
#include "tests/conformance/kernel_under_test.h"

namespace weir {
namespace {

class CrossesTest : public testing::Test {
 protected:
  explicit CrossesTest(int64_t memory_limit = 0) : host_({RegisterSparseKernels}, memory_limit) {}

  // One step of a cross with these arguments, each a list.
  absl::Status Run(const char* op, const std::vector<std::vector<Tensor>>& arguments, AttrMap attrs) {
    GraphBuilder g(StandardOps());
    std::vector<InputArg> inputs;
    std::vector<Tensor> all;
    for (const std::vector<Tensor>& argument : arguments) {
      std::vector<Output> list;
      for (const Tensor& tensor : argument) {
        list.push_back(g.AddOp("Placeholder", {}, {{"dtype", tensor.dtype()}}));
        all.push_back(tensor);
      }
      inputs.emplace_back(list);
    }
    attrs["num_buckets"] = int64_t{0};
    attrs["hash_key"] = int64_t{1};
    Node* const node = g.AddNode(op, std::move(inputs), attrs);
    if (node == nullptr) return g.status();
    return EvaluateNode(*node, all, host_.device(), host_.kernels(), nullptr, cancellation_).status();
  }

  TestHost host_;
  Cancellation cancellation_;
};

class CrossedTextsTest : public CrossesTest {
 protected:
  CrossedTextsTest() : CrossesTest(int64_t{16} << 20) {}
};

int64_t PeakBytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

// The text of a combination was made before anybody asked for room: here 512 MB, of one string of 1 MB.
TEST_F(CrossedTextsTest, AskForRoomBeforeTheyAreMade) {
  constexpr size_t kColumns = 512;
  const Tensor text = Tensor::FromSpan<std::string>(Shape({1, 1}), {std::string(1'000'000, 'x')});
  const std::vector<Tensor> texts(kColumns, text);
  const int64_t before = PeakBytes();
  const absl::Status ragged = Run("RaggedCross", {{}, {}, {}, {}, {}, texts},
                                  {{"input_order", std::string(kColumns, 'D')},
                                   {"hashed_output", false},
                                   {"out_values_type", DType::kString},
                                   {"out_row_splits_type", DType::kInt64}});
  EXPECT_EQ(ragged.code(), absl::StatusCode::kResourceExhausted) << ragged;
  const absl::Status sparse =
      Run("SparseCross", {{}, {}, {}, texts},
          {{"hashed_output", false}, {"out_type", DType::kString}, {"internal_type", DType::kString}});
  EXPECT_EQ(sparse.code(), absl::StatusCode::kResourceExhausted) << sparse;
  EXPECT_LT(PeakBytes() - before, int64_t{128} << 20);
}

// The combinations of all rows were counted first. 11 features in each of 20 columns have more than an int64
// can count, which a step that has ended need not know.
TEST_F(CrossesTest, ACancelledStepCountsNoMoreCombinations) {
  constexpr size_t kColumns = 20;
  constexpr int64_t kFeatures = 11;
  Tensor features(DType::kInt64, Shape({kFeatures}));
  std::fill_n(features.flat<int64_t>().data(), kFeatures, 7);
  const auto run = [&] {
    return Run("RaggedCross",
               {std::vector<Tensor>(kColumns, features),
                std::vector<Tensor>(kColumns, Tensor::Vector<int64_t>({0, kFeatures})),
                {},
                {},
                {},
                {}},
               {{"input_order", std::string(kColumns, 'R')},
                {"hashed_output", true},
                {"out_values_type", DType::kInt64},
                {"out_row_splits_type", DType::kInt64}});
  };
  EXPECT_EQ(run().code(), absl::StatusCode::kInvalidArgument);
  cancellation_.Cancel(absl::CancelledError("enough"));
  EXPECT_EQ(run().code(), absl::StatusCode::kCancelled);
}

// Each set had objects of its own, outside of what the device counts: half a gigabyte for these two
// megabytes.
TEST(SetsOfFewElements, TakeLittleMoreThanTheirElements) {
  constexpr int64_t kSets = int64_t{1} << 20;
  TestHost host({RegisterSparseKernels});
  const Tensor sets(DType::kInt8, Shape({kSets, 1}));
  const int64_t before = PeakBytes();
  const std::vector<Tensor> outputs =
      KernelUnderTest(host, "DenseToDenseSetOperation", {DType::kInt8, DType::kInt8},
                      {{"set_operation", "union"}})
          .Run({sets, sets})
          .value();
  EXPECT_EQ(outputs[1].num_elements(), kSets);
  EXPECT_LT(PeakBytes() - before, int64_t{128} << 20);
}

// Each element takes a row of the other matrix.
TEST(CancelledSteps, AddNoMoreRowsToAProduct) {
  TestHost host({RegisterSparseKernels});
  Tensor values(DType::kFloat32, Shape({1000})), indices(DType::kInt64, Shape({1000, 2}));
  std::fill_n(values.flat<float>().data(), 1000, 1.0f);
  std::fill_n(indices.flat<int64_t>().data(), 2000, 0);
  Cancellation cancellation;
  cancellation.Cancel(absl::CancelledError("enough"));
  const absl::Status status =
      KernelUnderTest(host, "SparseTensorDenseMatMul",
                      {DType::kInt64, DType::kFloat32, DType::kInt64, DType::kFloat32})
          .Run({indices, values, Tensor::Vector<int64_t>({1, 1}), Tensor(DType::kFloat32, Shape({1, 1000}))},
               &cancellation)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
}

}  // namespace
}  // namespace weir
