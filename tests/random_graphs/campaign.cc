// Hunts for bugs with graphs of fresh seeds, as long as it is told to.
//
// usage: campaign [--seed=N] [--minutes=M | --graphs=N] [--all_ways=false] [--max_nodes=N] [--keep_going]
// [--print]
//   --seed        the first seed; later ones count up (default: 1)
//   --minutes     how long (default: 1)
//   --graphs      stop after so many graphs instead
//   --all_ways    run every graph in every way (default: true)
//   --max_nodes   size of the graphs (default: 28)
//   --keep_going  do not stop at the first finding
//   --shrink      make findings small, which takes up to four minutes each (default: true)
//   --print       only print the graph of the first seed
//   --tensorflow  compare with TensorFlow, with the Python that $WEIR_TF_PYTHON names, instead of trying all
//   ways
//   --oracle      the script that Python runs (default: tests/random_graphs/tensorflow_oracle.py)
// Exit code: 0 when nothing was found, 1 with findings, which are printed small, 2 for a wrong flag.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "tests/random_graphs/hunt.h"
#include "tests/random_graphs/print.h"
#include "tests/random_graphs/tensorflow_hunt.h"

namespace weir::random_graphs {
namespace {

struct Flags {
  int64_t seed = 1;
  double minutes = 1;
  int64_t graphs = 0;
  bool keep_going = false;
  bool print = false;
  bool tensorflow = false;
  std::string oracle = "tests/random_graphs/tensorflow_oracle.py";
  HuntOptions hunt;
};

bool Parse(int argc, char** argv, Flags* flags) {
  for (int i = 1; i < argc; ++i) {
    absl::string_view value = argv[i];
    int64_t nodes = 0;
    if (value == "--keep_going") {
      flags->keep_going = true;
    } else if (value == "--print") {
      flags->print = true;
    } else if (value == "--tensorflow") {
      flags->tensorflow = true;
    } else if (absl::ConsumePrefix(&value, "--oracle=")) {
      flags->oracle = std::string(value);
    } else if (absl::ConsumePrefix(&value, "--seed=")) {
      if (!absl::SimpleAtoi(value, &flags->seed) || flags->seed < 0) return false;
    } else if (absl::ConsumePrefix(&value, "--minutes=")) {
      if (!absl::SimpleAtod(value, &flags->minutes)) return false;
    } else if (absl::ConsumePrefix(&value, "--graphs=")) {
      if (!absl::SimpleAtoi(value, &flags->graphs) || flags->graphs < 1) return false;
    } else if (absl::ConsumePrefix(&value, "--all_ways=")) {
      if (!absl::SimpleAtob(value, &flags->hunt.tries_all_ways)) return false;
    } else if (absl::ConsumePrefix(&value, "--shrink=")) {
      if (!absl::SimpleAtob(value, &flags->hunt.shrinks)) return false;
    } else if (absl::ConsumePrefix(&value, "--max_nodes=")) {
      if (!absl::SimpleAtoi(value, &nodes) || nodes < 4 || nodes > 1000) return false;
      flags->hunt.generator.max_nodes = static_cast<int>(nodes);
    } else {
      return false;
    }
  }
  return true;
}

int Print(const Flags& flags) {
  const auto graph_case = Generate(static_cast<uint64_t>(flags.seed), flags.hunt.generator);
  std::printf("%s",
              graph_case.ok() ? PrintCase(*graph_case).c_str() : graph_case.status().ToString().c_str());
  return graph_case.ok() ? 0 : 1;
}

// Looks at up to `count` seeds, adds to the number of graphs, gives what was found.
using HuntSome = std::function<absl::StatusOr<std::vector<std::string>>(uint64_t first, int64_t count,
                                                                        int64_t* num_graphs)>;

int Run(const Flags& flags, const HuntSome& hunt) {
  const absl::Time begin = absl::Now();
  int64_t num_graphs = 0, num_findings = 0;
  const auto goes_on = [&] {
    if (num_findings > 0 && !flags.keep_going) return false;
    if (flags.graphs > 0) return num_graphs < flags.graphs;
    return absl::Now() - begin < absl::Minutes(flags.minutes);
  };
  while (goes_on()) {
    const int64_t count = flags.graphs > 0 ? std::min<int64_t>(flags.graphs - num_graphs, 50) : 50;
    const auto findings = hunt(static_cast<uint64_t>(flags.seed + num_graphs), count, &num_graphs);
    if (!findings.ok()) {
      std::fprintf(stderr, "%s\n", findings.status().ToString().c_str());
      return 2;
    }
    num_findings += static_cast<int64_t>(findings->size());
    for (const std::string& finding : *findings) std::printf("%s\n", finding.c_str());
    std::fflush(stdout);
  }
  std::printf("%lld graphs in %.1f minutes, %lld findings\n", static_cast<long long>(num_graphs),
              absl::ToDoubleMinutes(absl::Now() - begin), static_cast<long long>(num_findings));
  return num_findings > 0 ? 1 : 0;
}

int RunAlone(const Flags& flags) {
  return Run(flags, [&](uint64_t first, int64_t count, int64_t* num_graphs) {
    HuntResult result = HuntInChild(first, count, flags.hunt);
    *num_graphs += result.num_graphs;
    std::vector<std::string> findings;
    if (result.finding) findings.push_back(*std::move(result.finding));
    return absl::StatusOr<std::vector<std::string>>(findings);
  });
}

int RunWithTensorFlow(const Flags& flags) {
  const char* python = std::getenv("WEIR_TF_PYTHON");
  if (python == nullptr) {
    std::fprintf(stderr, "WEIR_TF_PYTHON names no Python with TensorFlow\n");
    return 2;
  }
  char folder[] = "/tmp/random_graphs.XXXXXX";
  if (mkdtemp(folder) == nullptr) return 2;
  auto oracle = TensorFlowOracle::Start(python, flags.oracle, folder);
  if (!oracle.ok()) {
    std::fprintf(stderr, "%s\n", oracle.status().ToString().c_str());
    return 2;
  }
  Runner runner;
  TensorFlowHunt hunt(**oracle, runner);
  const int code = Run(flags, [&](uint64_t first, int64_t count, int64_t* num_graphs) {
    *num_graphs += count;
    return hunt.Hunt(first, count, flags.hunt.generator);
  });
  for (const auto& [error, count] : hunt.refusals()) {
    std::printf("not compared, %d times: TensorFlow says %s\n", count, error.c_str());
  }
  std::filesystem::remove_all(folder);
  return code;
}

}  // namespace
}  // namespace weir::random_graphs

int main(int argc, char** argv) {
  weir::random_graphs::Flags flags;
  if (!weir::random_graphs::Parse(argc, argv, &flags)) {
    std::fprintf(stderr,
                 "usage: campaign [--seed=N] [--minutes=M | --graphs=N] [--all_ways=BOOL] [--max_nodes=N] "
                 "[--keep_going] [--print] [--tensorflow] [--oracle=PATH] [--shrink=BOOL]\n");
    return 2;
  }
  using namespace weir::random_graphs;  // NOLINT
  return flags.print ? Print(flags) : flags.tensorflow ? RunWithTensorFlow(flags) : RunAlone(flags);
}
