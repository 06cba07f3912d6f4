#include "kernels/cpu/lookup/lookup_table.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/with_dtype.h"

namespace weir {
namespace {

Shape Joined(const Shape& outer, const Shape& inner) {
  Dims dims(outer.dims().begin(), outer.dims().end());
  dims.insert(dims.end(), inner.dims().begin(), inner.dims().end());
  return Shape(absl::MakeConstSpan(dims));
}

absl::StatusOr<Shape> CheckedJoined(const Shape& outer, const Shape& inner) {
  Dims dims(outer.dims().begin(), outer.dims().end());
  dims.insert(dims.end(), inner.dims().begin(), inner.dims().end());
  return Shape::FromDims(dims);
}

std::string ElementText(const Tensor& tensor, int64_t i) {
  if (tensor.dtype() == DType::kString) return tensor.flat<std::string>()[i];
  if (tensor.dtype() == DType::kBool) return tensor.flat<bool>()[i] ? "true" : "false";
  std::string text;
  WithNumericType(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T value = tensor.flat<T>()[i];
    if constexpr (std::is_integral_v<T> || std::is_floating_point_v<T>) {
      text = absl::StrCat(+value);
    } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>) {
      text = absl::StrCat(static_cast<float>(value));
    } else {
      text = absl::StrCat("(", value.real(), ",", value.imag(), ")");
    }
  });
  return text;
}

}  // namespace

// ---- All kinds ----

LookupTable::LookupTable(Spec spec)
    : spec_(std::move(spec)), rows_(spec_.key_dtype, spec_.key_shape, spec_.value_dtype, spec_.value_shape) {}

std::string LookupTable::ToString() const {
  return absl::StrCat(spec_.kind, " '", spec_.name, "' from ", TypeString(spec_.key_dtype, spec_.key_shape),
                      " to ", TypeString(spec_.value_dtype, spec_.value_shape));
}

int64_t LookupTable::size() const {
  absl::ReaderMutexLock lock(&mutex_);
  return rows_.size();
}

absl::StatusOr<Shape> LookupTable::CheckKeys(const Tensor& keys) const {
  const int rank = keys.shape().rank() - spec_.key_shape.rank();
  if (rank >= 0 && keys.shape().dims().subspan(rank) == spec_.key_shape.dims()) {
    return Shape(keys.shape().dims().subspan(0, rank));
  }
  return absl::InvalidArgumentError(absl::StrCat("Input key shape ", keys.shape().ToString(),
                                                 " must end with the table's key shape ",
                                                 spec_.key_shape.ToString()));
}

absl::StatusOr<Shape> LookupTable::CheckPairs(const Tensor& keys, const Tensor& values) const {
  WEIR_ASSIGN_OR_RETURN(const Shape outer, CheckKeys(keys));
  WEIR_ASSIGN_OR_RETURN(const Shape wanted, CheckedJoined(outer, spec_.value_shape));
  if (values.shape() == wanted) return outer;
  return absl::InvalidArgumentError(
      absl::StrCat("Expected shape ", wanted.ToString(), " for value, got ", values.shape().ToString()));
}

