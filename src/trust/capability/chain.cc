#include "chain.h"

#include <algorithm>

#include "ros2s/base/check.h"

namespace ros2s::capability {
namespace {

// A signature of one kind is no signature of another.
constexpr std::string_view capability_context = "ros2store capability, version 1\n";
constexpr std::string_view proof_context = "ros2store proof of a holder, version 1\n";
constexpr std::string_view request_context = "ros2store wish for a capability, version 1\n";

std::string message_of(std::string_view signed_bytes) {
    return std::string(capability_context) + std::string(signed_bytes);
}

// Empty: nothing.
std::string_view wrong_with(const Capability& link, const Expected& expected) {
    if (link.audience != expected.audience) return "it is for another pool";
    if (expected.now < link.not_before) return "it is not valid yet";
    if (expected.now >= link.expires) return "it has expired";
    if (link.expires - link.not_before > life_max + clock_slack) return "it is valid for too long";
    return {};
}

std::string_view wrong_between(const Capability& parent, const std::string& parent_bytes,
                               const Capability& child) {
    if (child.issuer != parent.holder) return "the holder of the previous one did not sign it";
    if (child.parent != hash_of(parent_bytes)) return "it narrows another capability";
    if (child.tenant != parent.tenant) return "it is for another tenant";
    if (child.generation != parent.generation) return "it is for another generation";
    if (!parent.use.covers(child.use)) return "it has more rights than the previous one";
    if (child.not_before < parent.not_before || child.expires > parent.expires) {
        return "it is valid outside the time of the previous one";
    }
    return {};
}

}  // namespace

std::string sign(const Capability& capability, const SigningKey& key) {
    std::string bytes = encode(capability);
    bytes += key.sign(message_of(bytes));
    return bytes;
}

Result<Capability> verify(const Chain& chain, const Expected& expected, std::string& why) {
    const auto refuse = [&why](std::string_view what) {
        why = what;
        return fail(Code::denied);
    };
    if (chain.empty() || chain.size() > depth_max) return refuse("a chain has one or two links");
    Capability last;
    for (size_t i = 0; i < chain.size(); ++i) {
        const std::string& bytes = chain[i];
        auto link = decode(bytes);
        if (!link || link->depth != i + 1) return refuse("it is not a capability");
        if (const auto wrong = wrong_with(*link, expected); !wrong.empty()) return refuse(wrong);
        if (i == 0) {
            if (std::ranges::find(expected.issuers, link->issuer) == expected.issuers.end()) {
                return refuse("the engine did not issue it, or its key is no longer used");
            }
        } else if (const auto wrong = wrong_between(last, chain[i - 1], *link); !wrong.empty()) {
            return refuse(wrong);
        }
        if (!is_signed_by(link->issuer, message_of(signed_part(bytes)), signature_part(bytes))) {
            return refuse("its signature is wrong");
        }
        last = std::move(*link);
    }
    return last;
}

std::string proof_message(std::string_view nonce, uint64_t session, std::string_view provider,
                          const Chain& chain) {
    ROS2S_CHECK(!chain.empty() && nonce.size() == nonce_bytes);
    std::string message(proof_context);
    message += nonce;
    message.append(reinterpret_cast<const char*>(&session), sizeof session);
    const Hash of_last = hash_of(chain.back());
    message.append(reinterpret_cast<const char*>(of_last.data()), of_last.size());
    message += provider;
    return message;
}

std::string request_message(std::string_view wanted, std::string_view pool) {
    return std::string(request_context) + std::string(pool) + '\n' + std::string(wanted);
}

}  // namespace ros2s::capability
