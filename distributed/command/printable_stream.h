// Text for a terminal, which obeys control characters: names in a file that somebody else wrote must not
// clear the screen or move the cursor. Control characters but tab and the end of a line become "\x1b".
#pragma once

#include <ostream>
#include <streambuf>
#include <string>

#include "absl/strings/string_view.h"

namespace weir {

std::string Printable(absl::string_view text);

// Passes on what it is given, in that way. Borrows the other stream. Thread safety: none.
class PrintableStream final : public std::ostream {
 public:
  explicit PrintableStream(std::ostream& out) : std::ostream(nullptr), buffer_(out) { rdbuf(&buffer_); }

 private:
  class Buffer final : public std::streambuf {
   public:
    explicit Buffer(std::ostream& out) : out_(out) {}

   private:
    int overflow(int character) override;
    std::streamsize xsputn(const char* text, std::streamsize size) override;
    int sync() override;

    std::ostream& out_;
  };

  Buffer buffer_;
};

}  // namespace weir
