// Variables: what their ops refuse.
#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;
using List = std::vector<int64_t>;

void AddVarHandleOp(Suite& suite) {
  OpRecord& record =
      suite.Op("VarHandleOp").TestedElsewhere("state: tests/conformance/state/variables_test.cc");
  record.Hostile({}, "variable 'taken' holds float, asked for as int32",
                 {{"shared_name", kHostileVariable}, {"dtype", D::kInt32}, {"shape", PartialShape({2})}});
}

void AddReadVariableOp(Suite& suite) {
  const Tensor weights = HandleOf(Floats({2}));
  OpRecord& record =
      suite.Op("ReadVariableOp").TestedElsewhere("state: tests/conformance/state/variables_test.cc");
  record.Hostile({weights}, "holds float, asked for as int32", {{"dtype", D::kInt32}});
  // As in TensorFlow, whatever is wrong with the handle.
  const auto precondition = absl::StatusCode::kFailedPrecondition;
  const AttrMap floats = {{"dtype", D::kFloat32}};
  record.Hostile({MissingHandle()}, "weights", floats, precondition)
      .Hostile({UninitializedHandle(D::kFloat32)}, "Attempting to use uninitialized value weights", floats,
               precondition)
      .Hostile({NoHandles()}, "must be one resource handle", floats, precondition);
}

void AddAssignVariableOp(Suite& suite) {
  const Tensor weights = HandleOf(Floats({2}));
  OpRecord& record =
      suite.Op("AssignVariableOp").TestedElsewhere("state: tests/conformance/state/variables_test.cc");
  record.Hostile({MissingHandle(), Floats({2})}, "weights")
      .Hostile({NoHandles(), Floats({2})}, "must be one resource handle")
      .Hostile({weights, Ints({1, 2})}, "holds float, asked for as int32")
      .Hostile({weights, Floats({3})}, "has the shape [2]", {{"validate_shape", true}});
}

void AddAssignAddVariableOp(Suite& suite) {
  const Tensor weights = HandleOf(Floats({2}));
  OpRecord& record =
      suite.Op("AssignAddVariableOp").TestedElsewhere("state: tests/conformance/state/variables_test.cc");
  record.Hostile({weights, Floats({3})}, "the value is float[3] but variable 'weights' is float[2]")
      .Hostile({weights, Floats({})}, "the value is float[] but variable 'weights' is float[2]")
      .Hostile({weights, Ints({1, 2})}, "the value is int32[2] but variable 'weights' is float[2]");
  record.HostileHandles({CaseInput::Variable(Floats({2})), Floats({2})});
  record.NoKernelFor("dtype", {DType::kBool, DType::kString}, "TensorFlow has none either");
}

void AddAssignSubVariableOp(Suite& suite) {
  const Tensor weights = HandleOf(Floats({2}));
  OpRecord& record =
      suite.Op("AssignSubVariableOp").TestedElsewhere("state: tests/conformance/state/variables_test.cc");
  record.Hostile({weights, Floats({3})}, "the value is float[3] but variable 'weights' is float[2]")
      .Hostile({weights, Floats({})}, "the value is float[] but variable 'weights' is float[2]")
      .Hostile({weights, Ints({1, 2})}, "the value is int32[2] but variable 'weights' is float[2]");
  record.HostileHandles({CaseInput::Variable(Floats({2})), Floats({2})});
  record.NoKernelFor("dtype", {DType::kBool, DType::kString}, "TensorFlow has none either");
}

void AddVarIsInitializedOp(Suite& suite) {
  OpRecord& record =
      suite.Op("VarIsInitializedOp").TestedElsewhere("state: tests/conformance/state/variables_test.cc");
  record.Hostile({NoHandles()}, "must be one resource handle");
}

void AddDisableCopyOnRead(Suite& suite) {
  OpRecord& record =
      suite.Op("DisableCopyOnRead").TestedElsewhere("state: tests/conformance/state/variables_test.cc");
  record.HostileHandles({CaseInput::Variable(Floats({2}))});
}

void AddDestroyResourceOp(Suite& suite) {
  const auto missing = absl::StatusCode::kNotFound;
  OpRecord& record =
      suite.Op("DestroyResourceOp").TestedElsewhere("state: tests/conformance/state/variables_test.cc");
  record.Hostile({NoHandles()}, "must be one resource handle")
      .Hostile({NoHandles()}, "must be one resource handle", {{"ignore_lookup_error", true}})
      .Hostile({MissingHandle()}, "weights", {{"ignore_lookup_error", false}})
      .Hostile({UninitializedHandle(D::kFloat32)}, "weights", {{"ignore_lookup_error", false}}, missing);
}

}  // namespace

void AddVariablesRecords(Suite& suite) {
  AddVarHandleOp(suite);
  AddReadVariableOp(suite);
  AddAssignVariableOp(suite);
  AddAssignAddVariableOp(suite);
  AddAssignSubVariableOp(suite);
  AddVarIsInitializedOp(suite);
  AddDisableCopyOnRead(suite);
  AddDestroyResourceOp(suite);
}

}  // namespace weir::conformance
