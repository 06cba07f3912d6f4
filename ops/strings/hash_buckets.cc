// Strings as numbers of buckets.
#include <string>
#include <utility>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "ops/families.h"
#include "ops/shape_functions.h"
#include "ops/strings/string_op.h"

namespace weir {
std::vector<OpDef> HashBucketsOps() {
  return {
      StringOp("StringToHashBucketFast",
               "Gives each string's FarmHash fingerprint modulo num_buckets: the same on every machine.",
               UnchangedShape),
      StringOp(
          "StringToHashBucketStrong",
          "Gives each string's SipHash modulo num_buckets: who does not know `key` cannot fill one bucket.",
          UnchangedShape),
      StringOp("StringToHashBucket", "Gives each string's hash (MurmurHash64A) modulo num_buckets.",
               UnchangedShape),
  };
}

}  // namespace weir
