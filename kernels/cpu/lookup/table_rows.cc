#include "kernels/cpu/lookup/table_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/strided_copy.h"

namespace weir {

TableRows::TableRows(DType key_dtype, Shape key_shape, DType value_dtype, Shape value_shape)
    : key_dtype_(key_dtype),
      value_dtype_(value_dtype),
      key_shape_(std::move(key_shape)),
      value_shape_(std::move(value_shape)) {}

// The bytes of its elements; several strings with their lengths in front.
std::string TableRows::KeyAt(const Tensor& keys, int64_t k) const {
  const int64_t width = key_shape_.num_elements();
  if (key_dtype_ != DType::kString) {
    const size_t num_bytes = width * DTypeSize(key_dtype_);
    return std::string(static_cast<const char*>(keys.data()) + k * num_bytes, num_bytes);
  }
  const auto strings = keys.flat<std::string>().subspan(k * width, width);
  if (width == 1) return strings[0];
  std::string key;
  for (const std::string& text : strings) {
    const uint64_t size = text.size();
    key.append(reinterpret_cast<const char*>(&size), sizeof(size));
    key.append(text);
  }
  return key;
}

void TableRows::WriteKey(const std::string& key, Tensor& keys, int64_t k) const {
  const int64_t width = key_shape_.num_elements();
  if (key_dtype_ != DType::kString) {
    std::memcpy(static_cast<char*>(keys.data()) + k * key.size(), key.data(), key.size());
    return;
  }
  const auto strings = keys.flat<std::string>().subspan(k * width, width);
  if (width == 1) {
    strings[0] = key;
    return;
  }
  size_t position = 0;
  for (std::string& text : strings) {
    uint64_t size = 0;
    std::memcpy(&size, key.data() + position, sizeof(size));
    text = key.substr(position + sizeof(size), size);
    position += sizeof(size) + size;
  }
}

int64_t TableRows::Find(const std::string& key) const {
  const auto found = rows_.find(key);
  return found == rows_.end() ? kNone : found->second;
}

void TableRows::CopyValue(int64_t row, Tensor& values, int64_t k) const {
  const int64_t width = value_shape_.num_elements();
  CopyElements(values_, row * width, values, k * width, width);
}

bool TableRows::HasValue(int64_t row, const Tensor& values, int64_t k) const {
  const int64_t width = value_shape_.num_elements();
  if (value_dtype_ == DType::kString) {
    const auto ours = values_.flat<std::string>().subspan(row * width, width);
    return std::equal(ours.begin(), ours.end(), values.flat<std::string>().begin() + k * width);
  }
  const size_t num_bytes = width * DTypeSize(value_dtype_);
  return std::memcmp(static_cast<const char*>(values_.data()) + row * num_bytes,
                     static_cast<const char*>(values.data()) + k * num_bytes, num_bytes) == 0;
}

absl::Status TableRows::Reserve(int64_t count, Allocator& allocator) {
  if (count <= capacity_) return absl::OkStatus();
  Dims dims(value_shape_.dims().begin(), value_shape_.dims().end());
  dims.insert(dims.begin(), count);
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  WEIR_ASSIGN_OR_RETURN(Tensor larger, Tensor::Allocate(value_dtype_, shape, allocator));
  if (num_rows_ > 0) CopyElements(values_, 0, larger, 0, num_rows_ * value_shape_.num_elements());
  values_ = std::move(larger);
  capacity_ = count;
  return absl::OkStatus();
}

absl::Status TableRows::Insert(const std::string& key, const Tensor& values, int64_t k,
                               Allocator& allocator) {
  constexpr int64_t kFirstCapacity = 16;
  const int64_t width = value_shape_.num_elements();
  int64_t row = Find(key);
  if (row == kNone) {
    const int64_t num_characters = num_characters_ + static_cast<int64_t>(key.size());
    WEIR_RETURN_IF_ERROR(rooms_.Hold(NumHeld(size() + 1, num_characters), allocator, "the keys of a table"));
    if (free_rows_.empty()) {
      if (num_rows_ == capacity_) {
        absl::Status reserved = Reserve(std::max(2 * capacity_, kFirstCapacity), allocator);
        if (!reserved.ok()) {
          rooms_.Free(NumHeld(size(), num_characters_));
          return reserved;
        }
      }
      row = num_rows_++;
    } else {
      row = free_rows_.back();
      free_rows_.pop_back();
    }
    rows_.emplace(key, row);
    num_characters_ = num_characters;
  }
  CopyElements(values, k * width, values_, row * width, width);
  return absl::OkStatus();
}

void TableRows::Erase(const std::string& key) {
  const auto found = rows_.find(key);
  if (found == rows_.end()) return;
  const int64_t width = value_shape_.num_elements();
  ClearElements(values_, found->second * width, width);  // strings may be long
  free_rows_.push_back(found->second);
  num_characters_ -= static_cast<int64_t>(found->first.size());
  rows_.erase(found);
  rooms_.Free(NumHeld(size(), num_characters_));
}

void TableRows::ForEach(absl::FunctionRef<void(const std::string& key, int64_t row)> visit) const {
  std::vector<std::pair<int64_t, const std::string*>> sorted;
  sorted.reserve(rows_.size());
  for (const auto& [key, row] : rows_) sorted.emplace_back(row, &key);
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [row, key] : sorted) visit(*key, row);
}

}  // namespace weir
