#include "files_service.h"

#include <fmt/format.h>

#include <algorithm>

#include "fields.h"
#include "name_turn.h"
#include "ros2s/session/mount_names.h"

namespace ros2s::control {
namespace {

using fs::NodeId;

// Entries of one reply, so that it stays below a client's limit of message size.
constexpr uint32_t entries_max = 2048;

// The mount and the session of a request, and its turn among the requests of all tenants. Held
// while it runs.
struct MountInUse {
    session::SessionUse session;
    session::MountUse mount;
    session::MountNames names;
    NameTurn turn;
};

// Waits for the request's turn, also within its tenant's rates, as a request on the data plane
// does. Errors: stale, cancelled.
//
// `for_user`: false for requests that give back what is open or was looked up, or show space. They
// are done for whichever user.
Task<Result<MountInUse>> enter(ServerState& state, Served& served, const v1::Context& context,
                               bool for_user = true) {
    if (for_user) {
        ROS2S_CO_TRY(co_await state.wait_for_rights(served, session::SessionId{context.session()}));
    }
    ROS2S_CO_TRY_ASSIGN(auto session, state.session(served, context.session()));
    NameTurn turn(state, session->tenant);
    ROS2S_CO_TRY(co_await turn.begin(served.call));
    auto mount = state.parts.mounts->find(*session, {context.mount()});
    if (!mount) {
        co_return served.report.fail(
            mount.error(),
            "session {} has no mount {}; it was unmounted, or belongs to another session",
            context.session(), context.mount());
    }
    if (for_user) {
        ROS2S_CO_TRY_ASSIGN(served.user, control::decode(context.user(), served.report));
        auto caller = (*mount)->caller_for(served.user);
        if (!caller) {
            served.audited = true;
            session->account().metrics.refused.add();
            co_return served.report.fail(caller.error(),
                                         "{} may not act for user {}; 'users' in the settings of "
                                         "the server or of its tenant can allow it",
                                         served.subject, context.user().uid());
        }
        served.caller = *caller;
        served.call.caller = &served.caller;
    }
    session::MountNames names(**mount, served.report);
    co_return MountInUse{std::move(session), std::move(*mount), names, std::move(turn)};
}

// The name that the file system gives the change, so that it is done once. The reply is stored for
// this client, not for the mount, which all clients share.
template <class Request>
Result<> name_update(Served& served, const session::Session& session, const Request& request) {
    const v1::Context& context = request.context();
    if (!context.has_update()) {
        return served.report.fail(Code::invalid,
                                  "a change needs a name, so that a repetition is recognized; "
                                  "set context.update: a slot, and a sequence that increases by "
                                  "one for each change in the slot");
    }
    const v1::UpdateName& name = context.update();
    if (name.slot() >= UpdateName::slots_max || name.sequence() == 0) {
        return served.report.fail(
            Code::invalid,
            "an update has slot {} and sequence {}; slots are below {}, and sequences begin at 1",
            name.slot(), name.sequence(), UpdateName::slots_max);
    }
    served.update = {.client = session.request.client,
                     .slot = name.slot(),
                     .sequence = name.sequence(),
                     .owner = session.owner,
                     .digest = digest_without(request, &Request::clear_context)};
    served.call.update = &served.update;
    served.call.repeated = name.repeated();
    return {};
}

// For a change. Errors: stale, cancelled, invalid.
template <class Request>
Task<Result<MountInUse>> enter_to_change(ServerState& state, Served& served,
                                         const Request& request) {
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter(state, served, request.context()));
    ROS2S_CO_TRY(name_update(served, *entered.session, request));
    co_return entered;
}

fs::Owner decode(const v1::Owner& owner) {
    return {.uid = owner.uid(), .gid = owner.gid(), .umask = owner.umask()};
}

Result<> answer(const Result<fs::Attributes>& attributes, v1::NodeReply& reply) {
    if (!attributes) return fail(attributes.error());
    encode(*attributes, *reply.mutable_attributes());
    return {};
}

Result<> answer(const Result<fs::Opened>& opened, v1::OpenFileReply& reply) {
    if (!opened) return fail(opened.error());
    reply.set_handle(opened->handle.value);
    encode(opened->attributes, *reply.mutable_attributes());
    return {};
}

}  // namespace

