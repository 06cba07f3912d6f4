// Tables for people: columns as wide as their widest cell; and numbers as people read them.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace weir {

class TextTable {
 public:
  // Columns whose index is in `right_aligned` hold numbers.
  explicit TextTable(std::vector<int> right_aligned = {}) : right_aligned_(std::move(right_aligned)) {}

  // A cell is part of one line: its control characters are escaped (PrintableText).
  void AddRow(std::vector<std::string> cells);
  // Every row indented by two spaces.
  void Print(std::ostream& out) const;

 private:
  std::vector<int> right_aligned_;
  std::vector<std::vector<std::string>> rows_;
};

// "60,245".
std::string WithThousands(uint64_t number);
// "1 tensor", "2 tensors".
std::string Counted(uint64_t number, const std::string& noun);

}  // namespace weir
