#include "kernels/cuda/recording_cuda_api.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "graph/types/status_macros.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/environment.h"

namespace weir {
namespace {

// Memory that was never written is full of poison, too, but to fill very much of it would need as much of the
// host's.
constexpr size_t kMostPoisoned = size_t{16} << 20;

// A test that waits so long for a stream waits for ever.
constexpr absl::Duration kForEver = absl::Seconds(60);

// CUDA's names of the numbers that tests give.
const char* NameOf(int error) {
  switch (error) {
    case kCudaInvalidValue:
      return "cudaErrorInvalidValue";
    case kCudaOutOfMemory:
      return "cudaErrorMemoryAllocation";
    case kCudaInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case kCudaNoDevice:
      return "cudaErrorNoDevice";
    case kCudaIllegalAddress:
      return "cudaErrorIllegalAddress";
    case kCudaLaunchFailure:
      return "cudaErrorLaunchFailure";
    case kCudaStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    default:
      return "cudaErrorUnknown";
  }
}

size_t WholePages(size_t num_bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (std::max<size_t>(num_bytes, 1) + page - 1) / page * page;
}

const char* NameOf(CudaCopy kind) {
  switch (kind) {
    case CudaCopy::kToDevice:
      return "to_device";
    case CudaCopy::kToHost:
      return "to_host";
    case CudaCopy::kOnDevice:
      return "on_device";
  }
  return "";
}

}  // namespace

RecordingCudaApi::RecordingCudaApi(Options options)
    : options_(options), lost_(options.num_devices), in_use_(options.num_devices) {}

RecordingCudaApi::~RecordingCudaApi() {
  {
    absl::MutexLock lock(&mutex_);
    RunAllLocked();
  }
  const std::vector<std::string> problems = TakeProblems();
  for (const std::string& problem : problems) std::fprintf(stderr, "RecordingCudaApi: %s\n", problem.c_str());
  if (!problems.empty()) std::abort();
  absl::MutexLock lock(&mutex_);
  while (!blocks_.empty()) Unmap(blocks_.begin());
}

void RecordingCudaApi::SetKernel(const void* address, HostKernel kernel) {
  absl::MutexLock lock(&mutex_);
  kernels_[address] = std::move(kernel);
}

void RecordingCudaApi::FailCall(const std::string& name, int error, int nth) {
  absl::MutexLock lock(&mutex_);
  failures_[name][num_calls_[name] + nth] = error;
}

void RecordingCudaApi::LoseDevice(int device, int error) {
  absl::MutexLock lock(&mutex_);
  lost_[device] = error;
  for (auto& [handle, stream] : streams_) {
    if (stream->device == device) stream->work.clear();
  }
  ++num_changes_;
}

CudaEventHandle RecordingCudaApi::HoldEvent(int device) {
  absl::MutexLock lock(&mutex_);
  void* const handle = reinterpret_cast<void*>(++num_handles_);
  events_[handle] = std::make_shared<Event>(Event{.device = device, .recorded = 1});
  return CudaEventHandle{device, handle};
}

void RecordingCudaApi::LetGo(CudaEventHandle handle) {
  absl::MutexLock lock(&mutex_);
  const std::shared_ptr<Event> event = FindEvent(handle);
  if (!event) return;
  event->done = event->recorded;
  ++num_changes_;
  if (runs_at_once_) RunAllLocked();
}

absl::Status RecordingCudaApi::AwaitOthers(const std::string& name, int device,
                                           absl::FunctionRef<void()> go_on,
                                           absl::FunctionRef<bool()> is_over) {
  while (true) {
    go_on();
    if (is_over()) return absl::OkStatus();
    const int64_t seen = num_changes_;
    const auto has_changed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return num_changes_ != seen; };
    if (!RealEnvironment().Await(mutex_, absl::Condition(&has_changed), RealEnvironment().Now() + kForEver)) {
      return Fail(name, kCudaInvalidValue, absl::StrCat(name, ": nobody lets the stream go"));
    }
    if (lost_[device] != 0)
      return CudaError(name, lost_[device], NameOf(lost_[device]), "the device was lost");
  }
}

