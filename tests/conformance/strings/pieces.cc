// Parts of strings, their lengths and letters.
#include <algorithm>
#include <string>

#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using List = std::vector<std::string>;

// The bytes of a text, or its characters: each begins at a byte that does not continue another.
List Letters(const std::string& text, bool in_characters) {
  List letters;
  for (const char byte : text) {
    const bool continues = in_characters && (static_cast<unsigned char>(byte) >> 6) == 2 && !letters.empty();
    if (continues) {
      letters.back() += byte;
    } else {
      letters.emplace_back(1, byte);
    }
  }
  return letters;
}

bool InCharacters(const Call& call) { return call.text("unit") == "UTF8_CHAR"; }

void Substr(Call& call) {
  call.outputs[0] = Generate(BroadcastDims(call.in(0), call.in(1)), [&](const Index& index) {
    const List letters = Letters(BroadcastAt(call.in(0), index).text, InCharacters(call));
    const auto size = static_cast<int64_t>(letters.size());
    int64_t begin = BroadcastAt(call.in(1), index).integer();
    int64_t count = BroadcastAt(call.in(2), index).integer();
    if (begin < 0) begin += size;
    if (count < 0) count = InCharacters(call) ? 0 : size;
    Value part;
    for (int64_t i = begin; i < size && i < begin + count; ++i) part.text += letters[i];
    return part;
  });
}

void SetSparse(Call& call, const std::vector<List>& rows) {
  size_t count = 0, widest = 0;
  for (const List& row : rows) {
    count += row.size();
    widest = std::max(widest, row.size());
  }
  Array indices({static_cast<int64_t>(count), 2}), values({static_cast<int64_t>(count)});
  int64_t k = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < rows[r].size(); ++c, ++k) {
      indices.at({k, 0}) = static_cast<double>(r);
      indices.at({k, 1}) = static_cast<double>(c);
      values[k].text = rows[r][c];
    }
  }
  call.outputs = {indices, values, Vector({static_cast<int64_t>(rows.size()), static_cast<int64_t>(widest)})};
}

void StringSplit(Call& call) {
  const std::string& delimiter = call.in(1)[0].text;
  std::vector<List> rows;
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    const std::string& text = call.in(0)[i].text;
    List row;
    if (!delimiter.empty() && !text.empty()) row.emplace_back();
    for (const char c : text) {
      const bool separates = delimiter.find(c) != std::string::npos;
      if (delimiter.empty() || separates) row.emplace_back();
      if (!separates) row.back() += c;
    }
    if (call.flag("skip_empty")) row.erase(std::remove(row.begin(), row.end(), ""), row.end());
    rows.push_back(row);
  }
  SetSparse(call, rows);
}

// One separator after the other; the rest of a row is left alone after maxsplit of them.
void StringSplitV2(Call& call) {
  const std::string& separator = call.in(1)[0].text;
  const int64_t most = call.integer("maxsplit");
  std::vector<List> rows;
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    std::string text = call.in(0)[i].text;
    const auto strip = [&] { text.erase(0, text.find_first_not_of(" \t\n\v\f\r")); };
    const bool at_space = separator.empty() && most != 0;
    if (at_space) strip();
    List row;
    while (true) {
      const bool is_last = most >= 0 && static_cast<int64_t>(row.size()) == most;
      if (at_space && text.empty() && !is_last) break;
      const size_t end = is_last    ? std::string::npos
                         : at_space ? text.find_first_of(" \t\n\v\f\r")
                                    : text.find(separator);
      row.push_back(text.substr(0, end));
      if (end == std::string::npos && (is_last || !at_space)) break;
      text.erase(0, end == std::string::npos ? end : end + (at_space ? 1 : separator.size()));
      if (at_space) strip();
    }
    rows.push_back(row);
  }
  SetSparse(call, rows);
}

reference::Reference EachText(std::function<std::string(const std::string&)> f) {
  return [f = std::move(f)](Call& call) {
    call.outputs[0] = call.in(0);
    for (int64_t i = 0; i < call.in(0).size(); ++i) call.outputs[0][i].text = f(call.in(0)[i].text);
  };
}

void StringLength(Call& call) {
  call.outputs[0] = Array(call.in(0).dims());
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    const std::string& text = call.in(0)[i].text;
    List letters = Letters(text, InCharacters(call));
    // A continuing byte at the beginning continues nothing.
    const bool begins_within = InCharacters(call) && !text.empty() && (text[0] & 0xC0) == 0x80;
    call.outputs[0][i] = static_cast<double>(letters.size()) - (begins_within ? 1 : 0);
  }
}

const char kMixed[] = "h\xc3\xa9llo\xe2\x82\xac";
const char kBroken[] = "\x80\x80h\xff\xa9lo\x80";

