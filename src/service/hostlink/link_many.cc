// Calls on many names of a directory: each is one request.
#include "link_ask.h"

#include <algorithm>

namespace ros2s::hostlink {
namespace {

NamesBody names_of(fs::NodeId parent, std::span<const std::string_view> names) {
    ROS2S_CHECK(names.size() <= fs::names_together_max);
    NamesBody body{.parent = parent};
    for (const std::string_view name : names) body.names.push_back(name.substr(0, name_text_max));
    return body;
}

}  // namespace

// A repeated look-up leaves references too many, until the mount ends.
Task<std::vector<Result<fs::Attributes>>> LinkClient::lookup_many(
    const Call& call, NodeId parent, std::span<const std::string_view> names) {
    const auto found =
        co_await find<std::vector<FoundName>>(call, Method::lookup_many, names_of(parent, names));
    if (found && found->size() == names.size()) {
        std::vector<Result<fs::Attributes>> results;
        for (const FoundName& each : *found) results.push_back(each.result);
        co_return results;
    }
    const Error error = found ? Error{.code = Code::corrupt} : found.error();
    co_return std::vector<Result<fs::Attributes>>(names.size(), fail(error));
}

// The same. The names of a long path need several requests.
Task<std::vector<Result<fs::Attributes>>> LinkClient::look_up_names(
    const Call& call, NodeId parent, std::span<const std::string_view> names) {
    names = names.first(std::min(names.size(), fs::names_together_max));
    const auto found =
        co_await find<std::vector<FoundName>>(call, Method::look_up_names, names_of(parent, names));
    std::vector<Result<fs::Attributes>> results;
    if (found && !found->empty() && found->size() <= names.size()) {
        for (const FoundName& each : *found) results.push_back(each.result);
    } else {
        results.emplace_back(fail(found ? Error{.code = Code::corrupt} : found.error()));
    }
    co_return results;
}

Task<std::vector<Result<>>> LinkClient::create_many(const Call& call, NodeId parent,
                                                    std::span<const std::string_view> names,
                                                    mode_t mode, fs::Owner owner) {
    NamesBody body = names_of(parent, names);
    body.mode = mode & fs::permission_bits;
    body.owner = owner;
    return change_many(call, Method::create_many, std::move(body));
}

Task<std::vector<Result<>>> LinkClient::unlink_many(const Call& call, NodeId parent,
                                                    std::span<const std::string_view> names) {
    return change_many(call, Method::unlink_many, names_of(parent, names));
}

Task<std::vector<Result<>>> LinkClient::change_many(const Call& call, Method method,
                                                    NamesBody body) {
    const size_t count = body.names.size();
    const auto done = co_await change<CodesBody>(call, method, std::move(body));
    std::vector<Result<>> results(count);
    if (!done || (!done->codes.empty() && done->codes.size() != count)) {
        const Error error = done ? Error{.code = Code::corrupt} : done.error();
        std::ranges::fill(results, Result<>(fail(error)));
        co_return results;
    }
    for (size_t i = 0; i < done->codes.size(); ++i) {
        results[i] = result_of(done->codes[i]);
    }
    co_return results;
}

// A handle that was opened again has other cookies, for which readdir() has the rules.
Task<Result<std::vector<fs::ListedEntry>>> LinkClient::readdir_many(const Call& call, NodeId node,
                                                                    fs::FileHandle handle,
                                                                    uint64_t cookie, size_t limit) {
    ROS2S_CO_TRY_ASSIGN(const ServerHandle at, co_await where(call, handle));
    ROS2S_CO_TRY_ASSIGN(const Open* const file, opened(handle));
    if (file->cookie_base != 0) {
        co_return co_await FileSystem::readdir_many(call, node, handle, cookie, limit);
    }
    Buffer buffer;
    ReadLeased<std::vector<FoundEntry>> reader;
    const uint64_t era = leases_.era();
    const ReaddirManyBody asked{
        .mount = at.place.mount,
        .node = node,
        .handle = at.handle,
        .cookie = cookie,
        .limit = static_cast<uint32_t>(std::min(limit, fs::names_together_max))};
    const rpc::CallRequest request{
        .method = static_cast<uint16_t>(Method::readdir_many),
        .repeatable = true,
        .body = rpc::build(buffer, with_user(readdir_many_fields), user_of(call), asked)};
    const auto done = co_await channel_.call(call, request, reader);
    if (!done && done.error().code == Code::stale) {
        ROS2S_CO_TRY(co_await locator_.moved(call, at.place));
        co_return co_await FileSystem::readdir_many(call, node, handle, cookie, limit);
    }
    ROS2S_CO_TRY(done);
    if (reader.value.size() > asked.limit) co_return fail(Code::corrupt);
    take(call, era, at.place, reader.leases);
    std::vector<fs::ListedEntry> listed;
    Entries entries;
    for (FoundEntry& each : reader.value) {
        entries.push_back(each.entry);
        listed.push_back({.entry = std::move(each.entry), .attributes = each.result});
    }
    remember(handle, entries);
    co_return listed;
}

}  // namespace ros2s::hostlink
