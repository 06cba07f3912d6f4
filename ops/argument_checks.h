// Checks of what users give to layers, losses, metrics, optimizers and learning rates. A failed one is an
// InvalidArgument in the builder that says who was asked (`asker`), which argument it is, and what it is.
#pragma once

#include <initializer_list>

#include "absl/strings/string_view.h"
#include "graph/graph_builder.h"

namespace weir {

// Whether the output is there. After an earlier error it may be missing without another.
bool CheckGiven(GraphBuilder& g, absl::string_view asker, absl::string_view argument, const Output& value,
                SourceLocation where);

struct NamedNumber {
  absl::string_view argument;
  double value;
};

// Whether all numbers are finite. TensorFlow takes others as well, and every variable is NaN after one step.
bool CheckFinite(GraphBuilder& g, absl::string_view asker, std::initializer_list<NamedNumber> numbers,
                 SourceLocation where);

}  // namespace weir
