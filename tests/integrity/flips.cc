// SPDX-License-Identifier: Apache-2.0
// The program "flips": makes connection after connection with traffic both ways until the connection breaks.
// Every request that completes with SUCCESS must have correct data. The program counts the final statuses.
#include <cstring>
#include <map>

#include "tests/integrity/link.h"

namespace nd::integrity {
namespace {

constexpr std::uint32_t kPiece = 16384, kMessage = 512, kFirst = 37;
constexpr std::uint32_t kSlots = 64;  // For Writes; far more than are in flight at once.
constexpr std::uint32_t kInFlight =
    8;  // Rounds; together more bytes each way than the maximum length of a frame.
constexpr std::uint32_t kReceives = 32;
constexpr std::uint64_t kRounds = 400;  // The rounds of a connection that does not break.
constexpr auto kEndPatience = std::chrono::seconds(20);
constexpr Stream kWritten{11, 0}, kRead{12, 0}, kSent{13, 0};

struct Hello {
  std::uint64_t address, token;
};

class Side {
 public:
  explicit Side(const Words& words)
      : words_(words),
        adapter_(OpenFor(words)),
        completions_(adapter_, 1024, Waiting::kPoll),
        memory_(adapter_, kReadAt + kPiece, false),
        messages_(adapter_, (kReceives + kSlots) * kMessage, false) {
    Fill(kRead, 0, memory_.At(kReadAt, kPiece));
    if (!words.Flag("active")) listener_ = ListenAt(adapter_, words.At("to"));
  }

  // Returns "SUCCESS" when the connection did not break, otherwise its final statuses.
  std::string Play() {
    Link link(adapter_, completions_, {.receive_depth = kReceives});
    link_ = &link;
    posted_ = finished_ = rounds_ = heard_ = 0;
    first_bad_ = {};
    for (std::uint32_t slot = 0; slot < kReceives; ++slot) PostReceive(slot);
    Request request;
    Status up;
    if (words_.Flag("active")) {
      const auto end = std::chrono::steady_clock::now() + kEndPatience;
      do {  // Until the first connection succeeds, the listener may be missing.
        up = Await(link.connector().NdkConnect(link.pair(), words_.At("from"), words_.At("to"),
                                               {.limits = {16, 16}}, &request),
                   request);
      } while (connections_ == 0 && up == StatusCode::kConnectionRefused &&
               std::chrono::steady_clock::now() < end);
      ++connections_;
      if (!up.ok()) Die("Connect: " + up.ToString());
      const std::vector<std::byte> data = Must(link.connector().GetPrivateData(), "GetPrivateData");
      if (data.size() != sizeof(hello_)) Die("private data of " + std::to_string(data.size()) + " bytes");
      std::memcpy(&hello_, data.data(), sizeof(hello_));
      Must(link.connector().CompleteConnect(), "CompleteConnect");
      Drive();
    } else {
      Must(Await(listener_.GetConnectionRequest(link.connector(), &request), request),
           "GetConnectionRequest");
      const Hello mine{memory_.address(), memory_.token()};
      Request accepting;
      up = Await(link.connector().Accept(
                     link.pair(), {.limits = {16, 16}, .private_data = std::as_bytes(std::span(&mine, 1))},
                     &accepting),
                 accepting);
      if (up.ok()) Drive();
    }
    std::string how;
    if (!up.ok()) {
      how = "Accept=" + std::string(Name(up.code()));
    } else if (damaged_) {
      how = "damage";  // The connection still works; only this side saw the damage.
      damaged_ = false;
    } else if (first_bad_) {
      Request notify;
      const Status told = Await(link.connector().NotifyDisconnect(&notify), notify);
      how = *first_bad_ + " notify=" + std::string(Name(told.code()));
    } else if (words_.Flag("active")) {
      link.Disconnect();
      how = "SUCCESS";
    } else {
      link.AwaitGoodbye();
      how = "SUCCESS";
    }
    link.Close();
    // Every posted request completes. Judge() has checked that those with SUCCESS have correct data.
    const auto end = std::chrono::steady_clock::now() + kEndPatience;
    while (finished_ != posted_) {
      for (const Completion& completion : completions_.Poll()) Judge(completion);
      if (std::chrono::steady_clock::now() > end) {
        Die("of " + std::to_string(posted_) + " requests only " + std::to_string(finished_) +
            " completed after the end (" + how + ")");
      }
    }
    if (!completions_.Poll().empty()) Die("more completions than requests");
    return how;
  }

 private:
  static constexpr std::size_t kWriteAt = 0, kSourceAt = kSlots * kPiece, kSinkAt = 2 * kSlots * kPiece,
                               kReadAt = 3 * kSlots * kPiece;

  void PostReceive(std::uint32_t slot) {
    const Sge sge = messages_.Slice(slot * kMessage, kMessage);
    ++posted_;
    Must(link_->pair().Receive(reinterpret_cast<void*>(std::uintptr_t{slot}), {&sge, 1}), "Receive");
  }

