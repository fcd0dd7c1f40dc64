"""Names of the standard library that CPython has on Linux but not on macOS, by module."""

from __future__ import annotations

from typing import Final

MISSING: Final[dict[str, str]] = {
    "os": """
        O_DIRECT O_LARGEFILE O_NOATIME O_PATH O_RSYNC O_TMPFILE copy_file_range eventfd eventfd_read eventfd_write fdatasync
        getrandom getresgid getresuid getxattr listxattr memfd_create pidfd_open pipe2 posix_fadvise posix_fallocate removexattr
        sched_getaffinity sched_getscheduler sched_setaffinity sched_setscheduler setns setresgid setresuid setxattr splice
        unshare
    """,
    "select": "EPOLLERR EPOLLHUP EPOLLIN EPOLLOUT epoll",
    "signal": "SIGCLD SIGPOLL SIGPWR SIGRTMAX SIGRTMIN SIGSTKFLT sigtimedwait sigwaitinfo",
    "socket": """
        AF_NETLINK AF_PACKET AF_VSOCK IP_BIND_ADDRESS_NO_PORT MSG_CMSG_CLOEXEC MSG_ERRQUEUE MSG_MORE SOCK_CLOEXEC SOCK_NONBLOCK
        SO_BINDTODEVICE SO_DOMAIN SO_INCOMING_CPU SO_MARK SO_PASSCRED SO_PEERCRED SO_PRIORITY SO_PROTOCOL TCP_CONGESTION TCP_CORK
        TCP_DEFER_ACCEPT TCP_INFO TCP_LINGER2 TCP_QUICKACK TCP_SYNCNT TCP_USER_TIMEOUT TCP_WINDOW_CLAMP
    """,
    "fcntl": "F_ADD_SEALS F_GETPIPE_SZ F_NOTIFY F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW F_SETPIPE_SZ",
    "resource": "RUSAGE_THREAD prlimit",
    "mmap": "MADV_DONTDUMP MADV_DONTFORK MADV_HUGEPAGE MADV_MERGEABLE MADV_REMOVE MAP_POPULATE",
    "time": "CLOCK_BOOTTIME CLOCK_TAI pthread_getcpuclockid",
}
"""Module -> names, separated by spaces."""


def missing_names() -> dict[str, list[str]]:
    """Return module -> names."""
    return {module: text.split() for module, text in MISSING.items()}
