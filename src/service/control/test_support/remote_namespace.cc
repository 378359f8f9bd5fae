#include "remote_namespace.h"

#include <algorithm>

#include "client_call.h"
#include "fields.h"
#include "ros2s/fs/caller.h"
#include "ros2s/rpc/options.h"

namespace ros2s::control {
namespace {

// Callers of FileSystem may leave type bits in a mode, which have no meaning here.
constexpr mode_t permissions = 07777;

void encode(fs::Owner owner, v1::Owner& into) {
    into.set_uid(owner.uid);
    into.set_gid(owner.gid);
    into.set_umask(owner.umask);
}

void encode(fs::OpenFlags flags, v1::OpenFlags& into) {
    into.set_read(flags.read);
    into.set_write(flags.write);
    into.set_append(flags.append);
    into.set_truncate(flags.truncate);
    into.set_exclusive(flags.exclusive);
    into.set_execute(flags.execute);
    into.set_keeps_set_ids(flags.keeps_set_ids);
    into.set_nameless(flags.nameless);
}

WallTime time_of(int64_t nanoseconds) { return WallTime(Duration(nanoseconds)); }

fs::Attributes decode(const v1::Attributes& attributes) {
    return {.node = {attributes.node()},
            .mode = attributes.mode(),
            .links = attributes.links(),
            .uid = attributes.uid(),
            .gid = attributes.gid(),
            .size = attributes.size(),
            .bytes_used = attributes.bytes_used(),
            .device = attributes.device(),
            .accessed = time_of(attributes.accessed_ns()),
            .modified = time_of(attributes.modified_ns()),
            .changed = time_of(attributes.changed_ns()),
            .created = time_of(attributes.created_ns()),
            .flags = attributes.flags()};
}

fs::Opened decode(const v1::OpenFileReply& reply) {
    return {.handle = {reply.handle()}, .attributes = decode(reply.attributes())};
}

}  // namespace

// Sends the requests of this mount.
struct RemoteNamespace::Sender {
    template <class Request>
    static Request about(const RemoteNamespace& names) {
        Request request;
        set_context(request, names.locator_.location());
        return request;
    }
    template <class Request>
    static Request about(const RemoteNamespace& names, NodeId parent, std::string_view name) {
        Request request = about<Request>(names);
        request.set_parent(parent.value);
        request.set_name(std::string(name));
        return request;
    }
    template <class Request>
    static Request about(const RemoteNamespace& names, NodeId node) {
        Request request = about<Request>(names);
        request.set_node(node.value);
        return request;
    }
    template <class Request>
    static Request about_xattr(const RemoteNamespace& names, NodeId node, std::string_view name) {
        Request request = about<Request>(names, node);
        request.set_name(std::string(name));
        return request;
    }

