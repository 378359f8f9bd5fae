// The bytes of a transaction's arrays: cut into runs, which go into data objects or, if they are
// short, into the omap of their object.
#include <algorithm>

#include "ros2s/object/checksum.h"
#include "segment.h"
#include "updating.h"

namespace ros2s::rados {
namespace {

using namespace object;

constexpr size_t crowded_max = 4096;

}  // namespace

DataId RadosStore::next_data(bool is_inline) {
    const auto now = static_cast<uint64_t>(reactor_.wall_time().time_since_epoch().count());
    if (is_inline) return {.time = now, .store = 0, .number = reactor_.secrets().next()};
    return {.time = now, .store = number_, .number = ++data_written_};
}

bool RadosStore::has_room_inline(const ObjectName& object) const {
    return !crowded_.contains(object);
}

void RadosStore::note_room(const ObjectName& object, const Pending& stored) {
    for (const auto& [key, value] : stored.set) {
        if (key != inline_key) continue;
        InlineBytes count;
        if (decode(value, count) && count.bytes >= inline_bytes_in_all) {
            if (crowded_.size() >= crowded_max) crowded_.clear();
            crowded_.insert(object);
        } else {
            crowded_.erase(object);
        }
    }
    if (std::ranges::find(stored.remove, inline_key, &Pending::Key::key) != stored.remove.end()) {
        crowded_.erase(object);
    }
}

Task<Result<>> RadosStore::send_payload(const Call& call, std::string space,
                                        const Transaction& transaction, Payload& payload) {
    for (size_t i = 0; i < transaction.operations.size(); ++i) {
        const Operation& operation = transaction.operations[i];
        if (operation.kind == Operation::Kind::put && !operation.checksums.empty() &&
            crc32c(operation.window.bytes()) != operation.checksums[0]) {
            co_return fail(Code::corrupt);
        }
        if (operation.kind != Operation::Kind::write) continue;
        ConstBytes bytes = operation.window.bytes();
        if (operation.window.shared) {
            bytes = as_bytes(payload.copies.emplace_back(as_text(bytes)));
        }
        uint64_t offset = operation.extent.offset;
        size_t piece = 0;
        const bool may_inline = has_room_inline({space, object_name(operation.object)});
        while (!bytes.empty()) {
            ROS2S_CO_TRY(call.check(reactor_));
            const size_t length =
                std::min<uint64_t>(bytes.size(), segment_bytes - offset % segment_bytes);
            const bool is_inline = length <= inline_bytes_max && may_inline;
            Run run{
                .data = next_data(is_inline), .offset = offset, .length = length, .checksums = {}};
            array_checksums(offset, bytes.first(length), run.checksums);
            if (!operation.checksums.empty() &&
                !std::ranges::equal(
                    run.checksums,
                    std::span(operation.checksums).subspan(piece, run.checksums.size()))) {
                co_return fail(Code::corrupt);
            }
            piece += run.checksums.size();
            payload.runs.push_back({i, std::move(run), {}});
            if (is_inline) {
                payload.runs.back().bytes = bytes.first(length);
            } else {
                const DataId data = payload.runs.back().run.data;
                payload.all[operation.object].push_back(data);
                co_await payload.writes.spawn(write_run({space, data_name(operation.object, data)},
                                                        bytes.first(length),
                                                        payload.results.emplace_back()));
            }
            bytes = bytes.subspan(length);
            offset += length;
        }
    }
    co_return Result<>{};
}

Task<> RadosStore::write_run(ObjectName name, ConstBytes bytes, Result<>& result) {
    const Change change{.object = std::move(name), .data = bytes};
    result = co_await data_.apply(change);
}

}  // namespace ros2s::rados
