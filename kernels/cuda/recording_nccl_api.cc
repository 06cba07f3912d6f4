#include "kernels/cuda/recording_nccl_api.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

const char* NameOf(NcclReduction reduction) {
  switch (reduction) {
    case NcclReduction::kSum:
      return "sum";
    case NcclReduction::kProduct:
      return "product";
    case NcclReduction::kMax:
      return "max";
    case NcclReduction::kMin:
      return "min";
  }
  return "";
}

template <typename T>
void Combine(NcclReduction reduction, const std::byte* from, std::byte* into, size_t num_bytes) {
  for (size_t at = 0; at < num_bytes; at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, into + at, sizeof(T));
    std::memcpy(&b, from + at, sizeof(T));
    switch (reduction) {
      case NcclReduction::kSum:
        a += b;
        break;
      case NcclReduction::kProduct:
        a *= b;
        break;
      case NcclReduction::kMax:
        a = std::max(a, b);
        break;
      case NcclReduction::kMin:
        a = std::min(a, b);
        break;
    }
    std::memcpy(into + at, &a, sizeof(T));
  }
}

}  // namespace

RecordingNcclApi::RecordingNcclApi(RecordingCudaApi& api) : api_(api) {
  api.SetKernel(&take_input_, [this](const RecordingCudaApi::Launched& launched) {
    TakeInput(launched.argument<Part>(0));
  });
  api.SetKernel(&give_output_, [this](const RecordingCudaApi::Launched& launched) {
    GiveOutput(launched.argument<Part>(0));
  });
}

RecordingNcclApi::~RecordingNcclApi() {
  const std::vector<std::string> problems = TakeProblems();
  for (const std::string& problem : problems) std::fprintf(stderr, "RecordingNcclApi: %s\n", problem.c_str());
  if (!problems.empty()) std::abort();
  api_.RunAll();
  for (const CudaEventHandle& event : events_) api_.DestroyEvent(event).IgnoreError();
}

void RecordingNcclApi::SetMissing(absl::Status why) {
  absl::MutexLock lock(&mutex_);
  missing_ = std::move(why);
}
void RecordingNcclApi::FailCall(const std::string& name, int nth) {
  absl::MutexLock lock(&mutex_);
  failures_[name][num_calls_[name] + nth] = true;
}
void RecordingNcclApi::SetAsyncError(int device, absl::Status error) {
  absl::MutexLock lock(&mutex_);
  async_errors_[device] = std::move(error);
}

void RecordingNcclApi::BreakLinks() {
  absl::MutexLock lock(&mutex_);
  are_links_broken_ = true;
}

std::vector<std::string> RecordingNcclApi::log() const {
  absl::MutexLock lock(&mutex_);
  return log_;
}
void RecordingNcclApi::ClearLog() {
  absl::MutexLock lock(&mutex_);
  log_.clear();
}
std::vector<std::string> RecordingNcclApi::TakeProblems() {
  absl::MutexLock lock(&mutex_);
  for (const auto& [handle, rank] : ranks_) {
    if (!rank.is_ended) problems_.push_back(absl::StrCat("rank ", rank.number, " was never ended"));
  }
  return std::exchange(problems_, {});
}

absl::Status RecordingNcclApi::Begin(const std::string& name, const std::string& line) {
  log_.push_back(line);
  const int64_t number = ++num_calls_[name];
  if (!missing_.ok()) return missing_;
  const auto failures = failures_.find(name);
  if (failures == failures_.end() || failures->second.count(number) == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(name, ": NCCL error 2 (unhandled system error): the test wants it"));
}

absl::Status RecordingNcclApi::Open() {
  absl::MutexLock lock(&mutex_);
  return missing_;
}

