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

// A set of rights. `write` includes `read`.
class Rights {
  public:
    constexpr Rights() = default;
    constexpr Rights(std::initializer_list<Right> rights) {
        for (const Right each : rights) add(each);
    }
    constexpr void add(Right right) { set_ |= bit(right); }
    constexpr void add(Rights others) { set_ |= others.set_; }
    [[nodiscard]] constexpr bool has(Right right) const {
        if (right == Right::read && has(Right::write)) return true;
        return (set_ & bit(right)) != 0;
    }
    [[nodiscard]] constexpr bool is_empty() const { return set_ == 0; }
    friend bool operator==(const Rights&, const Rights&) = default;

  private:
    static constexpr uint8_t bit(Right right) {
        return static_cast<uint8_t>(1U << static_cast<unsigned>(right));
    }
    uint8_t set_ = 0;
};

struct ContainerPattern {
    std::string label;       // or the beginning of labels, if is_prefix
    bool is_prefix = false;  // "" and is_prefix: every container

    [[nodiscard]] bool has(std::string_view container) const {
        return is_prefix ? container.starts_with(label) : container == label;
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
