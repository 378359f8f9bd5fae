// daos_acl_*: lists of access rights, which programs build, compare and print. Entries of an
// unknown program are bytes from outside: each step checks that it stays inside the list.
#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "daos_security.h"
#include "errors.h"

namespace ros2s::daos {
namespace {

struct Letter {
    char letter;
    uint64_t bit;
    const char* name;
};
// In their order in texts.
constexpr auto access_letters =
    std::to_array<Letter>({{.letter = 'A', .bit = DAOS_ACL_ACCESS_ALLOW, .name = "Allow"},
                           {.letter = 'U', .bit = DAOS_ACL_ACCESS_AUDIT, .name = "Audit"},
                           {.letter = 'L', .bit = DAOS_ACL_ACCESS_ALARM, .name = "Alarm"}});
constexpr auto flag_letters = std::to_array<Letter>(
    {{.letter = 'G', .bit = DAOS_ACL_FLAG_GROUP, .name = "Group"},
     {.letter = 'S', .bit = DAOS_ACL_FLAG_ACCESS_SUCCESS, .name = "Access Success"},
     {.letter = 'F', .bit = DAOS_ACL_FLAG_ACCESS_FAIL, .name = "Access Failure"},
     {.letter = 'P', .bit = DAOS_ACL_FLAG_POOL_INHERIT, .name = "Pool Inherit"}});
constexpr auto right_letters = std::to_array<Letter>(
    {{.letter = 'r', .bit = DAOS_ACL_PERM_READ, .name = "Read"},
     {.letter = 'w', .bit = DAOS_ACL_PERM_WRITE, .name = "Write"},
     {.letter = 'c', .bit = DAOS_ACL_PERM_CREATE_CONT, .name = "Create Container"},
     {.letter = 'd', .bit = DAOS_ACL_PERM_DEL_CONT, .name = "Delete Container"},
     {.letter = 't', .bit = DAOS_ACL_PERM_GET_PROP, .name = "Get Prop"},
     {.letter = 'T', .bit = DAOS_ACL_PERM_SET_PROP, .name = "Set Prop"},
     {.letter = 'a', .bit = DAOS_ACL_PERM_GET_ACL, .name = "Get ACL"},
     {.letter = 'A', .bit = DAOS_ACL_PERM_SET_ACL, .name = "Set ACL"},
     {.letter = 'o', .bit = DAOS_ACL_PERM_SET_OWNER, .name = "Set Owner"}});

bool is_type(unsigned type) { return type < NUM_DAOS_ACL_TYPES; }
bool has_name(unsigned type) { return type == DAOS_ACL_USER || type == DAOS_ACL_GROUP; }
bool is_group(unsigned type) { return type == DAOS_ACL_GROUP || type == DAOS_ACL_OWNER_GROUP; }
bool is_named(const char* name) { return name != nullptr && *name != '\0'; }

size_t bytes_of(const daos_ace& entry) { return sizeof(daos_ace) + entry.dae_principal_len; }

// The name of the entry: up to its zero byte, at most to the entry's end.
std::string_view name_of(const daos_ace& entry) {
    return {static_cast<const char*>(entry.dae_principal),
            ::strnlen(static_cast<const char*>(entry.dae_principal), entry.dae_principal_len)};
}

bool is_of(const daos_ace& entry, unsigned type, const char* name) {
    if (entry.dae_principal_type != type) return false;
    return !has_name(type) || name_of(entry) == (name == nullptr ? "" : name);
}

using Entries = std::vector<daos_ace*>;
Entries entries_of(daos_acl* list) {
    Entries entries;
    for (auto* each = daos_acl_get_next_ace(list, nullptr); each != nullptr;
         each = daos_acl_get_next_ace(list, each)) {
        entries.push_back(each);
    }
    return entries;
}

// A new list of these entries, in this order.
daos_acl* list_of(std::span<daos_ace* const> entries) {
    size_t bytes = 0;
    for (const auto* each : entries) bytes += bytes_of(*each);
    auto* const list = static_cast<daos_acl*>(std::calloc(1, sizeof(daos_acl) + bytes));
    if (list == nullptr) return nullptr;
    list->dal_ver = DAOS_ACL_VERSION;
    list->dal_len = static_cast<uint32_t>(bytes);
    uint8_t* at = list->dal_ace;
    for (const auto* each : entries) {
        std::memcpy(at, each, bytes_of(*each));
        at += bytes_of(*each);
    }
    return list;
}

int replace(daos_acl*& list, std::span<daos_ace* const> entries) {
    auto* const made = list_of(entries);
    if (made == nullptr) return -DER_NOMEM;
    daos_acl_free(std::exchange(list, made));
    return 0;
}

// False: an unknown letter.
bool read_letters(std::string_view text, std::span<const Letter> letters, uint64_t& bits) {
    for (const char letter : text) {
        const auto found = std::ranges::find(letters, letter, &Letter::letter);
        if (found == letters.end()) return false;
        bits |= found->bit;
    }
    return true;
}

std::string write_letters(uint64_t bits, std::span<const Letter> letters) {
    std::string text;
    for (const auto& each : letters) {
        if ((bits & each.bit) != 0) text += each.letter;
    }
    return text;
}

std::array<std::pair<unsigned, uint64_t>, 3> rights_of(const daos_ace& entry) {
    return {{{DAOS_ACL_ACCESS_ALLOW, entry.dae_allow_perms},
             {DAOS_ACL_ACCESS_AUDIT, entry.dae_audit_perms},
             {DAOS_ACL_ACCESS_ALARM, entry.dae_alarm_perms}}};
}

// A text has one set of rights for all kinds of access. False: the entry has different ones.
bool common_rights(const daos_ace& entry, uint64_t& rights) {
    rights = entry.dae_allow_perms | entry.dae_audit_perms | entry.dae_alarm_perms;
    return std::ranges::all_of(rights_of(entry), [&](const auto& each) {
        return (entry.dae_access_types & each.first) == 0 || each.second == rights;
    });
}

unsigned type_of(std::string_view principal, uint64_t flags) {
    if (principal == DAOS_ACL_PRINCIPAL_OWNER) return DAOS_ACL_OWNER;
    if (principal == DAOS_ACL_PRINCIPAL_OWNER_GRP) return DAOS_ACL_OWNER_GROUP;
    if (principal == DAOS_ACL_PRINCIPAL_EVERYONE) return DAOS_ACL_EVERYONE;
    return (flags & DAOS_ACL_FLAG_GROUP) != 0 ? DAOS_ACL_GROUP : DAOS_ACL_USER;
}

void print(uint32_t tabs, std::string_view text) {
    std::printf("%s%.*s\n", std::string(tabs, '\t').c_str(), static_cast<int>(text.size()),
                text.data());
}

void print_bits(uint32_t tabs, const char* title, uint64_t bits, std::span<const Letter> letters) {
    print(tabs, title);
    if (bits == 0) print(tabs + 1, "None");
    for (const auto& each : letters) {
        if ((bits & each.bit) != 0) print(tabs + 1, each.name);
    }
}

// The name of a user or group of this machine, without its '@'.
template <class Entry>
int look_up(auto&& call, auto&& use) {
    std::vector<char> buffer(1024);
    for (;;) {
        Entry entry{};
        Entry* found = nullptr;
        const int rc = call(&entry, buffer.data(), buffer.size(), &found);
        if (rc == ERANGE && buffer.size() < size_t{1} << 20) {
            buffer.resize(buffer.size() * 2);
            continue;
        }
        if (rc != 0) return der_of_errno(rc);
        return found == nullptr ? -DER_NONEXIST : use(*found);
    }
}

int to_principal(const char* local_name, char** name) {
    return ::asprintf(name, "%s@", local_name) < 0 ? -DER_NOMEM : 0;
}

// Empty: it is not a principal.
std::string local_name_of(const char* principal) {
    if (!daos_acl_principal_is_valid(principal)) return {};
    return std::string(principal, std::strchr(principal, '@'));
}

}  // namespace
}  // namespace ros2s::daos

