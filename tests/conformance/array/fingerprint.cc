// Hashes of rows. Those of long rows are TensorFlow 2.21's; those of at most 16 bytes follow FarmHash's
// definition (G. Pike, github.com/google/farmhash: Fingerprint64).
#include <cstdint>
#include <cstring>
#include <map>
#include <string>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;

constexpr uint64_t kPrime0 = 0xc3a5c85c97cb3127, kPrime2 = 0x9ae16a3b2f90404f;

// Of each length that the hash treats in a way of its own.
const std::map<std::string, uint64_t>& LongRows() {
  static const auto* const rows = new std::map<std::string, uint64_t>{
      {std::string(20, 'x'), 0x7241ce1f8ef74dc4},
      {std::string(40, 'y'), 0x03d596369a03cfde},
      {std::string(100, 'z'), 0x7ff70a2c3be33a79},
  };
  return *rows;
}

// `count` bytes from `begin` on, the least significant one first.
uint64_t NumberAt(const std::string& bytes, size_t begin, size_t count) {
  uint64_t number = 0;
  for (size_t i = count; i-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[begin + i]);
  return number;
}

uint64_t Rotate(uint64_t x, int bits) { return x >> bits | x << (64 - bits); }
uint64_t Fold(uint64_t x) { return x ^ x >> 47; }
uint64_t Mix(uint64_t u, uint64_t v, uint64_t factor) {
  return Fold((v ^ Fold((u ^ v) * factor)) * factor) * factor;
}

uint64_t HashOf(const std::string& bytes) {
  const size_t size = bytes.size();
  if (size > 16) return LongRows().at(bytes);
  if (size == 0) return kPrime2;
  const uint64_t factor = kPrime2 + 2 * size;
  if (size >= 8) {
    const uint64_t first = NumberAt(bytes, 0, 8) + kPrime2, last = NumberAt(bytes, size - 8, 8);
    return Mix(Rotate(last, 37) * factor + first, (Rotate(first, 25) + last) * factor, factor);
  }
  if (size >= 4) return Mix(size + (NumberAt(bytes, 0, 4) << 3), NumberAt(bytes, size - 4, 4), factor);
  const uint64_t front = NumberAt(bytes, 0, 1) + (NumberAt(bytes, size / 2, 1) << 8);
  const uint64_t back = size + (NumberAt(bytes, size - 1, 1) << 2);
  return Fold(front * kPrime2 ^ back * kPrime0) * kPrime2;
}

std::string BytesOf(uint64_t number) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(number >> 8 * i & 255);
  return bytes;
}

// The rows of a tensor as bytes. Of a string it is its hash that counts.
std::vector<std::string> RowsOf(const Array& data, DType dtype) {
  std::vector<std::string> rows(data.dim(0));
  if (data.size() == 0) return rows;
  std::string all;
  if (dtype == D::kString) {
    for (int64_t i = 0; i < data.size(); ++i) all += BytesOf(HashOf(data[i].text));
  } else {
    const Tensor tensor = data.ToTensor(dtype);
    all.assign(static_cast<const char*>(tensor.data()), tensor.num_bytes());
  }
  const size_t size = all.size() / rows.size();
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = all.substr(i * size, size);
  return rows;
}

void Fingerprint(Call& call) {
  const DType dtype = call.node.input_type(0);
  const std::vector<std::string> rows = RowsOf(call.in(0), dtype);
  const bool is_hashed = dtype == D::kString && call.in(0).size() == call.in(0).dim(0);
  call.outputs[0] = Generate({call.in(0).dim(0), 8}, [&](const Index& index) {
    const std::string hash = is_hashed ? rows[index[0]] : BytesOf(HashOf(rows[index[0]]));
    return Value(static_cast<double>(static_cast<unsigned char>(hash[index[1]])));
  });
}

}  // namespace

void AddFingerprintRecords(Suite& suite) {
  const Tensor method = Strings({}, {"farmhash64"});
  OpRecord& record = suite.Op("Fingerprint").Reference(Fingerprint);
  for (DType d : Join({kNumbers, kQuantized, {D::kBool}})) {
    record.Call({Sample(d, {3, 1}, 0, 9), method});
    if (DTypeSize(d) <= 8) record.Call({Sample(d, {2, 2, 1}, 0, 9), method});
  }
  // Bytes of every length up to 16.
  for (int64_t size = 0; size <= 16; ++size) record.Call({Sample(D::kUint8, {2, size}, 0, 255), method});
  for (const auto& [row, hash] : LongRows()) {
    Tensor bytes(D::kUint8, Shape({1, static_cast<int64_t>(row.size())}));
    std::memcpy(bytes.data(), row.data(), row.size());
    record.Call({bytes, method}).Call({Words({row, "a"}), method});
  }
  record.Call({Floats({4}), method})
      .Call({Floats({0, 3}), method})
      .Call({Floats({2, 0, 3}), method})
      .Call({Words({}), method})
      .Call({Words({"", "a", "abc", "abcd", "abcdefg", "abcdefgh", "abcdefghijklmnop"}), method})
      .Call({Strings({2, 1, 2}, {"a", "", "bc", "d"}), method})
      .Call({Strings({0, 2}, {}), method});
  record.Hostile({Floats({}), method}, "`data` should have at least one dimension: []")
      .Hostile({Floats({2}), Words({"farmhash64"})}, "`method` should be a scalar string: [1]")
      .Hostile({Floats({2}), Strings({}, {"md5"})}, "Unsupported fingerprint method: md5")
      .Hostile({Floats({2}), Strings({}, {""})}, "Unsupported fingerprint method: ")
      .OutOfMemory({Empty({kWide, 0}), method});
}

}  // namespace weir::conformance
