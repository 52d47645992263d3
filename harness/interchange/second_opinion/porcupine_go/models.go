package main

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// step is a model: the state after an operation, or that it cannot be. An operation of unknown outcome passes in every
// state, and takes effect where it can.
type step func(h *history, state interface{}, op *operation) (bool, interface{})

type object struct {
	initial interface{}
	step    step
	hash    func(state interface{}) uint64
}

var objects = map[string]object{
	"register":     {int64(0), registerStep, hashInteger},
	"counter":      {int64(0), counterStep, hashInteger},
	"mutex":        {int64(0), mutexStep, hashInteger},
	"owner-mutex":  {int64(0), ownerStep, hashInteger},
	"fenced-mutex": {fence{}, fenceStep, hashFence},
	"semaphore":    {int64(0), semaphoreStep, hashInteger},
	"queue":        {"", queueStep, hashText},
	"set":          {"", setStep, hashText},
}

// modelOf has one partition for each key.
func modelOf(h *history) (porcupine.Model, error) {
	found, known := objects[h.Model]
	if !known {
		return porcupine.Model{}, fmt.Errorf("no model %q", h.Model)
	}
	return porcupine.Model{
		PartitionEvent: func(events []porcupine.Event) [][]porcupine.Event { return partitions(events, h.Keys) },
		Init:           func() interface{} { return found.initial },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			return found.step(h, state, input.(*operation))
		},
		Hash: found.hash,
	}, nil
}

func partitions(events []porcupine.Event, keys int) [][]porcupine.Event {
	sizes := make([]int, keys)
	for i := range events {
		sizes[events[i].Value.(*operation).key]++
	}
	parts := make([][]porcupine.Event, keys)
	for key, size := range sizes {
		parts[key] = make([]porcupine.Event, 0, size)
	}
	for i := range events {
		key := events[i].Value.(*operation).key
		parts[key] = append(parts[key], events[i])
	}
	return parts
}

func hashInteger(state interface{}) uint64 { return mixed(uint64(state.(int64))) }

func hashFence(state interface{}) uint64 {
	found := state.(fence)
	return mixed(uint64(found.holder)*31 + uint64(found.last))
}

// hashText is FNV-1a.
func hashText(state interface{}) uint64 {
	hash := uint64(14695981039346656037)
	for _, letter := range []byte(state.(string)) {
		hash = (hash ^ uint64(letter)) * 1099511628211
	}
	return hash
}

// mixed spreads the bits of a state (Steele, Lea & Flood, "Fast splittable pseudorandom number generators", 2014).
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
