// A real etcd on loopback (Debian: etcd-server). Without it the tests that need it are skipped, and say so.
#include "distributed/election/etcd/etcd_store.h"

#include <arpa/inet.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "distributed/election/etcd/etcd.pb.h"
#include "distributed/keys/key_files.h"
#include "distributed/launch/child_process.h"
#include "distributed/launch/free_ports.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "distributed/transport/transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Stored = AuthorityStore::Stored;

constexpr absl::Duration kPatience = absl::Seconds(60);
const TaskName kPs0{"ps", 0}, kPs1{"ps", 1}, kWorker{"worker", 0};

bool Eventually(const std::function<bool()>& holds) {
  const absl::Time end = absl::Now() + kPatience;
  while (!holds()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(20));
  }
  return true;
}

class Etcd {
 public:
  // `keys`: a folder of MakeKeyFiles; empty: without TLS.
  explicit Etcd(std::string keys = "") : keys_(std::move(keys)) {
    static int count = 0;
    folder_ = absl::StrCat(testing::TempDir(), "/etcd_", ::getpid(), "_", count++);
    address_ = absl::StrCat("127.0.0.1:", ports_[0]);
    const std::string scheme = keys_.empty() ? "http" : "https";
    const std::string clients = absl::StrCat(scheme, "://", address_),
                      peers = absl::StrCat("http://127.0.0.1:", ports_[1]);
    command_ = {"etcd",
                "--data-dir=" + folder_,
                "--listen-client-urls=" + clients,
                "--advertise-client-urls=" + clients,
                "--listen-peer-urls=" + peers,
                "--initial-advertise-peer-urls=" + peers,
                "--initial-cluster=default=" + peers,
                "--log-level=error"};
    if (keys_.empty()) return;
    command_.insert(command_.end(), {"--cert-file=" + keys_ + "/127.0.0.1/cert.pem",
                                     "--key-file=" + keys_ + "/127.0.0.1/key.pem", "--client-cert-auth",
                                     "--trusted-ca-file=" + keys_ + "/ca.pem"});
  }

  static bool IsInstalled() { return ::access("/usr/bin/etcd", X_OK) == 0; }
  absl::Status Start() {
    // Its output would fill a pipe that nobody reads.
    const std::string line = absl::StrCat("exec \"$@\" >", folder_, ".log 2>&1");
    std::vector<std::string> command = {"/bin/sh", "-c", line, "etcd"};
    command.insert(command.end(), command_.begin(), command_.end());
    absl::StatusOr<ChildProcess> process = ChildProcess::Start({.command = std::move(command)});
    if (!process.ok()) return process.status();
    process_.emplace(*std::move(process));
    const std::unique_ptr<AuthorityStore> store = MakeEtcdStore(url("start"), security()).value();
    const bool answers = Eventually([&] { return Read(*store).ok(); });
    return answers ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("etcd does not answer: ", Log()));
  }
  void Signal(int signal) { process_->Signal(signal); }
  // It comes back with nothing.
  absl::Status StartAnew() {
    process_.reset();
    std::filesystem::remove_all(folder_);
    return Start();
  }

  std::string url(const std::string& job) const { return absl::StrCat("etcd://", address_, "/", job); }
  const std::string& address() const { return address_; }
  SecurityOptions security() const {
    if (keys_.empty()) return {};
    return {.tls_cert_file = keys_ + "/127.0.0.1/cert.pem",
            .tls_key_file = keys_ + "/127.0.0.1/key.pem",
            .tls_ca_file = keys_ + "/ca.pem"};
  }

  static absl::StatusOr<Stored> Await(const std::function<void(AuthorityStore::Then)>& ask) {
    absl::StatusOr<Stored> answer;
    absl::Notification answered;
    ask([&](absl::StatusOr<Stored> stored) {
      answer = std::move(stored);
      answered.Notify();
    });
    answered.WaitForNotification();
    return answer;
  }
  static absl::StatusOr<Stored> Read(AuthorityStore& store, absl::Duration timeout = absl::Seconds(20)) {
    return Await([&](AuthorityStore::Then then) { store.Read(timeout, std::move(then)); });
  }
  static absl::StatusOr<Stored> Replace(AuthorityStore& store, const Stored& before,
                                        const AuthorityRecord& record) {
    return Await([&](AuthorityStore::Then then) {
      store.Replace(before, record, absl::Seconds(20), std::move(then));
    });
  }

 private:
  std::string Log() const {
    std::ifstream file(folder_ + ".log");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  const std::string keys_;
  const ReservedPorts ports_ = ReservedPorts::Take(2).value();  // it is started again
  std::string folder_, address_;
  std::vector<std::string> command_;
  std::optional<ChildProcess> process_;
};

