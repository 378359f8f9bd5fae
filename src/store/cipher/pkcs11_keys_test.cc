// Keys in a token of SoftHSM, which has a directory of its own for each test.
#include "pkcs11_keys.h"

#include <errno.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "test_support/cipher.h"

namespace ros2s::cipher {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* pin = "correct-horse";

class Pkcs11KeysTest : public testing::Test {
  public:
    Pkcs11KeysTest() {
        std::filesystem::create_directory(directory_ + "/tokens");
        std::ofstream(directory_ + "/softhsm2.conf")
            << fmt::format("directories.tokendir = {}/tokens\nlog.level = ERROR\n", directory_);
        setenv("SOFTHSM2_CONF", (directory_ + "/softhsm2.conf").c_str(), 1);
        run(fmt::format("softhsm2-util --init-token --free --label acme --so-pin 87654321 --pin {}",
                        pin));
        write_pin(pin);
    }
    ~Pkcs11KeysTest() override {
        unsetenv("SOFTHSM2_CONF");
        std::filesystem::remove_all(directory_);
    }

    static void run(const std::string& command) {
        EXPECT_EQ(std::system((command + " > /dev/null").c_str()), 0) << command;
    }
    [[nodiscard]] std::string path(const std::string& name) const {
        return directory_ + "/" + name;
    }
    void write_pin(const std::string& text) {
        std::ofstream(path("pin")) << text << "\n";
        EXPECT_EQ(chmod(path("pin").c_str(), 0600), 0);
    }
    // A key whose bytes count from `first`.
    static void add_key(std::string label, uint8_t first, size_t bytes = key_bytes) {
        CK_FUNCTION_LIST* const token = p11_kit_module_load(module, 0);
        ASSERT_NE(token, nullptr) << p11_kit_message();
        ASSERT_EQ(p11_kit_module_initialize(token), CKR_OK);
        std::array<CK_SLOT_ID, 2> slots{};
        CK_ULONG count = slots.size();
        ASSERT_EQ(token->C_GetSlotList(CK_TRUE, slots.data(), &count), CKR_OK);
        CK_SESSION_HANDLE session = 0;
        ASSERT_EQ(token->C_OpenSession(slots[0], CKF_SERIAL_SESSION | CKF_RW_SESSION, nullptr,
                                       nullptr, &session),
                  CKR_OK);
        std::string secret = pin;
        ASSERT_EQ(token->C_Login(session, CKU_USER, reinterpret_cast<CK_UTF8CHAR*>(secret.data()),
                                 secret.size()),
                  CKR_OK);
        CK_OBJECT_CLASS kind = CKO_SECRET_KEY;
        CK_KEY_TYPE type = CKK_AES;
        CK_BBOOL yes = CK_TRUE;
        SecretKey key = counting_key(first);
        std::array<CK_ATTRIBUTE, 7> form{{{CKA_CLASS, &kind, sizeof kind},
                                          {CKA_KEY_TYPE, &type, sizeof type},
                                          {CKA_TOKEN, &yes, sizeof yes},
                                          {CKA_WRAP, &yes, sizeof yes},
                                          {CKA_UNWRAP, &yes, sizeof yes},
                                          {CKA_LABEL, label.data(), label.size()},
                                          {CKA_VALUE, key.bytes().data(), bytes}}};
        CK_OBJECT_HANDLE made = 0;
        EXPECT_EQ(token->C_CreateObject(session, form.data(), form.size(), &made), CKR_OK);
        (void)token->C_CloseSession(session);
        (void)p11_kit_module_finalize(token);
        p11_kit_module_release(token);
    }
    [[nodiscard]] std::string uri() const {
        return fmt::format("pkcs11:token=acme?pin-source={}&module-path={}", path("pin"), module);
    }
    [[nodiscard]] std::unique_ptr<KeyProvider> open(const std::string& uri) {
        Report report;
        auto keys = open_keys(uri, report);
        EXPECT_TRUE(keys.has_value()) << report.text();
        return keys ? std::move(*keys) : nullptr;
    }
    static void expect_rejected(const KeyProvider& keys, const std::string& name,
                                const testing::Matcher<const std::string&>& says) {
        Report report;
        const auto wrapped = keys.wrap(name, counting_key(0), report);
        ASSERT_FALSE(wrapped.has_value());
        EXPECT_EQ(to_errno(wrapped.error()), EKEYREJECTED);
        EXPECT_THAT(report.text(), says);
    }