void RecordingCudaApi::set_runs_at_once(bool runs_at_once) {
  absl::MutexLock lock(&mutex_);
  runs_at_once_ = runs_at_once;
  if (runs_at_once) RunAllLocked();
}

bool RecordingCudaApi::RunOne(uint32_t choice) {
  absl::MutexLock lock(&mutex_);
  std::vector<Stream*> ready;
  for (auto& [handle, stream] : streams_) {
    if (CanRun(*stream)) ready.push_back(stream.get());
  }
  if (ready.empty()) return false;
  RunFront(ready[choice % ready.size()]);
  return true;
}

int RecordingCudaApi::RunAll() {
  absl::MutexLock lock(&mutex_);
  return RunAllLocked();
}

std::vector<std::string> RecordingCudaApi::log() const {
  absl::MutexLock lock(&mutex_);
  return log_;
}

void RecordingCudaApi::ClearLog() {
  absl::MutexLock lock(&mutex_);
  log_.clear();
  launches_.clear();
}

int64_t RecordingCudaApi::num_calls(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  const auto found = num_calls_.find(name);
  return found == num_calls_.end() ? 0 : found->second;
}

std::vector<RecordingCudaApi::Launched> RecordingCudaApi::launches() const {
  absl::MutexLock lock(&mutex_);
  return launches_;
}

int64_t RecordingCudaApi::num_bytes(int device) const {
  absl::MutexLock lock(&mutex_);
  return in_use_[device];
}

std::map<uintptr_t, int64_t> RecordingCudaApi::segments(int device) const {
  absl::MutexLock lock(&mutex_);
  std::map<uintptr_t, int64_t> segments;
  for (const auto& [address, block] : blocks_) {
    if (block.device == device) segments[address] = static_cast<int64_t>(block.num_bytes);
  }
  return segments;
}

int64_t RecordingCudaApi::num_pending() const {
  absl::MutexLock lock(&mutex_);
  int64_t count = 0;
  for (const auto& [handle, stream] : streams_) count += static_cast<int64_t>(stream->work.size());
  return count;
}

std::vector<std::string> RecordingCudaApi::TakeProblems() {
  absl::MutexLock lock(&mutex_);
  AddLeaks();
  return std::exchange(problems_, {});
}

void RecordingCudaApi::AddLeaks() {
  for (const auto& [address, block] : blocks_) {
    problems_.push_back(absl::StrCat(
        block.num_bytes, block.device == kPinned
                             ? " bytes of pinned memory were never freed"
                             : absl::StrCat(" bytes of device ", block.device, " were never freed")));
  }
  for (const auto& [handle, stream] : streams_) {
    if (!stream->is_destroyed)
      problems_.push_back(absl::StrCat("stream ", stream->number, " was never destroyed"));
  }
  if (!events_.empty()) problems_.push_back(absl::StrCat(events_.size(), " events were never destroyed"));
  if (!graphs_.empty()) problems_.push_back(absl::StrCat(graphs_.size(), " graphs were never destroyed"));
}

std::vector<std::byte> RecordingCudaApi::Peek(const void* address, size_t num_bytes) {
  absl::MutexLock lock(&mutex_);
  const Block* const block = FindBlock(reinterpret_cast<uintptr_t>(address), num_bytes);
  if (block == nullptr) return {};
  Open(block->device, true);
  std::vector<std::byte> bytes(num_bytes);
  std::memcpy(bytes.data(), address, num_bytes);
  Open(block->device, false);
  return bytes;
}

absl::Status RecordingCudaApi::Begin(const std::string& name, int device, const std::string& text) {
  const int64_t number = ++num_calls_[name];
  log_.push_back(text.empty() ? name : absl::StrCat(name, " ", text));
  if (device != kPinned && (device < 0 || device >= options_.num_devices)) {
    return Fail(name, kCudaInvalidValue, absl::StrCat(name, ": there is no device ", device));
  }
  if (device != kPinned && lost_[device] != 0) {
    return CudaError(name, lost_[device], NameOf(lost_[device]), "the device was lost");
  }
  const auto failures = failures_.find(name);
  if (failures != failures_.end()) {
    const auto failure = failures->second.find(number);
    if (failure != failures->second.end()) {
      return CudaError(name, failure->second, NameOf(failure->second), "the test wants it");
    }
  }
  return absl::OkStatus();
}

