#include "kernels/null/register_kernels.h"

#include <algorithm>
#include <vector>

#include "graph/types/status_macros.h"

namespace weir {
namespace {

// The inferred shape, with 1 for every dimension that only a real computation could tell.
Shape GuessShape(const PartialShape& inferred) {
  if (!inferred.has_rank()) return Shape();
  Dims dims(inferred.dims().begin(), inferred.dims().end());
  std::replace(dims.begin(), dims.end(), PartialShape::kUnknownDim, int64_t{1});
  return Shape::FromDims(dims).value_or(Shape());
}

class NullKernel final : public Kernel {
 public:
  explicit NullKernel(const KernelConstruction& construction) {
    for (int i = 0; i < construction.node().num_outputs(); ++i) {
      shapes_.push_back(GuessShape(construction.node().output_shape(i)));
    }
  }

  absl::Status Compute(KernelContext& context) override {
    for (int i = 0; i < context.num_outputs(); ++i) {
      WEIR_RETURN_IF_ERROR(context.AllocateOutput(i, shapes_[i]).status());
    }
    return absl::OkStatus();
  }

 private:
  std::vector<Shape> shapes_;
};

}  // namespace

void RegisterNullKernels(const OpRegistry& ops, KernelRegistry& registry) {
  for (const Op* op : ops.ops()) {
    registry.Register(
        {.op = op->name(), .device_type = "NULL", .types = {}, .create = CreateKernel<NullKernel>});
  }
}

}  // namespace weir
