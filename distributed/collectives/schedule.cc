#include "distributed/collectives/schedule.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "graph/node.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// FNV-1a: the same in every process.
uint64_t Fingerprint(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

template <typename T>
std::string ValueOf(const Node& node, absl::string_view attr) {
  const auto it = node.attrs().find(attr);
  const T* const value = it == node.attrs().end() ? nullptr : it->second.get_if<T>();
  return value == nullptr ? "" : absl::StrCat(" ", *value);
}

std::string LineOf(const Node& node, int64_t group, int64_t instance) {
  const bool is_broadcast = absl::StartsWith(node.op_name(), "CollectiveBcast");
  std::string line =
      absl::StrCat("key (", group, ", ", instance, "): '", node.name(), "', ",
                   is_broadcast ? "broadcast" : node.op_name(), ValueOf<std::string>(node, "merge_op"),
                   ValueOf<std::string>(node, "final_op"), ValueOf<std::string>(node, "wire"));
  if (node.num_outputs() > 0) {
    absl::StrAppend(&line, " of ", TypeString(node.output_type(0), node.output_shape(0)));
  }
  return line;
}

std::string NthOf(const std::vector<std::string>& lines, size_t i) {
  return i < lines.size() ? lines[i] : "nothing more";
}

}  // namespace

std::vector<std::string> ScheduleOf(const Graph& graph, int64_t device_group) {
  std::vector<std::pair<Communicator::Key, std::string>> keyed;
  for (const std::unique_ptr<Node>& node : graph.nodes()) {
    const auto key_of = [&](absl::string_view attr) -> const int64_t* {
      const auto it = node->attrs().find(attr);
      return it == node->attrs().end() ? nullptr : it->second.get_if<int64_t>();
    };
    const int64_t* const group = key_of("group_key");
    const int64_t* const instance = key_of("instance_key");
    if (group == nullptr || instance == nullptr) continue;
    if (*group >= Communicator::kFirstDeviceGroup && *group != device_group) continue;  // not between ranks
    keyed.push_back({{*group, *instance}, LineOf(*node, *group, *instance)});
  }
  std::sort(keyed.begin(), keyed.end());
  std::vector<std::string> lines;
  for (auto& [key, line] : keyed) lines.push_back(std::move(line));
  return lines;
}

absl::StatusOr<Tensor> AwaitCollective(Environment& environment,
                                       absl::FunctionRef<void(Communicator::Done done)> begin) {
  struct Outcome {
    absl::Mutex mutex;
    std::optional<absl::StatusOr<Tensor>> told;
  };
  const auto outcome = std::make_shared<Outcome>();
  begin([outcome](absl::StatusOr<Tensor> result) {
    absl::MutexLock lock(&outcome->mutex);
    outcome->told = std::move(result);
  });
  absl::MutexLock lock(&outcome->mutex);
  const auto is_told = [&outcome] { return outcome->told.has_value(); };
  environment.Await(outcome->mutex, absl::Condition(&is_told));
  return *std::move(outcome->told);
}

absl::Status CompareSchedules(RankGroup& ranks, Environment& environment, const Communicator::Call& call,
                              const std::vector<std::string>& schedule) {
  const std::string text = absl::StrJoin(schedule, "\n");
  const auto gather = [&](const Tensor& tensor) {
    return AwaitCollective(environment,
                           [&](Communicator::Done done) { ranks.AllGather(call, tensor, std::move(done)); });
  };
  WEIR_ASSIGN_OR_RETURN(const Tensor all,
                        gather(Tensor::From<int64_t>(Shape({1, 2}), {static_cast<int64_t>(Fingerprint(text)),
                                                                     static_cast<int64_t>(text.size())})));
  const absl::Span<const int64_t> told = all.flat<int64_t>();
  bool are_equal = static_cast<int64_t>(told.size()) == 2 * ranks.size();
  if (!are_equal) {
    return absl::InvalidArgumentError(absl::StrCat("each of ", ranks.size(), " ranks must say 2 numbers of ",
                                                   "its graph; ", told.size(), " came"));
  }
  for (int rank = 0; rank < ranks.size(); ++rank) {
    are_equal = are_equal && told[2 * rank] == told[0] && told[2 * rank + 1] == told[1];
  }
  if (are_equal) return absl::OkStatus();
  Tensor bytes(DType::kUint8, Shape({static_cast<int64_t>(text.size())}));
  std::copy(text.begin(), text.end(), bytes.flat<uint8_t>().begin());
  WEIR_ASSIGN_OR_RETURN(const Tensor texts, gather(bytes));
  // Nobody leaves with the error before all can say what it is.
  AwaitCollective(environment, [&](Communicator::Done done) {
    ranks.Barrier(call, [done = std::move(done)](const absl::Status& status) {
      done(status.ok() ? absl::StatusOr<Tensor>(Tensor()) : absl::StatusOr<Tensor>(status));
    });
  }).IgnoreError();
  const absl::Span<const uint8_t> joined = texts.flat<uint8_t>();
  std::vector<std::vector<std::string>> schedules;
  size_t begin = 0;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto num_bytes = static_cast<size_t>(told[2 * rank + 1]);
    if (num_bytes > joined.size() - begin) return absl::InvalidArgumentError("a schedule is not whole");
    const auto one = joined.subspan(begin, num_bytes);
    schedules.push_back(absl::StrSplit(
        absl::string_view(reinterpret_cast<const char*>(one.data()), one.size()), '\n', absl::SkipEmpty()));
    begin += num_bytes;
  }
  for (int rank = 1; rank < ranks.size(); ++rank) {
    for (size_t i = 0; i < std::max(schedules[0].size(), schedules[rank].size()); ++i) {
      if (NthOf(schedules[0], i) == NthOf(schedules[rank], i)) continue;
      return absl::InvalidArgumentError(absl::StrCat("the ranks' graphs differ: ", ranks.NameOf(0), " has ",
                                                     NthOf(schedules[0], i), "; ", ranks.NameOf(rank),
                                                     " has ", NthOf(schedules[rank], i)));
    }
  }
  return absl::OkStatus();
}

}  // namespace weir
