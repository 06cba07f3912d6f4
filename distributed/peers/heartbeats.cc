#include "distributed/peers/heartbeats.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/job_outline.h"
#include "distributed/task_config.h"
#include "distributed/transport/call_errors.h"
#include "kernels/notice.h"

namespace weir {
namespace {

// Between two lines that say why this task cannot join.
constexpr absl::Duration kNoticeInterval = absl::Seconds(10);

// What a reply says after its status.
template <typename Answer>
absl::StatusOr<Answer> Read(const absl::StatusOr<PeerReply>& reply,
                            absl::StatusOr<Answer> (*decode)(WireReader* reader)) {
  if (!reply.ok()) return reply.status();
  WireReader reader(reply->header());
  return decode(&reader);
}

// Whether the authority refuses this process for what it was started with.
bool IsMistake(const absl::Status& answer) {
  return absl::IsUnauthenticated(answer) || absl::IsPermissionDenied(answer) ||
         absl::IsInvalidArgument(answer) || absl::IsUnimplemented(answer);
}

}  // namespace

Heartbeats::Heartbeats(Peers& peers, Probes& probes, absl::Duration interval, absl::Duration age_before,
                       uint64_t process)
    : peers_(peers),
      probes_(probes),
      membership_(peers.membership()),
      interval_(interval),
      age_before_(age_before),
      process_(process) {
  if (!membership_.is_authority() || membership_.is_elected()) {
    membership_.SetNewsListener([this, state = state_] {
      absl::MutexLock lock(&state->mutex);
      if (state->is_stopped) return;
      // The authority may be calling because of the request that is under way.
      if (membership_.incarnation() == 0 && num_asked_ > 0) return;
      if (std::exchange(is_asking_at_once_, true)) return;
      Soon([this] { Ask(); });
    });
  }
  Soon([this] { Beat(); });
}

Heartbeats::~Heartbeats() {
  absl::MutexLock lock(&state_->mutex);
  state_->is_stopped = true;
}

template <typename Then>
void Heartbeats::Soon(Then then) {
  peers_.timers().At(absl::InfinitePast(), [state = state_, then = std::move(then)]() mutable {
    absl::MutexLock lock(&state->mutex);
    if (!state->is_stopped) then();
  });
}

void Heartbeats::Beat() {
  if (membership_.is_authority()) {
    AskTheLost();
  } else {
    Ask();
  }
  membership_.CheckLeases();
  peers_.EndCallsToTheLost();
  NoteLease();
  peers_.CloseRetiredChannels();
  peers_.timers().At(peers_.environment().Now() + interval_, [this, state = state_] {
    absl::MutexLock lock(&state->mutex);
    if (!state->is_stopped) Beat();
  });
}

void Heartbeats::Ask() {
  is_asking_at_once_ = false;
  const TaskName authority = membership_.authority();
  // Nobody was elected yet, or this task since then.
  if (authority.job.empty() || membership_.is_authority()) return;
  const Incarnation held = membership_.incarnation();
  const bool has_joined = held != 0;
  if (has_joined && membership_.state(authority) == Membership::State::kDone) return;
  if (!has_joined && num_asked_ >= kMostFirstRequests) return;
  JoinCall call;
  call.highest_known = membership_.highest_known();
  call.known_authority = membership_.incarnation_of(authority);
  call.age = age_before_ + membership_.age();
  call.process = process_;
  call.view = membership_.view();
  call.address = peers_.AddressOf(membership_.self());
  if (!has_joined) call.outline = OutlineOf(membership_.cluster());
  const bool tells_done = has_joined && membership_.incarnation_of(authority) != told_done_;
  if (tells_done) call.done = membership_.DoneLives();
  WireWriter writer;
  EncodeJoin(call, &writer);
  PeerCallOptions options;
  const absl::Duration least = has_joined ? absl::ZeroDuration() : kLeastPatience;
  options.deadline = peers_.environment().Now() + std::max(2 * interval_, least);
  // It may still be starting. A call that waits for it does not say why it waits in vain: every other one
  // does.
  options.wait_for_ready = !has_joined && !std::exchange(tells_why_, !tells_why_);
  options.any_life = true;
  options.before_own_life = true;
  options.retry_for = absl::ZeroDuration();
  ++num_asked_;
  // An error may be told before Call returns.
  peers_.Call(authority, kJoinMethod, writer.Take(), {}, options,
              [this, state = state_, &peers = peers_, tells_done, held, authority,
               sent = peers_.environment().SteadyNow()](absl::StatusOr<PeerReply> reply) {
                absl::StatusOr<JoinReply> answer = Read(reply, DecodeJoinReply);
                const Incarnation told = answer.ok() && tells_done ? reply->life : 0;
                peers.timers().At(absl::InfinitePast(),
                                  [this, state, sent, held, told, authority, answer = std::move(answer)] {
                                    absl::MutexLock lock(&state->mutex);
                                    if (state->is_stopped) return;
                                    --num_asked_;
                                    if (told != 0) told_done_ = told;
                                    OnAnswer(authority, sent, held, answer);
                                  });
              });
}

void Heartbeats::OnAnswer(const TaskName& asked, absl::Time sent, Incarnation held,
                          const absl::StatusOr<JoinReply>& answer) {
  if (!answer.ok()) {  // asked again with the next beat
    if (absl::IsUnavailable(answer.status())) LookForAuthority();
    return OnRefused(answer.status());
  }
  if (const absl::Status spoken = CheckSpoken(asked, answer->spoken, membership_.self()); !spoken.ok()) {
    return OnRefused(spoken);
  }
  if (std::exchange(version_, answer->spoken.version) != answer->spoken.version) {
    const std::string other = DescribeOtherVersion(asked, answer->spoken, membership_.self());
    if (!other.empty()) PrintNotice(other);
  }
  peers_.NoteAuthoritySaid(absl::OkStatus());
  refused_since_ = absl::InfiniteFuture();
  said_.clear();
  // Asked twice: the first life is kept.
  const bool joins = membership_.incarnation() == 0;
  if (joins && peers_.environment().SteadyNow() - sent > kPromptAnswer &&
      num_late_answers_ < kMostLateAnswers) {
    ++num_late_answers_;
    return Ask();
  }
  membership_.OnHeartbeatAnswered(sent);
  // An answer to a question without a life grants another one, which is not taken.
  const bool was_too_low = !joins && held == membership_.incarnation() && answer->life > held;
  if (joins || was_too_low) membership_.SetIncarnation(answer->life);
  membership_.ApplyView(answer->view, asked);
  NoteLease();
  peers_.OnLease();
  if (joins || was_too_low) Ask();  // so that the authority knows that the life was taken
  if (!joins && (!is_watching_ || watched_ != membership_.authority())) Watch(membership_.view());
}

void Heartbeats::OnRefused(const absl::Status& why) {
  const absl::Time now = peers_.environment().SteadyNow();
  // Who refuses a call closes the connection afterwards: that says nothing new.
  if (absl::IsUnavailable(why) && now - last_refused_ < membership_.lease()) return;
  if (IsMistake(why)) last_refused_ = now;
  peers_.NoteAuthoritySaid(why);
  // That nobody listens is usual while the job starts, and others say who waits for whom.
  if (absl::IsDeadlineExceeded(why) || absl::IsCancelled(why) || IsConnectionRefused(why)) return;
  if (!IsMistake(why)) refused_since_ = absl::InfiniteFuture();
  if (membership_.incarnation() != 0) return;
  if (said_ != why.message() && now >= next_notice_) {
    said_ = std::string(why.message());
    next_notice_ = now + kNoticeInterval;
    PrintNotice(peers_.WhyItWaits());
  }
  if (!IsMistake(why)) return;
  refused_since_ = std::min(refused_since_, now);
  if (now - refused_since_ < kRefusedFor * membership_.lease()) return;
  membership_.GiveUp(absl::Status(
      why.code(),
      absl::StrCat(peers_.WhyItWaits(), " (for ",
                   absl::FormatDuration(absl::Trunc(now - refused_since_, absl::Milliseconds(100))), ")")));
}

void Heartbeats::Watch(const ViewNumber& known) {
  is_watching_ = true;
  watched_ = membership_.authority();
  WireWriter writer;
  EncodeViewNumber(known, &writer);
  PeerCallOptions options;
  options.deadline = peers_.environment().Now() + kWatchedFor * interval_;
  options.retry_for = absl::ZeroDuration();
  peers_.Call(watched_, kWatchMethod, writer.Take(), {}, options,
              [this, state = state_, &peers = peers_, known, watched = watched_,
               number = ++num_watches_](absl::StatusOr<PeerReply> reply) {
                absl::StatusOr<View> news = Read(reply, DecodeView);
                peers.timers().At(absl::InfinitePast(),
                                  [this, state, known, watched, number, news = std::move(news)] {
                                    absl::MutexLock lock(&state->mutex);
                                    // Of another authority, unless it is the last one.
                                    if (!state->is_stopped && number == num_watches_)
                                      OnNews(watched, known, news);
                                  });
              });
}

void Heartbeats::OnNews(const TaskName& watched, const ViewNumber& known, const absl::StatusOr<View>& news) {
  is_watching_ = false;
  if (!news.ok()) {
    // The next heartbeat that is answered begins to watch again. A connection that broke is asked why.
    if (absl::IsUnavailable(news.status())) {
      LookForAuthority();
      Ask();
    }
    return;
  }
  // First: it tells the authority, which may be about to leave, that the news has come.
  if (news->number > known) Watch(news->number);
  membership_.ApplyView(*news, watched);
}

void Heartbeats::LookForAuthority() {
  const TaskName authority = membership_.authority();
  probes_.Look(authority, membership_.incarnation_of(authority), nullptr);
}

void Heartbeats::AskTheLost() {
  const std::vector<TaskName> lost = membership_.LostTasks();
  for (size_t i = 0; i < lost.size() && i < kMostAsked; ++i) {
    PeerCallOptions options;
    options.deadline = peers_.environment().Now() + 2 * interval_;
    options.any_life = true;
    options.retry_for = absl::ZeroDuration();
    peers_.Call(lost[next_lost_++ % lost.size()], kHeartbeatMethod, "", {}, options,
                [](absl::StatusOr<PeerReply>) {});
  }
}

void Heartbeats::NoteLease() {
  const bool holds = membership_.incarnation() == 0 || membership_.HoldsLease();
  const bool was = std::exchange(holds_lease_, holds);
  // Replicas without parameter servers have no steps with parts on other tasks.
  if (holds == was || !IsTrainingJob(membership_.self().job) || !membership_.cluster().HasJob("ps")) return;
  const TaskName elected = membership_.authority();
  const std::string self = membership_.self().ToString(),
                    authority = elected.job.empty() ? "the authority" : elected.ToString();
  PrintNotice(holds ? absl::StrCat(self, ": ", authority, " answers again: steps go on")
                    : absl::StrCat(self, " begins no more steps until ", authority,
                                   ", which says who is alive, answers again"));
}

}  // namespace weir
