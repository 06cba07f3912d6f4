// Inputs that only a step can judge, and that do not fit: each gives an error that says what was found, and
// nothing is read or written out of bounds, which --config=asan --config=ubsan would show.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "absl/strings/match.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "kernels/evaluate.h"
#include "kernels/fake/fake_device.h"
#include "kernels/fake/fake_kernels.h"
#include "kernels/null/null_device.h"
#include "kernels/null/register_kernels.h"
#include "kernels/variable.h"
#include "ops/register_ops.h"
#include "tests/conformance/hostile_cases.h"
#include "tests/conformance/op_case.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using MakeInput = std::function<Output(GraphBuilder& g, const Tensor& value)>;

Output Unknown(GraphBuilder& g, const Tensor& value) {
  return g.AddOp("Placeholder", {}, {{"dtype", value.dtype()}});
}
Output OfKnownShape(GraphBuilder& g, const Tensor& value) {
  return g.AddOp("Placeholder", {}, {{"dtype", value.dtype()}, {"shape", PartialShape(value.shape())}});
}
Output Constant(GraphBuilder& g, const Tensor& value) {
  if (value.dtype() == DType::kResource) return Unknown(g, value);  // no graph holds a resource
  return g.AddOp("Const", {}, {{"value", value}, {"dtype", value.dtype()}});
}

// A device with the CPU's kernels and little memory.
class HostileInputs : public testing::Test {
 protected:
  HostileInputs() : device_(MakeFakeDevice("test", 0, 0, threads_, kHostileDeviceBytes)) {
    RegisterFakeKernels(kernels_);
    auto variable = device_->resources().LookupOrCreate<Variable>(
        "", kHostileVariable, [] { return MakeRef<Variable>(DType::kFloat32); });
    EXPECT_TRUE(variable.ok()) << variable.status();
  }

  // The op's outputs for a case whose inputs the graph knows as far as `make` tells.
  absl::StatusOr<std::vector<Tensor>> Evaluate(const HostileCase& test, const MakeInput& make = Unknown) {
    return Evaluate(test, make, *device_, kernels_);
  }

  static absl::StatusOr<std::vector<Tensor>> Evaluate(const HostileCase& test, const MakeInput& make,
                                                      Device& device, const KernelRegistry& kernels) {
    GraphBuilder g(StandardOps());
    std::vector<InputArg> args;
    std::vector<Tensor> flat;
    for (const CaseInput& input : test.inputs) {
      std::vector<Output> outputs;
      for (const Tensor& tensor : input.tensors) {
        outputs.push_back(make(g, tensor));
        flat.push_back(tensor);
      }
      args.push_back(input.is_list ? InputArg(outputs) : InputArg(outputs[0]));
    }
    Node* node = g.AddNode(test.op, args, test.attrs, "hostile");
    if (node == nullptr) return g.status();
    return EvaluateNode(*node, flat, device, kernels);
  }

  ThreadPool threads_{2};
  std::unique_ptr<FakeDevice> device_;
  KernelRegistry kernels_;
};

// Shapes are hidden from the graph, so that the kernel and not shape inference has to object.
TEST_F(HostileInputs, AreErrorsThatSayWhatWasFound) {
  int index = 0;
  for (const HostileCase& test : Suite::Whole().hostile_calls()) {
    SCOPED_TRACE(test.op + " case " + std::to_string(index++));
    const auto result = Evaluate(test);
    if (result.ok()) {
      ADD_FAILURE() << "no error; found " << (result->empty() ? "no output" : (*result)[0].ToString());
      continue;
    }
    EXPECT_EQ(result.status().code(), test.code) << result.status();
    EXPECT_TRUE(absl::StrContains(result.status().message(), test.error))
        << "wanted '" << test.error << "' in: " << result.status();
    EXPECT_TRUE(absl::StrContains(result.status().message(), test.op)) << result.status();
  }
  EXPECT_EQ(device_->allocator().num_bytes_in_use(), 0);
}

// What shape inference sees may be as hostile as what kernels see: whoever objects, somebody does.
TEST_F(HostileInputs, AreErrorsAlsoWhereTheGraphKnowsThem) {
  int index = 0;
  for (const HostileCase& test : Suite::Whole().hostile_calls()) {
    SCOPED_TRACE(test.op + " case " + std::to_string(index++));
    for (const MakeInput& make : {MakeInput(OfKnownShape), MakeInput(Constant)}) {
      const auto result = Evaluate(test, make);
      ASSERT_FALSE(result.ok()) << "no error";
      EXPECT_NE(result.status().code(), absl::StatusCode::kInternal) << result.status();
    }
  }
}

// A device that computes nothing may accept what it never looks at.
TEST_F(HostileInputs, DoNotDisturbTheNullDevice) {
  const auto null_device = MakeNullDevice("test", 0, 0, threads_);
  KernelRegistry kernels;
  RegisterNullKernels(StandardOps(), kernels);
  for (const HostileCase& test : Suite::Whole().hostile_calls()) {
    for (const MakeInput& make : {MakeInput(Unknown), MakeInput(OfKnownShape), MakeInput(Constant)}) {
      if (test.code == absl::StatusCode::kResourceExhausted) continue;  // its memory is the machine's
      (void)Evaluate(test, make, *null_device, kernels);
    }
  }
}