// A mistake of the caller's: an error, and a problem that stays.
absl::Status RecordingCudaApi::Fail(const std::string& name, int error, const std::string& problem) {
  problems_.push_back(problem);
  return CudaError(name, error, NameOf(error), problem);
}

RecordingCudaApi::Stream* RecordingCudaApi::FindStream(CudaStreamHandle stream) {
  const auto found = streams_.find(stream.stream);
  return found == streams_.end() || found->second->is_destroyed ? nullptr : found->second.get();
}

std::shared_ptr<RecordingCudaApi::Event> RecordingCudaApi::FindEvent(CudaEventHandle event) {
  const auto found = events_.find(event.event);
  return found == events_.end() ? nullptr : found->second;
}

absl::StatusOr<int> RecordingCudaApi::NumDevices() {
  absl::MutexLock lock(&mutex_);
  WEIR_RETURN_IF_ERROR(Begin("cudaGetDeviceCount", kPinned, ""));
  if (options_.num_devices == 0) {
    return CudaError("cudaGetDeviceCount", kCudaNoDevice, NameOf(kCudaNoDevice),
                     "no CUDA-capable device is detected");
  }
  return options_.num_devices;
}

absl::StatusOr<CudaDeviceProperties> RecordingCudaApi::Properties(int device) {
  absl::MutexLock lock(&mutex_);
  WEIR_RETURN_IF_ERROR(Begin("cudaGetDeviceProperties", device, absl::StrCat("of device ", device)));
  return CudaDeviceProperties{.name = "Recording GPU",
                              .compute_major = static_cast<size_t>(device) < options_.compute_majors.size()
                                                   ? options_.compute_majors[device]
                                                   : 9,
                              .compute_minor = 0,
                              .num_multiprocessors = 132,
                              .total_memory = options_.memory};
}

absl::StatusOr<CudaMemory> RecordingCudaApi::Memory(int device) {
  absl::MutexLock lock(&mutex_);
  WEIR_RETURN_IF_ERROR(Begin("cudaMemGetInfo", device, absl::StrCat("of device ", device)));
  return CudaMemory{.free = options_.memory - in_use_[device], .total = options_.memory};
}

absl::StatusOr<CudaVersions> RecordingCudaApi::Versions() {
  absl::MutexLock lock(&mutex_);
  WEIR_RETURN_IF_ERROR(Begin("cudaDriverGetVersion", kPinned, ""));
  return options_.versions;
}

absl::Status RecordingCudaApi::Select(int device) {
  absl::MutexLock lock(&mutex_);
  return Begin("cudaSetDevice", device, absl::StrCat(device));
}

absl::StatusOr<void*> RecordingCudaApi::Allocate(int device, size_t num_bytes) {
  absl::MutexLock lock(&mutex_);
  WEIR_RETURN_IF_ERROR(Begin("cudaMalloc", device, absl::StrCat(num_bytes, " bytes of device ", device)));
  if (num_bytes > static_cast<size_t>(options_.memory - in_use_[device])) {
    return CudaError("cudaMalloc", kCudaOutOfMemory, NameOf(kCudaOutOfMemory), "out of memory");
  }
  const size_t num_mapped = WholePages(num_bytes);
  void* const address =
      mmap(nullptr, num_mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) std::abort();
  blocks_[reinterpret_cast<uintptr_t>(address)] = {device, num_bytes, num_mapped};
  in_use_[device] += static_cast<int64_t>(num_bytes);
  if (num_bytes <= kMostPoisoned) Poison(reinterpret_cast<uintptr_t>(address), num_bytes);
  return address;
}

absl::Status RecordingCudaApi::Free(int device, void* address) {
  absl::MutexLock lock(&mutex_);
  const absl::Status status = Begin("cudaFree", device, absl::StrCat("of device ", device));
  const auto block = blocks_.find(reinterpret_cast<uintptr_t>(address));
  if (block == blocks_.end() || block->second.device != device) {
    return Fail("cudaFree", kCudaInvalidValue, "cudaFree: no such memory");
  }
  RunAllLocked();
  Unmap(block);
  return status;
}

