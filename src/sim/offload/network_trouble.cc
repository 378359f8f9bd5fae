#include "network_trouble.h"

namespace ros2s::sim {

NetworkTrouble::Totals& NetworkTrouble::Totals::operator+=(const Totals& other) {
    lost += other.lost;
    cut += other.cut;
    stalled += other.stalled;
    lossy += other.lossy;
    slow += other.slow;
    late += other.late;
    flapping += other.flapping;
    return *this;
}

Task<> NetworkTrouble::make(NetworkTrouble& self, Duration pause_max, const bool& over) {
    while (!over) {
        co_await self.pass(pause_max);
        if (!over) co_await self.make_one();
    }
}

Task<> NetworkTrouble::pass(Duration most) {
    co_await sleep_for(reactor_, Duration(random_.below(static_cast<uint64_t>(most.count()))));
}

Task<> NetworkTrouble::make_one() {
    const std::string& process = processes_[random_.below(processes_.size())];
    if (latest_ > Duration{} && random_.one_in(2)) co_return co_await make_worse(process);
    switch (random_.below(5)) {
        case 0:
            ++totals_.lost;
            network_.kill(process);
            break;
        case 1:
            ++totals_.cut;
            network_.kill_after(process, random_.below(32 << 10));
            break;
        case 2:
            ++totals_.stalled;
            network_.stall(process, true);
            co_await pass(longest_);
            network_.stall(process, false);
            break;
        case 3:
            ++totals_.lossy;
            network_.set_model({.lose_one_in = static_cast<uint32_t>(50 + random_.below(400))});
            co_await pass(longest_);
            network_.set_model({});
            break;
        default:
            ++totals_.slow;
            network_.set_model({.delay_most = std::chrono::milliseconds(1 + random_.below(5)),
                                .bytes_per_second = (1 + random_.below(20)) << 20});
            co_await pass(longest_);
            network_.set_model({});
            break;
    }
}

Task<> NetworkTrouble::make_worse(const std::string& process) {
    const Time until = reactor_.now() + Duration(random_.below(2 * longest_.count()));
    if (random_.one_in(4)) {
        ++totals_.late;
        network_.set_model({.delay_most = latest_});
        co_await sleep_until(reactor_, until);
        co_return network_.set_model({});
    }
    ++totals_.flapping;
    while (reactor_.now() < until) {
        network_.stall(process, true);
        co_await pass(2 * latest_);
        network_.stall(process, false);
        co_await sleep_for(reactor_, std::chrono::milliseconds(1));
    }
}

}  // namespace ros2s::sim
