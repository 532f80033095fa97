// SPDX-License-Identifier: Apache-2.0
// Every interleaving of three threads that take one lock, on a processor that keeps stores back, and the lock
// itself between real threads.
#include "provider/soft/qp/biased_lock.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

namespace nd::provider::soft::lock_model {
namespace {

// A mistake that an implementation can make.
enum class Mistake {
  kNone,
  kNoBarrier,
  kOwnerLooksOnlyOnce,            // It does not look again after it has said that it is inside.
  kOwnerLooksBeforeItSays,        // The two in the other order.
  kNobodyWaitsForTheOwner,        // After the end of an ownership.
  kOnlyTheEndOfOwnershipWaits,    // The thread behind a failed try_lock() finds no owner and does not wait.
  kOwnerStaysInsideWhenItFailed,  // It goes to the shared lock without taking its word back.
  kOneWordForAll,                 // A late former owner takes back the word of its successor.
};

enum Word : std::uint8_t { kOwner, kTaken, kInside, kSecondInside, kWords };

enum class At : std::uint8_t {
  kStart,
  kLooked,
  kSaid,
  kCritical,
  kSorry,
  kAtTaken,
  kEnding,
  kBarrier,
  kWaiting,
  kShared
};

constexpr int kThreads = 3;
constexpr int kLocks = 2;  // Of each thread.

struct Store {
  Word word = kOwner;
  std::uint8_t value = 0;
};

struct Runner {
  At at = At::kStart;
  std::uint8_t locks_left = kLocks;
  bool ended_one = false;
  std::uint8_t kept_back = 0;  // Stores that the others do not see yet, oldest first.
  std::array<Store, 4> stores{};
};

struct World {
  std::array<std::uint8_t, kWords> words{1, 0, 0, 0};  // Thread 0 is the owner. Threads are 1 and up.
  std::array<Runner, kThreads> threads{};

  std::string Key() const {
    std::string key(words.begin(), words.end());
    for (const Runner& thread : threads) {
      key += static_cast<char>(thread.at);
      key += static_cast<char>(thread.locks_left);
      key += static_cast<char>(thread.ended_one);
      for (int i = 0; i < thread.kept_back; ++i)
        key += static_cast<char>(1 + thread.stores[i].word * 8 + thread.stores[i].value);
      key += '\0';
    }
    return key;
  }
};

class Explorer {
 public:
  explicit Explorer(Mistake mistake) : mistake_(mistake) {}

  int both_inside = 0, stuck = 0;
  std::size_t states = 0;

  void Run() {
    Visit(World{});
    while (!todo_.empty() && both_inside + stuck == 0) {
      const World world = todo_.back();
      todo_.pop_back();
      Expand(world);
    }
    states = seen_.size();
  }

 private:
  void Visit(const World& world) {
    int inside = 0;
    for (const Runner& thread : world.threads)
      inside += thread.at == At::kCritical || thread.at == At::kShared;
    both_inside += inside > 1;
    if (seen_.insert(world.Key()).second) todo_.push_back(world);
  }

  static void Keep(Runner& thread, Word word, std::uint8_t value) {
    thread.stores[thread.kept_back++] = {word, value};
  }
  static void LetOne(World& w, Runner& thread) {
    w.words[thread.stores[0].word] = thread.stores[0].value;
    for (int i = 1; i < thread.kept_back; ++i) thread.stores[i - 1] = thread.stores[i];
    --thread.kept_back;
  }
  static void LetAll(World& w, Runner& thread) {
    while (thread.kept_back != 0) LetOne(w, thread);
  }
  // A thread sees its own stores at once.
  static std::uint8_t Load(const World& w, const Runner& thread, Word word) {
    std::uint8_t value = w.words[word];
    for (int i = 0; i < thread.kept_back; ++i)
      if (thread.stores[i].word == word) value = thread.stores[i].value;
    return value;
  }

