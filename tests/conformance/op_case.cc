#include "tests/conformance/op_case.h"

#include <cmath>
#include <set>

#include "absl/strings/match.h"
#include "graph/types/resource_handle.h"
#include "kernels/reference/array.h"
#include "kernels/variable.h"

namespace weir::conformance {

bool IsRunByTheExecutor(const std::string& op) {
  static const auto* const control_flow = new std::set<std::string>{
      "Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "ControlTrigger"};
  const bool is_of_runtime = op[0] == '_' && !absl::StartsWith(op, "_Fused");
  return is_of_runtime || control_flow->count(op) > 0;
}

Tensor Make(DType dtype, std::vector<int64_t> dims, std::vector<double> values) {
  reference::Array array(std::move(dims));
  for (int64_t i = 0; i < array.size(); ++i) array[i] = values[i];
  return array.ToTensor(dtype);
}

Tensor Sample(DType dtype, std::vector<int64_t> dims, double low, double high, int seed) {
  reference::Array array(std::move(dims));
  uint32_t state = 12345u + 77u * seed;
  const auto next = [&] {
    state = state * 1664525u + 1013904223u;
    return low + (high - low) * (state >> 8) / double(1 << 24);
  };
  for (int64_t i = 0; i < array.size(); ++i) {
    if (IsComplex(dtype)) {
      const double real = next();
      array[i] = reference::Number(real, next());
    } else {
      array[i] = IsFloating(dtype) ? next() : std::round(next());
    }
  }
  // What is not exact in the dtype must not make the reference see other numbers than the kernel.
  return array.ToTensor(dtype);
}

Tensor Any(DType dtype, std::vector<int64_t> dims, int seed) {
  if (dtype != DType::kString) {
    return Sample(dtype, std::move(dims), dtype == DType::kBool ? -0.5 : -5, 5, seed);
  }
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  std::vector<std::string> words;
  for (int64_t i = 0; i < count; ++i) words.push_back("s" + std::to_string(i * seed));
  return Strings(std::move(dims), std::move(words));
}

Tensor Ints(std::vector<int32_t> values) {
  return Tensor::FromSpan<int32_t>(Shape({static_cast<int64_t>(values.size())}), values);
}
Tensor Int(int32_t value) { return Tensor::Scalar(value); }
Tensor Longs(std::vector<int64_t> values) {
  return Tensor::FromSpan<int64_t>(Shape({static_cast<int64_t>(values.size())}), values);
}
Tensor Strings(std::vector<int64_t> dims, std::vector<std::string> values) {
  return Tensor::FromSpan<std::string>(Shape(absl::MakeConstSpan(dims)), values);
}

namespace {

Tensor Handle(RefPtr<Variable> variable) {
  ResourceHandle handle;
  handle.name = "weights";
  handle.resource = std::move(variable);
  return Tensor::Scalar(std::move(handle));
}

}  // namespace

Tensor HandleOf(const Tensor& value) {
  auto variable = MakeRef<Variable>(value.dtype());
  {
    absl::MutexLock lock(&variable->mutex);
    variable->tensor = value;
  }
  return Handle(std::move(variable));
}
Tensor UninitializedHandle(DType dtype) { return Handle(MakeRef<Variable>(dtype)); }
Tensor MissingHandle() { return Handle(nullptr); }
Tensor NoHandles() { return Tensor(DType::kResource, {0}); }

}  // namespace weir::conformance
