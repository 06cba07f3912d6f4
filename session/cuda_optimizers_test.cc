// Each optimizer's op on a recorded GPU against the CPU's: the same bits, for the bodies of the GPU's kernels
// run on the host. Functions of a GPU's own may differ in the last places.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_kernels.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "session/test_cuda_session.h"

namespace weir {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// An op, its inputs in order ("": the gradient), and its attr that changes the formula.
struct OptimizerOp {
  const char* name;
  int num_variables;  // with its slots
  std::vector<std::pair<std::string, double>> inputs;
  const char* flag = nullptr;
};

const std::vector<OptimizerOp>& Ops() {
  static const auto& ops = *new std::vector<OptimizerOp>{
      {"GradientDescent", 1, {{"alpha", 0.1}, {"", 0}}},
      {"Momentum", 2, {{"lr", 0.1}, {"", 0}, {"momentum", 0.9}}, "use_nesterov"},
      {"KerasMomentum", 2, {{"lr", 0.1}, {"", 0}, {"momentum", 0.9}}, "use_nesterov"},
      {"Adam",
       3,
       {{"beta1_power", 0.81},
        {"beta2_power", 0.99},
        {"lr", 0.1},
        {"beta1", 0.9},
        {"beta2", 0.995},
        {"epsilon", 1e-4},
        {"", 0}},
       "use_nesterov"},
      {"AdaMax",
       3,
       {{"beta1_power", 0.81}, {"lr", 0.1}, {"beta1", 0.9}, {"beta2", 0.995}, {"epsilon", 1e-4}, {"", 0}}},
      {"Adagrad", 2, {{"lr", 0.1}, {"", 0}}, "update_slots"},
      {"AdagradV2", 2, {{"lr", 0.1}, {"epsilon", 1e-3}, {"", 0}}, "update_slots"},
      {"RMSProp", 3, {{"lr", 0.1}, {"rho", 0.9}, {"momentum", 0.7}, {"epsilon", 1e-3}, {"", 0}}},
      {"CenteredRMSProp", 4, {{"lr", 0.1}, {"rho", 0.9}, {"momentum", 0.7}, {"epsilon", 1e-3}, {"", 0}}},
      {"Ftrl",
       3,
       {{"", 0}, {"lr", 0.1}, {"l1", 0.01}, {"l2", 0.02}, {"lr_power", -0.5}},
       "multiply_linear_by_lr"},
      {"FtrlV2",
       3,
       {{"", 0}, {"lr", 0.1}, {"l1", 0.01}, {"l2", 0.02}, {"shrinkage", 0.03}, {"lr_power", -0.6}},
       "multiply_linear_by_lr"},
  };
  return ops;
}

class CudaOptimizersTest : public CudaSessionTest, public ::testing::WithParamInterface<OptimizerOp> {
 protected:
  // Numbers of a seed. Slots are squares in most rules, and larger than the square of a mean: only the
  // variable has signs.
  template <typename T>
  static Tensor Numbers(int seed, bool has_signs, const Shape& shape) {
    Tensor tensor(DTypeOf<T>, shape);
    std::mt19937 random(seed);
    for (T& x : tensor.flat<T>()) {
      const double number = static_cast<double>(random()) / 4294967296.0;
      x = static_cast<T>(has_signs ? number - 0.5 : 0.3 + number / 5);
    }
    return tensor;
  }

  // The variables after one call: of the op for all rows, or of that for some, of which one comes three times
  // and one twice.
  template <typename T>
  std::vector<Tensor> Run(const OptimizerOp& op, bool flag, bool on_gpu, bool is_sparse) {
    const Shape shape = is_sparse ? Shape({7, 5}) : Shape({37});
    Place place(on_gpu ? Gpus(1) : RuntimeOptions{.num_threads = 1}, {.allow_soft_placement = false});
    GraphBuilder& g = place.g;
    auto scope = g.DeviceScope(on_gpu ? "/gpu:0" : "/cpu:0");
    std::vector<Output> inputs;
    std::vector<TargetRef> initializers;
    std::vector<TensorRef> values;
    for (int i = 0; i < op.num_variables; ++i) {
      const ModelVariable v = MakeVariable(g, absl::StrCat("v", i), Numbers<T>(i, i == 0, shape));
      inputs.push_back(v.handle);
      initializers.push_back(v.initializer);
      values.push_back(v.value);
    }
    for (const auto& [name, value] : op.inputs) {
      inputs.push_back(
          Const(g, name.empty() ? Numbers<T>(9, true, shape) : Tensor::Scalar(static_cast<T>(value))));
      if (name.empty() && is_sparse) {
        inputs.push_back(Const(g, Tensor::Vector<int64_t>({2, 0, 2, 6, 1, 2, 0})));
      }
    }
    std::vector<std::pair<std::string, AttrValue>> attrs;
    if (op.flag != nullptr) attrs.emplace_back(op.flag, flag);
    Node* const update = g.AddNode(absl::StrCat(is_sparse ? "ResourceSparseApply" : "ResourceApply", op.name),
                                   {inputs.begin(), inputs.end()}, {attrs.begin(), attrs.end()});
    absl::Status status = place.session().Run({}, {}, initializers).status();
    status.Update(place.session().Run({}, {}, {update}).status());
    const auto result = place.session().Run({}, values);
    EXPECT_TRUE(status.ok() && result.ok()) << status << result.status();
    return result.ok() ? *result : std::vector<Tensor>();
  }

