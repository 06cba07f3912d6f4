#include "kernels/formats/reader_state.h"

#include "graph/interchange/message_form.h"
#include "graph/interchange/proto/reader_state.pb.h"

namespace weir {

std::string SerializedReaderState(const ReaderState& state) {
  tensorflow::ReaderBaseState message;
  message.set_work_started(state.num_units_begun);
  message.set_work_finished(state.num_units_completed);
  message.set_num_records_produced(state.num_records);
  message.set_current_work(state.last_unit);
  return message.SerializeAsString();
}

absl::StatusOr<ReaderState> ParseReaderState(absl::string_view bytes) {
  tensorflow::ReaderBaseState message;
  if (!ParseMessageBytes(bytes, "it", &message).ok()) {
    return absl::InvalidArgumentError("it is no ReaderBaseState message");
  }
  return ReaderState{message.work_started(), message.work_finished(), message.num_records_produced(),
                     message.current_work()};
}

}  // namespace weir
