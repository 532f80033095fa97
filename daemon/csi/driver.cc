// SPDX-License-Identifier: Apache-2.0
// The services of the CSI driver. The decisions are in pod_volume.cc.
#include "daemon/csi/driver.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "base/os/file.h"
#include "csi/csi.grpc.pb.h"
#include "csi/registration.grpc.pb.h"
#include "daemon/csi/bind_mount.h"
#include "daemon/csi/pod_volume.h"
#include "daemon/ops/logging.h"

namespace nd::csi {
namespace {

constexpr std::size_t kLongestSocketPath = 107;

grpc::Status Answer(const std::string& call, const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  ops::LogWarning("refused", call + ": " + status.ToString());
  const grpc::StatusCode code = status == StatusCode::kInvalidParameter ? grpc::StatusCode::INVALID_ARGUMENT
                                : status == StatusCode::kAddressAlreadyExists
                                    ? grpc::StatusCode::ALREADY_EXISTS
                                : status == StatusCode::kAccessDenied   ? grpc::StatusCode::PERMISSION_DENIED
                                : status == StatusCode::kDeviceNotReady ? grpc::StatusCode::UNAVAILABLE
                                                                        : grpc::StatusCode::INTERNAL;
  return {code, status.message()};
}

class IdentityService final : public ::csi::v1::Identity::Service {
 public:
  explicit IdentityService(std::string version) : version_(std::move(version)) {}
  grpc::Status GetPluginInfo(grpc::ServerContext*, const ::csi::v1::GetPluginInfoRequest*,
                             ::csi::v1::GetPluginInfoResponse* answer) override {
    answer->set_name(kDriverName);
    answer->set_vendor_version(version_);
    return grpc::Status::OK;
  }
  grpc::Status GetPluginCapabilities(grpc::ServerContext*, const ::csi::v1::GetPluginCapabilitiesRequest*,
                                     ::csi::v1::GetPluginCapabilitiesResponse*) override {
    return grpc::Status::OK;
  }
  grpc::Status Probe(grpc::ServerContext*, const ::csi::v1::ProbeRequest*,
                     ::csi::v1::ProbeResponse*) override {
    return grpc::Status::OK;
  }

 private:
  const std::string version_;
};

class NodeService final : public ::csi::v1::Node::Service {
 public:
  explicit NodeService(const Options& options) : options_(options), registry_(options.pods_directory) {}

  grpc::Status NodePublishVolume(grpc::ServerContext*, const ::csi::v1::NodePublishVolumeRequest* request,
                                 ::csi::v1::NodePublishVolumeResponse*) override {
    const std::lock_guard lock(mutex_);
    return Answer("NodePublishVolume", Publish(*request));
  }
  grpc::Status NodeUnpublishVolume(grpc::ServerContext*, const ::csi::v1::NodeUnpublishVolumeRequest* request,
                                   ::csi::v1::NodeUnpublishVolumeResponse*) override {
    const std::lock_guard lock(mutex_);
    return Answer("NodeUnpublishVolume", Unpublish(*request));
  }
  grpc::Status NodeGetCapabilities(grpc::ServerContext*, const ::csi::v1::NodeGetCapabilitiesRequest*,
                                   ::csi::v1::NodeGetCapabilitiesResponse*) override {
    return grpc::Status::OK;
  }
  grpc::Status NodeGetInfo(grpc::ServerContext*, const ::csi::v1::NodeGetInfoRequest*,
                           ::csi::v1::NodeGetInfoResponse* answer) override {
    answer->set_node_id(options_.node);
    return grpc::Status::OK;
  }

 private:
  Status Publish(const ::csi::v1::NodePublishVolumeRequest& request) {
    if (!pods::IsVolumeId(request.volume_id())) {
      return {StatusCode::kInvalidParameter, "volume_id cannot be '" + request.volume_id() + "'"};
    }
    if (!request.volume_capability().has_mount()) {
      return {StatusCode::kInvalidParameter, "the volume is a directory; volume_capability must be 'mount'"};
    }
    if (!request.readonly()) {
      return {StatusCode::kInvalidParameter,
              "the volume contains sockets only; the pod must write 'readOnly: true'"};
    }
    Result<pods::Pod> pod = PodOf({request.volume_context().begin(), request.volume_context().end()});
    if (!pod.ok()) return pod.status();
    if (Status status = CheckTarget(request.target_path(), options_.kubelet_directory, pod->uid);
        !status.ok()) {
      return status;
    }
    os::FileFacts facts;
    if (os::Look(options_.client_directory, &facts) != 0 || facts.kind != os::FileFacts::Kind::kDirectory) {
      return {StatusCode::kDeviceNotReady,
              options_.client_directory + " does not exist; is the broker running?"};
    }
    // The registration comes first: a client may come as soon as there is a socket.
    if (Status status = registry_.Add(request.volume_id(), *pod); !status.ok()) return status;
    Status status = MountReadOnly(options_.client_directory, request.target_path());
    if (!status.ok()) {
      static_cast<void>(registry_.Remove(request.volume_id()));
      return status;
    }
    ops::LogInfo("volume " + request.volume_id() + " of pod " + pod->namespace_name + "/" + pod->name +
                 " is mounted");
    return {};
  }

