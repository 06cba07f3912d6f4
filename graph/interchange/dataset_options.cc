#include "graph/interchange/dataset_options.h"

#include "graph/interchange/message_form.h"
#include "graph/interchange/proto/dataset_options.pb.h"
#include "graph/types/status_macros.h"

namespace weir {

absl::StatusOr<DatasetOptions> ParseDatasetOptions(absl::string_view serialized) {
  tensorflow::data::Options message;
  WEIR_RETURN_IF_ERROR(ParseMessageBytes(serialized, "the options of a dataset", &message));
  const tensorflow::data::OptimizationOptions& wanted = message.optimization_options();
  DatasetOptions options;
  options.noop_elimination = wanted.noop_elimination();
  options.shuffle_and_repeat_fusion = wanted.shuffle_and_repeat_fusion();
  options.map_parallelization = wanted.map_parallelization();
  options.map_fusion = wanted.map_fusion();
  options.filter_fusion = wanted.filter_fusion();
  options.map_and_filter_fusion = wanted.map_and_filter_fusion();
  options.map_and_batch_fusion = wanted.map_and_batch_fusion();
  options.filter_parallelization = wanted.filter_parallelization();
  options.inject_prefetch = wanted.inject_prefetch();
  options.autotune = !message.autotune_options().has_enabled() || message.autotune_options().enabled();
  if (message.has_external_state_policy()) options.external_state_policy = message.external_state_policy();
  return options;
}

}  // namespace weir
