#include "store_server.h"

#include <algorithm>
#include <cstring>

#include "fields.h"
#include "ros2s/object/client_call.h"
#include "ros2s/object/validate.h"
#include "ros2s/runtime/slices.h"

namespace ros2s::remote {

using namespace object;

using Use = ContainerPolicy::Use;

namespace {

constexpr size_t workspaces_kept_max = 64;
// Of one that is kept. A client can make any element of these lists large. Without a limit, all
// elements would grow one after the other.
constexpr size_t workspace_bytes_kept_max = size_t{128} << 10;
constexpr size_t owners_kept_max = 1024;
// The limit for one page of a list, so that no client makes the store collect more at once.
constexpr uint32_t list_entries_max = 1024;

}  // namespace

void StoreServerMetrics::visit(const MetricVisitor& visit) const {
    visit("ros2store_store_server_fetches_total", "Fetches for clients", fetches.value());
    visit("ros2store_store_server_updates_total", "Updates for clients", updates.value());
    visit("ros2store_store_server_lists_total", "Lists for clients", lists.value());
    visit("ros2store_store_server_others_total", "Other requests of clients", others.value());
    visit("ros2store_store_server_malformed_total", "Requests that could not be decoded",
          malformed.value());
    visit("ros2store_store_server_replayed_total",
          "Updates that had been done before: their stored reply was returned", replayed.value());
}

admission::Work work_of(const rpc::Request& request) {
    switch (static_cast<Method>(request.method())) {
        case Method::update:
        case Method::update_by_client:
            return request.payload_bytes() > 0 ? admission::Work::write : admission::Work::change;
        case Method::create_container:
        case Method::destroy_container:
        case Method::sync: return admission::Work::change;
        case Method::pin:
        case Method::fetch_chain: return admission::Work::look;  // their payload is values
        default: return request.sink_bytes() > 0 ? admission::Work::read : admission::Work::look;
    }
}

uint64_t reply_memory_bytes_of(const rpc::Request& request) {
    uint64_t held = 0;
    switch (static_cast<Method>(request.method())) {
        case Method::list: {
            object::ContainerId container;
            object::ListRequest asked{.limit = list_entries_max};
            (void)rpc::read(request.body(), list_fields, container, asked);
            held = std::min(asked.limit, list_entries_max) *
                   (sizeof(object::ListEntry) + object::key_bytes_max);
            if (!asked.akey.bytes.empty()) held += object::list_value_bytes_max;
            break;
        }
        case Method::list_containers:
            held = object::containers_max *
                   (sizeof(object::ContainerRecord) + object::label_bytes_max);
            break;
        default: return 0;
    }
    // The body is copied behind its header.
    return held + 2 * std::min(held, request.reply_body_bytes_max());
}

namespace {

// Memory that an element refers to.
size_t held_bytes(const FetchItem& item) {
    return item.dkey.bytes.capacity() + item.akey.bytes.capacity() + item.seals.capacity() +
           item.checksums.capacity() * sizeof(uint32_t);
}
size_t held_bytes(const Link& link) { return link.facts.highest_dkey.bytes.capacity(); }
size_t held_bytes(const Condition& condition) {
    return condition.dkey.bytes.capacity() + condition.akey.bytes.capacity();
}
size_t held_bytes(const Operation& operation) {
    return operation.dkey.bytes.capacity() + operation.akey.bytes.capacity() +
           operation.dkey_end.bytes.capacity() + operation.seals.capacity() +
           operation.checksums.capacity() * sizeof(uint32_t);
}
template <class T>
size_t held_bytes(const std::vector<T>& elements) {
    size_t bytes = elements.capacity() * sizeof(T);
    for (const T& element : elements) bytes += held_bytes(element);
    return bytes;
}

}  // namespace

struct StoreServer::Workspace {
    // The list request has a few keys only.
    [[nodiscard]] size_t bytes() const {
        return body.capacity() + held_bytes(items) + held_bytes(links) +
               held_bytes(transaction.conditions) + held_bytes(transaction.operations);
    }

    ContainerId container;
    std::vector<FetchItem> items;
    std::vector<Link> links;
    Transaction transaction;
    ListRequest list;
    Buffer body;
};

class StoreServer::Borrowed {
  public:
    explicit Borrowed(StoreServer& server) : server_(server) {
        if (server.idle_.empty()) {
            work_ = std::make_unique<Workspace>();
        } else {
            work_ = std::move(server.idle_.back());
            server.idle_.pop_back();
        }
    }
    Borrowed& operator=(Borrowed&&) = delete;
    ~Borrowed() {
        if (server_.idle_.size() < workspaces_kept_max &&
            work_->bytes() <= workspace_bytes_kept_max) {
            server_.idle_.push_back(std::move(work_));
        }
    }
    Workspace& operator*() const { return *work_; }

