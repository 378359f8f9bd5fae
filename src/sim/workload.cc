#include "workload.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "no_call.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::sim {

using namespace object;

namespace {

constexpr uint64_t shared_objects = 3;
constexpr uint64_t shared_dkeys = 5;
constexpr ObjectId hot_object{1, 4};
constexpr uint64_t hot_dkeys = 2;
constexpr uint64_t hot_blocks = 5;
constexpr uint64_t segment_bytes = 1 << 20;
constexpr uint64_t long_segments = 22;
constexpr uint64_t value_bytes = 5000;  // of the largest value written

AkeyAddress witness_of(size_t client) {
    if (client % 2 == 1) return {{8, client}, "own", "array"};
    return {{7, 0}, "client " + std::to_string(client), "witness"};
}

std::string fast_noise(Random& random, uint64_t length) {
    std::string bytes(length, '\0');
    for (uint64_t i = 0; i < length; i += 8) {
        const uint64_t word = random.next();
        std::memcpy(bytes.data() + i, &word, std::min<uint64_t>(8, length - i));
    }
    return bytes;
}

}  // namespace

WorkloadOptions draw_workload(Random& random, bool loses_connections) {
    return {.clients = 3 + random.below(12),
            .array_blocks = 4 + random.below(12),
            .far_writes = random.one_in(3),
            .large_writes = random.one_in(3),
            .long_array = random.one_in(8) && !loses_connections,
            .hot_percent = 10 + 40 * random.below(3),
            .abandon_percent = 10 + 40 * random.below(3)};
}

std::vector<AkeyAddress> workload_witnesses(const WorkloadOptions& options) {
    std::vector<AkeyAddress> witnesses;
    for (size_t i = 0; i < options.clients; ++i) witnesses.push_back(witness_of(i));
    return witnesses;
}

std::vector<Column> workload_columns(const WorkloadOptions& options) {
    std::vector<Column> columns = {{{7, 0}, "witness"}, {hot_object, "array"}};
    for (uint64_t object = 1; object <= shared_objects; ++object) {
        columns.push_back({{1, object}, "array"});
        columns.push_back({{1, object}, "value"});
    }
    for (const AkeyAddress& witness : workload_witnesses(options)) {
        columns.emplace_back(witness.object, witness.akey);
    }
    return columns;
}

WorkloadClient::WorkloadClient(size_t number, uint64_t seed, const WorkloadOptions& options,
                               History& history)
    : number_(number),
      random_(seed + 1000 * (number + 1)),
      options_(options),
      history_(history),
      id_(Uuid::make(Secrets(random_))),
      witness_(witness_of(number)) {}

Task<> WorkloadClient::work(Run& run, uint64_t requests) {
    core_ = run.cores[number_ % run.cores.size()];
    co_await hop(*core_);
    co_await work_here(run, requests);
    co_await hop(run.reactor);
}

Task<> WorkloadClient::work_here(Run& run, uint64_t requests) {
    if (last_ != nullptr && last_->epoch == Epoch{}) last_ = nullptr;  // it was lost
    if (history_.pending(number_) != nullptr) co_await resolve_pending(run);
    if (history_.pending(number_) != nullptr) co_return;
    for (uint64_t i = 0; i < requests && !run.crashed && !run.wind_down; ++i) {
        const uint64_t kind = random_.below(20);
        if (kind < 4) {
            // A later read must show what an earlier one has shown, whatever keys it reads.
            for (uint64_t left = 1 + random_.below(3); left > 0 && !run.crashed; --left) {
                co_await read(run);
            }
        } else if (kind == 4 && last_ != nullptr) {
            co_await repeat_last(run);
        } else if (kind == 5 && options_.deferred) {
            co_await sync(run);
        } else {
            history_.issue(number_, make_transaction());
            co_await send(run);
        }
        // A store that answers at once must not keep the other clients waiting.
        co_await yield(*core_);
        if (history_.pending(number_) != nullptr) break;  // no answer, or a wrong one
    }
}

// ---- sending -------------------------------------------------------------------------------

