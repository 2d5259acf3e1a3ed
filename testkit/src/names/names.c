/* Resolves every name below `test` (RFC 6761) to loopback, in a process that is started with this library preloaded.
 *
 * Names of tests stand in no name server, and the hosts file of a machine belongs to its owner. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>

typedef int lookup(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    lookup *next = (lookup *)dlsym(RTLD_NEXT, "getaddrinfo");
    size_t length = node ? strlen(node) : 0;
    if (length > 5 && strcmp(node + length - 5, ".test") == 0)
        node = "127.0.0.1";
    return next(node, service, hints, found);
}
