#include "issuer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ros2s/base/durable_file.h"
#include "ros2s/base/text_parts.h"
#include "ros2s/base/trusted_file.h"

namespace ros2s::capability {
namespace {

constexpr std::string_view first_line = "ros2store capability keys, version 1\n";
constexpr size_t document_bytes_max = 4096;

}  // namespace

Issuer::Issuer(Environment environment, std::string path)
    : environment_(std::move(environment)),
      path_(std::move(path)),
      turn_(environment_.reactor, 1) {}

std::string Issuer::document_of(const std::vector<StoredKey>& keys) {
    std::string text(first_line);
    for (const StoredKey& each : keys) {
        text += fmt::format("{:02x} {}\n", fmt::join(each.seed, ""),
                            each.retired.time_since_epoch().count());
    }
    return text;
}

Result<std::vector<Issuer::StoredKey>> Issuer::parse(std::string_view text) {
    if (!text.starts_with(first_line)) return fail(Code::invalid);
    text.remove_prefix(first_line.size());
    std::vector<StoredKey> keys;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        if (line.size() == text.size() || line.size() < 66 || line[64] != ' ') {
            return fail(Code::invalid);
        }
        StoredKey key;
        int64_t retired = 0;
        bool is_valid = parse_number(line.substr(65), retired);
        for (size_t i = 0; i < key.seed.size(); ++i) {
            is_valid = is_valid && parse_number(line.substr(2 * i, 2), key.seed[i], 16);
        }
        if (!is_valid) return fail(Code::invalid);
        key.retired = WallTime(Duration(retired));
        keys.push_back(key);
        text.remove_prefix(line.size() + 1);
    }
    if (keys.empty() || keys.size() > keys_max) return fail(Code::invalid);
    return keys;
}

Task<Result<std::unique_ptr<Issuer>>> Issuer::open(Environment environment, std::string path,
                                                   Report& report) {
    std::unique_ptr<Issuer> issuer(new Issuer(std::move(environment), std::move(path)));
    Issuer& self = *issuer;
    Report why;
    const auto text = co_await self.environment_.blocking.run(
        self.environment_.reactor,
        [&self, &why] { return read_private(self.path_, document_bytes_max, 0600, why); });
    if (text) {
        auto keys = parse(*text);
        if (!keys) {
            co_return report.fail(keys.error(),
                                  "{} is not a file of keys for capabilities. Move it away: a new "
                                  "one is made at start, and earlier capabilities become invalid",
                                  self.path_);
        }
        for (const StoredKey& each : *keys) self.keys_.emplace_back(each.seed);
        self.kept_ = std::move(*keys);
        co_return issuer;
    }
    if (text.error().code != Code::not_found) {
        co_return report.fail(text.error(),
                              "the keys for capabilities: {}. If the file is removed, new keys are "
                              "made at start",
                              why.text());
    }
    ROS2S_CO_TRY(co_await self.keep(
        {{.seed = SigningKey::make_seed(self.environment_.reactor.secrets())}}, report));
    co_return issuer;
}

Task<Result<>> Issuer::keep(std::vector<StoredKey> keys, Report& report) {
    const std::string text = document_of(keys);
    const auto written = co_await environment_.blocking.run(
        environment_.reactor, [this, &text] { return replace_file(path_, text, 0600); });
    if (!written) {
        co_return report.fail(written.error(), "cannot write the key file {}: {}", path_,
                              describe(written.error()));
    }
    keys_.clear();
    for (const StoredKey& each : keys) keys_.emplace_back(each.seed);
    kept_ = std::move(keys);
    co_return Result<>{};
}

std::vector<PublicKey> Issuer::keys() const {
    std::vector<PublicKey> valid;
    const WallTime now = environment_.reactor.wall_time();
    for (size_t i = 0; i < keys_.size(); ++i) {
        if (i == 0 || now - life_max < kept_[i].retired) valid.push_back(keys_[i].shown());
    }
    return valid;
}

std::string Issuer::issue(Capability capability, Duration life) const {
    const WallTime now = environment_.reactor.wall_time();
    capability.depth = 1;
    capability.parent = {};
    capability.id = Uuid::make(environment_.reactor.secrets());
    capability.issuer = keys_.front().shown();
    capability.not_before = now - clock_slack;
    capability.expires = now + std::min(life, life_max);
    return sign(capability, keys_.front());
}

Task<Result<>> Issuer::rotate(Report& report) {
    co_await turn_.acquire();
    const SemaphoreHold turn(turn_);
    const WallTime now = environment_.reactor.wall_time();
    std::vector<StoredKey> next{{.seed = SigningKey::make_seed(environment_.reactor.secrets())}};
    for (StoredKey each : kept_) {
        if (each.retired == WallTime::max()) each.retired = now;
        if (now - life_max < each.retired) next.push_back(each);
    }
    if (next.size() > keys_max) {
        co_return report.fail(Code::busy,
                              "there were {} keys in the last hour; wait until capabilities of the "
                              "oldest have expired",
                              keys_max);
    }
    co_return co_await keep(std::move(next), report);
}

}  // namespace ros2s::capability
