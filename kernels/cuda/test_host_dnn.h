// Convolutions for a RecordingCudaApi: the CPU's plain loops, when the work's turn comes.
//
// The API and this must live as long as convolutions. Thread safety: all methods.
#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include "graph/types/tensor.h"
#include "kernels/cpu/nn/plain_convolution.h"
#include "kernels/cuda/cuda_dnn.h"
#include "kernels/cuda/element_bodies.h"
#include "kernels/cuda/recording_cuda_api.h"
#include "kernels/thread_pool.h"

namespace weir {

class HostDnn final : public CudaDnn {
 public:
  explicit HostDnn(RecordingCudaApi& api) : api_(api) {
    api.SetKernel(this, [this](const RecordingCudaApi::Launched& launched) {
      const auto convolution = launched.argument<Convolution>(0);
      cuda::VisitFloats([&]<typename T>() {
        if (DTypeOf<T> == convolution.dtype) Compute<T>(convolution);
      });
    });
  }

  absl::Status Convolve(CudaStream& stream, Allocator& allocator, const Convolution& convolution) override {
    // Taken and given back at once, as the real one does it.
    const absl::StatusOr<Tensor> workspace = Tensor::Allocate(DType::kUint8, Shape({4096}), allocator);
    if (!workspace.ok()) return workspace.status();
    const CudaArgument arguments[] = {{&convolution, sizeof(convolution)}};
    return api_.Launch({OpNameOf(convolution.direction), this}, CudaGrid(), arguments, stream.handle());
  }

 private:
  // Calls visit(element of the filter as TensorFlow has it, as GPUs have it).
  template <typename Visit>
  static void ForEachFilterElement(const ConvGeometry& geometry, const Visit& visit) {
    const int64_t window = geometry.windows.window[0] * geometry.windows.window[1];
    const int64_t in = geometry.group_channels, out = geometry.output_channels;
    for (int64_t at = 0; at < window; ++at) {
      for (int64_t i = 0; i < in; ++i) {
        for (int64_t o = 0; o < out; ++o) {
          const int64_t there =
              geometry.windows.channels_first ? (o * in + i) * window + at : (o * window + at) * in + i;
          visit((at * in + i) * out + o, there);
        }
      }
    }
  }

  template <typename T>
  void Compute(const Convolution& convolution) {
    using Number = std::decay_t<decltype(cuda::Load(std::declval<const T&>()))>;
    const ConvGeometry& geometry = convolution.geometry;
    auto* const input = static_cast<T*>(convolution.input);
    auto* const filter = static_cast<T*>(convolution.filter);
    auto* const output = static_cast<T*>(convolution.output);
    std::vector<Number> inputs(geometry.InputShape().num_elements());
    std::vector<Number> filters(geometry.FilterShape().num_elements());
    std::vector<Number> outputs(geometry.OutputShape().num_elements());
    const auto load = [](const T* from, std::vector<Number>& to) {
      for (size_t i = 0; i < to.size(); ++i) to[i] = cuda::Load(from[i]);
    };
    const auto store = [](const std::vector<Number>& from, T* to) {
      for (size_t i = 0; i < from.size(); ++i) cuda::Store(to[i], from[i]);
    };
    const auto load_filter = [&] {
      ForEachFilterElement(geometry,
                           [&](int64_t here, int64_t there) { filters[here] = cuda::Load(filter[there]); });
    };
    switch (convolution.direction) {  // threads without a step always finish
      case ConvDirection::kOutput:
        load(input, inputs);
        load_filter();
        PlainConvolution(threads_, geometry, inputs.data(), filters.data(), outputs.data()).IgnoreError();
        return store(outputs, output);
      case ConvDirection::kInputGradient:
        load(output, outputs);
        load_filter();
        PlainInputGradient(threads_, geometry, outputs.data(), filters.data(), inputs.data()).IgnoreError();
        return store(inputs, input);
      case ConvDirection::kFilterGradient:
        load(input, inputs);
        load(output, outputs);
        PlainFilterGradient(threads_, geometry, inputs.data(), outputs.data(), filters.data()).IgnoreError();
        ForEachFilterElement(geometry,
                             [&](int64_t here, int64_t there) { cuda::Store(filter[there], filters[here]); });
    }
  }

  RecordingCudaApi& api_;
  ThreadPool threads_{1};
};

}  // namespace weir