using namespace ros2s::daos;

// ---- entries

daos_ace* daos_ace_create(daos_acl_principal_type type, const char* principal_name) {
    size_t bytes = 0;
    if (!is_type(type)) return nullptr;
    if (has_name(type)) {
        if (!is_named(principal_name)) return nullptr;
        const size_t length = std::strlen(principal_name);
        if (length > DAOS_ACL_MAX_PRINCIPAL_LEN) return nullptr;
        bytes = (length + 1 + 7) / 8 * 8;
    }
    auto* const entry = static_cast<daos_ace*>(std::calloc(1, sizeof(daos_ace) + bytes));
    if (entry == nullptr) return nullptr;
    entry->dae_principal_type = static_cast<uint8_t>(type);
    entry->dae_principal_len = static_cast<uint16_t>(bytes);
    if (bytes > 0) std::strcpy(static_cast<char*>(entry->dae_principal), principal_name);
    if (is_group(type)) entry->dae_access_flags = DAOS_ACL_FLAG_GROUP;
    return entry;
}

void daos_ace_free(daos_ace* ace) { std::free(ace); }

ssize_t daos_ace_get_size(daos_ace* ace) {
    return ace == nullptr ? -DER_INVAL : static_cast<ssize_t>(bytes_of(*ace));
}

