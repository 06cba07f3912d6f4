// Whose error it is, and until when, of checks whose work happens when the test says so.
#include "kernels/cuda/data_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/caching_allocator.h"
#include "kernels/cuda/recording_cuda_api.h"

namespace weir {
namespace {

class Step final : public PendingWork {
 public:
  void Begin() override {}
  void End(const absl::Status&) override {}
};

class DataChecksTest : public ::testing::Test {
 protected:
  DataChecksTest() {
    // Finds what the launch says.
    api_.SetKernel(&check_, [](const RecordingCudaApi::Launched& launched) {
      const int kind = launched.argument<int>(1);
      if (kind >= 0) NoteDataError(launched.argument<cuda::DataErrorPlace>(0), kind);
    });
    api_.SetKernel(&heed_, [this](const RecordingCudaApi::Launched& launched) {
      heeded_.push_back(cuda::IsBad(launched.argument<volatile cuda::DataError*>(0)));
    });
  }

  // A check that finds something of that kind; -1: nothing.
  absl::Status Check(const PendingWork& step, int kind, const std::string& text = "wrong") {
    const auto explain = [text](const cuda::DataError& found) {
      return absl::InvalidArgumentError(
          absl::StrCat(text, " ", found.kinds[0], found.kinds[1], found.kinds[2], found.kinds[3]));
    };
    return checks_.Check(step, explain, [&](const cuda::DataErrorPlace& place) {
      const CudaArgument arguments[] = {{&place, sizeof(place)}, {&kind, sizeof(kind)}};
      return api_.Launch({"check", &check_}, {}, arguments, stream_->handle());
    });
  }
  // A kernel of the step that says whether it would change anything.
  void Heed(const PendingWork& step) {
    volatile cuda::DataError* const notes = checks_.NotesOf(&step);
    const CudaArgument arguments[] = {{&notes, sizeof(notes)}};
    ASSERT_TRUE(api_.Launch({"heed", &heed_}, {}, arguments, stream_->handle()).ok());
  }
  // A step that is waited for.
  absl::Status Await(const Step& step) {
    const int64_t mark = checks_.Mark();
    api_.RunAll();
    checks_.NoteDone(mark);
    return checks_.EndStep(step, false);
  }