  private:
    StoreServer& server_;
    std::unique_ptr<Workspace> work_;
};

StoreServer::StoreServer(ObjectStore& store, ContainerPolicy* policy, Fingerprint fingerprint)
    : store_(store), policy_(policy), fingerprint_(fingerprint) {}
StoreServer::~StoreServer() = default;

size_t StoreServer::kept_bytes() const {
    size_t bytes = 0;
    for (const auto& work : idle_) bytes += work->bytes();
    return bytes;
}

Task<> StoreServer::serve(rpc::Request& request) {
    const Borrowed work(*this);
    const Result<> served = co_await answer(request, *work);
    request.charge(admission::cost_ns_of_entries(*request.call().entries_looked));
    if (served) co_return;
    co_await request.fail(served.error(), describe(served.error()));
}

namespace {

// The first one is the request itself.
uint64_t cost_of_parts(size_t parts) {
    return parts > 1 ? admission::cost_ns_of_parts(parts - 1) : 0;
}

// `name` outlives the call.
Call named(const rpc::Request& request, const UpdateName& name) {
    Call call = request.call();
    if (name.client.is_nil()) return call;
    call.update = &name;
    call.repeated = request.repeated();
    return call;
}

// A request without an update name has the client that asks in its place, and the incarnation that
// it knows as the number.
ClientCall asked_by(const rpc::Request& request) {
    const UpdateName name = request.operation();
    return {request.call(), {.id = name.client, .incarnation = name.sequence}};
}
ClientCall asked_by(const rpc::Request& request, const Holder& holder) {
    return {request.call(), {.id = holder.client, .incarnation = request.operation().sequence}};
}

// Without the client, which the request names.
Holder holder_of(const rpc::Request& request) {
    return {.client = {}, .session = request.guest().session, .owner = request.guest().owner};
}

}  // namespace

// If two subjects serve clients of the same name, those clients have different owners. None of
// these owners equals a subject's own, and all of a subject's begin as its own does: they share its
// part of the stored replies.
Uuid StoreServer::owner_of(const rpc::Request& request, const Uuid& served) {
    const Uuid& guest = request.guest().owner;
    if (served.is_nil() || fingerprint_ == nullptr) return guest;
    if (owners_.size() >= owners_kept_max) owners_.clear();
    const auto [known, is_new] = owners_.try_emplace({guest, served});
    if (is_new) {
        std::string both(as_text(object_bytes(guest)));
        both += as_text(object_bytes(served));
        known->second = fingerprint_(both);
        std::copy_n(guest.bytes.begin(), object::sender_bytes, known->second.bytes.begin());
    }
    return known->second;
}

namespace {

Task<Result<>> refuse(Code code, uint64_t detail = 0) { co_return fail(code, detail); }

}  // namespace

// The caller still has to reply with an error.
Task<Result<>> StoreServer::answer(rpc::Request& request, Workspace& work) {
    const auto method = static_cast<Method>(request.method());
    const bool is_update = method == Method::update || method == Method::update_by_client;
    if (!is_update && request.payload_bytes() > 0) return refuse(Code::invalid);
    switch (method) {
        case Method::fetch: metrics_.fetches.add(); return fetch(request, work);
        case Method::pin: metrics_.fetches.add(); return pin(request, work);
        case Method::fetch_chain: metrics_.fetches.add(); return fetch_chain(request, work);
        case Method::update:
        case Method::update_by_client: metrics_.updates.add(); return update(request, work);
        case Method::list: metrics_.lists.add(); return list(request, work);
        default: metrics_.others.add();
    }
    switch (method) {
        case Method::describe: return describe_store(request, work);
        case Method::query: return query(request, work);
        case Method::create_container: return create_container(request, work);
        case Method::destroy_container: return destroy_container(request);
        case Method::list_containers: return list_containers(request, work);
        case Method::space: return space(request, work);
        case Method::unpin: return unpin(request, work);
        case Method::pinned_again: return pinned_again(request, work);
        case Method::lock: return lock(request, work);
        case Method::listen: return listen(request, work);
        case Method::sync: return sync(request, work);
        default: return refuse(Code::unsupported, request.method());
    }
}

// ---- the store and its containers -----------------------------------------------------------

Task<Result<>> StoreServer::describe_store(rpc::Request& request, Workspace& work) {
    co_await request.reply(
        rpc::build(work.body, description_fields,
                   Description{.features = store_.features(), .path = store_.path()}));
    co_return Result<>{};
}

Task<Result<>> StoreServer::space(rpc::Request& request, Workspace& work) {
    ROS2S_CO_TRY(read(rpc::read(request.body(), space_request_fields, work.container)));
    const bool of_pool = work.container == ContainerId{};
    if (!of_pool && !permits(request, work.container, Use::read))
        ROS2S_CO_TRY(co_await policy_->decide(request, work.container, Use::read));
    ROS2S_CO_TRY_ASSIGN(const PoolSpace space,
                        co_await store_.space(request.call(), work.container));
    co_await request.reply(rpc::build(work.body, space_fields, space));
    co_return Result<>{};
}

UpdateName StoreServer::name_of(const rpc::Request& request, const Uuid& served, uint64_t digest) {
    UpdateName name = request.operation();
    name.owner = owner_of(request, served);
    name.digest = digest;
    return name;
}

Task<Result<>> StoreServer::create_container(rpc::Request& request, Workspace& work) {
    ROS2S_CO_TRY_ASSIGN(Creation creation,
                        read(rpc::read_body<Creation>(request.body(), create_fields)));
    // A policy logs labels.
    ROS2S_CO_TRY(validate(creation.properties));
    if (policy_ != nullptr) {
        ROS2S_CO_TRY(policy_->permit_creation(request, creation.properties.label));
        ROS2S_CO_TRY(policy_->own(request, creation.properties));
    }
    const UpdateName name = name_of(request, creation.owner, creation.digest);
    ROS2S_CO_TRY_ASSIGN(
        const ContainerRecord record,
        co_await store_.create_container(named(request, name), creation.properties));
    if (policy_ != nullptr) policy_->made(request, record);
    co_await request.reply(rpc::build(work.body, container_fields, record));
    co_return Result<>{};
}

Task<Result<>> StoreServer::destroy_container(rpc::Request& request) {
    ROS2S_CO_TRY_ASSIGN(const Destruction destruction,
                        read(rpc::read_body<Destruction>(request.body(), destroy_fields)));
    if (!permits(request, destruction.container, Use::destroy))
        ROS2S_CO_TRY(co_await policy_->decide(request, destruction.container, Use::destroy));
    const UpdateName name = name_of(request, destruction.owner, destruction.digest);
    ROS2S_CO_TRY(co_await store_.destroy_container(named(request, name), destruction.container));
    if (policy_ != nullptr) policy_->destroyed(request, destruction.container);
    co_await request.reply({});
    co_return Result<>{};
}

Task<Result<>> StoreServer::list_containers(rpc::Request& request, Workspace& work) {
    ROS2S_CO_TRY_ASSIGN(const std::string after,
                        read(rpc::read_body<std::string>(request.body(), list_containers_fields)));
    ROS2S_CO_TRY_ASSIGN(std::vector<ContainerRecord> records,
                        co_await store_.list_containers(request.call()));
    // Each page looks at all of them, however few the client may see.
    request.charge(admission::cost_ns_of_entries(records.size()));
    if (policy_ != nullptr) {
        std::erase_if(records,
                      [&](const ContainerRecord& each) { return !policy_->shows(request, each); });
    }
    co_await request.reply(
        encode_containers(work.body, records, after, request.reply_body_bytes_max()));
    co_return Result<>{};
}

// ---- objects --------------------------------------------------------------------------------

Task<Result<>> StoreServer::query(rpc::Request& request, Workspace& work) {
    const ClientCall asked = asked_by(request);
    ObjectId object;
    Akey akey;
    ROS2S_CO_TRY(read(rpc::read(request.body(), query_fields, work.container, object, akey)));
    if (!permits(request, work.container, Use::read))
        ROS2S_CO_TRY(co_await policy_->decide(request, work.container, Use::read));
    ROS2S_CO_TRY_ASSIGN(const QueryReply reply,
                        co_await store_.query(asked.call(), work.container, object, akey));
    co_await request.reply(rpc::build(work.body, queried_fields, reply));
    co_return Result<>{};
}

Task<Result<>> StoreServer::unpin(rpc::Request& request, Workspace& work) {
    Holder holder = holder_of(request);
    ObjectId object;
    ROS2S_CO_TRY(
        read(rpc::read(request.body(), unpin_fields, work.container, holder.client, object)));
    if (!permits(request, work.container, Use::read))
        ROS2S_CO_TRY(co_await policy_->decide(request, work.container, Use::read));
    ROS2S_CO_TRY_ASSIGN(const bool is_wanted,
                        co_await store_.unpin(request.call(), work.container, holder, object));
    co_await request.reply(rpc::build(work.body, unpinned_fields, is_wanted));
    co_return Result<>{};
}

Task<Result<>> StoreServer::pinned_again(rpc::Request& request, Workspace& work) {
    Holder holder = holder_of(request);
    ROS2S_CO_TRY(
        read(rpc::read(request.body(), pinned_again_fields, work.container, holder.client)));
    if (!permits(request, work.container, Use::read))
        ROS2S_CO_TRY(co_await policy_->decide(request, work.container, Use::read));
    ROS2S_CO_TRY_ASSIGN(const bool is_wanted,
                        co_await store_.pinned_again(request.call(), work.container, holder));
    co_await request.reply(rpc::build(work.body, refused_a_punch_fields, is_wanted));
    co_return Result<>{};
}

Task<Result<>> StoreServer::lock(rpc::Request& request, Workspace& work) {
    Holder holder = holder_of(request);
    object::LockRequest wanted;
    ROS2S_CO_TRY(read(
        rpc::read(request.body(), lock_request_fields, work.container, holder.client, wanted)));
    // Who may only read keeps nobody out, except by flock(2), as in Linux.
    const bool keeps_out =
        wanted.lock.space == LockSpace::container
            ? wanted.lock.mode != LockMode::none
            : wanted.lock.space == LockSpace::range && wanted.lock.mode == LockMode::exclusive;
    const Use use = keeps_out && wanted.how != LockRequest::How::test ? Use::write : Use::read;
    if (!permits(request, work.container, use))
        ROS2S_CO_TRY(co_await policy_->decide(request, work.container, use));
    ROS2S_CO_TRY_ASSIGN(
        const auto in_the_way,
        co_await store_.lock(asked_by(request, holder).call(), work.container, holder, wanted));
    co_await request.reply(rpc::build(work.body, object::lock_reply_fields, in_the_way));
    co_return Result<>{};
}

Task<Result<>> StoreServer::listen(rpc::Request& request, Workspace& work) {
    Holder holder = holder_of(request);
    Listening listening;
    ROS2S_CO_TRY(
        read(rpc::read(request.body(), listen_fields, work.container, holder.client, listening)));
    if (!permits(request, work.container, Use::read))
        ROS2S_CO_TRY(co_await policy_->decide(request, work.container, Use::read));
    request.charge(cost_of_parts(listening.given_back.size()));
    request.leave_turn();
    ROS2S_CO_TRY_ASSIGN(const LeaseNews news,
                        co_await store_.listen(request.call(), work.container, holder, listening));
    co_await request.reply(rpc::build(work.body, news_fields, news));
    co_return Result<>{};
}

Task<Result<>> StoreServer::sync(rpc::Request& request, Workspace& work) {
    Acknowledged known;
    Holder holder = holder_of(request);
    ROS2S_CO_TRY(
        read(rpc::read(request.body(), sync_fields, work.container, holder.client, known)));
    if (!permits(request, work.container, Use::read))
        ROS2S_CO_TRY(co_await policy_->decide(request, work.container, Use::read));
    ROS2S_CO_TRY_ASSIGN(const uint64_t incarnation,
                        co_await store_.sync(request.call(), work.container, holder, known));
    co_await request.reply(rpc::build(work.body, synced_fields, incarnation));
    co_return Result<>{};
}

// ---- fetch ----------------------------------------------------------------------------------

namespace {

// Items of this size and more get windows into which a device can read their blocks. The gaps are
// at most a quarter.
constexpr uint64_t aligned_bytes_min = 8 * block_bytes;

// The windows of the items, one behind the other. Returns how much memory they take. Null: only
// that.
uint64_t place_windows(std::span<FetchItem> items, std::byte* memory) {
    uint64_t end = 0;
    for (FetchItem& item : items) {
        const auto& [offset, length] = item.extent;
        const bool is_aligned = length >= aligned_bytes_min || items.size() == 1;
        if (is_aligned) end += (offset - end) % block_bytes;
        item.room = is_aligned ? (0 - offset - length) % block_bytes : 0;
        if (memory != nullptr) item.window = Window::local(Bytes(memory + end, length));
        end += length + item.room;
    }
    return end;
}

}  // namespace

Task<Result<>> StoreServer::fetch(rpc::Request& request, Workspace& work) {
    ROS2S_CO_TRY(read(rpc::read(request.body(), fetch_fields, work.container, work.items)));
    request.charge(cost_of_parts(work.items.size()));
    if (!permits(request, work.container, Use::read))
        ROS2S_CO_TRY(co_await policy_->decide(request, work.container, Use::read));
    ROS2S_CO_TRY_ASSIGN(const rpc::PayloadMemory memory, give_windows(request, work));
    const ClientCall asked = asked_by(request);
    ROS2S_CO_TRY(co_await store_.fetch(asked.call(), work.container, work.items));
    co_return co_await send_fetched(
        request, work, rpc::build(work.body, fetched_fields, work.items), memory.bytes());
}

Task<Result<>> StoreServer::pin(rpc::Request& request, Workspace& work) {
    Holder holder = holder_of(request);
    work.items.resize(1);
    ROS2S_CO_TRY(read(
        rpc::read(request.body(), pin_fields, work.container, holder.client, work.items.front())));
    if (!permits(request, work.container, Use::read))
        ROS2S_CO_TRY(co_await policy_->decide(request, work.container, Use::read));
    ROS2S_CO_TRY_ASSIGN(const rpc::PayloadMemory memory, give_windows(request, work));
    const ClientCall asked = asked_by(request, holder);
    ROS2S_CO_TRY(co_await store_.pin(asked.call(), work.container, holder, work.items.front()));
    co_return co_await send_fetched(
        request, work, rpc::build(work.body, fetched_fields, work.items), memory.bytes());
}

Task<Result<>> StoreServer::fetch_chain(rpc::Request& request, Workspace& work) {
    Holder holder = holder_of(request);
    ROS2S_CO_TRY(read(rpc::read(request.body(), chain_fields, work.container, holder.client,
                                work.items, work.links)));
    request.charge(cost_of_parts(work.items.size()));
    if (!permits(request, work.container, Use::read))
        ROS2S_CO_TRY(co_await policy_->decide(request, work.container, Use::read));
    ROS2S_CO_TRY_ASSIGN(const rpc::PayloadMemory memory, give_windows(request, work));
    const ClientCall asked = asked_by(request, holder);
    ROS2S_CO_TRY(
        co_await store_.fetch_chain(asked.call(), work.container, holder, work.items, work.links));
    co_return co_await send_fetched(request, work,
                                    rpc::build(work.body, chained_fields, work.items, work.links),
                                    memory.bytes());
}

Result<rpc::PayloadMemory> StoreServer::give_windows(rpc::Request& request, Workspace& work) {
    uint64_t total = 0;
    for (const FetchItem& item : work.items) {
        if (item.extent.length > request.sink_bytes() - total) return fail(Code::invalid);
        total += item.extent.length;
    }
    if (total != request.sink_bytes()) return fail(Code::invalid);
    rpc::PayloadMemory memory = request.memory(place_windows(work.items, nullptr));
    place_windows(work.items, memory.bytes().data());
    return memory;
}

Task<Result<>> StoreServer::send_fetched(rpc::Request& request, Workspace& work, ConstBytes body,
                                         Bytes memory) {
    uint64_t total = 0;
    for (const FetchItem& item : work.items) total += payload_bytes(item);
    if (request.fits_inline(body.size(), total)) {
        std::byte* end = memory.data();
        for (const FetchItem& item : work.items) {
            const Bytes bytes = item.window.bytes().first(payload_bytes(item));
            if (!bytes.empty() && end != bytes.data()) {
                std::memmove(end, bytes.data(), bytes.size());
            }
            end += bytes.size();
        }
        co_await request.reply(body, memory.first(total));
        co_return Result<>{};
    }
    // Sends ranges together that are adjacent here and there.
    uint64_t place = 0, begin = 0;
    Bytes range;
    for (const FetchItem& item : work.items) {
        const Bytes bytes = item.window.bytes().first(payload_bytes(item));
        const bool is_next =
            place == begin + range.size() && bytes.data() == range.data() + range.size();
        if (is_next) {
            range = {range.data(), range.size() + bytes.size()};
        } else if (!bytes.empty()) {
            if (!range.empty()) ROS2S_CO_TRY(co_await request.place(begin, range));
            begin = place;
            range = bytes;
        }
        place += item.extent.length;
    }
    ROS2S_CO_TRY(co_await request.place(begin, range));
    co_await request.reply_placed(body, total);
    co_return Result<>{};
}

// ---- update, list ---------------------------------------------------------------------------

namespace {

// What is put as single values. More than a slice counts as a slice and more.
uint64_t bytes_of_values(const Transaction& transaction) {
    uint64_t bytes = 0;
    for (const Operation& each : transaction.operations) {
        if (each.kind != Operation::Kind::put) continue;
        bytes += std::min<uint64_t>(each.window.length, slice_bytes + 1);
    }
    return bytes;
}

// A store looks at a value several times: the client must not change it meanwhile.
void copy_values(Transaction& transaction, Bytes into) {
    for (Operation& each : transaction.operations) {
        if (each.kind != Operation::Kind::put) continue;
        const ConstBytes theirs = each.window.bytes();
        const Bytes ours = into.first(theirs.size());
        std::ranges::copy(theirs, ours.begin());
        each.window = Window::local(ours);
        into = into.subspan(ours.size());
    }
}

}  // namespace

Task<Result<>> StoreServer::update(rpc::Request& request, Workspace& work) {
    Transaction& transaction = work.transaction;
    transaction.deferred = transaction.was_lost = false;
    uint64_t incarnation = 0;
    ROS2S_CO_TRY(read(static_cast<Method>(request.method()) == Method::update_by_client
                          ? rpc::read(request.body(), client_update_fields, incarnation,
                                      work.container, transaction)
                          : rpc::read(request.body(), update_fields, work.container, transaction)));
    request.charge(
        cost_of_parts(std::max(transaction.operations.size(), transaction.conditions.size())));
    if (!permits(request, work.container, Use::write))
        ROS2S_CO_TRY(co_await policy_->decide(request, work.container, Use::write));
    transaction.id = name_of(request, transaction.id.owner, transaction.id.digest);
    transaction.is_new = !request.repeated();
    transaction.holder.session = request.guest().session;
    transaction.holder.owner = request.guest().owner;
    // A store copies the bytes of arrays before it compares and keeps them: they can stay in the
    // client's memory.
    const uint64_t values = bytes_of_values(transaction);
    Result<fabric::Mapping> theirs = fail(Code::unsupported);
    if (values <= slice_bytes) theirs = request.map_payload();
    if (!theirs && theirs.error().code != Code::unsupported) co_return fail(theirs.error());
    rpc::PayloadMemory ours;
    if (!theirs) ours = request.memory(request.payload_bytes());
    Bytes rest = theirs ? theirs->bytes() : ours.bytes();
    for (Operation& operation : transaction.operations) {
        const uint64_t length = operation.window.length;
        if (length > rest.size()) co_return fail(Code::invalid);
        operation.window = Window::local(rest.first(length));
        operation.window.shared = theirs.has_value();
        rest = rest.subspan(length);
    }
    if (!rest.empty()) co_return fail(Code::invalid);
    if (theirs) {
        ours = request.memory(values);
        copy_values(transaction, ours.bytes());
    } else {
        ROS2S_CO_TRY(co_await request.receive_payload(ours.bytes()));
    }
    const ClientCall asked(request.call(),
                           {.id = transaction.holder.client, .incarnation = incarnation});
    ROS2S_CO_TRY_ASSIGN(const Commit commit,
                        co_await store_.update(asked.call(), work.container, transaction));
    if (theirs) theirs->end();
    if (commit.replayed) metrics_.replayed.add();
    co_await request.reply(encode_commit(work.body, commit, wants_lease(transaction)));
    co_return Result<>{};
}

Task<Result<>> StoreServer::list(rpc::Request& request, Workspace& work) {
    ROS2S_CO_TRY(read(rpc::read(request.body(), list_fields, work.container, work.list)));
    if (!permits(request, work.container, Use::read))
        ROS2S_CO_TRY(co_await policy_->decide(request, work.container, Use::read));
    work.list.limit = std::min(work.list.limit, list_entries_max);
    const ClientCall asked = asked_by(request);
    ROS2S_CO_TRY_ASSIGN(const ListReply reply,
                        co_await store_.list(asked.call(), work.container, work.list));
    // At least, if the store does not count.
    uint64_t& looked = *request.call().entries_looked;
    looked = std::max<uint64_t>(looked, reply.entries.size());
    co_await request.reply(encode_listed(work.body, reply, request.reply_body_bytes_max()));
    co_return Result<>{};
}

}  // namespace ros2s::remote
