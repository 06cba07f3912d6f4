#include "kernels/formats/record_io.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/crc32c.h"
#include "kernels/formats/deflater.h"
#include "kernels/formats/forwarding_file_system.h"
#include "kernels/formats/full_disk.h"
#include "kernels/formats/memory_files.h"
#include "kernels/formats/standard_streams.h"
#include "kernels/formats/test_files.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

TEST(PosixFileSystemTest, LargeAndSmallAppendsStayInOrder) {
  std::mt19937 random(7);
  // Test folders may lie on a disk that can write past the page cache; /dev/shm may not.
  for (const std::string& directory : {std::string(testing::TempDir()), std::string("/dev/shm")}) {
    const std::string path = directory + "/weir_append_" + std::to_string(getpid());
    std::string expected;
    {
      std::unique_ptr<WritableFile> file = PosixFileSystem().Create(path).value();
      for (size_t size : {10, 5000000, 3, 70000, 4194304, 1, 65537, 9000001, 0, 100}) {
        std::string piece(size, '\0');
        for (char& byte : piece) byte = static_cast<char>(random());
        ASSERT_TRUE(file->Append(piece).ok());
        expected += piece;
        if (size == 1) {
          ASSERT_TRUE(file->Flush().ok());
          EXPECT_EQ(PosixFileSystem().FileSize(path).value(), expected.size());
        }
      }
      ASSERT_TRUE(file->Sync().ok());
      ASSERT_TRUE(file->Close().ok());
    }
    EXPECT_TRUE(ReadWholeFile(PosixFileSystem(), path).value() == expected) << path;
    EXPECT_TRUE(PosixFileSystem().Remove(path).ok());
  }
}

TEST(Crc32cTest, KnownValues) {
  // RFC 3720, appendix B.4.
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(MaskCrc32c(0), 2726488792u);
  EXPECT_EQ(UnmaskCrc32c(MaskCrc32c(0x12345678u)), 0x12345678u);
}

TEST(Crc32cTest, InstructionAndTableAgree) {
  std::string bytes(40000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i + (i >> 8));
  for (size_t length : {0u,    1u,    7u,    8u,    9u,     335u,   336u,   1007u,  1008u,  1009u,
                        1024u, 2016u, 4095u, 4096u, 12287u, 12288u, 12289u, 13296u, 24576u, 39999u}) {
    for (size_t start : {0u, 1u}) {
      const size_t num_bytes = length - (start < length ? start : 0);
      EXPECT_EQ(ExtendCrc32c(5, bytes.data() + start, num_bytes),
                ExtendCrc32cByTable(5, bytes.data() + start, num_bytes))
          << length;
    }
  }
}

