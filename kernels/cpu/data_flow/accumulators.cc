// Accumulators of gradients: their handles, and what steps do with them. Nothing here holds a thread while it
// waits.
//
// The handle of a ConditionalAccumulator or SparseConditionalAccumulator is what TensorFlow's is: a vector of
// its container and its name. That of a ResourceConditionalAccumulator is a resource.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data_flow/conditional_accumulator.h"
#include "kernels/cpu/data_flow/named_resource.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"
#include "kernels/session_state.h"

namespace weir {
namespace {

using AccumulatorRef = RefPtr<ConditionalAccumulator>;

ConditionalAccumulator::Spec SpecOf(const KernelConstruction& construction) {
  const std::string& shared_name = construction.attr<std::string>("shared_name");
  const bool is_sparse = construction.node().op_name() == "SparseConditionalAccumulator";
  PartialShape shape = construction.attr<PartialShape>("shape");
  // TensorFlow compares the dimensions that the attr has: a scalar's say nothing of what has rows, and its
  // SyncReplicasOptimizer makes every sparse accumulator with it.
  if (is_sparse && shape.has_rank() && shape.rank() == 0) shape = PartialShape();
  return {.name = shared_name.empty() ? construction.node().name() : shared_name,
          .dtype = construction.attr<DType>("dtype"),
          .shape = std::move(shape),
          .is_sparse = is_sparse,
          .reduction = construction.attr<std::string>("reduction_type") == "SUM"
                           ? GradientSum::Reduction::kSum
                           : GradientSum::Reduction::kMean};
}

absl::StatusOr<std::unique_ptr<Kernel>> CreateHandle(const KernelConstruction& construction) {
  return NamedResourceHandle<ConditionalAccumulator>::Create(construction, SpecOf(construction));
}

absl::StatusOr<AccumulatorRef> AccumulatorOf(const KernelContext& context, bool is_sparse) {
  WEIR_ASSIGN_OR_RETURN(AccumulatorRef found, LookupNamedResource<ConditionalAccumulator>(context));
  if (found->spec().is_sparse == is_sparse) return found;
  return absl::InvalidArgumentError(absl::StrCat("'", found->spec().name, "' accumulates ",
                                                 is_sparse ? "dense gradients" : "rows", ", not ",
                                                 is_sparse ? "rows" : "dense gradients"));
}

absl::StatusOr<AccumulatorRef> AnyAccumulatorOf(const KernelContext& context) {
  absl::StatusOr<AccumulatorRef> found = AccumulatorOf(context, false);
  return found.ok() || !absl::IsInvalidArgument(found.status()) ? std::move(found)
                                                                : AccumulatorOf(context, true);
}

ConditionalAccumulator::Caller CallerOf(KernelContext& context) {
  return {context.cancellation(), context.allocator(), context.threads(), context.step_threads()};
}

absl::Status ApplyDense(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const AccumulatorRef accumulator, AccumulatorOf(context, false));
  WEIR_ASSIGN_OR_RETURN(const int64_t local_step, ReadInteger(context.input(1), "local_step"));
  return accumulator->Apply(CallerOf(context), local_step, {context.input(2), Tensor()});
}

// What gradient_shape says must be a shape that the variable may have.
absl::Status CheckShape(const KernelContext& context, const ConditionalAccumulator& accumulator) {
  WEIR_ASSIGN_OR_RETURN(const Dims dims, ReadIntegers(context.input(4), "gradient_shape"));
  if (dims.empty()) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(const PartialShape shape, PartialShape::FromDims(dims));
  const PartialShape& expected = accumulator.spec().shape;
  if (!expected.has_rank()) return absl::OkStatus();
  if (shape.rank() < expected.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("Shape mismatch: expected shape rank at least ",
                                                   expected.rank(), ", got ", shape.rank()));
  }
  for (int d = 0; d < expected.rank(); ++d) {
    const bool is_known =
        expected.dim(d) != PartialShape::kUnknownDim && shape.dim(d) != PartialShape::kUnknownDim;
    if (!is_known || expected.dim(d) == shape.dim(d)) continue;
    return absl::InvalidArgumentError(absl::StrCat("Shape mismatch: expected shape dim ", d, " to be ",
                                                   expected.dim(d), ", got ", shape.dim(d)));
  }
  return absl::OkStatus();
}

