#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distributed/command/inspect_files.h"
#include "distributed/command/text_table.h"
#include "graph/interchange/message_form.h"
#include "graph/interchange/proto/saved_model.pb.h"
#include "graph/interchange/signature.h"
#include "graph/types/printable_text.h"
#include "graph/types/status_macros.h"
#include "graph/types/tensor.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/file_system.h"

namespace weir {
namespace {

using ::tensorflow::MetaGraphDef;

absl::Status ReadModel(const std::string& directory, tensorflow::SavedModel* model) {
  FileSystem& files = PosixFileSystem();
  const std::string binary = JoinPath(directory, "saved_model.pb");
  const std::string text = JoinPath(directory, "saved_model.pbtxt");
  if (!files.Exists(binary) && files.Exists(text)) {
    WEIR_ASSIGN_OR_RETURN(const std::string content, ReadWholeFile(files, text));
    return ParseMessageText(content, text, model);
  }
  WEIR_ASSIGN_OR_RETURN(const std::string content, ReadWholeFile(files, binary));
  return ParseMessageBytes(content, binary, model);
}

void PrintTensors(const char* kind, const std::map<std::string, SignatureTensor>& tensors, TextTable* table) {
  for (const auto& [key, tensor] : tensors) {
    const bool is_one = !tensor.name.empty();
    table->AddRow(
        {kind, key, is_one ? TypeString(tensor.dtype, tensor.shape) : "several tensors", tensor.name});
  }
}

absl::Status PrintSignatures(const MetaGraphDef& graph, std::ostream& out) {
  const std::map<std::string, tensorflow::SignatureDef> sorted(graph.signature_def().begin(),
                                                               graph.signature_def().end());
  for (const auto& [name, proto] : sorted) {
    WEIR_ASSIGN_OR_RETURN(const Signature signature,
                          SignatureFromProto(proto, absl::StrCat("the signature '", name, "'")));
    out << "signature " << PrintableText(name);
    if (!signature.method_name.empty()) out << " (" << PrintableText(signature.method_name) << ")";
    out << ":\n";
    TextTable table;
    PrintTensors("input", signature.inputs, &table);
    PrintTensors("output", signature.outputs, &table);
    table.Print(out);
  }
  return absl::OkStatus();
}

absl::Status PrintGraph(const MetaGraphDef& graph, std::ostream& out) {
  const auto& tags = graph.meta_info_def().tags();
  out << "graph [" << PrintableText(absl::StrJoin(tags, ", "))
      << "]: " << Counted(graph.graph_def().node_size(), "node") << ", "
      << Counted(graph.graph_def().library().function_size(), "function") << "\n";
  WEIR_RETURN_IF_ERROR(PrintSignatures(graph, out));
  if (graph.asset_file_def_size() > 0) {
    out << "assets:\n";
    TextTable table;
    for (const auto& asset : graph.asset_file_def())
      table.AddRow({asset.filename(), asset.tensor_info().name()});
    table.Print(out);
  }
  PrintImportVerdict(graph.graph_def(), out);
  return absl::OkStatus();
}

}  // namespace

absl::Status InspectModel(const std::string& path, const InspectOptions& options, std::ostream& out) {
  tensorflow::SavedModel model;
  WEIR_RETURN_IF_ERROR(ReadModel(path, &model));
  out << PrintableText(path) << ": " << Counted(model.meta_graphs_size(), "graph") << "\n";
  for (const MetaGraphDef& graph : model.meta_graphs()) WEIR_RETURN_IF_ERROR(PrintGraph(graph, out));
  const std::string variables = JoinPath(JoinPath(path, "variables"), "variables");
  if (!BundleExists(variables, PosixFileSystem())) {
    out << "no variables\n";
    return absl::OkStatus();
  }
  return InspectCheckpoint(variables, options, out);
}

}  // namespace weir
