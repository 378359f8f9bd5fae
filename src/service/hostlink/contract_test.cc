// The contract of FileSystem over the host link, on the simulated network. Chunks and windows are
// small, so payload goes both inline and through windows. Behind it is a Dfs, in memory or on an
// engine, or a directory of this machine.
#include "ros2s/fs/contract/contract.h"

#include <poll.h>

#include <filesystem>

#include "ros2s/cache/cached_file_system.h"
#include "ros2s/foreign/open_local_directory.h"
#include "test_support/engine.h"

namespace ros2s::hostlink {
namespace {

// A new directory, as a DPU serves one.
class DirectorySource final : public session::FileSystemSource {
  public:
    explicit DirectorySource(sim::World& world) : world_(world) {
        std::string pattern = std::filesystem::temp_directory_path() / "ros2store-link-XXXXXX";
        EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
        path_ = pattern;
    }
    ~DirectorySource() override {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    DirectorySource& operator=(DirectorySource&&) = delete;
    Task<Result<std::unique_ptr<fs::FileSystem>>> open(const Call&,
                                                       const session::MountedContainer&,
                                                       Report& report) override {
        return foreign::open_local_directory(path_, world_.core(), world_.blocking(), report,
                                             {.enters_mounts = false});
    }

  private:
    sim::World& world_;
    std::string path_;
};

constexpr uint64_t chunk_bytes = 64 << 10;

// leased: a Dfs that lends leases to a cache at the host. engine: a Dfs on an engine; small reads
// go straight.
enum class Behind : uint8_t { dfs, directory, leased, engine };

class LinkSubject final : public fs::contract::Subject {
  public:
    LinkSubject(uint64_t seed, Behind behind)
        : world_(seed),
          network_(world_.random()),
          behind_(behind),
          dpu_(world_, network_, source()) {
        world_.run(start());
    }
    ~LinkSubject() override { world_.run(stop()); }
    fs::FileSystem& file_system() override {
        return cached_ != nullptr ? *cached_ : static_cast<fs::FileSystem&>(*host_.link);
    }
    sim::World& world() override { return world_; }
    // The kernel stamps times by its tick.
    void let_time_pass() override {
        if (behind_ == Behind::directory) (void)::poll(nullptr, 0, 12);
    }

  private:
    std::unique_ptr<session::FileSystemSource> source() {
        if (behind_ == Behind::directory) return std::make_unique<DirectorySource>(world_);
        if (behind_ == Behind::engine) return std::make_unique<EngineSource>(engine_, chunk_bytes);
        return std::make_unique<DfsSource>(world_.core(), chunk_bytes, behind_ == Behind::leased);
    }
    Task<> start() {
        if (behind_ == Behind::engine) co_await engine_.start();
        co_await dpu_.start();
        session::MountScope scope{.wants_leases = behind_ == Behind::leased};
        scope.users.may_make_devices = scope.users.may_set_ids = true;
        scope.users.may_change_privileged = true;
        co_await host_.start(std::move(scope));
        if (host_.link->leases() == nullptr) co_return;
        cached_ = std::make_unique<cache::CachedFileSystem>(world_.core(), *host_.link);
        while (host_.link->leases()->era() == 0) {
            (void)co_await sleep_for(world_.core(), std::chrono::milliseconds(1));
        }
    }
    Task<> stop() {
        if (cached_ != nullptr) co_await cached_->close_all();
        cached_.reset();
        co_await host_.stop();
        co_await dpu_.stop();
        if (behind_ == Behind::engine) co_await engine_.stop();
    }
    sim::World world_;
    fabric::sim::Network network_;
    const Behind behind_;
    Engine engine_{world_, network_};
    Dpu dpu_;
    Host host_{dpu_, 1};
    std::unique_ptr<cache::CachedFileSystem> cached_;
};

const bool registered = fs::contract::register_contract(
    "HostLink", {.chunk_bytes = chunk_bytes, .property_runs = 10},
    [](uint64_t seed) { return std::make_unique<LinkSubject>(seed, Behind::dfs); });

const bool engine_registered = fs::contract::register_contract(
    "StraightHostLink",
    {.chunk_bytes = chunk_bytes,
     .suites = {"Append", "Files", "Open", "Property"},
     .property_runs = 10},
    [](uint64_t seed) { return std::make_unique<LinkSubject>(seed, Behind::engine); });

const bool leased_registered = fs::contract::register_contract(
    "LeasedHostLink", {.chunk_bytes = chunk_bytes, .property_runs = 10},
    [](uint64_t seed) { return std::make_unique<LinkSubject>(seed, Behind::leased); });

const bool directory_registered = fs::contract::register_contract(
    "HostLinkToLocalFs",
    {.clears_set_ids = false,
     .exact_space = false,
     .xattr_bytes = 2000,
     .whiteouts = fs::contract::directories_have_whiteouts(),
     .node_flags = false,
     .access_lists = false,
     .locks = false,
     .property_runs = 3},
    [](uint64_t seed) { return std::make_unique<LinkSubject>(seed, Behind::directory); });

}  // namespace
}  // namespace ros2s::hostlink
