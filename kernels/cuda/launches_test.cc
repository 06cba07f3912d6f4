// What launches ask of CUDA: grids, arguments, refusals. Where the build has real kernels, they take what is
// passed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/all_kernels.h"
#include "kernels/cuda/batch_norm_launches.h"
#include "kernels/cuda/choice_bodies.h"
#include "kernels/cuda/choice_launches.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cudart_api.h"
#include "kernels/cuda/data_check_launches.h"
#include "kernels/cuda/element_launches.h"
#include "kernels/cuda/indexed_launches.h"
#include "kernels/cuda/pool_launches.h"
#include "kernels/cuda/recording_cuda_api.h"
#include "kernels/cuda/row_launches.h"
#include "kernels/cuda/test_host_kernels.h"
#include "kernels/cuda/update_launches.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

constexpr int64_t kHuge = (int64_t{1} << 31) + 7;  // elements

class LaunchesTest : public ::testing::Test {
 protected:
  explicit LaunchesTest(CudaKernelTable table = CudaKernelTable())
      : device_(std::move(MakeCudaDevices(api_, "localhost", 0, threads_)->devices.at(0))),
        table_(std::move(table)) {
    api_.ClearLog();
  }

  const CudaKernelTable& kernels() const { return table_.names().empty() ? host_.table() : table_; }
  Tensor New(DType dtype, const Shape& shape) {
    return *Tensor::Allocate(dtype, shape, device_->allocator());
  }
  Tensor Floats(const Shape& shape) { return New(DType::kFloat32, shape); }
  CudaStream& stream() { return device_->stream(); }
  // Of x, which is its own y, with `vector` for every other tensor.
  absl::Status BatchNorm(const cuda::ChannelDims& dims, Tensor x, Tensor vector, Tensor running) {
    return LaunchBatchNorm(stream(), kernels(), device_->allocator(), dims,
                           {.epsilon = 0.1f, .average_factor = 0.5f, .is_training = true},
                           {x, vector, vector, running, running, x, vector, vector, vector, vector});
  }
  absl::Status BatchNormGrad(const cuda::ChannelDims& dims, Tensor x, Tensor vector) {
    return LaunchBatchNormGrad(stream(), kernels(), device_->allocator(), dims,
                               {.epsilon = 0.1f, .average_factor = 1, .is_training = true},
                               {x, x, vector, vector, vector, x, vector, vector});
  }
  // Pools of 2 x 2 over images of 4 x 4 with `channels`.
  static WindowGeometry Pool(int64_t batch, int64_t channels) {
    WindowGeometry geometry;
    geometry.batch = batch;
    geometry.channels = channels;
    for (int i = 0; i < 2; ++i) {
      geometry.input[i] = 4;
      geometry.output[i] = geometry.window[i] = geometry.stride[i] = 2;
    }
    return geometry;
  }
  // Every launch as "name blocks".
  std::vector<std::string> Launches() {
    std::vector<std::string> texts;
    for (const auto& launched : api_.launches()) {
      texts.push_back(absl::StrCat(launched.function.name, " ", launched.grid.blocks[0]));
    }
    api_.ClearLog();
    return texts;
  }

  ThreadPool threads_{1};
  RecordingCudaApi api_{{.memory = int64_t{100} << 30}};
  const HostKernels host_{api_};
  const std::unique_ptr<CudaDevice> device_;
  const CudaKernelTable table_;
};

TEST_F(LaunchesTest, AGridHasAThreadForEachElementUntilTheDeviceIsFull) {
  for (const auto& [count, blocks] : std::vector<std::pair<int64_t, int>>{
           {1, 1}, {256, 1}, {257, 2}, {132 * 8 * 256, 1056}, {132 * 8 * 256 + 1, 1056}}) {
    const Tensor x = Floats(Shape({count}));
    Tensor y = Floats(Shape({count}));
    ASSERT_TRUE(LaunchUnary(stream(), kernels(), "Relu", x, y).ok());
    EXPECT_THAT(Launches(), ElementsAre(absl::StrCat("Relu_float ", blocks))) << count;
  }
  api_.RunAll();
}

