// Grant: the form of every right. It gives rights in the containers of one pool whose labels match
// a pattern, or in one directory of such a container. Each source of rights makes grants, and
// decide() reads nothing else.
//
// Plain values; any thread.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace ros2s::rights {

enum class Right : uint8_t { read, write, create, destroy };
inline constexpr std::array<Right, 4> all_rights{Right::read, Right::write, Right::create,
                                                 Right::destroy};
inline constexpr std::array<std::string_view, 4> right_names{"read", "write", "create", "destroy"};
[[nodiscard]] constexpr std::string_view to_string(Right right) noexcept {
    return right_names[static_cast<size_t>(right)];
}

// A set of rights. `write` includes `read`. None: only to see which containers exist.
struct Rights {
    uint8_t bits = 0;  // as docs/formats/capability.md has them

    constexpr Rights() = default;
    constexpr Rights(Right right) : bits(static_cast<uint8_t>(1U << static_cast<size_t>(right))) {}
    constexpr Rights(std::initializer_list<Right> rights) {
        for (const Right each : rights) add(each);
    }
    constexpr void add(Rights others) { bits |= others.bits; }
    // Whether it has all of these.
    [[nodiscard]] constexpr bool has(Rights others) const {
        Rights all = *this;
        if (names(Right::write)) all.add(Right::read);
        return others.without(all).is_empty();
    }
    // Whether it has the right by itself, and not because another one includes it.
    [[nodiscard]] constexpr bool names(Right right) const {
        return (bits & Rights(right).bits) != 0;
    }
    [[nodiscard]] constexpr Rights without(Rights others) const {
        Rights rest;
        rest.bits = bits & static_cast<uint8_t>(~others.bits);
        return rest;
    }
    [[nodiscard]] constexpr bool is_empty() const { return bits == 0; }
    friend bool operator==(const Rights&, const Rights&) = default;
};
inline constexpr Rights every_right{Right::read, Right::write, Right::create, Right::destroy};
// For people: "read, write"; none: "see".
[[nodiscard]] std::string to_string(Rights rights);

struct ContainerPattern {
    std::string text;  // a label, or the beginning of labels and a '*'

    [[nodiscard]] bool is_prefix() const { return text.ends_with('*'); }
    // Without the '*'.
    [[nodiscard]] std::string_view label() const {
        return std::string_view(text).substr(0, text.size() - (is_prefix() ? 1 : 0));
    }
    [[nodiscard]] bool has(std::string_view container) const {
        return is_prefix() ? container.starts_with(label()) : container == text;
    }
    // Whether it matches all that the other one does.
    [[nodiscard]] bool includes(const ContainerPattern& other) const {
        return has(other.label()) && (is_prefix() || !other.is_prefix());
    }
    friend bool operator==(const ContainerPattern&, const ContainerPattern&) = default;
};

struct Grant {
    std::string pool;
    ContainerPattern container;
    std::string path;  // names separated by '/'; empty: the whole container
    Rights rights;

    [[nodiscard]] bool is_for(std::string_view in_pool, std::string_view label) const {
        return pool == in_pool && container.has(label);
    }
    // True if this is for everything that `other` is for, whatever the rights are.
    [[nodiscard]] bool includes(const Grant& other) const;
    friend bool operator==(const Grant&, const Grant&) = default;
};

// True if the grants together have all rights of `wanted`, in all of it.
[[nodiscard]] bool give(std::span<const Grant> grants, const Grant& wanted);

}  // namespace ros2s::rights
