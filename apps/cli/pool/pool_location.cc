#include "pool_location.h"

#include <filesystem>
#include <map>
#include <utility>

#include "ros2s/api/deployment.h"
#include "ros2s/pool/pool_directory.h"

namespace ros2s::cli {

bool is_uri(std::string_view text) {
    if (text.starts_with("ros2s:") || text.starts_with("ros2s+")) return true;
    const size_t colon = text.find("://");
    return colon != std::string_view::npos && !text.substr(0, colon).contains('/');
}

namespace {

Result<api::Uri> without_path(api::Uri uri, std::string_view text, Report& report) {
    if (uri.path.empty()) return uri;
    const std::string path = std::exchange(uri.path, {});
    return report.fail(Code::invalid,
                       "'{}' names '{}' in a container, and this command is about the whole: "
                       "leave it out, as in {}",
                       text, path, uri.to_string());
}

}  // namespace

Result<api::Uri> container_uri(std::string_view text, Report& report) {
    ROS2S_TRY_ASSIGN(api::Uri uri, api::Uri::parse(text, report));
    return without_path(std::move(uri), text, report);
}

Result<api::Uri> pool_uri(const std::string& location, Report& report) {
    api::Uri uri{.dir = location};
    if (is_uri(location)) {
        ROS2S_TRY_ASSIGN(uri, api::Uri::parse_pool(location, report));
        ROS2S_TRY_ASSIGN(uri, without_path(std::move(uri), location, report));
    }
    if (uri.transport != api::Uri::Transport::local) return uri;
    ROS2S_TRY_ASSIGN(const pool::PoolDirectory known, pool::read_pool_directory(uri.dir, report));
    if (uri.pool.empty()) uri.pool = known.config.pool;
    ROS2S_TRY(api::check_pool_name(uri, known.config.pool, report));
    uri.dir = known.directory;
    return uri;
}

Result<std::string> pool_directory_of(std::string_view location, Report& report) {
    if (!is_uri(location)) return std::string(location);
    ROS2S_TRY_ASSIGN(const api::Uri uri, container_uri(location, report));
    const bool is_here = uri.transport == api::Uri::Transport::local ||
                         uri.transport == api::Uri::Transport::rados || !uri.dir.empty();
    if (!is_here) {
        return report.fail(Code::unsupported,
                           "'{}' is on a server. This command is for pools in a directory of this "
                           "machine, like {}",
                           location, api::example_of(api::Uri::Transport::local));
    }
    if (uri.transport == api::Uri::Transport::rados) {
        return report.fail(Code::unsupported,
                           "'{}' is in a Ceph cluster, and this command is for pools in a "
                           "directory of this machine, like {}",
                           location, api::example_of(api::Uri::Transport::local));
    }
    Report ignored;
    const auto found = pool::read_pool_directory(uri.dir, ignored);
    if (found) ROS2S_TRY(api::check_pool_name(uri, found->config.pool, report));
    return uri.dir;  // a missing pool is reported later
}

Result<std::string> absolute_directory(const std::string& directory, Report& report) {
    if (is_uri(directory)) {
        return report.fail(Code::invalid, "'{}' is a URI; name the pool's directory", directory);
    }
    std::error_code failed;
    auto whole = std::filesystem::absolute(directory, failed).lexically_normal().string();
    if (directory.empty() || failed) {
        return report.fail(Code::invalid, "the pool's directory has no name");
    }
    if (whole.size() > 1 && whole.ends_with('/')) whole.pop_back();
    return whole;
}

Result<std::unique_ptr<OsReactor>> reactor_for(const std::vector<std::string>& locations,
                                               Report& report) {
    std::map<std::string, pool::PoolDirectory> pools;
    for (const std::string& location : locations) {
        Report ignored;
        std::string directory = location;
        if (is_uri(location)) {
            const auto uri = api::Uri::parse_pool(location, ignored);
            if (!uri || uri->transport != api::Uri::Transport::local) continue;
            directory = uri->dir;
        }
        auto pool = pool::read_pool_directory(directory, ignored);
        if (pool) pools.emplace(pool->directory, std::move(*pool));
    }
    return pools.size() == 1 ? pool::create_reactor(pools.begin()->second, report)
                             : OsReactor::create({}, report);
}

Result<pool::OwnerRecord> owner_of(const std::string& directory, Report& report) {
    return pool::find_owner(directory, report);
}

Task<Result<std::unique_ptr<pool::EmbeddedPool>>> open_pool(CommandContext context,
                                                            std::string directory) {
    pool::OwnerRecord present;
    co_return co_await pool::EmbeddedPool::open(context.environment, std::move(directory),
                                                {.program = std::string(pool::command_program)},
                                                present, context.report);
}

}  // namespace ros2s::cli
