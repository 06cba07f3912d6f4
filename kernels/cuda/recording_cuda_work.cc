// How the work of a RecordingCudaApi's streams happens, and who may touch which memory.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "kernels/cuda/recording_cuda_api.h"

namespace weir {
namespace {

bool Overlap(uintptr_t a, size_t a_bytes, uintptr_t b, size_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

// Whether an argument of a kernel, or a part of one, points into the bytes.
bool PointsInto(const std::vector<std::byte>& argument, uintptr_t address, size_t num_bytes) {
  for (size_t at = 0; at + sizeof(uintptr_t) <= argument.size(); at += sizeof(uintptr_t)) {
    uintptr_t word;
    std::memcpy(&word, argument.data() + at, sizeof(word));
    if (word >= address && word < address + num_bytes) return true;
  }
  return false;
}

}  // namespace

const RecordingCudaApi::Block* RecordingCudaApi::FindBlock(uintptr_t address, size_t num_bytes) const {
  auto found = blocks_.upper_bound(address);
  if (found == blocks_.begin()) return nullptr;
  --found;
  const uintptr_t offset = address - found->first;
  const bool fits = offset <= found->second.num_bytes && num_bytes <= found->second.num_bytes - offset;
  return fits ? &found->second : nullptr;
}

bool RecordingCudaApi::IsPending(uintptr_t address, size_t num_bytes) const {
  for (const auto& [handle, stream] : streams_) {
    for (const Work& work : stream->work) {
      if (Overlap(work.to, work.num_bytes, address, num_bytes)) return true;
      if (Overlap(work.from, work.from == 0 ? 0 : work.num_bytes, address, num_bytes)) return true;
      for (const std::vector<std::byte>& argument : work.launched.arguments) {
        if (PointsInto(argument, address, num_bytes)) return true;
      }
    }
  }
  return false;
}

// A kernel is told where a tensor begins, and how far it goes from there nobody else knows.
bool RecordingCudaApi::MayBeReached(uintptr_t address, size_t num_bytes) const {
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return false;
  const uintptr_t begin = std::prev(after)->first;
  for (const auto& [handle, stream] : streams_) {
    for (const Work& work : stream->work) {
      for (const std::vector<std::byte>& argument : work.launched.arguments) {
        if (PointsInto(argument, begin, address + num_bytes - begin)) return true;
      }
    }
  }
  return false;
}

void RecordingCudaApi::Poison(uintptr_t address, size_t num_bytes) {
  // Work that is still to come may have to read what is there.
  if (IsPending(address, num_bytes) || MayBeReached(address, num_bytes)) return;
  const Block* const block = FindBlock(address, num_bytes);
  Open(block->device, true);
  std::memset(reinterpret_cast<void*>(address), kPoison, num_bytes);
  Open(block->device, false);
}

void RecordingCudaApi::Open(int device, bool is_open) {
  if (device == kPinned) return;
  for (const auto& [address, block] : blocks_) {
    if (block.device != device) continue;
    if (mprotect(reinterpret_cast<void*>(address), block.num_mapped,
                 is_open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
      std::abort();
    }
  }
}

void RecordingCudaApi::Unmap(std::map<uintptr_t, Block>::iterator block) {
  if (block->second.device != kPinned)
    in_use_[block->second.device] -= static_cast<int64_t>(block->second.num_bytes);
  munmap(reinterpret_cast<void*>(block->first), block->second.num_mapped);
  blocks_.erase(block);
}

void RecordingCudaApi::Enqueue(Stream* stream, Work work) {
  if (stream->is_capturing) return stream->captured.push_back(std::move(work));
  stream->work.push_back(std::move(work));
  if (runs_at_once_) RunAllLocked();
}

bool RecordingCudaApi::CanRun(const Stream& stream) const {
  if (stream.work.empty()) return false;
  const Work& front = stream.work.front();
  return front.kind != Work::Kind::kWait || front.event->done >= front.generation;
}

void RecordingCudaApi::RunFront(Stream* stream) {
  const Work work = std::move(stream->work.front());
  stream->work.pop_front();
  Run(work, stream->device);
}

void RecordingCudaApi::Run(const Work& work, int device) {
  switch (work.kind) {
    case Work::Kind::kCopy:
      Open(device, true);
      std::memmove(reinterpret_cast<void*>(work.to), reinterpret_cast<const void*>(work.from),
                   work.num_bytes);
      return Open(device, false);
    case Work::Kind::kFill:
      Open(device, true);
      std::memset(reinterpret_cast<void*>(work.to), work.value, work.num_bytes);
      return Open(device, false);
    case Work::Kind::kLaunch: {
      const auto kernel = kernels_.find(work.launched.function.address);
      if (kernel == kernels_.end()) return;
      Open(device, true);
      kernel->second(work.launched);
      return Open(device, false);
    }
    case Work::Kind::kRecord:
      work.event->done = std::max(work.event->done, work.generation);
      return;
    case Work::Kind::kWait:
      return;
  }
}

// Runs the stream's work: all of it, or until the event has been recorded.
void RecordingCudaApi::Drain(Stream* stream, const Event* until, int64_t generation) {
  while (!stream->work.empty() && !(until != nullptr && until->done >= generation)) {
    const Work& front = stream->work.front();
    if (front.kind == Work::Kind::kWait) AwaitEvent(*front.event, front.generation);
    if (!CanRun(*stream)) return;
    RunFront(stream);
  }
}

void RecordingCudaApi::AwaitEvent(const Event& event, int64_t generation) {
  for (auto& [handle, stream] : streams_) {
    const bool records_it = std::any_of(stream->work.begin(), stream->work.end(), [&](const Work& work) {
      return work.kind == Work::Kind::kRecord && work.event.get() == &event && work.generation >= generation;
    });
    if (records_it && event.done < generation) Drain(stream.get(), &event, generation);
  }
}

int RecordingCudaApi::RunAllLocked() {
  int count = 0;
  for (bool went_on = true; went_on;) {
    went_on = false;
    for (auto& [handle, stream] : streams_) {
      for (; CanRun(*stream); ++count, went_on = true) RunFront(stream.get());
    }
  }
  return count;
}

}  // namespace weir