    static constexpr const char* module = "/usr/lib/softhsm/libsofthsm2.so";
    const std::string directory_ = [] {
        std::string path = testing::TempDir() + "token.XXXXXX";
        EXPECT_NE(mkdtemp(path.data()), nullptr);
        return path;
    }();
};

TEST_F(Pkcs11KeysTest, TokenWrapsLikeAKeyFile) {
    add_key("acme", 1);
    add_key("other", 2);
    // p11-kit's configuration has SoftHSM's module, too.
    for (const std::string& place :
         {uri(), fmt::format("pkcs11:token=acme?pin-source=file:{}", path("pin"))}) {
        const auto keys = open(place);
        ASSERT_NE(keys, nullptr);
        Report report;
        const auto wrapped = keys->wrap("acme", counting_key(9), report);
        ASSERT_TRUE(wrapped.has_value()) << report.text();
        EXPECT_EQ(*wrapped, wrap(counting_key(1), counting_key(9)));
        const auto key = keys->unwrap("acme", *wrapped, report);
        ASSERT_TRUE(key.has_value()) << report.text();
        EXPECT_TRUE(std::ranges::equal(key->bytes(), counting_key(9).bytes()));
        EXPECT_EQ(to_errno(keys->unwrap("other", *wrapped, report).error()), EKEYREJECTED);
        EXPECT_THAT(report.text(), HasSubstr("is not the key with which"));
    }
}

TEST_F(Pkcs11KeysTest, UnusableKeyIsExplained) {
    add_key("short", 1, 16);
    add_key("twice", 1);
    add_key("twice", 2);
    const auto keys = open(uri());
    ASSERT_NE(keys, nullptr);
    expect_rejected(*keys, "none", AllOf(HasSubstr("'none'"), HasSubstr("is missing")));
    expect_rejected(*keys, "short", HasSubstr("has 128 bits, not 256"));
    expect_rejected(*keys, "twice", HasSubstr("exists more than once"));
    Report report;
    EXPECT_EQ(keys->wrap("../x", counting_key(0), report).error().code, Code::invalid);
    add_key("long", 3);
    EXPECT_TRUE(keys->wrap("long", counting_key(0), report).has_value()) << report.text();
}

TEST_F(Pkcs11KeysTest, WrongPinIsTriedOnce) {
    add_key("acme", 1);
    const auto keys = open(uri());
    write_pin("wrong-horse");
    for (int i = 0; i < 20; ++i) {
        expect_rejected(*keys, "acme",
                        AllOf(HasSubstr("refuses the PIN"), HasSubstr(path("pin")),
                              testing::Not(HasSubstr("horse"))));
    }
    EXPECT_EQ(chmod(path("pin").c_str(), 0644), 0);
    expect_rejected(*keys, "acme", HasSubstr("chmod 600"));
    std::filesystem::remove(path("pin"));
    expect_rejected(*keys, "acme", HasSubstr("cannot read"));
    write_pin(pin);
    Report report;
    EXPECT_TRUE(keys->wrap("acme", counting_key(0), report).has_value()) << report.text();
    const auto without = open(fmt::format("pkcs11:token=acme?module-path={}", module));
    expect_rejected(*without, "acme", HasSubstr("needs a PIN"));
}

TEST_F(Pkcs11KeysTest, AbsentTokenIsReportedAtUse) {
    const auto keys =
        open(fmt::format("pkcs11:token=later?pin-source={}&module-path={}", path("pin"), module));
    ASSERT_NE(keys, nullptr);
    expect_rejected(*keys, "acme", HasSubstr("no token matches"));
}

TEST_F(Pkcs11KeysTest, InvalidUriIsRefused) {
    const auto refused = [](const std::string& place, int code, const std::string& says) {
        Report report;
        const auto keys = open_keys(place, report);
        ASSERT_FALSE(keys.has_value()) << place;
        EXPECT_EQ(to_errno(keys.error()), code) << place;
        EXPECT_THAT(report.text(), HasSubstr(says)) << place;
    };
    refused("pkcs11:token=%zz", EINVAL, "does not name a token");
    refused("pkcs11:nonsense=acme", EINVAL, "not known");
    refused("pkcs11:token=acme;object=key", EINVAL, "name the token only");
    refused("pkcs11:token=acme?module-path=/nowhere.so", EKEYREJECTED, "/nowhere.so");
    Report report;
    EXPECT_FALSE(open_keys("pkcs11:token=acme?pin-value=9876", report).has_value());
    EXPECT_THAT(report.text(), AllOf(HasSubstr("pin-source"), testing::Not(HasSubstr("9876"))));
}

}  // namespace
}  // namespace ros2s::cipher
