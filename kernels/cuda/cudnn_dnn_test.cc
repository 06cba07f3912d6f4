// What of cuDNN can be tried without a GPU: that it is opened, that it takes the descriptions of
// convolutions, that it makes plans of those of real networks for an H100 (as it can for a GPU that it is
// told of), and what it says where there is no driver. Nothing is computed by it.
#include "kernels/cuda/cudnn_dnn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/nn/plain_convolution.h"
#include "kernels/cuda/caching_allocator.h"
#include "kernels/cuda/cuda_libraries.h"
#include "kernels/cuda/cudart_api.h"
#include "kernels/cuda/recording_cuda_api.h"
#include "kernels/thread_pool.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// An H100 with the keys that cuDNN asks for. The numbers are those of CUDA's tables for compute
// capability 9.0 and of the data sheet; no GPU was asked.
constexpr char kH100[] = R"({
  "deviceName": "NVIDIA H100 80GB HBM3", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
  "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "totalGlobalMem": 85022539776,
  "multiProcessorCount": 132, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000,
  "l2CacheSize": 52428800, "warpSize": 32, "maxGridSize": [2147483647, 65535, 65535],
  "maxBlockSize": [1024, 1024, 64], "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
  "maxCtasPerSM": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024})";

// A square image and window, padded as SAME does it.
ConvGeometry Same(int64_t batch, int64_t size, int64_t channels, int64_t window, int64_t stride,
                  int64_t filters, int64_t groups = 1) {
  ConvGeometry geometry;
  WindowGeometry& w = geometry.windows;
  w.batch = batch;
  w.channels = channels;
  for (int i = 0; i < 2; ++i) {
    w.input[i] = size;
    w.window[i] = window;
    w.stride[i] = stride;
    w.output[i] = (size + stride - 1) / stride;
    const int64_t padding = std::max<int64_t>(0, (w.output[i] - 1) * stride + window - size);
    w.padding_before[i] = padding / 2;
    w.padding_after[i] = padding - padding / 2;
  }
  geometry.output_channels = filters;
  geometry.group_channels = channels / groups;
  return geometry;
}

// The convolutions of ResNet-20 on images of 32 x 32, each once.
std::vector<ConvGeometry> ResNet20(int64_t batch) {
  return {Same(batch, 32, 3, 3, 1, 16),  Same(batch, 32, 16, 3, 1, 16), Same(batch, 32, 16, 3, 2, 32),
          Same(batch, 32, 16, 1, 2, 32), Same(batch, 16, 32, 3, 1, 32), Same(batch, 16, 32, 3, 2, 64),
          Same(batch, 16, 32, 1, 2, 64), Same(batch, 8, 64, 3, 1, 64)};
}

// Of ResNet-50 on images of 224 x 224: bottlenecks whose first block halves the resolution in its window
// of 3.
std::vector<ConvGeometry> ResNet50(int64_t batch) {
  std::vector<ConvGeometry> all = {Same(batch, 224, 3, 7, 2, 64)};
  int64_t size = 56, channels = 64;
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t width = int64_t{64} << stage, stride = stage == 0 ? 1 : 2, end = size / stride;
    all.push_back(Same(batch, size, channels, 1, 1, width));
    all.push_back(Same(batch, size, width, 3, stride, width));
    all.push_back(Same(batch, end, width, 1, 1, 4 * width));
    all.push_back(Same(batch, size, channels, 1, stride, 4 * width));
    all.push_back(Same(batch, end, 4 * width, 1, 1, width));
    all.push_back(Same(batch, end, width, 3, 1, width));
    size = end;
    channels = 4 * width;
  }
  return all;
}

const ConvDirection kDirections[] = {ConvDirection::kOutput, ConvDirection::kInputGradient,
                                     ConvDirection::kFilterGradient};

// cuDNN's definition of a convolution, of what it is told.
std::vector<float> ConvolveAsTold(const CudnnConvolution& told, const std::vector<float>& input,
                                  const std::vector<float>& filter) {
  const auto at = [](const CudnnTensor& tensor, int64_t a, int64_t b, int64_t c, int64_t d) {
    return a * tensor.strides[0] + b * tensor.strides[1] + c * tensor.strides[2] + d * tensor.strides[3];
  };
  const auto& x = told.input.dims;
  const auto& w = told.filter.dims;
  const auto& y = told.output.dims;
  const int64_t filters_of_group = w[0] / (x[1] / w[1]);
  std::vector<float> output(y[0] * y[1] * y[2] * y[3]);
  for (int64_t n = 0; n < y[0]; ++n) {
    for (int64_t k = 0; k < y[1]; ++k) {
      for (int64_t p = 0; p < y[2]; ++p) {
        for (int64_t q = 0; q < y[3]; ++q) {
          float& sum = output.at(at(told.output, n, k, p, q));
          for (int64_t c = 0; c < w[1]; ++c) {
            for (int64_t r = 0; r < w[2]; ++r) {
              for (int64_t s = 0; s < w[3]; ++s) {
                const int64_t h = p * told.stride[0] + r * told.dilation[0] - told.padding_before[0];
                const int64_t v = q * told.stride[1] + s * told.dilation[1] - told.padding_before[1];
                if (h < 0 || h >= x[2] || v < 0 || v >= x[3]) continue;
                const int64_t channel = k / filters_of_group * w[1] + c;
                sum += input.at(at(told.input, n, channel, h, v)) * filter.at(at(told.filter, k, c, r, s));
              }
            }
          }
        }
      }
    }
  }
  return output;
}

