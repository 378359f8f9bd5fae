// Requests about names: calls session::MountNames for their session.
#include <algorithm>
#include <concepts>

#include "link_server.h"
#include "names_wire.h"
#include "ros2s/base/digest.h"
#include "ros2s/session/mount_names.h"

namespace ros2s::hostlink {
namespace {

using session::MountNames;

ConstBytes encode_answer(Buffer& buffer, const fs::Attributes& attributes) {
    return encode_attributes(buffer, attributes);
}
ConstBytes encode_answer(Buffer& buffer, const fs::Opened& opened) {
    return rpc::build(buffer, opened_fields, opened);
}
ConstBytes encode_answer(Buffer& buffer, const fs::Walked& walked) {
    return rpc::build(buffer, walked_fields, walked);
}
ConstBytes encode_answer(Buffer& buffer, const std::string& content) {
    return rpc::build(buffer, content_fields, content);
}
ConstBytes encode_answer(Buffer& buffer, const std::vector<std::string>& names) {
    return rpc::build(buffer, xattr_names_fields, names);
}
ConstBytes encode_answer(Buffer& buffer, const fs::FileSystemSpace& space) {
    return rpc::build(buffer, space_fields, space);
}
ConstBytes encode_answer(Buffer& buffer, const std::vector<FoundName>& found) {
    return rpc::build(buffer, found_names_fields, found);
}
ConstBytes encode_answer(Buffer& buffer, const CodesBody& codes) {
    return rpc::build(buffer, codes_fields, codes);
}
template <class T>
ConstBytes body_of(Buffer& buffer, const Result<T>& done) {
    if constexpr (std::is_void_v<T>) {
        return {};
    } else {
        return encode_answer(buffer, *done);
    }
}

// The mount's number comes first; it differs between processes of the server.
ConstBytes without_mount(ConstBytes body) { return body.subspan(sizeof(session::MountId)); }

// What is already open or looked up is given back, and space is shown, for whichever user.
template <class Body>
constexpr bool is_for_user = !std::same_as<Body, HandleBody> && !std::same_as<Body, ForgetBody> &&
                             !std::same_as<Body, MountBody>;

Task<Result<>> drop_references(MountNames& names, const ForgetBody& dropped) {
    for (const Forgotten& each : dropped.nodes) names.forget(each.node, each.count);
    co_return Result<>{};
}

// The first name is the request itself.
void charge_for(rpc::Request& request, size_t names) {
    if (names < 2) return;
    request.charge(admission::cost_ns_of_parts(names - 1));
    request.charge_names(names - 1);
}

Task<Result<std::vector<FoundName>>> look_up_many(MountNames& names, const Call& call,
                                                  const NamesBody& body) {
    std::vector<FoundName> found;
    for (auto& result : co_await names.lookup_many(call, body.parent, body.names)) {
        found.push_back({.result = result});
    }
    co_return found;
}

Result<CodesBody> codes_of(const std::vector<Result<>>& results) {
    CodesBody body;
    if (std::ranges::all_of(results, &Result<>::has_value)) return body;
    for (const Result<>& result : results) body.codes.push_back(code_of(result));
    return body;
}
Task<Result<CodesBody>> create_many(MountNames& names, const Call& call, const NamesBody& body) {
    co_return codes_of(
        co_await names.create_many(call, body.parent, body.names, body.mode, body.owner));
}
Task<Result<CodesBody>> unlink_many(MountNames& names, const Call& call, const NamesBody& body) {
    co_return codes_of(co_await names.unlink_many(call, body.parent, body.names));
}

// In a reply.
uint64_t entry_bytes_max() {
    return fs::name_bytes_max + least_bytes<fs::DirectoryEntry>(entry_fields);
}

}  // namespace

template <class Body, class Apply>
Task<Result<>> LinkServer::ask(rpc::Request& request, Scratch& scratch, auto fields, Apply apply) {
    Body asked;
    ROS2S_CO_TRY(rpc::read(request.body(), with_user(fields), scratch.user, asked));
    ROS2S_CO_TRY_ASSIGN(const Using entered, enter(request, asked.mount));
    fs::Caller caller;
    if constexpr (is_for_user<Body>) {
        ROS2S_CO_TRY_ASSIGN(caller, entered.mount->caller_for(scratch.user));
    }
    uint64_t names_walked = 0;
    Call call = request.call();
    call.caller = &caller;
    call.names_walked = &names_walked;
    metrics_.lookups.add();
    Report report;
    MountNames names(*entered.mount, report);
    const auto found = co_await apply(names, call, asked);
    charge_for(request, names_walked);
    if (!found) {
        co_await request.fail(found.error(), report.text());
        co_return Result<>{};
    }
    const ConstBytes body = body_of(scratch.answer, found);
    if (body.size() > request.reply_body_bytes_max()) {
        co_return fail(Code::too_large, request.reply_body_bytes_max());
    }
    co_await request.reply(body);
    co_return Result<>{};
}

template <class Body, class Apply>
Task<Result<>> LinkServer::change(rpc::Request& request, Scratch& scratch, auto fields,
                                  Apply apply) {
    Body asked;
    ROS2S_CO_TRY(rpc::read(request.body(), with_user(fields), scratch.user, asked));
    ROS2S_CO_TRY_ASSIGN(const Using entered, enter(request, asked.mount));
    ROS2S_CO_TRY_ASSIGN(const fs::Caller caller, entered.mount->caller_for(scratch.user));
    const rpc::OperationId id = request.operation();
    if (id.client != entered.session->request.client) co_return fail(Code::invalid);
    const session::SessionId session = entered.session->id;
    const uint64_t digest = Digest().add(request.method()).add(request.body()).value();
    Report report;
    StoredReplies::Reply reply;
    ROS2S_CO_TRY_ASSIGN(const StoredReplies::Reply* stored,
                        co_await replies_.begin(session, entered.session->tenant, id, digest));
    if (stored != nullptr) {
        reply = *stored;
    } else {
        // As for the bytes of files: the host's own name for the update goes to the store, and an
        // update that has begun is finished, unless the tenant lost its rights meanwhile.
        const UpdateName name{
            .client = id.client,
            .slot = id.slot,
            .sequence = id.sequence,
            .repeated = request.repeated(),
            .owner = entered.session->owner,
            .digest = Digest().add(request.method()).add(without_mount(request.body())).value()};
        uint64_t names_walked = 0;
        const Call call{.deadline = request.call().deadline,
                        .stop = entered.session->revoked.token(),
                        .tenant = request.call().tenant,
                        .trace = request.call().trace,
                        .update = &name,
                        .caller = &caller,
                        .names_walked = &names_walked};
        MountNames names(*entered.mount, report);
        const auto done = co_await apply(names, call, asked);
        charge_for(request, names_walked);
        if (done) {
            const ConstBytes body = body_of(scratch.answer, done);
            reply.body.assign(body.begin(), body.end());
            metrics_.changes.add();
        } else {
            reply.status = fail(done.error());
        }
        replies_.end(session, id, reply);
    }
    if (reply.status) {
        co_await request.reply(reply.body);
    } else {
        co_await request.fail(reply.status.error(), report.text());
    }
    co_return Result<>{};
}

// The body of a reply exists twice: as it is encoded, and in its frame.
uint64_t LinkServer::reply_memory_bytes(const rpc::Request& request) const {
    constexpr uint64_t listed_bytes = fs::name_bytes_max + sizeof(fs::DirectoryEntry);
    constexpr uint64_t found_bytes =
        sizeof(FoundName) + sizeof(Result<fs::Attributes>) + 2 * sizeof(fs::Attributes);
    switch (static_cast<Method>(request.method())) {
        case Method::readdir: {
            const auto asked = decode_readdir(request.body());
            const uint64_t entries = asked ? asked->limit : readdir_entries_max;
            return entries * listed_bytes +
                   2 * std::min(entries * entry_bytes_max(), request.reply_body_bytes_max());
        }
        case Method::readdir_many:
            return fs::names_together_max * (listed_bytes + 2 * entry_bytes_max() + found_bytes);
        case Method::lookup_many: return fs::names_together_max * found_bytes;
        case Method::get_xattr: return 3 * fs::attribute_value_bytes_max;
        // Strings of short names take several times their bytes.
        case Method::list_xattrs: return 6 * fs::attribute_value_bytes_max;
        case Method::read_many: {
            const uint64_t least = least_bytes<fs::ReadManyItem>(read_item_fields);
            const uint64_t items =
                std::min<uint64_t>(request.body_bytes() / least, read_many_items_max);
            return request.body_bytes() + items * (sizeof(fs::ReadManyItem) + sizeof(uint32_t) +
                                                   2 * read_many_answer_bytes);
        }
        default: return 0;
    }
}

Task<Result<>> LinkServer::names(rpc::Request& request, Scratch& scratch) {
    switch (static_cast<Method>(request.method())) {
        case Method::lookup:
            return ask<NodeBody>(request, scratch, node_fields,
                                 [](auto& names, const Call& call, const NodeBody& body) {
                                     return names.lookup(call, body.node, body.name);
                                 });
        case Method::get_attributes:
            return ask<NodeBody>(request, scratch, node_fields,
                                 [](auto& names, const Call& call, const NodeBody& body) {
                                     return names.get_attributes(call, body.node);
                                 });
        case Method::read_link:
            return ask<NodeBody>(request, scratch, node_fields,
                                 [](auto& names, const Call& call, const NodeBody& body) {
                                     return names.readlink(call, body.node);
                                 });
        case Method::walk:
            return ask<WalkBody>(request, scratch, walk_fields,
                                 [](auto& names, const Call& call, const WalkBody& body) {
                                     return names.walk(call, body.path, body.last);
                                 });
        case Method::get_xattr:
            return ask<NodeBody>(request, scratch, node_fields,
                                 [](auto& names, const Call& call, const NodeBody& body) {
                                     return names.get_xattr(call, body.node, body.name);
                                 });
        case Method::list_xattrs:
            return ask<NodeBody>(request, scratch, node_fields,
                                 [](auto& names, const Call& call, const NodeBody& body) {
                                     return names.list_xattrs(call, body.node);
                                 });
        case Method::space:
            return ask<MountBody>(
                request, scratch, mount_fields,
                [](auto& names, const Call& call, const MountBody&) { return names.space(call); });
        case Method::close:
            return ask<HandleBody>(request, scratch, handle_fields,
                                   [](auto& names, const Call& call, const HandleBody& body) {
                                       return names.close(call, body.handle);
                                   });
        case Method::forget:
            return ask<ForgetBody>(request, scratch, forget_fields,
                                   [](auto& names, const Call&, const ForgetBody& body) {
                                       return drop_references(names, body);
                                   });
        case Method::lookup_many:
            return ask<NamesBody>(request, scratch, names_fields,
                                  [&request](auto& names, const Call& call, const NamesBody& body) {
                                      charge_for(request, body.names.size());
                                      return look_up_many(names, call, body);
                                  });
        default: return changes(request, scratch);
    }
}

Task<Result<>> LinkServer::changes(rpc::Request& request, Scratch& scratch) {
    switch (static_cast<Method>(request.method())) {
        case Method::open:
            return change<OpenBody>(request, scratch, open_fields,
                                    [](auto& names, const Call& call, const OpenBody& body) {
                                        return names.open(call, body.node, body.flags);
                                    });
        case Method::create:
            return change<CreateBody>(request, scratch, create_fields,
                                      [](auto& names, const Call& call, const CreateBody& body) {
                                          return names.create(call, body.parent, body.name,
                                                              body.mode, body.flags, body.owner);
                                      });
        case Method::open_path:
            return change<OpenPathBody>(
                request, scratch, open_path_fields,
                [](auto& names, const Call& call, const OpenPathBody& body) {
                    return names.open_path(call, body.path, body.how);
                });
        case Method::create_many:
            return change<NamesBody>(
                request, scratch, names_fields,
                [&request](auto& names, const Call& call, const NamesBody& body) {
                    charge_for(request, body.names.size());
                    return create_many(names, call, body);
                });
        case Method::unlink_many:
            return change<NamesBody>(
                request, scratch, names_fields,
                [&request](auto& names, const Call& call, const NamesBody& body) {
                    charge_for(request, body.names.size());
                    return unlink_many(names, call, body);
                });
        case Method::make_directory:
            return change<MakeBody>(request, scratch, make_fields,
                                    [](auto& names, const Call& call, const MakeBody& body) {
                                        return names.mkdir(call, body.parent, body.name, body.mode,
                                                           body.owner);
                                    });
        case Method::make_node:
            return change<MakeBody>(request, scratch, make_fields,
                                    [](auto& names, const Call& call, const MakeBody& body) {
                                        return names.mknod(call, body.parent, body.name, body.mode,
                                                           body.device, body.owner);
                                    });
        case Method::symlink:
            return change<MakeBody>(request, scratch, make_fields,
                                    [](auto& names, const Call& call, const MakeBody& body) {
                                        return names.symlink(call, body.parent, body.name,
                                                             body.target, body.owner);
                                    });
        case Method::link:
            return change<LinkBody>(request, scratch, link_fields,
                                    [](auto& names, const Call& call, const LinkBody& body) {
                                        return names.link(call, body.node, body.parent, body.name);
                                    });
        case Method::unlink:
            return change<NodeBody>(request, scratch, node_fields,
                                    [](auto& names, const Call& call, const NodeBody& body) {
                                        return names.unlink(call, body.node, body.name);
                                    });
        case Method::remove_directory:
            return change<NodeBody>(request, scratch, node_fields,
                                    [](auto& names, const Call& call, const NodeBody& body) {
                                        return names.rmdir(call, body.node, body.name);
                                    });
        case Method::rename:
            return change<RenameBody>(request, scratch, rename_fields,
                                      [](auto& names, const Call& call, const RenameBody& body) {
                                          return names.rename(call, body.parent, body.name,
                                                              body.new_parent, body.new_name,
                                                              body.flags);
                                      });
        case Method::set_attributes:
            return change<SetAttributesBody>(
                request, scratch, set_attributes_fields,
                [](auto& names, const Call& call, const SetAttributesBody& body) {
                    return names.set_attributes(call, body.node, body.changes);
                });
        case Method::set_xattr:
            return change<SetXattrBody>(
                request, scratch, set_xattr_fields,
                [](auto& names, const Call& call, const SetXattrBody& body) {
                    return names.set_xattr(call, body.node, body.name, as_bytes(body.value),
                                           body.how);
                });
        case Method::remove_xattr:
            return change<NodeBody>(request, scratch, node_fields,
                                    [](auto& names, const Call& call, const NodeBody& body) {
                                        return names.remove_xattr(call, body.node, body.name);
                                    });
        default: break;
    }
    return []() -> Task<Result<>> { co_return fail(Code::unsupported); }();
}

Task<Result<>> LinkServer::readdir(rpc::Request& request, Scratch& scratch) {
    ROS2S_CO_TRY_ASSIGN(const ReaddirBody asked, decode_readdir(request.body()));
    ROS2S_CO_TRY_ASSIGN(const Using entered, enter(request, asked.mount));
    Report report;
    MountNames names(*entered.mount, report);
    ROS2S_CO_TRY_ASSIGN(const auto entries, co_await names.readdir(request.call(), asked.handle,
                                                                   asked.cookie, asked.limit));
    request.charge(admission::cost_ns_of_entries(entries.size()));
    co_await request.reply(encode_entries(scratch.answer, entries, request.reply_body_bytes_max()));
    co_return Result<>{};
}

// As many entries as fit into the reply, so that no node is looked up in vain.
Task<Result<>> LinkServer::readdir_many(rpc::Request& request, Scratch& scratch) {
    ReaddirManyBody asked;
    ROS2S_CO_TRY(rpc::read(request.body(), with_user(readdir_many_fields), scratch.user, asked));
    ROS2S_CO_TRY_ASSIGN(const Using entered, enter(request, asked.mount));
    ROS2S_CO_TRY_ASSIGN(const fs::Caller caller, entered.mount->caller_for(scratch.user));
    Call call = request.call();
    call.caller = &caller;
    Report report;
    MountNames names(*entered.mount, report);
    ROS2S_CO_TRY_ASSIGN(auto entries,
                        co_await names.readdir(call, asked.handle, asked.cookie, asked.limit));
    std::vector<FoundEntry> listed;
    for (fs::DirectoryEntry& entry : entries) {
        listed.push_back({.entry = std::move(entry), .result = fs::Attributes{}});
    }
    listed.resize(rpc::fitting(std::span<const FoundEntry>(listed), found_entry_fields,
                               request.reply_body_bytes_max(), sizeof(uint32_t)));
    std::vector<std::string_view> wanted;
    for (const FoundEntry& each : listed) wanted.push_back(each.entry.name);
    charge_for(request, wanted.size());
    const auto found = co_await names.lookup_many(call, asked.node, wanted);
    for (size_t i = 0; i < found.size(); ++i) listed[i].result = found[i];
    co_await request.reply(rpc::build(scratch.answer, found_entries_fields, listed));
    co_return Result<>{};
}

}  // namespace ros2s::hostlink
