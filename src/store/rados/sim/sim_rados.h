// SimRados: a RADOS cluster in virtual time, and its clients.
//
// Fault model
// - A change of one object is atomic and durable. Requests take effect in any order: each arrives
//   after a random delay, also those of one client on different objects, and its reply takes
//   another.
// - A client dies at a chosen request: the request is lost, or it takes effect and its reply is
//   lost, or it takes effect late, up to seconds afterwards, when others have gone on. From then on
//   nothing that the client does has an effect; its requests fail with `cancelled`.
// - A client that lives is misled once: a change gets no answer, and is lost, or done now or later;
//   or it is done, and refused, as when librados repeats a request whose answer was lost. A failed
//   condition is the refusal only of steps of transactions over several objects: their locks and
//   records show what was done, whatever others do meanwhile.
// - A range of keys is read in pages of at most 1024, between which others change the object.
//   Namespaces are listed in no order.
// - A full cluster refuses what adds bytes or an object, unless it is forced. Changes of keys are
//   not counted, as in Ceph.
// - Not simulated: clusters that lose or damage what they have acknowledged; that is Ceph's part.
//
// Used on one core.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ros2s/rados/pool.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::rados {

class SimRados {
  public:
    explicit SimRados(Reactor& reactor) : reactor_(reactor), late_(reactor, late_max) {}
    // Waits for the late requests of dead clients.
    Task<> close() { co_await late_.join(); }

    struct Object {
        std::map<std::string, std::string> omap;
        std::string data;
    };
    [[nodiscard]] std::map<ObjectName, Object>& objects() { return objects_; }
    void set_full(bool is_full) { is_full_ = is_full; }

  private:
    friend class SimPool;
    static constexpr size_t late_max = 64;
    [[nodiscard]] Result<> apply(const Change& change);
    // Nobody hears what becomes of it: nothing, or it takes effect, now or late.
    void apply_perhaps(const Change& change);
    Task<> apply_late(Change change, std::string data, Duration delay);

    Reactor& reactor_;
    std::map<ObjectName, Object> objects_;
    bool is_full_ = false;
    Nursery late_;
};

// One client's view of the only pool.
class SimPool final : public Pool {
  public:
    struct Options {
        Duration delay_max{};  // of a request, and of a reply; 0: it never suspends
        bool has_omap = true;
        std::string name = "main";
        std::optional<uint64_t> dies_at;  // the number of the request, from 0
    };
    SimPool(SimRados& cluster, Options options) : cluster_(cluster), options_(options) {}

    // The number of requests that it has made.
    [[nodiscard]] uint64_t requests() const { return requests_; }
    [[nodiscard]] bool is_dead() const { return is_dead_; }
    void die_at(uint64_t request) { options_.dies_at = request; }
    // At the first change from that request on.
    void mislead_at(uint64_t request) { misled_at_ = request; }
    [[nodiscard]] bool is_misled() const { return is_misled_; }

    [[nodiscard]] std::string name() const override { return options_.name; }
    [[nodiscard]] std::string description() const override {
        return "simulated pool '" + name() + "'";
    }
    Task<Result<>> apply(const Change& change) override;
    Task<Result<ReadReply>> read(const Read& read) override;
    Task<Result<uint64_t>> read_data(const ObjectName& object, uint64_t offset,
                                     Bytes into) override;
    [[nodiscard]] std::unique_ptr<Listing> list(std::string space) override;
    Task<Result<object::PoolSpace>> space() override;

  private:
    friend class SimListing;
    Task<> delay();
    // False: the client is dead, or dies now. A change is then lost, or takes effect now or late.
    [[nodiscard]] bool survives(const Change* change);
    // What a client is told that is misled, if it can be now.
    [[nodiscard]] Result<> mislead(const Change& change);

    SimRados& cluster_;
    Options options_;
    std::optional<uint64_t> misled_at_;
    uint64_t requests_ = 0;
    bool is_dead_ = false, is_misled_ = false;
};

}  // namespace ros2s::rados
