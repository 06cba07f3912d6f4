#include "distributed/command/text_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace weir {

void TextTable::Print(std::ostream& out) const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      const bool is_right =
          std::find(right_aligned_.begin(), right_aligned_.end(), i) != right_aligned_.end();
      absl::StrAppend(&line, "  ", is_right ? padding : "", row[i], is_right ? "" : padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << "\n";
  }
}

std::string WithThousands(uint64_t number) {
  std::string digits = absl::StrCat(number);
  for (int position = static_cast<int>(digits.size()) - 3; position > 0; position -= 3)
    digits.insert(position, ",");
  return digits;
}

std::string HumanBytes(uint64_t num_bytes) {
  if (num_bytes < 1000) return absl::StrCat(num_bytes, " B");
  double value = static_cast<double>(num_bytes);
  const char* unit = "B";
  for (const char* larger : {"kB", "MB", "GB", "TB"}) {
    if (value < 999.95) break;
    value /= 1000;
    unit = larger;
  }
  return absl::StrFormat("%.1f %s", value, unit);
}

std::string Counted(uint64_t number, const std::string& noun) {
  return absl::StrCat(WithThousands(number), " ", noun, number == 1 ? "" : "s");
}

}  // namespace weir