absl::StatusOr<void*> RecordingCudaApi::AllocatePinned(size_t num_bytes) {
  absl::MutexLock lock(&mutex_);
  WEIR_RETURN_IF_ERROR(Begin("cudaHostAlloc", kPinned, absl::StrCat(num_bytes, " bytes")));
  const size_t num_mapped = WholePages(num_bytes);
  void* const address = mmap(nullptr, num_mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) std::abort();
  blocks_[reinterpret_cast<uintptr_t>(address)] = {kPinned, num_bytes, num_mapped};
  return address;
}

absl::Status RecordingCudaApi::FreePinned(void* address) {
  absl::MutexLock lock(&mutex_);
  const absl::Status status = Begin("cudaFreeHost", kPinned, "");
  const auto block = blocks_.find(reinterpret_cast<uintptr_t>(address));
  if (block == blocks_.end() || block->second.device != kPinned) {
    return Fail("cudaFreeHost", kCudaInvalidValue, "cudaFreeHost: no such memory");
  }
  if (IsPending(block->first, block->second.num_bytes)) {
    problems_.push_back("pinned memory was freed before its copies were over");
    RunAllLocked();
  }
  Unmap(block);
  return status;
}

absl::StatusOr<CudaStreamHandle> RecordingCudaApi::CreateStream(int device) {
  absl::MutexLock lock(&mutex_);
  WEIR_RETURN_IF_ERROR(
      Begin("cudaStreamCreateWithFlags", device, absl::StrCat(num_streams_ + 1, " on device ", device)));
  auto stream = std::make_unique<Stream>();
  stream->device = device;
  stream->number = ++num_streams_;
  void* const handle = reinterpret_cast<void*>(++num_handles_);
  streams_[handle] = std::move(stream);
  return CudaStreamHandle{device, handle};
}

absl::Status RecordingCudaApi::DestroyStream(CudaStreamHandle handle) {
  absl::MutexLock lock(&mutex_);
  Stream* const stream = FindStream(handle);
  if (stream == nullptr)
    return Fail("cudaStreamDestroy", kCudaInvalidValue, "cudaStreamDestroy: no such stream");
  const absl::Status status = Begin("cudaStreamDestroy", handle.device, absl::StrCat(stream->number));
  if (stream->is_capturing) problems_.push_back("a stream was destroyed in the middle of a capture");
  stream->is_destroyed = true;
  return status;
}

absl::Status RecordingCudaApi::SynchronizeStream(CudaStreamHandle handle) {
  absl::MutexLock lock(&mutex_);
  Stream* const stream = FindStream(handle);
  if (stream == nullptr) {
    return Fail("cudaStreamSynchronize", kCudaInvalidValue, "cudaStreamSynchronize: no such stream");
  }
  WEIR_RETURN_IF_ERROR(Begin("cudaStreamSynchronize", handle.device, absl::StrCat(stream->number)));
  WEIR_RETURN_IF_ERROR(RefuseWhileCapturing("cudaStreamSynchronize", *stream));
  return AwaitOthers(
      "cudaStreamSynchronize", handle.device,
      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { Drain(stream, nullptr, 0); },
      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stream->work.empty(); });
}

absl::StatusOr<CudaEventHandle> RecordingCudaApi::CreateEvent(int device) {
  absl::MutexLock lock(&mutex_);
  WEIR_RETURN_IF_ERROR(Begin("cudaEventCreateWithFlags", device, absl::StrCat("on device ", device)));
  void* const handle = reinterpret_cast<void*>(++num_handles_);
  events_[handle] = std::make_shared<Event>(Event{.device = device});
  return CudaEventHandle{device, handle};
}

absl::Status RecordingCudaApi::DestroyEvent(CudaEventHandle handle) {
  absl::MutexLock lock(&mutex_);
  if (!FindEvent(handle))
    return Fail("cudaEventDestroy", kCudaInvalidValue, "cudaEventDestroy: no such event");
  const absl::Status status = Begin("cudaEventDestroy", handle.device, "");
  events_.erase(handle.event);
  return status;
}

