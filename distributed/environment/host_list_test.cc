// Lists of hosts: TensorFlow's examples, what Slurm and people write, and what is damaged.
#include "distributed/environment/host_list.h"

#include <fstream>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Names(absl::string_view list) { return ExpandHostList("list", list).value(); }

std::string Slots(const absl::StatusOr<std::vector<HostSlots>>& hosts) {
  if (!hosts.ok()) return hosts.status().ToString();
  std::string text;
  for (const HostSlots& host : *hosts) absl::StrAppend(&text, host.host, "*", host.num_slots, " ");
  return text;
}

TEST(ExpandHostList, WhatSlurmWrites) {
  // The first is the example of TensorFlow's SlurmClusterResolver.
  EXPECT_THAT(Names("n[1-2],m5,o[3-4,6,7-9]"),
              ElementsAre("n1", "n2", "m5", "o3", "o4", "o6", "o7", "o8", "o9"));
  EXPECT_THAT(Names("n[001-003,007],gpu1"), ElementsAre("n001", "n002", "n003", "n007", "gpu1"));
  EXPECT_THAT(Names("n[9-11]"), ElementsAre("n9", "n10", "n11"));
  EXPECT_THAT(Names("n[08-10]"), ElementsAre("n08", "n09", "n10"));
  EXPECT_THAT(Names("r[0-1]n[0-1]"), ElementsAre("r0n0", "r0n1", "r1n0", "r1n1"));
  EXPECT_THAT(Names("n[1-2].lan"), ElementsAre("n1.lan", "n2.lan"));
  EXPECT_THAT(Names("one"), ElementsAre("one"));
  EXPECT_THAT(Names("a,b,a"), ElementsAre("a", "b", "a"));
}

TEST(ExpandHostList, NothingIsGuessedOfADamagedList) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "a name is missing"},
      {"a,,b", "a name is missing"},
      {"a,", "a name is missing"},
      {"n[1-2", "a bracket is not closed"},
      {"n1-2]", "brackets do not match"},
      {"n[1[2]]", "brackets do not match"},
      {"n[]", "'' is no number or range"},
      {"n[1-]", "'1-' is no number or range"},
      {"n[-1]", "'-1' is no number or range"},
      {"n[1-2-3]", "'1-2-3' is no number or range"},
      {"n[a-b]", "'a-b' is no number or range"},
      {"n[1,,2]", "'' is no number or range"},
      {"n[3-1]", "the range '3-1' runs backwards"},
      {"n[99999999999999999999]", "is no number or range"},
      {"n[0-99999]", "lists more than 10000"},
      {"n[1-999999999999999999]", "lists more than 10000"},
      {"n[0-999]m[0-999]", "lists more than 10000"},
      {"n[0-9999],x", "lists more than 10000"},
      {"a b", "cannot be in a host's name"},
      {"-oProxyCommand=x", "begins with '-'"},
      {"a;rm", "cannot be in a host's name"},
  };
  for (const auto& [list, error] : cases) {
    const absl::Status status = ExpandHostList("SLURM_JOB_NODELIST", list).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << list;
    EXPECT_THAT(std::string(status.message()), HasSubstr(error)) << list;
    EXPECT_THAT(std::string(status.message()), HasSubstr("SLURM_JOB_NODELIST: ")) << list;
  }
  EXPECT_FALSE(ExpandHostList("list", std::string(100'000, '[')).ok());
  EXPECT_FALSE(ExpandHostList("list", std::string(100'000, 'a')).ok());
}

TEST(ExpandHostList, RandomBytesGiveAnAnswer) {
  std::mt19937 random(7);
  const std::string alphabet = "n019[]-,:.()x ";
  for (int i = 0; i < 20'000; ++i) {
    std::string list;
    for (size_t length = random() % 16; length > 0; --length) list += alphabet[random() % alphabet.size()];
    for (const absl::StatusCode code :
         {ExpandHostList("l", list).status().code(), ExpandTaskCounts("l", list).status().code(),
          ParseHostSlots("l", list).status().code(), ParseHostFile("l", list).status().code()}) {
      ASSERT_TRUE(code == absl::StatusCode::kOk || code == absl::StatusCode::kInvalidArgument) << list;
    }
  }
}

TEST(ExpandTaskCounts, SlurmsForm) {
  EXPECT_THAT(ExpandTaskCounts("n", "3(x2),2,1").value(), ElementsAre(3, 3, 2, 1));
  EXPECT_THAT(ExpandTaskCounts("n", "4").value(), ElementsAre(4));
  for (const char* bad : {"", "0", "-1", "x", "2(x", "2(x)", "2(x0)", "2(x3", "2(x3)1", "2,,1", "2(x99999)",
                          "99999", "9999999999999999999999"}) {
    EXPECT_EQ(ExpandTaskCounts("n", bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(ParseHostSlots, HostsAndWhatTheyRun) {
  EXPECT_EQ(Slots(ParseHostSlots("-H", "gpu[1-2]:4,login")), "gpu1*4 gpu2*4 login*1 ");
  EXPECT_EQ(Slots(ParseHostSlots("-H", "[::1]:2,10.0.0.1:3")), "::1*2 10.0.0.1*3 ");
  for (const char* bad : {"", ":2", "a:", "a:0", "a:-1", "a:x", "a,a", "a:1,a:2", "n[1-2]:9999",
                          "a:99999999999", "[::1", "::1", "[::g]"}) {
    EXPECT_EQ(ParseHostSlots("-H", bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(ParseHostFile, BothFormsAndComments) {
  EXPECT_EQ(
      Slots(ParseHostFile("file", "# two machines\ngpu1 slots=4\n\n  gpu2:2 # the small one\r\ngpu3\n")),
      "gpu1*4 gpu2*2 gpu3*1 ");
  for (const char* bad :
       {"", "# nothing", ":2", "a slots=0", "a slots=", "a max=3", "a\na", "n[1-2", "a b"}) {
    EXPECT_EQ(ParseHostFile("file", bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(ReadHostFile, NamesTheFile) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/hosts");
  std::ofstream(path) << "a:2\n";
  EXPECT_EQ(Slots(ReadHostFile(path)), "a*2 ");
  EXPECT_EQ(ReadHostFile("/no/such/file").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadHostFile("/").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace weir
