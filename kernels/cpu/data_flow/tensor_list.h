// A list of tensors of one dtype, the value of a variant: what v2 loops keep of their iterations.
//
// An element may be missing (a reserved list has none at first); it is read as zeros. Thread safety: as a
// VariantValue's.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "graph/types/buffer.h"
#include "graph/types/ref_counted.h"
#include "graph/types/shape.h"
#include "kernels/cpu/data_flow/plain_value.h"

namespace weir {

class TensorList final : public PlainValue {
 public:
  static constexpr char kTypeName[] = "TensorList";
  // More elements than any list may have.
  static constexpr int64_t kMaxLength = int64_t{1} << 22;

  TensorList(DType dtype, PartialShape element_shape)
      : dtype_(dtype),
        element_shape_(std::move(element_shape)),
        refers_to_nobody_(IsPlain(dtype) || dtype == DType::kVariant) {}
  TensorList(const TensorList& other)
      : dtype_(other.dtype_),
        element_shape_(other.element_shape_),
        max_length_(other.max_length_),
        depth_(other.depth_),
        refers_to_nobody_(other.refers_to_nobody_),
        length_(other.length_),
        chunks_(other.chunks_),
        room_(other.room_) {}

  std::string ToString() const override;
  int depth() const override { return depth_; }
  absl::StatusOr<RefPtr<VariantValue>> ZerosLike(KernelContext& context) const override;
  absl::StatusOr<RefPtr<VariantValue>> Add(const VariantValue& other, KernelContext& context) const override;

  bool refers_to_nobody() const override { return refers_to_nobody_; }
  std::vector<Tensor> tensors() const override;  // those that are there

  DType dtype() const { return dtype_; }
  const PartialShape& element_shape() const { return element_shape_; }
  int64_t length() const { return length_; }
  // Elements beyond which none is pushed; -1: no limit of its own.
  void set_max_length(int64_t length) { max_length_ = length; }
  // What the list takes beside its elements' own buffers, about, with that many elements.
  static int64_t NumBytes(int64_t length);
  // The same of a copy that gets one element more: what it does not share with this one.
  int64_t NumBytesOfLongerCopy() const;
  // A buffer that counts those bytes on a device while this list, or a copy, lives.
  void HoldRoom(RefPtr<Buffer> room) { room_ = std::move(room); }
  // Invalid where it is missing. Precondition: 0 <= index < length.
  const Tensor& operator[](int64_t index) const {
    return chunks_[index / kChunkLength]->elements[index % kChunkLength];
  }

  // InvalidArgument unless 0 <= length; ResourceExhausted above kMaxLength.
  absl::Status Resize(int64_t length);
  // InvalidArgument unless dtype and shape fit and 0 <= index < length.
  absl::Status Set(int64_t index, Tensor element);
  absl::Status PushBack(Tensor element);
  // InvalidArgument when it is empty.
  absl::StatusOr<Tensor> PopBack();
  absl::Status CheckIndex(int64_t index) const;
  absl::Status CheckIs(DType dtype) const;

  // What elements of the list are by its own shape, by `asked`, and by those of these elements that are
  // there. InvalidArgument when these do not agree. Precondition: valid indices.
  absl::StatusOr<PartialShape> ShapeOfElements(const PartialShape& asked) const;
  absl::StatusOr<PartialShape> ShapeOfElements(const PartialShape& asked,
                                               absl::Span<const int64_t> indices) const;
  // The element, whatever was asked for, or zeros. InvalidArgument when it is missing, and neither `asked`
  // nor other elements say what shape it has.
  absl::StatusOr<Tensor> Element(int64_t index, const PartialShape& asked, KernelContext& context) const;

 private:
  // Copies of a list share its chunks until one changes an element: the gradient of a loop changes a list
  // that something else still reads once in each iteration.
  static constexpr int64_t kChunkLength = 256;
  struct Chunk final : RefCounted {
    std::vector<Tensor> elements;
  };

  absl::Status CheckFits(const Tensor& element) const;
  Chunk& MutableChunk(int64_t chunk);
  Tensor& Mutable(int64_t index) { return MutableChunk(index / kChunkLength).elements[index % kChunkLength]; }
  // Precondition: 0 <= length <= kMaxLength.
  void SetLength(int64_t length);

  const DType dtype_;
  PartialShape element_shape_;
  int64_t max_length_ = -1;
  // Of all elements that the list, or one that it is a copy of, has had.
  int depth_ = 1;
  bool refers_to_nobody_;
  int64_t length_ = 0;
  std::vector<RefPtr<Chunk>> chunks_;  // all but the last have kChunkLength elements
  RefPtr<Buffer> room_;                // nothing is in it
};

}  // namespace weir
