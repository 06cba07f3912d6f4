// The bodies of the GPU's kernels against the CPU's kernels, through the whole way: tensors go to a recording
// device, the launch is enqueued, its body runs on the host, the result comes back.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/math/elementwise_loops.h"
#include "kernels/cpu/random/distributions.h"
#include "kernels/cpu/training/update_math.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/element_launches.h"
#include "kernels/cuda/recording_cuda_api.h"
#include "kernels/cuda/test_host_kernels.h"
#include "kernels/cuda/update_launches.h"

namespace weir {
namespace {

class BodiesTest : public ::testing::Test {
 protected:
  BodiesTest() : device_(std::move(MakeCudaDevices(api_, "localhost", 0, threads_)->devices.at(0))) {}

  Tensor There(const Tensor& host) { return *device_->FromHost(host); }
  Tensor Back(const Tensor& tensor) { return *device_->ToHost(tensor); }
  Tensor New(DType dtype, const Shape& shape) {
    return *Tensor::Allocate(dtype, shape, device_->allocator());
  }
  CudaStream& stream() { return device_->stream(); }

  ThreadPool threads_{1};
  RecordingCudaApi api_;
  const HostKernels kernels_{api_};
  const std::unique_ptr<CudaDevice> device_;
};

// Ordinary numbers and the ends of the type.
template <typename T>
Tensor Operand(uint32_t seed, int64_t count) {
  Tensor tensor(DTypeOf<T>, Shape({count}));
  std::mt19937 random(seed);
  std::vector<T> special = {T(0), T(1), T(-1), std::numeric_limits<T>::max(),
                            std::numeric_limits<T>::lowest()};
  if constexpr (std::is_floating_point_v<T>) {
    using Limits = std::numeric_limits<T>;
    special.insert(special.end(), {-T(0), Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                                   Limits::denorm_min(), Limits::min(), T(88), T(-104), T(710), T(-746)});
  }
  for (T& element : tensor.flat<T>()) {
    element = random() % 4 == 0 ? special[random() % special.size()]
                                : static_cast<T>((static_cast<double>(random()) / 4294967296.0 - 0.5) * 40);
  }
  return tensor;
}

// How many numbers of the type lie between them; 0 for two NaN.
template <typename T>
double Apart(T a, T b) {
  if (a != a || b != b) return (a != a) == (b != b) ? 0 : 1e300;
  if (std::memcmp(&a, &b, sizeof(T)) == 0) return 0;
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isinf(a) || std::isinf(b) || a == b) return 1e300;  // equal numbers with other bits: zeros
    return std::abs(static_cast<double>(a) - static_cast<double>(b)) /
           std::max<double>(std::abs(std::nextafter(a, T(0)) - a), std::numeric_limits<T>::denorm_min());
  }
  return 1e300;
}

template <typename T>
void ExpectClose(const Tensor& found, const Tensor& expected, double most_apart, const std::string& what) {
  ASSERT_EQ(found.num_elements(), expected.num_elements());
  for (int64_t i = 0; i < found.num_elements(); ++i) {
    const T a = found.flat<T>()[i], b = expected.flat<T>()[i];
    ASSERT_LE(Apart(a, b), most_apart) << what << " element " << i << ": " << a << ", the CPU has " << b;
  }
}

// Vector forms of the CPU differ from the C library in the last places.
double MostApart(const elementwise::Traits& traits) {
  return traits.vector_form == elementwise::VectorForm::kNone ? 0 : 5;
}

TEST_F(BodiesTest, FunctionsOfOneOperandAreTheCpus) {
  int count = 0;
  cuda::VisitUnary([&]<typename F, typename T>(const char* op) {
    if constexpr (std::is_floating_point_v<T>) {
      const UnaryRow* const cpu = FindUnaryLoop(op, DTypeOf<T>);
      ASSERT_NE(cpu, nullptr) << op;
      const Tensor x = Operand<T>(1, 5000);
      Tensor expected(DTypeOf<T>, x.shape());
      cpu->loop(x.data(), expected.data(), x.num_elements());
      const Tensor there = There(x);
      Tensor y = New(DTypeOf<T>, x.shape());
      ASSERT_TRUE(LaunchUnary(stream(), kernels_.table(), op, there, y).ok());
      ExpectClose<T>(Back(y), expected, MostApart(cpu->traits), op);
      ++count;
    }
  });
  EXPECT_EQ(count, 11 * 2);
}

