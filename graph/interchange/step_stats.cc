#include "graph/interchange/step_stats.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/interchange/message_form.h"
#include "graph/interchange/proto/step_stats.pb.h"

namespace weir {

absl::StatusOr<std::string> RunMetadataBytes(const StepStats& stats) {
  tensorflow::RunMetadata metadata;
  for (const DeviceStats& device : stats.devices) {
    tensorflow::DeviceStepStats& of_device = *metadata.mutable_step_stats()->add_dev_stats();
    of_device.set_device(device.device);
    for (const NodeStats& node : device.nodes) {
      tensorflow::NodeExecStats& entry = *of_device.add_node_stats();
      const int64_t duration = node.end_nanos - node.begin_nanos;
      entry.set_node_name(node.node);
      entry.set_timeline_label(
          absl::StrCat(node.node, " = ", node.op, "(", absl::StrJoin(node.inputs, ", "), ")"));
      entry.set_thread_id(node.thread);
      entry.set_scheduled_nanos(node.begin_nanos);
      entry.set_scheduled_micros(node.begin_nanos / 1000);
      entry.set_all_start_nanos(node.begin_nanos);
      entry.set_all_start_micros(node.begin_nanos / 1000);
      entry.set_op_end_rel_nanos(duration);
      entry.set_op_end_rel_micros(duration / 1000);
      entry.set_all_end_rel_nanos(duration);
      entry.set_all_end_rel_micros(duration / 1000);
    }
  }
  return MessageBytes(metadata, "the step's metadata");
}

}  // namespace weir
