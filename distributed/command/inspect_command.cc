#include "distributed/command/inspect_command.h"

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distributed/command/flag_parser.h"
#include "distributed/command/inspect_files.h"
#include "distributed/command/printable_stream.h"
#include "graph/nearest_names.h"
#include "graph/types/printable_text.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr int kUserError = 1;
constexpr int kBadData = 3;

struct Kind {
  const char* name;
  absl::Status (*inspect)(const std::string& path, const InspectOptions& options, std::ostream& out);
};

constexpr Kind kKinds[] = {
    {"checkpoint", InspectCheckpoint}, {"graph", InspectGraph},    {"model", InspectModel},
    {"events", InspectEvents},         {"record", InspectRecords},
};

absl::StatusOr<const Kind*> FindKind(const std::string& name) {
  std::vector<absl::string_view> names;
  for (const Kind& kind : kKinds) {
    if (name == kind.name) return &kind;
    names.push_back(kind.name);
  }
  const std::string what = name.empty()
                               ? "say what to inspect"
                               : absl::StrCat("cannot inspect a '", name, "'", DidYouMean(name, names));
  return absl::InvalidArgumentError(
      absl::StrCat("weir inspect: ", what, " (one of ", absl::StrJoin(names, ", "), ")"));
}

// Content that is not what it should be is another matter than a file that cannot be had.
int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
      return kBadData;
    default:
      return kUserError;
  }
}

}  // namespace

absl::StatusOr<int> RunInspect(const std::vector<std::string>& args, std::ostream& out, std::ostream& err) {
  InspectOptions options;
  FlagParser flags(
      "weir inspect", "checkpoint|graph|model|events|record PATH [flags]",
      "Says what is in a file, and whether it is intact.\n\n"
      "  checkpoint  PREFIX, PREFIX.index, or a folder with a `checkpoint` file or one checkpoint\n"
      "  graph       a GraphDef (.pb, .pbtxt) or MetaGraphDef (.meta)\n"
      "  model       the folder of a SavedModel\n"
      "  events      an event file, or a folder with such files\n"
      "  record      a TFRecord file, plain or compressed\n\n"
      "Exit codes: 0 intact, 1 no such file or wrong arguments, 3 bad content.");
  flags.Add("verify", &options.verify, "checkpoint: read every tensor and compare its checksum");
  flags.Add("values", &options.values, "checkpoint: how many elements of each tensor to show", {.least = 0});
  flags.Add("tensor", &options.tensor, "checkpoint: only the tensor of this name, its statistics and values");
  flags.Add("filter", &options.filter,
            "checkpoint, graph, events: only names that match (* and ? as in a shell) or contain this");
  flags.Add("nodes", &options.nodes, "graph: list every node");
  flags.Add("dot", &options.dot, "graph: write a drawing for Graphviz to this file");
  flags.Add("svg", &options.svg, "graph, events: write a drawing to this file");
  flags.Add("depth", &options.depth, "graph: draw name scopes of so many parts as one box; 0: as many as fit",
            {.least = 0});
  flags.Add("plot", &options.plot, "events: draw the curves of scalars here");
  flags.Add("steps", &options.steps, "events: how many of the last values of each tag to show", {.least = 0});
  flags.Add("records", &options.records, "record: how many to show", {.least = 0});
  WEIR_RETURN_IF_ERROR(flags.Parse(args));
  if (flags.wants_help()) {
    out << flags.Help();
    return 0;
  }
  if (flags.positional().empty()) return FindKind("").status();
  WEIR_ASSIGN_OR_RETURN(const Kind* kind, FindKind(flags.positional()[0]));
  if (flags.positional().size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("weir inspect ", kind->name, ": give one PATH, got ", flags.positional().size() - 1));
  }
  PrintableStream printable(out);
  const absl::Status status = kind->inspect(flags.positional()[1], options, printable);
  if (!status.ok()) err << "weir inspect: " << PrintableText(status.message()) << "\n";
  return ExitCode(status);
}

absl::StatusOr<int> RunInspect(const std::vector<std::string>& args) {
  return RunInspect(args, std::cout, std::cerr);
}

}  // namespace weir
