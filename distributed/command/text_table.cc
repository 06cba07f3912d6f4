#include "distributed/command/text_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/printable_text.h"

namespace weir {

void TextTable::AddRow(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = PrintableText(cell);
  rows_.push_back(std::move(cells));
}

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
    digits.insert(position, 1, ',');
  return digits;
}

std::string Counted(uint64_t number, const std::string& noun) {
  return absl::StrCat(WithThousands(number), " ", noun, number == 1 ? "" : "s");
}

}  // namespace weir
