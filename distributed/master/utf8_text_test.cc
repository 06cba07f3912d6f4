#include "distributed/master/utf8_text.h"

#include "distributed/master/step_error.h"
#include "distributed/master/step_messages.h"
#include "graph/interchange/proto/master.pb.h"
#include "gtest/gtest.h"
#include "session/executor/program.h"

namespace weir {
namespace {

const std::string kUmlaut = "\xc3\xbc", kEuro = "\xe2\x82\xac", kFace = "\xf0\x9f\x99\x82";

TEST(Utf8TextTest, KnowsWhereCharactersEnd) {
  EXPECT_EQ(Utf8CharacterBytes(""), 0);
  EXPECT_EQ(Utf8CharacterBytes("ab"), 1);
  EXPECT_EQ(Utf8CharacterBytes(kUmlaut + "x"), 2);
  EXPECT_EQ(Utf8CharacterBytes(kEuro), 3);
  EXPECT_EQ(Utf8CharacterBytes(kFace), 4);
  // Cut, a continuation alone, longer than need be, half of a pair, beyond the last one.
  for (const char* none :
       {"\xc3", "\xbc", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"}) {
    EXPECT_EQ(Utf8CharacterBytes(none), 0) << none;
  }
}

TEST(Utf8TextTest, CutsBetweenCharacters) {
  const std::string text = "a" + kFace + kEuro;
  const size_t ends[] = {0, 1, 1, 1, 1, 5, 5, 5, 8, 8};
  for (size_t max = 0; max < 10; ++max) EXPECT_EQ(Utf8Beginning(text, max).size(), ends[max]) << max;
  EXPECT_EQ(Utf8Beginning("\xbc\xbc\xbc\xbc\xbc\xbc", 5).size(), 2) << "no text: cut somewhere near";
}

TEST(Utf8TextTest, ReplacesWhatIsNoCharacter) {
  EXPECT_EQ(AsUtf8(kUmlaut + "\xff" + kFace + "\xc3"), kUmlaut + "?" + kFace + "?");
}

// A client refuses a whole answer whose text is no UTF-8.
TEST(Utf8TextTest, ErrorsOfStepsCanBeReadByClients) {
  std::string text;
  while (text.size() < 4000) text += kEuro;
  for (int shift = 0; shift < 3; ++shift) {
    absl::Status error = absl::InternalError(std::string(shift, 'x') + text);
    error.SetPayload(kNodePayload, absl::Cord("node"));
    const absl::Status cut = StepErrorForClient(error, DeviceName());
    EXPECT_EQ(AsUtf8(cut.message()), cut.message());
  }
  const Frame frame = RunStepErrorResponse(absl::InternalError("a name: \xff\xc3"));
  tensorflow::RunStepResponse response;
  ASSERT_TRUE(response.ParseFromString(std::string(frame.payloads[0].bytes())));
  EXPECT_EQ(response.status_error_message(), "a name: ??");
}

}  // namespace
}  // namespace weir
