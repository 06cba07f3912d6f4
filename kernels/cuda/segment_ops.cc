// UnsortedSegmentSum, which is also the gradient of a gather. The rows of a segment are added in their order,
// as on the CPU: the ids are sorted, and one thread has an element of a sum.
//
// SegmentSum computes on the host: how many sums there are its ids say.
#include <vector>

#include "graph/types/status_macros.h"
#include "kernels/cpu/index_checks.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/indexed_launches.h"
#include "kernels/cuda/row_sort.h"

namespace weir::cuda {
namespace {

// Where an id is out of range, the sums are zeros, variables stay as they are, and the step has the CPU's
// error when somebody waits for it.
class UnsortedSegmentSum final : public CudaKernel {
 public:
  explicit UnsortedSegmentSum(const KernelConstruction& construction) : CudaKernel(construction) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& data = context.input(0);
    const Tensor& ids = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const int64_t num_segments, ReadInteger(context.input(2), "num_segments"));
    WEIR_ASSIGN_OR_RETURN(const Shape shape, ShapeOfSegments(data.shape(), ids.shape(), num_segments));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (output->num_bytes() > 0) {
      WEIR_RETURN_IF_ERROR(stream().Fill(output->data(), 0, output->num_bytes()));
    }
    if (ids.num_elements() == 0) return absl::OkStatus();
    const auto explain = [num_segments](absl::Span<const Tensor> on_host, const DataError&) {
      return CheckSegmentIds(on_host[0], num_segments);
    };
    return Check(context, {ids}, explain, [&](const DataErrorPlace& place) -> absl::Status {
      WEIR_ASSIGN_OR_RETURN(const RowOrder order,
                            SortRows(context, device(), ids, num_segments, NegativeIndices::kDropped, place));
      if (output->num_elements() == 0) return absl::OkStatus();
      return LaunchScatterRows(stream(), kernels(), "ScatterAdd", order,
                               output->num_elements() / num_segments, data, *output, place.here);
    });
  }
};

}  // namespace

void RegisterSegmentOps(DeviceKernels& kernels) {
  const std::vector<DType> numbers = {DType::kFloat32,  DType::kFloat64, DType::kHalf,
                                      DType::kBfloat16, DType::kInt32,   DType::kInt64};
  kernels.Add<UnsortedSegmentSum>("UnsortedSegmentSum",
                                  {{"T", numbers}, {"Tindices", {DType::kInt32, DType::kInt64}}});
}

}  // namespace weir::cuda
