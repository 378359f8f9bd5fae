#include "lookup_all.h"

#include "ros2s/runtime/nursery.h"

namespace ros2s::fs {
namespace {

constexpr size_t lookups_at_once = 32;

Task<> lookup_one(Namespace& fs, const Call& call, NodeId parent, std::string_view name,
                  Result<Attributes>& result) {
    result = co_await fs.lookup(call, parent, name);
}

}  // namespace

Task<std::vector<Result<Attributes>>> lookup_all(Namespace& fs, Reactor& reactor, const Call& call,
                                                 NodeId parent,
                                                 std::span<const DirectoryEntry> entries) {
    std::vector<Result<Attributes>> results(entries.size());
    Nursery nursery(reactor, lookups_at_once);
    for (size_t i = 0; i < entries.size(); ++i) {
        co_await nursery.spawn(lookup_one(fs, call, parent, entries[i].name, results[i]));
    }
    co_await nursery.join();
    co_return results;
}

}  // namespace ros2s::fs
