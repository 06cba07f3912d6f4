// Comparisons and logic, Select, and joins: ConcatV2, Pack.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/array/layout_plans.h"
#include "kernels/cpu/broadcast.h"
#include "kernels/cuda/choice_bodies.h"
#include "kernels/cuda/choice_launches.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/spread.h"

namespace weir::cuda {
namespace {

class Compare final : public CudaKernel {
 public:
  explicit Compare(const KernelConstruction& construction)
      : CudaKernel(construction), op_(construction.node().op_name()) {
    const AttrValue* const strict = construction.node().FindAttr("incompatible_shape_error");
    answers_incompatible_ = strict != nullptr && !strict->get<bool>();
  }

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& x = context.input(0);
    const Tensor& y = context.input(1);
    const absl::StatusOr<Shape> shape = BroadcastShapes({&x.shape(), &y.shape()});
    if (!shape.ok() && answers_incompatible_) {
      WEIR_ASSIGN_OR_RETURN(Tensor * answer, context.AllocateOutput(0, Shape()));
      return stream().Fill(answer->data(), op_ == "NotEqual" ? 1 : 0, 1);
    }
    WEIR_RETURN_IF_ERROR(shape.status());
    WEIR_ASSIGN_OR_RETURN(Tensor * z, context.AllocateOutput(0, *shape));
    WEIR_ASSIGN_OR_RETURN(const Tensor wide_x, Widened(context, stream(), kernels(), x, *shape));
    WEIR_ASSIGN_OR_RETURN(const Tensor wide_y, Widened(context, stream(), kernels(), y, *shape));
    return LaunchCompare(stream(), kernels(), op_, wide_x, wide_y, *z);
  }

  const std::string op_;
  bool answers_incompatible_ = false;
};

class LogicalNot final : public CudaKernel {
 public:
  explicit LogicalNot(const KernelConstruction& construction) : CudaKernel(construction) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(Tensor * y, context.ForwardOrAllocateOutput({0}, 0, context.input(0).shape()));
    return LaunchLogicalNot(stream(), kernels(), context.input(0), *y);
  }
};

class SelectV2 final : public CudaKernel {
 public:
  explicit SelectV2(const KernelConstruction& construction) : CudaKernel(construction) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& condition = context.input(0);
    const Tensor& t = context.input(1);
    const Tensor& e = context.input(2);
    WEIR_ASSIGN_OR_RETURN(const Shape shape, BroadcastShapes({&condition.shape(), &t.shape(), &e.shape()}));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    WEIR_ASSIGN_OR_RETURN(const Tensor choices, Widened(context, stream(), kernels(), condition, shape));
    WEIR_ASSIGN_OR_RETURN(const Tensor yes, Widened(context, stream(), kernels(), t, shape));
    WEIR_ASSIGN_OR_RETURN(const Tensor no, Widened(context, stream(), kernels(), e, shape));
    return LaunchSelect(stream(), kernels(), choices, yes, no, *output);
  }
};

// The condition has the shape of t and e, is a scalar, or chooses rows of dimension 0.
class Select final : public CudaKernel {
 public:
  explicit Select(const KernelConstruction& construction) : CudaKernel(construction) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& condition = context.input(0);
    const Tensor& t = context.input(1);
    const Tensor& e = context.input(2);
    WEIR_RETURN_IF_ERROR(CheckSelect(condition.shape(), t.shape(), e.shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({1, 2}, 0, t.shape()));
    return LaunchSelect(stream(), kernels(), condition, t, e, *output);
  }
};

int64_t Product(absl::Span<const int64_t> dims) {
  int64_t product = 1;
  for (const int64_t dim : dims) product *= dim;
  return product;
}

// Each input is a matrix, whose columns are what comes from the axis on.
class Join : public CudaKernel {
 public:
  using CudaKernel::CudaKernel;

 protected:
  static std::vector<const Shape*> ShapesOf(const KernelContext& context, int count) {
    std::vector<const Shape*> shapes;
    for (int i = 0; i < count; ++i) shapes.push_back(&context.input(i).shape());
    return shapes;
  }

  absl::Status Put(KernelContext& context, int count, const JoinPlan& plan) const {
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, plan.shape));
    if (output->num_elements() == 0) return absl::OkStatus();
    std::vector<Tensor> inputs;
    for (int i = 0; i < count; ++i) inputs.push_back(context.input(i));
    return LaunchJoin(stream(), kernels(), inputs, Product(plan.shape.dims().subspan(0, plan.axis)), *output);
  }
};

class ConcatV2 final : public Join {
 public:
  explicit ConcatV2(const KernelConstruction& construction) : Join(construction) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const int count = context.num_inputs() - 1;
    WEIR_ASSIGN_OR_RETURN(const JoinPlan plan, PlanConcat(ShapesOf(context, count), context.input(count)));
    return Put(context, count, plan);
  }
};

class Pack final : public Join {
 public:
  explicit Pack(const KernelConstruction& construction)
      : Join(construction), axis_(construction.attr<int64_t>("axis")) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const int count = context.num_inputs();
    WEIR_ASSIGN_OR_RETURN(const JoinPlan plan, PlanPack(ShapesOf(context, count), axis_));
    return Put(context, count, plan);
  }

  const int64_t axis_;
};

}  // namespace

void RegisterChoiceOps(DeviceKernels& kernels) {
  std::map<std::string, std::vector<DType>> comparisons;
  VisitComparisons([&]<typename F, typename T>(const char* op) { comparisons[op].push_back(DTypeOf<T>); });
  for (const auto& [op, dtypes] : comparisons) {
    const bool is_logic = dtypes == std::vector<DType>{DType::kBool};
    kernels.Add<Compare>(op, is_logic ? DeviceKernels::TypeAttrs() : DeviceKernels::TypeAttrs{{"T", dtypes}});
  }
  kernels.Add<LogicalNot>("LogicalNot");
  const std::vector<DType> dtypes = {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16,
                                     DType::kInt32,   DType::kInt64,   DType::kBool};
  kernels.Add<Select>("Select", {{"T", dtypes}});
  kernels.Add<SelectV2>("SelectV2", {{"T", dtypes}});
  kernels.Add<ConcatV2>("ConcatV2", {{"T", dtypes}});
  kernels.Add<Pack>("Pack", {{"T", dtypes}});
}

}  // namespace weir::cuda