absl::StatusOr<Tensor> LookupTable::Find(const Tensor& keys, const Tensor& default_value,
                                         Allocator& allocator) const {
  WEIR_ASSIGN_OR_RETURN(const Shape outer, CheckKeys(keys));
  WEIR_ASSIGN_OR_RETURN(const Shape shape, CheckedJoined(outer, spec_.value_shape));
  const bool has_one_default = default_value.shape() == spec_.value_shape;
  if (!has_one_default && default_value.shape() != shape) {
    return absl::InvalidArgumentError(absl::StrCat("Expected shape ", spec_.value_shape.ToString(), " or ",
                                                   shape.ToString(), " for default value, got ",
                                                   default_value.shape().ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(spec_.value_dtype, shape, allocator));
  const int64_t width = spec_.value_shape.num_elements();
  absl::ReaderMutexLock lock(&mutex_);
  WEIR_RETURN_IF_ERROR(CheckReadable());
  for (int64_t k = 0; k < outer.num_elements(); ++k) {
    const std::string key = rows_.KeyAt(keys, k);
    WEIR_RETURN_IF_ERROR(CheckKey(key));
    const int64_t row = rows_.Find(key);
    if (row != TableRows::kNone) {
      rows_.CopyValue(row, values, k);
    } else {
      CopyElements(default_value, has_one_default ? 0 : k * width, values, k * width, width);
    }
  }
  return values;
}

absl::StatusOr<std::pair<Tensor, Tensor>> LookupTable::Export(Allocator& allocator) const {
  absl::ReaderMutexLock lock(&mutex_);
  const Shape count({rows_.size()});
  WEIR_ASSIGN_OR_RETURN(Tensor keys,
                        Tensor::Allocate(spec_.key_dtype, Joined(count, spec_.key_shape), allocator));
  WEIR_ASSIGN_OR_RETURN(Tensor values,
                        Tensor::Allocate(spec_.value_dtype, Joined(count, spec_.value_shape), allocator));
  int64_t k = 0;
  rows_.ForEach([&](const std::string& key, int64_t row) ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    rows_.WriteKey(key, keys, k);
    rows_.CopyValue(row, values, k++);
  });
  return std::make_pair(std::move(keys), std::move(values));
}

absl::Status LookupTable::Initialize(const Tensor&, const Tensor&, Allocator&) {
  return absl::InvalidArgumentError(absl::StrCat("Table ", spec_.name, " is not initializable"));
}

absl::Status LookupTable::Initialize(TableRows, int64_t) {
  return absl::InvalidArgumentError(absl::StrCat("Table ", spec_.name, " is not initializable"));
}

// ---- HashTable ----

absl::Status HashTable::CheckReadable() const {
  return is_initialized_ ? absl::OkStatus() : absl::FailedPreconditionError("Table not initialized.");
}

absl::Status HashTable::Insert(const Tensor&, const Tensor&, Allocator&) {
  return absl::UnimplementedError("Insert not supported by InitializableLookupTable implementations");
}

absl::Status HashTable::Remove(const Tensor&) {
  return absl::UnimplementedError("Remove not supported by InitializableLookupTable implementations");
}

absl::Status HashTable::Import(const Tensor& keys, const Tensor& values, Allocator& allocator) {
  return Initialize(keys, values, allocator);
}

absl::Status HashTable::AddTo(TableRows& rows, const Tensor& keys, const Tensor& values, int64_t k,
                              Allocator& allocator) {
  const std::string key = rows.KeyAt(keys, k);
  const int64_t row = rows.Find(key);
  if (row == TableRows::kNone) return rows.Insert(key, values, k, allocator);
  if (rows.HasValue(row, values, k)) return absl::OkStatus();
  Tensor present(values.dtype(), Shape({1}));
  rows.CopyValue(row, present, 0);
  return absl::FailedPreconditionError(absl::StrCat("HashTable has different value for same key. Key ",
                                                    ElementText(keys, k), " has ", ElementText(present, 0),
                                                    " and trying to add value ", ElementText(values, k)));
}

absl::Status HashTable::Initialize(const Tensor& keys, const Tensor& values, Allocator& allocator) {
  if (keys.shape().rank() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("Keys must be a vector, but received shape", keys.shape().ToString()));
  }
  if (values.shape() != keys.shape()) {
    return absl::InvalidArgumentError(absl::StrCat("Keys and values must have the same size ",
                                                   keys.num_elements(), " vs ", values.num_elements()));
  }
  if (keys.num_elements() == 0) {
    return absl::InvalidArgumentError("keys and values cannot be empty tensors.");
  }
  TableRows rows(spec_.key_dtype, spec_.key_shape, spec_.value_dtype, spec_.value_shape);
  WEIR_RETURN_IF_ERROR(rows.Reserve(keys.num_elements(), allocator));
  for (int64_t k = 0; k < keys.num_elements(); ++k) {
    WEIR_RETURN_IF_ERROR(AddTo(rows, keys, values, k, allocator));
  }
  return Initialize(std::move(rows), keys.num_elements());
}