TEST_F(HostileInputs, EveryOpHasOneOrCannotFail) {
  for (const Op* op : StandardOps().ops()) {
    if (IsRunByTheExecutor(op->name())) continue;
    const OpRecord* const record = Suite::Whole().Find(op->name());
    ASSERT_NE(record, nullptr) << op->name() << " has no record in tests/conformance/<family>/";
    EXPECT_NE(!record->hostile_calls().empty(), record->cannot_fail())
        << op->name()
        << (record->cannot_fail() ? " has a hostile call and is said to have none"
                                  : " has no hostile call: add one to its record");
  }
}

HostileCase AsHostile(const OpCase& test) { return {test.op, test.attrs, test.inputs, ""}; }

// The allocator fails at every place where a kernel allocates: each is an error, and all memory comes back.
TEST_F(HostileInputs, RunningOutOfMemoryIsAnErrorEverywhere) {
  int num_errors = 0;
  for (const OpCase& test : Suite::Whole().calls()) {
    if (test.inputs.empty()) continue;
    if (!Evaluate(AsHostile(test)).ok()) continue;  // an error of its own
    for (int nth = 1;; ++nth) {
      device_->allocator().FailAllocationForTesting(nth);
      const auto result = Evaluate(AsHostile(test));
      device_->allocator().FailAllocationForTesting(0);
      if (result.ok()) break;
      ++num_errors;
      ASSERT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted)
          << test.op << ": " << result.status();
    }
    ASSERT_EQ(device_->allocator().num_bytes_in_use(), 0) << test.op;
  }
  EXPECT_GT(num_errors, 1000);
}

// No elements: nothing to read, and every op that has an answer for it gives one.
TEST_F(HostileInputs, EmptyTensorsAreReadNowhere) {
  for (const OpCase& test : Suite::Whole().calls()) {
    for (size_t emptied = 0; emptied < test.inputs.size(); ++emptied) {
      const size_t rank =
          test.inputs[emptied].tensors.empty() ? 0 : test.inputs[emptied].tensors[0].shape().rank();
      for (size_t dim = 0; dim <= rank; ++dim) {  // dim == rank: all inputs lose dimension 0
        HostileCase hostile = AsHostile(test);
        for (size_t i = 0; i < hostile.inputs.size(); ++i) {
          if (i != emptied && dim < rank) continue;
          for (Tensor& tensor : hostile.inputs[i].tensors) {
            Dims dims(tensor.shape().dims().begin(), tensor.shape().dims().end());
            if (dims.empty()) dims.push_back(0);
            dims[dim < dims.size() ? dim : 0] = 0;
            tensor = Tensor(tensor.dtype(), Shape(absl::MakeConstSpan(dims)));
          }
        }
        for (const MakeInput& make : {MakeInput(Unknown), MakeInput(Constant)}) {
          const auto result = Evaluate(hostile, make);
          if (result.ok()) continue;
          EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
        }
      }
    }
  }
}

// Numbers that trap or overflow in the processor are ordinary results.
TEST_F(HostileInputs, IntegersWrapAround) {
  constexpr int64_t kShortest = std::numeric_limits<int64_t>::min();
  constexpr int32_t kSmallest = std::numeric_limits<int32_t>::min();
  for (const char* op :
       {"Div", "FloorDiv", "FloorMod", "Mul", "Sub", "AddV2", "Maximum", "SquaredDifference"}) {
    for (const std::vector<CaseInput>& inputs : {std::vector<CaseInput>{Longs({kShortest}), Longs({-1})},
                                                 std::vector<CaseInput>{Ints({kSmallest}), Ints({-1})}}) {
      const auto result = Evaluate({op, {}, inputs, ""});
      EXPECT_TRUE(result.ok()) << op << ": " << result.status();
    }
  }
  for (const char* op : {"Neg", "Abs", "Square", "Sign"}) {
    for (const Tensor& input : {Longs({kShortest}), Ints({kSmallest})}) {
      const auto result = Evaluate({op, {}, {input}, ""});
      EXPECT_TRUE(result.ok()) << op << ": " << result.status();
    }
  }
  for (const char* op : {"Sum", "Prod", "Mean"}) {
    const auto result = Evaluate({op, {}, {Longs({kShortest, kShortest, -1}), Ints({0})}, ""});
    EXPECT_TRUE(result.ok()) << op << ": " << result.status();
  }
  const Tensor least = Longs({kShortest}), more = Longs({-1}), at = Make(DType::kInt64, {1, 1}, {0}),
               one = Longs({1});
  const Tensor square = Make(DType::kInt64, {1, 2}, {0, 0}), squares = Longs({1, 1}),
               matrix = more.WithShape(Shape({1, 1}));
  const std::vector<std::pair<std::string, std::vector<CaseInput>>> sums = {
      {"SparseAdd", {at, least, one, at, more, one, Tensor::Scalar<int64_t>(0)}},
      {"SparseDenseCwiseAdd", {at, least, one, more}},
      {"SparseTensorDenseAdd", {at, least, one, more}},
  };
  for (const auto& [op, inputs] : sums) {
    const auto result = Evaluate({op, {}, inputs, ""});
    ASSERT_TRUE(result.ok()) << op << ": " << result.status();
    EXPECT_EQ((*result)[op == "SparseAdd" ? 1 : 0].flat<int64_t>()[0], std::numeric_limits<int64_t>::max());
  }
  for (const auto& [op, inputs] : std::vector<std::pair<std::string, std::vector<CaseInput>>>{
           {"SparseDenseCwiseMul", {at, least, one, more}},
           {"SparseDenseCwiseDiv", {at, least, one, more}},
           {"SparseTensorDenseMatMul", {square, least, squares, matrix}}}) {
    const auto result = Evaluate({op, {}, inputs, ""});
    ASSERT_TRUE(result.ok()) << op << ": " << result.status();
    EXPECT_EQ((*result)[0].flat<int64_t>()[0], kShortest) << op;
  }
  const auto quotient = Evaluate({"Div", {}, {Longs({kShortest}), Longs({-1})}, ""});
  EXPECT_EQ(quotient.value()[0].flat<int64_t>()[0], kShortest);
}