const char* daos_ace_get_principal_str(daos_ace* ace) {
    switch (ace->dae_principal_type) {
        case DAOS_ACL_OWNER: return DAOS_ACL_PRINCIPAL_OWNER;
        case DAOS_ACL_OWNER_GROUP: return DAOS_ACL_PRINCIPAL_OWNER_GRP;
        case DAOS_ACL_EVERYONE: return DAOS_ACL_PRINCIPAL_EVERYONE;
        default: return static_cast<const char*>(ace->dae_principal);
    }
}

bool daos_ace_is_valid(daos_ace* ace) {
    if (ace == nullptr || ace->dae_access_types == 0) return false;
    if ((ace->dae_access_types & ~DAOS_ACL_ACCESS_ALL) != 0) return false;
    if ((ace->dae_access_flags & ~DAOS_ACL_FLAG_ALL) != 0) return false;
    const unsigned type = ace->dae_principal_type;
    if (!is_type(type)) return false;
    if (has_name(type) != (ace->dae_principal_len != 0)) return false;
    if (is_group(type) != ((ace->dae_access_flags & DAOS_ACL_FLAG_GROUP) != 0)) return false;
    if (ace->dae_principal_len % 8 != 0) return false;
    if (ace->dae_principal_len > 0 && name_of(*ace).size() == ace->dae_principal_len) return false;
    if (has_name(type) &&
        !daos_acl_principal_is_valid(static_cast<const char*>(ace->dae_principal))) {
        return false;
    }
    for (const auto& [access, rights] : rights_of(*ace)) {
        if ((rights & ~uint64_t{DAOS_ACL_PERM_ALL}) != 0) return false;
        if ((ace->dae_access_types & access) == 0 && rights != 0) return false;
    }
    constexpr unsigned alerts = DAOS_ACL_ACCESS_AUDIT | DAOS_ACL_ACCESS_ALARM;
    constexpr unsigned when = DAOS_ACL_FLAG_ACCESS_FAIL | DAOS_ACL_FLAG_ACCESS_SUCCESS;
    return ((ace->dae_access_types & alerts) != 0) == ((ace->dae_access_flags & when) != 0);
}

void daos_ace_dump(daos_ace* ace, uint32_t tabs) {
    print(tabs, "Access Control Entry:");
    if (ace == nullptr) return print(tabs + 1, "NULL");
    // A name may fill its field, without a zero at its end.
    const std::string principal = has_name(ace->dae_principal_type)
                                      ? std::string(name_of(*ace))
                                      : daos_ace_get_principal_str(ace);
    print(tabs + 1, "Principal: " + principal);
    print_bits(tabs + 1, "Access Types:", ace->dae_access_types, access_letters);
    print_bits(tabs + 1, "Flags:", ace->dae_access_flags, flag_letters);
    print_bits(tabs + 1, "Allow Permissions:", ace->dae_allow_perms, right_letters);
    print_bits(tabs + 1, "Audit Permissions:", ace->dae_audit_perms, right_letters);
    print_bits(tabs + 1, "Alarm Permissions:", ace->dae_alarm_perms, right_letters);
}

// ---- lists

