// The methods of the host link: one row for each (LinkServer::methods, at the end), and the
// handlers of those about names, which call session::MountNames for their session.
#include <algorithm>
#include <concepts>

#include "link_server.h"
#include "names_wire.h"
#include "ros2s/base/digest.h"
#include "ros2s/session/mount_names.h"

namespace ros2s::hostlink {
namespace {

using session::MountNames;
using Leases = std::vector<Leased>;

// A call may read a node several times. Under two leases the parts may be of different times: then
// nothing covers them.
void tidy(Leases& leases) {
    std::ranges::sort(leases, {}, &Leased::node);
    size_t kept = 0;
    for (size_t i = 0; i < leases.size();) {
        Leased all = leases[i];
        bool is_one = true;
        for (; i < leases.size() && leases[i].node == all.node; ++i) {
            is_one = is_one && leases[i].number == all.number;
            all.changed = std::max(all.changed, leases[i].changed);
        }
        if (is_one) leases[kept++] = all;
    }
    leases.resize(kept);
    if (leases.size() > leases_max) leases.resize(leases_max);
}
template <class T>
ConstBytes body_of(Buffer& buffer, const Result<T>& done, const Leases& leases) {
    if constexpr (std::is_void_v<T>) {
        return rpc::build(buffer, with_leases(nothing_fields), leases, Nothing{});
    } else {
        return rpc::build(buffer, with_leases(fields_of(*done)), leases, *done);
    }
}

// The mount's number comes first; it differs between processes of the server.
ConstBytes without_mount(ConstBytes body) { return body.subspan(sizeof(session::MountId)); }

// References and handles are given back, and space is shown, for every user.
template <class Body>
constexpr bool is_for_user = !std::same_as<Body, HandleBody> && !std::same_as<Body, ForgetBody> &&
                             !std::same_as<Body, MountBody>;

// The first name is the request itself.
void charge_for(rpc::Request& request, size_t names) {
    if (names < 2) return;
    request.charge(admission::cost_ns_of_parts(names - 1));
    request.charge_names(names - 1);
}

template <class Done, class Body>
Body body_taken_by(Task<Done> (*)(MountNames&, const Call&, const Body&));

}  // namespace

template <auto apply>
Task<Result<>> LinkServer::ask(rpc::Request& request, Scratch& scratch) {
    using Body = decltype(body_taken_by(apply));
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
    Leases leases;
    if (entered.mount->is_lending()) call.leases = &leases;
    metrics_.lookups.add();
    Report report;
    MountNames names(*entered.mount, report);
    if constexpr (std::same_as<Body, NamesBody>) charge_for(request, asked.names.size());
    const auto found = co_await apply(names, call, asked);
    charge_for(request, names_walked);
    if (!found) {
        co_await request.fail(found.error(), report.text());
        co_return Result<>{};
    }
    tidy(leases);
    ConstBytes body = body_of(scratch.answer, found, leases);
    const uint64_t most = request.reply_body_bytes_max();
    if (body.size() > most && !leases.empty()) body = body_of(scratch.answer, found, {});
    if (body.size() > most) co_return fail(Code::too_large, most);
    co_await request.reply(body);
    co_return Result<>{};
}

template <auto apply>
Task<Result<>> LinkServer::change(rpc::Request& request, Scratch& scratch) {
    using Body = decltype(body_taken_by(apply));
    Body asked;
    ROS2S_CO_TRY(rpc::read(request.body(), with_user(fields_of(asked)), scratch.user, asked));
    ROS2S_CO_TRY_ASSIGN(const MountInUse entered, enter(request, asked.mount));
    ROS2S_CO_TRY_ASSIGN(const fs::Caller caller, caller_for(request, entered, scratch.user));
    const UpdateName id = request.operation();
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
            .owner = entered.session->owner,
            .digest = Digest().add(request.method()).add(without_mount(request.body())).value()};
        uint64_t names_walked = 0;
        Leases leases;
        const Call call{.deadline = request.call().deadline,
                        .stop = entered.session->revoked.token(),
                        .tenant = request.call().tenant,
                        .trace = request.call().trace,
                        .update = &name,
                        .repeated = request.repeated(),
                        .caller = &caller,
                        .names_walked = &names_walked,
                        .leases = entered.mount->is_lending() ? &leases : nullptr};
        MountNames names(*entered.mount, report);
        if constexpr (std::same_as<Body, NamesBody>) charge_for(request, asked.names.size());
        const auto done = co_await apply(names, call, asked);
        charge_for(request, names_walked);
        if (done) {
            const ConstBytes body = body_of(scratch.answer, done, {});
            reply.body.assign(body.begin(), body.end());
            metrics_.changes.add();
        } else {
            reply.status = fail(done.error());
        }
        replies_.end(session, id, reply);
        // A repetition gets no leases.
        tidy(leases);
        if (done && !leases.empty()) {
            const ConstBytes body = body_of(scratch.answer, done, leases);
            reply.body.assign(body.begin(), body.end());
        }
    }
    if (reply.status) {
        co_await request.reply(reply.body);
    } else {
        co_await request.fail(reply.status.error(), report.text());
    }
    co_return Result<>{};
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

