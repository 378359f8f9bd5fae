// Json: builds JSON text. is_utf8(): whether bytes are UTF-8. Plain values and functions; any
// thread.
#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ros2s {

// The form in JSON of bytes that are not UTF-8: \ufffd, or for each byte a lone surrogate \udc80 to
// \udcff. Python uses the latter: os.fsencode(json.loads(…)) returns the original bytes.
enum class NotUtf8 : uint8_t { replaced, kept };
// A value that is printed once. Members of an object keep their order.
class Json {
  public:
    Json() : text_("null") {}
    Json(std::string_view text, NotUtf8 bytes = NotUtf8::kept);
    Json(const std::string& text) : Json(std::string_view(text)) {}
    Json(const char* text) : Json(std::string_view(text)) {}
    Json(bool value) : text_(value ? "true" : "false") {}
    template <std::integral T>
    Json(T value) : text_(std::to_string(value)) {}
    Json(double value);

    // Has its own copy of the name, which may be a temporary of a MetricVisitor's caller.
    using Member = std::pair<std::string, Json>;
    [[nodiscard]] static Json object(const std::vector<Member>& members = {});
    [[nodiscard]] static Json array(const std::vector<Json>& values = {});

    [[nodiscard]] const std::string& text() const { return text_; }

  private:
    std::string text_;
};

[[nodiscard]] bool is_utf8(std::string_view text);

}  // namespace ros2s
