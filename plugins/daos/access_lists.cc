// daos_acl_*: lists of access rights, which programs read from texts and print. Entries of an
// unknown program are bytes from outside: each step checks that it stays inside the list.
#include "access_lists.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ros2s::daos {
namespace {

struct Letter {
    char letter;
    uint64_t bit;
};
// In their order in texts.
constexpr auto access_letters =
    std::to_array<Letter>({{.letter = 'A', .bit = DAOS_ACL_ACCESS_ALLOW},
                           {.letter = 'U', .bit = DAOS_ACL_ACCESS_AUDIT},
                           {.letter = 'L', .bit = DAOS_ACL_ACCESS_ALARM}});
constexpr auto flag_letters =
    std::to_array<Letter>({{.letter = 'G', .bit = DAOS_ACL_FLAG_GROUP},
                           {.letter = 'S', .bit = DAOS_ACL_FLAG_ACCESS_SUCCESS},
                           {.letter = 'F', .bit = DAOS_ACL_FLAG_ACCESS_FAIL},
                           {.letter = 'P', .bit = DAOS_ACL_FLAG_POOL_INHERIT}});
constexpr auto right_letters =
    std::to_array<Letter>({{.letter = 'r', .bit = DAOS_ACL_PERM_READ},
                           {.letter = 'w', .bit = DAOS_ACL_PERM_WRITE},
                           {.letter = 'c', .bit = DAOS_ACL_PERM_CREATE_CONT},
                           {.letter = 'd', .bit = DAOS_ACL_PERM_DEL_CONT},
                           {.letter = 't', .bit = DAOS_ACL_PERM_GET_PROP},
                           {.letter = 'T', .bit = DAOS_ACL_PERM_SET_PROP},
                           {.letter = 'a', .bit = DAOS_ACL_PERM_GET_ACL},
                           {.letter = 'A', .bit = DAOS_ACL_PERM_SET_ACL},
                           {.letter = 'o', .bit = DAOS_ACL_PERM_SET_OWNER}});

bool has_name(unsigned type) { return type == DAOS_ACL_USER || type == DAOS_ACL_GROUP; }
bool is_group(unsigned type) { return type == DAOS_ACL_GROUP || type == DAOS_ACL_OWNER_GROUP; }

size_t bytes_of(const daos_ace& entry) { return sizeof(daos_ace) + entry.dae_principal_len; }

// The name of the entry: up to its zero byte, at most to the entry's end.
std::string_view name_of(const daos_ace& entry) {
    const auto* const name = static_cast<const char*>(entry.dae_principal);
    return {name, ::strnlen(name, entry.dae_principal_len)};
}

std::string principal_of(const daos_ace& entry) {
    switch (entry.dae_principal_type) {
        case DAOS_ACL_OWNER: return DAOS_ACL_PRINCIPAL_OWNER;
        case DAOS_ACL_OWNER_GROUP: return DAOS_ACL_PRINCIPAL_OWNER_GRP;
        case DAOS_ACL_EVERYONE: return DAOS_ACL_PRINCIPAL_EVERYONE;
        default: return std::string(name_of(entry));
    }
}

unsigned type_of(std::string_view principal, uint64_t flags) {
    if (principal == DAOS_ACL_PRINCIPAL_OWNER) return DAOS_ACL_OWNER;
    if (principal == DAOS_ACL_PRINCIPAL_OWNER_GRP) return DAOS_ACL_OWNER_GROUP;
    if (principal == DAOS_ACL_PRINCIPAL_EVERYONE) return DAOS_ACL_EVERYONE;
    return (flags & DAOS_ACL_FLAG_GROUP) != 0 ? DAOS_ACL_GROUP : DAOS_ACL_USER;
}

using Entries = std::vector<const daos_ace*>;

// The entries that lie whole in the list, up to the first that does not.
Entries entries_of(const daos_acl& list) {
    Entries entries;
    for (size_t at = 0; list.dal_len - at >= sizeof(daos_ace);) {
        const auto* const entry = reinterpret_cast<const daos_ace*>(list.dal_ace + at);
        if (bytes_of(*entry) > list.dal_len - at) break;
        entries.push_back(entry);
        at += bytes_of(*entry);
    }
    return entries;
}

std::array<std::pair<unsigned, uint64_t>, 3> rights_of(const daos_ace& entry) {
    return {{{DAOS_ACL_ACCESS_ALLOW, entry.dae_allow_perms},
             {DAOS_ACL_ACCESS_AUDIT, entry.dae_audit_perms},
             {DAOS_ACL_ACCESS_ALARM, entry.dae_alarm_perms}}};
}

bool is_valid(const daos_ace& entry) {
    if (entry.dae_access_types == 0) return false;
    if ((entry.dae_access_types & ~DAOS_ACL_ACCESS_ALL) != 0) return false;
    if ((entry.dae_access_flags & ~DAOS_ACL_FLAG_ALL) != 0) return false;
    const unsigned type = entry.dae_principal_type;
    if (type >= NUM_DAOS_ACL_TYPES) return false;
    if (has_name(type) != (entry.dae_principal_len != 0)) return false;
    if (is_group(type) != ((entry.dae_access_flags & DAOS_ACL_FLAG_GROUP) != 0)) return false;
    if (entry.dae_principal_len % 8 != 0) return false;
    if (entry.dae_principal_len > 0 && name_of(entry).size() == entry.dae_principal_len) {
        return false;
    }
    if (has_name(type) && !daos_acl_principal_is_valid(principal_of(entry).c_str())) return false;
    for (const auto& [access, rights] : rights_of(entry)) {
        if ((rights & ~uint64_t{DAOS_ACL_PERM_ALL}) != 0) return false;
        if ((entry.dae_access_types & access) == 0 && rights != 0) return false;
    }
    constexpr unsigned alerts = DAOS_ACL_ACCESS_AUDIT | DAOS_ACL_ACCESS_ALARM;
    constexpr unsigned when = DAOS_ACL_FLAG_ACCESS_FAIL | DAOS_ACL_FLAG_ACCESS_SUCCESS;
    return ((entry.dae_access_types & alerts) != 0) == ((entry.dae_access_flags & when) != 0);
}

// ---- texts: ACCESS:FLAGS:PRINCIPAL:RIGHTS

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

// An entry as bytes. The type is made from the principal and the flags.
int read_entry(const char* text, std::string& out) {
    if (text == nullptr) return -DER_INVAL;
    if (::strnlen(text, DAOS_ACL_MAX_ACE_STR_LEN + 1) > DAOS_ACL_MAX_ACE_STR_LEN) return -DER_INVAL;
    std::vector<std::string> parts{""};
    for (const char* at = text; *at != '\0'; ++at) {
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
    const std::string& principal = parts[2];
    const unsigned type = type_of(principal, flags);
    const size_t name_bytes = has_name(type) ? (principal.size() + 1 + 7) / 8 * 8 : 0;
    out.assign(sizeof(daos_ace) + name_bytes, '\0');
    auto& entry = *reinterpret_cast<daos_ace*>(out.data());
    entry.dae_principal_type = static_cast<uint8_t>(type);
    entry.dae_principal_len = static_cast<uint16_t>(name_bytes);
    entry.dae_access_types = static_cast<uint8_t>(access);
    entry.dae_access_flags = static_cast<uint16_t>(flags);
    if ((access & DAOS_ACL_ACCESS_ALLOW) != 0) entry.dae_allow_perms = rights;
    if ((access & DAOS_ACL_ACCESS_AUDIT) != 0) entry.dae_audit_perms = rights;
    if ((access & DAOS_ACL_ACCESS_ALARM) != 0) entry.dae_alarm_perms = rights;
    if (name_bytes > 0) principal.copy(static_cast<char*>(entry.dae_principal), principal.size());
    return is_valid(entry) ? 0 : -DER_INVAL;
}

// Empty: a text has one set of rights for all kinds of access, and the entry has different ones.
std::string write_entry(const daos_ace& entry) {
    const uint64_t rights = entry.dae_allow_perms | entry.dae_audit_perms | entry.dae_alarm_perms;
    for (const auto& [access, own] : rights_of(entry)) {
        if ((entry.dae_access_types & access) != 0 && own != rights) return {};
    }
    return write_letters(entry.dae_access_types, access_letters) + ":" +
           write_letters(entry.dae_access_flags, flag_letters) + ":" + principal_of(entry) + ":" +
           write_letters(rights, right_letters);
}

}  // namespace

int validate(const daos_acl* list) {
    if (list == nullptr || list->dal_ver != DAOS_ACL_VERSION) return -DER_INVAL;
    if (list->dal_len % 8 != 0 || list->dal_len > DAOS_ACL_MAX_ACE_LEN) return -DER_INVAL;
    const auto entries = entries_of(*list);
    size_t bytes = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
        const auto& entry = *entries[i];
        if (!is_valid(entry)) return -DER_INVAL;
        bytes += bytes_of(entry);
        if (i > 0 && entry.dae_principal_type < entries[i - 1]->dae_principal_type) {
            return -DER_INVAL;
        }
        const auto is_same = [&](const daos_ace* other) {
            return other->dae_principal_type == entry.dae_principal_type &&
                   name_of(*other) == name_of(entry);
        };
        if (std::any_of(entries.begin(), entries.begin() + static_cast<ptrdiff_t>(i), is_same)) {
            return -DER_INVAL;
        }
    }
    return bytes == list->dal_len ? 0 : -DER_INVAL;
}

}  // namespace ros2s::daos

