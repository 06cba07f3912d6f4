#include "distributed/peers/tensor_pusher.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/long_wait.h"

namespace weir {

TensorPusher::TensorPusher(Peers& peers, const TensorPusherOptions& options, OnFailure on_failure)
    : peers_(peers), options_(options), on_failure_(std::move(on_failure)) {}

TensorPusher::~TensorPusher() {
  decltype(beginnings_) left;
  {
    absl::MutexLock lock(&mutex_);
    left.swap(beginnings_);
  }
  for (auto& [step, beginnings] : left) {
    for (Beginning& beginning : beginnings)
      beginning.begin(absl::CancelledError("this task is shutting down"));
  }
  WaitUntilIdle();
}

void TensorPusher::WaitUntilIdle() {
  absl::MutexLock lock(&mutex_);
  AwaitAloud(peers_.environment(), mutex_,
             absl::Condition(
                 +[](int* num_under_way) { return *num_under_way == 0; }, &num_under_way_),
             [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
               return absl::StrCat(peers_.membership().self().ToString(),
                                   " shuts down, and waits for the answers to ", num_under_way_,
                                   " messages with tensors");
             });
}

absl::Status TensorPusher::Send(PlanId plan, int64_t step_id, int edge, int64_t turn,
                                const DeviceName& destination, const Tensor& tensor, bool is_dead) {
  if (!destination.job || !destination.task) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor was sent to '", destination.ToString(), "', which is no task"));
  }
  if (tensor.dtype() == DType::kVariant) {
    return absl::UnimplementedError("a variant tensor cannot be sent to another task");
  }
  const TaskName task{*destination.job, *destination.task};
  const int64_t num_bytes = static_cast<int64_t>(tensor.num_bytes());
  if (num_bytes > options_.piece_bytes && IsPlainBytes(tensor.dtype()) && !is_dead) {
    TensorPiece first;
    first.plan = plan;
    first.step_id = step_id;
    first.edge = edge;
    first.turn = turn;
    SendInPieces(first, task, tensor);
    return absl::OkStatus();
  }
  Bundle full;
  {
    absl::MutexLock lock(&mutex_);
    std::vector<Bundle>& bundles = collected_[{plan, step_id}];
    auto bundle =
        std::find_if(bundles.begin(), bundles.end(), [&](const Bundle& b) { return b.destination == task; });
    if (bundle == bundles.end())
      bundle = bundles.insert(bundles.end(), Bundle{task, {{}, plan, step_id, {}}, 0});
    bundle->request.entries.push_back({edge, is_dead, tensor, turn});
    bundle->num_bytes += num_bytes;
    if (bundle->num_bytes < options_.bundle_bytes) return absl::OkStatus();
    full = std::move(*bundle);
    bundles.erase(bundle);
  }
  std::vector<Message> messages;
  messages.push_back({std::move(full)});
  Enqueue(std::move(messages));
  return absl::OkStatus();
}

void TensorPusher::SendInPieces(const TensorPiece& first, const TaskName& destination, const Tensor& tensor) {
  Piece piece{destination, first, tensor, 0, std::make_shared<Transfer>()};
  piece.header.type = {tensor.dtype(), tensor.shape()};
  piece.header.piece_bytes = options_.piece_bytes;
  piece.transfer->num_pieces_left = piece.header.num_pieces();
  std::vector<Message> messages;
  int64_t bytes_left = piece.header.tensor_bytes();
  for (; bytes_left > 0; bytes_left -= piece.num_bytes, ++piece.header.index) {
    piece.num_bytes = std::min(bytes_left, options_.piece_bytes);
    messages.push_back({piece});
  }
  Enqueue(std::move(messages));
}

void TensorPusher::Flush(PlanId plan, int64_t step_id) {
  std::vector<Bundle> bundles;
  std::vector<Beginning> beginnings;
  {
    absl::MutexLock lock(&mutex_);
    bundles = TakeCollectedLocked({plan, step_id});
    beginnings = TakeBeginningsLocked({plan, step_id});
  }
  Leave(std::move(beginnings), std::move(bundles));
}

void TensorPusher::FlushLast(PlanId plan, int64_t step_id) {
  std::vector<Bundle> bundles;
  std::vector<Beginning> beginnings;
  {
    absl::MutexLock lock(&mutex_);
    bundles = TakeCollectedLocked({plan, step_id});
    beginnings = TakeBeginningsLocked({plan, step_id});
    if (const auto answer = answers_.find({plan, step_id}); answer != answers_.end()) {
      const auto found = std::find_if(bundles.begin(), bundles.end(), [&](const Bundle& bundle) {
        return bundle.destination == answer->second.owner && FitsAnAnswer(bundle);
      });
      if (found != bundles.end()) {
        answer->second.entries = std::move(found->request.entries);
        bundles.erase(found);
      }
    }
  }
  Leave(std::move(beginnings), std::move(bundles));
}

