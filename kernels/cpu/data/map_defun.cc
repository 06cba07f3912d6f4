// MapDefun: what a function makes of the rows of tensors, as rows of other tensors. The rows are computed at
// once, as many as the device has threads (max_intra_op_parallelism: at most that many), and each is cut out
// just before its call.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/parallel_calls.h"
#include "kernels/cpu/data/rows.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

class MapDefun final : public Kernel {
 public:
  explicit MapDefun(const KernelConstruction& construction)
      : function_(construction, "f"),
        num_arguments_(static_cast<int>(construction.attr<std::vector<DType>>("Targuments").size())),
        num_captured_(static_cast<int>(construction.attr<std::vector<DType>>("Tcaptured").size())),
        max_calls_(construction.attr<int64_t>("max_intra_op_parallelism")),
        signature_(SignatureOf(construction)) {}

  bool may_block() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    if (!signature_.ok()) {
      return absl::InvalidArgumentError("Length of output_shapes and output_types must match.");
    }
    WEIR_ASSIGN_OR_RETURN(const int64_t num_rows, NumRows(context));
    WEIR_ASSIGN_OR_RETURN(const CapturedFunction captured,
                          CapturedFunction::Create(function_, context, num_arguments_, num_captured_));
    const auto run = std::make_shared<IteratorRun>(context.device(), function_.caller());
    IteratorContext iteration = {*run, context.cancellation(), context.step_threads()};
    WEIR_ASSIGN_OR_RETURN(const PreparedFunction function, captured.Prepare(iteration));
    const auto rows_of = [&](int64_t row) -> absl::StatusOr<Element> {
      Element arguments;
      for (int i = 0; i < num_arguments_; ++i) {
        WEIR_ASSIGN_OR_RETURN(Tensor tensor, RowOf(context.input(i), row, iteration.allocator()));
        arguments.push_back(std::move(tensor));
      }
      return arguments;
    };
    int64_t num_calls = std::max(2, context.threads().num_threads());
    if (max_calls_ >= 1) num_calls = std::min(num_calls, max_calls_);
    WEIR_ASSIGN_OR_RETURN(std::vector<Function::Results> results,
                          CallInParallel(function, num_rows, rows_of, num_calls, iteration.environment(),
                                         context.cancellation()));
    return SetRows(context, std::move(results), iteration.allocator());
  }

 private:
  absl::StatusOr<int64_t> NumRows(const KernelContext& context) const {
    int64_t num_rows = 0;
    for (int i = 0; i < num_arguments_; ++i) {
      const Shape& shape = context.input(i).shape();
      if (shape.is_scalar()) {
        return absl::InvalidArgumentError(
            absl::StrCat("All inputs must have rank at least 1. Input ", i, " has a rank of 0."));
      }
      if (i == 0) num_rows = shape.dim(0);
      if (shape.dim(0) == num_rows) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("All inputs must have the same dimension 0. Input ", i, " has leading dimension ",
                       shape.dim(0), ", while all previous inputs have leading dimension ", num_rows));
    }
    return num_rows;
  }

  absl::Status SetRows(KernelContext& context, std::vector<Function::Results> results,
                       Allocator& allocator) const {
    std::vector<Element> rows;
    for (Function::Results& result : results) {
      // Calls that were not begun are Cancelled, behind the one that failed or before it.
      if (!result.ok() && !absl::IsCancelled(result.status())) return result.status();
    }
    for (Function::Results& result : results) {
      if (!result.ok()) return result.status();
      WEIR_RETURN_IF_ERROR(CheckResults(*result, *signature_));
      for (size_t i = 0; i < result->size(); ++i) {
        if (signature_->shapes[i].IsCompatibleWith(PartialShape((*result)[i].shape()))) continue;
        return absl::InvalidArgumentError(
            absl::StrCat("Mismatch in function retval shape, ", (*result)[i].shape().ToString(),
                         ", and expected output shape, ", signature_->shapes[i].ToString(), "."));
      }
      rows.push_back(*std::move(result));
    }
    Element stacked;
    if (!rows.empty()) {
      WEIR_ASSIGN_OR_RETURN(stacked, Stack(rows, allocator));
    } else {
      WEIR_ASSIGN_OR_RETURN(stacked, NoRows(allocator));
    }
    for (size_t i = 0; i < stacked.size(); ++i) {
      context.set_output(static_cast<int>(i), std::move(stacked[i]));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Element> NoRows(Allocator& allocator) const {
    Element none;
    for (size_t i = 0; i < signature_->types.size(); ++i) {
      std::vector<int64_t> dims = {0};
      for (int d = 0; d < signature_->shapes[i].rank(); ++d) {
        dims.push_back(std::max<int64_t>(signature_->shapes[i].dim(d), 0));
      }
      WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
      WEIR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(signature_->types[i], shape, allocator));
      none.push_back(std::move(tensor));
    }
    return none;
  }

  const FunctionOfNode function_;
  const int num_arguments_;
  const int num_captured_;
  const int64_t max_calls_;
  const absl::StatusOr<Dataset::Signature> signature_;
};

}  // namespace

void RegisterMapDefunKernels(DeviceKernels& kernels) { kernels.Add<MapDefun>("MapDefun"); }

}  // namespace weir
