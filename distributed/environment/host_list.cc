#include "distributed/environment/host_list.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr size_t kMaxNameBytes = 253;  // of a name in DNS
constexpr size_t kMaxFileBytes = 4 << 20;

absl::Status Malformed(absl::string_view what, absl::string_view entry, absl::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": '", entry.substr(0, 100), entry.size() > 100 ? "..." : "", "': ", problem));
}

absl::Status TooMany(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": lists more than ", kMaxHostListEntries, " hosts or tasks"));
}

bool IsNameText(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_'; });
}

bool ParseNumber(absl::string_view text, int64_t* value) {
  return !text.empty() && text.size() <= 18 &&
         std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isdigit(c); }) &&
         absl::SimpleAtoi(text, value);
}

// "001-003,007" -> 001 002 003 007.
absl::StatusOr<std::vector<std::string>> ExpandRanges(absl::string_view what, absl::string_view entry,
                                                      absl::string_view ranges) {
  std::vector<std::string> numbers;
  for (absl::string_view range : absl::StrSplit(ranges, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(range, absl::MaxSplits('-', 1));
    const bool is_single = ends.first.size() == range.size();
    int64_t first = 0;
    int64_t last = 0;
    if (!ParseNumber(ends.first, &first) || !ParseNumber(is_single ? ends.first : ends.second, &last)) {
      return Malformed(what, entry, absl::StrCat("'", range.substr(0, 50), "' is no number or range"));
    }
    if (last < first) return Malformed(what, entry, absl::StrCat("the range '", range, "' runs backwards"));
    if (last - first >= kMaxHostListEntries - static_cast<int64_t>(numbers.size())) return TooMany(what);
    for (int64_t number = first; number <= last; ++number) {
      numbers.push_back(absl::StrFormat("%0*d", static_cast<int>(ends.first.size()), number));
    }
  }
  return numbers;
}

// Splits at commas outside brackets.
absl::StatusOr<std::vector<absl::string_view>> SplitEntries(absl::string_view what, absl::string_view list) {
  std::vector<absl::string_view> entries;
  bool in_brackets = false;
  size_t begin = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i == list.size() || (list[i] == ',' && !in_brackets)) {
      entries.push_back(absl::StripAsciiWhitespace(list.substr(begin, i - begin)));
      begin = i + 1;
    } else if (list[i] == '[' || list[i] == ']') {
      if (in_brackets != (list[i] == ']')) return Malformed(what, list, "its brackets do not match");
      in_brackets = !in_brackets;
    }
  }
  if (in_brackets) return Malformed(what, list, "a bracket is not closed");
  for (absl::string_view entry : entries) {
    if (entry.empty()) return Malformed(what, list, "a name is missing");
  }
  return entries;
}

bool IsIpv6(absl::string_view entry) {
  return entry.size() > 2 && entry.front() == '[' && entry.back() == ']' &&
         entry.find(']') + 1 == entry.size() && absl::StrContains(entry, ':');
}

absl::Status AppendNames(absl::string_view what, absl::string_view entry, std::vector<std::string>* names) {
  if (IsIpv6(entry)) {
    const absl::string_view address = entry.substr(1, entry.size() - 2);
    for (const char c : address) {
      if (!absl::ascii_isxdigit(c) && c != ':' && c != '.')
        return Malformed(what, entry, "is no IPv6 address");
    }
    names->push_back(std::string(address));
    return absl::OkStatus();
  }
  if (entry.empty()) return Malformed(what, entry, "a host's name is missing");
  if (entry.front() == '-') return Malformed(what, entry, "begins with '-', as no host's name does");
  std::vector<std::string> expanded = {""};
  for (absl::string_view left = entry; !left.empty();) {
    const absl::string_view text = left.substr(0, left.find('['));
    if (!IsNameText(text)) return Malformed(what, entry, "has a character that cannot be in a host's name");
    left.remove_prefix(text.size());
    std::vector<std::string> numbers = {""};
    if (!left.empty()) {
      const size_t end = left.find(']');  // there is one: SplitEntries saw it
      WEIR_ASSIGN_OR_RETURN(numbers, ExpandRanges(what, entry, left.substr(1, end - 1)));
      left.remove_prefix(end + 1);
    }
    if (expanded.size() * numbers.size() > kMaxHostListEntries) return TooMany(what);
    std::vector<std::string> longer;
    for (const std::string& begin : expanded) {
      for (const std::string& number : numbers) longer.push_back(absl::StrCat(begin, text, number));
    }
    if (longer.front().size() > kMaxNameBytes) return Malformed(what, entry, "is too long for a host's name");
    expanded = std::move(longer);
  }
  if (names->size() + expanded.size() > kMaxHostListEntries) return TooMany(what);
  names->insert(names->end(), expanded.begin(), expanded.end());
  return absl::OkStatus();
}

// Takes ":4" off the end of "gpu[1-2]:4"; 1 where there is none.
absl::StatusOr<int> TakeSlots(absl::string_view what, absl::string_view* entry) {
  const size_t colon = entry->rfind(':');
  if (colon == absl::string_view::npos || entry->find(']', colon) != absl::string_view::npos) return 1;
  int64_t slots = 0;
  if (!ParseNumber(entry->substr(colon + 1), &slots) || slots < 1) {
    return Malformed(what, *entry,
                     absl::StrCat("'", entry->substr(colon + 1), "' is no number of slots (1 or more)"));
  }
  if (slots > kMaxHostListEntries) return TooMany(what);
  *entry = entry->substr(0, colon);
  return static_cast<int>(slots);
}