Task<Result<>> MountService::mount(Served& served, const v1::MountRequest& request,
                                   v1::MountReply& reply) {
    ROS2S_CO_TRY(check_label("container", request.container(), served.report));
    if (request.alone_as().size() > object::lock_holder_bytes_max) co_return fail(Code::invalid);
    ROS2S_CO_TRY(co_await state_.wait_for_rights(served, session::SessionId{request.session()}));
    ROS2S_CO_TRY_ASSIGN(const auto session, state_.session(served, request.session()));
    const std::string& pool = session->request.pool;
    rights::Principal principal = state_.policy().principal(served.subject, pool);
    principal.handed_over = state_.parts.pools.handed_over(pool, served.subject);
    // A mount does not look for the container's owner.
    rights::Decision decision =
        rights::decide(state_.policy(), principal, {.pool = pool, .label = request.container()},
                       request.read_only() ? rights::Wanted::read : rights::Wanted::write);
    if (decision.is_none()) {
        co_return state_.refuse(served, decision, rights::Right::read,
                                {.pool = pool, .label = request.container()});
    }
    const bool may_write = !decision.read_only;
    const bool read_only = decision.read_only || request.read_only();
    session::MountScope scope{.read_only = read_only,
                              .users = std::move(principal.users),
                              .subtrees = std::move(decision.subtrees),
                              .wants_leases = session->request.purpose == session::Purpose::link,
                              .durable = request.durable(),
                              .exclusive_as = request.alone_as()};
    const std::string directories = session::directories_of(scope.subtrees);
    const bool squashes_root = scope.users.root_squash;
    ROS2S_CO_TRY_ASSIGN(const auto mounted, co_await state_.parts.mounts->mount(
                                                served.call, *session, request.container(),
                                                std::move(scope), served.report));
    state_.audit(served, AuditAction::mount,
                 {.pool = pool, .container = request.container(), .subtree = directories},
                 fmt::format("mounted {}{}/{} for {}", directories.empty() ? "" : "directories of ",
                             pool, request.container(),
                             !read_only  ? "reading and writing"
                             : may_write ? "reading"
                                         : "reading, because it may not write"));
    reply.set_mount(mounted.value);
    reply.set_storage(state_.parts.mounts->storage(pool, request.container()));
    reply.set_squashes_root(squashes_root);
    reply.set_is_alone(!request.alone_as().empty());
    reply.set_is_deferred(state_.parts.mounts->defers(session->id, mounted));
    reply.set_lends_leases(state_.parts.mounts->lends(session->id, mounted));
    co_return Result<>{};
}

Task<Result<>> MountService::unmount(Served& served, const v1::UnmountRequest& request,
                                     v1::UnmountReply&) {
    ROS2S_CO_TRY_ASSIGN(const auto session, state_.session(served, request.session()));
    co_return co_await state_.parts.mounts->unmount(*session, {request.mount()});
}

Task<Result<>> FileService::lookup(Served& served, const v1::LookupRequest& request,
                                   v1::NodeReply& reply) {
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter(state_, served, request.context()));
    const auto found =
        co_await entered.names.lookup(served.call, NodeId{request.parent()}, request.name());
    co_return answer(found, reply);
}

Task<Result<>> FileService::make_directory(Served& served, const v1::MakeDirectoryRequest& request,
                                           v1::NodeReply& reply) {
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter_to_change(state_, served, request));
    const auto made =
        co_await entered.names.mkdir(served.call, NodeId{request.parent()}, request.name(),
                                     request.mode(), decode(request.owner()));
    co_return answer(made, reply);
}

