#include "ros2s/fs/unsynced.h"

#include <fmt/format.h>

#include "ros2s/base/text_parts.h"

namespace ros2s::fs {

std::string to_text(const Unsynced& unsynced, Time now, uint64_t store_start) {
    const Unsynced::Amount amount = unsynced.amount();
    return fmt::format("{} {} {} {}", amount.changes, amount.bytes,
                       unsynced.age(now) / std::chrono::milliseconds(1), store_start);
}

std::optional<UnsyncedAnswer> parse_unsynced(std::string_view text) {
    UnsyncedAnswer answer;
    for (uint64_t* const each : {&answer.amount.changes, &answer.amount.bytes, &answer.milliseconds,
                                 &answer.store_start}) {
        if (each == &answer.store_start && text.empty()) break;
        const std::string_view word = text.substr(0, text.find(' '));
        if (!parse_number(word, *each)) return {};
        text.remove_prefix(std::min(text.size(), word.size() + 1));
    }
    if (!text.empty()) return {};
    return answer;
}

}  // namespace ros2s::fs
