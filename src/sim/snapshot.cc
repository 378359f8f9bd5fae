#include "snapshot.h"

#include <fmt/format.h>

#include <algorithm>

#include "ros2s/object/checksum.h"

namespace ros2s::sim {

using namespace object;

std::string to_string(const AkeyAddress& place) {
    return fmt::format("{}.{}/{}/{}", place.object.high, place.object.low, place.dkey, place.akey);
}

namespace {

struct Reader {
    ObjectStore& store;
    ContainerId container;
    Call call{};
    Snapshot snapshot{};

    void problem(std::string text) { snapshot.problems.push_back(std::move(text)); }
    Task<std::vector<std::string>> keys(ListRequest request);
    Task<> find_places(std::vector<AkeyAddress>& places);
    Task<> fetch(std::vector<AkeyAddress> places);
    Task<bool> fetch_all(std::vector<FetchItem>& items);
    void take(const AkeyAddress& place, const FetchItem& item);
    Task<> query(Column column);
};

Task<std::vector<std::string>> Reader::keys(ListRequest request) {
    std::vector<std::string> all;
    for (bool more = true; more;) {
        const auto page = co_await store.list(call, container, request);
        if (!page) {
            problem(fmt::format("a list failed: {}", describe(page.error())));
            break;
        }
        for (const ListEntry& entry : page->entries) {
            if (!all.empty() && entry.key <= all.back()) problem("a list is out of order");
            all.push_back(entry.key);
        }
        more = page->more && !page->entries.empty();
        if (more) request.after = all.back();
    }
    co_return all;
}

Task<> Reader::find_places(std::vector<AkeyAddress>& places) {
    const auto objects = co_await keys({.what = ListRequest::What::objects});
    for (const std::string& key : objects) {
        const ObjectId object = parse_object_key(key);
        const auto dkeys =
            co_await keys({.what = ListRequest::What::dkeys, .object = object, .limit = 3});
        if (dkeys.empty()) problem(fmt::format("object {}.{} is empty", object.high, object.low));
        for (const std::string& dkey : dkeys) {
            const auto akeys =
                co_await keys({.what = ListRequest::What::akeys, .object = object, .dkey = {dkey}});
            if (akeys.empty())
                problem(to_string(AkeyAddress{object, dkey, "(none)"}) + " is empty");
            for (const std::string& akey : akeys) places.push_back({object, dkey, akey});
        }
    }
}

Task<bool> Reader::fetch_all(std::vector<FetchItem>& items) {
    for (size_t i = 0; i < items.size(); i += fetch_items_max) {
        const size_t count = std::min(fetch_items_max, items.size() - i);
        const auto fetched =
            co_await store.fetch(call, container, std::span(items).subspan(i, count));
        if (fetched) continue;
        problem(fmt::format("a fetch failed: {}", describe(fetched.error())));
        co_return false;
    }
    co_return true;
}

Task<> Reader::fetch(std::vector<AkeyAddress> places) {
    std::vector<FetchItem> items;
    for (const AkeyAddress& place : places) {
        items.push_back({.object = place.object, .dkey = {place.dkey}, .akey = {place.akey}});
    }
    const bool sizes = co_await fetch_all(items);
    if (!sizes) co_return;
    std::vector<AlignedBuffer> memory;
    for (FetchItem& item : items) {
        const AlignedBuffer& buffer = memory.emplace_back(item.size);
        item.extent = {0, item.size};
        item.window = Window::local(buffer.bytes());
    }
    const bool bytes = co_await fetch_all(items);
    if (!bytes) co_return;
    for (size_t i = 0; i < places.size(); ++i) take(places[i], items[i]);
}

void Reader::take(const AkeyAddress& place, const FetchItem& item) {
    if (!item.status) {
        problem(fmt::format("{} is listed but cannot be fetched: {}", to_string(place),
                            describe(item.status.error())));
        return;
    }
    const ConstBytes bytes = item.window.bytes();
    const bool whole = item.is_value ? item.checksums == object::Checksums{crc32c(bytes)}
                                     : array_checksums_match(0, bytes, item.checksums);
    if (store.features().checksums && !whole) {
        problem(fmt::format("{} came with checksums of other bytes", to_string(place)));
    }
    snapshot.entries[place] = {item.is_value, item.epoch, std::string(as_text(bytes))};
}

Task<> Reader::query(Column column) {
    const Akey akey{column.second};
    const auto reply = co_await store.query(call, container, column.first, akey);
    if (reply) {
        snapshot.queries[column] = *reply;
    } else {
        problem(fmt::format("a query failed: {}", describe(reply.error())));
    }
}

}  // namespace

Task<Snapshot> take_snapshot(ObjectStore& store, ContainerId container,
                             std::vector<Column> columns) {
    Reader reader{store, container};
    std::vector<AkeyAddress> places;
    co_await reader.find_places(places);
    for (const AkeyAddress& place : places) columns.emplace_back(place.object, place.akey);
    co_await reader.fetch(std::move(places));
    std::ranges::sort(columns);
    const auto repeated = std::ranges::unique(columns);
    columns.erase(repeated.begin(), repeated.end());
    for (const Column& column : columns) co_await reader.query(column);
    co_return std::move(reader.snapshot);
}

}  // namespace ros2s::sim