TEST(Crc32cTest, ChecksumsOfPartsGiveThatOfTheWhole) {
  std::string bytes(70'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i + (i >> 8));
  const absl::string_view whole = bytes;
  for (const size_t cut : {0u, 1u, 7u, 4096u, 65'535u, 69'999u, 70'000u}) {
    EXPECT_EQ(ConcatenateCrc32c(Crc32c(whole.substr(0, cut)), Crc32c(whole.substr(cut)), bytes.size() - cut),
              Crc32c(whole))
        << cut;
  }
}

std::vector<std::string> ReadAll(const std::string& path, Compression compression, absl::Status* status,
                                 FileSystem& files = PosixFileSystem()) {
  std::vector<std::string> records;
  absl::StatusOr<std::unique_ptr<RecordReader>> reader = RecordReader::Open(path, compression, files);
  *status = reader.status();
  std::string record;
  while (status->ok()) {
    const absl::StatusOr<bool> found = (*reader)->ReadNext(&record);
    *status = found.status();
    if (!found.ok() || !*found) break;
    records.push_back(record);
  }
  return records;
}

TEST(RecordIoTest, ReadsTensorFlowsFiles) {
  for (const auto& [name, compression] : {std::pair("records_plain.tfrecord", Compression::kNone),
                                          std::pair("records_gzip.tfrecord", Compression::kGzip),
                                          std::pair("records_gzip.tfrecord", Compression::kAuto),
                                          std::pair("records_zlib.tfrecord", Compression::kZlib)}) {
    absl::Status status;
    const std::vector<std::string> records = ReadAll(TestData(name), compression, &status);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(records.size(), 5) << name;
    EXPECT_EQ(records[0], "");
    EXPECT_EQ(records[1], "a");
    EXPECT_EQ(records[2].substr(0, 10), "hellohello");
    std::string all_bytes(256, '\0');
    std::iota(all_bytes.begin(), all_bytes.end(), 0);
    EXPECT_EQ(records[3], all_bytes);
    EXPECT_EQ(Crc32c(records[4]), 1653706308u);
  }
}

TEST(RecordIoTest, RoundTrips) {
  std::vector<std::string> records = {"", "x", std::string(3 << 20, 'y'), std::string("\0\1", 2)};
  for (Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZlib}) {
    const std::string path = NewTestDirectory() + "/records";
    auto writer = RecordWriter::Create(path, compression);
    ASSERT_TRUE(writer.ok());
    for (const std::string& record : records) ASSERT_TRUE((*writer)->Write(record).ok());
    ASSERT_TRUE((*writer)->Flush().ok());
    ASSERT_TRUE((*writer)->Close().ok());
    absl::Status status;
    EXPECT_EQ(ReadAll(path, compression, &status), records);
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(RecordIoTest, WritingAfterTheEndIsAnErrorAndNotALoss) {
  for (Compression compression : {Compression::kGzip, Compression::kZlib}) {
    MemoryFiles files;
    const auto writer = RecordWriter::Create("/records", compression, files).value();
    ASSERT_TRUE(writer->Write("first").ok());
    ASSERT_TRUE(writer->Flush().ok());
    ASSERT_TRUE(writer->Flush().ok()) << "a second flush finds nothing to do";
    ASSERT_TRUE(writer->Close().ok());
    ASSERT_TRUE(writer->Close().ok());
    const absl::Status late = writer->Write("second");
    EXPECT_EQ(late.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(late.message()), HasSubstr("/records"));
  }
}

TEST(RecordIoTest, WhatFollowsALostPieceIsRefused) {
  FullDisk disk(100);
  std::string noise(200000, ' ');
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * i * 2654435761u >> 13);
  const auto writer = RecordWriter::Create(NewTestDirectory() + "/records", Compression::kGzip, disk).value();
  const absl::Status full = writer->Write(noise);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  disk.AddCapacity(int64_t{1} << 40);
  EXPECT_EQ(writer->Write("later"), full);
  EXPECT_EQ(writer->Close(), full);
}

TEST(DeflaterTest, WithoutMemoryThereIsNoCompressor) {
  MemoryFiles files;
  const auto file = files.Create("/records").value();
  const auto no_memory = [](void*, unsigned, unsigned) -> void* { return nullptr; };
  const auto free = [](void*, void*) {};
  const absl::Status status =
      Deflater::Create(Deflater::Format::kGzip, file.get(), {no_memory, free}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/records"));
}

TEST(RecordIoTest, SeveralGzipMembersAreOneStream) {
  const std::string path = NewTestDirectory() + "/two";
  const std::string one = ReadBytes(TestData("records_gzip.tfrecord"));
  WriteBytes(path, one + one);
  absl::Status status;
  EXPECT_EQ(ReadAll(path, Compression::kGzip, &status).size(), 10);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(RecordIoTest, EveryTruncationIsAnErrorExceptBetweenRecords) {
  for (const auto& [name, compression] : {std::pair("records_plain.tfrecord", Compression::kNone),
                                          std::pair("records_gzip.tfrecord", Compression::kGzip),
                                          std::pair("records_zlib.tfrecord", Compression::kZlib)}) {
    const std::string bytes = ReadBytes(TestData(name));
    const std::string path = "/cut";
    MemoryFiles files;
    int num_clean = 0;
    for (size_t length = 0; length < bytes.size(); length += length < 500 ? 1 : 97) {
      files.Put(path, bytes.substr(0, length));
      absl::Status status;
      const size_t num_records = ReadAll(path, compression, &status, files).size();
      EXPECT_TRUE(num_records < 5 || !status.ok());
      if (status.ok()) ++num_clean;
      if (!status.ok()) {
        EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr(path));
      }
    }
    EXPECT_EQ(num_clean, compression == Compression::kNone ? 5 : 1) << name;
  }
}

TEST(RecordIoTest, EveryFlippedBitIsFound) {
  const std::string bytes = ReadBytes(TestData("examples.tfrecord"));
  const std::string path = "/flipped";
  MemoryFiles files;
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string flipped = bytes;
    flipped[i] ^= 1 << (i % 8);
    files.Put(path, flipped);
    absl::Status status;
    ReadAll(path, Compression::kNone, &status, files);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << "byte " << i;
  }
}

// Whether what follows damage begins with a record nobody knows.
TEST(RecordIoTest, AReaderThatFoundDamageGoesNoFurther) {
  std::string bytes = ReadBytes(TestData("examples.tfrecord"));
  bytes[12] ^= 1;  // the first byte of the first record
  MemoryFiles files;
  files.Put("/damaged", bytes);
  const auto reader = RecordReader::Open("/damaged", Compression::kNone, files).value();
  std::string record;
  const absl::Status first = reader->ReadNext(&record).status(), second = reader->ReadNext(&record).status();
  EXPECT_EQ(first.code(), absl::StatusCode::kDataLoss) << first;
  EXPECT_EQ(second, first);
}

TEST(RecordIoTest, AHugeLengthAllocatesNothing) {
  char header[12];
  const uint64_t length = uint64_t{1} << 60;
  memcpy(header, &length, 8);
  const uint32_t crc = MaskCrc32c(Crc32c({header, 8}));
  memcpy(header + 8, &crc, 4);
  const std::string path = NewTestDirectory() + "/huge";
  WriteBytes(path, {header, 12});
  absl::Status status;
  ReadAll(path, Compression::kNone, &status);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is truncated"));
}

TEST(FileSystemTest, ErrorsNamePathAndReason) {
  FileSystem& files = PosixFileSystem();
  const std::string directory = NewTestDirectory();
  EXPECT_EQ(files.OpenForReading(directory + "/none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(files.OpenForReading(directory + "/none").status().message()),
              HasSubstr(directory + "/none: No such file"));
  EXPECT_EQ(files.OpenForReading(directory).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(files.Create(directory + "/no/folder").status().code(), absl::StatusCode::kNotFound);
  WriteBytes(directory + "/file", "x");
  EXPECT_FALSE(files.CreateDirectories(directory + "/file").ok());
  EXPECT_FALSE(files.CreateDirectories(directory + "/file/below").ok());
  EXPECT_TRUE(files.CreateDirectories(directory + "/a/b/c").ok());
  EXPECT_TRUE(files.CreateDirectories(directory + "/a/b/c").ok());
}

// A FIFO would keep its reader waiting for ever, and a device has no end.
TEST(FileSystemTest, OnlyFilesAreOpened) {
  FileSystem& files = PosixFileSystem();
  const std::string directory = NewTestDirectory();
  const std::string fifo = directory + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const std::pair<std::string, std::string> cases[] = {
      {fifo, "it is a FIFO"}, {"/dev/zero", "it is a device"}, {directory, "Is a directory"}};
  for (const auto& [path, kind] : cases) {
    const absl::Status refused = files.OpenForReading(path).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(absl::StrCat("cannot read ", path, ": ", kind)));
    EXPECT_FALSE(RecordReader::Open(path, Compression::kAuto, files).ok());
    EXPECT_FALSE(ReadWholeFile(files, path).ok());
  }
  for (const std::string& path : {fifo, directory}) {
    const absl::Status refused = files.Create(path).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  }
  EXPECT_THAT(std::string(files.OpenForAppending(fifo).status().message()), HasSubstr("it is a FIFO"));
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);  // now it could be opened for writing
  EXPECT_THAT(std::string(files.OpenForAppending(fifo).status().message()), HasSubstr("it is a FIFO"));
  close(reader);
}

// Closes the standard streams of this process for as long as it lives.
class ClosedStreams {
 public:
  ClosedStreams() {
    for (int& copy : copies_) copy = fcntl(static_cast<int>(&copy - copies_), F_DUPFD_CLOEXEC, 10);
    for (const int stream : {0, 1, 2}) close(stream);
  }
  ~ClosedStreams() {
    for (const int stream : {0, 1, 2}) {
      dup2(copies_[stream], stream);
      close(copies_[stream]);
    }
  }

 private:
  int copies_[3];
};

TEST(StandardStreamsTest, WhatIsPrintedGoesIntoNoFile) {
  const std::string path = NewTestDirectory() + "/events";
  {
    const ClosedStreams closed;
    const auto file = PosixFileSystem().Create(path);
    for (const int stream : {0, 1, 2}) EXPECT_LT(write(stream, "noise", 5), 0) << stream;
    ASSERT_TRUE(file.ok() && (*file)->Append("content").ok() && (*file)->Close().ok());
  }
  EXPECT_EQ(ReadBytes(path), "content");
}

TEST(StandardStreamsTest, ClosedOnesAreOpened) {
  bool are_open[3] = {};
  {
    const ClosedStreams closed;
    OpenStandardStreams();
    for (const int stream : {0, 1, 2}) are_open[stream] = fcntl(stream, F_GETFD) >= 0;
    OpenStandardStreams();  // changes nothing
  }
  for (const int stream : {0, 1, 2}) EXPECT_TRUE(are_open[stream]) << stream;
}

// The address space of this process is limited to what it has and `num_bytes` more.
class LimitedMemory {
 public:
  explicit LimitedMemory(uint64_t num_bytes) {
    getrlimit(RLIMIT_AS, &before_);
    uint64_t num_pages = 0;
    std::ifstream("/proc/self/statm") >> num_pages;
    const rlimit limit = {num_pages * sysconf(_SC_PAGESIZE) + num_bytes, before_.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
  }
  ~LimitedMemory() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_;
};

// A small compressed file may hold a thousand times its size.
TEST(RecordReaderTest, ARecordThatMemoryDoesNotHoldIsAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need address space of their own";
#endif
  const std::string path = NewTestDirectory() + "/records.gz";
  {
    const auto writer = RecordWriter::Create(path, Compression::kGzip).value();
    ASSERT_TRUE(writer->Write(std::string(256 << 20, 'x')).ok());
    ASSERT_TRUE(writer->Close().ok());
  }
  const uint64_t file_bytes = PosixFileSystem().FileSize(path).value();
  EXPECT_LT(file_bytes, 1 << 20);
  const LimitedMemory limited(128 << 20);
  std::string record;
  const absl::Status status =
      RecordReader::Open(path, Compression::kAuto).value()->ReadNext(&record).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("a gzip file of ", file_bytes,
                                     " bytes, the record at byte 0 of 268435460 bytes: no memory for")));
}

TEST(FileSystemTest, TheRealFullDiskIsResourceExhausted) {
  const auto file = PosixFileSystem().OpenForAppending("/dev/full");
  if (!file.ok()) GTEST_SKIP() << "there is no /dev/full here";
  EXPECT_TRUE((*file)->Append("small").ok());
  const absl::Status status = (*file)->Flush();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "cannot write /dev/full: No space left on device");
  EXPECT_EQ((*file)->Append("more"), status);
}

