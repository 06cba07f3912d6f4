#include "distributed/command/ops_command.h"

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distributed/command/flag_parser.h"
#include "distributed/command/name_filter.h"
#include "distributed/command/text_table.h"
#include "graph/interchange/imported_ops.h"
#include "graph/op_registry.h"
#include "graph/types/status_macros.h"
#include "ops/register_ops.h"

namespace weir {
namespace {

void PrintOne(const OpDef& op) {
  std::cout << op.name << '(' << absl::StrJoin(op.inputs, ", ") << ") -> (" << absl::StrJoin(op.outputs, ", ")
            << ")\n";
  for (const std::string& attr : op.attrs) std::cout << "  " << attr << '\n';
  if (!op.summary.empty()) std::cout << op.summary << '\n';
  if (op.is_stateful) std::cout << "Stateful.\n";
}

// An op that a graph which is read may have, and which becomes others then. False: it is none.
bool PrintLowered(const std::string& name) {
  if (IsCallOfFunctions(name)) {
    std::cout << name << " calls functions of its graph. It is expanded when the graph is read.\n";
    return true;
  }
  const Op* const counterpart = StandardOps().Find(OpInPlaceOf(name));
  if (counterpart == nullptr) return false;
  std::cout << name << " has references, and becomes another op when a graph is read:\n";
  PrintOne(counterpart->def());
  return true;
}

}  // namespace

absl::StatusOr<int> RunOps(const std::vector<std::string>& args) {
  FlagParser flags("weir ops", "[PATTERN]",
                   "Lists the ops that graphs may have: those whose names match PATTERN (with * and ?) or "
                   "contain it. Of one op that is named, it shows inputs, outputs and attrs.");
  WEIR_RETURN_IF_ERROR(flags.Parse(args));
  if (flags.wants_help()) {
    std::cout << flags.Help();
    return 0;
  }
  if (flags.positional().size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("weir ops: one pattern at a time, not also '", flags.positional()[1], "'"));
  }
  const std::string pattern = flags.positional().empty() ? "" : flags.positional()[0];
  if (const Op* const op = StandardOps().Find(pattern)) {
    PrintOne(op->def());
    return 0;
  }
  if (PrintLowered(pattern)) return 0;
  const NameFilter filter(pattern);
  TextTable table;
  int num_ops = 0;
  for (const Op* const op : StandardOps().ops()) {
    if (!filter.Matches(op->name())) continue;
    table.AddRow({op->name(), op->def().summary});
    ++num_ops;
  }
  if (num_ops == 0) {
    const absl::Status unknown = StandardOps().Lookup(pattern).status();
    return absl::Status(unknown.code(), absl::StrCat("weir ops: ", unknown.message()));
  }
  table.Print(std::cout);
  return 0;
}

}  // namespace weir