  // A step of thread `index`. With `wants` it becomes the owner when it may. The last thread calls
  // try_lock().
  bool Step(World& w, int index, bool wants) const {
    const bool tries = index == kThreads - 1;
    Runner& me = w.threads[index];
    const auto self = static_cast<std::uint8_t>(index + 1);
    const bool one = mistake_ == Mistake::kOneWordForAll;
    const Word word = index == 0 || one ? kInside : kSecondInside;
    switch (me.at) {
      case At::kStart:
        if (me.locks_left == 0) return false;
        me.at = Load(w, me, kOwner) == self ? At::kLooked : At::kAtTaken;
        return true;
      case At::kLooked:
        if (mistake_ == Mistake::kOwnerLooksBeforeItSays) {
          me.at = Load(w, me, kOwner) == self ? At::kSaid : At::kAtTaken;
          return true;
        }
        Keep(me, word, 1);
        me.at = At::kSaid;
        return true;
      case At::kSaid:
        if (mistake_ == Mistake::kOwnerLooksBeforeItSays) {
          Keep(me, word, 1);
          me.at = At::kCritical;
          return true;
        }
        me.at = mistake_ == Mistake::kOwnerLooksOnlyOnce || Load(w, me, kOwner) == self ? At::kCritical
                                                                                        : At::kSorry;
        return true;
      case At::kSorry:
        if (mistake_ != Mistake::kOwnerStaysInsideWhenItFailed) Keep(me, word, 0);
        me.at = At::kAtTaken;
        return true;
      case At::kCritical:
        Keep(me, word, 0);
        Done(me);
        return true;
      case At::kAtTaken:
        LetAll(w, me);  // An exchange.
        if (w.words[kTaken] != 0) {
          if (tries) Done(me);
          return tries;
        }
        w.words[kTaken] = self;
        me.at = At::kEnding;
        return true;
      case At::kEnding:
        me.ended_one = Load(w, me, kOwner) != 0;
        if (me.ended_one) Keep(me, kOwner, 0);
        me.at = me.ended_one ? At::kBarrier : At::kWaiting;
        return true;
      case At::kBarrier:
        for (Runner& thread : w.threads)
          if (mistake_ != Mistake::kNoBarrier) LetAll(w, thread);
        me.at = At::kWaiting;
        return true;
      case At::kWaiting: {
        const bool waits = mistake_ != Mistake::kNobodyWaitsForTheOwner &&
                           (me.ended_one || mistake_ != Mistake::kOnlyTheEndOfOwnershipWaits);
        if (!waits || (Load(w, me, kInside) | Load(w, me, kSecondInside)) == 0) {
          me.at = At::kShared;
          return true;
        }
        if (!tries) return false;
        Keep(me, kTaken, 0);
        Done(me);
        return true;
      }
      case At::kShared:
        if (wants && (index < 2 || one)) Keep(me, kOwner, self);
        Keep(me, kTaken, 0);
        Done(me);
        return true;
    }
    return false;
  }
  static void Done(Runner& me) {
    --me.locks_left;
    me.at = At::kStart;
  }

  void Expand(const World& world) {
    bool moved = false, done = true;
    for (int index = 0; index < kThreads; ++index) {
      done = done && world.threads[index].locks_left == 0;
      if (world.threads[index].kept_back != 0) {
        World w = world;
        LetOne(w, w.threads[index]);
        Visit(w);
        moved = true;
      }
      if (world.threads[index].kept_back + 2u > world.threads[index].stores.size()) continue;
      for (const bool wants : {false, true}) {
        World w = world;
        if (!Step(w, index, wants)) continue;
        Visit(w);
        moved = true;
      }
    }
    stuck += !moved && !done;
  }

