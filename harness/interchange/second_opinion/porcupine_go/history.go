package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"

	"github.com/anishathalye/porcupine"
)

// operation is one row: f, a and b mean what the model says. `returned` is -1 where the outcome is unknown.
type operation struct {
	key      int64
	f        int64
	a        int64
	b        int64
	invoked  int64
	returned int64
}

func (op *operation) unknown() bool { return op.returned < 0 }

// history is a file: a line of JSON, then the columns key, f, a, b, invoked and returned, then the list of elements,
// all as 64-bit integers, least byte first. Keys count from 0.
type history struct {
	Model      string `json:"model"`
	Rows       int    `json:"rows"`
	Keys       int    `json:"keys"`
	Elements   int    `json:"elements"`
	Permits    int64  `json:"permits"`
	operations []operation
	elements   []int64
}

func readHistory(path string) (*history, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reader := bufio.NewReaderSize(file, 1<<20)
	header, err := reader.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("no header: %w", err)
	}
	found := &history{}
	if err := json.Unmarshal(header, found); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	found.operations = make([]operation, found.Rows)
	fields := []func(*operation) *int64{
		func(op *operation) *int64 { return &op.key },
		func(op *operation) *int64 { return &op.f },
		func(op *operation) *int64 { return &op.a },
		func(op *operation) *int64 { return &op.b },
		func(op *operation) *int64 { return &op.invoked },
		func(op *operation) *int64 { return &op.returned },
	}
	column := make([]int64, found.Rows)
	for _, field := range fields {
		if err := binary.Read(reader, binary.LittleEndian, column); err != nil {
			return nil, fmt.Errorf("columns: %w", err)
		}
		for i, value := range column {
			*field(&found.operations[i]) = value
		}
	}
	found.elements = make([]int64, found.Elements)
	if err := binary.Read(reader, binary.LittleEndian, found.elements); err != nil {
		return nil, fmt.Errorf("elements: %w", err)
	}
	if _, err := reader.ReadByte(); err != io.EOF {
		return nil, fmt.Errorf("longer than its header says")
	}
	for i := range found.operations {
		op := &found.operations[i]
		if op.key < 0 || op.key >= int64(found.Keys) {
			return nil, fmt.Errorf("row %d: key %d of %d", i, op.key, found.Keys)
		}
		if found.Model == "set" && op.f == read && (op.a < 0 || op.b < 0 || op.a+op.b > int64(found.Elements)) {
			return nil, fmt.Errorf("row %d: elements from %d, %d of %d", i, op.a, op.b, found.Elements)
		}
	}
	return found, nil
}

// events has calls and returns in their order. Those of unknown outcome return at the end: Porcupine linearizes every
// operation. One that never happened loses nothing by that, since every model lets an unknown operation pass in every
// state, so that it can stand behind all others.
func (h *history) events() []porcupine.Event {
	type moment struct {
		at    int64
		event porcupine.Event
	}
	moments := make([]moment, 0, 2*len(h.operations))
	var last []porcupine.Event
	for i := range h.operations {
		op := &h.operations[i]
		moments = append(moments, moment{op.invoked, porcupine.Event{Kind: porcupine.CallEvent, Value: op, Id: i}})
		returns := porcupine.Event{Kind: porcupine.ReturnEvent, Value: op, Id: i}
		if op.unknown() {
			last = append(last, returns)
		} else {
			moments = append(moments, moment{op.returned, returns})
		}
	}
	sort.Slice(moments, func(i, j int) bool { return moments[i].at < moments[j].at })
	events := make([]porcupine.Event, 0, 2*len(h.operations))
	for _, moment := range moments {
		events = append(events, moment.event)
	}
	return append(events, last...)
}
