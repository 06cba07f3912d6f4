#include "kernels/formats/input_stream.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr size_t kBufferBytes = 256 << 10;
// Of small files, which may be many.
constexpr size_t kLeastBufferBytes = 4 << 10;
// A byte of compressed data stands for at most 1032 bytes (zlib's technical notes).
constexpr uint64_t kMaxDeflateRatio = 1032;

class PlainStream final : public InputStream {
 public:
  explicit PlainStream(std::unique_ptr<ReadableFile> file) : file_(std::move(file)), buffer_(kBufferBytes) {}

  const std::string& path() const override { return file_->path(); }
  uint64_t max_bytes() const override { return file_->num_bytes(); }
  std::string Describe() const override { return absl::StrCat("a file of ", file_->num_bytes(), " bytes"); }

  absl::StatusOr<size_t> Read(size_t num_bytes, char* destination) override {
    size_t done = 0;
    while (done < num_bytes) {
      if (begin_ == end_) {
        if (num_bytes - done >= buffer_.size()) {
          // No use in copying large pieces twice.
          WEIR_ASSIGN_OR_RETURN(const size_t direct,
                                file_->Read(offset_, num_bytes - done, destination + done));
          offset_ += direct;
          return done + direct;
        }
        WEIR_ASSIGN_OR_RETURN(end_, file_->Read(offset_, buffer_.size(), buffer_.data()));
        begin_ = 0;
        offset_ += end_;
        if (end_ == 0) break;
      }
      const size_t piece = std::min(num_bytes - done, end_ - begin_);
      std::memcpy(destination + done, buffer_.data() + begin_, piece);
      begin_ += piece;
      done += piece;
    }
    return done;
  }

  const char* TakeBuffered(size_t num_bytes) override {
    if (num_bytes > end_ - begin_) return nullptr;
    begin_ += num_bytes;
    return buffer_.data() + begin_ - num_bytes;
  }

 private:
  const std::unique_ptr<ReadableFile> file_;
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t offset_ = 0;  // in the file, of the first byte behind the buffer
};

class InflatingStream final : public InputStream {
 public:
  InflatingStream(std::unique_ptr<ReadableFile> file, Compression compression, BytesBehind behind)
      : file_(std::move(file)),
        buffer_(std::clamp<uint64_t>(file_->num_bytes(), kLeastBufferBytes, kBufferBytes)),
        is_gzip_(compression == Compression::kGzip),
        ignores_bytes_behind_(behind == BytesBehind::kIgnored) {
    std::memset(&zlib_, 0, sizeof(zlib_));
    inflateInit2(&zlib_, is_gzip_ ? 16 + MAX_WBITS : MAX_WBITS);
  }
  ~InflatingStream() override { inflateEnd(&zlib_); }

  const std::string& path() const override { return file_->path(); }
  uint64_t max_bytes() const override {
    return file_->num_bytes() > UINT64_MAX / kMaxDeflateRatio ? UINT64_MAX
                                                              : file_->num_bytes() * kMaxDeflateRatio;
  }
  std::string Describe() const override {
    return absl::StrCat("a ", is_gzip_ ? "gzip" : "zlib", " file of ", file_->num_bytes(), " bytes");
  }

  absl::StatusOr<size_t> Read(size_t num_bytes, char* destination) override {
    size_t done = 0;
    while (done < num_bytes) {
      if (zlib_.avail_in == 0) WEIR_RETURN_IF_ERROR(Refill());
      if (zlib_.avail_in == 0) {
        if (is_between_members_) break;
        return Damaged("breaks off inside compressed data");
      }
      if (is_between_members_) {
        if (!is_gzip_ && has_member_) {
          if (ignores_bytes_behind_) break;
          return Damaged("has bytes after its compressed data");
        }
        is_between_members_ = false;
        has_member_ = true;
      }
      const size_t room = std::min<size_t>(num_bytes - done, size_t{1} << 30);
      zlib_.next_out = reinterpret_cast<Bytef*>(destination + done);
      zlib_.avail_out = static_cast<uInt>(room);
      const int result = inflate(&zlib_, Z_NO_FLUSH);
      done += room - zlib_.avail_out;
      if (result == Z_STREAM_END) {
        inflateReset(&zlib_);
        is_between_members_ = true;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        return Damaged(zlib_.msg != nullptr ? zlib_.msg : "damaged compressed data");
      }
    }
    return done;
  }

 private:
  absl::Status Refill() {
    WEIR_ASSIGN_OR_RETURN(const size_t num_read, file_->Read(offset_, buffer_.size(), buffer_.data()));
    offset_ += num_read;
    zlib_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    zlib_.avail_in = static_cast<uInt>(num_read);
    return absl::OkStatus();
  }

  absl::Status Damaged(absl::string_view problem) const {
    return absl::DataLossError(absl::StrCat(path(), " is no intact ", is_gzip_ ? "gzip" : "zlib",
                                            " file: near byte ", offset_ - zlib_.avail_in, ": ", problem));
  }

  const std::unique_ptr<ReadableFile> file_;
  std::vector<char> buffer_;
  const bool is_gzip_, ignores_bytes_behind_;
  z_stream zlib_;
  uint64_t offset_ = 0;
  // At the very beginning and after each complete member the file may end.
  bool is_between_members_ = true;
  bool has_member_ = false;
};

absl::StatusOr<Compression> DetectCompression(const ReadableFile& file) {
  unsigned char magic[2] = {};
  WEIR_ASSIGN_OR_RETURN(const size_t num_read, file.Read(0, sizeof(magic), magic));
  const bool is_gzip = num_read == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
  return is_gzip ? Compression::kGzip : Compression::kNone;
}

}  // namespace

absl::StatusOr<std::unique_ptr<InputStream>> NewInputStream(std::unique_ptr<ReadableFile> file,
                                                            Compression compression, BytesBehind behind) {
  if (compression == Compression::kAuto) {
    WEIR_ASSIGN_OR_RETURN(compression, DetectCompression(*file));
  }
  std::unique_ptr<InputStream> stream;
  if (compression == Compression::kNone) {
    stream = std::make_unique<PlainStream>(std::move(file));
  } else {
    stream = std::make_unique<InflatingStream>(std::move(file), compression, behind);
  }
  return stream;
}

}  // namespace weir
