#include "json.h"

#include <fmt/format.h>

#include <cmath>

namespace ros2s::cli {

Json::Json(double value) : text_(std::isfinite(value) ? fmt::format("{}", value) : "null") {}

Json Json::object(const std::vector<Member>& members) {
    Json json;
    json.text_ = "{";
    for (const auto& [name, value] : members) {
        if (json.text_.size() > 1) json.text_ += ", ";
        json.text_ += Json(name).text_ + ": " + value.text_;
    }
    json.text_ += "}";
    return json;
}

Json Json::array(const std::vector<Json>& values) {
    Json json;
    json.text_ = "[";
    for (const Json& value : values) {
        if (json.text_.size() > 1) json.text_ += ", ";
        json.text_ += value.text_;
    }
    json.text_ += "]";
    return json;
}

}  // namespace ros2s::cli
