// CompressElement and UncompressElement: the tensors of an element as one variant, compressed.
//
// The variant never leaves the process, so its form is Weir's own: one Snappy block of all numbers, and of
// all strings with the length of each before it. Tensors of variants and handles stay as they are. What is
// uncompressed was compressed here: its size is known, and its memory comes from the device's allocator.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data/dataset.h"
#include "kernels/cpu/data_flow/held_resource.h"
#include "kernels/cpu/data_flow/plain_value.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/memory_probe.h"
#include "kernels/formats/snappy_block.h"

namespace weir {
namespace {

struct Component {
  DType dtype;
  Shape shape;
  int64_t num_bytes = 0;  // in the block; strings with their lengths
};

bool IsCompressed(DType dtype) { return IsPlain(dtype); }

class CompressedElement final : public PlainValue {
 public:
  static constexpr char kTypeName[] = "CompressedElement";

  CompressedElement(std::vector<Component> components, Tensor block, Element kept, int depth)
      : components_(std::move(components)), block_(std::move(block)), kept_(std::move(kept)), depth_(depth) {}

  std::string ToString() const override {
    return absl::StrCat("CompressedElement of ", components_.size(), " tensors");
  }
  int depth() const override { return depth_; }
  bool refers_to_nobody() const override { return kept_.empty(); }
  std::vector<Tensor> tensors() const override {
    std::vector<Tensor> all = kept_;
    all.push_back(block_);
    return all;
  }
  const std::vector<Component>& components() const { return components_; }
  absl::string_view block() const {
    return {static_cast<const char*>(block_.data()), static_cast<size_t>(block_.num_bytes())};
  }
  const Element& kept() const { return kept_; }

  absl::StatusOr<RefPtr<VariantValue>> ZerosLike(KernelContext&) const override {
    return absl::InvalidArgumentError("a compressed element has no zeros");
  }
  absl::StatusOr<RefPtr<VariantValue>> Add(const VariantValue&, KernelContext&) const override {
    return absl::InvalidArgumentError("compressed elements cannot be added");
  }

