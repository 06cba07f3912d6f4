#include "distributed/command/flag_parser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace weir {
namespace {

// Levenshtein's distance, one row at a time.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestName(absl::string_view text, const std::vector<std::string>& candidates) {
  std::string nearest;
  size_t best = std::max<size_t>(2, text.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(text, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

FlagParser::FlagParser(std::string program, std::string usage, std::string summary)
    : program_(std::move(program)), usage_(std::move(usage)), summary_(std::move(summary)) {}

void FlagParser::Add(std::string name, std::string* value, std::string help) {
  flags_.push_back({std::move(name), "string", *value, std::move(help), [value](const std::string& text) {
                      *value = text;
                      return true;
                    }});
}

void FlagParser::Add(std::string name, int* value, std::string help) {
  flags_.push_back({std::move(name), "number", absl::StrCat(*value), std::move(help),
                    [value](const std::string& text) { return absl::SimpleAtoi(text, value); }});
}

void FlagParser::Add(std::string name, double* value, std::string help) {
  flags_.push_back({std::move(name), "number", absl::StrCat(*value), std::move(help),
                    [value](const std::string& text) { return absl::SimpleAtod(text, value); }});
}

void FlagParser::Add(std::string name, bool* value, std::string help) {
  flags_.push_back({std::move(name), "", *value ? "true" : "", std::move(help),
                    [value](const std::string& text) { return absl::SimpleAtob(text, value); }});
}

FlagParser::Flag* FlagParser::Find(absl::string_view name) {
  for (Flag& flag : flags_) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

absl::Status FlagParser::UnknownFlag(absl::string_view name) const {
  std::vector<std::string> names = {"help"};
  for (const Flag& flag : flags_) names.push_back(flag.name);
  const std::string nearest = NearestName(name, names);
  return absl::InvalidArgumentError(
      absl::StrCat(program_, ": unknown flag --", name,
                   nearest.empty() ? "" : absl::StrCat("; did you mean --", nearest, "?"), " (", program_,
                   " --help lists the flags)"));
}

absl::Status FlagParser::Parse(const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    absl::string_view name = args[i];
    if (name == "--") {
      rest_.assign(args.begin() + i + 1, args.end());
      break;
    }
    if (name.size() < 2 || name[0] != '-') {
      positional_.push_back(args[i]);
      continue;
    }
    name = absl::StripPrefix(name.substr(1), "-");
    if (name == "help" || name == "h") {
      wants_help_ = true;
      continue;
    }
    const size_t equals = name.find('=');
    const bool has_value = equals != absl::string_view::npos;
    std::string value = has_value ? std::string(name.substr(equals + 1)) : "";
    name = name.substr(0, equals);
    Flag* flag = Find(name);
    if (flag == nullptr && !has_value && absl::ConsumePrefix(&name, "no") && (flag = Find(name)) != nullptr &&
        flag->type.empty()) {
      flag->set("false");
      continue;
    }
    if (flag == nullptr) return UnknownFlag(absl::StripPrefix(args[i].substr(0, args[i].find('=')), "--"));
    if (flag->type.empty() && !has_value) value = "true";
    if (!flag->type.empty() && !has_value) {
      if (i + 1 >= args.size())
        return absl::InvalidArgumentError(absl::StrCat(program_, ": --", name, " needs a value"));
      value = args[++i];
    }
    if (!flag->set(value)) {
      return absl::InvalidArgumentError(absl::StrCat(program_, ": --", name, "='", value, "' is not a ",
                                                     flag->type.empty() ? "truth value" : flag->type));
    }
  }
  return absl::OkStatus();
}

std::string FlagParser::Help() const {
  std::string text = absl::StrCat(summary_, "\n\nusage: ", program_, " ", usage_, "\n\nflags:\n");
  for (const Flag& flag : flags_) {
    const std::string form =
        absl::StrCat("--", flag.name, flag.type.empty() ? "" : absl::StrCat("=", flag.type));
    absl::StrAppendFormat(
        &text, "  %-26s %s%s\n", form, flag.help,
        flag.default_value.empty() ? "" : absl::StrCat(" (default ", flag.default_value, ")"));
  }
  return text;
}

}  // namespace weir