  RecordingCudaApi api_;
  std::unique_ptr<CudaStream> stream_ = CudaStream::Create(api_, 0).value();
  CachingAllocator allocator_{api_, 0, 1 << 26};
  DataChecks checks_{*stream_, allocator_};
  char check_ = 0, heed_ = 0;
  std::vector<bool> heeded_;
};

TEST_F(DataChecksTest, AStepHasTheErrorOfItsFirstCheckThatFindsSomething) {
  const Step step;
  EXPECT_EQ(checks_.NotesOf(&step), nullptr);
  ASSERT_TRUE(Check(step, -1, "first").ok());
  Heed(step);
  ASSERT_TRUE(Check(step, 1, "second").ok());
  ASSERT_TRUE(Check(step, 2, "third").ok());
  Heed(step);
  const absl::Status status = Await(step);
  EXPECT_EQ(status.message(), "second 0100");
  EXPECT_EQ(heeded_, (std::vector<bool>{false, true}));
  // It is named anew by its next step, which begins with clean notes.
  EXPECT_EQ(checks_.NotesOf(&step), nullptr);
  ASSERT_TRUE(Check(step, -1).ok());
  Heed(step);
  EXPECT_TRUE(Await(step).ok());
  EXPECT_FALSE(heeded_.back());
}

TEST_F(DataChecksTest, StepsThatRunAtOnceHaveTheirOwnErrors) {
  const Step good, bad;
  ASSERT_TRUE(Check(good, -1).ok());
  ASSERT_TRUE(Check(bad, 0).ok());
  Heed(good);
  Heed(bad);
  EXPECT_EQ(Await(good), absl::OkStatus());
  EXPECT_EQ(Await(bad).message(), "wrong 1000");
  EXPECT_EQ(heeded_, (std::vector<bool>{false, true}));
}

TEST_F(DataChecksTest, WhatIsFoundLaterIsTheErrorOfTheNextStep) {
  const Step first, second, third;
  ASSERT_TRUE(Check(first, 3).ok());
  EXPECT_TRUE(checks_.EndStep(first, false).ok());
  // Not found yet: the next step goes on, and is not the first one's victim.
  ASSERT_TRUE(Check(second, -1).ok());
  Heed(second);
  EXPECT_TRUE(checks_.EndStep(second, false).ok());
  api_.RunAll();
  EXPECT_FALSE(heeded_.back());
  EXPECT_EQ(Check(third, -1).message(), "an earlier step, which nobody waited for, has failed: wrong 0001");
  EXPECT_TRUE(checks_.EndStep(third, true).ok());
  ASSERT_TRUE(Check(third, -1).ok());
  EXPECT_TRUE(Await(third).ok());
}

// A step that waits for what it fetches, and not for its updates, which look at data, too.
TEST_F(DataChecksTest, WhatIsFoundBeforeTheEndIsTheStepsErrorThoughChecksAreOnTheirWay) {
  const Step step, next;
  ASSERT_TRUE(Check(step, 1, "early").ok());
  api_.RunAll();
  ASSERT_TRUE(Check(step, 2, "late").ok());
  EXPECT_EQ(checks_.EndStep(step, false).message(), "early 0100");
  // Nobody is told twice, and the notes are clean for whoever gets them.
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(Check(next, -1).ok());
    Heed(next);
    EXPECT_TRUE(Await(next).ok());
    EXPECT_FALSE(heeded_.back());
  }
}

TEST_F(DataChecksTest, AStepThatHasFailedAnywaySaysNothingMore) {
  const Step step;
  ASSERT_TRUE(Check(step, 0).ok());
  EXPECT_TRUE(checks_.EndStep(step, true).ok());
  api_.RunAll();
  ASSERT_TRUE(Check(step, 0).ok());
  const int64_t mark = checks_.Mark();
  api_.RunAll();
  checks_.NoteDone(mark);
  EXPECT_EQ(checks_.ErrorOf(step).message(), "wrong 1000");
  EXPECT_TRUE(checks_.EndStep(step, true).ok());
}

// More steps in flight than notes are made at once; then all of them again, in the same memory.
TEST_F(DataChecksTest, ManyStepsMayBeOnTheirWay) {
  for (int round = 0; round < 2; ++round) {
    const std::vector<Step> steps(600);
    for (size_t i = 0; i < steps.size(); ++i) ASSERT_TRUE(Check(steps[i], i % 3 == 0 ? 1 : -1).ok());
    const int64_t mark = checks_.Mark();
    api_.RunAll();
    checks_.NoteDone(mark);
    for (size_t i = 0; i < steps.size(); ++i) {
      EXPECT_EQ(checks_.EndStep(steps[i], false).ok(), i % 3 != 0) << i;
    }
  }
  EXPECT_EQ(api_.num_calls("cudaHostAlloc"), 3);
}

class RecordedChecksTest : public DataChecksTest {
 protected:
  RecordedChecksTest() : capture_(*api_.CreateStream(0)) {}
  ~RecordedChecksTest() override {
    checks_.Forget(recorded_);
    EXPECT_TRUE(api_.DestroyGraph(graph_).ok());
    EXPECT_TRUE(api_.DestroyStream(capture_).ok());
  }

  // A check that finds what `found_` says when it runs, and a kernel that heeds it.
  void Record() {
    api_.SetKernel(&recorded_check_, [this](const RecordingCudaApi::Launched& launched) {
      if (found_ >= 0) NoteDataError(launched.argument<cuda::DataErrorPlace>(0), found_);
    });
    ASSERT_TRUE(api_.BeginCapture(capture_).ok());
    const auto explain = [this](const cuda::DataError&) {
      if (while_explaining_) while_explaining_();
      return absl::InvalidArgumentError("recorded");
    };
    ASSERT_TRUE(checks_
                    .Check(recorded_, explain,
                           [&](const cuda::DataErrorPlace& place) {
                             const CudaArgument argument = {&place, sizeof(place)};
                             return api_.Launch({"check", &recorded_check_}, {}, {&argument, 1}, capture_);
                           })
                    .ok());
    volatile cuda::DataError* const notes = checks_.NotesOf(&recorded_);
    const CudaArgument argument = {&notes, sizeof(notes)};
    ASSERT_TRUE(api_.Launch({"heed", &heed_}, {}, {&argument, 1}, capture_).ok());
    checks_.EndRecording(recorded_);
    graph_ = *api_.EndCapture(capture_);
  }
  absl::Status Repeat(const Step& step) {
    return checks_.Repeat(step, recorded_, [&] { return api_.LaunchGraph(graph_, stream_->handle()); });
  }

