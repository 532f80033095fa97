// SPDX-License-Identifier: Apache-2.0
// UCX: the time to make a connection, and a put with its flush; ucx_perftest measures neither.
//   setup  a new endpoint to a listener, and a message of 36 bytes in each direction
//   put    put and flush into memory that UCX allocated (WORD "allocated") or that was registered ("user")
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <ucp/api/ucp.h>

#include <atomic>
#include <cstring>
#include <utility>

#include "tests/bench/rivals/rival.h"

namespace nd::rivals {
namespace {

constexpr std::size_t kGreeting = 36;
constexpr ucp_tag_t kThere = 1, kBack = 2;

void Check(ucs_status_t status, const char* what) {
  if (status != UCS_OK) Fail(what, ucs_status_string(status));
}

class Worker {
 public:
  explicit Worker(bool sleeps) : sleeps_(sleeps) {
    ucp_params_t parameters{};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
    parameters.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA | (sleeps ? UCP_FEATURE_WAKEUP : 0);
    ucp_config_t* config = nullptr;
    Check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    Check(ucp_init(&parameters, config, &context_), "ucp_init");
    ucp_config_release(config);
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SINGLE;
    Check(ucp_worker_create(context_, &worker, &worker_), "ucp_worker_create");
    if (sleeps) Check(ucp_worker_get_efd(worker_, &event_fd_), "ucp_worker_get_efd");
  }
  ucp_context_h context() const { return context_; }
  ucp_worker_h get() const { return worker_; }

  // Makes progress, or sleeps until there is some; at most 2 ms, because events of the connection manager do
  // not wake a worker.
  void Progress() {
    if (ucp_worker_progress(worker_) != 0 || !sleeps_) return;
    if (ucp_worker_arm(worker_) != UCS_OK) return;
    pollfd entry{event_fd_, POLLIN, 0};
    poll(&entry, 1, 2);
  }
  void Await(void* request) {
    if (request == nullptr) return;
    if (UCS_PTR_IS_ERR(request)) Fail("request", ucs_status_string(UCS_PTR_STATUS(request)));
    while (ucp_request_check_status(request) == UCS_INPROGRESS) Progress();
    ucp_request_free(request);
  }
  void Close(ucp_ep_h endpoint) {
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
    void* request = ucp_ep_close_nbx(endpoint, &parameters);
    if (UCS_PTR_IS_PTR(request)) Await(request);
  }

 private:
  const bool sleeps_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
};

void* Send(Worker& worker, ucp_ep_h endpoint, char* bytes, ucp_tag_t tag) {
  const ucp_request_param_t parameters{};
  return ucp_tag_send_nbx(endpoint, bytes, kGreeting, tag, &parameters);
}
void* Receive(Worker& worker, char* bytes, ucp_tag_t tag) {
  const ucp_request_param_t parameters{};
  return ucp_tag_recv_nbx(worker.get(), bytes, kGreeting, tag, ~ucp_tag_t{0}, &parameters);
}

ucp_ep_params_t EndpointParameters() {
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) {};
  return parameters;
}

struct Meeting {
  std::atomic<int> port{0}, used{0}, closed{0};
};

void Serve(Meeting& meeting) {
  Worker worker(true);
  static ucp_conn_request_h pending;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ucp_listener_params_t parameters{};
  parameters.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  parameters.sockaddr = {reinterpret_cast<const sockaddr*>(&address), sizeof(address)};
  parameters.conn_handler.cb = [](ucp_conn_request_h request, void*) { pending = request; };
  ucp_listener_h listener = nullptr;
  Check(ucp_listener_create(worker.get(), &parameters, &listener), "ucp_listener_create");
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  Check(ucp_listener_query(listener, &attributes), "ucp_listener_query");
  meeting.port = ntohs(reinterpret_cast<const sockaddr_in*>(&attributes.sockaddr)->sin_port);
  char bytes[kGreeting];
  for (int i = 1;; ++i) {
    while (pending == nullptr) worker.Progress();
    ucp_ep_params_t endpoint = EndpointParameters();
    endpoint.field_mask |= UCP_EP_PARAM_FIELD_CONN_REQUEST;
    endpoint.conn_request = std::exchange(pending, nullptr);
    ucp_ep_h connection = nullptr;
    Check(ucp_ep_create(worker.get(), &endpoint, &connection), "ucp_ep_create");
    worker.Await(Receive(worker, bytes, kThere));
    worker.Await(Send(worker, connection, bytes, kBack));
    while (meeting.used < i) worker.Progress();
    worker.Close(connection);
    meeting.closed = i;
  }
}

void SetUp(const Plan& plan) {
  Meeting& meeting = Share<Meeting>();
  const Peer peer(plan.peer_cpu, [&] { Serve(meeting); });
  floors::PinTo(plan.cpu);
  while (meeting.port == 0) usleep(1000);
  Worker worker(true);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(meeting.port.load()));
  std::vector<double> times;
  char there[kGreeting] = {}, back[kGreeting];
  int count = 0;
  const double begin = Now();
  while (Now() < begin + plan.seconds || times.size() < 5) {
    const double start = Now();
    ucp_ep_params_t endpoint = EndpointParameters();
    endpoint.field_mask |= UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
    endpoint.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    endpoint.sockaddr = {reinterpret_cast<const sockaddr*>(&address), sizeof(address)};
    ucp_ep_h connection = nullptr;
    Check(ucp_ep_create(worker.get(), &endpoint, &connection), "ucp_ep_create");
    void* const sent = Send(worker, connection, there, kThere);
    void* const received = Receive(worker, back, kBack);
    worker.Await(sent);
    worker.Await(received);
    times.push_back(Now() - start);
    meeting.used = ++count;
    worker.Close(connection);
    while (meeting.closed < count) worker.Progress();
  }
  Print(floors::Median(times) * 1e6, "us");
  Print(count / (Now() - begin), "per_s");
}