  const Mistake mistake_;
  std::unordered_set<std::string> seen_;
  std::vector<World> todo_;
};

bool Fails(Mistake mistake, std::size_t* states = nullptr) {
  Explorer explorer(mistake);
  explorer.Run();
  if (states != nullptr) *states = explorer.states;
  return explorer.both_inside + explorer.stuck != 0;
}

TEST(BiasedLockTest, NoInterleavingLetsTwoThreadsIn) {
  std::size_t states = 0;
  EXPECT_FALSE(Fails(Mistake::kNone, &states));
  EXPECT_GT(states, 10'000u) << "the search has become too small to mean anything";
}

TEST(BiasedLockTest, TheSearchFindsEachMistake) {
  EXPECT_TRUE(Fails(Mistake::kNoBarrier));
  EXPECT_TRUE(Fails(Mistake::kOwnerLooksOnlyOnce));
  EXPECT_TRUE(Fails(Mistake::kOwnerLooksBeforeItSays));
  EXPECT_TRUE(Fails(Mistake::kNobodyWaitsForTheOwner));
  EXPECT_TRUE(Fails(Mistake::kOnlyTheEndOfOwnershipWaits));
  EXPECT_TRUE(Fails(Mistake::kOwnerStaysInsideWhenItFailed));
  EXPECT_TRUE(Fails(Mistake::kOneWordForAll));
}

void LockOften(BiasedLock& lock, std::uint64_t times) {
  for (std::uint64_t i = 0; i < times; ++i) BiasedGuard guard(lock);
}

TEST(BiasedLockTest, AThreadThatLocksInARowBecomesTheOwnerUntilAnotherComes) {
  if (!RegisterProcessBarrier()) GTEST_SKIP() << "the kernel has no barrier for a process";
  BiasedLock lock;
  LockOften(lock, BiasedLock::kFirstStreak - 1);
  EXPECT_FALSE(lock.OwnedByThisThread());
  LockOften(lock, 1);
  EXPECT_TRUE(lock.OwnedByThisThread());
  std::thread([&] { LockOften(lock, 1); }).join();
  EXPECT_FALSE(lock.OwnedByThisThread());
  LockOften(lock, 2 * BiasedLock::kFirstStreak - 1);
  EXPECT_FALSE(lock.OwnedByThisThread()) << "an ownership that did not last makes the next one rarer";
  LockOften(lock, 1);
  EXPECT_TRUE(lock.OwnedByThisThread());
  std::this_thread::sleep_for(BiasedLock::kLasted);
  std::thread([&] { LockOften(lock, 1); }).join();
  LockOften(lock, BiasedLock::kFirstStreak);
  EXPECT_TRUE(lock.OwnedByThisThread()) << "one that lasted does not";
}

TEST(BiasedLockTest, AThirdThreadIsNeverTheOwner) {
  if (!RegisterProcessBarrier()) GTEST_SKIP() << "the kernel has no barrier for a process";
  BiasedLock lock;
  std::vector<std::thread> threads;
  std::array<std::atomic<int>, 3> owned{-1, -1, -1};
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      LockOften(lock, 16 * BiasedLock::kFirstStreak);
      owned[i] = lock.OwnedByThisThread();
      // Its address stays in use until the last one has finished.
      while (owned[2] == -1) std::this_thread::yield();
    });
    while (owned[i] == -1) std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(owned[0], 1);
  EXPECT_EQ(owned[1], 1);
  EXPECT_EQ(owned[2], 0);
}

TEST(BiasedLockTest, TryLockFailsWhileTheOwnerIsInside) {
  BiasedLock lock;
  LockOften(lock, 2 * BiasedLock::kFirstStreak);
  lock.lock();
  std::thread([&] {
    EXPECT_FALSE(lock.try_lock());
    EXPECT_FALSE(lock.try_lock()) << "the ownership has ended, and its holder is still inside";
  }).join();
  lock.unlock();
  std::thread([&] {
    ASSERT_TRUE(lock.try_lock());
    lock.unlock();
  }).join();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

// The owner counts without an instruction that locks the bus, and the others come now and then.
TEST(BiasedLockTest, NoCountIsLostBetweenRealThreads) {
  constexpr std::uint64_t kRounds = 200;
  BiasedLock lock;
  std::uint64_t count = 0;
  std::atomic<bool> over{false};
  std::thread owner([&] {
    while (!over.load(std::memory_order_relaxed)) {
      lock.lock();
      const std::uint64_t before = count;
      std::atomic_signal_fence(std::memory_order_seq_cst);
      count = before + 2;
      lock.unlock();
    }
  });
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    for (bool there = false; !there; std::this_thread::yield()) {
      if (i % 2 == 0) lock.lock();
      if (i % 2 != 0 && !lock.try_lock()) continue;
      const std::uint64_t before = count;
      std::this_thread::yield();
      EXPECT_EQ(count, before);
      count = before;
      lock.unlock();
      there = true;
    }
    // The owner comes back.
    for (int spins = 0; spins < 20'000; ++spins) CpuRelax();
  }
  over = true;
  owner.join();
  EXPECT_EQ(count % 2, 0u);
}

}  // namespace
}  // namespace nd::provider::soft::lock_model
