#include "distributed/task_status.h"

#include <cstdint>

#include "distributed/transport/wire.h"
#include "graph/types/status_macros.h"

namespace weir {

std::string EncodeTaskStatus(const TaskStatus& status) {
  WireWriter writer;
  writer.String(status.task.job);
  writer.Unsigned(static_cast<uint64_t>(status.task.index));
  writer.Fixed64(status.incarnation);
  writer.String(status.version);
  writer.Signed(absl::ToUnixMicros(status.clock));
  writer.String(status.cluster);
  return writer.Take();
}

absl::StatusOr<TaskStatus> DecodeTaskStatus(absl::string_view bytes) {
  WireReader reader(bytes);
  TaskStatus status;
  status.task.job = std::string(reader.String());
  status.task.index = static_cast<int>(reader.UnsignedUpTo(INT32_MAX));
  status.incarnation = reader.Fixed64();
  status.version = std::string(reader.String());
  status.clock = absl::FromUnixMicros(reader.Signed());
  status.cluster = std::string(reader.String());
  WEIR_RETURN_IF_ERROR(reader.Finish("the status of a task"));
  return status;
}

}  // namespace weir
