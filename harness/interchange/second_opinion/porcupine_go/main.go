// Command second_opinion asks Porcupine whether a history is linearizable.
//
//	second_opinion check FILE SECONDS MEMORY_BYTES    one answer within so much time, as a line of JSON
//	second_opinion bench FILE SECONDS MEMORY_BYTES    an answer for each line of standard input: how often to check
//
// FILE is what history.go reads. Events are prepared before the clock starts; an answer tells the processor time of the
// checks alone. More than MEMORY_BYTES resident ends the program with status 3. In `check`, half as much time again as
// SECONDS ends it with status 4; in `bench`, where the machine may be busy, more processor time than SECONDS does.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	outOfMemory = 3
	outOfTime   = 4
	lookEvery   = 20 * time.Millisecond
)

// cpuEnd is the processor time at which the program ends itself; 0 for none.
var cpuEnd int64

type answer struct {
	Result    string `json:"result"` // Ok, Illegal or Unknown
	CPUNs     int64  `json:"cpu_ns"` // of all repeats together
	WallNs    int64  `json:"wall_ns"`
	PeakBytes int64  `json:"peak_bytes"`
}

func main() {
	if len(os.Args) != 5 {
		fail("usage: second_opinion check|bench FILE SECONDS MEMORY_BYTES")
	}
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	if err != nil || seconds <= 0 {
		fail("SECONDS is %q; expected a positive number", os.Args[3])
	}
	memory, err := strconv.ParseInt(os.Args[4], 10, 64)
	if err != nil || memory <= 0 {
		fail("MEMORY_BYTES is %q; expected a positive integer", os.Args[4])
	}
	go watch(memory)
	found, err := readHistory(os.Args[2])
	if err != nil {
		fail("%s: %v", os.Args[2], err)
	}
	model, err := modelOf(found)
	if err != nil {
		fail("%s: %v", os.Args[2], err)
	}
	events := found.events()
	limit := time.Duration(seconds * float64(time.Second))
	switch os.Args[1] {
	case "check":
		time.AfterFunc(limit*3/2+time.Second, func() { os.Exit(outOfTime) })
		say(check(model, events, limit, 1))
	case "bench":
		fmt.Println(`{"ready": true}`)
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			repeats, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
			if err != nil || repeats < 1 {
				fail("%q: expected how often to check", lines.Text())
			}
			runtime.GC()
			atomic.StoreInt64(&cpuEnd, cpuTime()+int64(limit))
			say(check(model, events, 0, repeats))
			atomic.StoreInt64(&cpuEnd, 0)
		}
	default:
		fail("%q: expected check or bench", os.Args[1])
	}
}

// check judges the same events so often; without a limit where it is 0.
func check(model porcupine.Model, events []porcupine.Event, limit time.Duration, repeats int) answer {
	var result porcupine.CheckResult
	began, spent := time.Now(), cpuTime()
	for i := 0; i < repeats; i++ {
		result = porcupine.CheckEventsTimeout(model, events, limit)
	}
	return answer{string(result), cpuTime() - spent, int64(time.Since(began)), peakBytes()}
}

func say(found answer) {
	line, err := json.Marshal(found)
	if err != nil {
		fail("%v", err)
	}
	fmt.Println(string(line))
}

// cpuTime is the processor time of this process in nanoseconds, to a microsecond.
func cpuTime() int64 {
	var found syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &found); err != nil {
		fail("getrusage: %v", err)
	}
	return found.Utime.Nano() + found.Stime.Nano()
}

// peakBytes is the most that was resident; getrusage would count what the parent had before it became this program.
func peakBytes() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		fail("%v", err)
	}
	var kilobytes int64
	for _, line := range strings.Split(string(status), "\n") {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); err == nil {
			return kilobytes * 1024
		}
	}
	fail("/proc/self/status: no VmHWM")
	return 0
}

// watch ends the process before it takes what the machine needs: a limit of the address space would end it with a trace,
// and GOMEMLIMIT would not end it.
func watch(memory int64) {
	for {
		if peakBytes() > memory {
			os.Exit(outOfMemory)
		}
		if end := atomic.LoadInt64(&cpuEnd); end != 0 && cpuTime() > end {
			os.Exit(outOfTime)
		}
		time.Sleep(lookEvery)
	}
}

func fail(form string, values ...any) {
	fmt.Fprintf(os.Stderr, form+"\n", values...)
	os.Exit(1)
}