bool TensorPusher::FitsAnAnswer(const Bundle& bundle) {
  constexpr size_t kMaxEntries = 16;  // each has a header, too
  const std::vector<EdgeTensor>& entries = bundle.request.entries;
  return entries.size() <= kMaxEntries && bundle.num_bytes <= kMaxAnswerBytes &&
         std::all_of(entries.begin(), entries.end(),
                     [](const EdgeTensor& entry) { return IsPlainBytes(entry.tensor.dtype()); });
}

std::vector<TensorPusher::Bundle> TensorPusher::TakeCollectedLocked(const StepKey& step) {
  const auto it = collected_.find(step);
  if (it == collected_.end()) return {};
  std::vector<Bundle> bundles = std::move(it->second);
  collected_.erase(it);
  return bundles;
}

std::vector<TensorPusher::Beginning> TensorPusher::TakeBeginningsLocked(const StepKey& step) {
  const auto it = beginnings_.find(step);
  if (it == beginnings_.end()) return {};
  std::vector<Beginning> beginnings = std::move(it->second);
  beginnings_.erase(it);
  return beginnings;
}

void TensorPusher::Leave(std::vector<Beginning> beginnings, std::vector<Bundle> bundles) {
  for (Beginning& beginning : beginnings) {
    const auto bundle = std::find_if(bundles.begin(), bundles.end(), [&](const Bundle& candidate) {
      return candidate.destination == beginning.to;
    });
    std::vector<EdgeTensor> first;
    if (bundle != bundles.end()) {
      first = std::move(bundle->request.entries);
      bundles.erase(bundle);
    }
    beginning.begin(std::move(first));
  }
  for (Bundle& bundle : bundles) {
    std::vector<Message> messages;
    messages.push_back({std::move(bundle)});
    Enqueue(std::move(messages));
  }
}

void TensorPusher::BeginAtFlush(PlanId plan, int64_t step_id, const TaskName& to, BeginPart begin) {
  absl::MutexLock lock(&mutex_);
  beginnings_[{plan, step_id}].push_back({to, std::move(begin)});
}

void TensorPusher::GiveUp(PlanId plan, int64_t step_id, const TaskName& to, const absl::Status& reason) {
  std::optional<Beginning> given_up;
  {
    absl::MutexLock lock(&mutex_);
    const auto it = beginnings_.find({plan, step_id});
    if (it == beginnings_.end()) return;
    std::vector<Beginning>& beginnings = it->second;
    const auto found = std::find_if(beginnings.begin(), beginnings.end(),
                                    [&to](const Beginning& beginning) { return beginning.to == to; });
    if (found == beginnings.end()) return;
    given_up = std::move(*found);
    beginnings.erase(found);
    if (beginnings.empty()) beginnings_.erase(it);
  }
  given_up->begin(reason);
}

void TensorPusher::AnswerWith(PlanId plan, int64_t step_id, const TaskName& owner) {
  absl::MutexLock lock(&mutex_);
  answers_[{plan, step_id}] = {owner, {}};
}

std::vector<EdgeTensor> TensorPusher::TakeAnswer(PlanId plan, int64_t step_id) {
  absl::MutexLock lock(&mutex_);
  auto answer = answers_.extract({plan, step_id});
  return answer.empty() ? std::vector<EdgeTensor>() : std::move(answer.mapped().entries);
}

void TensorPusher::Discard(PlanId plan, int64_t step_id) {
  std::vector<Bundle> dropped;  // tensors are freed outside the lock
  absl::MutexLock lock(&mutex_);
  auto it = collected_.find({plan, step_id});
  if (it == collected_.end()) return;
  dropped = std::move(it->second);
  collected_.erase(it);
}

void TensorPusher::Withdraw(PlanId plan, int64_t step_id) {
  Discard(plan, step_id);
  std::deque<Message> dropped;  // freed outside the lock
  absl::MutexLock lock(&mutex_);
  for (auto& [peer, lane] : lanes_) {
    DropWaitingLocked(
        lane, [&](const Message& message) { return message.step() == StepKey(plan, step_id); }, &dropped);
  }
}

bool TensorPusher::MayGoLocked(const Lane& lane, const Message& message) const {
  const bool is_piece = std::holds_alternative<Piece>(message.content);
  const int64_t own = is_piece ? options_.max_bytes_before_piece : options_.max_bytes_under_way;
  const int64_t limit = std::min(own, lane.window.bytes);
  if (lane.bytes_under_way > 0 && lane.bytes_under_way + message.num_bytes() > limit) return false;
  // Never false when nothing is under way: then no number is unanswered but that of the piece's tensor.
  const Piece* piece = std::get_if<Piece>(&message.content);
  const uint64_t known = piece != nullptr ? piece->transfer->number : 0;
  const uint64_t number = known != 0 ? known : lane.next_number;
  return number < lane.answered_below() + DeliveredMessages::kWindow;
}

