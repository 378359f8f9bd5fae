/* opened: the containers that this process has open, shared by its jobs.
 *
 * Jobs that are threads use one opened container, each with its own queue. A job that is a process
 * opens its own, and as a pool has one owner process, only one such job can run at a time; the
 * second is told so.
 */
#ifndef ROS2S_FIO_OPENED_H
#define ROS2S_FIO_OPENED_H

#include "ros2store/ros2store.h"

struct opened {
    struct opened* next;
    ros2s_fs* fs;
    char* uri;
    int users;
};

/* NULL on failure, with the sentence in `error`; *result is then a negative errno. */
struct opened* opened_acquire(const char* uri, int* result, char* error, size_t error_bytes);
void opened_release(struct opened* opened);

#endif
