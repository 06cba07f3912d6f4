// Summaries that training writes for TensorBoard (tf.summary).
//
//   AddScalarSummary(g, "loss", loss);
//   AddHistogramSummary(g, "logits", logits);
//
// Each adds an op that makes a serialized Summary and puts it into the collection "summaries", of which a
// training session's summary hook writes all (SummarySaverHook). A tag is below the builder's name scope:
// "tower/loss"; the second one of a name gets a number, "loss_1". Null outputs, after an error in the
// builder, add nothing.
#pragma once

#include "absl/strings/string_view.h"
#include "graph/graph_builder.h"

namespace weir {

// Of a scalar of any real dtype.
Output AddScalarSummary(GraphBuilder& g, absl::string_view tag, Output value,
                        SourceLocation where = SourceLocation::Current());
// Of the elements of a tensor of any real dtype. A NaN or an infinity among them ends the step with an error.
Output AddHistogramSummary(GraphBuilder& g, absl::string_view tag, Output values,
                           SourceLocation where = SourceLocation::Current());
// Any serialized Summary, a string scalar, made by an op.
void AddSummary(GraphBuilder& g, Output summary);

}  // namespace weir
