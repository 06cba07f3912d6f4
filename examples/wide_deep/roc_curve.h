// How well scores tell two classes apart.
#pragma once

#include <vector>

namespace weir::examples {

struct ScoredLabel {
  float score = 0;
  bool is_positive = false;
};

// The area under the ROC curve: how probable it is that a positive one has a higher score than a negative
// one; equal scores count half (Mann and Whitney, 1947). 0.5 where one of the classes is missing. NaN is
// below all.
double AreaUnderRocCurve(std::vector<ScoredLabel> scores);

}  // namespace weir::examples
