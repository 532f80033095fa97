// SPDX-License-Identifier: Apache-2.0
// Verbs of the data path: queues, posting, completions, memory.
#include <cstring>

#include "base/os/wait.h"
#include "tests/testing/actor_state.h"
#include "tests/testing/process.h"

namespace nd::testing {

std::byte PatternByte(std::uint64_t seed, std::size_t i) {
  std::uint64_t x = seed + i * 0x9E3779B97F4A7C15ULL;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9ULL;
  return static_cast<std::byte>(x >> 56);
}

std::vector<nd::Sge> ActorState::ReadSges(Reader& in) {
  std::vector<nd::Sge> sges(in.U32());
  for (nd::Sge& sge : sges) {
    const Id id = in.U32();
    const std::uint64_t offset = in.U64();
    const std::uint32_t length = in.U32();
    if (id == 0) continue;
    Memory& memory = Find(memories_, id);
    sge = {memory.data + offset, length, memory.region.local_token()};
  }
  return sges;
}

void ActorState::PutCompletions(std::span<const nd::Completion> list, Writer& out) {
  out.Put(static_cast<std::uint32_t>(list.size()));
  for (const nd::Completion& c : list) {
    out.Put(c.status).Put(c.bytes_transferred).Put(reinterpret_cast<std::uint64_t>(c.queue_pair_context));
    out.Put(reinterpret_cast<std::uint64_t>(c.request_context)).Put(c.type);
  }
}

bool ActorState::AnswerData(Verb verb, Reader& in, Writer& out) {
  switch (verb) {
    case Verb::kCreateCq: {
      Adapter& adapter = Find(adapters_, in.U32());
      Result<CompletionQueue> made = adapter.CreateCompletionQueue(in.U32());
      out.Put(made.ok() ? Status() : made.status()).Put(made.ok() ? Keep(cqs_, *made) : Id{0});
      return true;
    }
    case Verb::kCreateSrq: {
      Adapter& adapter = Find(adapters_, in.U32());
      Result<SharedReceiveQueue> made = adapter.CreateSharedReceiveQueue(in.U32());
      out.Put(made.ok() ? Status() : made.status()).Put(made.ok() ? Keep(srqs_, *made) : Id{0});
      return true;
    }
    case Verb::kCreateQp: {
      Adapter& adapter = Find(adapters_, in.U32());
      const Id receive_cq = in.U32(), initiator_cq = in.U32(), srq = in.U32();
      QueuePairOptions options;
      options.receive_cq = receive_cq != 0 ? &Find(cqs_, receive_cq) : nullptr;
      options.initiator_cq = initiator_cq != 0 ? &Find(cqs_, initiator_cq) : nullptr;
      options.shared_receive_queue = srq != 0 ? &Find(srqs_, srq) : nullptr;
      options.context = reinterpret_cast<void*>(in.U64());
      options.receive_depth = in.U32();
      options.initiator_depth = in.U32();
      options.max_receive_sge = in.U32();
      options.max_initiator_sge = in.U32();
      options.inline_data_size = in.U32();
      Result<QueuePair> made = adapter.CreateQueuePair(options);
      out.Put(made.ok() ? Status() : made.status()).Put(made.ok() ? Keep(qps_, *made) : Id{0});
      return true;
    }
    case Verb::kPost: {
      const auto type = in.Get<RequestType>();
      const Id id = in.U32();
      auto* context = reinterpret_cast<void*>(in.U64());
      const std::vector<nd::Sge> sges = ReadSges(in);
      const std::uint64_t remote = in.U64();
      const std::uint32_t token = in.U32();
      const std::uint32_t flags = in.U32();
      if (srqs_.contains(id)) return out.Put(Find(srqs_, id).Receive(context, sges)), true;
      QueuePair& qp = Find(qps_, id);
      switch (type) {
        case RequestType::kReceive:
          out.Put(qp.Receive(context, sges));
          break;
        case RequestType::kSend:
          out.Put(token != 0 ? qp.SendAndInvalidate(context, sges, token, flags)
                             : qp.Send(context, sges, flags));
          break;
        case RequestType::kWrite:
          out.Put(qp.Write(context, sges, remote, token, flags));
          break;
        default:
          out.Put(qp.Read(context, sges, remote, token, flags));
          break;
      }
      return true;
    }
    case Verb::kBindWindow: {
      QueuePair& qp = Find(qps_, in.U32());
      auto* context = reinterpret_cast<void*>(in.U64());
      Memory& memory = Find(memories_, in.U32());
      MemoryWindow& window = Find(windows_, in.U32());
      const std::uint64_t offset = in.U64();
      const std::uint64_t length = in.U64();
      out.Put(qp.BindWindow(context, memory.region, window, memory.data + offset, length, in.U32()));
      return true;
    }
    case Verb::kInvalidate: {
      QueuePair& qp = Find(qps_, in.U32());
      auto* context = reinterpret_cast<void*>(in.U64());
      out.Put(qp.Invalidate(context, Find(windows_, in.U32())));
      return true;
    }
    case Verb::kFlush:
      out.Put(Find(qps_, in.U32()).Flush());
      return true;
    case Verb::kPoll: {
      CompletionQueue& cq = Find(cqs_, in.U32());
      std::vector<nd::Completion> list(in.U32());
      list.resize(cq.Poll(list));
      PutCompletions(list, out);
      return true;
    }
    case Verb::kNext: {
      CompletionQueue& cq = Find(cqs_, in.U32());
      const Result<nd::Completion> next = cq.Next(Scaled(std::chrono::milliseconds(in.U32())));
      out.Put(next.ok() ? Status() : next.status());
      if (next.ok()) PutCompletions(std::span(&*next, 1), out);
      return true;
    }
    case Verb::kNotify: {
      CompletionQueue& cq = Find(cqs_, in.U32());
      out.Put(cq.Notify(in.Get<NotifyType>()));
      return true;
    }
    case Verb::kNotified: {
      os::Watched watched{.fd = Find(cqs_, in.U32()).handle()};
      out.Put(os::Wait({&watched, 1}, Scaled(std::chrono::milliseconds(in.U32()))) == 1);
      return true;
    }
    case Verb::kConsume:
      Find(cqs_, in.U32()).ConsumeNotification();
      return true;
    case Verb::kResize: {
      CompletionQueue& cq = Find(cqs_, in.U32());
      out.Put(cq.Resize(in.U32()));
      return true;
    }
    case Verb::kCqState:
      out.Put(Find(cqs_, in.U32()).state());
      return true;
    default:
      return false;
  }
}

bool ActorState::AnswerMemory(Verb verb, Reader& in, Writer& out) {
  switch (verb) {
    case Verb::kAllocate: {
      Adapter& adapter = Find(adapters_, in.U32());
      Memory memory;
      memory.size = in.U64();
      const std::uint32_t access = in.U32();
      Status status;
      if (in.Bool()) {
        Result<Buffer> buffer = adapter.AllocateBuffer(memory.size);
        if (buffer.ok()) {
          memory.buffer = *buffer;
          memory.data = buffer->data();
        } else {
          status = buffer.status();
        }
      } else {
        memory.heap = std::make_unique<std::byte[]>(memory.size);
        memory.data = memory.heap.get();
      }
      if (status.ok()) {
        Result<MemoryRegion> region = memory.heap ? adapter.Register(memory.data, memory.size, access)
                                                  : adapter.Register(memory.buffer, access);
        if (region.ok()) {
          memory.region = std::move(*region);
        } else {
          status = region.status();
        }
      }
      const auto address = reinterpret_cast<std::uint64_t>(memory.data);
      const std::uint32_t token = status.ok() ? memory.region.remote_token() : 0;
      out.Put(status).Put(status.ok() ? Keep(memories_, std::move(memory)) : Id{0}).Put(address).Put(token);
      return true;
    }
    case Verb::kRegisterRaw: {
      Adapter& adapter = Find(adapters_, in.U32());
      auto* address = reinterpret_cast<void*>(in.U64());
      const std::uint64_t length = in.U64();
      const Result<MemoryRegion> region = adapter.Register(address, length, in.U32());
      out.Put(region.ok() ? Status() : region.status());
      return true;
    }
    case Verb::kCreateWindow: {
      Result<MemoryWindow> made = Find(adapters_, in.U32()).CreateMemoryWindow();
      out.Put(made.ok() ? Status() : made.status());
      out.Put(made.ok() ? Keep(windows_, std::move(*made)) : Id{0});
      return true;
    }
    case Verb::kWindowToken:
      out.Put(Find(windows_, in.U32()).remote_token());
      return true;
    case Verb::kDeregister:
      out.Put(Find(memories_, in.U32()).region.Deregister());
      return true;
    case Verb::kFill: {
      Memory& memory = Find(memories_, in.U32());
      const std::uint64_t offset = in.U64(), length = in.U64(), seed = in.U64();
      for (std::size_t i = 0; i < length; ++i) memory.data[offset + i] = PatternByte(seed, i);
      return true;
    }
    case Verb::kCheck: {
      const Memory& memory = Find(memories_, in.U32());
      const std::uint64_t offset = in.U64(), length = in.U64(), seed = in.U64();
      bool same = true;
      for (std::size_t i = 0; i < length && same; ++i) same = memory.data[offset + i] == PatternByte(seed, i);
      out.Put(same);
      return true;
    }
    case Verb::kPeek: {
      const Memory& memory = Find(memories_, in.U32());
      const std::uint64_t offset = in.U64();
      out.Put(std::string(reinterpret_cast<const char*>(memory.data + offset), in.U32()));
      return true;
    }
    case Verb::kPoke: {
      const Memory& memory = Find(memories_, in.U32());
      const std::uint64_t offset = in.U64();
      const std::string bytes = in.Text();
      std::memcpy(memory.data + offset, bytes.data(), bytes.size());
      return true;
    }
    default:
      return false;
  }
}

}  // namespace nd::testing
