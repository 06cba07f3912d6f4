#include "kernels/cpu/widened.h"

#include <algorithm>

#include "graph/types/status_macros.h"
#include "kernels/cpu/float16_rows.h"

namespace weir {
namespace {

// The element of a tensor of a 16-bit dtype.
const uint16_t* At(const Tensor& tensor, int64_t index) {
  return static_cast<const uint16_t*>(tensor.data()) + index;
}
uint16_t* At(Tensor& tensor, int64_t index) { return static_cast<uint16_t*>(tensor.data()) + index; }

}  // namespace

void ConvertBlocks(KernelContext& context, int64_t count,
                   absl::FunctionRef<void(int64_t begin, int64_t count)> convert) {
  constexpr int64_t kBlock = 1 << 14;
  constexpr double kNanosecondsPerBlock = 0.1 * kBlock;
  context.threads().ParallelFor((count + kBlock - 1) / kBlock, kNanosecondsPerBlock,
                                [&](int64_t begin, int64_t end) {
                                  convert(begin * kBlock, std::min(count, end * kBlock) - begin * kBlock);
                                });
}

absl::StatusOr<Tensor> Widen(KernelContext& context, const Tensor& tensor) {
  if (!IsSixteenBit(tensor.dtype())) return tensor;
  WEIR_ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemporary(DType::kFloat32, tensor.shape()));
  float* const target = wide.flat<float>().data();
  ConvertBlocks(context, tensor.num_elements(), [&](int64_t begin, int64_t count) {
    ToFloats(tensor.dtype(), At(tensor, begin), target + begin, count);
  });
  return wide;
}

absl::StatusOr<Tensor> WideOutput(KernelContext& context, const Tensor& output) {
  if (!IsSixteenBit(output.dtype())) return output;
  return context.AllocateTemporary(DType::kFloat32, output.shape());
}

void Narrow(KernelContext& context, const Tensor& wide, Tensor* output) {
  if (!IsSixteenBit(output->dtype())) return;
  const float* const source = wide.flat<float>().data();
  ConvertBlocks(context, wide.num_elements(), [&](int64_t begin, int64_t count) {
    FromFloats(output->dtype(), source + begin, At(*output, begin), count);
  });
}

}  // namespace weir