 private:
  const std::vector<Component> components_;
  const Tensor block_;  // of bytes
  const Element kept_;  // those that are not compressed, in their order
  const int depth_;
};

int64_t BytesInBlock(const Tensor& tensor) {
  if (tensor.dtype() != DType::kString) return static_cast<int64_t>(tensor.num_bytes());
  int64_t num_bytes = tensor.num_elements() * static_cast<int64_t>(sizeof(uint64_t));
  for (const std::string& text : tensor.flat<std::string>()) num_bytes += static_cast<int64_t>(text.size());
  return num_bytes;
}

void Append(const Tensor& tensor, std::string* bytes) {
  if (tensor.dtype() != DType::kString) {
    bytes->append(static_cast<const char*>(tensor.data()), tensor.num_bytes());
    return;
  }
  for (const std::string& text : tensor.flat<std::string>()) {
    const uint64_t size = text.size();
    bytes->append(reinterpret_cast<const char*>(&size), sizeof(size));
    bytes->append(text);
  }
}

absl::Status CompressElement(KernelContext& context) {
  std::vector<Component> components;
  Element kept;
  int depth = 1;
  int64_t num_bytes = 0;
  for (int i = 0; i < context.num_inputs(); ++i) {
    const Tensor& tensor = context.input(i);
    components.push_back({tensor.dtype(), tensor.shape()});
    if (!IsCompressed(tensor.dtype())) {
      WEIR_RETURN_IF_ERROR(CheckMayBeHeld(tensor));
      WEIR_ASSIGN_OR_RETURN(const int around, DepthAround(tensor));
      depth = std::max(depth, around);
      kept.push_back(tensor);
      continue;
    }
    components.back().num_bytes = BytesInBlock(tensor);
    num_bytes += components.back().num_bytes;
  }
  if (num_bytes > static_cast<int64_t>(kLongestSnappyBlock)) {
    return absl::InvalidArgumentError(absl::StrCat("an element of ", num_bytes, " bytes; at most ",
                                                   kLongestSnappyBlock, " can be compressed"));
  }
  // The bytes, and a block that may be a little longer.
  WEIR_RETURN_IF_ERROR(ProbeMemory("an element to compress", 3 * static_cast<uint64_t>(num_bytes)));
  std::string bytes;
  bytes.reserve(num_bytes);
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (IsCompressed(context.input(i).dtype())) Append(context.input(i), &bytes);
  }
  const std::string compressed = SnappyCompressed(bytes);
  WEIR_ASSIGN_OR_RETURN(
      Tensor block,
      Tensor::Allocate(DType::kUint8, Shape({static_cast<int64_t>(compressed.size())}), context.allocator()));
  std::memcpy(block.data(), compressed.data(), compressed.size());
  context.set_output(0, VariantOf(MakeRef<CompressedElement>(std::move(components), std::move(block),
                                                             std::move(kept), depth)));
  return absl::OkStatus();
}

class UncompressElement final : public Kernel {
 public:
  explicit UncompressElement(const KernelConstruction& construction)
      : signature_(SignatureOf(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    if (!signature_.ok()) return signature_.status();
    WEIR_ASSIGN_OR_RETURN(const CompressedElement* element, VariantInput<CompressedElement>(context, 0));
    WEIR_RETURN_IF_ERROR(Check(*element));
    int64_t num_bytes = 0;
    for (const Component& component : element->components()) num_bytes += component.num_bytes;
    WEIR_RETURN_IF_ERROR(ProbeMemory("an element to uncompress", 2 * static_cast<uint64_t>(num_bytes)));
    std::string bytes(num_bytes, '\0');
    WEIR_RETURN_IF_ERROR(SnappyUncompress(element->block(), absl::MakeSpan(bytes.data(), bytes.size())));
    absl::string_view left = bytes;
    size_t next_kept = 0;
    for (int i = 0; i < context.num_outputs(); ++i) {
      const Component& component = element->components()[i];
      if (!IsCompressed(component.dtype)) {
        context.set_output(i, element->kept()[next_kept++]);
        continue;
      }
      WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(i, component.shape));
      Read(left.substr(0, component.num_bytes), *output);
      left.remove_prefix(component.num_bytes);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Check(const CompressedElement& element) const {
    const std::vector<Component>& components = element.components();
    if (components.size() != signature_->types.size()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "Expected ", signature_->types.size(), " outputs from uncompress, but got ", components.size()));
    }
    for (size_t i = 0; i < components.size(); ++i) {
      if (components[i].dtype != signature_->types[i]) {
        return absl::FailedPreconditionError(
            absl::StrCat("Expected a tensor of type ", DTypeName(signature_->types[i]),
                         " but got a tensor of type ", DTypeName(components[i].dtype)));
      }
      if (signature_->shapes[i].IsCompatibleWith(PartialShape(components[i].shape))) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("Expected a tensor of shape ", signature_->shapes[i].ToString(),
                       " but got a tensor of shape ", components[i].shape.ToString()));
    }
    return absl::OkStatus();
  }

  // Lengths are those that CompressElement wrote: the block is the process's own.
  static void Read(absl::string_view bytes, Tensor& to) {
    if (to.dtype() != DType::kString) {
      if (!bytes.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
      return;
    }
    for (std::string& text : to.flat<std::string>()) {
      uint64_t size = 0;
      std::memcpy(&size, bytes.data(), sizeof(size));
      text.assign(bytes.data() + sizeof(size), size);
      bytes.remove_prefix(sizeof(size) + size);
    }
  }

  const absl::StatusOr<Dataset::Signature> signature_;
};

}  // namespace

void RegisterCompressedElementsKernels(DeviceKernels& kernels) {
  kernels.Add<&CompressElement>("CompressElement");
  kernels.Add<UncompressElement>("UncompressElement");
}

}  // namespace weir
