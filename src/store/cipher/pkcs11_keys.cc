#include "pkcs11_keys.h"

#include <fmt/format.h>
#include <openssl/sha.h>

namespace ros2s::cipher {
namespace {

// The attributes of a secret AES key that lives in a session only.
struct SessionKey {
    CK_OBJECT_CLASS kind = CKO_SECRET_KEY;
    CK_KEY_TYPE type = CKK_AES;
    CK_BBOOL yes = CK_TRUE;
    CK_BBOOL no = CK_FALSE;
    std::array<CK_ATTRIBUTE, 6> attributes{{{CKA_CLASS, &kind, sizeof kind},
                                            {CKA_KEY_TYPE, &type, sizeof type},
                                            {CKA_TOKEN, &no, sizeof no},
                                            {CKA_SENSITIVE, &no, sizeof no},
                                            {CKA_EXTRACTABLE, &yes, sizeof yes},
                                            {CKA_VALUE, nullptr, 0}}};
};
// C_UnwrapKey takes the attributes without the value, which it makes.
constexpr CK_ULONG attributes_without_value = 5;
// Of one module. C_GetSlotList fails if there are more.
constexpr size_t slots_max = 256;

std::string shown(CK_RV result) { return p11_kit_strerror(result); }

bool means_another_key(CK_RV result) {
    return result == CKR_WRAPPED_KEY_INVALID || result == CKR_ENCRYPTED_DATA_INVALID ||
           result == CKR_WRAPPED_KEY_LEN_RANGE || result == CKR_GENERAL_ERROR ||
           result == CKR_FUNCTION_FAILED;
}

std::array<std::byte, 32> digest_of(std::string_view text) {
    std::array<std::byte, 32> digest{};
    SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
           reinterpret_cast<unsigned char*>(digest.data()));
    return digest;
}

}  // namespace

// A session with a token. `wrapping` is the requested key. Objects that are made in the session end
// with it.
class Pkcs11Keys::Session {
  public:
    Session& operator=(Session&&) = delete;
    ~Session() {
        if (is_open) (void)token->C_CloseSession(handle);
    }

    CK_FUNCTION_LIST* token = nullptr;
    CK_SLOT_ID slot = 0;
    bool wants_login = false;
    bool is_open = false;
    CK_SESSION_HANDLE handle = 0;
    CK_OBJECT_HANDLE wrapping = 0;
};

Pkcs11Keys::Pkcs11Keys(std::string uri) : shown_(std::move(uri)), uri_(p11_kit_uri_new()) {}

Pkcs11Keys::~Pkcs11Keys() {
    if (one_module_[0] != nullptr) {
        (void)p11_kit_module_finalize(one_module_[0]);
        p11_kit_module_release(one_module_[0]);
    } else if (modules_ != nullptr) {
        p11_kit_modules_finalize_and_release(modules_);
    }
    p11_kit_uri_free(uri_);
}

Result<std::unique_ptr<KeyProvider>> Pkcs11Keys::open(std::string uri, Report& report) {
    std::unique_ptr<Pkcs11Keys> keys(new Pkcs11Keys(std::move(uri)));
    ROS2S_TRY(keys->parse(report));
    ROS2S_TRY(keys->load(report));
    return keys;
}

Result<> Pkcs11Keys::parse(Report& report) {
    const int parsed = p11_kit_uri_parse(shown_.c_str(), P11_KIT_URI_FOR_ANY, uri_);
    std::string trouble;
    if (parsed != P11_KIT_URI_OK) {
        trouble = p11_kit_uri_message(parsed);
    } else if (p11_kit_uri_any_unrecognized(uri_) != 0) {
        trouble = "it has an attribute that is not known";
    } else if (p11_kit_uri_get_pin_value(uri_) != nullptr) {
        // An error must not repeat it.
        return report.fail(Code::invalid,
                           "the pkcs11: URI of the keys has a pin-value, which others could read: "
                           "write the PIN into a file of mode 0600, and name it with pin-source");
    } else if (p11_kit_uri_get_attribute(uri_, CKA_LABEL) != nullptr ||
               p11_kit_uri_get_attribute(uri_, CKA_ID) != nullptr) {
        trouble = "it names a key: name the token only, the container names the key";
    }
    if (!trouble.empty()) {
        return report.fail(Code::invalid,
                           "'{}' does not name a token: {}. An example: "
                           "pkcs11:token=acme?pin-source=/etc/ros2store/pin",
                           shown_, trouble);
    }
    if (const char* source = p11_kit_uri_get_pin_source(uri_)) pin_source_ = source;
    if (pin_source_.starts_with("file:")) pin_source_.erase(0, std::string_view("file:").size());
    return {};
}

