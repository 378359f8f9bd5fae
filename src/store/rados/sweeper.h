// Sweeper: removes the remains of crashed clients: unreferenced data, locks and records of
// abandoned transactions, notes, and objects without entries. At an interval it does so in all
// containers. It also removes the replies to clients that are idle for a day. Part of an open
// store. Used on one core.
//
// Invariants
// - Data is removed only if no segment named it after a change of its object's head, and its writer
//   publishes nothing so old any more.
// - A record or decision is removed only after its transaction is applied or aborted everywhere.
// - Replies are removed only if no request has used them since they were seen first.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "containers.h"
#include "heads.h"
#include "replies.h"
#include "ros2s/base/metrics.h"
#include "ros2s/rados/rados_store.h"

namespace ros2s::rados {

class Sweeper {
  public:
    Sweeper(const Env& env, Coordinator& coordinator, Heads& heads, Containers& containers,
            Replies& replies)
        : env_(env),
          coordinator_(coordinator),
          heads_(heads),
          containers_(containers),
          replies_(replies),
          sweeping_(env.reactor, 1) {}
    // Sweeps at RadosOptions::sweep_every from now on.
    void start();
    Task<> close();

    // RadosStore::sweep().
    Task<Result<>> sweep(const Call& call, object::ContainerId container, Report& report,
                         Orphans* seen);
    void visit_metrics(const MetricVisitor& visit) const;

  private:
    Task<> keep_sweeping();
    using SeenOrphans = std::map<object::ContainerId, Orphans>;
    Task<Result<>> sweep_all(const Call& call, SeenOrphans& seen, Report& report);
    // `failed`: the name of the object that caused the error, if one did.
    Task<Result<>> sweep_container(const Call& call, object::ContainerId container, Orphans* seen,
                                   std::string& failed);
    // `seen` may be null. Adds to `still` the orphans that were seen and are not removed.
    Task<Result<>> sweep_data(const Call& call, std::string space, object::ObjectId object,
                              std::vector<DataId> data, const Orphans* seen, Orphans& still);
    // Removes from `orphans` the data that segments of the object name. Reads the pages of segments
    // one after the other, so they may differ in age.
    Task<Result<>> forget_named(const Call& call, std::string space, object::ObjectId object,
                                std::set<DataId>& orphans);
    // Changes the object's head when no transaction locks it. False: others changed it before each
    // attempt.
    Task<Result<bool>> touch(const Call& call, std::string space, object::ObjectId object);
    Task<Result<>> sweep_object(const Call& call, std::string space, object::ObjectId object);
    // `page`: the read that found the notes.
    Task<Result<>> sweep_notes(const Call& call, Read page,
                               std::map<std::string, std::string> noted);
    // Unlocks the object if it is locked. Otherwise removes it if nothing else is in it.
    Task<Result<>> unlock_or_remove(const Call& call, ObjectName name);
    // Aborts or applies the transactions of the records. False: some were pending. They may have
    // been committed meanwhile, so the caller reads again.
    Task<Result<bool>> end_records(const Call& call, ObjectName object, ReadReply page);
    // Ends the unnamed transactions of a store of an earlier version, and removes their records.
    Task<Result<>> sweep_log(const Call& call, std::string space, std::string log, WallTime before);
    // Removes the replies to one client.
    Task<Result<>> sweep_replies(const Call& call, std::string space, std::string name,
                                 const Orphans& seen, Orphans& still);
    // Waits as long as `count` objects take at the sweep rate. Errors: cancelled, deadline.
    Task<Result<>> pace(const Call& call, size_t count);

    const Env& env_;
    Coordinator& coordinator_;
    Heads& heads_;
    Containers& containers_;
    Replies& replies_;
    Counter sweeps_, failed_sweeps_;
    StopSource closing_;
    Nursery sweeping_;  // keep_sweeping()
};

}  // namespace ros2s::rados