    template <class Request>
    static void set_context(Request& request, session::MountLocation location) {
        request.mutable_context()->set_session(location.session.value);
        request.mutable_context()->set_mount(location.mount.value);
    }
    // Requests that may be done twice.
    template <class Reply, class Request>
    static Task<Result<Reply>> send(RemoteNamespace& names, const Call& call, Request request) {
        return send_until_answered<Reply>(names, call, std::move(request), true);
    }
    // Requests that are done once. The name is the same however often they are sent.
    template <class Reply, class Request>
    static Task<Result<Reply>> change(RemoteNamespace& names, const Call& call, Request request) {
        co_await names.slots_.wait();
        const auto slot = names.slots_.take();
        v1::UpdateName& name = *request.mutable_context()->mutable_update();
        name.set_slot(slot.id().slot);
        name.set_sequence(slot.id().sequence);
        co_return co_await send_until_answered<Reply>(names, call, std::move(request), true);
    }
    // Requests about a handle, which is valid at this location only.
    template <class Reply, class Request>
    static Task<Result<Reply>> send_here(RemoteNamespace& names, const Call& call,
                                         Request request) {
        return send_until_answered<Reply>(names, call, std::move(request), false);
    }
    template <class Reply, class Request>
    static Task<Result<Reply>> send_until_answered(RemoteNamespace& names, const Call& call,
                                                   Request request, bool anywhere) {
        if (call.caller != nullptr) {
            v1::User& user = *request.mutable_context()->mutable_user();
            user.set_uid(call.caller->uid);
            user.set_gid(call.caller->gid);
            user.mutable_groups()->Assign(call.caller->groups.begin(), call.caller->groups.end());
        }
        // Dropped references are sent before a request. If that fails, the request will fail, too.
        if (names.forgotten_.size() >= forgotten_enough) (void)co_await names.send_forgotten(call);
        ControlClient::Parts& parts = names.client_.parts();
        const Time until = parts.reactor.now() + patience;
        for (session::MountLocation at = names.locator_.location();;) {
            set_context(request, at);
            Report report;
            auto reply = co_await ask<Reply>(parts, call, request, report);
            if (reply || !co_await is_sent_again(names, call, reply.error(), until, at)) {
                co_return reply;
            }
            if (names.locator_.location() != at && !anywhere) co_return fail(Code::stale);
            at = names.locator_.location();
            if (request.context().has_update()) {
                request.mutable_context()->mutable_update()->set_repeated(true);
            }
        }
    }
    static Task<bool> is_sent_again(RemoteNamespace& names, const Call& call, Error error,
                                    Time until, session::MountLocation at) {
        constexpr Duration pause = std::chrono::milliseconds(20);
        Reactor& reactor = names.client_.parts().reactor;
        if (error.code == Code::stale)
            co_return (co_await names.locator_.moved(call, at)).has_value();
        // The server can be reached, and has waited itself.
        if (error.os_errno == rpc::absent_behind) co_return false;
        // A server that stops cancels its unfinished calls.
        const bool lost = error.code == Code::disconnected || error.code == Code::cancelled;
        if (!lost || !call.check(reactor) || reactor.now() >= until) co_return false;
        co_return co_await sleep_for(reactor, pause, call.stop);
    }
    template <class Request>
    static AttributesTask attributes(RemoteNamespace& names, const Call& call, Request request) {
        ROS2S_CO_TRY_ASSIGN(const auto reply,
                            co_await send<v1::NodeReply>(names, call, std::move(request)));
        co_return decode(reply.attributes());
    }
    template <class Request>
    static AttributesTask changed(RemoteNamespace& names, const Call& call, Request request) {
        ROS2S_CO_TRY_ASSIGN(const auto reply,
                            co_await change<v1::NodeReply>(names, call, std::move(request)));
        co_return decode(reply.attributes());
    }
    template <class Request>
    static Task<Result<>> done(RemoteNamespace& names, const Call& call, Request request) {
        ROS2S_CO_TRY(co_await change<v1::EmptyReply>(names, call, std::move(request)));
        co_return Result<>{};
    }
};

RemoteNamespace::RemoteNamespace(ControlClient& client, session::MountLocator& locator,
                                 Uuid instance)
    : client_(client),
      locator_(locator),
      slots_(client.parts().reactor, {.client = instance, .slot = first_slot}, slots) {}

RemoteNamespace::AttributesTask RemoteNamespace::lookup(const Call& call, NodeId parent,
                                                        std::string_view name) {
    return Sender::attributes(*this, call, Sender::about<v1::LookupRequest>(*this, parent, name));
}

RemoteNamespace::AttributesTask RemoteNamespace::mkdir(const Call& call, NodeId parent,
                                                       std::string_view name, mode_t mode,
                                                       fs::Owner owner) {
    auto request = Sender::about<v1::MakeDirectoryRequest>(*this, parent, name);
    request.set_mode(mode & permissions);
    encode(owner, *request.mutable_owner());
    return Sender::changed(*this, call, std::move(request));
}

RemoteNamespace::AttributesTask RemoteNamespace::mknod(const Call& call, NodeId parent,
                                                       std::string_view name, mode_t mode,
                                                       dev_t device, fs::Owner owner) {
    auto request = Sender::about<v1::MakeNodeRequest>(*this, parent, name);
    request.set_mode(mode);
    request.set_device(device);
    encode(owner, *request.mutable_owner());
    return Sender::changed(*this, call, std::move(request));
}

RemoteNamespace::AttributesTask RemoteNamespace::symlink(const Call& call, NodeId parent,
                                                         std::string_view name,
                                                         std::string_view target, fs::Owner owner) {
    auto request = Sender::about<v1::SymlinkRequest>(*this, parent, name);
    request.set_target(std::string(target));
    encode(owner, *request.mutable_owner());
    return Sender::changed(*this, call, std::move(request));
}

RemoteNamespace::AttributesTask RemoteNamespace::link(const Call& call, NodeId node, NodeId parent,
                                                      std::string_view name) {
    auto request = Sender::about<v1::LinkRequest>(*this, parent, name);
    request.set_node(node.value);
    return Sender::changed(*this, call, std::move(request));
}

Task<Result<>> RemoteNamespace::unlink(const Call& call, NodeId parent, std::string_view name) {
    return Sender::done(*this, call, Sender::about<v1::UnlinkRequest>(*this, parent, name));
}

Task<Result<>> RemoteNamespace::rmdir(const Call& call, NodeId parent, std::string_view name) {
    return Sender::done(*this, call,
                        Sender::about<v1::RemoveDirectoryRequest>(*this, parent, name));
}

Task<Result<>> RemoteNamespace::rename(const Call& call, NodeId parent, std::string_view name,
                                       NodeId new_parent, std::string_view new_name,
                                       fs::FileSystem::RenameFlags flags) {
    auto request = Sender::about<v1::RenameRequest>(*this, parent, name);
    request.set_new_parent(new_parent.value);
    request.set_new_name(std::string(new_name));
    request.set_no_replace(flags.no_replace);
    request.set_exchange(flags.exchange);
    request.set_whiteout(flags.whiteout);
    encode(flags.owner, *request.mutable_owner());
    return Sender::done(*this, call, std::move(request));
}

Task<Result<std::string>> RemoteNamespace::readlink(const Call& call, NodeId node) {
    ROS2S_CO_TRY_ASSIGN(auto reply,
                        co_await Sender::send<v1::ReadLinkReply>(
                            *this, call, Sender::about<v1::ReadLinkRequest>(*this, node)));
    co_return std::move(*reply.mutable_target());
}

RemoteNamespace::AttributesTask RemoteNamespace::get_attributes(const Call& call, NodeId node) {
    return Sender::attributes(*this, call, Sender::about<v1::GetAttributesRequest>(*this, node));
}

RemoteNamespace::AttributesTask RemoteNamespace::set_attributes(const Call& call, NodeId node,
                                                                const fs::SetAttributes& changes) {
    auto request = Sender::about<v1::SetAttributesRequest>(*this, node);
    if (changes.mode) request.set_mode(*changes.mode & permissions);
    if (changes.uid) request.set_uid(*changes.uid);
    if (changes.gid) request.set_gid(*changes.gid);
    if (changes.size) request.set_size(*changes.size);
    if (changes.accessed) request.set_accessed_ns(count_of(*changes.accessed));
    if (changes.modified) request.set_modified_ns(count_of(*changes.modified));
    if (changes.flags) request.set_flags(*changes.flags);
    request.set_keeps_set_ids(changes.keeps_set_ids);
    request.set_clears_set_ids(changes.clears_set_ids);
    return Sender::changed(*this, call, std::move(request));
}

Task<Result<std::string>> RemoteNamespace::get_xattr(const Call& call, NodeId node,
                                                     std::string_view name) {
    ROS2S_CO_TRY_ASSIGN(
        auto reply, co_await Sender::send<v1::GetXattrReply>(
                        *this, call, Sender::about_xattr<v1::GetXattrRequest>(*this, node, name)));
    co_return std::move(*reply.mutable_value());
}

Task<Result<>> RemoteNamespace::set_xattr(const Call& call, NodeId node, std::string_view name,
                                          ConstBytes value, fs::SetXattr how) {
    auto request = Sender::about_xattr<v1::SetXattrRequest>(*this, node, name);
    request.set_value(std::string(as_text(value)));
    request.set_how(how == fs::SetXattr::create    ? v1::XATTR_CHANGE_CREATE
                    : how == fs::SetXattr::replace ? v1::XATTR_CHANGE_REPLACE
                                                   : v1::XATTR_CHANGE_ANY);
    return Sender::done(*this, call, std::move(request));
}

Task<Result<>> RemoteNamespace::remove_xattr(const Call& call, NodeId node, std::string_view name) {
    return Sender::done(*this, call,
                        Sender::about_xattr<v1::RemoveXattrRequest>(*this, node, name));
}

Task<Result<std::vector<std::string>>> RemoteNamespace::list_xattrs(const Call& call, NodeId node) {
    ROS2S_CO_TRY_ASSIGN(const auto reply,
                        co_await Sender::send<v1::ListXattrsReply>(
                            *this, call, Sender::about<v1::ListXattrsRequest>(*this, node)));
    co_return std::vector<std::string>(reply.names().begin(), reply.names().end());
}

Task<Result<fs::Opened>> RemoteNamespace::open(const Call& call, NodeId node, fs::OpenFlags flags) {
    auto request = Sender::about<v1::OpenFileRequest>(*this, node);
    encode(flags, *request.mutable_flags());
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await Sender::change<v1::OpenFileReply>(
                                              *this, call, std::move(request)));
    co_return decode(reply);
}

