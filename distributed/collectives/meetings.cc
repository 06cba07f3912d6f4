#include "distributed/collectives/meetings.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

using Kind = CollectiveSignature::Kind;

absl::Status WithName(const Communicator::Call& call, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("collective '", call.name, "': ", status.message()));
}

absl::Status IsOver() { return absl::CancelledError("the step is over"); }

// What a device that has joined puts in.
absl::StatusOr<Meetings::Rows> NothingOf(const CollectiveSignature& signature) {
  Meetings::Rows rows = {.is_there = false};
  switch (signature.kind) {
    case Kind::kAllReduce:
    case Kind::kReduceScatter: {
      if (signature.reduction != Reduction::kSum && signature.reduction != Reduction::kAdasum) {
        return absl::InvalidArgumentError("zeros would change it");
      }
      const DType dtype = signature.wire == DType::kInvalid ? signature.dtype : signature.wire;
      WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(signature.dims));
      WEIR_ASSIGN_OR_RETURN(rows.tensor, Tensor::Allocate(dtype, shape));
      std::fill_n(static_cast<char*>(rows.tensor.data()), rows.tensor.num_bytes(), 0);
      return rows;
    }
    case Kind::kAllGather:
    case Kind::kAllToAll: {
      Dims dims = {0};
      dims.insert(dims.end(), signature.dims.begin(), signature.dims.end());
      WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
      WEIR_ASSIGN_OR_RETURN(rows.tensor, Tensor::Allocate(signature.dtype, shape));
      return rows;
    }
    case Kind::kBroadcast:
    case Kind::kBarrier:
    case Kind::kJoin:
      break;
  }
  return rows;
}

}  // namespace

uint64_t Meetings::Watch(const Communicator::Call& call, std::function<void()> end) {
  if (call.cancellation == nullptr) return 0;
  return call.cancellation->OnCancel([end = std::move(end)](const absl::Status&) { end(); });
}

absl::Status Meetings::CheckLocked(int device, const Communicator::Call& call,
                                   const CollectiveSignature& signature, const Meeting& meeting) const {
  if (joined_.contains(device)) {
    return absl::FailedPreconditionError(absl::StrCat(devices_[device], " has joined, and others have not"));
  }
  if (meeting.arrivals.empty()) return absl::OkStatus();
  if (!(meeting.signature == signature)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the devices do not compute the same: ", devices_[meeting.arrivals.begin()->first],
                     " has '", meeting.name, "', ", meeting.signature.ToString(), "; ", devices_[device],
                     " has '", call.name, "', ", signature.ToString()));
  }
  if (!meeting.arrivals.contains(device)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(devices_[device], " has begun the collective '",
                                                 meeting.name, "' twice in one step, also as '", call.name,
                                                 "'"));
}

void Meetings::Come(int device, const Communicator::Call& call, const CollectiveSignature& signature,
                    Rows rows, Done done, Finish finish) {
  const Id id = {call.cancellation, call.key};
  Arrival arrival = {call, std::move(rows), std::move(done), 0};
  arrival.callback = Watch(call, [this, id] { End(id, IsOver()); });
  absl::Status wrong;
  Arrivals refused;
  std::optional<Meeting> complete;
  {
    absl::MutexLock lock(&mutex_);
    Meeting& meeting = meetings_[id];
    wrong = CheckLocked(device, call, signature, meeting);
    if (!wrong.ok()) {
      // Not under its number, which may be another's.
      refused = std::move(meeting.arrivals);
      refused.emplace(num_devices(), std::move(arrival));
      meetings_.erase(id);
    } else {
      if (meeting.arrivals.empty()) {
        meeting.signature = signature;
        meeting.name = call.name;
        meeting.finish = std::move(finish);
      }
      ++num_begun_[device];
      meeting.arrivals.emplace(device, std::move(arrival));
      if (IsCompleteLocked(meeting)) {
        complete = std::move(meeting);
        meetings_.erase(id);
      }
    }
  }
  if (!wrong.ok()) return TellAll(std::move(refused), wrong);
  if (complete) return FinishAll(*std::move(complete));
  // The notice may have come before the device was listed.
  if (call.cancellation != nullptr && call.cancellation->is_cancelled()) End(id, IsOver());
}

std::string Meetings::UnderWayLocked(int device) const {
  for (const auto& [id, meeting] : meetings_) {
    if (meeting.arrivals.contains(device)) return meeting.name;
  }
  return "";
}

std::vector<Meetings::Meeting> Meetings::TakeCompleteLocked() {
  std::vector<Meeting> complete;
  for (auto it = meetings_.begin(); it != meetings_.end();) {
    const auto at = it++;
    if (!IsCompleteLocked(at->second)) continue;
    complete.push_back(std::move(at->second));
    meetings_.erase(at);
  }
  return complete;
}

