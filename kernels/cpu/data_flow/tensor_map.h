// A map from tensors to tensors, the value of a variant. Keys are numbers or strings of any shape; equal ones
// have the same dtype, shape and bytes.
//
// A balanced search tree (AVL) whose nodes never change: copies of a map share them, and what inserts or
// erases makes O(log n) new ones, whoever else holds the map. A graph that keeps each of n versions of a map
// so holds O(n log n) nodes. Thread safety: as a VariantValue's.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "graph/types/ref_counted.h"
#include "kernels/cpu/data_flow/variant_value.h"

namespace weir {

class TensorMap final : public VariantValue {
 public:
  static constexpr char kTypeName[] = "TensorMap";
  // More keys than any map may have.
  static constexpr int64_t kMaxSize = int64_t{1} << 22;

  TensorMap() = default;
  TensorMap(const TensorMap& other) : depth_(other.depth_), root_(other.root_) {}

  std::string ToString() const override;
  int depth() const override { return depth_; }
  // An empty map: a key that is missing stands for zeros.
  absl::StatusOr<RefPtr<VariantValue>> ZerosLike(KernelContext& context) const override;
  // The keys of both; the sum of two values of one key.
  absl::StatusOr<RefPtr<VariantValue>> Add(const VariantValue& other, KernelContext& context) const override;

  // InvalidArgument for keys that cannot be compared: handles and variants.
  static absl::Status CheckKey(const Tensor& key);

  int64_t size() const;
  // Null when there is none. Precondition: CheckKey.
  const Tensor* Find(const Tensor& key) const;
  // Replaces the value of an equal key. InvalidArgument for a key that is none, and for values that lie too
  // deep in each other; ResourceExhausted above kMaxSize.
  absl::Status Insert(Tensor key, Tensor value);
  // Does nothing when there is no such key. Precondition: CheckKey.
  void Erase(const Tensor& key);
  // In an order that only depends on the keys. Stops at the first error, and returns it.
  absl::Status ForEach(absl::FunctionRef<absl::Status(const Tensor& key, const Tensor& value)> visit) const;

 private:
  struct Node final : RefCounted {
    Tensor key, value;
    RefPtr<const Node> less, greater;
    int height = 1;
    int64_t size = 1;
  };
  using Tree = RefPtr<const Node>;

  static int HeightOf(const Tree& tree) { return tree ? tree->height : 0; }
  static int64_t SizeOf(const Tree& tree) { return tree ? tree->size : 0; }
  static Tree Join(const Node& entry, Tree less, Tree greater);
  static Tree Balanced(const Node& entry, Tree less, Tree greater);
  static Tree With(const Tree& tree, const Node& entry);
  static Tree Without(const Tree& tree, const Tensor& key);
  static Tree WithoutFirst(const Tree& tree);
  static absl::Status Visit(const Tree& tree,
                            absl::FunctionRef<absl::Status(const Tensor&, const Tensor&)> visit);

  int depth_ = 1;
  Tree root_;
};

}  // namespace weir
