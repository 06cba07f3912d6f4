// What the gradient functions of image ops share.
#pragma once

#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "graph/gradients.h"

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

}  // namespace weir