void Meetings::Join(int device, const Communicator::Call& call, Done done, const JoinFinish& finish) {
  Arrival arrival = {call, {}, std::move(done), 0};
  arrival.callback = Watch(call, [this, step = call.cancellation] { EndJoin(step, IsOver()); });
  absl::Status wrong;
  Arrivals ended;
  std::vector<Meeting> complete;
  int last = 0;
  bool have_all = false;
  {
    absl::MutexLock lock(&mutex_);
    const std::string under_way = UnderWayLocked(device);
    if (!under_way.empty()) {
      wrong = absl::FailedPreconditionError(
          absl::StrCat("a device joins when it has nothing else to do, but '", under_way, "' is under way"));
    } else if (joined_.contains(device)) {
      wrong = absl::FailedPreconditionError(absl::StrCat(devices_[device], " has joined already"));
    } else if (!joined_.empty() && joined_.begin()->second.call.key != call.key) {
      wrong = absl::InvalidArgumentError(absl::StrCat("the devices join in different nodes: '",
                                                      joined_.begin()->second.call.name, "' and '", call.name,
                                                      "'"));
      ended = std::exchange(joined_, {});
    }
    if (!wrong.ok()) {
      ended.emplace(num_devices(), std::move(arrival));
    } else {
      joined_.emplace(device, std::move(arrival));
      have_all = joined_.size() == devices_.size();
      if (have_all) {
        ended = std::exchange(joined_, {});
        // The highest of several.
        last = static_cast<int>(num_begun_.rend() - std::max_element(num_begun_.rbegin(), num_begun_.rend()));
        --last;
        std::fill(num_begun_.begin(), num_begun_.end(), 0);
      } else {
        complete = TakeCompleteLocked();
      }
    }
  }
  if (!wrong.ok()) return TellAll(std::move(ended), wrong);
  for (Meeting& meeting : complete) FinishAll(std::move(meeting));
  if (have_all) {
    Forget(&ended);
    finish(call, last,
           [all = std::make_shared<Arrivals>(std::move(ended))](absl::StatusOr<std::vector<Rows>> results) {
             TellAll(std::move(*all), std::move(results));
           });
  } else if (call.cancellation != nullptr && call.cancellation->is_cancelled()) {
    EndJoin(call.cancellation, IsOver());
  }
}

void Meetings::End(const Id& id, const absl::Status& reason) {
  Arrivals all;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = meetings_.find(id);
    if (found == meetings_.end()) return;
    all = std::move(found->second.arrivals);
    meetings_.erase(found);
  }
  TellAll(std::move(all), reason);
}

void Meetings::EndJoin(const Cancellation* step, const absl::Status& reason) {
  Arrivals all;
  {
    absl::MutexLock lock(&mutex_);
    for (auto it = joined_.begin(); it != joined_.end();) {
      const auto at = it++;
      if (at->second.call.cancellation == step) all.insert(joined_.extract(at));
    }
  }
  TellAll(std::move(all), reason);
}

// From now on `finish` is who watches the cancellation.
void Meetings::FinishAll(Meeting meeting) const {
  Arrivals& all = meeting.arrivals;
  Forget(&all);
  std::vector<Rows> rows;
  for (int device = 0; device < num_devices(); ++device) {
    const auto found = all.find(device);
    if (found != all.end()) {
      rows.push_back(std::move(found->second.rows));
      continue;
    }
    absl::StatusOr<Rows> nothing = NothingOf(meeting.signature);
    if (!nothing.ok()) {
      return TellAll(
          std::move(all),
          absl::Status(nothing.status().code(),
                       absl::StrCat(devices_[device], " has joined, but '", meeting.name, "', ",
                                    meeting.signature.ToString(), ": ", nothing.status().message())));
    }
    rows.push_back(*std::move(nothing));
  }
  const Communicator::Call call = all.rbegin()->second.call;
  meeting.finish(
      call, std::move(rows),
      [all = std::make_shared<Arrivals>(std::move(all))](absl::StatusOr<std::vector<Rows>> results) {
        TellAll(std::move(*all), std::move(results));
      });
}

void Meetings::Forget(Arrivals* all) {
  for (auto& [device, arrival] : *all) {
    if (arrival.callback != 0) arrival.call.cancellation->Remove(arrival.callback);
    arrival.callback = 0;
  }
}

void Meetings::TellAll(Arrivals all, absl::StatusOr<std::vector<Rows>> results) {
  Forget(&all);
  // The step may be over after each of these.
  for (auto& [device, arrival] : all) {
    if (!results.ok()) {
      arrival.done(WithName(arrival.call, results.status()));
    } else {
      arrival.done(results->size() == 1 ? (*results)[0] : (*results)[device]);
    }
  }
}

}  // namespace weir