// Small whole numbers: sums are exact in any order.
std::vector<float> Numbers(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> numbers(count);
  for (float& x : numbers) x = static_cast<float>(random() % 9) - 4;
  return numbers;
}

TEST(CudnnConvolutionTest, WhatCudnnIsToldIsTheConvolution) {
  ThreadPool threads(1);
  for (int choice = 0; choice < 16; ++choice) {
    SCOPED_TRACE(choice);
    ConvGeometry geometry = Same(2, 7, 4, 3, (choice & 1) != 0 ? 2 : 1, 6, (choice & 2) != 0 ? 2 : 1);
    WindowGeometry& w = geometry.windows;
    w.channels_first = (choice & 4) != 0;
    if ((choice & 8) != 0) {  // height and width differ in everything
      w.input[1] = 9;
      w.window[1] = 2;
      w.dilation[1] = 3;
      w.padding_before[1] = 2;
      w.padding_after[1] = 1;
      w.stride[1] = 1;
      w.output[1] = 9 + 3 - 3;
    }
    const std::vector<float> input = Numbers(geometry.InputShape().num_elements(), 1);
    const std::vector<float> filter = Numbers(geometry.FilterShape().num_elements(), 2);
    std::vector<float> expected(geometry.OutputShape().num_elements());
    ASSERT_TRUE(
        PlainConvolution<float>(threads, geometry, input.data(), filter.data(), expected.data()).ok());
    const CudnnConvolution told = AsCudnn(geometry);
    // From TensorFlow's order of filters to that of cuda_dnn.h.
    std::vector<float> turned(filter.size());
    const int64_t window = w.window[0] * w.window[1];
    const int64_t in = geometry.group_channels, out = geometry.output_channels;
    for (int64_t at = 0; at < window; ++at) {
      for (int64_t i = 0; i < in; ++i) {
        for (int64_t o = 0; o < out; ++o) {
          turned.at(w.channels_first ? (o * in + i) * window + at : (o * window + at) * in + i) =
              filter[(at * in + i) * out + o];
        }
      }
    }
    EXPECT_EQ(ConvolveAsTold(told, input, turned), expected);
  }
}

class CudnnDnnTest : public ::testing::Test {
 protected:
  // Whether it can be asked; says what is missing.
  bool IsThere() {
    const auto status = MakeCudnnDnn(api_, libraries_)->Check({.geometry = Same(1, 4, 8, 1, 1, 8)}, "");
    if (absl::IsNotFound(status.status())) std::printf("%s\n", status.status().ToString().c_str());
    return !absl::IsNotFound(status.status());
  }
  bool MakesPlans() {
    const absl::StatusOr<int> version = libraries_.Open(CudaLibraryList()[kCudnn]);
    return IsThere() && version.ok() && *version >= 91100;
  }

  void ExpectPlans(const std::vector<ConvGeometry>& convolutions, const std::vector<DType>& dtypes) {
    const auto dnn = MakeCudnnDnn(api_, libraries_);
    std::set<int64_t> engines;
    int64_t most = 0;
    int num_on_tensor_cores = 0;
    for (const ConvGeometry& geometry : convolutions) {
      for (const DType dtype : dtypes) {
        for (const ConvDirection direction : kDirections) {
          const auto plan = dnn->Check({.direction = direction, .dtype = dtype, .geometry = geometry}, kH100);
          ASSERT_TRUE(plan.ok()) << plan.status();
          EXPECT_FALSE(plan->notes.varies || plan->notes.rounds_operands || plan->notes.rounds_sums);
          EXPECT_FALSE(plan->notes.uses_tensor_cores && dtype == DType::kFloat32);  // that is TF32
          num_on_tensor_cores += plan->notes.uses_tensor_cores;
          engines.insert(plan->engine);
          most = std::max(most, plan->workspace_bytes);
        }
      }
    }
    std::printf("%d plans, %d of them on tensor cores, %d engines, the largest workspace has %lld bytes\n",
                static_cast<int>(convolutions.size() * dtypes.size() * 3), num_on_tensor_cores,
                static_cast<int>(engines.size()), static_cast<long long>(most));
    EXPECT_GT(num_on_tensor_cores, 0);
    EXPECT_LE(most, kMostCudnnWorkspace);
  }

