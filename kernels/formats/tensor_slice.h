// A box inside a tensor: which part of a partitioned variable a checkpoint entry holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/types/shape.h"

namespace weir {

struct TensorSlice {
  struct Extent {
    static constexpr int64_t kAll = -1;
    int64_t start = 0;
    int64_t length = kAll;  // kAll: the whole dimension, and start is 0

    friend bool operator==(const Extent& a, const Extent& b) {
      return a.start == b.start && a.length == b.length;
    }
  };
  std::vector<Extent> extents;  // one per dimension

  // TensorFlow's text form: per dimension "start,length" or "-", joined by ':' ("0,3:-"). InvalidArgument
  // quotes it.
  static absl::StatusOr<TensorSlice> Parse(absl::string_view text);
  static TensorSlice WholeOf(const Shape& shape);
  std::string ToString() const;

  // The same box with every length spelled out; InvalidArgument when it does not lie inside `shape`.
  absl::StatusOr<TensorSlice> WithinShape(const Shape& shape) const;
  // Precondition: spelled out by WithinShape.
  Shape shape() const;

  // True when some element lies in both. Precondition: both spelled out by WithinShape, of equal rank.
  bool Overlaps(const TensorSlice& other) const;

  // Under this key the index of a checkpoint keeps a slice of tensor `name` (TensorFlow's ordered code of a
  // zero, the name, the rank and each extent).
  std::string KeyFor(absl::string_view name) const;

  friend bool operator==(const TensorSlice& a, const TensorSlice& b) { return a.extents == b.extents; }
};

// What a save or restore op says of one tensor: "" for all of it, or the full shape and the slice, "7 3
// 0,4:-".
struct ShapeAndSlice {
  Shape full_shape;
  TensorSlice slice;
};
absl::StatusOr<ShapeAndSlice> ParseShapeAndSlice(absl::string_view text);

// Copies the part that lies in both boxes of one tensor from `source` (all of source_box, row-major) to
// `destination` (all of destination_box). Returns the number of elements copied. Preconditions: boxes of
// equal rank, spelled out.
int64_t CopyOverlap(const TensorSlice& source_box, const char* source, const TensorSlice& destination_box,
                    char* destination, size_t element_bytes);

}  // namespace weir
