// Regular expressions. The calls mean the same in RE2's syntax and in ECMAScript's, that of std::regex.
#include <regex>
#include <string>

#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;

std::string PatternOf(const Call& call) {
  return call.inputs.size() > 1 ? call.in(1)[0].text : call.text("pattern");
}

void FullMatch(Call& call) {
  const std::regex pattern(PatternOf(call));
  call.outputs[0] = Array(call.in(0).dims());
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    call.outputs[0][i] = std::regex_match(call.in(0)[i].text, pattern) ? 1.0 : 0.0;
  }
}

// Of std::regex a rewrite has $1 and $& where RE2's has \1 and \0.
void Replace(Call& call) {
  const std::regex pattern(PatternOf(call));
  std::string rewrite = call.inputs.size() > 2 ? call.in(2)[0].text : call.text("rewrite");
  int64_t highest_group = 0;
  for (size_t i = 0; i + 1 < rewrite.size(); ++i) {
    if (rewrite[i] != '\\') continue;
    highest_group = std::max<int64_t>(highest_group, rewrite[i + 1] - '0');
    rewrite[i] = '$';
    if (rewrite[i + 1] == '0') rewrite[i + 1] = '&';
  }
  const auto flags = call.flag("replace_global") ? std::regex_constants::format_default
                                                 : std::regex_constants::format_first_only;
  call.outputs[0] = call.in(0);
  if (highest_group > static_cast<int64_t>(pattern.mark_count())) return;
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    call.outputs[0][i].text = std::regex_replace(call.in(0)[i].text, pattern, rewrite, flags);
  }
}

}  // namespace

void AddRegularExpressionsRecords(Suite& suite) {
  const Tensor texts = Strings({2, 3}, {"abcabc", "", "xabcx", "a c", "cab", "aab"});
  OpRecord& match = suite.Op("RegexFullMatch").Reference(FullMatch);
  OpRecord& static_match = suite.Op("StaticRegexFullMatch").Reference(FullMatch);
  for (const char* pattern : {"a.*c", "", "(abc)+", "[a-c]*", "a\\sc"}) {
    match.Call({texts, Strings({}, {pattern})}).Call({Words({}), Strings({}, {pattern})});
    static_match.Call({texts}, {{"pattern", pattern}});
  }
  OpRecord& replace = suite.Op("RegexReplace").Reference(Replace);
  OpRecord& static_replace = suite.Op("StaticRegexReplace").Reference(Replace);
  const std::vector<std::pair<const char*, const char*>> rewrites = {
      {"a", "_"}, {"(a)(b)", "\\2\\1-\\0"}, {"b|c", ""}, {"(a)", "\\2"}, {"^a", "first"}};
  for (const auto& [pattern, rewrite] : rewrites) {
    for (bool is_global : {true, false}) {
      replace.Call({texts, Strings({}, {pattern}), Strings({}, {rewrite})}, {{"replace_global", is_global}});
      static_replace.Call({texts},
                          {{"pattern", pattern}, {"rewrite", rewrite}, {"replace_global", is_global}});
    }
  }
  replace.Call({Words({}), Strings({}, {"a"}), Strings({}, {"b"})});

  const std::string invalid = "Invalid pattern: a(, error: missing )";
  match.Hostile({texts, Strings({}, {"a("})}, invalid)
      .Hostile({texts, Words({"a"})}, "Pattern must be scalar, but received [1]")
      .Hostile({texts, Words({})}, "Pattern must be scalar, but received [0]")
      .Hostile({texts, Strings({}, {"((a{1000}){1000}){1000}"})}, "Invalid pattern: ")
      .Hostile({texts, Strings({}, {std::string(100'000, '(')})}, "Invalid pattern: ")
      .Hostile({texts, Strings({}, {"\xff"})}, "invalid UTF-8");
  static_match.Hostile({texts}, invalid, {{"pattern", "a("}});
  replace.Hostile({texts, Strings({}, {"a("}), Strings({}, {""})}, invalid)
      .Hostile({texts, Words({"a"}), Strings({}, {""})}, "Pattern must be scalar, but received [1]")
      .Hostile({texts, Strings({}, {"a"}), Words({"", ""})}, "Rewrite must be scalar, but received [2]")
      .OutOfMemory(
          {Words({std::string(30'000, 'a')}), Strings({}, {"a"}), Strings({}, {std::string(30'000, 'b')})})
      .OutOfMemory({Words({std::string(600'000, 'a')}), Strings({}, {".*"}), Strings({}, {[] {
                                                                                       std::string rewrite;
                                                                                       for (int i = 0;
                                                                                            i < 1000; ++i)
                                                                                         rewrite += "\\0";
                                                                                       return rewrite;
                                                                                     }()})});
  static_replace.Hostile({texts}, invalid, {{"pattern", "a("}, {"rewrite", ""}});
}

}  // namespace weir::conformance
