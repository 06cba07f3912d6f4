// etcd (version 3) as the store of an election, over its gRPC interface: one key, "/weir/authority/JOB", that
// is read and replaced in transactions. No lease and no watch of etcd's: who is silent, candidates see
// themselves (election.h), with leases shorter than etcd's shortest.
//
// With TLS, where the job has it: etcd's certificate is checked with the job's CA against the host of its
// address, and etcd is shown this task's certificate. The job's token is for its own tasks; etcd is not told.
// Where etcd has users, it is asked as one, whose name and password are in a file. (Without TLS the password
// crosses the network in the clear.)
//
// Of several addresses the one that has answered last is asked, and the next one when it fails, or owes an
// answer to an earlier question: who asks in time again and again, as an election does, is not held up by
// servers that accept calls and say nothing. A replacement may so be asked for at two servers; as it is of
// what was there before, at most one succeeds. Threads: gRPC's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "distributed/election/authority_store.h"
#include "distributed/security.h"

namespace weir {

// "etcd://host:port,host:port/job".
struct EtcdAddress {
  std::vector<std::string> servers;  // "host:port", at least one
  std::string job;                   // 1 to 200 letters, digits, '.', '_' and '-'

  // InvalidArgument, saying what is wrong and what is wanted.
  static absl::StatusOr<EtcdAddress> Parse(absl::string_view text);
};

struct EtcdUser {
  std::string name;  // empty: none
  std::string password;

  // The one line "name:password" of a file. Empty: no user. InvalidArgument, which does not quote the line.
  static absl::StatusOr<EtcdUser> ReadFile(const std::string& path);
};

// Errors of EtcdAddress::Parse and EtcdUser::ReadFile, and InvalidArgument for TLS files that cannot be read.
// That nobody answers is no error here.
absl::StatusOr<std::unique_ptr<AuthorityStore>> MakeEtcdStore(absl::string_view address,
                                                              const SecurityOptions& security,
                                                              const std::string& user_file = "");

}  // namespace weir
