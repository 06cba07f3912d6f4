#include "tests/faults/campaign/machines.h"

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

absl::Status Run(const std::string& command) {
  if (std::system(absl::StrCat(command, " >/dev/null 2>&1").c_str()) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot run: ", command));
}

// `ip` keeps namespaces and their files in two folders, which are of this process then too.
absl::Status EnterOwnNamespaces() {
  if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) return absl::ErrnoToStatus(errno, "cannot make namespaces");
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return absl::ErrnoToStatus(errno, "cannot leave the mounts of others");
  }
  for (const char* folder : {"/run/netns", "/etc/netns"}) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (mount("tmpfs", folder, "tmpfs", 0, nullptr) != 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot mount ", folder));
    }
  }
  return Run("ip link set lo up");
}

}  // namespace

absl::Status Machines::AreAllowed() {
  static const absl::Status entered = EnterOwnNamespaces();
  WEIR_RETURN_IF_ERROR(entered);
  Machines probe(absl::StrCat("p", getpid()));
  WEIR_RETURN_IF_ERROR(probe.Make(1));
  return Run(absl::StrCat("ip netns exec ", probe.NamespaceOf(0), " true"));
}

std::string Machines::AddressOf(int machine) { return absl::StrCat("10.77.0.", 2 + machine); }
std::string Machines::NamespaceOf(int machine) const { return absl::StrCat("weir-", name_, "-", machine); }
// The kernel takes at most 15 characters.
std::string Machines::LinkOf(int machine) const { return absl::StrCat("w", name_, "-", machine); }

absl::Status Machines::Make(int count) {
  const std::string bridge = absl::StrCat("w", name_);
  WEIR_RETURN_IF_ERROR(
      Run(absl::StrCat("ip link add ", bridge, " type bridge && ip link set ", bridge, " up")));
  for (; count_ < count; ++count_) {
    const std::string space = NamespaceOf(count_), link = LinkOf(count_);
    std::filesystem::create_directories(absl::StrCat("/etc/netns/", space));
    std::ofstream(absl::StrCat("/etc/netns/", space, "/resolv.conf")) << "nameserver 127.0.0.1\n";
    WriteHosts(count_);
    WEIR_RETURN_IF_ERROR(Run(absl::StrCat(
        "ip netns add ", space, " && ip link add ", link, " type veth peer name eth0 netns ", space,
        " && ip link set ", link, " master ", bridge, " up && ip -n ", space, " addr add ", AddressOf(count_),
        "/24 dev eth0 && ip -n ", space, " link set eth0 up && ip -n ", space, " link set lo up")));
  }
  return absl::OkStatus();
}

Machines::~Machines() { RemoveAll(count_ + 1); }  // and the one that could not be made

void Machines::RemoveAll(int count) const {
  std::error_code ignored;
  for (int machine = 0; machine < count; ++machine) {
    Run(absl::StrCat("ip link del ", LinkOf(machine))).IgnoreError();
    Run(absl::StrCat("ip netns del ", NamespaceOf(machine))).IgnoreError();
    std::filesystem::remove_all(absl::StrCat("/etc/netns/", NamespaceOf(machine)), ignored);
  }
  Run(absl::StrCat("ip link del w", name_)).IgnoreError();
}

std::vector<std::string> Machines::Prefix(int machine) const {
  for (const char* program : {"/sbin/ip", "/usr/sbin/ip", "/bin/ip", "/usr/bin/ip"}) {
    if (std::filesystem::exists(program)) return {program, "netns", "exec", NamespaceOf(machine)};
  }
  return {"ip", "netns", "exec", NamespaceOf(machine)};
}

absl::Status Machines::SetLink(int machine, bool is_up) {
  return Run(absl::StrCat("ip link set ", LinkOf(machine), is_up ? " up" : " down"));
}

absl::Status Machines::SetRate(int machine, int kilobits_per_second) {
  const std::string link = LinkOf(machine);
  if (kilobits_per_second == 0) return Run(absl::StrCat("tc qdisc del dev ", link, " root"));
  return Run(absl::StrCat("tc qdisc add dev ", link, " root tbf rate ", kilobits_per_second,
                          "kbit burst 16kb latency 400ms"));
}

// In place: the file is mounted.
void Machines::WriteHosts(int machine) const {
  std::ofstream file(absl::StrCat("/etc/netns/", NamespaceOf(machine), "/hosts"));
  file << "127.0.0.1 localhost\n";
  const auto hosts = hosts_.find(machine);
  if (hosts == hosts_.end()) return;
  for (const auto& [host, address] : hosts->second) {
    if (!address.empty()) file << address << " " << host << "\n";
  }
}

void Machines::SetName(const std::string& host, const std::string& address, int except) {
  for (int machine = 0; machine < count_; ++machine) {
    if (machine == except) continue;
    hosts_[machine][host] = address;
    WriteHosts(machine);
  }
}

}  // namespace weir
