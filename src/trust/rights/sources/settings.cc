#include "settings.h"

#include "granted.h"

namespace ros2s::rights {

void add_settings(Parties& parties, const session::AccessTable& settings) {
    settings.visit_rights([&](const std::string& subject, Right right, const std::string& pool,
                              const session::Granted& granted) {
        parties.subjects[subject].grants.push_back(grant_of(pool, right, granted));
    });
    settings.visit_users(
        [&](const std::string& subject, const std::string& pool, const UserMapping& users) {
            parties.subjects[subject].users.insert_or_assign(pool, users);
        });
}

}  // namespace ros2s::rights
