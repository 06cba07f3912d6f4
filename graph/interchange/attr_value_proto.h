// Attributes of nodes to and from TensorFlow's messages.
//
// Types of references (TensorFlow's dtype + 100) are read as the types they refer to. Errors: InvalidArgument
// or Unimplemented (lists of tensors or functions, functions with attrs of their own, dtypes Weir lacks).
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/attr_value.h"

namespace tensorflow {
class AttrValue;
}

namespace weir {

// An empty list does not say of what: it comes as a list of ints, and Graph::AddNode gives it the schema's
// kind.
absl::StatusOr<AttrValue> AttrValueFromProto(const tensorflow::AttrValue& proto);

absl::Status AttrValueToProto(const AttrValue& value, tensorflow::AttrValue* proto);

}  // namespace weir
