#include "distributed/peers/tensor_assembler.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/transport/bundle.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

int64_t MachineMemory() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
}

std::string Describe(const TensorPiece& piece) {
  return absl::StrCat("piece ", piece.index, " of a tensor ", TypeString(piece.type.dtype, piece.type.shape),
                      " in pieces of ", piece.piece_bytes, " bytes for edge ", piece.edge, " of step ",
                      piece.step_id);
}

bool AreOfOneTensor(const TensorPiece& a, const TensorPiece& b) {
  return a.plan == b.plan && a.step_id == b.step_id && a.edge == b.edge && a.turn == b.turn &&
         a.type.dtype == b.type.dtype && a.type.shape == b.type.shape && a.piece_bytes == b.piece_bytes;
}

absl::Status CheckSize(const TensorPiece& piece, size_t num_bytes) {
  const int64_t begin = piece.index * piece.piece_bytes;
  const int64_t expected = std::min(piece.piece_bytes, piece.tensor_bytes() - begin);
  if (static_cast<int64_t>(num_bytes) == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Describe(piece), " came with ", num_bytes, " bytes instead of ", expected));
}

}  // namespace

// Its members are guarded by the assembler's mutex, but for the tensor's bytes (a piece that was taken is
// written by whoever took it) and for the states of pieces.
class TensorAssembler::Assembly {
 public:
  static absl::StatusOr<std::shared_ptr<Assembly>> Create(const TensorPiece& first,
                                                          std::shared_ptr<std::atomic<int64_t>> num_bytes) {
    WEIR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(first.type.dtype, first.type.shape));
    return std::make_shared<Assembly>(first, std::move(tensor), std::move(num_bytes));
  }

  Assembly(const TensorPiece& first, Tensor tensor, std::shared_ptr<std::atomic<int64_t>> num_bytes)
      : first_(first),
        tensor_(std::move(tensor)),
        states_(first.num_pieces()),
        num_missing_(first.num_pieces()),
        num_bytes_(std::move(num_bytes)) {
    num_bytes_->fetch_add(first_.tensor_bytes(), std::memory_order_relaxed);
  }
  ~Assembly() {
    if (num_missing_ > 0) num_bytes_->fetch_sub(first_.tensor_bytes(), std::memory_order_relaxed);
  }

  const TensorPiece& first() const { return first_; }
  char* PlaceOf(const TensorPiece& piece) {
    return static_cast<char*>(tensor_.data()) + piece.index * piece.piece_bytes;
  }
  // False when somebody else has taken this piece.
  bool Take(int64_t index) { return Move(index, State::kFree, State::kTaken); }
  // A piece that was taken will not be written. Nothing when it has been.
  void GiveBack(int64_t index) { Move(index, State::kTaken, State::kFree); }
  // A piece that was taken has been written; once.
  bool Fill(int64_t index) { return Move(index, State::kTaken, State::kFilled); }
  bool IsFilled(int64_t index) const { return states_[index] == State::kFilled; }
  // After each piece that was filled: the whole tensor with the last one.
  Tensor CountFilled() {
    if (--num_missing_ > 0) return Tensor();
    num_bytes_->fetch_sub(first_.tensor_bytes(), std::memory_order_relaxed);
    return std::exchange(tensor_, Tensor());
  }

  const RefPtr<Buffer>& buffer() const { return tensor_.buffer(); }

 private:
  enum class State : uint8_t { kFree, kTaken, kFilled };

  bool Move(int64_t index, State from, State to) { return states_[index].compare_exchange_strong(from, to); }

  const TensorPiece first_;
  Tensor tensor_;
  std::vector<std::atomic<State>> states_;
  int64_t num_missing_;
  const std::shared_ptr<std::atomic<int64_t>> num_bytes_;
};

// The place of one piece while somebody writes it: keeps the memory, but not what belongs to the step.
class TensorAssembler::PlaceBuffer final : public Buffer {
 public:
  PlaceBuffer(const std::shared_ptr<Assembly>& assembly, const TensorPiece& piece, size_t num_bytes)
      : Buffer(assembly->PlaceOf(piece), num_bytes),
        memory_(assembly->buffer()),
        assembly_(assembly),
        index_(piece.index) {}
  ~PlaceBuffer() override {
    if (const auto assembly = assembly_.lock()) assembly->GiveBack(index_);
  }

