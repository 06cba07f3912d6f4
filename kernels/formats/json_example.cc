#include "kernels/formats/json_example.h"

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"
#include "graph/interchange/message_form.h"
#include "graph/interchange/proto/example.pb.h"

namespace weir {

absl::StatusOr<std::string> ExampleFromJson(absl::string_view json) {
  tensorflow::Example example;
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(json.data(), json.size()), &example);
  if (!status.ok()) {
    const auto reason = status.message();
    return absl::InvalidArgumentError(
        absl::StrCat("Error while parsing JSON: ", absl::string_view(reason.data(), reason.size())));
  }
  return MessageBytes(example, "the example");
}

}  // namespace weir