namespace {

// Those of a directory and so many nodes in it.
uint64_t leases_bytes(size_t nodes) { return (nodes + 1) * sizeof(Leased); }

}  // namespace

// As many entries as fit into the reply, so that no node is looked up without need.
Task<Result<>> LinkServer::readdir_many(rpc::Request& request, Scratch& scratch) {
    ReaddirManyBody asked;
    ROS2S_CO_TRY(rpc::read(request.body(), with_user(readdir_many_fields), scratch.user, asked));
    ROS2S_CO_TRY_ASSIGN(const MountInUse entered, enter(request, asked.mount));
    ROS2S_CO_TRY_ASSIGN(const fs::Caller caller, caller_for(request, entered, scratch.user));
    Call call = request.call();
    call.caller = &caller;
    Leases leases;
    if (entered.mount->is_lending()) call.leases = &leases;
    Report report;
    MountNames names(*entered.mount, report);
    ROS2S_CO_TRY_ASSIGN(auto entries,
                        co_await names.readdir(call, asked.handle, asked.cookie, asked.limit));
    std::vector<FoundEntry> listed;
    for (fs::DirectoryEntry& entry : entries) {
        listed.push_back({.entry = std::move(entry), .result = fs::Attributes{}});
    }
    listed.resize(rpc::fitting(std::span<const FoundEntry>(listed), found_entry_fields,
                               request.reply_body_bytes_max(),
                               2 * sizeof(uint32_t) + leases_bytes(listed.size())));
    std::vector<std::string_view> wanted;
    for (const FoundEntry& each : listed) wanted.push_back(each.entry.name);
    charge_for(request, wanted.size());
    const auto found = co_await names.lookup_many(call, asked.node, wanted);
    for (size_t i = 0; i < found.size(); ++i) listed[i].result = found[i];
    tidy(leases);
    if (leases.size() > listed.size() + 1) leases.clear();
    co_await request.reply(
        rpc::build(scratch.answer, with_leases(found_entries_fields), leases, listed));
    co_return Result<>{};
}

// It waits for others, so it takes no part of what its tenant may have inside.
Task<Result<>> LinkServer::listen(rpc::Request& request, Scratch& scratch) {
    ROS2S_CO_TRY_ASSIGN(const ListenBody asked,
                        rpc::read_body<ListenBody>(request.body(), listen_fields));
    ROS2S_CO_TRY_ASSIGN(const MountInUse entered, enter(request, asked.mount));
    session::MountLeases* const leases = entered.mount->leases();
    session::LeaseNews news{.lost = true};
    if (leases != nullptr) {
        request.leave_turn();
        news = co_await leases->listen(request.call(), asked.listening);
    }
    co_await request.reply(rpc::build(scratch.answer, news_fields, news));
    co_return Result<>{};
}

// ---- the most memory of a reply -------------------------------------------------------------
// The body of a reply exists twice: as it is encoded, and in its frame.

namespace {

constexpr uint64_t listed_bytes = fs::name_bytes_max + sizeof(fs::DirectoryEntry);
constexpr uint64_t found_bytes = sizeof(FoundName) + sizeof(Result<fs::Attributes>) +
                                 2 * sizeof(fs::Attributes) + 4 * sizeof(Leased);

// In a reply.
uint64_t entry_bytes_max() {
    return fs::name_bytes_max + least_bytes<fs::DirectoryEntry>(entry_fields);
}
uint64_t readdir_bytes(const rpc::Request& request) {
    const auto asked = rpc::read_body<ReaddirBody>(request.body(), readdir_fields);
    const uint64_t entries = asked ? asked->limit : readdir_entries_max;
    return entries * listed_bytes +
           2 * std::min(entries * entry_bytes_max(), request.reply_body_bytes_max());
}
uint64_t readdir_many_bytes(const rpc::Request&) {
    return fs::names_together_max * (listed_bytes + 2 * entry_bytes_max() + found_bytes);
}
uint64_t lookup_many_bytes(const rpc::Request&) { return fs::names_together_max * found_bytes; }
uint64_t xattr_bytes(const rpc::Request&) { return 3 * fs::attribute_value_bytes_max; }
// Strings of short names take several times their bytes.
uint64_t xattr_names_bytes(const rpc::Request&) { return 6 * fs::attribute_value_bytes_max; }
uint64_t read_many_bytes(const rpc::Request& request) {
    const uint64_t least = least_bytes<fs::ReadManyItem>(read_item_fields);
    const uint64_t items = std::min<uint64_t>(request.body_bytes() / least, read_many_items_max);
    return request.body_bytes() +
           items * (sizeof(fs::ReadManyItem) + sizeof(uint32_t) + 2 * read_many_answer_bytes);
}

uint64_t blocks_bytes(const rpc::Request& request) {
    const uint64_t least = least_bytes<SentBlock>(block_fields);
    const uint64_t blocks =
        std::min<uint64_t>(request.body_bytes() / least, fs::blocks_together_max);
    return blocks * (sizeof(SentBlock) + sizeof(fs::BlockItem) + 2 * sizeof(uint16_t));
}

}  // namespace

