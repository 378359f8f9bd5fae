// Network: the simulated provider: domains, links between them, and faults on the links, in virtual
// time and decided by the world's seed.
//
// Fault model
// - Frames of a connection arrive complete and in order, after a random delay and the time that
//   their bytes take. A receiver that does not read fills the link's buffer, which stops the
//   sender.
// - A connection may be lost at any frame, at random or on demand, also after a given number of
//   bytes: in the middle of a transfer. Frames in transit are lost. Each side is notified later.
// - A process (a domain's name) may die: its connections are lost without notice. It may stall: it
//   reads nothing, and nothing that it sends leaves.
// - A bit of a frame may be wrong on arrival, as behind a bad switch or memory. No provider detects
//   that by itself. A user that must detect it has to compare checksums. It does not reorder or
//   duplicate within a connection, as no provider does.
//
// All cores belong to one sim::World, which is one thread. So the state of a link is shared.
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
    size_t frame_bytes_max = ~size_t{0};  // within the fabric's own bound
    Duration loss_noticed_after = std::chrono::milliseconds(20);
    uint32_t lose_one_in = 0;  // frames, after which the connection is lost; 0: never
    uint32_t flip_one_in = 0;  // frames, of which one has a wrong bit; 0: never
};

class Link;
class SimListener;

class Network {
  public:
    explicit Network(Random& random, LinkModel model = {}) : random_(random), model_(model) {}
    Network& operator=(Network&&) = delete;
    ~Network();

    // `process` names the opener, for faults; `provider` is the name that it claims. Addresses are
    // any words. The network outlives its domains.
    [[nodiscard]] std::unique_ptr<Domain> open_domain(Reactor& core, std::string process,
                                                      std::string provider = "sim");

    // Loses every connection of the process. Later connections work.
    void kill(const std::string& process);
    // The same after the process has received and sent this many more bytes.
    void kill_after(const std::string& process, uint64_t bytes);
    void stall(const std::string& process, bool stalled);
    [[nodiscard]] bool is_stalled(const std::string& process) const {
        const auto found = processes_.find(process);
        return found != processes_.end() && found->second.stalled;
    }
    void set_model(const LinkModel& model) { model_ = model; }
    // Wrong bits so far.
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
    // Counts the bytes; true if they cause the loss of the connection.
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
