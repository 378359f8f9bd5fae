#include "ros2s/fabric/hello.h"

#include <algorithm>

#include "ros2s/base/crc32c.h"

namespace ros2s::fabric {

void Hello::set_provider(std::string_view name) noexcept {
    provider = {};
    std::copy_n(name.begin(), std::min(name.size(), provider.size()), provider.begin());
}

std::string_view Hello::provider_name() const noexcept {
    const std::string_view all{provider.data(), provider.size()};
    return all.substr(0, all.find('\0'));
}

void Hello::seal() noexcept { crc = crc32c(object_bytes(*this).first(offsetof(Hello, crc))); }

Result<Hello> Hello::decode(ConstBytes bytes) {
    if (bytes.size() != sizeof(Hello)) return fail(Code::corrupt);
    Hello hello;
    std::memcpy(&hello, bytes.data(), sizeof hello);
    if (hello.magic != magic_value) return fail(Code::corrupt);
    if (hello.crc != crc32c(object_bytes(hello).first(offsetof(Hello, crc)))) {
        return fail(Code::corrupt);
    }
    // Every version keeps the first eight bytes, its length and the CRC at its end.
    if (hello.version != current_version) return fail(Code::bad_version, hello.version);
    const bool printable =
        std::ranges::all_of(hello.provider_name(), [](char c) { return c > ' ' && c <= '~'; });
    if (!printable) return fail(Code::corrupt);
    return hello;
}

Answer answer_to(const Result<Hello>& hello, std::string_view provider) noexcept {
    if (!hello) {
        return hello.error().code == Code::bad_version ? Answer::other_version : Answer::refused;
    }
    return hello->provider_name() == provider ? Answer::welcome : Answer::other_provider;
}

Result<> check_answer(const Result<Hello>& answer, std::string_view address,
                      std::string_view provider, Report& report) {
    const std::string there{address};
    if (!answer) {
        if (answer.error().code == Code::bad_version) {
            return report.fail(Code::unsupported,
                               there + " has version " + std::to_string(answer.error().detail) +
                                   " of the fabric protocol, this program version " +
                                   std::to_string(Hello::current_version) +
                                   ": upgrade the older of the two");
        }
        return report.fail(
            Code::unsupported,
            there + " does not use ros2store's fabric protocol: check the address and port");
    }
    switch (answer->answer) {
        case Answer::welcome: break;
        case Answer::other_provider:
            return report.fail(
                Code::unsupported,
                there + " listens with provider " + std::string(answer->provider_name()) +
                    ", not " + std::string(provider) + ": name provider=" +
                    std::string(answer->provider_name()) + " or another address of that server");
        case Answer::other_version:
            return report.fail(Code::unsupported, there + " does not support version " +
                                                      std::to_string(Hello::current_version) +
                                                      " of the fabric protocol: upgrade it");
        case Answer::busy:
            return report.fail(Code::busy,
                               there + " has too many connections being set up: try again later");
        case Answer::no_memory:
            return report.fail(Code::no_memory,
                               there +
                                   " has no memory left for another connection, or may open no "
                                   "more files: raise its limits, or close others");
        default:
            return report.fail(Code::denied,
                               there + " refused the connection: see its log for the reason");
    }
    if (answer->provider_name() != provider) {
        return report.fail(Code::unsupported, there + " answered with provider " +
                                                  std::string(answer->provider_name()) + ", not " +
                                                  std::string(provider) + ": check the address");
    }
    return {};
}

}  // namespace ros2s::fabric