TEST(EtcdAddressTest, IsParsedOrRefused) {
  const EtcdAddress address = EtcdAddress::Parse("etcd://a:1,[::1]:2/my-job_1.x").value();
  EXPECT_THAT(address.servers, ::testing::ElementsAre("a:1", "[::1]:2"));
  EXPECT_EQ(address.job, "my-job_1.x");
  for (const char* text :
       {"", "etcd://", "etcd://a:1", "etcd://a:1/", "etcd:///job", "http://a:1/job", "etcd://a/job",
        "etcd://a:0/job", "etcd://a:1,/job", "etcd://a:1/my job", "etcd://a:1/a/b", "etcd://a:99999/job"}) {
    const absl::Status status = EtcdAddress::Parse(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("it is to be 'etcd://host:port,host:port/job'"));
  }
  EXPECT_FALSE(MakeEtcdStore("etcd://a:1/" + std::string(201, 'j'), {}).ok());
}

TEST(AuthorityRecordTest, IsReadOrRefused) {
  const AuthorityRecord record = {.term = 5, .task = {"ps", 3}, .candidate = ~uint64_t{0}, .beat = 7};
  EXPECT_EQ(AuthorityRecord::Decode(record.Encode()).value(), record);
  for (const std::string& text :
       {std::string(), std::string("weir 1 5 ps 3 4 7"), std::string("weir 2 5 ps 3 4 7 0"),
        std::string("weir 1 0 ps 3 4 7 0"), std::string("weir 1 5  3 4 7 0"),
        std::string("weir 1 5 ps -1 4 7 0"), std::string("weir 1 05 ps 1 4 7 0"),
        std::string("weir 1 5 ps 1 4 7 2"), std::string("weir 1 18446744073709551615 ps 3 4 7 0"),
        std::string(100'000, 'x')}) {
    EXPECT_TRUE(absl::IsDataLoss(AuthorityRecord::Decode(text).status())) << text.substr(0, 40);
  }
}

TEST(EtcdStoreTest, NobodyAnswersIsAnErrorInTime) {
  const ReservedPorts ports = ReservedPorts::Take(1).value();
  const std::unique_ptr<AuthorityStore> store =
      MakeEtcdStore(absl::StrCat("etcd://127.0.0.1:", ports[0], "/job"), {}).value();
  const absl::Status status = Etcd::Read(*store, absl::Seconds(5)).status();
  EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("etcd at 127.0.0.1:"));
}

// Somebody listens and says nothing: the calls under way end when the server does.
TEST(EtcdStoreTest, AServerEndsWhileItsStoreIsSilent) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener, any, size), 0);
  ASSERT_EQ(::listen(listener, 100), 0);
  ASSERT_EQ(::getsockname(listener, any, &size), 0);
  ServerOptions options;
  options.num_threads = 1;
  options.authority_store = absl::StrCat("etcd://127.0.0.1:", ntohs(address.sin_port), "/job");
  ClusterSpec cluster;
  const ReservedPorts ports = ReservedPorts::Take(2).value();
  ASSERT_TRUE(cluster.AddTask(kPs0, absl::StrCat("127.0.0.1:", ports[0])).ok());
  ASSERT_TRUE(cluster.AddTask(kWorker, absl::StrCat("127.0.0.1:", ports[1])).ok());
  for (int i = 0; i < 20; ++i) {
    auto server = Server::Start(TaskConfig::Create(cluster, kPs0).value(), options);
    ASSERT_TRUE(server.ok()) << server.status();
    const int question = ::accept(listener, nullptr, nullptr);
    server->reset();
    ::close(question);
  }
  ::close(listener);
}