// The largest index does not fit 32 bits. Nothing runs: the memory is nowhere.
TEST(HugeLaunchesTest, TensorsMayHaveMoreThan2To31Elements) {
  ThreadPool threads(1);
  RecordingCudaApi api({.memory = int64_t{100} << 30});
  CudaKernelTable table;
  char function;
  table.AddAddress("AddV2", {DType::kFloat32}, &function,
                   {{'p', 8}, {'i', 8}, {'p', 8}, {'i', 8}, {'p', 8}, {'i', 8}});
  const auto devices = std::move(MakeCudaDevices(api, "localhost", 0, threads)->devices);
  Tensor x = *Tensor::Allocate(DType::kFloat32, Shape({kHuge}), devices[0]->allocator());
  ASSERT_TRUE(LaunchBinary(devices[0]->stream(), table, "AddV2", x, x, x).ok());
  const auto launched = api.launches().at(0);
  EXPECT_EQ(launched.grid.blocks[0], 1056u);
  EXPECT_EQ(launched.argument<int64_t>(5), kHuge);
  EXPECT_EQ(launched.argument<const void*>(0), x.data());
}

TEST_F(LaunchesTest, WithoutElementsNothingIsLaunched) {
  Tensor none = Floats(Shape({0})), rows = Floats(Shape({0, 5})), five = Floats(Shape({5}));
  const Tensor one = Floats(Shape());
  EXPECT_TRUE(LaunchUnary(stream(), kernels(), "Relu", none, none).ok());
  EXPECT_TRUE(LaunchBinary(stream(), kernels(), "AddV2", none, none, none).ok());
  EXPECT_TRUE(LaunchCast(stream(), kernels(), none, none).ok());
  EXPECT_TRUE(LaunchBiasAdd(stream(), kernels(), rows, five, false, rows).ok());
  EXPECT_TRUE(LaunchCrossEntropy(stream(), kernels(), rows, rows, none, rows).ok());
  EXPECT_TRUE(LaunchRowReduction(stream(), kernels(), RowReduction::kSum, rows, 0, 5, none).ok());
  EXPECT_TRUE(
      LaunchRandom<float>(stream(), kernels(), "RandomUniform", Philox(), 1, Uniform<float>(), none).ok());
  EXPECT_TRUE(LaunchUpdates<cuda::GradientDescentRule<float>>(stream(), kernels(), "GradientDescent", {one},
                                                              false, {{{none}, none}})
                  .ok());
  EXPECT_TRUE(LaunchSpread(stream(), kernels(), one, {0, 5}, {0, 0}, rows).ok());
  EXPECT_TRUE(LaunchCheckNumerics(stream(), kernels(), none, {}).ok());
  EXPECT_TRUE(LaunchChoose(stream(), kernels(), rows, rows, nullptr, rows).ok());
  Tensor images = Floats(Shape({0, 4, 4, 3})), pooled = Floats(Shape({0, 2, 2, 3}));
  EXPECT_TRUE(LaunchMaxPool(stream(), kernels(), Pool(0, 3), images, pooled).ok());
  EXPECT_TRUE(LaunchAvgPool(stream(), kernels(), Pool(0, 3), images, pooled).ok());
  EXPECT_TRUE(LaunchMaxPoolGrad(stream(), kernels(), Pool(0, 3), images, pooled, images).ok());
  EXPECT_TRUE(LaunchAvgPoolGrad(stream(), kernels(), Pool(0, 3), pooled, images).ok());
  EXPECT_THAT(Launches(), IsEmpty());
  // But the sums of no rows are zeros, and somebody must write them.
  EXPECT_TRUE(LaunchColumnSum(stream(), kernels(), rows, 0, 5, device_->allocator(), five).ok());
  EXPECT_THAT(Launches(), ElementsAre("ColumnSum_float 1", "ColumnSumEnd_float 1"));
}

