// daos_acl_*: lists of access rights, which programs print. Entries are bytes from outside: each
// step checks that it stays inside the list.
#include "access_lists.h"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daos_security.h"
#include "errors.h"

using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

struct Letter {
    char letter;
    uint64_t bit;
};
// In their order in texts.
constexpr Letter access_letters[] = {
    {'A', DAOS_ACL_ACCESS_ALLOW}, {'U', DAOS_ACL_ACCESS_AUDIT}, {'L', DAOS_ACL_ACCESS_ALARM}};
constexpr Letter flag_letters[] = {{'G', DAOS_ACL_FLAG_GROUP},
                                   {'S', DAOS_ACL_FLAG_ACCESS_SUCCESS},
                                   {'F', DAOS_ACL_FLAG_ACCESS_FAIL},
                                   {'P', DAOS_ACL_FLAG_POOL_INHERIT}};
constexpr Letter right_letters[] = {
    {'r', DAOS_ACL_PERM_READ},     {'w', DAOS_ACL_PERM_WRITE},    {'c', DAOS_ACL_PERM_CREATE_CONT},
    {'d', DAOS_ACL_PERM_DEL_CONT}, {'t', DAOS_ACL_PERM_GET_PROP}, {'T', DAOS_ACL_PERM_SET_PROP},
    {'a', DAOS_ACL_PERM_GET_ACL},  {'A', DAOS_ACL_PERM_SET_ACL},  {'o', DAOS_ACL_PERM_SET_OWNER}};

constexpr uint64_t owner_rights = DAOS_ACL_PERM_CONT_ALL;
constexpr uint64_t group_rights =
    DAOS_ACL_PERM_READ | DAOS_ACL_PERM_WRITE | DAOS_ACL_PERM_GET_PROP | DAOS_ACL_PERM_SET_PROP;

std::string write_letters(uint64_t bits, std::span<const Letter> letters) {
    std::string text;
    for (const auto& each : letters) {
        if ((bits & each.bit) != 0) text += each.letter;
    }
    return text;
}

std::string principal_of(const daos_ace& entry) {
    switch (entry.dae_principal_type) {
        case DAOS_ACL_OWNER: return DAOS_ACL_PRINCIPAL_OWNER;
        case DAOS_ACL_OWNER_GROUP: return DAOS_ACL_PRINCIPAL_OWNER_GRP;
        case DAOS_ACL_EVERYONE: return DAOS_ACL_PRINCIPAL_EVERYONE;
        // Up to its zero byte, at most to the entry's end.
        default: {
            const auto* const name = static_cast<const char*>(entry.dae_principal);
            return {name, ::strnlen(name, entry.dae_principal_len)};
        }
    }
}

// ACCESS:FLAGS:PRINCIPAL:RIGHTS. Empty: a text has one set of rights for all kinds of access, and
// the entry has different ones.
std::string write_entry(const daos_ace& entry) {
    const uint64_t rights = entry.dae_allow_perms | entry.dae_audit_perms | entry.dae_alarm_perms;
    const std::pair<unsigned, uint64_t> own[] = {{DAOS_ACL_ACCESS_ALLOW, entry.dae_allow_perms},
                                                 {DAOS_ACL_ACCESS_AUDIT, entry.dae_audit_perms},
                                                 {DAOS_ACL_ACCESS_ALARM, entry.dae_alarm_perms}};
    for (const auto& [access, allowed] : own) {
        if ((entry.dae_access_types & access) != 0 && allowed != rights) return {};
    }
    return write_letters(entry.dae_access_types, access_letters) + ":" +
           write_letters(entry.dae_access_flags, flag_letters) + ":" + principal_of(entry) + ":" +
           write_letters(rights, right_letters);
}

// False: an entry reaches beyond the list, or has different rights.
bool write_entries(const daos_acl& list, std::vector<std::string>& texts) {
    for (size_t at = 0; at < list.dal_len;) {
        const size_t left = list.dal_len - at;
        const auto& entry = *reinterpret_cast<const daos_ace*>(list.dal_ace + at);
        if (left < sizeof entry || left - sizeof entry < entry.dae_principal_len) return false;
        texts.push_back(write_entry(entry));
        if (texts.back().empty() || entry.dae_principal_len % 8 != 0) return false;
        at += sizeof entry + entry.dae_principal_len;
    }
    return true;
}

// An entry of the system's tables of users or groups. `call` is getpwuid_r() or one of its kin.
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
        if (found == nullptr) return -DER_NONEXIST;
        use(*found);
        return 0;
    }
}

// Empty: it is not a principal.
std::string local_name_of(const char* principal) {
    if (!daos_acl_principal_is_valid(principal)) return {};
    return std::string(principal, std::strchr(principal, '@'));
}