absl::Status HashTable::Initialize(TableRows rows, int64_t count) {
  absl::MutexLock lock(&mutex_);
  if (!is_initialized_) {
    rows_ = std::move(rows);
    is_initialized_ = true;
  } else if (count != rows_.size()) {  // TensorFlow compares no more than this either
    return absl::FailedPreconditionError("Table was already initialized with different data.");
  }
  return absl::OkStatus();
}

// ---- MutableHashTable ----

absl::Status MutableHashTable::Insert(const Tensor& keys, const Tensor& values, Allocator& allocator) {
  WEIR_ASSIGN_OR_RETURN(const Shape outer, CheckPairs(keys, values));
  absl::MutexLock lock(&mutex_);
  return InsertLocked(keys, values, outer.num_elements(), allocator);
}

absl::Status MutableHashTable::InsertLocked(const Tensor& keys, const Tensor& values, int64_t count,
                                            Allocator& allocator) {
  for (int64_t k = 0; k < count; ++k) {
    const std::string key = rows_.KeyAt(keys, k);
    WEIR_RETURN_IF_ERROR(CheckKey(key));
    WEIR_RETURN_IF_ERROR(rows_.Insert(key, values, k, allocator));
  }
  return absl::OkStatus();
}

absl::Status MutableHashTable::Remove(const Tensor& keys) {
  WEIR_ASSIGN_OR_RETURN(const Shape outer, CheckKeys(keys));
  absl::MutexLock lock(&mutex_);
  for (int64_t k = 0; k < outer.num_elements(); ++k) {
    const std::string key = rows_.KeyAt(keys, k);
    WEIR_RETURN_IF_ERROR(CheckKey(key));
    rows_.Erase(key);
  }
  return absl::OkStatus();
}

absl::Status MutableHashTable::Import(const Tensor& keys, const Tensor& values, Allocator& allocator) {
  WEIR_ASSIGN_OR_RETURN(const Shape outer, CheckPairs(keys, values));
  TableRows rows(spec_.key_dtype, spec_.key_shape, spec_.value_dtype, spec_.value_shape);
  for (int64_t k = 0; k < outer.num_elements(); ++k) {
    WEIR_RETURN_IF_ERROR(rows.Insert(rows.KeyAt(keys, k), values, k, allocator));
  }
  absl::MutexLock lock(&mutex_);
  rows_ = std::move(rows);
  return absl::OkStatus();
}

// ---- MutableDenseHashTable ----

absl::Status MutableDenseHashTable::CheckNumBuckets(int64_t num_buckets) {
  if (num_buckets >= 4 && (num_buckets & (num_buckets - 1)) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Number of buckets must be at least 4 and a power of 2, got: ", num_buckets));
}

absl::StatusOr<RefPtr<LookupTable>> MutableDenseHashTable::Create(Spec spec, const Tensor& empty_key,
                                                                  const Tensor& deleted_key,
                                                                  int64_t num_buckets, float max_load_factor,
                                                                  Allocator& allocator) {
  if (empty_key.shape() != deleted_key.shape()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Empty and deleted keys must have same shape, got shapes: ", empty_key.shape().ToString(), " and ",
        deleted_key.shape().ToString()));
  }
  WEIR_RETURN_IF_ERROR(CheckNumBuckets(num_buckets));
  if (!(max_load_factor > 0 && max_load_factor < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_load_factor must be between 0 and 1, got: ", max_load_factor));
  }
  spec.key_shape = empty_key.shape();
  const TableRows rows(spec.key_dtype, spec.key_shape, spec.value_dtype, spec.value_shape);
  std::string empty = rows.KeyAt(empty_key, 0), deleted = rows.KeyAt(deleted_key, 0);
  if (empty == deleted) return absl::InvalidArgumentError("Empty and deleted keys cannot be equal");
  auto table = MakeRef<MutableDenseHashTable>(std::move(spec), std::move(empty), std::move(deleted),
                                              num_buckets, max_load_factor);
  {
    absl::MutexLock lock(&table->mutex_);
    WEIR_RETURN_IF_ERROR(table->rows_.Reserve(num_buckets, allocator));
  }
  return RefPtr<LookupTable>(table.release());
}

