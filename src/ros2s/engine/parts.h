// EngineStore::Parts: what an open pool is made of, in dependency order.
#pragma once
#include <optional>

#include "commit_rules.h"
#include "containers.h"
#include "engine_store.h"
#include "lister.h"
#include "reader.h"
#include "recovery.h"
#include "ros2s/runtime/nursery.h"
#include "writer.h"

namespace ros2s::engine {

class EngineStore::Parts {
  public:
    Parts(const Env& environment, Devices pool_devices, const Superblock& pool_superblock,
          std::unique_ptr<Index> pool_index, const EngineOptions& pool_options);

    Env env;
    EngineOptions options;
    CommitRules rules;
    Superblock superblock;
    Devices devices;
    std::unique_ptr<Index> index;
    State state;
    Journal journal;
    Cores cores;
    Publisher publisher;
    uint64_t replayed_groups = 0;
    uint64_t recovery_cache_bytes_max = 0;
    std::string damage;
    std::optional<Committer> committer;
    std::optional<Checkpointer> checkpointer;
    object::PinTable pins;
    Reader reader;
    Lister lister;
    std::optional<Writer> writer;
    std::optional<Containers> containers;
    std::optional<Nursery> background;
    StopSource closing;
    bool is_closed = false;

    [[nodiscard]] std::vector<device::BlockDevice*> device_pointers() const;
    [[nodiscard]] std::string read_only_reason() const;
    void add_space(uint32_t device);
    void start(const Committer::Chain& chain, uint64_t checkpoint_number);
    Task<Result<>> recover(Report& report);
    Task<> give_back_at_rest();
    // Writes a checkpoint of what has been recovered so far, all of which is durable.
    Task<Result<>> checkpoint_recovered(const Committer::Chain& chain, uint64_t& number,
                                        Report& report);
    // Recovery obeys the memory's cap: caches are trimmed, and what has changed goes to the index.
    // `durable`: all that was replayed so far is. Errors: no_memory, where it may not be written.
    Task<Result<>> relieve(const Committer::Chain& chain, Recovered& recovered, bool durable,
                           Report& report);
    Task<> close_parts();
    // Each core's own handles of the devices from number `first` on.
    Task<Result<>> open_handles(size_t first, Report& report);
};

}  // namespace ros2s::engine
