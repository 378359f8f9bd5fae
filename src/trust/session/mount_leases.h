// MountLeases: the leases of a mount's file system that its client keeps (fs/leases.h). The file
// system is the mount's alone and has the leases from its store; what the store recalls is recalled
// here, and the store is answered when the client has answered or its time is over.
//
//     client: listen ──► news: recalled leases, the time for which the others are held
//     store:  recall ──► news to the client ──► its next listen ──► the store is answered
//
// The client counts the time of a news from the sending of its request, and this side from the
// answer. Neither is longer than the file system's own leases. A client that does not answer loses
// all, and begins anew. Its tenant gets no leases for a minute if others waited too long for it
// (SlowAnswers): sooner than the store would ban this process for that.
//
// Owned by its mount; used on the mount's core. end() before destruction.
#pragma once
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "ros2s/base/latency_histogram.h"
#include "ros2s/fs/leases.h"
#include "ros2s/object/lease_holders.h"
#include "ros2s/object/slow_answers.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/stop.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::session {

struct Listening {
    bool begins = false;  // the client keeps nothing
    bool ends = false;    // the same, and does not want any
    uint64_t heard = 0;   // the last news, on which it has acted
};
struct LeaseNews {
    bool lost = false;  // all leases; the client begins anew
    uint64_t number = 0;
    Duration held_for{};  // from the sending of the request
    std::vector<Leased> recalled{};
};

// The answers of all clients of a server, by tenant.
class TenantAnswers {
  public:
    // Others have waited since `begun` for an answer, which is there or will not come.
    void note(uint64_t tenant, Time begun, Time now);
    [[nodiscard]] bool is_banned(uint64_t tenant, Time now) const {
        const auto found = tenants_.find(tenant);
        return found != tenants_.end() && found->second.is_banned(now);
    }
    // The tenants that get no leases now, and until when.
    [[nodiscard]] std::vector<std::pair<uint64_t, Time>> barred(Time now) const;

    object::LeaseCounters counters;
    LatencyHistogram times;  // how long others waited for each

  private:
    std::map<uint64_t, object::SlowAnswers> tenants_;
};

class MountLeases final : private fs::LeaseObserver {
  public:
    // Of one news. Listening is answered after this time without news.
    static constexpr Duration held_most = std::chrono::seconds(1);
    static constexpr Duration listening_max = std::chrono::milliseconds(300);
    static constexpr size_t recalled_max = 512;

    MountLeases(Reactor& reactor, fs::LeaseSet& leases, TenantAnswers& answers, uint64_t tenant);
    ~MountLeases() override;
    MountLeases& operator=(MountLeases&&) = delete;

    Task<LeaseNews> listen(const Call& call, const Listening& listening);
    // Replies to the client come with leases.
    [[nodiscard]] bool is_lending() const;
    // Returns when the client holds nothing any more, and no recall waits here.
    Task<> end();

    // ---- for operators
    [[nodiscard]] Time since() const { return since_; }
    // At most: what the file system holds.
    [[nodiscard]] size_t nodes() const { return is_lending() ? leases_.count() : 0; }
    [[nodiscard]] size_t recalls() const { return recalls_.size(); }
    [[nodiscard]] Time recalled() const;  // the oldest of these
    // Ends the client's leases within held_most. It may begin again.
    void evict();
    // Called when the client has not answered a recall in time.
    std::function<void(Duration waited)> on_silence;

  private:
    // Waits for the client's answer.
    struct Recall {
        std::span<const Leased> leases;
        Time begun{};
        size_t told = 0;
        uint64_t told_in = 0;  // the news with the last of them; 0: not all are told
        StopSource answered{};
    };
    Task<> lost(std::span<const Leased> leases) override;
    Task<> lost_all() override;
    Task<> answer_to(Recall& recall);
    Task<> lose_all();
    void wake();
    // The recalls that were told in this news.
    void finish(uint64_t heard);
    void finish_all();
    [[nodiscard]] bool has_untold() const;
    [[nodiscard]] LeaseNews next_news();

    Reactor& reactor_;
    fs::LeaseSet& leases_;
    TenantAnswers& answers_;
    const uint64_t tenant_;
    bool is_observing_ = false;  // since the client first listened: then the store is asked
    bool is_begun_ = false;      // and has not lost all
    uint64_t last_news_ = 0, last_listening_ = 0;
    Time since_{};  // when the client began
    Time until_{};  // it may use leases until then
    std::vector<Recall*> recalls_;
    size_t running_ = 0;  // calls of the file system's leases
    Event idle_;
    StopSource* listening_ = nullptr;  // ends the wait of the client's last request
};

}  // namespace ros2s::session
