// The contract of FileSystem over the host link, on the simulated network: small chunks and small
// windows, so that payload goes inline and through windows.
#include "ros2s/fs/contract/contract.h"
#include "link_test_support.h"

namespace ros2s::hostlink {
namespace {

class LinkSubject final : public fs::contract::Subject {
  public:
    LinkSubject(uint64_t seed, uint64_t chunk_bytes)
        : world_(seed), network_(world_.random()), dpu_(world_, network_, chunk_bytes) {
        world_.run(start());
    }
    ~LinkSubject() override { world_.run(stop()); }
    fs::FileSystem& file_system() override { return *host_.link; }
    sim::World& world() override { return world_; }

  private:
    Task<> start() {
        co_await dpu_.start();
        co_await host_.start();
    }
    Task<> stop() {
        co_await host_.stop();
        co_await dpu_.stop();
    }
    sim::World world_;
    fabric::sim::Network network_;
    Dpu dpu_;
    Host host_{dpu_, 1};
};

const bool registered = fs::contract::register_contract(
    "HostLink", {.chunk_bytes = 64 << 10, .property_runs = 10},
    [](uint64_t seed) { return std::make_unique<LinkSubject>(seed, uint64_t{64} << 10); });

}  // namespace
}  // namespace ros2s::hostlink
