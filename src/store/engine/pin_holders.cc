#include "pin_holders.h"

#include <fmt/format.h>

#include "ros2s/base/crc32c.h"
#include "ros2s/object/leases.h"

namespace ros2s::engine {

using object::HolderName;

namespace {

constexpr std::string_view first_line = "ros2store pins 1\n";
constexpr std::string_view first_line_with_ended = "ros2store pins 2\n";
constexpr std::string_view first_line_with_alone = "ros2store pins 3\n";
constexpr std::string_view ended_line = "ended\n", alone_line = "alone\n";
static_assert(first_line.size() == first_line_with_ended.size() &&
              first_line.size() == first_line_with_alone.size());
constexpr size_t uuid_characters = 36;
constexpr size_t line_characters = 3 * (uuid_characters + 1);

std::string last_line(std::string_view text) {
    return fmt::format("crc {:08x}\n", crc32c(as_bytes(text)));
}

void add_lines(std::string& text, const std::vector<HolderName>& holders) {
    for (const HolderName& each : holders) {
        text += each.container.uuid.to_string() + ' ' + each.owner.to_string() + ' ' +
                each.client.to_string() + '\n';
    }
}

// False: these are no lines of holders.
bool read_lines(std::string_view lines, std::vector<HolderName>& holders) {
    if (lines.size() % line_characters != 0) return false;
    for (; !lines.empty(); lines.remove_prefix(line_characters)) {
        const auto part = [&](size_t number) {
            return Uuid::parse(lines.substr(number * (uuid_characters + 1), uuid_characters));
        };
        const auto container = part(0), owner = part(1), client = part(2);
        if (!container || !owner || !client) return false;
        holders.push_back({{*container}, *owner, *client});
    }
    return true;
}

}  // namespace

std::string encode_pin_list(const std::vector<HolderName>& holders,
                            const std::vector<HolderName>& ended,
                            const std::vector<HolderName>& alone) {
    std::string text(!alone.empty()  ? first_line_with_alone
                     : ended.empty() ? first_line
                                     : first_line_with_ended);
    text.reserve(first_line.size() +
                 line_characters * (holders.size() + ended.size() + alone.size() + 1));
    add_lines(text, holders);
    if (!ended.empty() || !alone.empty()) text += ended_line;
    add_lines(text, ended);
    if (!alone.empty()) text += alone_line;
    add_lines(text, alone);
    return text + last_line(text);
}

std::optional<std::vector<HolderName>> decode_pin_list(std::string_view text,
                                                       std::vector<HolderName>* ended,
                                                       std::vector<HolderName>* alone) {
    const size_t end = last_line({}).size();
    const bool has_alone = text.starts_with(first_line_with_alone);
    const bool has_ended = has_alone || text.starts_with(first_line_with_ended);
    if (text.size() < first_line.size() + end) return {};
    if (!has_ended && !text.starts_with(first_line)) return {};
    const std::string_view lines = text.substr(0, text.size() - end);
    if (text.substr(lines.size()) != last_line(lines)) return {};
    std::string_view all = lines.substr(first_line.size());
    if (has_alone) {
        const size_t border = all.find(alone_line);
        std::vector<HolderName> found;
        if (border == all.npos || !read_lines(all.substr(border + alone_line.size()), found)) {
            return {};
        }
        if (alone != nullptr) *alone = std::move(found);
        all = all.substr(0, border);
    }
    if (all.size() / line_characters > pin_list_holders_max) return {};
    const size_t border = has_ended ? all.find(ended_line) : all.size();
    if (border == all.npos) return {};
    std::vector<HolderName> holders, over;
    if (!read_lines(all.substr(0, border), holders)) return {};
    if (has_ended && !read_lines(all.substr(border + ended_line.size()), over)) return {};
    holders.insert(holders.end(), over.begin(), over.end());
    if (ended != nullptr) *ended = std::move(over);
    return holders;
}

namespace {

constexpr Duration pruned_every = std::chrono::seconds(1);
// How long a holder that had a container alone keeps others out after a start.
constexpr Duration alone_awaited = std::chrono::seconds(5);
// Before others are no longer refused: longer than it takes to prune and to write the list.
constexpr Duration given_up_before = 2 * pruned_every;
// Longer than any request: a holder does not disappear between add() and its pin.
constexpr Duration unused_max = std::chrono::minutes(10);
// The same if there is no room.
constexpr Duration unused_max_when_full = std::chrono::minutes(1);

}  // namespace

PinHolders::PinHolders(const Environment& env, const EngineOptions& options, object::PinTable& pins,
                       object::LockTable& locks)
    : env_(env),
      list_(options.pin_list),
      pins_(pins),
      locks_(locks),
      changed_(env.reactor),
      wrote_(env.reactor) {
    if (!keeps_list() || !list_.text) return;
    const Time until = env.reactor.now() + options.pin_grace;
    std::vector<HolderName> ended, alone;
    const auto holders = decode_pin_list(*list_.text, &ended, &alone);
    if (!holders) {
        awaits_all_ = true;
        all_until_ = until;
        pins.await_all(until);
        return;
    }
    pins.await(*holders, ended, until);
    pins.await_alone(alone, env.reactor.now() + alone_awaited);
    awaited_until_ = until;
    for (const HolderName& each : *holders) {
        if (entries_.emplace(each, Entry{.until = until, .is_awaited = true}).second) {
            ++owners_[each.owner];
        }
    }
    for (const HolderName& each : ended) entries_.at(each).has_ended = true;
}

Task<> PinHolders::start() {
    if (!keeps_list()) co_return;
    background_.emplace(env_.reactor, 2);
    co_await background_->spawn(write_out(*this));
    co_await background_->spawn(prune_sometimes(*this));
}

Task<> PinHolders::stop() {
    if (!background_) co_return;
    prune(unused_max);
    closing_.request_stop();
    changed_.wake_all();
    co_await background_->join();
}

bool PinHolders::touch(object::ContainerId container, const object::Holder& holder) {
    const auto found = entries_.find(name_of(container, holder));
    if (found == entries_.end() || found->second.session != holder.session) return false;
    found->second.used = env_.reactor.now();
    found->second.leaves = false;
    return is_written(found->second);
}

size_t PinHolders::owners_share(const Uuid& owner) const {
    const auto own = owners_.find(owner);
    const size_t others = entries_.size() - (own == owners_.end() ? 0 : own->second);
    return (pin_list_holders_max - others) / 2;
}

Task<Result<>> PinHolders::add(object::ContainerId container, object::Holder holder) {
    const HolderName name = name_of(container, holder);
    auto found = entries_.find(name);
    if (found == entries_.end()) {
        const auto is_full = [&] {
            const auto own = owners_.find(holder.owner);
            return own != owners_.end() && own->second >= owners_share(holder.owner);
        };
        if (is_full()) prune(unused_max_when_full);
        if (is_full()) co_return fail(Code::no_memory, owners_share(holder.owner));
        found = entries_.emplace(name, Entry{.version = ++version_}).first;
        ++owners_[holder.owner];
        changed_.wake_all();
    } else if (found->second.session != 0 && found->second.session != holder.session) {
        found->second.has_ended = true;
        ++version_;
        changed_.wake_all();
    }
    found->second.session = holder.session;
    found->second.until = Time::max();
    found->second.used = env_.reactor.now();
    found->second.leaves = false;
    co_await wait_until_written(found->second.version);
    // It left meanwhile.
    if (!entries_.contains(name)) co_return co_await add(container, holder);
    co_return Result<>();
}

Task<> PinHolders::wait_until_written(uint64_t version) {
    while (written_ < version && (is_writing_ || !awaits_all_)) co_await wrote_;
}

Task<> PinHolders::write_again(const object::Holder& holder) {
    if (!keeps_list() || holder.session == 0) co_return;
    const uint64_t version = ++version_;
    changed_.wake_all();
    co_await wait_until_written(version);
}

void PinHolders::leave(object::ContainerId container, const object::Holder& holder) {
    const auto found = entries_.find(name_of(container, holder));
    if (found == entries_.end() || found->second.session != holder.session) return;
    found->second.leaves = true;
    if (pins_.has_pins(found->first)) return;  // prune_sometimes()
    drop_entry_of(holder.owner);
    entries_.erase(found);
    ++version_;
    changed_.wake_all();
}

void PinHolders::drop_entry_of(const Uuid& owner) {
    const auto found = owners_.find(owner);
    if (--found->second == 0) owners_.erase(found);
}

void PinHolders::pinned_again(object::ContainerId container, const object::Holder& holder) {
    const auto found = entries_.find(name_of(container, holder));
    if (found == entries_.end() || found->second.session != holder.session) return;
    found->second.is_awaited = false;
    if (!std::exchange(found->second.has_ended, false)) return;
    ++version_;
    changed_.wake_all();
}

void PinHolders::session_ended(uint64_t session, Time now, Time until) {
    if (session == 0) return;
    for (auto& [name, entry] : entries_) {
        if (entry.session != session) continue;
        entry.session = 0;
        entry.until = pins_.has_pins(name) ? until : now + object::lease_time;
        if (!std::exchange(entry.has_ended, true)) ++version_;
    }
    endings_.push_back({.version = version_, .session = session, .until = until});
    changed_.wake_all();
    if (!background_ || written_ == version_) end_locks();
}

void PinHolders::end_locks() {
    while (!endings_.empty() && (!background_ || endings_.front().version <= written_)) {
        const Ending& ending = endings_.front();
        locks_.session_ended(ending.session, env_.reactor.now(), ending.until);
        endings_.pop_front();
    }
}

void PinHolders::give_up_awaited() {
    if (env_.reactor.now() + given_up_before < awaited_until_) return;
    for (auto& [name, entry] : entries_) {
        if (!std::exchange(entry.is_awaited, false)) continue;
        entry.has_ended = true;
        ++version_;
    }
}

template <class IsOver>
void PinHolders::remove_if(IsOver is_over) {
    const size_t erased = std::erase_if(entries_, [&](const auto& each) {
        const auto& [name, entry] = each;
        if (!is_over(name, entry)) return false;
        drop_entry_of(name.owner);
        return true;
    });
    if (erased == 0) return;
    ++version_;
    changed_.wake_all();
}

void PinHolders::client_ended(uint64_t session) {
    if (session == 0) return;
    remove_if([&](const HolderName&, const Entry& entry) { return entry.session == session; });
}

void PinHolders::prune(Duration unused) {
    const Time now = env_.reactor.now();
    remove_if([&](const HolderName& name, const Entry& entry) {
        const bool is_idle = entry.leaves || (entry.session != 0 && entry.used + unused <= now);
        return entry.until <= now || (is_idle && !pins_.has_pins(name));
    });
}

Task<> PinHolders::prune_sometimes(PinHolders& self) {
    while (co_await sleep_for(self.env_.reactor, pruned_every, self.closing_.token())) {
        self.prune(unused_max);
        self.give_up_awaited();
        // Holders that were added meanwhile are written after all have been awaited for long
        // enough.
        self.changed_.wake_all();
    }
}

Task<> PinHolders::write_out(PinHolders& self) {
    for (;;) {
        const bool waits = self.env_.reactor.now() < self.all_until_;
        if (self.written_ == self.version_ || waits) {
            if (self.closing_.stop_requested()) co_return;
            co_await self.changed_;
            continue;
        }
        const uint64_t version = self.version_;
        std::vector<HolderName> holders, ended, alone;
        for (const auto& [name, entry] : self.entries_) {
            (entry.has_ended ? ended : holders).push_back(name);
            if (!entry.has_ended && self.locks_.is_alone(name)) alone.push_back(name);
        }
        self.is_writing_ = true;
        const Result<> done = co_await self.env_.blocking.run(self.env_.reactor, [&] {
            return self.list_.write(encode_pin_list(holders, ended, alone));
        });
        if (!done && !std::exchange(self.has_warned_, true)) {
            self.env_.log.warning(fmt::format(
                "the list of clients that may have files open cannot be written: {}. The next "
                "start of the engine waits for all clients",
                describe(done.error())));
        }
        self.is_writing_ = false;
        self.awaits_all_ = !done;
        self.written_ = version;
        self.end_locks();
        self.wrote_.wake_all();
    }
}

}  // namespace ros2s::engine