MutableDenseHashTable::MutableDenseHashTable(Spec spec, std::string empty_key, std::string deleted_key,
                                             int64_t num_buckets, float max_load_factor)
    : MutableHashTable(std::move(spec)),
      empty_key_(std::move(empty_key)),
      deleted_key_(std::move(deleted_key)),
      max_load_factor_(max_load_factor),
      num_buckets_(num_buckets) {}

absl::Status MutableDenseHashTable::CheckKey(const std::string& key) const {
  if (key != empty_key_ && key != deleted_key_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "Using the ", key == empty_key_ ? "empty_key" : "deleted_key", " as a table key is not allowed"));
}

absl::Status MutableDenseHashTable::Grow(int64_t count, Allocator& allocator) {
  const double wanted = static_cast<double>(rows_.size() + count);
  int64_t num_buckets = num_buckets_;
  while (wanted > static_cast<double>(num_buckets) * max_load_factor_) {
    if (num_buckets > INT64_MAX / 2) {
      return absl::ResourceExhaustedError(absl::StrCat("out of memory for buckets of ", wanted,
                                                       " keys, of which max_load_factor ", max_load_factor_,
                                                       " may be used"));
    }
    num_buckets *= 2;
  }
  WEIR_RETURN_IF_ERROR(rows_.Reserve(num_buckets, allocator));
  num_buckets_ = num_buckets;
  return absl::OkStatus();
}

absl::Status MutableDenseHashTable::Insert(const Tensor& keys, const Tensor& values, Allocator& allocator) {
  WEIR_ASSIGN_OR_RETURN(const Shape outer, CheckPairs(keys, values));
  // With one lock: another Insert in between would use up the room.
  absl::MutexLock lock(&mutex_);
  WEIR_RETURN_IF_ERROR(Grow(outer.num_elements(), allocator));
  return InsertLocked(keys, values, outer.num_elements(), allocator);
}

absl::Status MutableDenseHashTable::Import(const Tensor& keys, const Tensor& values, Allocator& allocator) {
  WEIR_ASSIGN_OR_RETURN(const Shape outer, CheckPairs(keys, values));
  WEIR_RETURN_IF_ERROR(CheckNumBuckets(outer.num_elements()));
  TableRows rows(spec_.key_dtype, spec_.key_shape, spec_.value_dtype, spec_.value_shape);
  WEIR_RETURN_IF_ERROR(rows.Reserve(outer.num_elements(), allocator));
  for (int64_t k = 0; k < outer.num_elements(); ++k) {
    const std::string key = rows.KeyAt(keys, k);
    if (CheckKey(key).ok()) WEIR_RETURN_IF_ERROR(rows.Insert(key, values, k, allocator));
  }
  absl::MutexLock lock(&mutex_);
  rows_ = std::move(rows);
  num_buckets_ = outer.num_elements();
  return absl::OkStatus();
}

absl::StatusOr<std::pair<Tensor, Tensor>> MutableDenseHashTable::Export(Allocator& allocator) const {
  absl::ReaderMutexLock lock(&mutex_);
  const Shape count({num_buckets_});
  WEIR_ASSIGN_OR_RETURN(const Shape key_shape, CheckedJoined(count, spec_.key_shape));
  WEIR_ASSIGN_OR_RETURN(const Shape value_shape, CheckedJoined(count, spec_.value_shape));
  WEIR_ASSIGN_OR_RETURN(Tensor keys, Tensor::Allocate(spec_.key_dtype, key_shape, allocator));
  WEIR_ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(spec_.value_dtype, value_shape, allocator));
  int64_t k = 0;
  rows_.ForEach([&](const std::string& key, int64_t row) ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    rows_.WriteKey(key, keys, k);
    rows_.CopyValue(row, values, k++);
  });
  const int64_t width = spec_.value_shape.num_elements();
  ClearElements(values, k * width, (num_buckets_ - k) * width);
  for (; k < num_buckets_; ++k) rows_.WriteKey(empty_key_, keys, k);
  return std::make_pair(std::move(keys), std::move(values));
}

}  // namespace weir
