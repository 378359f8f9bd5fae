#include "services.h"

#include <fmt/format.h>

#include <algorithm>

#include "fields.h"
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
Task<Result<MountInUse>> enter(ServerState& state, Served& served, const v1::Context& context,
                               bool for_user) {
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

// Errors: stale, cancelled, invalid.
template <class Request>
Task<Result<MountInUse>> enter(ServerState& state, Served& served, const Request& request,
                               For what) {
    ROS2S_CO_TRY_ASSIGN(auto entered,
                        co_await enter(state, served, request.context(), what != For::releasing));
    if (what == For::changing) ROS2S_CO_TRY(name_update(served, *entered.session, request));
    co_return entered;
}

fs::Owner decode(const v1::Owner& owner) { return {.uid = owner.uid(), .gid = owner.gid()}; }

void encode(const fs::Attributes& attributes, v1::NodeReply& reply) {
    control::encode(attributes, *reply.mutable_attributes());
}
void encode(const fs::Opened& opened, v1::OpenFileReply& reply) {
    reply.set_handle(opened.handle.value);
    control::encode(opened.attributes, *reply.mutable_attributes());
}
void encode(std::string target, v1::ReadLinkReply& reply) { reply.set_target(std::move(target)); }
void encode(std::string value, v1::GetXattrReply& reply) { reply.set_value(std::move(value)); }
void encode(std::vector<std::string> names, v1::ListXattrsReply& reply) {
    for (std::string& name : names) reply.add_names(std::move(name));
}
void encode(const fs::FileSystemSpace& space, v1::SpaceReply& reply) {
    reply.set_total_bytes(space.total_bytes);
    reply.set_free_bytes(space.free_bytes);
    reply.set_files(space.files);
    reply.set_files_max(space.files_max);
}

template <class Value, class Reply>
Result<> answer(Result<Value> result, Reply& reply) {
    ROS2S_TRY(result);
    if constexpr (!std::is_void_v<Value>) encode(std::move(*result), reply);
    return {};
}

}  // namespace

Task<Result<>> MountService::mount(Served& served, const v1::MountRequest& request,
                                   v1::MountReply& reply) {
    ROS2S_CO_TRY(check_label("container", request.container(), served.report));
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
                              .wants_leases = session->request.purpose == session::Purpose::link};
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
    reply.set_lends_leases(state_.parts.mounts->lends(session->id, mounted));
    co_return Result<>{};
}

Task<Result<>> MountService::unmount(Served& served, const v1::UnmountRequest& request,
                                     v1::UnmountReply&) {
    ROS2S_CO_TRY_ASSIGN(const auto session, state_.session(served, request.session()));
    co_return co_await state_.parts.mounts->unmount(*session, {request.mount()});
}

template <class Request, class Reply, class Act>
void FileService::offer_for(For what, Act act) {
    offer(Request::default_instance(), Reply::default_instance(),
          [this, what, act](Served& served, const Message& request, Message& reply) {
              return serve(what, act, served, static_cast<const Request&>(request),
                           static_cast<Reply&>(reply));
          });
}

template <class Act, class Request, class Reply>
Task<Result<>> FileService::serve(For what, Act act, Served& served, const Request& request,
                                  Reply& reply) {
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter(state_, served, request, what));
    co_return answer(co_await act(entered.names, served.call, request), reply);
}

