// What a running server shows at its port for Prometheus and probes.
#include "distributed/server_metrics.h"

#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "distributed/launch/free_ports.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/server.h"
#include "distributed/test_answer.h"
#include "distributed/test_server.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "distributed/transport/grpc/raw_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Get(int port, const std::string& path) {
  RawConnection client(port);
  client.Write(absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_TRUE(client.AwaitClose());
  return client.heard();
}

// The samples of a page, by name and labels.
std::map<std::string, double> SamplesOf(const std::string& response) {
  std::map<std::string, double> samples;
  const size_t begin = response.find("\r\n\r\n");
  EXPECT_NE(begin, std::string::npos);
  for (const absl::string_view line : absl::StrSplit(response.substr(begin + 4), '\n', absl::SkipEmpty())) {
    if (line[0] == '#') continue;
    const size_t space = line.rfind(' ');
    double value = 0;
    EXPECT_TRUE(absl::SimpleAtod(line.substr(space + 1), &value)) << line;
    EXPECT_TRUE(samples.emplace(line.substr(0, space), value).second) << "twice: " << line;
  }
  return samples;
}

TEST(ServerMetricsTest, WhatATaskDoesIsCounted) {
  ClusterSpec cluster;
  const ReservedPorts ports = ReservedPorts::Take(2).value();
  ASSERT_TRUE(cluster.AddTask({"ps", 0}, absl::StrCat("127.0.0.1:", ports[0])).ok());
  ASSERT_TRUE(cluster.AddTask({"worker", 0}, absl::StrCat("127.0.0.1:", ports[1])).ok());
  ServerOptions options;
  options.num_threads = 1;
  options.metrics_port = "0";
  options.peer_limits = "inbound=50000000";
  auto ps = Server::Start(TaskConfig::Create(cluster, {"ps", 0}).value(), options).value();
  auto worker = Server::Start(TaskConfig::Create(cluster, {"worker", 0}).value(), options).value();
  EXPECT_THAT(Get(ps->metrics_port(), "/healthz"), StartsWith("HTTP/1.1 200 OK"));
  const Tensor large(DType::kFloat32, Shape({1 << 20}));
  CounterModel model(*worker);
  {
    auto session = worker->CreateSession(model.g.graph()).value();
    ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(session->Run({}, {model.doubled}, {}).ok());
    const std::string page = Get(ps->metrics_port(), "/metrics");
    EXPECT_THAT(page,
                AllOf(StartsWith("HTTP/1.1 200 OK"), HasSubstr("Content-Type: text/plain; version=0.0.4"),
                      HasSubstr("# TYPE weir_call_seconds histogram")));
    const std::map<std::string, double> samples = SamplesOf(page);
    const std::string run = "{direction=\"received\",method=\"/weir.Worker/RunPartition\"";
    EXPECT_EQ(samples.at(absl::StrCat("weir_calls_total", run, ",outcome=\"ok\"}")), 11);
    EXPECT_EQ(samples.at(absl::StrCat("weir_calls_total", run, ",outcome=\"failed\"}")), 0);
    EXPECT_EQ(samples.at(absl::StrCat("weir_call_seconds_count", run, "}")), 11);
    EXPECT_EQ(samples.at(absl::StrCat("weir_call_seconds_bucket", run, ",le=\"+Inf\"}")), 11);
    EXPECT_GT(samples.at(absl::StrCat("weir_received_bytes_total", run, "}")), 100);
    EXPECT_EQ(samples.at("weir_peers{state=\"alive\"}"), 1);
    EXPECT_EQ(samples.at("weir_peers{state=\"lost\"}"), 0);
    EXPECT_GE(samples.at("weir_tensor_bytes"), 4 << 20);
    EXPECT_GE(samples.at("weir_device_bytes{device=\"/job:ps/replica:0/task:0/device:CPU:0\"}"), 0);
    EXPECT_EQ(samples.at("weir_peer_use{kind=\"plans\"}"), 2);
    EXPECT_EQ(samples.at("weir_inbound_bytes{kind=\"budget\"}"), 50'000'000);
    EXPECT_EQ(samples.at("weir_inbound_bytes{kind=\"arrived\"}"), 0);
    EXPECT_EQ(samples.at("weir_inbound_refused_total"), 0);
    EXPECT_EQ(samples.at("weir_inbound_senders"), 0) << "nothing was pushed to it";
    EXPECT_GE(samples.at("weir_plans"), 2);
    EXPECT_GT(samples.at("process_resident_memory_bytes"), 1 << 20);
    EXPECT_GT(samples.at("process_open_fds"), 3);
    EXPECT_GE(samples.at("weir_uptime_seconds"), 0);
    // The other side of the same calls.
    EXPECT_EQ(
        SamplesOf(Get(worker->metrics_port(), "/metrics"))
            .at("weir_calls_total{direction=\"made\",method=\"/weir.Worker/RunPartition\",outcome=\"ok\"}"),
        11);
  }
  ps->Shutdown();
  EXPECT_THAT(Get(ps->metrics_port(), "/healthz"), StartsWith("HTTP/1.1 503 "));
}

