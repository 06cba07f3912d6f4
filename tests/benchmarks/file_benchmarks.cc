// Checkpoints: 1 GB (GiB, as the peer counts it) in 16 variables.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
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

}  // namespace

void Checkpoint() {
  constexpr int kVariables = 16;
  constexpr int64_t kBytes = int64_t{1} << 30;
  const char* base = std::getenv("BENCH_DIR");
  std::string directory = absl::StrCat(base == nullptr ? "/var/tmp" : base, "/weir_bench_XXXXXX");
  if (::mkdtemp(directory.data()) == nullptr) Fail(absl::StrCat("cannot create ", directory));
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

}  // namespace weir::bench
