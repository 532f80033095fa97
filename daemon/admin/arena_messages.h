// SPDX-License-Identifier: Apache-2.0
// Holds the request and response of one call in one arena: a list of thousands of rows takes a few blocks
// instead of a hundred thousand allocations.
#pragma once

#include <google/protobuf/arena.h>
#include <grpcpp/support/message_allocator.h>

namespace nd::service {

template <typename Request, typename Reply>
class ArenaMessages final : public grpc::MessageAllocator<Request, Reply> {
 public:
  grpc::MessageHolder<Request, Reply>* AllocateMessages() override { return new Holder; }

 private:
  class Holder final : public grpc::MessageHolder<Request, Reply> {
   public:
    Holder() : arena_(Sizes()) {
      this->set_request(google::protobuf::Arena::CreateMessage<Request>(&arena_));
      this->set_response(google::protobuf::Arena::CreateMessage<Reply>(&arena_));
    }
    void Release() override { delete this; }

   private:
    static google::protobuf::ArenaOptions Sizes() {
      google::protobuf::ArenaOptions options;
      options.start_block_size = 4096;
      options.max_block_size = 1 << 20;
      return options;
    }
    google::protobuf::Arena arena_;
  };
};

}  // namespace nd::service