Task<Result<>> FileService::make_node(Served& served, const v1::MakeNodeRequest& request,
                                      v1::NodeReply& reply) {
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter_to_change(state_, served, request));
    const auto made =
        co_await entered.names.mknod(served.call, NodeId{request.parent()}, request.name(),
                                     request.mode(), request.device(), decode(request.owner()));
    co_return answer(made, reply);
}

Task<Result<>> FileService::symlink(Served& served, const v1::SymlinkRequest& request,
                                    v1::NodeReply& reply) {
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter_to_change(state_, served, request));
    const auto made =
        co_await entered.names.symlink(served.call, NodeId{request.parent()}, request.name(),
                                       request.target(), decode(request.owner()));
    co_return answer(made, reply);
}

Task<Result<>> FileService::link(Served& served, const v1::LinkRequest& request,
                                 v1::NodeReply& reply) {
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter_to_change(state_, served, request));
    const auto made = co_await entered.names.link(served.call, NodeId{request.node()},
                                                  NodeId{request.parent()}, request.name());
    co_return answer(made, reply);
}

Task<Result<>> FileService::unlink(Served& served, const v1::UnlinkRequest& request,
                                   v1::EmptyReply&) {
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter_to_change(state_, served, request));
    co_return co_await entered.names.unlink(served.call, NodeId{request.parent()}, request.name());
}

Task<Result<>> FileService::remove_directory(Served& served,
                                             const v1::RemoveDirectoryRequest& request,
                                             v1::EmptyReply&) {
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter_to_change(state_, served, request));
    co_return co_await entered.names.rmdir(served.call, NodeId{request.parent()}, request.name());
}

Task<Result<>> FileService::rename(Served& served, const v1::RenameRequest& request,
                                   v1::EmptyReply&) {
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter_to_change(state_, served, request));
    co_return co_await entered.names.rename(served.call, NodeId{request.parent()}, request.name(),
                                            NodeId{request.new_parent()}, request.new_name(),
                                            {.no_replace = request.no_replace(),
                                             .exchange = request.exchange(),
                                             .whiteout = request.whiteout(),
                                             .owner = decode(request.owner())});
}

Task<Result<>> FileService::read_link(Served& served, const v1::ReadLinkRequest& request,
                                      v1::ReadLinkReply& reply) {
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter(state_, served, request.context()));
    ROS2S_CO_TRY_ASSIGN(auto target,
                        co_await entered.names.readlink(served.call, NodeId{request.node()}));
    reply.set_target(std::move(target));
    co_return Result<>{};
}

Task<Result<>> FileService::get_attributes(Served& served, const v1::GetAttributesRequest& request,
                                           v1::NodeReply& reply) {
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter(state_, served, request.context()));
    co_return answer(co_await entered.names.get_attributes(served.call, NodeId{request.node()}),
                     reply);
}

Task<Result<>> FileService::set_attributes(Served& served, const v1::SetAttributesRequest& request,
                                           v1::NodeReply& reply) {
    const fs::SetAttributes changes = control::decode(request);
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter_to_change(state_, served, request));
    co_return answer(
        co_await entered.names.set_attributes(served.call, NodeId{request.node()}, changes), reply);
}

Task<Result<>> FileService::get_xattr(Served& served, const v1::GetXattrRequest& request,
                                      v1::GetXattrReply& reply) {
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter(state_, served, request.context()));
    ROS2S_CO_TRY_ASSIGN(auto value, co_await entered.names.get_xattr(
                                        served.call, NodeId{request.node()}, request.name()));
    reply.set_value(std::move(value));
    co_return Result<>{};
}

Task<Result<>> FileService::set_xattr(Served& served, const v1::SetXattrRequest& request,
                                      v1::EmptyReply&) {
    ROS2S_CO_TRY_ASSIGN(const auto how, control::decode(request.how(), served.report));
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter_to_change(state_, served, request));
    co_return co_await entered.names.set_xattr(served.call, NodeId{request.node()}, request.name(),
                                               as_bytes(request.value()), how);
}