TEST(FileSystemTest, AtomicWritesKeepTheOldContentOnFailure) {
  const std::string directory = NewTestDirectory();
  const std::string path = directory + "/state";
  FullDisk disk(10);
  ASSERT_TRUE(WriteFileAtomically(disk, path, "old").ok());
  EXPECT_EQ(WriteFileAtomically(disk, path, "something longer").code(), absl::StatusCode::kResourceExhausted);
  disk.AddCapacity(1000);
  disk.FailNextRename();
  EXPECT_EQ(WriteFileAtomically(disk, path, "new").code(), absl::StatusCode::kInternal);
  EXPECT_EQ(ReadBytes(path), "old");
  EXPECT_EQ(disk.ListDirectory(directory)->size(), 1);
  ASSERT_TRUE(WriteFileAtomically(disk, path, "new").ok());
  EXPECT_EQ(ReadBytes(path), "new");
}

TEST(FileSystemTest, OfTwoThatCreateAFileOneGetsIt) {
  MemoryFiles memory;
  FullDisk disk(1000);
  for (FileSystem* files :
       {&PosixFileSystem(), static_cast<FileSystem*>(&memory), static_cast<FileSystem*>(&disk)}) {
    const std::string path = NewTestDirectory() + "/new";
    const auto first = files->CreateNew(path);
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_TRUE((*first)->Append("x").ok());
    ASSERT_TRUE((*first)->Close().ok());
    const absl::Status second = files->CreateNew(path).status();
    EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(std::string(second.message()), HasSubstr(path));
    EXPECT_EQ(files->FileSize(path).value(), 1);
  }
}

