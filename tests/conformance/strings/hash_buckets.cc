// Strings as numbers of buckets: the numbers are TensorFlow 2.21's.
#include <map>
#include <string>

#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;

constexpr int64_t kNumBuckets = 1'000'000;

// Of each length that the hashes treat in a way of its own.
const std::vector<std::string>& Texts() {
  static const auto* const texts = new std::vector<std::string>{
      "", "a", "hello", std::string(20, 'x'), std::string(40, 'y'), std::string(100, 'z'), "12345678"};
  return *texts;
}

reference::Reference Known(std::vector<int64_t> buckets) {
  return [buckets = std::move(buckets)](Call& call) {
    call.outputs[0] = Array(call.in(0).dims());
    for (int64_t i = 0; i < call.in(0).size(); ++i) {
      for (size_t k = 0; k < buckets.size(); ++k) {
        if (call.in(0)[i].text == Texts()[k]) call.outputs[0][i] = static_cast<double>(buckets[k]);
      }
    }
  };
}

}  // namespace

void AddHashBucketsRecords(Suite& suite) {
  const auto call = [](OpRecord& record, AttrMap attrs) -> OpRecord& {
    attrs.emplace("num_buckets", kNumBuckets);
    return record.Call({Words(Texts())}, attrs)
        .Call({Strings({}, {"hello"})}, attrs)
        .Call({Strings({0, 2}, {})}, attrs);
  };
  call(suite.Op("StringToHashBucketFast")
           .Reference(Known({397263, 363939, 800296, 857348, 495006, 966073, 384362})),
       {})
      .CannotFail();
  call(suite.Op("StringToHashBucket")
           .Reference(Known({283899, 535868, 780938, 223341, 819129, 872879, 463287})),
       {})
      .CannotFail();
  using List = std::vector<int64_t>;
  call(suite.Op("StringToHashBucketStrong")
           .Reference(Known({487622, 895301, 360368, 198346, 284318, 522500, 531843})),
       {{"key", List{123, -456}}})
      .Hostile({Words({"a"})}, "Key must have 2 elements", {{"num_buckets", 2}, {"key", List{1}}})
      .Hostile({Words({"a"})}, "Key must have 2 elements", {{"num_buckets", 2}, {"key", List{}}});
}

}  // namespace weir::conformance
