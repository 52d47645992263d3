/* A program whose clocks are skewed by the tests. It compares what the C library says with what the kernel says.

   Each line on stdin is answered by one line of JSON on stdout.
     reader ask        the skew of each clock in ns
     reader hammer A B four threads and a timer signal read both clocks without end; how many readings there were since
                       the last question, and how many showed neither true time nor a skew of A or B ns
     reader waits      two threads wait for 50 ms again and again, by an absolute deadline of the wall and of the
                       monotonic clock; how often each returned since the last question, and how long that was
     reader cost       ns per call of clock_gettime, the least of 40 rounds of 20000, for both clocks */

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define S 1000000000LL

static long long ns(struct timespec t) { return t.tv_sec * S + t.tv_nsec; }

static long long true_ns(clockid_t clock) {
    struct timespec t;
    syscall(SYS_clock_gettime, clock, &t);
    return ns(t);
}

static long long shown_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return ns(t);
}

static void ask(void) {
    struct timeval v;
    gettimeofday(&v, NULL);
    long long of_day = v.tv_sec * S + v.tv_usec * 1000LL - true_ns(CLOCK_REALTIME);
    printf("{\"realtime\":%lld,\"coarse\":%lld,\"tai\":%lld,\"gettimeofday\":%lld,\"time\":%lld,\"monotonic\":%lld,"
           "\"monotonic_coarse\":%lld,\"monotonic_raw\":%lld,\"boottime\":%lld,\"cpu\":%lld}\n",
           shown_ns(CLOCK_REALTIME) - true_ns(CLOCK_REALTIME),
           shown_ns(CLOCK_REALTIME_COARSE) - true_ns(CLOCK_REALTIME_COARSE), shown_ns(CLOCK_TAI) - true_ns(CLOCK_TAI),
           of_day, (long long)time(NULL) * S - true_ns(CLOCK_REALTIME_COARSE) / S * S,
           shown_ns(CLOCK_MONOTONIC) - true_ns(CLOCK_MONOTONIC),
           shown_ns(CLOCK_MONOTONIC_COARSE) - true_ns(CLOCK_MONOTONIC_COARSE),
           shown_ns(CLOCK_MONOTONIC_RAW) - true_ns(CLOCK_MONOTONIC_RAW),
           shown_ns(CLOCK_BOOTTIME) - true_ns(CLOCK_BOOTTIME),
           shown_ns(CLOCK_PROCESS_CPUTIME_ID) - true_ns(CLOCK_PROCESS_CPUTIME_ID));
}

static atomic_llong readings, wrong;
static long long legal[3];

static void read_once(clockid_t clock) {
    long long before = true_ns(clock), shown = shown_ns(clock), after = true_ns(clock);
    int fits = 0;
    for (int i = 0; i < 3; i++)
        fits |= shown - legal[i] >= before - 1000 && shown - legal[i] <= after + 1000;
    readings++;
    if (!fits)
        wrong++;
}

static void on_alarm(int number) {
    (void)number;
    read_once(CLOCK_REALTIME);
}

static void *hammer(void *unused) {
    for (;;) {
        read_once(CLOCK_REALTIME);
        read_once(CLOCK_MONOTONIC);
    }
    return unused;
}

static atomic_llong returned[2];

static void *wait_again(void *which) {
    clockid_t clock = which ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    pthread_condattr_t attributes;
    pthread_cond_t condition;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, clock);
    pthread_cond_init(&condition, &attributes);
    pthread_mutex_lock(&mutex);
    for (;;) {
        long long until = shown_ns(clock) + 50000000LL;
        struct timespec deadline = {until / S, until % S};
        pthread_cond_timedwait(&condition, &mutex, &deadline);
        returned[which != NULL]++;
    }
    return NULL;
}

static double cost(clockid_t clock) {
    double least = 1e9;
    for (int round = 0; round < 40; round++) {
        long long began = true_ns(CLOCK_MONOTONIC);
        for (int i = 0; i < 20000; i++)
            shown_ns(clock);
        double took = (true_ns(CLOCK_MONOTONIC) - began) / 20000.0;
        least = took < least ? took : least;
    }
    return least;
}

int main(int count, char **words) {
    char line[64];
    pthread_t thread;
    const char *mode = count > 1 ? words[1] : "ask";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(mode, "hammer")) {
        legal[1] = atoll(words[2]);
        legal[2] = atoll(words[3]);
        struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
        struct itimerval every = {{0, 300}, {0, 300}};
        sigaction(SIGALRM, &action, NULL);
        for (int i = 0; i < 4; i++)
            pthread_create(&thread, NULL, hammer, NULL);
        setitimer(ITIMER_REAL, &every, NULL);
    }
    if (!strcmp(mode, "waits"))
        for (long i = 0; i < 2; i++)
            pthread_create(&thread, NULL, wait_again, (void *)i);
    long long since = true_ns(CLOCK_MONOTONIC);
    puts("ready");
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(mode, "ask"))
            ask();
        if (!strcmp(mode, "hammer"))
            printf("{\"readings\":%lld,\"wrong\":%lld}\n", atomic_exchange(&readings, 0), atomic_exchange(&wrong, 0));
        if (!strcmp(mode, "waits")) {
            long long now = true_ns(CLOCK_MONOTONIC);
            printf("{\"wall\":%lld,\"monotonic\":%lld,\"ns\":%lld}\n", atomic_exchange(&returned[0], 0),
                   atomic_exchange(&returned[1], 0), now - since);
            since = now;
        }
        if (!strcmp(mode, "cost"))
            printf("{\"wall\":%.2f,\"monotonic\":%.2f,\"system_call\":%.2f}\n", cost(CLOCK_REALTIME),
                   cost(CLOCK_MONOTONIC), cost(CLOCK_PROCESS_CPUTIME_ID));
    }
    return 0;
}