  // A round: Write, Read, Send. A post that the queue pair refuses is not an error of the test.
  void PostRound() {
    const std::uint64_t round = rounds_++;
    const std::uint64_t slot = round % kSlots;
    const auto context = reinterpret_cast<void*>(round);
    const std::uint32_t piece = round == 0 ? kFirst : kPiece;
    const std::string first = words_.Text("first");
    const Sge source = memory_.Slice(kSourceAt + slot * kPiece, piece);
    const Sge sink = memory_.Slice(kSinkAt + slot * kPiece, piece);
    const Sge message = messages_.Slice((kReceives + slot) * kMessage, kMessage);
    Fill(kWritten, round * kPiece, memory_.At(kSourceAt + slot * kPiece, piece));
    Fill(kSent, round * kMessage, messages_.At((kReceives + slot) * kMessage, kMessage));
    std::memset(sink.address, 0, piece);
    const auto write = [&] {
      Note(link_->pair().Write(context, {&source, 1}, hello_.address + kWriteAt + slot * kPiece,
                               static_cast<std::uint32_t>(hello_.token)));
    };
    const auto read = [&] {
      Note(link_->pair().Read(context, {&sink, 1}, hello_.address + kReadAt,
                              static_cast<std::uint32_t>(hello_.token)));
    };
    // The frame whose bits are flipped comes first in the first round.
    if (round == 0 && first == "read") {
      read();
      write();
    } else {
      write();
      read();
    }
    Note(link_->pair().Send(context, {&message, 1}));
  }
  void Note(const Status& status) {
    if (status.ok()) {
      ++posted_;
    } else if (!first_bad_) {
      first_bad_ = "post=" + std::string(Name(status.code()));
    }
  }

  void Judge(const Completion& completion) {
    ++finished_;
    if (completion.status != StatusCode::kSuccess) {
      if (!first_bad_) {
        static constexpr const char* kNames[] = {"receive", "send", "bind", "invalidate", "read", "write"};
        first_bad_ = std::string(kNames[static_cast<int>(completion.type)]) + "=" +
                     std::string(Name(completion.status));
      }
      return;
    }
    const auto number = reinterpret_cast<std::uintptr_t>(completion.request_context);
    if (completion.type == RequestType::kRead) {
      const std::uint32_t piece = number == 0 ? kFirst : kPiece;
      Expect(Check(kRead, 0, memory_.At(kSinkAt + number % kSlots * kPiece, piece)), "Read");
    }
    if (completion.type != RequestType::kReceive) return;
    const std::uint64_t round = heard_++;
    const std::uint32_t piece = round == 0 ? kFirst : kPiece;
    if (completion.bytes_transferred != kMessage) Die("a message of another size completed with SUCCESS");
    Expect(Check(kSent, round * kMessage, messages_.At(number * kMessage, kMessage)), "message");
    Expect(Check(kWritten, round * kPiece, memory_.At(kWriteAt + round % kSlots * kPiece, piece)),
           "Write before a message");
    if (!first_bad_) PostReceive(static_cast<std::uint32_t>(number));
  }
  void Expect(const std::optional<std::string>& fault, const char* what) {
    if (!fault) return;
    if (words_.Flag("unprotected")) {
      first_bad_ = "damage";
      damaged_ = true;
      return;
    }
    Die(std::string(what) + " completed with SUCCESS and wrong data: " + *fault);
  }

  void Drive() {
    const bool active = words_.Flag("active");
    std::uint64_t done = 0;
    auto last = std::chrono::steady_clock::now();
    while (!first_bad_) {
      if (active) {
        while (rounds_ < kRounds && rounds_ - done < kInFlight && !first_bad_) PostRound();
        if (done == kRounds) return;
      } else if (heard_ == kRounds) {
        return;
      }
      const std::span<const Completion> batch = completions_.Poll();
      for (const Completion& completion : batch) {
        Judge(completion);
        if (completion.type == RequestType::kSend) ++done;
      }
      const auto now = std::chrono::steady_clock::now();
      if (!batch.empty()) last = now;
      if (now - last > kEndPatience) {
        Die("the connection neither moves nor ends; round " + std::to_string(active ? done : heard_));
      }
    }
  }

  const Words& words_;
  Adapter adapter_;
  Completions completions_;
  Memory memory_, messages_;
  Listener listener_;
  Link* link_ = nullptr;
  Hello hello_{};
  std::uint64_t connections_ = 0, posted_ = 0, finished_ = 0, rounds_ = 0, heard_ = 0;
  std::optional<std::string> first_bad_;
  bool damaged_ = false;
};

}  // namespace

std::string RunFlips(const Words& words) {
  std::map<std::string, int> endings;
  Side side(words);
  for (std::uint64_t i = 0; i < words.Number("connections"); ++i) ++endings[side.Play()];
  std::string report = "ok";
  for (const auto& [how, count] : endings) report += " [" + how + "]x" + std::to_string(count);
  return report;
}

}  // namespace nd::integrity
