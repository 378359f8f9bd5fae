#include "counted_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "ros2s/object/validate.h"
#include "ros2s/runtime/trace.h"

namespace ros2s::client {

using namespace object;

namespace {

void visit_kind(std::string_view kind, const RequestMetrics& metrics, const MetricVisitor& visit) {
    const auto one = [&](std::string_view name, std::string_view help, const Counter& counter) {
        visit(fmt::format("ros2store_client_{}_{}", kind, name), help, counter.value());
    };
    one("requests_total", "requests that were answered", metrics.requests);
    one("errors_total", "requests and fetch items that failed", metrics.errors);
    one("bytes_total", "payload requested or sent", metrics.bytes);
    one("latency_nanoseconds_total", "sum of the times from request to answer", metrics.latency_ns);
    uint64_t below = 0;
    for (size_t i = 0; i + 1 < RequestMetrics::bucket_count; ++i) {
        below += metrics.latency[i].value();
        visit(fmt::format("ros2store_client_{}_below_{}_nanoseconds_total", kind,
                          uint64_t{1024} << 2 * i),
              "requests that were answered in less time than this", below);
    }
}

}  // namespace

void ClientMetrics::visit(const MetricVisitor& visit) const {
    visit_kind("fetch", fetch, visit);
    visit_kind("update", update, visit);
    visit_kind("list", list, visit);
    visit_kind("query", query, visit);
    visit_kind("other", other, visit);
    visit("ros2store_client_corrupt_total", "extents and values withheld because they are corrupt",
          corrupt.value());
    visit("ros2store_client_read_again_total",
          "extents read again, because they did not match in memory that a host can write",
          read_again.value());
}

namespace {

bool is_failure(const FetchItem& item) {
    if (item.status) return false;
    const Code code = item.status.error().code;
    return code != Code::not_found && code != Code::too_small;
}

}  // namespace

Task<Result<>> CountedStore::fetch(const Call& call, ContainerId container,
                                   std::span<FetchItem> items) {
    return fetched(call, container, items, below().fetch(call, container, items));
}
Task<Result<>> CountedStore::pin(const Call& call, ContainerId container, const Holder& holder,
                                 FetchItem& item) {
    return fetched(call, container, {&item, 1}, below().pin(call, container, holder, item));
}
Task<Result<>> CountedStore::fetch_chain(const Call& call, ContainerId container,
                                         const Holder& holder, std::span<FetchItem> items,
                                         std::span<Link> links) {
    return fetched(call, container, items,
                   below().fetch_chain(call, container, holder, items, links));
}

Task<Result<>> CountedStore::fetched(const Call& call, ContainerId container,
                                     std::span<FetchItem> items, Task<Result<>> request) {
    const Span span(call.trace, reactor_, "client.fetch");
    const Time begin = reactor_.turn_time();
    Result<> done = co_await std::move(request);
    if (done && verifies_) done = co_await verify(call, container, items);
    uint64_t bytes = 0;
    if (done) {
        for (FetchItem& item : items) {
            bytes += item.extent.length;
            if (!verifies_) check_status(item);
            if (is_failure(item)) metrics_.fetch.errors.add();
        }
    } else {
        metrics_.fetch.errors.add();
    }
    metrics_.fetch.bytes.add(bytes);
    metrics_.fetch.finish(reactor_.since(begin));
    co_return done;
}

bool CountedStore::post_fetch(const Call& call, ContainerId container, FetchItem& item,
                              PostedFetch& fetch) {
    fetch.observer = this;
    fetch.begun = reactor_.turn_time();
    return below().post_fetch(call, container, item, fetch);
}

void CountedStore::fetched(uint64_t bytes, Time begun) noexcept {
    metrics_.fetch.bytes.add(bytes);
    metrics_.fetch.finish(reactor_.since(begun));
}

void CountedStore::check_status(FetchItem& item) {
    if (item.status || item.status.error().code != Code::corrupt) return;
    withhold(item, item.status.error().detail);
}

void CountedStore::withhold(FetchItem& item, uint64_t detail) {
    metrics_.corrupt.add();
    item.status = fail(Code::corrupt, detail);
    item.checksums.clear();
    item.seals.clear();
    if (item.window.is_local()) {
        std::ranges::fill(item.window.bytes().first(item.extent.length), std::byte{0});
    }
}

Task<Result<Commit>> CountedStore::update(const Call& call, ContainerId container,
                                          const Transaction& transaction) {
    return counted_update(call, transaction, below().update(call, container, transaction));
}

Task<Result<Commit>> CountedStore::counted_update(const Call& call, const Transaction& transaction,
                                                  Task<Result<Commit>> request) {
    const Span span(call.trace, reactor_, "client.update");
    const Time begin = reactor_.turn_time();
    Result<Commit> commit;
    // An invalid transaction has nothing to compute checksums of.
    if (const Result<> sense = validate(transaction); !sense) {
        commit = fail(sense.error());
    } else {
        commit = co_await std::move(request);
    }
    for (const Operation& operation : transaction.operations) {
        metrics_.update.bytes.add(operation.window.length);
    }
    if (!commit) metrics_.update.errors.add();
    metrics_.update.finish(reactor_.since(begin));
    co_return commit;
}

template <class T>
Task<Result<T>> CountedStore::counted(const Call& call, std::string_view name,
                                      RequestMetrics& metrics, Task<Result<T>> request) {
    const Span span(call.trace, reactor_, name);
    const Time begin = reactor_.turn_time();
    Result<T> result = co_await std::move(request);
    if (!result) metrics.errors.add();
    metrics.finish(reactor_.since(begin));
    co_return result;
}

Task<Result<ListReply>> CountedStore::list(const Call& call, ContainerId container,
                                           const ListRequest& request) {
    return counted(call, "client.list", metrics_.list, below().list(call, container, request));
}
Task<Result<QueryReply>> CountedStore::query(const Call& call, ContainerId container,
                                             ObjectId object, const Akey& akey) {
    return counted(call, "client.query", metrics_.query,
                   below().query(call, container, object, akey));
}
Task<Result<bool>> CountedStore::unpin(const Call& call, ContainerId container,
                                       const Holder& holder, ObjectId object) {
    return counted(call, "client.unpin", metrics_.other,
                   below().unpin(call, container, holder, object));
}
Task<Result<bool>> CountedStore::pinned_again(const Call& call, ContainerId container,
                                              const Holder& holder) {
    return counted(call, "client.pinned_again", metrics_.other,
                   below().pinned_again(call, container, holder));
}
Task<Result<ContainerRecord>> CountedStore::create_container(
    const Call& call, const ContainerProperties& properties) {
    return counted(call, "client.create_container", metrics_.other,
                   below().create_container(call, properties));
}
Task<Result<>> CountedStore::destroy_container(const Call& call, ContainerId container) {
    return counted(call, "client.destroy_container", metrics_.other,
                   below().destroy_container(call, container));
}
Task<Result<std::vector<ContainerRecord>>> CountedStore::list_containers(const Call& call) {
    return counted(call, "client.list_containers", metrics_.other, below().list_containers(call));
}
Task<Result<PoolSpace>> CountedStore::space(const Call& call, ContainerId container) {
    return counted(call, "client.space", metrics_.other, below().space(call, container));
}

}  // namespace ros2s::client
