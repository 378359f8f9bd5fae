// RadosTrial: one seed's test of Dfs on RadosStore on a simulated cluster. In each round a client
// dies at one of its requests, in the middle of the operations of two applications, while another
// client works in the same directories. Requests on different objects take effect in any order; the
// last one of the dead client is lost, done, or done seconds later. Half of the clients that die
// were misled before: they got no answer or a wrong one to a change, which ended at least the work
// that it was part of. A third client, or the other
// one, then finds everything that was acknowledged and nothing in part; half of the applications
// repeat their last operation there, which takes effect once. Clients also come back after a day,
// when sweeps have removed the replies to them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hasty_pool.h"
#include "tree_work.h"

namespace ros2s::sim {

struct RadosTrialOptions {
    uint64_t rounds = 4;
    std::optional<RadosRule> missing;  // of all clients
};

struct RadosReport {
    std::vector<std::string> problems;  // empty: all guarantees held
    uint64_t deaths = 0;
    uint64_t misled = 0;           // of these, of clients that were misled before, or only misled
    uint64_t in_mount = 0;         // of these, before the client's file system was there
    uint64_t after_a_day = 0;      // of these, with applications that came back then
    uint64_t operations = 0;       // that were acknowledged
    uint64_t repeated = 0;         // of these, by another client
    uint64_t requests = 0;         // of the clients that died
    uint64_t clients_dropped = 0;  // whose replies a sweep has removed
};

[[nodiscard]] RadosReport run_rados_trial(uint64_t seed, const RadosTrialOptions& options);

}  // namespace ros2s::sim
