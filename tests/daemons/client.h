// A client of a daemon, with its container "main" as a file system: a client of an engine over
// shared memory, or of a DPU.
#pragma once
#include <gtest/gtest.h>

#include <memory>

#include "ros2s/connection/direct_pool.h"
#include "ros2s/connection/host_files.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"

namespace ros2s::tests {

class Client {
  public:
    // Errors, with a sentence: as for opening.
    Result<> open(OsReactor& reactor, const connection::Options& options, Report& report) {
        return run_blocking(reactor, [&] { return open_direct(reactor, options, report); });
    }
    Result<> open(OsReactor& reactor, const connection::HostOptions& options, Report& report) {
        return run_blocking(reactor, [&] { return open_host(reactor, options, report); });
    }
    void close(OsReactor& reactor) {
        run_blocking(reactor, [&] { return close_here(); });
    }
    [[nodiscard]] fs::FileSystem& files() { return host_ ? host_->file_system() : *files_; }
    // Of a client of an engine.
    [[nodiscard]] const connection::DirectPool& pool() const { return *pool_; }

  private:
    Task<Result<>> open_direct(OsReactor& reactor, connection::Options options, Report& report) {
        ROS2S_CO_TRY_ASSIGN(
            pool_, co_await connection::DirectPool::open(reactor, std::move(options), {}, report));
        const auto containers = co_await pool_->store().list_containers({});
        if (!containers) co_return fail(containers.error());
        ROS2S_CO_TRY_ASSIGN(
            files_, co_await fs::Dfs::mount({}, pool_->store(), containers->front().id, reactor, {},
                                            report));
        co_return Result<>{};
    }
    Task<Result<>> open_host(OsReactor& reactor, connection::HostOptions options, Report& report) {
        ROS2S_CO_TRY_ASSIGN(
            host_, co_await connection::HostFiles::open(reactor, std::move(options), report));
        co_return Result<>{};
    }
    Task<> close_here() {
        if (files_) co_await files_->close_all();
        files_.reset();
        if (pool_) co_await pool_->close();
        pool_.reset();
        if (host_) co_await host_->close();
        host_.reset();
    }
    std::unique_ptr<connection::DirectPool> pool_;
    std::unique_ptr<fs::FileSystem> files_;
    std::unique_ptr<connection::HostFiles> host_;
};

}  // namespace ros2s::tests