bool TensorPusher::NoteLifeLocked(Incarnation life, Lane* lane) {
  if (life <= lane->life) return false;
  lane->life = life;
  lane->window = kFirstWindow;
  return true;
}

void TensorPusher::GiveBackIdleWindowLocked(Lane* lane) const {
  if (peers_.environment().SteadyNow() - lane->answered <= InboundBudget::kWindowLasts) return;
  lane->window.bytes = std::min(lane->window.bytes, InboundBudget::kFirstWindow);
}

int64_t TensorPusher::WindowTo(const TaskName& peer) const {
  absl::MutexLock lock(&mutex_);
  const auto lane = lanes_.find(peer);
  return lane == lanes_.end() ? InboundBudget::kFirstWindow : lane->second.window.bytes;
}

std::vector<TensorPusher::Message> TensorPusher::TakeReadyLocked(const TaskName& peer, Lane& lane) {
  std::vector<Message> ready;
  if (!lane.waiting.empty()) {
    NoteLifeLocked(peers_.membership().incarnation_of(peer), &lane);
    GiveBackIdleWindowLocked(&lane);
  }
  while (!lane.waiting.empty() && MayGoLocked(lane, lane.waiting.front())) {
    Message message = std::move(lane.waiting.front());
    lane.waiting.pop_front();
    lane.bytes_under_way += message.num_bytes();
    Piece* piece = std::get_if<Piece>(&message.content);
    uint64_t number = piece != nullptr ? piece->transfer->number : 0;
    if (number == 0) lane.unanswered.insert(number = lane.next_number++);
    if (piece != nullptr) piece->transfer->number = number;
    message.number() = {number, lane.answered_below()};
    ready.push_back(std::move(message));
  }
  return ready;
}

const TaskName& TensorPusher::Message::destination() const {
  return std::visit([](const auto& c) -> const TaskName& { return c.destination; }, content);
}

TensorPusher::StepKey TensorPusher::Message::step() const {
  if (const Bundle* bundle = std::get_if<Bundle>(&content)) {
    return {bundle->request.plan, bundle->request.step_id};
  }
  const TensorPiece& header = std::get<Piece>(content).header;
  return {header.plan, header.step_id};
}

int64_t TensorPusher::Message::num_bytes() const {
  return std::visit([](const auto& c) { return c.num_bytes; }, content);
}

MessageNumber& TensorPusher::Message::number() {
  if (Bundle* bundle = std::get_if<Bundle>(&content)) return bundle->request.message;
  return std::get<Piece>(content).header.transfer;
}

void TensorPusher::Enqueue(std::vector<Message> messages) {
  std::vector<Message> ready;
  {
    absl::MutexLock lock(&mutex_);
    const TaskName destination = messages.front().destination();
    Lane& lane = lanes_[destination];
    num_under_way_ += static_cast<int>(messages.size());
    lane.waiting.insert(lane.waiting.end(), std::make_move_iterator(messages.begin()),
                        std::make_move_iterator(messages.end()));
    ready = TakeReadyLocked(destination, lane);
  }
  for (Message& message : ready) Transmit(std::move(message));
}

void TensorPusher::Transmit(Message message) {
  if (Bundle* bundle = std::get_if<Bundle>(&message.content)) return TransmitBundle(std::move(*bundle));
  TransmitPiece(std::move(std::get<Piece>(message.content)));
}

PeerCallOptions TensorPusher::CallOptions() const {
  return {
      .deadline = peers_.environment().Now() + options_.timeout, .names_link = true, .reads_refusals = true};
}

TensorPusher::Answered TensorPusher::ReadAnswer(const absl::StatusOr<PeerReply>& reply, bool is_of_piece) {
  if (!reply.ok()) return {.status = reply.status()};
  Answered answered = {.status = reply->refusal, .life = reply->life};
  WireReader reader(reply->header());
  if (is_of_piece && answered.status.ok()) answered.is_wanted = DecodePieceReply(&reader);
  answered.window = InboundWindow::DecodeFrom(&reader);
  return answered;
}