// TanhGrad and SigmoidGrad multiply by a difference that may be small, and the CPU's compiler fuses its
// product: the results differ by what rounding y * y costs.
template <typename T>
void ExpectCloseGradients(const Tensor& found, const Tensor& expected, const Tensor& y, const Tensor& dy) {
  for (int64_t i = 0; i < found.num_elements(); ++i) {
    const T a = found.flat<T>()[i], b = expected.flat<T>()[i];
    const T square = y.flat<T>()[i] * y.flat<T>()[i];
    const T bound = std::numeric_limits<T>::epsilon() * (1 + square) * std::abs(dy.flat<T>()[i]);
    ASSERT_TRUE(Apart(a, b) <= 4 || std::abs(a - b) <= bound) << i << ": " << a << ", the CPU has " << b;
  }
}

TEST_F(BodiesTest, FunctionsOfTwoOperandsAreTheCpus) {
  int count = 0;
  cuda::VisitBinary([&]<typename F, typename T>(const char* op) {
    constexpr bool kIsFused =
        std::is_same_v<F, elementwise::TanhGrad> || std::is_same_v<F, elementwise::SigmoidGrad>;
    if constexpr (std::is_arithmetic_v<T>) {
      const BinaryRow* const cpu = FindBinaryLoop(op, DTypeOf<T>);
      ASSERT_NE(cpu, nullptr) << op;
      const Tensor x = Operand<T>(1, 5000), y = Operand<T>(2, 5000);
      Tensor expected(DTypeOf<T>, x.shape());
      cpu->loop(x.data(), y.data(), expected.data(), x.num_elements(), Operands::kBoth);
      Tensor z = There(x);  // in place
      ASSERT_TRUE(LaunchBinary(stream(), kernels_.table(), op, z, There(y), z).ok());
      if constexpr (kIsFused) {
        ExpectCloseGradients<T>(Back(z), expected, x, y);
      } else {
        ExpectClose<T>(Back(z), expected, 0, op);
      }
      if (kIsFused) return void(++count);
      // One element with many.
      cpu->loop(x.data(), y.data(), expected.data(), x.num_elements(), Operands::kScalarX);
      const Tensor one = There(Tensor::Scalar<T>(x.flat<T>()[0]));
      ASSERT_TRUE(LaunchBinary(stream(), kernels_.table(), op, one, There(y), z).ok());
      ExpectClose<T>(Back(z), expected, 0, op);
      cpu->loop(x.data(), y.data(), expected.data(), x.num_elements(), Operands::kScalarY);
      const Tensor last = There(Tensor::Scalar<T>(y.flat<T>()[0]));
      ASSERT_TRUE(LaunchBinary(stream(), kernels_.table(), op, There(x), last, z).ok());
      ExpectClose<T>(Back(z), expected, 0, op);
      ++count;
    }
  });
  EXPECT_EQ(count, 5 * 4 + 4 * 2);
}

TEST_F(BodiesTest, SixteenBitsAreComputedInFloat) {
  const Tensor x = Operand<float>(3, 3000);
  Tensor half = New(DType::kHalf, x.shape()), result = New(DType::kHalf, x.shape());
  ASSERT_TRUE(LaunchCast(stream(), kernels_.table(), There(x), half).ok());
  ASSERT_TRUE(LaunchUnary(stream(), kernels_.table(), "Sqrt", half, result).ok());
  const Tensor host = Back(result);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const Half expected(std::sqrt(static_cast<float>(Half(x.flat<float>()[i]))));
    ASSERT_EQ(host.flat<Half>()[i].bits(), expected.bits()) << x.flat<float>()[i];
  }
}

TEST_F(BodiesTest, CastsRoundAsTheCpu) {
  const Tensor x = Operand<double>(4, 3000);
  Tensor brief = New(DType::kBfloat16, x.shape()), wide = New(DType::kFloat32, x.shape());
  ASSERT_TRUE(LaunchCast(stream(), kernels_.table(), There(x), brief).ok());
  ASSERT_TRUE(LaunchCast(stream(), kernels_.table(), brief, wide).ok());
  const Tensor host = Back(brief), host_wide = Back(wide);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const Bfloat16 expected(static_cast<float>(x.flat<double>()[i]));
    ASSERT_EQ(host.flat<Bfloat16>()[i].bits(), expected.bits()) << x.flat<double>()[i];
    ASSERT_EQ(Apart(host_wide.flat<float>()[i], static_cast<float>(expected)), 0);
  }
}

TEST_F(BodiesTest, ABiasIsAddedToItsChannel) {
  for (const bool channels_first : {false, true}) {
    const Shape shape = channels_first ? Shape({3, 5, 2, 4}) : Shape({3, 2, 4, 5});
    const Tensor x = Operand<float>(5, 120).WithShape(shape), bias = Operand<float>(6, 5);
    Tensor y = New(DType::kFloat32, shape);
    ASSERT_TRUE(LaunchBiasAdd(stream(), kernels_.table(), There(x), There(bias), channels_first, y).ok());
    const Tensor host = Back(y);
    for (int64_t i = 0; i < 120; ++i) {
      const int64_t channel = channels_first ? i / 8 % 5 : i % 5;
      ASSERT_EQ(Apart(host.flat<float>()[i], x.flat<float>()[i] + bias.flat<float>()[channel]), 0) << i;
    }
  }
}

