#include "rewriter.h"

#include <algorithm>

#include "ros2s/object/checksum.h"
#include "segment.h"

namespace ros2s::rados {

using namespace object;

Task<Result<bool>> Rewriter::write_anew(std::string space, Rewrite& rewrite, Payload& payload) {
    const ObjectId object = rewrite.object;
    Head head;
    const Read read{.object = {space, object_name(object)}, .keys = {rewrite.key}};
    ROS2S_CO_TRY_ASSIGN(const ReadReply found, co_await heads_.read_unlocked({}, read, head));
    const auto value = found.values.find(rewrite.key);
    if (value == found.values.end()) co_return false;
    Segment& before = rewrite.before;
    ROS2S_CO_TRY(decode(value->second, before));
    std::vector<Extent> rows;
    for (const Visible& part : before.visible) {
        const uint64_t end = part.offset + part.length;
        if (!rows.empty() &&
            part.offset / block_bytes <= (rows.back().end() - 1) / block_bytes + 1) {
            rows.back().length = end - rows.back().offset;
        } else {
            rows.push_back({part.offset, part.length});
        }
    }
    if (rows.size() * 2 > before.visible.size()) co_return false;
    const uint64_t from = rows.front().offset, length = rows.back().end() - from;
    std::string& bytes = payload.copies.emplace_back(length, '\0');
    ROS2S_CO_TRY(co_await reader_.read_visible(space, object, before, {from, length},
                                               std::as_writable_bytes(std::span(bytes))));
    for (const Extent& row : rows) {
        Run run{.data = {}, .offset = row.offset, .length = row.length, .checksums = {}};
        const ConstBytes part = as_bytes(bytes).subspan(row.offset - from, row.length);
        array_checksums(run.offset, part, run.checksums);
        co_await payloads_.send_run(space, object, run, part, payload);
        add(rewrite.anew, std::move(run));
    }
    co_return true;
}

// A part that is visible was visible when the segment was read, so the new runs have its bytes.
Result<> Rewrite::apply(View& view) {
    garbage.clear();
    Segment now;
    const std::string value = view.get(key);
    if (!view.is_complete()) return {};
    if (value.empty()) return fail(Code::condition_failed);
    ROS2S_TRY(decode(value, now));
    Segment after = anew;
    after.visible.clear();
    bool is_used = false;
    for (const Visible& part : now.visible) {
        const Run& run = now.runs[part.run];
        Visible moved = part;
        if (std::ranges::find(before.runs, run.data, &Run::data) != before.runs.end()) {
            const auto row = std::ranges::find_if(anew.runs, [&part](const Run& each) {
                return part.offset >= each.offset && part.offset < each.offset + each.length;
            });
            if (row == anew.runs.end()) return fail(Code::condition_failed);
            moved.run = static_cast<uint32_t>(row - anew.runs.begin());
            is_used = true;
        } else {
            // It may be here already: a run can have several visible parts.
            const auto others = std::span(after.runs).subspan(anew.runs.size());
            const auto same = std::ranges::find(others, run.data, &Run::data);
            moved.run = static_cast<uint32_t>(anew.runs.size() + (same - others.begin()));
            if (same == others.end()) after.runs.push_back(run);
        }
        // Neighbours of one run are one part. The new runs have zeros where nothing was.
        Visible* const last = after.visible.empty() ? nullptr : &after.visible.back();
        if (last != nullptr && last->run == moved.run && moved.run < anew.runs.size() &&
            !has_bytes(before, last->offset + last->length, moved.offset)) {
            last->length = moved.offset + moved.length - last->offset;
        } else {
            after.visible.push_back(moved);
        }
    }
    if (!is_used) return fail(Code::condition_failed);
    drop_hidden_runs(after);
    for (const Run& run : now.runs) {
        if (std::ranges::find(after.runs, run.data, &Run::data) != after.runs.end()) continue;
        if (run.data.is_inline()) {
            ROS2S_TRY(discard_inline(view, run));
        } else {
            garbage[object].push_back(run.data);
        }
    }
    for (const Run& run : anew.runs) {
        if (std::ranges::find(after.runs, run.data, &Run::data) != after.runs.end()) continue;
        garbage[object].push_back(run.data);
    }
    view.set(key, encode(after));
    return {};
}

}  // namespace ros2s::rados
