// All that the conformance suite knows of an op, in one record: its definition as a reference, calls of it,
// calls that must fail.
//
// A family's folder has the records of its ops; a file there has one function, named after it.
//
//   void AddActivationsRecords(Suite& suite) {
//     suite.Op("Softsign")
//         .Reference(EachNumber([](Number x) { return x / (1.0 + std::abs(x)); }))
//         .Unary(kInexact, -3, 3)     // elementwise_calls.cc: calls of every dtype, shape and extreme
//         .CannotFail();
//     suite.Op("TopKV2")
//         .Reference(TopK)
//         .Call({Sample(kFloat, {2, 9}), Int(3)}, {{"sorted", true}})
//         .Hostile({Sample(kFloat, {2, 9}), Int(10)}, "k is 10");
//   }
//
// What the suite does with a record: README.md. The functions return the record itself.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/reference/array.h"
#include "tests/conformance/hostile_cases.h"
#include "tests/conformance/op_case.h"

namespace weir::conformance {

// Infinities, NaN, signed zeros, denormal and huge numbers, among ordinary ones. Precondition: float or
// double.
Tensor ExtremeNumbers(DType dtype);

// What the operands of a binary op are drawn from.
struct OperandRange {
  double x_low = -3, x_high = 3, y_low = -3, y_high = 3;
};

class OpRecord {
 public:
  explicit OpRecord(std::string op) : op_(std::move(op)) {}

  // What the outputs must be. An op needs one, or a reason not to have calls.
  OpRecord& Reference(reference::Reference reference);

  // A call whose result must be the reference's. `options.op` is filled in.
  OpRecord& Call(std::vector<CaseInput> inputs, AttrMap attrs = {});
  OpRecord& Call(OpCase options);
  // A call that changes variables: its inputs CaseInput::Variable(value). The reference sees their values in
  // place of handles; after the op's own outputs it gives the new value of each variable, in order.
  OpRecord& Update(std::vector<CaseInput> inputs, AttrMap attrs = {});
  // Hostile calls with each of the handles that no op takes: of a variable that is gone, of one without a
  // value, and none, in place of input `handle` of a good call.
  OpRecord& HostileHandles(std::vector<CaseInput> inputs, int handle = 0, AttrMap attrs = {});
  // The next calls have no derivative at their inputs, or not the one that TensorFlow gives.
  OpRecord& NoGradient();
  // The next calls are compared with this relative and absolute error; 0: the dtype's own.
  OpRecord& Tolerance(double tolerance);

  // A call that must fail in the step, with an error whose text contains `error`.
  OpRecord& Hostile(std::vector<CaseInput> inputs, std::string error, AttrMap attrs = {},
                    absl::StatusCode code = absl::StatusCode::kInvalidArgument);
  // A call whose result would be larger than the device's memory (kHostileDeviceBytes).
  OpRecord& OutOfMemory(std::vector<CaseInput> inputs, AttrMap attrs = {});
  // No input of the right types makes it fail, but for a lack of memory.
  OpRecord& CannotFail();

  // Why the op has no calls here, and which test has them: it needs state or files, or is random.
  OpRecord& TestedElsewhere(std::string where);
  // Dtypes of a type attr that TensorFlow's schema allows and no CPU kernel takes, and why.
  OpRecord& NoKernelFor(std::string attr, std::vector<DType> dtypes, std::string reason);

  // Each dtype of a type attr has a kernel, but not each combination of several attrs, and why.
  OpRecord& SomeCombinationsOnly(std::string reason);

  // The shapes of the outputs are known only in a step: they depend on values that no graph looks at.
  OpRecord& ShapeDependsOnValues();

  // Elementwise calls (elementwise_calls.cc): equal shapes, scalars, rows, columns, broadcasts, nothing.
  OpRecord& Binary(const std::vector<DType>& dtypes, OperandRange range = {});
  OpRecord& Unary(const std::vector<DType>& dtypes, double low, double high);
  // Infinities, NaN, signed zeros, denormal and huge numbers.
  OpRecord& Extremes(const std::vector<DType>& dtypes, double tolerance = 0);
  // Of a binary op: the same numbers and NaN, and the same and 1.
  OpRecord& ExtremesAndOne();

  struct Missing {
    std::string attr;
    std::vector<DType> dtypes;
    std::string reason;
  };
  const std::string& op() const { return op_; }
  const reference::Reference& reference() const { return reference_; }
  const std::vector<OpCase>& calls() const { return calls_; }
  const std::vector<OpCase>& updates() const { return updates_; }
  const std::vector<HostileCase>& hostile_calls() const { return hostile_calls_; }
  bool cannot_fail() const { return cannot_fail_; }
  const std::string& tested_elsewhere() const { return tested_elsewhere_; }
  bool shape_depends_on_values() const { return shape_depends_on_values_; }
  const std::vector<Missing>& missing_kernels() const { return missing_kernels_; }
  const std::string& some_combinations_only() const { return some_combinations_only_; }

 private:
  const std::string op_;
  reference::Reference reference_;
  std::vector<OpCase> calls_, updates_;
  std::vector<HostileCase> hostile_calls_;
  bool cannot_fail_ = false;
  std::string tested_elsewhere_;
  std::vector<Missing> missing_kernels_;
  std::string some_combinations_only_;
  bool shape_depends_on_values_ = false;
  bool check_gradient_ = true;
  double tolerance_ = 0;
};

class Suite {
 public:
  // The whole suite. Made once; lives as long as the process.
  static const Suite& Whole();

  // The record of an op, made at its first use. Valid as long as the suite.
  OpRecord& Op(const std::string& op);
  // Null when there is none.
  const OpRecord* Find(absl::string_view op) const;

  const std::map<std::string, OpRecord, std::less<>>& records() const { return records_; }
  std::vector<OpCase> calls() const;
  std::vector<OpCase> updates() const;
  std::vector<HostileCase> hostile_calls() const;

 private:
  std::map<std::string, OpRecord, std::less<>> records_;
};

// The outputs of a node by its reference; NotFound for an op without one. Inputs must be valid.
absl::StatusOr<std::vector<Tensor>> EvaluateReference(const Node& node, absl::Span<const Tensor> inputs);

// The records of all files, tests/conformance/<family>/<file>.cc: each has a function Add<File>Records, and
// the build lists them (records.bzl).
using AddRecords = void (*)(Suite&);
const std::vector<AddRecords>& RecordFiles();

}  // namespace weir::conformance