TEST(FileSystemTest, WhatAKilledWriterLeftIsRemoved) {
  const std::string directory = NewTestDirectory();
  WriteBytes(directory + "/model-1.index", "kept");
  WriteBytes(TemporaryPathFor(directory + "/model-2.index"), "half");
  WriteBytes(TemporaryPathFor(directory + "/checkpoint"), "half");
  const absl::StatusOr<int> num_removed = RemoveTemporaryFiles(PosixFileSystem(), directory);
  ASSERT_TRUE(num_removed.ok()) << num_removed.status();
  EXPECT_EQ(*num_removed, 2);
  EXPECT_EQ(*PosixFileSystem().ListDirectory(directory), std::vector<std::string>{"model-1.index"});
}

// Its writer finishes it, or removes it, meanwhile.
TEST(FileSystemTest, ATemporaryFileThatIsGoneAlreadyIsNoError) {
  struct ListsAnother final : ForwardingFileSystem {
    ListsAnother() : ForwardingFileSystem(PosixFileSystem()) {}
    absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override {
      absl::StatusOr<std::vector<std::string>> names = ForwardingFileSystem::ListDirectory(path);
      if (names.ok()) names->push_back(FileNameOf(TemporaryPathFor(path + "/gone")));
      return names;
    }
  };
  const std::string directory = NewTestDirectory();
  WriteBytes(TemporaryPathFor(directory + "/checkpoint"), "half");
  ListsAnother files;
  const absl::StatusOr<int> num_removed = RemoveTemporaryFiles(files, directory);
  ASSERT_TRUE(num_removed.ok()) << num_removed.status();
  EXPECT_EQ(*num_removed, 1);
}

TEST(FileSystemTest, Paths) {
  EXPECT_EQ(DirectoryOf("a/b/c"), "a/b");
  EXPECT_EQ(DirectoryOf("c"), ".");
  EXPECT_EQ(DirectoryOf("/c"), "/");
  EXPECT_EQ(FileNameOf("a/b/c"), "c");
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a", "/b"), "/b");
  EXPECT_EQ(JoinPath(".", "b"), "b");
}

}  // namespace
}  // namespace weir