  template <typename T>
  void Compare(bool is_sparse) {
    for (const bool flag : {false, true}) {
      if (flag && GetParam().flag == nullptr) continue;
      cuda_.ClearLog();
      const std::vector<Tensor> found = Run<T>(GetParam(), flag, true, is_sparse);
      const std::string dtype(DTypeName(DTypeOf<T>));
      EXPECT_THAT(Launches(), Contains(is_sparse ? absl::StrCat(GetParam().name, "Rows_", dtype, "_uint32")
                                                 : absl::StrCat(GetParam().name, "_", dtype)));
      const std::vector<Tensor> expected = Run<T>(GetParam(), flag, false, is_sparse);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        if (cuda_.is_stand_in()) {
          EXPECT_EQ(found[i].flat<T>(), expected[i].flat<T>()) << i << " " << flag;
          continue;
        }
        for (int64_t k = 0; k < expected[i].num_elements(); ++k) {
          const T x = expected[i].flat<T>()[k];
          EXPECT_NEAR(found[i].flat<T>()[k], x, 8 * std::numeric_limits<T>::epsilon() * (1 + std::abs(x)))
              << i << " " << flag;
        }
      }
    }
  }
};

TEST_P(CudaOptimizersTest, IsTheCpus) {
  // What the CPU fuses without FMA it rounds twice.
  if (!__builtin_cpu_supports("fma")) GTEST_SKIP() << "this processor has no FMA";
  Compare<float>(false);
  Compare<double>(false);
}

TEST_P(CudaOptimizersTest, OfRowsIsTheCpus) {
  if (!__builtin_cpu_supports("fma")) GTEST_SKIP() << "this processor has no FMA";
  const std::string name = GetParam().name;
  if (name == "GradientDescent" || name == "Adam" || name == "AdaMax") GTEST_SKIP() << "has no op for rows";
  Compare<float>(true);
  Compare<double>(true);
}

INSTANTIATE_TEST_SUITE_P(Ops, CudaOptimizersTest, ::testing::ValuesIn(Ops()),
                         [](const auto& info) { return info.param.name; });

TEST(CudaOptimizerOps, AreAllTested) {
  std::vector<std::string> tested;
  for (const OptimizerOp& op : Ops()) tested.push_back(absl::StrCat("ResourceApply", op.name));
  for (const std::string& op : NamesOfCudaOps()) {
    const bool is_sparse = op.starts_with("ResourceSparseApply");
    if (!is_sparse && !op.starts_with("ResourceApply")) continue;
    EXPECT_THAT(tested, Contains(is_sparse ? absl::StrCat("ResourceApply", op.substr(19)) : op));
  }
}

// Scalars are in the device's memory: that they are wrong is found there.
TEST_F(CudaSessionTest, FtrlRefusesWhatTheCpuRefuses) {
  std::vector<std::string> messages;
  for (const bool on_gpu : {false, true}) {
    Place place(on_gpu ? Gpus(1) : RuntimeOptions{.num_threads = 1});
    GraphBuilder& g = place.g;
    auto scope = g.DeviceScope(on_gpu ? "/gpu:0" : "/cpu:0");
    std::vector<ModelVariable> v;
    for (int i = 0; i < 3; ++i) {
      v.push_back(MakeVariable(g, absl::StrCat("v", i), Tensor::Vector<float>({1, 2})));
    }
    const Output rate = Placeholder(g, DType::kFloat32, Shape());
    Node* const update = g.AddNode(
        "ResourceApplyFtrl", {v[0].handle, v[1].handle, v[2].handle, Const(g, Tensor::Vector<float>({1, 1})),
                              rate, Const(g, -1.0f), Const(g, 0.0f), Const(g, -0.5f)});
    for (const ModelVariable& one : v) ASSERT_TRUE(place.session().Run({}, {}, {one.initializer}).ok());
    absl::Status status = place.session().Run({{rate, Tensor::Scalar(0.1f)}}, {}, {update}).status();
    if (status.ok()) {
      ASSERT_TRUE(on_gpu);
      cuda_.RunAll();  // nobody has waited for the step: the next one that looks at data has its error
      status = place.session().Run({{rate, Tensor::Scalar(0.1f)}}, {}, {update}).status();
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    messages.push_back(std::string(status.message()));
    const auto values = place.session().Run({}, {v[0].value, v[2].value});
    ASSERT_TRUE(values.ok()) << values.status();
    for (const Tensor& value : *values) EXPECT_EQ(value.flat<float>()[1], 2);
  }
  for (const std::string& message : messages)
    EXPECT_THAT(message, HasSubstr("l1 must not be negative, is -1"));
}

}  // namespace
}  // namespace weir