char* to_principal(std::string name, uint32_t number) {
    if (name.empty()) name = std::to_string(number);
    return ::strdup((name + "@").c_str());
}

}  // namespace

daos_acl* rights_of_owner() {
    constexpr size_t bytes = 2 * sizeof(daos_ace);
    auto* const list = static_cast<daos_acl*>(std::calloc(1, sizeof(daos_acl) + bytes));
    if (list == nullptr) return nullptr;
    list->dal_ver = DAOS_ACL_VERSION;
    list->dal_len = bytes;
    auto* const entries = reinterpret_cast<daos_ace*>(list->dal_ace);
    entries[0].dae_access_types = DAOS_ACL_ACCESS_ALLOW;
    entries[0].dae_principal_type = DAOS_ACL_OWNER;
    entries[0].dae_allow_perms = owner_rights;
    entries[1].dae_access_types = DAOS_ACL_ACCESS_ALLOW;
    entries[1].dae_principal_type = DAOS_ACL_OWNER_GROUP;
    entries[1].dae_access_flags = DAOS_ACL_FLAG_GROUP;
    entries[1].dae_allow_perms = group_rights;
    return list;
}

int refuse_rights() {
    say_once(
        "who may use a container is set by tenants and certificates, not by lists of access "
        "rights: see docs/control.md");
    return -DER_NOTSUPPORTED;
}

int to_uid(const char* principal, uid_t& uid) {
    const std::string name = local_name_of(principal);
    if (name.empty()) return -DER_INVAL;
    return look_up<passwd>([&](auto... rest) { return ::getpwnam_r(name.c_str(), rest...); },
                           [&](const passwd& user) { uid = user.pw_uid; });
}

int to_gid(const char* principal, gid_t& gid) {
    const std::string name = local_name_of(principal);
    if (name.empty()) return -DER_INVAL;
    return look_up<group>([&](auto... rest) { return ::getgrnam_r(name.c_str(), rest...); },
                          [&](const group& found) { gid = found.gr_gid; });
}

char* user_principal(uid_t uid) {
    std::string name;
    look_up<passwd>([&](auto... rest) { return ::getpwuid_r(uid, rest...); },
                    [&](const passwd& user) { name = user.pw_name; });
    return to_principal(name, uid);
}

char* group_principal(gid_t gid) {
    std::string name;
    look_up<group>([&](auto... rest) { return ::getgrgid_r(gid, rest...); },
                   [&](const group& found) { name = found.gr_name; });
    return to_principal(name, gid);
}

}  // namespace ros2s::daos

void daos_acl_free(daos_acl* acl) { std::free(acl); }

// Programs pass the list that this makes to calls that would drop it, such as the creation of a
// container.
int daos_acl_from_strs(const char**, size_t, daos_acl**) { return refuse_rights(); }

// The caller frees each text and the array.
int daos_acl_to_strs(daos_acl* acl, char*** ace_strs, size_t* ace_nr) {
    std::vector<std::string> texts;
    if (acl == nullptr || ace_strs == nullptr || ace_nr == nullptr) return -DER_INVAL;
    if (acl->dal_ver != DAOS_ACL_VERSION || !write_entries(*acl, texts)) return -DER_INVAL;
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
    static constexpr std::pair<std::string_view, daos_acl_principal_type> special[] = {
        {DAOS_ACL_PRINCIPAL_OWNER, DAOS_ACL_OWNER},
        {DAOS_ACL_PRINCIPAL_OWNER_GRP, DAOS_ACL_OWNER_GROUP},
        {DAOS_ACL_PRINCIPAL_EVERYONE, DAOS_ACL_EVERYONE}};
    if (principal_str == nullptr || type == nullptr || name == nullptr) return -DER_INVAL;
    const std::string_view text = principal_str;
    for (const auto& [word, its_type] : special) {
        if (text != word) continue;
        *type = its_type;
        *name = nullptr;
        return 0;
    }
    if (!text.starts_with("u:") && !text.starts_with("g:")) return -DER_INVAL;
    if (!daos_acl_principal_is_valid(principal_str + 2)) return -DER_INVAL;
    *type = text.front() == 'u' ? DAOS_ACL_USER : DAOS_ACL_GROUP;
    *name = ::strdup(principal_str + 2);
    return *name == nullptr ? -DER_NOMEM : 0;
}
bool daos_acl_principal_is_valid(const char* name) {
    if (name == nullptr) return false;
    const std::string_view text(name, ::strnlen(name, DAOS_ACL_MAX_PRINCIPAL_BUF_LEN));
    if (text.size() > DAOS_ACL_MAX_PRINCIPAL_LEN) return false;
    return !text.starts_with('@') && std::ranges::count(text, '@') == 1;
}
