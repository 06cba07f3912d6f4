#include "distributed/command/printable_stream.h"

#include "absl/strings/str_format.h"

namespace weir {

std::string Printable(absl::string_view text) {
  std::string printable;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
    if (is_control) {
      absl::StrAppendFormat(&printable, "\\x%02x", byte);
    } else {
      printable.push_back(c);
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