void TensorPusher::TransmitPiece(Piece piece) {
  const TensorPiece& header = piece.header;
  WireWriter writer;
  EncodePiece(header, &writer);
  std::vector<Payload> payloads;
  payloads.push_back(Payload::OfTensor(piece.tensor, header.index * header.piece_bytes, piece.num_bytes));
  const auto on_reply = [this, destination = piece.destination, num_bytes = piece.num_bytes,
                         plan = header.plan, step_id = header.step_id, message = header.transfer,
                         transfer = piece.transfer](absl::StatusOr<PeerReply> reply) {
    const Answered answered = ReadAnswer(reply, /*is_of_piece=*/true);
    if (!answered.status.ok()) on_failure_(plan, step_id, answered.status);
    if (!answered.is_wanted) DropWaitingPieces(destination, transfer);
    OnAnswered(destination, message, num_bytes, transfer, answered);
  };
  peers_.Call(piece.destination, kPushPieceMethod, writer.Take(), std::move(payloads), CallOptions(),
              on_reply);
}

void TensorPusher::TransmitBundle(Bundle bundle) {
  const auto on_reply = [this, destination = bundle.destination, num_bytes = bundle.num_bytes,
                         message = bundle.request.message, plan = bundle.request.plan,
                         step_id = bundle.request.step_id](const absl::StatusOr<PeerReply>& reply) {
    const Answered answered = ReadAnswer(reply, /*is_of_piece=*/false);
    if (!answered.status.ok()) on_failure_(plan, step_id, answered.status);
    OnAnswered(destination, message, num_bytes, nullptr, answered);
  };
  WireWriter writer;
  std::vector<Payload> payloads;
  if (absl::Status encoded = EncodePush(bundle.request, &writer, &payloads); !encoded.ok())
    return on_reply(encoded);
  const TaskName destination = bundle.destination;
  bundle.request.entries.clear();  // the payloads hold what is still needed
  peers_.Call(destination, kPushTensorsMethod, writer.Take(), std::move(payloads), CallOptions(),
              [on_reply](absl::StatusOr<PeerReply> reply) { on_reply(reply); });
}

void TensorPusher::DropWaitingPieces(const TaskName& destination, const std::shared_ptr<Transfer>& transfer) {
  std::deque<Message> dropped;  // freed outside the lock
  absl::MutexLock lock(&mutex_);
  const auto is_of_transfer = [&](const Message& message) {
    const Piece* piece = std::get_if<Piece>(&message.content);
    return piece != nullptr && piece->transfer == transfer;
  };
  DropWaitingLocked(lanes_[destination], is_of_transfer, &dropped);
}

// Some message of the lane is under way, so what is left goes with the answer to that.
template <typename IsUnwanted>
void TensorPusher::DropWaitingLocked(Lane& lane, const IsUnwanted& is_unwanted,
                                     std::deque<Message>* dropped) {
  const auto rest = std::stable_partition(lane.waiting.begin(), lane.waiting.end(),
                                          [&](const Message& message) { return !is_unwanted(message); });
  for (auto message = rest; message != lane.waiting.end(); ++message) {
    --num_under_way_;
    if (const Piece* piece = std::get_if<Piece>(&message->content)) {
      // Of those that are under way the last one is answered.
      if (--piece->transfer->num_pieces_left == 0) lane.unanswered.erase(piece->transfer->number);
    }
    dropped->push_back(std::move(*message));
  }
  lane.waiting.erase(rest, lane.waiting.end());
}

void TensorPusher::NoteWindowLocked(const Answered& answered, Lane* lane) {
  NoteLifeLocked(answered.life, lane);
  const bool is_said = answered.life != 0 && answered.life == lane->life && answered.window.number != 0;
  if (is_said) {
    lane->answered = peers_.environment().SteadyNow();
    // Answers may come in another order than they were given in.
    if (answered.window.number > lane->window.number) lane->window = answered.window;
  } else if (!answered.status.ok()) {
    lane->window.bytes = 1;  // one message at a time: what it may have was lost with the answer
  }
}

void TensorPusher::OnAnswered(const TaskName& destination, const MessageNumber& message, int64_t num_bytes,
                              const std::shared_ptr<Transfer>& transfer, const Answered& answered) {
  std::vector<Message> next;
  {
    absl::MutexLock lock(&mutex_);
    Lane& lane = lanes_[destination];
    lane.bytes_under_way -= num_bytes;
    const bool is_new_life = NoteLifeLocked(peers_.membership().incarnation_of(destination), &lane);
    // What was lost with an earlier life does not count.
    if (!is_new_life || answered.life != 0) NoteWindowLocked(answered, &lane);
    if (transfer == nullptr || --transfer->num_pieces_left == 0) lane.unanswered.erase(message.number);
    next = TakeReadyLocked(destination, lane);
  }
  for (Message& message : next) Transmit(std::move(message));
  absl::MutexLock lock(&mutex_);
  --num_under_way_;
}

}  // namespace weir
