// Strings that hold the bytes of tensors.
#include <cstring>
#include <string>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;

// The number that bytes are, the least significant one first.
Value NumberOf(DType dtype, const std::string& bytes) {
  if (IsComplex(dtype)) {
    const D part = dtype == D::kComplex64 ? D::kFloat32 : D::kFloat64;
    const size_t half = bytes.size() / 2;
    return Number(NumberOf(part, bytes.substr(0, half)).real(), NumberOf(part, bytes.substr(half)).real());
  }
  if (dtype == D::kBool) return bytes[0] == 0 ? 0.0 : 1.0;
  Tensor number(dtype, Shape());
  std::memcpy(number.data(), bytes.data(), bytes.size());
  return Array::FromTensor(number)[0];
}

void DecodeRaw(Call& call) {
  const DType dtype = call.node.output_type(0);
  const auto width = static_cast<int64_t>(DTypeSize(dtype));
  const int64_t part = IsComplex(dtype) ? width / 2 : width;
  const bool is_padded = call.inputs.size() > 1;
  int64_t length = call.in(0).size() == 0 ? 0 : static_cast<int64_t>(call.in(0)[0].text.size());
  if (is_padded) length = call.in(1)[0].integer();
  Index dims = call.in(0).dims();
  dims.push_back(length / width);
  call.outputs[0] = Generate(dims, [&](Index index) {
    const int64_t begin = index.back() * width;
    index.pop_back();
    std::string text = call.in(0).at(index).text;
    text.resize(length, '\0');
    std::string bytes;
    for (int64_t i = 0; i < width; ++i) {
      const int64_t at = call.flag("little_endian") ? i : i / part * part + part - 1 - i % part;
      bytes += text[begin + at];
    }
    return NumberOf(dtype, bytes);
  });
}

// Six bits a letter.
constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string RegroupBits(const std::vector<int>& from, int from_width, int to_width, bool keeps_rest,
                        const std::function<char(int)>& letter) {
  std::vector<int> bits;
  for (const int value : from) {
    for (int i = from_width - 1; i >= 0; --i) bits.push_back(value >> i & 1);
  }
  while (keeps_rest && bits.size() % to_width != 0) bits.push_back(0);
  std::string text;
  for (size_t i = 0; i + to_width <= bits.size(); i += to_width) {
    int value = 0;
    for (int j = 0; j < to_width; ++j) value = 2 * value + bits[i + j];
    text += letter(value);
  }
  return text;
}

void EncodeBase64(Call& call) {
  call.outputs[0] = call.in(0);
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    std::vector<int> bytes;
    for (const char c : call.in(0)[i].text) bytes.push_back(static_cast<unsigned char>(c));
    std::string& text = call.outputs[0][i].text;
    text = RegroupBits(bytes, 8, 6, true, [](int value) { return kAlphabet[value]; });
    while (call.flag("pad") && text.size() % 4 != 0) text += '=';
  }
}

void DecodeBase64(Call& call) {
  call.outputs[0] = call.in(0);
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    std::vector<int> values;
    for (const char c : call.in(0)[i].text) {
      if (c != '=') values.push_back(static_cast<int>(std::strchr(kAlphabet, c) - kAlphabet));
    }
    call.outputs[0][i].text =
        RegroupBits(values, 6, 8, false, [](int value) { return static_cast<char>(value); });
  }
}

// A field of a protocol message: its number and length-delimited content, shorter than 128 bytes.
std::string Field(int number, const std::string& content) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(content.size()) + content;
}

// The TensorProto of a small tensor without empty dimensions.
std::string MessageOf(const Tensor& tensor) {
  std::string dims;
  for (const int64_t dim : tensor.shape().dims()) dims += Field(2, {8, static_cast<char>(dim)});
  std::string message = {8, static_cast<char>(tensor.dtype())};
  message += Field(2, dims);
  if (tensor.dtype() != D::kString) {
    return message + Field(4, std::string(static_cast<const char*>(tensor.data()), tensor.num_bytes()));
  }
  for (const std::string& text : tensor.flat<std::string>()) message += Field(8, text);
  return message;
}

std::vector<Tensor> Tensors() {
  std::vector<Tensor> tensors = {Bools({2}, {1, 0}), Words({"ab", "", "c"}), Strings({}, {"x"})};
  for (DType d : kNumbers) tensors.push_back(Sample(d, {2, 3}, 0, 9));
  return tensors;
}

void SerializeTensor(Call& call) {
  const Tensor tensor = call.in(0).ToTensor(call.node.input_type(0));
  call.outputs[0] = Array(Index{});
  call.outputs[0][0].text = MessageOf(tensor);
}

void ParseTensor(Call& call) {
  for (const Tensor& tensor : Tensors()) {
    if (MessageOf(tensor) == call.in(0)[0].text) call.outputs[0] = Array::FromTensor(tensor);
  }
}

