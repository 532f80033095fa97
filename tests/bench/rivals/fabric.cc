// SPDX-License-Identifier: Apache-2.0
// libfabric: fi_write between two reliable datagram endpoints that poll. WORD is the provider: shm, or
// tcp;ofi_rxm.
//   write-lat  half a round trip; the target watches the last 8 bytes and makes progress
//   write-bw   a window of writes in one direction
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "tests/bench/rivals/rival.h"

namespace nd::rivals {
namespace {

void Check(long result, const char* what) {
  if (result < 0) Fail(what, fi_strerror(static_cast<int>(-result)));
}

// The address of an end, and where the other end may write.
struct Contact {
  std::atomic<int> ready{0};
  char name[256];
  std::size_t length = sizeof(name);
  std::uint64_t address = 0, key = 0;
};

class End {
 public:
  End(const std::string& provider, std::size_t size, Contact& mine, Contact& theirs)
      : size_(size), source_(size, 1), target_(size, 0), contexts_(1024) {
    fi_info* hints = fi_allocinfo();
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->fabric_attr->prov_name = strdup(provider.c_str());
    const bool shared = provider == "shm";
    fi_info* info = nullptr;
    Check(fi_getinfo(FI_VERSION(1, 14), shared ? nullptr : "127.0.0.1", nullptr, shared ? 0 : FI_SOURCE,
                     hints, &info),
          "fi_getinfo");
    fid_fabric* fabric = nullptr;
    Check(fi_fabric(info->fabric_attr, &fabric, nullptr), "fi_fabric");
    Check(fi_domain(fabric, info, &domain_, nullptr), "fi_domain");
    fi_av_attr table{};
    table.type = FI_AV_TABLE;
    fid_av* addresses = nullptr;
    Check(fi_av_open(domain_, &table, &addresses, nullptr), "fi_av_open");
    fi_cq_attr queue{};
    queue.format = FI_CQ_FORMAT_CONTEXT;
    queue.size = contexts_.size();
    Check(fi_cq_open(domain_, &queue, &queue_, nullptr), "fi_cq_open");
    Check(fi_endpoint(domain_, info, &endpoint_, nullptr), "fi_endpoint");
    Check(fi_ep_bind(endpoint_, &addresses->fid, 0), "fi_ep_bind");
    Check(fi_ep_bind(endpoint_, &queue_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    Check(fi_enable(endpoint_), "fi_enable");
    fid_mr* exposed = Register(target_, FI_REMOTE_WRITE, 1);
    local_ = Register(source_, FI_WRITE, 2);
    Check(fi_getname(&endpoint_->fid, mine.name, &mine.length), "fi_getname");
    mine.address = (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0
                       ? reinterpret_cast<std::uintptr_t>(target_.data())
                       : 0;
    mine.key = fi_mr_key(exposed);
    mine.ready = 1;
    while (theirs.ready == 0) Progress();
    Check(fi_av_insert(addresses, theirs.name, 1, &peer_, 0, nullptr), "fi_av_insert");
    address_ = theirs.address;
    key_ = theirs.key;
  }
  void Progress() { fi_cq_read(queue_, nullptr, 0); }

  void Write(std::uint64_t number) {
    std::memcpy(source_.data() + size_ - sizeof(number), &number, sizeof(number));
    fi_context& context = contexts_[next_++ % contexts_.size()];
    long result = 0;
    while ((result = fi_write(endpoint_, source_.data(), size_, fi_mr_desc(local_), peer_, address_, key_,
                              &context)) == -FI_EAGAIN) {
      Progress();
    }
    Check(result, "fi_write");
    ++unfinished_;
  }
  void AwaitAllBut(int most) {
    fi_cq_entry entries[16];
    while (unfinished_ > most) {
      const ssize_t count = fi_cq_read(queue_, entries, 16);
      if (count == -FI_EAGAIN) continue;
      Check(count, "fi_cq_read");
      unfinished_ -= static_cast<int>(count);
    }
  }
  // Waits for the message of that number.
  void Await(std::uint64_t number) {
    auto& last = *reinterpret_cast<std::atomic<std::uint64_t>*>(target_.data() + size_ - sizeof(number));
    while (last.load(std::memory_order_acquire) != number) Progress();
  }

 private:
  fid_mr* Register(std::vector<char>& memory, std::uint64_t access, std::uint64_t key) {
    fid_mr* region = nullptr;
    Check(fi_mr_reg(domain_, memory.data(), memory.size(), access, 0, key, 0, &region, nullptr), "fi_mr_reg");
    return region;
  }
  const std::size_t size_;
  std::vector<char> source_, target_;
  std::vector<fi_context> contexts_;
  std::size_t next_ = 0;
  int unfinished_ = 0;
  fid_domain* domain_ = nullptr;
  fid_cq* queue_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  fid_mr* local_ = nullptr;
  fi_addr_t peer_ = 0;
  std::uint64_t address_ = 0, key_ = 0;
};

// The provider shm leaves its memory behind when a process does not close its endpoint.
void RemoveSharedMemory(pid_t pid) {
  shm_unlink(("/" + std::to_string(pid) + ":0:0").c_str());
}

void Run(const Arguments& arguments) {
  const Plan& plan = arguments.plan;
  Contact* const contacts[] = {&Share<Contact>(), &Share<Contact>()};
  const bool latency = arguments.what == "write-lat";
  const Peer peer(plan.peer_cpu, [&] {
    End end(arguments.word, plan.size, *contacts[1], *contacts[0]);
    for (std::uint64_t i = 1;; ++i) {
      if (!latency) {
        end.Progress();
        continue;
      }
      end.Await(i);
      end.Write(i);
      end.AwaitAllBut(0);
    }
  });
  floors::PinTo(plan.cpu);
  End end(arguments.word, plan.size, *contacts[0], *contacts[1]);
  RemoveSharedMemory(peer.pid());
  if (latency) {
    std::uint64_t i = 0;
    const double seconds = floors::MedianOfBatches(plan, 10, [&] {
      end.Write(++i);
      end.Await(i);
      end.AwaitAllBut(0);
    });
    Print(seconds / 2 * 1e6, "us");
    return;
  }
  const int window = static_cast<int>(std::clamp<std::size_t>((256U << 10) / plan.size, 2, 64));
  floors::Periods periods;
  const double stop = Now() + plan.seconds;
  for (std::uint64_t i = 1; Now() < stop; ++i) {
    end.AwaitAllBut(window - 1);
    end.Write(i);
    periods.Add(static_cast<double>(plan.size));
  }
  Print(periods.PerSecond() / 1e9, "gbytes_per_s");
}

}  // namespace
}  // namespace nd::rivals

int main(int argc, char** argv) {
  const auto arguments = nd::rivals::ParseArguments(argc, argv);
  if (arguments.what != "write-lat" && arguments.what != "write-bw") {
    nd::rivals::Fail(arguments.what.c_str(), "neither write-lat nor write-bw");
  }
  nd::rivals::Run(arguments);
  std::fflush(stdout);
  nd::rivals::RemoveSharedMemory(getpid());
  _exit(0);
}
