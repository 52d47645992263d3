package main

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// Codes of functions, as the program that writes the file has them.
const (
	read  = 0
	write = 1
	cas   = 2
)

// modelOf has one partition for each key. An operation of unknown outcome passes in every state, and takes effect where
// it can.
func modelOf(h *history) (porcupine.Model, error) {
	model := porcupine.Model{PartitionEvent: func(events []porcupine.Event) [][]porcupine.Event {
		return partitions(events, h.Keys)
	}}
	switch h.Model {
	case "register":
		model.Init = func() interface{} { return int64(0) }
		model.Step = registerStep
		model.Hash = func(state interface{}) uint64 { return mixed(uint64(state.(int64))) }
	default:
		return model, fmt.Errorf("no model %q", h.Model)
	}
	return model, nil
}

// registerStep: a is the value read, written or compared with, b the new value of a cas; 0 stands in it at first.
func registerStep(state, input, _ interface{}) (bool, interface{}) {
	op := input.(*operation)
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

// mixed spreads the bits of a state (Steele, Lea & Flood, "Fast splittable pseudorandom number generators", 2014).
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
