// A variable: a tensor that outlives steps, updated in place.
//
// A read hands out a Tensor that shares the buffer. A writer takes `mutex`, and writes in place when nobody
// else holds the buffer, else into a copy that replaces it: a reader's tensor never changes under it.
#pragma once

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/resource_handle.h"
#include "graph/types/tensor.h"

namespace weir {

class Variable final : public Resource {
 public:
  static constexpr char kTypeName[] = "Variable";

  explicit Variable(DType dtype) : dtype(dtype) {}

  std::string ToString() const override {
    absl::ReaderMutexLock lock(&mutex);
    return tensor.is_valid() ? absl::StrCat("Variable ", TypeString(tensor.dtype(), tensor.shape()))
                             : absl::StrCat("uninitialized Variable of ", DTypeName(dtype));
  }

  const DType dtype;
  mutable absl::Mutex mutex;
  // Invalid until the first assignment.
  Tensor tensor ABSL_GUARDED_BY(mutex);
};

}  // namespace weir
