// Strings that hold compressed bytes. What they stand for is written down here: they were made by Python's
// zlib.
#include <map>
#include <string>
#include <vector>

#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;

template <size_t n>
std::string Bytes(const char (&literal)[n]) {
  return std::string(literal, n - 1);
}

const char kText[] = "abcabcabcabc the end";
constexpr size_t kManyZeros = 100000;

std::string Zlib(const std::string& deflated, const std::string& adler) {
  return Bytes("x\xda") + deflated + adler;
}
std::string Gzip(const std::string& deflated, const std::string& crc_and_size) {
  return Bytes("\x1f\x8b\x08\0\0\0\0\0\x02\x03") + deflated + crc_and_size;
}

// The beginning of many zeros: each zero behind it stands for four runs of 258.
std::string BeginningOfZeros() { return Bytes("\xed\xc1\x31\x01\0\0\0\xc2\xa0\xf5Om\x0d\x0f\xa0"); }

// Compressed strings, and what they are.
struct Known {
  std::string compressed, plain;
};

std::vector<Known> KnownZlib() {
  const std::string zeros = BeginningOfZeros() + std::string(96, '\0') + Bytes("\x80W\x03");
  return {{"", ""},
          {Zlib(Bytes("\x03\0"), Bytes("\0\0\0\x01")), ""},
          {Zlib(Bytes("K\x04\0"), Bytes("\0b\0b")), "a"},
          {Zlib(Bytes("KLJN\x84!\x85\x92\x8cT\x85\xd4\xbc\x14\0"), Bytes("N,\x07Q")), kText},
          {Zlib(Bytes("K\x04\0"), Bytes("\0b\0bbehind")), "a"},
          {Zlib(zeros, Bytes("\x86\xaf\0\x01")), std::string(kManyZeros, '\0')}};
}

std::vector<Known> KnownGzip() {
  const std::string zeros = BeginningOfZeros() + std::string(96, '\0') + Bytes("\x80W\x03");
  const std::string a = Gzip(Bytes("K\x04\0"), Bytes("C\xbe\xb7\xe8\x01\0\0\0"));
  return {
      {"", ""},
      {Gzip(Bytes("\x03\0"), Bytes("\0\0\0\0\0\0\0\0")), ""},
      {a, "a"},
      {a + a, "aa"},
      {Gzip(Bytes("KLJN\x84!\x85\x92\x8cT\x85\xd4\xbc\x14\0"), Bytes("\x85\xfb\x9e\x44\x14\0\0\0")), kText},
      {Gzip(zeros, Bytes("}\x95\x11\xd4\xa0\x86\x01\0")), std::string(kManyZeros, '\0')}};
}

void DecodeCompressed(Call& call) {
  call.outputs[0] = call.in(0);
  std::map<std::string, std::string> plain;
  for (const auto& known : {KnownZlib(), KnownGzip()}) {
    for (const Known& each : known) plain[each.compressed] = each.plain;
  }
  if (call.text("compression_type").empty()) return;
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    call.outputs[0][i].text = plain.at(call.in(0)[i].text);
  }
}

}  // namespace

void AddCompressionRecords(Suite& suite) {
  const AttrMap zlib = {{"compression_type", "ZLIB"}}, gzip = {{"compression_type", "GZIP"}};
  OpRecord& record = suite.Op("DecodeCompressed").Reference(DecodeCompressed);
  record.Call({Strings({2, 2}, {"as", "it", "", "is"})}).Call({Words({})}, zlib);
  for (const auto& [known, attrs] : {std::make_pair(KnownZlib(), zlib), std::make_pair(KnownGzip(), gzip)}) {
    std::vector<std::string> all;
    for (const Known& each : known) all.push_back(each.compressed);
    record.Call({Words(all)}, attrs).Call({Strings({}, {all[2]})}, attrs);
  }
  const std::string good = KnownZlib()[3].compressed, good_gzip = KnownGzip()[4].compressed;
  std::string wrong_sum = good, wrong_size = good_gzip;
  wrong_sum.back() ^= 1;
  wrong_size.back() ^= 1;
  const auto fails = [&](const std::string& bytes, const char* error, const AttrMap& attrs) {
    record.Hostile({Words({good, bytes})}, error, attrs, absl::StatusCode::kDataLoss);
  };
  fails("plain", "element 1 is no intact zlib file: near byte 2: incorrect header check", zlib);
  fails(good_gzip, "incorrect header check", zlib);
  fails(wrong_sum, "incorrect data check", zlib);
  fails(good.substr(0, good.size() - 1), "breaks off", zlib);
  fails(good.substr(0, 1), "breaks off", zlib);
  record
      .Hostile({Words({good_gzip, wrong_size})}, "incorrect length check", gzip, absl::StatusCode::kDataLoss)
      .Hostile({Words({good_gzip + "x"})}, "breaks off", gzip, absl::StatusCode::kDataLoss)
      .Hostile({Words({"x"})}, "Only ZLIB, GZIP or NONE are supported compressions, not 'BZIP2'",
               {{"compression_type", "BZIP2"}})
      // A thousand times as many zeros.
      .OutOfMemory({Words({Zlib(BeginningOfZeros() + std::string(size_t{1} << 19, '\0'), "")})}, zlib);
}

}  // namespace weir::conformance
