#include "distributed/security.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

constexpr char kOpen[] = "0.0.0.0:2222";  // which other machines can reach

TEST(CheckExposureTest, WhatOthersCanReachNeedsProtection) {
  const absl::Status refused = CheckExposure(kOpen, {});
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("refusing to listen at 0.0.0.0:2222"));
  // A program has none of the flags of `weir serve`: it reads the environment.
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("a token ($WEIR_JOB_TOKEN) or TLS with a CA ($WEIR_TLS_CERT, $WEIR_TLS_KEY, "
                        "$WEIR_TLS_CA)"));
  EXPECT_TRUE(CheckExposure("127.0.0.1:2222", {}).ok());
  EXPECT_TRUE(CheckExposure(kOpen, {.insecure = true}).ok());
  EXPECT_TRUE(CheckExposure(kOpen, {.token = "0123456789abcdef"}).ok());
  EXPECT_TRUE(
      CheckExposure(kOpen, {.tls_cert_file = "cert", .tls_key_file = "key", .tls_ca_file = "ca"}).ok());
}

TEST(CheckExposureTest, EncryptionAloneLetsEverybodyIn) {
  SecurityOptions options = {.tls_cert_file = "cert", .tls_key_file = "key"};
  const absl::Status refused = CheckExposure(kOpen, options);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("TLS without a CA lets everybody in"));
  EXPECT_TRUE(CheckExposure("127.0.0.1:2222", options).ok());
  options.token = "0123456789abcdef";
  EXPECT_TRUE(CheckExposure(kOpen, options).ok());
}

TEST(CheckExposureTest, AnAuthorityAloneProtectsNoServer) {
  SecurityOptions options;
  options.tls_ca_file = "ca";
  EXPECT_EQ(CheckExposure(kOpen, options).code(), absl::StatusCode::kFailedPrecondition);
}

// As `export WEIR_JOB_TOKEN=$(cat no-such-file)` leaves it.
TEST(SecurityFromEnvironmentTest, AnEmptyTokenIsNotNone) {
  unsetenv("WEIR_JOB_TOKEN");
  EXPECT_TRUE(CheckSecurityOptions(SecurityFromEnvironment()).ok());
  for (const char* blank : {"", " ", "\n"}) {
    setenv("WEIR_JOB_TOKEN", blank, 1);
    const absl::Status refused = CheckSecurityOptions(SecurityFromEnvironment());
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("is set but empty"));
  }
  unsetenv("WEIR_JOB_TOKEN");
}

TEST(CheckSecurityOptionsTest, ATokenHasALengthThatNobodyGuesses) {
  EXPECT_TRUE(CheckSecurityOptions({.token = ""}).ok());  // none
  EXPECT_TRUE(CheckSecurityOptions({.token = std::string(16, 'x')}).ok());
  EXPECT_TRUE(CheckSecurityOptions({.token = std::string(4096, 'x')}).ok());
  for (const size_t length : {1, 15, 4097}) {
    const absl::Status refused = CheckSecurityOptions({.token = std::string(length, 'x')});
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << length;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr(absl::StrCat("has ", length, " characters: a token has 16 to 4096")));
  }
}

TEST(ReadTokenFileTest, ADeviceIsNotReadForEver) {
  const absl::Status refused = ReadTokenFile("/dev/zero").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has 8192 characters"));
}

TEST(TokensMatchTest, EveryCharacterCounts) {
  EXPECT_TRUE(TokensMatch("abcdef", "abcdef"));
  EXPECT_FALSE(TokensMatch("abcdef", "abcdeg"));
  EXPECT_FALSE(TokensMatch("abcdef", "bbcdef"));
  EXPECT_FALSE(TokensMatch("abcdef", "abcde"));
}

}  // namespace
}  // namespace weir
