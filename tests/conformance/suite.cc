#include "tests/conformance/suite.h"

#include "absl/strings/str_cat.h"
#include "kernels/reference/reference.h"

namespace weir::conformance {
OpRecord& OpRecord::Reference(reference::Reference reference) {
  reference_ = std::move(reference);
  return *this;
}

OpRecord& OpRecord::Call(std::vector<CaseInput> inputs, AttrMap attrs) {
  return Call({.op = op_, .attrs = std::move(attrs), .inputs = std::move(inputs)});
}

OpRecord& OpRecord::Call(OpCase options) {
  options.op = op_;
  options.check_gradient = options.check_gradient && check_gradient_;
  if (options.tolerance == 0) options.tolerance = tolerance_;
  calls_.push_back(std::move(options));
  return *this;
}

OpRecord& OpRecord::Update(std::vector<CaseInput> inputs, AttrMap attrs) {
  updates_.push_back(
      {.op = op_, .attrs = std::move(attrs), .inputs = std::move(inputs), .tolerance = tolerance_});
  return *this;
}

OpRecord& OpRecord::HostileHandles(std::vector<CaseInput> inputs, int handle, AttrMap attrs) {
  DType dtype = DType::kFloat32;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_variable) continue;
    const Tensor value = inputs[i].tensors[0];
    if (static_cast<int>(i) == handle) dtype = value.dtype();
    inputs[i] = HandleOf(value);
  }
  const auto with = [&](Tensor tensor) {
    std::vector<CaseInput> changed = inputs;
    changed[handle] = std::move(tensor);
    return changed;
  };
  Hostile(with(MissingHandle()), "weights", attrs);
  Hostile(with(UninitializedHandle(dtype)), "Attempting to use uninitialized value weights", attrs,
          absl::StatusCode::kFailedPrecondition);
  return Hostile(with(NoHandles()), "must be one resource handle", attrs);
}

OpRecord& OpRecord::NoGradient() {
  check_gradient_ = false;
  return *this;
}

OpRecord& OpRecord::Tolerance(double tolerance) {
  tolerance_ = tolerance;
  return *this;
}

OpRecord& OpRecord::Hostile(std::vector<CaseInput> inputs, std::string error, AttrMap attrs,
                            absl::StatusCode code) {
  hostile_calls_.push_back({op_, std::move(attrs), std::move(inputs), std::move(error), code});
  return *this;
}

OpRecord& OpRecord::OutOfMemory(std::vector<CaseInput> inputs, AttrMap attrs) {
  return Hostile(std::move(inputs), "out of memory", std::move(attrs), absl::StatusCode::kResourceExhausted);
}

OpRecord& OpRecord::CannotFail() {
  cannot_fail_ = true;
  return *this;
}

OpRecord& OpRecord::ShapeDependsOnValues() {
  shape_depends_on_values_ = true;
  return *this;
}

OpRecord& OpRecord::TestedElsewhere(std::string where) {
  tested_elsewhere_ = std::move(where);
  return *this;
}

OpRecord& OpRecord::NoKernelFor(std::string attr, std::vector<DType> dtypes, std::string reason) {
  missing_kernels_.push_back({std::move(attr), std::move(dtypes), std::move(reason)});
  return *this;
}

OpRecord& OpRecord::SomeCombinationsOnly(std::string reason) {
  some_combinations_only_ = std::move(reason);
  return *this;
}

const Suite& Suite::Whole() {
  static const Suite* const whole = [] {
    auto* suite = new Suite;
    for (const AddRecords add : RecordFiles()) add(*suite);
    return suite;
  }();
  return *whole;
}

OpRecord& Suite::Op(const std::string& op) { return records_.try_emplace(op, op).first->second; }

const OpRecord* Suite::Find(absl::string_view op) const {
  const auto found = records_.find(op);
  return found == records_.end() ? nullptr : &found->second;
}

std::vector<OpCase> Suite::calls() const {
  std::vector<OpCase> all;
  for (const auto& [op, record] : records_) {
    all.insert(all.end(), record.calls().begin(), record.calls().end());
  }
  return all;
}

std::vector<OpCase> Suite::updates() const {
  std::vector<OpCase> all;
  for (const auto& [op, record] : records_) {
    all.insert(all.end(), record.updates().begin(), record.updates().end());
  }
  return all;
}

std::vector<HostileCase> Suite::hostile_calls() const {
  std::vector<HostileCase> all;
  for (const auto& [op, record] : records_) {
    all.insert(all.end(), record.hostile_calls().begin(), record.hostile_calls().end());
  }
  return all;
}

absl::StatusOr<std::vector<Tensor>> EvaluateReference(const Node& node, absl::Span<const Tensor> inputs) {
  const OpRecord* record = Suite::Whole().Find(node.op_name());
  if (record == nullptr || record->reference() == nullptr) {
    return absl::NotFoundError(absl::StrCat("no reference for ", node.op_name()));
  }
  return reference::Evaluate(record->reference(), node, inputs);
}

}  // namespace weir::conformance
