// Writes and calls SavedModels for saved_model_interop_test.py.
//
//   saved_model_tool write DIRECTORY    a float[3] "x" times a kernel, plus a bias; "classify" gives the name
//                                       of the larger output, from a table that is filled from an asset
//   saved_model_tool predict ARGS...    is `weir predict ARGS...`
//   saved_model_tool inspect ARGS...    is `weir inspect ARGS...`
#include <cstdio>
#include <string>
#include <vector>

#include "distributed/command/inspect_command.h"
#include "distributed/command/predict_command.h"
#include "graph/graph_builder.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/file_system.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "session/local_worker.h"
#include "session/monitored/saved_model.h"
#include "session/runtime.h"
#include "session/session.h"

namespace weir {
namespace {

absl::Status Write(const std::string& directory) {
  GraphBuilder g(StandardOps());
  const Output x = Placeholder(g, DType::kFloat32, {-1, 3}, {.name = "x"});
  const ModelVariable kernel =
      MakeVariable(g, "dense/kernel", Tensor::From<float>({3, 2}, {1, -1, 0.5f, 2, -2, 0.25f}));
  const ModelVariable bias = MakeVariable(g, "dense/bias", Tensor::Vector<float>({0.5f, -0.5f}));
  const Output y = AddV2(g, MatMul(g, x, kernel.value), bias.value, {.name = "y"});
  const Output table = HashTableV2(g, DType::kInt64, DType::kString, {.name = "names"});
  const std::string names = directory + ".names";
  WEIR_RETURN_IF_ERROR(WriteFileAtomically(PosixFileSystem(), names, "left\nright\n"));
  const Output file = Const(g, names, {.name = "names_file"});
  Node* const fill = InitializeTableFromTextFileV2(g, table, file, /*key_index=*/-1, /*value_index=*/-2);
  const Output larger = ArgMax(g, y, Const(g, 1));
  const Output name = LookupTableFindV2(g, table, larger, Const(g, "nowhere"), {.name = "class"});
  Node* const init = InitializeVariables(g);
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Saver> saver, Saver::Build(g));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> runtime, Runtime::Create());
  LocalWorker worker(*runtime, runtime->task());
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                        Session::Create(g.graph(), {&worker}, runtime->kernels()));
  WEIR_RETURN_IF_ERROR(session->Run({}, {}, {init}).status());
  WEIR_RETURN_IF_ERROR(
      WriteSavedModel(directory, *session, saver.get(),
                      {.signatures = {{"serving_default", SignatureOf({{"x", x}}, {{"y", y}})},
                                      {"classify", SignatureOf({{"x", x}}, {{"name", name}})}},
                       .initializer = fill,
                       .assets = {{file.name(), names}}}));
  // The copy in the model is the one that is read from now on.
  return PosixFileSystem().Remove(names);
}

absl::StatusOr<int> Run(const std::string& command, const std::vector<std::string>& args) {
  if (command == "predict") return RunPredict(args);
  if (command == "inspect") return RunInspect(args);
  if (command != "write" || args.size() != 1)
    return absl::InvalidArgumentError("write DIRECTORY, or predict");
  WEIR_RETURN_IF_ERROR(Write(args[0]));
  return 0;
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: saved_model_tool write|predict|inspect ARGS...\n"), 1;
  const absl::StatusOr<int> code = weir::Run(argv[1], {argv + 2, argv + argc});
  if (code.ok()) return *code;
  std::fprintf(stderr, "%s\n", std::string(code.status().message()).c_str());
  return 1;
}
