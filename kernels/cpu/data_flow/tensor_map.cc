#include "kernels/cpu/data_flow/tensor_map.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/data_flow/plain_value.h"

namespace weir {
namespace {

// Less than, equal to or greater than 0, as a comes before b, is the same or comes after it.
int Compare(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) return a.dtype() < b.dtype() ? -1 : 1;
  const absl::Span<const int64_t> x = a.shape().dims(), y = b.shape().dims();
  if (x.size() != y.size()) return x.size() < y.size() ? -1 : 1;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
  }
  if (a.dtype() != DType::kString) {
    return a.num_bytes() == 0 ? 0 : std::memcmp(a.data(), b.data(), a.num_bytes());
  }
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const int order = a.flat<std::string>()[i].compare(b.flat<std::string>()[i]);
    if (order != 0) return order;
  }
  return 0;
}

}  // namespace

TensorMap::Tree TensorMap::Join(const Node& entry, Tree less, Tree greater) {
  RefPtr<Node> node = MakeRef<Node>();
  node->key = entry.key;
  node->value = entry.value;
  node->height = 1 + std::max(HeightOf(less), HeightOf(greater));
  node->size = 1 + SizeOf(less) + SizeOf(greater);
  node->less = std::move(less);
  node->greater = std::move(greater);
  return node;
}

// Precondition: the heights differ by at most 2.
TensorMap::Tree TensorMap::Balanced(const Node& entry, Tree less, Tree greater) {
  if (HeightOf(less) > HeightOf(greater) + 1) {
    if (HeightOf(less->less) >= HeightOf(less->greater)) {
      return Join(*less, less->less, Join(entry, less->greater, std::move(greater)));
    }
    const Node& middle = *less->greater;
    return Join(middle, Join(*less, less->less, middle.less),
                Join(entry, middle.greater, std::move(greater)));
  }
  if (HeightOf(greater) > HeightOf(less) + 1) {
    if (HeightOf(greater->greater) >= HeightOf(greater->less)) {
      return Join(*greater, Join(entry, std::move(less), greater->less), greater->greater);
    }
    const Node& middle = *greater->less;
    return Join(middle, Join(entry, std::move(less), middle.less),
                Join(*greater, middle.greater, greater->greater));
  }
  return Join(entry, std::move(less), std::move(greater));
}

TensorMap::Tree TensorMap::With(const Tree& tree, const Node& entry) {
  if (!tree) return Join(entry, nullptr, nullptr);
  const int order = Compare(entry.key, tree->key);
  if (order == 0) return Join(entry, tree->less, tree->greater);
  if (order < 0) return Balanced(*tree, With(tree->less, entry), tree->greater);
  return Balanced(*tree, tree->less, With(tree->greater, entry));
}

TensorMap::Tree TensorMap::WithoutFirst(const Tree& tree) {
  if (!tree->less) return tree->greater;
  return Balanced(*tree, WithoutFirst(tree->less), tree->greater);
}

TensorMap::Tree TensorMap::Without(const Tree& tree, const Tensor& key) {
  if (!tree) return nullptr;
  const int order = Compare(key, tree->key);
  if (order < 0) return Balanced(*tree, Without(tree->less, key), tree->greater);
  if (order > 0) return Balanced(*tree, tree->less, Without(tree->greater, key));
  if (!tree->greater) return tree->less;
  const Node* next = tree->greater.get();
  while (next->less) next = next->less.get();
  return Balanced(*next, tree->less, WithoutFirst(tree->greater));
}

absl::Status TensorMap::Visit(const Tree& tree,
                              absl::FunctionRef<absl::Status(const Tensor&, const Tensor&)> visit) {
  if (!tree) return absl::OkStatus();
  WEIR_RETURN_IF_ERROR(Visit(tree->less, visit));
  WEIR_RETURN_IF_ERROR(visit(tree->key, tree->value));
  return Visit(tree->greater, visit);
}

absl::Status TensorMap::CheckKey(const Tensor& key) {
  if (IsPlain(key.dtype())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("keys of a map are numbers or strings, not ",
                                                 TypeString(key.dtype(), PartialShape(key.shape()))));
}

std::string TensorMap::ToString() const { return absl::StrCat("TensorMap of ", size(), " keys"); }

int64_t TensorMap::size() const { return SizeOf(root_); }

const Tensor* TensorMap::Find(const Tensor& key) const {
  for (const Node* node = root_.get(); node != nullptr;) {
    const int order = Compare(key, node->key);
    if (order == 0) return &node->value;
    node = order < 0 ? node->less.get() : node->greater.get();
  }
  return nullptr;
}

absl::Status TensorMap::Insert(Tensor key, Tensor value) {
  WEIR_RETURN_IF_ERROR(CheckKey(key));
  WEIR_ASSIGN_OR_RETURN(const int depth, DepthAround(value));
  if (size() >= kMaxSize && Find(key) == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a key more for a map of ", size(), "; at most ", kMaxSize, " are possible"));
  }
  RefPtr<Node> entry = MakeRef<Node>();
  entry->key = std::move(key);
  entry->value = std::move(value);
  root_ = With(root_, *entry);
  depth_ = std::max(depth_, depth);
  return absl::OkStatus();
}

void TensorMap::Erase(const Tensor& key) {
  if (Find(key) != nullptr) root_ = Without(root_, key);
}

absl::Status TensorMap::ForEach(
    absl::FunctionRef<absl::Status(const Tensor& key, const Tensor& value)> visit) const {
  return Visit(root_, visit);
}

absl::StatusOr<RefPtr<VariantValue>> TensorMap::ZerosLike(KernelContext&) const {
  return RefPtr<VariantValue>(MakeRef<TensorMap>());
}

absl::StatusOr<RefPtr<VariantValue>> TensorMap::Add(const VariantValue& other, KernelContext& context) const {
  const auto* const map = dynamic_cast<const TensorMap*>(&other);
  if (map == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("cannot add ", other.ToString(), " to ", ToString()));
  }
  const bool is_larger = size() >= map->size();
  RefPtr<TensorMap> sum = MakeRef<TensorMap>(is_larger ? *this : *map);
  const absl::Status status = (is_larger ? *map : *this).ForEach([&](const Tensor& key, const Tensor& value) {
    if (context.cancellation().is_cancelled()) return context.cancellation().reason();
    const Tensor* const known = sum->Find(key);
    if (known == nullptr) return sum->Insert(key, value);
    WEIR_ASSIGN_OR_RETURN(Tensor total, AddTensors(*known, value, context));
    return sum->Insert(key, std::move(total));
  });
  if (!status.ok()) return status;
  return RefPtr<VariantValue>(std::move(sum));
}

}  // namespace weir
