// SPDX-License-Identifier: Apache-2.0
#include "base/turns.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace nd {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr Account kA{1}, kB{2}, kC{3};

// Takes every turn and returns the works in that order; each turn takes a millisecond.
std::string Order(Turns<char>& turns) {
  std::string order;
  while (!turns.empty()) {
    const Turns<char>::Turn turn = turns.Take();
    order += turn.work;
    turns.Charge(turn.account, milliseconds(1));
  }
  return order;
}

TEST(Turns, AccountsTakeTurnsAndTheWorkOfOneKeepsItsOrder) {
  Turns<char> turns;
  for (const char work : {'a', 'b', 'c', 'd'}) turns.Add(kA, work);
  turns.Add(kB, 'X');
  turns.Add(kB, 'Y');
  turns.Add(kC, '1');
  EXPECT_EQ(Order(turns), "aX1bYcd");
  EXPECT_TRUE(turns.empty());
}

// Time counts, not turns: A's turns are four times as long.
TEST(Turns, AccountsGetEqualTime) {
  Turns<char> turns;
  std::map<Account, int> served;
  for (const Account account : {kA, kB}) turns.Add(account, '.');
  for (int i = 0; i < 1000; ++i) {
    const Account account = turns.Take().account;
    ++served[account];
    turns.Charge(account, account == kA ? microseconds(400) : microseconds(100));
    turns.Add(account, '.');
  }
  EXPECT_EQ(served[kA], 200);
  EXPECT_EQ(served[kB], 800);
}

// B has work half of the time. The credit that it saves while it has none lets it use nearly half of the
// time.
TEST(Turns, AccountThatWasAwayGoesFirstForAsLongAsItsCredit) {
  Turns<char> turns;
  const auto a = [&] {
    turns.Add(kA, 'a');
    const Account account = turns.Take().account;
    turns.Charge(account, milliseconds(1));
    return account;
  };
  turns.Add(kB, 'B');  // Both are known.
  turns.Add(kA, 'a');
  EXPECT_EQ(Order(turns), "Ba");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a(), kA);
  for (int i = 0; i < 10; ++i) {
    turns.Add(kA, 'a');
    turns.Add(kB, 'B');
  }
  const std::string order = Order(turns);
  // The last turn of A is charged, too.
  const auto credit = static_cast<std::size_t>(Turns<char>::kCredit / milliseconds(1)) + 1;
  EXPECT_EQ(order.find('a'), credit) << order;
  EXPECT_EQ(order.find("BB", credit), std::string::npos) << "then they take turns: " << order;
}

TEST(Turns, NewAccountHasNoCredit) {
  Turns<char> turns;
  for (int i = 0; i < 3; ++i) turns.Add(kA, 'a');
  EXPECT_EQ(Order(turns), "aaa");
  turns.Add(kA, 'a');
  turns.Add(kA, 'a');
  turns.Add(kC, '1');
  turns.Add(kC, '2');
  EXPECT_EQ(Order(turns), "1a2a");
}

// A pause of the host can last for hours. The account in whose turn it happens is delayed only briefly.
TEST(Turns, PauseIsChargedAtMostOnce) {
  Turns<char> turns;
  turns.Add(kA, 'a');
  turns.Add(kB, 'B');
  turns.Charge(turns.Take().account, std::chrono::hours(5));
  int before = 0;
  for (turns.Add(kA, 'a');; ++before) {
    turns.Add(kB, 'B');
    const Account account = turns.Take().account;
    if (account == kA) break;
    turns.Charge(account, milliseconds(1));
  }
  EXPECT_LE(before, 102);
}

TEST(Turns, IdleAccountsAreForgottenAndKeepNoWork) {
  Turns<char> turns;
  turns.Add(kA, 'a');
  turns.Add(kA, 'b');
  for (std::uint64_t i = 10; i < 1000; ++i) turns.Add(Account{i}, '.');
  std::string order = Order(turns);
  EXPECT_EQ(order.size(), 992u);
  EXPECT_LT(order.find('a'), order.find('b'));
  for (std::uint64_t i = 2000; i < 3000; ++i) turns.Add(Account{i}, '.');
  EXPECT_EQ(Order(turns).size(), 1000u);
}

}  // namespace
}  // namespace nd