 private:
  const RefPtr<Buffer> memory_;
  const std::weak_ptr<Assembly> assembly_;
  const int64_t index_;
};

TensorAssembler::TensorAssembler(Keep keep, int64_t max_bytes)
    : keep_(std::move(keep)), max_bytes_(max_bytes > 0 ? max_bytes : MachineMemory()) {}

absl::StatusOr<std::shared_ptr<TensorAssembler::Assembly>> TensorAssembler::FindOrCreateLocked(
    const Envelope& sender, const TensorPiece& piece) {
  const Key key(sender.sender_incarnation, piece.transfer.number);
  if (auto it = assemblies_.find(key); it != assemblies_.end()) {
    if (std::shared_ptr<Assembly> found = it->second.lock()) {
      if (AreOfOneTensor(found->first(), piece)) return found;
      return absl::InvalidArgumentError(absl::StrCat(
          Describe(piece), " came in transfer ", piece.transfer.number, " after ", Describe(found->first())));
    }
  }
  absl::erase_if(assemblies_, [](const auto& entry) { return entry.second.expired(); });
  if (piece.tensor_bytes() > max_bytes_ - num_bytes()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(Describe(piece), ": its ", piece.tensor_bytes(), " bytes and ", num_bytes(),
                     " of other tensors that are not whole are above the limit of ", max_bytes_));
  }
  WEIR_ASSIGN_OR_RETURN(std::shared_ptr<Assembly> created, Assembly::Create(piece, num_bytes_));
  WEIR_ASSIGN_OR_RETURN(const bool is_wanted, keep_(sender, piece, created));
  if (!is_wanted) return std::shared_ptr<Assembly>();
  assemblies_[key] = created;
  return created;
}

Payload TensorAssembler::Place(const Envelope& sender, const TensorPiece& piece, size_t num_bytes) {
  if (!CheckSize(piece, num_bytes).ok()) return Payload();
  absl::MutexLock lock(&mutex_);
  const auto state = transfers_.Begin(sender.sender_incarnation, piece.transfer);
  if (!state.ok() || *state == DeliveredMessages::State::kDelivered) return Payload();
  const auto assembly = FindOrCreateLocked(sender, piece);
  if (!assembly.ok() || *assembly == nullptr || !(*assembly)->Take(piece.index)) return Payload();
  auto place = MakeRef<PlaceBuffer>(*assembly, piece, num_bytes);
  char* const data = static_cast<char*>(place->data());
  return Payload::OfBuffer(std::move(place), data, num_bytes);
}

absl::StatusOr<TensorAssembler::Added> TensorAssembler::Add(const Envelope& sender, const TensorPiece& piece,
                                                            Payload bytes) {
  WEIR_RETURN_IF_ERROR(CheckSize(piece, bytes.num_bytes()));
  std::shared_ptr<Assembly> assembly;
  char* place = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    WEIR_ASSIGN_OR_RETURN(const DeliveredMessages::State state,
                          transfers_.Begin(sender.sender_incarnation, piece.transfer));
    if (state == DeliveredMessages::State::kDelivered) return Added();
    WEIR_ASSIGN_OR_RETURN(assembly, FindOrCreateLocked(sender, piece));
    if (assembly == nullptr) return Added{.is_wanted = false};
    place = assembly->PlaceOf(piece);
    if (bytes.data() != place && !assembly->Take(piece.index))
      return Added{.is_on_its_way = !assembly->IsFilled(piece.index)};
  }
  if (bytes.data() != place) std::memcpy(place, bytes.data(), bytes.num_bytes());
  Added added;
  if (!assembly->Fill(piece.index)) return added;
  bytes = Payload();  // so that whoever gets the tensor is its only holder
  {
    absl::MutexLock lock(&mutex_);
    added.whole = assembly->CountFilled();
    if (added.whole.is_valid()) {
      assemblies_.erase({sender.sender_incarnation, piece.transfer.number});
      transfers_.End(sender.sender_incarnation, piece.transfer.number, true);
    }
  }
  NormalizeBools(&added.whole);
  return added;
}

}  // namespace weir
