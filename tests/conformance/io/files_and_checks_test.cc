// Checkpoints, summaries and checks.
#include <cmath>
#include <complex>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/formats/file_system.h"
#include "tests/conformance/kernel_under_test.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class IoKernelsTest : public ::testing::Test {
 protected:
  static std::string Path(const std::string& name) {
    return std::string(std::getenv("TEST_TMPDIR")) + "/" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name() + "/" + name;
  }
  static Tensor Strings(std::vector<std::string> values) {
    return Tensor::FromSpan<std::string>({static_cast<int64_t>(values.size())}, values);
  }

  absl::Status Save(const std::string& prefix, std::vector<std::string> names, std::vector<std::string> parts,
                    std::vector<Tensor> tensors) {
    std::vector<DType> inputs(3, DType::kString), dtypes;
    for (const Tensor& tensor : tensors) dtypes.push_back(tensor.dtype());
    inputs.insert(inputs.end(), dtypes.begin(), dtypes.end());
    KernelUnderTest save(host_, "SaveV2", inputs, {{"dtypes", dtypes}}, "save", 3);
    std::vector<Tensor> arguments = {Tensor::Scalar(prefix), Strings(std::move(names)),
                                     Strings(std::move(parts))};
    arguments.insert(arguments.end(), tensors.begin(), tensors.end());
    return save.Run(std::move(arguments)).status();
  }
  absl::StatusOr<std::vector<Tensor>> Restore(const std::string& prefix, std::vector<std::string> names,
                                              std::vector<std::string> parts, std::vector<DType> dtypes) {
    KernelUnderTest restore(host_, "RestoreV2", {DType::kString, DType::kString, DType::kString},
                            {{"dtypes", std::move(dtypes)}});
    return restore.Run({Tensor::Scalar(prefix), Strings(std::move(names)), Strings(std::move(parts))});
  }

  TestHost host_{RegisterIoKernels, RegisterSummaryKernels, RegisterDebuggingKernels};
};

