// Variables of one step: each step has its own, and a name is one variable's until it is destroyed.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "session/test_op_session.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TemporaryVariablesTest : public TestOpSession {
 protected:
  Output Temporary(const std::string& name) {
    return g_.AddOp("WeirTemporaryVariable", {},
                    {{"dtype", DType::kFloat32}, {"shape", PartialShape({2})}, {"var_name", name}});
  }
  Output Destroyed(Output handle, const std::string& name, std::vector<Node*> after = {}) {
    const auto scope = g_.ControlScope(std::move(after));
    return g_.AddOp("WeirDestroyTemporaryVariable", {handle},
                    {{"dtype", DType::kFloat32}, {"var_name", name}});
  }
  Node* Add(Output handle, float value) {
    return g_.AddNode("AssignAddVariableOp", {handle, Const(Tensor::Vector<float>({value, value}))});
  }
};

TEST_F(TemporaryVariablesTest, EachStepBeginsWithZeros) {
  const Output handle = Temporary("sum");
  const Output sum = Destroyed(handle, "sum", {Add(handle, 1), Add(handle, 2)});
  for (int step = 0; step < 3; ++step) {
    const auto values = session().Run({}, {sum});
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_THAT(Floats((*values)[0]), ElementsAre(3, 3));
  }
}

TEST_F(TemporaryVariablesTest, TwoNodesOfAStepDoNotMakeOneName) {
  const Output a = Temporary("one"), b = Temporary("one");
  EXPECT_THAT(ErrorOf({a, b}), HasSubstr("TemporaryVariable one already exists in this step"));
}

TEST_F(TemporaryVariablesTest, ANameThatWasLeftBehindIsFreeInTheNextStep) {
  const Output left = Temporary("name"), other = Temporary("name");
  ASSERT_TRUE(session().Run({}, {left}).ok());
  EXPECT_TRUE(session().Run({}, {other}).ok());
}

TEST_F(TemporaryVariablesTest, OnlyWhatIsThereIsDestroyed) {
  const Output handle = Temporary("one");
  EXPECT_THAT(ErrorOf(Destroyed(handle, "two")), HasSubstr("there is no TemporaryVariable two in this step"));
  const Output once = Destroyed(handle, "one");
  const Output twice = Destroyed(handle, "one", {once.node});
  EXPECT_THAT(ErrorOf(twice), HasSubstr("there is no TemporaryVariable one in this step"));
}

}  // namespace
}  // namespace weir