class ApplySparse final : public Kernel {
 public:
  explicit ApplySparse(const KernelConstruction& construction)
      : has_known_shape_(construction.attr<bool>("has_known_shape")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const AccumulatorRef accumulator, AccumulatorOf(context, true));
    WEIR_ASSIGN_OR_RETURN(const int64_t local_step, ReadInteger(context.input(1), "local_step"));
    if (has_known_shape_) WEIR_RETURN_IF_ERROR(CheckShape(context, *accumulator));
    return accumulator->Apply(CallerOf(context), local_step, {context.input(3), context.input(2)});
  }

 private:
  const bool has_known_shape_;
};

// The shape of the variable whose rows they are; -1 where it is not known.
Tensor ShapeOf(const PartialShape& variable, const Shape& rows) {
  Tensor shape(DType::kInt64, {rows.rank()});
  const auto dims = shape.flat<int64_t>();
  std::copy(rows.dims().begin(), rows.dims().end(), dims.begin());
  dims[0] = variable.has_rank() ? variable.dim(0) : PartialShape::kUnknownDim;
  return shape;
}

class TakeGradient final : public AsyncKernel {
 public:
  explicit TakeGradient(const KernelConstruction& construction)
      : dtype_(construction.attr<DType>("dtype")),
        is_sparse_(construction.node().op_name() == "SparseAccumulatorTakeGradient") {}

  void ComputeAsync(KernelContext& context, Done done) override {
    const absl::StatusOr<AccumulatorRef> accumulator = AccumulatorOf(context, is_sparse_);
    if (!accumulator.ok()) return done(accumulator.status());
    const ConditionalAccumulator::Spec& spec = (*accumulator)->spec();
    if (spec.dtype != dtype_) {
      return done(absl::InvalidArgumentError(absl::StrCat("dtype is ", DTypeName(dtype_), ", gradients of '",
                                                          spec.name, "' are ", DTypeName(spec.dtype))));
    }
    const absl::StatusOr<int64_t> num_required = ReadInteger(context.input(1), "num_required");
    if (!num_required.ok()) return done(num_required.status());
    (*accumulator)
        ->Take(CallerOf(context), *num_required,
               [this, &context, variable = spec.shape,
                done = std::move(done)](absl::StatusOr<StagedGradient> gradient) {
                 if (!gradient.ok()) return done(gradient.status());
                 SetOutputs(context, variable, *std::move(gradient));
                 done(absl::OkStatus());
               });
  }

 private:
  void SetOutputs(KernelContext& context, const PartialShape& variable, StagedGradient gradient) const {
    if (!is_sparse_) return context.set_output(0, std::move(gradient.values));
    context.set_output(2, ShapeOf(variable, gradient.values.shape()));
    context.set_output(0, std::move(gradient.indices));
    context.set_output(1, std::move(gradient.values));
  }

  const DType dtype_;
  const bool is_sparse_;
};

absl::Status ComputeNumAccumulated(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const AccumulatorRef accumulator, AnyAccumulatorOf(context));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, {}));
  output->flat<int32_t>()[0] = static_cast<int32_t>(accumulator->num_accumulated());
  return absl::OkStatus();
}

absl::Status SetGlobalStep(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const AccumulatorRef accumulator, AnyAccumulatorOf(context));
  WEIR_ASSIGN_OR_RETURN(const int64_t step, ReadInteger(context.input(1), "new_global_step"));
  accumulator->SetGlobalStep(step);
  return absl::OkStatus();
}

}  // namespace

void RegisterAccumulatorsKernels(DeviceKernels& kernels) {
  const DeviceKernels::TypeAttrs floats = {{"dtype", {DType::kHalf, DType::kFloat32, DType::kFloat64}}};
  kernels.Register("ConditionalAccumulator", floats, &CreateHandle);
  kernels.Register("SparseConditionalAccumulator", floats, &CreateHandle);
  kernels.Register("ResourceConditionalAccumulator", floats, &CreateHandle);
  for (const char* prefix : {"", "Resource"}) {
    kernels.Add<&ApplyDense>(absl::StrCat(prefix, "AccumulatorApplyGradient"), floats);
    kernels.Add<TakeGradient>(absl::StrCat(prefix, "AccumulatorTakeGradient"), floats);
    kernels.Add<&ComputeNumAccumulated>(absl::StrCat(prefix, "AccumulatorNumAccumulated"));
    kernels.Add<&SetGlobalStep>(absl::StrCat(prefix, "AccumulatorSetGlobalStep"));
  }
  kernels.Add<ApplySparse>("SparseAccumulatorApplyGradient", floats);
  kernels.Add<TakeGradient>("SparseAccumulatorTakeGradient", floats);
}

}  // namespace weir