Task<> WorkloadClient::resolve_pending(Run& run) {
    if (random_.below(100) < options_.abandon_percent && history_.abandon(number_)) {
        last_ = nullptr;  // an abandoned one may have happened after it
        co_return;
    }
    co_await send(run);
}

namespace {
Task<> send_copy(Run& run, Transaction transaction, bool is_new,
                 std::optional<Result<Commit>>& reply) {
    transaction.is_new = is_new;
    const StoreClient self{.id = transaction.id.client};
    const Call call{.client = transaction.deferred ? &self : nullptr};
    Result<Commit> commit = co_await run.store.update(call, run.container, transaction);
    if (!run.crashed) reply = commit;
}
// Codes that guarantee that nothing has happened.
bool refuses(Code code) {
    return code == Code::condition_failed || code == Code::no_space || code == Code::no_memory ||
           code == Code::busy;
}
constexpr Duration busy_pause = std::chrono::milliseconds(1);
}  // namespace

Task<> WorkloadClient::send(Run& run) {
    const std::shared_ptr<Issued> issued = history_.pending(number_);
    history_.sends(*issued, core_->wall_time());
    const Transaction& transaction = issued->batch.transaction();
    std::array<std::optional<Result<Commit>>, 2> replies;
    if (random_.one_in(16)) {
        // The same id twice at once, as after a reconnection.
        Nursery nursery(*core_, 2);
        bool is_new = issued->sent_fresh;
        for (auto& reply : replies) {
            co_await nursery.spawn(send_copy(run, transaction, is_new, reply));
            is_new = false;
        }
        co_await nursery.join();
    } else {
        co_await send_copy(run, transaction, issued->sent_fresh, replies[0]);
    }
    // One of two replies may be lost in the crash; the known one is used.
    std::optional<Commit> commit;
    std::optional<Error> error;
    for (const auto& reply : replies) {
        if (!reply) continue;
        if (!*reply) {
            // An uncertain error has precedence over one that guarantees that nothing happened.
            if (!error || refuses(error->code)) error = reply->error();
        } else if (!commit) {
            commit = **reply;
        } else {
            if (commit->epoch != (*reply)->epoch) {
                history_.problem(fmt::format("one update name happened at epochs {} and {}",
                                             commit->epoch.value, (*reply)->epoch.value));
            }
            if (!commit->replayed && !(*reply)->replayed) {
                history_.problem(
                    fmt::format("the update name of epoch {} was done twice", commit->epoch.value));
            }
            commit->replayed = commit->replayed && (*reply)->replayed;
        }
    }
    // The first reply was lost, so it is unknown whether this one repeats it.
    if (commit && run.crashed) commit->replayed = commit->replayed && !issued->sent_fresh;
    if (commit) {
        history_.acknowledge(number_, issued, *commit);
        if (!transaction.deferred) history_.durable(commit->epoch);
        if (transaction.deferred) own_.insert(commit->epoch);
        last_ = issued;
    } else if (error && refuses(error->code)) {
        // It is certainly refused only if no other copy of it can still happen.
        if (run.crashed) co_return;
        history_.refuse(number_, issued, *error);
        if (error->code == Code::busy) co_await sleep_for(*core_, busy_pause);
    } else if (error && run.failing) {
        // It stays open: the next opening shows whether it happened.
    } else if (error && error->code == Code::expired) {
        history_.expires(number_, run.reply_lease, core_->wall_time());
        if (!run.crashed) co_await look_what_came(run, issued);
    } else if (error) {
        history_.problem(fmt::format("an update failed without a crash: {}", describe(*error)));
    }
}

// The reply is no longer kept. The store's content shows whether it happened, because no other copy
// is in progress.
Task<> WorkloadClient::look_what_came(Run& run, const std::shared_ptr<Issued>& issued) {
    FetchItem item{.object = witness_.object, .dkey = {witness_.dkey}, .akey = {witness_.akey}};
    const auto fetched = co_await run.store.fetch(no_call, run.container, {&item, 1});
    if (run.crashed || run.failing) co_return;
    const bool absent = fetched && !item.status && item.status.error().code == Code::not_found;
    const bool is_read =
        fetched && (item.status || absent || item.status.error().code == Code::too_small);
    if (!is_read) {
        history_.problem(fmt::format("a read of {} failed without a crash", to_string(witness_)));
        co_return;
    }
    history_.finds(number_, issued, absent ? Epoch{} : item.epoch);
}

