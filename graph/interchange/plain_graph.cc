#include "graph/interchange/plain_graph.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/interchange/attr_value_proto.h"
#include "graph/interchange/message_form.h"
#include "graph/interchange/proto/graph.pb.h"
#include "graph/interchange/tensor_proto.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr int kProducer = 2474;  // as graph_def.cc says

template <typename Attrs>
absl::StatusOr<AttrMap> AttrsFromProto(const Attrs& protos, absl::string_view node) {
  AttrMap attrs;
  for (const auto& [name, proto] : protos) {
    absl::StatusOr<AttrValue> value = AttrValueFromProto(proto);
    if (!value.ok()) {
      return absl::Status(value.status().code(),
                          absl::StrCat("attr ", name, " of '", node, "': ", value.status().message()));
    }
    attrs.emplace(name, *std::move(value));
  }
  return attrs;
}

}  // namespace

absl::StatusOr<std::string> PlainGraphBytes(absl::Span<const PlainNode> nodes) {
  tensorflow::GraphDef def;
  def.mutable_versions()->set_producer(kProducer);
  for (const PlainNode& node : nodes) {
    tensorflow::NodeDef& proto = *def.add_node();
    proto.set_name(node.name);
    proto.set_op(node.op);
    for (const std::string& input : node.inputs) proto.add_input(input);
    for (const auto& [name, value] : node.attrs) {
      const absl::Status status = AttrValueToProto(value, &(*proto.mutable_attr())[name]);
      if (status.ok()) continue;
      return absl::Status(status.code(),
                          absl::StrCat("attr ", name, " of '", node.name, "': ", status.message()));
    }
  }
  return MessageBytes(def, "the graph");
}

// A few bytes may stand for a tensor of any size, and all of them are there at once.
static absl::Status CheckConstants(const tensorflow::GraphDef& def) {
  int64_t num_bytes = 0;
  for (const tensorflow::NodeDef& node : def.node()) {
    for (const auto& [name, value] : node.attr()) {
      const int64_t more = value.has_tensor() ? NumTensorBytes(value.tensor()) : 0;
      if (more <= kMaxPlainConstantBytes - num_bytes) {
        num_bytes += more;
        continue;
      }
      return absl::ResourceExhaustedError(absl::StrCat("the constants of a graph stand for more than ",
                                                       kMaxPlainConstantBytes, " bytes, the last at '",
                                                       node.name(), "'"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PlainNode>> PlainGraphFromBytes(absl::string_view bytes) {
  tensorflow::GraphDef def;
  WEIR_RETURN_IF_ERROR(ParseMessageBytes(bytes, "the GraphDef", &def));
  WEIR_RETURN_IF_ERROR(CheckConstants(def));
  std::vector<PlainNode> nodes;
  for (tensorflow::NodeDef& proto : *def.mutable_node()) {
    WEIR_ASSIGN_OR_RETURN(AttrMap attrs, AttrsFromProto(proto.attr(), proto.name()));
    nodes.push_back({std::move(*proto.mutable_name()),
                     std::move(*proto.mutable_op()),
                     {proto.input().begin(), proto.input().end()},
                     std::move(attrs)});
  }
  return nodes;
}

absl::StatusOr<PlainNode> PlainNodeFromText(const std::string& text) {
  tensorflow::NameAttrList list;
  WEIR_RETURN_IF_ERROR(ParseMessageText(text, "the NameAttrList", &list));
  WEIR_ASSIGN_OR_RETURN(AttrMap attrs, AttrsFromProto(list.attr(), list.name()));
  return PlainNode{list.name(), list.name(), {}, std::move(attrs)};
}

}  // namespace weir
