// BlockPins: who has pinned which blocks of a cache, and until when.
//
// Used on one core. Does not suspend.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "ros2s/base/uuid.h"

namespace ros2s::engine {

class BlockPins {
  public:
    // What a pin takes at most, with its parts of the map and of both indexes.
    static constexpr size_t bytes_per_pin = 352;
    // Of all caches: all are looked at every second.
    static constexpr size_t pins_max = 65536;

    [[nodiscard]] size_t size() const { return pins_.size(); }
    [[nodiscard]] bool has(std::string_view key, const Uuid& client) const {
        return pins_.contains({std::string(key), client});
    }
    // A client has one pin of a key. Pinning again changes its end.
    void add(std::string_view key, const Uuid& client, uint64_t session, uint32_t until_s);
    // Each returns the keys that nobody pins any more.
    using Keys = std::vector<std::string>;
    Keys remove(std::string_view key, const Uuid& client);
    Keys remove_all(const Uuid& client);
    Keys session_ended(uint64_t session);
    Keys end_until(uint32_t now_s);
    // The key is gone.
    void erase(std::string_view key);

    [[nodiscard]] bool is_pinned(const std::string& key) const;

  private:
    struct Pin {
        uint64_t session = 0;
        uint32_t until_s = 0;
    };
    using Pins = std::map<std::pair<std::string, Uuid>, Pin>;
    Pins::iterator erase(Pins::iterator pin);
    // The pin's key, if nobody else pins it, is added to `removed`.
    Pins::iterator erase(Pins::iterator pin, Keys& removed);

    Pins pins_;
    // Indexes: views of the keys in `pins_`.
    std::set<std::pair<Uuid, std::string_view>> of_clients_;
    std::set<std::tuple<uint64_t, std::string_view, Uuid>> of_sessions_;
};

}  // namespace ros2s::engine
