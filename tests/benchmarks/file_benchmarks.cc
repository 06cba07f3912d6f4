// Checkpoints: 1 GB (GiB, as the peer counts it) in 16 variables. Records: batches from a file in the page
// cache.
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

void Checkpoint() {
  constexpr int kVariables = 16;
  constexpr int64_t kBytes = int64_t{1} << 30;
  const std::string directory = NewFolder();
  LocalSession local;
  GraphBuilder& g = local.graph;
  for (int i = 0; i < kVariables; ++i) {
    const Output shape = ConstIntegers(g, {static_cast<int32_t>(kBytes / 4 / kVariables)});
    MakeVariable(g, absl::StrCat("v", i), RandomUniform(g, shape, DType::kFloat32));
  }
  auto saver = Must(Saver::Build(g, {.max_to_keep = 2}));
  Node* init = InitializeVariables(g);
  Must(local.session().Run({}, {}, {init}));
  std::vector<double> saves, restores;
  for (int i = 0; i < 3; ++i) {
    std::string path;
    saves.push_back(SecondsOf([&] { path = Must(saver->Save(local.session(), directory + "/m", i)); }));
    restores.push_back(SecondsOf([&] { MustOk(saver->Restore(local.session(), path)); }));
  }
  std::sort(saves.begin(), saves.end());
  std::sort(restores.begin(), restores.end());
  // A save here is durable when it returns; the peer's value is not, its detail durable_gb_s is.
  Emit("checkpoint_save", kBytes / 1e9 / saves[1], "GB/s",
       {{"durable_gb_s", kBytes / 1e9 / saves[1]}, {"restore_gb_s", kBytes / 1e9 / restores[1]}});
  std::filesystem::remove_all(directory);
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
