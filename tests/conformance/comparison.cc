#include "tests/conformance/comparison.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/reference/array.h"

namespace weir::conformance {

using reference::Array;

double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kComplex64:
      return 2e-6;
    case DType::kFloat64:
    case DType::kComplex128:
      return 1e-13;
    case DType::kHalf:
      return 2e-3;
    case DType::kBfloat16:
      return 1.6e-2;
    default:
      return 0;
  }
}

namespace {

bool IsClose(const reference::Value& a, const reference::Value& b, double tolerance) {
  if (a.text != b.text) return false;
  const auto close = [&](double x, double y) {
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
    if (std::isinf(x) || std::isinf(y)) return x == y;
    return std::abs(x - y) <= tolerance * std::max({1.0, std::abs(x), std::abs(y)});
  };
  return close(a.number.real(), b.number.real()) && close(a.number.imag(), b.number.imag());
}

}  // namespace

absl::Status Compare(absl::string_view what, const Tensor& found, const Tensor& wanted, double tolerance) {
  if (found.dtype() != wanted.dtype() || found.shape() != wanted.shape()) {
    return absl::InternalError(absl::StrCat(what, " is ", found.ToString(), ", wanted ", wanted.ToString()));
  }
  const Array a = Array::FromTensor(found), b = Array::FromTensor(wanted);
  if (tolerance < 0) tolerance = ToleranceOf(found.dtype());
  for (int64_t i = 0; i < a.size(); ++i) {
    if (IsClose(a[i], b[i], tolerance)) continue;
    return absl::InternalError(
        absl::StrCat(what, " differs at element ", i, ": ", a[i].number.real(), "+", a[i].number.imag(),
                     "i '", a[i].text, "', wanted ", b[i].number.real(), "+", b[i].number.imag(), "i '",
                     b[i].text, "'; found ", found.ToString(20), ", wanted ", wanted.ToString(20)));
  }
  return absl::OkStatus();
}

absl::Status CompareAll(absl::string_view what, const std::vector<Tensor>& found,
                        const std::vector<Tensor>& wanted, double tolerance) {
  if (found.size() != wanted.size())
    return absl::InternalError(absl::StrCat(what, ": numbers of outputs differ"));
  for (size_t i = 0; i < found.size(); ++i) {
    WEIR_RETURN_IF_ERROR(Compare(absl::StrCat(what, ", output ", i), found[i], wanted[i], tolerance));
  }
  return absl::OkStatus();
}

}  // namespace weir::conformance
