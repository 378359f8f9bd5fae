// The fixture of this module's tests: a server as a DPU composes it, over the oracle, on a reactor
// of its own; certificates; and clients on another reactor.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "control_client.h"
#include "control_server.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/pki/authority.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s::control {

using namespace std::chrono_literals;

inline constexpr Uuid alice{{1}};
inline constexpr Uuid mallory{{2}};
// The time limit for awaited events, for a busy machine.
inline constexpr auto patience = 60s;

// The date for certificates.
pki::Seconds now();
// co_await just(f): calls it in a task of its own.
template <class F>
Task<> just(F& function) {
    function();
    co_return;
}
// Runs a plain function on the reactor's core and waits.
template <class F>
void run_on(OsReactor& reactor, F function) {
    run_blocking(reactor, [&] { return just(function); });
}
inline Task<> wait_for(Reactor& reactor, Duration duration) {
    co_await sleep_for(reactor, duration);
}

// Polls until `happened`, or gives up.
template <class F>
[[nodiscard]] bool eventually(OsReactor& reactor, F happened) {
    const Time until = reactor.now() + patience;
    while (reactor.now() < until) {
        if (happened()) return true;
        run_blocking(reactor, [&] { return wait_for(reactor, 2ms); });
    }
    return happened();
}

class TemporaryDirectory {
  public:
    TemporaryDirectory();
    TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
    ~TemporaryDirectory();
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
};

// A development authority with a certificate for the server and one for each client.
class Certificates {
  public:
    // A copy of those that this process has made once: their files are flushed to the disk, which
    // takes longer than most tests.
    Certificates();
    struct New {};
    explicit Certificates(New);
    [[nodiscard]] pki::Identity of(const std::string& name) const;
    void add(const std::string& name);
    [[nodiscard]] std::string directory() const { return base_.path() + "/certs"; }

  private:
    TemporaryDirectory base_;
};

// Lines of a log, from any thread.
class Lines {
  public:
    [[nodiscard]] Log log();
    // Those that contain the text.
    [[nodiscard]] std::vector<std::string> with(std::string_view text) const;

  private:
    mutable std::mutex mutex_;
    std::vector<std::string> lines_;
};

std::unique_ptr<OsReactor> make_reactor(const char* name);

// One pool, "pool", on the oracle. Mounting the container "slow" takes until the call is stopped.
// Mounts of the container "leased" lend leases.
class OnePool final : public PoolCatalog, public session::FileSystemSource {
  public:
    explicit OnePool(Reactor& reactor) : reactor_(reactor), store_(reactor) {}
    [[nodiscard]] std::vector<std::string> names() const override { return {"pool"}; }
    [[nodiscard]] object::ObjectStore* find(std::string_view pool) override {
        return pool == "pool" ? &store_ : nullptr;
    }
    [[nodiscard]] std::string path(const std::string&) const override { return "memory"; }
    Task<Result<object::ContainerRecord>> create_container(
        const Call& call, std::string /*subject*/, std::string pool,
        object::ContainerProperties properties, fs::Owner owner, Report& report) override;
    Task<Result<std::unique_ptr<fs::FileSystem>>> open(const Call& call,
                                                       const session::MountedContainer& which,
                                                       Report& report) override;
    [[nodiscard]] bool lends(const std::string&, const std::string& container) const override {
        return container == "leased";
    }
    // The outcomes of openings of "slow".
    Counter slow_begun, slow_stopped, slow_late;

  private:
    Reactor& reactor_;
    object::MemoryStore store_;
};

// Everything, for the clients of tests of other things, in the pools that they name.
[[nodiscard]] rights::Subjects all_rights();

struct RigOptions {
    session::TicketTable::Options tickets{};
    session::SessionTable::Options sessions{};
    ControlOptions control{};
    rights::Subjects access = all_rights();
};

class Rig {
  public:
    explicit Rig(RigOptions options = {});
    Rig& operator=(Rig&&) = delete;
    ~Rig();

    // Runs on the client's or the server's core and waits.
    template <class F>
    auto here(F function) {
        return run_blocking(*client_reactor, function);
    }
    template <class F>
    auto there(F function) {
        return run_blocking(*server_reactor, function);
    }
    // Stops the server, and starts another one at the same address with the same tables.
    void restart();
    // A plain function on the server's core.
    template <class F>
    void do_there(F function) {
        run_on(*server_reactor, function);
    }
    [[nodiscard]] std::string address() const { return server->addresses().front(); }
    [[nodiscard]] int port() const;
    [[nodiscard]] std::unique_ptr<ControlClient> client(const std::string& name = "alice");
    // Certificates "host-0", …, and their tenant "batch".
    std::vector<std::string> hosts_of_one_tenant(int count);
    [[nodiscard]] static SessionOptions wanted(Uuid client = alice);
    // Opens a session and mounts its container "c".
    OpenedSession open(ControlClient& client);
    session::MountId mount(ControlClient& client, session::SessionId session,
                           const std::string& container = "c", bool read_only = false);

    Certificates certificates;
    Lines lines;
    std::unique_ptr<OsReactor> server_reactor = make_reactor("server");
    std::unique_ptr<OsReactor> client_reactor = make_reactor("client");
    ThreadPool blocking{4};
    OnePool pool{*server_reactor};
    admission::Accounts accounts{*server_reactor};
    admission::Admission admission{*server_reactor, {}, &accounts};
    session::TicketTable tickets;
    session::SessionTable sessions;
    session::Mounts mounts;
    std::unique_ptr<ControlServer> server;

  private:
    ControlOptions options_;
    Task<> start(Report& report);
    Task<> stop();
};

}  // namespace ros2s::control
