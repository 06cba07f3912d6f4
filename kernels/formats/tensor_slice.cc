#include "kernels/formats/tensor_slice.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// --- ordered code: byte strings that sort as the values they encode ---

void AppendOrderedUint(uint64_t value, std::string* out) {
  const int num_bytes = (std::bit_width(value) + 7) / 8;
  out->push_back(static_cast<char>(num_bytes));
  for (int i = num_bytes - 1; i >= 0; --i) out->push_back(static_cast<char>(value >> (8 * i)));
}

void AppendOrderedString(absl::string_view text, std::string* out) {
  for (char c : text) {
    out->push_back(c);
    if (c == '\0') out->push_back('\xff');
    if (c == '\xff') out->push_back('\0');
  }
  out->append("\0\1", 2);
}

// A signed integer takes n bytes of 7 bits: the first n bits say n in unary (n ones and a zero, the first one
// being the sign, inverted for negative values), the rest is the value in two's complement, big-endian.
void AppendOrderedInt(int64_t value, std::string* out) {
  const uint64_t magnitude = static_cast<uint64_t>(value < 0 ? ~value : value);
  const int num_bytes = std::bit_width(magnitude) / 7 + 1;
  char bytes[10];
  for (int i = 0; i < 10; ++i) {
    const int shift = 8 * (num_bytes - 1 - i);
    if (i < num_bytes) bytes[i] = static_cast<char>(shift >= 64 ? (value < 0 ? -1 : 0) : value >> shift);
  }
  for (int bit = 0; bit < num_bytes; ++bit) bytes[bit / 8] ^= static_cast<char>(0x80 >> (bit % 8));
  out->append(bytes, num_bytes);
}

absl::Status BadSlice(absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' is no slice: per dimension \"start,length\" or \"-\" is wanted, joined by ':'"));
}

}  // namespace

absl::StatusOr<TensorSlice> TensorSlice::Parse(absl::string_view text) {
  TensorSlice slice;
  if (text.empty()) return slice;  // of a scalar
  for (absl::string_view part : absl::StrSplit(text, ':')) {
    Extent extent;
    if (part != "-") {
      const std::vector<absl::string_view> numbers = absl::StrSplit(part, ',');
      if (numbers.size() != 2 || !absl::SimpleAtoi(numbers[0], &extent.start) ||
          !absl::SimpleAtoi(numbers[1], &extent.length) || extent.start < 0 || extent.length < 0) {
        return BadSlice(text);
      }
    }
    slice.extents.push_back(extent);
  }
  return slice;
}

TensorSlice TensorSlice::WholeOf(const Shape& shape) {
  TensorSlice slice;
  for (int64_t dim : shape.dims()) slice.extents.push_back({0, dim});
  return slice;
}

std::string TensorSlice::ToString() const {
  return absl::StrJoin(extents, ":", [](std::string* out, const Extent& extent) {
    if (extent.length == Extent::kAll) {
      out->append("-");
    } else {
      absl::StrAppend(out, extent.start, ",", extent.length);
    }
  });
}

absl::StatusOr<TensorSlice> TensorSlice::WithinShape(const Shape& shape) const {
  TensorSlice result = *this;
  bool fits = extents.size() == static_cast<size_t>(shape.rank());
  for (int i = 0; fits && i < shape.rank(); ++i) {
    Extent& extent = result.extents[i];
    if (extent.length == Extent::kAll && extent.start == 0) extent.length = shape.dim(i);
    fits = extent.start >= 0 && extent.length >= 0 && extent.length <= shape.dim(i) &&
           extent.start <= shape.dim(i) - extent.length;
  }
  if (fits) return result;
  return absl::InvalidArgumentError(
      absl::StrCat("the slice ", ToString(), " does not lie inside the shape ", shape.ToString()));
}

Shape TensorSlice::shape() const {
  Dims dims;
  for (const Extent& extent : extents) dims.push_back(extent.length);
  return Shape(dims);
}

bool TensorSlice::Overlaps(const TensorSlice& other) const {
  for (size_t i = 0; i < extents.size(); ++i) {
    const int64_t begin = std::max(extents[i].start, other.extents[i].start);
    const int64_t end =
        std::min(extents[i].start + extents[i].length, other.extents[i].start + other.extents[i].length);
    if (begin >= end) return false;
  }
  return true;
}

std::string TensorSlice::KeyFor(absl::string_view name) const {
  std::string key;
  AppendOrderedUint(0, &key);
  AppendOrderedString(name, &key);
  AppendOrderedUint(extents.size(), &key);
  for (const Extent& extent : extents) {
    AppendOrderedInt(extent.start, &key);
    AppendOrderedInt(extent.length, &key);
  }
  return key;
}

absl::StatusOr<ShapeAndSlice> ParseShapeAndSlice(absl::string_view text) {
  std::vector<absl::string_view> parts = absl::StrSplit(text, ' ');
  const absl::string_view slice_text = parts.back();
  parts.pop_back();
  Dims dims;
  for (absl::string_view part : parts) {
    int64_t dim = 0;
    if (!absl::SimpleAtoi(part, &dim)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", text, "' is no shape and slice: \"7 3 0,4:-\" is the form"));
    }
    dims.push_back(dim);
  }
  ShapeAndSlice result;
  WEIR_ASSIGN_OR_RETURN(result.full_shape, Shape::FromDims(dims));
  WEIR_ASSIGN_OR_RETURN(result.slice, TensorSlice::Parse(slice_text));
  WEIR_RETURN_IF_ERROR(result.slice.WithinShape(result.full_shape).status());
  return result;
}

int64_t CopyOverlap(const TensorSlice& source_box, const char* source, const TensorSlice& destination_box,
                    char* destination, size_t element_bytes) {
  const int rank = static_cast<int>(source_box.extents.size());
  std::vector<int64_t> begin(rank), length(rank);
  int64_t num_elements = 1;
  for (int i = 0; i < rank; ++i) {
    const TensorSlice::Extent& a = source_box.extents[i];
    const TensorSlice::Extent& b = destination_box.extents[i];
    begin[i] = std::max(a.start, b.start);
    length[i] = std::min(a.start + a.length, b.start + b.length) - begin[i];
    if (length[i] <= 0) return 0;
    num_elements *= length[i];
  }
  const int64_t row = rank == 0 ? 1 : length[rank - 1];
  const auto offset = [&](const TensorSlice& box, const std::vector<int64_t>& index) {
    int64_t result = 0;
    for (int i = 0; i < rank; ++i) result = result * box.extents[i].length + index[i] - box.extents[i].start;
    return result * static_cast<int64_t>(element_bytes);
  };
  std::vector<int64_t> index = begin;
  for (int64_t done = 0; done < num_elements; done += row) {
    std::memcpy(destination + offset(destination_box, index), source + offset(source_box, index),
                row * element_bytes);
    for (int i = rank - 2; i >= 0 && ++index[i] == begin[i] + length[i]; --i) index[i] = begin[i];
  }
  return num_elements;
}

}  // namespace weir