void AddRaw(Suite& suite) {
  OpRecord& raw = suite.Op("DecodeRaw").Reference(DecodeRaw).ShapeDependsOnValues();
  OpRecord& padded = suite.Op("DecodePaddedRaw").Reference(DecodeRaw);
  const Tensor texts = Strings({2, 1}, {std::string("ab\0d5678efgh1234", 16), "0123456789ABCDEF"});
  for (DType d : Join({kNumbers, {D::kBool}})) {
    if (d == D::kUint32 || d == D::kUint64) continue;
    for (bool is_little : {true, false}) {
      const AttrMap attrs = {{"out_type", d}, {"little_endian", is_little}};
      raw.Call({texts}, attrs);
      if (IsComplex(d) || d == D::kBool) continue;
      padded.Call({texts, Int(8)}, attrs);
      padded.Call({Words({"abcd", "", "efg"}), Int(8)}, attrs);
    }
  }
  raw.Call({Words({})}, {{"out_type", D::kInt32}})
      .Call({Words({"", ""})}, {{"out_type", D::kInt32}})
      .Call({Strings({}, {"abc"})}, {{"out_type", D::kUint8}})
      .Hostile({Words({"abcd", "efg"})}, "DecodeRaw requires input strings to all be the same size",
               {{"out_type", D::kInt16}})
      .Hostile({Words({"abc", "efg"})}, "has length 3 that is not a multiple of 2, the size of int16",
               {{"out_type", D::kInt16}});
  const AttrMap shorts = {{"out_type", D::kInt16}};
  padded.Call({Words({}), Int(4)}, shorts)
      .Hostile({Words({"ab"}), Int(0)}, "fixed_length (0) must be", shorts)
      .Hostile({Words({"ab"}), Int(-2)}, "fixed_length (-2) must be", shorts)
      .Hostile({Words({"ab"}), Int(3)}, "fixed_length (3) must be a", shorts)
      .Hostile({Words({"ab"}), Ints({2})}, "fixed_length must be a scalar, is [1]", shorts)
      .OutOfMemory({Words({"ab"}), Int(kHuge - 1)}, shorts);
}

}  // namespace

void AddBytesRecords(Suite& suite) {
  AddRaw(suite);
  const Tensor texts = Strings({2, 3}, {"", "f", "fo", "foo", "\xff\xfe\xfd\xfb", "a longer text"});
  suite.Op("EncodeBase64").Reference(EncodeBase64).Call({texts}).Call({texts}, {{"pad", true}}).CannotFail();
  OpRecord& decode =
      suite.Op("DecodeBase64")
          .Reference(DecodeBase64)
          .Call({Words({"", "Zg", "Zg==", "Zm8=", "Zm8", "Zm9v", "__79", "Zh", "YSBsb25nZXIgdGV4dA"})});
  for (const char* text : {"Zg=", "+/79", "Zm9vZ===", "====", "=", "Zg==Zg==", "Z m", "Z==="}) {
    decode.Hostile({Words({"Zg", text})}, std::strlen(text) == 1 ? "Base64 string length" : "in base64");
  }
  decode.Hostile({Words({"Z"})}, "Base64 string length cannot be 1 modulo 4.");

  OpRecord& serialize = suite.Op("SerializeTensor").Reference(SerializeTensor).CannotFail();
  OpRecord& parse = suite.Op("ParseTensor").Reference(ParseTensor).ShapeDependsOnValues();
  for (const Tensor& tensor : Tensors()) {
    serialize.Call({tensor});
    parse.Call({Strings({}, {MessageOf(tensor)})}, {{"out_type", tensor.dtype()}});
  }
  const AttrMap floats = {{"out_type", D::kFloat32}};
  parse.Hostile({Strings({}, {"xx"})}, "Cannot parse tensor from proto: ", floats)
      .Hostile({Words({"xx"})}, "Expected `serialized` to be a scalar, got shape: [1]", floats)
      .Hostile({Strings({}, {MessageOf(Int(1))})},
               "Type mismatch between parsed tensor (int32) and dtype (float)", floats)
      .Hostile({Strings({}, {""})}, "dtype", floats)
      .Hostile({Strings({}, {MessageOf(Floats({2})).substr(0, 10)})},
               "Cannot parse tensor from proto: ", floats)
      // A shape of 2^40 elements and one value for all of them.
      .Hostile({Strings({}, {std::string("\x08\x01") +
                             Field(2, Field(2, std::string("\x08\x80\x80\x80\x80\x80\x20"))) +
                             Field(5, std::string("\0\0\x80?", 4))})},
               "", floats, absl::StatusCode::kResourceExhausted);
}

}  // namespace weir::conformance
