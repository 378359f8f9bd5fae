// The bytes of a transaction's arrays. PayloadWriter cuts them into runs. Short runs are published
// with the keys that name them; others are written to new data objects first. Part of an open
// store. Used on one core.
//
// Invariants
// - A data object is written once, by one request, and nothing names it before.
// - A run does not cross the border of a segment, and has checksums of the bytes that are written.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "heads.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::rados {

inline constexpr size_t writes_at_once = 16;

struct Payload {
    explicit Payload(Reactor& reactor) : started(reactor.now()), writes(reactor, writes_at_once) {}
    const Time started;
    std::vector<WrittenRun> runs;
    std::deque<std::string> copies;  // of memory that others can change
    std::deque<Result<>> results;
    std::map<object::ObjectId, std::vector<DataId>> all;  // data that was written
    bool may_be_seen = false;                             // it may have been published
    Nursery writes;

    [[nodiscard]] Result<> check() const {
        for (const Result<>& result : results) ROS2S_TRY(result);
        return {};
    }
};

class PayloadWriter {
  public:
    PayloadWriter(const Env& env, Heads& heads) : env_(env), heads_(heads) {}

    // Cuts the payload into runs and starts to write them. Errors: corrupt, those of the call.
    Task<Result<>> send(const Call& call, std::string space, const object::Transaction& transaction,
                        Payload& payload);
    // Starts to write a run to a new data object, whose name it sets. The bytes outlive the writes.
    Task<> send_run(std::string space, object::ObjectId object, Run& run, ConstBytes bytes,
                    Payload& payload);

  private:
    [[nodiscard]] DataId next_data(bool is_inline);
    Task<> write_run(ObjectName name, ConstBytes bytes, Result<>& result);

    const Env& env_;
    Heads& heads_;
    uint64_t written_ = 0;
};

}  // namespace ros2s::rados
