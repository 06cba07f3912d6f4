#include "distributed/keys/revocation_list.h"

#include <sys/resource.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distributed/keys/key_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/test_files.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

class RevocationListTest : public testing::Test {
 protected:
  RevocationListTest() : keys_(NewKeys()) {}

  static std::string NewKeys() {
    std::string keys = NewTestDirectory() + "/keys";
    EXPECT_TRUE(MakeKeyFiles({.directory = keys, .hosts = {"gpu1", "gpu2", "gpu3"}}).ok());
    return keys;
  }
  static std::string MarkOf(const std::string& keys, const std::string& host) {
    return RevocationList::MarkOf(ReadBytes(keys + "/" + host + "/cert.pem"));
  }
  std::string MarkOf(const std::string& host) const { return MarkOf(keys_, host); }
  // It looks at its file now and then.
  bool HasSoon(RevocationList& list, const std::string& host) const {
    const std::string mark = MarkOf(host);
    const absl::Time end = absl::Now() + absl::Seconds(20);
    while (!list.Has(mark) && absl::Now() < end) absl::SleepFor(absl::Milliseconds(10));
    return list.Has(mark);
  }
  std::unique_ptr<RevocationList> Follow() const {
    return RevocationList::Follow(keys_ + "/revoked.pem", keys_ + "/ca.pem").value();
  }
  std::string ErrorOfFollowing(const std::string& path) const {
    const absl::Status status = RevocationList::Follow(path, keys_ + "/ca.pem").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    return std::string(status.message());
  }

  const std::string keys_;
};

TEST_F(RevocationListTest, NamesThoseThatWereTakenBackAndNobodyElse) {
  ASSERT_EQ(RevokeKeys(keys_, {"gpu1", "gpu1"}).value(), keys_ + "/revoked.pem");
  const auto list = Follow();
  EXPECT_TRUE(list->Has(MarkOf("gpu1")));
  EXPECT_FALSE(list->Has(MarkOf("gpu2")));
  EXPECT_EQ(RevocationList::MarkOf("no certificate"), "");
  for (const std::string& none :
       {std::string(), std::string("no mark"), MarkOf("gpu2") + "x", MarkOf("gpu2").substr(0, 10)}) {
    EXPECT_TRUE(list->Has(none)) << none.size();
  }
  // Another CA's certificate is none of the list's, whatever its number.
  EXPECT_FALSE(list->Has(MarkOf(NewKeys(), "gpu1")));
}

TEST_F(RevocationListTest, AFileThatChangesIsReadAgainAndKeepsWhatItHad) {
  ASSERT_TRUE(RevokeKeys(keys_, {"gpu1"}).ok());
  const auto list = Follow();
  EXPECT_FALSE(list->Has(MarkOf("gpu2")));
  ASSERT_TRUE(RevokeKeys(keys_, {"gpu2"}).ok());
  EXPECT_TRUE(HasSoon(*list, "gpu2"));
  EXPECT_TRUE(list->Has(MarkOf("gpu1")));
  EXPECT_FALSE(list->Has(MarkOf("gpu3")));
}

TEST_F(RevocationListTest, AFileThatIsDamagedOrGoneLeavesTheListBefore) {
  ASSERT_TRUE(RevokeKeys(keys_, {"gpu1"}).ok());
  const auto list = Follow();
  const std::string whole = ReadBytes(keys_ + "/revoked.pem");
  for (const std::string& damaged : {std::string(), std::string("x"), whole.substr(0, whole.size() / 2)}) {
    WriteBytes(keys_ + "/revoked.pem", damaged);
    absl::SleepFor(RevocationList::kLookInterval);
    EXPECT_TRUE(list->Has(MarkOf("gpu1"))) << damaged.size();
    EXPECT_FALSE(list->Has(MarkOf("gpu2"))) << damaged.size();
  }
  ASSERT_EQ(std::remove((keys_ + "/revoked.pem").c_str()), 0);
  EXPECT_TRUE(list->Has(MarkOf("gpu1")));
}

// As where a process has no descriptor left for a moment.
TEST_F(RevocationListTest, AListThatCouldNotBeReadIsReadLater) {
  ASSERT_TRUE(RevokeKeys(keys_, {"gpu1"}).ok());
  const auto list = Follow();
  ASSERT_TRUE(RevokeKeys(keys_, {"gpu2"}).ok());
  const std::string gpu2 = MarkOf("gpu2");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_FALSE(list->Has(gpu2));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(HasSoon(*list, "gpu2"));
}

// A look at the file for each call would be a call of the system for each.
TEST_F(RevocationListTest, TheFileIsLookedAtNowAndThen) {
  ASSERT_TRUE(RevokeKeys(keys_, {"gpu1"}).ok());
  const auto list = Follow();
  EXPECT_FALSE(list->Has(MarkOf("gpu2")));  // looks
  int num_early = 0;
  for (const char* host : {"gpu2", "gpu3"}) {
    ASSERT_TRUE(RevokeKeys(keys_, {host}).ok());
    num_early += !list->Has(MarkOf(host));
    EXPECT_TRUE(HasSoon(*list, host));
  }
  EXPECT_GT(num_early, 0) << "at least one comes before the next look";
}

