// SharingRules lists the rules that leases, locks and deferred changes rest on. In programs all
// hold, as constants. `crash_sharing` (tests/crash) links another build of the sources that ask for
// them (sharing_switchable in CMakeLists.txt), in which it switches one off to show that it detects
// this.
#pragma once

namespace ros2s::object {

struct SharingRules {
    // ---- leases
    // A change waits until the leases of others have ended.
    bool await_leases = true;
    // A grant that was under way when its lease was recalled is dropped.
    bool drop_older_grants = true;
    // A lease runs from the sending of the request that extended it, not from the answer.
    bool count_from_sending = true;
    // The holder stops using a lease before the giver counts it as ended.
    bool holder_stops_first = true;
    // A recall is answered when everything that the lease covered has been dropped.
    bool drop_before_answer = true;
    // No lease is granted while a change is between its check and its visibility.
    bool no_grant_amid_change = true;

    // ---- locks
    // Locks end with the session of their holder ...
    bool end_with_session = true;
    // ... with the handle through which they were set ...
    bool end_with_handle = true;
    // ... and with the server of a host.
    bool lose_with_server = true;
    // A store that was just opened grants none before former holders have claimed theirs.
    bool await_claims = true;
    // Only a holder that the store awaits may claim what the store does not know.
    bool refuse_late_claims = true;
    // A lock of an ended session cannot be claimed after others had the range.
    bool forget_overtaken = true;
    // An owner that has lost a lock can read and write no more.
    bool fence_lost = true;
    // What a call without an answer may have locked is unlocked.
    bool restore_unknown = true;

    // ---- deferred changes that a loss of power takes back
    // Requests of others wait until a client has repeated its own.
    bool await_repeats = true;
    // The client's new requests are refused until then.
    bool refuse_unaware = true;
};

#ifdef ROS2S_SWITCHABLE_RULES
inline SharingRules sharing_rules;  // changed only while no file system is mounted
#else
inline constexpr SharingRules sharing_rules;
#endif

}  // namespace ros2s::object