  RecordingCudaApi api_;
  CudaLibraries libraries_{CudaLibraryFolders()};
};

TEST_F(CudnnDnnTest, TakesTheDescriptionOfEveryConvolution) {
  if (!IsThere()) GTEST_SKIP() << "no cuDNN";
  const auto dnn = MakeCudnnDnn(api_, libraries_);
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16}) {
    for (const ConvDirection direction : kDirections) {
      for (ConvGeometry geometry : ResNet20(8)) {
        for (const bool channels_first : {false, true}) {
          geometry.windows.channels_first = channels_first;
          const auto status =
              dnn->Check({.direction = direction, .dtype = dtype, .geometry = geometry}, "").status();
          EXPECT_TRUE(status.ok()) << status;
        }
      }
    }
  }
  const auto status = dnn->Check({.dtype = DType::kInt32, .geometry = Same(1, 4, 8, 3, 2, 16)}, "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(),
            "Conv2D on a GPU, of int32, input [1,4,4,8], filter [3,3,8,16], output [1,2,2,16], strides 2 and "
            "2, dilations 1 and 1: there are no convolutions of int32 on GPUs");
}

TEST_F(CudnnDnnTest, PlansEveryConvolutionOfResNet20ForAnH100) {
  if (!MakesPlans()) GTEST_SKIP() << "no cuDNN of 9.11 or newer";
  ExpectPlans(ResNet20(128), {DType::kFloat32, DType::kBfloat16, DType::kHalf, DType::kFloat64});
}

TEST_F(CudnnDnnTest, PlansEveryConvolutionOfResNet50ForAnH100) {
  if (!MakesPlans()) GTEST_SKIP() << "no cuDNN of 9.11 or newer";
  ExpectPlans(ResNet50(256), {DType::kFloat32, DType::kBfloat16});
}

TEST_F(CudnnDnnTest, PlansOtherLayoutsGroupsAndDilations) {
  if (!MakesPlans()) GTEST_SKIP() << "no cuDNN of 9.11 or newer";
  ConvGeometry first = Same(32, 16, 32, 3, 1, 32), dilated = Same(32, 16, 32, 3, 1, 32);
  first.windows.channels_first = true;
  for (int i = 0; i < 2; ++i) {
    dilated.windows.dilation[i] = 2;
    dilated.windows.padding_before[i] = dilated.windows.padding_after[i] = 2;
  }
  ExpectPlans({first, dilated, Same(32, 16, 32, 3, 1, 64, 4), Same(32, 16, 32, 3, 2, 32, 32)},
              {DType::kFloat32, DType::kBfloat16});
}

TEST_F(CudnnDnnTest, AGpuThatIsNoneIsRefusedWithCudnnsReason) {
  if (!MakesPlans()) GTEST_SKIP() << "no cuDNN of 9.11 or newer";
  const auto dnn = MakeCudnnDnn(api_, libraries_);
  const auto plan = dnn->Check({.geometry = Same(1, 4, 8, 3, 1, 8)}, "{}");
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(plan.status().message(),
              HasSubstr("cudnnBackendFinalize of the GPU's properties: CUDNN_STATUS_BAD_PARAM"));
}

TEST_F(CudnnDnnTest, WithoutADriverAConvolutionSaysWhatFailed) {
  const std::unique_ptr<CudaApi> real = MakeCudartApi();
  if (!IsThere() || real->NumDevices().ok()) GTEST_SKIP() << "no cuDNN, or a GPU";
  const auto dnn = MakeCudnnDnn(api_, libraries_);
  const auto stream = CudaStream::Create(api_, 0);
  ASSERT_TRUE(stream.ok());
  CachingAllocator allocator(api_, 0, 1 << 20);
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = dnn->Convolve(**stream, allocator, {.geometry = Same(1, 4, 8, 3, 1, 8)});
    EXPECT_THAT(std::string(status.message()), StartsWith("Conv2D on a GPU, of float, input [1,4,4,8]"));
    EXPECT_THAT(status.message(), HasSubstr("cudnnCreate of a handle: CUDNN_STATUS_NOT_INITIALIZED"));
  }
}

TEST_F(CudnnDnnTest, WithoutTheLibraryAConvolutionSaysSo) {
  CudaLibraries nowhere({"/nowhere"});
  if (nowhere.Open(CudaLibraryList()[kCudnn]).ok()) GTEST_SKIP() << "the system has it";
  const auto dnn = MakeCudnnDnn(api_, nowhere);
  const absl::Status status = dnn->Check({.geometry = Same(1, 4, 8, 3, 1, 8)}, "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("convolutions"));
}

}  // namespace
}  // namespace weir