Task<> WorkloadClient::repeat_last(Run& run) {
    const std::shared_ptr<Issued> issued = last_;
    std::optional<Result<Commit>> reply;
    co_await send_copy(run, issued->batch.transaction(), false, reply);
    if (!reply || !run.is_known(*reply)) co_return;
    if (!*reply && reply->error().code == Code::expired) {
        history_.expires(number_, run.reply_lease, core_->wall_time());
    } else if (!*reply) {
        history_.problem(fmt::format("a repetition of epoch {} was refused: {}",
                                     issued->epoch.value, describe(reply->error())));
    } else {
        history_.acknowledge(number_, issued, **reply);
    }
}

// ---- reading -------------------------------------------------------------------------------

Task<> WorkloadClient::read(Run& run) {
    struct Item {
        SeenRead seen;
        AlignedBuffer memory;
    };
    std::vector<Item> wanted(1 + random_.below(3));
    std::vector<FetchItem> items;
    for (Item& item : wanted) {
        SeenRead& seen = item.seen;
        seen.place = random_.one_in(6)   ? witness_
                     : random_.one_in(3) ? hot_place()
                                         : shared_place();
        seen.extent = {0, options_.array_blocks * block_bytes + value_bytes};
        if (seen.place.akey == "array" && random_.one_in(2)) seen.extent = {offset(), 1 + length()};
        const size_t unaligned = random_.below(2);
        item.memory = AlignedBuffer(seen.extent.length + unaligned);
        items.push_back({.object = seen.place.object,
                         .dkey = {seen.place.dkey},
                         .akey = {seen.place.akey},
                         .extent = seen.extent,
                         .window = Window::local(item.memory.bytes().subspan(unaligned))});
        seen.visible_before = history_.visible();
    }
    // In the store's process, in another one, or there as the client that it is.
    const uint64_t where = options_.deferred ? random_.below(3) : 0;
    const StoreClient client{.id = where == 1 ? Uuid{} : id_};
    const Call call{.client = where == 0 ? nullptr : &client};
    const auto fetched = co_await run.store.fetch(call, run.container, items);
    if (run.crashed) co_return;
    for (size_t i = 0; i < items.size(); ++i) {
        const FetchItem& item = items[i];
        SeenRead& seen = wanted[i].seen;
        const Result<> status = fetched ? item.status : fetched;
        if (!status && status.error().code != Code::not_found) {
            if (run.failing && status.error().code == Code::io) continue;
            history_.problem(fmt::format("a read of {} failed without a crash: {}",
                                         to_string(seen.place), describe(status.error())));
            continue;
        }
        seen.exists = status.has_value();
        seen.is_value = item.is_value;
        seen.epoch = item.epoch;
        seen.size = item.size;
        const uint64_t length = item.is_value ? item.size : seen.extent.length;
        seen.crc = crc32c(item.window.bytes().first(length));
        known_[seen.place] = {item.epoch, item.size};
        const bool is_own = where == 2 && own_.contains(item.epoch);
        if (where != 0 && !is_own) history_.durable(item.epoch);
        history_.saw(std::move(seen));
    }
}

// What was acknowledged before the call is durable when it returns.
Task<> WorkloadClient::sync(Run& run) {
    const Epoch before = history_.acknowledged();
    const auto done = co_await run.store.sync(no_call, run.container, {}, {});
    if (run.crashed) co_return;
    if (done) {
        history_.durable(before);
    } else if (!run.failing) {
        history_.problem(fmt::format("a sync failed without a crash: {}", describe(done.error())));
    }
}

// ---- making transactions -------------------------------------------------------------------

AkeyAddress WorkloadClient::shared_place() {
    return {{1, 1 + random_.below(shared_objects)},
            "d" + std::to_string(random_.below(shared_dkeys)),
            random_.below(3) == 0 ? "value" : "array"};
}

AkeyAddress WorkloadClient::hot_place() {
    return {hot_object, "hot " + std::to_string(random_.below(hot_dkeys)), "array"};
}