daos_acl* daos_acl_create(daos_ace* aces[], uint16_t num_aces) {
    std::multimap<uint8_t, daos_ace*> by_type;
    for (uint16_t i = 0; i < num_aces; ++i) {
        if (aces == nullptr || aces[i] == nullptr) return nullptr;
        by_type.emplace(aces[i]->dae_principal_type, aces[i]);
    }
    Entries entries;
    for (const auto& [type, entry] : by_type) entries.push_back(entry);
    return list_of(entries);
}

daos_acl* daos_acl_dup(daos_acl* acl) {
    if (acl == nullptr) return nullptr;
    auto* const copy = std::malloc(sizeof(daos_acl) + acl->dal_len);
    if (copy != nullptr) std::memcpy(copy, acl, sizeof(daos_acl) + acl->dal_len);
    return static_cast<daos_acl*>(copy);
}

void daos_acl_free(daos_acl* acl) { std::free(acl); }

ssize_t daos_acl_get_size(daos_acl* acl) {
    return acl == nullptr ? -DER_INVAL : static_cast<ssize_t>(sizeof(daos_acl) + acl->dal_len);
}

daos_ace* daos_acl_get_next_ace(daos_acl* acl, daos_ace* current_ace) {
    if (acl == nullptr) return nullptr;
    size_t at = 0;
    if (current_ace != nullptr) {
        const auto* const current = reinterpret_cast<const uint8_t*>(current_ace);
        if (current < acl->dal_ace || current >= acl->dal_ace + acl->dal_len) return nullptr;
        at = static_cast<size_t>(current - acl->dal_ace) + bytes_of(*current_ace);
    }
    if (at > acl->dal_len || acl->dal_len - at < sizeof(daos_ace)) return nullptr;
    auto* const next = reinterpret_cast<daos_ace*>(acl->dal_ace + at);
    return bytes_of(*next) > acl->dal_len - at ? nullptr : next;
}

int daos_acl_get_ace_for_principal(daos_acl* acl, daos_acl_principal_type type,
                                   const char* principal, daos_ace** ace) {
    if (acl == nullptr || ace == nullptr || !is_type(type)) return -DER_INVAL;
    if (has_name(type) && principal == nullptr) return -DER_INVAL;
    for (auto* const each : entries_of(acl)) {
        if (!is_of(*each, type, principal)) continue;
        *ace = each;
        return 0;
    }
    return -DER_NONEXIST;
}

int daos_acl_add_ace(daos_acl** acl, daos_ace* new_ace) {
    if (acl == nullptr || *acl == nullptr || new_ace == nullptr) return -DER_INVAL;
    const unsigned type = new_ace->dae_principal_type;
    const std::string name(name_of(*new_ace));
    auto entries = entries_of(*acl);
    const auto same = std::ranges::find_if(
        entries, [&](const daos_ace* each) { return is_of(*each, type, name.c_str()); });
    if (same != entries.end()) {
        *same = new_ace;
    } else {
        const auto later = std::ranges::upper_bound(entries, new_ace->dae_principal_type, {},
                                                    &daos_ace::dae_principal_type);
        entries.insert(later, new_ace);
    }
    return replace(*acl, entries);
}

int daos_acl_remove_ace(daos_acl** acl, daos_acl_principal_type type, const char* principal_name) {
    if (acl == nullptr || *acl == nullptr || !is_type(type)) return -DER_INVAL;
    if (has_name(type) && !is_named(principal_name)) return -DER_INVAL;
    auto entries = entries_of(*acl);
    if (std::erase_if(entries, [&](const daos_ace* each) {
            return is_of(*each, type, principal_name);
        }) == 0) {
        return -DER_NONEXIST;
    }
    return replace(*acl, entries);
}

