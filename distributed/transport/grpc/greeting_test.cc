#include "distributed/transport/grpc/greeting.h"

#include <random>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "distributed/transport/grpc/call_headers.h"
#include "distributed/transport/grpc/raw_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

constexpr char kToken[] = "0123456789abcdef";

std::string Hex(absl::string_view digits) { return absl::HexStringToBytes(digits); }

absl::StatusOr<CallHeaders> Read(absl::string_view block) { return ReadCallHeaders(block, "weir-token"); }

// Written by another encoder (Python's hpack), with its table and its Huffman code.
TEST(CallHeadersTest, CompressedHeadersAreRead) {
  const CallHeaders headers =
      Read(Hex("8386448b63c14d62fc8f6752d8c7e74181f34088f05358b24fd4b57f8c0044cb4db8ebcf8e3248597f")).value();
  EXPECT_EQ(headers.path, "/weir.Worker/X");
  EXPECT_EQ(headers.token, kToken);
}

// RFC 7541, C.3.1: "/" of the static table.
TEST(CallHeadersTest, IndexedHeadersAreRead) {
  const CallHeaders headers = Read(Hex("828684410f7777772e6578616d706c652e636f6d")).value();
  EXPECT_EQ(headers.path, "/");
  EXPECT_EQ(headers.token, "");
}

TEST(CallHeadersTest, AKeptFieldCanBeNamedAgain) {
  const std::string token = absl::StrCat("\x40\x0aweir-token\x10", kToken);
  EXPECT_EQ(Read(absl::StrCat(token, "\xbe")).value().token, kToken);
  EXPECT_EQ(Read(absl::StrCat("\x40\x0aweir-token\x01x", "\x7e\x10", kToken)).value().token,
            "x");  // the first
}

TEST(CallHeadersTest, DamagedHeadersAreErrors) {
  for (const char* damaged : {"80", "be", "ff", "ffffffffff7f", "00", "0003", "000161", "0001610f61", "3f",
                              "0001618101", "00016181fe", "000161857fffffffff", "40ffffff7f"}) {
    EXPECT_EQ(Read(Hex(damaged)).status().code(), absl::StatusCode::kInvalidArgument) << damaged;
  }
}

Greeting::State Say(Greeting& greeting, absl::string_view bytes) {
  std::string answers;
  return greeting.Add(bytes, &answers);
}

TEST(GreetingTest, WhatGrpcShallReadIsAllButTheAcknowledgement) {
  constexpr int kSettings = 4, kPing = 6, kAck = 1;
  const std::string ping = Http2Frame(kPing, 0, 0, "12345678");
  const std::string call = Http2Call(1, "/weir.T/E", kToken);
  Greeting greeting(kToken, nullptr);
  EXPECT_EQ(
      Say(greeting, absl::StrCat(Http2Greeting(), ping, Http2Frame(kSettings, kAck, 0, ""), call, "rest")),
      Greeting::State::kAdmitted);
  EXPECT_EQ(greeting.TakeBytes(), absl::StrCat(Http2Greeting(), ping, call, "rest"));
}

TEST(GreetingTest, PaddingAndPriorityAreSkipped) {
  constexpr int kHeaders = 1, kFlags = 4 | 8 | 0x20;
  const std::string call = Http2Call(1, "/weir.T/E", kToken);
  const std::string block = call.substr(9);
  Greeting greeting(kToken, nullptr);
  EXPECT_EQ(
      Say(greeting, absl::StrCat(Http2Greeting(), Http2Frame(kHeaders, kFlags, 1,
                                                             absl::StrCat("\x03", "PRIOR", block, "pad")))),
      Greeting::State::kAdmitted);
}

TEST(GreetingTest, TheFirstCallDecides) {
  Greeting greeting(kToken, nullptr);
  std::string answers;
  EXPECT_EQ(greeting.Add(absl::StrCat(Http2Greeting(), Http2Call(1, "/weir.T/E")), &answers),
            Greeting::State::kOpen);
  EXPECT_THAT(answers, HasSubstr("/weir.T/E: the call does not carry this job's token"));
  EXPECT_EQ(Say(greeting, Http2Call(3, "/weir.T/E", kToken)), Greeting::State::kOpen);
}

TEST(GreetingTest, WhatIsNoGreetingEndsIt) {
  constexpr int kHeaders = 1, kPushPromise = 5, kContinuation = 9, kPing = 6;
  const std::string begin = Http2Greeting();
  std::string pings;
  while (pings.size() <= Greeting::kMaxBytes) pings += Http2Frame(kPing, 0, 0, "12345678");
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1"), std::string(1, '\x16'),
        begin + Http2Frame(kHeaders, 0, 1, ""),            // more to come
        begin + Http2Frame(kHeaders, 4, 0, ""),            // of no stream
        begin + Http2Frame(kHeaders, 4 | 8, 1, ""),        // no padding
        begin + Http2Frame(kHeaders, 4 | 8, 1, "\x09xx"),  // too much
        begin + Http2Frame(kHeaders, 4 | 0x20, 1, "xx"), begin + Http2Frame(kHeaders, 4, 1, "\x80"),
        begin + Http2Frame(kPushPromise, 4, 1, ""), begin + Http2Frame(kContinuation, 4, 1, ""),
        begin + Http2Frame(0, 0, 1, std::string(16385, 'x')), begin + pings}) {
    Greeting greeting(kToken, nullptr);
    EXPECT_EQ(Say(greeting, bytes), Greeting::State::kOver) << absl::CEscape(bytes.substr(0, 60));
  }
}

// Any byte changed, any cut: an end of some kind, and never in without the token.
TEST(GreetingTest, MutationsOfAGreetingLetNobodyIn) {
  std::mt19937 random(7);
  const std::string good =
      absl::StrCat(Http2Greeting(), Http2Call(1, "/weir.T/E", "0123456789abcdeX"), Http2Call(3, "/weir.T/E"));
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = good;
    for (int n = 1 + random() % 4; n > 0; --n)
      bytes[24 + random() % (bytes.size() - 24)] = static_cast<char>(random());
    Greeting greeting(kToken, nullptr);
    std::string answers;
    const size_t cut = random() % bytes.size();
    if (greeting.Add(bytes.substr(0, cut), &answers) == Greeting::State::kOpen) {
      greeting.Add(bytes.substr(cut), &answers);
    }
    EXPECT_LT(answers.size(), 10'000u);
    if (bytes.find(kToken) == std::string::npos) {
      Greeting whole(kToken, nullptr);
      EXPECT_NE(Say(whole, bytes), Greeting::State::kAdmitted);
    }
  }
}

}  // namespace
}  // namespace weir
