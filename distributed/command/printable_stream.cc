#include "distributed/command/printable_stream.h"

#include "graph/types/printable_text.h"

namespace weir {

std::string Printable(absl::string_view text) {
  std::string printable;
  for (const char c : text) {
    if (c == '\n' || c == '\t') {
      printable.push_back(c);
    } else {
      printable += PrintableText(absl::string_view(&c, 1));
    }
  }
  return printable;
}

int PrintableStream::Buffer::overflow(int character) {
  if (character == traits_type::eof()) return traits_type::not_eof(character);
  const char c = traits_type::to_char_type(character);
  out_ << Printable(absl::string_view(&c, 1));
  return out_.good() ? character : traits_type::eof();
}

std::streamsize PrintableStream::Buffer::xsputn(const char* text, std::streamsize size) {
  out_ << Printable(absl::string_view(text, static_cast<size_t>(size)));
  return out_.good() ? size : 0;
}

int PrintableStream::Buffer::sync() {
  out_.flush();
  return out_.good() ? 0 : -1;
}

}  // namespace weir
