/* Turns a signal that would kill the process into a call of `exit`, so that the profile writers of clang, gcc and BOLT
   run; they run at exit. Loaded before the program with LD_PRELOAD.

   Only for signals with the default action: a program that handles or ignores the signal is not changed, and a handler
   that the program installs later replaces this one. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static const int ends[] = {SIGTERM, SIGINT, SIGHUP};
static sem_t asked;
static volatile sig_atomic_t asked_by;
static volatile sig_atomic_t has_waiter;

/* `exit` takes locks that the interrupted thread may hold, so a separate thread calls it. */
static void *wait_and_exit(void *unused) {
    (void)unused;
    while (sem_wait(&asked) != 0 && errno == EINTR) {}
    exit(128 + asked_by);
}

static void ask(int signal) {
    int before = errno;
    if (!asked_by) {
        asked_by = signal;
        if (has_waiter) sem_post(&asked);
        else exit(128 + signal);
    }
    errno = before;
}

static void start_waiter(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    has_waiter = pthread_create(&thread, &attributes, wait_and_exit, NULL) == 0;
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A signal to a new child waits until the child's handler is ready. */
static __thread sigset_t before_fork;

static void hold_signals(void) {
    unsigned i;
    sigset_t held;
    sigemptyset(&held);
    for (i = 0; i < sizeof ends / sizeof *ends; i++) sigaddset(&held, ends[i]);
    pthread_sigmask(SIG_BLOCK, &held, &before_fork);
}

static void let_signals(void) { pthread_sigmask(SIG_SETMASK, &before_fork, NULL); }

/* A forked child has no thread of its parent, and a request to the parent is not one to the child. */
static void in_child(void) {
    sem_init(&asked, 0, 0);
    asked_by = 0;
    start_waiter();
    let_signals();
}

__attribute__((constructor)) static void hone_orderly_exit(void) {
    unsigned i, taken = 0;
    for (i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct sigaction action;
        if (sigaction(ends[i], NULL, &action) != 0 || (action.sa_flags & SA_SIGINFO) ||
            action.sa_handler != SIG_DFL) continue;
        action.sa_handler = ask;
        action.sa_flags = SA_RESTART;
        sigfillset(&action.sa_mask);
        taken += sigaction(ends[i], &action, NULL) == 0;
    }
    if (taken == 0) return;
    sem_init(&asked, 0, 0);
    start_waiter();
    pthread_atfork(hold_signals, let_signals, in_child);
}
