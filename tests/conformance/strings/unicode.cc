// Texts in other encodings, and as numbers. What is no text: tensorflow_test.py.
#include <map>
#include <string>
#include <vector>

#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

// The letters of a text of ASCII in UTF-8 or UTF-16-BE.
std::vector<int64_t> Letters(const std::string& text, bool is_wide) {
  std::vector<int64_t> letters;
  for (size_t i = is_wide ? 1 : 0; i < text.size(); i += is_wide ? 2 : 1) letters.push_back(text[i]);
  return letters;
}

void Decode(reference::Call& call) {
  Index splits = {0}, codes, starts;
  const bool is_wide = call.text("input_encoding") == "UTF-16-BE";
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    int64_t start = 0;
    for (const int64_t code : Letters(call.in(0)[i].text, is_wide)) {
      codes.push_back(code);
      starts.push_back(start);
      start += is_wide ? 2 : 1;
    }
    splits.push_back(static_cast<int64_t>(codes.size()));
  }
  call.outputs[0] = Vector(splits);
  call.outputs[1] = Vector(codes);
  if (call.outputs.size() == 3) call.outputs[2] = Vector(starts);
}

std::string Wide(const std::string& text) {
  std::string wide;
  for (const char c : text) wide += {'\0', c};
  return wide;
}

}  // namespace

void AddUnicodeRecords(Suite& suite) {
  using D = DType;
  const AttrMap utf8 = {{"input_encoding", "UTF-8"}}, wide = {{"input_encoding", "UTF-16-BE"}};
  const Tensor words = Words({"one", "", "four"});
  for (const char* op : {"UnicodeDecode", "UnicodeDecodeWithOffsets"}) {
    OpRecord& record = suite.Op(op).Reference(Decode);
    record.Call({words}, utf8)
        .Call({words}, {{"input_encoding", "US-ASCII"}})  // with splits of int32 TensorFlow 2.21 aborts
        .Call({Strings({2}, {Wide("a"), Wide("bcd")})}, wide)
        .Call({Strings({}, {"scalar"})}, utf8)
        .Call({Strings({0}, {})}, utf8)
        .Hostile({words}, "Could not create converter for input encoding: nope", {{"input_encoding", "nope"}})
        .Hostile({Words({"\xff"})}, "Invalid formatting on input string",
                 {{"input_encoding", "UTF-8"}, {"errors", "strict"}});
    for (const int64_t replacement : {int64_t{-1}, int64_t{0x110000}}) {
      record.Hostile({words}, "replacement_char out of unicode codepoint range",
                     {{"input_encoding", "UTF-8"}, {"replacement_char", replacement}});
    }
    record.ShapeDependsOnValues();
  }
  const AttrMap to_utf16 = {{"input_encoding", "UTF-8"}, {"output_encoding", "UTF-16-BE"}};
  suite.Op("UnicodeTranscode")
      .Reference([](reference::Call& call) {
        call.outputs[0] = call.in(0);
        for (int64_t i = 0; i < call.in(0).size(); ++i) {
          call.outputs[0][i].text = Wide(call.in(0)[i].text);
        }
      })
      .Call({words}, to_utf16)
      .Call({Strings({1, 2}, {"a", "bc"})}, to_utf16)
      .Hostile({words}, "Could not create converter for input encoding: EBCDIC",
               {{"input_encoding", "EBCDIC"}, {"output_encoding", "UTF-8"}})
      .Hostile({Words({"a\xe2\x82"})}, "Invalid formatting on input string, at byte 1",
               {{"input_encoding", "UTF-8"}, {"output_encoding", "UTF-8"}, {"errors", "strict"}})
      .Hostile({Words({"a\x01"})}, "Invalid formatting on input string, at byte 1",
               {{"input_encoding", "UTF-8"},
                {"output_encoding", "UTF-8"},
                {"errors", "strict"},
                {"replace_control_characters", true}})
      .Hostile({words}, "replacement_char out of unicode codepoint range",
               {{"input_encoding", "UTF-8"}, {"output_encoding", "UTF-8"}, {"replacement_char", 0x110000}});

  // Common, Latin, Greek, inherited, Cyrillic, Hebrew, Han; none of a code that is not assigned, or is no
  // code.
  const std::map<int64_t, double> scripts = {
      {0x20, 0},     {0x41, 25},   {0x3b1, 14},   {0x300, 1}, {0x416, 8},     {0x5d0, 19},     {0x4e2d, 17},
      {0x20000, 17}, {0x378, 103}, {0xd800, 103}, {-1, -1},   {0x110000, -1}, {0x7fffffff, -1}};
  std::vector<double> codes;
  for (const auto& [code, script] : scripts) codes.push_back(static_cast<double>(code));
  suite.Op("UnicodeScript")
      .Reference([scripts](reference::Call& call) {
        call.outputs[0] = Generate(call.in(0).dims(), [&](const Index& at) {
          return Value(scripts.at(call.in(0).at(at).integer()));
        });
      })
      .Call({Make(D::kInt32, {static_cast<int64_t>(codes.size())}, codes)})
      .Call({Make(D::kInt32, {1, 2}, {0x41, 0x3b1})})
      .Call({Int(0x41)})
      .Call({Ints({})})
      .CannotFail();

  const AttrMap as_utf8 = {{"output_encoding", "UTF-8"}};
  OpRecord& encode = suite.Op("UnicodeEncode").Reference([](reference::Call& call) {
    call.outputs[0] = Array({call.in(1).size() - 1});
    for (int64_t i = 0; i + 1 < call.in(1).size(); ++i) {
      for (int64_t k = call.in(1)[i].integer(); k < call.in(1)[i + 1].integer(); ++k) {
        call.outputs[0][i].text.push_back(static_cast<char>(call.in(0)[k].integer()));
      }
    }
  });
  encode.Call({Ints({64, 65, 66}), Longs({0, 1, 1, 3})}, as_utf8)
      .Call({Ints({64, 65, 66}), Ints({0, 3})}, as_utf8)
      .Call({Ints({}), Longs({0})}, as_utf8)
      .Hostile({Ints({0xd800}), Longs({0, 1})}, "out of range for Unicode, or is a surrogate: 55296",
               {{"output_encoding", "UTF-8"}, {"errors", "strict"}})
      .Hostile({Ints({64, 65}), Longs({1, 2})}, "First value in input_splits must be zero", as_utf8)
      .Hostile({Ints({64, 65}), Longs({0, 3})}, "Last value in input_splits must be equal", as_utf8)
      .Hostile({Ints({64, 65}), Longs({0, 3, 2})}, "ascending order", as_utf8)
      .Hostile({Ints({64, 65}), Longs({0, kShortest, 2})}, "ascending order", as_utf8)
      .Hostile({Ints({}), Longs({})}, "Input_splits should contain elements", as_utf8)
      .Hostile({Make(D::kInt32, {1, 1}, {64}), Longs({0, 1})}, "should be of rank 1", as_utf8)
      .Hostile({Ints({64}), Longs({0, 1})}, "replacement_char out of unicode codepoint range",
               {{"output_encoding", "UTF-8"}, {"replacement_char", -1}});
}

}  // namespace weir::conformance
