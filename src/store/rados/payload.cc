#include "payload.h"

#include <algorithm>

#include "ros2s/object/checksum.h"
#include "segment.h"

namespace ros2s::rados {

using namespace object;

DataId PayloadWriter::next_data(bool is_inline) {
    const auto now = static_cast<uint64_t>(env_.reactor.wall_time().time_since_epoch().count());
    if (is_inline) return {.time = now, .store = 0, .number = env_.reactor.secrets().next()};
    return {.time = now, .store = env_.store, .number = ++written_};
}

Task<Result<>> PayloadWriter::send(const Call& call, std::string space,
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
        const bool may_inline = heads_.has_room_inline({space, object_name(operation.object)});
        while (!bytes.empty()) {
            ROS2S_CO_TRY(call.check(env_.reactor));
            const size_t length =
                std::min<uint64_t>(bytes.size(), segment_bytes - offset % segment_bytes);
            const bool is_inline = length <= inline_bytes_max && may_inline;
            Run run{.data = {}, .offset = offset, .length = length, .checksums = {}};
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
                payload.runs.back().run.data = next_data(true);
                payload.runs.back().bytes = bytes.first(length);
            } else {
                co_await send_run(space, operation.object, payload.runs.back().run,
                                  bytes.first(length), payload);
            }
            bytes = bytes.subspan(length);
            offset += length;
        }
    }
    co_return Result<>{};
}

Task<> PayloadWriter::send_run(std::string space, ObjectId object, Run& run, ConstBytes bytes,
                               Payload& payload) {
    run.data = next_data(false);
    payload.all[object].push_back(run.data);
    return payload.writes.spawn(write_run({std::move(space), data_name(object, run.data)}, bytes,
                                          payload.results.emplace_back()));
}

Task<> PayloadWriter::write_run(ObjectName name, ConstBytes bytes, Result<>& result) {
    const Change change{.object = std::move(name), .data = bytes};
    result = co_await env_.data.apply(change);
}

}  // namespace ros2s::rados
