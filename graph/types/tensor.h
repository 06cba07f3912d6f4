// A dense array of one element type: a shape and a shared buffer, in row-major order.
//
// Copying a Tensor shares the buffer. Steps treat tensors as values: a buffer is written only by the code
// that created it, before the tensor is handed on, or by the holder of its only reference
// (has_exclusive_buffer). Thread safety: concurrent reads are safe; one Tensor object is not safe to assign
// concurrently.
//
// Elements of kString are std::string objects and of kResource ResourceHandle objects, constructed in the
// buffer.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/types/allocator.h"
#include "graph/types/buffer.h"
#include "graph/types/dtype.h"
#include "graph/types/resource_handle.h"
#include "graph/types/shape.h"

namespace weir {

class Tensor {
 public:
  Tensor() = default;  // kInvalid: "no tensor"

  // Elements undefined (plain bytes) or default-constructed (strings, handles).
  // ResourceExhausted, naming the size asked for, when memory runs out; InvalidArgument for a dtype without
  // elements.
  static absl::StatusOr<Tensor> Allocate(DType dtype, const Shape& shape,
                                         Allocator& allocator = HostAllocator());

  // The same for small tensors that our own code makes: aborts when memory runs out.
  Tensor(DType dtype, const Shape& shape);

  // Shares `buffer` from byte_offset on. Precondition: plain bytes that fit in the buffer.
  Tensor(DType dtype, const Shape& shape, RefPtr<Buffer> buffer, size_t byte_offset = 0);

  template <typename T>
  static Tensor Scalar(T value) {
    Tensor result(DTypeOf<T>, Shape());
    result.flat<T>()[0] = std::move(value);
    return result;
  }
  static Tensor Scalar(const char* value) { return Scalar(std::string(value)); }
  static Tensor Scalar(char* value) { return Scalar(std::string(value)); }
  static Tensor Scalar(absl::string_view value) { return Scalar(std::string(value)); }
  template <typename T>
  static Tensor Vector(std::initializer_list<T> values) {
    return FromSpan<T>(Shape({static_cast<int64_t>(values.size())}),
                       absl::MakeConstSpan(values.begin(), values.size()));
  }
  // Precondition: values.size() == shape.num_elements().
  template <typename T>
  static Tensor FromSpan(const Shape& shape, absl::Span<const T> values) {
    Tensor result(DTypeOf<T>, shape);
    std::copy(values.begin(), values.end(), result.flat<T>().begin());
    return result;
  }
  template <typename T>
  static Tensor From(const Shape& shape, std::initializer_list<T> values) {
    return FromSpan<T>(shape, absl::MakeConstSpan(values.begin(), values.size()));
  }

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t num_elements() const { return shape_.num_elements(); }
  // Bytes the elements take in memory.
  size_t num_bytes() const { return static_cast<size_t>(num_elements()) * DTypeSize(dtype_); }
  bool is_valid() const { return dtype_ != DType::kInvalid; }

  // All elements in row-major order. Precondition: T is the C++ type of dtype().
  template <typename T>
  absl::Span<const T> flat() const {
    return absl::MakeConstSpan(reinterpret_cast<const T*>(data()), num_elements());
  }
  template <typename T>
  absl::Span<T> flat() {
    return absl::MakeSpan(reinterpret_cast<T*>(data()), num_elements());
  }
  // The only element. Precondition: num_elements() == 1.
  template <typename T>
  const T& scalar() const {
    return *reinterpret_cast<const T*>(data());
  }

  const void* data() const { return base(); }
  void* data() { return base(); }

  // True when nobody else holds the buffer, so that writing it changes no other tensor.
  bool has_exclusive_buffer() const { return buffer_ && buffer_->has_one_owner(); }
  bool SharesBufferWith(const Tensor& other) const { return buffer_ && buffer_.get() == other.buffer_.get(); }
  const RefPtr<Buffer>& buffer() const { return buffer_; }

  // The same elements in another shape, sharing the buffer. Precondition: equal element counts.
  Tensor WithShape(const Shape& shape) const;
  // Elements [begin, end) along dimension 0, sharing the buffer. Precondition: plain bytes, rank >= 1, in
  // range.
  Tensor Slice(int64_t begin, int64_t end) const;
  // A copy in a buffer of its own.
  Tensor Clone() const;

  // "float[2,3] {1, 2, 3, ...}": at most max_elements of them.
  std::string ToString(int max_elements = 8) const;

 private:
  void* base() const { return buffer_ ? static_cast<char*>(buffer_->data()) + byte_offset_ : nullptr; }

  DType dtype_ = DType::kInvalid;
  Shape shape_;
  RefPtr<Buffer> buffer_;
  size_t byte_offset_ = 0;
};

// "float[32,784]": how errors name a tensor's type.
std::string TypeString(DType dtype, const PartialShape& shape);

}  // namespace weir
