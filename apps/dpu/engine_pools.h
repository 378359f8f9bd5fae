// EnginePools: pools of the engine behind this DPU, and the file systems in them. An engine that
// goes and comes back is told of once each.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ros2s/connection/direct_pool.h"
#include "ros2s/control/control_server.h"
#include "ros2s/exporter/metrics_server.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::dpud {

class EnginePools {
  public:
    explicit EnginePools(Reactor& reactor) : reactor_(reactor), watching_(reactor, 1) {}
    // One more. Errors: those of DirectPool::open().
    Task<Result<>> open(connection::DirectOptions options, const Log& log, Report& report);
    // Looks after the engine, until stop(): one line in the log when it cannot be reached, one when
    // it can again, and a call of `heard`.
    using Heard = std::function<void(const std::string& pool, bool reachable)>;
    void watch(const Log& log, Heard heard);
    Task<> stop();
    Task<> close();
    // Those whose engine cannot be reached now.
    [[nodiscard]] std::vector<control::AbsentPool> absent() const;
    // What hosts have open without a name stays in the store from here on, for them to open again
    // when this process comes back.
    void leave_orphans() { leaves_orphans_ = true; }

    [[nodiscard]] std::vector<std::string> names() const;
    // Null where there is none of that name.
    [[nodiscard]] object::ObjectStore* find(std::string_view pool);
    // For hosts: what carries that pool's I/O behind this DPU. Empty where there is none of that
    // name.
    [[nodiscard]] std::string keeper(const std::string& pool) const;
    Task<Result<object::ContainerRecord>> create_container(const Call& call, std::string pool,
                                                           object::ContainerProperties properties,
                                                           fs::Owner owner, Report& report);
    Task<Result<std::unique_ptr<fs::FileSystem>>> open(const Call& call, const std::string& pool,
                                                       const std::string& container,
                                                       Report& report);
    // Their counters, labelled by side (engine), pool, and the provider that its engine is reached
    // by; `ros2store_engine_reachable` among them. They live as long as this.
    void add_metrics(std::vector<exporter::Source>& sources) const;

  private:
    struct Pool {
        std::unique_ptr<connection::DirectPool> direct;
        std::string engine;                   // its control plane's address
        std::optional<WallTime> told_absent;  // the log says so; since when
    };
    static Task<> keep_watch(EnginePools& self, Log log, Heard heard);
    void look_at(const std::string& name, Pool& pool, const Log& log, const Heard& heard) const;

    Reactor& reactor_;
    bool leaves_orphans_ = false;
    std::map<std::string, Pool, std::less<>> pools_;
    StopSource stopping_;
    Nursery watching_;
};

}  // namespace ros2s::dpud
