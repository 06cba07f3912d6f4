// Training steps in one process, and the time from the start of a process to the end of its first step.
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tests/benchmarks/benchmarks.h"
#include "tests/benchmarks/local_session.h"
#include "tests/benchmarks/mlp.h"

namespace weir::bench {

void MlpStep() {
  for (int batch : {32, 128}) {
    LocalSession local;
    const Mlp mlp = BuildMlp(local.graph, batch, /*with_global_step=*/false);
    Session& session = local.session();
    Must(session.Run({}, {}, {mlp.init}));
    const Tensor images = RandomImages(batch), labels = RandomLabels(batch);
    auto step = Must(session.Prepare({mlp.images, mlp.labels}, {mlp.loss}, {mlp.train}));
    Tensor loss;
    Emit(absl::StrCat("mlp_b", batch, "_step"),
         MedianSeconds(
             [&] {
               MustOk(step->Run({images, labels}, absl::MakeSpan(&loss, 1)));
             },
             2) *
             1e6,
         "us");
    Emit(absl::StrCat("mlp_b", batch, "_step_session_run"),
         MedianSeconds([&] {
           Must(session.Run({{mlp.images, images}, {mlp.labels, labels}}, {mlp.loss}, {mlp.train}));
         }) * 1e6,
         "us");
  }
}

void FirstStep() {
  LocalSession local;
  const Mlp mlp = BuildMlp(local.graph, 32, /*with_global_step=*/false);
  Must(local.session().Run({}, {}, {mlp.init}));
  Must(
      local.session().Run({{mlp.images, RandomImages(32)}, {mlp.labels, RandomLabels(32)}}, {}, {mlp.train}));
}

void Startup() {
  char self[4096];
  const ssize_t length = ::readlink("/proc/self/exe", self, sizeof(self) - 1);
  if (length <= 0) Fail("cannot find this program's own path");
  const std::string command = absl::StrCat("'", std::string(self, length), "' first_step");
  const double seconds = MedianSeconds(
      [&] {
        if (std::system(command.c_str()) != 0) Fail("the first step failed");
      },
      1.0, 3, 1);
  Emit("start_to_first_step", seconds * 1e3, "ms");
}

}  // namespace weir::bench
