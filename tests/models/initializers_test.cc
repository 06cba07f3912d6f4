// First values of variables.
#include "ops/initializers.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "tests/models/recorded_model.h"

namespace weir {
namespace {

using initializers::VarianceScalingOptions;

std::map<std::string, Initializer> Cases() {
  return {{"random_normal", initializers::RandomNormal(0.5, 2, 7)},
          {"truncated_normal", initializers::TruncatedNormal(0.25, 7)},
          {"random_uniform", initializers::Uniform(-0.5, 2, 7)},
          {"glorot_uniform", initializers::GlorotUniform(7)},
          {"glorot_normal", initializers::GlorotNormal(7)},
          {"he_uniform", initializers::HeUniform(7)},
          {"he_normal", initializers::HeNormal(7)},
          {"lecun_uniform", initializers::LecunUniform(7)},
          {"lecun_normal", initializers::LecunNormal(7)},
          {"variance_scaling", initializers::VarianceScaling(
                                   {.scale = 0.5,
                                    .fan = VarianceScalingOptions::Fan::kOut,
                                    .distribution = VarianceScalingOptions::Distribution::kUntruncatedNormal,
                                    .seed = 7})}};
}

class InitializerTest : public RecordedModelTest {};

TEST_F(InitializerTest, AreTensorFlows) {
  g_.set_random_seed(3);
  std::vector<std::pair<std::string, Output>> found;
  for (const auto& [name, initializer] : Cases()) {
    for (const Shape& shape : {Shape({3, 4}), Shape({2, 2, 3, 2}), Shape({5})}) {
      found.emplace_back(absl::StrCat("initializers/", name, "/", shape.rank()),
                         initializer(g_, DType::kFloat32, shape));
    }
  }
  for (const auto& [name, output] : found) ExpectRecorded(name, output);
}

TEST_F(InitializerTest, Identity) {
  ExpectRecorded("initializers/identity/2", initializers::Identity(0.5)(g_, DType::kFloat32, Shape({3, 4})));
}

TEST_F(InitializerTest, Orthogonal) {
  g_.set_random_seed(3);
  const Initializer orthogonal = initializers::Orthogonal(0.5, 7);
  const Output wide = orthogonal(g_, DType::kFloat32, Shape({3, 4}));
  const Output window = orthogonal(g_, DType::kFloat32, Shape({2, 2, 3, 2}));
  ExpectRecorded("initializers/orthogonal/2", wide);
  ExpectRecorded("initializers/orthogonal/4", window);
}

TEST_F(InitializerTest, OrthogonalOfAVectorIsRefused) {
  initializers::Orthogonal()(g_, DType::kFloat32, Shape({3}));
  ExpectError("Orthogonal: the shape must have rank 2 or more, is [3]");
}

TEST_F(InitializerTest, IdentityOfAVectorIsRefused) {
  initializers::Identity()(g_, DType::kFloat32, Shape({3}));
  ExpectError("Identity: the shape must have rank 2, is [3]");
}

TEST_F(InitializerTest, AScaleOfZeroIsRefused) {
  initializers::VarianceScaling({.scale = 0})(g_, DType::kFloat32, Shape({3}));
  ExpectError("VarianceScaling: scale must be positive, is 0");
}

}  // namespace
}  // namespace weir
