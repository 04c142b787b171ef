/* Linked into an instrumented program: SIGUSR2 writes the profile, SIGUSR1 sets the counters to 0, and the program
   continues. For the instrumentation of LLVM and of gcc; the runtime's functions are weak, so the same object links with
   either of them and without both.

   It does nothing unless HONE_PROFILE_DUMP is set: programs that a build itself runs do not need it.

   Both signals are blocked before `main`; every thread inherits that, so only the thread started here receives them. The
   name of this thread distinguishes it from the program's threads, and the program from others that only inherited the
   blocked signals. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAYBE __attribute__((weak, visibility("default")))
#define HIDDEN_MAYBE __attribute__((weak, visibility("hidden")))

extern HIDDEN_MAYBE int __llvm_profile_write_file(void);
extern HIDDEN_MAYBE void __llvm_profile_reset_counters(void);
extern HIDDEN_MAYBE void __llvm_profile_set_filename(const char *);
extern HIDDEN_MAYBE int __llvm_profile_is_continuous_mode_enabled(void);
extern MAYBE void __gcov_dump(void);
extern MAYBE void __gcov_reset(void);

static void reset(void) {
    if (__llvm_profile_reset_counters) __llvm_profile_reset_counters();
    if (__gcov_reset) __gcov_reset();
}

static void dump(void) {
    /* In continuous mode the counters are the file. */
    if (__llvm_profile_is_continuous_mode_enabled && __llvm_profile_is_continuous_mode_enabled()) return;
    if (__llvm_profile_write_file && __llvm_profile_write_file() != 0) {
        fputs("profile_dump: the profile was not written\n", stderr);
        return;
    }
    if (__gcov_dump) __gcov_dump();
    /* LLVM's runtime adds to the counts in the file at each write, also under a name without %m, so without a reset they
       would be counted twice; gcc's runtime would write nothing at exit. Counts of other threads between the write and
       the reset are lost. */
    reset();
}

static void wanted(sigset_t *signals) {
    sigemptyset(signals);
    sigaddset(signals, SIGUSR1);
    sigaddset(signals, SIGUSR2);
}

/* Held while a profile is written or reset, and during each fork: a child forked in the middle of a write would inherit
   locks of gcc's runtime that are never released, and a half-written buffer, and write it into its parent's file. */
static pthread_mutex_t at_work = PTHREAD_MUTEX_INITIALIZER;

static void begin_work(void) { pthread_mutex_lock(&at_work); }

static void end_work(void) { pthread_mutex_unlock(&at_work); }

static void *serve(void *unused) {
    sigset_t signals;
    int signal;
    (void)unused;
    wanted(&signals);
    while (sigwait(&signals, &signal) == 0) {
        begin_work();
        if (signal == SIGUSR2) dump();
        else reset();
        end_work();
    }
    return NULL;
}

static void start_thread(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, serve, NULL) != 0)
        fputs("profile_dump: no thread; SIGUSR1 and SIGUSR2 do nothing\n", stderr);
    else
        pthread_setname_np(thread, "hone-signals");
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* LLVM's runtime puts the process id into the name once, at the start, so a child would write into its parent's file. It
   evaluates a name again only when the name differs: one more slash in front leads to the same folder. */
static void rename_for_child(void) {
    const char *name = getenv("LLVM_PROFILE_FILE");
    static char longer[4096];
    size_t length = name ? strlen(name) : 0, slashes;
    if (!__llvm_profile_set_filename || length == 0 || name[0] != '/') return;
    slashes = longer[0] ? strlen(longer) - length + 1 : 1;
    if (slashes + length >= sizeof longer) return;
    memset(longer, '/', slashes);
    memcpy(longer + slashes, name, length + 1);
    __llvm_profile_set_filename(longer);
}

/* A child starts with its parent's counts, which the parent writes itself, and without the parent's threads. */
static void in_child(void) {
    pthread_mutex_init(&at_work, NULL);
    reset();
    rename_for_child();
    start_thread();
}

__attribute__((constructor)) static void hone_profile_dump(void) {
    sigset_t signals;
    if (!getenv("HONE_PROFILE_DUMP")) return;
    wanted(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    start_thread();
    pthread_atfork(begin_work, end_work, in_child);
}