// gRPC ends the process that gives it such a token.
TEST(EtcdStoreTest, ATokenThatCannotBeSentIsAnError) {
  const std::string user = absl::StrCat(testing::TempDir(), "/user_", ::getpid());
  std::ofstream(user) << "root:secret\n";
  const std::unique_ptr<Transport> transport = MakeGrpcTransport({}).value();
  for (const std::string& token : {std::string("two\nlines"), std::string("two words"), std::string()}) {
    std::atomic<int> num_transactions{0};
    const std::unique_ptr<Listener> etcd =
        transport
            ->Listen("127.0.0.1:0",
                     [&](std::shared_ptr<IncomingCall> call) {
                       const bool is_user = call->method() == "/etcdserverpb.Auth/Authenticate";
                       if (!is_user) ++num_transactions;
                       Frame answer;
                       // An AuthToken, whose field 2 the token is; and a transaction's answer, which is
                       // empty.
                       const std::string bytes = absl::StrCat("\x12", std::string(1, token.size()), token);
                       answer.payloads.push_back(Payload::OfString(is_user ? bytes : ""));
                       call->Reply(std::move(answer));
                     })
            .value();
    const auto store = MakeEtcdStore(absl::StrCat("etcd://", etcd->address(), "/job"), {}, user).value();
    for (int i = 0; i < 2; ++i) {
      const absl::Status refused = Etcd::Read(*store).status();
      EXPECT_TRUE(absl::IsInternal(refused)) << refused;
      EXPECT_THAT(std::string(refused.message()), HasSubstr("a token that is no text of visible ASCII"));
    }
    EXPECT_EQ(num_transactions, 0) << "nothing is asked with it";
  }
}

// One etcd of several servers, as far as an election sees it, some of which take questions and say nothing.
class ServersOfOneEtcd {
 public:
  explicit ServersOfOneEtcd(int num_servers) : num_questions_(num_servers), is_silent_(num_servers, false) {
    for (int i = 0; i < num_servers; ++i) {
      listeners_.push_back(
          transport_
              ->Listen("127.0.0.1:0",
                       [this, i](std::shared_ptr<IncomingCall> call) { Answer(i, std::move(call)); })
              .value());
    }
  }

  std::string url() const {
    std::vector<std::string> addresses;
    for (const auto& listener : listeners_) addresses.push_back(listener->address());
    return absl::StrCat("etcd://", absl::StrJoin(addresses, ","), "/job");
  }
  // Those from `first` on, in a circle.
  void Silence(int first, int how_many) {
    absl::MutexLock lock(&mutex_);
    for (int i = 0; i < how_many; ++i) is_silent_[(first + i) % is_silent_.size()] = true;
  }
  // Which server has answered last; -1: none.
  int last() const {
    absl::MutexLock lock(&mutex_);
    return last_;
  }
  int num_questions(int server) const {
    absl::MutexLock lock(&mutex_);
    return num_questions_[server];
  }

 private:
  void Answer(int server, std::shared_ptr<IncomingCall> call) {
    etcd::Transaction asked;
    const Frame& request = call->request();
    if (!request.payloads.empty()) asked.ParseFromString(std::string(request.payloads[0].bytes()));
    etcd::TransactionAnswer answer;
    {
      absl::MutexLock lock(&mutex_);
      ++num_questions_[server];
      if (is_silent_[server]) {
        held_.push_back(std::move(call));
        return;
      }
      last_ = server;
      bool is_as_expected = true;
      for (const etcd::Compare& compare : asked.compare()) {
        is_as_expected = is_as_expected && (compare.target() == etcd::Compare::MOD
                                                ? compare.mod_revision() == record_.mod_revision()
                                                : compare.value() == record_.value());
      }
      answer.set_succeeded(is_as_expected);
      for (const etcd::Operation& operation : is_as_expected ? asked.success() : asked.failure()) {
        etcd::OperationAnswer& done = *answer.add_responses();
        if (operation.has_put()) {
          record_.set_key(operation.put().key());
          record_.set_value(operation.put().value());
          record_.set_mod_revision(++revision_);
        } else if (record_.mod_revision() != 0) {
          *done.mutable_range()->add_kvs() = record_;
        } else {
          done.mutable_range();
        }
      }
      answer.mutable_header()->set_revision(revision_);
    }
    Frame reply;
    reply.payloads.push_back(Payload::OfString(answer.SerializeAsString()));
    call->Reply(std::move(reply));
  }

  mutable absl::Mutex mutex_;
  etcd::KeyValue record_ ABSL_GUARDED_BY(mutex_);
  int64_t revision_ ABSL_GUARDED_BY(mutex_) = 1;
  int last_ ABSL_GUARDED_BY(mutex_) = -1;
  std::vector<int> num_questions_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> is_silent_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<IncomingCall>> held_ ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<Transport> transport_ = MakeGrpcTransport({}).value();
  std::vector<std::unique_ptr<Listener>> listeners_;
};

