#include "distributed/job_outline.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distributed/task_config.h"

namespace weir {
namespace {

constexpr size_t kMaxShownPs = 8;
constexpr size_t kMaxShownAddress = 300;

std::string NamesOf(const JobOutline& outline) {
  std::vector<std::string> names;
  for (const JobOutline::Ps& ps : outline.ps) {
    if (names.size() == kMaxShownPs) break;
    names.push_back(TaskName{"ps", ps.index}.ToString());
  }
  if (names.empty()) return "none";
  return absl::StrCat(outline.ps.size(), " (", absl::StrJoin(names, ", "),
                      names.size() < outline.ps.size() ? ", ...)" : ")");
}

bool HaveSameIndex(const JobOutline::Ps& a, const JobOutline::Ps& b) { return a.index == b.index; }

}  // namespace

JobOutline OutlineOf(const ClusterSpec& cluster) {
  JobOutline outline{.chief = ChiefOf(cluster), .ps = {}};
  for (const TaskName& ps : cluster.tasks("ps")) {
    outline.ps.push_back({ps.index, cluster.address(ps).value_or("")});
  }
  return outline;
}

absl::Status CheckOutline(const TaskName& task, const JobOutline& said, const TaskName& self,
                          const ClusterSpec& cluster) {
  if (said.chief.job.empty()) return absl::OkStatus();
  const JobOutline own = OutlineOf(cluster);
  if (said.chief != own.chief) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the tasks were given different cluster specs: in that of ", task.ToString(), " the chief is ",
        said.chief.ToString(), ", in that of ", self.ToString(), " it is ", own.chief.ToString()));
  }
  if (std::equal(said.ps.begin(), said.ps.end(), own.ps.begin(), own.ps.end(), HaveSameIndex)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the tasks were given different cluster specs: that of ", task.ToString(),
                   " has these parameter servers: ", NamesOf(said), ", that of ", self.ToString(),
                   " has these: ", NamesOf(own)));
}

std::string DescribeOtherAddresses(const JobOutline& said, const TaskName& self, const ClusterSpec& cluster) {
  std::vector<std::string> others;
  for (const JobOutline::Ps& ps : said.ps) {
    const TaskName name{"ps", ps.index};
    const std::string here = cluster.address(name).value_or("");
    if (here.empty() || here == ps.address || others.size() == kMaxShownPs) continue;
    others.push_back(absl::StrCat(name.ToString(), " at ", ps.address.substr(0, kMaxShownAddress),
                                  ", while that of ", self.ToString(), " has it at ", here));
  }
  return absl::StrJoin(others, "; ");
}

}  // namespace weir