Task<Result<fs::Opened>> RemoteNamespace::create(const Call& call, NodeId parent,
                                                 std::string_view name, mode_t mode,
                                                 fs::OpenFlags flags, fs::Owner owner) {
    auto request = Sender::about<v1::CreateFileRequest>(*this, parent, name);
    request.set_mode(mode & permissions);
    encode(flags, *request.mutable_flags());
    encode(owner, *request.mutable_owner());
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await Sender::change<v1::OpenFileReply>(
                                              *this, call, std::move(request)));
    co_return decode(reply);
}

Task<Result<>> RemoteNamespace::close(const Call& call, fs::FileHandle handle) {
    auto request = Sender::about<v1::CloseFileRequest>(*this);
    request.set_handle(handle.value);
    ROS2S_CO_TRY(co_await Sender::send_here<v1::EmptyReply>(*this, call, std::move(request)));
    co_return Result<>{};
}

Task<Result<std::vector<fs::DirectoryEntry>>> RemoteNamespace::readdir(const Call& call,
                                                                       fs::FileHandle handle,
                                                                       uint64_t cookie,
                                                                       size_t limit) {
    auto request = Sender::about<v1::ReadDirectoryRequest>(*this);
    request.set_handle(handle.value);
    request.set_cookie(cookie);
    request.set_limit(static_cast<uint32_t>(std::min<size_t>(limit, UINT32_MAX)));
    ROS2S_CO_TRY_ASSIGN(auto reply, co_await Sender::send_here<v1::ReadDirectoryReply>(
                                        *this, call, std::move(request)));
    std::vector<fs::DirectoryEntry> entries;
    for (v1::DirectoryEntry& each : *reply.mutable_entries()) {
        entries.push_back({.name = std::move(*each.mutable_name()),
                           .node = {each.node()},
                           .type = each.type(),
                           .cookie = each.cookie()});
    }
    co_return entries;
}