TEST_F(LaunchesTest, WhatDoesNotFitIsRefused) {
  Tensor three = Floats(Shape({3})), four = Floats(Shape({4})), integers = New(DType::kInt32, Shape({4}));
  Tensor matrix = Floats(Shape({3, 4})), one = Floats(Shape());
  const auto refused = [](const absl::Status& status) {
    return status.code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused(LaunchUnary(stream(), kernels(), "Relu", three, four)));
  EXPECT_TRUE(refused(LaunchUnary(stream(), kernels(), "Relu", four, integers)));
  EXPECT_TRUE(refused(LaunchBinary(stream(), kernels(), "AddV2", three, four, four)));
  EXPECT_TRUE(refused(LaunchBinary(stream(), kernels(), "AddV2", integers, four, four)));
  EXPECT_TRUE(refused(LaunchChoose(stream(), kernels(), four, integers, nullptr, four)));
  EXPECT_TRUE(refused(LaunchChoose(stream(), kernels(), four, four, nullptr, three)));
  EXPECT_TRUE(refused(LaunchCast(stream(), kernels(), three, four)));
  EXPECT_TRUE(refused(LaunchBiasAdd(stream(), kernels(), matrix, three, false, matrix)));
  EXPECT_TRUE(refused(LaunchBiasAdd(stream(), kernels(), four, four, false, four)));
  EXPECT_TRUE(refused(LaunchRowReduction(stream(), kernels(), RowReduction::kMax, matrix, 4, 3, three)));
  EXPECT_TRUE(refused(LaunchRowReduction(stream(), kernels(), RowReduction::kMax, matrix, 5, 3, four)));
  EXPECT_TRUE(refused(LaunchColumnSum(stream(), kernels(), matrix, 3, 4, device_->allocator(), three)));
  EXPECT_TRUE(refused(LaunchCrossEntropy(stream(), kernels(), matrix, three, three, matrix)));
  EXPECT_TRUE(refused(LaunchSparseCrossEntropy(stream(), kernels(), matrix, four, three, matrix, {})));
  EXPECT_TRUE(refused(LaunchSparseCrossEntropy(stream(), kernels(), four, four, four, four, {})));
  const absl::Status status = LaunchUpdates<cuda::MomentumRule<float>>(
      stream(), kernels(), "Momentum", {one, one}, false, {{{four, four}, four}, {{four, three}, four}});
  EXPECT_EQ(status.message(), "Momentum: variable 1 wants 2 arrays of float of the gradient's 4 elements");
  EXPECT_EQ(LaunchUpdates<cuda::MomentumRule<float>>(stream(), kernels(), "Momentum", {one, four}, false,
                                                     {{{four, four}, four}})
                .message(),
            "Momentum wants 2 scalars of float");
  Tensor images = Floats(Shape({1, 4, 4, 3})), pooled = Floats(Shape({1, 2, 2, 3}));
  EXPECT_TRUE(refused(LaunchMaxPool(stream(), kernels(), Pool(1, 3), pooled, pooled)));
  EXPECT_TRUE(refused(LaunchMaxPool(stream(), kernels(), Pool(1, 4), images, pooled)));
  EXPECT_TRUE(refused(LaunchMaxPoolGrad(stream(), kernels(), Pool(1, 3), images, images, images)));
  EXPECT_EQ(LaunchAvgPool(stream(), kernels(), Pool(1, 3), images, images).message(),
            "AvgPool: float[1,4,4,3] is not float[1,2,2,3]");
  EXPECT_TRUE(refused(LaunchAvgPoolGrad(stream(), kernels(), Pool(1, 3), images, pooled)));
  EXPECT_TRUE(refused(BatchNorm({5, 3, 1}, matrix, three, three)));
  EXPECT_TRUE(refused(BatchNorm({3, 4, 1}, matrix, three, four)));
  EXPECT_TRUE(refused(BatchNorm({3, 4, 1}, matrix, four, three)));
  EXPECT_TRUE(refused(BatchNorm({0, 4, 1}, Floats(Shape({0, 4})), four, four)));
  EXPECT_TRUE(refused(BatchNormGrad({3, 4, 1}, matrix, three)));
  EXPECT_TRUE(refused(BatchNormGrad({3, 4, 1}, matrix, integers)));
  EXPECT_TRUE(refused(LaunchSpread(stream(), kernels(), three, {2, 2}, {1, 1}, three)));
  EXPECT_TRUE(refused(LaunchSpread(stream(), kernels(), three, {2, 2}, {2, 1}, four)));
  EXPECT_TRUE(refused(LaunchSpread(stream(), kernels(), three, {4}, {0}, integers)));
  EXPECT_EQ(LaunchSpread(stream(), kernels(), one, Dims(33, 1), Dims(33, 0), one).message(),
            "a copy on a GPU in 33 loops: there may be up to 32");
  EXPECT_THAT(Launches(), IsEmpty());
}

