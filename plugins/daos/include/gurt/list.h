/* Doubly linked lists, whose links lie in the caller's structures (DAOS 2.6, gurt/list.h). */
#ifndef ROS2STORE_DAOS_GURT_LIST_H
#define ROS2STORE_DAOS_GURT_LIST_H

#ifdef __cplusplus
extern "C" {
#endif

/* A list's head is a link as well; an empty list, and an element outside of lists, is a ring of
 * one. */
struct d_list_head {
    struct d_list_head* next;
    struct d_list_head* prev;
};
typedef struct d_list_head d_list_t;

#define D_INIT_LIST_HEAD(link) \
    do {                       \
        (link)->next = (link); \
        (link)->prev = (link); \
    } while (0)

static inline int d_list_empty(d_list_t* head) { return head->next == head; }

static inline void d_list_add(d_list_t* link, d_list_t* head) {
    link->prev = head;
    link->next = head->next;
    head->next->prev = link;
    head->next = link;
}

static inline void d_list_del(d_list_t* link) {
    link->prev->next = link->next;
    link->next->prev = link->prev;
}
static inline void d_list_del_init(d_list_t* link) {
    d_list_del(link);
    D_INIT_LIST_HEAD(link);
}
static inline void d_list_move(d_list_t* link, d_list_t* head) {
    d_list_del(link);
    d_list_add(link, head);
}

#define d_list_for_each(at, head) for ((at) = (head)->next; (at) != (head); (at) = (at)->next)

#ifdef __cplusplus
}
#endif
#endif
