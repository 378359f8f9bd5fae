#include "block_pins.h"

namespace ros2s::engine {

bool BlockPins::is_pinned(const std::string& key) const {
    const auto first = pins_.lower_bound({key, Uuid{}});
    return first != pins_.end() && first->first.first == key;
}

template <class IsOver>
BlockPins::Keys BlockPins::remove_if(IsOver is_over) {
    Keys removed;
    for (auto at = pins_.begin(); at != pins_.end();) {
        if (!is_over(at->first.second, at->second)) {
            ++at;
            continue;
        }
        removed.push_back(at->first.first);
        at = pins_.erase(at);
    }
    std::erase_if(removed, [this](const std::string& key) { return is_pinned(key); });
    return removed;
}

BlockPins::Keys BlockPins::remove(std::string_view key, const Uuid& client) {
    std::string name(key);
    if (pins_.erase({name, client}) == 0 || is_pinned(name)) return {};
    return {std::move(name)};
}

BlockPins::Keys BlockPins::remove_all(const Uuid& client) {
    return remove_if([&](const Uuid& whose, const Pin&) { return whose == client; });
}

BlockPins::Keys BlockPins::session_ended(uint64_t session) {
    return remove_if([&](const Uuid&, const Pin& pin) { return pin.session == session; });
}

BlockPins::Keys BlockPins::end_until(uint32_t now_s) {
    return remove_if([&](const Uuid&, const Pin& pin) { return pin.until_s <= now_s; });
}

void BlockPins::erase(std::string_view key) {
    const std::string name(key);
    auto at = pins_.lower_bound({name, Uuid{}});
    while (at != pins_.end() && at->first.first == name) at = pins_.erase(at);
}

}  // namespace ros2s::engine
