#include "connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "file_system.h"

namespace ros2s::daos {
namespace {

// Returns the remedy for an error of the pool.
std::string_view remedy_of(int rc) {
    switch (-rc) {
        case DER_NONEXIST: return "List the labels: dmg pool list";
        case DER_NO_PERM: return "Give this user the right: dmg pool update-acl";
        case DER_AGENT_COMM: return "Start daos_agent on this machine";
        case DER_NO_CERT:
        case DER_BAD_CERT: return "Check the certificates of daos_agent";
        default: return "Check daos_agent and the servers: dmg system query";
    }
}

}  // namespace

Connection::Connection(Reactor& reactor, BlockingPool& blocking, Libdfs libdfs, PoolOptions options)
    : dfs(libdfs),
      reactor_(reactor),
      blocking_(blocking),
      options_(std::move(options)),
      names_(reactor),
      busy_(reactor),
      waking_(reactor, 1) {}

Connection::~Connection() { ROS2S_CHECK(!is_initialized_ && !is_attached_); }

Task<Result<std::unique_ptr<DaosPool>>> DaosPool::connect(Reactor& reactor, BlockingPool& blocking,
                                                          PoolOptions options, Report& report) {
    std::unique_ptr<Connection> connection;
    const auto begun = co_await blocking.run(reactor, [&]() -> Result<> {
        ROS2S_TRY_ASSIGN(const Libdfs libdfs, Libdfs::load(options.library, report));
        connection = std::make_unique<Connection>(reactor, blocking, libdfs, options);
        return connection->begin(report);
    });
    if (!begun) {
        if (connection != nullptr) co_await connection->close();
        co_return fail(begun.error());
    }
    connection->attach();
    co_return connection;
}

Result<> Connection::begin(Report& report) {
    const auto no = [&](int rc, std::string_view what) {
        const auto error = checked_der(rc);
        return report.fail(error.error(), "DAOS: {}: {}. {}", what, describe_der(rc),
                           remedy_of(rc));
    };
    if (const int rc = dfs.daos_init(); rc != 0) return no(rc, "libdaos cannot start");
    is_initialized_ = true;
    if (const int rc = dfs.dfs_init(); rc != 0) {
        return report.fail(checked(rc).error(), "DAOS: libdfs cannot start");
    }
    if (const int rc = dfs.daos_pool_connect(options_.pool.c_str(), options_.system.c_str(),
                                             DAOS_PC_RW, &pool_, nullptr, nullptr);
        rc != 0) {
        pool_ = {};
        return no(rc, fmt::format("the pool '{}' of the system '{}' cannot be opened",
                                  options_.pool, options_.system));
    }
    if (const int rc = dfs.daos_eq_create(&queue_); rc != 0) {
        queue_ = {};
        return no(rc, "no event queue can be made");
    }
    return {};
}

void Connection::attach() {
    reactor_.attach(*this);
    is_attached_ = true;
    const bool spawned = waking_.try_spawn(keep_waking(*this));
    ROS2S_CHECK(spawned);
}

Task<Result<std::unique_ptr<fs::FileSystem>>> Connection::open(Call call, std::string container,
                                                               Report& report) {
    auto opened = co_await run(
        call, [&] { return DaosFileSystem::mount(*this, container, call.tenant, report); });
    if (!opened) co_return fail(opened.error());
    co_return std::move(*opened);
}

Task<Result<std::vector<std::string>>> Connection::containers(Call call) {
    using Labels = std::vector<std::string>;
    co_return co_await run(call, [&]() -> Result<Labels> {
        constexpr int attempts_max = 8;  // others may make containers meanwhile
        daos_size_t count = 0;
        ROS2S_TRY(checked_der(dfs.daos_pool_list_cont(pool_, &count, nullptr, nullptr)));
        for (int attempt = 0; attempt < attempts_max; ++attempt) {
            std::vector<daos_pool_cont_info> found(count + 16);
            count = found.size();
            const int rc = dfs.daos_pool_list_cont(pool_, &count, found.data(), nullptr);
            if (rc == -DER_TRUNC) continue;
            ROS2S_TRY(checked_der(rc));
            Labels labels;
            for (size_t i = 0; i < std::min<size_t>(count, found.size()); ++i) {
                const char* const label = found[i].pci_label;
                const size_t bytes = ::strnlen(label, sizeof found[i].pci_label);
                if (bytes > 0) labels.emplace_back(label, bytes);
            }
            return labels;
        }
        return fail(Code::busy);
    });
}

Task<> Connection::close() {
    if (is_attached_) {
        ROS2S_CHECK(in_flight_ == 0);
        stopping_ = true;
        busy_.set();
        co_await waking_.join();
        reactor_.detach(*this);
        is_attached_ = false;
    }
    co_await blocking_.run(reactor_, [&]() -> Result<> {
        if (daos_handle_is_valid(queue_)) (void)dfs.daos_eq_destroy(queue_, 0);
        if (daos_handle_is_valid(pool_)) (void)dfs.daos_pool_disconnect(pool_, nullptr);
        if (is_initialized_) {
            (void)dfs.dfs_fini();
            (void)dfs.daos_fini();
        }
        is_initialized_ = false;
        return {};
    });
}

bool Connection::poll() noexcept {
    if (in_flight_ == 0) return false;
    std::array<daos_event_t*, 64> done{};
    const int count = dfs.daos_eq_poll(queue_, 0, DAOS_EQ_NOWAIT, done.size(), done.data());
    for (int i = 0; i < count; ++i) {
        reactor_.post(reinterpret_cast<Request*>(done[static_cast<size_t>(i)])->waiter);
        --in_flight_;
    }
    if (in_flight_ == 0 && !stopping_) busy_.reset();
    return count > 0;
}

Task<> Connection::keep_waking(Connection& self) {
    while (!self.stopping_) {
        if (self.in_flight_ > 0) {
            co_await sleep_for(self.reactor_, poll_interval);
        } else {
            co_await self.busy_;
        }
    }
}

}  // namespace ros2s::daos
