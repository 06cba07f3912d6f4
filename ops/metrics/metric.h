// A metric: a number about many batches, kept in local variables that every batch changes.
//
//   const Metric accuracy = metrics::Accuracy(g, labels, predictions);
//   session->Run({}, {}, {InitializeLocalVariables(g)});             // begins at zero, also again
//   for (batches) session->Run(feeds, {accuracy.update});
//   session->Run({}, {accuracy.value});
//
// Names are those of tf.metrics ("accuracy/total"). Local variables are not saved and not trained; a metric
// made twice counts twice. Errors, InvalidArgument, stick in the builder.
#pragma once

#include <variant>

#include "graph/graph_builder.h"
#include "ops/variable.h"

namespace weir {

struct Metric {
  Output value;   // of all batches so far: a float scalar
  Output update;  // counts the batch, and gives the value after it
};

namespace metrics {

struct MetricOptions {
  // How much each element counts: a number, or a tensor that is a scalar or has each dimension of the
  // elements or 1 in its place.
  std::variant<double, Output> weights = 1.0;
  absl::string_view name = "";  // "": the function's
};

// A local float variable of zeros below the name scope.
ModelVariable MakeTotal(GraphBuilder& g, absl::string_view name, const Shape& shape, SourceLocation where);

// Adds to a total, and gives it after that.
Output AddToTotal(GraphBuilder& g, const ModelVariable& total, Output amount, SourceLocation where);

// The sum of elements * weights.
Output WeightedSum(GraphBuilder& g, Output elements, const MetricOptions& options, SourceLocation where);

}  // namespace metrics
}  // namespace weir
