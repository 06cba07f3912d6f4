#include "kernels/cpu/data/graph_fingerprint.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "farmhash.h"
#include "graph/function_bodies.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// Bodies in bodies deeper than that count as the bytes that they are.
constexpr int kMaxDepth = 16;

absl::StatusOr<uint64_t> Fingerprint(const std::vector<PlainNode>& nodes, int depth);

uint64_t HashOf(absl::string_view text) { return util::Fingerprint64(text.data(), text.size()); }

// The op and what it is told, without names that say nothing of what it computes.
absl::StatusOr<uint64_t> OwnHash(const PlainNode& node, int depth) {
  PlainNode told = {"", node.op, {}, {}};
  for (const auto& [name, value] : node.attrs) {
    const bool is_body = absl::StartsWith(name, kBodyPrefix);
    if (name == "metadata" || (name[0] == '_' && !is_body) || value.kind() == AttrKind::kFunction) continue;
    const std::string* const body = is_body && depth < kMaxDepth ? value.get_if<std::string>() : nullptr;
    const absl::StatusOr<std::vector<PlainNode>> inner =
        body == nullptr ? std::vector<PlainNode>() : PlainGraphFromBytes(*body);
    if (body == nullptr || !inner.ok()) {
      told.attrs[name] = value;
      continue;
    }
    WEIR_ASSIGN_OR_RETURN(const uint64_t hash, Fingerprint(*inner, depth + 1));
    told.attrs[name] = absl::StrCat(hash);
  }
  WEIR_ASSIGN_OR_RETURN(const std::string bytes, PlainGraphBytes({told}));
  return HashOf(bytes);
}

class GraphHashes {
 public:
  explicit GraphHashes(const std::vector<PlainNode>& nodes) : nodes_(nodes), hashes_(nodes.size()) {
    for (size_t i = 0; i < nodes.size(); ++i) by_name_.emplace(nodes[i].name, i);
  }

  absl::Status Compute(int depth) {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      WEIR_ASSIGN_OR_RETURN(hashes_[i], OwnHash(nodes_[i], depth));
    }
    std::vector<bool> is_reached(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) Visit(i, &is_reached);
    return absl::OkStatus();
  }
  // Of all nodes, in whatever order they are.
  uint64_t Sum() {
    std::sort(hashes_.begin(), hashes_.end());
    std::string all;
    for (const uint64_t hash : hashes_) absl::StrAppend(&all, hash, " ");
    return HashOf(all);
  }

 private:
  // Adds to each node's hash those of its inputs, which are done before it. In a loop, one of its nodes is
  // taken as it is.
  void Visit(size_t first, std::vector<bool>* is_reached) {
    std::vector<std::pair<size_t, bool>> open = {{first, false}};
    while (!open.empty()) {
      const auto [at, inputs_are_done] = open.back();
      open.pop_back();
      if (inputs_are_done) {
        hashes_[at] = WithInputs(at);
        continue;
      }
      if ((*is_reached)[at]) continue;
      (*is_reached)[at] = true;
      open.emplace_back(at, true);
      for (const std::string& input : nodes_[at].inputs) {
        const auto producer = by_name_.find(ProducerOf(input));
        if (producer != by_name_.end()) open.emplace_back(producer->second, false);
      }
    }
  }

  uint64_t WithInputs(size_t at) const {
    std::string all = absl::StrCat(hashes_[at]);
    std::vector<uint64_t> controls;
    for (const std::string& input : nodes_[at].inputs) {
      const auto producer = by_name_.find(ProducerOf(input));
      const uint64_t hash = producer == by_name_.end() ? 0 : hashes_[producer->second];
      if (absl::StartsWith(input, "^")) {
        controls.push_back(hash);
      } else {
        absl::StrAppend(
            &all, " ", hash,
            input.find(':') == std::string::npos ? ":0" : absl::string_view(input).substr(input.find(':')));
      }
    }
    std::sort(controls.begin(), controls.end());
    for (const uint64_t hash : controls) absl::StrAppend(&all, " ^", hash);
    return HashOf(all);
  }

  static absl::string_view ProducerOf(absl::string_view input) {
    absl::ConsumePrefix(&input, "^");
    return input.substr(0, input.find(':'));
  }

  const std::vector<PlainNode>& nodes_;
  std::vector<uint64_t> hashes_;
  absl::flat_hash_map<absl::string_view, size_t> by_name_;
};

absl::StatusOr<uint64_t> Fingerprint(const std::vector<PlainNode>& nodes, int depth) {
  GraphHashes hashes(nodes);
  WEIR_RETURN_IF_ERROR(hashes.Compute(depth));
  return hashes.Sum();
}

}  // namespace

absl::StatusOr<uint64_t> GraphFingerprint(const std::vector<PlainNode>& nodes) {
  return Fingerprint(nodes, 0);
}

}  // namespace weir
