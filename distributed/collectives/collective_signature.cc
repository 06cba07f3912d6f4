#include "distributed/collectives/collective_signature.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distributed/collectives/reduction.h"
#include "graph/types/status_macros.h"
#include "graph/types/tensor.h"

namespace weir {
namespace {

absl::string_view NameOf(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "sum";
    case Reduction::kProduct:
      return "product";
    case Reduction::kMin:
      return "min";
    case Reduction::kMax:
      return "max";
    case Reduction::kAdasum:
      return "Adasum";
  }
  return "?";
}

DType DecodeType(WireReader* reader) { return static_cast<DType>(reader->UnsignedUpTo(255)); }

}  // namespace

std::string CollectiveSignature::ToString() const {
  const auto listed = [](absl::Span<const int64_t> dims) { return absl::StrJoin(dims, ","); };
  const auto reduced = [&](absl::string_view what) {
    return absl::StrCat(what, "(", NameOf(reduction), divides ? ", divided" : "",
                        wire == DType::kInvalid ? "" : absl::StrCat(", as ", DTypeName(wire)), ") of ",
                        DTypeName(dtype), "[", listed(dims), "]");
  };
  const auto rows = [&](absl::string_view what) {
    return absl::StrCat(what, " of ", DTypeName(dtype), "[?", dims.empty() ? "" : ",", listed(dims), "]");
  };
  switch (kind) {
    case Kind::kAllReduce:
      return reduced("all-reduce");
    case Kind::kReduceScatter:
      return reduced("reduce-scatter");
    case Kind::kAllGather:
      return rows("all-gather");
    case Kind::kAllToAll:
      return rows("all-to-all");
    case Kind::kBroadcast:
      return absl::StrCat("broadcast of ", DTypeName(dtype), " from rank ", root);
    case Kind::kBarrier:
      return "barrier";
    case Kind::kJoin:
      return "join";
  }
  return "?";
}

void CollectiveSignature::EncodeTo(WireWriter* writer) const {
  writer->Unsigned(static_cast<uint64_t>(kind));
  writer->Unsigned(static_cast<uint64_t>(dtype));
  writer->Unsigned(static_cast<uint64_t>(reduction));
  writer->Unsigned(divides);
  writer->Unsigned(static_cast<uint64_t>(wire));
  writer->Signed(root);
  writer->Unsigned(dims.size());
  for (const int64_t dim : dims) writer->Signed(dim);
}

CollectiveSignature CollectiveSignature::DecodeFrom(WireReader* reader) {
  CollectiveSignature signature;
  signature.kind = static_cast<Kind>(reader->UnsignedUpTo(static_cast<uint64_t>(Kind::kJoin)));
  signature.dtype = DecodeType(reader);
  signature.reduction =
      static_cast<Reduction>(reader->UnsignedUpTo(static_cast<uint64_t>(Reduction::kAdasum)));
  signature.divides = reader->UnsignedUpTo(1) != 0;
  signature.wire = DecodeType(reader);
  signature.root = static_cast<int>(reader->Signed());
  const size_t num_dims = reader->Count();
  for (size_t i = 0; i < num_dims; ++i) signature.dims.push_back(reader->Signed());
  return signature;
}

absl::Status CheckPlain(DType dtype) {
  if (IsKnownDType(static_cast<int>(dtype)) && IsPlainBytes(dtype)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tensors of ", DTypeName(dtype), " cannot be sent to other ranks"));
}

absl::Status CheckReduction(const CollectiveSignature& signature) {
  WEIR_RETURN_IF_ERROR(CheckReducible(signature.dtype));
  if (signature.reduction == Reduction::kAdasum && (!IsFloating(signature.dtype) || signature.divides)) {
    return absl::InvalidArgumentError(
        signature.divides
            ? "an Adasum is not divided"
            : absl::StrCat("an Adasum is of floating-point types, not of ", DTypeName(signature.dtype)));
  }
  if (signature.reduction == Reduction::kAdasum &&
      signature.kind == CollectiveSignature::Kind::kReduceScatter) {
    return absl::InvalidArgumentError("an Adasum is of whole tensors: it cannot be scattered");
  }
  const DType wire = signature.wire;
  if (wire == DType::kInvalid) return absl::OkStatus();
  if ((wire != DType::kHalf && wire != DType::kBfloat16) ||
      (signature.dtype != DType::kFloat32 && signature.dtype != DType::kFloat64)) {
    return absl::InvalidArgumentError(
        absl::StrCat("only float and double can travel as half or bfloat16, not ", DTypeName(signature.dtype),
                     " as ", DTypeName(wire)));
  }
  return absl::OkStatus();
}

absl::Status CheckRows(absl::string_view what, const Tensor& input) {
  WEIR_RETURN_IF_ERROR(CheckPlain(input.dtype()));
  if (input.shape().rank() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " of rows along dimension 0 is asked for, but this is a scalar"));
}

CollectiveSignature SignatureOfRows(CollectiveSignature::Kind kind, const Tensor& input) {
  CollectiveSignature signature = {.kind = kind, .dtype = input.dtype()};
  signature.dims.assign(input.shape().dims().begin() + 1, input.shape().dims().end());
  return signature;
}

}  // namespace weir
