/* A program whose clocks are skewed by the tests. It compares what the C library says with what the kernel says. What is
   measured is measured in here, between two looks at true time, so that no wait for the processor is taken for a skew.

   Each line on stdin is answered by one line of JSON on stdout.
     reader ask        the skew of each clock in ns
     reader hammer A B four threads and a timer signal read both clocks without end; how many readings there were since
                       the last question, and how many showed neither true time nor a skew of A or B ns
     reader waits      threads wait for 50 ms again and again, by an absolute deadline of the wall and of the monotonic
                       clock; of the waits that began and ended since the last question, by clock: how many there
                       were, and how long the shortest took in ns of true time (0 when there was none)
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

static long long shown_of_day(clockid_t clock) {
    struct timeval v;
    (void)clock;
    gettimeofday(&v, NULL);
    return v.tv_sec * S + v.tv_usec * 1000LL;
}

static long long shown_second(clockid_t clock) {
    (void)clock;
    return (long long)time(NULL) * S;
}

static long long true_second(clockid_t clock) { return true_ns(clock) / S * S; }

/* Of many looks the quickest: one in whose middle this thread had to wait for the processor tells of that alone. */
static long long skew(clockid_t clock, long long (*shown)(clockid_t), long long (*truth)(clockid_t)) {
    long long found = 0, least = -1;
    for (int i = 0; i < 1000 && (least < 0 || least > 2000); i++) {
        long long before = truth(clock), now = shown(clock), took = truth(clock) - before;
        if (least < 0 || took < least) {
            found = now - before;
            least = took;
        }
    }
    return found;
}

static void ask(void) {
    static const struct {
        const char *name;
        clockid_t clock;
        long long (*shown)(clockid_t), (*truth)(clockid_t);
    } clocks[] = {
        {"realtime", CLOCK_REALTIME, shown_ns, true_ns},
        {"coarse", CLOCK_REALTIME_COARSE, shown_ns, true_ns},
        {"tai", CLOCK_TAI, shown_ns, true_ns},
        {"gettimeofday", CLOCK_REALTIME, shown_of_day, true_ns},
        {"time", CLOCK_REALTIME_COARSE, shown_second, true_second},
        {"monotonic", CLOCK_MONOTONIC, shown_ns, true_ns},
        {"monotonic_coarse", CLOCK_MONOTONIC_COARSE, shown_ns, true_ns},
        {"monotonic_raw", CLOCK_MONOTONIC_RAW, shown_ns, true_ns},
        {"boottime", CLOCK_BOOTTIME, shown_ns, true_ns},
        {"cpu", CLOCK_PROCESS_CPUTIME_ID, shown_ns, true_ns},
    };
    for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++)
        printf("%s\"%s\":%lld", i ? "," : "{", clocks[i].name, skew(clocks[i].clock, clocks[i].shown, clocks[i].truth));
    puts("}");
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

static pthread_mutex_t told = PTHREAD_MUTEX_INITIALIZER;
/* Under `told`, by clock: waits since the last question, and the shortest of them; and the number of questions. */
static long long returned[2], shortest[2], questions;

static void *wait_again(void *which) {
    int is_monotonic = which != NULL;
    clockid_t clock = is_monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    pthread_condattr_t attributes;
    pthread_cond_t condition;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, clock);
    pthread_cond_init(&condition, &attributes);
    pthread_mutex_lock(&mutex);
    for (;;) {
        pthread_mutex_lock(&told);
        long long question = questions;
        pthread_mutex_unlock(&told);
        long long began = true_ns(CLOCK_MONOTONIC), until = shown_ns(clock) + 50000000LL;
        struct timespec deadline = {until / S, until % S};
        while (pthread_cond_timedwait(&condition, &mutex, &deadline) == 0)
            ;
        long long took = true_ns(CLOCK_MONOTONIC) - began;
        pthread_mutex_lock(&told);
        if (question == questions) {
            if (!returned[is_monotonic] || took < shortest[is_monotonic])
                shortest[is_monotonic] = took;
            returned[is_monotonic]++;
        }
        pthread_mutex_unlock(&told);
    }
    return NULL;
}

static void tell_waits(void) {
    pthread_mutex_lock(&told);
    printf("{\"wall\":%lld,\"wall_least_ns\":%lld,\"monotonic\":%lld,\"monotonic_least_ns\":%lld}\n", returned[0],
           shortest[0], returned[1], shortest[1]);
    memset(returned, 0, sizeof returned);
    memset(shortest, 0, sizeof shortest);
    questions++;
    pthread_mutex_unlock(&told);
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
        /* Several of each: one that has just made its deadline when a clock is set waits for that deadline. */
        for (long i = 0; i < 6; i++)
            pthread_create(&thread, NULL, wait_again, (void *)(i % 2));
    puts("ready");
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(mode, "ask"))
            ask();
        if (!strcmp(mode, "hammer"))
            printf("{\"readings\":%lld,\"wrong\":%lld}\n", atomic_exchange(&readings, 0), atomic_exchange(&wrong, 0));
        if (!strcmp(mode, "waits"))
            tell_waits();
        if (!strcmp(mode, "cost"))
            printf("{\"wall\":%.2f,\"monotonic\":%.2f,\"system_call\":%.2f}\n", cost(CLOCK_REALTIME),
                   cost(CLOCK_MONOTONIC), cost(CLOCK_PROCESS_CPUTIME_ID));
    }
    return 0;
}