  Status Unpublish(const ::csi::v1::NodeUnpublishVolumeRequest& request) {
    if (!pods::IsVolumeId(request.volume_id())) {
      return {StatusCode::kInvalidParameter, "volume_id cannot be '" + request.volume_id() + "'"};
    }
    if (Status status = CheckTarget(request.target_path(), options_.kubelet_directory, ""); !status.ok())
      return status;
    Result<std::optional<pods::Pod>> pod = registry_.OfVolume(request.volume_id());
    if (!pod.ok()) return pod.status();
    if (*pod) {
      const Status status = CheckTarget(request.target_path(), options_.kubelet_directory, (*pod)->uid);
      if (!status.ok()) return status;
    }
    if (Status status = Unmount(request.target_path()); !status.ok()) return status;
    if (Status status = registry_.Remove(request.volume_id()); !status.ok()) return status;
    ops::LogInfo("volume " + request.volume_id() + " is unmounted");
    return {};
  }

  const Options options_;
  const pods::Registry registry_;
  std::mutex mutex_;  // One change at a time.
};

class RegistrationService final : public pluginregistration::Registration::Service {
 public:
  explicit RegistrationService(std::string endpoint) : endpoint_(std::move(endpoint)) {}
  grpc::Status GetInfo(grpc::ServerContext*, const pluginregistration::InfoRequest*,
                       pluginregistration::PluginInfo* answer) override {
    answer->set_type("CSIPlugin");
    answer->set_name(kDriverName);
    answer->set_endpoint(endpoint_);
    answer->add_supported_versions("1.0.0");
    return grpc::Status::OK;
  }
  grpc::Status NotifyRegistrationStatus(grpc::ServerContext*,
                                        const pluginregistration::RegistrationStatus* status,
                                        pluginregistration::RegistrationStatusResponse*) override {
    if (status->plugin_registered()) {
      ops::LogInfo("the kubelet has registered the driver");
    } else {
      ops::LogError("the kubelet did not register the driver: " + ops::Printable(status->error(), 1024));
    }
    return grpc::Status::OK;
  }

 private:
  const std::string endpoint_;
};

class GrpcDriver final : public Driver {
 public:
  explicit GrpcDriver(const Options& options)
      : identity_(options.version), node_(options), registration_(options.endpoint) {}
  ~GrpcDriver() override {
    for (const auto& server : {server_.get(), registration_server_.get()}) {
      if (server != nullptr) server->Shutdown();
    }
  }
  Status Start(const Options& options) {
    server_ = Listen(options.endpoint, {&identity_, &node_});
    if (server_ == nullptr) return CannotListen(options.endpoint);
    if (options.registration_socket.empty()) return {};
    registration_server_ = Listen(options.registration_socket, {&registration_});
    return registration_server_ == nullptr ? CannotListen(options.registration_socket) : Status();
  }

 private:
  static Status CannotListen(const std::string& path) {
    return {StatusCode::kUnsuccessful, "no socket can be made at " + path + "; does its directory exist?"};
  }
  static std::unique_ptr<grpc::Server> Listen(const std::string& path, std::vector<grpc::Service*> services) {
    os::RemoveFile(path);
    const os::OwnersFilesOnly guard;  // Access to the driver's socket is a right to mount.
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
    for (grpc::Service* service : services) builder.RegisterService(service);
    return builder.BuildAndStart();
  }

  IdentityService identity_;
  NodeService node_;
  RegistrationService registration_;
  std::unique_ptr<grpc::Server> server_, registration_server_;
};

}  // namespace

Result<std::unique_ptr<Driver>> Driver::Make(const Options& options) {
  for (const std::string& path : {options.endpoint, options.registration_socket}) {
    if (path.empty() && &path != &options.endpoint) continue;
    if (!path.starts_with('/') || path.size() > kLongestSocketPath) {
      return Status(
          StatusCode::kInvalidParameter,
          "the path of a socket must begin with '/' and have at most 107 characters: '" + path + "'");
    }
  }
  auto driver = std::make_unique<GrpcDriver>(options);
  if (Status status = driver->Start(options); !status.ok()) return status;
  return std::unique_ptr<Driver>(std::move(driver));
}

}  // namespace nd::csi
