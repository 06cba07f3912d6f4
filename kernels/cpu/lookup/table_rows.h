// The keys of a table and their values: rows of tensors of one dtype and one shape each.
//
// Not thread safe: a LookupTable has a lock. Values are in memory of the allocator given, which grows to
// twice its size when it is full; keys count there too, with their characters. What that does not allow is
// ResourceExhausted, and changes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "graph/types/allocator.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"
#include "kernels/cpu/data_flow/element_rooms.h"

namespace weir {

class TableRows {
 public:
  static constexpr int64_t kNone = -1;

  TableRows(DType key_dtype, Shape key_shape, DType value_dtype, Shape value_shape);

  DType key_dtype() const { return key_dtype_; }
  DType value_dtype() const { return value_dtype_; }
  const Shape& key_shape() const { return key_shape_; }
  const Shape& value_shape() const { return value_shape_; }
  int64_t size() const { return static_cast<int64_t>(rows_.size()); }

  // Key k of a tensor of keys, as it is kept.
  std::string KeyAt(const Tensor& keys, int64_t k) const;
  // Writes it back.
  void WriteKey(const std::string& key, Tensor& keys, int64_t k) const;

  // The row of a key, for CopyValue; kNone when there is none.
  int64_t Find(const std::string& key) const;
  void CopyValue(int64_t row, Tensor& values, int64_t k) const;
  // Whether the row has value k of `values`.
  bool HasValue(int64_t row, const Tensor& values, int64_t k) const;

  // Makes room for that many values in all.
  absl::Status Reserve(int64_t count, Allocator& allocator);
  // Replaces the value of a key that is there. Precondition: dtypes and shapes fit.
  absl::Status Insert(const std::string& key, const Tensor& values, int64_t k, Allocator& allocator);
  void Erase(const std::string& key);

  // In the order in which keys came, but that one may take the place of one that was erased.
  void ForEach(absl::FunctionRef<void(const std::string& key, int64_t row)> visit) const;

 private:
  // For so many characters a key counts as one more.
  static constexpr int64_t kCharactersOfKey = 64;

  static int64_t NumHeld(int64_t num_keys, int64_t num_characters) {
    return num_keys + num_characters / kCharactersOfKey;
  }

  DType key_dtype_, value_dtype_;
  Shape key_shape_, value_shape_;
  absl::flat_hash_map<std::string, int64_t> rows_;
  int64_t num_characters_ = 0;            // of its keys
  ElementRooms rooms_ = ElementRooms(0);  // for these
  std::vector<int64_t> free_rows_;
  int64_t num_rows_ = 0;  // used and free ones
  int64_t capacity_ = 0;
  Tensor values_;
};

}  // namespace weir