int daos_acl_validate(daos_acl* acl) {
    if (acl == nullptr || acl->dal_ver != DAOS_ACL_VERSION) return -DER_INVAL;
    if (acl->dal_len % 8 != 0 || acl->dal_len > DAOS_ACL_MAX_ACE_LEN) return -DER_INVAL;
    const auto entries = entries_of(acl);
    size_t bytes = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
        if (!daos_ace_is_valid(entries[i])) return -DER_INVAL;
        bytes += bytes_of(*entries[i]);
        if (i > 0 && entries[i]->dae_principal_type < entries[i - 1]->dae_principal_type) {
            return -DER_INVAL;
        }
        const std::string name(name_of(*entries[i]));
        for (size_t other = 0; other < i; ++other) {
            if (is_of(*entries[other], entries[i]->dae_principal_type, name.c_str())) {
                return -DER_INVAL;
            }
        }
    }
    return bytes == acl->dal_len ? 0 : -DER_INVAL;
}

void daos_acl_dump(daos_acl* acl) {
    print(0, "Access Control List:");
    if (acl == nullptr) return print(1, "NULL");
    print(1, "Version: " + std::to_string(acl->dal_ver));
    print(1, "Length: " + std::to_string(acl->dal_len));
    for (auto* const each : entries_of(acl)) daos_ace_dump(each, 1);
}

// ---- texts

int daos_ace_from_str(const char* str, daos_ace** ace) {
    if (str == nullptr || ace == nullptr) return -DER_INVAL;
    if (::strnlen(str, DAOS_ACL_MAX_ACE_STR_LEN + 1) > DAOS_ACL_MAX_ACE_STR_LEN) return -DER_INVAL;
    std::vector<std::string> parts{""};
    for (const char* at = str; *at != '\0'; ++at) {
        if (*at == ':') {
            parts.emplace_back();
        } else {
            parts.back() += *at;
        }
    }
    uint64_t access = 0;
    uint64_t flags = 0;
    uint64_t rights = 0;
    if (parts.size() != 4 || !read_letters(parts[0], access_letters, access) ||
        !read_letters(parts[1], flag_letters, flags) ||
        !daos_acl_principal_is_valid(parts[2].c_str()) ||
        !read_letters(parts[3], right_letters, rights)) {
        return -DER_INVAL;
    }
    const auto type = static_cast<daos_acl_principal_type>(type_of(parts[2], flags));
    auto* const made = daos_ace_create(type, parts[2].c_str());
    if (made == nullptr) return -DER_NOMEM;
    made->dae_access_types = static_cast<uint8_t>(access);
    made->dae_access_flags = static_cast<uint16_t>(flags);
    if ((access & DAOS_ACL_ACCESS_ALLOW) != 0) made->dae_allow_perms = rights;
    if ((access & DAOS_ACL_ACCESS_AUDIT) != 0) made->dae_audit_perms = rights;
    if ((access & DAOS_ACL_ACCESS_ALARM) != 0) made->dae_alarm_perms = rights;
    if (!daos_ace_is_valid(made)) {
        daos_ace_free(made);
        return -DER_INVAL;
    }
    *ace = made;
    return 0;
}

int daos_ace_to_str(daos_ace* ace, char* buf, size_t buf_len) {
    uint64_t rights = 0;
    if (buf == nullptr || buf_len == 0 || !daos_ace_is_valid(ace)) return -DER_INVAL;
    if (!common_rights(*ace, rights)) return -DER_INVAL;
    const std::string text = write_letters(ace->dae_access_types, access_letters) + ":" +
                             write_letters(ace->dae_access_flags, flag_letters) + ":" +
                             daos_ace_get_principal_str(ace) + ":" +
                             write_letters(rights, right_letters);
    std::memset(buf, 0, buf_len);
    text.copy(buf, buf_len - 1);
    return text.size() < buf_len ? 0 : -DER_TRUNC;
}

int daos_acl_from_strs(const char** ace_strs, size_t ace_nr, daos_acl** acl) {
    if (ace_strs == nullptr || ace_nr == 0 || ace_nr > UINT16_MAX || acl == nullptr) {
        return -DER_INVAL;
    }
    Entries entries;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < ace_nr; ++i) {
        daos_ace* entry = nullptr;
        rc = daos_ace_from_str(ace_strs[i], &entry);
        if (rc == 0) entries.push_back(entry);
    }
    if (rc == 0) {
        auto* const made = daos_acl_create(entries.data(), static_cast<uint16_t>(entries.size()));
        rc = made == nullptr ? -DER_NOMEM : daos_acl_validate(made);
        if (rc == 0) {
            *acl = made;
        } else {
            daos_acl_free(made);
        }
    }
    for (auto* const each : entries) daos_ace_free(each);
    return rc;
}