Result<> Pkcs11Keys::load(Report& report) {
    const char* const path = p11_kit_uri_get_module_path(uri_);
    if (path == nullptr) {
        modules_ = p11_kit_modules_load_and_initialize(0);
        if (modules_ != nullptr) return {};
        return reject_key(
            report, fmt::format("the modules of PKCS #11 that p11-kit lists cannot be loaded: {}",
                                p11_kit_message()));
    }
    CK_FUNCTION_LIST* const module = p11_kit_module_load(path, 0);
    if (module == nullptr) {
        return reject_key(report, fmt::format("the module {} of PKCS #11 cannot be loaded: {}",
                                              path, p11_kit_message()));
    }
    if (const CK_RV begun = p11_kit_module_initialize(module); begun != CKR_OK) {
        p11_kit_module_release(module);
        return reject_key(report, fmt::format("the module {} of PKCS #11 does not start: {}", path,
                                              shown(begun)));
    }
    one_module_[0] = module;
    modules_ = static_cast<CK_FUNCTION_LIST**>(one_module_);
    return {};
}

Result<> Pkcs11Keys::find_token(Session& session, Report& report) const {
    size_t found = 0;
    for (CK_FUNCTION_LIST** module = modules_; *module != nullptr; ++module) {
        std::array<CK_SLOT_ID, slots_max> slots{};
        CK_ULONG count = slots.size();
        if ((*module)->C_GetSlotList(CK_TRUE, slots.data(), &count) != CKR_OK) continue;
        for (const CK_SLOT_ID slot : std::span(slots).first(count)) {
            CK_TOKEN_INFO token;
            if ((*module)->C_GetTokenInfo(slot, &token) != CKR_OK) continue;
            if (p11_kit_uri_match_token_info(uri_, &token) != 1) continue;
            ++found;
            session.token = *module;
            session.slot = slot;
            session.wants_login = (token.flags & CKF_LOGIN_REQUIRED) != 0;
        }
    }
    if (found == 1) return {};
    return reject_key(
        report, found == 0 ? fmt::format("no token matches {}: connect it, or start its "
                                         "service (`p11-kit list-modules` shows what is there)",
                                         shown_)
                           : fmt::format("{} fits {} tokens: add a serial", shown_, found));
}

Result<> Pkcs11Keys::start(Session& session, const std::string& name, Report& report) const {
    ROS2S_TRY(check_key_name(name, report));
    ROS2S_TRY(find_token(session, report));
    const CK_RV opened = session.token->C_OpenSession(session.slot, CKF_SERIAL_SESSION, nullptr,
                                                      nullptr, &session.handle);
    if (opened != CKR_OK) {
        return reject_key(
            report, fmt::format("the token of {} opens no session: {}", shown_, shown(opened)));
    }
    session.is_open = true;
    if (session.wants_login) ROS2S_TRY(log_in(session, report));

    return find_key(session, name, report);
}

Result<> Pkcs11Keys::find_key(Session& session, const std::string& name, Report& report) const {
    CK_OBJECT_CLASS kind = CKO_SECRET_KEY;
    CK_KEY_TYPE type = CKK_AES;
    std::string label = name;
    std::array<CK_ATTRIBUTE, 3> wanted{{{CKA_CLASS, &kind, sizeof kind},
                                        {CKA_KEY_TYPE, &type, sizeof type},
                                        {CKA_LABEL, label.data(), label.size()}}};
    std::array<CK_OBJECT_HANDLE, 2> keys{};
    CK_ULONG count = 0;
    CK_RV done = session.token->C_FindObjectsInit(session.handle, wanted.data(), wanted.size());
    if (done == CKR_OK) {
        done = session.token->C_FindObjects(session.handle, keys.data(), keys.size(), &count);
        (void)session.token->C_FindObjectsFinal(session.handle);
    }
    CK_ULONG bytes = 0;
    CK_ATTRIBUTE length{CKA_VALUE_LEN, &bytes, sizeof bytes};
    if (done == CKR_OK && count == 1) {
        done = session.token->C_GetAttributeValue(session.handle, keys[0], &length, 1);
    }
    std::string trouble;
    if (done != CKR_OK) {
        trouble = fmt::format("cannot be found: {}", shown(done));
    } else if (count != 1) {
        trouble = count == 0 ? "is missing" : "exists more than once";
    } else if (bytes != key_bytes) {
        trouble = fmt::format("has {} bits, not {}", bytes * 8, key_bytes * 8);
    } else {
        session.wrapping = keys[0];
        return {};
    }
    return reject_key(report,
                      fmt::format("the AES key '{}' of the token {} {}", name, shown_, trouble));
}

