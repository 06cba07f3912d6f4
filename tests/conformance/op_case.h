// One call of an op, as data: what the conformance suite runs its checks on.
//
// Records are full of them (suite.h). What the result must be, on which devices, with which shapes and
// gradients, follows from the op and its reference.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/attr_value.h"
#include "graph/types/tensor.h"

namespace weir::conformance {

// One argument: a tensor, or a list of tensors for "N * T".
struct CaseInput {
  CaseInput(Tensor tensor) : tensors{std::move(tensor)} {}
  CaseInput(std::vector<Tensor> list) : tensors(std::move(list)), is_list(true) {}

  // The handle of a variable that holds this value before the call (OpRecord::Update).
  static CaseInput Variable(Tensor initial_value) {
    CaseInput input(std::move(initial_value));
    input.is_variable = true;
    return input;
  }

  std::vector<Tensor> tensors;
  bool is_list = false;
  bool is_variable = false;
};

struct OpCase {
  std::string op;
  AttrMap attrs;  // those that inputs do not determine
  std::vector<CaseInput> inputs;
  // False at points where the op has no derivative (a kink), or where it is not the derivative that
  // TensorFlow gives.
  bool check_gradient = true;
  // The outputs that TensorFlow differentiates; empty: all floating ones.
  std::vector<int> gradient_outputs;
  // Relative and absolute error against the reference; 0 takes the dtype's (op_checks.cc).
  double tolerance = 0;
  // Written into a test's name where two cases of an op would look alike.
  std::string label;
};

// Ops without kernels: the runtime's own (their names begin with '_'; those of fusion, "_Fused...", have
// kernels), and those of v1 control flow, which the executor runs on every device. session/ tests them.
bool IsRunByTheExecutor(const std::string& op);

// Tensors of a dtype from numbers; bool is "not 0".
Tensor Make(DType dtype, std::vector<int64_t> dims, std::vector<double> values);
// Numbers in [low, high] that look random and are the same in every run; whole ones for integers.
Tensor Sample(DType dtype, std::vector<int64_t> dims, double low = -2, double high = 2, int seed = 1);
// The same of any dtype: words for strings.
Tensor Any(DType dtype, std::vector<int64_t> dims, int seed = 1);
Tensor Ints(std::vector<int32_t> values);
Tensor Int(int32_t value);
Tensor Longs(std::vector<int64_t> values);
Tensor Strings(std::vector<int64_t> dims, std::vector<std::string> values);

// Handles of variables named "weights": of a new one with that value, of one without a value, of none and of
// no device; and none at all.
Tensor HandleOf(const Tensor& value);
Tensor UninitializedHandle(DType dtype);
Tensor MissingHandle();
Tensor NoHandles();

}  // namespace weir::conformance
