#include "distributed/command/predict_command.h"

#include <iostream>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "distributed/command/flag_parser.h"
#include "distributed/command/json_tensor.h"
#include "distributed/json.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/file_system.h"
#include "ops/register_ops.h"
#include "session/local_worker.h"
#include "session/monitored/saved_model.h"
#include "session/runtime.h"

namespace weir {
namespace {

struct PredictFlags {
  std::string signature = "serving_default";
  std::string tags = "serve";
  std::string inputs;
  std::string inputs_file;
};

absl::StatusOr<Json> InputsOf(const PredictFlags& flags) {
  if (!flags.inputs.empty() && !flags.inputs_file.empty()) {
    return absl::InvalidArgumentError("give one of --inputs and --inputs_file");
  }
  std::string text = flags.inputs.empty() ? "{}" : flags.inputs;
  if (!flags.inputs_file.empty()) {
    WEIR_ASSIGN_OR_RETURN(text, ReadWholeFile(PosixFileSystem(), flags.inputs_file));
  }
  WEIR_ASSIGN_OR_RETURN(Json inputs,
                        ParseJson(flags.inputs_file.empty() ? "--inputs" : flags.inputs_file, text));
  if (!inputs.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat("the inputs are '", Excerpt(inputs),
                                                   "', must be an object with a value for each input"));
  }
  return inputs;
}

absl::StatusOr<std::map<std::string, Tensor>> TensorsFor(const Signature* signature, const Json& inputs) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [key, value] : inputs.items()) {
    DType dtype = DType::kInvalid;
    if (signature != nullptr) {
      const auto input = signature->inputs.find(key);
      if (input != signature->inputs.end()) dtype = input->second.dtype;
    }
    absl::StatusOr<Tensor> tensor = TensorFromJson(value, dtype);
    if (!tensor.ok()) {
      return absl::Status(tensor.status().code(),
                          absl::StrCat("input '", key, "': ", tensor.status().message()));
    }
    tensors.emplace(key, *std::move(tensor));
  }
  return tensors;
}

absl::StatusOr<Json> Predict(const std::string& directory, const PredictFlags& flags) {
  WEIR_ASSIGN_OR_RETURN(const Json inputs, InputsOf(flags));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<SavedModel> model,
                        SavedModel::Read(directory, StandardOps(),
                                         {.tags = absl::StrSplit(flags.tags, ',', absl::SkipEmpty())}));
  const auto signature = model->signatures().find(flags.signature);
  WEIR_ASSIGN_OR_RETURN(
      const auto tensors,
      TensorsFor(signature == model->signatures().end() ? nullptr : &signature->second, inputs));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> runtime, Runtime::Create());
  LocalWorker worker(*runtime, runtime->task());
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                        Session::Create(model->graph(), {&worker}, runtime->kernels()));
  WEIR_RETURN_IF_ERROR(model->Restore(*session));
  WEIR_ASSIGN_OR_RETURN(const auto outputs, model->Run(*session, flags.signature, tensors));
  Json result = Json::object();
  for (const auto& [key, tensor] : outputs) {
    WEIR_ASSIGN_OR_RETURN(result[key], JsonFromTensor(tensor));
  }
  return result;
}

}  // namespace

absl::StatusOr<int> RunPredict(const std::vector<std::string>& args, std::ostream& out) {
  PredictFlags values;
  FlagParser flags("weir predict", "MODEL --inputs='{\"x\": [[1, 2]]}' [flags]",
                   "Calls a signature of a SavedModel, and prints its outputs as JSON.\n"
                   "`weir inspect model MODEL` lists the signatures.");
  flags.Add("signature", &values.signature, "which one");
  flags.Add("tags", &values.tags, "of the model's graph, with commas between them");
  flags.Add("inputs", &values.inputs, "JSON: an object with nested lists of numbers or texts for each input");
  flags.Add("inputs_file", &values.inputs_file, "a file with that");
  WEIR_RETURN_IF_ERROR(flags.Parse(args));
  if (flags.wants_help()) {
    out << flags.Help();
    return 0;
  }
  if (flags.positional().size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("weir predict: give one MODEL, got ", flags.positional().size()));
  }
  const absl::StatusOr<Json> outputs = Predict(flags.positional()[0], values);
  if (!outputs.ok()) {
    return absl::Status(outputs.status().code(), absl::StrCat("weir predict: ", outputs.status().message()));
  }
  out << outputs->dump() << "\n";
  return 0;
}

absl::StatusOr<int> RunPredict(const std::vector<std::string>& args) { return RunPredict(args, std::cout); }

}  // namespace weir
