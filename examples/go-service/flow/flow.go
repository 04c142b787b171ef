// Package flow turns reports of connections into messages: read, filtered, coded in one of two formats, gathered in a batch.
//
// It is written as such services are, with an interface at each seam. A profile tells the compiler which implementation is
// behind it, and which small functions are worth their place in the caller.
package flow

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Record is the state of a connection.
type Record struct {
	At        uint64 // ns since 1970
	Source    [4]byte
	Target    [4]byte
	SourcePt  uint16
	TargetPt  uint16
	State     uint8
	RttUs     uint32
	RttVarUs  uint32
	Window    uint32
	Retrans   uint32
	BytesIn   uint64
	BytesOut  uint64
	Interface string
	Algorithm string
}

// Writer takes the fields of a record, in a format of its own.
type Writer interface {
	Begin()
	Uint(field int, name string, value uint64)
	Text(field int, name string, value string)
	Address(field int, name string, value [4]byte)
	End()
}

// Filter says which records are worth a message.
type Filter interface {
	Keep(r *Record) bool
}

// Each hands all fields to a writer.
func (r *Record) Each(w Writer) {
	w.Begin()
	w.Uint(1, "at", r.At)
	w.Address(2, "source", r.Source)
	w.Address(3, "target", r.Target)
	w.Uint(4, "source_port", uint64(r.SourcePt))
	w.Uint(5, "target_port", uint64(r.TargetPt))
	w.Uint(6, "state", uint64(r.State))
	w.Uint(7, "rtt_us", uint64(r.RttUs))
	w.Uint(8, "rtt_var_us", uint64(r.RttVarUs))
	w.Uint(9, "window", uint64(r.Window))
	w.Uint(10, "retransmits", uint64(r.Retrans))
	w.Uint(11, "bytes_in", r.BytesIn)
	w.Uint(12, "bytes_out", r.BytesOut)
	w.Text(13, "interface", r.Interface)
	w.Text(14, "algorithm", r.Algorithm)
	w.End()
}

// ErrShort is a report that ends inside a field.
var ErrShort = errors.New("the report ends inside a field")

// A parser takes the bytes of one field.
type parser func(r *Record, field []byte) bool

var parsers = [...]parser{
	1:  func(r *Record, f []byte) bool { return number(f, &r.At) },
	2:  func(r *Record, f []byte) bool { return copy(r.Source[:], f) == 4 },
	3:  func(r *Record, f []byte) bool { return copy(r.Target[:], f) == 4 },
	4:  func(r *Record, f []byte) bool { return small(f, &r.SourcePt) },
	5:  func(r *Record, f []byte) bool { return small(f, &r.TargetPt) },
	6:  func(r *Record, f []byte) bool { return small(f, &r.State) },
	7:  func(r *Record, f []byte) bool { return small(f, &r.RttUs) },
	8:  func(r *Record, f []byte) bool { return small(f, &r.RttVarUs) },
	9:  func(r *Record, f []byte) bool { return small(f, &r.Window) },
	10: func(r *Record, f []byte) bool { return small(f, &r.Retrans) },
	11: func(r *Record, f []byte) bool { return number(f, &r.BytesIn) },
	12: func(r *Record, f []byte) bool { return number(f, &r.BytesOut) },
	13: func(r *Record, f []byte) bool { r.Interface = known(f); return true },
	14: func(r *Record, f []byte) bool { r.Algorithm = known(f); return true },
}

func number(field []byte, into *uint64) bool {
	var value uint64
	for i := len(field) - 1; i >= 0; i-- {
		value = value<<8 | uint64(field[i])
	}
	*into = value
	return len(field) <= 8
}

func small[T uint8 | uint16 | uint32](field []byte, into *T) bool {
	var value uint64
	fits := number(field, &value)
	*into = T(value)
	return fits && uint64(T(value)) == value
}

// known gives the few names that come again and again without an allocation.
func known(name []byte) string {
	switch string(name) {
	case "eth0":
		return "eth0"
	case "lo":
		return "lo"
	case "cubic":
		return "cubic"
	case "bbr":
		return "bbr"
	}
	return string(name)
}

// Parse reads one record from a report: two bytes of length, then fields of a type, a length and bytes. It gives the rest.
func Parse(report []byte, r *Record) ([]byte, error) {
	if len(report) < 2 {
		return nil, ErrShort
	}
	length := int(binary.LittleEndian.Uint16(report))
	if len(report) < 2+length {
		return nil, ErrShort
	}
	fields, rest := report[2:2+length], report[2+length:]
	for len(fields) > 0 {
		if len(fields) < 2 || len(fields) < 2+int(fields[1]) {
			return nil, ErrShort
		}
		kind, field := int(fields[0]), fields[2:2+int(fields[1])]
		fields = fields[2+len(field):]
		if kind == 0 || kind >= len(parsers) {
			continue
		}
		if !parsers[kind](r, field) {
			return nil, fmt.Errorf("field %d of %d bytes does not fit", kind, len(field))
		}
	}
	return rest, nil
}

// States keeps records in one of these states.
type States uint64

// Keep implements Filter.
func (s States) Keep(r *Record) bool { return r.State < 64 && s>>r.State&1 == 1 }

// NotLoopback drops what does not leave the machine.
type NotLoopback struct{}

// Keep implements Filter.
func (NotLoopback) Keep(r *Record) bool { return r.Source[0] != 127 && r.Target[0] != 127 }

// Collect reads a whole report, filters it, and writes what is left. It gives the numbers of records read and written.
func Collect(report []byte, filters []Filter, w Writer) (read, written int, err error) {
	var record Record
	for len(report) > 0 {
		record = Record{}
		if report, err = Parse(report, &record); err != nil {
			return read, written, err
		}
		read++
		if keep(&record, filters) {
			record.Each(w)
			written++
		}
	}
	return read, written, nil
}

func keep(r *Record, filters []Filter) bool {
	for _, filter := range filters {
		if !filter.Keep(r) {
			return false
		}
	}
	return true
}
