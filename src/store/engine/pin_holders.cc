#include "pin_holders.h"

#include <fmt/format.h>

#include "ros2s/base/crc32c.h"
#include "ros2s/object/leases.h"

namespace ros2s::engine {

using object::HolderName;

namespace {

constexpr std::string_view first_lines[] = {"ros2store pins 1\n", "ros2store pins 2\n",
                                            "ros2store pins 3\n"};
constexpr size_t first_line_characters = first_lines[0].size();
constexpr std::string_view deferring_line = "deferring\n", ended_line = "ended\n",
                           alone_line = "alone\n";
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

// The part of `lines` before this line, which is removed with it. Empty: there is no such line.
std::optional<std::string_view> take_part(std::string_view& lines, std::string_view border) {
    const size_t at = lines.find(border);
    if (at == lines.npos) return {};
    const std::string_view part = lines.substr(0, at);
    lines.remove_prefix(at + border.size());
    return part;
}

}  // namespace

// In the oldest version that has room for it.
std::string encode_pin_list(const PinList& list) {
    const bool is_plain = list.deferring.empty() && list.exclusive.empty();
    const size_t version = !is_plain ? 2 : !list.ended.empty() ? 1 : 0;
    std::string text(first_lines[version]);
    text.reserve(text.size() + line_characters * (list.holders.size() + list.deferring.size() +
                                                  list.ended.size() + list.exclusive.size() + 1));
    add_lines(text, list.holders);
    if (version == 2) text += deferring_line;
    add_lines(text, list.deferring);
    if (version >= 1) text += ended_line;
    add_lines(text, list.ended);
    if (version == 2) text += alone_line;
    add_lines(text, list.exclusive);
    return text + last_line(text);
}

std::optional<PinList> decode_pin_list(std::string_view text) {
    const size_t end = last_line({}).size();
    if (text.size() < first_line_characters + end) return {};
    const auto first = std::ranges::find(first_lines, text.substr(0, first_line_characters));
    if (first == std::end(first_lines)) return {};
    const auto version = first - std::begin(first_lines);
    std::string_view lines = text.substr(0, text.size() - end);
    if (text.substr(lines.size()) != last_line(lines)) return {};
    lines.remove_prefix(first_line_characters);
    if (lines.size() / line_characters > 3 * pin_list_holders_max) return {};
    PinList list;
    std::vector<HolderName>* part = &list.holders;
    const auto read_upto = [&](std::string_view border, std::vector<HolderName>& next) {
        const auto before = take_part(lines, border);
        return before && read_lines(*before, *std::exchange(part, &next));
    };
    if (version == 2 && !read_upto(deferring_line, list.deferring)) return {};
    if (version >= 1 && !read_upto(ended_line, list.ended)) return {};
    if (version == 2 && !read_upto(alone_line, list.exclusive)) return {};
    if (!read_lines(lines, *part)) return {};
    const size_t holders = list.holders.size() + list.ended.size();
    if (std::max({holders, list.deferring.size(), list.exclusive.size()}) > pin_list_holders_max) {
        return {};
    }
    return list;
}

namespace {

// Removes the holders that are processes of this machine. True: there were some.
bool forget_processes(PinList& list) {
    size_t forgotten = 0;
    for (auto* const part : {&list.holders, &list.ended, &list.deferring, &list.exclusive}) {
        forgotten +=
            std::erase_if(*part, [](const HolderName& each) { return each.owner == Uuid{}; });
    }
    return forgotten > 0;
}

constexpr Duration pruned_every = std::chrono::seconds(1);
// How long former holders of locks keep others from locks after a start. Nobody waits for their
// pins, so these may last longer.
constexpr Duration claims_awaited = std::chrono::seconds(10);
// How long an exclusive holder keeps others out after a start.
constexpr Duration exclusive_awaited = std::chrono::seconds(5);
// Before others are no longer refused: longer than it takes to prune and to write the list.
constexpr Duration given_up_before = 2 * pruned_every;
// Longer than any request: a holder does not disappear between add() and its pin.
constexpr Duration unused_max = std::chrono::minutes(10);
// The same if there is no room.
constexpr Duration unused_max_when_full = std::chrono::minutes(1);

}  // namespace

PinHolders::PinHolders(const Environment& env, const EngineOptions& options, object::PinTable& pins,
                       object::LockTable& locks, AwaitedClients& awaited)
    : env_(env),
      list_(options.pin_list),
      pins_(pins),
      locks_(locks),
      awaited_(awaited),
      changed_(env.reactor),
      wrote_(env.reactor) {
    if (!keeps_list() || !list_.text) return;
    const Time until = env.reactor.now() + options.pin_grace;
    pins.await_claims(std::min(until, env.reactor.now() + claims_awaited));
    auto list = decode_pin_list(*list_.text);
    if (!list) {
        awaits_all_ = true;
        all_until_ = until;
        pins.await_all(until);
        return;
    }
    if (list_.processes_ended && forget_processes(*list)) ++version_;
    const auto add = [&](const HolderName& each, const Entry& entry) {
        if (entries_.emplace(each, entry).second) ++owners_[each.owner];
    };
    for (const HolderName& each : list->holders) {
        add(each, {.until = until, .is_awaited = true});
    }
    for (const HolderName& each : list->ended) {
        add(each, {.until = until, .is_awaited = true, .has_ended = true});
    }
    for (const HolderName& each : list->deferring) {
        if (const auto found = entries_.find(each); found != entries_.end()) {
            found->second.defers = true;
        }
    }
    awaited.await(list->deferring);
    if (awaited.any()) {
        env.log.info(
            "{} mounts that deferred changes were there when the pool was last open. Others wait "
            "in "
            "their containers for up to {} s, until these have repeated what is lost",
            awaited.count(), AwaitedClients::patience / std::chrono::seconds(1));
    }
    list->holders.insert(list->holders.end(), list->ended.begin(), list->ended.end());
    pins.await(list->holders, list->ended, until);
    pins.await_exclusive(list->exclusive, env.reactor.now() + exclusive_awaited);
    awaited_until_ = until;
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

bool PinHolders::touch(object::ContainerId container, const object::Holder& holder, Use use) {
    const auto found = entries_.find(name_of(container, holder));
    if (found == entries_.end() || found->second.session != holder.session) return false;
    // Who is not on the list cannot repeat what is lost.
    const bool is_on_list = found->second.version <= written_ && !awaits_all_;
    if (use == Use::defers && (!found->second.defers || !is_on_list)) return false;
    found->second.used = env_.reactor.now();
    found->second.leaves = false;
    return is_written(found->second);
}

size_t PinHolders::owners_share(const Uuid& owner) const {
    const auto own = owners_.find(owner);
    const size_t others = entries_.size() - (own == owners_.end() ? 0 : own->second);
    return (pin_list_holders_max - others) / 2;
}

Task<Result<>> PinHolders::add(object::ContainerId container, object::Holder holder, Use use) {
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
    if (use == Use::defers && !found->second.defers) {
        found->second.defers = true;
        found->second.version = ++version_;
        changed_.wake_all();
    }
    found->second.session = holder.session;
    found->second.until = Time::max();
    found->second.used = env_.reactor.now();
    found->second.leaves = false;
    co_await wait_until_written(found->second.version);
    // It left meanwhile.
    if (!entries_.contains(name)) co_return co_await add(container, holder, use);
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
        entry.defers = false;
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

// The list says so before others see what is there now: after the next start none of them may
// repeat what is older.
Task<> PinHolders::give_up_deferring() {
    env_.log.warning(
        "{} mounts that deferred changes did not come back. What they had not synced may be lost",
        awaited_.count());
    if (is_read_only()) co_return awaited_.give_up();
    for (auto& [name, entry] : entries_) {
        if (!awaited_.awaits(name)) continue;
        entry.defers = false;
        entry.has_ended = true;
    }
    const uint64_t version = ++version_;
    changed_.wake_all();
    co_await wait_until_written(version);
    awaited_.give_up();
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

std::vector<Uuid> PinHolders::deferring(uint64_t session) const {
    std::vector<Uuid> clients;
    for (const auto& [name, entry] : entries_) {
        if (entry.session == session && entry.defers) clients.push_back(name.client);
    }
    return clients;
}

void PinHolders::prune(Duration unused) {
    const Time now = env_.reactor.now();
    remove_if([&](const HolderName& name, const Entry& entry) {
        const bool is_idle = entry.leaves || (entry.session != 0 && entry.used + unused <= now);
        const bool may_repeat = awaited_.awaits(name) || (entry.defers && is_read_only());
        const bool is_over = entry.until <= now && !may_repeat;
        return is_over || (is_idle && !pins_.has_pins(name));
    });
}

Task<> PinHolders::prune_sometimes(PinHolders& self) {
    while (co_await sleep_for(self.env_.reactor, pruned_every, self.closing_.token())) {
        self.prune(unused_max);
        self.give_up_awaited();
        self.awaited_.look_again();
        if (self.awaited_.is_patience_over()) co_await self.give_up_deferring();
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
        PinList list;
        for (const auto& [name, entry] : self.entries_) {
            (entry.has_ended ? list.ended : list.holders).push_back(name);
            if (entry.defers) list.deferring.push_back(name);
            if (!entry.has_ended && self.locks_.is_exclusive(name)) list.exclusive.push_back(name);
        }
        self.is_writing_ = true;
        const Result<> done = co_await self.env_.blocking.run(
            self.env_.reactor, [&] { return self.list_.write(encode_pin_list(list)); });
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
