// SPDX-License-Identifier: Apache-2.0
// One local port for many destinations; the broker has all of its rules.
#include <utility>

#include "client-lib/src/listener_impl.h"
#include "nd/connector.h"

namespace nd {

using client::InvalidHandle;

std::shared_ptr<SharedEndpoint::Impl> SharedEndpoint::Impl::Make(std::shared_ptr<Adapter::Impl> adapter,
                                                                 client::Session::Life life,
                                                                 const Address& bound) {
  auto made = std::make_shared<Impl>(std::move(adapter), life, bound);
  made->adapter->session->AddLive(made);
  return made;
}

void SharedEndpoint::Impl::OnSessionBack(const std::function<void()>& done) {
  if (!usable()) return done();
  ComeBack({[bound = local](session::Handle at) {
             return session::CreateSharedEndpointOp{at, bound};
           }},
           done);
}

SharedEndpoint::SharedEndpoint(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<Address> SharedEndpoint::GetLocalAddress() const {
  if (!impl_ || !impl_->usable()) return InvalidHandle("the shared endpoint");
  return impl_->GetLocalAddress();
}

Status SharedEndpoint::GetLocalAddress(void* sockaddr_buffer, std::size_t* length) const {
  auto address = GetLocalAddress();
  return address.ok() ? client::CopyAddress(*address, sockaddr_buffer, length, true) : address.status();
}

Status SharedEndpoint::Close(Request* request) {
  return impl_ ? impl_->Close(request, true) : InvalidHandle("the shared endpoint");
}

}  // namespace nd
