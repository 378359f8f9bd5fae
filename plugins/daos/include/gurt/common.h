/* Memory, hashes and environment variables of DAOS's helper library (DAOS 2.6, gurt/common.h), and
 * the data that its macros for logging and fault injection use (gurt/dlog.h, gurt/fault_inject.h).
 * No faults are injected. Errors that a program logs are on standard error; other messages are not
 * written. */
#ifndef ROS2STORE_DAOS_GURT_COMMON_H
#define ROS2STORE_DAOS_GURT_COMMON_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "list.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef container_of
#define container_of(member_pointer, type, member) \
    ((type*)((char*)(member_pointer) - offsetof(type, member)))
#endif
#ifndef ARRAY_SIZE
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#endif

/* ---- memory */
void d_free(void* ptr);
void* d_calloc(size_t nmemb, size_t size);
void* d_realloc(void* ptr, size_t size);
char* d_strndup(const char* s, size_t n);
char* d_asprintf2(int* rc, const char* fmt, ...) __attribute__((format(printf, 2, 3)));

#define D_ALLOC(ptr, size) ((ptr) = (__typeof__(ptr))d_calloc(1, (size)))
#define D_ALLOC_ARRAY(ptr, count) ((ptr) = (__typeof__(ptr))d_calloc((count), sizeof(*(ptr))))
#define D_STRNDUP(ptr, s, n) ((ptr) = d_strndup((s), (n)))
#define D_FREE(ptr)   \
    do {              \
        d_free(ptr);  \
        (ptr) = NULL; \
    } while (0)

/* ---- a hash */
uint32_t d_hash_string_u32(const char* string, unsigned int len);

/* ---- the environment: a variable that is not set, or has an invalid value, leaves the caller's
 * variable unchanged. Errors: -DER_NONEXIST, -DER_INVAL. */
int d_getenv_bool(const char* name, bool* bool_val);
/* ---- ranks */
void d_rank_list_free(d_rank_list_t* rank_list);

/* ---- times of DAOS, in 1/16 ns since the beginning of 2021 (UTC) */
uint64_t d_hlc2unixnsec(uint64_t hlc);
uint64_t d_unixnsec2hlc(uint64_t unixnsec);

/* ---- logging and fault injection, as the macros of DAOS's headers use them */
struct dlog_fac {
    char* fac_aname;
    char* fac_lname;
    int fac_mask;
    bool is_enabled;
};
struct d_log_xstate {
    char* tag;
    struct dlog_fac* dlog_facs;
    char* nodename;
    int fac_cnt;
};
struct d_fault_attr_t;
extern struct d_log_xstate d_log_xst;
/* The bits of messages that are dropped. */
extern uint64_t DB_TRACE, DB_MEM;
extern unsigned int d_fault_inject;
extern struct d_fault_attr_t* d_fault_attr_mem;
extern void (*d_alt_assert)(int result, const char* expression, const char* file, int line);
void d_log_sync(void);
void d_vlog(int flags, const char* fmt, va_list ap);
bool d_should_fail(struct d_fault_attr_t* fault_attr);

#ifdef __cplusplus
}
#endif
#endif
