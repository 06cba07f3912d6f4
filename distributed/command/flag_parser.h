// The flags of one `weir` subcommand: declared once, parsed, and printed by --help.
//
//   FlagParser flags("weir launch", "[flags] -- PROGRAM ARGS", "Runs a program as every task of a cluster.");
//   int num_workers = 1;
//   flags.Add("workers", &num_workers, "how many worker processes");
//   WEIR_RETURN_IF_ERROR(flags.Parse(args));
//
// Forms: --name=value, --name value, and for switches --name, --name=false, --noname. One dash does as well
// as two. Everything after "--" is positional. Not thread-safe.
#pragma once

#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weir {

// Which numbers a flag takes, both ends included.
struct NumberRange {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};

class FlagParser {
 public:
  FlagParser(std::string program, std::string usage, std::string summary);

  // The variable's value is the default that --help shows, unless the help has a "(default: ...)" of its own.
  // It outlives Parse.
  void Add(std::string name, std::string* value, std::string help);
  void Add(std::string name, int* value, std::string help, NumberRange range = {});
  // Never infinite, and never NaN.
  void Add(std::string name, double* value, std::string help, NumberRange range = {});
  void Add(std::string name, bool* value, std::string help);

  // InvalidArgument for an unknown flag (naming the nearest known one), a missing or malformed value, a
  // number out of its range.
  absl::Status Parse(const std::vector<std::string>& args);

  // True when --help or -h was among the arguments: print Help() and do nothing else.
  bool wants_help() const { return wants_help_; }
  // Whether a declared flag was among the arguments.
  bool WasGiven(absl::string_view name) const { return given_.count(std::string(name)) > 0; }
  // InvalidArgument where one of these was given no text, as by a variable of a shell that is not set.
  absl::Status CheckNotEmpty(const std::vector<absl::string_view>& names) const;
  // Arguments that are no flags; those after "--" are in rest() only.
  const std::vector<std::string>& positional() const { return positional_; }
  const std::vector<std::string>& rest() const { return rest_; }

  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    std::string type;  // "string", "number", or "" for a switch
    std::string default_value;
    std::string help;
    // What is wrong with the text, "is not a number"; empty when the variable has it now.
    std::function<std::string(const std::string&)> set;
  };

  Flag* Find(absl::string_view name);
  absl::Status ParseFlag(const std::vector<std::string>& args, size_t* position);
  absl::Status SetFlag(const Flag& flag, const std::string& value);
  absl::Status UnknownFlag(absl::string_view name) const;

  std::string program_;
  std::string usage_;
  std::string summary_;
  std::vector<Flag> flags_;
  std::vector<std::string> positional_;
  std::vector<std::string> rest_;
  std::set<std::string> given_;
  std::set<std::string> given_empty_;
  bool wants_help_ = false;
};

}  // namespace weir