// It waited for the time limit of a question before it asked the next server.
TEST(EtcdStoreTest, AServerThatOwesAnAnswerIsNotAskedTheNextQuestion) {
  ServersOfOneEtcd servers(3);
  servers.Silence(0, 2);
  const auto store = MakeEtcdStore(servers.url(), {}).value();
  std::atomic<int> num_answers{0};
  for (int server = 0; server < 2; ++server) {
    store->Read(absl::Hours(1), [&](const absl::StatusOr<Stored>&) { ++num_answers; });
    ASSERT_TRUE(Eventually([&] { return servers.num_questions(server) == 1; })) << server;
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Etcd::Read(*store).value().revision, 0);
  EXPECT_EQ(num_answers, 0);
  EXPECT_EQ(servers.num_questions(0) + servers.num_questions(1), 2);
}

// An authority lost its office, because it spent the time that it has for a record on the silent ones.
TEST(EtcdStoreTest, AnAuthorityKeepsItsOfficeWhenTwoOfFiveServersFallSilent) {
  ServersOfOneEtcd servers(5);
  ClusterSpec cluster;
  const ReservedPorts ports = ReservedPorts::Take(2).value();
  ASSERT_TRUE(cluster.AddTask(kPs0, absl::StrCat("127.0.0.1:", ports[0])).ok());
  ASSERT_TRUE(cluster.AddTask(kWorker, absl::StrCat("127.0.0.1:", ports[1])).ok());
  ServerOptions options;
  options.lease = absl::Seconds(5);
  options.num_threads = 1;
  options.authority_store = servers.url();
  const auto ps = Server::Start(TaskConfig::Create(cluster, kPs0).value(), options).value();
  const Membership& members = ps->membership();
  ASSERT_TRUE(Eventually([&] { return members.HoldsOffice(); }));
  const int silent = servers.last();
  servers.Silence(silent, 2);
  // Until the office has long ended that it has now.
  for (const absl::Time end = absl::Now() + 2 * options.lease; absl::Now() < end;) {
    ASSERT_TRUE(members.HoldsOffice());
    absl::SleepFor(absl::Milliseconds(2));
  }
  EXPECT_NE(servers.last(), silent);
}

struct EtcdTest : ::testing::Test {
  void SetUp() override {
    if (!Etcd::IsInstalled()) {
      GTEST_SKIP()
          << "no etcd: install Debian's package etcd-server (tools/install_dependencies does, where apt "
             "has it)";
    }
  }
};

TEST_F(EtcdTest, ReplacesWhatNobodyElseHasReplaced) {
  Etcd etcd;
  ASSERT_TRUE(etcd.Start().ok());
  const auto one = MakeEtcdStore(etcd.url("job"), {}).value(),
             other = MakeEtcdStore(etcd.url("job"), {}).value();
  EXPECT_EQ(Etcd::Read(*one).value().revision, 0);
  const AuthorityRecord first = {.term = 5, .task = kPs0, .candidate = 1, .beat = 1};
  AuthorityRecord second = {.term = 6, .task = kPs1, .candidate = 2, .beat = 1};
  const Stored stored = Etcd::Replace(*one, {}, first).value();
  EXPECT_GT(stored.revision, 0);
  EXPECT_EQ(stored.record, first);
  const Stored refused = Etcd::Replace(*other, {}, second).value();
  EXPECT_EQ(refused.revision, stored.revision);
  EXPECT_EQ(refused.record, first);
  const Stored replaced = Etcd::Replace(*other, stored, second).value();
  EXPECT_GT(replaced.revision, stored.revision);
  EXPECT_EQ(Etcd::Replace(*one, stored, first).value().record, second);
  // As after a wipe: the same revision, of another record.
  EXPECT_EQ(Etcd::Replace(*one, {.revision = replaced.revision, .record = first}, first).value().record,
            second);
  EXPECT_EQ(Etcd::Read(*one).value().revision, replaced.revision);
  EXPECT_EQ(Etcd::Read(*MakeEtcdStore(etcd.url("another"), {}).value()).value().revision, 0);
  // The first address is of nobody.
  const ReservedPorts free = ReservedPorts::Take(1).value();
  const auto two =
      MakeEtcdStore(absl::StrCat("etcd://127.0.0.1:", free[0], ",", etcd.address(), "/job"), {}).value();
  EXPECT_TRUE(Eventually([&] { return Etcd::Read(*two, absl::Seconds(2)).ok(); }));
}