Task<Result<>> FileService::remove_xattr(Served& served, const v1::RemoveXattrRequest& request,
                                         v1::EmptyReply&) {
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter_to_change(state_, served, request));
    co_return co_await entered.names.remove_xattr(served.call, NodeId{request.node()},
                                                  request.name());
}

Task<Result<>> FileService::list_xattrs(Served& served, const v1::ListXattrsRequest& request,
                                        v1::ListXattrsReply& reply) {
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter(state_, served, request.context()));
    ROS2S_CO_TRY_ASSIGN(auto names,
                        co_await entered.names.list_xattrs(served.call, NodeId{request.node()}));
    for (std::string& name : names) reply.add_names(std::move(name));
    co_return Result<>{};
}

Task<Result<>> FileService::open(Served& served, const v1::OpenFileRequest& request,
                                 v1::OpenFileReply& reply) {
    const fs::OpenFlags flags = control::decode(request.flags());
    const bool changes = flags.write || flags.append || flags.truncate;
    ROS2S_CO_TRY_ASSIGN(auto entered, changes ? co_await enter_to_change(state_, served, request)
                                              : co_await enter(state_, served, request.context()));
    const auto opened = co_await entered.names.open(served.call, NodeId{request.node()}, flags);
    co_return answer(opened, reply);
}

Task<Result<>> FileService::create(Served& served, const v1::CreateFileRequest& request,
                                   v1::OpenFileReply& reply) {
    const fs::OpenFlags flags = control::decode(request.flags());
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter_to_change(state_, served, request));
    const auto opened =
        co_await entered.names.create(served.call, NodeId{request.parent()}, request.name(),
                                      request.mode(), flags, decode(request.owner()));
    co_return answer(opened, reply);
}

Task<Result<>> FileService::close(Served& served, const v1::CloseFileRequest& request,
                                  v1::EmptyReply&) {
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter(state_, served, request.context(), false));
    co_return co_await entered.names.close(served.call, {request.handle()});
}

Task<Result<>> FileService::read_directory(Served& served, const v1::ReadDirectoryRequest& request,
                                           v1::ReadDirectoryReply& reply) {
    if (request.limit() == 0) {
        co_return served.report.fail(Code::invalid, "limit is 0; request at least one entry");
    }
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter(state_, served, request.context(), false));
    ROS2S_CO_TRY_ASSIGN(auto entries, co_await entered.names.readdir(
                                          served.call, {request.handle()}, request.cookie(),
                                          std::min(request.limit(), entries_max)));
    for (fs::DirectoryEntry& entry : entries) {
        v1::DirectoryEntry& into = *reply.add_entries();
        into.set_name(std::move(entry.name));
        into.set_node(entry.node.value);
        into.set_type(entry.type);
        into.set_cookie(entry.cookie);
    }
    co_return Result<>{};
}

Task<Result<>> FileService::forget(Served& served, const v1::ForgetRequest& request,
                                   v1::EmptyReply&) {
    if (request.nodes_size() > forgets_max) {
        co_return served.report.fail(Code::invalid, "nodes has {} entries; the limit is {}",
                                     request.nodes_size(), forgets_max);
    }
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter(state_, served, request.context(), false));
    for (const auto& each : request.nodes()) {
        entered.names.forget(NodeId{each.node()}, each.count());
    }
    co_return Result<>{};
}

Task<Result<>> FileService::space(Served& served, const v1::SpaceRequest& request,
                                  v1::SpaceReply& reply) {
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter(state_, served, request.context(), false));
    ROS2S_CO_TRY_ASSIGN(const auto space, co_await entered.names.space(served.call));
    reply.set_total_bytes(space.total_bytes);
    reply.set_free_bytes(space.free_bytes);
    reply.set_files(space.files);
    reply.set_files_max(space.files_max);
    co_return Result<>{};
}

}  // namespace ros2s::control
