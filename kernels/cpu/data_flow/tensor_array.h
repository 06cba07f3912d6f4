// An array of tensors of one dtype that nodes of a step write and read by index: TensorFlow's TensorArray.
//
// An element is written once, not after it was read and, where clear_after_read is set, read once. In the
// gradient of an array, several values written to an element are added, and what nobody wrote is read as
// zeros. An array lives as long as handles of it, and has its gradients, one for each source. It holds no
// handles, and of variants those of plain_value.h: what refers to its own holder would never be freed.
//
// Thread safety: all of it. Semantics and texts: TensorFlow's core/kernels/tensor_array.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "graph/types/buffer.h"
#include "graph/types/resource_handle.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"
#include "kernels/kernel_context.h"

namespace weir {

// A handle of something that nobody finds by name.
Tensor HandleOfStepResource(const std::string& device, const std::string& name, const std::string& type_name,
                            RefPtr<Resource> resource);

struct TensorArraySpec {
  std::string name;
  DType dtype = DType::kInvalid;
  PartialShape element_shape;
  bool is_dynamic = false;
  bool clear_after_read = true;
  bool has_identical_shapes = false;
};

class TensorArray final : public Resource {
 public:
  static constexpr char kTypeName[] = "TensorArray";
  // More elements than any array may have.
  static constexpr int64_t kMaxLength = int64_t{1} << 22;
  // Gradients of gradients.
  static constexpr int kMaxDepth = 100;

  // InvalidArgument unless 0 <= length; ResourceExhausted above kMaxLength, or where the device has no memory
  // for so many elements: a few bytes may ask for them.
  static absl::StatusOr<RefPtr<TensorArray>> Create(TensorArraySpec spec, int64_t length,
                                                    KernelContext& context);
  explicit TensorArray(TensorArraySpec spec) : spec_(std::move(spec)), element_shape_(spec_.element_shape) {}

  std::string ToString() const override;
  const TensorArraySpec& spec() const { return spec_; }
  PartialShape element_shape() const;

  absl::Status Write(int64_t index, const Tensor& value, KernelContext& context);
  absl::StatusOr<Tensor> Read(int64_t index, KernelContext& context);
  absl::StatusOr<int64_t> Length();
  // False once a gradient was made, too.
  bool may_grow() const;
  void Close();
  // Makes it at the first call. The array does not grow from now on. Elements of the gradient have `leading`
  // dimensions before those of the array's elements.
  absl::StatusOr<RefPtr<TensorArray>> Gradient(const std::string& source, absl::Span<const int64_t> leading,
                                               KernelContext& context);

 private:
  struct Element {
    Tensor value;
    Shape shape;  // of what was written, or of the element whose gradient it is
    bool has_shape = false;
    bool is_written = false;
    bool is_read = false;
    bool is_cleared = false;  // by a read
  };

  absl::Status CheckIsOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status GrowTo(int64_t length, KernelContext& context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Tensor> Zeros(int64_t index, KernelContext& context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TensorArraySpec spec_;
  bool adds_up_ = false;  // a gradient
  int depth_ = 1;
  mutable absl::Mutex mutex_;
  PartialShape element_shape_ ABSL_GUARDED_BY(mutex_);
  bool is_fixed_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Element> elements_ ABSL_GUARDED_BY(mutex_);
  RefPtr<Buffer> room_ ABSL_GUARDED_BY(mutex_);  // nothing is in it: it counts elements_ on the device
  std::map<std::string, RefPtr<TensorArray>> gradients_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
