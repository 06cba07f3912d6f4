// For tests: what a step gave, where each result is one number.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "graph/types/tensor.h"
#include "gtest/gtest.h"

namespace weir {

// Empty after an error, which fails the test.
inline std::vector<float> Scalars(const absl::StatusOr<std::vector<Tensor>>& tensors) {
  std::vector<float> result;
  EXPECT_TRUE(tensors.ok()) << tensors.status();
  if (!tensors.ok()) return result;
  for (const Tensor& tensor : *tensors) result.push_back(tensor.scalar<float>());
  return result;
}

}  // namespace weir
