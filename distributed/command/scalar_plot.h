// Curves of scalars over steps: in the terminal, and as SVG.
//
// Memory: a curve keeps at most kMaxPoints; of longer ones it keeps every second, fourth... point, and the
// last. Values that are no numbers or infinite are counted, not drawn. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace weir {

class ScalarCurve {
 public:
  static constexpr size_t kMaxPoints = 4096;

  explicit ScalarCurve(std::string tag) : tag_(std::move(tag)) {}

  // Steps usually rise. One that is not above the last begins a part that was run again after a restart: what
  // was there from that step on is dropped, as TensorBoard does.
  void Add(int64_t step, double value);

  const std::string& tag() const { return tag_; }
  // Steps and values, by step; the last one added is always there.
  std::vector<std::pair<int64_t, double>> points() const;
  int64_t num_unusable() const { return num_unusable_; }

 private:
  std::string tag_;
  std::vector<std::pair<int64_t, double>> kept_;
  std::pair<int64_t, double> last_;
  bool has_last_ = false;
  int64_t stride_ = 1;  // of the points added, every stride-th is kept
  int64_t num_added_ = 0;
  int64_t num_unusable_ = 0;
};

// The tag, then `height` lines of at most `width` characters: values at the left edge, steps below.
std::string PlotInText(const ScalarCurve& curve, int width = 72, int height = 12);

// One picture with a chart for each curve, two in a row.
std::string PlotInSvg(const std::vector<ScalarCurve>& curves, absl::string_view title);

}  // namespace weir