Task<Result<fs::FileSystemSpace>> RemoteNamespace::space(const Call& call) {
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await Sender::send<v1::SpaceReply>(
                                              *this, call, Sender::about<v1::SpaceRequest>(*this)));
    co_return fs::FileSystemSpace{.total_bytes = reply.total_bytes(),
                                  .free_bytes = reply.free_bytes(),
                                  .files = reply.files(),
                                  .files_max = reply.files_max()};
}

Task<Result<>> RemoteNamespace::send_forgotten(const Call& call) {
    while (!forgotten_.empty()) {
        const size_t count = std::min<size_t>(forgotten_.size(), forgets_max);
        auto request = Sender::about<v1::ForgetRequest>(*this);
        for (size_t i = 0; i < count; ++i) {
            auto& dropped = *request.add_nodes();
            dropped.set_node(forgotten_[forgotten_.size() - 1 - i].node.value);
            dropped.set_count(forgotten_[forgotten_.size() - 1 - i].count);
        }
        forgotten_.resize(forgotten_.size() - count);
        ControlClient::Parts& parts = client_.parts();
        Report report;
        ROS2S_CO_TRY(co_await ask<v1::EmptyReply>(parts, call, std::move(request), report));
    }
    co_return Result<>{};
}

}  // namespace ros2s::control