absl::StatusOr<std::vector<NcclRank>> RecordingNcclApi::Create(absl::Span<const int> devices) {
  absl::MutexLock lock(&mutex_);
  WEIR_RETURN_IF_ERROR(Begin("ncclCommInitAll", absl::StrCat("ncclCommInitAll of ", devices.size())));
  const auto clique = std::make_shared<Clique>();
  clique->size = static_cast<int>(devices.size());
  std::vector<NcclRank> ranks;
  for (const int device : devices) {
    const bool is_twice = std::any_of(ranks.begin(), ranks.end(),
                                      [&](const NcclRank& other) { return other.device == device; });
    if (is_twice) problems_.push_back(absl::StrCat("device ", device, " is in one communicator twice"));
    void* const handle = reinterpret_cast<void*>(++num_handles_);
    ranks_[handle] = {.clique = clique, .number = static_cast<int>(ranks.size())};
    ranks.push_back({device, handle});
  }
  return ranks;
}

absl::Status RecordingNcclApi::End(const std::string& name, const NcclRank& rank) {
  absl::MutexLock lock(&mutex_);
  const auto found = ranks_.find(rank.handle);
  if (found == ranks_.end() || found->second.is_ended) {
    problems_.push_back(absl::StrCat(name, ": no such rank, or it has been ended"));
    return absl::InternalError(problems_.back());
  }
  found->second.is_ended = true;
  return Begin(name, absl::StrCat(name, " rank ", found->second.number, " of ", found->second.clique->size));
}
absl::Status RecordingNcclApi::Destroy(const NcclRank& rank) { return End("ncclCommDestroy", rank); }

absl::Status RecordingNcclApi::Abort(const NcclRank& rank) {
  WEIR_RETURN_IF_ERROR(End("ncclCommAbort", rank));
  std::vector<CudaEventHandle> awaited;
  {
    absl::MutexLock lock(&mutex_);
    const std::shared_ptr<Clique> clique = ranks_.at(rank.handle).clique;
    for (auto& [number, collective] : enqueued_) {
      if (collective.clique != clique) continue;
      collective.is_aborted = true;
      awaited.insert(awaited.end(), collective.awaited.begin(), collective.awaited.end());
    }
  }
  // Without the lock, which kernels take under that of the API.
  for (const CudaEventHandle& event : awaited) api_.LetGo(event);
  return absl::OkStatus();
}

absl::Status RecordingNcclApi::AsyncError(const NcclRank& rank) {
  absl::MutexLock lock(&mutex_);
  const auto found = async_errors_.find(rank.device);
  return found == async_errors_.end() ? absl::OkStatus() : found->second;
}

absl::Status RecordingNcclApi::BeginGroup() {
  absl::MutexLock lock(&mutex_);
  if (is_in_group_) problems_.push_back("a group began in a group");
  WEIR_RETURN_IF_ERROR(Begin("ncclGroupStart", "ncclGroupStart"));
  is_in_group_ = true;
  return absl::OkStatus();
}

absl::Status RecordingNcclApi::EndGroup() {
  std::vector<std::vector<Asked>> complete;
  {
    absl::MutexLock lock(&mutex_);
    if (!is_in_group_) problems_.push_back("a group ended that had not begun");
    is_in_group_ = false;
    absl::Status status = Begin("ncclGroupEnd", "ncclGroupEnd");
    status.Update(std::exchange(group_, absl::OkStatus()));
    for (auto& [handle, rank] : ranks_) {
      Clique& clique = *rank.clique;
      if (clique.asked.empty()) continue;
      const std::map<int, std::vector<Asked>> asked = std::exchange(clique.asked, {});
      if (!status.ok()) continue;
      const size_t count = asked.begin()->second.size();
      const bool is_whole = static_cast<int>(asked.size()) == clique.size &&
                            std::all_of(asked.begin(), asked.end(),
                                        [&](const auto& one) { return one.second.size() == count; });
      if (!is_whole) {
        problems_.push_back("a group has not the same number of calls for all ranks: it would wait for ever");
        continue;
      }
      for (size_t i = 0; i < count; ++i) {
        std::vector<Asked> all;
        for (const auto& [number, calls] : asked) all.push_back(calls[i]);
        complete.push_back(std::move(all));
      }
    }
    WEIR_RETURN_IF_ERROR(status);
  }
  for (std::vector<Asked>& all : complete) WEIR_RETURN_IF_ERROR(EnqueueAll(std::move(all)));
  return absl::OkStatus();
}

