#include "distributed/command/flag_parser.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Flags {
  std::string text = "t";
  int number = 1;
  double real = 0.5;
  bool on = false;
  int port = 80;
  double rate = 0.1;
  std::string hosts;
  int most = 1;
  FlagParser parser{"weir x", "[flags] FILE", "Does x."};
  Flags() {
    parser.Add("text", &text, "a text");
    parser.Add("num_workers", &number, "a number");
    parser.Add("real", &real, "a real");
    parser.Add("insecure", &on, "a switch");
    parser.Add("port", &port, "a port", {.least = 1, .most = 65535});
    parser.Add("rate", &rate, "a rate", {.least = 0});
    parser.Add("H", &hosts, "hosts");
    parser.Add("most", &most, "at most (default: --num_workers)");
  }
};

TEST(FlagParser, AllForms) {
  Flags f;
  ASSERT_TRUE(
      f.parser
          .Parse({"--text=a=b", "file", "-num_workers", "7", "--real", "-1.5", "--insecure", "--", "--text"})
          .ok());
  EXPECT_EQ(f.text, "a=b");
  EXPECT_EQ(f.number, 7);
  EXPECT_EQ(f.real, -1.5);
  EXPECT_TRUE(f.on);
  EXPECT_THAT(f.parser.positional(), ElementsAre("file"));
  EXPECT_THAT(f.parser.rest(), ElementsAre("--text"));
  ASSERT_TRUE(f.parser.Parse({"--noinsecure", "-H", "a:2"}).ok());
  EXPECT_FALSE(f.on);
  EXPECT_EQ(f.hosts, "a:2");
  EXPECT_FALSE(f.parser.wants_help());
}

TEST(FlagParser, KnowsWhatWasGiven) {
  Flags f;
  ASSERT_TRUE(f.parser.Parse({"--num_workers=1", "--noinsecure"}).ok());
  EXPECT_TRUE(f.parser.WasGiven("num_workers"));
  EXPECT_TRUE(f.parser.WasGiven("insecure"));
  EXPECT_FALSE(f.parser.WasGiven("text"));
}

TEST(FlagParser, MistakesAreNamed) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--num_worker=3"}, "unknown flag --num_worker; did you mean --num_workers?"},
      {{"--txet=a"}, "unknown flag --txet; did you mean --text?"},
      {{"--zzzzzzzzz"}, "unknown flag --zzzzzzzzz (weir x --help"},
      {{"--notext"}, "unknown flag --notext"},
      {{"--text"}, "--text needs a value"},
      {{"--num_workers=x"}, "--num_workers='x' is not a number"},
      {{"--num_workers=1.5"}, "is not a number"},
      {{"--num_workers=-"}, "is not a number"},
      {{"--num_workers=99999999999"}, "must be from -2147483648 to 2147483647"},
      {{"--num_workers=-99999999999"}, "must be from -2147483648 to 2147483647"},
      {{"--port=99999999999"}, "--port='99999999999' must be from 1 to 65535"},
      {{"--insecure=maybe"}, "is not a truth value"},
      {{"--real=nan"}, "--real='nan' is not a number"},
      {{"--real=inf"}, "--real='inf' is not a number"},
      {{"--real=-1e999"}, "is not a number"},
      {{"--port=0"}, "--port='0' must be from 1 to 65535"},
      {{"--port=65536"}, "must be from 1 to 65535"},
      {{"--rate=-0.1"}, "--rate='-0.1' must be at least 0"},
  };
  for (const auto& [args, error] : cases) {
    const absl::Status status = Flags().parser.Parse(args);
    EXPECT_THAT(std::string(status.message()), HasSubstr(error));
  }
}

TEST(FlagParser, ANumberThatIsRefusedChangesNothing) {
  Flags f;
  EXPECT_FALSE(f.parser.Parse({"--port=70000"}).ok());
  EXPECT_EQ(f.port, 80);
  EXPECT_TRUE(f.parser.Parse({"--port=65535", "--rate=0", "--real=1e300"}).ok());
  EXPECT_EQ(f.port, 65535);
  EXPECT_EQ(f.rate, 0);
  EXPECT_EQ(f.real, 1e300);
}

TEST(FlagParser, Help) {
  Flags f;
  ASSERT_TRUE(f.parser.Parse({"-h"}).ok());
  EXPECT_TRUE(f.parser.wants_help());
  EXPECT_THAT(f.parser.Help(), HasSubstr("usage: weir x [flags] FILE"));
  EXPECT_THAT(f.parser.Help(), HasSubstr("--num_workers=number       a number (default 1)"));
  EXPECT_THAT(f.parser.Help(), HasSubstr("  -H=string "));
  EXPECT_THAT(f.parser.Help(), HasSubstr("at most (default: --num_workers)\n")) << "one default";
}

}  // namespace
}  // namespace weir