TEST_F(LaunchesTest, RowsThatDoNotFitAreRefused) {
  const auto expect_refused = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  };
  Tensor x = Floats(Shape({4, 3})), y = Floats(Shape({2, 3}));
  const Tensor two = New(DType::kInt32, Shape({2})), one = New(DType::kInt64, Shape({1}));
  expect_refused(LaunchGather(stream(), kernels(), x, one, {.limit = 4, .count = 2, .inner = 3}, y, {}));
  expect_refused(LaunchGather(stream(), kernels(), x, two, {.limit = 5, .count = 2, .inner = 3}, y, {}));
  expect_refused(LaunchGather(stream(), kernels(), x, y, {.limit = 4, .count = 2, .inner = 3}, y, {}));
  Tensor keys = New(DType::kUint32, Shape({2})), positions = New(DType::kUint32, Shape({2}));
  Tensor wide = New(DType::kUint64, Shape({2}));
  const int64_t many = int64_t{1} << 32;  // is the key of none
  expect_refused(LaunchRowKeys(stream(), kernels(), two, many, false, keys, positions, {}));
  expect_refused(LaunchRowKeys(stream(), kernels(), two, 4, false, keys, wide, {}));
  expect_refused(LaunchRowKeys(stream(), kernels(), one, 4, false, keys, positions, {}));
  EXPECT_EQ(RowKeyDType(many, 2), DType::kUint64);
  EXPECT_EQ(RowKeyDType(many - 1, 2), DType::kUint32);
  const RowOrder order = {keys, positions, 4};
  expect_refused(LaunchScatterRows(stream(), kernels(), "ScatterAdd", order, 3, x, x, nullptr));
  expect_refused(LaunchScatterRows(stream(), kernels(), "ScatterAdd", order, 3, y, y, nullptr));
  expect_refused(LaunchUpdateRows<cuda::MomentumRule<float>>(
      stream(), kernels(), "Momentum", {Floats(Shape()), Floats(Shape())}, false, order, {{x, y}, y}, {}));
  const Tensor condition = New(DType::kBool, Shape({5}));
  expect_refused(LaunchSelect(stream(), kernels(), condition, x, x, x));
  expect_refused(LaunchCompare(stream(), kernels(), "Less", x, y, keys));
  expect_refused(LaunchJoin(stream(), kernels(), {x, y}, 5, x));
  EXPECT_THAT(api_.launches(), IsEmpty());
}

TEST_F(LaunchesTest, AnOpWithoutAKernelSaysSo) {
  Tensor x = New(DType::kInt32, Shape({4}));
  EXPECT_EQ(LaunchUnary(stream(), kernels(), "Sqrt", x, x).message(),
            "there is no kernel Sqrt_int32 for GPUs");
  EXPECT_EQ(LaunchUnary(stream(), CudaKernelTable(), "Sqrt", x, x).message(),
            "there is no kernel Sqrt_int32 for GPUs: this program was built without CUDA");
}

TEST_F(LaunchesTest, AKernelWithOtherParametersIsNotLaunched) {
  CudaKernelTable table;
  char function;
  table.AddAddress("Relu", {DType::kFloat32}, &function, {{'p', 8}, {'p', 8}, {'i', 4}});
  Tensor x = Floats(Shape({4}));
  EXPECT_EQ(LaunchUnary(stream(), table, "Relu", x, x).message(),
            "the kernel Relu_float takes other parameters than it is given");
}

TEST_F(LaunchesTest, AColumnSumIsSplitAmongTheDevicesThreads) {
  Tensor many = Floats(Shape({100000, 10})), ten = Floats(Shape({10}));
  ASSERT_TRUE(LaunchColumnSum(stream(), kernels(), many, 100000, 10, device_->allocator(), ten).ok());
  const auto launched = api_.launches().at(0);
  EXPECT_EQ(launched.argument<int64_t>(5), 100000 / 32);
  Tensor few = Floats(Shape({10, 100000})), wide = Floats(Shape({100000}));
  api_.ClearLog();
  ASSERT_TRUE(LaunchColumnSum(stream(), kernels(), few, 10, 100000, device_->allocator(), wide).ok());
  EXPECT_EQ(api_.launches().at(0).argument<int64_t>(5), 1);
}