absl::Status RecordingNcclApi::Ask(const NcclRank& rank, Asked asked) {
  turn().AssertHeld();
  const std::string name = asked.kind.name;
  absl::MutexLock lock(&mutex_);
  const auto found = ranks_.find(rank.handle);
  if (found == ranks_.end() || found->second.is_ended || asked.stream.device != rank.device) {
    problems_.push_back(absl::StrCat(name, ": no such rank, or a stream of another device"));
    return absl::InternalError(problems_.back());
  }
  Clique& clique = *found->second.clique;
  const absl::Status begun =
      Begin(name, absl::StrCat(asked.kind.text, ", rank ", found->second.number, " of ", clique.size));
  if (!begun.ok()) return group_ = begun;
  if (!is_in_group_) {
    problems_.push_back(absl::StrCat(name, " is in no group"));
    return absl::InternalError(problems_.back());
  }
  asked.clique = found->second.clique;
  clique.asked[found->second.number].push_back(std::move(asked));
  return absl::OkStatus();
}

absl::Status RecordingNcclApi::AllReduce(const NcclRank& rank, const void* input, void* output, size_t count,
                                         DType dtype, NcclReduction reduction, CudaStreamHandle stream) {
  const std::string text =
      absl::StrCat("ncclAllReduce ", count, " ", DTypeName(dtype), " ", NameOf(reduction));
  const Kind kind = {.name = "ncclAllReduce",
                     .text = text,
                     .num_bytes = count * DTypeSize(dtype),
                     .dtype = dtype,
                     .reduction = reduction};
  return Ask(rank, {nullptr, kind, input, output, stream});
}

absl::Status RecordingNcclApi::AllGather(const NcclRank& rank, const void* input, void* output,
                                         size_t num_bytes, CudaStreamHandle stream) {
  const Kind kind = {.name = "ncclAllGather",
                     .text = absl::StrCat("ncclAllGather ", num_bytes, " bytes"),
                     .num_bytes = num_bytes,
                     .gathers = true};
  return Ask(rank, {nullptr, kind, input, output, stream});
}

absl::Status RecordingNcclApi::Broadcast(const NcclRank& rank, const void* input, void* output,
                                         size_t num_bytes, int root, CudaStreamHandle stream) {
  const Kind kind = {.name = "ncclBroadcast",
                     .text = absl::StrCat("ncclBroadcast ", num_bytes, " bytes from rank ", root),
                     .num_bytes = num_bytes,
                     .root = root};
  return Ask(rank, {nullptr, kind, input, output, stream});
}

void RecordingNcclApi::NoteAwaited(int64_t number, CudaEventHandle event) {
  absl::MutexLock lock(&mutex_);
  events_.push_back(event);
  // It is gone when an abort has let all streams through.
  if (const auto found = enqueued_.find(number); found != enqueued_.end()) {
    found->second.awaited.push_back(event);
  }
}

