#include "block_pins.h"

namespace ros2s::engine {

bool BlockPins::is_pinned(const std::string& key) const {
    const auto first = pins_.lower_bound({key, Uuid{}});
    return first != pins_.end() && first->first.first == key;
}

void BlockPins::add(std::string_view key, const Uuid& client, uint64_t session, uint32_t until_s) {
    const auto [pin, is_new] = pins_.try_emplace({std::string(key), client});
    const std::string_view name = pin->first.first;
    if (!is_new) of_sessions_.erase({pin->second.session, name, client});
    pin->second = {.session = session, .until_s = until_s};
    of_clients_.emplace(client, name);
    of_sessions_.emplace(session, name, client);
}

BlockPins::Pins::iterator BlockPins::erase(Pins::iterator pin) {
    const auto& [key, client] = pin->first;
    of_clients_.erase({client, key});
    of_sessions_.erase({pin->second.session, key, client});
    return pins_.erase(pin);
}

BlockPins::Pins::iterator BlockPins::erase(Pins::iterator pin, Keys& removed) {
    std::string key = pin->first.first;
    const auto next = erase(pin);
    if (!is_pinned(key)) removed.push_back(std::move(key));
    return next;
}

BlockPins::Keys BlockPins::remove(std::string_view key, const Uuid& client) {
    Keys removed;
    const auto pin = pins_.find({std::string(key), client});
    if (pin != pins_.end()) erase(pin, removed);
    return removed;
}

BlockPins::Keys BlockPins::remove_all(const Uuid& client) {
    Keys removed;
    for (auto next = of_clients_.lower_bound({client, {}});
         next != of_clients_.end() && next->first == client;
         next = of_clients_.lower_bound({client, {}})) {
        erase(pins_.find({std::string(next->second), client}), removed);
    }
    return removed;
}

BlockPins::Keys BlockPins::session_ended(uint64_t session) {
    Keys removed;
    for (auto next = of_sessions_.lower_bound({session, {}, {}});
         next != of_sessions_.end() && std::get<0>(*next) == session;
         next = of_sessions_.lower_bound({session, {}, {}})) {
        const auto& [its, key, client] = *next;
        erase(pins_.find({std::string(key), client}), removed);
    }
    return removed;
}

BlockPins::Keys BlockPins::end_until(uint32_t now_s) {
    Keys removed;
    for (auto pin = pins_.begin(); pin != pins_.end();) {
        pin = pin->second.until_s <= now_s ? erase(pin, removed) : std::next(pin);
    }
    return removed;
}

void BlockPins::erase(std::string_view key) {
    const std::string name(key);
    auto at = pins_.lower_bound({name, Uuid{}});
    while (at != pins_.end() && at->first.first == name) at = erase(at);
}

}  // namespace ros2s::engine
