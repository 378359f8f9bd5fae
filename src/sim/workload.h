// Workload: the requests of simulated clients to a store, drawn from a seed: transactions of all
// kinds over shared keys, with conditions; reads of what others write; repetitions of operation
// ids, also two at once, and after a restart. The results are recorded in a History.
#pragma once
#include <map>
#include <set>
#include <vector>

#include "history.h"
#include "ros2s/base/random.h"

namespace ros2s::sim {

struct WorkloadOptions {
    size_t clients = 8;
    uint64_t array_blocks = 12;     // shared arrays are mostly within these
    bool far_writes = true;         // some cross the border of a 1 MiB segment
    bool large_writes = true;       // some are 128 KiB
    bool long_array = false;        // one shared array has more segments than are looked up singly
    uint64_t hot_percent = 30;      // of the transactions write whole blocks of a few hot arrays
    uint64_t abandon_percent = 10;  // of the transactions that a crash left open are not sent again
    bool deferred = false;          // TrialOptions::deferred
};

// Drawn from the seed like everything else. If connections are lost there is no long array: a
// complete read of it takes so many frames that it would never succeed.
[[nodiscard]] WorkloadOptions draw_workload(Random& random, bool loses_connections);

// The witness of each client, and the columns to query.
[[nodiscard]] std::vector<AkeyAddress> workload_witnesses(const WorkloadOptions& options);
[[nodiscard]] std::vector<Column> workload_columns(const WorkloadOptions& options);

// The shared state of a run of the clients. `stopped`: the machine has crashed; replies that arrive
// from then on never reached a client.
struct Run {
    Reactor& reactor;
    std::vector<Reactor*> cores;  // for the clients, in turn; `reactor` is the first
    object::ObjectStore& store;
    object::ContainerId container;
    const bool& crashed;
    const bool& failing;                    // Rig::failing()
    std::optional<Duration> reply_lease{};  // Rig::reply_lease()
    bool wind_down = false;                 // set from outside: clients finish their request

    // True if the client has the result of its request.
    [[nodiscard]] bool is_known(const auto& result) const {
        return !crashed && (result.has_value() || !failing);
    }
};

class WorkloadClient {
  public:
    WorkloadClient(size_t number, uint64_t seed, const WorkloadOptions& options, History& history);

    // Works until the run crashes or winds down, or `requests` are done. Starts with what the last
    // run left open.
    Task<> work(Run& run, uint64_t requests);

  private:
    struct LastRead {
        object::Epoch epoch{};
        uint64_t size = 0;
    };
    Task<> work_here(Run& run, uint64_t requests);
    Task<> resolve_pending(Run& run);
    Task<> send(Run& run);
    Task<> repeat_last(Run& run);
    Task<> look_what_came(Run& run, const std::shared_ptr<Issued>& issued);
    Task<> read(Run& run);
    Task<> sync(Run& run);

    // Every second client only writes its own array, mostly whole blocks, in single operations.
    [[nodiscard]] bool is_plain() const { return number_ % 2 == 1; }
    Batch make_transaction();
    void add_operation(Batch& batch);
    void add_hot_write(Batch& batch);
    void add_long_operation(Batch& batch);
    void add_condition(Batch& batch);
    [[nodiscard]] AkeyAddress shared_place();
    [[nodiscard]] AkeyAddress hot_place();
    [[nodiscard]] uint64_t offset();
    [[nodiscard]] uint64_t length();

    size_t number_;
    Random random_;
    WorkloadOptions options_;
    History& history_;
    Reactor* core_ = nullptr;  // while it works
    Uuid id_;
    AkeyAddress witness_;
    uint64_t sequence_ = 0;
    // The last acknowledged transaction, to be repeated sometimes.
    std::shared_ptr<Issued> last_;
    std::set<object::Epoch> own_;            // of its deferred transactions
    std::map<AkeyAddress, LastRead> known_;  // from its own reads; may be out of date
};

}  // namespace ros2s::sim