TEST_F(HostileInputs, NumbersWithoutAnIntegerBecomeTheSmallestOne) {
  for (DType from : {DType::kFloat32, DType::kFloat64}) {
    const Tensor values = Make(from, {5}, {1e30, -1e30, std::nan(""), INFINITY, -INFINITY});
    const auto cast = Evaluate({"Cast", {{"DstT", DType::kInt32}}, {values}, ""});
    ASSERT_TRUE(cast.ok()) << cast.status();
    for (int32_t value : (*cast)[0].flat<int32_t>()) EXPECT_EQ(value, std::numeric_limits<int32_t>::min());
  }
}

// Windows, strides and dilations far larger than any image.
TEST_F(HostileInputs, HugeWindowsAreRight) {
  constexpr int64_t kWide = int64_t{1} << 40;
  using List = std::vector<int64_t>;
  const Tensor image = Make(DType::kFloat32, {1, 2, 2, 1}, {1, 2, 3, 4});
  const auto value_of = [&](const std::string& op, std::vector<CaseInput> inputs, AttrMap attrs) {
    const auto result = Evaluate({op, std::move(attrs), std::move(inputs), ""});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? (*result)[0] : Tensor(DType::kFloat32, {1});
  };
  const AttrMap pool = {
      {"ksize", List{1, kWide, kWide, 1}}, {"strides", List{1, kWide, kWide, 1}}, {"padding", "SAME"}};
  EXPECT_EQ(value_of("MaxPool", {image}, pool).flat<float>()[0], 4);
  EXPECT_EQ(value_of("AvgPool", {image}, pool).flat<float>()[0], 2.5);

  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const Tensor input = Make(dtype, {1, 2, 2, 1}, {1, 2, 3, 4});
    const Tensor filter = Make(dtype, {3, 3, 1, 1}, {1, 1, 1, 1, 10, 1, 1, 1, 1});
    const auto element = [&](const Tensor& tensor, int64_t i) {
      return dtype == DType::kFloat32 ? tensor.flat<float>()[i] : tensor.flat<double>()[i];
    };
    for (int64_t far :
         {int64_t{5}, int64_t{100}, int64_t{1} << 20, int64_t{1} << 31, int64_t{1} << 32, kWide}) {
      SCOPED_TRACE(far);
      // Only the middle of the filter meets the image.
      const AttrMap dilated = {
          {"strides", List{1, 1, 1, 1}}, {"padding", "SAME"}, {"dilations", List{1, far, far, 1}}};
      const Tensor output = value_of("Conv2D", {input, filter}, dilated);
      const Tensor back = value_of("Conv2DBackpropInput", {Ints({1, 2, 2, 1}), filter, input}, dilated);
      for (int64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(element(output, i), 10.0 * static_cast<double>(i + 1));
        EXPECT_EQ(element(back, i), 10.0 * static_cast<double>(i + 1));
      }
      const Tensor of_filter = value_of("Conv2DBackpropFilter", {input, Ints({3, 3, 1, 1}), input}, dilated);
      for (int64_t i = 0; i < 9; ++i) EXPECT_EQ(element(of_filter, i), i == 4 ? 30 : 0);
      // One window, whose corner is the upper left pixel.
      const AttrMap strided = {{"strides", List{1, far, far, 1}}, {"padding", "SAME"}};
      EXPECT_EQ(element(value_of("Conv2D", {input, filter}, strided), 0), 1 + 2 + 3 + 10 * 4);
    }
  }
}

}  // namespace
}  // namespace weir::conformance
