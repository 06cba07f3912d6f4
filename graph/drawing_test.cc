#include "graph/drawing.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/layered_layout.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(LayeredLayoutTest, EdgesPointDownwards) {
  LayeredLayout layout(5);
  // 0 -> 1 -> 3, 0 -> 3, 2 -> 3; 4 alone.
  layout.AddEdge(0, 1);
  layout.AddEdge(1, 3);
  layout.AddEdge(0, 3);
  layout.AddEdge(2, 3);
  const LayeredLayout::Result result = layout.Place({10, 10, 10, 10, 10}, 5);
  EXPECT_THAT(result.layer, ElementsAre(0, 1, 0, 2, 0));
  EXPECT_EQ(result.num_layers, 3);
  EXPECT_EQ(result.width, 40);  // three boxes and two gaps
}

TEST(LayeredLayoutTest, BoxesOfALayerDoNotTouch) {
  LayeredLayout layout(4);
  for (int i = 1; i < 4; ++i) layout.AddEdge(0, i);
  const std::vector<double> widths = {10, 20, 30, 40};
  const LayeredLayout::Result result = layout.Place(widths, 5);
  for (int a = 1; a < 4; ++a) {
    for (int b = 1; b < 4; ++b) {
      if (a == b) continue;
      EXPECT_GE(std::abs(result.center[a] - result.center[b]), (widths[a] + widths[b]) / 2 + 5);
    }
  }
}

TEST(LayeredLayoutTest, NeighboursStandBelowEachOther) {
  // Two chains that a numbering of nodes by layer would cross.
  LayeredLayout layout(4);
  layout.AddEdge(0, 3);
  layout.AddEdge(1, 2);
  const LayeredLayout::Result result = layout.Place({10, 10, 10, 10}, 5);
  EXPECT_EQ(result.center[0] < result.center[1], result.center[3] < result.center[2]);
}

TEST(LayeredLayoutTest, CyclesAndDepthDoNotMatter) {
  constexpr int kNodes = 200000;
  LayeredLayout layout(kNodes);
  for (int i = 0; i + 1 < kNodes; ++i) layout.AddEdge(i, i + 1);
  layout.AddEdge(kNodes - 1, 0);
  layout.AddEdge(7, 7);
  EXPECT_EQ(layout.Place(std::vector<double>(kNodes, 1), 1).num_layers, kNodes);
}

TEST(DrawingTest, DotHasEveryNodeAndEdge) {
  Drawing drawing("a \"model\"");
  drawing.AddNode("x", "Placeholder", "/cpu");
  drawing.AddNode("y\\", "Relu", "/gpu");
  drawing.AddEdge("x", "y\\", "float[2]");
  drawing.AddEdge("x", "z", "", /*is_control=*/true);
  EXPECT_EQ(drawing.num_nodes(), 3);
  EXPECT_EQ(drawing.Dot(),
            "digraph \"a \\\"model\\\"\" {\n  node [shape=box, style=filled];\n"
            "  n0 [label=\"x\\nPlaceholder\", fillcolor=\"#fce5cd\", tooltip=\"/cpu\"];\n"
            "  n1 [label=\"y\\\\\\nRelu\", fillcolor=\"#d9ead3\", tooltip=\"/gpu\"];\n"
            "  n2 [label=\"z\", fillcolor=\"#cfe2f3\"];\n"
            "  n0 -> n1 [label=\"float[2]\"];\n"
            "  n0 -> n2 [label=\"\", style=dashed];\n}\n");
}

TEST(DrawingTest, DotEscapesWhatItIsGiven) {
  Drawing drawing("\x1b[2J");
  drawing.AddNode("a\nb\x07", "\x1b", "\t");
  EXPECT_EQ(drawing.Dot(),
            "digraph \"\\\\x1b[2J\" {\n  node [shape=box, style=filled];\n"
            "  n0 [label=\"a\\\\nb\\\\x07\\n\\\\x1b\", fillcolor=\"#cfe2f3\", tooltip=\"\\\\t\"];\n}\n");
}

TEST(DrawingTest, SvgEscapesWhatItIsGiven) {
  Drawing drawing("<script>");
  drawing.AddNode("a<b>&\"\x01\xff", "l</text>", "g\"");
  const std::string svg = drawing.Svg();
  EXPECT_THAT(svg, HasSubstr("a&lt;b&gt;&amp;&quot;\\x01\\xff"));
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_THAT(svg, Not(HasSubstr("l</text>")));
}

TEST(DrawingTest, AnEmptyDrawingIsDrawn) {
  EXPECT_THAT(Drawing("").Svg(), HasSubstr("</svg>"));
  EXPECT_THAT(Drawing("").Simplified(1).Dot(), HasSubstr("digraph"));
}

TEST(DrawingTest, ScopesBecomeBoxes) {
  Drawing drawing("");
  drawing.AddNode("layer/kernel", "VariableV2", "/ps");
  drawing.AddNode("layer/kernel/read", "Identity", "/ps");
  drawing.AddNode("layer/MatMul", "MatMul", "/worker");
  drawing.AddNode("x", "Placeholder", "/worker");
  drawing.AddEdge("layer/kernel", "layer/kernel/read");
  drawing.AddEdge("layer/kernel/read", "layer/MatMul", "float[3]");
  drawing.AddEdge("x", "layer/MatMul");
  drawing.AddEdge("x", "layer/MatMul");
  const std::string dot = drawing.Collapsed(1).Dot();
  EXPECT_THAT(dot, HasSubstr("label=\"layer\\n2 nodes\""));
  EXPECT_THAT(dot, HasSubstr("label=\"layer @ /worker\\nMatMul\""));
  EXPECT_THAT(dot, HasSubstr("n0 -> n1 [label=\"float[3]\"]"));
  EXPECT_THAT(dot, Not(HasSubstr("n0 -> n0")));
}

TEST(DrawingTest, SimplifiedShowsAsMuchAsFits) {
  Drawing drawing("");
  for (int a = 0; a < 5; ++a) {
    for (int b = 0; b < 5; ++b) {
      for (int c = 0; c < 5; ++c) drawing.AddNode(absl::StrCat(a, "/", b, "/", c), "op");
    }
  }
  EXPECT_EQ(drawing.Simplified(125).num_nodes(), 125);
  EXPECT_EQ(drawing.Simplified(124).num_nodes(), 25);
  EXPECT_EQ(drawing.Simplified(24).num_nodes(), 5);
  EXPECT_EQ(drawing.Simplified(1).num_nodes(), 5);
  drawing.AddNode(std::string(1000000, '/'), "");
  EXPECT_LE(drawing.Simplified(30).num_nodes(), 30);
}

}  // namespace
}  // namespace weir