void AddSubstr(Suite& suite) {
  const AttrMap characters = {{"unit", "UTF8_CHAR"}};
  OpRecord& record = suite.Op("Substr").Reference(Substr);
  for (const AttrMap& attrs : {AttrMap(), characters}) {
    record.Call({Words({"hello", "abc"}), Int(1), Int(2)}, attrs)
        .Call({Words({"hello", "abc"}), Int(-2), Int(5)}, attrs)
        .Call({Words({"hello", "abc", ""}), Longs({5, -3, 0}), Longs({1, 2, 7})}, attrs)
        .Call({Words({"hello", "abc"}), Make(DType::kInt32, {2, 1}, {0, 2}),
               Make(DType::kInt32, {2, 1}, {2, 9})},
              attrs)
        .Call({Strings({}, {"hello"}), Ints({1, 2}), Ints({1, 2})}, attrs)
        .Call({Words({kMixed, kBroken}), Int(1), Int(3)}, attrs)
        .Call({Words({kMixed, kBroken}), Int(-2), Int(1)}, attrs)
        .Call({Words({kMixed, kBroken}), Int(0), Int(0)}, attrs)
        .Call({Words({}), Int(0), Int(1)}, attrs)
        .Call({Words({"hello", "abc"}), Int(1), Int(-1)}, attrs)
        .Hostile({Strings({}, {"abc"}), Int(4), Int(1)}, "pos 4 out of range for string", attrs)
        .Hostile({Words({"abcd", "abc"}), Int(-4), Int(1)}, "pos -4 out of range for string", attrs)
        .Hostile({Words({"abc"}), Longs({kShortest}), Longs({kShortest})}, "out of range for string", attrs)
        .Hostile({Words({"abc"}), Longs({kLongest}), Longs({kLongest})}, "out of range for string", attrs)
        .OutOfMemory({Strings({1}, {std::string(100'000, 'a')}),
                      Make(DType::kInt32, {10'000}, std::vector<double>(10'000)),
                      Make(DType::kInt32, {10'000}, std::vector<double>(10'000, 100'000))},
                     attrs);
  }
  record
      .Hostile({Words({"ab", "cd"}), Ints({0, 1}), Int(1)},
               "pos and len should have the same shape, got: [2] vs. []")
      .Hostile({Words({"ab", "cd"}), Ints({0, 1, 1}), Ints({1, 1, 1})}, "[2] vs. [3]")
      .Hostile({Words({"h\xc3\xa9"}), Int(-1), Int(-1)}, "pos -1 out of range", characters);
}

void AddSplits(Suite& suite) {
  const Tensor texts = Words({"a b  c", "", " d ", "ab"});
  OpRecord& split = suite.Op("StringSplit").Reference(StringSplit).ShapeDependsOnValues();
  for (bool skip_empty : {true, false}) {
    for (const char* delimiter : {" ", "", "b ", "xyz"}) {
      split.Call({texts, Strings({}, {delimiter})}, {{"skip_empty", skip_empty}});
    }
  }
  OpRecord& split2 = suite.Op("StringSplitV2").Reference(StringSplitV2).ShapeDependsOnValues();
  for (int max_split : {-1, 0, 1, 2, 3, 9}) {
    for (const char* separator : {" ", "", "b ", "xyz"}) {
      split2.Call({texts, Strings({}, {separator})}, {{"maxsplit", max_split}});
    }
    split2
        .Call({Words({"a<>b<><>c", "<>", "\t a\n\vb\r", "  "}), Strings({}, {"<>"})},
              {{"maxsplit", max_split}})
        .Call({Words({"\t a\n\vb\r ", "  ", "x"}), Strings({}, {""})}, {{"maxsplit", max_split}});
  }
  const auto refuse = [](OpRecord& record, const std::string& separator) {
    record.Call({Words({}), Strings({}, {" "})})
        .Hostile({Strings({}, {"a b"}), Strings({}, {" "})}, "input must be a vector, got shape: []")
        .Hostile({Strings({1, 1}, {"a b"}), Strings({}, {" "})}, "input must be a vector, got shape: [1,1]")
        .Hostile({Words({"a b"}), Words({" "})}, separator + " must be a scalar, got shape: [1]")
        .Hostile({Words({"a b"}), Words({})}, separator + " must be a scalar, got shape: [0]");
  };
  refuse(split, "delimiter");
  refuse(split2, "sep");
}

// N-grams of a row that has its pads around it; those without a word but between two pads count too.
void StringNGrams(Call& call) {
  const auto& widths = call.integers("ngram_widths");
  const int64_t most_pads = call.integer("pad_width");
  List ngrams;
  Index splits = {0};
  for (int64_t row = 1; row < call.in(1).size(); ++row) {
    const auto add = [&](int64_t width, int64_t pads) {
      List words(pads, call.text("left_pad"));
      for (int64_t i = call.in(1)[row - 1].integer(); i < call.in(1)[row].integer(); ++i)
        words.push_back(call.in(0)[i].text);
      words.insert(words.end(), pads, call.text("right_pad"));
      for (int64_t i = 0; i + width <= static_cast<int64_t>(words.size()); ++i) {
        std::string ngram = words[i];
        for (int64_t k = 1; k < width; ++k) ngram += call.text("separator") + words[i + k];
        ngrams.push_back(ngram);
      }
    };
    for (const int64_t width : widths) add(width, most_pads < 0 ? width - 1 : std::min(most_pads, width - 1));
    const int64_t length = call.in(1)[row].integer() - call.in(1)[row - 1].integer();
    if (call.flag("preserve_short_sequences") && splits.back() == static_cast<int64_t>(ngrams.size()) &&
        length > 0)
      add(length + 2 * most_pads, most_pads);
    splits.push_back(static_cast<int64_t>(ngrams.size()));
  }
  call.outputs[0] = Array({static_cast<int64_t>(ngrams.size())});
  for (size_t i = 0; i < ngrams.size(); ++i) call.outputs[0][static_cast<int64_t>(i)].text = ngrams[i];
  call.outputs[1] = Vector(splits);
}

void AddNGrams(Suite& suite) {
  OpRecord& record = suite.Op("StringNGrams").Reference(StringNGrams).ShapeDependsOnValues();
  const auto attrs = [](std::vector<int64_t> widths, int64_t pad_width, bool preserves) {
    return AttrMap{{"separator", "|"},       {"left_pad", "<"},
                   {"right_pad", ">"},       {"ngram_widths", std::move(widths)},
                   {"pad_width", pad_width}, {"preserve_short_sequences", preserves}};
  };
  const Tensor words = Words({"a", "b", "", "dd", "e"}), splits = Longs({0, 3, 3, 5});
  for (const bool preserves : {false, true}) {
    for (const int64_t pads : {int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{kHuge}}) {
      record.Call({words, splits}, attrs({2}, pads, preserves))
          .Call({words, splits}, attrs({3, 1, 5}, pads, preserves))
          .Call({Words({}), Longs({0})}, attrs({2}, pads, preserves));
    }
    record.Call({words, splits}, attrs({9}, 1, preserves)).Call({words, splits}, attrs({4}, 0, preserves));
    record.Call({words, splits}, attrs({}, 2, preserves));
  }
  record.Call({words, Ints({0, 3, 3, 5})}, attrs({2, 2}, 1, true));
  record.Hostile({words, splits}, "ngram_widths must contain positive values", attrs({2, 0}, 0, true))
      .Hostile({words, splits}, "Attr ngram_widths has value 2147483648 out of range for an int32",
               attrs({int64_t{1} << 31}, 0, true))
      .Hostile({words, splits}, "Attr pad_width has value", attrs({1}, kLongest, true))
      .Hostile({words, splits}, "Pad width should be >= 0", attrs({}, -1, true))
      .Hostile({words, Longs({1, 5})}, "First split value must be 0, got 1", attrs({2}, 0, true))
      .Hostile({words, Longs({0, 6})}, "Invalid split value 6, must be in [0, 5]", attrs({2}, 0, true))
      .Hostile({words, Longs({0, 3, 2})}, "Invalid split value 2, must be in [3, 5]", attrs({2}, 0, true))
      .Hostile({words, Longs({0, kShortest, 5})}, "Invalid split value", attrs({2}, 0, true))
      .Hostile({words, Longs({0, 4})}, "Last split value must be data size. Expected 5, got 4",
               attrs({2}, 0, true))
      .OutOfMemory({words, splits}, attrs({kHuge}, -1, false))
      .OutOfMemory({words, splits}, attrs({}, kHuge, true));
}

}  // namespace

void AddPiecesRecords(Suite& suite) {
  AddSubstr(suite);
  AddSplits(suite);
  AddNGrams(suite);
  const Tensor texts =
      Strings({2, 3}, {"", "Abc z", kMixed, kBroken, "  a B \t\n\v\f\r", std::string(" \0A ", 4)});
  suite.Op("StringLength")
      .Reference(StringLength)
      .Call({texts})
      .Call({texts}, {{"unit", "UTF8_CHAR"}})
      .Call({Words({})})
      .CannotFail();
  suite.Op("StringStrip")
      .Reference(EachText([](const std::string& text) {
        const size_t begin = text.find_first_not_of(" \t\n\v\f\r");
        return begin == std::string::npos
                   ? ""
                   : text.substr(begin, text.find_last_not_of(" \t\n\v\f\r") + 1 - begin);
      }))
      .Call({texts})
      .Call({Words({})})
      .CannotFail();
  const auto change_case = [&](const std::string& op, char from, char to) {
    suite.Op(op)
        .Reference(EachText([=](std::string text) {
          for (char& c : text) {
            if (c >= from && c < from + 26) c = static_cast<char>(c - from + to);
          }
          return text;
        }))
        .Call({texts})
        .Call({Words({"Abc z[`{@"})}, {{"encoding", "utf-8"}})
        .Call({Words({})}, {{"encoding", "utf-8"}})
        .Hostile({Words({"a"})}, "only utf-8 or '' (no encoding) is supported, received latin1",
                 {{"encoding", "latin1"}})
        .Hostile({Words({"a", kMixed})}, "string 1", {{"encoding", "utf-8"}},
                 absl::StatusCode::kUnimplemented);
  };
  change_case("StringUpper", 'a', 'A');
  change_case("StringLower", 'A', 'a');
}

}  // namespace weir::conformance