// The target of the puts: its memory, and what an initiator needs to reach it.
struct Target {
  std::atomic<int> ready{0};
  std::uint64_t address = 0;
  std::size_t key_length = 0, worker_length = 0;
  char key[4096], worker[16384];
};

void Expose(Target& target, std::size_t size, bool allocated) {
  Worker worker(false);
  ucp_mem_map_params_t parameters{};
  parameters.field_mask =
      UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  parameters.length = size;
  std::vector<char> user(size, 1);
  if (allocated) {
    parameters.flags = UCP_MEM_MAP_ALLOCATE;
  } else {
    parameters.address = user.data();
  }
  ucp_mem_h memory = nullptr;
  Check(ucp_mem_map(worker.context(), &parameters, &memory), "ucp_mem_map");
  ucp_mem_attr_t attributes{};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
  Check(ucp_mem_query(memory, &attributes), "ucp_mem_query");
  std::memset(attributes.address, 1, size);
  target.address = reinterpret_cast<std::uintptr_t>(attributes.address);
  void* key = nullptr;
  Check(ucp_rkey_pack(worker.context(), memory, &key, &target.key_length), "ucp_rkey_pack");
  ucp_address_t* address = nullptr;
  Check(ucp_worker_get_address(worker.get(), &address, &target.worker_length), "ucp_worker_get_address");
  if (target.key_length > sizeof(target.key) || target.worker_length > sizeof(target.worker)) {
    Fail("put", "the addresses of UCX are longer than expected");
  }
  std::memcpy(target.key, key, target.key_length);
  std::memcpy(target.worker, address, target.worker_length);
  target.ready = 1;
  for (;;) worker.Progress();
}

void Put(const Plan& plan, bool allocated) {
  Target& target = Share<Target>();
  const Peer peer(plan.peer_cpu, [&] { Expose(target, plan.size, allocated); });
  floors::PinTo(plan.cpu);
  while (target.ready == 0) usleep(1000);
  Worker worker(false);
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  parameters.address = reinterpret_cast<const ucp_address_t*>(target.worker);
  ucp_ep_h endpoint = nullptr;
  Check(ucp_ep_create(worker.get(), &parameters, &endpoint), "ucp_ep_create");
  ucp_rkey_h key = nullptr;
  Check(ucp_ep_rkey_unpack(endpoint, target.key, &key), "ucp_ep_rkey_unpack");
  const std::vector<char> source(plan.size, 3);
  const ucp_request_param_t none{};
  const double seconds = floors::MedianOfBatches(plan, 10, [&] {
    worker.Await(ucp_put_nbx(endpoint, source.data(), plan.size, target.address, key, &none));
    worker.Await(ucp_ep_flush_nbx(endpoint, &none));
  });
  Print(seconds * 1e6, "us");
}

}  // namespace
}  // namespace nd::rivals

int main(int argc, char** argv) {
  const auto arguments = nd::rivals::ParseArguments(argc, argv);
  if (arguments.what == "setup") {
    nd::rivals::SetUp(arguments.plan);
  } else if (arguments.what == "put") {
    nd::rivals::Put(arguments.plan, arguments.word == "allocated");
  } else {
    nd::rivals::Fail(arguments.what.c_str(), "neither setup nor put");
  }
  std::fflush(stdout);
  _exit(0);  // Closing would wait for a peer that may be inside UCX.
}
