#include "ops/training/decay.h"

#include "absl/strings/str_cat.h"
#include "ops/standard_ops.h"

namespace weir::decay {

bool CheckStep(GraphBuilder& g, absl::string_view name, const Output& global_step, SourceLocation where) {
  if (!CheckGiven(g, name, "global_step", global_step, where)) return false;
  const DType dtype = global_step.dtype();
  const bool is_number = IsPlainBytes(dtype) && !IsComplex(dtype) && dtype != DType::kBool;
  if (is_number && global_step.shape().IsCompatibleWith(Shape())) return true;
  g.SetError(absl::InvalidArgumentError(absl::StrCat(name, ": global_step must be a scalar number, '",
                                                     global_step.name(), "' is ",
                                                     TypeString(dtype, global_step.shape()))),
             where);
  return false;
}

bool CheckArguments(GraphBuilder& g, absl::string_view name, const Output& global_step, NamedSteps steps,
                    std::initializer_list<NamedNumber> numbers, SourceLocation where) {
  if (!CheckStep(g, name, global_step, where)) return false;
  if (steps.count >= 1) return CheckFinite(g, name, numbers, where);
  g.SetError(absl::InvalidArgumentError(
                 absl::StrCat(name, ": ", steps.argument, " is ", steps.count, ", must be at least 1")),
             where);
  return false;
}

Output Number(GraphBuilder& g, double value, SourceLocation where) {
  return Const(g, static_cast<float>(value), {}, where);
}

Output StepOf(GraphBuilder& g, Output global_step, SourceLocation where) {
  return Cast(g, global_step, DType::kFloat32, {}, where);
}

Output StepUpTo(GraphBuilder& g, Output global_step, int64_t decay_steps, SourceLocation where) {
  const Output step = StepOf(g, global_step, where);
  return Minimum(g, step, Number(g, static_cast<double>(decay_steps), where), {}, where);
}

Output Progress(GraphBuilder& g, Output global_step, int64_t decay_steps, bool staircase,
                SourceLocation where) {
  const Output step = StepOf(g, global_step, where);
  const Output progress = RealDiv(g, step, Number(g, static_cast<double>(decay_steps), where), {}, where);
  return staircase ? Floor(g, progress, {}, where) : progress;
}

Output HalfCosine(GraphBuilder& g, Output fraction, SourceLocation where) {
  constexpr double kPi = 3.14159265358979323846;
  const Output angle = Mul(g, Number(g, kPi, where), fraction, {}, where);
  const Output above_zero = AddV2(g, Number(g, 1, where), Cos(g, angle, {}, where), {}, where);
  return Mul(g, Number(g, 0.5, where), above_zero, {}, where);
}

}  // namespace weir::decay
