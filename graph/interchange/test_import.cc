#include "graph/interchange/test_import.h"

#include "google/protobuf/text_format.h"
#include "graph/interchange/proto/graph.pb.h"

namespace weir {

absl::Status ImportGraphDefText(const std::string& text, Graph* graph, const ImportOptions& options) {
  tensorflow::GraphDef def;
  if (!google::protobuf::TextFormat::ParseFromString(text, &def)) {
    return absl::InvalidArgumentError("this is no GraphDef: " + text);
  }
  return ImportGraphDef(def, options, graph);
}

}  // namespace weir
