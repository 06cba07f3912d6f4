#include "ops/schemas/schema_table.h"

#include <string>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr char kTensorFlow[] =
#include "ops/schemas/tensorflow.inc"
    ;

constexpr absl::string_view kOp = "op ";

// Cuts the next line off the text.
absl::string_view NextLine(absl::string_view& text) {
  const size_t end = text.find('\n');
  const absl::string_view line = text.substr(0, end);
  text.remove_prefix(end == absl::string_view::npos ? text.size() : end + 1);
  return line;
}

absl::Status AddLine(absl::string_view line, OpDef& def) {
  // References to strings are handles, which nothing writes to. An op on one has an effect.
  if (absl::ConsumeSuffix(&line, ": string &")) {
    def.is_stateful = true;
    return AddLine(absl::StrCat(line, ": string"), def);
  }
  if (absl::EndsWith(line, " &")) {
    return absl::UnimplementedError(absl::StrCat("op ", def.name, " has reference arguments"));
  }
  if (absl::ConsumePrefix(&line, "in ")) {
    def.inputs.emplace_back(line);
  } else if (absl::ConsumePrefix(&line, "out ")) {
    def.outputs.emplace_back(line);
  } else if (absl::ConsumePrefix(&line, "attr ")) {
    def.attrs.emplace_back(line);
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("op ", def.name, ": '", line, "' is no line of the schema table"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SchemaTable> SchemaTable::Parse(absl::string_view text) {
  SchemaTable table;
  absl::string_view name;
  const char* begin = nullptr;
  const auto finish = [&](const char* end) {
    return begin == nullptr || table.blocks_.emplace(name, absl::string_view(begin, end - begin)).second;
  };
  while (!text.empty()) {
    const char* const start = text.data();
    absl::string_view line = NextLine(text);
    if (!absl::ConsumePrefix(&line, kOp)) {
      if (begin != nullptr) continue;
      return absl::InvalidArgumentError(absl::StrCat("'", line, "' stands before the first op"));
    }
    if (!finish(start)) return absl::InvalidArgumentError(absl::StrCat("op ", name, " stands twice"));
    begin = line.data();
    name = line.substr(0, line.find(' '));
  }
  if (!finish(text.data())) return absl::InvalidArgumentError(absl::StrCat("op ", name, " stands twice"));
  return table;
}

const SchemaTable& SchemaTable::TensorFlow() {
  static const SchemaTable* const table = [] {
    absl::StatusOr<SchemaTable> parsed = Parse(kTensorFlow);
    // Only our own table can fail here, and then no program of this build can work.
    ABSL_RAW_CHECK(parsed.ok(), std::string(parsed.status().message()).c_str());
    return new SchemaTable(*std::move(parsed));
  }();
  return *table;
}

absl::Status SchemaTable::Complete(OpDef& def) const {
  const auto found = blocks_.find(def.name);
  if (found == blocks_.end()) {
    return absl::NotFoundError(absl::StrCat("op ", def.name,
                                            " is not in ops/schemas/tensorflow.txt; the name of an op of our "
                                            "own begins with 'Weir'"));
  }
  if (!def.inputs.empty() || !def.outputs.empty() || !def.attrs.empty() || def.is_stateful ||
      def.is_commutative) {
    return absl::InvalidArgumentError(
        absl::StrCat("op ", def.name, " repeats its schema, which is in ops/schemas/tensorflow.txt"));
  }
  absl::string_view block = found->second;
  for (const absl::string_view trait : absl::StrSplit(NextLine(block), ' ')) {
    def.is_stateful = def.is_stateful || trait == "stateful";
    def.is_commutative = def.is_commutative || trait == "commutative";
  }
  while (!block.empty()) WEIR_RETURN_IF_ERROR(AddLine(NextLine(block), def));
  return absl::OkStatus();
}

}  // namespace weir
