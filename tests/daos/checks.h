/* For programs that test the DAOS interface: a failed check ends the program and says where. */
#ifndef ROS2STORE_TESTS_DAOS_CHECKS_H
#define ROS2STORE_TESTS_DAOS_CHECKS_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK_EQUAL(got, expected)                                                           \
    do {                                                                                     \
        const long long got_ = (long long)(got);                                             \
        const long long expected_ = (long long)(expected);                                   \
        if (got_ != expected_) {                                                             \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, got_, \
                    expected_);                                                              \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)
#define CHECK(condition) CHECK_EQUAL(!!(condition), 1)

#endif
