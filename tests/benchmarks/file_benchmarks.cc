// Checkpoints: 1 GB (GiB, as the peer counts it) in 16 variables. Records: batches from a file in the page
// cache.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/formats/record_io.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "session/monitored/saver.h"
#include "tests/benchmarks/benchmarks.h"
#include "tests/benchmarks/local_session.h"

namespace weir::bench {
namespace {

double SecondsOf(const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string NewFolder() {
  const char* base = std::getenv("BENCH_DIR");
  std::string directory = absl::StrCat(base == nullptr ? "/var/tmp" : base, "/weir_bench_XXXXXX");
  if (::mkdtemp(directory.data()) == nullptr) Fail(absl::StrCat("cannot create ", directory));
  return directory;
}

void WriteRecords(const std::string& path, int64_t size, int64_t count) {
  std::string record(size, '\0');
  std::mt19937 random(0);
  for (char& byte : record) byte = static_cast<char>(random());
  auto writer = Must(RecordWriter::Create(path));
  for (int64_t i = 0; i < count; ++i) MustOk(writer->Write(record));
  MustOk(writer->Close());
}

// Reads the file as tensors of `batch` strings; the last may have fewer records.
int64_t ReadBatches(const std::string& path, int64_t batch) {
  auto reader = Must(RecordReader::Open(path));
  int64_t num_bytes = 0;
  for (bool is_more = true; is_more;) {
    Tensor records(DType::kString, Shape({batch}));
    for (std::string& record : records.flat<std::string>()) {
      is_more = Must(reader->ReadNext(&record));
      if (!is_more) break;
      num_bytes += static_cast<int64_t>(record.size());
    }
  }
  return num_bytes;
}

}  // namespace

namespace {

// A model of 1 GiB in 16 variables.
struct LargeModel {
  static constexpr int64_t kBytes = int64_t{1} << 30;

  LargeModel() {
    constexpr int kVariables = 16;
    GraphBuilder& g = local.graph;
    for (int i = 0; i < kVariables; ++i) {
      const Output shape = ConstIntegers(g, {static_cast<int32_t>(kBytes / 4 / kVariables)});
      MakeVariable(g, absl::StrCat("v", i), RandomUniform(g, shape, DType::kFloat32));
    }
    saver = Must(Saver::Build(g, {.max_to_keep = 2}));
    Node* init = InitializeVariables(g);
    Must(local.session().Run({}, {}, {init}));
  }
  ~LargeModel() { std::filesystem::remove_all(directory); }

  std::string Save(int step) { return Must(saver->Save(local.session(), directory + "/m", step)); }
  void Restore(const std::string& path) { MustOk(saver->Restore(local.session(), path)); }

  const std::string directory = NewFolder();
  LocalSession local;
  std::unique_ptr<Saver> saver;
};

double MedianRate(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return LargeModel::kBytes / 1e9 / seconds[seconds.size() / 2];
}

// Has the files of a folder in the page cache, or not.
void SetCached(const std::string& directory, bool cached) {
  std::vector<char> block(1 << 20);
  for (const auto& file : std::filesystem::directory_iterator(directory)) {
    const int fd = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) Fail(absl::StrCat("cannot open ", file.path().string()));
    if (!cached) ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    while (cached && ::read(fd, block.data(), block.size()) > 0) {
    }
    ::close(fd);
  }
}

}  // namespace

void Checkpoint() {
  LargeModel model;
  std::vector<double> saves, restores;
  for (int i = 0; i < 3; ++i) {
    std::string path;
    saves.push_back(SecondsOf([&] { path = model.Save(i); }));
    restores.push_back(SecondsOf([&] { model.Restore(path); }));
  }
  // A save here is durable when it returns; the peer's value is not, its detail durable_gb_s is.
  Emit("checkpoint_save", MedianRate(saves), "GB/s",
       {{"durable_gb_s", MedianRate(saves)}, {"restore_gb_s", MedianRate(restores)}});
}

void Restore() {
  LargeModel model;
  const std::string path = model.Save(0);
  model.Restore(path);  // makes room for the second set of values
  for (const bool cached : {true, false}) {
    std::vector<double> seconds;
    for (int i = 0; i < 5; ++i) {
      SetCached(model.directory, cached);
      seconds.push_back(SecondsOf([&] { model.Restore(path); }));
    }
    Emit(cached ? "restore_cached" : "restore_from_disk", MedianRate(seconds), "GB/s");
  }
}

void TfRecordRead() {
  struct Case {
    int64_t size, count, batch;
  };
  const std::string path = NewFolder() + "/records";
  for (const auto& [size, full_count, batch] : {Case{1024, 200'000, 256}, Case{100'000, 3000, 8}}) {
    const auto count = std::max<int64_t>(10, static_cast<int64_t>(full_count * std::min(1.0, TimeScale())));
    WriteRecords(path, size, count);
    std::vector<double> seconds;
    for (int i = 0; i < 3; ++i) {
      seconds.push_back(SecondsOf([&] {
        if (ReadBatches(path, batch) != size * count) Fail("records are missing");
      }));
    }
    std::sort(seconds.begin(), seconds.end());
    Emit(absl::StrCat("tfrecord_read_", size), size * count / 1e9 / seconds[1], "GB/s");
  }
  std::filesystem::remove_all(std::filesystem::path(path).parent_path());
}

}  // namespace weir::bench
