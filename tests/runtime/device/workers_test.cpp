// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/workers.h"

#include <catch2/catch.hpp>
#include <set>
#include <stdexcept>

using fanout::Signal;
using fanout::Workers;

TEST_CASE("every lane runs once, each in a thread of its own, lane 0 in the caller's") {
  Workers workers(3);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> calls{0};
    std::thread::id threads[3];
    workers.run(3, [&](int lane, int used) {
      CHECK(used == 3);
      threads[lane] = std::this_thread::get_id();
      ++calls;
    });
    REQUIRE(calls == 3);
    CHECK(threads[0] == std::this_thread::get_id());
    CHECK(std::set<std::thread::id>(threads, threads + 3).size() == 3);
  }
}

TEST_CASE("no more lanes are used than there are, and one lane needs no other thread") {
  Workers workers(2);
  std::atomic<int> calls{0};
  workers.run(8, [&](int, int used) {
    CHECK(used == 2);
    ++calls;
  });
  CHECK(calls == 2);
  workers.run(1, [&](int lane, int used) {
    CHECK(lane == 0);
    CHECK(used == 1);
  });
}

TEST_CASE("a call from inside a lane, or from a second thread meanwhile, works alone") {
  Workers workers(2);
  std::atomic<int> inner{0};
  workers.run(2, [&](int, int) {
    workers.run(2, [&](int lane, int used) {
      CHECK(lane == 0);
      CHECK(used == 1);
      ++inner;
    });
  });
  CHECK(inner == 2);
}

TEST_CASE("the exception of the lowest lane is rethrown after all lanes are done") {
  Workers workers(3);
  std::atomic<int> finished{0};
  const auto work = [&](int lane, int) {
    if (lane > 0) throw std::runtime_error("lane " + std::to_string(lane));
    ++finished;
  };
  CHECK_THROWS_WITH(workers.run(3, work), "lane 1");
  CHECK(finished == 1);
  std::atomic<int> calls{0};
  workers.run(3, [&](int, int) { ++calls; });
  CHECK(calls == 3);
}

TEST_CASE("a signal wakes who has parked") {
  Signal signal;
  std::thread waiter([&] { signal.wait_until_differs_from(0); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // long enough to park
  signal.advance();
  waiter.join();
  CHECK(signal.value() == 1);
}
