// GraphDefs as plain lists of nodes, without schemas: what bodies of functions (graph/function_bodies.h) and
// pipelines of datasets are rewritten as.
//
// Nothing is checked but that messages and attrs can be read: who runs the result imports it
// (graph/interchange/graph_def.h). Libraries of functions and devices of nodes are left out.
//
// Functions without state; safe from any thread. Errors: InvalidArgument for bytes or text that are no such
// message, or more than a message can hold; those of attr_value_proto.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/attr_value.h"

namespace weir {

struct PlainNode {
  std::string name;
  std::string op;
  std::vector<std::string> inputs;  // as a NodeDef names them: "node", "node:1", "^node"
  AttrMap attrs;
};

absl::StatusOr<std::string> PlainGraphBytes(absl::Span<const PlainNode> nodes);
// Also ResourceExhausted: constants of more than kMaxPlainConstantBytes together.
inline constexpr int64_t kMaxPlainConstantBytes = int64_t{256} << 20;
absl::StatusOr<std::vector<PlainNode>> PlainGraphFromBytes(absl::string_view bytes);

// Of a NameAttrList as text, such as `name: "Map" attr { key: "f" value { b: true } }`: a node without inputs
// whose op is that name. What is no such text is InvalidArgument.
absl::StatusOr<PlainNode> PlainNodeFromText(const std::string& text);

}  // namespace weir