TEST_F(LaunchesTest, AMeanIsASumWithAFactor) {
  Tensor x = Floats(Shape({6, 4})), y = Floats(Shape({6}));
  ASSERT_TRUE(LaunchRowReduction(stream(), kernels(), RowReduction::kMean, x, 6, 4, y).ok());
  ASSERT_TRUE(LaunchRowReduction(stream(), kernels(), RowReduction::kMin, x, 6, 4, y).ok());
  const auto launches = api_.launches();
  EXPECT_EQ(launches[0].function.name, std::string("RowSum_float"));
  EXPECT_EQ(launches[0].argument<float>(5), 0.25f);
  EXPECT_EQ(launches[1].argument<float>(4), std::numeric_limits<float>::infinity());
  EXPECT_EQ(launches[1].grid.blocks[0], 6u);
}

// The same launches with the functions that nvcc made.
class RealKernelsTest : public LaunchesTest {
 protected:
  RealKernelsTest() : LaunchesTest(AllCudaKernels()) {}
};

TEST_F(RealKernelsTest, AreThoseThatTestsStandInFor) {
  if (!IsBuiltWithCuda()) GTEST_SKIP() << "built without CUDA";
  EXPECT_EQ(AllCudaKernels().names(), host_.table().names());
}

TEST_F(RealKernelsTest, TakeWhatLaunchesPass) {
  if (!IsBuiltWithCuda()) GTEST_SKIP() << "built without CUDA";
  int count = 0;
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16}) {
    Tensor x = New(dtype, Shape({4, 4})), row = New(dtype, Shape({4}));
    const auto expect = [&](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      ++count;
    };
    cuda::VisitUnary([&]<typename F, typename T>(const char* op) {
      if (DTypeOf<T> == dtype) expect(LaunchUnary(stream(), kernels(), op, x, x));
    });
    cuda::VisitBinary([&]<typename F, typename T>(const char* op) {
      if (DTypeOf<T> == dtype) expect(LaunchBinary(stream(), kernels(), op, x, x, x));
    });
    expect(LaunchCast(stream(), kernels(), x, x));
    expect(LaunchBiasAdd(stream(), kernels(), x, row, false, x));
    expect(LaunchSpread(stream(), kernels(), row, {4, 4}, {0, 1}, x));
    Tensor images = New(dtype, Shape({1, 4, 4, 3})), pooled = New(dtype, Shape({1, 2, 2, 3}));
    expect(LaunchMaxPool(stream(), kernels(), Pool(1, 3), images, pooled));
    expect(LaunchAvgPool(stream(), kernels(), Pool(1, 3), images, pooled));
    expect(LaunchMaxPoolGrad(stream(), kernels(), Pool(1, 3), images, pooled, images));
    expect(LaunchAvgPoolGrad(stream(), kernels(), Pool(1, 3), pooled, images));
    if (dtype != DType::kFloat64) {
      // So many rows that parts are put together.
      Tensor rows = New(dtype, Shape({64, 4})), vector = Floats(Shape({4}));
      expect(BatchNorm({64, 4, 1}, rows, vector, vector));
      expect(BatchNormGrad({64, 4, 1}, rows, vector));
    }
    for (const RowReduction reduction : {RowReduction::kSum, RowReduction::kMax, RowReduction::kMin}) {
      expect(LaunchRowReduction(stream(), kernels(), reduction, x, 4, 4, row));
    }
    expect(LaunchColumnSum(stream(), kernels(), x, 4, 4, device_->allocator(), row));
    expect(LaunchCrossEntropy(stream(), kernels(), x, x, row, x));
    expect(LaunchCheckNumerics(stream(), kernels(), x, {}));
    expect(LaunchChoose(stream(), kernels(), x, x, nullptr, x));
    for (const DType label : {DType::kInt32, DType::kInt64}) {
      const Tensor labels = New(label, Shape({4}));
      expect(LaunchSparseCrossEntropy(stream(), kernels(), x, labels, row, x, {}));
    }
  }
  cuda::VisitRules([&]<typename Rule, typename T>(const char* op) {
    const Tensor x = New(DTypeOf<T>, Shape({10}));
    const std::vector<Tensor> arrays(Rule::kArrays, x);
    const std::vector<Tensor> scalars(Rule::kScalars, New(DTypeOf<T>, Shape()));
    EXPECT_TRUE(LaunchUpdates<Rule>(stream(), kernels(), op, scalars, true, {{arrays, x}}).ok()) << op;
  });
  cuda::VisitDistributions([&]<typename Distribution, typename T>(const char* op) {
    Tensor x = New(DTypeOf<T>, Shape({10}));
    EXPECT_TRUE(LaunchRandom<T>(stream(), kernels(), op, Philox(), 1, Distribution(), x).ok()) << op;
  });
  EXPECT_EQ(count, 4 * (11 + 9 + 3 + 4 + 3 + 1 + 1 + 2 + 2) + 3 * 2);
}

