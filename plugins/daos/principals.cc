#include "principals.h"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "daos_security.h"
#include "errors.h"

namespace ros2s::daos {
namespace {

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

using namespace ros2s::daos;

bool daos_acl_principal_is_valid(const char* name) {
    if (name == nullptr) return false;
    const std::string_view text(name, ::strnlen(name, DAOS_ACL_MAX_PRINCIPAL_BUF_LEN));
    if (text.size() > DAOS_ACL_MAX_PRINCIPAL_LEN) return false;
    return !text.starts_with('@') && std::ranges::count(text, '@') == 1;
}