FileService::FileService(ServerState& state) : OfferedService(state.gate), state_(state) {
    look<v1::LookupRequest, v1::NodeReply>([](auto& names, auto& call, auto& in) {
        return names.lookup(call, NodeId{in.parent()}, in.name());
    });
    change<v1::MakeDirectoryRequest, v1::NodeReply>([](auto& names, auto& call, auto& in) {
        return names.mkdir(call, NodeId{in.parent()}, in.name(), in.mode(), decode(in.owner()));
    });
    change<v1::MakeNodeRequest, v1::NodeReply>([](auto& names, auto& call, auto& in) {
        return names.mknod(call, NodeId{in.parent()}, in.name(), in.mode(), in.device(),
                           decode(in.owner()));
    });
    change<v1::SymlinkRequest, v1::NodeReply>([](auto& names, auto& call, auto& in) {
        return names.symlink(call, NodeId{in.parent()}, in.name(), in.target(), decode(in.owner()));
    });
    change<v1::LinkRequest, v1::NodeReply>([](auto& names, auto& call, auto& in) {
        return names.link(call, NodeId{in.node()}, NodeId{in.parent()}, in.name());
    });
    change<v1::UnlinkRequest, v1::EmptyReply>([](auto& names, auto& call, auto& in) {
        return names.unlink(call, NodeId{in.parent()}, in.name());
    });
    change<v1::RemoveDirectoryRequest, v1::EmptyReply>([](auto& names, auto& call, auto& in) {
        return names.rmdir(call, NodeId{in.parent()}, in.name());
    });
    change<v1::RenameRequest, v1::EmptyReply>([](auto& names, auto& call, auto& in) {
        return names.rename(call, NodeId{in.parent()}, in.name(), NodeId{in.new_parent()},
                            in.new_name(),
                            {.no_replace = in.no_replace(),
                             .exchange = in.exchange(),
                             .whiteout = in.whiteout(),
                             .owner = decode(in.owner())});
    });
    look<v1::ReadLinkRequest, v1::ReadLinkReply>(
        [](auto& names, auto& call, auto& in) { return names.readlink(call, NodeId{in.node()}); });
    look<v1::GetAttributesRequest, v1::NodeReply>([](auto& names, auto& call, auto& in) {
        return names.get_attributes(call, NodeId{in.node()});
    });
    change<v1::SetAttributesRequest, v1::NodeReply>([](auto& names, auto& call, auto& in) {
        return names.set_attributes(call, NodeId{in.node()}, control::decode(in));
    });
    look<v1::GetXattrRequest, v1::GetXattrReply>([](auto& names, auto& call, auto& in) {
        return names.get_xattr(call, NodeId{in.node()}, in.name());
    });
    change<v1::RemoveXattrRequest, v1::EmptyReply>([](auto& names, auto& call, auto& in) {
        return names.remove_xattr(call, NodeId{in.node()}, in.name());
    });
    look<v1::ListXattrsRequest, v1::ListXattrsReply>([](auto& names, auto& call, auto& in) {
        return names.list_xattrs(call, NodeId{in.node()});
    });
    change<v1::CreateFileRequest, v1::OpenFileReply>([](auto& names, auto& call, auto& in) {
        return names.create(call, NodeId{in.parent()}, in.name(), in.mode(),
                            control::decode(in.flags()), decode(in.owner()));
    });
    release<v1::CloseFileRequest, v1::EmptyReply>(
        [](auto& names, auto& call, auto& in) { return names.close(call, {in.handle()}); });
    release<v1::SpaceRequest, v1::SpaceReply>(
        [](auto& names, auto& call, auto& /*in*/) { return names.space(call); });
}

Task<Result<>> FileService::set_xattr(Served& served, const v1::SetXattrRequest& request,
                                      v1::EmptyReply&) {
    ROS2S_CO_TRY_ASSIGN(const auto how, control::decode(request.how(), served.report));
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter(state_, served, request, For::changing));
    co_return co_await entered.names.set_xattr(served.call, NodeId{request.node()}, request.name(),
                                               as_bytes(request.value()), how);
}

Task<Result<>> FileService::open(Served& served, const v1::OpenFileRequest& request,
                                 v1::OpenFileReply& reply) {
    const fs::OpenFlags flags = control::decode(request.flags());
    const bool changes = flags.write || flags.append || flags.truncate;
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter(state_, served, request,
                                                     changes ? For::changing : For::looking));
    co_return answer(co_await entered.names.open(served.call, NodeId{request.node()}, flags),
                     reply);
}

Task<Result<>> FileService::read_directory(Served& served, const v1::ReadDirectoryRequest& request,
                                           v1::ReadDirectoryReply& reply) {
    if (request.limit() == 0) {
        co_return served.report.fail(Code::invalid, "limit is 0; request at least one entry");
    }
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter(state_, served, request, For::releasing));
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
    ROS2S_CO_TRY_ASSIGN(auto entered, co_await enter(state_, served, request, For::releasing));
    for (const auto& each : request.nodes()) {
        entered.names.forget(NodeId{each.node()}, each.count());
    }
    co_return Result<>{};
}

}  // namespace ros2s::control
