// Fields: the bytes on the wire, declared once. A function names the fields of a structure in their
// order. The encoder, its measure, the checking decoder, and the lines of a page in docs/formats/
// (field_text.h) come from it.
//
//     inline constexpr auto place_fields = [](auto& io, auto& place) {
//         io("node", place.node.value);
//         io.text("name", place.name, name_bytes_max);
//     };
//     FieldWriter<Encoder> out(memory);   FieldReader in(bytes);
//     place_fields(out, place);           place_fields(in, place);
//
// A writer takes the parts as const, a reader changes them; `Io::reads` is true in a reader. If a
// reader refuses something (too long a text, a flag that is neither 0 nor 1, …), its done() is
// false, and all later values are zero. Names are for people: writers and readers ignore them.
//
// Everything is inlined (always_inline, flatten): decoding a body costs twice as much if the
// compiler leaves a call per field.
#pragma once
#include <chrono>
#include <concepts>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ros2s/base/codec.h"

namespace ros2s {

// Out: Encoder or Measure.
template <class Out>
class FieldWriter : public Out {
  public:
    static constexpr bool reads = false;
    using Out::Out;

    // An integer, a flag (a byte), a Uuid, or a time (nanoseconds since 1970, i64).
    template <class T>
    void operator()(const char* /*name*/, const T& value) {
        if constexpr (std::same_as<T, bool>) {
            this->number(uint8_t{value});
        } else if constexpr (std::integral<T>) {
            this->number(value);
        } else if constexpr (std::same_as<T, Uuid>) {
            this->uuid(value);
        } else {
            this->number(int64_t{value.time_since_epoch().count()});
        }
    }
    // A string or a view; a view that was read points into the input. A reader refuses more bytes.
    void text(const char* /*name*/, std::string_view text, size_t /*most*/) { Out::text(text); }
    // The bytes of an array, or of a string whose length() came before.
    void bytes(const char* /*name*/, const auto& bytes) { this->raw(bytes.data(), bytes.size()); }
    // A u8. A reader resizes the string.
    void length(const char* /*name*/, std::string_view text) {
        this->number(static_cast<uint8_t>(text.size()));
    }
    // An enumeration whose values go up to `last`.
    template <class T>
    void choice(const char* /*name*/, T value, T /*last*/) {
        this->number(std::to_underlying(value));
    }
    // A number that the reader has as well.
    template <std::integral T>
    void known(const char* /*name*/, T value) {
        this->number(value);
    }
    // A part that the page describes elsewhere.
    [[gnu::always_inline, gnu::flatten]] void part(const char* /*name*/, const auto& part,
                                                   auto fields) {
        fields(*this, part);
    }
    // For the page: the condition under which the following fields exist.
    static bool has(const char* /*when*/, bool is_there) { return is_there; }
    // The same at the end of a body. A reader takes what is left.
    static bool more(const char* /*when*/, bool is_there) { return is_there; }
    static void refuse_when(bool /*is_wrong*/) {}

    // Elements, one after the other.
    [[gnu::always_inline, gnu::flatten]] void each(const auto& elements, auto fields) {
        for (const auto& element : elements) fields(*this, element);
    }
    // A u32 count, at most `most`, and the elements. A reader reuses the elements' memory. It makes
    // no more elements than the remaining bytes can hold.
    [[gnu::always_inline, gnu::flatten]] void list(const char* /*name*/, const auto& elements,
                                                   uint64_t /*most*/, auto fields) {
        this->number(static_cast<uint32_t>(elements.size()));
        each(elements, fields);
    }
    // The same; a reader appends to the existing elements. Returns how many it wrote or read.
    [[gnu::always_inline, gnu::flatten]] size_t append(const char* name, const auto& elements,
                                                       auto fields) {
        list(name, elements, 0, fields);
        return elements.size();
    }
    // A u32 count and numbers.
    template <class Numbers>
        requires std::integral<std::ranges::range_value_t<Numbers>>
    void numbers(const char* /*name*/, const Numbers& numbers) {
        this->number(static_cast<uint32_t>(numbers.size()));
        this->raw(numbers.data(), std::span(numbers).size_bytes());
    }
};

// Returns the number of bytes of the fields of these parts.
template <class... Parts>
[[nodiscard, gnu::flatten]] size_t measured(auto fields, const Parts&... parts) {
    FieldWriter<Measure> measure;
    fields(measure, parts...);
    return measure.size();
}
// The same of default parts; of a text or a list only its length counts.
template <class... Parts>
[[nodiscard, gnu::flatten]] uint64_t least_bytes(auto fields) {
    return measured(fields, Parts()...);
}

class FieldReader : public Decoder {
  public:
    static constexpr bool reads = true;
    using Decoder::Decoder;