using namespace ros2s::daos;

void daos_acl_free(daos_acl* acl) { std::free(acl); }

int daos_acl_from_strs(const char** ace_strs, size_t ace_nr, daos_acl** acl) {
    if (ace_strs == nullptr || ace_nr == 0 || ace_nr > UINT16_MAX || acl == nullptr) {
        return -DER_INVAL;
    }
    std::multimap<uint8_t, std::string> by_type;
    for (size_t i = 0; i < ace_nr; ++i) {
        std::string entry;
        if (const int rc = read_entry(ace_strs[i], entry); rc != 0) return rc;
        const auto type = reinterpret_cast<const daos_ace*>(entry.data())->dae_principal_type;
        by_type.emplace(type, std::move(entry));
    }
    std::string bytes;
    for (const auto& [type, entry] : by_type) bytes += entry;
    auto* const made = static_cast<daos_acl*>(std::calloc(1, sizeof(daos_acl) + bytes.size()));
    if (made == nullptr) return -DER_NOMEM;
    made->dal_ver = DAOS_ACL_VERSION;
    made->dal_len = static_cast<uint32_t>(bytes.size());
    std::memcpy(made->dal_ace, bytes.data(), bytes.size());
    if (const int rc = validate(made); rc != 0) {
        std::free(made);
        return rc;
    }
    *acl = made;
    return 0;
}

// The caller frees each text and the array.
int daos_acl_to_strs(daos_acl* acl, char*** ace_strs, size_t* ace_nr) {
    if (ace_strs == nullptr || ace_nr == nullptr) return -DER_INVAL;
    if (const int rc = validate(acl); rc != 0) return rc;
    std::vector<std::string> texts;
    for (const auto* const entry : entries_of(*acl)) {
        texts.push_back(write_entry(*entry));
        if (texts.back().empty()) return -DER_INVAL;
    }
    auto** const made = static_cast<char**>(std::calloc(texts.size() + 1, sizeof(char*)));
    if (made == nullptr) return -DER_NOMEM;
    for (size_t i = 0; i < texts.size(); ++i) {
        made[i] = ::strdup(texts[i].c_str());
        if (made[i] != nullptr) continue;
        for (size_t each = 0; each < i; ++each) std::free(made[each]);
        std::free(static_cast<void*>(made));
        return -DER_NOMEM;
    }
    *ace_strs = made;
    *ace_nr = texts.size();
    return 0;
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
