// Requests about names: calls session::MountNames for their session.
#include <algorithm>
#include <concepts>
#include <functional>

#include "link_server.h"
#include "names_wire.h"
#include "ros2s/base/digest.h"
#include "ros2s/session/mount_names.h"

namespace ros2s::hostlink {
namespace {

using session::MountNames;

template <class T>
ConstBytes body_of(Buffer& buffer, const Result<T>& done) {
    if constexpr (std::is_void_v<T>) {
        return {};
    } else {
        return rpc::build(buffer, fields_of(*done), *done);
    }
}

// The mount's number comes first; it differs between processes of the server.
ConstBytes without_mount(ConstBytes body) { return body.subspan(sizeof(session::MountId)); }

// References and handles are given back, and space is shown, for every user.
template <class Body>
constexpr bool is_for_user = !std::same_as<Body, HandleBody> && !std::same_as<Body, ForgetBody> &&
                             !std::same_as<Body, MountBody>;

Task<Result<>> drop_references(MountNames& names, const Call&,
                               const std::vector<Forgotten>& dropped) {
    for (const Forgotten& each : dropped) names.forget(each.node, each.count);
    co_return Result<>{};
}

// The first name is the request itself.
void charge_for(rpc::Request& request, size_t names) {
    if (names < 2) return;
    request.charge(admission::cost_ns_of_parts(names - 1));
    request.charge_names(names - 1);
}

using Names = std::vector<std::string_view>;
Task<Result<std::vector<FoundName>>> look_up_many(MountNames& names, const Call& call,
                                                  fs::NodeId parent, const Names& wanted) {
    std::vector<FoundName> found;
    for (auto& result : co_await names.lookup_many(call, parent, wanted)) {
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
Task<Result<CodesBody>> create_many(MountNames& names, const Call& call, fs::NodeId parent,
                                    const Names& created, mode_t mode, fs::Owner owner) {
    co_return codes_of(co_await names.create_many(call, parent, created, mode, owner));
}
Task<Result<CodesBody>> unlink_many(MountNames& names, const Call& call, fs::NodeId parent,
                                    const Names& unlinked) {
    co_return codes_of(co_await names.unlink_many(call, parent, unlinked));
}
Task<Result<>> set_xattr(MountNames& names, const Call& call, fs::NodeId node,
                         std::string_view name, std::string_view value, fs::SetXattr how) {
    return names.set_xattr(call, node, name, as_bytes(value), how);
}

// In a reply.
uint64_t entry_bytes_max() {
    return fs::name_bytes_max + least_bytes<fs::DirectoryEntry>(entry_fields);
}

}  // namespace

template <class Body, class... Parts>
Task<Result<>> LinkServer::ask(rpc::Request& request, Scratch& scratch, auto apply,
                               Parts Body::*... parts) {
    Body asked;
    ROS2S_CO_TRY(rpc::read(request.body(), with_user(fields_of(asked)), scratch.user, asked));
    ROS2S_CO_TRY_ASSIGN(const MountInUse entered, enter(request, asked.mount));
    fs::Caller caller;
    if constexpr (is_for_user<Body>) {
        ROS2S_CO_TRY_ASSIGN(caller, caller_for(request, entered, scratch.user));
    }
    uint64_t names_walked = 0;
    Call call = request.call();
    call.caller = &caller;
    call.names_walked = &names_walked;
    metrics_.lookups.add();
    Report report;
    MountNames names(*entered.mount, report);
    if constexpr (std::same_as<Body, NamesBody>) charge_for(request, asked.names.size());
    const auto found = co_await std::invoke(apply, names, call, asked.*parts...);
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

template <class Body, class... Parts>
Task<Result<>> LinkServer::change(rpc::Request& request, Scratch& scratch, auto apply,
                                  Parts Body::*... parts) {
    Body asked;
    ROS2S_CO_TRY(rpc::read(request.body(), with_user(fields_of(asked)), scratch.user, asked));
    ROS2S_CO_TRY_ASSIGN(const MountInUse entered, enter(request, asked.mount));
    ROS2S_CO_TRY_ASSIGN(const fs::Caller caller, caller_for(request, entered, scratch.user));
    const rpc::OperationId id = request.operation();
    if (id.client != entered.session->request.client) co_return fail(Code::invalid);
    const session::SessionId session = entered.session->id;
    const uint64_t digest = Digest().add(request.method()).add(request.body()).value();
    Report report;
    StoredReplies::Reply reply;
    ROS2S_CO_TRY_ASSIGN(
        const StoredReplies::Reply* stored,
        co_await replies_.begin(request.call(), session, entered.session->tenant, id, digest));
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
        if constexpr (std::same_as<Body, NamesBody>) charge_for(request, asked.names.size());
        const auto done = co_await std::invoke(apply, names, call, asked.*parts...);
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
            const auto asked = rpc::read_body<ReaddirBody>(request.body(), readdir_fields);
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
            return ask(request, scratch, &MountNames::lookup, &NodeBody::node, &NodeBody::name);
        case Method::get_attributes:
            return ask(request, scratch, &MountNames::get_attributes, &NodeBody::node);
        case Method::read_link:
            return ask(request, scratch, &MountNames::readlink, &NodeBody::node);
        case Method::walk:
            return ask(request, scratch, &MountNames::walk, &WalkBody::path, &WalkBody::last);
        case Method::get_xattr:
            return ask(request, scratch, &MountNames::get_xattr, &NodeBody::node, &NodeBody::name);
        case Method::list_xattrs:
            return ask(request, scratch, &MountNames::list_xattrs, &NodeBody::node);
        case Method::space: return ask<MountBody>(request, scratch, &MountNames::space);
        case Method::close: return ask(request, scratch, &MountNames::close, &HandleBody::handle);
        case Method::forget: return ask(request, scratch, drop_references, &ForgetBody::nodes);
        case Method::lookup_many:
            return ask(request, scratch, look_up_many, &NamesBody::parent, &NamesBody::names);
        default: return changes(request, scratch);
    }
}

Task<Result<>> LinkServer::changes(rpc::Request& request, Scratch& scratch) {
    switch (static_cast<Method>(request.method())) {
        case Method::open:
            return change(request, scratch, &MountNames::open, &OpenBody::node, &OpenBody::flags);
        case Method::create:
            return change(request, scratch, &MountNames::create, &CreateBody::parent,
                          &CreateBody::name, &CreateBody::mode, &CreateBody::flags,
                          &CreateBody::owner);
        case Method::open_path:
            return change(request, scratch, &MountNames::open_path, &OpenPathBody::path,
                          &OpenPathBody::how);
        case Method::create_many:
            return change(request, scratch, create_many, &NamesBody::parent, &NamesBody::names,
                          &NamesBody::mode, &NamesBody::owner);
        case Method::unlink_many:
            return change(request, scratch, unlink_many, &NamesBody::parent, &NamesBody::names);
        case Method::make_directory:
            return change(request, scratch, &MountNames::mkdir, &MakeBody::parent, &MakeBody::name,
                          &MakeBody::mode, &MakeBody::owner);
        case Method::make_node:
            return change(request, scratch, &MountNames::mknod, &MakeBody::parent, &MakeBody::name,
                          &MakeBody::mode, &MakeBody::device, &MakeBody::owner);
        case Method::symlink:
            return change(request, scratch, &MountNames::symlink, &MakeBody::parent,
                          &MakeBody::name, &MakeBody::target, &MakeBody::owner);
        case Method::link:
            return change(request, scratch, &MountNames::link, &LinkBody::node, &LinkBody::parent,
                          &LinkBody::name);
        case Method::unlink:
            return change(request, scratch, &MountNames::unlink, &NodeBody::node, &NodeBody::name);
        case Method::remove_directory:
            return change(request, scratch, &MountNames::rmdir, &NodeBody::node, &NodeBody::name);
        case Method::rename:
            return change(request, scratch, &MountNames::rename, &RenameBody::parent,
                          &RenameBody::name, &RenameBody::new_parent, &RenameBody::new_name,
                          &RenameBody::flags);
        case Method::set_attributes:
            return change(request, scratch, &MountNames::set_attributes, &SetAttributesBody::node,
                          &SetAttributesBody::changes);
        case Method::set_xattr:
            return change(request, scratch, set_xattr, &SetXattrBody::node, &SetXattrBody::name,
                          &SetXattrBody::value, &SetXattrBody::how);
        case Method::remove_xattr:
            return change(request, scratch, &MountNames::remove_xattr, &NodeBody::node,
                          &NodeBody::name);
        default: break;
    }
    return []() -> Task<Result<>> { co_return fail(Code::unsupported); }();
}

Task<Result<>> LinkServer::readdir(rpc::Request& request, Scratch& scratch) {
    ROS2S_CO_TRY_ASSIGN(const ReaddirBody asked,
                        rpc::read_body<ReaddirBody>(request.body(), readdir_fields));
    ROS2S_CO_TRY_ASSIGN(const MountInUse entered, enter(request, asked.mount));
    Report report;
    MountNames names(*entered.mount, report);
    ROS2S_CO_TRY_ASSIGN(const auto entries, co_await names.readdir(request.call(), asked.handle,
                                                                   asked.cookie, asked.limit));
    request.charge(admission::cost_ns_of_entries(entries.size()));
    co_await request.reply(encode_entries(scratch.answer, entries, request.reply_body_bytes_max()));
    co_return Result<>{};
}

// As many entries as fit into the reply, so that no node is looked up without need.
Task<Result<>> LinkServer::readdir_many(rpc::Request& request, Scratch& scratch) {
    ReaddirManyBody asked;
    ROS2S_CO_TRY(rpc::read(request.body(), with_user(readdir_many_fields), scratch.user, asked));
    ROS2S_CO_TRY_ASSIGN(const MountInUse entered, enter(request, asked.mount));
    ROS2S_CO_TRY_ASSIGN(const fs::Caller caller, caller_for(request, entered, scratch.user));
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