    template <class T>
    void operator()(const char* /*name*/, T& value) {
        if constexpr (std::same_as<T, bool>) {
            const auto flag = number<uint8_t>();
            refuse_when(flag > 1);
            value = flag == 1;
        } else if constexpr (std::integral<T>) {
            value = number<T>();
        } else if constexpr (std::same_as<T, Uuid>) {
            value = uuid();
        } else {
            value = T(typename T::duration(number<int64_t>()));
        }
    }
    void text(const char* /*name*/, auto& text, size_t most) { text = Decoder::text(most); }
    void bytes(const char* /*name*/, auto& bytes) { raw(bytes.data(), bytes.size()); }
    void length(const char* /*name*/, std::string& text) { text.resize(number<uint8_t>()); }
    template <class T>
    void choice(const char* /*name*/, T& value, T last) {
        value = static_cast<T>(number<std::underlying_type_t<T>>());
        refuse_when(value > last);
    }
    template <std::integral T>
    void known(const char* /*name*/, T value) {
        refuse_when(number<T>() != value);
    }
    [[gnu::always_inline, gnu::flatten]] void part(const char* /*name*/, auto& part, auto fields) {
        fields(*this, part);
    }
    static bool has(const char* /*when*/, bool is_there) { return is_there; }
    [[nodiscard]] bool more(const char* /*when*/, bool /*is_there*/) const {
        return ok() && left() > 0;
    }
    void refuse_when(bool is_wrong) {
        if (is_wrong) refuse();
    }

    [[gnu::always_inline, gnu::flatten]] void each(auto&& elements, auto fields) {
        for (auto& element : elements) fields(*this, element);
    }
    template <class Elements>
    [[gnu::always_inline, gnu::flatten]] void list(const char* /*name*/, Elements& elements,
                                                   uint64_t most, auto fields) {
        using T = std::ranges::range_value_t<Elements>;
        const auto count = number<uint32_t>();
        if (count > most || count > left() / least_bytes<T>(fields)) return refuse();
        elements.resize(count);
        each(elements, fields);
    }
    template <class T>
    [[gnu::always_inline, gnu::flatten]] size_t append(const char* /*name*/,
                                                       std::vector<T>& elements, auto fields) {
        const auto count = number<uint32_t>();
        if (count > left() / least_bytes<T>(fields)) return refuse(), 0;
        const size_t had = elements.size();
        elements.resize(had + count);
        each(std::span(elements).subspan(had), fields);
        return count;
    }
    template <class Numbers>
    void numbers(const char* /*name*/, Numbers& numbers) {
        using T = std::ranges::range_value_t<Numbers>;
        numbers.clear();
        const auto count = number<uint32_t>();
        if (count > left() / sizeof(T)) return refuse();
        numbers.resize(count);
        for (T& each : numbers) each = number<T>();
    }
};

// The bytes of these parts.
template <class... Parts>
[[nodiscard]] std::string written(auto fields, const Parts&... parts) {
    std::string bytes(measured(fields, parts...), '\0');
    FieldWriter<Encoder> out(std::as_writable_bytes(std::span(bytes)));
    fields(out, parts...);
    return bytes;
}

}  // namespace ros2s
