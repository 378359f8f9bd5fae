// FieldText: a declaration of fields (fields.h) as docs/formats/ writes it:
//
//     container, `u32` items (at most 5), each {text dkey (at most 255), `u64` size}, flag more
//
// What is said twice is not: a part that the page has elsewhere is its name alone.
#pragma once
#include <fmt/format.h>

#include <ranges>
#include <string>
#include <type_traits>

#include "ros2s/base/fields.h"

namespace ros2s {

class FieldText {
  public:
    static constexpr bool reads = false;
    [[nodiscard]] const std::string& text() const { return text_; }

    template <class T>
    void operator()(const char* name, const T& /*value*/) {
        if constexpr (std::same_as<T, bool>) {
            add(fmt::format("flag {}", name));
        } else if constexpr (std::integral<T>) {
            known(name, T());
        } else if constexpr (std::same_as<T, Uuid>) {
            add(name);
        } else {
            add(fmt::format("time {}", name));
        }
    }
    void text(const char* name, const auto& /*text*/, size_t most) {
        add(fmt::format("text {}{}", name, at_most(most)));
    }
    template <class Array>
    void bytes(const char* name, const Array& bytes) {
        add(std::same_as<Array, std::string> ? name
                                             : fmt::format("{} bytes {}", bytes.size(), name));
    }
    void length(const char* name, const auto& /*text*/) {
        add(fmt::format("`u8` length of {}", name));
    }
    template <class T>
    void choice(const char* name, T /*value*/, T last) {
        add(fmt::format("{} (0 to {})", name_of<std::underlying_type_t<T>>(name),
                        std::to_underlying(last)));
    }
    template <std::integral T>
    void known(const char* name, T /*value*/) {
        add(name_of<T>(name));
    }
    void part(const char* name, const auto& /*part*/, auto /*fields*/) { add(name); }
    bool has(const char* when, bool /*is_there*/) {
        add(fmt::format("{}:", when));
        separator_ = " ";
        return true;
    }
    bool more(const char* when, bool is_there) { return has(when, is_there); }
    static void refuse_when(bool /*is_wrong*/) {}

    template <class Elements>
    void each(const Elements& /*elements*/, auto fields) {
        const std::ranges::range_value_t<Elements> element{};
        FieldText inner;
        fields(inner, element);
        add(fmt::format("each {{{}}}", inner.text()));
    }
    void list(const char* name, const auto& elements, uint64_t most, auto fields) {
        add(fmt::format("{}{}", name_of<uint32_t>(name), at_most(most)));
        each(elements, fields);
    }
    size_t append(const char* name, const auto& elements, auto fields) {
        known(name, uint32_t{0});
        each(elements, fields);
        return 1;
    }
    template <class Numbers>
    void numbers(const char* name, const Numbers& /*numbers*/) {
        using T = std::ranges::range_value_t<Numbers>;
        add(fmt::format("`u32` {}, each {}", name, name_of<T>("")));
    }

  private:
    template <std::integral T>
    static std::string name_of(std::string_view name) {
        return fmt::format("`{}{}`{}{}", std::is_signed_v<T> ? 'i' : 'u', 8 * sizeof(T),
                           name.empty() ? "" : " ", name);
    }
    static std::string at_most(uint64_t most) {
        return most < UINT32_MAX ? fmt::format(" (at most {})", most) : "";
    }
    void add(std::string_view field) {
        text_ += separator_;
        text_ += field;
        separator_ = ", ";
    }
    std::string text_;
    const char* separator_ = "";
};

// The text of default-constructed parts.
template <class... Parts>
[[nodiscard]] std::string field_text(auto fields) {
    FieldText text;
    [&](const auto&... parts) { fields(text, parts...); }(Parts()...);
    return text.text();
}

}  // namespace ros2s