Result<> Pkcs11Keys::log_in(const Session& session, Report& report) const {
    if (pin_source_.empty()) {
        return reject_key(report, fmt::format("the token of {} needs a PIN: write it into a file "
                                              "of mode 0600, and add ?pin-source=FILE",
                                              shown_));
    }
    PrivateText file;
    ROS2S_TRY(read_private_file(pin_source_, file, report));
    std::string_view pin = file.text();
    const auto digest = digest_of(pin);
    const CK_RV done =
        digest == refused_pin_
            ? CKR_PIN_INCORRECT
            : session.token->C_Login(session.handle, CKU_USER,
                                     // C_Login does not change it.
                                     reinterpret_cast<CK_UTF8CHAR*>(const_cast<char*>(pin.data())),
                                     pin.size());
    if (done == CKR_OK || done == CKR_USER_ALREADY_LOGGED_IN) return {};
    if (done == CKR_PIN_INCORRECT) refused_pin_ = digest;
    return reject_key(report, fmt::format("the token of {} refuses the PIN in {}: {}", shown_,
                                          pin_source_, shown(done)));
}

Result<WrappedKey> Pkcs11Keys::wrap(const std::string& name, const SecretKey& key,
                                    Report& report) const {
    Session session;
    ROS2S_TRY(start(session, name, report));
    SecretKey copy = key;
    SessionKey form;
    form.attributes.back() = {CKA_VALUE, copy.bytes().data(), copy.bytes().size()};
    CK_OBJECT_HANDLE object = 0;
    CK_RV done = session.token->C_CreateObject(session.handle, form.attributes.data(),
                                               form.attributes.size(), &object);
    CK_MECHANISM mechanism{CKM_AES_KEY_WRAP, nullptr, 0};
    WrappedKey wrapped{};
    CK_ULONG size = wrapped.size();
    if (done == CKR_OK) {
        done = session.token->C_WrapKey(session.handle, &mechanism, session.wrapping, object,
                                        reinterpret_cast<CK_BYTE*>(wrapped.data()), &size);
    }
    if (done == CKR_OK && size == wrapped.size()) return wrapped;
    return reject_key(
        report,
        fmt::format("the key '{}' of {} cannot wrap: {}. It must have CKA_WRAP and CKA_UNWRAP",
                    name, shown_, shown(done)));
}

Result<SecretKey> Pkcs11Keys::unwrap(const std::string& name, const WrappedKey& wrapped,
                                     Report& report) const {
    Session session;
    ROS2S_TRY(start(session, name, report));
    WrappedKey copy = wrapped;
    SessionKey form;
    CK_MECHANISM mechanism{CKM_AES_KEY_WRAP, nullptr, 0};
    CK_OBJECT_HANDLE object = 0;
    CK_RV done = session.token->C_UnwrapKey(
        session.handle, &mechanism, session.wrapping, reinterpret_cast<CK_BYTE*>(copy.data()),
        copy.size(), form.attributes.data(), attributes_without_value, &object);
    if (done != CKR_OK) {
        return reject_key(
            report,
            means_another_key(done)
                ? fmt::format("'{}' of {} is not the key with which the container's key "
                              "was wrapped ({}): put that key back",
                              name, shown_, shown(done))
                : fmt::format("the key '{}' of {} cannot unwrap: {}", name, shown_, shown(done)));
    }
    SecretKey key;
    CK_ATTRIBUTE value{CKA_VALUE, key.bytes().data(), key.bytes().size()};
    done = session.token->C_GetAttributeValue(session.handle, object, &value, 1);
    if (done == CKR_OK && value.ulValueLen == key.bytes().size()) return key;
    return reject_key(report, fmt::format("the token of {} does not give an unwrapped key: {}",
                                          shown_, shown(done)));
}

}  // namespace ros2s::cipher
