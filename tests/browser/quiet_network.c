/* Keeps a browser from hearing of changes in the machine's network.
 *
 * Clusters of other tests come and go beside it, each with a cable and an address, and a
 * browser that hears of a new address ends what it was just about to load.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>

int socket(int domain, int type, int protocol) {
    static int (*next)(int, int, int);
    if (domain == AF_NETLINK) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "socket");
    return next(domain, type, protocol);
}