// Each stream hands over its input, waits until all have done so, and gets its output.
absl::Status RecordingNcclApi::EnqueueAll(std::vector<Asked> all) {
  int64_t number = 0;
  bool are_links_broken = false;
  {
    absl::MutexLock lock(&mutex_);
    number = ++num_enqueued_;
    are_links_broken = are_links_broken_;
    enqueued_[number] = {all[0].kind, std::vector<std::vector<std::byte>>(all.size()), all[0].clique};
    for (const Asked& asked : all) {
      if (asked.kind.text == all[0].kind.text) continue;
      problems_.push_back(absl::StrCat("ranks differ: ", all[0].kind.text, " and ", asked.kind.text));
      return absl::InternalError(problems_.back());
    }
  }
  std::vector<Part> parts;
  std::vector<CudaEventHandle> came;
  for (size_t i = 0; i < all.size(); ++i) {
    parts.push_back({number, static_cast<int64_t>(i), all[i].input, all[i].output});
    const CudaArgument argument = {&parts[i], sizeof(Part)};
    WEIR_RETURN_IF_ERROR(
        api_.Launch({all[i].kind.name, &take_input_}, CudaGrid(), {&argument, 1}, all[i].stream));
    WEIR_ASSIGN_OR_RETURN(const CudaEventHandle event, api_.CreateEvent(all[i].stream.device));
    came.push_back(event);
    NoteAwaited(number, event);
    WEIR_RETURN_IF_ERROR(api_.RecordEvent(event, all[i].stream));
  }
  if (are_links_broken) {
    came.push_back(api_.HoldEvent(all[0].stream.device));
    NoteAwaited(number, came.back());
  }
  for (size_t i = 0; i < all.size(); ++i) {
    for (const CudaEventHandle& event : came) {
      WEIR_RETURN_IF_ERROR(api_.WaitForEvent(all[i].stream, event));
    }
    const CudaArgument argument = {&parts[i], sizeof(Part)};
    WEIR_RETURN_IF_ERROR(
        api_.Launch({"ncclOutput", &give_output_}, CudaGrid(), {&argument, 1}, all[i].stream));
  }
  return absl::OkStatus();
}

void RecordingNcclApi::TakeInput(const Part& part) {
  absl::MutexLock lock(&mutex_);
  Enqueued& collective = enqueued_.at(part.number);
  if (collective.kind.root >= 0 && collective.kind.root != part.rank) return;
  const auto* const bytes = static_cast<const std::byte*>(part.input);
  collective.inputs.at(part.rank).assign(bytes, bytes + collective.kind.num_bytes);
}

std::vector<std::byte> RecordingNcclApi::Reduced(const Enqueued& collective) {
  const Kind& kind = collective.kind;
  std::vector<std::byte> sum = collective.inputs[0];
  for (size_t rank = 1; rank < collective.inputs.size(); ++rank) {
    const std::byte* const next = collective.inputs[rank].data();
    switch (kind.dtype) {
      case DType::kFloat64:
        Combine<double>(kind.reduction, next, sum.data(), kind.num_bytes);
        break;
      case DType::kInt32:
        Combine<int32_t>(kind.reduction, next, sum.data(), kind.num_bytes);
        break;
      case DType::kInt64:
        Combine<int64_t>(kind.reduction, next, sum.data(), kind.num_bytes);
        break;
      default:
        Combine<float>(kind.reduction, next, sum.data(), kind.num_bytes);
    }
  }
  return sum;
}

// Numbers that a test sees: no NaN, which would be equal to nothing.
void RecordingNcclApi::GiveGarbage(const Enqueued& collective, void* output) const {
  const size_t num_pieces = collective.kind.gathers ? collective.inputs.size() : 1;
  std::memset(output, kGarbage, num_pieces * collective.kind.num_bytes);
}

void RecordingNcclApi::GiveOutput(const Part& part) {
  absl::MutexLock lock(&mutex_);
  Enqueued& collective = enqueued_.at(part.number);
  auto* to = static_cast<std::byte*>(part.output);
  const auto give = [&to](const std::vector<std::byte>& bytes) {
    to = std::copy(bytes.begin(), bytes.end(), to);
  };
  if (collective.is_aborted) {
    GiveGarbage(collective, to);
  } else if (collective.kind.root >= 0) {
    give(collective.inputs.at(collective.kind.root));
  } else if (collective.kind.gathers) {
    for (const std::vector<std::byte>& input : collective.inputs) give(input);
  } else {
    give(Reduced(collective));
  }
  if (++collective.num_given == collective.inputs.size()) enqueued_.erase(part.number);
}

}  // namespace weir
