// Json: a value that is printed once, for --json. Object members keep the order in which they were
// set. Bytes that are not UTF-8 (file names may hold any) are kept (NotUtf8).
#pragma once
#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ros2s/base/json.h"

namespace ros2s::cli {

class Json {
  public:
    Json() : text_("null") {}
    Json(std::string_view text) : text_(json_string(text, NotUtf8::kept)) {}
    Json(const std::string& text) : Json(std::string_view(text)) {}
    Json(const char* text) : Json(std::string_view(text)) {}
    Json(bool value) : text_(value ? "true" : "false") {}
    template <std::integral T>
    Json(T value) : text_(std::to_string(value)) {}
    Json(double value);

    using Member = std::pair<std::string_view, Json>;
    [[nodiscard]] static Json object(const std::vector<Member>& members = {});
    [[nodiscard]] static Json array(const std::vector<Json>& values = {});

    [[nodiscard]] const std::string& text() const { return text_; }

  private:
    std::string text_;
};

}  // namespace ros2s::cli
