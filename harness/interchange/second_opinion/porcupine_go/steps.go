package main

import "encoding/binary"

// Codes of functions, as the program that writes the file has them.
const (
	read = 0 // register, counter; set: all elements
	// register
	write = 1
	cas   = 2
	// counter; set
	add      = 1
	remove   = 2
	contains = 3
	lacks    = 4
	// locks
	acquire = 0
	release = 1
	// queue
	enqueue = 0
	dequeue = 1
	empty   = 2
)

// registerStep: a is the value read, written or compared with, b the new value of a cas; 0 stands in it at first.
func registerStep(_ *history, state interface{}, op *operation) (bool, interface{}) {
	switch op.f {
	case read:
		return op.unknown() || state.(int64) == op.a, state
	case write:
		return true, op.a
	default:
		if state.(int64) == op.a {
			return true, op.b
		}
		return op.unknown(), state
	}
}

// counterStep: a is what is added, or the sum that was read; it begins at 0.
func counterStep(_ *history, state interface{}, op *operation) (bool, interface{}) {
	if op.f == add {
		return true, state.(int64) + op.a
	}
	return op.unknown() || state.(int64) == op.a, state
}

// mutexStep: 0 is free, 1 held; anyone may release.
func mutexStep(_ *history, state interface{}, op *operation) (bool, interface{}) {
	held := state.(int64)
	if (held == 1) == (op.f == release) {
		return true, 1 - held
	}
	return op.unknown(), state
}

// ownerStep: a is the process, from 0; the state is that of the holder and 1, or 0.
func ownerStep(_ *history, state interface{}, op *operation) (bool, interface{}) {
	holder := state.(int64)
	switch {
	case op.f == acquire && holder == 0:
		return true, op.a + 1
	case op.f == release && holder == op.a+1:
		return true, int64(0)
	default:
		return op.unknown(), state
	}
}

// fence is the process that holds a lock and 1, or 0; and the last token and 1, or 0.
type fence struct{ holder, last int64 }

// fenceStep: a is the process, b an acquire's token, both from 0; tokens grow. No acquire is of unknown outcome: it has
// no token, and its process never acts again, so it may as well have happened last.
func fenceStep(_ *history, state interface{}, op *operation) (bool, interface{}) {
	now := state.(fence)
	switch {
	case op.f == acquire && now.holder == 0 && op.b+1 > now.last:
		return true, fence{op.a + 1, op.b + 1}
	case op.f == release && now.holder == op.a+1:
		return true, fence{0, now.last}
	default:
		return op.unknown(), state
	}
}

// semaphoreStep: a is how many permits; the state is how many are out.
func semaphoreStep(h *history, state interface{}, op *operation) (bool, interface{}) {
	out := state.(int64) + op.a
	if op.f == release {
		out = state.(int64) - op.a
	}
	if out < 0 || out > h.Permits {
		return op.unknown(), state
	}
	return true, out
}

const elementBytes = 4

// queueStep: a is the element; the state is the elements, the head first. A dequeue of unknown outcome took whatever
// stood first, if anything did.
func queueStep(_ *history, state interface{}, op *operation) (bool, interface{}) {
	held := state.(string)
	switch op.f {
	case enqueue:
		var element [elementBytes]byte
		binary.LittleEndian.PutUint32(element[:], uint32(op.a))
		return true, held + string(element[:])
	case empty:
		return held == "", state
	}
	if held == "" {
		return op.unknown(), state
	}
	head := binary.LittleEndian.Uint32([]byte(held[:elementBytes]))
	if !op.unknown() && head != uint32(op.a) {
		return false, state
	}
	return true, held[elementBytes:]
}

// setStep: a is the element; a read of all has b elements from place a of the history's list. The state has a bit for
// each element, and no empty bytes at its end.
func setStep(h *history, state interface{}, op *operation) (bool, interface{}) {
	held := state.(string)
	switch op.f {
	case add:
		return true, withElement(held, op.a)
	case remove:
		return true, withoutElement(held, op.a)
	case contains:
		return hasElement(held, op.a), state
	case lacks:
		return !hasElement(held, op.a), state
	}
	shown := ""
	for _, element := range h.elements[op.a : op.a+op.b] {
		shown = withElement(shown, element)
	}
	return shown == held, state
}

func hasElement(held string, element int64) bool {
	at := int(element / 8)
	return at < len(held) && held[at]>>(element%8)&1 == 1
}

func withElement(held string, element int64) string {
	size := int(element/8) + 1
	if size < len(held) {
		size = len(held)
	}
	after := make([]byte, size)
	copy(after, held)
	after[element/8] |= 1 << (element % 8)
	return string(after)
}

func withoutElement(held string, element int64) string {
	if !hasElement(held, element) {
		return held
	}
	after := []byte(held)
	after[element/8] &^= 1 << (element % 8)
	for len(after) > 0 && after[len(after)-1] == 0 {
		after = after[:len(after)-1]
	}
	return string(after)
}
