#include "distributed/master/step_error.h"

#include <cctype>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "distributed/master/utf8_text.h"
#include "graph/fused_name.h"
#include "session/executor/program.h"

namespace weir {
namespace {

// gRPC's trailers hold little; the name of the node must still fit behind the text.
constexpr size_t kMaxTextBytes = 2500;

// "MatMul 'dense/mm'" at the end of `text`: the name; otherwise empty.
absl::string_view QuotedAtEnd(absl::string_view text) {
  if (text.empty() || text.back() != '\'') return "";
  text.remove_suffix(1);
  const size_t quote = text.rfind('\'');
  if (quote == absl::string_view::npos || quote < 2 || text[quote - 1] != ' ') return "";
  if (!std::isalnum(static_cast<unsigned char>(text[quote - 2]))) return "";
  return text.substr(quote + 1);
}

// An error that crossed the network has its text alone: "OP 'NAME' on /job:ps/...: TEXT", perhaps behind the
// name of a task; one of compiling begins with "OP 'NAME': ".
absl::string_view NodeInText(absl::string_view text) {
  for (const absl::string_view end : {absl::string_view("' on /job:"), absl::string_view("': ")}) {
    const size_t at = text.find(end);
    if (at == absl::string_view::npos) continue;
    if (const absl::string_view name = QuotedAtEnd(text.substr(0, at + 1)); !name.empty()) return name;
  }
  return "";
}

// The op in "OP 'NAME'", wherever that is in `text`; empty where it is not.
absl::string_view OpInText(absl::string_view text, absl::string_view name) {
  const size_t end = text.find(absl::StrCat(" '", name, "'"));
  if (end == absl::string_view::npos) return "";
  const absl::string_view before = text.substr(0, end);
  return before.substr(before.find_last_of(" \n") + 1);
}

// graph/interchange/references.h names the nodes that it adds.
absl::string_view WithoutAddedPart(absl::string_view name) {
  const size_t at = name.rfind("/ref_");
  if (at == absl::string_view::npos) return name;
  const absl::string_view added = name.substr(at);
  const bool is_added =
      absl::StartsWith(added, "/ref_read_") || absl::StartsWith(added, "/ref_value") || added == "/ref_order";
  return is_added ? name.substr(0, at) : name;
}

}  // namespace

std::string NodeOfError(const absl::Status& error) {
  const auto payload = error.GetPayload(kNodePayload);
  const std::string name = payload ? std::string(*payload) : std::string(NodeInText(error.message()));
  return std::string(NameBeforeFusion(OpInText(error.message(), name), WithoutAddedPart(name)));
}

absl::Status StepErrorForClient(const absl::Status& error, const DeviceName& master) {
  if (absl::StrContains(error.message(), "{{node ")) return error;
  const std::string node = NodeOfError(error);
  if (node.empty()) return absl::Status(error.code(), error.message());
  std::string text(error.message());
  if (text.size() > kMaxTextBytes) text = absl::StrCat(Utf8Beginning(text, kMaxTextBytes), "... (cut)");
  return absl::Status(
      error.code(), absl::StrCat("From ", master.TaskString(), ":\n", text, "\n\t [[{{node ", node, "}}]]"));
}

absl::Status UnknownSession(absl::string_view handle, bool may_have_restarted) {
  constexpr size_t kMaxShown = 100;
  return absl::AbortedError(absl::StrCat("Session ", handle.substr(0, kMaxShown), " is not found.",
                                         may_have_restarted ? " Possibly, this master has restarted." : ""));
}

}  // namespace weir