absl::Status RecordingCudaApi::RecordEvent(CudaEventHandle event_handle, CudaStreamHandle stream_handle) {
  absl::MutexLock lock(&mutex_);
  Stream* const stream = FindStream(stream_handle);
  const std::shared_ptr<Event> event = FindEvent(event_handle);
  if (stream == nullptr || !event || event->device != stream->device) {
    return Fail("cudaEventRecord", kCudaInvalidValue,
                "cudaEventRecord: no such event or stream on the device");
  }
  WEIR_RETURN_IF_ERROR(Begin("cudaEventRecord", stream->device, absl::StrCat("on stream ", stream->number)));
  WEIR_RETURN_IF_ERROR(RefuseWhileCapturing("cudaEventRecord", *stream));
  Work work{.kind = Work::Kind::kRecord};
  work.generation = ++event->recorded;
  work.event = event;
  Enqueue(stream, std::move(work));
  return absl::OkStatus();
}

absl::Status RecordingCudaApi::WaitForEvent(CudaStreamHandle stream_handle, CudaEventHandle event_handle) {
  absl::MutexLock lock(&mutex_);
  Stream* const stream = FindStream(stream_handle);
  const std::shared_ptr<Event> event = FindEvent(event_handle);
  if (stream == nullptr || !event) {
    return Fail("cudaStreamWaitEvent", kCudaInvalidValue, "cudaStreamWaitEvent: no such event or stream");
  }
  WEIR_RETURN_IF_ERROR(
      Begin("cudaStreamWaitEvent", stream->device, absl::StrCat("on stream ", stream->number)));
  WEIR_RETURN_IF_ERROR(RefuseWhileCapturing("cudaStreamWaitEvent", *stream));
  if (event->recorded == 0) {
    problems_.push_back(
        absl::StrCat("stream ", stream->number, " waits for an event that was never recorded"));
  }
  Work work{.kind = Work::Kind::kWait};
  work.generation = event->recorded;
  work.event = event;
  Enqueue(stream, std::move(work));
  return absl::OkStatus();
}

absl::StatusOr<bool> RecordingCudaApi::IsEventDone(CudaEventHandle handle) {
  absl::MutexLock lock(&mutex_);
  const std::shared_ptr<Event> event = FindEvent(handle);
  if (!event) return Fail("cudaEventQuery", kCudaInvalidValue, "cudaEventQuery: no such event");
  WEIR_RETURN_IF_ERROR(Begin("cudaEventQuery", handle.device, ""));
  return event->done >= event->recorded;
}

absl::Status RecordingCudaApi::SynchronizeEvent(CudaEventHandle handle) {
  absl::MutexLock lock(&mutex_);
  const std::shared_ptr<Event> event = FindEvent(handle);
  if (!event) return Fail("cudaEventSynchronize", kCudaInvalidValue, "cudaEventSynchronize: no such event");
  WEIR_RETURN_IF_ERROR(Begin("cudaEventSynchronize", handle.device, ""));
  const int64_t generation = event->recorded;
  return AwaitOthers(
      "cudaEventSynchronize", handle.device,
      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { AwaitEvent(*event, generation); },
      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return event->done >= generation; });
}

absl::Status RecordingCudaApi::Copy(CudaCopy kind, void* to, const void* from, size_t num_bytes,
                                    CudaStreamHandle handle) {
  absl::MutexLock lock(&mutex_);
  Stream* const stream = FindStream(handle);
  if (stream == nullptr) return Fail("cudaMemcpyAsync", kCudaInvalidValue, "cudaMemcpyAsync: no such stream");
  WEIR_RETURN_IF_ERROR(
      Begin("cudaMemcpyAsync", stream->device,
            absl::StrCat(NameOf(kind), " ", num_bytes, " bytes on stream ", stream->number)));
  Work work{.kind = Work::Kind::kCopy,
            .to = reinterpret_cast<uintptr_t>(to),
            .from = reinterpret_cast<uintptr_t>(from),
            .num_bytes = num_bytes};
  const auto is_in = [&](uintptr_t address, bool is_host) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Block* const block = FindBlock(address, num_bytes);
    return block != nullptr && block->device == (is_host ? kPinned : stream->device);
  };
  if (!is_in(work.to, kind == CudaCopy::kToHost) || !is_in(work.from, kind == CudaCopy::kToDevice)) {
    return Fail("cudaMemcpyAsync", kCudaInvalidValue,
                absl::StrCat("a copy ", NameOf(kind), " of ", num_bytes,
                             " bytes is not between pinned memory and the stream's device"));
  }
  if (stream->is_capturing && kind != CudaCopy::kOnDevice) {
    return Fail("cudaMemcpyAsync", kCudaStreamCaptureUnsupported,
                "a copy from or to the host was captured: it would find other bytes there later");
  }
  if (!stream->is_capturing) Poison(work.to, num_bytes);
  Enqueue(stream, std::move(work));
  return absl::OkStatus();
}

