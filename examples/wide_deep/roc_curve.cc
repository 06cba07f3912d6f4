#include "examples/wide_deep/roc_curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weir::examples {

double AreaUnderRocCurve(std::vector<ScoredLabel> scores) {
  for (ScoredLabel& one : scores) {
    if (std::isnan(one.score)) one.score = -std::numeric_limits<float>::infinity();
  }
  std::sort(scores.begin(), scores.end(), [](const auto& a, const auto& b) { return a.score < b.score; });
  double negatives = 0, positives = 0, pairs = 0;
  for (size_t begin = 0, end = 0; begin < scores.size(); begin = end) {
    double tied_positives = 0, tied_negatives = 0;
    for (; end < scores.size() && scores[end].score == scores[begin].score; ++end) {
      ++(scores[end].is_positive ? tied_positives : tied_negatives);
    }
    pairs += tied_positives * (negatives + tied_negatives / 2);
    negatives += tied_negatives;
    positives += tied_positives;
  }
  return positives > 0 && negatives > 0 ? pairs / (positives * negatives) : 0.5;
}

}  // namespace weir::examples
