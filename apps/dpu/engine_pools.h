// EnginePools: pools of the engine behind this DPU, and the file systems in them.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "ros2s/direct/direct_pool.h"
#include "ros2s/exporter/metrics_server.h"
#include "ros2s/fs/file_system.h"

namespace ros2s::dpud {

class EnginePools {
  public:
    explicit EnginePools(Reactor& reactor) : reactor_(reactor) {}
    // One more. Errors: those of DirectPool::open().
    Task<Result<>> open(direct::DirectOptions options, const Log& log, Report& report);
    Task<> close();
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
    // by. They live as long as this.
    void add_metrics(std::vector<exporter::Source>& sources) const;

  private:
    Reactor& reactor_;
    bool leaves_orphans_ = false;
    std::map<std::string, std::unique_ptr<direct::DirectPool>, std::less<>> pools_;
};

}  // namespace ros2s::dpud