TEST_F(RealKernelsTest, TakeWhatLaunchesOfRowsPass) {
  if (!IsBuiltWithCuda()) GTEST_SKIP() << "built without CUDA";
  const auto expect = [](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; };
  for (const DType index : {DType::kInt32, DType::kInt64}) {
    const Tensor indices = New(index, Shape({2}));
    expect(LaunchCheckIndices(stream(), kernels(), indices, 4, {}));
    for (const DType dtype : {DType::kUint8, DType::kHalf, DType::kFloat32, DType::kFloat64}) {
      Tensor params = New(dtype, Shape({4, 1})), output = New(dtype, Shape({2, 1}));
      expect(LaunchGather(stream(), kernels(), params, indices, {.limit = 4, .count = 2}, output, {}));
    }
    for (const DType key : {DType::kUint32, DType::kUint64}) {
      Tensor keys = New(key, Shape({2})), positions = New(key, Shape({2}));
      expect(LaunchRowKeys(stream(), kernels(), indices, 4, true, keys, positions, {}));
    }
  }
  for (const DType key : {DType::kUint32, DType::kUint64}) {
    const RowOrder order = {New(key, Shape({2})), New(key, Shape({2})), 4};
    cuda::VisitScatters([&]<typename F, typename T>(const char* op) {
      Tensor values = New(DTypeOf<T>, Shape({4, 3}));
      expect(LaunchScatterRows(stream(), kernels(), op, order, 3, New(DTypeOf<T>, Shape({2, 3})), values,
                               nullptr));
    });
    cuda::VisitRowRules([&]<typename Rule, typename T>(const char* op) {
      const std::vector<Tensor> arrays(Rule::kArrays, New(DTypeOf<T>, Shape({4, 3})));
      const std::vector<Tensor> scalars(Rule::kScalars, New(DTypeOf<T>, Shape()));
      expect(LaunchUpdateRows<Rule>(stream(), kernels(), op, scalars, true, order,
                                    {arrays, New(DTypeOf<T>, Shape({2, 3}))}, {}));
    });
  }
}

TEST_F(RealKernelsTest, TakeWhatLaunchesOfChoicesPass) {
  if (!IsBuiltWithCuda()) GTEST_SKIP() << "built without CUDA";
  const auto expect = [](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; };
  Tensor choices = New(DType::kBool, Shape({4}));
  cuda::VisitComparisons([&]<typename F, typename T>(const char* op) {
    const Tensor x = New(DTypeOf<T>, Shape({4}));
    expect(LaunchCompare(stream(), kernels(), op, x, x, choices));
  });
  expect(LaunchLogicalNot(stream(), kernels(), choices, choices));
  for (const DType dtype : {DType::kUint8, DType::kHalf, DType::kFloat32, DType::kFloat64}) {
    Tensor x = New(dtype, Shape({4, 1})), both = New(dtype, Shape({4, 2}));
    expect(LaunchSelect(stream(), kernels(), choices, x, x, x));
    expect(LaunchJoin(stream(), kernels(), {x, x}, 4, both));
  }
  cuda::VisitCasts([&]<typename From, typename To>() {
    Tensor y = New(DTypeOf<To>, Shape({4}));
    expect(LaunchCast(stream(), kernels(), New(DTypeOf<From>, Shape({4})), y));
  });
}

}  // namespace
}  // namespace weir
