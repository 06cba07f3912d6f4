#include "distributed/command/scalar_plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/drawing.h"
#include "graph/types/printable_text.h"

namespace weir {
namespace {

using Points = std::vector<std::pair<int64_t, double>>;

struct Range {
  double low, high;
  // Where `value` lies, from 0 to 1; in the middle when there is but one value.
  double Place(double value) const {
    // Halves first: the difference of two large numbers may be infinite.
    const double span = high / 2 - low / 2;
    return span > 0 ? (value / 2 - low / 2) / span : 0.5;
  }
};

Range RangeOfValues(const Points& points) {
  Range range = {points[0].second, points[0].second};
  for (const auto& [step, value] : points) range = {std::min(range.low, value), std::max(range.high, value)};
  return range;
}

Range RangeOfSteps(const Points& points) {
  return {static_cast<double>(points.front().first), static_cast<double>(points.back().first)};
}

std::string Remark(const ScalarCurve& curve) {
  if (curve.num_unusable() == 0) return "";
  return absl::StrCat("  (", curve.num_unusable(), " not finite)");
}

}  // namespace

void ScalarCurve::Add(int64_t step, double value) {
  if (!std::isfinite(value)) {
    ++num_unusable_;
    return;
  }
  if (has_last_ && step <= last_.first) {
    while (!kept_.empty() && kept_.back().first >= step) kept_.pop_back();
  }
  last_ = {step, value};
  has_last_ = true;
  if (num_added_++ % stride_ == 0) kept_.push_back(last_);
  if (kept_.size() < kMaxPoints) return;
  for (size_t i = 0; 2 * i < kept_.size(); ++i) kept_[i] = kept_[2 * i];
  kept_.resize((kept_.size() + 1) / 2);
  stride_ *= 2;
}

std::vector<std::pair<int64_t, double>> ScalarCurve::points() const {
  Points points = kept_;
  if (has_last_ && (points.empty() || points.back() != last_)) points.push_back(last_);
  return points;
}

std::string PlotInText(const ScalarCurve& curve, int width, int height) {
  const Points points = curve.points();
  std::string text = absl::StrCat(PrintableText(curve.tag()), Remark(curve), "\n");
  if (points.empty()) return text + "  nothing to draw\n";
  const Range values = RangeOfValues(points), steps = RangeOfSteps(points);
  constexpr int kLabelWidth = 10;
  const int columns = std::max(10, width - kLabelWidth - 2);
  std::vector<std::string> rows(std::max(2, height), std::string(columns, ' '));
  const int num_rows = static_cast<int>(rows.size());
  for (const auto& [step, value] : points) {
    const int column = static_cast<int>(std::lround(steps.Place(static_cast<double>(step)) * (columns - 1)));
    const int row = num_rows - 1 - static_cast<int>(std::lround(values.Place(value) * (num_rows - 1)));
    rows[row][column] = '*';
  }
  for (int row = 0; row < num_rows; ++row) {
    const double place = 1.0 - static_cast<double>(row) / (num_rows - 1);
    const bool is_labelled = row == 0 || row == num_rows - 1 || (num_rows > 4 && row == num_rows / 2);
    const double value = values.low * (1 - place) + values.high * place;
    absl::StrAppendFormat(
        &text, "%*s |%s\n", kLabelWidth, is_labelled ? absl::StrFormat("%.4g", value) : "",
        std::string(rows[row].begin(), rows[row].begin() + rows[row].find_last_not_of(' ') + 1));
  }
  absl::StrAppendFormat(&text, "%*s +%s\n", kLabelWidth, "", std::string(columns, '-'));
  const std::string first = absl::StrCat(points.front().first), last = absl::StrCat(points.back().first);
  const int blank = std::max<int>(1, columns - static_cast<int>(first.size() + last.size()));
  absl::StrAppendFormat(&text, "%*s  %s%*s%s\n", kLabelWidth, "step", first, blank, "",
                        first == last ? "" : last);
  return text;
}

std::string PlotInSvg(const std::vector<ScalarCurve>& curves, absl::string_view title) {
  constexpr int kWidth = 460, kHeight = 260, kLeft = 64, kTop = 34, kRight = 16, kBottom = 34;
  const int num_rows = (static_cast<int>(curves.size()) + 1) / 2;
  const int num_columns = curves.size() < 2 ? 1 : 2;
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      num_columns * kWidth, std::max(1, num_rows) * kHeight, XmlText(title));
  for (size_t i = 0; i < curves.size(); ++i) {
    const int left = static_cast<int>(i % 2) * kWidth + kLeft, top = static_cast<int>(i / 2) * kHeight + kTop;
    const int width = kWidth - kLeft - kRight, height = kHeight - kTop - kBottom;
    absl::StrAppendFormat(&svg, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s</text>\n", left, top - 12,
                          XmlText(curves[i].tag() + Remark(curves[i])));
    absl::StrAppendFormat(
        &svg, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#999\"/>\n", left,
        top, width, height);
    const Points points = curves[i].points();
    if (points.empty()) continue;
    const Range values = RangeOfValues(points), steps = RangeOfSteps(points);
    for (const double place : {0.0, 0.5, 1.0}) {
      absl::StrAppendFormat(&svg, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n", left - 6,
                            top + height - place * height + 4,
                            values.low * (1 - place) + values.high * place);
    }
    absl::StrAppendFormat(&svg, "<text x=\"%d\" y=\"%d\">%d</text>\n", left, top + height + 16,
                          points.front().first);
    absl::StrAppendFormat(&svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%d</text>\n", left + width,
                          top + height + 16, points.back().first);
    svg += "<polyline fill=\"none\" stroke=\"#1f77b4\" stroke-width=\"1.5\" points=\"";
    for (const auto& [step, value] : points) {
      absl::StrAppendFormat(&svg, "%.1f,%.1f ", left + steps.Place(static_cast<double>(step)) * width,
                            top + height - values.Place(value) * height);
    }
    svg += "\"/>\n";
  }
  return svg + "</svg>\n";
}

}  // namespace weir
