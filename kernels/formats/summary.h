// Summaries for TensorBoard, as the serialized tensorflow.Summary that summary ops output and event files
// hold.
//
// Histograms use TensorFlow's buckets: limits grow by a tenth from 1e-12 to 1e20 on both sides of zero; runs
// of empty buckets become one. Functions without state, safe from any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/types/tensor.h"

namespace weir {

std::string ScalarSummary(absl::string_view tag, float value);

// Of all elements of a real numeric tensor. InvalidArgument, naming the tag, for other dtypes and for NaN or
// infinite elements.
absl::StatusOr<std::string> HistogramSummary(absl::string_view tag, const Tensor& values);

// All values of the given summaries in one. InvalidArgument when one does not parse, or when a tag occurs
// twice.
absl::StatusOr<std::string> MergeSummaries(absl::Span<const std::string> summaries);

}  // namespace weir
