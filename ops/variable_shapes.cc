#include "ops/variable_shapes.h"

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "ops/shape_functions.h"

namespace weir {

// The type of the variable behind a handle; unknown for a handle from elsewhere.
ResourceType VariableType(const ShapeInference& s, int input) {
  return s.input_resource(input).value_or(ResourceType());
}

Status CheckDType(const ShapeInference& s, int handle, DType dtype) {
  const DType variable = VariableType(s, handle).dtype;
  if (variable == DType::kInvalid || variable == dtype) return OkStatus();
  return InvalidArgumentError(StrCat("dtypes differ: the variable behind ", s.input_name(handle), " is ",
                                     DTypeName(variable), ", the op's is ", DTypeName(dtype)));
}

// That input `value` has the dtype and may have the shape of the variable behind input `handle`.
Status CheckFitsVariable(const ShapeInference& s, int handle, int value) {
  WEIR_RETURN_IF_ERROR(s.WithRank(handle, 0).status());
  WEIR_RETURN_IF_ERROR(CheckDType(s, handle, s.input_type(value)));
  const PartialShape shape = VariableType(s, handle).shape;
  if (shape.IsCompatibleWith(s.input(value))) return OkStatus();
  return InvalidArgumentError(StrCat("shapes differ: the variable behind ", s.input_name(handle), " is ",
                                     shape.ToString(), ", ", s.input_name(value), " is ",
                                     s.input(value).ToString()));
}

}  // namespace weir
