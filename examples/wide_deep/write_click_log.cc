// Writes a synthetic click log, train.tsv and test.tsv, that can be learned from.
//
//   write_click_log --data_dir=/tmp/clicks --lines=200000
//
// Whether a line is a click is drawn with a probability that depends on its values: every value of every
// category has a weight, some pairs of categories have one for each pair of values (which a linear model
// cannot learn), and so have the numbers. Frequencies of values fall as those of real categories do.
#include <cmath>
#include <cstdio>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "distributed/command/flag_parser.h"
#include "examples/wide_deep/click_log.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/file_system.h"

namespace weir::examples {
namespace {

// A number from -1 to 1 that looks random and is the same for the same key.
double WeightOf(uint64_t key) {
  key = (key + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;  // the mixer of SplitMix64
  key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
  return static_cast<double>(key ^ (key >> 31)) / 9.223372036854775808e18 - 1;
}

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  std::string NextLine() {
    std::string fields;
    double logit = -1.2;
    for (int i = 0; i < kClickNumbers; ++i) {
      const int64_t number = static_cast<int64_t>(std::exp(6 * uniform_(random_) * uniform_(random_))) - 1;
      logit += 0.1 * WeightOf(i) * std::log1p(static_cast<double>(number));
      absl::StrAppend(&fields, "\t", number);
    }
    uint64_t values[kClickSlots];
    for (int i = 0; i < kClickSlots; ++i) {
      values[i] = NextValue(i);
      logit += 0.5 * WeightOf(values[i]);
      absl::StrAppendFormat(&fields, "\t%08x", values[i]);
    }
    for (int i = 0; i + 1 < kClickSlots; i += 5)
      logit += WeightOf(values[i] % 8 * 8 + values[i + 1] % 8 + 64 * i);
    const bool is_click = uniform_(random_) < 1 / (1 + std::exp(-logit));
    return absl::StrCat(is_click ? "1" : "0", fields, "\n");
  }

 private:
  // The category has 10, 30, 100... 10,000 values; the k-th is drawn with a probability of about 1 / k.
  uint64_t NextValue(int slot) {
    const double count = 10 * std::pow(10, slot % 7 * 0.5);
    return static_cast<uint64_t>(std::pow(count, uniform_(random_))) + 1'000'000 * (slot + 1);
  }

  std::mt19937_64 random_;
  std::uniform_real_distribution<double> uniform_;
};

absl::Status WriteLog(const std::string& path, int lines, uint64_t seed) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, PosixFileSystem().Create(path));
  Generator generator(seed);
  for (int i = 0; i < lines; ++i) WEIR_RETURN_IF_ERROR(file->Append(generator.NextLine()));
  return file->Close();
}

absl::Status Main(const std::vector<std::string>& args) {
  std::string data_dir = "/tmp/clicks";
  int lines = 200'000, test_lines = 20'000, seed = 1;
  FlagParser parser("write_click_log", "[flags]", "Writes a synthetic click log, train.tsv and test.tsv.");
  parser.Add("data_dir", &data_dir, "folder to write to");
  parser.Add("lines", &lines, "of train.tsv", {.least = 1});
  parser.Add("test_lines", &test_lines, "of test.tsv", {.least = 1});
  parser.Add("seed", &seed, "the same seed gives the same files");
  WEIR_RETURN_IF_ERROR(parser.Parse(args));
  if (parser.wants_help()) return std::fputs(parser.Help().c_str(), stdout), absl::OkStatus();
  WEIR_RETURN_IF_ERROR(PosixFileSystem().CreateDirectories(data_dir));
  WEIR_RETURN_IF_ERROR(WriteLog(data_dir + "/train.tsv", lines, 2 * static_cast<uint64_t>(seed)));
  return WriteLog(data_dir + "/test.tsv", test_lines, 2 * static_cast<uint64_t>(seed) + 1);
}

}  // namespace
}  // namespace weir::examples

int main(int argc, char** argv) {
  const absl::Status status = weir::examples::Main({argv + 1, argv + argc});
  if (!status.ok()) std::fprintf(stderr, "write_click_log: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
