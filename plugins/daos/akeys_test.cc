#include "akeys.h"

#include <gtest/gtest.h>

#include "daos_errno.h"
#include "ros2s/base/random.h"

namespace ros2s::daos {
namespace {

using namespace std::string_literals;

// The bytes of docs/formats/daos.md.
TEST(Akeys, StoredBytesMatchTheFormat) {
    EXPECT_EQ(value_akey("ab").bytes, "ab\1"s);
    EXPECT_EQ(array_akey("ab", 1).bytes, "ab\2"s);
    EXPECT_EQ(array_akey("ab", 0x1234).bytes, "ab\0\0\0\0\0\0\x12\x34\3"s);
}

TEST(Akeys, AkeysRoundTrip) {
    for (const auto& bytes : {""s, "a"s, "\1\2\3"s, "12345678\3"s}) {
        EXPECT_EQ(parse_akey(value_akey(bytes).bytes).bytes, bytes);
        EXPECT_EQ(parse_akey(value_akey(bytes).bytes).type, DAOS_IOD_SINGLE);
        for (const uint64_t size : {uint64_t{1}, uint64_t{2}, UINT64_MAX}) {
            const auto akey = array_akey(bytes, size);
            EXPECT_EQ(parse_akey(akey.bytes).bytes, bytes);
            EXPECT_EQ(parse_akey(akey.bytes).type, DAOS_IOD_ARRAY);
            EXPECT_EQ(parse_akey(akey.bytes).record_bytes, size);
        }
    }
    for (const auto& other : {""s, "a"s, "abc\4"s, "1234567\3"s}) {
        EXPECT_EQ(parse_akey(other).type, DAOS_IOD_NONE) << other;
    }
}

TEST(ContainerSettings, EncodedSettingsMatchTheFormat) {
    const ContainerSettings settings{.layout = 2,
                                     .mode = 4,
                                     .chunk_bytes = 1 << 20,
                                     .object_class = 1,
                                     .directory_class = 2,
                                     .file_class = 3,
                                     .hints = "file:max"};
    const std::string bytes = encode(settings);
    std::string expected =
        "CONT\1\0\0\0\2\0\0\0\4\0\0\0\0\0\x10\0\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\0\0\0\0file:max"s;
    expected.resize(settings_bytes);
    EXPECT_EQ(bytes, expected);
    EXPECT_EQ(decode_settings(bytes), settings);
    EXPECT_EQ(decode_settings(bytes + "x"), std::nullopt);
    for (const size_t at : {0, 4}) {  // magic, version
        std::string wrong = bytes;
        wrong[at] = 0;
        EXPECT_EQ(decode_settings(wrong), std::nullopt) << at;
    }
    std::string newer = bytes;
    newer[36] = 1;  // reserved
    EXPECT_EQ(decode_settings(newer), std::nullopt);
    std::string endless = bytes;
    std::fill(endless.begin() + 40, endless.end(), 'h');
    EXPECT_EQ(decode_settings(endless), std::nullopt);
}

// A caller that got the defaults would overwrite the stored values.
TEST(ContainerSettings, DefaultsApplyOnlyIfNothingIsStored) {
    const ContainerSettings kept{.layout = 2, .mode = 4, .hints = "file:max"};
    const std::string bytes = encode(kept);
    ContainerSettings settings;
    EXPECT_EQ(settings_from(0, bytes, settings), 0);
    EXPECT_EQ(settings, kept);
    EXPECT_EQ(settings_from(-DER_NONEXIST, {}, settings), 0);
    EXPECT_EQ(settings, ContainerSettings());
    for (const int failure : {-DER_TIMEDOUT, -DER_UNREACH, -DER_IO, -DER_CSUM}) {
        EXPECT_EQ(settings_from(failure, {}, settings), failure);
    }
    EXPECT_EQ(settings_from(-DER_REC2BIG, {}, settings), -DER_DF_INVAL);
    for (const auto& other : {""s, "abc"s, bytes.substr(1), "X" + bytes.substr(1)}) {
        EXPECT_EQ(settings_from(0, other, settings), -DER_DF_INVAL) << other;
    }
}

TEST(ContainerSettings, AnyBytesAreDecodedOrRefused) {
    Random random(1);
    for (int i = 0; i < 10000; ++i) {
        std::string bytes = encode(ContainerSettings{.hints = "file:max"});
        bytes[random.next() % 40] = static_cast<char>(random.next());
        const auto decoded = decode_settings(bytes);
        if (decoded) EXPECT_EQ(encode(*decoded), bytes);
    }
}

TEST(ReservedObjects, ReservedIdsCannotBeAllocated) {
    EXPECT_EQ(attributes_id, (object::ObjectId{.high = 0x4441'4f01, .low = 0}));
    EXPECT_EQ(properties_id, (object::ObjectId{.high = 0x4441'4f01, .low = 2}));
    EXPECT_STREQ(settings_name, "container");
    EXPECT_EQ(reserved_high >> OID_FMT_INTR_BITS, 0U);
}

}  // namespace
}  // namespace ros2s::daos
