// Segments of many parts are written anew, so that readers find few.
#include <algorithm>

#include "ros2s/object/checksum.h"
#include "segment.h"
#include "updating.h"

namespace ros2s::rados {

using namespace object;

void RadosStore::start_rewriting(const std::string& space, ObjectId object,
                                 const std::string& key) {
    const std::pair name{ObjectName{space, object_name(object)}, key};
    if (!rewriting_.insert(name).second) return;
    if (!tidying_.try_spawn(rewrite(space, object, key))) rewriting_.erase(name);
}

Task<> RadosStore::rewrite(std::string space, ObjectId object, std::string key) {
    const Call call;
    const Transaction none{};
    Member member(call, {}, none, reactor_);
    Rewrite anew{.object = object, .key = key, .before = {}, .anew = {}, .garbage = {}};
    member.rewrite = &anew;
    const auto written = co_await write_anew(space, anew, member.payload);
    co_await member.payload.writes.join();
    if (written && *written) {
        co_await update_together(space, object, member);
    }
    if (!member.payload.may_be_seen) drop(space, member.payload.all);
    rewriting_.erase({{space, object_name(object)}, key});
}

// Reads the segment and writes it: one run for each row of blocks that have bytes. The bytes that
// are not there become zeros, and the same blocks are used as before. False: it has changed, or
// would not get fewer parts.
Task<Result<bool>> RadosStore::write_anew(std::string space, Rewrite& rewrite, Payload& payload) {
    const ObjectId object = rewrite.object;
    Head head;
    const Read read{.object = {space, object_name(object)}, .keys = {rewrite.key}};
    ROS2S_CO_TRY_ASSIGN(const ReadReply found, co_await read_unlocked({}, read, head));
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
    ROS2S_CO_TRY(co_await read_visible(space, object, before, {from, length},
                                       std::as_writable_bytes(std::span(bytes))));
    for (const Extent& row : rows) {
        Run run{
            .data = next_data(false), .offset = row.offset, .length = row.length, .checksums = {}};
        const ConstBytes part = as_bytes(bytes).subspan(row.offset - from, row.length);
        array_checksums(run.offset, part, run.checksums);
        payload.all[object].push_back(run.data);
        co_await payload.writes.spawn(
            write_run({space, data_name(object, run.data)}, part, payload.results.emplace_back()));
        add(rewrite.anew, std::move(run));
    }
    co_return true;
}

// A part that is visible was visible when the segment was read, so the new runs have its bytes.
Result<> RadosStore::apply(View& view, Rewrite& rewrite) {
    rewrite.garbage.clear();
    Segment now;
    const std::string value = view.get(rewrite.key);
    if (!view.is_complete()) return {};
    if (value.empty()) return fail(Code::condition_failed);
    ROS2S_TRY(decode(value, now));
    Segment after = rewrite.anew;
    after.visible.clear();
    bool is_used = false;
    for (const Visible& part : now.visible) {
        const Run& run = now.runs[part.run];
        Visible moved = part;
        if (std::ranges::find(rewrite.before.runs, run.data, &Run::data) !=
            rewrite.before.runs.end()) {
            const auto row = std::ranges::find_if(rewrite.anew.runs, [&part](const Run& each) {
                return part.offset >= each.offset && part.offset < each.offset + each.length;
            });
            if (row == rewrite.anew.runs.end()) return fail(Code::condition_failed);
            moved.run = static_cast<uint32_t>(row - rewrite.anew.runs.begin());
            is_used = true;
        } else {
            // It may be here already: a run can have several visible parts.
            const auto others = std::span(after.runs).subspan(rewrite.anew.runs.size());
            const auto same = std::ranges::find(others, run.data, &Run::data);
            moved.run = static_cast<uint32_t>(rewrite.anew.runs.size() + (same - others.begin()));
            if (same == others.end()) after.runs.push_back(run);
        }
        // Neighbours of one run are one part. The new runs have zeros where nothing was.
        Visible* const last = after.visible.empty() ? nullptr : &after.visible.back();
        if (last != nullptr && last->run == moved.run && moved.run < rewrite.anew.runs.size() &&
            !has_bytes(rewrite.before, last->offset + last->length, moved.offset)) {
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
            rewrite.garbage[rewrite.object].push_back(run.data);
        }
    }
    for (const Run& run : rewrite.anew.runs) {
        if (std::ranges::find(after.runs, run.data, &Run::data) != after.runs.end()) continue;
        rewrite.garbage[rewrite.object].push_back(run.data);
    }
    view.set(rewrite.key, encode(after));
    return {};
}

}  // namespace ros2s::rados
