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

  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // Every row indented by two spaces.
  void Print(std::ostream& out) const;

 private:
  std::vector<int> right_aligned_;
  std::vector<std::vector<std::string>> rows_;
};

// "60,245".
std::string WithThousands(uint64_t number);
// "512 B", "1.2 MB"; powers of 1000.
std::string HumanBytes(uint64_t num_bytes);
// "1 tensor", "2 tensors".
std::string Counted(uint64_t number, const std::string& noun);

}  // namespace weir
