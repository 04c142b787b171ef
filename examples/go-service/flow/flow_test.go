package flow

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

var filters = []Filter{States(1<<1 | 1<<2 | 1<<3 | 1<<4), NotLoopback{}}

func sample() Record {
	return Record{
		At: 300, Source: [4]byte{10, 0, 0, 1}, Target: [4]byte{10, 0, 0, 2}, TargetPt: 443, State: 1,
		Interface: "a\"b\n", Algorithm: "bbr",
	}
}

func TestBinary(t *testing.T) {
	var b Binary
	r := sample()
	r.Each(&b)
	want := []byte{
		32, 8, 0xac, 2, 18, 4, 10, 0, 0, 1, 26, 4, 10, 0, 0, 2, 40, 0xbb, 3, 48, 1,
		106, 4, 'a', '"', 'b', '\n', 114, 3, 'b', 'b', 'r',
	}
	want[0] = byte(len(want) - 1)
	if !bytes.Equal(b.Bytes(), want) {
		t.Fatalf("%v", b.Bytes())
	}
}

func TestJSONLines(t *testing.T) {
	var j JSONLines
	r := sample()
	r.Each(&j)
	r.Each(&j)
	lines := bytes.Split(bytes.TrimSpace(j.Bytes()), []byte("\n"))
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	var read map[string]any
	if err := json.Unmarshal(lines[1], &read); err != nil {
		t.Fatal(err)
	}
	if len(read) != 14 || read["interface"] != "a\"b\n" || read["source"] != "10.0.0.1" || read["at"] != 300.0 {
		t.Fatalf("%v", read)
	}
}

func TestCollect(t *testing.T) {
	report := Synthetic(1, 1000)
	for _, format := range []string{"binary", "json"} {
		out, _ := New(format)
		read, written, err := Collect(report, filters, out)
		if err != nil || read != 1000 || written < 400 || written > 800 || len(out.Bytes()) < written*20 {
			t.Fatalf("%s: %d %d %v", format, read, written, err)
		}
		if format == "json" && bytes.Count(out.Bytes(), []byte("\n")) != written {
			t.Fatal("a line a record")
		}
	}
}

func TestDamaged(t *testing.T) {
	report := Synthetic(1, 3)
	var out Binary
	for cut := 1; cut < len(report); cut++ {
		read, _, err := Collect(report[:cut], filters, &out)
		if err == nil && read*len(report)/3 > cut+64 {
			t.Fatalf("cut at %d: %d records", cut, read)
		}
	}
	if _, _, err := Collect([]byte{9, 0, 1, 1}, filters, &out); !errors.Is(err, ErrShort) {
		t.Fatal(err)
	}
	if _, _, err := Collect([]byte{5, 0, 6, 3, 1, 2, 3}, filters, &out); err == nil {
		t.Fatal("a state of three bytes")
	}
}

func benchmark(b *testing.B, format string) {
	report := Synthetic(7, 2000)
	out, _ := New(format)
	b.ReportAllocs()
	b.SetBytes(int64(len(report)))
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		out.Reset()
		if _, _, err := Collect(report, filters, out); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(out.Bytes())), "out-B/op")
}

func BenchmarkCollectBinary(b *testing.B) { benchmark(b, "binary") }

func BenchmarkCollectJSON(b *testing.B) { benchmark(b, "json") }

func BenchmarkParse(b *testing.B) {
	report := Synthetic(7, 1)
	var record Record
	for i := 0; i < b.N; i++ {
		if _, err := Parse(report, &record); err != nil {
			b.Fatal(err)
		}
	}
}
