#include "opened.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A global, because fio's jobs are threads of one program and fio offers no other way to share. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct opened* first;

struct opened* opened_acquire(const char* uri, int* result, char* error, size_t error_bytes) {
    const ros2s_open_options options = {.struct_bytes = sizeof options, .program = "fio"};
    struct opened* found;

    *result = 0;
    pthread_mutex_lock(&lock);
    for (found = first; found != NULL; found = found->next)
        if (strcmp(found->uri, uri) == 0) break;
    if (found == NULL) {
        found = calloc(1, sizeof *found);
        if (found != NULL) found->uri = strdup(uri);
        if (found == NULL || found->uri == NULL) {
            snprintf(error, error_bytes, "out of memory");
            *result = -ENOMEM;
        } else {
            *result = ros2s_open(uri, &options, &found->fs, error, error_bytes);
        }
        if (*result == 0) {
            found->next = first;
            first = found;
        } else {
            if (found != NULL) free(found->uri);
            free(found);
            found = NULL;
        }
    }
    if (found != NULL) found->users++;
    pthread_mutex_unlock(&lock);
    return found;
}

void opened_release(struct opened* opened) {
    pthread_mutex_lock(&lock);
    if (--opened->users == 0) {
        struct opened** at = &first;
        while (*at != opened) at = &(*at)->next;
        *at = opened->next;
        if (ros2s_close(opened->fs) != 0) fprintf(stderr, "ros2s: %s\n", ros2s_last_error());
        free(opened->uri);
        free(opened);
    }
    pthread_mutex_unlock(&lock);
}