absl::Status AppendSlots(absl::string_view what, absl::string_view entry, int num_slots,
                         std::vector<HostSlots>* hosts) {
  std::vector<std::string> names;
  WEIR_RETURN_IF_ERROR(AppendNames(what, entry, &names));
  for (std::string& name : names) hosts->push_back({std::move(name), num_slots});
  return hosts->size() > kMaxHostListEntries ? TooMany(what) : absl::OkStatus();
}

absl::Status CheckSlots(absl::string_view what, const std::vector<HostSlots>& hosts) {
  std::set<absl::string_view> seen;
  int64_t total = 0;
  for (const HostSlots& host : hosts) {
    if (!seen.insert(host.host).second) return Malformed(what, host.host, "is given twice");
    total += host.num_slots;
  }
  return total > kMaxHostListEntries ? TooMany(what) : absl::OkStatus();
}

absl::Status AppendLine(absl::string_view what, absl::string_view line, std::vector<HostSlots>* hosts) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  if (words.empty()) return absl::OkStatus();
  absl::string_view name = words[0];
  WEIR_ASSIGN_OR_RETURN(int num_slots, TakeSlots(what, &name));
  for (size_t i = 1; i < words.size(); ++i) {
    absl::string_view count = words[i];
    int64_t slots = 0;
    if (!absl::ConsumePrefix(&count, "slots=") || !ParseNumber(count, &slots) || slots < 1) {
      return Malformed(what, line, absl::StrCat("'", words[i].substr(0, 50), "' is not of the form slots=N"));
    }
    if (slots > kMaxHostListEntries) return TooMany(what);
    num_slots = static_cast<int>(slots);
  }
  WEIR_RETURN_IF_ERROR(SplitEntries(what, name).status());  // its brackets match
  return AppendSlots(what, name, num_slots, hosts);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandHostList(absl::string_view what, absl::string_view list) {
  WEIR_ASSIGN_OR_RETURN(const std::vector<absl::string_view> entries, SplitEntries(what, list));
  std::vector<std::string> names;
  for (absl::string_view entry : entries) WEIR_RETURN_IF_ERROR(AppendNames(what, entry, &names));
  return names;
}

absl::StatusOr<std::vector<int>> ExpandTaskCounts(absl::string_view what, absl::string_view list) {
  std::vector<int> counts;
  for (absl::string_view entry : absl::StrSplit(list, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(absl::StripAsciiWhitespace(entry), absl::MaxSplits("(x", 1));
    int64_t count = 0;
    int64_t repeats = 1;
    absl::string_view repeat = parts.second;
    const bool is_repeated = absl::StrContains(entry, "(x");
    if (!ParseNumber(parts.first, &count) || count < 1 ||
        (is_repeated &&
         (!absl::ConsumeSuffix(&repeat, ")") || !ParseNumber(repeat, &repeats) || repeats < 1))) {
      return Malformed(what, list, absl::StrCat("'", entry.substr(0, 50), "' is not of the form 2 or 2(x3)"));
    }
    if (count > kMaxHostListEntries || repeats > kMaxHostListEntries - static_cast<int64_t>(counts.size())) {
      return TooMany(what);
    }
    counts.insert(counts.end(), repeats, static_cast<int>(count));
  }
  return counts;
}

absl::StatusOr<std::vector<HostSlots>> ParseHostSlots(absl::string_view what, absl::string_view list) {
  WEIR_ASSIGN_OR_RETURN(const std::vector<absl::string_view> entries, SplitEntries(what, list));
  std::vector<HostSlots> hosts;
  for (absl::string_view entry : entries) {
    WEIR_ASSIGN_OR_RETURN(const int num_slots, TakeSlots(what, &entry));
    WEIR_RETURN_IF_ERROR(AppendSlots(what, entry, num_slots, &hosts));
  }
  WEIR_RETURN_IF_ERROR(CheckSlots(what, hosts));
  return hosts;
}

absl::StatusOr<std::vector<HostSlots>> ParseHostFile(absl::string_view what, absl::string_view text) {
  std::vector<HostSlots> hosts;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    WEIR_RETURN_IF_ERROR(AppendLine(what, line.substr(0, line.find('#')), &hosts));
  }
  if (hosts.empty()) return absl::InvalidArgumentError(absl::StrCat(what, ": names no host"));
  WEIR_RETURN_IF_ERROR(CheckSlots(what, hosts));
  return hosts;
}

absl::StatusOr<std::vector<HostSlots>> ReadHostFile(const std::string& path) {
  const std::string what = absl::StrCat("host file '", path, "'");
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  if (!file || !(file.read(text.data(), static_cast<std::streamsize>(text.size())) || file.eof())) {
    return absl::NotFoundError(absl::StrCat(what, " cannot be read"));
  }
  text.resize(file.gcount());
  if (text.size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(what, " has more than ", kMaxFileBytes, " bytes"));
  }
  return ParseHostFile(what, text);
}

}  // namespace weir
