// Strings that hold the bytes of tensors.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"
#include "ops/strings/string_op.h"

namespace weir {
namespace {

// The input's dimensions and one more.
Status SetWithInner(ShapeInference& s, int64_t inner) {
  if (!s.input(0).has_rank()) return OkStatus();
  std::vector<int64_t> dims = DimsOf(s.input(0));
  dims.push_back(inner);
  return SetOutputDims(s, 0, dims);
}

Status DecodeRawShape(ShapeInference& s) { return SetWithInner(s, kUnknown); }

Status DecodePaddedRawShape(ShapeInference& s) {
  if (s.input(1).has_rank() && s.input(1).rank() != 0) {
    return InvalidArgumentError(StrCat("fixed_length must be a scalar, is ", s.input(1).ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> length, ScalarInput(s, 1));
  if (!length) return SetWithInner(s, kUnknown);
  const auto width = static_cast<int64_t>(DTypeSize(s.attr<DType>("out_type")));
  if (*length <= 0 || *length % width != 0) {
    return InvalidArgumentError(StrCat("fixed_length (", *length, ") must be a positive multiple of ", width,
                                       ", the size of ", DTypeName(s.attr<DType>("out_type"))));
  }
  return SetWithInner(s, *length / width);
}

}  // namespace

std::vector<OpDef> BytesOps() {
  return {
      StringOp("DecodeRaw", "Reads the bytes of each string as numbers, which are a new innermost dimension.",
               DecodeRawShape),
      StringOp("DecodePaddedRaw",
               "Like DecodeRaw, of the first fixed_length bytes, with zeros where a string is shorter.",
               DecodePaddedRawShape),
      StringOp("EncodeBase64", "Writes each string in base 64, in the alphabet for URLs.", UnchangedShape),
      StringOp("DecodeBase64", "Reads strings in base 64, in the alphabet for URLs.", UnchangedShape),
      StringOp("SerializeTensor", "Writes a tensor as a TensorProto.", ScalarShape),
      StringOp("ParseTensor", "Reads a tensor from a TensorProto.", UnknownShape),
  };
}

}  // namespace weir
