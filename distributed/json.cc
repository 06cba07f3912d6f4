#include "distributed/json.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

constexpr int kMaxDepth = 32;
constexpr size_t kMaxExcerpt = 60;

// "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error ...": from "line" on.
std::string WhereAndWhy(const Json::exception& error) {
  const std::string text = error.what();
  const size_t line = text.find("line ");
  return line == std::string::npos ? text : text.substr(line);
}

}  // namespace

absl::StatusOr<Json> ParseJson(absl::string_view what, absl::string_view text) {
  std::vector<std::set<std::string>> open_objects;
  std::string repeated_key;
  bool too_deep = false;
  auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == Json::parse_event_t::object_end && !open_objects.empty()) open_objects.pop_back();
    if (event == Json::parse_event_t::key && !open_objects.empty()) {
      const std::string key = parsed.get<std::string>();
      if (!open_objects.back().insert(key).second) repeated_key = key;
    }
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  try {  // The parser tells where the error is only by throwing; it ends here.
    Json value = Json::parse(text.begin(), text.end(), watch);
    if (too_deep)
      return absl::InvalidArgumentError(absl::StrCat(what, " nests deeper than ", kMaxDepth, " levels"));
    if (!repeated_key.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(what, " has the key '", repeated_key, "' twice"));
    }
    return value;
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(what, " is not JSON: ", WhereAndWhy(error)));
  }
}

std::string Excerpt(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kMaxExcerpt) text = text.substr(0, kMaxExcerpt) + "...";
  return text;
}

}  // namespace weir
