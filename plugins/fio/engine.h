/* What the engine's parts share: its options and the state of one job. */
#ifndef ROS2S_FIO_ENGINE_H
#define ROS2S_FIO_ENGINE_H

#include "config-host.h"
/* config-host.h affects the headers after it. */
#include "fio.h"
#include "opened.h"

struct options {
    void* pad; /* fio takes offset 0 for "no such option" */
    char* uri;
    unsigned int registered;
    unsigned int report;
};

struct job {
    struct opened* opened;
    ros2s_queue* queue;
    ros2s_buffer* buffer; /* the job's I/O memory, registered; NULL: not */
    void* memory;
    size_t memory_bytes;
    unsigned int depth;
    /* Requests that fio has queued and not yet submitted. */
    ros2s_request* waiting;
    unsigned int waiting_count;
    ros2s_completion* completions;
};

/* Set-up in fio's first process, before jobs start (layout.c). */
int ros2s_fio_setup(struct thread_data* td);
int ros2s_fio_lay_out(struct thread_data* td, struct fio_file* file);

/* The job's container, or NULL after a message to the user and an error for fio. */
struct opened* ros2s_fio_acquire(struct thread_data* td);
/* Tells the user what failed, on which file, and makes fio fail the job. Returns 1. */
int ros2s_fio_failed(struct thread_data* td, int result, const char* what, const char* name);

#endif