uint64_t WorkloadClient::offset() {
    if (options_.far_writes && random_.one_in(8)) {
        return segment_bytes - 3 * block_bytes + random_.below(6 * block_bytes);
    }
    const uint64_t block = random_.below(options_.array_blocks);
    return block * block_bytes + (random_.one_in(3) ? random_.below(block_bytes) : 0);
}

uint64_t WorkloadClient::length() {
    if (options_.large_writes && random_.one_in(16)) return 32 * block_bytes;
    if (random_.one_in(3)) return random_.below(2 * block_bytes);
    return (1 + random_.below(4)) * block_bytes;
}

void WorkloadClient::add_operation(Batch& batch) {
    const AkeyAddress place = shared_place();
    const uint64_t kind = random_.below(40);
    if (kind == 0) {
        batch.punch_object(place.object);
    } else if (kind == 1) {
        batch.punch_dkey(place.object, place.dkey);
    } else if (kind == 2) {
        batch.punch_dkeys(place.object, place.dkey, random_.one_in(2) ? "" : place.dkey + "~");
    } else if (kind <= 4) {
        batch.punch_akey(place);
    } else if (place.akey == "value") {
        batch.put(place, fast_noise(random_, random_.below(random_.one_in(4) ? value_bytes : 100)));
    } else if (kind == 5) {
        batch.touch(place);
    } else if (kind <= 8) {
        batch.set_size(place, offset());
    } else if (kind <= 12) {
        batch.punch_extent(place, {offset(), length()});
    } else {
        batch.write(place, offset(), fast_noise(random_, length()));
    }
}

// A sparse array, which is sometimes truncated.
void WorkloadClient::add_long_operation(Batch& batch) {
    const AkeyAddress place{{1, 1}, "d0", "array"};
    const uint64_t far = random_.below(long_segments) * segment_bytes + random_.below(block_bytes);
    if (random_.one_in(4)) {
        batch.set_size(place, random_.one_in(2) ? offset() : far);
    } else {
        batch.write(place, far, fast_noise(random_, 1 + random_.below(block_bytes)));
    }
}

// Writes of whole blocks without conditions need no order among themselves. Several to one array,
// even to one block, go into one group or into several groups that are in flight together.
void WorkloadClient::add_hot_write(Batch& batch) {
    const uint64_t first = random_.below(hot_blocks);
    const uint64_t count = 1 + random_.below(hot_blocks - first);
    batch.write(hot_place(), first * block_bytes, fast_noise(random_, count * block_bytes));
}

void WorkloadClient::add_condition(Batch& batch) {
    const AkeyAddress place = shared_place();
    const auto known = known_.find(place);
    switch (random_.below(6)) {
        case 0: batch.exists(place); break;
        case 1: batch.absent(place); break;
        case 2: batch.exists({place.object, place.dkey, ""}); break;
        case 3:
            if (known != known_.end()) batch.epoch_equals(place, known->second.epoch);
            break;
        case 4:
            if (known != known_.end()) batch.size_equals(place, known->second.size);
            break;
        default: batch.no_dkeys(place.object, place.akey); break;
    }
}

Batch WorkloadClient::make_transaction() {
    Batch batch;
    batch.id({id_, 0, ++sequence_});
    if (options_.deferred && !random_.one_in(8)) batch.by({.client = id_}).deferred();
    if (is_plain()) {
        batch.write(witness_, offset(), fast_noise(random_, length()));
        return batch;
    }
    if (random_.below(100) < options_.hot_percent) {
        add_hot_write(batch);
        if (random_.one_in(4)) add_hot_write(batch);
    } else {
        if (random_.one_in(4)) add_condition(batch);
        const uint64_t operations = random_.one_in(3) ? 2 + random_.below(3) : 1;
        for (uint64_t i = 0; i < operations; ++i) {
            if (options_.long_array && random_.one_in(4)) {
                add_long_operation(batch);
            } else {
                add_operation(batch);
            }
        }
    }
    batch.put(witness_, std::to_string(sequence_));
    return batch;
}

}  // namespace ros2s::sim
