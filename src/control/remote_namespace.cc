#include "remote_namespace.h"

#include <algorithm>

#include "client_call.h"
#include "fields.h"

namespace ros2s::control {
namespace {

// Callers of FileSystem may leave type bits in a mode, which mean nothing there.
constexpr mode_t permissions = 07777;

void encode(fs::Owner owner, v1::Owner& into) {
    into.set_uid(owner.uid);
    into.set_gid(owner.gid);
}

void encode(fs::OpenFlags flags, v1::OpenFlags& into) {
    into.set_read(flags.read);
    into.set_write(flags.write);
    into.set_append(flags.append);
    into.set_truncate(flags.truncate);
    into.set_exclusive(flags.exclusive);
}

int64_t count_of(WallTime time) { return time.time_since_epoch().count(); }

fs::Opened decode(const v1::OpenFileReply& reply) {
    return {.handle = {reply.handle()}, .attributes = control::decode(reply.attributes())};
}

}  // namespace

// Requests of this mount, and their way.
struct RemoteNamespace::Sender {
    template <class Request>
    static Request about(const RemoteNamespace& names) {
        Request request;
        request.mutable_place()->set_session(names.session_.value);
        request.mutable_place()->set_mount(names.mount_.value);
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

    template <class Request, class Reply>
    static Task<Result<Reply>> send(RemoteNamespace& names, const Call& call,
                                    void (FilesAsync::*method)(grpc::ClientContext*, const Request*,
                                                               Reply*,
                                                               std::function<void(grpc::Status)>),
                                    Request request) {
        // What is dropped travels with what is asked. Where that fails, this is about to fail too.
        if (names.forgotten_.size() >= forgotten_enough) (void)co_await names.send_forgotten(call);
        Report report;
        ControlClient::Parts& parts = names.client_.parts();
        co_return co_await ask(parts, parts.files, method, call, std::move(request), report);
    }
    template <class Request>
    static AttributesTask attributes(RemoteNamespace& names, const Call& call,
                                     void (FilesAsync::*method)(grpc::ClientContext*,
                                                                const Request*, v1::NodeReply*,
                                                                std::function<void(grpc::Status)>),
                                     Request request) {
        ROS2S_CO_TRY_ASSIGN(const auto reply,
                            co_await send(names, call, method, std::move(request)));
        co_return control::decode(reply.attributes());
    }
    template <class Request>
    static Task<Result<>> only_done(RemoteNamespace& names, const Call& call,
                                    void (FilesAsync::*method)(grpc::ClientContext*, const Request*,
                                                               v1::EmptyReply*,
                                                               std::function<void(grpc::Status)>),
                                    Request request) {
        ROS2S_CO_TRY(co_await send(names, call, method, std::move(request)));
        co_return Result<>{};
    }
};

RemoteNamespace::AttributesTask RemoteNamespace::lookup(const Call& call, NodeId parent,
                                                        std::string_view name) {
    return Sender::attributes(*this, call, &FilesAsync::Lookup,
                              Sender::about<v1::LookupRequest>(*this, parent, name));
}

RemoteNamespace::AttributesTask RemoteNamespace::mkdir(const Call& call, NodeId parent,
                                                       std::string_view name, mode_t mode,
                                                       fs::Owner owner) {
    auto request = Sender::about<v1::MakeDirectoryRequest>(*this, parent, name);
    request.set_mode(mode & permissions);
    encode(owner, *request.mutable_owner());
    return Sender::attributes(*this, call, &FilesAsync::MakeDirectory, std::move(request));
}

RemoteNamespace::AttributesTask RemoteNamespace::mknod(const Call& call, NodeId parent,
                                                       std::string_view name, mode_t mode,
                                                       dev_t device, fs::Owner owner) {
    auto request = Sender::about<v1::MakeNodeRequest>(*this, parent, name);
    request.set_mode(mode);
    request.set_device(device);
    encode(owner, *request.mutable_owner());
    return Sender::attributes(*this, call, &FilesAsync::MakeNode, std::move(request));
}

RemoteNamespace::AttributesTask RemoteNamespace::symlink(const Call& call, NodeId parent,
                                                         std::string_view name,
                                                         std::string_view target, fs::Owner owner) {
    auto request = Sender::about<v1::SymlinkRequest>(*this, parent, name);
    request.set_target(std::string(target));
    encode(owner, *request.mutable_owner());
    return Sender::attributes(*this, call, &FilesAsync::Symlink, std::move(request));
}

RemoteNamespace::AttributesTask RemoteNamespace::link(const Call& call, NodeId node, NodeId parent,
                                                      std::string_view name) {
    auto request = Sender::about<v1::LinkRequest>(*this, parent, name);
    request.set_node(node.value);
    return Sender::attributes(*this, call, &FilesAsync::Link, std::move(request));
}

Task<Result<>> RemoteNamespace::unlink(const Call& call, NodeId parent, std::string_view name) {
    return Sender::only_done(*this, call, &FilesAsync::Unlink,
                             Sender::about<v1::UnlinkRequest>(*this, parent, name));
}

Task<Result<>> RemoteNamespace::rmdir(const Call& call, NodeId parent, std::string_view name) {
    return Sender::only_done(*this, call, &FilesAsync::RemoveDirectory,
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
    return Sender::only_done(*this, call, &FilesAsync::Rename, std::move(request));
}

Task<Result<std::string>> RemoteNamespace::readlink(const Call& call, NodeId node) {
    ROS2S_CO_TRY_ASSIGN(auto reply,
                        co_await Sender::send(*this, call, &FilesAsync::ReadLink,
                                              Sender::about<v1::ReadLinkRequest>(*this, node)));
    co_return std::move(*reply.mutable_target());
}

RemoteNamespace::AttributesTask RemoteNamespace::get_attributes(const Call& call, NodeId node) {
    return Sender::attributes(*this, call, &FilesAsync::GetAttributes,
                              Sender::about<v1::GetAttributesRequest>(*this, node));
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
    return Sender::attributes(*this, call, &FilesAsync::SetAttributes, std::move(request));
}

Task<Result<std::string>> RemoteNamespace::get_xattr(const Call& call, NodeId node,
                                                     std::string_view name) {
    ROS2S_CO_TRY_ASSIGN(auto reply, co_await Sender::send(*this, call, &FilesAsync::GetXattr,
                                                          Sender::about_xattr<v1::GetXattrRequest>(
                                                              *this, node, name)));
    co_return std::move(*reply.mutable_value());
}

Task<Result<>> RemoteNamespace::set_xattr(const Call& call, NodeId node, std::string_view name,
                                          ConstBytes value, fs::SetXattr how) {
    auto request = Sender::about_xattr<v1::SetXattrRequest>(*this, node, name);
    request.set_value(std::string(as_text(value)));
    request.set_how(how == fs::SetXattr::create    ? v1::XATTR_CHANGE_CREATE
                    : how == fs::SetXattr::replace ? v1::XATTR_CHANGE_REPLACE
                                                   : v1::XATTR_CHANGE_ANY);
    return Sender::only_done(*this, call, &FilesAsync::SetXattr, std::move(request));
}

Task<Result<>> RemoteNamespace::remove_xattr(const Call& call, NodeId node, std::string_view name) {
    return Sender::only_done(*this, call, &FilesAsync::RemoveXattr,
                             Sender::about_xattr<v1::RemoveXattrRequest>(*this, node, name));
}

Task<Result<std::vector<std::string>>> RemoteNamespace::list_xattrs(const Call& call, NodeId node) {
    ROS2S_CO_TRY_ASSIGN(const auto reply,
                        co_await Sender::send(*this, call, &FilesAsync::ListXattrs,
                                              Sender::about<v1::ListXattrsRequest>(*this, node)));
    co_return std::vector<std::string>(reply.names().begin(), reply.names().end());
}

Task<Result<fs::Opened>> RemoteNamespace::open(const Call& call, NodeId node, fs::OpenFlags flags) {
    auto request = Sender::about<v1::OpenFileRequest>(*this, node);
    encode(flags, *request.mutable_flags());
    ROS2S_CO_TRY_ASSIGN(const auto reply,
                        co_await Sender::send(*this, call, &FilesAsync::Open, std::move(request)));
    co_return decode(reply);
}

Task<Result<fs::Opened>> RemoteNamespace::create(const Call& call, NodeId parent,
                                                 std::string_view name, mode_t mode,
                                                 fs::OpenFlags flags, fs::Owner owner) {
    auto request = Sender::about<v1::CreateFileRequest>(*this, parent, name);
    request.set_mode(mode & permissions);
    encode(flags, *request.mutable_flags());
    encode(owner, *request.mutable_owner());
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await Sender::send(*this, call, &FilesAsync::Create,
                                                                std::move(request)));
    co_return decode(reply);
}

Task<Result<>> RemoteNamespace::close(const Call& call, fs::FileHandle handle) {
    auto request = Sender::about<v1::CloseFileRequest>(*this);
    request.set_handle(handle.value);
    return Sender::only_done(*this, call, &FilesAsync::Close, std::move(request));
}

Task<Result<std::vector<fs::DirectoryEntry>>> RemoteNamespace::readdir(const Call& call,
                                                                       fs::FileHandle handle,
                                                                       uint64_t cookie,
                                                                       size_t limit) {
    auto request = Sender::about<v1::ReadDirectoryRequest>(*this);
    request.set_handle(handle.value);
    request.set_cookie(cookie);
    request.set_limit(static_cast<uint32_t>(std::min<size_t>(limit, UINT32_MAX)));
    ROS2S_CO_TRY_ASSIGN(auto reply, co_await Sender::send(*this, call, &FilesAsync::ReadDirectory,
                                                          std::move(request)));
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
    ROS2S_CO_TRY_ASSIGN(const auto reply,
                        co_await Sender::send(*this, call, &FilesAsync::Space,
                                              Sender::about<v1::SpaceRequest>(*this)));
    co_return fs::FileSystemSpace{.total_bytes = reply.total_bytes(),
                                  .free_bytes = reply.free_bytes(),
                                  .files = reply.files()};
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
        ROS2S_CO_TRY(co_await ask(parts, parts.files, &FilesAsync::Forget, call, std::move(request),
                                  report));
    }
    co_return Result<>{};
}

}  // namespace ros2s::control
