// RemoteStore's fetch: the contents of one request, and the destination of its reply's payload.
#include <algorithm>

#include "ask.h"
#include "fields.h"
#include "remote_store.h"
#include "ros2s/object/chain.h"
#include "ros2s/object/validate.h"

namespace ros2s::remote {

using namespace object;

namespace {

constexpr uint64_t count_bytes = 4;  // before the items' replies

Bytes extent_of(const FetchItem& item) { return item.window.bytes().first(item.extent.length); }

// Copies the payload of a reply to its destination. `links`: of a chain.
class FetchReader final : public rpc::ReplyReader {
  public:
    FetchReader(std::span<FetchItem> items, std::span<Link> links) : items_(items), links_(links) {}

    Result<> read(const rpc::Reply& reply) override {
        ROS2S_TRY(links_.empty() ? rpc::read(reply.body, fetched_fields, items_)
                                 : rpc::read(reply.body, chained_fields, items_, links_));
        uint64_t expected = 0;
        for (const FetchItem& item : items_) expected += payload_bytes(item);
        if (expected != reply.payload_bytes) return fail(Code::corrupt);
        uint64_t place = 0, done = 0;
        for (FetchItem& item : items_) {
            const uint64_t count = payload_bytes(item);
            if (reply.where == rpc::Reply::Payload::inline_) {
                reply.copy(reply.payload.subspan(done, count), extent_of(item));
            } else if (reply.where == rpc::Reply::Payload::staged) {
                reply.copy(reply.payload.subspan(place, count), extent_of(item));
            }
            done += count;
            place += item.extent.length;
            // Holes have no payload.
            if (!item.status && item.status.error().code == Code::not_found) {
                std::ranges::fill(extent_of(item), std::byte{0});
            }
        }
        return {};
    }

  private:
    std::span<FetchItem> items_;
    std::span<Link> links_;
};

}  // namespace

// ---- without a coroutine --------------------------------------------------------------------

class RemoteStore::Posted final : public rpc::PostedCall, public PostedFetch::Request {
  public:
    explicit Posted(RemoteStore& store) : store_(store) {}

    bool begin(const Call& call, ContainerId container, FetchItem& item, PostedFetch& fetch) {
        item_ = &item;
        fetch_ = &fetch;
        const rpc::PostedRequest request{
            .method = number(Method::fetch),
            .id = client_in(call),
            .body = rpc::build(body_, fetch_fields, container, std::span<FetchItem>(&item, 1)),
            .payload_bytes = item.extent.length,
            .reply_body_bytes_max = count_bytes + reply_bytes_max(item)};
        return store_.channel_.post(call.tenant, request, *this);
    }

  private:
    void replied(const rpc::PostedReply& reply) noexcept override {
        PostedFetch& fetch = end();
        const std::span<FetchItem> items(item_, 1);
        const uint64_t bytes = reply.payload.first.size() + reply.payload.second.size();
        if (!rpc::read(reply.body, fetched_fields, items) || item_->is_value) return fetch.lost();
        const bool is_absent = !item_->status && item_->status.error().code == Code::not_found;
        if ((!item_->status && !is_absent) || bytes != payload_bytes(*item_)) return fetch.lost();
        if (fetch.observer != nullptr) fetch.observer->fetched(bytes, fetch.begun);
        fetch.fetched({reply.payload.first, reply.payload.second});
    }
    void lost() noexcept override { end().lost(); }
    void drop() noexcept override {
        PostedCall::drop();
        end();
    }
    PostedFetch& end() noexcept {
        store_.unused_.push_back(this);
        fetch_->request = nullptr;
        return *fetch_;
    }

