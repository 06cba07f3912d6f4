#include "kernels/formats/deflater.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

absl::Status ZlibError(int code, const z_stream& zlib, const std::string& path) {
  const std::string message = absl::StrCat("cannot compress ", path, ": zlib says ", code,
                                           zlib.msg == nullptr ? "" : absl::StrCat(" (", zlib.msg, ")"));
  return code == Z_MEM_ERROR ? absl::ResourceExhaustedError(message) : absl::InternalError(message);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Deflater>> Deflater::Create(Format format, WritableFile* file, Memory memory) {
  std::unique_ptr<Deflater> deflater(new Deflater(file));
  deflater->zlib_.zalloc = memory.allocate;
  deflater->zlib_.zfree = memory.free;
  constexpr int kMemoryLevel = 8;  // zlib's default
  const int window_bits = format == Format::kGzip ? 16 + MAX_WBITS : MAX_WBITS;
  const int code = deflateInit2(&deflater->zlib_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window_bits,
                                kMemoryLevel, Z_DEFAULT_STRATEGY);
  if (code != Z_OK) return ZlibError(code, deflater->zlib_, file->path());
  deflater->is_open_ = true;
  return deflater;
}

Deflater::~Deflater() {
  if (is_open_) deflateEnd(&zlib_);
}

absl::Status Deflater::Append(absl::string_view data) { return Deflate(data, Z_NO_FLUSH); }

absl::Status Deflater::Flush() { return Deflate("", Z_SYNC_FLUSH); }

absl::Status Deflater::Finish() {
  if (is_finished_) return error_;
  const absl::Status status = Deflate("", Z_FINISH);
  is_finished_ = true;
  return status;
}

absl::Status Deflater::Deflate(absl::string_view data, int flush) {
  if (!error_.ok()) return error_;
  if (is_finished_) {
    return absl::FailedPreconditionError(absl::StrCat("the stream in ", file_->path(), " is finished"));
  }
  do {
    const size_t piece = std::min<size_t>(data.size(), size_t{1} << 30);
    zlib_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
    zlib_.avail_in = static_cast<uInt>(piece);
    data.remove_prefix(piece);
    error_ = DeflatePiece(data.empty() ? flush : Z_NO_FLUSH);
  } while (error_.ok() && !data.empty());
  return error_;
}

absl::Status Deflater::DeflatePiece(int flush) {
  int code = Z_OK;
  do {
    zlib_.next_out = reinterpret_cast<Bytef*>(buffer_.data());
    zlib_.avail_out = static_cast<uInt>(buffer_.size());
    code = deflate(&zlib_, flush);
    // Z_BUF_ERROR: nothing was left to do, as in a second flush.
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      return ZlibError(code, zlib_, file_->path());
    }
    WEIR_RETURN_IF_ERROR(file_->Append({buffer_.data(), buffer_.size() - zlib_.avail_out}));
  } while (zlib_.avail_out == 0);
  const bool is_complete = zlib_.avail_in == 0 && (flush != Z_FINISH || code == Z_STREAM_END);
  return is_complete ? absl::OkStatus() : ZlibError(code, zlib_, file_->path());
}

}  // namespace weir
