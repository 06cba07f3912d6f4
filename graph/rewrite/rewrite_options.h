// Which rewrites a step's graph goes through.
#pragma once

namespace weir {

struct RewriteOptions {
  // False: the graph runs as it was built. Only what a step cannot run without is done (pruning, placement).
  bool is_enabled = true;
  // Rules whose results may differ from the unchanged graph's in the last digits, as when two factors become
  // one. The others give the same bits, NaN, infinities and signed zeros included.
  bool may_change_rounding = true;
  // Elementwise ops that follow one another become one node (fusion.h).
  bool fuses_elementwise = true;
};

}  // namespace weir