// Each of them reads the list, adds an entry and writes it.
TEST_F(RevocationListTest, TwoWhoRevokeAtOnceLoseNothing) {
  constexpr int kHosts = 12;
  KeyFilesOptions options{.directory = NewTestDirectory() + "/keys"};
  for (int i = 0; i < kHosts; ++i) options.hosts.push_back(absl::StrCat("gpu", i));
  ASSERT_TRUE(MakeKeyFiles(options).ok());
  std::vector<std::thread> threads;
  std::vector<absl::Status> revoked(kHosts);
  for (int i = 0; i < kHosts; ++i) {
    threads.emplace_back([&, i] { revoked[i] = RevokeKeys(options.directory, {options.hosts[i]}).status(); });
  }
  for (std::thread& thread : threads) thread.join();
  const auto list =
      RevocationList::Follow(options.directory + "/revoked.pem", options.directory + "/ca.pem").value();
  for (int i = 0; i < kHosts; ++i) {
    EXPECT_TRUE(revoked[i].ok()) << revoked[i];
    EXPECT_TRUE(list->Has(MarkOf(options.directory, options.hosts[i]))) << i;
  }
}

TEST_F(RevocationListTest, OnlyItsCaTakesCertificatesBack) {
  const std::string others = NewKeys();
  ASSERT_TRUE(RevokeKeys(others, {"gpu1"}).ok());
  EXPECT_THAT(ErrorOfFollowing(others + "/revoked.pem"), HasSubstr("that no CA in"));
  WriteBytes(keys_ + "/revoked.pem", ReadBytes(others + "/revoked.pem"));
  EXPECT_THAT(std::string(RevokeKeys(keys_, {"gpu1"}).status().message()), HasSubstr("a list of another CA"));
}

// What a task lets in is signed by the CA of its start, also when the files for its next start are there.
TEST_F(RevocationListTest, ACaThatComesLaterTakesNothingBack) {
  ASSERT_TRUE(RevokeKeys(keys_, {"gpu1"}).ok());
  const auto list = Follow();
  const std::string gpu1 = MarkOf("gpu1"), others = NewKeys();
  ASSERT_TRUE(RevokeKeys(others, {"gpu2"}).ok());
  for (const char* file : {"/ca.pem", "/revoked.pem"}) WriteBytes(keys_ + file, ReadBytes(others + file));
  EXPECT_TRUE(list->Has(gpu1));
}

TEST_F(RevocationListTest, WhatIsNoListIsNamed) {
  EXPECT_THAT(ErrorOfFollowing(keys_ + "/absent.pem"), HasSubstr("cannot read"));
  EXPECT_THAT(ErrorOfFollowing(keys_ + "/ca.pem"), HasSubstr("has no list of revoked certificates"));
  ASSERT_TRUE(RevokeKeys(keys_, {"gpu1"}).ok());
  const std::string whole = ReadBytes(keys_ + "/revoked.pem");
  WriteBytes(keys_ + "/half.pem", whole + whole.substr(0, whole.size() / 2));
  EXPECT_THAT(ErrorOfFollowing(keys_ + "/half.pem"), HasSubstr("has a damaged list"));
}

TEST_F(RevocationListTest, MistakesOfWhoRevokesChangeNothing) {
  const auto error = [&](const std::string& directory, const std::vector<std::string>& folders) {
    return std::string(RevokeKeys(directory, folders).status().message());
  };
  EXPECT_THAT(error("", {"gpu1"}), HasSubstr("name the folder"));
  EXPECT_THAT(error(keys_, {}), HasSubstr("name the folder"));
  EXPECT_THAT(error(keys_, {"gpu1", "gpu4"}), HasSubstr("gpu4/cert.pem': No such file or directory"));
  EXPECT_THAT(error(keys_, {"../gpu1"}), HasSubstr("is no host"));
  // Of the keys before these: a list that this CA signs says nothing of it.
  const std::string own = ReadBytes(keys_ + "/gpu2/cert.pem");
  WriteBytes(keys_ + "/gpu2/cert.pem", ReadBytes(NewKeys() + "/gpu2/cert.pem"));
  EXPECT_THAT(error(keys_, {"gpu1", "gpu2"}), HasSubstr("gpu2/cert.pem' is of another CA"));
  WriteBytes(keys_ + "/gpu2/cert.pem", own);
  WriteBytes(keys_ + "/ca.key", ReadBytes(keys_ + "/gpu1/key.pem"));
  EXPECT_THAT(error(keys_, {"gpu1"}), HasSubstr("ca.key' has no key, or not that of the certificate"));
  EXPECT_THAT(ErrorOfFollowing(keys_ + "/revoked.pem"), HasSubstr("cannot read"));
}

}  // namespace
}  // namespace weir
