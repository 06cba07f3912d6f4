// The command `weir`: one subcommand a file; this one only chooses.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "distributed/command/doctor_command.h"
#include "distributed/command/flag_parser.h"
#include "distributed/command/inspect_command.h"
#include "distributed/command/keys_command.h"
#include "distributed/command/launch_command.h"
#include "distributed/command/ops_command.h"
#include "distributed/command/predict_command.h"
#include "distributed/command/printable_stream.h"
#include "distributed/command/serve_command.h"
#include "graph/nearest_names.h"
#include "graph/version.h"
#include "kernels/formats/file_size_signal.h"
#include "kernels/formats/standard_streams.h"
#include "session/monitored/exit_code.h"

namespace {

constexpr char kHelp[] =
    "weir: static dataflow graphs, trained on one machine or many.\n\n"
    "usage: weir COMMAND [flags]\n\n"
    "commands:\n"
    "  doctor     say what is wrong with a cluster\n"
    "  inspect    say what is in a checkpoint, graph, model, event or record file, and whether it is intact\n"
    "  keys       make certificates and a token for a job that uses TLS\n"
    "  launch     run a program as every task of a cluster, here or on other machines\n"
    "  ops        list the ops that graphs may have\n"
    "  predict    call a signature of a SavedModel\n"
    "  serve      serve one task of a cluster\n"
    "  version    print the version\n\n"
    "`weir COMMAND --help` describes a command.\n";

struct Command {
  const char* name;
  absl::StatusOr<int> (*run)(const std::vector<std::string>& args);
  // What it prints is what it is run for, so that an output that cannot be written is its failure.
  bool prints_result = true;
};

absl::StatusOr<int> PrintVersion(const std::vector<std::string>&) {
  std::printf("weir %s\n", WEIR_VERSION);
  return 0;
}

constexpr Command kCommands[] = {
    {"doctor", weir::RunDoctor},
    {"inspect", [](const std::vector<std::string>& args) { return weir::RunInspect(args); }},
    {"keys", weir::RunKeys, /*prints_result=*/false},
    {"launch", weir::RunLaunch},
    {"ops", weir::RunOps},
    {"predict", [](const std::vector<std::string>& args) { return weir::RunPredict(args); }},
    {"serve", [](const std::vector<std::string>& args) { return weir::RunServe(args); },
     /*prints_result=*/false},
    {"version", PrintVersion},
};

// The exit code, when all that was printed has to be written.
int CodeWithOutput(int code) {
  const std::string error = weir::FlushStandardOutput();
  if (error.empty()) return code;
  std::fprintf(stderr, "weir: %s\n", error.c_str());
  return code == 0 ? 1 : code;
}

absl::StatusOr<int> RunCommand(const std::string& name, const std::vector<std::string>& args) {
  std::vector<absl::string_view> names;
  for (const Command& command : kCommands) {
    names.push_back(command.name);
    if (name != command.name) continue;
    const absl::StatusOr<int> code = command.run(args);
    return code.ok() && command.prints_result ? CodeWithOutput(*code) : code;
  }
  return absl::InvalidArgumentError(absl::StrCat("weir: unknown command '", name, "'",
                                                 weir::DidYouMean(name, names),
                                                 " (weir --help lists the commands)"));
}

// The libraries of a Python wheel are for this command (tools/python/weir_tf/own_command.py), which has them
// by now. A program that `weir launch` starts would take them for its own, of the same names.
void KeepOwnLibraries() {
  const char* const own = std::getenv("WEIR_OWN_LIBRARIES");
  const char* const path = std::getenv("LD_LIBRARY_PATH");
  if (own == nullptr || path == nullptr) return;
  absl::string_view others = path;
  if (absl::ConsumePrefix(&others, own) && (others.empty() || absl::ConsumePrefix(&others, ":"))) {
    if (others.empty()) {
      ::unsetenv("LD_LIBRARY_PATH");
    } else {
      ::setenv("LD_LIBRARY_PATH", std::string(others).c_str(), /*overwrite=*/1);
    }
  }
  ::unsetenv("WEIR_OWN_LIBRARIES");
}

}  // namespace

int main(int argc, char** argv) {
  KeepOwnLibraries();
  weir::OpenStandardStreams();
  weir::ReportFilesThatMayNotGrow();
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.empty() || args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    std::fputs(kHelp, args.empty() ? stderr : stdout);
    return args.empty() ? 1 : CodeWithOutput(0);
  }
  const std::string name = args[0] == "--version" ? "version" : args[0];
  const absl::StatusOr<int> code = RunCommand(name, {args.begin() + 1, args.end()});
  if (code.ok()) return *code;
  std::fprintf(stderr, "%s\n", weir::Printable(code.status().message()).c_str());
  return absl::IsDataLoss(code.status()) ? weir::kExitBadData : weir::kExitUserError;
}
