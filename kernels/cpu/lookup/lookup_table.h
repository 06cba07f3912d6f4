// A table from keys to values, which outlives steps: tf.lookup's tables.
//
// Three kinds, as in TensorFlow. HashTable is filled once, by an initializer, and then only read.
// MutableHashTable changes at any time; its values may be vectors. MutableDenseHashTable is like it and says
// how many buckets it has, and two keys are not for use: those that mark empty and deleted buckets in what it
// exports.
//
// Shapes: keys are [...] + key_shape, values [...] + value_shape, with equal dimensions in place of "...".
// Errors are TensorFlow's: InvalidArgument for shapes that do not fit or keys that are not allowed,
// FailedPrecondition for a HashTable that has no content yet or other content, Unimplemented for what a kind
// does not do. A failed call may have changed a part of a mutable table, and nothing of a HashTable.
//
// Thread safety: all methods.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/resource_handle.h"
#include "kernels/cpu/lookup/table_rows.h"

namespace weir {

class LookupTable : public Resource {
 public:
  static constexpr char kTypeName[] = "LookupTable";

  struct Spec {
    std::string kind;  // the op that makes it
    std::string name;
    DType key_dtype = DType::kInvalid, value_dtype = DType::kInvalid;
    Shape key_shape, value_shape;

    friend bool operator==(const Spec&, const Spec&) = default;
  };

  explicit LookupTable(Spec spec);

  const Spec& spec() const { return spec_; }
  std::string ToString() const override;
  int64_t size() const;

  // For each key its value, else the default: one for all keys, or one for each.
  absl::StatusOr<Tensor> Find(const Tensor& keys, const Tensor& default_value, Allocator& allocator) const;
  // Keys and values as tensors.
  virtual absl::StatusOr<std::pair<Tensor, Tensor>> Export(Allocator& allocator) const;

  virtual absl::Status Insert(const Tensor& keys, const Tensor& values, Allocator& allocator) = 0;
  virtual absl::Status Remove(const Tensor& keys) = 0;
  // Replaces the whole content.
  virtual absl::Status Import(const Tensor& keys, const Tensor& values, Allocator& allocator) = 0;
  // The content of a table that has none yet.
  virtual absl::Status Initialize(const Tensor& keys, const Tensor& values, Allocator& allocator);
  // The same, of rows of which some may have been there twice: `count` counts these too.
  virtual absl::Status Initialize(TableRows rows, int64_t count);

 protected:
  // The dimensions in front of those of a key. InvalidArgument when there is no such key.
  absl::StatusOr<Shape> CheckKeys(const Tensor& keys) const;
  // Those, when there is a value for each key.
  absl::StatusOr<Shape> CheckPairs(const Tensor& keys, const Tensor& values) const;
  virtual absl::Status CheckKey(const std::string& key) const { return absl::OkStatus(); }
  virtual absl::Status CheckReadable() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return absl::OkStatus(); }

  const Spec spec_;
  mutable absl::Mutex mutex_;
  TableRows rows_ ABSL_GUARDED_BY(mutex_);
};

class HashTable final : public LookupTable {
 public:
  using LookupTable::LookupTable;

  absl::Status Insert(const Tensor& keys, const Tensor& values, Allocator& allocator) override;
  absl::Status Remove(const Tensor& keys) override;
  absl::Status Import(const Tensor& keys, const Tensor& values, Allocator& allocator) override;
  absl::Status Initialize(const Tensor& keys, const Tensor& values, Allocator& allocator) override;
  absl::Status Initialize(TableRows rows, int64_t count) override;

  // Adds a pair to what will be the content. FailedPrecondition when the key has another value already.
  static absl::Status AddTo(TableRows& rows, const Tensor& keys, const Tensor& values, int64_t k,
                            Allocator& allocator);

 private:
  absl::Status CheckReadable() const override ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  bool is_initialized_ ABSL_GUARDED_BY(mutex_) = false;
};

class MutableHashTable : public LookupTable {
 public:
  using LookupTable::LookupTable;

  absl::Status Insert(const Tensor& keys, const Tensor& values, Allocator& allocator) override;
  absl::Status Remove(const Tensor& keys) override;
  absl::Status Import(const Tensor& keys, const Tensor& values, Allocator& allocator) override;

 protected:
  // Of so many pairs, which fit.
  absl::Status InsertLocked(const Tensor& keys, const Tensor& values, int64_t count, Allocator& allocator)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
};

class MutableDenseHashTable final : public MutableHashTable {
 public:
  // InvalidArgument for keys that are equal or of another shape, a number of buckets that is no power of 2
  // from 4 on, a load factor outside (0, 1). ResourceExhausted when there is no memory for the buckets.
  static absl::StatusOr<RefPtr<LookupTable>> Create(Spec spec, const Tensor& empty_key,
                                                    const Tensor& deleted_key, int64_t num_buckets,
                                                    float max_load_factor, Allocator& allocator);

  MutableDenseHashTable(Spec spec, std::string empty_key, std::string deleted_key, int64_t num_buckets,
                        float max_load_factor);

  absl::Status Insert(const Tensor& keys, const Tensor& values, Allocator& allocator) override;
  absl::Status Import(const Tensor& keys, const Tensor& values, Allocator& allocator) override;
  // A row for each bucket; the empty ones have the empty key.
  absl::StatusOr<std::pair<Tensor, Tensor>> Export(Allocator& allocator) const override;

 private:
  static absl::Status CheckNumBuckets(int64_t num_buckets);
  absl::Status CheckKey(const std::string& key) const override;
  // Room for so many keys more.
  absl::Status Grow(int64_t count, Allocator& allocator) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string empty_key_, deleted_key_;
  const float max_load_factor_;
  int64_t num_buckets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