    RemoteStore& store_;
    FetchItem* item_ = nullptr;
    PostedFetch* fetch_ = nullptr;
    Buffer body_;
};

RemoteStore::RemoteStore(rpc::Channel& channel, Description description)
    : channel_(channel), description_(std::move(description)) {}
RemoteStore::~RemoteStore() = default;

bool RemoteStore::post_fetch(const Call& call, ContainerId container, FetchItem& item,
                             PostedFetch& fetch) {
    if (item.wants_seals || !begin_fetch(item)) return false;
    if (unused_.empty()) {
        unused_.push_back(posted_.emplace_back(std::make_unique<Posted>(*this)).get());
    }
    Posted& posted = *unused_.back();
    if (!posted.begin(call, container, item, fetch)) return false;
    fetch.request = &posted;
    unused_.pop_back();
    return true;
}

// ---- fetch ----------------------------------------------------------------------------------

Task<Result<>> RemoteStore::fetch(const Call& call, ContainerId container,
                                  std::span<FetchItem> items) {
    ROS2S_CHECK(items.size() <= fetch_items_max);
    // An empty fetch still makes a request: it checks the container and the call.
    if (items.empty()) co_return co_await fetch_batch(call, container, items);
    bool asked = false;
    while (!items.empty()) {
        if (!begin_fetch(items.front())) {
            items = items.subspan(1);
            continue;
        }
        asked = true;
        if (items.front().extent.length > fetch_bytes_max(items.front())) {
            ROS2S_CO_TRY(co_await fetch_in_parts(call, container, items.front()));
            items = items.subspan(1);
            continue;
        }
        size_t count = 1;
        while (count < items.size() && begin_fetch(items[count])) ++count;
        count = batch_size(items.first(count));
        ROS2S_CO_TRY(co_await fetch_batch(call, container, items.first(count)));
        items = items.subspan(count);
    }
    if (!asked) co_return co_await fetch_batch(call, container, {});
    co_return Result<>{};
}

// Seals must fit into the body of a reply.
uint64_t RemoteStore::fetch_bytes_max(const FetchItem& item) const {
    if (!item.wants_seals) return payload_bytes_max();
    const uint64_t blocks = channel_.reply_body_bytes_max() / 2 / (seal_bytes + sizeof(uint32_t));
    return std::min(payload_bytes_max(), std::max<uint64_t>(blocks, 1) * block_bytes);
}

size_t RemoteStore::batch_size(std::span<const FetchItem> items) const {
    uint64_t payload = 0, request = 64, reply = count_bytes;
    for (size_t i = 0; i < items.size(); ++i) {
        payload += items[i].extent.length;
        request += request_bytes_max(items[i]);
        reply += reply_bytes_max(items[i]);
        const bool fits = payload <= payload_bytes_max() && request <= rpc::body_bytes_max &&
                          reply <= channel_.reply_body_bytes_max();
        if (i > 0 && !fits) return i;
    }
    return items.size();
}

Task<Result<>> RemoteStore::fetch_batch(const Call& call, ContainerId container,
                                        std::span<FetchItem> items) {
    Buffer body;
    co_return co_await fetch_as(call, Method::fetch,
                                rpc::build(body, fetch_fields, container, items), items, {});
}

Task<Result<>> RemoteStore::pin(const Call& call, ContainerId container, const Holder& holder,
                                FetchItem& item) {
    if (!begin_fetch(item)) co_return Result<>{};
    if (item.extent.length > payload_bytes_max()) co_return fail(Code::too_large);
    Buffer body;
    co_return co_await fetch_as(call, Method::pin,
                                rpc::build(body, pin_fields, container, holder.client, item),
                                {&item, 1}, {});
}

Task<Result<>> RemoteStore::fetch_chain(const Call& call, ContainerId container,
                                        const Holder& holder, std::span<FetchItem> items,
                                        std::span<Link> links) {
    ROS2S_CO_TRY(validate(items, links));
    if (items.empty()) co_return co_await fetch_batch(call, container, items);
    Buffer body;
    ROS2S_CO_TRY(co_await fetch_as(
        call, Method::fetch_chain,
        rpc::build(body, chain_fields, container, holder.client, items, links), items, links));
    // The server resolved the references. Its results must be consistent with them.
    for (size_t i = 0; i < items.size(); ++i) {
        if (items[i].status && !resolve(items, links, i)) co_return fail(Code::corrupt);
    }
    co_return Result<>{};
}

Task<Result<>> RemoteStore::fetch_as(const Call& call, Method method, ConstBytes body,
                                     std::span<FetchItem> items, std::span<Link> links) {
    InlineVector<Bytes, 4> sink;
    sink.reserve(items.size());
    uint64_t reply = count_bytes;
    for (FetchItem& item : items) {
        item.wants_seals = item.wants_seals && method == Method::fetch;
        sink.push_back(extent_of(item));
        reply += reply_bytes_max(item);
    }
    for (const Link& link : links) {
        if (link.kind == Link::Kind::query) reply += facts_bytes_max();
        if (link.wants_lease) reply += sizeof link.lease;
    }
    FetchReader reader(items, links);
    const rpc::CallRequest request{.method = number(method),
                                   .id = client_in(call),
                                   .repeatable = true,
                                   .body = body,
                                   .sink = sink,
                                   .reply_body_bytes_max = reply};
    co_return co_await channel_.call(call, request, reader);
}

Task<Result<>> RemoteStore::fetch_in_parts(const Call& call, ContainerId container,
                                           FetchItem& item) {
    const Extent whole = item.extent;
    Checksums checksums;
    std::string seals;
    FetchItem part = item;
    for (uint64_t done = 0; done < whole.length; done = part.extent.end() - whole.offset) {
        // Parts end at the ends of pieces, so that their checksums are those of the whole.
        const uint64_t begin = whole.offset + done;
        const uint64_t end =
            std::min(whole.end(), round_down(begin + fetch_bytes_max(item), block_bytes));
        if (end <= begin) co_return fail(Code::corrupt);  // a new connection takes less
        part.extent = {begin, end - begin};
        part.window = item.window.slice(done, part.extent.length);
        ROS2S_CO_TRY(co_await fetch_batch(call, container, {&part, 1}));
        for (const uint32_t each : part.checksums) checksums.push_back(each);
        seals += part.seals;
        if (!part.status || part.is_value) break;
    }
    item.status = part.status;
    item.is_value = part.is_value;
    item.size = part.size;
    item.epoch = part.epoch;
    if (part.status) {
        item.checksums = std::move(checksums);
        item.seals = std::move(seals);
    }
    if (!part.status && part.status.error().code == Code::not_found) {
        std::ranges::fill(extent_of(item), std::byte{0});
    }
    co_return Result<>{};
}

}  // namespace ros2s::remote
