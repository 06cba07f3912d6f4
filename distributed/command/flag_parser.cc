#include "distributed/command/flag_parser.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "graph/nearest_names.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// Whole numbers without an exponent.
std::string NumberText(double value) {
  return std::abs(value) < 1e15 && value == std::floor(value) ? absl::StrCat(static_cast<int64_t>(value))
                                                              : absl::StrCat(value);
}

std::string RangeProblem(double value, const NumberRange& range) {
  if (value >= range.least && value <= range.most) return "";
  if (std::isinf(range.most)) return absl::StrCat("must be at least ", NumberText(range.least));
  return absl::StrCat("must be from ", NumberText(range.least), " to ", NumberText(range.most));
}

// What is wrong with a text that is no int.
std::string IntProblem(const std::string& text, NumberRange range) {
  const absl::string_view digits = absl::StripPrefix(text, "-");
  double value = 0;
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtod(text, &value)) {
    return "is not a number";
  }
  range.least = std::max<double>(range.least, std::numeric_limits<int>::min());
  range.most = std::min<double>(range.most, std::numeric_limits<int>::max());
  return RangeProblem(value, range);
}

template <typename T>
auto NumberSetter(T* value, NumberRange range) {
  return [value, range](const std::string& text) -> std::string {
    T parsed;
    if constexpr (std::is_same_v<T, int>) {
      if (!absl::SimpleAtoi(text, &parsed)) return IntProblem(text, range);
    } else {
      if (!absl::SimpleAtod(text, &parsed) || !std::isfinite(parsed)) return "is not a number";
    }
    std::string problem = RangeProblem(parsed, range);
    if (problem.empty()) *value = parsed;
    return problem;
  };
}

}  // namespace

FlagParser::FlagParser(std::string program, std::string usage, std::string summary)
    : program_(std::move(program)), usage_(std::move(usage)), summary_(std::move(summary)) {}

void FlagParser::Add(std::string name, std::string* value, std::string help) {
  flags_.push_back({std::move(name), "string", *value, std::move(help), [value](const std::string& text) {
                      *value = text;
                      return "";
                    }});
}

void FlagParser::Add(std::string name, int* value, std::string help, NumberRange range) {
  flags_.push_back(
      {std::move(name), "number", absl::StrCat(*value), std::move(help), NumberSetter(value, range)});
}

void FlagParser::Add(std::string name, double* value, std::string help, NumberRange range) {
  flags_.push_back(
      {std::move(name), "number", absl::StrCat(*value), std::move(help), NumberSetter(value, range)});
}

void FlagParser::Add(std::string name, bool* value, std::string help) {
  flags_.push_back(
      {std::move(name), "", *value ? "true" : "", std::move(help), [value](const std::string& text) {
         return absl::SimpleAtob(text, value) ? "" : "is not a truth value";
       }});
}

FlagParser::Flag* FlagParser::Find(absl::string_view name) {
  for (Flag& flag : flags_) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

absl::Status FlagParser::UnknownFlag(absl::string_view name) const {
  if (!positional_.empty() && absl::StrContains(usage_, " -- ")) {
    return absl::InvalidArgumentError(
        absl::StrCat(program_, ": unknown flag --", name, ": if it is a flag of '", positional_[0],
                     "', the program and its flags come after '--' (", program_, " ", usage_, ")"));
  }
  std::vector<absl::string_view> names = {"help"};
  for (const Flag& flag : flags_) names.push_back(flag.name);
  const std::vector<std::string> nearest = NearestNames(name, names, /*limit=*/1);
  return absl::InvalidArgumentError(
      absl::StrCat(program_, ": unknown flag --", name,
                   nearest.empty() ? "" : absl::StrCat("; did you mean --", nearest[0], "?"), " (", program_,
                   " --help lists the flags)"));
}

absl::Status FlagParser::Parse(const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--") {
      rest_.assign(args.begin() + i + 1, args.end());
      break;
    }
    if (args[i].size() < 2 || args[i][0] != '-') {
      positional_.push_back(args[i]);
    } else {
      WEIR_RETURN_IF_ERROR(ParseFlag(args, &i));
    }
  }
  return absl::OkStatus();
}

absl::Status FlagParser::ParseFlag(const std::vector<std::string>& args, size_t* position) {
  const absl::string_view text = absl::StripPrefix(absl::string_view(args[*position]).substr(1), "-");
  const size_t equals = text.find('=');
  const absl::string_view name = text.substr(0, equals);
  if (name == "help" || name == "h") {
    wants_help_ = true;
    return absl::OkStatus();
  }
  if (Flag* flag = Find(name); flag != nullptr) {
    if (equals != absl::string_view::npos) return SetFlag(*flag, std::string(text.substr(equals + 1)));
    if (flag->type.empty()) return SetFlag(*flag, "true");
    if (*position + 1 < args.size()) return SetFlag(*flag, args[++*position]);
    return absl::InvalidArgumentError(absl::StrCat(program_, ": --", name, " needs a value"));
  }
  if (absl::StartsWith(name, "no") && equals == absl::string_view::npos) {
    if (Flag* flag = Find(name.substr(2)); flag != nullptr && flag->type.empty())
      return SetFlag(*flag, "false");
  }
  return UnknownFlag(name);
}

absl::Status FlagParser::SetFlag(const Flag& flag, const std::string& value) {
  given_.insert(flag.name);
  if (value.empty()) {
    given_empty_.insert(flag.name);
  } else {
    given_empty_.erase(flag.name);  // the last one counts
  }
  const std::string problem = flag.set(value);
  if (problem.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(program_, ": --", flag.name, "='", value, "' ", problem));
}

absl::Status FlagParser::CheckNotEmpty(const std::vector<absl::string_view>& names) const {
  for (const absl::string_view name : names) {
    if (given_empty_.count(std::string(name)) == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(program_, ": --", name, " is given but empty: name a file, or leave it out"));
  }
  return absl::OkStatus();
}

std::string FlagParser::Help() const {
  std::string text = absl::StrCat(summary_, "\n\nusage: ", program_, " ", usage_, "\n\nflags:\n");
  for (const Flag& flag : flags_) {
    const std::string form = absl::StrCat(flag.name.size() == 1 ? "-" : "--", flag.name,
                                          flag.type.empty() ? "" : absl::StrCat("=", flag.type));
    const bool is_told = flag.default_value.empty() || absl::StrContains(flag.help, "(default: ");
    absl::StrAppendFormat(&text, "  %-26s %s%s\n", form, flag.help,
                          is_told ? "" : absl::StrCat(" (default ", flag.default_value, ")"));
  }
  return text;
}

}  // namespace weir
