// What the gradient functions of image ops share.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "ops/gradient_formulas.h"

namespace weir {

// The gradient of an op that TensorFlow refuses to differentiate: Unimplemented.
inline absl::Status RefusedGradient(GradientContext& g) {
  return absl::UnimplementedError(absl::StrCat(g.node().op_name(), " has no gradient, as in TensorFlow"));
}

// The node's attrs of these names, for the op that is its gradient.
inline AttrMap SameAttrs(GradientContext& g, std::initializer_list<const char*> names) {
  AttrMap attrs;
  for (const char* name : names) attrs[name] = *g.node().FindAttr(name);
  return attrs;
}

// Height and width of forward images [batch, height, width, channels] as an int32 vector: a constant when
// they are known.
inline Output SizeOfImages(GradientContext& g, Output images) {
  const PartialShape& shape = images.shape();
  if (shape.has_rank() && shape.dim(1) >= 0 && shape.dim(2) >= 0) {
    return g.Integers({static_cast<int32_t>(shape.dim(1)), static_cast<int32_t>(shape.dim(2))});
  }
  return g.Add("Slice", {formulas::ShapeOf(g, images), g.Integers({1}), g.Integers({2})});
}

}  // namespace weir