TEST_F(EtcdTest, WithTlsTheJobsCertificatesCount) {
  const std::string keys = absl::StrCat(testing::TempDir(), "/keys_", ::getpid());
  ASSERT_TRUE(MakeKeyFiles({.directory = keys, .hosts = {"127.0.0.1"}}).ok());
  Etcd etcd(keys);
  ASSERT_TRUE(etcd.Start().ok());
  const auto store = MakeEtcdStore(etcd.url("job"), etcd.security()).value();
  const AuthorityRecord record = {.term = 5, .task = kPs0, .candidate = 1, .beat = 1};
  EXPECT_EQ(Etcd::Replace(*store, {}, record).value().record, record);
  EXPECT_FALSE(Etcd::Read(*MakeEtcdStore(etcd.url("job"), {}).value(), absl::Seconds(5)).ok());
  SecurityOptions missing = etcd.security();
  missing.tls_ca_file = keys + "/none.pem";
  EXPECT_TRUE(absl::IsInvalidArgument(MakeEtcdStore(etcd.url("job"), missing).status()));
}

// Asks etcd for what administrators do. `fields`: the message, encoded.
absl::Status Administer(const Etcd& etcd, const std::string& method, const std::string& fields) {
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub(
      grpc::CreateChannel(etcd.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const grpc::Slice slice(fields);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer answer;
  grpc::Status status;
  absl::Notification done;
  stub.UnaryCall(&context, "/etcdserverpb.Auth/" + method, {}, &request, &answer,
                 [&](const grpc::Status& told) {
                   status = told;
                   done.Notify();
                 });
  done.WaitForNotification();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

// Fields 1, 2... of a message, all texts.
std::string Texts(const std::vector<std::string>& values) {
  std::string message;
  for (size_t i = 0; i < values.size(); ++i) {
    message += static_cast<char>(((i + 1) << 3) | 2);
    absl::StrAppend(&message, std::string(1, static_cast<char>(values[i].size())), values[i]);
  }
  return message;
}

TEST_F(EtcdTest, WhereItHasUsersItIsAskedAsOne) {
  Etcd etcd;
  ASSERT_TRUE(etcd.Start().ok());
  constexpr char kPassword[] = "not:to-be-seen";
  const auto add_users = [&] {
    for (const auto& [method, fields] :
         std::vector<std::pair<std::string, std::string>>{{"UserAdd", Texts({"root", kPassword})},
                                                          {"RoleAdd", Texts({"root"})},
                                                          {"UserGrantRole", Texts({"root", "root"})},
                                                          {"AuthEnable", ""}}) {
      const absl::Status status = Administer(etcd, method, fields);
      ASSERT_TRUE(status.ok()) << method << ": " << status;
    }
  };
  add_users();
  const std::string folder = absl::StrCat(testing::TempDir(), "/users_", ::getpid());
  std::filesystem::create_directories(folder);
  const auto file = [&](const std::string& name, const std::string& line) {
    std::ofstream(folder + "/" + name) << line;
    return folder + "/" + name;
  };
  const std::string good = file("good", absl::StrCat("root:", kPassword, "\n"));
  const auto store = MakeEtcdStore(etcd.url("job"), {}, good).value();
  const AuthorityRecord record = {.term = 5, .task = kPs0, .candidate = 1, .beat = 1};
  const absl::StatusOr<Stored> stored = Etcd::Replace(*store, {}, record);
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_EQ(stored->record, record);
  EXPECT_EQ(Etcd::Read(*store).value().record, record);
  // An etcd that comes back with nothing knows no token.
  ASSERT_TRUE(etcd.StartAnew().ok());
  add_users();
  EXPECT_TRUE(Eventually([&] { return Etcd::Read(*store, absl::Seconds(2)).ok(); }));
  const absl::StatusOr<Stored> later = Etcd::Replace(*store, {}, record);
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ(later->record, record);
  // Nobody, and who gives another password.
  const absl::Status nobody = Etcd::Read(*MakeEtcdStore(etcd.url("job"), {}).value()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(nobody)) << nobody;
  const absl::Status wrong =
      Etcd::Read(*MakeEtcdStore(etcd.url("job"), {}, file("wrong", "root:wrong")).value()).status();
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("authentication failed")) << wrong;
  for (const std::string& bad :
       {file("none", ""), file("name", "root"), file("no_password", "root:"), file("no_name", ":secret"),
        file("long", std::string(5000, 'x') + ":y"), folder + "/absent"}) {
    const absl::Status status = MakeEtcdStore(etcd.url("job"), {}, bad).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(bad), Not(HasSubstr("secret"))));
  }
}

