// Sessions and mounts of one container, on the simulated clock over the oracle.
#pragma once
#include <gtest/gtest.h>

#include "mounts.h"
#include "ros2s/foreign/open_local_directory.h"
#include "ros2s/fs/container.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/sim/world.h"
#include "sessions.h"

namespace ros2s::session {

using namespace std::chrono_literals;

inline SessionRequest request(std::string subject = "CN=alice") {
    return {.subject = std::move(subject),
            .client = Uuid{{1}},
            .purpose = Purpose::link,
            .pool = "pool",
            .program = "test"};
}

// One container, "c", one that does not answer, and "shared", a directory whose calls are on
// threads that tenants share; counts the openings.
class OneContainer final : public FileSystemSource {
    Reactor& reactor_;

  public:
    OneContainer(Reactor& reactor, object::ObjectStore& store) : reactor_(reactor), store_(store) {}
    Task<Result<>> prepare() {
        Report report;
        const Call call;
        ROS2S_CO_TRY_ASSIGN(const auto made,
                            co_await store_.create_container(call, {.label = "c"}));
        container_ = made.id;
        co_return co_await fs::Dfs::format(call, store_, container_, reactor_, {}, report);
    }
    Task<Result<std::unique_ptr<fs::FileSystem>>> open(const Call& call,
                                                       const MountedContainer& which,
                                                       Report& report) override {
        const std::string& container = which.container;
        ++opens;
        if (container == "silent") {
            (void)co_await sleep_for(reactor_, 1h, call.stop);
            co_return report.fail(Code::deadline, "nobody answers");
        }
        if (container == "shared") {
            co_return co_await foreign::open_local_directory(directory, reactor_, *blocking, report,
                                                             {.turns = &turns}, call);
        }
        if (container != "c") co_return report.fail(Code::not_found, "there is no such container");
        co_return co_await fs::open_container(call, reactor_, store_, "the pool", "c", {}, report);
    }
    int opens = 0;
    std::string directory = ::testing::TempDir();
    BlockingPool* blocking = nullptr;
    ThreadTurns turns{reactor_, 2};

  private:
    object::ObjectStore& store_;
    object::ContainerId container_;
};

class Recorder final : public SessionWatcher {
  public:
    explicit Recorder(Reactor& reactor) : reactor_(reactor) {}
    Task<> session_ending(Session& session) override {
        co_await sleep_for(reactor_, 1s);
        ended.push_back(session.id.value);
    }
    std::vector<uint64_t> ended;

  private:
    Reactor& reactor_;
};

struct Rig {
    explicit Rig(uint64_t seed = 1,
                 Mounts::Options bounds = {.per_session_max = 3, .handles_max = 4, .nodes_max = 5})
        : world(seed),
          store(world.core(), {.delay_max = 50us}),
          source(world.core(), store),
          tickets(world.core(), {.entropy = [this] { return world.random().next(); }}),
          sessions(world.core(), tickets,
                   {.sessions_max = 8, .per_subject_max = 4, .accounts = &accounts}),
          recorder(world.core()),
          mounts(world.core(), sessions, source, bounds) {
        sessions.watch(recorder);
        source.blocking = &world.blocking();
        EXPECT_TRUE(world.run(source.prepare()));
    }
    ~Rig() { world.run(sessions.close_all()); }
    Rig& operator=(Rig&&) = delete;

    sim::World world;
    object::MemoryStore store;
    OneContainer source;
    TicketTable tickets;
    admission::Accounts accounts{world.core()};
    SessionTable sessions;
    Recorder recorder;
    Mounts mounts;
};

}  // namespace ros2s::session
