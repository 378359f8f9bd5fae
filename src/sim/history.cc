#include "history.h"

#include <fmt/format.h>

#include "no_call.h"
#include "ros2s/base/check.h"
#include "ros2s/base/crc32c.h"

namespace ros2s::sim {

using namespace object;

namespace {
constexpr size_t problems_max = 20;
}  // namespace

History::History(Reactor& reactor, std::vector<AkeyAddress> witnesses, std::vector<Column> columns)
    : reactor_(reactor),
      oracle_(reactor, {.capacity_bytes = uint64_t{1} << 40}),
      columns_(std::move(columns)) {
    for (AkeyAddress& witness : witnesses) clients_.push_back({.witness = std::move(witness)});
}

Task<> History::open(bool repeats) {
    repeats_ = repeats;
    const ContainerProperties properties{.label = "oracle"};
    const auto record = co_await oracle_.create_container(no_call, properties);
    container_ = record->id;
}

void History::problem(std::string text) {
    if (problems_.size() < problems_max) problems_.push_back(std::move(text));
}

// ---- while the clients run -----------------------------------------------------------------

std::shared_ptr<Issued> History::issue(size_t number, Batch batch) {
    Client& client = clients_[number];
    ROS2S_CHECK(client.pending == nullptr);
    client.pending = std::make_shared<Issued>();
    client.pending->batch = std::move(batch);
    client.pending->acknowledged_before = acknowledged_;
    client.pending->number = ++client.issued;
    ++transactions_;
    return client.pending;
}

void History::acknowledge(size_t number, const std::shared_ptr<Issued>& issued,
                          const Commit& commit) {
    Client& client = clients_[number];
    const auto who = [&] {
        return fmt::format("client {}, transaction {}", number, issued->number);
    };
    if (issued->epoch != Epoch{}) {
        // It is already known to have happened: this is the reply to a repetition.
        if (commit.epoch != issued->epoch) {
            problem(fmt::format("{} happened at epoch {} and again at {}", who(),
                                issued->epoch.value, commit.epoch.value));
        } else if (!commit.replayed) {
            problem(fmt::format("{} happened at epoch {}, and its repetition was not told so",
                                who(), issued->epoch.value));
        }
    } else {
        if (commit.replayed && issued->sent_fresh && !repeats_) {
            problem(fmt::format("{} had not happened, but was answered as if (epoch {})", who(),
                                commit.epoch.value));
        }
        if (commit.epoch <= issued->acknowledged_before) {
            problem(fmt::format("{} got epoch {} although {} had returned before it was called",
                                who(), commit.epoch.value, issued->acknowledged_before.value));
        }
        if (commit.epoch <= client.last) {
            problem(fmt::format("{} got epoch {}, not above its client's last, {}", who(),
                                commit.epoch.value, client.last.value));
        }
        issued->epoch = commit.epoch;
        happened_.push_back(issued);
    }
    judge_time(who(), *issued, commit);
    client.time = commit.time;
    client.clock_steps = issued->first_clock_steps.value_or(0);
    client.last = std::max(client.last, commit.epoch);
    acknowledged_ = std::max(acknowledged_, commit.epoch);
    if (client.pending == issued) client.pending = nullptr;
}

void History::judge_time(const std::string& who, const Issued& issued, const Commit& commit) {
    const auto [known, is_first] = times_.try_emplace(commit.epoch, commit.time);
    if (known->second != commit.time) {
        problem(fmt::format("{} had one time, and its repetition another", who));
    }
    if (!is_first || commit.replayed || issued.clock_steps != clock_steps_) return;
    const WallTime now = reactor_.wall_time();
    if (commit.time >= issued.called && commit.time <= now) return;
    problem(fmt::format("{} has the time {} ns; it was called at {}, and returned at {}", who,
                        commit.time.time_since_epoch().count(),
                        issued.called.time_since_epoch().count(), now.time_since_epoch().count()));
}

void History::expires(size_t number, std::optional<Duration> lease, WallTime now) {
    const Client& client = clients_[number];
    ++expired_;
    if (lease && (client.last == Epoch{} || client.clock_steps != clock_steps_ ||
                  now - client.time >= *lease)) {
        return;
    }
    problem(fmt::format("client {}: its reply was not kept for its lease", number));
}

void History::finds(size_t number, const std::shared_ptr<Issued>& issued, Epoch witness) {
    Client& client = clients_[number];
    if (client.pending != issued) return;  // a check decided it meanwhile
    if (witness > client.last) {
        issued->epoch = client.last = witness;
        happened_.push_back(issued);
        seen_ = std::max(seen_, witness);
    }
    client.pending = nullptr;
}

void History::refuse(size_t number, const std::shared_ptr<Issued>& issued, const Error& error) {
    if (issued->epoch != Epoch{}) {
        problem(fmt::format(
            "client {}, transaction {} happened at epoch {}, but its repetition was refused: {}",
            number, issued->number, issued->epoch.value, describe(error)));
    }
    if (clients_[number].pending == issued) clients_[number].pending = nullptr;
}

bool History::abandon(size_t number) {
    std::shared_ptr<Issued>& pending = clients_[number].pending;
    if (!pending->fresh && pending->epoch == Epoch{}) return false;
    pending = nullptr;
    return true;
}

// ---- what was deferred and is lost ---------------------------------------------------------

Task<> History::forget_lost(ObjectStore& store, ContainerId container, bool none) {
    Epoch last = durable_;
    std::vector<Epoch> witnesses;
    for (const Client& client : clients_) {
        const AkeyAddress& at = client.witness;
        FetchItem item{.object = at.object, .dkey = {at.dkey}, .akey = {at.akey}};
        const auto fetched = co_await store.fetch(no_call, container, {&item, 1});
        if (!fetched) problem("a witness cannot be read");
        witnesses.push_back(item.epoch);
        last = std::max(last, item.epoch);
    }
    // check() reports what is missing and should be there.
    if (none) co_return;
    forget_after(last);
    for (size_t i = 0; i < clients_.size(); ++i) {
        if (clients_[i].last <= last) continue;
        clients_[i].last = witnesses[i];
        clients_[i].time = {};  // its stored reply is an older one
    }
}

void History::forget_after(Epoch last) {
    std::erase_if(happened_, [&](const auto& issued) {
        if (issued->epoch <= last) return false;
        issued->epoch = {};
        return true;
    });
    // A key may have been absent because of what is lost.
    std::erase_if(reads_, [&](const SeenRead& read) { return !read.exists || read.epoch > last; });
    std::erase_if(times_, [&](const auto& each) { return each.first > last; });
    acknowledged_ = std::min(acknowledged_, last);
    seen_ = std::min(seen_, last);
    for (Client& client : clients_) {
        if (client.pending == nullptr) continue;
        Epoch& before = client.pending->acknowledged_before;
        before = std::min(before, last);
    }
}

// ---- the check -----------------------------------------------------------------------------

Task<> History::check(ObjectStore& store, ContainerId container, uint64_t used_elsewhere) {
    const Snapshot found = co_await take_snapshot(store, container, columns_);
    for (const std::string& text : found.problems) problem(text);
    for (size_t i = 0; i < clients_.size(); ++i) judge_witness(i, found);
    co_await apply_happened();
    for (const SeenRead& read : reads_) judge_read(read);
    reads_judged_ += reads_.size();
    reads_.clear();
    versions_.clear();
    const Snapshot expected = co_await take_snapshot(oracle_, container_, columns_);
    compare(found, expected);
    uint64_t used = used_elsewhere;
    for (const auto& [column, query] : expected.queries) used += query.bytes_used;
    co_await judge_space(store, used);
    co_await judge_use(store, container, expected);
}

// The store's count of what the container uses, against a count of everything that is there.
Task<> History::judge_use(ObjectStore& store, ContainerId container, const Snapshot& expected) {
    if (!store.features().caps) co_return;
    Amount counted;
    for (const auto& [place, entry] : expected.entries) {
        counted.bytes += akey_bytes + place.dkey.size() + place.akey.size();
        if (!entry.is_value) continue;
        ++counted.values;
        counted.bytes += entry.bytes.size();
    }
    for (const auto& [column, query] : expected.queries) counted.bytes += query.bytes_used;
    const auto all = co_await store.list_containers(no_call);
    if (!all) {
        problem(fmt::format("no list of containers: {}", describe(all.error())));
        co_return;
    }
    for (const ContainerRecord& each : *all) {
        if (each.id != container || each.used == counted) continue;
        problem(
            fmt::format("the container uses {} bytes, {} values by the store's count; it is {}, {}",
                        each.used.bytes, each.used.values, counted.bytes, counted.values));
    }
}

// The space of a destroyed container is freed step by step, also after a restart.
Task<> History::judge_space(ObjectStore& store, uint64_t used) {
    constexpr int looks_max = 200;
    PoolSpace space;
    for (int i = 0; i < looks_max; ++i) {
        const auto found = co_await store.space(no_call, {});
        if (!found) {
            problem(fmt::format("no answer about space: {}", describe(found.error())));
            co_return;
        }
        space = *found;
        // Blocks that are kept for overwrites count only when they are used.
        if (space.free_bytes == space.total_bytes - std::min(used, space.total_bytes)) co_return;
        co_await sleep_for(reactor_, std::chrono::milliseconds(1 + i));
    }
    problem(fmt::format("{} bytes are free, but {} - {} should be", space.free_bytes,
                        space.total_bytes, used));
}

void History::judge_witness(size_t number, const Snapshot& snapshot) {
    Client& client = clients_[number];
    const auto found = snapshot.entries.find(client.witness);
    const Epoch witness = found == snapshot.entries.end() ? Epoch{} : found->second.epoch;
    const std::shared_ptr<Issued>& pending = client.pending;
    if (witness == client.last) {
        if (pending != nullptr && pending->epoch == Epoch{}) pending->fresh = true;
        return;
    }
    if (witness < client.last) {
        problem(
            fmt::format("client {}: its transaction at epoch {} is lost (its witness {} is of {})",
                        number, client.last.value, to_string(client.witness), witness.value));
        return;
    }
    if (pending == nullptr || pending->epoch != Epoch{} || pending->fresh) {
        problem(fmt::format("client {}: its witness {} is of epoch {}, its last transaction of {}",
                            number, to_string(client.witness), witness.value, client.last.value));
        return;
    }
    if (witness <= pending->acknowledged_before) {
        problem(fmt::format(
            "client {}, transaction {} happened at epoch {} although {} had returned before it was "
            "called",
            number, pending->number, witness.value, pending->acknowledged_before.value));
    }
    pending->epoch = witness;
    client.last = witness;
    happened_.push_back(pending);
}

Task<> History::apply_happened() {
    std::ranges::sort(happened_, {}, [](const auto& issued) { return issued->epoch; });
    for (const SeenRead& read : reads_) {
        auto& versions = versions_[read.place];
        if (versions.empty()) versions.push_back(co_await look(read.place, {}));
    }
    for (const auto& issued : happened_) {
        if (issued->epoch <= checked_) {
            problem(fmt::format("epoch {} was given again, or late: {} is past",
                                issued->epoch.value, checked_.value));
            continue;
        }
        checked_ = issued->epoch;
        co_await apply(*issued);
    }
    happened_.clear();
    acknowledged_ = std::max(acknowledged_, checked_);
}

Task<> History::apply(const Issued& issued) {
    const Transaction transaction = translate(issued.batch.transaction());
    const auto commit = co_await oracle_.update(no_call, container_, transaction);
    if (!commit) {
        const Error& error = commit.error();
        problem(
            fmt::format("the transaction at epoch {} could not have happened: {} (condition {})",
                        issued.epoch.value, describe(error), error.detail));
        co_return;
    }
    ROS2S_CHECK(commit->epoch.value == epochs_.size());
    epochs_.push_back(issued.epoch);
    oracle_epochs_[issued.epoch] = commit->epoch;
    co_await follow(transaction, issued.epoch);
}

Transaction History::translate(const Transaction& transaction) const {
    Transaction oracles = transaction;
    oracles.id = {};
    for (Condition& condition : oracles.conditions) {
        if (condition.kind != Condition::Kind::epoch_equals || condition.value == 0) continue;
        const auto known = oracle_epochs_.find(Epoch{condition.value});
        condition.value = known == oracle_epochs_.end() ? ~uint64_t{0} : known->second.value;
    }
    return oracles;
}

// ---- reads ---------------------------------------------------------------------------------

Task<History::Version> History::look(AkeyAddress place, Epoch from) {
    Version version{.from = from};
    FetchItem item{.object = place.object, .dkey = {place.dkey}, .akey = {place.akey}};
    (void)co_await oracle_.fetch(no_call, container_, {&item, 1});
    if (!item.status && item.status.error().code == Code::not_found) co_return version;
    version.exists = true;
    version.entry = {item.is_value, real(item.epoch), std::string(item.size, '\0')};
    item.extent = {0, item.size};
    item.window = Window::local(std::as_writable_bytes(std::span(version.entry.bytes)));
    (void)co_await oracle_.fetch(no_call, container_, {&item, 1});
    co_return version;
}

// Notes the new versions of what the transaction may have changed.
Task<> History::follow(const Transaction& transaction, Epoch epoch) {
    std::set<AkeyAddress> changed;
    for (const Operation& operation : transaction.operations) {
        const bool one = operation.kind < Operation::Kind::punch_dkey;
        const AkeyAddress exact{operation.object, operation.dkey.bytes, operation.akey.bytes};
        if (one) {
            if (versions_.contains(exact)) changed.insert(exact);
            continue;
        }
        for (const auto& [place, versions] : versions_) {
            if (place.object == operation.object) changed.insert(place);
        }
    }
    for (const AkeyAddress& place : changed) {
        Version now = co_await look(place, epoch);
        const Version& last = versions_[place].back();
        if (now.exists == last.exists && now.entry.epoch == last.entry.epoch) continue;
        versions_[place].push_back(std::move(now));
    }
}

namespace {
uint32_t crc_of(const SnapshotEntry& entry, Extent extent) {
    if (entry.is_value) return crc32c(as_bytes(entry.bytes));
    std::string bytes;
    if (extent.offset < entry.bytes.size())
        bytes = entry.bytes.substr(extent.offset, extent.length);
    bytes.resize(extent.length, '\0');
    return crc32c(as_bytes(bytes));
}
}  // namespace

void History::judge_read(const SeenRead& read) {
    const std::vector<Version>& versions = versions_[read.place];
    for (size_t i = 0; i < versions.size(); ++i) {
        const Version& version = versions[i];
        // Replaced by a version that was acknowledged before the read began.
        const bool stale = i + 1 < versions.size() && versions[i + 1].from <= read.visible_before;
        if (version.exists != read.exists) continue;
        if (!read.exists) {
            if (!stale) return;
            continue;
        }
        if (version.entry.epoch != read.epoch) continue;
        if (stale) {
            problem(fmt::format("a read of {} saw epoch {}, replaced at {}, after {} had returned",
                                to_string(read.place), read.epoch.value, versions[i + 1].from.value,
                                read.visible_before.value));
        } else if (version.entry.is_value != read.is_value ||
                   version.entry.bytes.size() != read.size ||
                   crc_of(version.entry, read.extent) != read.crc) {
            problem(fmt::format("a read of {} at epoch {} saw other bytes than were written",
                                to_string(read.place), read.epoch.value));
        }
        return;
    }
    problem(read.exists
                ? fmt::format("a read of {} saw epoch {}, which did not happen",
                              to_string(read.place), read.epoch.value)
                : fmt::format("a read did not see {}, which was there", to_string(read.place)));
}

// ---- comparing -----------------------------------------------------------------------------

void History::compare(const Snapshot& found, const Snapshot& expected) {
    compare_entries(found, expected);
    for (const auto& [column, query] : expected.queries) {
        const auto reply = found.queries.find(column);
        if (reply != found.queries.end()) compare_query(column, reply->second, query);
    }
}

void History::compare_entries(const Snapshot& found, const Snapshot& expected) {
    for (const auto& [place, entry] : expected.entries) {
        const auto at = found.entries.find(place);
        if (at == found.entries.end()) {
            problem(fmt::format("{} of epoch {} is missing", to_string(place),
                                real(entry.epoch).value));
            continue;
        }
        const SnapshotEntry& there = at->second;
        if (there.epoch != real(entry.epoch)) {
            problem(fmt::format("{} is of epoch {} and should be of {}", to_string(place),
                                there.epoch.value, real(entry.epoch).value));
        } else if (there.is_value != entry.is_value || there.bytes.size() != entry.bytes.size()) {
            problem(fmt::format("{} of epoch {} has {} bytes and should have {}", to_string(place),
                                there.epoch.value, there.bytes.size(), entry.bytes.size()));
        } else if (there.bytes != entry.bytes) {
            const auto differ = std::ranges::mismatch(there.bytes, entry.bytes).in1;
            problem(fmt::format("{} of epoch {} has wrong bytes from {} on (of {})",
                                to_string(place), there.epoch.value, differ - there.bytes.begin(),
                                there.bytes.size()));
        }
    }
    for (const auto& [place, entry] : found.entries) {
        if (expected.entries.contains(place)) continue;
        problem(
            fmt::format("{} of epoch {} should not be there", to_string(place), entry.epoch.value));
    }
}

void History::compare_query(const Column& column, const QueryReply& found,
                            const QueryReply& expected) {
    const auto where = [&] {
        return fmt::format("query of {}.{}/{}", column.first.high, column.first.low, column.second);
    };
    if (found.exists != expected.exists || found.highest_dkey != expected.highest_dkey ||
        found.size != expected.size) {
        problem(fmt::format("{} says {} \"{}\" of {} bytes, and should say {} \"{}\" of {}",
                            where(), found.exists, found.highest_dkey.bytes, found.size,
                            expected.exists, expected.highest_dkey.bytes, expected.size));
    }
    if (found.last_epoch != real(expected.last_epoch)) {
        problem(fmt::format("{} says epoch {} and should say {}", where(), found.last_epoch.value,
                            real(expected.last_epoch).value));
    }
    if (const auto known = times_.find(found.last_epoch);
        known != times_.end() && known->second != found.last_time) {
        problem(fmt::format("{} says that epoch {} had the time {} ns, and it had {}", where(),
                            found.last_epoch.value, found.last_time.time_since_epoch().count(),
                            known->second.time_since_epoch().count()));
    }
    if (found.bytes_used != expected.bytes_used) {
        problem(fmt::format("{} says {} bytes used and should say {}", where(), found.bytes_used,
                            expected.bytes_used));
    }
}

}  // namespace ros2s::sim