absl::Status RecordingCudaApi::Fill(void* to, uint8_t value, size_t num_bytes, CudaStreamHandle handle) {
  absl::MutexLock lock(&mutex_);
  Stream* const stream = FindStream(handle);
  if (stream == nullptr) return Fail("cudaMemsetAsync", kCudaInvalidValue, "cudaMemsetAsync: no such stream");
  WEIR_RETURN_IF_ERROR(
      Begin("cudaMemsetAsync", stream->device, absl::StrCat(num_bytes, " bytes on stream ", stream->number)));
  Work work{.kind = Work::Kind::kFill,
            .to = reinterpret_cast<uintptr_t>(to),
            .num_bytes = num_bytes,
            .value = value};
  const Block* const block = FindBlock(work.to, num_bytes);
  if (block == nullptr || block->device != stream->device) {
    return Fail("cudaMemsetAsync", kCudaInvalidValue,
                absl::StrCat("a fill of ", num_bytes, " bytes is not in memory of the stream's device"));
  }
  Enqueue(stream, std::move(work));
  return absl::OkStatus();
}

absl::Status RecordingCudaApi::Launch(const CudaFunction& function, const CudaGrid& grid,
                                      absl::Span<const CudaArgument> arguments, CudaStreamHandle handle) {
  absl::MutexLock lock(&mutex_);
  Stream* const stream = FindStream(handle);
  if (stream == nullptr)
    return Fail("cudaLaunchKernel", kCudaInvalidValue, "cudaLaunchKernel: no such stream");
  WEIR_RETURN_IF_ERROR(Begin("cudaLaunchKernel", stream->device,
                             absl::StrCat(function.name, " ", grid.blocks[0], "x", grid.blocks[1], "x",
                                          grid.blocks[2], " of ", grid.threads[0], "x", grid.threads[1], "x",
                                          grid.threads[2], " on stream ", stream->number)));
  // What a GPU refuses: https://docs.nvidia.com/cuda/cuda-c-programming-guide, "Technical specifications".
  const uint64_t threads = uint64_t{grid.threads[0]} * grid.threads[1] * grid.threads[2];
  const bool fits = threads >= 1 && threads <= 1024 && grid.threads[2] <= 64 && grid.blocks[0] >= 1 &&
                    grid.blocks[0] <= 0x7fffffffu && grid.blocks[1] >= 1 && grid.blocks[1] <= 65535 &&
                    grid.blocks[2] >= 1 && grid.blocks[2] <= 65535 && grid.shared_bytes <= 48 * 1024;
  if (!fits || function.address == nullptr) {
    return Fail("cudaLaunchKernel", kCudaInvalidValue,
                absl::StrCat("no GPU runs the grid of ", function.name == nullptr ? "" : function.name));
  }
  Work work{.kind = Work::Kind::kLaunch};
  work.launched.function = function;
  work.launched.grid = grid;
  for (const CudaArgument& argument : arguments) {
    const auto* const bytes = static_cast<const std::byte*>(argument.value);
    work.launched.arguments.emplace_back(bytes, bytes + argument.num_bytes);
  }
  launches_.push_back(work.launched);
  Enqueue(stream, std::move(work));
  return absl::OkStatus();
}

absl::Status RecordingCudaApi::LastError(int device) {
  absl::MutexLock lock(&mutex_);
  return Begin("cudaGetLastError", device, "");
}

}  // namespace weir