  const CudaStreamHandle capture_;
  CudaGraphHandle graph_;
  RecordedChecks recorded_;
  char recorded_check_ = 0;
  int found_ = -1;
  std::function<void()> while_explaining_;
};

TEST_F(RecordedChecksTest, EachStepThatRepeatsThemHasItsOwnError) {
  Record();
  EXPECT_TRUE(checks_.IsFree(recorded_));
  for (const int found : {-1, 2, -1, 0}) {
    const Step step;
    found_ = found;
    ASSERT_TRUE(Repeat(step).ok());
    EXPECT_FALSE(checks_.IsFree(recorded_));
    EXPECT_EQ(Await(step), found < 0 ? absl::OkStatus() : absl::InvalidArgumentError("recorded"));
    EXPECT_TRUE(checks_.IsFree(recorded_));
  }
  EXPECT_EQ(heeded_, (std::vector<bool>{false, true, false, true}));
}

TEST_F(RecordedChecksTest, WhatIsFoundLaterKeepsThemFromBeingRepeated) {
  Record();
  const Step first, second;
  found_ = 1;
  ASSERT_TRUE(Repeat(first).ok());
  EXPECT_TRUE(checks_.EndStep(first, false).ok());
  EXPECT_FALSE(checks_.IsFree(recorded_));
  api_.RunAll();
  EXPECT_FALSE(checks_.IsFree(recorded_));  // its error is to be said
  EXPECT_EQ(checks_.EarlierError(recorded_).message(),
            "an earlier step, which nobody waited for, has failed: recorded");
  EXPECT_TRUE(checks_.IsFree(recorded_));
  found_ = -1;
  ASSERT_TRUE(Repeat(second).ok());
  EXPECT_TRUE(Await(second).ok());
}

// What has been found is explained by what the work was fed, which the next step replaces.
TEST_F(RecordedChecksTest, TheyAreNotFreeWhileTheirErrorIsExplained) {
  Record();
  const Step step;
  found_ = 1;
  ASSERT_TRUE(Repeat(step).ok());
  api_.RunAll();  // found, and nobody knows yet that the stream has come so far
  bool has_explained = false;
  while_explaining_ = [&] {
    has_explained = true;
    api_.RunAll();
    EXPECT_FALSE(checks_.IsFree(recorded_));
  };
  EXPECT_EQ(checks_.EndStep(step, false).message(), "recorded");
  EXPECT_TRUE(has_explained);
  api_.RunAll();
  EXPECT_TRUE(checks_.IsFree(recorded_));
  EXPECT_EQ(checks_.EarlierError(recorded_), absl::OkStatus()) << "it was said";
}

TEST_F(RecordedChecksTest, TheyMayBeForgottenWhileAStepRepeatsThem) {
  Record();
  const Step step;
  found_ = 3;
  ASSERT_TRUE(Repeat(step).ok());
  checks_.Forget(recorded_);
  EXPECT_EQ(Await(step).message(), "recorded");
  // Their notes are somebody else's now.
  const std::vector<Step> steps(256);
  for (const Step& one : steps) ASSERT_TRUE(Check(one, -1).ok());
  EXPECT_EQ(api_.num_calls("cudaHostAlloc"), 1);
  for (const Step& one : steps) EXPECT_TRUE(Await(one).ok());
}

TEST_F(RecordedChecksTest, ALaunchThatFailsIsNone) {
  Record();
  const Step step;
  api_.FailCall("cudaGraphLaunch", 1);
  EXPECT_FALSE(Repeat(step).ok());
  EXPECT_TRUE(checks_.IsFree(recorded_));
  EXPECT_EQ(checks_.NotesOf(&step), nullptr);
}

}  // namespace
}  // namespace weir