TEST_F(EtcdTest, AServerWhoseAuthorityLeavesElectsAnother) {
  Etcd etcd;
  ASSERT_TRUE(etcd.Start().ok());
  ClusterSpec cluster;
  const ReservedPorts ports = ReservedPorts::Take(3).value();
  const std::vector<TaskName> tasks = {kPs0, kPs1, kWorker};
  for (size_t i = 0; i < tasks.size(); ++i) {
    ASSERT_TRUE(cluster.AddTask(tasks[i], absl::StrCat("127.0.0.1:", ports[i])).ok());
  }
  std::map<TaskName, std::unique_ptr<Server>> servers;
  for (const TaskName& task : tasks) {
    ServerOptions options;
    options.lease = absl::Seconds(5);
    options.num_threads = 1;
    options.authority_store = etcd.url("servers");
    absl::StatusOr<std::unique_ptr<Server>> server =
        Server::Start(TaskConfig::Create(cluster, task).value(), options);
    ASSERT_TRUE(server.ok()) << server.status();
    servers[task] = *std::move(server);
  }
  Membership& worker = servers[kWorker]->membership();
  ASSERT_TRUE(Eventually([&] { return worker.incarnation() != 0 && worker.HoldsLease(); }));
  const TaskName first = worker.authority(), second = first == kPs0 ? kPs1 : kPs0;
  ASSERT_EQ(first.job, "ps");
  const Incarnation life = worker.incarnation(), office = worker.office();
  servers.erase(first);
  ASSERT_TRUE(Eventually([&] { return worker.authority() == second && worker.HoldsLease(); }));
  EXPECT_EQ(worker.incarnation(), life) << "it goes on in its life";
  EXPECT_GT(worker.office(), office);
  EXPECT_TRUE(servers[second]->membership().HoldsOffice());
  // Without its store it says nothing any more.
  etcd.Signal(SIGSTOP);
  EXPECT_TRUE(
      Eventually([&] { return !servers[second]->membership().HoldsOffice() && !worker.HoldsLease(); }));
  etcd.Signal(SIGCONT);
  EXPECT_TRUE(Eventually([&] { return servers[second]->membership().HoldsOffice() && worker.HoldsLease(); }));
  EXPECT_EQ(worker.incarnation(), life);
  servers.erase(kWorker);
  servers.clear();
}

// Its revisions begin from 1 again, which are no late answers.
TEST_F(EtcdTest, ServersElectAnAuthorityInAnEtcdThatHasLostItsData) {
  Etcd etcd;
  ASSERT_TRUE(etcd.Start().ok());
  ClusterSpec cluster;
  const ReservedPorts ports = ReservedPorts::Take(2).value();
  ASSERT_TRUE(cluster.AddTask(kPs0, absl::StrCat("127.0.0.1:", ports[0])).ok());
  ASSERT_TRUE(cluster.AddTask(kWorker, absl::StrCat("127.0.0.1:", ports[1])).ok());
  ServerOptions options;
  options.lease = absl::Seconds(3);
  options.num_threads = 1;
  options.authority_store = etcd.url("servers");
  const auto ps = Server::Start(TaskConfig::Create(cluster, kPs0).value(), options).value();
  const auto worker = Server::Start(TaskConfig::Create(cluster, kWorker).value(), options).value();
  const Membership& members = worker->membership();
  ASSERT_TRUE(Eventually([&] { return members.incarnation() != 0 && members.HoldsLease(); }));
  const Incarnation life = members.incarnation(), office = members.office();
  // Its revisions are greater than those of one that was started anew.
  const auto store = MakeEtcdStore(etcd.url("another"), {}).value();
  AuthorityRecord record = {.term = 5, .task = kPs0, .candidate = 1};
  for (Stored stored; record.beat < 50;) {
    ++record.beat;
    stored = Etcd::Replace(*store, stored, record).value();
  }
  // They are seen.
  const auto elected = MakeEtcdStore(etcd.url("servers"), {}).value();
  const int64_t before = Etcd::Read(*elected).value().revision;
  ASSERT_TRUE(Eventually([&] { return Etcd::Read(*elected).value().revision > before + 1; }));
  ASSERT_TRUE(etcd.StartAnew().ok());
  ASSERT_TRUE(Eventually([&] { return members.office() > office && members.HoldsLease(); }));
  EXPECT_TRUE(ps->membership().HoldsOffice());
  EXPECT_EQ(members.incarnation(), life) << "it goes on in its life";
}

}  // namespace
}  // namespace weir
