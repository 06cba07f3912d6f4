// What may be fed for an output: its dtype and a shape that fits what is known of it. A value.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"

namespace weir {

struct FeedType {
  std::string name;  // "x:0"
  DType dtype;
  PartialShape shape;

  // InvalidArgument naming the feed, what it must be and what it is.
  absl::Status Check(const Tensor& tensor) const {
    if (tensor.dtype() == dtype && shape.IsCompatibleWith(tensor.shape())) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("feed '", name, "' must be ", TypeString(dtype, shape),
                                                   ", got ", TypeString(tensor.dtype(), tensor.shape())));
  }
};

}  // namespace weir