// ---- what each method about names does --------------------------------------------------------

namespace {

auto lookup(MountNames& names, const Call& call, const NodeBody& body) {
    return names.lookup(call, body.node, body.name);
}
auto get_attributes(MountNames& names, const Call& call, const NodeBody& body) {
    return names.get_attributes(call, body.node);
}
auto make_directory(MountNames& names, const Call& call, const MakeBody& body) {
    return names.mkdir(call, body.parent, body.name, body.mode, body.owner);
}
auto make_node(MountNames& names, const Call& call, const MakeBody& body) {
    return names.mknod(call, body.parent, body.name, body.mode, body.device, body.owner);
}
auto symlink(MountNames& names, const Call& call, const MakeBody& body) {
    return names.symlink(call, body.parent, body.name, body.target, body.owner);
}
auto link(MountNames& names, const Call& call, const LinkBody& body) {
    return names.link(call, body.node, body.parent, body.name);
}
auto unlink(MountNames& names, const Call& call, const NodeBody& body) {
    return names.unlink(call, body.node, body.name);
}
auto remove_directory(MountNames& names, const Call& call, const NodeBody& body) {
    return names.rmdir(call, body.node, body.name);
}
auto rename(MountNames& names, const Call& call, const RenameBody& body) {
    return names.rename(call, body.parent, body.name, body.new_parent, body.new_name, body.flags);
}
auto read_link(MountNames& names, const Call& call, const NodeBody& body) {
    return names.readlink(call, body.node);
}
auto set_attributes(MountNames& names, const Call& call, const SetAttributesBody& body) {
    return names.set_attributes(call, body.node, body.changes);
}
auto get_xattr(MountNames& names, const Call& call, const NodeBody& body) {
    return names.get_xattr(call, body.node, body.name);
}
auto set_xattr(MountNames& names, const Call& call, const SetXattrBody& body) {
    return names.set_xattr(call, body.node, body.name, as_bytes(body.value), body.how);
}
auto remove_xattr(MountNames& names, const Call& call, const NodeBody& body) {
    return names.remove_xattr(call, body.node, body.name);
}
auto list_xattrs(MountNames& names, const Call& call, const NodeBody& body) {
    return names.list_xattrs(call, body.node);
}
auto open(MountNames& names, const Call& call, const OpenBody& body) {
    return names.open(call, body.node, body.flags);
}
auto create(MountNames& names, const Call& call, const CreateBody& body) {
    return names.create(call, body.parent, body.name, body.mode, body.flags, body.owner);
}
auto close(MountNames& names, const Call& call, const HandleBody& body) {
    return names.close(call, body.handle);
}
auto space(MountNames& names, const Call& call, const MountBody&) { return names.space(call); }
auto walk(MountNames& names, const Call& call, const WalkBody& body) {
    return names.walk(call, body.path, body.last);
}
auto open_path(MountNames& names, const Call& call, const OpenPathBody& body) {
    return names.open_path(call, body.path, body.how);
}
Task<Result<>> forget(MountNames& names, const Call&, const ForgetBody& body) {
    for (const Forgotten& each : body.nodes) names.forget(each.node, each.count);
    co_return Result<>{};
}
Task<Result<std::vector<FoundName>>> lookup_many(MountNames& names, const Call& call,
                                                 const NamesBody& body) {
    std::vector<FoundName> found;
    for (auto& result : co_await names.lookup_many(call, body.parent, body.names)) {
        found.push_back({.result = result});
    }
    co_return found;
}
Task<Result<std::vector<FoundName>>> look_up_names(MountNames& names, const Call& call,
                                                   const NamesBody& body) {
    std::vector<FoundName> found;
    for (auto& result : co_await names.look_up_names(call, body.parent, body.names)) {
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

}  // namespace

// ---- the methods ----------------------------------------------------------------------------

constexpr std::array<LinkServer::MethodRow, method_count> LinkServer::methods{{
    {Method::read, "read", plain, &LinkServer::read},
    {Method::write, "write", plain, &LinkServer::update},
    {Method::sync, "sync", is_change, &LinkServer::sync},
    {Method::punch_hole, "punch_hole", is_change, &LinkServer::update},
    {Method::lookup, "lookup", has_node, asks<lookup>},
    {Method::get_attributes, "get_attributes", has_node, asks<get_attributes>},
    {Method::readdir, "readdir", plain, &LinkServer::readdir, readdir_bytes},
    {Method::read_many, "read_many", has_node, &LinkServer::read_many, read_many_bytes},
    {Method::make_directory, "make_directory", has_node | is_change, changes<make_directory>},
    {Method::make_node, "make_node", has_node | is_change, changes<make_node>},
    {Method::symlink, "symlink", has_node | is_change, changes<symlink>},
    {Method::link, "link", has_node | is_change, changes<link>},
    {Method::unlink, "unlink", has_node | is_change, changes<unlink>},
    {Method::remove_directory, "remove_directory", has_node | is_change, changes<remove_directory>},
    {Method::rename, "rename", has_node | is_change, changes<rename>},
    {Method::read_link, "read_link", has_node, asks<read_link>},
    {Method::set_attributes, "set_attributes", has_node | is_change, changes<set_attributes>},
    {Method::get_xattr, "get_xattr", has_node, asks<get_xattr>, xattr_bytes},
    {Method::set_xattr, "set_xattr", has_node | is_change, changes<set_xattr>},
    {Method::remove_xattr, "remove_xattr", has_node | is_change, changes<remove_xattr>},
    {Method::list_xattrs, "list_xattrs", has_node, asks<list_xattrs>, xattr_names_bytes},
    {Method::open, "open", has_node, changes<open>},
    {Method::create, "create", has_node | is_change, changes<create>},
    {Method::close, "close", gives_back, asks<close>},
    {Method::forget, "forget", gives_back, asks<forget>},
    {Method::space, "space", plain, asks<space>},
    {Method::walk, "walk", plain, asks<walk>},
    {Method::open_path, "open_path", plain, changes<open_path>},
    {Method::lookup_many, "lookup_many", has_node, asks<lookup_many>, lookup_many_bytes},
    {Method::create_many, "create_many", has_node | is_change, changes<create_many>},
    {Method::unlink_many, "unlink_many", has_node | is_change, changes<unlink_many>},
    {Method::readdir_many, "readdir_many", has_node, &LinkServer::readdir_many, readdir_many_bytes},
    {Method::write_pieces, "write_pieces", plain, &LinkServer::update},
    {Method::seek, "seek", plain, &LinkServer::seek},
    {Method::lock, "lock", plain, &LinkServer::lock},
    {Method::allocate, "allocate", is_change, &LinkServer::update},
    {Method::allocate_inside, "allocate_inside", is_change, &LinkServer::update},
    {Method::look_up_names, "look_up_names", has_node, asks<look_up_names>, lookup_many_bytes},
    {Method::listen, "listen", plain, &LinkServer::listen},
    {Method::read_node, "read_node", has_node, &LinkServer::read_node},
    {Method::blocks, "blocks", plain, &LinkServer::blocks, blocks_bytes},
}};

const LinkServer::MethodRow* LinkServer::find_method(uint16_t number) {
    static_assert(std::ranges::all_of(methods,
                                      [](const MethodRow& row) {
                                          return &row ==
                                                 &methods[static_cast<size_t>(row.method) - 1];
                                      }),
                  "in the order of their numbers");
    return number == 0 || number > methods.size() ? nullptr : &methods[number - 1];
}

std::span<const std::string_view> LinkServer::method_names() {
    static constexpr auto names = [] {
        std::array<std::string_view, method_count> all;
        std::ranges::transform(methods, all.begin(), &MethodRow::name);
        return all;
    }();
    return names;
}

admission::Work LinkServer::work(const rpc::Request& request) const {
    const MethodRow* const row = find_method(request.method());
    if (row != nullptr && row->has(is_change)) return admission::Work::change;
    return rpc::Service::work(request);
}

uint64_t LinkServer::reply_memory_bytes(const rpc::Request& request) const {
    const MethodRow* const row = find_method(request.method());
    return row == nullptr || row->reply_bytes == nullptr ? 0 : row->reply_bytes(request);
}

}  // namespace ros2s::hostlink