// The caller frees each text and the array.
int daos_acl_to_strs(daos_acl* acl, char*** ace_strs, size_t* ace_nr) {
    if (ace_strs == nullptr || ace_nr == nullptr) return -DER_INVAL;
    if (const int rc = daos_acl_validate(acl); rc != 0) return rc;
    const auto entries = entries_of(acl);
    char** const texts =
        entries.empty() ? nullptr : static_cast<char**>(std::calloc(entries.size(), sizeof(char*)));
    if (!entries.empty() && texts == nullptr) return -DER_NOMEM;
    for (size_t i = 0; i < entries.size(); ++i) {
        std::array<char, DAOS_ACL_MAX_ACE_STR_LEN + 1> text{};
        int rc = daos_ace_to_str(entries[i], text.data(), text.size());
        if (rc == 0) {
            texts[i] = ::strdup(text.data());
            if (texts[i] == nullptr) rc = -DER_NOMEM;
        }
        if (rc != 0) {
            for (size_t made = 0; made < i; ++made) std::free(texts[made]);
            std::free(static_cast<void*>(texts));
            return rc;
        }
    }
    *ace_strs = texts;
    *ace_nr = entries.size();
    return 0;
}

// ---- principals

// Parses NAME@ or NAME@DOMAIN.
bool daos_acl_principal_is_valid(const char* name) {
    if (name == nullptr) return false;
    const std::string_view text(name, ::strnlen(name, DAOS_ACL_MAX_PRINCIPAL_BUF_LEN));
    if (text.size() > DAOS_ACL_MAX_PRINCIPAL_LEN) return false;
    return !text.starts_with('@') && std::ranges::count(text, '@') == 1;
}

int daos_acl_uid_to_principal(uid_t uid, char** name) {
    if (name == nullptr) return -DER_INVAL;
    return look_up<passwd>([&](auto... rest) { return ::getpwuid_r(uid, rest...); },
                           [&](const passwd& user) { return to_principal(user.pw_name, name); });
}

int daos_acl_gid_to_principal(gid_t gid, char** name) {
    if (name == nullptr) return -DER_INVAL;
    return look_up<group>([&](auto... rest) { return ::getgrgid_r(gid, rest...); },
                          [&](const group& found) { return to_principal(found.gr_name, name); });
}

int daos_acl_principal_to_uid(const char* principal, uid_t* uid) {
    const std::string name = local_name_of(principal);
    if (uid == nullptr || name.empty()) return -DER_INVAL;
    return look_up<passwd>([&](auto... rest) { return ::getpwnam_r(name.c_str(), rest...); },
                           [&](const passwd& user) {
                               *uid = user.pw_uid;
                               return 0;
                           });
}

int daos_acl_principal_to_gid(const char* principal, gid_t* gid) {
    const std::string name = local_name_of(principal);
    if (gid == nullptr || name.empty()) return -DER_INVAL;
    return look_up<group>([&](auto... rest) { return ::getgrnam_r(name.c_str(), rest...); },
                          [&](const group& found) {
                              *gid = found.gr_gid;
                              return 0;
                          });
}

// Parses u:NAME@, g:NAME@, or one of the three special principals.
int daos_acl_principal_from_str(const char* principal_str, daos_acl_principal_type* type,
                                char** name) {
    if (principal_str == nullptr || type == nullptr || name == nullptr) return -DER_INVAL;
    const std::string_view text = principal_str;
    const bool is_user = text.starts_with("u:");
    if (!is_user && !text.starts_with("g:")) {
        const auto found = static_cast<daos_acl_principal_type>(type_of(text, 0));
        if (found == DAOS_ACL_USER) return -DER_INVAL;
        *type = found;
        *name = nullptr;
        return 0;
    }
    if (!daos_acl_principal_is_valid(principal_str + 2)) return -DER_INVAL;
    *type = is_user ? DAOS_ACL_USER : DAOS_ACL_GROUP;
    *name = ::strdup(principal_str + 2);
    return *name == nullptr ? -DER_NOMEM : 0;
}