// Rows again and again, columns in the place of rows, and what an element of each size is.
TEST_F(BodiesTest, ASpreadCopiesWhatItsLoopsComeTo) {
  Tensor x(DType::kInt64, Shape({2, 3}));
  std::iota(x.flat<int64_t>().begin(), x.flat<int64_t>().end(), 10);
  const auto spread = [&](const Shape& shape, const Dims& sizes, const Dims& strides) {
    Tensor y = New(DType::kInt64, shape);
    EXPECT_TRUE(LaunchSpread(stream(), kernels_.table(), There(x), sizes, strides, y).ok());
    const Tensor back = Back(y);
    return std::vector<int64_t>(back.flat<int64_t>().begin(), back.flat<int64_t>().end());
  };
  EXPECT_EQ(spread({3, 2}, {3, 2}, {1, 3}), (std::vector<int64_t>{10, 13, 11, 14, 12, 15}));
  EXPECT_EQ(spread({2, 2, 2}, {2, 2, 2}, {3, 0, 1}), (std::vector<int64_t>{10, 11, 10, 11, 13, 14, 13, 14}));
  EXPECT_EQ(spread({2}, {2}, {0}), (std::vector<int64_t>{10, 10}));
  for (const DType dtype : {DType::kBool, DType::kBfloat16, DType::kFloat32}) {
    Tensor bytes(dtype, Shape({4})), y = New(dtype, Shape({4}));
    auto* const from = static_cast<uint8_t*>(bytes.data());
    for (size_t i = 0; i < bytes.num_bytes(); ++i) from[i] = static_cast<uint8_t>(i % 2);
    ASSERT_TRUE(LaunchSpread(stream(), kernels_.table(), There(bytes), {2, 2}, {1, 2}, y).ok());
    const Tensor back = Back(y);
    const size_t size = DTypeSize(dtype);
    for (size_t i = 0; i < bytes.num_bytes(); ++i) {
      const size_t element = i / size, source = element / 2 + element % 2 * 2;
      ASSERT_EQ(static_cast<const uint8_t*>(back.data())[i], from[source * size + i % size]);
    }
  }
}

template <typename T, typename Distribution>
uint64_t BlocksOf(const Distribution&) {
  if constexpr (std::is_same_v<Distribution, TruncatedNormal<T>>) return Distribution::kBlocksPerGroup;
  return 1;
}

TEST_F(BodiesTest, RandomNumbersAreTheCpusBitForBit) {
  const Philox start(87654321, 12345);
  cuda::VisitDistributions([&]<typename Distribution, typename T>(const char* op) {
    Distribution distribution;
    if constexpr (std::is_same_v<Distribution, UniformInt<T>>)
      distribution = {static_cast<std::make_unsigned_t<T>>(-5), 1000003};
    for (const int64_t count : {1, 7, 100003}) {
      Tensor expected(DTypeOf<T>, Shape({count}));
      Fill<T>(threads_, start, BlocksOf<T>(distribution), distribution, expected.flat<T>());
      Tensor output = New(DTypeOf<T>, Shape({count}));
      ASSERT_TRUE(LaunchRandom<T>(stream(), kernels_.table(), op, start, BlocksOf<T>(distribution),
                                  distribution, output)
                      .ok());
      ExpectClose<T>(Back(output), expected, 0, op);
    }
  });
}

// Variables of many sizes: none, a few elements, some chunks; more of them than one launch takes.
class UpdatesTest : public BodiesTest {
 protected:
  static constexpr int kVariables = 100;

