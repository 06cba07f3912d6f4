// Look-ups in tables of one and of several parts, with gradients.
#include "ops/embedding.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "ops/variable.h"
#include "tests/models/recorded_model.h"

namespace weir {
namespace {

struct LookupCase {
  PartitionStrategy strategy = PartitionStrategy::kMod;
  int num_parts = 1;
};

std::map<std::string, LookupCase> Cases() {
  return {{"mod/1", {PartitionStrategy::kMod, 1}},
          {"mod/3", {PartitionStrategy::kMod, 3}},
          {"div/1", {PartitionStrategy::kDiv, 1}},
          {"div/3", {PartitionStrategy::kDiv, 3}}};
}

class EmbeddingTest : public RecordedModelTest, public testing::WithParamInterface<std::string> {
 protected:
  // The table of 8 rows in parts; 8 rows in 3 parts are 3, 3 and 2 with either strategy.
  std::vector<ModelVariable> Parts(int num_parts) {
    std::vector<ModelVariable> parts;
    for (int p = 0; p < num_parts; ++p) {
      const int64_t rows = 8 / num_parts + (p < 8 % num_parts ? 1 : 0);
      parts.push_back(MakeVariable(g_, absl::StrCat("part_", p), Pattern({rows, 3}, 1 + p)));
    }
    return parts;
  }

  // y and the gradients of the sources are as recorded; those of parts come as rows.
  void ExpectRecordedWithGradients(const std::string& name, Output y, const std::vector<ModelVariable>& parts,
                                   Output weights = {}) {
    ASSERT_TRUE(g_.ok()) << g_.status();
    const Tensor wanted = Recorded(name);
    std::vector<Output> sources;
    for (const ModelVariable& part : parts) sources.push_back(part.handle);
    if (weights) sources.push_back(weights);
    const Output loss = ReduceSum(g_, Mul(g_, y, Const(g_, Pattern(wanted.shape(), 9))));
    const auto gradients = AddGradientFlows(g_, {loss}, sources);
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_TRUE(std::holds_alternative<IndexedSlices>((*gradients)[i])) << name;
    }
    std::vector<Output> dense;
    for (const Gradient& gradient : *gradients) dense.push_back(Densify(g_, gradient));
    ExpectNear(wanted, Run(y), name);
    for (size_t i = 0; i < dense.size(); ++i) {
      ExpectRecorded(absl::StrCat(name, "/gradient/", i), dense[i]);
    }
  }
};

TEST_P(EmbeddingTest, LookUp) {
  const LookupCase lookup = Cases().at(GetParam());
  const std::vector<ModelVariable> parts = Parts(lookup.num_parts);
  const Output ids = Const(g_, Recorded("lookup/ids"));
  const Output y = EmbeddingLookup(g_, parts, ids, {.strategy = lookup.strategy});
  EXPECT_EQ(y.shape().ToString(), "[2,3,3]");
  Initialize();
  ExpectRecordedWithGradients("lookup/" + GetParam(), y, parts);
}

TEST_P(EmbeddingTest, LookUpInt64) {
  const LookupCase lookup = Cases().at(GetParam());
  const Output ids = Cast(g_, Const(g_, Recorded("lookup/ids")), DType::kInt64);
  const Output y = EmbeddingLookup(g_, Parts(lookup.num_parts), ids, {.strategy = lookup.strategy});
  Initialize();
  ExpectRecorded("lookup/" + GetParam(), y);
}

TEST_P(EmbeddingTest, LookUpSparse) {
  const LookupCase lookup = Cases().at(GetParam());
  const std::vector<ModelVariable> parts = Parts(lookup.num_parts);
  const SparseIds ids = {Const(g_, Recorded("lookup_sparse/indices")),
                         Const(g_, Recorded("lookup_sparse/values"))};
  const std::map<std::string, Combiner> combiners = {
      {"mean", Combiner::kMean}, {"sum", Combiner::kSum}, {"sqrtn", Combiner::kSqrtN}};
  const Output weights = Const(g_, Pattern({6}, 2));
  Initialize();
  for (const auto& [name, combiner] : combiners) {
    const std::string prefix = absl::StrCat("lookup_sparse/", GetParam(), "/", name);
    EmbeddingLookupSparseOptions options = {.combiner = combiner, .strategy = lookup.strategy};
    ExpectRecordedWithGradients(prefix + "/equal", EmbeddingLookupSparse(g_, parts, ids, options), parts);
    options.weights = weights;
    ExpectRecordedWithGradients(prefix + "/weighted", EmbeddingLookupSparse(g_, parts, ids, options), parts,
                                weights);
  }
}

TEST_P(EmbeddingTest, IdsOutsideOfTheTableFailTheStep) {
  const LookupCase lookup = Cases().at(GetParam());
  const Output ids = Placeholder(g_, DType::kInt32, {-1});
  const Output y = EmbeddingLookup(g_, Parts(lookup.num_parts), ids, {.strategy = lookup.strategy});
  Initialize();
  EXPECT_TRUE(RunStatus({{ids, Tensor::Vector<int32_t>({7})}}, {y}).ok());
  for (int32_t id : {-1, 9, 1000}) {
    EXPECT_FALSE(RunStatus({{ids, Tensor::Vector<int32_t>({id})}}, {y}).ok()) << id;
  }
}

std::vector<std::string> NamesOfCases() {
  std::vector<std::string> names;
  for (const auto& [name, lookup] : Cases()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, EmbeddingTest, testing::ValuesIn(NamesOfCases()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '/' ? '_' : c;
  return name;
});

TEST_F(EmbeddingTest, PartsWithRowsOfOtherTypesAreRefused) {
  const ModelVariable a = MakeVariable(g_, "a", Pattern({3, 2}, 1));
  const ModelVariable b = MakeVariable(g_, "b", Pattern({3, 4}, 1));
  EmbeddingLookup(g_, std::vector{a, b}, ConstIntegers(g_, {0}));
  ExpectError("all parts must have rows of one type: 'a' is float[3,2], 'b' is float[3,4]");
}

TEST_F(EmbeddingTest, UnevenPartsAreRefusedWhereTheirOrderCounts) {
  const ModelVariable a = MakeVariable(g_, "a", Pattern({1, 2}, 1));
  const ModelVariable b = MakeVariable(g_, "b", Pattern({4, 2}, 1));
  EmbeddingLookup(g_, std::vector{a, b}, ConstIntegers(g_, {0}), {.strategy = PartitionStrategy::kDiv});
  ExpectError("EmbeddingLookup: of 5 rows, part 0 of 2 must have 3 (kDiv): 'a' has 1");
}

TEST_F(EmbeddingTest, NoTableIsRefused) {
  EmbeddingLookupSparse(g_, {}, {});
  ExpectError("EmbeddingLookupSparse: there is no table");
}

}  // namespace
}  // namespace weir