TEST_F(IoKernelsTest, WhatIsSavedIsRestored) {
  const std::string prefix = Path("model.ckpt-7");
  ASSERT_TRUE(
      Save(prefix, {"w", "names", "step"}, {"", "", ""},
           {Tensor::From<float>({2, 2}, {1, 2, 3, 4}), Strings({"a", "", "ccc"}), Tensor::Scalar<int64_t>(7)})
          .ok());
  const auto restored =
      Restore(prefix, {"step", "w", "names"}, {"", "", ""}, {DType::kInt64, DType::kFloat32, DType::kString});
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ((*restored)[0].scalar<int64_t>(), 7);
  EXPECT_EQ((*restored)[1].shape(), Shape({2, 2}));
  EXPECT_THAT((*restored)[1].flat<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT((*restored)[2].flat<std::string>(), ElementsAre("a", "", "ccc"));
}

TEST_F(IoKernelsTest, PartsOfAPartitionedVariable) {
  const std::string prefix = Path("model.ckpt");
  ASSERT_TRUE(Save(prefix, {"w", "w"}, {"4 2 0,3:-", "4 2 3,1:-"},
                   {Tensor::From<float>({3, 2}, {1, 2, 3, 4, 5, 6}), Tensor::From<float>({1, 2}, {7, 8})})
                  .ok());
  const auto restored = Restore(prefix, {"w", "w"}, {"", "4 2 2,2:1,1"}, {DType::kFloat32, DType::kFloat32});
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_THAT((*restored)[0].flat<float>(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ((*restored)[1].shape(), Shape({2, 1}));
  EXPECT_THAT((*restored)[1].flat<float>(), ElementsAre(6, 8));
}

TEST_F(IoKernelsTest, ErrorsNameTensorAndFile) {
  const std::string prefix = Path("model.ckpt");
  ASSERT_TRUE(Save(prefix, {"dense/kernel"}, {""}, {Tensor::Vector<float>({1, 2})}).ok());
  const auto message = [&](std::vector<std::string> names, std::vector<std::string> parts, DType dtype) {
    return std::string(Restore(prefix, std::move(names), std::move(parts), {dtype}).status().message());
  };
  EXPECT_THAT(message({"dense/kernle"}, {""}, DType::kFloat32),
              AllOf(HasSubstr("dense/kernle"), HasSubstr("dense/kernel"), HasSubstr(prefix)));
  EXPECT_THAT(
      message({"dense/kernel"}, {""}, DType::kInt32),
      AllOf(HasSubstr("'dense/kernel'"), HasSubstr("is float[2], asked for as int32"), HasSubstr(prefix)));
  EXPECT_THAT(message({"dense/kernel"}, {"3 0,1"}, DType::kFloat32),
              HasSubstr("is float[2], a slice of [3] is asked for"));
  EXPECT_THAT(message({"dense/kernel"}, {"2 1,5"}, DType::kFloat32), HasSubstr("tensor 'dense/kernel': "));
  EXPECT_THAT(message({"a", "b"}, {""}, DType::kFloat32), HasSubstr("tensor_names must be [1]"));
  EXPECT_TRUE(absl::IsNotFound(Restore(Path("none"), {"a"}, {""}, {DType::kFloat32}).status()));
}

TEST_F(IoKernelsTest, ShardsAreNamedAndMerged) {
  const std::string prefix = Path("model.ckpt-7");
  KernelUnderTest name(host_, "ShardedFilename", {DType::kString, DType::kInt32, DType::kInt32});
  std::vector<std::string> parts;
  for (int shard : {0, 1}) {
    parts.push_back(name.Get({Tensor::Scalar(prefix + "_temp/part"), Tensor::Scalar<int32_t>(shard),
                              Tensor::Scalar<int32_t>(2)})
                        .scalar<std::string>());
  }
  EXPECT_EQ(parts[1], prefix + "_temp/part-00001-of-00002");
  ASSERT_TRUE(
      Save(parts[0], {"a", "w"}, {"", "2 0,1"}, {Tensor::Scalar(1.0f), Tensor::Vector<float>({5})}).ok());
  ASSERT_TRUE(
      Save(parts[1], {"b", "w"}, {"", "2 1,1"}, {Tensor::Scalar(2.0f), Tensor::Vector<float>({6})}).ok());
  const auto merge = [&](std::vector<std::string> sources, bool allow_missing) {
    KernelUnderTest merge(host_, "MergeV2Checkpoints", {DType::kString, DType::kString},
                          {{"delete_old_dirs", true}, {"allow_missing_files", allow_missing}});
    return merge.Run({Strings(std::move(sources)), Tensor::Scalar(prefix)}).status();
  };
  const std::vector<std::string> with_missing = {parts[0], Path("none"), parts[1]};
  EXPECT_TRUE(absl::IsNotFound(merge(with_missing, false)));
  const absl::Status merged = merge(with_missing, true);
  ASSERT_TRUE(merged.ok()) << merged;
  const auto restored =
      Restore(prefix, {"a", "b", "w"}, {"", "", ""}, {DType::kFloat32, DType::kFloat32, DType::kFloat32});
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ((*restored)[1].scalar<float>(), 2);
  EXPECT_THAT((*restored)[2].flat<float>(), ElementsAre(5, 6));
  EXPECT_FALSE(PosixFileSystem().ListDirectory(prefix + "_temp").ok()) << "the folder of the parts is gone";
}

TEST_F(IoKernelsTest, Summaries) {
  KernelUnderTest scalar(host_, "ScalarSummary", {DType::kString, DType::kInt32});
  KernelUnderTest histogram(host_, "HistogramSummary", {DType::kString, DType::kFloat32});
  KernelUnderTest merge(host_, "MergeSummary", {DType::kString, DType::kString}, {}, "merge", 0);
  const Tensor loss = scalar.Get({Tensor::Scalar("loss"), Tensor::Scalar<int32_t>(3)});
  // Summary{value{tag: "loss" simple_value: 3}} in protocol buffer encoding.
  EXPECT_EQ(loss.scalar<std::string>(), std::string("\x0a\x0b\x0a\x04loss\x15\x00\x00\x40\x40", 13));
  const Tensor weights = histogram.Get({Tensor::Scalar("w"), Tensor::Vector<float>({1, 2})});
  const Tensor merged = merge.Get({loss, weights});
  EXPECT_EQ(merged.scalar<std::string>(), loss.scalar<std::string>() + weights.scalar<std::string>());
  EXPECT_THAT(std::string(merge.Run({loss, loss}).status().message()), HasSubstr("loss"));
  EXPECT_THAT(
      std::string(scalar.Run({Tensor::Scalar("loss"), Tensor::Vector<int32_t>({1, 2})}).status().message()),
      HasSubstr("tags is [] but values is [2] (tag 'loss')"));
}

TEST_F(IoKernelsTest, CheckNumericsSaysWhatItFound) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  KernelUnderTest check(host_, "CheckNumerics", {DType::kFloat32}, {{"message", "loss is bad"}});
  const auto message = [&](std::initializer_list<float> values) {
    return std::string(check.Run({Tensor::Vector<float>(values)}).status().message());
  };
  EXPECT_EQ(message({1, std::numeric_limits<float>::max(), -0.0f}), "");
  EXPECT_THAT(message({1, nan}), HasSubstr("loss is bad : Tensor had NaN values"));
  EXPECT_THAT(message({-inf, 1}), HasSubstr("loss is bad : Tensor had Inf values"));
  EXPECT_THAT(message({inf, nan}), HasSubstr("loss is bad : Tensor had Inf and NaN values"));
  KernelUnderTest half(host_, "CheckNumerics", {DType::kHalf}, {{"message", "m"}});
  EXPECT_TRUE(half.Run({Tensor::Vector<Half>({Half(65504.0f)})}).ok());
  EXPECT_FALSE(half.Run({Tensor::Vector<Half>({Half(inf)})}).ok());
}

TEST_F(IoKernelsTest, AssertPrintsItsData) {
  KernelUnderTest check(host_, "Assert", {DType::kBool, DType::kString, DType::kInt32},
                        {{"T", std::vector<DType>{DType::kString, DType::kInt32}}, {"summarize", int64_t{2}}},
                        "check", 1);
  const Tensor text = Tensor::Scalar("x must be positive"), data = Tensor::Vector<int32_t>({-4, 5, 6});
  EXPECT_TRUE(check.Run({Tensor::Scalar(true), text, data}).ok());
  const absl::Status status = check.Run({Tensor::Scalar(false), text, data}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "assertion failed: [x must be positive] [-4 5...]");
}

// What is expected is what TensorFlow 2.21 wrote for these tensors.
TEST_F(IoKernelsTest, AssertWritesTensorsAsTensorFlowDoes) {
  const auto written = [&](const Tensor& data, int64_t summarize) {
    KernelUnderTest check(host_, "Assert", {DType::kBool, data.dtype()},
                          {{"T", std::vector<DType>{data.dtype()}}, {"summarize", summarize}}, "check", 1);
    const std::string text(check.Run({Tensor::Scalar(false), data}).status().message());
    return text.substr(std::string("assertion failed: ").size());
  };
  const auto range = [](const Shape& shape) {
    Tensor tensor(DType::kInt32, shape);
    std::iota(tensor.flat<int32_t>().begin(), tensor.flat<int32_t>().end(), 0);
    return tensor;
  };
  EXPECT_EQ(written(Tensor::Scalar(1.5f), 3), "[1.5]");
  EXPECT_EQ(written(range(Shape({4})), 3), "[0 1 2...]");
  EXPECT_EQ(written(range(Shape({4})), 0), "[...]");
  EXPECT_EQ(written(range(Shape({2, 3})), 3), "[[0 1 2]...]");
  EXPECT_EQ(written(range(Shape({2, 3})), -1), "[[0 1 2][3 4 5]]");
  EXPECT_EQ(written(range(Shape({2, 3, 4})), 2), "[[[0 1...]]...]");
  EXPECT_EQ(written(range(Shape({4, 1})), 3), "[[0][1][2]...]");
  EXPECT_EQ(written(range(Shape({0, 3})), 3), "[]");
  EXPECT_EQ(written(range(Shape({2, 0})), 3), "[]");
  EXPECT_EQ(written(Tensor::Vector<bool>({true, false}), 3), "[1 0]");
  EXPECT_EQ(written(Tensor::Vector<int8_t>({-1, 5}), 3), "[-1 5]");
  EXPECT_EQ(written(Tensor::Vector<double>({0.1, 1.0 / 3, 1e-20, 1e16}), 4),
            "[0.1 0.33333333333333331 1e-20 1e+16]");
  EXPECT_EQ(written(Tensor::Vector<Half>({Half(0.1f), Half(INFINITY), Half(-0.0f)}), 3),
            "[0.0999755859 inf -0]");
  EXPECT_EQ(written(Tensor::Vector<std::string>({"a\nb", "q\"uote", "\u00e9"}), 3),
            "[a\\nb q\\\"uote \u00e9]");
  EXPECT_EQ(written(Tensor::Vector<std::complex<float>>({{1, 2}, {0.5f, -1}}), 3), "[(1,2) (0.5,-1)]");
  // An error stays one that can be sent and read.
  const std::string all = written(range(Shape({1000000})), -1);
  EXPECT_THAT(all, testing::EndsWith(" 999...]"));
  EXPECT_LT(written(Tensor::Vector<std::string>({std::string(10 << 20, 'x'), "y"}), 3).size(), 70000u);
}

}  // namespace
}  // namespace weir