  // Runs both; `cpu` updates the arrays of one variable.
  template <typename Rule, typename T = typename Rule::Number, typename Cpu>
  void Compare(const char* op, const std::vector<T>& numbers, bool nesterov, const Cpu& cpu,
               int signed_arrays = 2) {
    // What the CPU fuses without FMA it rounds twice.
    if (!__builtin_cpu_supports("fma")) GTEST_SKIP() << "this processor has no FMA";
    std::mt19937 random(9);
    std::vector<std::vector<Tensor>> expected;
    std::vector<UpdatedVariable> variables;
    for (int i = 0; i < kVariables; ++i) {
      const int64_t size = i % 10 == 0 ? 0 : i % 10 == 1 ? 3 * cuda::kUpdateChunk + 5 : random() % 1000 + 1;
      const Tensor gradient = Numbers<T>(random, size, true);
      UpdatedVariable variable = {{}, There(gradient)};
      std::vector<Tensor> arrays;
      for (int a = 0; a < Rule::kArrays; ++a) {
        arrays.push_back(Numbers<T>(random, size, a < signed_arrays));
        variable.arrays.push_back(There(arrays.back()));
      }
      cpu(size, arrays, gradient.flat<T>().data());
      expected.push_back(arrays);
      variables.push_back(variable);
    }
    std::vector<Tensor> scalars;
    for (const T number : numbers) scalars.push_back(There(Tensor::Scalar(number)));
    api_.RunAll();
    api_.ClearLog();
    ASSERT_TRUE(LaunchUpdates<Rule>(stream(), kernels_.table(), op, scalars, nesterov, variables).ok());
    EXPECT_EQ(api_.launches().size(), 2u);  // 90 have elements
    for (int i = 0; i < kVariables; ++i) {
      for (int a = 0; a < Rule::kArrays; ++a) {
        ExpectClose<T>(Back(variables[i].arrays[a]), expected[i][a], 0, op);
      }
    }
  }

  template <typename T>
  static Tensor Numbers(std::mt19937& random, int64_t size, bool is_signed) {
    Tensor tensor(DTypeOf<T>, Shape({size}));
    for (T& element : tensor.flat<T>()) {
      element = static_cast<T>(static_cast<double>(random()) / 4294967296.0 - (is_signed ? 0.5 : 0.0));
    }
    return tensor;
  }
  template <typename T>
  static UpdatedArray<T> InPlace(Tensor& tensor) {
    return {tensor.flat<T>().data(), tensor.flat<T>().data()};
  }

  template <typename T>
  void CompareAll() {
    Compare<cuda::GradientDescentRule<T>>("GradientDescent", {T(0.1)}, false,
                                          [](int64_t n, auto& arrays, const T* g) {
                                            GradientDescentUpdate<T>(n, InPlace<T>(arrays[0]), T(0.1), g);
                                          });
    Compare<cuda::RMSPropRule<T>>(
        "RMSProp", {T(0.1), T(0.9), T(0.5), T(1e-3)}, false,
        [](int64_t n, auto& arrays, const T* g) {
          RMSPropUpdate<T>(n, InPlace<T>(arrays[0]), InPlace<T>(arrays[1]), InPlace<T>(arrays[2]), g,
                           {T(0.1), T(0.9), T(0.5), T(1e-3)});
        },
        /*signed_arrays=*/1);
    for (const bool nesterov : {false, true}) {
      Compare<cuda::MomentumRule<T>>(
          "Momentum", {T(0.1), T(0.9)}, nesterov, [=](int64_t n, auto& arrays, const T* g) {
            MomentumUpdate<T>(n, InPlace<T>(arrays[0]), InPlace<T>(arrays[1]), g, {T(0.1), T(0.9), nesterov});
          });
      Compare<cuda::KerasMomentumRule<T>>(
          "KerasMomentum", {T(0.1), T(0.9)}, nesterov, [=](int64_t n, auto& arrays, const T* g) {
            KerasMomentumUpdate<T>(n, InPlace<T>(arrays[0]), InPlace<T>(arrays[1]), g,
                                   {T(0.1), T(0.9), nesterov});
          });
      const bool update_slots = nesterov;
      Compare<cuda::AdagradV2Rule<T>>(
          "AdagradV2", {T(0.1), T(1e-3)}, update_slots,
          [=](int64_t n, auto& arrays, const T* g) {
            AdagradUpdate<T>(n, InPlace<T>(arrays[0]), InPlace<T>(arrays[1]), g,
                             {T(0.1), T(1e-3), update_slots});
          },
          /*signed_arrays=*/1);
      const T power1 = T(0.81), power2 = T(0.998001), rate = T(0.01);
      const T step_size = rate * std::sqrt(1 - power2) / (1 - power1);
      Compare<cuda::AdamRule<T>>("Adam", {power1, power2, rate, T(0.9), T(0.999), T(1e-8)}, nesterov,
                                 [=](int64_t n, auto& arrays, const T* g) {
                                   AdamUpdate<T>(n, InPlace<T>(arrays[0]), InPlace<T>(arrays[1]),
                                                 InPlace<T>(arrays[2]), g,
                                                 {step_size, T(0.9), T(0.999), T(1e-8), nesterov});
                                 });
    }
  }
};

TEST_F(UpdatesTest, FloatsAreTheCpusBitForBit) { CompareAll<float>(); }
TEST_F(UpdatesTest, DoublesAreTheCpusBitForBit) { CompareAll<double>(); }

}  // namespace
}  // namespace weir
