// Network: the simulated provider: domains, links between them and what goes wrong on links, in
// virtual time and from the world's seed.
//
// Fault model
// - Frames of a connection arrive whole, in order, after a random delay and the time that their
//   bytes take; a receiver that does not read fills the link's buffer and stops the sender.
// - A connection may be lost at any frame, at random or on demand, also after a given number of
//   bytes: in the middle of a transfer. What was under way is lost; each side hears of it later.
// - A process (a domain's name) may die: its connections are lost, nobody is told. It may stall:
//   nothing that comes to it is read, nothing it sends leaves.
// - A bit of a frame may arrive wrong, as it does behind a bad switch or memory: no provider does
//   that by itself, and whoever needs to know has to compare checksums.
// What it does not do: reorder or duplicate within a connection, as no provider does.
//
// All cores belong to one sim::World, which is one thread: so the state of a link is shared.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ros2s/base/random.h"
#include "ros2s/fabric/domain.h"

namespace ros2s::fabric::sim {

struct LinkModel {
    Duration delay_least = std::chrono::microseconds(5);
    Duration delay_most = std::chrono::microseconds(20);
    uint64_t bytes_per_second = uint64_t{10} << 30;
    uint64_t buffer_bytes = uint64_t{256} << 10;
    size_t frame_bytes_max = ~size_t{0};  // of the fabric's own bound
    Duration loss_noticed_after = std::chrono::milliseconds(20);
    uint32_t lose_one_in = 0;  // frames, after which the connection is lost; 0: never
    uint32_t flip_one_in = 0;  // frames, of which one bit arrives wrong; 0: never
};

class Link;
class SimListener;

class Network {
  public:
    explicit Network(Random& random, LinkModel model = {}) : random_(random), model_(model) {}
    Network(const Network&) = delete;
    Network& operator=(const Network&) = delete;
    ~Network();

    // `process` names who opens it, for faults; `provider` is what it claims to speak. Addresses
    // are any words. The network outlives its domains.
    [[nodiscard]] std::unique_ptr<Domain> open_domain(Reactor& core, std::string process,
                                                      std::string provider = "sim");

    // Every connection of the process is lost. Those made later work.
    void kill(const std::string& process);
    // The same once so many more bytes have come to it or left it.
    void kill_after(const std::string& process, uint64_t bytes);
    void stall(const std::string& process, bool stalled);
    void set_model(const LinkModel& model) { model_ = model; }
    // Bits that arrived wrong so far.
    [[nodiscard]] uint64_t flips() const { return flips_; }

  private:
    friend class Link;
    friend class SimDomain;
    friend class SimListener;
    friend class SimWire;
    struct Process {
        bool stalled = false;
        bool dies = false;
        uint64_t dies_after = 0;
    };
    [[nodiscard]] Duration draw_delay();
    // Counts what passed; true when the connection is lost by it.
    [[nodiscard]] bool moved(const std::string& process, uint64_t bytes);
    void add(std::shared_ptr<Link> link);
    void remove(const Link& link);

    Random& random_;
    LinkModel model_;
    uint64_t flips_ = 0;
    std::map<std::string, Process> processes_;
    std::map<std::string, SimListener*> listeners_;
    std::vector<std::shared_ptr<Link>> links_;
};

}  // namespace ros2s::fabric::sim