// A message that comes late puts nobody back whose life is over: nobody would take it away.
TEST(ServerMetricsTest, WhoIsDoneIsNoSenderAnyMore) {
  ClusterSpec cluster;
  const ReservedPorts ports = ReservedPorts::Take(2).value();
  ASSERT_TRUE(cluster.AddTask({"ps", 0}, absl::StrCat("127.0.0.1:", ports[0])).ok());
  ASSERT_TRUE(cluster.AddTask({"worker", 0}, absl::StrCat("127.0.0.1:", ports[1])).ok());
  ServerOptions options;
  options.num_threads = 1;
  options.metrics_port = "0";
  const auto ps = Server::Start(TaskConfig::Create(cluster, {"ps", 0}).value(), options).value();
  const std::unique_ptr<Transport> transport = MakeGrpcTransport({}).value();
  const auto channel = transport->Connect({"ps", 0}, cluster.address({"ps", 0}).value()).value();
  const auto call = [&](absl::string_view method, std::string body, std::vector<Payload> payloads) {
    WireWriter envelope;
    Envelope{{"worker", 0}, 7}.EncodeTo(&envelope);
    return AnswerOf(*channel, method, {.header = envelope.Take() + body, .payloads = std::move(payloads)});
  };
  const auto push = [&](uint64_t number) {
    WireWriter body;
    std::vector<Payload> payloads;
    EXPECT_TRUE(EncodePush({{number}, 5, 1, {{0, false, Tensor::Scalar(1.0f)}}}, &body, &payloads).ok());
    return call(kPushTensorsMethod, body.Take(), std::move(payloads));
  };
  const auto num_senders = [&] {
    return SamplesOf(Get(ps->metrics_port(), "/metrics")).at("weir_inbound_senders");
  };
  const absl::Status first = push(1);
  EXPECT_TRUE(absl::IsAborted(first)) << first << ": there is no such plan";
  EXPECT_EQ(num_senders(), 1);
  EXPECT_TRUE(call(kJobDoneMethod, "", {}).ok());
  EXPECT_EQ(num_senders(), 0);
  EXPECT_FALSE(push(2).ok());
  EXPECT_EQ(num_senders(), 0);
}

TEST(ServerMetricsTest, ATaskThatRunsAloneHasThemToo) {
  ServerOptions options;
  options.num_threads = 1;
  options.metrics_port = "127.0.0.1:0";
  auto server = Server::Start(TaskConfig(), options).value();
  EXPECT_THAT(Get(server->metrics_port(), "/metrics"), HasSubstr("process_open_fds "));
  EXPECT_THAT(Get(server->metrics_port(), "/healthz"), StartsWith("HTTP/1.1 200 OK"));
}

}  // namespace
}  // namespace weir
