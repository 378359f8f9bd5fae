// Strings in JSON, and UTF-8. Plain functions; any thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace ros2s {

// The form in JSON of bytes that are not UTF-8: \ufffd, or for each byte a lone surrogate \udc80 to
// \udcff. Python uses the latter: os.fsencode(json.loads(…)) returns the original bytes.
enum class NotUtf8 : uint8_t { replaced, kept };
// "a\"b" with its quotes.
[[nodiscard]] std::string json_string(std::string_view text, NotUtf8 bytes = NotUtf8::replaced);

[[nodiscard]] bool is_utf8(std::string_view text);

}  // namespace ros2s
